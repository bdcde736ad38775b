/* The shard index. */
#include "format/index.h"
#include "fuzz/fuzz.h"

static void check_index(const slc_index *x) {
    fuzz_check(x->n > 0 && x->n_files > 0 && x->n_files <= x->n);
    for (uint32_t i = 0; i < x->n; i++) {
        fuzz_check(x->entries[i].file < x->n_files);
        fuzz_check(strcmp(x->files[x->entries[i].file], x->entries[i].file_name) == 0);
        fuzz_check(slc_index_find(x, x->entries[i].tensor) == &x->entries[i]);
    }
    for (uint32_t i = 0; i < x->n_files; i++) {
        fuzz_check(x->files[i][0] != '/' && strncmp(x->files[i], "../", 3) != 0);
        fuzz_check(!strstr(x->files[i], "/../"));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *json = fuzz_copy(data, size);
    slc_index x;
    slc_err err = {0};
    slc_status rc = slc_index_parse(json, size, "input", &x, &err);

    free(json); /* the index holds nothing of the text */
    fuzz_check(rc == err.code && (rc == SLC_OK || *err.msg));
    if (!rc)
        check_index(&x);
    else
        fuzz_check(!x.entries && !x.files && !x.text);
    slc_index_deinit(&x);
    return 0;
}
