/* One text, however it is run: logits and greedy tokens of a demo model are the same bits at any
 * memory budget, I/O backend, thread count, prefill chunk, batch and CPU level.
 *
 *     test_same MODEL */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/table.h"
#include "support/run.h"

#define N_PROMPT 150u /* not a multiple of any chunk */
#define N_GREEDY 12u
#define N_SEQS   4u

static char model[64];
static demo_golden golden;
static uint32_t vocab;
static float *base_logits;         /* [N_PROMPT][vocab] */
static int32_t base_ids[N_GREEDY]; /* greedy continuation */

static slc_model_options options(void) {
    slc_model_options o = slc_model_options_default();

    o.ctx_size = 256;
    return o;
}

static uint64_t smallest_budget(const slc_model_options *o) {
    char *path = source_path(model);
    slc_model_info info;
    slc_err err = {0};

    assert_int_equal(slc_model_inspect(path, o, &info, &err), SLC_OK);
    free(path);
    return info.smallest_budget_bytes;
}

static bool is_moe(void) {
    slc_model_options o = options();
    char *path = source_path(model);
    slc_model_info info;
    slc_err err = {0};

    assert_int_equal(slc_model_inspect(path, &o, &info, &err), SLC_OK);
    free(path);
    return info.n_experts > 0;
}

static int make_base(void **state) {
    slc_model_options o = options();
    slc_model *m = run_open(model, &o);

    (void)state;
    vocab = run_vocab(m);
    base_logits = run_logits(m, golden.ppl_tokens, N_PROMPT);
    run_greedy(m, golden.ppl_tokens, N_PROMPT, base_ids, N_GREEDY);
    slc_model_close(m);
    return 0;
}

static void check(const slc_model_options *o, const char *what) {
    slc_model *m = run_open(model, o);
    float *logits = run_logits(m, golden.ppl_tokens, N_PROMPT);
    int32_t ids[N_GREEDY];

    print_message("%s: %s\n", model, what);
    run_greedy(m, golden.ppl_tokens, N_PROMPT, ids, N_GREEDY);
    assert_memory_equal(logits, base_logits, (size_t)N_PROMPT * vocab * sizeof(float));
    assert_memory_equal(ids, base_ids, sizeof(ids));
    free(logits);
    slc_model_close(m);
}

static void same_at_the_smallest_budget(void **state) {
    slc_model_options o = options();

    (void)state;
    o.memory_bytes = smallest_budget(&o) + (1 << 20);
    check(&o, "smallest budget");
    o.memory_bytes += 4 << 20;
    check(&o, "a little more");
    if (!is_moe()) return;
    o.expert_cache_bytes = 1 << 20;
    o.memory_bytes = 0;
    check(&o, "expert cache of 1 MiB");
}

static void same_on_every_backend(void **state) {
    static const char *const names[] = {"threads", "uring"};
    slc_model_options o = options();

    (void)state;
    o.memory_bytes = smallest_budget(&o) + (2 << 20);
    for (int i = 0; i < 2; i++) {
        o.io = names[i];
        check(&o, names[i]);
    }
}

/* However experts are kept, guessed or, for comparison, read. Dense models have none. */
static void same_however_experts_are_streamed(void **state) {
    static const struct {
        const char *mode, *policy, *predict;
    } ways[] = {
        {"full", "lru", "off"},     {"full", "lfu-decay", "next"},
        {"full", "best", "ahead2"}, {"full", "best", "previous,next,ahead2,prompt"},
        {"seed", NULL, NULL},       {"serial", NULL, NULL},
    };
    slc_model_options o = options();

    (void)state;
    if (!is_moe()) {
        print_message("skipped: %s has no experts\n", model);
        return;
    }
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        o.stream_mode = ways[i].mode;
        o.policy = ways[i].policy;
        o.predict = ways[i].predict;
        o.memory_bytes = smallest_budget(&o) + (3 << 20);
        check(&o, ways[i].predict ? ways[i].predict : ways[i].mode);
    }
}

static void same_on_any_number_of_threads(void **state) {
    static const uint32_t counts[] = {1, 2, 4};
    slc_model_options o = options();

    (void)state;
    for (int i = 0; i < 3; i++) {
        o.threads = counts[i];
        check(&o, "threads");
    }
}

