/* Where the weights outside the experts lie, and how linear layers are encoded.
 *
 * The width of a linear layer is known from the config, so its encoding follows from shapes alone:
 *
 *     weight [rows, cols * bits / 32] U32, scales and biases [rows, cols / group]
 *
 * The quantization block of config.json only has to agree. Dtypes come from the tensors' own
 * headers. Whether norm weights lack the +1 is decided by the convolution's shape and by nothing
 * else: conversions that fold the +1 in also move the axis. */
#include <inttypes.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/fail.h"
#include "format/opening.h"
#include "format/qwen3_5_names.h"

/* ---- finding tensors ---- */

static slc_status find(slc_opening *o, const char *name, const slc_set_tensor **out) {
    *out = slc_tensor_set_use(&o->set, name);
    if (*out) return SLC_OK;
    return slc_fail(o->err, SLC_E_FORMAT,
                    "%s: tensor %s is missing: the checkpoint is incomplete, or does not fit its "
                    "config.json",
                    o->c->dir, name);
}

/* "[2, 3]"; sizes of 0 are written as `zero`. */
static const char *shape_text(const uint64_t *dims, uint32_t n_dims, const char *zero, char *buf,
                              size_t cap) {
    size_t used = (size_t)snprintf(buf, cap, "[");

    for (uint32_t d = 0; d < n_dims && used < cap; d++)
        used += dims[d]
                    ? (size_t)snprintf(buf + used, cap - used, "%s%" PRIu64, d ? ", " : "", dims[d])
                    : (size_t)snprintf(buf + used, cap - used, "%s%s", d ? ", " : "", zero);
    if (used < cap) snprintf(buf + used, cap - used, "]");
    return buf;
}

static slc_status bad_shape(slc_opening *o, const slc_set_tensor *s, const char *expected) {
    char found[96];

    return slc_fail(o->err, SLC_E_FORMAT, "%s: tensor %s has the shape %s, expected %s",
                    o->c->files[s->file].path, s->t->name,
                    shape_text(s->t->dims, s->t->n_dims, "0", found, sizeof(found)), expected);
}

/* `want` [n_dims]; 0 stands for any size above 0. */
static slc_status check_shape(slc_opening *o, const slc_set_tensor *s, const uint64_t *want,
                              uint32_t n_dims) {
    bool same = s->t->n_dims == n_dims;
    char expected[96];

    for (uint32_t d = 0; same && d < n_dims; d++)
        same = want[d] ? s->t->dims[d] == want[d] : s->t->dims[d] > 0;
    if (same) return SLC_OK;
    return bad_shape(o, s, shape_text(want, n_dims, "any", expected, sizeof(expected)));
}

/* A part of a linear layer: [n, rows, cols], or [rows, cols] when n is 0. */
static slc_status check_part(slc_opening *o, const slc_set_tensor *s, uint32_t n, uint32_t rows,
                             uint32_t cols) {
    const uint64_t want[3] = {n, rows, cols};

    return n ? check_shape(o, s, want, 3) : check_shape(o, s, want + 1, 2);
}

static bool is_float(slc_dtype d) {
    return d == SLC_DTYPE_F32 || d == SLC_DTYPE_F16 || d == SLC_DTYPE_BF16;
}

static slc_status check_float(slc_opening *o, const slc_set_tensor *s) {
    if (is_float(s->t->dtype)) return SLC_OK;
    return slc_fail(
        o->err, SLC_E_UNSUPPORTED, "%s: tensor %s is stored as %s, expected F32, F16 or BF16%s",
        o->c->files[s->file].path, s->t->name, s->t->dtype_text,
        s->t->dtype == SLC_DTYPE_U32 ? " (packed weights need .scales and .biases)" : "");
}

/* ---- linear layers ---- */

