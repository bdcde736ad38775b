/* The sampler against a plain oracle: everything sorted, libm's exp, one straight loop per rule. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/meminfo.h"
#include "engine/sampler.h"

#define N 500

static const slc_sampling plain = {.temperature = 1, .top_p = 1, .repeat_penalty = 1};

static uint64_t rng_state = 12345;

static double rnd(void) {
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(rng_state >> 11) * 0x1p-53;
}

static int32_t sample(const float *logits, uint32_t n, slc_sampling p, uint64_t position) {
    slc_history none = {0};
    slc_sampler *s;
    int32_t id = -1;

    assert_int_equal(slc_sampler_create(n, &s, NULL), SLC_OK);
    assert_int_equal(slc_sample(s, logits, &none, &p, position, &id, NULL), SLC_OK);
    slc_sampler_destroy(s);
    return id;
}

/* ---- oracle ---- */

typedef struct entry {
    float logit;
    int32_t id;
    double w;
} entry;

static int by_logit(const void *pa, const void *pb) {
    const entry *a = pa, *b = pb;

    if (a->logit != b->logit) return a->logit > b->logit ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

static int is_among(int32_t id, const int32_t *ids, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id) return 1;
    return 0;
}

static int32_t oracle(const float *logits, const slc_history *h, const slc_sampling *p,
                      uint64_t position) {
    static entry e[N];
    int32_t all[256], *window = all;
    size_t n_all = h->n_prompt + h->n_made, n_window = n_all, kept = N;
    double sum = 0, mass = 0, u = slc_sample_uniform(p->seed, position);
    int cut = p->top_p < 1 || p->min_p > 0;

    if (h->n_prompt) memcpy(all, h->prompt, h->n_prompt * sizeof(*all));
    if (h->n_made) memcpy(all + h->n_prompt, h->made, h->n_made * sizeof(*all));
    if (p->repeat_last_n >= 0 && (size_t)p->repeat_last_n < n_all) {
        n_window = (size_t)p->repeat_last_n;
        window = all + n_all - n_window;
    }
    for (int i = 0; i < N; i++) {
        float l = logits[i];

        if (is_among(i, window, n_window))
            l = l > 0 ? l / p->repeat_penalty : l * p->repeat_penalty;
        if (is_among(i, h->made, h->n_made)) l -= p->presence_penalty;
        e[i] = (entry){l, i, 0};
    }
    qsort(e, N, sizeof(*e), by_logit);
    if (p->temperature == 0) return e[0].id;
    if (p->top_k > 0 && p->top_k < N) {
        kept = (size_t)p->top_k;
        cut = 1;
    }
    for (size_t i = 0; i < kept; i++) {
        e[i].w = exp((double)(e[i].logit - e[0].logit) / (double)p->temperature);
        sum += e[i].w;
    }
    if (cut) {
        size_t n = 0;

        do mass += e[n++].w;
        while (n < kept && (p->top_p == 1 || mass < (double)p->top_p * sum) &&
               e[n].w >= (double)p->min_p);
        kept = n;
        for (size_t i = 0; i < kept; i++)
            if ((u * mass) < e[i].w)
                return e[i].id;
            else
                u -= e[i].w / mass;
        return e[kept - 1].id;
    }
    for (int id = N - 1; id >= 0; id--)
        for (int i = 0; i < N; i++) {
            if (e[i].id != id) continue;
            if (u * sum < e[i].w) return id;
            u -= e[i].w / sum;
        }
    return 0;
}

/* ---- cases ---- */

static void agrees_with_the_oracle(void **state) {
    slc_sampler *s;
    int differ = 0;

    assert_int_equal(slc_sampler_create(N, &s, NULL), SLC_OK);
    for (int round = 0; round < 3000; round++) {
        float logits[N];
        int32_t ids[100], id;
        size_t n_prompt = (size_t)(rnd() * 50), n_made = (size_t)(rnd() * 50);
        slc_history h = {ids, n_prompt, ids + n_prompt, n_made};
        slc_sampling p = plain;
        uint64_t position = (uint64_t)(rnd() * 1e6);

        /* logits on a coarse grid, so that ties are common */
        for (int i = 0; i < N; i++) logits[i] = (float)((int)(rnd() * 64) - 40) / 4;
        for (size_t i = 0; i < n_prompt + n_made; i++) ids[i] = (int32_t)(rnd() * N);
        p.temperature = rnd() < 0.1 ? 0 : (float)(0.1 + rnd() * 2);
        p.top_k = rnd() < 0.5 ? 0 : (int32_t)(rnd() * 600);
        p.top_p = rnd() < 0.5 ? 1 : (float)rnd();
        p.min_p = rnd() < 0.5 ? 0 : (float)(rnd() * 0.3);
        p.repeat_penalty = rnd() < 0.5 ? 1 : (float)(0.8 + rnd());
        p.presence_penalty = rnd() < 0.5 ? 0 : (float)(rnd() * 4 - 2);
        p.repeat_last_n = (int32_t)(rnd() * 120) - 1;
        p.seed = (uint64_t)(rnd() * 1e9);
        assert_int_equal(slc_sample(s, logits, &h, &p, position, &id, NULL), SLC_OK);
        if (id != oracle(logits, &h, &p, position)) differ++;
    }
    slc_sampler_destroy(s);
    /* the last bits of exp may move a border; one in 10^12 draws would notice */
    assert_int_equal(differ, 0);
}

