/* The safetensors header reader.
 *
 *     file   | u64 header length n | n bytes of JSON | data ...                  |
 *     entry  "name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}
 *
 * Offsets count from the first data byte. The header is hostile until proven otherwise: nothing is
 * allocated from a length that was not first held against the file's size, numbers are plain
 * non-negative integers or refused, and the table returned holds only tensors that lie inside the
 * file, disjoint, with exactly the bytes their shape needs. Readers of the table need no further
 * bounds checks. `__metadata__` is skipped.
 *
 * Entries are checked one by one while the text streams through (json_sax.h); what concerns several
 * entries, names used twice and overlapping ranges, is checked on the sorted table at the end. */
#include "format/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "format/json_sax.h"

enum { MAX_DEPTH = 8 };

static const struct dtype_row {
    const char *text;
    slc_dtype dtype;
    uint32_t bits;
} dtype_rows[] = {
    {"F32", SLC_DTYPE_F32, 32},      {"F16", SLC_DTYPE_F16, 16},
    {"BF16", SLC_DTYPE_BF16, 16},    {"U32", SLC_DTYPE_U32, 32},
    {"BOOL", SLC_DTYPE_OTHER, 8},    {"U8", SLC_DTYPE_OTHER, 8},
    {"I8", SLC_DTYPE_OTHER, 8},      {"U16", SLC_DTYPE_OTHER, 16},
    {"I16", SLC_DTYPE_OTHER, 16},    {"I32", SLC_DTYPE_OTHER, 32},
    {"U64", SLC_DTYPE_OTHER, 64},    {"I64", SLC_DTYPE_OTHER, 64},
    {"F64", SLC_DTYPE_OTHER, 64},    {"C64", SLC_DTYPE_OTHER, 64},
    {"F8_E4M3", SLC_DTYPE_OTHER, 8}, {"F8_E5M2", SLC_DTYPE_OTHER, 8},
    {"F8_E8M0", SLC_DTYPE_OTHER, 8}, {"F6_E2M3", SLC_DTYPE_OTHER, 6},
    {"F6_E3M2", SLC_DTYPE_OTHER, 6}, {"F4", SLC_DTYPE_OTHER, 4},
};

enum { DTYPE = 0, SHAPE = 1, OFFSETS = 2, N_FIELDS = 3 };
static const char *const field_names[N_FIELDS] = {"dtype", "shape", "data_offsets"};

typedef struct builder {
    const char *file;
    uint64_t file_bytes, data_off;
    slc_tensor_table table;
    uint32_t cap;
    slc_json_pool pool;
    /* the entry being read: the last of the table, unless in __metadata__ */
    bool in_metadata, had_metadata;
    int field;
    bool seen[N_FIELDS];
    const struct dtype_row *dtype;
    uint64_t offsets[2];
    uint32_t n_offsets;
} builder;

static slc_tensor *current(builder *b) {
    return &b->table.tensors[b->table.n - 1];
}

/* ---- one entry ---- */

static slc_status begin_entry(builder *b, const slc_json_event *ev, slc_err *err) {
    const char *name;

    b->in_metadata = slc_json_is(ev, "__metadata__");
    if (b->in_metadata) {
        if (b->had_metadata)
            return slc_fail(err, SLC_E_FORMAT, "%s: __metadata__ appears twice", b->file);
        b->had_metadata = true;
        return SLC_OK;
    }
    if (b->table.n == b->cap) {
        uint32_t cap = b->cap ? b->cap * 2 : 64; /* the header cap keeps this far from 2^32 */
        slc_tensor *grown = slc_realloc(b->table.tensors, cap, sizeof(*grown));

        if (!grown) return slc_fail(err, SLC_E_NOMEM, "%s: no memory for %u tensors", b->file, cap);
        b->table.tensors = grown;
        b->cap = cap;
    }
    if (!(name = slc_json_pool_put(&b->pool, ev)))
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: a tensor name is empty or holds control characters (after %u tensors)",
                        b->file, b->table.n);
    b->table.n++;
    *current(b) = (slc_tensor){.name = name};
    memset(b->seen, 0, sizeof(b->seen));
    b->n_offsets = 0;
    return SLC_OK;
}

static slc_status begin_field(builder *b, const slc_json_event *ev, slc_err *err) {
    int f = 0;

    while (f < N_FIELDS && !slc_json_is(ev, field_names[f])) f++;
    if (f == N_FIELDS || b->seen[f])
        return slc_fail(err, SLC_E_FORMAT, "%s: tensor %s has %s field \"%.*s\"", b->file,
                        current(b)->name, f == N_FIELDS ? "an unknown" : "twice the",
                        (int)(ev->n < 60 ? ev->n : 60), ev->text);
    b->seen[f] = true;
    b->field = f;
    return SLC_OK;
}

