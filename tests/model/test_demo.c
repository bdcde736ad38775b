/* The trained demo models against golden.json (transformers, float32, dequantised weights).
 *
 *     test_demo MODEL exact|default
 *
 * exact:   top-10 log-probabilities within 2e-3, perplexity within 0.05 %, greedy continuations
 *          identical until the reference's margin falls below 0.005
 * default: perplexity within 0.2 %, mean KL to the exact run at most 2e-4, top-1 agreement at least
 *          99.5 % on the perplexity tokens, greedy identical while the margin exceeds 0.05 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/run.h"

static const char *demo;
static bool exact;

static slc_model *open_demo(bool exact_mode) {
    slc_model_options o = slc_model_options_default();
    char relative[64];

    snprintf(relative, sizeof(relative), "models/%s", demo);
    o.exact = exact_mode;
    o.ctx_size = 1024;
    o.memory_bytes = 512ull << 20;
    return run_open(relative, &o);
}

static void log_probabilities_match(void **state) {
    slc_model *m = open_demo(true);
    uint32_t v = run_vocab(m);
    double worst = 0;
    demo_golden g;

    (void)state;
    demo_golden_read(demo, &g);
    for (uint32_t c = 0; c < g.n_cases; c++) {
        const demo_case *k = &g.cases[c];
        float *logits = run_logits(m, k->ids, k->n_ids);

        for (uint32_t i = 0; i < k->n_ids; i++)
            for (uint32_t t = 0; t < k->n_top; t++) {
                size_t at = (size_t)i * k->n_top + t;
                double d = fabs(log_prob(logits + (size_t)i * v, v, (uint32_t)k->top_ids[at]) -
                                k->top_logprobs[at]);

                if (!(d <= worst)) worst = d;
            }
        free(logits);
    }
    print_message("%s: largest log-probability difference %.2e\n", demo, worst);
    assert_true(worst <= 2e-3);
    demo_golden_free(&g);
    slc_model_close(m);
}

static void greedy_matches(void **state) {
    slc_model *m = open_demo(exact);
    double least = exact ? 0.005 : 0.05;
    demo_golden g;

    (void)state;
    demo_golden_read(demo, &g);
    for (uint32_t c = 0; c < g.n_cases; c++) {
        const demo_case *k = &g.cases[c];
        int32_t *made = calloc(k->n_greedy, sizeof(*made));
        uint32_t n = 0;

        assert_non_null(made);
        run_greedy(m, k->ids, k->n_ids, made, k->n_greedy);
        while (n < k->n_greedy && k->margins[n] >= least) {
            assert_int_equal(made[n], k->greedy[n]);
            n++;
        }
        print_message("%s: case %u, %u of %u greedy tokens compared\n", demo, c, n, k->n_greedy);
        free(made);
    }
    demo_golden_free(&g);
    slc_model_close(m);
}

/* Adds up over one window of logits. */
typedef struct sums {
    double nll, kl;
    uint32_t n, n_kl, agree;
} sums;

static void add_kl(sums *s, const float *p, const float *q, uint32_t v) {
    double pmax = p[argmax(p, v)], qmax = q[argmax(q, v)], psum = 0, qsum = 0, kl = 0;

    for (uint32_t i = 0; i < v; i++) {
        psum += exp(p[i] - pmax);
        qsum += exp(q[i] - qmax);
    }
    for (uint32_t i = 0; i < v; i++) {
        double lp = p[i] - pmax - log(psum), lq = q[i] - qmax - log(qsum);

        kl += exp(lp) * (lp - lq);
    }
    s->kl += kl;
    s->n_kl++;
    s->agree += argmax(p, v) == argmax(q, v);
}

static void perplexity_matches(void **state) {
    slc_model *m = open_demo(exact), *ref = exact ? NULL : open_demo(true);
    uint32_t v = run_vocab(m);
    demo_golden g;
    sums s = {0};
    double ppl;

    (void)state;
    demo_golden_read(demo, &g);
    for (uint32_t w = 0; w < g.n_windows; w++) {
        const int32_t *tokens = g.ppl_tokens + (size_t)w * g.window;
        float *logits = run_logits(m, tokens, g.window);
        float *base = ref ? run_logits(ref, tokens, g.window) : NULL;

        for (uint32_t i = 0; i + 1 < g.window; i++, s.n++)
            s.nll -= log_prob(logits + (size_t)i * v, v, (uint32_t)tokens[i + 1]);
        for (uint32_t i = 0; base && i < g.window; i++)
            add_kl(&s, base + (size_t)i * v, logits + (size_t)i * v, v);
        free(logits);
        free(base);
    }
    ppl = exp(s.nll / s.n);
    print_message("%s: perplexity %.5f, reference %.5f (%+.4f %%)\n", demo, ppl, g.ppl,
                  100 * (ppl / g.ppl - 1));
    assert_true(fabs(ppl / g.ppl - 1) <= (exact ? 0.0005 : 0.002));
    if (ref) {
        print_message("%s: mean KL to the exact run %.2e, top-1 agreement %.3f %%\n", demo,
                      s.kl / s.n_kl, 100.0 * s.agree / s.n_kl);
        assert_true(s.kl / s.n_kl <= 2e-4);
        assert_true(s.agree >= 0.995 * s.n_kl);
    }
    demo_golden_free(&g);
    slc_model_close(ref);
    slc_model_close(m);
}

int main(int argc, char **argv) {
    const struct CMUnitTest exact_tests[] = {
        cmocka_unit_test(log_probabilities_match),
        cmocka_unit_test(greedy_matches),
        cmocka_unit_test(perplexity_matches),
    };
    const struct CMUnitTest default_tests[] = {
        cmocka_unit_test(greedy_matches),
        cmocka_unit_test(perplexity_matches),
    };

    if (argc != 3) return 2;
    demo = argv[1];
    exact = !strcmp(argv[2], "exact");
    return exact ? cmocka_run_group_tests(exact_tests, NULL, NULL)
                 : cmocka_run_group_tests(default_tests, NULL, NULL);
}
