/* config.json, generation_config.json and the quantization block, on memory alone. Cases are small
 * changes to one valid file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/config.h"

/* %s: more top-level members; %s: more members of text_config */
static const char nested[] =
    "{\"model_type\":\"qwen3_5_moe\"%s,\"text_config\":{\"model_type\":\"qwen3_5_moe_text\","
    "\"hidden_size\":2048,\"num_hidden_layers\":8,\"num_attention_heads\":16,"
    "\"num_key_value_heads\":2,\"linear_num_key_heads\":16,\"linear_num_value_heads\":32,"
    "\"linear_key_head_dim\":128,\"linear_value_head_dim\":128,\"num_experts\":256,"
    "\"num_experts_per_tok\":8,\"moe_intermediate_size\":512,"
    "\"shared_expert_intermediate_size\":512,\"vocab_size\":248320,"
    "\"max_position_embeddings\":262144%s}}";

static char *text_of(const char *top, const char *text) {
    size_t cap = sizeof(nested) + strlen(top) + strlen(text);
    char *json = malloc(cap);

    snprintf(json, cap, nested, top, text);
    return json;
}

static slc_status parse(const char *json, slc_config *cfg, slc_quant_claims **q, slc_err *err) {
    size_t n = strlen(json);
    char *copy = malloc(n ? n : 1);
    slc_status rc;

    memcpy(copy, json, n);
    *err = (slc_err){0};
    rc = slc_config_parse(copy, n, "c.json", cfg, q, err);
    free(copy);
    assert_int_equal(rc, err->code);
    return rc;
}

static void accept(const char *top, const char *text, slc_config *cfg, slc_quant_claims **q) {
    char *json = text_of(top, text);
    slc_err err;

    if (parse(json, cfg, q, &err)) fail_msg("%s %s: %s", top, text, err.msg);
    free(json);
}

static void refuse_json(const char *json, slc_status code, const char *says) {
    slc_config cfg;
    slc_quant_claims *q;
    slc_err err;

    if (parse(json, &cfg, &q, &err) != code)
        fail_msg("%s: got %d (%s), expected %d", json, err.code, err.msg, code);
    if (!strstr(err.msg, says)) fail_msg("\"%s\" does not say \"%s\"", err.msg, says);
    assert_null(q);
}

static void refuse(const char *top, const char *text, slc_status code, const char *says) {
    char *json = text_of(top, text);

    refuse_json(json, code, says);
    free(json);
}

/* The valid file with `from` replaced. */
static void refuse_changed(const char *from, const char *to, slc_status code, const char *says) {
    char *json = text_of("", ""), changed[2048];
    size_t at;

    if (!strstr(json, from)) fail_msg("no %s in the file", from);
    at = (size_t)(strstr(json, from) - json);
    snprintf(changed, sizeof(changed), "%.*s%s%s", (int)at, json, to, json + at + strlen(from));
    refuse_json(changed, code, says);
    free(json);
}

/* ---- values ---- */

static void missing_fields_get_the_family_defaults(void **state) {
    slc_config c;
    slc_quant_claims *q;

    accept("", "", &c, &q);
    assert_null(q);
    assert_string_equal(c.model_type, "qwen3_5_moe");
    assert_int_equal(c.hidden_size, 2048);
    assert_int_equal(c.n_layers, 8);
    assert_int_equal(c.head_dim, 256);
    assert_int_equal(c.rope_dims, 64);
    assert_true(c.rope_theta == 1e7);
    assert_true(c.rms_eps == 1e-6f);
    assert_int_equal(c.conv_kernel, 4);
    assert_int_equal(slc_config_conv_dim(&c), 8192);
    assert_false(c.tie_embeddings);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(c.layer_kind[i], i % 4 == 3 ? SLC_LAYER_FULL : SLC_LAYER_GDN);
    assert_int_equal(c.n_stop_ids, 0);
    assert_int_equal(c.top_k, -1);
    assert_int_equal(c.do_sample, -1);
    assert_true(c.temperature < 0 && c.top_p < 0 && c.min_p < 0);
    assert_true(c.repeat_penalty < 0 && c.presence_penalty < 0);
}

static void nulls_are_as_good_as_missing(void **state) {
    slc_config c;
    slc_quant_claims *q;

    accept(",\"eos_token_id\":null,\"quantization\":null",
           ",\"head_dim\":null,\"rope_scaling\":null,\"layer_types\":null,\"hidden_act\":null", &c,
           &q);
    assert_int_equal(c.head_dim, 256);
    assert_null(q);
}