/* Constants from an independent Python program: the formula in sampler.c with Python's integers. */
static void random_numbers_are_the_documented_ones(void **state) {
    static const struct {
        uint64_t seed, position, bits;
    } known[] = {
        {0x0U, 0x0U, 0x1c4415072f63b9U},
        {0x0U, 0x1U, 0xdcf13cd54372cU},
        {0x1U, 0x0U, 0x17fdf0061bb85aU},
        {0x2aU, 0x3e8U, 0x1b021712762231U},
        {0xffffffffffffffffU, 0x8000000000000000U, 0x11e68c2157bf11U},
        {0x7048860ddf79U, 0x3ffffU, 0x77640774978f8U},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        double u = slc_sample_uniform(known[i].seed, known[i].position);

        assert_true(u >= 0 && u < 1);
        assert_int_equal((uint64_t)(u * 0x1p53), known[i].bits);
    }
}

static void random_numbers_are_uniform_along_seeds_and_positions(void **state) {
    int along_position[10] = {0}, along_seed[10] = {0}, equal = 0;

    for (uint64_t i = 0; i < 10000; i++) {
        along_position[(int)(slc_sample_uniform(7, i) * 10)]++;
        along_seed[(int)(slc_sample_uniform(i, 7) * 10)]++;
        equal += slc_sample_uniform(i, 8) == slc_sample_uniform(i + 1, 7);
    }
    for (int i = 0; i < 10; i++) { /* 1000 expected, standard deviation 30 */
        assert_in_range(along_position[i], 850, 1150);
        assert_in_range(along_seed[i], 850, 1150);
    }
    assert_int_equal(equal, 0);
}

static void draws_in_proportion_to_probability(void **state) {
    float logits[4] = {0, logf(2), logf(3), -INFINITY};
    int count[4] = {0};

    for (uint64_t i = 0; i < 60000; i++) count[sample(logits, 4, plain, i)]++;
    assert_in_range(count[0], 9500, 10500);
    assert_in_range(count[1], 19300, 20700);
    assert_in_range(count[2], 29200, 30800);
    assert_int_equal(count[3], 0);
}

static void greedy_takes_the_lowest_id_of_equals(void **state) {
    float logits[6] = {-3, 2, 5, 5, 1, 5};
    slc_sampling p = plain;

    p.temperature = 0;
    assert_int_equal(sample(logits, 6, p, 0), 2);
    p.temperature = 1;
    p.top_k = 1;
    for (uint64_t i = 0; i < 50; i++) assert_int_equal(sample(logits, 6, p, i), 2);
    p.top_k = 0;
    p.top_p = 0;
    for (uint64_t i = 0; i < 50; i++) assert_int_equal(sample(logits, 6, p, i), 2);
}

static void padding_rows_are_never_drawn(void **state) {
    float logits[8] = {0, 1, 0, 1, 99, NAN, INFINITY, 99};
    slc_sampling greedy = plain;

    greedy.temperature = 0;
    assert_int_equal(sample(logits, 4, greedy, 0), 1);
    for (uint64_t i = 0; i < 200; i++) assert_in_range(sample(logits, 4, plain, i), 0, 3);
}

