/* The tables of a pack file, as bytes and as structs. docs/formats/pack.md is the specification;
 * this is its only reader and its only writer. Reads no file.
 *
 * Parsing checks what can be checked without knowing the model: lengths, counts, codes, hashes,
 * that every range is aligned, inside the file and behind the one before. pack.c holds the tables
 * against the embedded config. */
#ifndef SLC_FORMAT_PACK_INDEX_H
#define SLC_FORMAT_PACK_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/side_text.h"
#include "quant/matrix.h"
#include "sluice/status.h"

#define SLC_PACK_VERSION         1u
#define SLC_PACK_HEAD_BYTES      64u
#define SLC_PACK_PART_ALIGN      64u   /* of texts, resident weights and the parts of a record */
#define SLC_PACK_EXPERT_ALIGN    4096u /* of experts and of the file's length */
#define SLC_PACK_MAX_INDEX_BYTES ((uint64_t)256 << 20)
#define SLC_PACK_NO_LAYER        UINT32_MAX /* of a weight that belongs to no layer */

extern const char slc_pack_magic[8];
/* What an unfinished file begins with. */
extern const char slc_pack_unfinished_magic[8];

typedef struct slc_pack_head {
    uint64_t file_bytes, index_off, index_bytes, index_hash;
} slc_pack_head;

/* A hashed range of the file. off == 0: not there. */
typedef struct slc_pack_range {
    uint64_t off, bytes, hash;
} slc_pack_range;

/* A file that the pack was made from, as it was then. */
typedef struct slc_pack_source {
    char *name; /* owned */
    uint64_t bytes;
    int64_t mtime_s;
    uint32_t mtime_ns;
    uint64_t header_hash; /* of the safetensors header, length included */
} slc_pack_source;

/* A record is one or more matrices, part after part, each at the next multiple of 64. */
typedef struct slc_pack_weight {
    uint32_t layer; /* SLC_PACK_NO_LAYER: `id` is an slc_model_weight, else an slc_layer_weight */
    uint32_t id;
    slc_matrix_type type;
    slc_pack_range at;
} slc_pack_weight;

/* The experts of a layer: expert e is the record at off + e * stride. */
typedef struct slc_pack_layer {
    slc_matrix_type type[3]; /* gate, up, down */
    uint64_t off, bytes, stride;
    uint64_t *hash; /* [n_experts], in one block for all layers, which layer 0 owns */
} slc_pack_layer;

typedef struct slc_pack_index {
    uint32_t n_layers, n_experts; /* n_experts 0: dense, and no layers below */
    bool norms_are_raw, tied;
    uint64_t ignored_bytes; /* of the source: vision and mtp tensors, which are not in the pack */
    slc_pack_range text[SLC_N_TEXTS];
    uint32_t n_sources, n_weights;
    slc_pack_source *sources;
    slc_pack_weight *weights; /* weights of no layer first, then by layer and id */
    slc_pack_layer *layers;   /* [n_layers] */
} slc_pack_index;

/* Offsets of the parts of n matrices in their record; returns the record's bytes. The sizes of a
 * checked config cannot overflow. */
uint64_t slc_pack_record_layout(const slc_matrix_type *types, int n, uint64_t at[][SLC_N_PARTS]);

slc_status slc_pack_head_parse(const uint8_t head[SLC_PACK_HEAD_BYTES], uint64_t file_bytes,
                               const char *name, slc_pack_head *out, slc_err *err) SLC_MUST_CHECK;
void slc_pack_head_put(const slc_pack_head *h, uint8_t out[SLC_PACK_HEAD_BYTES]);

/* `bytes` [n] are the index of a file with this head. */
slc_status slc_pack_index_parse(const uint8_t *bytes, size_t n, const slc_pack_head *head,
                                const char *name, slc_pack_index **out,
                                slc_err *err) SLC_MUST_CHECK;
/* Bytes that the index takes, and the index itself. Depends on counts and name lengths only, so
 * that the place of everything is known before anything is hashed. */
size_t slc_pack_index_bytes(const slc_pack_index *x);
void slc_pack_index_put(const slc_pack_index *x, uint8_t *out);

/* NULL on lack of memory; counts as given, everything else zero. */
slc_pack_index *slc_pack_index_create(uint32_t n_layers, uint32_t n_experts, uint32_t n_sources,
                                      uint32_t n_weights);
void slc_pack_index_destroy(slc_pack_index *x);

#endif
