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
#ifndef SLC_KERNELS_X86_GEMM_AFFINE_AVX2_H
#define SLC_KERNELS_X86_GEMM_AFFINE_AVX2_H

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

/* Adds the panel's groups to the results of some tokens, whose parts lie ldx elements (of x) and
 * ldg (of sum and scale) apart. */
typedef void multiply_fn(const panel *p, token first, size_t ldx, size_t ldg,
                         float (*acc)[PANEL_ROWS]);

/* A level's inner products by the number of tokens they take: a list that falls to one. */
typedef struct multiplier {
    uint32_t n_tok;
    multiply_fn *fn;
} multiplier;

/* Eight words of eight rows become rows in lanes. */
SLC_ALWAYS_INLINE void turn(__m256i v[8]) {
    __m256 f[8];

    for (int i = 0; i < 8; i++) f[i] = _mm256_castsi256_ps(v[i]);
    transpose8(f, f);
    for (int i = 0; i < 8; i++) v[i] = _mm256_castps_si256(f[i]);
}

SLC_ALWAYS_INLINE void store_pair(int32_t *to, __m256i rows) {
    _mm256_store_si256((__m256i *)to, rows);
}

/* An inner product for n tokens at once, from one that takes n as a constant. Functions of their
 * own: side by side in one they would run out of registers. */
#define DEFINE_MULTIPLY(n)                                                                         \
    static __attribute__((noinline)) void multiply##n(const panel *p, token at, size_t ldx,        \
                                                      size_t ldg, float(*acc)[PANEL_ROWS]) {       \
        multiply_n(p, at, ldx, ldg, n, acc);                                                       \
    }

/* Four words of eight rows, rows 0 to 3 in the lower halves and 4 to 7 in the upper ones, likewise.
 */
SLC_ALWAYS_INLINE void turn_halves(__m256i v[4]) {
    __m256i r01_lo = _mm256_unpacklo_epi32(v[0], v[1]), r01_hi = _mm256_unpackhi_epi32(v[0], v[1]);
    __m256i r23_lo = _mm256_unpacklo_epi32(v[2], v[3]), r23_hi = _mm256_unpackhi_epi32(v[2], v[3]);

    v[0] = _mm256_unpacklo_epi64(r01_lo, r23_lo);
    v[1] = _mm256_unpackhi_epi64(r01_lo, r23_lo);
    v[2] = _mm256_unpacklo_epi64(r01_hi, r23_hi);
    v[3] = _mm256_unpackhi_epi64(r01_hi, r23_hi);
}

/* n codes of eight rows. */
SLC_ALWAYS_INLINE void pack_codes(uint32_t bits, const uint8_t *codes, size_t row, uint32_t n,
                                  int32_t (*pairs)[PANEL_ROWS]) {
    for (; n; n -= 32, codes += 4 * bits, pairs += 16) {
        __m256i lo[8], hi[8];

        for (size_t r = 0; r < 8; r++) {
            codes32 c = unpack32(bits, codes + r * row);

            lo[r] = c.lo;
            hi[r] = c.hi;
        }
        turn(lo);
        turn(hi);
        for (int i = 0; i < 8; i++) store_pair(pairs[i], lo[i]);
        for (int i = 0; i < 8; i++) store_pair(pairs[8 + i], hi[i]);
    }
}

/* The same of 4 bits: turned as words of eight codes, of which a byte is a pair. It is put
 * everywhere, so that a mask leaves one code in each half, at bit 8 and at bit 4; the upper half of
 * a product brings them down. */