static void flat_dense_file_is_read(void **state) {
    slc_config c;
    slc_quant_claims *q;
    slc_err err;

    if (parse("{\"model_type\":\"qwen3_5_text\",\"hidden_size\":1024,\"num_hidden_layers\":4,"
              "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"linear_num_key_heads\":16,"
              "\"linear_num_value_heads\":16,\"linear_key_head_dim\":128,"
              "\"linear_value_head_dim\":128,\"intermediate_size\":3584,\"vocab_size\":248320,"
              "\"max_position_embeddings\":4096,\"tie_word_embeddings\":true,"
              "\"full_attention_interval\":2,\"eos_token_id\":[5,6,5]}",
              &c, &q, &err))
        fail_msg("%s", err.msg);
    assert_string_equal(c.model_type, "qwen3_5");
    assert_false(slc_config_is_moe(&c));
    assert_int_equal(c.intermediate_size, 3584);
    assert_true(c.tie_embeddings);
    assert_int_equal(c.layer_kind[1], SLC_LAYER_FULL);
    assert_int_equal(c.layer_kind[2], SLC_LAYER_GDN);
    assert_int_equal(c.n_stop_ids, 2);
}

static void layer_types_go_before_the_interval(void **state) {
    slc_config c;
    slc_quant_claims *q;

    accept("",
           ",\"full_attention_interval\":4,\"layer_types\":[\"full_attention\","
           "\"linear_attention\",\"linear_attention\",\"linear_attention\",\"linear_attention\","
           "\"linear_attention\",\"linear_attention\",\"full_attention\"]",
           &c, &q);
    assert_int_equal(c.layer_kind[0], SLC_LAYER_FULL);
    assert_int_equal(c.layer_kind[3], SLC_LAYER_GDN);
    refuse("", ",\"layer_types\":[\"full_attention\"]", SLC_E_FORMAT, "has 1 entries, expected 8");
    refuse("", ",\"layer_types\":[\"full_attention\",\"sliding_attention\",1,1,1,1,1,1]",
           SLC_E_UNSUPPORTED, "layer_types[1] is \"sliding_attention\"");
}

static void rope_is_found_at_every_place(void **state) {
    static const struct {
        const char *top, *text;
        double theta;
        uint32_t dims;
    } cases[] = {
        {"",
         ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5,"
         "\"partial_rotary_factor\":0.5,\"mrope_section\":[1,2,3]}",
         5, 128},
        {"", ",\"rope_scaling\":{\"type\":\"default\",\"rope_theta\":5}", 5, 64},
        {"", ",\"rope_theta\":5,\"partial_rotary_factor\":1", 5, 256},
        {",\"rope_parameters\":{\"rope_theta\":5.5}", "", 5.5, 64},
        {",\"rope_theta\":6,\"partial_rotary_factor\":0.125", "", 6, 32},
        {",\"rope_theta\":6,\"rope_parameters\":{\"rope_theta\":7}", ",\"rope_theta\":8", 8, 64},
        {"", ",\"rope_theta\":8,\"rope_parameters\":{\"rope_theta\":9}", 9, 64},
    };
    slc_config c;
    slc_quant_claims *q;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        accept(cases[i].top, cases[i].text, &c, &q);
        if (c.rope_theta != cases[i].theta || c.rope_dims != cases[i].dims)
            fail_msg("case %zu: theta %g, dims %u", i, c.rope_theta, c.rope_dims);
    }
}

static void stop_ids_are_a_union_in_order(void **state) {
    slc_config c;
    slc_quant_claims *q;
    slc_err err = {0};
    static const char gen[] = "{\"eos_token_id\":[9,8,7]}";

    accept(",\"eos_token_id\":[8,3]", ",\"eos_token_id\":3", &c, &q);
    assert_int_equal(slc_config_parse_generation(gen, strlen(gen), "g.json", &c, &err), SLC_OK);
    assert_int_equal(c.n_stop_ids, 4);
    assert_int_equal(c.stop_ids[0], 8);
    assert_int_equal(c.stop_ids[1], 3);
    assert_int_equal(c.stop_ids[2], 9);
    assert_int_equal(c.stop_ids[3], 7);
    refuse(",\"eos_token_id\":-1", "", SLC_E_FORMAT, "eos_token_id holds -1");
    refuse(",\"eos_token_id\":[248320]", "", SLC_E_FORMAT, "below 248320");
    refuse(",\"eos_token_id\":\"x\"", "", SLC_E_FORMAT, "eos_token_id holds \"x\"");
    refuse(",\"eos_token_id\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", "", SLC_E_UNSUPPORTED,
           "more than 16");
}

