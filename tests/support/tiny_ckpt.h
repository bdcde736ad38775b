/* A tiny valid checkpoint, described in memory, to be damaged by a test and written to a folder.
 *
 * Four layers, the last one full attention; 4 experts of which 2 are used; sizes of 32 and 64. The
 * bytes of every row of an expert's weight depend on layer, projection, part, expert and row alone,
 * so they are the same in each layout. Everything aborts on failure: for tests only. */
#ifndef SLC_TESTS_SUPPORT_TINY_CKPT_H
#define SLC_TESTS_SUPPORT_TINY_CKPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum tiny_layout { TINY_STACKED, TINY_FUSED, TINY_SEPARATE } tiny_layout;

typedef struct tiny_options {
    tiny_layout layout;
    uint32_t bits;                /* 0: BF16, else affine in groups of 32 */
    bool raw_conv;                /* convolution [C, 1, taps] as in original checkpoints */
    const char *prefix;           /* NULL: "language_model.model." */
    uint32_t n_layers, n_experts; /* 0: 4, 4 */
    uint32_t n_files;             /* 1: model.safetensors; more: shards and an index */
    bool no_data;                 /* files have the right length but no contents */
} tiny_options;

typedef struct tiny_tensor {
    char name[128];
    const char *dtype; /* "BF16", "F32", "U32", ... */
    uint32_t n_dims;
    uint64_t dims[4];
    int file;           /* 0-based shard that holds it; -1: none */
    int index_file;     /* shard the index maps it to; -1: not in the index */
    uint64_t row_bytes; /* of the pattern; 0: one row */
    uint64_t seed;      /* of row 0 */
} tiny_tensor;

typedef struct tiny_ckpt {
    tiny_options opt;
    char *config; /* config.json text */
    tiny_tensor *tensors;
    uint32_t n, cap;
    const char *extra_index; /* NULL; more weight_map members, each `"name": "file", ` */
} tiny_ckpt;

tiny_ckpt *tiny_create(tiny_options opt);
void tiny_destroy(tiny_ckpt *t);

/* The tensor with this full name; aborts if there is none. Valid until the next tiny_add. */
tiny_tensor *tiny_find(tiny_ckpt *t, const char *name);
/* A tensor in file 0, listed in the index. Returns it for adjustments. */
tiny_tensor *tiny_add(tiny_ckpt *t, const char *name, const char *dtype, uint32_t n_dims,
                      const uint64_t *dims);
void tiny_remove(tiny_ckpt *t, const char *name);
/* Adds the projections of layer 0's experts in another layout (a second copy). */
void tiny_add_experts(tiny_ckpt *t, uint32_t layer, tiny_layout layout);
/* Replaces the first `from` in config.json; aborts if there is none. */
void tiny_config(tiny_ckpt *t, const char *from, const char *to);

/* Name of shard i, in a static buffer. */
const char *tiny_file_name(const tiny_ckpt *t, int i);
/* Writes config.json, the weight files and, for more than one file, the index. */
void tiny_write(const tiny_ckpt *t, const char *dir);

/* Element size in bytes of a dtype's text. */
uint32_t tiny_element_bytes(const char *dtype);

#endif
