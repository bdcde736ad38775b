/* The shard index (model.safetensors.index.json): bytes in memory to a checked map from tensor
 * names to file names. Reads no file. */
#ifndef SLC_FORMAT_INDEX_H
#define SLC_FORMAT_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "sluice/status.h"

typedef struct slc_index_entry {
    const char *tensor;
    const char *file_name; /* as written for this tensor; equals files[file] */
    uint32_t file;         /* in slc_index.files */
} slc_index_entry;

typedef struct slc_index {
    slc_index_entry *entries; /* [n], sorted by tensor name, no name twice */
    uint32_t n;
    const char **files; /* [n_files], sorted, no name twice: relative paths that stay inside the
                           folder as written (no "..", not absolute) */
    uint32_t n_files;
    uint64_t total_bytes; /* metadata.total_size; 0: not given */
    char *text;           /* the block that holds every name */
} slc_index;

/* `name` is for messages. An index that names no tensor is refused. */
slc_status slc_index_parse(const char *json, size_t n, const char *name, slc_index *out,
                           slc_err *err) SLC_MUST_CHECK;
void slc_index_deinit(slc_index *x);

/* NULL if the index does not name the tensor. */
const slc_index_entry *slc_index_find(const slc_index *x, const char *tensor);

#endif