/* ---- refusals ---- */

static void values_out_of_range_are_named(void **state) {
    static const char *const keys[] = {"hidden_size",
                                       "num_hidden_layers",
                                       "num_attention_heads",
                                       "num_key_value_heads",
                                       "linear_num_key_heads",
                                       "linear_num_value_heads",
                                       "linear_key_head_dim",
                                       "linear_value_head_dim",
                                       "num_experts_per_tok",
                                       "moe_intermediate_size",
                                       "shared_expert_intermediate_size",
                                       "vocab_size",
                                       "max_position_embeddings"};
    static const char *const bad[] = {"0", "-1", "4294967297", "2.0", "\"8\"", "[8]", "true"};
    char from[80], to[120], says[80];

    for (size_t k = 0; k < sizeof(keys) / sizeof(*keys); k++) {
        snprintf(from, sizeof(from), "\"%s\":", keys[k]);
        snprintf(says, sizeof(says), "c.json: text_config.%s is ", keys[k]);
        for (size_t b = 0; b < sizeof(bad) / sizeof(*bad); b++) {
            snprintf(to, sizeof(to), "\"%s\":%s,\"was_%zu\":", keys[k], bad[b], k);
            refuse_changed(from, to, SLC_E_FORMAT, says);
        }
        snprintf(to, sizeof(to), "\"was\":");
        snprintf(says, sizeof(says), "text_config.%s is missing", keys[k]);
        refuse_changed(from, to, SLC_E_FORMAT, says);
    }
    refuse("", ",\"head_dim\":1", SLC_E_FORMAT, "head_dim is 1");
    refuse("", ",\"rms_norm_eps\":0", SLC_E_FORMAT, "rms_norm_eps is 0");
    refuse("", ",\"linear_conv_kernel_dim\":1", SLC_E_FORMAT, "linear_conv_kernel_dim is 1");
    refuse("", ",\"full_attention_interval\":0", SLC_E_FORMAT, "full_attention_interval is 0");
    refuse("", ",\"rope_theta\":0", SLC_E_FORMAT, "rope_theta is 0");
    refuse("", ",\"partial_rotary_factor\":1.5", SLC_E_FORMAT, "partial_rotary_factor is 1.5");
    refuse("", ",\"partial_rotary_factor\":0", SLC_E_FORMAT, "rotary dimensions");
    refuse("", ",\"tie_word_embeddings\":1", SLC_E_FORMAT, "tie_word_embeddings is 1");
}

static void values_that_contradict_each_other_are_refused(void **state) {
    refuse_changed("\"num_key_value_heads\":2", "\"num_key_value_heads\":3", SLC_E_FORMAT,
                   "no multiple of num_key_value_heads 3");
    refuse_changed("\"linear_num_key_heads\":16", "\"linear_num_key_heads\":15", SLC_E_FORMAT,
                   "no multiple of linear_num_key_heads 15");
    refuse_changed("\"num_experts_per_tok\":8", "\"num_experts_per_tok\":257", SLC_E_FORMAT,
                   "above num_experts 256");
    refuse_changed("\"num_experts\":256", "\"num_experts\":0", SLC_E_FORMAT,
                   "intermediate_size is missing");
}

/* Messages show the beginning of a value that is too long for them, and nothing else. */
static void long_values_are_cut(void **state) {
    char text[400], x[301];

    memset(x, 'x', 300);
    x[300] = 0;
    snprintf(text, sizeof(text), ",\"hidden_act\":\"%s\"", x);
    refuse("", text, SLC_E_UNSUPPORTED, "hidden_act is \"xxxxxxxxxxxxxxxx");
    refuse("", text, SLC_E_UNSUPPORTED, "xxxxxxxxxxxxxxxx, expected \"silu\"");
    snprintf(text, sizeof(text), ",\"hidden_act\":[\"a\",\"%s\"]", x);
    refuse("", text, SLC_E_UNSUPPORTED, "[\"a\",\"xxxxxxxxxxxxxxxx");
}

