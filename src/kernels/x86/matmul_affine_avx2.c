/* Affine weights times int16 activations, AVX2.
 *
 * The work comes in blocks of 8 rows x 8 groups. For one row of a block the codes are unpacked to
 * int16 and multiplied in pairs (pmaddwd, exact in int32); a tree of horizontal adds leaves the
 * sums of the 8 groups in 8 lanes, where
 *
 *     term = fmaf(sw, (float)sum_wx, bw * (float)sum_x)
 *
 * takes the row's scales and biases straight from memory, 8 groups side by side. The 8 rows of
 * terms are then transposed, so that rows lie in lanes, and added group after group:
 *
 *     acc = fmaf(dx[g], term[g], acc)
 *
 * One token unpacks and multiplies in registers. Several tokens share each unpacked row of a block,
 * kept as int16 in a scratch of at most 2 KiB. The sums are exact and the order of the float
 * operations is the same, so both give the same bits.
 *
 * A row's block is read whole before the next row's, so 8 short streams are in flight; while one is
 * computed, its next block is prefetched. */
#if defined(__x86_64__)

#include "kernels/x86/avx2.h"
#include "kernels/x86/unpack_avx2.h"

enum {
    BLOCK = 8,       /* rows and groups */
    TILE = 16,       /* tokens that share an unpacked row of a block */
    MAX_GROUP = 128, /* elements */
    LINE = 64,
};

/* Products of one group, 8 partial sums. `unit` = group / 32. */
SLC_ALWAYS_INLINE __m256i group_products(uint32_t bits, uint32_t unit, const uint8_t *w,
                                         const int16_t *x) {
    __m256i sum = _mm256_setzero_si256();

    for (uint32_t u = 0; u < unit; u++) {
        codes32 c = unpack32(bits, w + u * 4 * bits);
        __m256i x_lo = _mm256_loadu_si256((const __m256i_u *)(x + u * 32));
        __m256i x_hi = _mm256_loadu_si256((const __m256i_u *)(x + u * 32 + 16));

        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(c.lo, x_lo));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(c.hi, x_hi));
    }
    return sum;
}

/* Four groups: lane i and lane i + 4 together are the sum of group i. */
SLC_ALWAYS_INLINE __m256i quad_products(uint32_t bits, uint32_t unit, const uint8_t *w,
                                        const int16_t *x) {
    uint32_t w_step = unit * 4 * bits, x_step = unit * 32;
    __m256i a = group_products(bits, unit, w, x);
    __m256i b = group_products(bits, unit, w + w_step, x + x_step);
    __m256i ab = _mm256_hadd_epi32(a, b);
    __m256i c = group_products(bits, unit, w + 2 * w_step, x + 2 * x_step);
    __m256i d = group_products(bits, unit, w + 3 * w_step, x + 3 * x_step);

    return _mm256_hadd_epi32(ab, _mm256_hadd_epi32(c, d));
}

/* Sum of each of n groups of a row block in its lane; lanes past n are anything. */
SLC_ALWAYS_INLINE __m256i group_sums(uint32_t bits, uint32_t unit, uint32_t n, const uint8_t *w,
                                     const int16_t *x) {
    if (n == BLOCK) {
        __m256i lo = quad_products(bits, unit, w, x);
        __m256i hi = quad_products(bits, unit, w + 4 * unit * 4 * bits, x + 4 * unit * 32);

        return _mm256_add_epi32(_mm256_permute2x128_si256(lo, hi, 0x20),
                                _mm256_permute2x128_si256(lo, hi, 0x31));
    }

    int32_t sum[BLOCK] = {0};

    for (uint32_t g = 0; g < n; g++) {
        __m256i s = group_products(bits, unit, w + g * unit * 4 * bits, x + g * unit * 32);

        s = _mm256_hadd_epi32(s, s);
        s = _mm256_hadd_epi32(s, s);
        sum[g] = _mm256_extract_epi32(s, 0) + _mm256_extract_epi32(s, 4);
    }
    return _mm256_loadu_si256((const __m256i_u *)sum);
}

