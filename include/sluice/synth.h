/* Synthetic checkpoints, for measuring: real sizes without a download.
 *
 *   geometry  random weights in the shapes, names and files of an MLX 4-bit conversion of a Qwen3.5
 *             model. Its text is noise; its routing follows the token and spreads over all experts,
 *             the worst case for a cache.
 *   inflate   a trained checkpoint with wider rows whose new channels contribute exactly nothing:
 *             the same logits to the last bit, the same routing, and real expert sizes.
 *
 * Both are deterministic: the same arguments give the same bytes. A folder appears under its name
 * only when it is complete; until then it is OUT.partial, which a failure removes and the next run
 * overwrites. Any thread; nothing is shared between calls. */
#ifndef SLUICE_SYNTH_H
#define SLUICE_SYNTH_H

#include <stdbool.h>
#include <stdint.h>

#include "sluice/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct slc_synth_options {
    uint64_t seed;        /* 0 */
    uint64_t shard_bytes; /* 5 GiB, as MLX writes them; a larger tensor has a shard of its own */
    /* After every few MiB. NULL: none. Return false to stop with SLC_E_CANCELLED. */
    bool (*on_progress)(void *user, uint64_t done_bytes, uint64_t total_bytes);
    void *user;
} slc_synth_options;

SLC_API slc_synth_options slc_synth_options_default(void);

/* Where uniformly drawn token ids go in the first layer, by its router and their embedding rows. */
typedef struct slc_synth_routing {
    uint32_t n_tokens; /* drawn */
    uint32_t n_experts, n_experts_per_tok;
    uint32_t n_used;     /* experts chosen at least once */
    double entropy_bits; /* of the share that each expert has; log2(n_experts) if all are equal */
    double busiest;      /* choices of the most chosen expert, relative to the mean */
} slc_synth_routing;

typedef struct slc_synth_result {
    uint64_t bytes; /* of all weights */
    uint32_t n_files;
    uint64_t write_ns;         /* until everything was on disk */
    slc_synth_routing routing; /* zero for a dense model */
} slc_synth_result;

/* The names that slc_synth_geometry takes: "qwen3.5-35b-a3b|qwen3.5-122b-a10b|...". */
SLC_API const char *slc_synth_geometries(void);

/* n_layers: 0 for all, else the first so many. `out` must not exist, or be an empty folder. */
SLC_API slc_status slc_synth_geometry(const char *name, uint32_t n_layers, const char *out,
                                      const slc_synth_options *opt, slc_synth_result *result,
                                      slc_err *err) SLC_MUST_CHECK;

/* `dir`: a checkpoint whose matrices are in MLX's affine encoding and whose norms are folded.
 * hidden: the new hidden size, 4, 16, 64, ... times the old one, so that the square root of the
 * ratio is a power of two; 0: the old one. expert_hidden: the new width of an expert, shared ones
 * included; 0: the old one; SLC_E_INVALID for a dense model. The tokenizer's files are copied. */
SLC_API slc_status slc_synth_inflate(const char *dir, uint32_t hidden, uint32_t expert_hidden,
                                     const char *out, const slc_synth_options *opt,
                                     slc_synth_result *result, slc_err *err) SLC_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
