/* config.json to slc_config.
 *
 * Two styles exist: text settings nested under "text_config", or flat at top level. Whatever the
 * engine computes differently from what a field asks for is refused here by name: nothing in this
 * file is read and then ignored. Fields that only concern training or the vision tower are never
 * looked at. */
#include "format/config.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "format/config_parts.h"
#include "format/quant_claims.h"

/* ---- integer fields ---- */

enum { REQUIRED = 0 }; /* as a default: there is none */

typedef enum who { FOR_ALL, FOR_DENSE, FOR_MOE } who;

/* The upper bounds are far above any real model and keep every product of two of them, and
 * conv_dim, inside 32 bits. */
static const struct int_field {
    const char *key;
    size_t at;
    uint32_t min, max, otherwise;
    who who;
} int_fields[] = {
    {"hidden_size", offsetof(slc_config, hidden_size), 1, 1u << 16, REQUIRED, FOR_ALL},
    {"num_hidden_layers", offsetof(slc_config, n_layers), 1, SLC_MAX_LAYERS, REQUIRED, FOR_ALL},
    {"vocab_size", offsetof(slc_config, vocab_size), 1, 1u << 24, REQUIRED, FOR_ALL},
    {"max_position_embeddings", offsetof(slc_config, max_positions), 1, 1u << 30, REQUIRED,
     FOR_ALL},
    {"num_attention_heads", offsetof(slc_config, n_heads), 1, 4096, REQUIRED, FOR_ALL},
    {"num_key_value_heads", offsetof(slc_config, n_kv_heads), 1, 4096, REQUIRED, FOR_ALL},
    {"head_dim", offsetof(slc_config, head_dim), 2, 4096, 256, FOR_ALL},
    {"linear_num_key_heads", offsetof(slc_config, n_key_heads), 1, 4096, REQUIRED, FOR_ALL},
    {"linear_num_value_heads", offsetof(slc_config, n_value_heads), 1, 4096, REQUIRED, FOR_ALL},
    {"linear_key_head_dim", offsetof(slc_config, key_head_dim), 1, 4096, REQUIRED, FOR_ALL},
    {"linear_value_head_dim", offsetof(slc_config, value_head_dim), 1, 4096, REQUIRED, FOR_ALL},
    /* one tap would be no convolution, and its stored shape could not tell raw from folded norms */
    {"linear_conv_kernel_dim", offsetof(slc_config, conv_kernel), 2, SLC_MAX_CONV_TAPS, 4, FOR_ALL},
    {"intermediate_size", offsetof(slc_config, intermediate_size), 1, 1u << 20, REQUIRED,
     FOR_DENSE},
    {"num_experts_per_tok", offsetof(slc_config, n_experts_per_tok), 1, 1u << 16, REQUIRED,
     FOR_MOE},
    {"moe_intermediate_size", offsetof(slc_config, expert_size), 1, 1u << 20, REQUIRED, FOR_MOE},
    {"shared_expert_intermediate_size", offsetof(slc_config, shared_expert_size), 1, 1u << 20,
     REQUIRED, FOR_MOE},
};

static slc_status read_int(const slc_object *text, const struct int_field *f, slc_config *cfg,
                           slc_err *err) {
    uint32_t *out = (uint32_t *)(void *)((char *)cfg + f->at);

    *out = f->otherwise;
    if (f->otherwise == REQUIRED && !slc_object_get(text, f->key))
        return slc_object_bad(text, f->key, SLC_E_FORMAT, "an integer", err);
    return slc_object_u32(text, f->key, f->min, f->max, out, err);
}

static slc_status read_ints(const slc_object *text, slc_config *cfg, slc_err *err) {
    slc_status rc = slc_object_u32(text, "num_experts", 0, 1u << 16, &cfg->n_experts, err);

    for (size_t i = 0; !rc && i < sizeof(int_fields) / sizeof(*int_fields); i++) {
        const struct int_field *f = &int_fields[i];

        if (f->who == (slc_config_is_moe(cfg) ? FOR_DENSE : FOR_MOE)) continue;
        rc = read_int(text, f, cfg, err);
    }
    return rc;
}

/* ---- fields with one supported value ---- */

static const struct fixed_field {
    const char *key;
    const char *accepted[2]; /* compact JSON text; absent is accepted too */
} fixed_fields[] = {
    {"hidden_act", {"\"silu\"", NULL}},      {"attention_bias", {"false", NULL}},
    {"attn_output_gate", {"true", NULL}},    {"norm_topk_prob", {"true", NULL}},
    {"mlp_only_layers", {"[]", NULL}},       {"decoder_sparse_step", {"1", NULL}},
    {"use_sliding_window", {"false", NULL}}, {"output_gate_type", {"\"silu\"", "\"swish\""}},
};

