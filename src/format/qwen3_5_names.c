/* One table says everything about names and shapes; the loader has no other knowledge of them.
 * Exporters agree on names below a prefix and disagree on the prefix, so names are compared without
 * it. */
#include "format/qwen3_5_names.h"

#include <stddef.h>
#include <string.h>

/* Sizes that shapes are made of. */
typedef enum dim {
    ONE,
    HIDDEN,     /* H */
    VOCAB,      /* V */
    Q_AND_GATE, /* nh * 2 * hd */
    KV,         /* nkv * hd */
    ATTN,       /* nh * hd */
    HEAD,       /* hd */
    CONV,       /* conv_dim */
    TAPS,
    VALUES, /* VH * dv */
    VALUE_HEADS,
    VALUE_DIM, /* dv */
    DENSE_FF,  /* F */
    EXPERTS,   /* E */
    SHARED_FF, /* Is */
} dim;

static uint32_t dim_size(const slc_config *c, dim d) {
    switch (d) {
    case ONE: return 1;
    case HIDDEN: return c->hidden_size;
    case VOCAB: return c->vocab_size;
    case Q_AND_GATE: return c->n_heads * 2 * c->head_dim;
    case KV: return c->n_kv_heads * c->head_dim;
    case ATTN: return c->n_heads * c->head_dim;
    case HEAD: return c->head_dim;
    case CONV: return slc_config_conv_dim(c);
    case TAPS: return c->conv_kernel;
    case VALUES: return c->n_value_heads * c->value_head_dim;
    case VALUE_HEADS: return c->n_value_heads;
    case VALUE_DIM: return c->value_head_dim;
    case DENSE_FF: return c->intermediate_size;
    case EXPERTS: return c->n_experts;
    case SHARED_FF: return c->shared_expert_size;
    }
    return 0;
}

typedef enum where { EVERY, FULL, GDN, DENSE, MOE } where;

typedef struct row {
    const char *name;
    slc_weight_form form;
    dim rows, cols;
    where where;
} row;

static const row layer_rows[SLC_W_N_LAYER] = {
    [SLC_W_INPUT_NORM] = {"input_layernorm.weight", SLC_FORM_VECTOR, ONE, HIDDEN, EVERY},
    [SLC_W_POST_NORM] = {"post_attention_layernorm.weight", SLC_FORM_VECTOR, ONE, HIDDEN, EVERY},
    [SLC_W_Q] = {"self_attn.q_proj", SLC_FORM_MATRIX, Q_AND_GATE, HIDDEN, FULL},
    [SLC_W_K] = {"self_attn.k_proj", SLC_FORM_MATRIX, KV, HIDDEN, FULL},
    [SLC_W_V] = {"self_attn.v_proj", SLC_FORM_MATRIX, KV, HIDDEN, FULL},
    [SLC_W_O] = {"self_attn.o_proj", SLC_FORM_MATRIX, HIDDEN, ATTN, FULL},
    [SLC_W_Q_NORM] = {"self_attn.q_norm.weight", SLC_FORM_VECTOR, ONE, HEAD, FULL},
    [SLC_W_K_NORM] = {"self_attn.k_norm.weight", SLC_FORM_VECTOR, ONE, HEAD, FULL},
    [SLC_W_QKV] = {"linear_attn.in_proj_qkv", SLC_FORM_MATRIX, CONV, HIDDEN, GDN},
    [SLC_W_Z] = {"linear_attn.in_proj_z", SLC_FORM_MATRIX, VALUES, HIDDEN, GDN},
    [SLC_W_B] = {"linear_attn.in_proj_b", SLC_FORM_MATRIX, VALUE_HEADS, HIDDEN, GDN},
    [SLC_W_A] = {"linear_attn.in_proj_a", SLC_FORM_MATRIX, VALUE_HEADS, HIDDEN, GDN},
    [SLC_W_CONV] = {"linear_attn.conv1d.weight", SLC_FORM_CONV, CONV, TAPS, GDN},
    [SLC_W_A_LOG] = {"linear_attn.A_log", SLC_FORM_VECTOR, ONE, VALUE_HEADS, GDN},
    [SLC_W_DT_BIAS] = {"linear_attn.dt_bias", SLC_FORM_VECTOR, ONE, VALUE_HEADS, GDN},
    [SLC_W_GDN_NORM] = {"linear_attn.norm.weight", SLC_FORM_VECTOR, ONE, VALUE_DIM, GDN},
    [SLC_W_OUT] = {"linear_attn.out_proj", SLC_FORM_MATRIX, HIDDEN, VALUES, GDN},
    [SLC_W_GATE] = {"mlp.gate_proj", SLC_FORM_MATRIX, DENSE_FF, HIDDEN, DENSE},
    [SLC_W_UP] = {"mlp.up_proj", SLC_FORM_MATRIX, DENSE_FF, HIDDEN, DENSE},
    [SLC_W_DOWN] = {"mlp.down_proj", SLC_FORM_MATRIX, HIDDEN, DENSE_FF, DENSE},
    [SLC_W_ROUTER] = {"mlp.gate", SLC_FORM_MATRIX, EXPERTS, HIDDEN, MOE},
    [SLC_W_SHARED_GATE] = {"mlp.shared_expert.gate_proj", SLC_FORM_MATRIX, SHARED_FF, HIDDEN, MOE},
    [SLC_W_SHARED_UP] = {"mlp.shared_expert.up_proj", SLC_FORM_MATRIX, SHARED_FF, HIDDEN, MOE},
    [SLC_W_SHARED_DOWN] = {"mlp.shared_expert.down_proj", SLC_FORM_MATRIX, HIDDEN, SHARED_FF, MOE},
    [SLC_W_SHARED_ROUTE] = {"mlp.shared_expert_gate", SLC_FORM_MATRIX, ONE, HIDDEN, MOE},
};