static slc_status take_dtype(builder *b, const slc_json_event *ev, slc_err *err) {
    for (size_t i = 0; i < sizeof(dtype_rows) / sizeof(*dtype_rows); i++)
        if (slc_json_is(ev, dtype_rows[i].text)) {
            b->dtype = &dtype_rows[i];
            return SLC_OK;
        }
    return slc_fail(err, SLC_E_UNSUPPORTED, "%s: tensor %s has the unknown dtype \"%.*s\"", b->file,
                    current(b)->name, (int)(ev->n < 60 ? ev->n : 60), ev->text);
}

static slc_status take_number(builder *b, const slc_json_event *ev, slc_err *err) {
    slc_tensor *t = current(b);
    uint64_t value;

    if (!slc_json_u64(ev, &value))
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: tensor %s: %s holds %.*s, expected a non-negative integer", b->file,
                        t->name, field_names[b->field], (int)(ev->n < 60 ? ev->n : 60), ev->text);
    if (b->field == SHAPE) {
        if (t->n_dims == SLC_MAX_DIMS)
            return slc_fail(err, SLC_E_FORMAT, "%s: tensor %s has more than %u dimensions", b->file,
                            t->name, SLC_MAX_DIMS);
        t->dims[t->n_dims++] = value;
        return SLC_OK;
    }
    if (b->n_offsets == 2)
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: tensor %s: data_offsets holds more than two numbers", b->file,
                        t->name);
    b->offsets[b->n_offsets++] = value;
    return SLC_OK;
}

/* Bytes that the shape and dtype need; false when that is no whole number below 2^64. */
static bool shape_bytes(const slc_tensor *t, uint32_t bits, uint64_t *bytes) {
    uint64_t n = bits;

    for (uint32_t d = 0; d < t->n_dims; d++)
        if (t->dims[d] == 0) {
            *bytes = 0;
            return true;
        }
    for (uint32_t d = 0; d < t->n_dims; d++)
        if (__builtin_mul_overflow(n, t->dims[d], &n)) return false;
    *bytes = n / 8;
    return n % 8 == 0;
}

static slc_status end_entry(builder *b, slc_err *err) {
    slc_tensor *t = current(b);
    uint64_t begin = b->offsets[0], end = b->offsets[1];
    uint64_t data_bytes = b->file_bytes - b->data_off, expected;

    for (int f = 0; f < N_FIELDS; f++)
        if (!b->seen[f])
            return slc_fail(err, SLC_E_FORMAT, "%s: tensor %s has no %s", b->file, t->name,
                            field_names[f]);
    if (b->n_offsets != 2 || begin > end)
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: tensor %s: data_offsets is not a pair of rising offsets", b->file,
                        t->name);
    if (!shape_bytes(t, b->dtype->bits, &expected))
        return slc_fail(err, SLC_E_FORMAT, "%s: tensor %s: its shape is no whole number of bytes",
                        b->file, t->name);
    if (end - begin != expected)
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: tensor %s: shape and dtype need %" PRIu64
                        " bytes, data_offsets span %" PRIu64,
                        b->file, t->name, expected, end - begin);
    if (end > data_bytes)
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: the file is cut short: tensor %s needs %" PRIu64
                        " bytes of data, %" PRIu64 " are present",
                        b->file, t->name, end, data_bytes);
    t->dtype = b->dtype->dtype;
    t->dtype_text = b->dtype->text;
    t->off = b->data_off + begin;
    t->bytes = expected;
    return SLC_OK;
}

/* ---- the header's grammar: what may come at which depth ---- */

static slc_status on_entry(builder *b, const slc_json_event *ev, slc_err *err) {
    switch (ev->kind) {
    case SLC_JSON_KEY: return begin_entry(b, ev, err);
    case SLC_JSON_OBJECT: return SLC_OK;
    case SLC_JSON_OBJECT_END: return b->in_metadata ? SLC_OK : end_entry(b, err);
    default:
        return slc_fail(err, SLC_E_FORMAT, "%s: the entry of %s is not an object", b->file,
                        b->in_metadata ? "__metadata__" : current(b)->name);
    }
}

static slc_status on_field(builder *b, const slc_json_event *ev, slc_err *err) {
    bool list = ev->kind == SLC_JSON_ARRAY || ev->kind == SLC_JSON_ARRAY_END;

    if (ev->kind == SLC_JSON_KEY) return begin_field(b, ev, err);
    if (ev->kind == SLC_JSON_STRING && b->field == DTYPE) return take_dtype(b, ev, err);
    if (list && b->field != DTYPE) return SLC_OK;
    return slc_fail(err, SLC_E_FORMAT, "%s: tensor %s: %s is not %s", b->file, current(b)->name,
                    field_names[b->field], b->field == DTYPE ? "a string" : "a list");
}