static void unsupported_features_are_named_with_value(void **state) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {",\"hidden_act\":\"gelu\"", "hidden_act is \"gelu\""},
        {",\"attention_bias\":true", "attention_bias is true"},
        {",\"attn_output_gate\":false", "attn_output_gate is false"},
        {",\"norm_topk_prob\":false", "norm_topk_prob is false"},
        {",\"mlp_only_layers\":[3]", "mlp_only_layers is [3]"},
        {",\"decoder_sparse_step\":2", "decoder_sparse_step is 2"},
        {",\"use_sliding_window\":true", "use_sliding_window is true"},
        {",\"output_gate_type\":\"sigmoid\"", "output_gate_type is \"sigmoid\""},
        {",\"rope_parameters\":{\"rope_type\":\"yarn\"}", "rope_parameters.rope_type is \"yarn\""},
        {",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}", "rope_scaling.type is \"linear\""},
    };
    slc_config c;
    slc_quant_claims *q;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        refuse("", cases[i].text, SLC_E_UNSUPPORTED, cases[i].says);
    refuse(",\"rope_scaling\":{\"rope_type\":\"dynamic\"}", "", SLC_E_UNSUPPORTED, "dynamic");
    refuse_changed("\"qwen3_5_moe\"", "\"llama\"", SLC_E_UNSUPPORTED, "model_type is \"llama\"");
    refuse_changed("\"model_type\":\"qwen3_5_moe\"", "\"m\":1,\"model_type\":7", SLC_E_FORMAT,
                   "model_type is 7");
    accept("",
           ",\"hidden_act\":\"silu\",\"attention_bias\":false,\"attn_output_gate\":true,"
           "\"norm_topk_prob\":true,\"mlp_only_layers\":[],\"output_gate_type\":\"swish\"",
           &c, &q);
}

static void malformed_files_are_refused(void **state) {
    char deep[200];

    refuse_json("", SLC_E_FORMAT, "c.json");
    refuse_json("[]", SLC_E_FORMAT, "not a JSON object");
    refuse_json("{\"a\":1,\"a\":2}", SLC_E_FORMAT, "duplicate");
    refuse_json("{\"a\":1e999}", SLC_E_FORMAT, "c.json");
    refuse_json("{\"text_config\":[]}", SLC_E_FORMAT, "text_config is []");
    refuse("", ",\"hidden_size\":1", SLC_E_FORMAT, "duplicate");
    memset(deep, '[', 99);
    memset(deep + 99, ']', 99);
    memcpy(deep + 198, "", 1);
    refuse_json(deep, SLC_E_FORMAT, "levels deep");
}

/* ---- generation_config.json ---- */

static slc_status generation(const char *json, slc_config *cfg, slc_err *err) {
    *err = (slc_err){0};
    return slc_config_parse_generation(json, strlen(json), "g.json", cfg, err);
}

static void sampling_defaults_are_read(void **state) {
    static const char *const bad[] = {
        "{\"temperature\":-1}",  "{\"top_p\":1.01}",           "{\"top_k\":-5}",
        "{\"top_k\":2.5}",       "{\"min_p\":\"0\"}",          "{\"do_sample\":1}",
        "{\"eos_token_id\":-2}", "{\"repetition_penalty\":0}", "[]",
    };
    slc_config c;
    slc_quant_claims *q;
    slc_err err;

    accept("", "", &c, &q);
    if (generation("{\"temperature\":1,\"top_p\":0.95,\"top_k\":20,\"min_p\":0,\"do_sample\":true,"
                   "\"repetition_penalty\":1.05,\"presence_penalty\":1.5,\"x\":{},"
                   "\"transformers_version\":\"5\"}",
                   &c, &err))
        fail_msg("%s", err.msg);
    assert_true(c.temperature == 1 && c.top_p == 0.95f && c.min_p == 0);
    assert_true(c.repeat_penalty == 1.05f && c.presence_penalty == 1.5f);
    assert_int_equal(c.top_k, 20);
    assert_int_equal(c.do_sample, 1);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (generation(bad[i], &c, &err) != SLC_E_FORMAT || !strstr(err.msg, "g.json"))
            fail_msg("%s: %d %s", bad[i], err.code, err.msg);
}

/* ---- quantization ---- */

static void expect_claim(const slc_quant_claims *q, const char *module, uint32_t bits,
                         uint32_t group) {
    uint32_t b = 99, g = 99;

    assert_true(slc_quant_claims_get(q, module, &b, &g));
    if (b != bits || g != group) fail_msg("%s: %u bits in %u", module, b, g);
}

