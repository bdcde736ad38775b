/* Batch invariance: what a matrix product gives for one token and one row does not depend on the
 * other tokens, the row range, or the CPU level. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/kernels/levels.h"

enum { ROWS = 37, COLS = 1280, N_TOK = 35 };

typedef struct fixture {
    uint8_t codes[ROWS * COLS * 4];
    uint16_t scales[2][ROWS * COLS / 32];
    float x[N_TOK * COLS];
    int16_t q[N_TOK * COLS];
    float dx[N_TOK * COLS / 32];
    int32_t sum[N_TOK * COLS / 32];
    float whole[N_TOK * ROWS], part[N_TOK * ROWS], scalar[N_TOK * ROWS];
} fixture;

static fixture fix;

static uint32_t random32(void) {
    static uint32_t s = 1;

    s ^= s << 13;
    s ^= s >> 17;
    s ^= s << 5;
    return s;
}

static int fill(void **state) {
    for (size_t i = 0; i < sizeof(fix.codes); i++) fix.codes[i] = (uint8_t)random32();
    for (size_t i = 0; i < ROWS * COLS / 32; i++) { // bf16 of magnitude about 0.01
        fix.scales[0][i] = (uint16_t)(0x3c00 | (random32() & 0x80ff));
        fix.scales[1][i] = (uint16_t)(0x3c00 | (random32() & 0x80ff));
    }
    for (size_t i = 0; i < N_TOK * COLS; i++) fix.x[i] = (float)(int32_t)random32() * 0x1p-31f;
    return 0;
}

static slc_matrix matrix(uint32_t bits, uint32_t group) {
    return (slc_matrix){{.dtype = bits ? SLC_DTYPE_U32 : SLC_DTYPE_BF16,
                         .scale_dtype = SLC_DTYPE_BF16,
                         .bits = (uint8_t)bits,
                         .group = (uint16_t)group,
                         .rows = ROWS,
                         .cols = COLS},
                        {fix.codes, (uint8_t *)fix.scales[0], (uint8_t *)fix.scales[1]}};
}

static slc_acts acts(const slc_kernels *k, uint32_t group) {
    for (uint32_t t = 0; group && t < N_TOK; t++) {
        k->act_quantize(fix.x + t * COLS, COLS, group, fix.q + t * COLS,
                        fix.dx + t * (COLS / group), fix.sum + t * (COLS / group));
    }
    return (slc_acts){fix.x, COLS, N_TOK, COLS, group, fix.q, fix.dx, fix.sum};
}

/* The tokens [t, t + n) of `a` alone. */
static slc_acts some_tokens(slc_acts a, uint32_t t, uint32_t n) {
    a.x += (size_t)t * COLS;
    a.n_tok = n;
    if (a.group) {
        a.q += (size_t)t * COLS;
        a.scale += t * (COLS / a.group);
        a.sum += t * (COLS / a.group);
    }
    return a;
}

static void check_product(slc_matmul_fn *fn, const slc_matrix *w, const slc_acts *a) {
    static const uint32_t token_splits[] = {1, 2, 7, 16}, row_splits[] = {1, 3, 8, 13};

    fn(w, 0, ROWS, a, fix.whole, ROWS);
    for (int i = 0; i < 4; i++) {
        memset(fix.part, 0xff, sizeof(fix.part));
        for (uint32_t t = 0; t < N_TOK; t += token_splits[i]) {
            uint32_t left = N_TOK - t, n = left < token_splits[i] ? left : token_splits[i];
            slc_acts some = some_tokens(*a, t, n);

            for (uint32_t r = 0; r < ROWS; r += row_splits[i]) {
                uint32_t end = r + row_splits[i] < ROWS ? r + row_splits[i] : ROWS;

                fn(w, r, end, &some, fix.part + t * ROWS, ROWS);
            }
        }
        assert_memory_equal(fix.part, fix.whole, sizeof(fix.whole));
    }
}

static void check_levels_agree(int level) {
    if (level == 0)
        memcpy(fix.scalar, fix.whole, sizeof(fix.whole));
    else
        assert_memory_equal(fix.whole, fix.scalar, sizeof(fix.whole));
}

static void affine_products_do_not_depend_on_the_batch(void **state) {
    static const uint32_t widths[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};

    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < 3; j++) {
            slc_matrix w = matrix(widths[i], groups[j]);
            const slc_kernels *k;

            FOR_EACH_LEVEL(k) {
                slc_acts a = acts(k, groups[j]);

                check_product(k->matmul_affine[widths[i]], &w, &a);
                check_levels_agree(it.level);
            }
        }
    }
}

static void f32_products_do_not_depend_on_the_batch(void **state) {
    static const uint32_t widths[] = {3, 4, 8, 0};

    for (int i = 0; i < 4; i++) {
        slc_matrix w = matrix(widths[i], widths[i] ? 64 : 0);
        const slc_kernels *k;

        for (size_t j = 0; !widths[i] && j < ROWS * COLS; j++) { // codes become finite bf16
            uint16_t element = (uint16_t)(0x3c00 | (random32() & 0x80ff));

            memcpy(fix.codes + 2 * j, &element, sizeof(element));
        }
        FOR_EACH_LEVEL(k) {
            slc_acts a = acts(k, 0);

            check_product(k->matmul_f32, &w, &a);
            check_levels_agree(it.level);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(affine_products_do_not_depend_on_the_batch),
        cmocka_unit_test(f32_products_do_not_depend_on_the_batch),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