static slc_status on_event(void *user, const slc_json_event *ev, slc_err *err) {
    builder *b = user;

    if (ev->depth == 0) {
        if (ev->kind == SLC_JSON_OBJECT || ev->kind == SLC_JSON_OBJECT_END) return SLC_OK;
        return slc_fail(err, SLC_E_FORMAT, "%s: the header is not a JSON object", b->file);
    }
    if (ev->depth == 1) return on_entry(b, ev, err);
    if (b->in_metadata) return SLC_OK;
    if (ev->depth == 2) return on_field(b, ev, err);
    if (ev->kind == SLC_JSON_NUMBER) return take_number(b, ev, err);
    return slc_fail(err, SLC_E_FORMAT, "%s: tensor %s: %s holds something that is not a number",
                    b->file, current(b)->name, field_names[b->field]);
}

/* ---- the whole table ---- */

static int by_name(const void *x, const void *y) {
    return strcmp(((const slc_tensor *)x)->name, ((const slc_tensor *)y)->name);
}

static int by_offset(const void *x, const void *y) {
    const slc_tensor *a = x, *b = y;

    if (a->off != b->off) return a->off < b->off ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

static slc_status check_table(slc_tensor_table *t, const char *file, slc_err *err) {
    const slc_tensor *last = NULL; /* the last tensor with bytes */

    if (t->n == 0) return SLC_OK;
    qsort(t->tensors, t->n, sizeof(*t->tensors), by_name);
    for (uint32_t i = 1; i < t->n; i++)
        if (strcmp(t->tensors[i - 1].name, t->tensors[i].name) == 0)
            return slc_fail(err, SLC_E_FORMAT, "%s: tensor %s appears twice", file,
                            t->tensors[i].name);
    qsort(t->tensors, t->n, sizeof(*t->tensors), by_offset);
    for (uint32_t i = 0; i < t->n; i++) {
        const slc_tensor *cur = &t->tensors[i];

        if (cur->bytes == 0) continue;
        if (last && cur->off < last->off + last->bytes)
            return slc_fail(err, SLC_E_FORMAT,
                            "%s: tensors %s and %s overlap: the first ends at byte %" PRIu64
                            ", the second starts at %" PRIu64,
                            file, last->name, cur->name, last->off + last->bytes, cur->off);
        last = cur;
    }
    return SLC_OK;
}

/* ---- public ---- */

slc_status slc_safetensors_header_bytes(const uint8_t head[8], uint64_t file_bytes,
                                        const char *name, uint64_t *header_bytes, slc_err *err) {
    uint64_t n = 0;

    if (file_bytes < 8)
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: %" PRIu64 " bytes are too few for a safetensors file", name,
                        file_bytes);
    for (int i = 7; i >= 0; i--) n = n << 8 | head[i];
    if (n > file_bytes - 8)
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: the header claims %" PRIu64 " bytes, the file has %" PRIu64
                        " after the length",
                        name, n, file_bytes - 8);
    if (n > SLC_SAFETENSORS_MAX_HEADER)
        return slc_fail(err, SLC_E_FORMAT, "%s: the header claims %" PRIu64 " bytes, at most %u",
                        name, n, SLC_SAFETENSORS_MAX_HEADER);
    if (n < 2)
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: the header claims %" PRIu64 " bytes, the shortest has 2", name, n);
    *header_bytes = n;
    return SLC_OK;
}

slc_status slc_safetensors_parse(const char *json, size_t n, uint64_t file_bytes, const char *name,
                                 slc_tensor_table *out, slc_err *err) {
    builder b = {.file = name, .file_bytes = file_bytes};
    slc_status rc;

    *out = (slc_tensor_table){0};
    if (file_bytes < 8 || n > file_bytes - 8)
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: a header of %zu bytes does not fit the file's %" PRIu64, name, n,
                        file_bytes);
    b.data_off = 8 + n;
    if ((rc = slc_json_pool_init(&b.pool, n, name, err))) return rc;
    b.table.names = b.pool.base;
    if ((rc = slc_json_sax(json, n, name, MAX_DEPTH, on_event, &b, err))) goto fail;
    if ((rc = check_table(&b.table, name, err))) goto fail;
    *out = b.table;
    return SLC_OK;
fail:
    slc_tensor_table_deinit(&b.table);
    return rc;
}

void slc_tensor_table_deinit(slc_tensor_table *t) {
    if (!t) return;
    free(t->tensors);
    free(t->names);
    *t = (slc_tensor_table){0};
}