/* The terms of n groups of one row and one token. sum_x as floats. */
SLC_ALWAYS_INLINE __m256 row_terms(uint32_t bits, uint32_t unit, uint32_t n, const uint8_t *w,
                                   const int16_t *x, __m256 sw, __m256 bw, __m256 sum_x) {
    __m256 sum_wx = _mm256_cvtepi32_ps(group_sums(bits, unit, n, w, x));

    return _mm256_fmadd_ps(sw, sum_wx, _mm256_mul_ps(bw, sum_x));
}

/* acc = fmaf(dx[g], terms[row][g], acc) for g = 0..n-1, rows in lanes. */
SLC_ALWAYS_INLINE __m256 add_terms(__m256 acc, float terms[BLOCK][BLOCK], const float *dx,
                                   uint32_t n) {
    __m256 a[8], b[8];

    for (int i = 0; i < 4; i++) { // rows i and i + 4 share a register, halves of 4 groups
        __m256 r0 = _mm256_loadu_ps(terms[i]), r4 = _mm256_loadu_ps(terms[i + 4]);

        a[i] = _mm256_permute2f128_ps(r0, r4, 0x20);
        a[i + 4] = _mm256_permute2f128_ps(r0, r4, 0x31);
    }
    for (int i = 0; i < 8; i += 4) { // 4 x 4 transposes in each half
        __m256 t0 = _mm256_unpacklo_ps(a[i], a[i + 1]), t1 = _mm256_unpackhi_ps(a[i], a[i + 1]);
        __m256 t2 = _mm256_unpacklo_ps(a[i + 2], a[i + 3]);
        __m256 t3 = _mm256_unpackhi_ps(a[i + 2], a[i + 3]);

        b[i] = _mm256_shuffle_ps(t0, t2, 0x44);
        b[i + 1] = _mm256_shuffle_ps(t0, t2, 0xee);
        b[i + 2] = _mm256_shuffle_ps(t1, t3, 0x44);
        b[i + 3] = _mm256_shuffle_ps(t1, t3, 0xee);
    }
    for (uint32_t g = 0; g < BLOCK; g++) {
        if (g < n) acc = _mm256_fmadd_ps(_mm256_broadcast_ss(dx + g), b[g], acc);
    }
    return acc;
}

/* Where the parts of a matrix lie, and the block in hand. */
typedef struct source {
    const uint8_t *codes, *scales, *biases; /* of row 0 */
    size_t codes_row, scales_row;           /* bytes of a row */
    slc_dtype scale_dtype;
    uint32_t scale_bytes, n_groups;
} source;

SLC_ALWAYS_INLINE void prefetch(const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i += LINE) _mm_prefetch((const char *)p + i, _MM_HINT_T0);
}

SLC_ALWAYS_INLINE void unpack_block(uint32_t bits, uint32_t n_units, const uint8_t *w,
                                    int16_t *codes) {
    for (uint32_t u = 0; u < n_units; u++, w += 4 * bits, codes += 32) {
        codes32 c = unpack32(bits, w);

        _mm256_store_si256((__m256i *)codes, c.lo);
        _mm256_store_si256((__m256i *)(codes + 16), c.hi);
    }
}

/* Terms of n_rows rows (from `row`), n groups (from g) and n_tok tokens (from t). */
SLC_ALWAYS_INLINE void block_terms(uint32_t bits, uint32_t unit, uint32_t n, const source *s,
                                   uint32_t row, uint32_t n_rows, uint32_t g, const slc_acts *a,
                                   uint32_t t, uint32_t n_tok, float terms[TILE][BLOCK][BLOCK]) {
    uint32_t group_bytes = unit * 4 * bits, at = g * unit * 32;
    _Alignas(32) int16_t codes[BLOCK * MAX_GROUP];

    for (uint32_t r = 0; r < n_rows; r++) {
        size_t scale_at = (row + r) * s->scales_row + (size_t)g * s->scale_bytes;
        const uint8_t *w = s->codes + (row + r) * s->codes_row + (size_t)g * group_bytes;
        __m256 sw = load_first_as_f32(s->scale_dtype, s->scales + scale_at, n);
        __m256 bw = load_first_as_f32(s->scale_dtype, s->biases + scale_at, n);

        if (n_tok == 1) {
            prefetch(w + BLOCK * group_bytes, BLOCK * group_bytes);
        } else {
            unpack_block(bits, n * unit, w, codes);
        }
        for (uint32_t i = 0; i < n_tok; i++) {
            const int16_t *x = a->q + (size_t)(t + i) * a->k + at;
            const int32_t *sum = a->sum + (size_t)(t + i) * s->n_groups + g;
            __m256i sums = _mm256_maskload_epi32(sum, mask_first(n));
            __m256 sum_x = _mm256_cvtepi32_ps(sums);
            __m256 term = n_tok == 1
                              ? row_terms(bits, unit, n, w, x, sw, bw, sum_x)
                              : row_terms(16, unit, n, (const uint8_t *)codes, x, sw, bw, sum_x);

            _mm256_storeu_ps(terms[i][r], term);
        }
    }
}

