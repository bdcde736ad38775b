/* An inflated checkpoint computes what the original does: every logit, to the last bit, with
 * quantised and with f32 activations, on the lowest and the best CPU level.
 *
 *     test_inflate          small models of every affine encoding, and the dense demo model
 *     test_inflate DEMO [HIDDEN EXPERT_HIDDEN]
 *                           a demo model: real text, also with hardly any memory; 1024 and 128
 *                           unless given */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sluice/synth.h"
#include "support/run.h"
#include "support/temp.h"

#define N_TOKENS 24u

static const char *demo;
static uint32_t demo_hidden = 1024, demo_expert_hidden = 128;
static char *dir, *out;

static int make_dir(void **state) {
    (void)state;
    dir = temp_dir();
    out = temp_path(dir, "inflated");
    return 0;
}

static int remove_dir(void **state) {
    (void)state;
    temp_dir_remove(dir);
    free(out);
    return 0;
}

static void inflate(const char *model, uint32_t hidden, uint32_t expert_hidden) {
    slc_synth_options opt = slc_synth_options_default();
    char *path = source_path(model);
    slc_synth_result r;
    slc_err err = {0};

    opt.seed = 3;
    if (slc_synth_inflate(path, hidden, expert_hidden, out, &opt, &r, &err))
        fail_msg("%s", err.msg);
    free(path);
}

static slc_model *open_path(const char *path, const slc_model_options *o) {
    slc_model *m;
    slc_err err = {0};

    if (slc_model_open(path, o, &m, &err)) fail_msg("%s", err.msg);
    return m;
}

static float *logits_of(const char *path, const slc_model_options *o, uint32_t *vocab) {
    slc_model *m = open_path(path, o);
    int32_t tokens[N_TOKENS];
    float *logits;

    *vocab = run_vocab(m);
    for (uint32_t i = 0; i < N_TOKENS; i++)
        tokens[i] = (int32_t)((i * 7919 + i * i * 31 + 3) % *vocab);
    logits = run_logits(m, tokens, N_TOKENS);
    slc_model_close(m);
    return logits;
}

static void expect_same(const char *model, const slc_model_options *o, const char *what) {
    char *path = source_path(model);
    uint32_t vocab, new_vocab;
    float *old = logits_of(path, o, &vocab), *new = logits_of(out, o, &new_vocab);

    print_message("%s, %s\n", model, what);
    assert_int_equal(vocab, new_vocab);
    assert_memory_equal(old, new, (size_t)N_TOKENS * vocab * sizeof(float));
    free(old);
    free(new);
    free(path);
}

static void expect_same_everywhere(const char *model) {
    slc_model_options o = slc_model_options_default();

    o.ctx_size = 64;
    o.cpu_level = "scalar";
    expect_same(model, &o, "scalar");
    o.cpu_level = "auto";
    expect_same(model, &o, "the best level");
    o.exact = true;
    expect_same(model, &o, "exact");
}

/* ---- small models ---- */

