/* Routing of a random checkpoint, as the engine computes it: at the last layer, behind all that the
 * others added to the stream, each token id still goes to its own experts, and token ids spread
 * over all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "convert/synth_geometry.h"
#include "engine/model_internal.h"
#include "support/run.h"
#include "support/temp.h"

#define N_EXPERTS 64u
#define TOP_K     4u
#define N_TOKENS  500u
#define VOCAB     2048u

static const slc_geometry geometry = {"test", 512, 16, VOCAB, 0,         4,     2,
                                      64,     2,   4,  64,    N_EXPERTS, TOP_K, 64};

static char *dir;
static slc_model *model;
static slc_seq *seq;

static int open_random_model(void **state) {
    slc_synth_options opt = slc_synth_options_default();
    slc_model_options o = slc_model_options_default();
    slc_synth_result r;
    slc_err err = {0};
    char *path;

    (void)state;
    dir = temp_dir();
    path = temp_path(dir, "model");
    o.ctx_size = 2 * N_TOKENS;
    if (slc_geometry_write(&geometry, path, &opt, &r, &err)) fail_msg("%s", err.msg);
    if (slc_model_open(path, &o, &model, &err)) fail_msg("%s", err.msg);
    if (slc_seq_create(model, &seq, &err)) fail_msg("%s", err.msg);
    free(path);
    return 0;
}

static int close_model(void **state) {
    (void)state;
    slc_seq_destroy(seq);
    slc_model_close(model);
    temp_dir_remove(dir);
    return 0;
}

/* The experts of one token at the last layer, which are still in the pass. */
static const uint32_t *route(int32_t token) {
    slc_step_item item = {.seq = seq, .tokens = &token, .n_tokens = 1, .want = SLC_WANT_NONE};
    slc_err err = {0};

    if (slc_step(model, &item, 1, NULL, NULL, &err)) fail_msg("%s", err.msg);
    if (item.err.code) fail_msg("%s", item.err.msg);
    return model->pass.expert_ids;
}

static uint32_t next_id(uint64_t *random) {
    *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(*random >> 33) % VOCAB;
}

static void tokens_spread_over_all_experts_at_the_last_layer(void **state) {
    uint32_t count[N_EXPERTS] = {0};
    uint64_t random = 1;
    double entropy = 0, n = (double)N_TOKENS * TOP_K;

    (void)state;
    for (uint32_t t = 0; t < N_TOKENS; t++) {
        const uint32_t *ids = route((int32_t)next_id(&random));

        for (uint32_t k = 0; k < TOP_K; k++) count[ids[k]]++;
    }
    for (uint32_t e = 0; e < N_EXPERTS; e++) {
        if (count[e] == 0) fail_msg("expert %u was never chosen", e);
        entropy -= count[e] / n * log2(count[e] / n);
    }
    print_message("entropy %.3f of %.3f bits\n", entropy, log2(N_EXPERTS));
    assert_true(entropy > 0.98 * log2(N_EXPERTS));
}

/* The same id after different pasts: mostly the same experts. Chance would give 1 in 16. */
static void routing_follows_the_token(void **state) {
    uint64_t random = 2;
    uint32_t n_same = 0, n_ids = 100;

    (void)state;
    for (uint32_t i = 0; i < n_ids; i++) {
        int32_t id = (int32_t)next_id(&random);
        uint32_t first[TOP_K];
        const uint32_t *again;

        memcpy(first, route(id), sizeof(first));
        (void)route((int32_t)next_id(&random));
        again = route(id);
        for (uint32_t k = 0; k < TOP_K; k++)
            for (uint32_t j = 0; j < TOP_K; j++) n_same += first[k] == again[j];
    }
    print_message("%u of %u experts the same\n", n_same, n_ids * TOP_K);
    assert_true(n_same > n_ids * TOP_K * 8 / 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_spread_over_all_experts_at_the_last_layer),
        cmocka_unit_test(routing_follows_the_token),
    };

    return cmocka_run_group_tests(tests, open_random_model, close_model);
}
