/* config.json, and generation_config.json when the last byte is odd. */
#include "format/config.h"
#include "fuzz/fuzz.h"

static void check_config(const slc_config *c) {
    fuzz_check(c->n_layers >= 1 && c->n_layers <= SLC_MAX_LAYERS);
    fuzz_check(c->hidden_size && c->vocab_size && c->max_positions && c->head_dim);
    fuzz_check(c->rope_dims && c->rope_dims % 2 == 0 && c->rope_dims <= c->head_dim);
    fuzz_check(c->n_heads % c->n_kv_heads == 0 && c->n_value_heads % c->n_key_heads == 0);
    fuzz_check(c->n_experts_per_tok <= c->n_experts);
    fuzz_check(slc_config_is_moe(c) ? c->n_experts_per_tok && c->expert_size
                                    : c->intermediate_size);
    fuzz_check(c->rms_eps > 0 && c->rope_theta >= 1);
    fuzz_check(c->n_stop_ids <= SLC_MAX_STOP_IDS);
    for (uint32_t i = 0; i < c->n_stop_ids; i++)
        fuzz_check(c->stop_ids[i] >= 0 && (uint32_t)c->stop_ids[i] < c->vocab_size);
}

static void parse_main(const char *json, size_t n) {
    slc_config c;
    slc_quant_claims *q;
    slc_err err = {0};
    uint32_t bits, group;
    slc_status rc = slc_config_parse(json, n, "input", &c, &q, &err);

    fuzz_check(rc == err.code && (rc == SLC_OK || *err.msg));
    if (!rc)
        check_config(&c);
    else
        fuzz_check(!q);
    if (q) fuzz_check(slc_quant_claims_get(q, "layers.0.mlp.gate", &bits, &group) && bits <= 8);
    slc_quant_claims_free(q);
}

static void parse_generation(const char *json, size_t n) {
    slc_config c = {.vocab_size = 1000, .top_k = -1, .do_sample = -1};
    slc_err err = {0};
    slc_status rc = slc_config_parse_generation(json, n, "input", &c, &err);

    fuzz_check(rc == err.code && (rc == SLC_OK || *err.msg));
    fuzz_check(c.n_stop_ids <= SLC_MAX_STOP_IDS && c.top_k >= -1 && c.do_sample <= 1);
    fuzz_check(c.temperature >= 0 && c.top_p >= 0 && c.top_p <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *json;

    if (size < 1) return 0;
    size--;
    json = fuzz_copy(data, size);
    if (data[size] % 2)
        parse_generation(json, size);
    else
        parse_main(json, size);
    free(json);
    return 0;
}
