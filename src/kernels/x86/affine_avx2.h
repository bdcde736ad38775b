/* What the products of affine weights share, at every level from AVX2 up: a strip of rows, its
 * scales with rows in lanes, and where its results go. */
#ifndef SLC_KERNELS_X86_AFFINE_AVX2_H
#define SLC_KERNELS_X86_AFFINE_AVX2_H

#include "kernels/table.h"
#include "kernels/x86/unpack_avx2.h"

enum {
    BLOCK = 8, /* groups whose scales are prepared at once */
    LINE = 64,
    AHEAD = 16384, /* bytes between prefetch and use */
};

/* `n` rows in hand, 8 or 16: a constant where these functions are inlined. */
typedef struct strip {
    const uint8_t *codes, *scales, *biases; /* of the first row */
    size_t codes_row, scales_row;           /* bytes from one row to the next */
    size_t rest;    /* bytes of scales from those of the last row to the end of the matrix */
    uint32_t place; /* of the row asked for */
    uint32_t n_new; /* rows from it on */
    uint32_t n_groups;
    slc_dtype scale_dtype;
} strip;

/* Row `row` and those that follow it. Near the end of the matrix the strip starts earlier; of a
 * matrix with fewer than n rows, it is the same row n times. */
SLC_ALWAYS_INLINE strip take_strip(const slc_matrix *w, uint32_t row, uint32_t n) {
    const slc_matrix_type *type = &w->type;
    bool all = type->rows >= n;
    uint32_t first = all && type->rows - row < n ? type->rows - n : row;
    size_t codes_row = slc_matrix_row_bytes(type, SLC_PART_W);
    size_t scales_row = slc_matrix_row_bytes(type, SLC_PART_SCALES);

    return (strip){.codes = w->part[SLC_PART_W] + first * codes_row,
                   .scales = w->part[SLC_PART_SCALES] + first * scales_row,
                   .biases = w->part[SLC_PART_BIASES] + first * scales_row,
                   .codes_row = all ? codes_row : 0,
                   .scales_row = all ? scales_row : 0,
                   .rest = (type->rows - first - (all ? n - 1 : 0)) * scales_row,
                   .place = row - first,
                   .n_new = all ? n - (row - first) : 1,
                   .n_groups = type->cols / type->group,
                   .scale_dtype = type->scale_dtype};
}

/* out[j] lane i = in[i] lane j */
SLC_ALWAYS_INLINE void transpose8(const __m256 in[8], __m256 out[8]) {
    __m256 a[8];

    for (int i = 0; i < 4; i++) { // rows i and i + 4 share a register, halves of 4 columns
        a[i] = _mm256_permute2f128_ps(in[i], in[i + 4], 0x20);
        a[i + 4] = _mm256_permute2f128_ps(in[i], in[i + 4], 0x31);
    }
    for (int i = 0; i < 8; i += 4) { // 4 x 4 in each half
        __m256 t0 = _mm256_unpacklo_ps(a[i], a[i + 1]), t1 = _mm256_unpackhi_ps(a[i], a[i + 1]);
        __m256 t2 = _mm256_unpacklo_ps(a[i + 2], a[i + 3]);
        __m256 t3 = _mm256_unpackhi_ps(a[i + 2], a[i + 3]);

        out[i] = _mm256_shuffle_ps(t0, t2, 0x44);
        out[i + 1] = _mm256_shuffle_ps(t0, t2, 0xee);
        out[i + 2] = _mm256_shuffle_ps(t1, t3, 0x44);
        out[i + 3] = _mm256_shuffle_ps(t1, t3, 0xee);
    }
}

/* The first n groups' values of eight rows, out[g * ld + row]. `type` and n are constants where
 * this is inlined for a whole block. */
SLC_ALWAYS_INLINE void scales_of_rows(slc_dtype type, const uint8_t *p, size_t row, uint32_t n,
                                      float *out, size_t ld) {
    __m256 v[8];

    for (size_t r = 0; r < 8; r++) v[r] = load_first_as_f32(type, p + r * row, n);
    transpose8(v, v);
    for (size_t g = 0; g < BLOCK; g++) _mm256_store_ps(out + g * ld, v[g]);
}