SLC_ALWAYS_INLINE void pack_nibbles(const uint8_t *codes, size_t row, uint32_t n,
                                    int32_t (*pairs)[PANEL_ROWS]) {
    const __m256i first = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
    const __m256i mask = _mm256_set1_epi32(0x00f00f00);
    const __m256i lift = _mm256_set1_epi32(1 << 12 << 16 | 1 << 8);

    for (; n; n -= 32, codes += 16, pairs += 16) {
        __m256i v[8];

        for (size_t r = 0; r < 4; r++) { // four words of a row in each half
            v[r] = _mm256_inserti128_si256(_mm256_castsi128_si256(load_16_bytes(codes + r * row)),
                                           load_16_bytes(codes + (r + 4) * row), 1);
        }
        turn_halves(v);
        for (int i = 0; i < 4; i++) {
            for (int byte = 0; byte < 4; byte++) {
                __m256i at = _mm256_add_epi8(first, _mm256_set1_epi8((char)byte));
                __m256i pair = _mm256_and_si256(_mm256_shuffle_epi8(v[i], at), mask);

                store_pair(pairs[4 * i + byte], _mm256_mulhi_epu16(pair, lift));
            }
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

SLC_ALWAYS_INLINE void pack_rows(uint32_t bits, const uint8_t *codes, size_t row, uint32_t n,
                                 panel *p) {
    for (uint32_t r = 0; r < PANEL_ROWS; r += 8, codes += 8 * row) {
        int32_t(*pairs)[PANEL_ROWS] = (int32_t(*)[PANEL_ROWS])(p->pairs[0] + r);

        if (bits == 4)
            pack_nibbles(codes, row, n, pairs);
        else
            pack_codes(bits, codes, row, n, pairs);
    }
}

static void pack(const strip *s, uint32_t bits, uint32_t first_group, panel *p) {
    const size_t at = (size_t)first_group * p->group * bits / 8, row = s->codes_row;
    const uint32_t n = p->n_groups * p->group;
    const uint8_t *codes = s->codes + at;

    switch (bits) {
    case 2: pack_rows(2, codes, row, n, p); break;
    case 3: pack_rows(3, codes, row, n, p); break;
    case 4: pack_rows(4, codes, row, n, p); break;
    case 5: pack_rows(5, codes, row, n, p); break;
    case 6: pack_rows(6, codes, row, n, p); break;
    default: pack_rows(8, codes, row, n, p); break;
    }
    for (uint32_t g = 0; g < p->n_groups; g += BLOCK) {
        take_scales(s, first_group + g, PANEL_ROWS, p->sw[g], p->bw[g]);
    }
    prefetch_codes(s, at, (size_t)n * bits / 8);
}

/* Any number of tokens: as many at once as there can be. */
static void multiply(const multiplier *m, const panel *p, token at, size_t ldx, size_t ldg,
                     uint32_t n_tok, float (*acc)[PANEL_ROWS]) {
    while (n_tok) {
        uint32_t n;

        while (m->n_tok > n_tok) m++;
        n = m->n_tok;
        m->fn(p, at, ldx, ldg, acc);
        at = (token){at.x + n * ldx, at.sum + n * ldg, at.scale + n * ldg};
        acc += n;
        n_tok -= n;
    }
}

/* The strip's products with tokens [t, t + n_tok). */
static void run_strip(const strip *s, const slc_matrix_type *type, const slc_acts *a, uint32_t t,
                      uint32_t n_tok, const multiplier *m, panel *p, float (*acc)[PANEL_ROWS]) {
    const uint32_t at_once = PANEL_COLS / type->group;

    memset(acc, 0, n_tok * sizeof(*acc));
    p->group = type->group;
    for (uint32_t g = 0; g < s->n_groups; g += at_once) {
        size_t at = (size_t)t * s->n_groups + g;
        token first = {a->q + at * type->group, a->sum + at, a->scale + at};

        p->n_groups = s->n_groups - g < at_once ? s->n_groups - g : at_once;
        pack(s, type->bits, g, p);
        multiply(m, p, first, a->k, s->n_groups, n_tok, acc);
    }
}

SLC_ALWAYS_INLINE void gemm_affine(const slc_matrix *w, uint32_t row0, uint32_t row1,
                                   const slc_acts *a, float *y, size_t ldy, const multiplier *m) {
    panel p;
    _Alignas(64) float acc[TILE][PANEL_ROWS];

    for (uint32_t t = 0; t < a->n_tok; t += TILE) {
        uint32_t n_tok = a->n_tok - t < TILE ? a->n_tok - t : TILE, n;

        for (uint32_t row = row0; row < row1; row += n) {
            strip s = take_strip(w, row, PANEL_ROWS);

            n = s.n_new < row1 - row ? s.n_new : row1 - row;
            run_strip(&s, &w->type, a, t, n_tok, m, &p, acc);
            for (uint32_t i = 0; i < n_tok; i++) {
                memcpy(y + (t + i) * ldy + row, acc[i] + s.place, n * sizeof(float));
            }
        }
    }
}

#endif
