/* What a checkpoint says about its own quantisation.
 *
 *     "quantization": {"group_size": 64, "bits": 4, "mode": "affine",
 *                      "language_model.model.layers.0.mlp.gate": {"group_size": 64, "bits": 8},
 *                      "language_model.model.lm_head": false}
 *
 * Encodings are derived from tensor shapes; the block is only held against them. Writers disagree
 * on the prefix of module paths, so keys and queries are compared without it. */
#include "format/quant_claims.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "format/qwen3_5_names.h"

typedef struct claim {
    const char *module; /* without prefix; borrowed from the object's text */
    uint32_t bits, group;
} claim;

struct slc_quant_claims {
    claim whole;   /* for modules not named */
    claim *claims; /* [n], sorted by module */
    size_t n;
    json_t *block; /* keeps the module names alive */
};

static int by_module(const void *x, const void *y) {
    return strcmp(((const claim *)x)->module, ((const claim *)y)->module);
}

/* group_size, bits and mode of the block or of one override. */
static slc_status read_settings(const slc_object *o, claim *c, slc_err *err) {
    const char *mode = "affine";
    slc_status rc;

    if ((rc = slc_object_string(o, "mode", &mode, err))) return rc;
    if (strcmp(mode, "affine") != 0)
        return slc_object_bad(o, "mode", SLC_E_UNSUPPORTED, "\"affine\"", err);
    if ((rc = slc_object_u32(o, "bits", 2, 8, &c->bits, err))) return rc;
    return slc_object_u32(o, "group_size", 32, 128, &c->group, err);
}

static bool is_setting(const char *key) {
    return !strcmp(key, "group_size") || !strcmp(key, "bits") || !strcmp(key, "mode");
}

static slc_status read_override(const slc_object *block, const char *key, claim *c, slc_err *err) {
    const json_t *v = slc_object_get(block, key);
    slc_object o;
    slc_status rc;

    if (v && json_is_false(v)) {
        c->bits = c->group = 0;
        return SLC_OK;
    }
    if (!v || json_is_true(v)) return SLC_OK;
    if (!json_is_object(v))
        return slc_object_bad(block, key, SLC_E_UNSUPPORTED, "group_size, bits, mode or a module",
                              err);
    if ((rc = slc_object_child(block, key, &o, err))) return rc;
    return read_settings(&o, c, err);
}

static slc_status check_twins(const slc_quant_claims *q, const char *file, slc_err *err) {
    for (size_t i = 1; i < q->n; i++) {
        const claim *a = &q->claims[i - 1], *b = &q->claims[i];

        if (by_module(a, b) == 0 && (a->bits != b->bits || a->group != b->group))
            return slc_fail(err, SLC_E_FORMAT,
                            "%s: quantization names %s under two prefixes, as %u bits in groups of "
                            "%u and as %u in %u",
                            file, a->module, a->bits, a->group, b->bits, b->group);
    }
    return SLC_OK;
}

slc_status slc_quant_claims_parse(const slc_object *block, slc_quant_claims **out, slc_err *err) {
    slc_quant_claims *q = NULL;
    const char *key;
    json_t *value;
    slc_status rc;

    *out = NULL;
    if (!block->json) return SLC_OK;
    if (slc_object_get(block, "quant_method"))
        return slc_object_bad(block, "quant_method", SLC_E_UNSUPPORTED, "MLX affine quantisation",
                              err);
    q = slc_calloc(1, sizeof(*q));
    if (q) q->claims = slc_calloc(json_object_size(block->json) + 1, sizeof(*q->claims));
    if (!q || !q->claims) {
        rc = slc_fail(err, SLC_E_NOMEM, "%s: no memory for the quantization block", block->file);
        goto out;
    }
    /* jansson counts references in the value itself: taking one is not a change of it */
    q->block = json_incref((json_t *)(uintptr_t)block->json);
    if ((rc = read_settings(block, &q->whole, err))) goto out;
    if (!q->whole.bits || !q->whole.group) {
        rc = slc_object_bad(block, q->whole.bits ? "group_size" : "bits", SLC_E_FORMAT,
                            "an integer", err);
        goto out;
    }
    json_object_foreach(q->block, key, value) {
        claim *c = &q->claims[q->n];

        if (is_setting(key)) continue;
        *c = q->whole;
        c->module = slc_name_strip_prefix(key);
        if ((rc = read_override(block, key, c, err))) goto out;
        q->n++;
    }
    qsort(q->claims, q->n, sizeof(*q->claims), by_module);
    if ((rc = check_twins(q, block->file, err))) goto out;
    *out = q;
    q = NULL;
out:
    slc_quant_claims_free(q);
    return rc;
}

bool slc_quant_claims_get(const slc_quant_claims *q, const char *module, uint32_t *bits,
                          uint32_t *group) {
    claim key = {.module = slc_name_strip_prefix(module)};
    const claim *c;

    if (!q) return false;
    c = bsearch(&key, q->claims, q->n, sizeof(*q->claims), by_module);
    if (!c) c = &q->whole;
    *bits = c->bits;
    *group = c->group;
    return true;
}

void slc_quant_claims_free(slc_quant_claims *q) {
    if (!q) return;
    json_decref(q->block);
    free(q->claims);
    free(q);
}
