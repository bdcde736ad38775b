/* Affine weights times int16 activations of many tokens, at every level from AVX2 up.
 *
 * Sixteen rows become a panel: their codes as int16, so ordered that a load gives the same two
 * columns of all rows. Those times a token's two activations, which are broadcast, add up with rows
 * in lanes; nothing has to be folded, and each group ends in the arithmetic of kernels/table.h:
 *
 *     pairs[k][row]   w[row][2 k], w[row][2 k + 1]
 *     sum[row]       += pairs[k][row] . x[2 k, 2 k + 1]          for the k of a group
 *     acc[row]        = fmaf(dx, fmaf(sw[row], sum[row], bw[row] * sum_x), acc[row])
 *
 * A panel of PANEL_COLS columns stays in the first-level cache while all tokens of a tile pass it,
 * a tile's activations in the second. What differs between levels is the inner product alone. */
#ifndef SLC_KERNELS_X86_GEMM_AFFINE_H
#define SLC_KERNELS_X86_GEMM_AFFINE_H

#include "kernels/x86/affine_avx2.h"

enum {
    PANEL_ROWS = 16,
    PANEL_COLS = 512,
    PANEL_GROUPS = PANEL_COLS / SLC_MIN_GROUP,
    TILE = 64, /* tokens */
};

typedef struct panel {
    _Alignas(64) int32_t pairs[PANEL_COLS / 2][PANEL_ROWS];
    _Alignas(64) float sw[PANEL_GROUPS][PANEL_ROWS], bw[PANEL_GROUPS][PANEL_ROWS];
    uint32_t n_groups, group;
} panel;

/* Of one token: its activations, their sums and scales from the panel's first column on. */
typedef struct token {
    const int16_t *x;
    const int32_t *sum;
    const float *scale;
} token;

/* Adds the panel's groups to the results of n_tok tokens, whose parts lie ldx elements (of x) and
 * ldg (of sum and scale) apart. */
typedef void multiply_fn(const panel *p, token first, size_t ldx, size_t ldg, uint32_t n_tok,
                         float (*acc)[PANEL_ROWS]);

/* Eight columns' pairs of eight rows, rows in lanes. */
SLC_ALWAYS_INLINE void store_pairs(const __m256i rows[8], int32_t *pairs) {
    __m256 v[8];

    for (int i = 0; i < 8; i++) v[i] = _mm256_castsi256_ps(rows[i]);
    transpose8(v, v);
    for (int i = 0; i < 8; i++) {
        _mm256_store_si256((__m256i *)(pairs + (size_t)i * PANEL_ROWS), _mm256_castps_si256(v[i]));
    }
}

SLC_ALWAYS_INLINE void pack_codes(uint32_t bits, const uint8_t *codes, size_t row, uint32_t n_cols,
                                  panel *p) {
    for (uint32_t u = 0; u < n_cols / 32; u++) {
        for (uint32_t r = 0; r < PANEL_ROWS; r += 8) {
            __m256i lo[8], hi[8];

            for (size_t i = 0; i < 8; i++) {
                codes32 c = unpack32(bits, codes + (r + i) * row + u * 4 * bits);

                lo[i] = c.lo;
                hi[i] = c.hi;
            }
            store_pairs(lo, &p->pairs[(size_t)u * 16][r]);
            store_pairs(hi, &p->pairs[(size_t)u * 16 + 8][r]);
        }
    }
}

/* Asks for what the next panel is made of. */
static void prefetch_codes(const strip *s, size_t at, size_t n) {
    const uint8_t *codes = s->codes + at;

    if (at + n >= s->codes_row) codes += (PANEL_ROWS - 1) * s->codes_row; /* the next rows */
    for (size_t r = 0; r < PANEL_ROWS; r++) {
        for (size_t i = n; i < 2 * n; i += 64) {
            _mm_prefetch((const char *)codes + r * s->codes_row + i, _MM_HINT_T1);
        }
    }
}

static void pack(const strip *s, uint32_t bits, uint32_t first_group, panel *p) {
    const size_t at = (size_t)first_group * p->group * bits / 8;
    const uint32_t n_cols = p->n_groups * p->group;

    switch (bits) {
    case 2: pack_codes(2, s->codes + at, s->codes_row, n_cols, p); break;
    case 3: pack_codes(3, s->codes + at, s->codes_row, n_cols, p); break;
    case 4: pack_codes(4, s->codes + at, s->codes_row, n_cols, p); break;
    case 5: pack_codes(5, s->codes + at, s->codes_row, n_cols, p); break;
    case 6: pack_codes(6, s->codes + at, s->codes_row, n_cols, p); break;
    default: pack_codes(8, s->codes + at, s->codes_row, n_cols, p); break;
    }
    for (uint32_t g = 0; g < p->n_groups; g += BLOCK) {
        take_scales(s, first_group + g, PANEL_ROWS, p->sw[g], p->bw[g]);
    }
    prefetch_codes(s, at, (size_t)n_cols * bits / 8);
}

/* The strip's products with tokens [t, t + n_tok). */
static void run_strip(const strip *s, const slc_matrix_type *type, const slc_acts *a, uint32_t t,
                      uint32_t n_tok, multiply_fn *multiply, panel *p, float (*acc)[PANEL_ROWS]) {
    const uint32_t at_once = PANEL_COLS / type->group;

    memset(acc, 0, n_tok * sizeof(*acc));
    p->group = type->group;
    for (uint32_t g = 0; g < s->n_groups; g += at_once) {
        size_t at = (size_t)t * s->n_groups + g;
        token first = {a->q + at * type->group, a->sum + at, a->scale + at};

        p->n_groups = s->n_groups - g < at_once ? s->n_groups - g : at_once;
        pack(s, type->bits, g, p);
        multiply(p, first, a->k, s->n_groups, n_tok, acc);
    }
}

SLC_ALWAYS_INLINE void gemm_affine(const slc_matrix *w, uint32_t row0, uint32_t row1,
                                   const slc_acts *a, float *y, size_t ldy, multiply_fn *multiply) {
    panel p;
    _Alignas(64) float acc[TILE][PANEL_ROWS];

    for (uint32_t t = 0; t < a->n_tok; t += TILE) {
        uint32_t n_tok = a->n_tok - t < TILE ? a->n_tok - t : TILE, n;

        for (uint32_t row = row0; row < row1; row += n) {
            strip s = take_strip(w, row, PANEL_ROWS);

            n = s.n_new < row1 - row ? s.n_new : row1 - row;
            run_strip(&s, &w->type, a, t, n_tok, multiply, &p, acc);
            for (uint32_t i = 0; i < n_tok; i++) {
                memcpy(y + (t + i) * ldy + row, acc[i] + s.place, n * sizeof(float));
            }
        }
    }
}

#endif
