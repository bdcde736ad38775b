/* Random checkpoints of real sizes, made so that routing means something.
 *
 * Codes are uniform and the offset of every group is the mean code times the scale, so weights have
 * mean zero: with a common offset all tokens would lean the same way and meet the same experts.
 * Embedding rows have elements of size 1, and what the layers add to the stream is kept small
 * beside them: at every depth the router sees mostly the token, and as both are random, tokens
 * spread over all experts alike. Scales vary by an eighth around the size that keeps a product as
 * large as its input, with random sign: a wider range would make the routers' rows unequally long,
 * and long rows win more often.
 *
 * Everything but the codes is picked from a table of 256 values by a random byte. The stream of a
 * tensor is keyed by its place in the model: a model of fewer layers has the same first layers. */
#include "convert/synth_geometry.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "convert/synth_checkpoint.h"
#include "convert/synth_noise.h"

#define BITS        4u
#define ROUTER_BITS 8u
#define GROUP       64u

/* Sizes of a product's output relative to its input. */
#define BRANCH_GAIN (1.0f / 32) /* of what is added to the stream */
#define ROUTER_GAIN 2.0f        /* logits of deviation 2: weights of a token's experts differ */
#define HEAD_GAIN   3.0f

/* What files are filled from. */
typedef struct recipe {
    const slc_geometry *g;
    uint64_t seed;
} recipe;

/* ---- the models ---- */

static const slc_geometry geometries[] = {
    {"qwen3.5-35b-a3b", 2048, 40, 248320, 248044, 16, 2, 256, 16, 32, 128, 256, 8, 512},
    {"qwen3.5-122b-a10b", 3072, 48, 248320, 248044, 32, 2, 256, 16, 64, 128, 256, 8, 1024},
    {"qwen3.5-397b-a17b", 4096, 60, 248320, 248044, 32, 2, 256, 16, 64, 128, 512, 10, 1024},
};

const char *slc_synth_geometries(void) {
    return "qwen3.5-35b-a3b|qwen3.5-122b-a10b|qwen3.5-397b-a17b";
}

const slc_geometry *slc_geometry_find(const char *name) {
    for (size_t i = 0; i < sizeof(geometries) / sizeof(*geometries); i++)
        if (strcmp(geometries[i].name, name) == 0) return &geometries[i];
    return NULL;
}

/* ---- config.json ---- */

static json_t *layer_types(const slc_geometry *g) {
    json_t *list = json_array();

    for (uint32_t i = 0; i < g->n_layers; i++)
        json_array_append_new(
            list, json_string((i + 1) % 4 == 0 ? "full_attention" : "linear_attention"));
    return list;
}

static json_t *sizes(const slc_geometry *g) {
    return json_pack("{si, si, si, si, si, si, si, si, si, si, si, si, si, si}", //
                     "hidden_size", g->hidden,                                   //
                     "num_hidden_layers", g->n_layers,                           //
                     "vocab_size", g->vocab,                                     //
                     "num_attention_heads", g->n_heads,                          //
                     "num_key_value_heads", g->n_kv_heads,                       //
                     "head_dim", g->head_dim,                                    //
                     "linear_num_key_heads", g->n_key_heads,                     //
                     "linear_num_value_heads", g->n_value_heads,                 //
                     "linear_key_head_dim", g->value_head_dim,                   //
                     "linear_value_head_dim", g->value_head_dim,                 //
                     "num_experts", g->n_experts,                                //
                     "num_experts_per_tok", g->n_experts_per_tok,                //
                     "moe_intermediate_size", g->expert_size,                    //
                     "shared_expert_intermediate_size", g->expert_size);
}

static json_t *family(const slc_geometry *g) {
    return json_pack(
        "{ss, si, si, so, sb, sb, ss, sf, s{ss, si, sf, sb, s[iii]}, si, ss, sb, si, ss}",  //
        "model_type", "qwen3_5_moe_text",                                                   //
        "linear_conv_kernel_dim", 4,                                                        //
        "full_attention_interval", 4,                                                       //
        "layer_types", layer_types(g),                                                      //
        "attn_output_gate", 1,                                                              //
        "attention_bias", 0,                                                                //
        "hidden_act", "silu",                                                               //
        "rms_norm_eps", 1e-6,                                                               //
        "rope_parameters", "rope_type", "default", "rope_theta", 10000000,                  //
        "partial_rotary_factor", 0.25, "mrope_interleaved", 1, "mrope_section", 11, 11, 10, //
        "max_position_embeddings", 262144,                                                  //
        "mamba_ssm_dtype", "float32",                                                       //
        "tie_word_embeddings", 0,                                                           //
        "eos_token_id", g->end_of_text,                                                     //
        "dtype", "bfloat16");
}