static const row model_rows[SLC_W_N_MODEL] = {
    [SLC_W_EMBED] = {"embed_tokens", SLC_FORM_MATRIX, VOCAB, HIDDEN, EVERY},
    [SLC_W_FINAL_NORM] = {"norm.weight", SLC_FORM_VECTOR, ONE, HIDDEN, EVERY},
    [SLC_W_LM_HEAD] = {"lm_head", SLC_FORM_MATRIX, VOCAB, HIDDEN, EVERY},
};

static void fill(const slc_config *cfg, const row *r, slc_weight_spec *out) {
    *out = (slc_weight_spec){
        .name = r->name,
        .form = r->form,
        .rows = dim_size(cfg, r->rows),
        .cols = dim_size(cfg, r->cols),
    };
}

bool slc_layer_weight_spec(const slc_config *cfg, uint32_t layer, slc_layer_weight w,
                           slc_weight_spec *out) {
    const row *r = &layer_rows[w];
    bool full = cfg->layer_kind[layer] == SLC_LAYER_FULL, moe = slc_config_is_moe(cfg);

    if (r->where == (full ? GDN : FULL) || r->where == (moe ? DENSE : MOE)) return false;
    fill(cfg, r, out);
    return true;
}

void slc_model_weight_spec(const slc_config *cfg, slc_model_weight w, slc_weight_spec *out) {
    fill(cfg, &model_rows[w], out);
}

const char *const slc_expert_proj_names[SLC_N_PROJ] = {
    [SLC_EXPERT_GATE] = "gate_proj",
    [SLC_EXPERT_UP] = "up_proj",
    [SLC_EXPERT_DOWN] = "down_proj",
};

void slc_expert_proj_shape(const slc_config *cfg, int proj, uint32_t *rows, uint32_t *cols) {
    bool down = proj == SLC_EXPERT_DOWN;

    *rows = down ? cfg->hidden_size : cfg->expert_size;
    *cols = down ? cfg->expert_size : cfg->hidden_size;
}

static const char *after(const char *name, const char *prefix) {
    size_t n = strlen(prefix);

    return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

const char *slc_name_strip_prefix(const char *name) {
    static const char *const prefixes[] = {"language_model.model.", "model.language_model.",
                                           "language_model.", "model."};

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
        const char *rest = after(name, prefixes[i]);

        if (rest) return rest;
    }
    return name;
}

bool slc_name_is_side_tower(const char *name) {
    static const char *const towers[] = {"visual.", "vision_tower.", "vision_model.", "mtp."};

    for (size_t i = 0; i < sizeof(towers) / sizeof(*towers); i++)
        if (after(name, towers[i])) return true;
    return false;
}
