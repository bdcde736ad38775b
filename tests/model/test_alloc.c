/* No allocation per decoded token: the heap functions are replaced by counting ones, a generation
 * is run, and the count must not move between one token and the next once it is under way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/run.h"

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

static _Atomic uint64_t n_allocs;

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
void *malloc(size_t n) {
    n_allocs++;
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
    n_allocs++;
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
    n_allocs++;
    return __libc_realloc(p, n);
}
void *aligned_alloc(size_t align, size_t n) {
    n_allocs++;
    return __libc_memalign(align, n);
}

#define N_TOKENS 64u
#define STEADY   8u /* tokens after which nothing may be allocated */

static uint64_t seen[N_TOKENS + 1];
static uint32_t n_seen;

static void note(void *user, uint32_t item, uint32_t pos, const float *logits) {
    (void)user, (void)item, (void)pos, (void)logits;
    if (n_seen <= N_TOKENS) seen[n_seen++] = n_allocs;
}

static bool note_text(void *user, const char *text, size_t n) {
    (void)text, (void)n;
    note(user, 0, 0, NULL);
    return true;
}

static void check(const char *what) {
    print_message("%s: %u events, %llu allocations in the steady state\n", what, n_seen,
                  (unsigned long long)(seen[n_seen - 1] - seen[STEADY]));
    assert_true(n_seen > 2 * STEADY);
    assert_int_equal(seen[n_seen - 1], seen[STEADY]);
}

static slc_model *open_small(void) {
    slc_model_options o = slc_model_options_default();

    o.ctx_size = 256;
    o.expert_cache_bytes = 4 << 20; /* keeps the disk busy all the time */
    return run_open("models/demo-moe", &o);
}

static void a_step_allocates_nothing(void **state) {
    slc_model *m = open_small();
    int32_t token = 100;
    slc_step_item item = {.tokens = &token, .n_tokens = 1, .want = SLC_WANT_LAST};
    slc_err err = {0};

    (void)state;
    n_seen = 0;
    assert_int_equal(slc_seq_create(m, &item.seq, &err), SLC_OK);
    for (uint32_t i = 0; i < N_TOKENS; i++, token += 7)
        assert_int_equal(slc_step(m, &item, 1, note, NULL, &err), SLC_OK);
    check("steps");
    slc_model_close(m);
}

static void a_generation_allocates_nothing_per_token(void **state) {
    static const char *const stop[] = {"\x01never"};
    slc_model *m = open_small();
    int32_t prompt[] = {100, 200, 300};
    slc_generate_options o = {.sampling = slc_sampling_default(m), .max_tokens = N_TOKENS};
    slc_generation g = {0};
    slc_err err = {0};
    slc_seq *s;

    (void)state;
    n_seen = 0;
    o.sampling.seed = 7;
    o.ignore_eos = true;
    o.stop = stop;
    o.n_stop = 1;
    o.on_text = note_text;
    assert_int_equal(slc_seq_create(m, &s, &err), SLC_OK);
    assert_int_equal(slc_generate(m, s, prompt, 3, &o, &g, &err), SLC_OK);
    assert_int_equal(g.n_ids, N_TOKENS);
    check("generation");
    slc_generation_deinit(&g);
    slc_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(a_generation_allocates_nothing_per_token),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