static json_t *make_config(const slc_geometry *g) {
    json_t *text = sizes(g), *more = family(g);
    int failed = json_object_update(text, more);

    json_decref(more);
    if (failed) json_decref(text);
    if (failed) return NULL;
    return json_pack("{s[s], ss, so, sb}", "architectures", "Qwen3_5MoeForConditionalGeneration",
                     "model_type", "qwen3_5_moe", "text_config", text, "tie_word_embeddings", 0);
}

static slc_status put_files(void *ctx, const slc_synth_folder *folder, slc_err *err) {
    uint32_t end = ((const recipe *)ctx)->g->end_of_text;

    return slc_synth_put_json(folder, "generation_config.json",
                              json_pack("{si, s[ii], si, sb, sf, si, sf}", //
                                        "bos_token_id", end,               //
                                        "eos_token_id", end + 2, end,      //
                                        "pad_token_id", end,               //
                                        "do_sample", 1,                    //
                                        "temperature", 0.6,                //
                                        "top_k", 20,                       //
                                        "top_p", 0.95),
                              err);
}

/* ---- encodings, as mlx-lm chooses them ---- */

static bool is_layer_weight(slc_synth_id id, slc_layer_weight w) {
    return id.layer != SLC_SYNTH_MODEL && id.which == w;
}

static slc_status encode(void *ctx, slc_synth_weight *w, slc_err *err) {
    slc_matrix_type *t = &w->type;

    (void)ctx;
    if (w->form != SLC_FORM_MATRIX) {
        t->dtype = is_layer_weight(w->id, SLC_W_A_LOG) ? SLC_DTYPE_F32 : SLC_DTYPE_BF16;
        return SLC_OK;
    }
    if (t->cols % GROUP)
        return slc_fail(err, SLC_E_INVALID, "%s: rows of %u weights, expected a multiple of %u",
                        w->module, t->cols, GROUP);
    t->dtype = SLC_DTYPE_U32;
    t->scale_dtype = SLC_DTYPE_BF16;
    t->group = GROUP;
    t->bits = is_layer_weight(w->id, SLC_W_ROUTER) || is_layer_weight(w->id, SLC_W_SHARED_ROUTE)
                  ? ROUTER_BITS
                  : BITS;
    return SLC_OK;
}

/* ---- values ---- */

