/* Walks the table of names (format/qwen3_5_names.c) once and writes down what it finds. */
#include "convert/synth_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fail.h"

/* ---- the list ---- */

typedef struct builder {
    slc_synth_plan *p;
    slc_synth_encode_fn *encode;
    void *ctx;
    slc_err *err;
} builder;

static slc_status add(builder *b, slc_synth_id id, const slc_weight_spec *spec, uint32_t n,
                      const char *prefix) {
    slc_synth_weight *w = &b->p->weights[b->p->n++];

    *w = (slc_synth_weight){
        .id = id, .form = spec->form, .n = n, .type = {.rows = spec->rows, .cols = spec->cols}};
    snprintf(w->module, sizeof(w->module), "language_model.%s%s", prefix, spec->name);
    return b->encode(b->ctx, w, b->err);
}

static slc_status add_model_weight(builder *b, slc_model_weight which) {
    slc_synth_id id = {SLC_SYNTH_MODEL, which};
    slc_weight_spec spec;

    slc_model_weight_spec(b->p->cfg, which, &spec);
    return add(b, id, &spec, 0, which == SLC_W_LM_HEAD ? "" : "model.");
}

static slc_status add_experts(builder *b, uint32_t layer) {
    char prefix[64];
    slc_status rc;

    snprintf(prefix, sizeof(prefix), "model.layers.%u.mlp.switch_mlp.", layer);
    for (int proj = 0; proj < SLC_N_PROJ; proj++) {
        slc_synth_id id = {layer, SLC_SYNTH_EXPERT + (uint32_t)proj};
        slc_weight_spec spec = {.name = slc_expert_proj_names[proj], .form = SLC_FORM_MATRIX};

        slc_expert_proj_shape(b->p->cfg, proj, &spec.rows, &spec.cols);
        if ((rc = add(b, id, &spec, b->p->cfg->n_experts, prefix))) return rc;
    }
    return SLC_OK;
}

static slc_status add_layer(builder *b, uint32_t layer) {
    char prefix[48];
    slc_status rc;

    snprintf(prefix, sizeof(prefix), "model.layers.%u.", layer);
    for (uint32_t w = 0; w < SLC_W_N_LAYER; w++) {
        slc_synth_id id = {layer, w};
        slc_weight_spec spec;

        if (!slc_layer_weight_spec(b->p->cfg, layer, (slc_layer_weight)w, &spec)) continue;
        if ((rc = add(b, id, &spec, 0, prefix))) return rc;
    }
    return slc_config_is_moe(b->p->cfg) ? add_experts(b, layer) : SLC_OK;
}

slc_status slc_synth_plan_init(slc_synth_plan *p, const slc_config *cfg,
                               slc_synth_encode_fn *encode, void *ctx, slc_err *err) {
    builder b = {p, encode, ctx, err};
    size_t most = SLC_W_N_MODEL + (size_t)cfg->n_layers * (SLC_W_N_LAYER + SLC_N_PROJ);
    slc_status rc = SLC_OK;

    *p = (slc_synth_plan){.cfg = cfg, .weights = slc_calloc(most, sizeof(*p->weights))};
    if (!p->weights)
        return slc_fail(err, SLC_E_NOMEM, "no memory for the list of %zu weights", most);
    rc = add_model_weight(&b, SLC_W_EMBED);
    for (uint32_t layer = 0; !rc && layer < cfg->n_layers; layer++) rc = add_layer(&b, layer);
    if (!rc) rc = add_model_weight(&b, SLC_W_FINAL_NORM);
    if (!rc && !cfg->tie_embeddings) rc = add_model_weight(&b, SLC_W_LM_HEAD);
    return rc;
}

void slc_synth_plan_deinit(slc_synth_plan *p) {
    free(p->weights);
    p->weights = NULL;
}

/* ---- parts ---- */

/* Sizes of a config are bounded (format/config.c): rows times row bytes stays below 2^52. */
uint64_t slc_synth_part_rows(const slc_synth_weight *w, int part) {
    if (slc_matrix_row_bytes(&w->type, part) == 0) return 0;
    return (uint64_t)(w->n ? w->n : 1) * w->type.rows;
}

uint64_t slc_synth_part_bytes(const slc_synth_weight *w, int part) {
    return slc_synth_part_rows(w, part) * slc_matrix_row_bytes(&w->type, part);
}

uint64_t slc_synth_plan_bytes(const slc_synth_plan *p) {
    uint64_t sum = 0;

    for (uint32_t i = 0; i < p->n; i++)
        for (int part = 0; part < SLC_N_PARTS; part++)
            sum += slc_synth_part_bytes(&p->weights[i], part);
    return sum;
}

void slc_synth_part_name(const slc_synth_weight *w, int part, char name[SLC_SYNTH_NAME_BYTES]) {
    static const char *const suffixes[SLC_N_PARTS] = {".weight", ".scales", ".biases"};

    snprintf(name, SLC_SYNTH_NAME_BYTES, "%s%s", w->module,
             w->form == SLC_FORM_MATRIX ? suffixes[part] : "");
}

slc_dtype slc_synth_part_dtype(const slc_synth_weight *w, int part) {
    return part == SLC_PART_W ? w->type.dtype : w->type.scale_dtype;
}

uint32_t slc_synth_part_width(const slc_synth_weight *w, int part) {
    uint32_t bytes = slc_dtype_bytes(slc_synth_part_dtype(w, part));

    slc_assert(bytes);
    return bytes;
}

uint32_t slc_synth_part_dims(const slc_synth_weight *w, int part, uint64_t dims[3]) {
    uint64_t rows = w->type.rows;
    uint64_t cols = slc_matrix_row_bytes(&w->type, part) / slc_synth_part_width(w, part);

    if (w->form == SLC_FORM_VECTOR) {
        dims[0] = cols;
        return 1;
    }
    if (w->form == SLC_FORM_CONV) {
        dims[0] = rows, dims[1] = cols, dims[2] = 1;
        return 3;
    }
    if (w->n == 0) {
        dims[0] = rows, dims[1] = cols;
        return 2;
    }
    dims[0] = w->n, dims[1] = rows, dims[2] = cols;
    return 3;
}
