/* The tensors of a Qwen3.5 text model: their names without prefix, and the shapes that a config
 * implies. */
#ifndef SLC_FORMAT_QWEN3_5_NAMES_H
#define SLC_FORMAT_QWEN3_5_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "format/checkpoint.h"

typedef enum slc_weight_form {
    SLC_FORM_MATRIX, /* `name` is a module: .weight, perhaps .scales and .biases */
    SLC_FORM_VECTOR, /* `name` is a tensor; rows = 1 */
    SLC_FORM_CONV, /* `name` is a tensor [rows, 1, cols] (norms raw) or [rows, cols, 1] (folded) */
} slc_weight_form;

typedef struct slc_weight_spec {
    const char *name; /* "self_attn.q_proj": below "layers.N." for a layer's weight */
    slc_weight_form form;
    uint32_t rows, cols;
} slc_weight_spec;

/* False if this layer has no such weight. */
bool slc_layer_weight_spec(const slc_config *cfg, uint32_t layer, slc_layer_weight w,
                           slc_weight_spec *out);
void slc_model_weight_spec(const slc_config *cfg, slc_model_weight w, slc_weight_spec *out);

/* A routed expert's projections as files name them: "gate_proj", "up_proj", "down_proj". */
extern const char *const slc_expert_proj_names[SLC_N_PROJ];
/* Rows and columns of one expert's projection. */
void slc_expert_proj_shape(const slc_config *cfg, int proj, uint32_t *rows, uint32_t *cols);

/* The name after the first of language_model.model., model.language_model., language_model. and
 * model. that it starts with. */
const char *slc_name_strip_prefix(const char *name);
/* Vision tower and multi-token prediction, which a text engine leaves out. `name` has no prefix. */
bool slc_name_is_side_tower(const char *name);

#endif