static uint16_t to_bf16(float x) {
    uint32_t u = slc_f32_bits(x);

    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static float gain_of(const slc_synth_weight *w) {
    if (w->id.layer == SLC_SYNTH_MODEL)
        return w->id.which == SLC_W_EMBED ? sqrtf((float)w->type.cols) : HEAD_GAIN;
    switch (w->id.which) {
    case SLC_W_O:
    case SLC_W_OUT:
    case SLC_W_SHARED_DOWN:
    case SLC_SYNTH_EXPERT + SLC_EXPERT_DOWN: return BRANCH_GAIN;
    case SLC_W_ROUTER: return ROUTER_GAIN;
    default: return 1;
    }
}

/* Scales of a matrix, or the offsets that belong to them. */
static void scale_table(const slc_synth_weight *w, int part, uint16_t table[256]) {
    float n_codes = (float)(1u << w->type.bits), mean = (n_codes - 1) / 2;
    float deviation = sqrtf((n_codes * n_codes - 1) / 12);
    float typical = gain_of(w) / (deviation * sqrtf((float)w->type.cols));

    for (uint32_t i = 0; i < 256; i++) {
        float size = typical * (0.875f + 0.25f * (float)(i >> 1) / 127);
        uint16_t scale = to_bf16(i & 1 ? -size : size);

        table[i] = part == SLC_PART_SCALES ? scale : to_bf16(-mean * slc_f32_from_bf16(scale));
    }
}

/* Values of a vector or of convolution taps: evenly between two ends. */
static void vector_ends(slc_synth_id id, float *low, float *high) {
    *low = 0.9f, *high = 1.1f; /* norms */
    if (is_layer_weight(id, SLC_W_CONV)) *low = -1, *high = 1;
    /* Decay per token from exp(-exp(1.4) softplus(-1)) = 0.28 to exp(-exp(-0.7) softplus(-5)) =
     * 0.997, times what the token itself asks for. */
    if (is_layer_weight(id, SLC_W_A_LOG)) *low = -0.7f, *high = 1.4f;
    if (is_layer_weight(id, SLC_W_DT_BIAS)) *low = -5, *high = -1;
}

static void pick_vector(uint64_t key, const slc_synth_weight *w, uint64_t at, uint8_t *out,
                        size_t n) {
    uint32_t wide[256];
    uint16_t narrow[256];
    float low, high;

    vector_ends(w->id, &low, &high);
    for (uint32_t i = 0; i < 256; i++) {
        float value = low + (high - low) * (float)i / 255;

        wide[i] = slc_f32_bits(value);
        narrow[i] = to_bf16(value);
    }
    if (w->type.dtype == SLC_DTYPE_F32)
        slc_noise_pick32(key, at, wide, out, n);
    else
        slc_noise_pick16(key, at, narrow, out, n);
}

/* A slc_synth_fill_fn; ctx is a recipe. Scales and offsets of a module share a stream, so that each
 * offset meets its scale. */
static slc_status fill(void *ctx, const slc_synth_weight *w, int part, uint64_t row0,
                       uint64_t n_rows, uint8_t *out, slc_err *err) {
    const recipe *r = ctx;
    uint64_t row_bytes = slc_matrix_row_bytes(&w->type, part);
    uint64_t off = row0 * row_bytes, n = n_rows * row_bytes;
    uint32_t bytes = slc_synth_part_width(w, part);
    uint32_t place[] = {w->id.layer, w->id.which, part != SLC_PART_W};
    uint64_t key = slc_noise_key(r->seed, place, 3);
    uint16_t table[256];

    (void)err;
    if (w->form != SLC_FORM_MATRIX) {
        pick_vector(key, w, off / bytes, out, n / bytes);
    } else if (part == SLC_PART_W) {
        slc_noise_fill(key, off, out, n);
    } else {
        scale_table(w, part, table);
        slc_noise_pick16(key, off / bytes, table, out, n / bytes);
    }
    return SLC_OK;
}

/* ---- writing ---- */

/* The sizes as the readers will see them: config.json is the only statement of them. */
static slc_status parse(const json_t *config, slc_config *cfg, slc_err *err) {
    char *text = json_dumps(config, JSON_COMPACT);
    slc_quant_claims *claims = NULL;
    slc_status rc;

    if (!text) return slc_fail(err, SLC_E_NOMEM, "no memory for config.json");
    rc = slc_config_parse(text, strlen(text), "config.json", cfg, &claims, err);
    slc_quant_claims_free(claims);
    free(text);
    return rc;
}

slc_status slc_geometry_plan(const slc_geometry *g, json_t **config, slc_config *cfg,
                             slc_synth_plan *plan, slc_err *err) {
    slc_status rc;

    *plan = (slc_synth_plan){0};
    if (!(*config = make_config(g)))
        return slc_fail(err, SLC_E_NOMEM, "%s: no memory for its config.json", g->name);
    if ((rc = parse(*config, cfg, err))) return rc;
    return slc_synth_plan_init(plan, cfg, encode, NULL, err);
}

slc_status slc_geometry_write(const slc_geometry *g, const char *out, const slc_synth_options *opt,
                              slc_synth_result *result, slc_err *err) {
    slc_config *cfg = slc_calloc(1, sizeof(*cfg));
    slc_synth_plan plan;
    recipe from = {g, opt->seed};
    slc_synth_job job = {.out = out,
                         .plan = &plan,
                         .fill = fill,
                         .ctx = &from,
                         .put_files = put_files,
                         .measure_routing = true,
                         .opt = opt};
    slc_status rc;

    if (!cfg) return slc_fail(err, SLC_E_NOMEM, "%s: no memory for its sizes", g->name);
    rc = slc_geometry_plan(g, &job.config, cfg, &plan, err);
    if (!rc) rc = slc_synth_checkpoint(&job, result, err);
    slc_synth_plan_deinit(&plan);
    json_decref(job.config);
    free(cfg);
    return rc;
}

slc_status slc_synth_geometry(const char *name, uint32_t n_layers, const char *out,
                              const slc_synth_options *opt, slc_synth_result *result,
                              slc_err *err) {
    const slc_geometry *known = slc_geometry_find(name);
    slc_geometry g;

    if (!known)
        return slc_fail(err, SLC_E_INVALID, "geometry '%s' is unknown, expected one of %s", name,
                        slc_synth_geometries());
    g = *known;
    if (n_layers > g.n_layers)
        return slc_fail(err, SLC_E_INVALID, "%s has %u layers, %u were asked for", name, g.n_layers,
                        n_layers);
    if (n_layers) g.n_layers = n_layers;
    return slc_geometry_write(&g, out, opt, result, err);
}
