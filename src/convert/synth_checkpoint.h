/* From a plan and somebody who fills it to a complete checkpoint folder: config, weights, index,
 * and a look at the result before it gets its name. */
#ifndef SLC_CONVERT_SYNTH_CHECKPOINT_H
#define SLC_CONVERT_SYNTH_CHECKPOINT_H

#include <jansson.h>

#include "convert/synth_shards.h"

typedef struct slc_synth_job {
    const char *out;
    const slc_synth_plan *plan;
    slc_synth_fill_fn *fill;
    void *ctx;      /* of fill and put_files */
    json_t *config; /* config.json without its quantization blocks, which are added to it */
    /* Puts further files into the folder; NULL: there are none. */
    slc_status (*put_files)(void *ctx, const slc_synth_folder *folder, slc_err *err);
    bool measure_routing;
    const slc_synth_options *opt;
} slc_synth_job;

slc_status slc_synth_checkpoint(const slc_synth_job *job, slc_synth_result *result,
                                slc_err *err) SLC_MUST_CHECK;

/* Writes `json` (taken; NULL: out of memory) as a text file. */
slc_status slc_synth_put_json(const slc_synth_folder *folder, const char *name, json_t *json,
                              slc_err *err) SLC_MUST_CHECK;

#endif