/* The same of bf16, moved as words: a float is a word above 16 zero bits. Without `whole` only the
 * first four groups. */
SLC_ALWAYS_INLINE void scales_of_rows_bf16(const uint8_t *p, size_t row, bool whole, float *out,
                                           size_t ld) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i v[4];

    for (size_t r = 0; r < 4; r++) { // row r in the lower half, row r + 4 in the upper
        v[r] = _mm256_inserti128_si256(_mm256_castsi128_si256(load_16_bytes(p + r * row)),
                                       load_16_bytes(p + (r + 4) * row), 1);
    }
    for (int i = 0; i < (whole ? 2 : 1); i++, out += 4 * ld) { // four groups
        __m256i r01 = i ? _mm256_unpackhi_epi16(v[0], v[1]) : _mm256_unpacklo_epi16(v[0], v[1]);
        __m256i r23 = i ? _mm256_unpackhi_epi16(v[2], v[3]) : _mm256_unpacklo_epi16(v[2], v[3]);
        __m256i g01 = _mm256_unpacklo_epi32(r01, r23), g23 = _mm256_unpackhi_epi32(r01, r23);

        _mm256_store_ps(out, _mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, g01)));
        _mm256_store_ps(out + ld, _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, g01)));
        _mm256_store_ps(out + 2 * ld, _mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, g23)));
        _mm256_store_ps(out + 3 * ld, _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, g23)));
    }
}

/* The same, with no byte read past the last group. */
static __attribute__((noinline)) void last_scales_of_rows(slc_dtype type, const uint8_t *p,
                                                          size_t row, uint32_t n, float *out,
                                                          size_t ld) {
    scales_of_rows(type, p, row, n, out, ld);
}

/* Scales and biases of groups g to g + BLOCK of n rows: sw[group][row], aligned to 32 bytes. Of a
 * block that its row ends early, what follows in memory is taken along and not used; where nothing
 * may follow, it is not. */
SLC_ALWAYS_INLINE void take_scales(const strip *s, uint32_t g, uint32_t n, float *sw, float *bw) {
    const size_t size = slc_dtype_bytes(s->scale_dtype), at = g * size, row = s->scales_row;
    const uint32_t left = s->n_groups - g;

    for (uint32_t r = 0; r < n; r += 8, sw += 8, bw += 8) {
        const uint8_t *scales = s->scales + r * row + at, *biases = s->biases + r * row + at;

        if (at + BLOCK * size > s->rest) {
            last_scales_of_rows(s->scale_dtype, scales, row, left, sw, n);
            last_scales_of_rows(s->scale_dtype, biases, row, left, bw, n);
        } else if (s->scale_dtype == SLC_DTYPE_BF16) {
            scales_of_rows_bf16(scales, row, left > BLOCK / 2, sw, n);
            scales_of_rows_bf16(biases, row, left > BLOCK / 2, bw, n);
        } else if (s->scale_dtype == SLC_DTYPE_F16) {
            scales_of_rows(SLC_DTYPE_F16, scales, row, BLOCK, sw, n);
            scales_of_rows(SLC_DTYPE_F16, biases, row, BLOCK, bw, n);
        } else {
            scales_of_rows(SLC_DTYPE_F32, scales, row, BLOCK, sw, n);
            scales_of_rows(SLC_DTYPE_F32, biases, row, BLOCK, bw, n);
        }
    }
}

/* Asks for the next n bytes of an ascending stream, AHEAD of p. */
SLC_ALWAYS_INLINE void prefetch(const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i += LINE) _mm_prefetch((const char *)p + AHEAD + i, _MM_HINT_T1);
}

/* The same where rows are read once: they follow each other in memory, and while n of them are
 * computed, the same share of rows to come is asked for. */
SLC_ALWAYS_INLINE void take_scales_ahead(const strip *s, uint32_t g, uint32_t n, float *sw,
                                         float *bw) {
    size_t size = slc_dtype_bytes(s->scale_dtype), at = g * size * n;

    prefetch(s->scales + at, n * BLOCK * size);
    prefetch(s->biases + at, n * BLOCK * size);
    take_scales(s, g, n, sw, bw);
}

#endif
