/* A checkpoint, a folder or a pack: its files, its configuration, and where every weight of the
 * model lies.
 *
 * Open checks everything that can be checked without reading weights: every shard the index names
 * exists and is as long as its header says, index and headers agree, every tensor the architecture
 * needs is there with the shape that the config implies, encodings are derived from shapes and
 * agree with the quantization block. Layouts accepted: MLX (stacked switch_mlp), original Hugging
 * Face (fused experts.gate_up_proj), per-expert tensors; names under any accepted prefix; or all of
 * it in one file made for reading (docs/formats/pack.md). Immutable after open; any thread may read
 * it. */
#ifndef SLC_FORMAT_CHECKPOINT_H
#define SLC_FORMAT_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "format/config.h"
#include "format/side_text.h"
#include "io/file.h"
#include "quant/matrix.h"
#include "sluice/status.h"

/* The weights of one layer outside the routed experts. Which exist depends on layer kind and
 * feed-forward kind; absent ones have type.rows == 0. Vectors have rows = 1. */
typedef enum slc_layer_weight {
    SLC_W_INPUT_NORM, /* vector [H] */
    SLC_W_POST_NORM,  /* vector [H] (post_attention_layernorm) */
    /* full attention */
    SLC_W_Q,      /* [nh * 2 * hd, H]: per head query rows, then gate rows */
    SLC_W_K,      /* [nkv * hd, H] */
    SLC_W_V,      /* [nkv * hd, H] */
    SLC_W_O,      /* [H, nh * hd] */
    SLC_W_Q_NORM, /* vector [hd] */
    SLC_W_K_NORM, /* vector [hd] */
    /* Gated DeltaNet */
    SLC_W_QKV,      /* [conv_dim, H] (in_proj_qkv) */
    SLC_W_Z,        /* [VH * dv, H] */
    SLC_W_B,        /* [VH, H] */
    SLC_W_A,        /* [VH, H] */
    SLC_W_CONV,     /* [conv_dim, taps], float; the file's 1-dim axis dropped */
    SLC_W_A_LOG,    /* vector [VH] */
    SLC_W_DT_BIAS,  /* vector [VH] */
    SLC_W_GDN_NORM, /* vector [dv] */
    SLC_W_OUT,      /* [H, VH * dv] */
    /* feed-forward, dense */
    SLC_W_GATE, /* [F, H] */
    SLC_W_UP,   /* [F, H] */
    SLC_W_DOWN, /* [H, F] */
    /* feed-forward, mixture of experts */
    SLC_W_ROUTER,       /* [E, H] (mlp.gate) */
    SLC_W_SHARED_GATE,  /* [Is, H] (shared_expert.gate_proj) */
    SLC_W_SHARED_UP,    /* [Is, H] */
    SLC_W_SHARED_DOWN,  /* [H, Is] */
    SLC_W_SHARED_ROUTE, /* [1, H] (shared_expert_gate) */
    SLC_W_N_LAYER
} slc_layer_weight;

typedef enum slc_model_weight {
    SLC_W_EMBED,      /* [V, H] */
    SLC_W_FINAL_NORM, /* vector [H] */
    SLC_W_LM_HEAD,    /* [V, H]; equal to SLC_W_EMBED when tied */
    SLC_W_N_MODEL
} slc_model_weight;

/* A byte range of one of the checkpoint's files. bytes == 0: the part does not exist. */
typedef struct slc_extent {
    uint32_t file;
    uint64_t off, bytes;
} slc_extent;

/* Where one weight lies: its encoding and its parts. */
typedef struct slc_weight {
    slc_matrix_type type;
    slc_extent part[SLC_N_PARTS];
} slc_weight;

/* The projections of a routed expert. */
enum { SLC_EXPERT_GATE = 0, SLC_EXPERT_UP = 1, SLC_EXPERT_DOWN = 2, SLC_N_PROJ = 3 };

typedef struct slc_layer_map {
    slc_weight w[SLC_W_N_LAYER];
    slc_matrix_type expert[SLC_N_PROJ]; /* encoding of the layer's experts; rows 0 when dense */
} slc_layer_map;

typedef struct slc_checkpoint {
    char *dir; /* as given by the user; the path of a pack */
    slc_config cfg;
    slc_file *files; /* [n_files], opened */
    uint32_t n_files;
    slc_weight w[SLC_W_N_MODEL];
    slc_layer_map *layers;  /* [cfg.n_layers] */
    bool norms_are_raw;     /* norm weights lack the folded +1 (input, post, final, q and k norm) */
    bool tied;              /* lm_head is the embedding */
    uint64_t ignored_bytes; /* vision and mtp tensors */
    struct slc_expert_places *places; /* private: see slc_checkpoint_expert */
    struct slc_pack_index *pack;      /* NULL: a folder; see pack_index.h */
} slc_checkpoint;

/* `path` is a folder, or a file in it (config.json, a shard), or a pack, or a folder with nothing
 * but a pack in it. Log lines: files in the folder that
 * the index does not name, side towers skipped with count and bytes, unknown tensors, no stop id.
 */
slc_status slc_checkpoint_open(const char *path, const slc_log *log, slc_checkpoint **out,
                               slc_err *err) SLC_MUST_CHECK;
void slc_checkpoint_close(slc_checkpoint *c);

/* The first of the files that is not as it was when it was opened (slc_file_check), as an error.
 * Any thread; a system call per file. */
slc_status slc_checkpoint_check_files(const slc_checkpoint *c, slc_err *err) SLC_MUST_CHECK;

/* Where part `part` of projection `proj` of an expert lies. Indices must be in range. */
slc_extent slc_checkpoint_expert(const slc_checkpoint *c, uint32_t layer, uint32_t expert, int proj,
                                 int part);
/* Sum of all parts of one expert of a layer (all experts of a layer have the same size). */
uint64_t slc_checkpoint_expert_bytes(const slc_checkpoint *c, uint32_t layer);

/* The one range of a pack that holds all parts of an expert, each at the place
 * slc_checkpoint_expert gives: aligned to 4096, so that one direct read brings the whole expert.
 * bytes == 0 for a folder, whose parts lie apart. */
slc_extent slc_checkpoint_expert_record(const slc_checkpoint *c, uint32_t layer, uint32_t expert);
/* Whether an expert's bytes, as read, are those that were packed; parts that the encoding has not
 * are ignored. True for a folder, which carries no hashes. Any thread; about a millisecond for 10
 * MB. */
bool slc_checkpoint_verify_expert(const slc_checkpoint *c, uint32_t layer, uint32_t expert,
                                  const uint8_t *part[SLC_N_PROJ][SLC_N_PARTS]);

#endif