static void broken_logits_are_an_error_never_a_token(void **state) {
    static const float bad[3][3] = {
        {0, NAN, 1}, {0, 1, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};
    static const char *const said[3] = {"position 41: the logit of id 1", "id 2 is inf", "all 3"};
    slc_history none = {0};
    slc_sampler *s;

    assert_int_equal(slc_sampler_create(3, &s, NULL), SLC_OK);
    for (int i = 0; i < 3; i++)
        for (int greedy = 0; greedy < 2; greedy++) {
            slc_sampling p = plain;
            slc_err err = {0};
            int32_t id = -7;

            if (greedy) p.temperature = 0;
            assert_int_equal(slc_sample(s, bad[i], &none, &p, 41, &id, &err), SLC_E_FORMAT);
            assert_non_null(strstr(err.msg, said[i]));
            assert_int_equal(id, -7);
        }
    slc_sampler_destroy(s);
}

static void extreme_logits_stay_finite(void **state) {
    float logits[3] = {3e38f, -3e38f, 2.9e38f};
    int32_t history[3] = {0, 1, 2};
    slc_history h = {history, 3, NULL, 0};
    slc_sampling p = plain;
    slc_sampler *s;
    int32_t id;

    p.repeat_last_n = -1;
    assert_int_equal(slc_sampler_create(3, &s, NULL), SLC_OK);
    assert_int_equal(sample(logits, 3, plain, 3), 0);
    for (p.repeat_penalty = 0.01f; p.repeat_penalty < 200; p.repeat_penalty *= 9999)
        for (uint64_t i = 0; i < 20; i++) {
            assert_int_equal(slc_sample(s, logits, &h, &p, i, &id, NULL), SLC_OK);
            assert_true(id == 0 || (id == 2 && p.repeat_penalty < 1)); /* both overflowed */
        }
    slc_sampler_destroy(s);
}

/* A position's draw must not depend on what the scratch was used for before. */
static void nothing_outlives_a_call(void **state) {
    float a[N], b[N];
    int32_t history[4] = {3, 99, -1, N}, first, again;
    slc_history h = {history, 2, history + 2, 2}; /* -1 and N: out of range, no effect */
    slc_sampling p = {.temperature = 0.8f,
                      .top_k = 40,
                      .top_p = 0.9f,
                      .repeat_penalty = 1.3f,
                      .presence_penalty = 1,
                      .repeat_last_n = -1,
                      .seed = 5};
    slc_sampler *s;

    for (int i = 0; i < N; i++) {
        a[i] = (float)rnd() * 8;
        b[i] = (float)rnd() * 8;
    }
    assert_int_equal(slc_sampler_create(N, &s, NULL), SLC_OK);
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(slc_sample(s, a, &h, &p, i, &first, NULL), SLC_OK);
        assert_int_equal(slc_sample(s, b, &h, &p, i + 1, &again, NULL), SLC_OK);
        assert_int_equal(slc_sample(s, a, &h, &p, i, &again, NULL), SLC_OK);
        assert_int_equal(first, again);
    }
    slc_sampler_destroy(s);
}

static void parameters_out_of_range_are_named(void **state) {
    static const struct {
        const char *name;
        slc_sampling p;
    } bad[] = {
        {"temperature", {.temperature = -0.1f, .top_p = 1, .repeat_penalty = 1}},
        {"temperature", {.temperature = NAN, .top_p = 1, .repeat_penalty = 1}},
        {"top_p", {.top_p = 1.5f, .repeat_penalty = 1}},
        {"min_p", {.top_p = 1, .min_p = -1, .repeat_penalty = 1}},
        {"repeat_penalty", {.top_p = 1, .repeat_penalty = 0}},
        {"presence_penalty", {.top_p = 1, .repeat_penalty = 1, .presence_penalty = INFINITY}},
        {"top_k", {.top_p = 1, .repeat_penalty = 1, .top_k = -1}},
        {"repeat_last_n", {.top_p = 1, .repeat_penalty = 1, .repeat_last_n = -2}},
    };

    assert_int_equal(slc_sampling_check(&plain, NULL), SLC_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        slc_err err = {0};

        assert_int_equal(slc_sampling_check(&bad[i].p, &err), SLC_E_INVALID);
        assert_memory_equal(err.msg, bad[i].name, strlen(bad[i].name));
    }
}

static void no_ids_is_an_error(void **state) {
    slc_sampler *s;
    slc_err err = {0};

    assert_int_equal(slc_sampler_create(0, &s, &err), SLC_E_INVALID);
    assert_null(s);
    slc_sampler_destroy(s);
}

/* The memory plan measures the process after this call: what comes later would break the budget. */
static void scratch_is_in_memory_from_the_start(void **state) {
    uint64_t before = slc_mem_usage_get().rss_bytes;
    slc_sampler *s;

    assert_int_equal(slc_sampler_create(1 << 20, &s, NULL), SLC_OK);
    assert_true(slc_mem_usage_get().rss_bytes >= before + (16 << 20));
    slc_sampler_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_oracle),
        cmocka_unit_test(random_numbers_are_the_documented_ones),
        cmocka_unit_test(random_numbers_are_uniform_along_seeds_and_positions),
        cmocka_unit_test(draws_in_proportion_to_probability),
        cmocka_unit_test(greedy_takes_the_lowest_id_of_equals),
        cmocka_unit_test(padding_rows_are_never_drawn),
        cmocka_unit_test(broken_logits_are_an_error_never_a_token),
        cmocka_unit_test(extreme_logits_stay_finite),
        cmocka_unit_test(nothing_outlives_a_call),
        cmocka_unit_test(parameters_out_of_range_are_named),
        cmocka_unit_test(no_ids_is_an_error),
        cmocka_unit_test(scratch_is_in_memory_from_the_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