static slc_status check_fixed(const slc_object *o, const struct fixed_field *f, slc_err *err) {
    const json_t *v = slc_object_get(o, f->key);
    char text[80], expected[80];

    if (!v) return SLC_OK;
    slc_json_text(v, text, sizeof(text));
    for (int i = 0; i < 2; i++)
        if (f->accepted[i] && strcmp(text, f->accepted[i]) == 0) return SLC_OK;
    snprintf(expected, sizeof(expected), "%s%s%s", f->accepted[0], f->accepted[1] ? " or " : "",
             f->accepted[1] ? f->accepted[1] : "");
    return slc_object_bad(o, f->key, SLC_E_UNSUPPORTED, expected, err);
}

/* ---- architecture, layers, rotary embedding ---- */

static slc_status read_model_type(const slc_object *top, const slc_object *text, slc_config *cfg,
                                  slc_err *err) {
    const slc_object *from = slc_object_get(top, "model_type") ? top : text;
    const char *type = "";
    size_t n;
    slc_status rc;

    if ((rc = slc_object_string(from, "model_type", &type, err))) return rc;
    n = strlen(type);
    if (n > 5 && strcmp(type + n - 5, "_text") == 0) n -= 5;
    if (n < sizeof(cfg->model_type)) memcpy(cfg->model_type, type, n);
    if (strcmp(cfg->model_type, "qwen3_5_moe") != 0 && strcmp(cfg->model_type, "qwen3_5") != 0)
        return slc_object_bad(from, "model_type", SLC_E_UNSUPPORTED,
                              "\"qwen3_5_moe\" or \"qwen3_5\"", err);
    return SLC_OK;
}

static slc_status read_layer_list(const slc_object *text, const json_t *list, slc_config *cfg,
                                  slc_err *err) {
    char value[80];

    if (!json_is_array(list) || json_array_size(list) != cfg->n_layers)
        return slc_fail(err, SLC_E_FORMAT, "%s: %slayer_types has %zu entries, expected %u",
                        text->file, text->path, json_array_size(list), cfg->n_layers);
    for (uint32_t i = 0; i < cfg->n_layers; i++) {
        const json_t *v = json_array_get(list, i);
        const char *kind = json_is_string(v) ? json_string_value(v) : "";

        if (strcmp(kind, "full_attention") == 0)
            cfg->layer_kind[i] = SLC_LAYER_FULL;
        else if (strcmp(kind, "linear_attention") == 0)
            cfg->layer_kind[i] = SLC_LAYER_GDN;
        else
            return slc_fail(err, SLC_E_UNSUPPORTED,
                            "%s: %slayer_types[%u] is %s, expected \"linear_attention\" or "
                            "\"full_attention\"",
                            text->file, text->path, i, slc_json_text(v, value, sizeof(value)));
    }
    return SLC_OK;
}

static slc_status read_layers(const slc_object *text, slc_config *cfg, slc_err *err) {
    const json_t *list = slc_object_get(text, "layer_types");
    uint32_t interval = 4;
    slc_status rc;

    if (list) return read_layer_list(text, list, cfg, err);
    rc = slc_object_u32(text, "full_attention_interval", 1, SLC_MAX_LAYERS, &interval, err);
    for (uint32_t i = 0; i < cfg->n_layers; i++)
        cfg->layer_kind[i] = (i + 1) % interval == 0 ? SLC_LAYER_FULL : SLC_LAYER_GDN;
    return rc;
}

/* rope_theta and partial_rotary_factor have lived in six places over time. The first that has a
 * value wins: rope_parameters, rope_scaling, the object itself; text level before top level. */
enum { N_ROPE_PLACES = 6 };

static slc_status rope_places(const slc_object *top, const slc_object *text,
                              slc_object places[N_ROPE_PLACES], slc_err *err) {
    static const struct fixed_field rope_type = {"rope_type", {"\"default\"", NULL}},
                                    old_type = {"type", {"\"default\"", NULL}};
    const slc_object *levels[2] = {text, top};
    slc_status rc;

    for (int i = 0; i < 2; i++) {
        slc_object *p = places + (size_t)i * 3;

        if ((rc = slc_object_child(levels[i], "rope_parameters", &p[0], err))) return rc;
        if ((rc = slc_object_child(levels[i], "rope_scaling", &p[1], err))) return rc;
        p[2] = *levels[i];
        for (int k = 0; k < 2; k++) {
            if ((rc = check_fixed(&p[k], &rope_type, err))) return rc;
            if ((rc = check_fixed(&p[k], &old_type, err))) return rc;
        }
    }
    return SLC_OK;
}

