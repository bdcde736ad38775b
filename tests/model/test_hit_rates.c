/* The policies on real routing: demo-moe reads 6 x 512 tokens of its own text, one token a pass;
 * the experts its routers choose are replayed through every policy, and held against what the
 * predictors had named.
 *
 * The recall of the predictors and the hit rates of LRU, decayed counts and perfect knowledge are
 * those of an independent calculation over the same text; `best` must be at least 7 points above
 * LRU with 10 and 25 % of the experts held, and above decayed counts everywhere. The program is
 * linked so that the router's choices pass through here. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/net.h"
#include "stream/simulate.h"
#include "support/run.h"

enum { WINDOWS = 6 };

static slc_trace trace; /* filled while the model runs */
static slc_stats stats; /* of that */
static uint64_t pass;

void __real_slc_moe_route(const slc_net *net, slc_cpu *cpu, slc_pass *p, uint32_t layer);
void __wrap_slc_moe_route(const slc_net *net, slc_cpu *cpu, slc_pass *p, uint32_t layer);

void __wrap_slc_moe_route(const slc_net *net, slc_cpu *cpu, slc_pass *p, uint32_t layer) {
    uint32_t k = net->cfg->n_experts_per_tok;
    slc_trace_fetch *f = &trace.fetches[trace.n_fetches];

    __real_slc_moe_route(net, cpu, p, layer);
    assert_int_equal(p->n_tok, 1);
    trace.n_layers = net->cfg->n_layers;
    trace.n_experts = net->cfg->n_experts;
    trace.n_active = k;
    *f = (slc_trace_fetch){.pass = pass, .first = trace.n_uses, .layer = layer, .n = k};
    f->n_tokens = 1;
    f->decode = true;
    memcpy(trace.experts + trace.n_uses, p->expert_ids, k * sizeof(uint32_t));
    memcpy(trace.scores + trace.n_uses, p->expert_weights, k * sizeof(float));
    trace.n_uses += k;
    trace.n_fetches++;
}

static void feed(slc_model *m, slc_seq *s, const int32_t *token) {
    slc_step_item it = {.seq = s, .tokens = token, .n_tokens = 1};
    slc_err err = {0};

    assert_int_equal(slc_step(m, &it, 1, NULL, NULL, &err), SLC_OK);
    assert_int_equal(it.err.code, SLC_OK);
    pass++;
}

static int record(void **state) {
    slc_model_options o = slc_model_options_default();
    size_t n_fetches = WINDOWS * 512 * 12, n_uses = n_fetches * 8;
    slc_model *m;
    slc_seq *s;
    demo_golden g;

    trace.fetches = calloc(n_fetches, sizeof(*trace.fetches));
    trace.experts = calloc(n_uses, sizeof(*trace.experts));
    trace.scores = calloc(n_uses, sizeof(*trace.scores));
    o.ctx_size = 512;
    o.predict = "previous,next,ahead2";
    o.memory_bytes = 24ull << 20; /* something is always missing: the predictors never rest */
    m = run_open("models/demo-moe", &o);
    demo_golden_read("demo-moe", &g);
    assert_true(g.n_windows >= WINDOWS && g.window == 512);
    assert_int_equal(slc_seq_create(m, &s, NULL), SLC_OK);
    for (uint32_t w = 0; w < WINDOWS; w++) {
        slc_seq_reset(s);
        for (uint32_t t = 0; t < g.window; t++) feed(m, s, g.ppl_tokens + w * g.window + t);
    }
    assert_int_equal(trace.n_fetches, n_fetches);
    stats = slc_model_get_stats(m);
    slc_model_close(m);
    demo_golden_free(&g);
    return 0;
}

static double hit_rate(const slc_policy *policy, double share) {
    uint32_t n_keys = trace.n_layers * trace.n_experts;
    slc_simulate_options o = {.policy = policy, .n_slots = (uint32_t)lrint(share * n_keys)};
    slc_simulation r;
    double rate;

    assert_int_equal(slc_simulate(&trace, &o, &r, NULL), SLC_OK);
    rate = (double)r.hits / (double)r.asked;
    print_message("%-10s %3.0f %%: %.3f\n", policy ? policy->name : "belady", 100 * share, rate);
    return rate;
}

static void expect(const slc_policy *policy, double at_10, double at_25, double at_50) {
    assert_true(fabs(hit_rate(policy, 0.10) - at_10) <= 0.01);
    assert_true(fabs(hit_rate(policy, 0.25) - at_25) <= 0.01);
    assert_true(fabs(hit_rate(policy, 0.50) - at_50) <= 0.01);
}

static void hit_rates_are_those_expected(void **state) {
    expect(&slc_policy_lru, 0.18, 0.42, 0.69);
    expect(&slc_policy_lfu_decay, 0.25, 0.47, 0.72);
    expect(NULL, 0.49, 0.71, 0.88);
}

static void best_is_ahead(void **state) {
    static const double shares[] = {0.05, 0.10, 0.25, 0.50, 0.75};

    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
        double best = hit_rate(&slc_policy_best, shares[i]);
        double lru = hit_rate(&slc_policy_lru, shares[i]);
        assert_true(best >= hit_rate(&slc_policy_lfu_decay, shares[i]));
        if (shares[i] <= 0.25) assert_true(best >= lru + 0.07);
    }
}

static void expect_recall(slc_prediction source, double recall) {
    const slc_prediction_stats *p = &stats.predict[source];

    print_message("source %d: %.3f of %llu\n", (int)source, (double)p->foreseen / (double)p->wanted,
                  (unsigned long long)p->wanted);
    assert_true(p->wanted > 200000);
    assert_true(fabs((double)p->foreseen / (double)p->wanted - recall) <= 0.01);
}

static void recall_is_that_expected(void **state) {
    expect_recall(SLC_PREDICT_PREVIOUS, 0.18);
    expect_recall(SLC_PREDICT_NEXT, 0.71);
    expect_recall(SLC_PREDICT_AHEAD2, 0.61);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recall_is_that_expected),
        cmocka_unit_test(hit_rates_are_those_expected),
        cmocka_unit_test(best_is_ahead),
    };
    return cmocka_run_group_tests(tests, record, NULL);
}