static slc_status derive_affine(slc_opening *o, const char *module, slc_linear *l, uint32_t n) {
    const slc_tensor *w = l->part[SLC_PART_W]->t, *s = l->part[SLC_PART_SCALES]->t;
    uint32_t last = n ? 2 : 1, cols = l->type.cols;
    uint64_t w_cols = w->dims[last], s_cols = s->dims[last];
    uint64_t group = cols / s_cols, bits = w_cols <= cols ? w_cols * 32 / cols : 0;
    bool exact = group * s_cols == cols && bits * cols == w_cols * 32;

    if (!exact || (group != 32 && group != 64 && group != 128) || bits < 2 || bits > 8 || bits == 7)
        return slc_fail(o->err, SLC_E_UNSUPPORTED,
                        "%s: %s packs %u weights into %" PRIu64 " words with %" PRIu64
                        " scales, expected 2, 3, 4, 5, 6 or 8 bits in groups of 32, 64 or 128",
                        o->c->files[l->part[0]->file].path, module, cols, w_cols, s_cols);
    l->type.bits = (uint8_t)bits;
    l->type.group = (uint16_t)group;
    return SLC_OK;
}

static slc_status check_claim(slc_opening *o, const char *module, const slc_matrix_type *t) {
    uint32_t bits, group;

    if (!slc_quant_claims_get(o->claims, module, &bits, &group)) return SLC_OK;
    if (bits == t->bits && group == t->group) return SLC_OK;
    return slc_fail(o->err, SLC_E_FORMAT,
                    "%s: config.json claims %u bits in groups of %u for %s, its tensors hold %u "
                    "bits in groups of %u",
                    o->c->dir, bits, group, module, t->bits, t->group);
}

static slc_status affine_linear(slc_opening *o, const char *module, uint32_t n, slc_linear *l) {
    const slc_set_tensor *w = l->part[SLC_PART_W], *s = l->part[SLC_PART_SCALES],
                         *z = l->part[SLC_PART_BIASES];
    slc_status rc;

    if (!s || !z || w->t->dtype != SLC_DTYPE_U32 || !is_float(s->t->dtype) ||
        z->t->dtype != s->t->dtype)
        return slc_fail(o->err, SLC_E_UNSUPPORTED,
                        "%s: %s is not in the affine encoding: weight %s, scales %s, biases %s, "
                        "expected U32 and twice the same of F32, F16, BF16",
                        o->c->files[w->file].path, module, w->t->dtype_text,
                        s ? s->t->dtype_text : "missing", z ? z->t->dtype_text : "missing");
    l->type.dtype = SLC_DTYPE_U32;
    l->type.scale_dtype = s->t->dtype;
    if ((rc = check_part(o, w, n, l->type.rows, 0))) return rc;
    if ((rc = check_part(o, s, n, l->type.rows, 0))) return rc;
    if ((rc = derive_affine(o, module, l, n))) return rc;
    if ((rc = check_part(o, z, n, l->type.rows, l->type.cols / l->type.group))) return rc;
    return check_claim(o, module, &l->type);
}

slc_status slc_opening_linear(slc_opening *o, const char *module, uint32_t n, uint32_t rows,
                              uint32_t cols, slc_linear *out) {
    static const char *const suffixes[SLC_N_PARTS] = {".weight", ".scales", ".biases"};
    char name[SLC_NAME_BYTES];
    slc_status rc;

    *out = (slc_linear){.type = {.rows = rows, .cols = cols}};
    for (int p = 0; p < SLC_N_PARTS; p++) {
        snprintf(name, sizeof(name), "%s%s", module, suffixes[p]);
        out->part[p] = slc_tensor_set_use(&o->set, name);
    }
    if (!out->part[SLC_PART_W]) /* fused experts have no ".weight" */
        out->part[SLC_PART_W] = slc_tensor_set_use(&o->set, module);
    if (!out->part[SLC_PART_W]) {
        snprintf(name, sizeof(name), "%s.weight", module);
        return find(o, name, &out->part[SLC_PART_W]);
    }
    if (out->part[SLC_PART_SCALES] || out->part[SLC_PART_BIASES])
        return affine_linear(o, module, n, out);
    if ((rc = check_float(o, out->part[SLC_PART_W]))) return rc;
    out->type.dtype = out->part[SLC_PART_W]->t->dtype;
    return check_part(o, out->part[SLC_PART_W], n, rows, cols);
}

/* ---- weights of the table ---- */

static slc_extent extent_of(const slc_set_tensor *s) {
    if (!s) return (slc_extent){0};
    return (slc_extent){.file = s->file, .off = s->t->off, .bytes = s->t->bytes};
}

