/* Checked access to small JSON files. Depth is scanned before jansson sees the text, because its
 * parser recurses on our stack. */
#include "format/json_object.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "format/json_sax.h"

enum { MAX_DEPTH = 32 };

slc_status slc_object_load(const char *json, size_t n, const char *file, json_t **root,
                           slc_object *out, slc_err *err) {
    json_error_t e;
    slc_status rc;

    *root = NULL;
    *out = (slc_object){.file = file};
    if ((rc = slc_json_sax(json, n, file, MAX_DEPTH, NULL, NULL, err))) return rc;
    *root = json_loadb(json, n, JSON_REJECT_DUPLICATES, &e);
    if (!*root) return slc_fail(err, SLC_E_FORMAT, "%s: line %d: %s", file, e.line, e.text);
    if (!json_is_object(*root)) {
        json_decref(*root);
        *root = NULL;
        return slc_fail(err, SLC_E_FORMAT, "%s: not a JSON object", file);
    }
    out->json = *root;
    return SLC_OK;
}

const json_t *slc_object_get(const slc_object *o, const char *key) {
    const json_t *v = o->json ? json_object_get(o->json, key) : NULL;

    return v && !json_is_null(v) ? v : NULL;
}

/* A text that is cut to fit, piece by piece. */
typedef struct cut_text {
    char *buf;
    size_t used, cap;
} cut_text;

static int put_piece(const char *piece, size_t n, void *user) {
    cut_text *t = user;
    size_t left = t->cap - 1 - t->used;

    if (n > left) n = left;
    memcpy(t->buf + t->used, piece, n);
    t->used += n;
    return 0;
}

const char *slc_json_text(const json_t *v, char *buf, size_t cap) {
    cut_text t = {.buf = buf, .cap = cap};

    json_dump_callback(v, put_piece, &t, JSON_ENCODE_ANY | JSON_COMPACT);
    buf[t.used] = 0;
    return buf;
}

slc_status slc_object_bad(const slc_object *o, const char *key, slc_status code,
                          const char *expected, slc_err *err) {
    const json_t *v = slc_object_get(o, key);
    char text[80];

    return slc_fail(err, code, "%s: %s%s is %s, expected %s", o->file, o->path, key,
                    v ? slc_json_text(v, text, sizeof(text)) : "missing", expected);
}

slc_status slc_object_child(const slc_object *o, const char *key, slc_object *out, slc_err *err) {
    const json_t *v = slc_object_get(o, key);

    if (v && !json_is_object(v)) return slc_object_bad(o, key, SLC_E_FORMAT, "an object", err);
    *out = (slc_object){.json = v, .file = o->file};
    snprintf(out->path, sizeof(out->path), "%.20s%.40s.", o->path, key);
    return SLC_OK;
}

slc_status slc_object_u32(const slc_object *o, const char *key, uint32_t min, uint32_t max,
                          uint32_t *out, slc_err *err) {
    const json_t *v = slc_object_get(o, key);
    char expected[64];

    if (!v) return SLC_OK;
    if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max) {
        snprintf(expected, sizeof(expected), "an integer from %u to %u", min, max);
        return slc_object_bad(o, key, SLC_E_FORMAT, expected, err);
    }
    *out = (uint32_t)json_integer_value(v);
    return SLC_OK;
}

slc_status slc_object_double(const slc_object *o, const char *key, double min, double max,
                             double *out, slc_err *err) {
    const json_t *v = slc_object_get(o, key);
    char expected[64];

    if (!v) return SLC_OK;
    if (!json_is_number(v) || json_number_value(v) < min || json_number_value(v) > max) {
        snprintf(expected, sizeof(expected), "a number from %g to %g", min, max);
        return slc_object_bad(o, key, SLC_E_FORMAT, expected, err);
    }
    *out = json_number_value(v);
    return SLC_OK;
}

slc_status slc_object_bool(const slc_object *o, const char *key, bool *out, slc_err *err) {
    const json_t *v = slc_object_get(o, key);

    if (!v) return SLC_OK;
    if (!json_is_boolean(v)) return slc_object_bad(o, key, SLC_E_FORMAT, "true or false", err);
    *out = json_is_true(v);
    return SLC_OK;
}

slc_status slc_object_string(const slc_object *o, const char *key, const char **out, slc_err *err) {
    const json_t *v = slc_object_get(o, key);

    if (!v) return SLC_OK;
    if (!json_is_string(v)) return slc_object_bad(o, key, SLC_E_FORMAT, "a string", err);
    *out = json_string_value(v);
    return SLC_OK;
}