static void a18_claims_are_found_under_every_prefix(void **state) {
    slc_config c;
    slc_quant_claims *q;
    uint32_t bits, group;

    accept(",\"quantization\":{\"group_size\":64,\"bits\":4,\"mode\":\"affine\","
           "\"language_model.model.layers.0.mlp.gate\":{\"group_size\":32,\"bits\":8},"
           "\"model.language_model.layers.1.mlp.gate\":{\"bits\":8},"
           "\"language_model.lm_head\":{\"group_size\":64,\"bits\":6},"
           "\"model.layers.2.mlp.gate\":false,"
           "\"layers.3.mlp.gate\":{\"bits\":5,\"mode\":\"affine\"},"
           "\"layers.4.mlp.gate\":true}",
           "", &c, &q);
    expect_claim(q, "layers.0.mlp.gate", 8, 32);
    expect_claim(q, "layers.1.mlp.gate", 8, 64);
    expect_claim(q, "layers.2.mlp.gate", 0, 0);
    expect_claim(q, "model.layers.3.mlp.gate", 5, 64);
    expect_claim(q, "layers.4.mlp.gate", 4, 64);
    expect_claim(q, "lm_head", 6, 64);
    expect_claim(q, "layers.9.mlp.gate", 4, 64);
    slc_quant_claims_free(q);
    assert_false(slc_quant_claims_get(NULL, "lm_head", &bits, &group));
    slc_quant_claims_free(NULL);
}

static void a18_quantization_config_is_the_same_block(void **state) {
    slc_config c;
    slc_quant_claims *q;

    accept(",\"quantization_config\":{\"group_size\":128,\"bits\":2}", "", &c, &q);
    expect_claim(q, "lm_head", 2, 128);
    slc_quant_claims_free(q);
}

static void unusable_quantization_is_refused(void **state) {
    static const struct {
        const char *block;
        slc_status code;
        const char *says;
    } cases[] = {
        {"{\"group_size\":32,\"bits\":4,\"mode\":\"mxfp4\"}", SLC_E_UNSUPPORTED, "mxfp4"},
        {"{\"group_size\":32,\"bits\":4,\"model.x\":{\"mode\":\"nvfp4\"}}", SLC_E_UNSUPPORTED,
         "model.x.mode is \"nvfp4\""},
        {"{\"quant_method\":\"fp8\"}", SLC_E_UNSUPPORTED, "quant_method is \"fp8\""},
        {"{\"group_size\":32}", SLC_E_FORMAT, "quantization.bits is missing"},
        {"{\"bits\":4}", SLC_E_FORMAT, "quantization.group_size is missing"},
        {"{\"group_size\":32,\"bits\":99}", SLC_E_FORMAT, "quantization.bits is 99"},
        {"{\"group_size\":32,\"bits\":4,\"model.x\":7}", SLC_E_UNSUPPORTED, "model.x is 7"},
        {"{\"group_size\":32,\"bits\":4,\"model.x\":{\"bits\":8},\"x\":{\"bits\":5}}", SLC_E_FORMAT,
         "two prefixes"},
        {"[]", SLC_E_FORMAT, "quantization is []"},
    };
    char top[200];

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        snprintf(top, sizeof(top), ",\"quantization\":%s", cases[i].block);
        refuse(top, "", cases[i].code, cases[i].says);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_fields_get_the_family_defaults),
        cmocka_unit_test(nulls_are_as_good_as_missing),
        cmocka_unit_test(flat_dense_file_is_read),
        cmocka_unit_test(layer_types_go_before_the_interval),
        cmocka_unit_test(rope_is_found_at_every_place),
        cmocka_unit_test(stop_ids_are_a_union_in_order),
        cmocka_unit_test(values_out_of_range_are_named),
        cmocka_unit_test(values_that_contradict_each_other_are_refused),
        cmocka_unit_test(long_values_are_cut),
        cmocka_unit_test(unsupported_features_are_named_with_value),
        cmocka_unit_test(malformed_files_are_refused),
        cmocka_unit_test(sampling_defaults_are_read),
        cmocka_unit_test(a18_claims_are_found_under_every_prefix),
        cmocka_unit_test(a18_quantization_config_is_the_same_block),
        cmocka_unit_test(unusable_quantization_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
