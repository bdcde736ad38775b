/* The safetensors header. The last two bytes say how much data follows it in the imagined file. */
#include "format/safetensors.h"
#include "fuzz/fuzz.h"

/* What readers of the table rely on. */
static void check_table(const slc_tensor_table *t, uint64_t data_off, uint64_t file_bytes) {
    uint64_t end = data_off;

    for (uint32_t i = 0; i < t->n; i++) {
        const slc_tensor *x = &t->tensors[i];

        fuzz_check(*x->name && x->dtype != SLC_DTYPE_NONE && x->n_dims <= SLC_MAX_DIMS);
        fuzz_check(x->off >= data_off && x->off <= file_bytes && x->bytes <= file_bytes - x->off);
        if (!x->bytes) continue;
        fuzz_check(x->off >= end);
        end = x->off + x->bytes;
    }
}

static void parse_header(const uint8_t *data, size_t n, uint64_t file_bytes) {
    char *json = fuzz_copy(data, n);
    slc_tensor_table t;
    slc_err err = {0};
    slc_status rc = slc_safetensors_parse(json, n, file_bytes, "input", &t, &err);

    fuzz_check(rc == err.code && (rc == SLC_OK || *err.msg));
    if (!rc)
        check_table(&t, 8 + n, file_bytes);
    else
        fuzz_check(!t.tensors && !t.names);
    slc_tensor_table_deinit(&t);
    free(json);
}

static void parse_length(const uint8_t *data, uint64_t file_bytes) {
    uint64_t n = 0;

    if (slc_safetensors_header_bytes(data, file_bytes, "input", &n, NULL)) return;
    fuzz_check(n >= 2 && n <= file_bytes - 8 && n <= SLC_SAFETENSORS_MAX_HEADER);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t data_bytes;

    if (size < 2) return 0;
    size -= 2;
    data_bytes = data[size] | (uint64_t)data[size + 1] << 8;
    parse_header(data, size, 8 + size + data_bytes);
    if (size >= 8) parse_length(data, size + data_bytes);
    return 0;
}
