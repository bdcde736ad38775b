/* The resident part of a model: every weight outside the routed experts, read once into one arena.
 *
 * Matrices stay as stored (their parts side by side, 64-byte aligned); small vectors become f32
 * with the norms' +1 folded in, the convolution is transposed to [taps][channels], A_log becomes
 * -exp(A_log). The same walk with a measuring arena gives the size. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "engine/model_internal.h"
#include "kernels/scalar_math.h"

typedef struct loader {
    slc_model *m;
    slc_arena *a;
    slc_err *err;
} loader;

static slc_status read_part(loader *ld, const slc_extent *e, uint8_t **out) {
    *out = slc_arena_take(ld->a, e->bytes, 1);
    if (!*out) return SLC_OK; /* measuring */
    return slc_file_read(&ld->m->ckpt->files[e->file], e->off, *out, e->bytes, ld->err);
}

static slc_status load_matrix(loader *ld, const slc_weight *w, slc_matrix *out) {
    out->type = w->type;
    for (int part = 0; part < SLC_N_PARTS; part++) {
        uint8_t *p = NULL;
        slc_status rc;

        if (w->part[part].bytes && (rc = read_part(ld, &w->part[part], &p))) return rc;
        out->part[part] = p;
    }
    return SLC_OK;
}

/* Reads a float tensor as f32 in file order, plus `offset`, to out [rows * cols]. */
static slc_status read_floats(loader *ld, const slc_weight *w, float offset, float *out) {
    size_t n = (size_t)w->type.rows * w->type.cols;
    const slc_extent *e = &w->part[SLC_PART_W];
    uint8_t *raw = slc_calloc(e->bytes, 1);
    slc_status rc;

    if (!raw)
        return slc_fail(ld->err, SLC_E_NOMEM, "no memory for a tensor of %llu bytes",
                        (unsigned long long)e->bytes);
    rc = slc_file_read(&ld->m->ckpt->files[e->file], e->off, raw, e->bytes, ld->err);
    for (size_t i = 0; !rc && i < n; i++) out[i] = slc_load_f32(w->type.dtype, raw, i) + offset;
    free(raw);
    return rc;
}

static slc_status load_vector(loader *ld, const slc_weight *w, float offset, float **out) {
    *out = slc_arena_take(ld->a, (size_t)w->type.rows * w->type.cols, sizeof(float));
    return *out ? read_floats(ld, w, offset, *out) : SLC_OK; /* NULL: measuring */
}

static slc_status load_conv(loader *ld, const slc_weight *w, const float **out) {
    uint32_t channels = w->type.rows, taps = w->type.cols;
    size_t n = (size_t)channels * taps;
    float *by_tap = slc_arena_take(ld->a, n, sizeof(float)), *by_channel;
    slc_status rc;

    *out = by_tap;
    if (!by_tap) return SLC_OK; /* measuring */
    if (!(by_channel = slc_calloc(n, sizeof(float))))
        return slc_fail(ld->err, SLC_E_NOMEM, "no memory for a convolution of %u channels",
                        channels);
    rc = read_floats(ld, w, 0.0f, by_channel);
    for (uint32_t ch = 0; !rc && ch < channels; ch++)
        for (uint32_t t = 0; t < taps; t++)
            by_tap[(size_t)t * channels + ch] = by_channel[(size_t)ch * taps + t];
    free(by_channel);
    return rc;
}

static slc_status load_decay(loader *ld, const slc_weight *w, const float **out) {
    float *a;
    slc_status rc = load_vector(ld, w, 0.0f, &a);

    *out = a;
    if (rc || !a) return rc;
    for (uint32_t i = 0; i < w->type.cols; i++) a[i] = (float)-slc_exp((double)a[i]);
    return SLC_OK;
}

/* The vectors of a layer: where each goes, and whether it is a norm that may lack its +1. */
static const struct vector_rule {
    slc_layer_weight id;
    size_t field; /* offset in slc_layer */
    bool plus_one;
} vector_rules[] = {
    {SLC_W_INPUT_NORM, offsetof(slc_layer, input_norm), true},
    {SLC_W_POST_NORM, offsetof(slc_layer, post_norm), true},
    {SLC_W_Q_NORM, offsetof(slc_layer, q_norm), true},
    {SLC_W_K_NORM, offsetof(slc_layer, k_norm), true},
    {SLC_W_DT_BIAS, offsetof(slc_layer, dt_bias), false},
    {SLC_W_GDN_NORM, offsetof(slc_layer, gdn_norm), false},
};

static slc_status load_layer_weight(loader *ld, slc_layer *l, const slc_weight *w,
                                    slc_layer_weight id) {
    if (id == SLC_W_CONV) return load_conv(ld, w, &l->conv);
    if (id == SLC_W_A_LOG) return load_decay(ld, w, &l->neg_exp_a);
    for (size_t i = 0; i < sizeof(vector_rules) / sizeof(vector_rules[0]); i++) {
        const struct vector_rule *r = &vector_rules[i];
        float offset = r->plus_one && ld->m->ckpt->norms_are_raw ? 1.0f : 0.0f, *v;
        slc_status rc;

        if (r->id != id) continue;
        rc = load_vector(ld, w, offset, &v);
        memcpy((char *)l + r->field, &v, sizeof(v));
        return rc;
    }
    return load_matrix(ld, w, &l->w[id]);
}

/* Norm weights of a trained model centre near 1 once the +1 is in. A mean far from it means that
 * the file folds it in another way than its layout says; the text would be garbage. */
static void check_norms(const slc_model *m) {
    const slc_config *c = slc_model_config(m);
    double mean = 0;

    for (uint32_t l = 0; l < c->n_layers; l++)
        for (uint32_t i = 0; i < c->hidden_size; i++) mean += m->net.layers[l].input_norm[i];
    mean /= (double)c->n_layers * c->hidden_size;
    if (m->ckpt->norms_are_raw ? mean > 1.75 : mean < 0.1)
        slc_logf(
            &m->log, SLC_LOG_WARN,
            "%s: input norm weights average %.2f where about 1 is expected: the checkpoint may "
            "be damaged by its converter (norm weights %s)",
            m->ckpt->dir, mean, m->ckpt->norms_are_raw ? "shifted twice" : "not shifted");
}

slc_status slc_load_resident(slc_model *m, slc_arena *a, slc_err *err) {
    const slc_checkpoint *ck = m->ckpt;
    loader ld = {m, a, err};
    float offset = ck->norms_are_raw ? 1.0f : 0.0f, *final_norm;
    slc_status rc;

    if ((rc = load_matrix(&ld, &ck->w[SLC_W_EMBED], &m->net.embed))) return rc;
    for (uint32_t i = 0; i < ck->cfg.n_layers; i++) {
        slc_layer *l = &m->net.layers[i];

        for (int id = 0; id < SLC_W_N_LAYER; id++)
            if (ck->layers[i].w[id].type.rows &&
                (rc = load_layer_weight(&ld, l, &ck->layers[i].w[id], (slc_layer_weight)id)))
                return rc;
        memcpy(l->expert, ck->layers[i].expert, sizeof(l->expert));
    }
    if ((rc = load_vector(&ld, &ck->w[SLC_W_FINAL_NORM], offset, &final_norm))) return rc;
    m->net.final_norm = final_norm;
    if (ck->tied)
        m->net.lm_head = m->net.embed;
    else if ((rc = load_matrix(&ld, &ck->w[SLC_W_LM_HEAD], &m->net.lm_head)))
        return rc;
    if (a->base) check_norms(m);
    return SLC_OK;
}
