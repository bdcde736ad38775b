/* Checkpoints of random weights: the sizes that make one. */
#ifndef SLC_CONVERT_SYNTH_GEOMETRY_H
#define SLC_CONVERT_SYNTH_GEOMETRY_H

#include <jansson.h>

#include "convert/synth_plan.h"
#include "sluice/synth.h"

typedef struct slc_geometry {
    const char *name;
    uint32_t hidden, n_layers, vocab;
    uint32_t end_of_text;                                /* a stop id; the other is 2 above */
    uint32_t n_heads, n_kv_heads, head_dim;              /* full attention, every fourth layer */
    uint32_t n_key_heads, n_value_heads, value_head_dim; /* Gated DeltaNet; also of keys */
    uint32_t n_experts, n_experts_per_tok, expert_size;  /* the shared expert is as wide */
} slc_geometry;

/* NULL if there is none of that name. */
const slc_geometry *slc_geometry_find(const char *name);

/* config.json without its quantization blocks, what the readers make of it, and the weights that
 * follow; deinit and decref on failure too. `cfg` outlives the plan. */
slc_status slc_geometry_plan(const slc_geometry *g, json_t **config, slc_config *cfg,
                             slc_synth_plan *plan, slc_err *err) SLC_MUST_CHECK;

slc_status slc_geometry_write(const slc_geometry *g, const char *out, const slc_synth_options *opt,
                              slc_synth_result *result, slc_err *err) SLC_MUST_CHECK;

#endif
