/* Matrix products in one list give what each gives alone, bit for bit: whatever group their weights
 * have on the same activations, however many they are, on any number of threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu.h"

enum { K = 128, MAX_ROWS = 40, MAX_TOK = 9, N = 150 };

typedef struct kind {
    uint8_t bits;
    uint16_t group;
    bool f32_acts;
} kind;

static const kind kinds[] = {{4, 32, 0}, {8, 64, 0},  {4, 64, 0}, {4, 64, 1},
                             {0, 0, 0},  {2, 128, 0}, {4, 32, 0}};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static uint32_t weights[MAX_ROWS * K]; /* any bits are codes; kept finite as f32 */
static float scales[MAX_ROWS * K / 32], x[2][MAX_TOK * K];

static slc_matrix make_matrix(const kind *k, uint32_t rows) {
    slc_matrix m = {.type = {.dtype = k->bits ? SLC_DTYPE_U32 : SLC_DTYPE_F32,
                             .scale_dtype = SLC_DTYPE_F32,
                             .bits = k->bits,
                             .group = k->group,
                             .rows = rows,
                             .cols = K}};

    m.part[SLC_PART_W] = (const uint8_t *)weights;
    if (k->bits) m.part[SLC_PART_SCALES] = m.part[SLC_PART_BIASES] = (const uint8_t *)scales;
    return m;
}

typedef struct work {
    slc_acts acts;
    int16_t q[MAX_TOK * K];
    float scale[MAX_TOK * (K / 32)];
    int32_t sum[MAX_TOK * (K / 32)];
} work;

static void set_acts(work *w, const float *values, uint32_t n_tok) {
    w->acts = (slc_acts){
        .x = values, .ldx = K, .n_tok = n_tok, .k = K, .q = w->q, .scale = w->scale, .sum = w->sum};
}

static void check(uint32_t n_threads, uint32_t n_tok, uint32_t seed, bool mixed) {
    static float together[N][MAX_TOK * MAX_ROWS], alone[MAX_TOK * MAX_ROWS];
    static work shared[2], own;
    slc_matrix w[N];
    slc_product p[N];
    slc_err err = {0};
    slc_cpu cpu;

    assert_int_equal(slc_cpu_init(&cpu, SLC_CPU_AUTO, n_threads, false, &err), SLC_OK);
    for (int i = 0; i < 2; i++) set_acts(&shared[i], x[i], n_tok);
    for (uint32_t i = 0; i < N; i++) {
        bool other = mixed && (seed = seed * 1664525u + 1013904223u) >> 20 & 1;
        const kind *k = &kinds[other ? i % N_KINDS : 0];
        uint32_t rows = 1 + (seed >> 8) % MAX_ROWS;

        w[i] = make_matrix(k, rows);
        p[i] = (slc_product){&w[i], &shared[seed >> 24 & 1].acts, together[i], rows, k->f32_acts};
    }
    memset(together, 0xff, sizeof(together));
    slc_cpu_products(&cpu, p, N);
    for (uint32_t i = 0; i < N; i++) {
        slc_product one = p[i];

        set_acts(&own, p[i].acts->x, n_tok);
        one.acts = &own.acts;
        one.y = alone;
        slc_cpu_products(&cpu, &one, 1);
        assert_memory_equal(together[i], alone, n_tok * w[i].type.rows * sizeof(float));
    }
    slc_cpu_deinit(&cpu);
}

static void a_list_gives_what_each_gives_alone(void **state) {
    for (uint32_t seed = 1; seed <= 6; seed++)
        for (uint32_t n_threads = 1; n_threads <= 3; n_threads++) {
            check(n_threads, 1, seed, true);
            check(n_threads, MAX_TOK, seed, true);
            check(n_threads, 2, seed, false); /* as long a batch as there can be */
        }
}

/* Many rows on many threads: blocks shrink, and their number has a limit. */
static void every_row_is_computed_once(void **state) {
    enum { ROWS = 100003, COLS = 32 };
    static const uint32_t n_threads[] = {1, 2, 7, 64, 300};
    uint8_t *codes = calloc(ROWS, COLS / 2);
    float *scale = calloc(ROWS, sizeof(float)), *y = calloc(ROWS, sizeof(float));
    static work w;
    slc_matrix m = {.type = {.dtype = SLC_DTYPE_U32,
                             .scale_dtype = SLC_DTYPE_F32,
                             .bits = 4,
                             .group = 32,
                             .rows = ROWS,
                             .cols = COLS},
                    .part = {codes, (const uint8_t *)scale, (const uint8_t *)scale}};
    slc_product p = {&m, &w.acts, y, ROWS};
    slc_err err = {0};

    for (uint32_t r = 0; r < ROWS; r++) scale[r] = (float)(r + 1);
    for (size_t i = 0; i < sizeof(n_threads) / sizeof(n_threads[0]); i++) {
        slc_cpu cpu;
        float unit;

        assert_int_equal(slc_cpu_init(&cpu, SLC_CPU_AUTO, n_threads[i], false, &err), SLC_OK);
        set_acts(&w, x[0], 1);
        w.acts.k = COLS;
        memset(y, 0, ROWS * sizeof(float));
        slc_cpu_products(&cpu, &p, 1);
        unit = y[0]; /* codes are 0: row r is its bias times the sum of x */
        assert_true(unit != 0);
        for (uint32_t r = 0; r < ROWS; r++)
            assert_true(fabsf(y[r] - unit * (float)(r + 1)) <= fabsf(y[r]) * 1e-5f);
        slc_cpu_deinit(&cpu);
    }
    free(codes);
    free(scale);
    free(y);
}

static void an_empty_list_is_nothing(void **state) {
    slc_err err = {0};
    slc_cpu cpu;

    assert_int_equal(slc_cpu_init(&cpu, SLC_CPU_SCALAR, 2, false, &err), SLC_OK);
    slc_cpu_products(&cpu, NULL, 0);
    slc_cpu_deinit(&cpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_gives_what_each_gives_alone),
        cmocka_unit_test(every_row_is_computed_once),
        cmocka_unit_test(an_empty_list_is_nothing),
    };
    uint32_t s = 7;

    for (size_t i = 0; i < sizeof(weights) / sizeof(weights[0]); i++)
        weights[i] = (s = s * 1664525u + 1013904223u) & 0xbfffffffu; /* below 2 as f32 */
    for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++)
        scales[i] = (float)(int)((s = s * 1664525u + 1013904223u) >> 16) / 65536 - 0.5f;
    for (size_t i = 0; i < 2 * MAX_TOK * K; i++)
        x[i % 2][i / 2] = (float)(int)((s = s * 1664525u + 1013904223u) >> 16) / 65536 - 0.5f;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
