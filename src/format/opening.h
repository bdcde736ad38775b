/* The steps of slc_checkpoint_open and what they share. Private to the checkpoint reader.
 *
 *     opening_files.c    folder, index, shards -> open files and one set of tensors
 *     opening_weights.c  set of tensors -> where the weights outside the experts lie
 *     opening_experts.c  set of tensors -> where the experts lie
 *     checkpoint.c       order of the steps, leftovers, lookups */
#ifndef SLC_FORMAT_OPENING_H
#define SLC_FORMAT_OPENING_H

#include <stdbool.h>
#include <stdint.h>

#include "format/checkpoint.h"
#include "format/tensor_set.h"

/* For names put together here: "layers.4294967295." and the longest name below it fit. */
enum { SLC_NAME_BYTES = 160 };

typedef struct slc_opening {
    slc_checkpoint *c;
    const slc_log *log;
    slc_err *err;
    slc_tensor_set set;
    slc_quant_claims *claims; /* NULL: config.json has no quantization block */
    bool conv_seen;           /* norms_are_raw is decided */
} slc_opening;

/* A linear layer as stored: `n` matrices of `type` one behind the other in each part. */
typedef struct slc_linear {
    slc_matrix_type type;
    const slc_set_tensor *part[SLC_N_PARTS]; /* NULL where the encoding has none */
} slc_linear;

/* Where the experts of a layer lie: a stack per part, or a table with a place for each
 * expert. One per layer. */
typedef struct slc_expert_place {
    uint64_t off;
    uint32_t file;
} slc_expert_place;

typedef struct slc_expert_stack {
    slc_expert_place first;
    uint64_t stride;
} slc_expert_stack;

struct slc_expert_places {
    slc_expert_stack stack[SLC_N_PROJ][SLC_N_PARTS];
    slc_expert_place *each; /* [E][SLC_N_PROJ][SLC_N_PARTS]; NULL: stacked */
};

/* The folder of `path` into c->dir. */
slc_status slc_opening_folder(slc_opening *o, const char *path) SLC_MUST_CHECK;
/* A whole small file. */
typedef struct slc_text_file {
    char *path; /* dir/name */
    char *text; /* [n] */
    size_t n;
} slc_text_file;

/* Deinit it in any case. */
slc_status slc_opening_read_text(slc_opening *o, const char *name, uint64_t max_bytes,
                                 slc_text_file *out) SLC_MUST_CHECK;
void slc_text_file_deinit(slc_text_file *f);
/* malloc'd dir/name if there is such a name, else NULL. A link to nothing is there: what it should
 * have led to was meant, so opening it says that it is missing. */
char *slc_opening_existing(const slc_opening *o, const char *name);
/* Opens the weight files and fills the set. */
slc_status slc_opening_files(slc_opening *o) SLC_MUST_CHECK;

/* Finds a linear layer of `n` stacked matrices (0: a plain one, its tensors two-dimensional),
 * derives its encoding from the shapes and holds that against the quantization block. */
slc_status slc_opening_linear(slc_opening *o, const char *module, uint32_t n, uint32_t rows,
                              uint32_t cols, slc_linear *out) SLC_MUST_CHECK;
slc_status slc_opening_weights(slc_opening *o) SLC_MUST_CHECK;
slc_status slc_opening_experts(slc_opening *o) SLC_MUST_CHECK;

#endif
