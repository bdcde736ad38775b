/* What a model is: the facts of config.json and generation_config.json, with the family's defaults
 * filled in and every value checked. Immutable after load. Source: docs/architecture.md, "Config".
 */
#ifndef SLC_FORMAT_CONFIG_H
#define SLC_FORMAT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "sluice/status.h"

#define SLC_MAX_LAYERS    1024u
#define SLC_MAX_CONV_TAPS 64u
#define SLC_MAX_STOP_IDS  16u

typedef enum slc_layer_kind { SLC_LAYER_GDN = 0, SLC_LAYER_FULL = 1 } slc_layer_kind;

typedef struct slc_config {
    char model_type[64];                /* "qwen3_5_moe", "qwen3_5" */
    uint32_t hidden_size;               /* H */
    uint32_t n_layers;                  /* L */
    uint8_t layer_kind[SLC_MAX_LAYERS]; /* slc_layer_kind */
    uint32_t vocab_size;                /* V, rows of the embedding */
    uint32_t max_positions;
    float rms_eps;
    bool tie_embeddings;
    /* full attention */
    uint32_t n_heads, n_kv_heads, head_dim; /* nh, nkv, hd */
    uint32_t rope_dims; /* rotary dims of a head: head_dim * partial_rotary_factor, even */
    double rope_theta;
    /* Gated DeltaNet */
    uint32_t n_key_heads, n_value_heads;   /* KH, VH; VH a multiple of KH */
    uint32_t key_head_dim, value_head_dim; /* dk, dv */
    uint32_t conv_kernel;                  /* taps */
    /* feed-forward: dense when n_experts is 0 */
    uint32_t intermediate_size;               /* F, dense */
    uint32_t n_experts, n_experts_per_tok;    /* E, K */
    uint32_t expert_size, shared_expert_size; /* I, Is */
    /* stop ids: union of config (both levels) and generation_config, in that order, no repeats */
    uint32_t n_stop_ids;
    int32_t stop_ids[SLC_MAX_STOP_IDS];
    /* sampling defaults of generation_config.json; negative: not given */
    float temperature, top_p, min_p, repeat_penalty, presence_penalty;
    int32_t top_k;
    int8_t do_sample; /* 0, 1; -1: not given */
} slc_config;

/* Per-module quantisation settings of the "quantization" block: what the file claims, to be held
 * against the tensor shapes. Lookup strips the accepted prefixes (language_model.model.,
 * model.language_model., language_model., model.) from keys. */
typedef struct slc_quant_claims slc_quant_claims;
/* False: no quantization block at all. `module` is a path without prefix ("layers.0.mlp.gate").
 * *bits = 0: the block says "not quantised" for it. */
bool slc_quant_claims_get(const slc_quant_claims *q, const char *module, uint32_t *bits,
                          uint32_t *group);
void slc_quant_claims_free(slc_quant_claims *q);

/* Parses config.json text (nested or flat). `name` is for messages. *quant may be NULL out when the
 * file has no quantization block. Unknown architectures are SLC_E_UNSUPPORTED. */
slc_status slc_config_parse(const char *json, size_t n, const char *name, slc_config *cfg,
                            slc_quant_claims **quant, slc_err *err) SLC_MUST_CHECK;
/* Adds stop ids and sampling defaults of generation_config.json. */
slc_status slc_config_parse_generation(const char *json, size_t n, const char *name,
                                       slc_config *cfg, slc_err *err) SLC_MUST_CHECK;

/* conv_dim = 2 * KH * dk + VH * dv */
static inline uint32_t slc_config_conv_dim(const slc_config *c) {
    return 2 * c->n_key_heads * c->key_head_dim + c->n_value_heads * c->value_head_dim;
}
static inline bool slc_config_is_moe(const slc_config *c) {
    return c->n_experts != 0;
}

#endif
