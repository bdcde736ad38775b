/* Reading prompts and token lists. Everything is read before the model is opened, so that a wrong
 * file name costs no loading time. */
#include "cli/input.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"

#define MAX_INPUT_BYTES ((size_t)1 << 30)

/* ---- text ---- */

static slc_status read_stream(FILE *f, const char *name, char **text, size_t *n, slc_err *err) {
    size_t cap = 1 << 16, used = 0;
    char *buf = NULL;

    for (;;) {
        char *grown = slc_realloc(buf, cap + 1, 1);

        if (!grown) {
            free(buf);
            return slc_fail(err, SLC_E_NOMEM, "%s: no memory for %zu bytes", name, cap);
        }
        buf = grown;
        used += fread(buf + used, 1, cap - used, f);
        if (used < cap) break;
        if (cap >= MAX_INPUT_BYTES) {
            free(buf);
            return slc_fail(err, SLC_E_INVALID, "%s: longer than the %zu bytes that are accepted",
                            name, MAX_INPUT_BYTES);
        }
        cap *= 2;
    }
    if (ferror(f)) {
        free(buf);
        return slc_fail_errno(err, errno, "%s: cannot read", name);
    }
    buf[used] = '\0';
    *text = buf;
    *n = used;
    return SLC_OK;
}

slc_status slc_input_text(const char *path, char **text, size_t *n, slc_err *err) {
    slc_status rc;
    FILE *f;

    if (!strcmp(path, "-")) return read_stream(stdin, "standard input", text, n, err);
    f = fopen(path, "rb");
    if (!f) return slc_fail_errno(err, errno, "%s: cannot open", path);
    rc = read_stream(f, path, text, n, err);
    fclose(f);
    return rc;
}

/* ---- token ids ---- */

static slc_status add_list(slc_id_lists *l, const json_t *array, const char *path, slc_err *err) {
    size_t n = json_array_size(array);
    int32_t *ids = slc_realloc(l->ids, l->n_ids + n + 1, sizeof(*ids)); /* never 0 bytes */

    if (!ids) return slc_fail(err, SLC_E_NOMEM, "%s: no memory for %zu ids", path, n);
    l->ids = ids;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(array, i);
        json_int_t id = json_is_integer(item) ? json_integer_value(item) : -1;

        if (id < 0 || id > INT32_MAX)
            return slc_fail(err, SLC_E_FORMAT,
                            "%s: item %zu of list %zu: expected a token id (a whole number from 0)",
                            path, i, l->n_lists);
        ids[l->n_ids++] = (int32_t)id;
    }
    l->ends[l->n_lists++] = l->n_ids;
    return SLC_OK;
}

static slc_status add_all(slc_id_lists *l, const json_t *root, bool many, const char *path,
                          slc_err *err) {
    const json_t *list = json_is_object(root) ? json_object_get(root, "token_ids") : root;
    size_t n;
    slc_status rc;

    if (!json_is_array(list))
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: expected a JSON array of token ids, or an object with \"token_ids\"",
                        path);
    l->nested = json_is_array(json_array_get(list, 0));
    if (l->nested && !many)
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: expected one list of token ids, found a list of %zu", path,
                        json_array_size(list));
    n = l->nested ? json_array_size(list) : 1;
    if (!(l->ends = slc_calloc(n, sizeof(*l->ends))))
        return slc_fail(err, SLC_E_NOMEM, "%s: no memory for %zu lists", path, n);
    if (!l->nested) return add_list(l, list, path, err);
    for (size_t i = 0; i < n; i++) {
        const json_t *inner = json_array_get(list, i);

        if (!json_is_array(inner))
            return slc_fail(err, SLC_E_FORMAT, "%s: item %zu: expected a list of token ids", path,
                            i);
        if ((rc = add_list(l, inner, path, err))) return rc;
    }
    return SLC_OK;
}

slc_status slc_input_ids(const char *path, bool many, slc_id_lists *out, slc_err *err) {
    json_error_t where;
    json_t *root;
    size_t n = 0;
    char *text = NULL;
    slc_status rc;

    *out = (slc_id_lists){0};
    if ((rc = slc_input_text(path, &text, &n, err))) return rc;
    root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &where);
    free(text);
    if (!root)
        return slc_fail(err, SLC_E_FORMAT, "%s: line %d, column %d: not JSON: %s", path, where.line,
                        where.column, where.text);
    rc = add_all(out, root, many, path, err);
    json_decref(root);
    return rc;
}

slc_status slc_id_lists_take(slc_id_lists *out, int32_t *ids, size_t n, slc_err *err) {
    *out = (slc_id_lists){.ids = ids, .n_ids = n, .ends = slc_calloc(1, sizeof(*out->ends))};
    if (!out->ends) return slc_fail(err, SLC_E_NOMEM, "no memory for a list of tokens");
    out->ends[0] = n;
    out->n_lists = 1;
    return SLC_OK;
}

slc_status slc_id_lists_check(const slc_id_lists *l, uint32_t n_vocab, const char *name,
                              slc_err *err) {
    for (size_t i = 0; i < l->n_ids; i++)
        if ((uint32_t)l->ids[i] >= n_vocab)
            return slc_fail(err, SLC_E_INVALID,
                            "%s: id %zu is %d, but the model's ids go from 0 to %u", name, i,
                            l->ids[i], n_vocab - 1);
    return SLC_OK;
}

void slc_id_lists_deinit(slc_id_lists *l) {
    free(l->ids);
    free(l->ends);
    *l = (slc_id_lists){0};
}
