/* The shard index reader.
 *
 *     {"metadata": {"total_size": 123}, "weight_map": {"a.weight":
 * "model-00001-of-00002.safetensors"}}
 *
 * weight_map is what counts. The names in it decide which files are opened, so they are held to
 * stay inside the folder as they are written; what a name links to on disk is the user's business
 * (model caches are built from links). Unknown top-level keys and other metadata are skipped. */
#include "format/index.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "format/json_sax.h"

enum { MAX_DEPTH = 8 };

typedef enum section { SECTION_OTHER, SECTION_METADATA, SECTION_WEIGHT_MAP } section;

typedef struct builder {
    const char *file;
    slc_index x;
    uint32_t cap;
    slc_json_pool pool;
    section section;
    bool had_map, at_total;
} builder;

/* ---- reading ---- */

static slc_status begin_section(builder *b, const slc_json_event *ev, slc_err *err) {
    b->section = SECTION_OTHER;
    if (slc_json_is(ev, "metadata")) b->section = SECTION_METADATA;
    if (!slc_json_is(ev, "weight_map")) return SLC_OK;
    if (b->had_map) return slc_fail(err, SLC_E_FORMAT, "%s: weight_map appears twice", b->file);
    b->had_map = true;
    b->section = SECTION_WEIGHT_MAP;
    return SLC_OK;
}

static slc_status begin_mapping(builder *b, const slc_json_event *ev, slc_err *err) {
    const char *tensor = slc_json_pool_put(&b->pool, ev);

    if (!tensor)
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: a tensor name is empty or holds control characters (after %u tensors)",
                        b->file, b->x.n);
    if (b->x.n == b->cap) {
        uint32_t cap = b->cap ? b->cap * 2 : 256;
        slc_index_entry *grown = slc_realloc(b->x.entries, cap, sizeof(*grown));

        if (!grown) return slc_fail(err, SLC_E_NOMEM, "%s: no memory for %u tensors", b->file, cap);
        b->x.entries = grown;
        b->cap = cap;
    }
    b->x.entries[b->x.n++] = (slc_index_entry){.tensor = tensor};
    return SLC_OK;
}

/* A relative path without a ".." component. */
static bool stays_inside(const char *path) {
    if (*path == '/') return false;
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");

        if (n == 2 && p[0] == '.' && p[1] == '.') return false;
        p += n;
        if (*p) p++;
    }
    return true;
}

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);

    return n > m && strcmp(s + n - m, end) == 0;
}

static slc_status end_mapping(builder *b, const slc_json_event *ev, slc_err *err) {
    slc_index_entry *e = &b->x.entries[b->x.n - 1];
    const char *name = slc_json_pool_put(&b->pool, ev);

    if (!name || !stays_inside(name))
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: tensor %s is said to lie in \"%s\", expected a file name inside the "
                        "folder",
                        b->file, e->tensor, name ? name : "");
    if (!ends_with(name, ".safetensors"))
        return slc_fail(err, SLC_E_UNSUPPORTED,
                        "%s: tensor %s is said to lie in %s, expected a .safetensors file", b->file,
                        e->tensor, name);
    e->file_name = name;
    return SLC_OK;
}

/* ---- grammar ---- */

static slc_status on_member(builder *b, const slc_json_event *ev, slc_err *err) {
    if (b->section == SECTION_WEIGHT_MAP) {
        if (ev->kind == SLC_JSON_KEY) return begin_mapping(b, ev, err);
        if (ev->kind == SLC_JSON_STRING && b->x.n) return end_mapping(b, ev, err);
        return slc_fail(err, SLC_E_FORMAT, "%s: weight_map: the file of %s is not a string",
                        b->file, b->x.n ? b->x.entries[b->x.n - 1].tensor : "a tensor");
    }
    if (b->section == SECTION_METADATA) {
        /* Some writers give the size as a float; then it is not used. */
        if (ev->kind == SLC_JSON_KEY) b->at_total = slc_json_is(ev, "total_size");
        if (ev->kind == SLC_JSON_NUMBER && b->at_total && !slc_json_u64(ev, &b->x.total_bytes))
            b->x.total_bytes = 0;
    }
    return SLC_OK;
}

