/* A sorted array with a mark per tensor: what nobody asked for is reported at the end. */
#include "format/tensor_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "format/qwen3_5_names.h"

slc_status slc_tensor_set_init(slc_tensor_set *s, uint32_t n_files, slc_err *err) {
    *s = (slc_tensor_set){.tables = slc_calloc(n_files, sizeof(*s->tables)), .n_tables = n_files};
    if (!s->tables) return slc_fail(err, SLC_E_NOMEM, "no memory for %u file tables", n_files);
    return SLC_OK;
}

void slc_tensor_set_deinit(slc_tensor_set *s) {
    for (uint32_t i = 0; s->tables && i < s->n_tables; i++) slc_tensor_table_deinit(&s->tables[i]);
    free(s->tables);
    free(s->tensors);
    *s = (slc_tensor_set){0};
}

slc_status slc_tensor_set_add(slc_tensor_set *s, const slc_tensor *t, uint32_t file, slc_err *err) {
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 256;
        slc_set_tensor *grown = slc_realloc(s->tensors, cap, sizeof(*grown));

        if (!grown) return slc_fail(err, SLC_E_NOMEM, "no memory for %u tensors", cap);
        s->tensors = grown;
        s->cap = cap;
    }
    s->tensors[s->n++] =
        (slc_set_tensor){.name = slc_name_strip_prefix(t->name), .t = t, .file = file};
    return SLC_OK;
}

static int by_name(const void *x, const void *y) {
    return strcmp(((const slc_set_tensor *)x)->name, ((const slc_set_tensor *)y)->name);
}

slc_status slc_tensor_set_sort(slc_tensor_set *s, slc_err *err) {
    if (s->n) qsort(s->tensors, s->n, sizeof(*s->tensors), by_name);
    for (uint32_t i = 1; i < s->n; i++)
        if (by_name(&s->tensors[i - 1], &s->tensors[i]) == 0)
            return slc_fail(err, SLC_E_FORMAT, "tensors %s and %s name the same weight",
                            s->tensors[i - 1].t->name, s->tensors[i].t->name);
    return SLC_OK;
}

static slc_set_tensor *find(const slc_tensor_set *s, const char *name) {
    slc_set_tensor key = {.name = name};

    return s->n ? bsearch(&key, s->tensors, s->n, sizeof(*s->tensors), by_name) : NULL;
}

const slc_set_tensor *slc_tensor_set_use(slc_tensor_set *s, const char *name) {
    slc_set_tensor *t = find(s, name);

    if (t) t->used = true;
    return t;
}

bool slc_tensor_set_has(const slc_tensor_set *s, const char *name) {
    return find(s, name) != NULL;
}
