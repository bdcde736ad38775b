/* The safetensors header: bytes in memory to a checked table of tensors. Reads no file. */
#ifndef SLC_FORMAT_SAFETENSORS_H
#define SLC_FORMAT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "quant/dtype.h"
#include "sluice/status.h"

#define SLC_MAX_DIMS               8u
#define SLC_SAFETENSORS_MAX_HEADER (100u << 20)

typedef struct slc_tensor {
    const char *name;       /* owned by the table */
    const char *dtype_text; /* as the file spells it ("F8_E4M3"); a static string */
    slc_dtype dtype;
    uint32_t n_dims;
    uint64_t dims[SLC_MAX_DIMS];
    uint64_t off, bytes; /* in the file (header included) */
} slc_tensor;

typedef struct slc_tensor_table {
    slc_tensor *tensors; /* sorted by offset */
    uint32_t n;
    char *names; /* the block that holds every name */
} slc_tensor_table;

/* Checks the first 8 bytes of a file: the header length against file size and the cap. */
slc_status slc_safetensors_header_bytes(const uint8_t head[8], uint64_t file_bytes,
                                        const char *name, uint64_t *header_bytes,
                                        slc_err *err) SLC_MUST_CHECK;

/* Parses the JSON header [json, json + n) of a file of file_bytes. Every entry is checked: known
 * dtype, shape product times element size equals the byte range, range inside the file, no overlap
 * between tensors, no duplicate name. Bytes that belong to no tensor, between tensors or at the end
 * of the file, are allowed and never read. Tensors without elements are allowed. `name` is for
 * messages. */
slc_status slc_safetensors_parse(const char *json, size_t n, uint64_t file_bytes, const char *name,
                                 slc_tensor_table *out, slc_err *err) SLC_MUST_CHECK;
void slc_tensor_table_deinit(slc_tensor_table *t);

#endif