static void same_at_any_prefill_chunk(void **state) {
    static const uint32_t chunks[] = {1, 7, 64, 512};
    slc_model_options o = options();

    (void)state;
    for (int i = 0; i < 4; i++) {
        o.prefill_chunk = chunks[i];
        check(&o, "prefill chunk");
    }
}

static void same_at_every_cpu_level(void **state) {
    static const char *const names[] = {"scalar", "avx2", "avx512"};
    slc_model_options o = options();

    (void)state;
    for (int i = 0; i < 3; i++) {
        if (slc_cpu_level_parse(names[i]) > slc_cpu_level_best()) {
            print_message("skipped: this CPU has no %s\n", names[i]);
            continue;
        }
        o.cpu_level = names[i];
        check(&o, names[i]);
    }
}

/* ---- batches ---- */

/* Four sequences of different lengths, in one batch from prefill to decode. */
static void batch_logits(void *user, uint32_t item, uint32_t pos, const float *logits) {
    float **out = user;

    (void)pos;
    memcpy(out[item], logits, vocab * sizeof(float));
}

static void same_in_a_batch_of_four(void **state) {
    slc_model_options o = options();
    float *alone[N_SEQS], *together[N_SEQS];
    slc_step_item items[N_SEQS];
    int32_t next[N_SEQS];
    slc_err err = {0};
    slc_model *m;

    (void)state;
    o.n_seqs = N_SEQS;
    o.prefill_chunk = 64; /* passes hold the end of one prompt and the start of the next */
    m = run_open(model, &o);
    for (uint32_t i = 0; i < N_SEQS; i++) {
        const int32_t *tokens = golden.ppl_tokens + (size_t)i * golden.window;
        uint32_t n = 20 + 30 * i;

        alone[i] = run_last_logits(m, tokens, n);
        together[i] = calloc(vocab, sizeof(float));
        assert_non_null(together[i]);
        items[i] = (slc_step_item){.tokens = tokens, .n_tokens = n, .want = SLC_WANT_LAST};
    }
    for (uint32_t i = 0; i < N_SEQS; i++)
        assert_int_equal(slc_seq_create(m, &items[i].seq, &err), SLC_OK);
    assert_int_equal(slc_step(m, items, N_SEQS, batch_logits, together, &err), SLC_OK);
    for (uint32_t i = 0; i < N_SEQS; i++) {
        assert_memory_equal(together[i], alone[i], vocab * sizeof(float));
        next[i] = (int32_t)argmax(together[i], vocab);
        items[i].tokens = &next[i];
        items[i].n_tokens = 1;
    }
    /* One decode step together, then the same alone, from scratch. */
    assert_int_equal(slc_step(m, items, N_SEQS, batch_logits, together, &err), SLC_OK);
    for (uint32_t i = 0; i < N_SEQS; i++) slc_seq_destroy(items[i].seq);
    for (uint32_t i = 0; i < N_SEQS; i++) {
        uint32_t n = 20 + 30 * i;
        int32_t *tokens = calloc(n + 1, sizeof(*tokens));

        assert_non_null(tokens);
        memcpy(tokens, golden.ppl_tokens + (size_t)i * golden.window, n * sizeof(*tokens));
        tokens[n] = next[i];
        free(alone[i]);
        alone[i] = run_last_logits(m, tokens, n + 1);
        assert_memory_equal(together[i], alone[i], vocab * sizeof(float));
        free(tokens);
        free(alone[i]);
        free(together[i]);
    }
    slc_model_close(m);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_at_the_smallest_budget),
        cmocka_unit_test(same_on_every_backend),
        cmocka_unit_test(same_however_experts_are_streamed),
        cmocka_unit_test(same_on_any_number_of_threads),
        cmocka_unit_test(same_at_any_prefill_chunk),
        cmocka_unit_test(same_at_every_cpu_level),
        cmocka_unit_test(same_in_a_batch_of_four),
    };
    int rc;

    if (argc != 2) return 2;
    snprintf(model, sizeof(model), "models/%s", argv[1]);
    demo_golden_read(argv[1], &golden);
    rc = cmocka_run_group_tests(tests, make_base, NULL);
    free(base_logits);
    demo_golden_free(&golden);
    return rc;
}
