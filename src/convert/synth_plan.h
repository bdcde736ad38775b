/* The tensors of a synthetic checkpoint: which there are, what they are called and how they are
 * encoded, in the order in which they are written. What they hold is the source's business.
 *
 * Names and shapes are those of MLX conversions: language_model.model.layers.N..., experts stacked
 * as mlp.switch_mlp.*, an affine module X as X.weight, X.scales and X.biases. */
#ifndef SLC_CONVERT_SYNTH_PLAN_H
#define SLC_CONVERT_SYNTH_PLAN_H

#include <stdint.h>

#include "format/qwen3_5_names.h"

/* Says which weight: of the model (layer SLC_SYNTH_MODEL, a slc_model_weight), of a layer (a
 * slc_layer_weight), or a projection of its experts (SLC_SYNTH_EXPERT + proj). */
typedef struct slc_synth_id {
    uint32_t layer;
    uint32_t which;
} slc_synth_id;

#define SLC_SYNTH_MODEL  UINT32_MAX
#define SLC_SYNTH_EXPERT 1000u

static inline bool slc_synth_is_expert(slc_synth_id id) {
    return id.layer != SLC_SYNTH_MODEL && id.which >= SLC_SYNTH_EXPERT;
}

typedef struct slc_synth_weight {
    slc_synth_id id;
    slc_weight_form form;
    char module[96]; /* a matrix's module, or a vector's tensor */
    uint32_t n;      /* matrices of `type` one behind the other; 0: a single, unstacked one */
    slc_matrix_type type;
} slc_synth_weight;

/* Fills the encoding of a weight whose rows, cols, form and id are set. */
typedef slc_status slc_synth_encode_fn(void *ctx, slc_synth_weight *w, slc_err *err);

typedef struct slc_synth_plan {
    const slc_config *cfg;     /* borrowed */
    slc_synth_weight *weights; /* [n] */
    uint32_t n;
} slc_synth_plan;

/* Every weight that `cfg` implies. `cfg` outlives the plan. */
slc_status slc_synth_plan_init(slc_synth_plan *p, const slc_config *cfg,
                               slc_synth_encode_fn *encode, void *ctx, slc_err *err) SLC_MUST_CHECK;
void slc_synth_plan_deinit(slc_synth_plan *p);

/* Rows of a part over the whole stack; 0: the weight has no such part. */
uint64_t slc_synth_part_rows(const slc_synth_weight *w, int part);
uint64_t slc_synth_part_bytes(const slc_synth_weight *w, int part);
uint64_t slc_synth_plan_bytes(const slc_synth_plan *p);

/* "...gate_proj.scales" */
enum { SLC_SYNTH_NAME_BYTES = 160 };
void slc_synth_part_name(const slc_synth_weight *w, int part, char name[SLC_SYNTH_NAME_BYTES]);
/* Dimensions as stored; returns how many. */
uint32_t slc_synth_part_dims(const slc_synth_weight *w, int part, uint64_t dims[3]);
/* Type of a part's elements, and the bytes of one. The part must exist. */
slc_dtype slc_synth_part_dtype(const slc_synth_weight *w, int part);
uint32_t slc_synth_part_width(const slc_synth_weight *w, int part);

#endif
