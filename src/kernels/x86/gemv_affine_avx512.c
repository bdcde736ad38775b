/* Affine weights times the int16 activations of one token, AVX-512 with VNNI: 4 and 8 bits in
 * groups of 64 and 128. What is rarer goes the way of AVX2.
 *
 * As gemv_affine_avx2.c, with sixteen rows in hand and sixteen partial sums of a row. A 4-bit row's
 * 64 codes are 32 bytes, each widened to a word: its lower half is an even code, its upper half an
 * odd one. The activations are put in that order once, SPREAD at a time, for all rows. */
#if defined(__x86_64__)

#include "kernels/x86/affine_avx2.h"
#include "kernels/x86/avx512.h"

enum {
    ROWS = 16,
    UNIT = 64, /* activations multiplied at once */
    SPREAD = 4096,
};

/* Activations of 64 codes: of a byte's lower and upper halves, or of the first and last 32. */
typedef struct spread64 {
    __m512i x[2];
} spread64;

static void spread_all(uint32_t bits, const int16_t *x, uint32_t n, spread64 *out) {
    static const int16_t even[32] = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20,
                                     22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42,
                                     44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
    const __m512i first = _mm512_loadu_si512(even);
    const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(1));

    for (; n; n -= UNIT, x += UNIT, out++) {
        __m512i lo = _mm512_loadu_si512(x), hi = _mm512_loadu_si512(x + UNIT / 2);

        if (bits == 4) {
            out->x[0] = _mm512_permutex2var_epi16(lo, first, hi);
            out->x[1] = _mm512_permutex2var_epi16(lo, second, hi);
        } else {
            out->x[0] = lo;
            out->x[1] = hi;
        }
    }
}

/* sum + sixteen partial sums of 64 codes. */
SLC_ALWAYS_INLINE __m512i add_products(__m512i sum, uint32_t bits, const uint8_t *codes,
                                       const spread64 *x) {
    __m512i w = _mm512_cvtepu8_epi16(load_32_bytes(codes)), rest;

    if (bits == 4) {
        rest = _mm512_srli_epi16(w, 4);
        w = _mm512_and_si512(w, _mm512_set1_epi16(0x0f));
    } else {
        rest = _mm512_cvtepu8_epi16(load_32_bytes(codes + UNIT / 2));
    }
    sum = _mm512_dpwssd_epi32(sum, w, x->x[0]);
    return _mm512_dpwssd_epi32(sum, rest, x->x[1]);
}

/* a0+a2 b0+b2 a1+a3 b1+b3, in each quarter. */
SLC_ALWAYS_INLINE __m512i fold_pair(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

/* Of two folded pairs: a b c d, in each quarter. */
SLC_ALWAYS_INLINE __m512i fold_quad(__m512i ab, __m512i cd) {
    return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

/* Quarters added up in neighbours: of x in the lower half, of y in the upper one. */
SLC_ALWAYS_INLINE __m512i fold_quarters(__m512i x, __m512i y) {
    return _mm512_add_epi32(_mm512_shuffle_i32x4(x, y, 0x88), _mm512_shuffle_i32x4(x, y, 0xdd));
}

/* The sums of n * 64 codes of sixteen rows, rows in lanes. */
SLC_ALWAYS_INLINE __m512i row_sums(uint32_t bits, uint32_t n, const uint8_t *codes, size_t row,
                                   const spread64 *x) {
    const size_t unit_bytes = UNIT * bits / 8;
    __m512i quad[4];

    for (size_t i = 0; i < 4; i++) {
        __m512i p[4];

        for (size_t r = 0; r < 4; r++) {
            p[r] = _mm512_setzero_si512();
            for (uint32_t u = 0; u < n; u++) {
                p[r] = add_products(p[r], bits, codes + (4 * i + r) * row + u * unit_bytes, x + u);
            }
        }
        quad[i] = fold_quad(fold_pair(p[0], p[1]), fold_pair(p[2], p[3]));
    }
    return fold_quarters(fold_quarters(quad[0], quad[1]), fold_quarters(quad[2], quad[3]));
}

/* The lanes of the new rows of which `left` are wanted. */
static __mmask16 new_rows(const strip *at, uint32_t left) {
    uint32_t n = at->n_new < left ? at->n_new : left;

    return (__mmask16)(((1u << n) - 1) << at->place);
}

SLC_ALWAYS_INLINE void gemv(uint32_t bits, uint32_t n_units, const slc_matrix *w, uint32_t row0,
                            uint32_t row1, const slc_acts *a, float *y) {
    const uint32_t group = n_units * UNIT, n_groups = a->k / group;
    const size_t group_bytes = group * bits / 8;
    _Alignas(64) float sw[BLOCK][ROWS], bw[BLOCK][ROWS];
    spread64 spread[SPREAD / UNIT];
    strip s;

    for (uint32_t first = 0; first < n_groups; first += SPREAD / group) {
        uint32_t last = n_groups - first < SPREAD / group ? n_groups : first + SPREAD / group;

        spread_all(bits, a->q + (size_t)first * group, (last - first) * group, spread);
        for (uint32_t row = row0; row < row1; row += s.n_new) {
            __m512 acc = _mm512_setzero_ps();
            __mmask16 rows;
            float *out;

            s = take_strip(w, row, ROWS);
            rows = new_rows(&s, row1 - row);
            out = y + row - s.place;
            if (first) acc = _mm512_maskz_loadu_ps(rows, out);
            for (uint32_t g = first; g < last; g++) {
                uint32_t i = g % BLOCK;
                __m512 term = _mm512_cvtepi32_ps(_mm512_set1_epi32(a->sum[g]));
                __m512i sum;

                if (i == 0) take_scales_ahead(&s, g, ROWS, sw[0], bw[0]);
                prefetch(s.codes + g * group_bytes * ROWS, group_bytes * ROWS);
                sum = row_sums(bits, n_units, s.codes + g * group_bytes, s.codes_row,
                               spread + (g - first) * n_units);
                term = _mm512_mul_ps(_mm512_load_ps(bw[i]), term);
                term = _mm512_fmadd_ps(_mm512_load_ps(sw[i]), _mm512_cvtepi32_ps(sum), term);
                acc = _mm512_fmadd_ps(_mm512_set1_ps(a->scale[g]), term, acc);
            }
            _mm512_mask_storeu_ps(out, rows, acc);
        }
    }
}

#define DEFINE_GEMV(bits, group)                                                                   \
    static void gemv##bits##_##group(const slc_matrix *w, uint32_t row0, uint32_t row1,            \
                                     const slc_acts *a, float *y) {                                \
        gemv(bits, group / UNIT, w, row0, row1, a, y);                                             \
    }

DEFINE_GEMV(4, 64)
DEFINE_GEMV(4, 128)
DEFINE_GEMV(8, 64)
DEFINE_GEMV(8, 128)

void slc_gemv_affine_avx512(const slc_matrix *w, uint32_t row0, uint32_t row1, const slc_acts *a,
                            float *y) {
    static slc_gemv_fn *const gemvs[9][3] = {
        [4] = {NULL, gemv4_64, gemv4_128}, [8] = {NULL, gemv8_64, gemv8_128}};
    slc_gemv_fn *fn = gemvs[w->type.bits][w->type.group / 64];

    (fn ? fn : slc_gemv_affine_avx2)(w, row0, row1, a, y);
}

#endif