static slc_status on_event(void *user, const slc_json_event *ev, slc_err *err) {
    builder *b = user;
    bool object = ev->kind == SLC_JSON_OBJECT || ev->kind == SLC_JSON_OBJECT_END;

    if (ev->depth == 0 && !object)
        return slc_fail(err, SLC_E_FORMAT, "%s: the index is not a JSON object", b->file);
    if (ev->depth == 1 && ev->kind == SLC_JSON_KEY) return begin_section(b, ev, err);
    if (ev->depth == 1 && b->section == SECTION_WEIGHT_MAP && !object)
        return slc_fail(err, SLC_E_FORMAT, "%s: weight_map is not an object", b->file);
    return ev->depth == 2 ? on_member(b, ev, err) : SLC_OK;
}

/* ---- sorting ---- */

static int by_tensor(const void *x, const void *y) {
    return strcmp(((const slc_index_entry *)x)->tensor, ((const slc_index_entry *)y)->tensor);
}

static int by_text(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static slc_status sort_entries(builder *b, slc_err *err) {
    slc_index *x = &b->x;

    if (x->n == 0) return slc_fail(err, SLC_E_FORMAT, "%s: weight_map names no tensor", b->file);
    qsort(x->entries, x->n, sizeof(*x->entries), by_tensor);
    for (uint32_t i = 1; i < x->n; i++)
        if (strcmp(x->entries[i - 1].tensor, x->entries[i].tensor) == 0)
            return slc_fail(err, SLC_E_FORMAT, "%s: weight_map names tensor %s twice", b->file,
                            x->entries[i].tensor);
    return SLC_OK;
}

static slc_status collect_files(builder *b, slc_err *err) {
    slc_index *x = &b->x;

    if (!(x->files = slc_calloc(x->n, sizeof(*x->files))))
        return slc_fail(err, SLC_E_NOMEM, "%s: no memory for %u file names", b->file, x->n);
    for (uint32_t i = 0; i < x->n; i++) x->files[i] = x->entries[i].file_name;
    qsort(x->files, x->n, sizeof(*x->files), by_text);
    for (uint32_t i = 0; i < x->n; i++)
        if (i == 0 || strcmp(x->files[i], x->files[x->n_files - 1]) != 0)
            x->files[x->n_files++] = x->files[i];
    for (uint32_t i = 0; i < x->n; i++) {
        const char **at =
            bsearch(&x->entries[i].file_name, x->files, x->n_files, sizeof(*x->files), by_text);

        x->entries[i].file = (uint32_t)(at - x->files);
    }
    return SLC_OK;
}

/* ---- public ---- */

slc_status slc_index_parse(const char *json, size_t n, const char *name, slc_index *out,
                           slc_err *err) {
    builder b = {.file = name};
    slc_status rc;

    *out = (slc_index){0};
    if ((rc = slc_json_pool_init(&b.pool, n, name, err))) return rc;
    b.x.text = b.pool.base;
    if ((rc = slc_json_sax(json, n, name, MAX_DEPTH, on_event, &b, err))) goto fail;
    if ((rc = sort_entries(&b, err))) goto fail;
    if ((rc = collect_files(&b, err))) goto fail;
    *out = b.x;
    return SLC_OK;
fail:
    slc_index_deinit(&b.x);
    return rc;
}

void slc_index_deinit(slc_index *x) {
    if (!x) return;
    free(x->entries);
    free(x->files);
    free(x->text);
    *x = (slc_index){0};
}

const slc_index_entry *slc_index_find(const slc_index *x, const char *tensor) {
    slc_index_entry key = {.tensor = tensor};

    return bsearch(&key, x->entries, x->n, sizeof(*x->entries), by_tensor);
}
