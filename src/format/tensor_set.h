/* Every tensor of a checkpoint, over all its files, by name without prefix. Lives while a
 * checkpoint is opened. */
#ifndef SLC_FORMAT_TENSOR_SET_H
#define SLC_FORMAT_TENSOR_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "format/safetensors.h"
#include "sluice/status.h"

typedef struct slc_set_tensor {
    const char *name;    /* without prefix */
    const slc_tensor *t; /* in one of the set's tables */
    uint32_t file;
    bool used; /* found by slc_tensor_set_use */
} slc_set_tensor;

typedef struct slc_tensor_set {
    slc_tensor_table *tables; /* [n_tables], one per file; owned */
    uint32_t n_tables;
    slc_set_tensor *tensors; /* [n], sorted after slc_tensor_set_sort */
    uint32_t n, cap;
} slc_tensor_set;

slc_status slc_tensor_set_init(slc_tensor_set *s, uint32_t n_files, slc_err *err) SLC_MUST_CHECK;
void slc_tensor_set_deinit(slc_tensor_set *s);

slc_status slc_tensor_set_add(slc_tensor_set *s, const slc_tensor *t, uint32_t file,
                              slc_err *err) SLC_MUST_CHECK;
/* Sorts for lookup. Two tensors that differ in their prefix alone are refused: which of them was
 * meant is anybody's guess. */
slc_status slc_tensor_set_sort(slc_tensor_set *s, slc_err *err) SLC_MUST_CHECK;

/* The tensor of that name, marked as used; NULL if there is none. */
const slc_set_tensor *slc_tensor_set_use(slc_tensor_set *s, const char *name);
/* The same question without the mark. */
bool slc_tensor_set_has(const slc_tensor_set *s, const char *name);

#endif