SLC_ALWAYS_INLINE void block_rows(uint32_t bits, uint32_t unit, const source *s, uint32_t row,
                                  uint32_t n_rows, const slc_acts *a, uint32_t t, uint32_t n_tok,
                                  float *y, size_t ldy) {
    float terms[TILE][BLOCK][BLOCK];
    __m256 acc[TILE];

    if (n_rows < BLOCK) memset(terms, 0, sizeof(terms)); // rows that do not exist
    for (uint32_t i = 0; i < n_tok; i++) acc[i] = _mm256_setzero_ps();
    for (uint32_t g = 0; g < s->n_groups; g += BLOCK) {
        uint32_t n = s->n_groups - g < BLOCK ? s->n_groups - g : BLOCK;

        if (n == BLOCK)
            block_terms(bits, unit, BLOCK, s, row, n_rows, g, a, t, n_tok, terms);
        else
            block_terms(bits, unit, n, s, row, n_rows, g, a, t, n_tok, terms);
        for (uint32_t i = 0; i < n_tok; i++) {
            const float *dx = a->scale + (size_t)(t + i) * s->n_groups + g;

            acc[i] = add_terms(acc[i], terms[i], dx, n);
        }
    }
    for (uint32_t i = 0; i < n_tok; i++) store_first(y + (t + i) * ldy + row, acc[i], n_rows);
}

SLC_ALWAYS_INLINE void all_rows(uint32_t bits, uint32_t unit, const slc_matrix *w, uint32_t row0,
                                uint32_t row1, const slc_acts *a, float *y, size_t ldy) {
    const slc_matrix_type *type = &w->type;
    const source s = {
        .codes = w->part[SLC_PART_W],
        .scales = w->part[SLC_PART_SCALES],
        .biases = w->part[SLC_PART_BIASES],
        .codes_row = slc_matrix_row_bytes(type, SLC_PART_W),
        .scales_row = slc_matrix_row_bytes(type, SLC_PART_SCALES),
        .scale_dtype = type->scale_dtype,
        .scale_bytes = slc_dtype_bytes(type->scale_dtype),
        .n_groups = type->cols / (unit * 32),
    };

    for (uint32_t r = row0; r < row1; r += BLOCK) {
        uint32_t n_rows = row1 - r < BLOCK ? row1 - r : BLOCK;

        if (a->n_tok == 1) {
            block_rows(bits, unit, &s, r, n_rows, a, 0, 1, y, ldy);
            continue;
        }
        for (uint32_t t = 0; t < a->n_tok; t += TILE) {
            uint32_t n_tok = a->n_tok - t < TILE ? a->n_tok - t : TILE;

            block_rows(bits, unit, &s, r, n_rows, a, t, n_tok, y, ldy);
        }
    }
}

#define DEFINE_MATMUL(bits)                                                                        \
    void slc_matmul_affine##bits##_avx2(const slc_matrix *w, uint32_t row0, uint32_t row1,         \
                                        const slc_acts *a, float *y, size_t ldy) {                 \
        switch (w->type.group) {                                                                   \
        case 32: all_rows(bits, 1, w, row0, row1, a, y, ldy); break;                               \
        case 64: all_rows(bits, 2, w, row0, row1, a, y, ldy); break;                               \
        default: all_rows(bits, 4, w, row0, row1, a, y, ldy); break;                               \
        }                                                                                          \
    }

DEFINE_MATMUL(2)
DEFINE_MATMUL(3)
DEFINE_MATMUL(4)
DEFINE_MATMUL(5)
DEFINE_MATMUL(6)
DEFINE_MATMUL(8)

#endif