static slc_status bind_matrix(slc_opening *o, const char *name, const slc_weight_spec *spec,
                              slc_weight *out) {
    slc_linear l;
    slc_status rc = slc_opening_linear(o, name, 0, spec->rows, spec->cols, &l);

    if (rc) return rc;
    out->type = l.type;
    for (int p = 0; p < SLC_N_PARTS; p++) {
        out->part[p] = extent_of(l.part[p]);
        slc_assert(out->part[p].bytes == slc_matrix_part_bytes(&l.type, p));
    }
    return SLC_OK;
}

static slc_status bind_float(slc_opening *o, const slc_set_tensor *s, const slc_weight_spec *spec,
                             slc_weight *out) {
    slc_status rc = check_float(o, s);

    if (rc) return rc;
    out->type = (slc_matrix_type){.dtype = s->t->dtype, .rows = spec->rows, .cols = spec->cols};
    out->part[SLC_PART_W] = extent_of(s);
    return SLC_OK;
}

static slc_status bind_vector(slc_opening *o, const char *name, const slc_weight_spec *spec,
                              slc_weight *out) {
    const slc_set_tensor *s;
    const uint64_t want = spec->cols;
    slc_status rc;

    if ((rc = find(o, name, &s))) return rc;
    if ((rc = check_shape(o, s, &want, 1))) return rc;
    return bind_float(o, s, spec, out);
}

static slc_status bind_conv(slc_opening *o, const char *name, const slc_weight_spec *spec,
                            slc_weight *out) {
    const slc_set_tensor *s;
    char expected[80];
    bool raw;
    slc_status rc;

    if ((rc = find(o, name, &s))) return rc;
    raw = s->t->n_dims == 3 && s->t->dims[2] != 1;
    if (s->t->n_dims != 3 || s->t->dims[0] != spec->rows || s->t->dims[raw ? 2 : 1] != spec->cols ||
        s->t->dims[raw ? 1 : 2] != 1) {
        snprintf(expected, sizeof(expected), "[%u, 1, %u] or [%u, %u, 1]", spec->rows, spec->cols,
                 spec->rows, spec->cols);
        return bad_shape(o, s, expected);
    }
    if (o->conv_seen && raw != o->c->norms_are_raw)
        return slc_fail(o->err, SLC_E_FORMAT,
                        "%s: convolution weights come in both axis orders, %s is the first that "
                        "differs: cannot tell whether norm weights are folded",
                        o->c->dir, s->t->name);
    o->c->norms_are_raw = raw;
    o->conv_seen = true;
    return bind_float(o, s, spec, out);
}

static slc_status bind_weight(slc_opening *o, const char *name, const slc_weight_spec *spec,
                              slc_weight *out) {
    switch (spec->form) {
    case SLC_FORM_MATRIX: return bind_matrix(o, name, spec, out);
    case SLC_FORM_VECTOR: return bind_vector(o, name, spec, out);
    case SLC_FORM_CONV: return bind_conv(o, name, spec, out);
    }
    return SLC_OK;
}

static slc_status bind_layer(slc_opening *o, uint32_t layer) {
    slc_weight_spec spec;
    char name[SLC_NAME_BYTES];
    slc_status rc;

    for (int w = 0; w < SLC_W_N_LAYER; w++) {
        if (!slc_layer_weight_spec(&o->c->cfg, layer, (slc_layer_weight)w, &spec)) continue;
        snprintf(name, sizeof(name), "layers.%u.%s", layer, spec.name);
        if ((rc = bind_weight(o, name, &spec, &o->c->layers[layer].w[w]))) return rc;
    }
    return SLC_OK;
}

slc_status slc_opening_weights(slc_opening *o) {
    slc_checkpoint *c = o->c;
    slc_weight_spec spec;
    slc_status rc;

    c->tied = c->cfg.tie_embeddings;
    for (int w = 0; w < SLC_W_N_MODEL; w++) {
        if (w == SLC_W_LM_HEAD && c->tied) continue;
        slc_model_weight_spec(&c->cfg, (slc_model_weight)w, &spec);
        if ((rc = bind_weight(o, spec.name, &spec, &c->w[w]))) return rc;
    }
    if (c->tied) c->w[SLC_W_LM_HEAD] = c->w[SLC_W_EMBED];
    for (uint32_t i = 0; i < c->cfg.n_layers; i++)
        if ((rc = bind_layer(o, i))) return rc;
    return SLC_OK;
}
