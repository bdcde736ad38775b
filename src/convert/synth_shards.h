/* The weights of a plan as safetensors shards and their index, as MLX cuts and names them: tensors
 * one behind the other, a new shard where the next one would pass the limit, the data right behind
 * a header of any length, so that nothing is aligned. */
#ifndef SLC_CONVERT_SYNTH_SHARDS_H
#define SLC_CONVERT_SYNTH_SHARDS_H

#include "convert/synth_folder.h"
#include "convert/synth_plan.h"
#include "sluice/synth.h"

/* What the tensors hold: writes rows [row0, row0 + n_rows) of a part, counted over the whole stack,
 * to `out`. Called in ascending order, on one thread. */
typedef slc_status slc_synth_fill_fn(void *ctx, const slc_synth_weight *w, int part, uint64_t row0,
                                     uint64_t n_rows, uint8_t *out, slc_err *err);

slc_status slc_synth_write_shards(const slc_synth_folder *folder, const slc_synth_plan *plan,
                                  slc_synth_fill_fn *fill, void *ctx, const slc_synth_options *opt,
                                  uint32_t *n_files, slc_err *err) SLC_MUST_CHECK;

#endif