static void every_affine_encoding_is_inflated_exactly(void **state) {
    static const struct {
        const char *model;
        uint32_t hidden, expert_hidden;
    } cases[] = {
        {"tests/golden/moe-q2g128", 512, 256}, {"tests/golden/moe-q3g32", 256, 64},
        {"tests/golden/moe-q4g64", 256, 128},  {"tests/golden/moe-q4g64", 1024, 0},
        {"tests/golden/moe-q4g64", 0, 192},    {"tests/golden/moe-q5g32", 384, 64},
        {"tests/golden/moe-q6g64", 256, 64},   {"tests/golden/moe-q8g32", 256, 96},
        {"tests/golden/moe-odd", 256, 64},     {"tests/golden/moe-many", 128, 64},
        {"tests/golden/dense-q4g64", 256, 0},  {"tests/golden/dense-q8g32", 512, 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        make_dir(state);
        inflate(cases[i].model, cases[i].hidden, cases[i].expert_hidden);
        expect_same_everywhere(cases[i].model);
        remove_dir(state);
    }
}

static void the_dense_demo_is_inflated_exactly(void **state) {
    (void)state;
    inflate("models/demo-draft", 512, 0);
    expect_same_everywhere("models/demo-draft");
}

/* ---- a demo model on real text ---- */

static void a_trained_model_is_inflated_exactly(void **state) {
    char model[64];

    (void)state;
    snprintf(model, sizeof(model), "models/%s", demo);
    inflate(model, demo_hidden, demo_expert_hidden);
    expect_same_everywhere(model);
}

/* Experts come and go, padding and all; the text stays that of the original. */
static void its_text_is_the_same_with_hardly_any_memory(void **state) {
    slc_model_options o = slc_model_options_default();
    slc_model_info info;
    demo_golden golden;
    int32_t ids[64];
    slc_model *m;
    slc_err err = {0};

    (void)state;
    o.ctx_size = 512;
    assert_int_equal(slc_model_inspect(out, &o, &info, &err), SLC_OK);
    o.memory_bytes = info.smallest_budget_bytes + (16 << 20);
    m = open_path(out, &o);
    demo_golden_read(demo, &golden);
    for (uint32_t i = 0; i < golden.n_cases; i++) {
        const demo_case *c = &golden.cases[i];
        uint32_t n = c->n_greedy < 64 ? c->n_greedy : 64, sure = 0;

        run_greedy(m, c->ids, c->n_ids, ids, n);
        while (sure < n && c->margins[sure] > 0.1) sure++; /* past a near tie references may part */
        assert_memory_equal(ids, c->greedy, sure * sizeof(*ids));
    }
    assert_true(slc_model_get_stats(m).bytes_read > info.slab_bytes);
    demo_golden_free(&golden);
    slc_model_close(m);
}

/* ---- refusals ---- */

static void expect_refusal(const char *model, uint32_t hidden, uint32_t expert_hidden,
                           slc_status code, const char *part) {
    slc_synth_options opt = slc_synth_options_default();
    char *path = source_path(model);
    slc_synth_result r;
    slc_err err = {0};

    assert_int_equal(slc_synth_inflate(path, hidden, expert_hidden, out, &opt, &r, &err), code);
    if (!strstr(err.msg, part)) fail_msg("expected '%s' in: %s", part, err.msg);
    free(path);
}

static void what_cannot_be_exact_is_refused(void **state) {
    static const char moe[] = "tests/golden/moe-q4g64";

    (void)state;
    expect_refusal(moe, 128, 0, SLC_E_INVALID, "the ratio must be a power of four");
    expect_refusal(moe, 32, 0, SLC_E_INVALID, "the hidden size is 64, expected a new one of 256");
    expect_refusal(moe, 0, 32, SLC_E_INVALID, "experts are 64 channels wide");
    expect_refusal(moe, 0, 96, SLC_E_INVALID, "groups of 64 channels, 96 are no multiple");
    expect_refusal("tests/golden/dense-q4g64", 256, 64, SLC_E_INVALID, "dense model");
    expect_refusal("tests/golden/moe-experts-q4", 256, 0, SLC_E_UNSUPPORTED, "the folded 1");
    expect_refusal("tests/golden/moe-mixed", 256, 0, SLC_E_UNSUPPORTED,
                   "in_proj_b is stored as BF16, expected the affine encoding");
    expect_refusal("tests/golden/moe-hf-bf16", 128, 0, SLC_E_UNSUPPORTED, "the folded 1");
    expect_refusal("tests/golden/moe-experts-f32", 96, 0, SLC_E_UNSUPPORTED, "moe-experts-f32");
    expect_refusal("tests/golden/none", 256, 0, SLC_E_IO, "none");
}

int main(int argc, char **argv) {
    const struct CMUnitTest small[] = {
        cmocka_unit_test(every_affine_encoding_is_inflated_exactly),
        cmocka_unit_test_setup_teardown(the_dense_demo_is_inflated_exactly, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(what_cannot_be_exact_is_refused, make_dir, remove_dir),
    };
    const struct CMUnitTest trained[] = {
        cmocka_unit_test(a_trained_model_is_inflated_exactly),
        cmocka_unit_test(its_text_is_the_same_with_hardly_any_memory),
    };

    if (argc == 1) return cmocka_run_group_tests(small, NULL, NULL);
    demo = argv[1];
    if (argc == 4) {
        demo_hidden = (uint32_t)atoi(argv[2]);
        demo_expert_hidden = (uint32_t)atoi(argv[3]);
    }
    return cmocka_run_group_tests(trained, make_dir, remove_dir);
}
