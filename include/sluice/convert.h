/* Packs: a checkpoint as one file made for streaming. The bytes of all weights stay as they are, so
 * a pack gives the same logits as the folder it was made from, bit for bit; but each expert is one
 * aligned range, read at once, and carries a hash. slc_model_open takes a pack like a folder.
 *
 * Making one needs a few MiB of memory, whatever the model's size. Any thread; nothing is shared
 * between calls. Nothing here prints or exits. */
#ifndef SLUICE_CONVERT_H
#define SLUICE_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

#include "sluice/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct slc_pack_options {
    bool force;  /* false; replace a pack that is already there */
    bool verify; /* false; read everything back from disk before the file gets its name */
    /* After every few MiB; `what` is "packing" or "verifying". NULL: none. Return false to stop
     * with SLC_E_CANCELLED. */
    bool (*on_progress)(void *user, const char *what, uint64_t done_bytes, uint64_t total_bytes);
    /* Messages, as in slc_model_options. NULL: none. */
    void (*log)(void *user, int level, const char *line);
    void *user;
} slc_pack_options;

SLC_API slc_pack_options slc_pack_options_default(void);

/* Packs the checkpoint folder `model` into the file `out`. It is written as OUT.partial and gets
 * its name when it is complete and on disk; a failure removes it. What a killed process leaves
 * under that name, the next one starts over. Refused before any work: a target that is there
 * (without `force`, or if it is not a pack), and a disk with too little room. A source that changes
 * meanwhile is noticed. */
SLC_API slc_status slc_pack_write(const char *model, const char *out, const slc_pack_options *opt,
                                  slc_err *err) SLC_MUST_CHECK;

/* Reads a whole pack and holds it against its hashes. SLC_E_FORMAT names the first weight or expert
 * that is damaged. `force` and `verify` play no part. */
SLC_API slc_status slc_pack_verify(const char *path, const slc_pack_options *opt,
                                   slc_err *err) SLC_MUST_CHECK;

/* A file that a pack was made from, as it was then. */
typedef struct slc_pack_origin {
    char *name;
    uint64_t bytes;
    int64_t mtime_s; /* since 1970 */
    uint32_t mtime_ns;
    uint64_t header_hash; /* XXH3 of the safetensors header, length included */
} slc_pack_origin;

typedef struct slc_pack_info {
    bool is_pack;     /* false: `path` is no pack, and the rest is zero */
    uint32_t version; /* of the format */
    uint32_t n_layers, n_experts;
    uint64_t file_bytes;
    uint32_t n_origins;
    slc_pack_origin *origins; /* [n_origins] */
} slc_pack_info;

/* What a pack says about itself; reads its tables and texts only. Deinit it in any case. */
SLC_API slc_status slc_pack_inspect(const char *path, slc_pack_info *info,
                                    slc_err *err) SLC_MUST_CHECK;
SLC_API void slc_pack_info_deinit(slc_pack_info *info);

#ifdef __cplusplus
}
#endif
#endif