static slc_status read_rope(const slc_object *top, const slc_object *text, slc_config *cfg,
                            slc_err *err) {
    slc_object places[N_ROPE_PLACES];
    double partial = 0.25;
    slc_status rc;

    if ((rc = rope_places(top, text, places, err))) return rc;
    cfg->rope_theta = 1e7;
    for (int i = N_ROPE_PLACES - 1; i >= 0; i--) { /* backwards: the first place is read last */
        if ((rc = slc_object_double(&places[i], "rope_theta", 1, 1e15, &cfg->rope_theta, err)))
            return rc;
        if ((rc = slc_object_double(&places[i], "partial_rotary_factor", 0, 1, &partial, err)))
            return rc;
    }
    cfg->rope_dims = (uint32_t)(cfg->head_dim * partial);
    if (cfg->rope_dims == 0 || cfg->rope_dims % 2)
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: partial_rotary_factor %g of head_dim %u is %u rotary dimensions, "
                        "expected an even number above 0",
                        text->file, partial, cfg->head_dim, cfg->rope_dims);
    return SLC_OK;
}

/* ---- the rest, and what fields must have in common ---- */

static slc_status read_rest(const slc_object *top, const slc_object *text, slc_config *cfg,
                            slc_err *err) {
    double eps = 1e-6;
    slc_status rc;

    if ((rc = slc_object_double(text, "rms_norm_eps", 1e-20, 1, &eps, err))) return rc;
    cfg->rms_eps = (float)eps;
    /* text level last: it wins */
    if ((rc = slc_object_bool(top, "tie_word_embeddings", &cfg->tie_embeddings, err))) return rc;
    if ((rc = slc_object_bool(text, "tie_word_embeddings", &cfg->tie_embeddings, err))) return rc;
    if ((rc = slc_config_add_stop_ids(cfg, top, err))) return rc;
    if ((rc = slc_config_add_stop_ids(cfg, text, err))) return rc;
    cfg->temperature = cfg->top_p = cfg->min_p = -1;
    cfg->repeat_penalty = cfg->presence_penalty = -1;
    cfg->top_k = -1;
    cfg->do_sample = -1;
    return SLC_OK;
}

static slc_status check_together(const slc_config *cfg, const char *file, slc_err *err) {
    if (cfg->n_heads % cfg->n_kv_heads)
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: num_attention_heads %u is no multiple of num_key_value_heads %u", file,
                        cfg->n_heads, cfg->n_kv_heads);
    if (cfg->n_value_heads % cfg->n_key_heads)
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: linear_num_value_heads %u is no multiple of linear_num_key_heads %u",
                        file, cfg->n_value_heads, cfg->n_key_heads);
    if (cfg->n_experts_per_tok > cfg->n_experts)
        return slc_fail(err, SLC_E_FORMAT, "%s: num_experts_per_tok %u is above num_experts %u",
                        file, cfg->n_experts_per_tok, cfg->n_experts);
    return SLC_OK;
}

static slc_status read_claims(const slc_object *top, const slc_object *text,
                              slc_quant_claims **quant, slc_err *err) {
    const slc_object *levels[2] = {top, text};
    static const char *const keys[2] = {"quantization", "quantization_config"};
    slc_object block;
    slc_status rc;

    for (int i = 0; i < 4; i++) {
        if ((rc = slc_object_child(levels[i / 2], keys[i % 2], &block, err))) return rc;
        if (block.json) return slc_quant_claims_parse(&block, quant, err);
    }
    return SLC_OK;
}

static slc_status read_config(const slc_object *top, slc_config *cfg, slc_quant_claims **quant,
                              slc_err *err) {
    slc_object text;
    slc_status rc;

    if ((rc = slc_object_child(top, "text_config", &text, err))) return rc;
    if (!text.json) text = *top;
    if ((rc = read_model_type(top, &text, cfg, err))) return rc;
    for (size_t i = 0; i < sizeof(fixed_fields) / sizeof(*fixed_fields); i++)
        if ((rc = check_fixed(&text, &fixed_fields[i], err))) return rc;
    if ((rc = read_ints(&text, cfg, err))) return rc;
    if ((rc = read_layers(&text, cfg, err))) return rc;
    if ((rc = read_rope(top, &text, cfg, err))) return rc;
    if ((rc = read_rest(top, &text, cfg, err))) return rc;
    if ((rc = check_together(cfg, top->file, err))) return rc;
    return read_claims(top, &text, quant, err);
}

slc_status slc_config_parse(const char *json, size_t n, const char *name, slc_config *cfg,
                            slc_quant_claims **quant, slc_err *err) {
    json_t *root;
    slc_object top;
    slc_status rc;

    *cfg = (slc_config){0};
    *quant = NULL;
    if ((rc = slc_object_load(json, n, name, &root, &top, err))) return rc;
    rc = read_config(&top, cfg, quant, err);
    json_decref(root);
    return rc;
}
