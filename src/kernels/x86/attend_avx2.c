/* Softmax attention of one query head over fixed blocks of positions, AVX2.
 *
 * Scores take four positions at a time (eight accumulators). The weighted sum of values walks over
 * the head in slices of 64 elements, whose eight accumulators stay in registers for all positions
 * of a block. The cache type is a constant where the code is inlined. */
#if defined(__x86_64__)

#include "kernels/x86/avx2.h"
#include "kernels/x86/simd_avx2.h"

/* 16 elements of a K row times q, added to the lanes. */
SLC_ALWAYS_INLINE lanes add_16(lanes s, slc_dtype type, const uint8_t *k, __m256 q_lo,
                               __m256 q_hi) {
    uint32_t size = slc_dtype_bytes(type);

    return lanes_fma(s, q_lo, q_hi, load8_as_f32(type, k), load8_as_f32(type, k + 8 * size));
}

/* p[i] = scale * dot(q, k row i) for n rows; n <= 4 is a constant where this is inlined. */
SLC_ALWAYS_INLINE void scores(uint32_t n, float *p, const float *q, slc_dtype type,
                              const uint8_t *k, uint32_t hd, float scale) {
    lanes s[4] = {lanes_zero(), lanes_zero(), lanes_zero(), lanes_zero()};
    uint32_t size = slc_dtype_bytes(type), d = 0;
    size_t row = (size_t)hd * size;

    for (; d + 16 <= hd; d += 16) {
        __m256 q_lo = _mm256_loadu_ps(q + d), q_hi = _mm256_loadu_ps(q + d + 8);

        for (uint32_t i = 0; i < n; i++) {
            s[i] = add_16(s[i], type, k + i * row + (size_t)d * size, q_lo, q_hi);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        if (d < hd) {
            uint32_t lo = hd - d, hi = lo > 8 ? lo - 8 : 0;
            const uint8_t *at = k + i * row + (size_t)d * size;

            s[i] = lanes_fma_first(s[i], load_first(q + d, lo), load_first(q + d + 8, hi),
                                   load_first_as_f32(type, at, lo),
                                   load_first_as_f32(type, at + (hi ? 8 * size : 0), hi), lo);
        }
        p[i] = scale * lanes_total(s[i]);
    }
}

/* p[t] = exp(p[t] - max), zero up to the end of the block. Returns their sum. */
SLC_ALWAYS_INLINE float weights(float p[SLC_KV_BLOCK], uint32_t n, float max) {
    for (uint32_t t = 0; t < n; t += 8) {
        __m256 e = exp8(_mm256_sub_ps(load_first(p + t, n - t), _mm256_set1_ps(max)));

        store_first(p + t, e, n - t);
    }
    return lanes_sum(p, n);
}

/* o[d] = o[d] * c, then fmaf(p[t], v[t][d], o[d]) over t, for n_vec vectors of 8 elements. */
SLC_ALWAYS_INLINE void add_values(uint32_t n_vec, float *o, float c, const float *p, slc_dtype type,
                                  const uint8_t *v, size_t row, uint32_t n) {
    uint32_t size = slc_dtype_bytes(type);
    __m256 sum[8];

    for (uint32_t i = 0; i < n_vec; i++) {
        sum[i] = _mm256_mul_ps(_mm256_loadu_ps(o + 8 * i), _mm256_set1_ps(c));
    }
    for (uint32_t t = 0; t < n; t++, v += row) {
        __m256 pt = _mm256_broadcast_ss(p + t);

        for (uint32_t i = 0; i < n_vec; i++) {
            sum[i] = _mm256_fmadd_ps(pt, load8_as_f32(type, v + 8 * i * size), sum[i]);
        }
    }
    for (uint32_t i = 0; i < n_vec; i++) _mm256_storeu_ps(o + 8 * i, sum[i]);
}

/* The last hd % 8 elements. */
SLC_ALWAYS_INLINE void add_values_tail(uint32_t n_last, float *o, float c, const float *p,
                                       slc_dtype type, const uint8_t *v, size_t row, uint32_t n) {
    __m256 sum = _mm256_mul_ps(load_first(o, n_last), _mm256_set1_ps(c));

    for (uint32_t t = 0; t < n; t++, v += row) {
        sum = _mm256_fmadd_ps(_mm256_set1_ps(p[t]), load_first_as_f32(type, v, n_last), sum);
    }
    store_first(o, sum, n_last);
}

SLC_ALWAYS_INLINE void attend(float *o, const float *q, slc_dtype type, const uint8_t *k,
                              const uint8_t *v, uint32_t n_pos, uint32_t hd, float scale) {
    uint32_t size = slc_dtype_bytes(type);
    size_t row = (size_t)hd * size;
    float m = -INFINITY, l = 0, p[SLC_KV_BLOCK];

    memset(o, 0, hd * sizeof(*o));
    for (uint32_t pos = 0; pos < n_pos; pos += SLC_KV_BLOCK) {
        uint32_t n = n_pos - pos < SLC_KV_BLOCK ? n_pos - pos : SLC_KV_BLOCK;
        float max = m;
        uint32_t t = 0, d = 0;

        for (; t + 4 <= n; t += 4) scores(4, p + t, q, type, k + t * row, hd, scale);
        for (; t < n; t++) scores(1, p + t, q, type, k + t * row, hd, scale);
        for (t = 0; t < n; t++) max = p[t] > max ? p[t] : max;

        float sum = weights(p, n, max), c = pos == 0 ? 0 : slc_expf(m - max);

        m = max;
        l = fmaf(l, c, sum);
        for (; d + 64 <= hd; d += 64) add_values(8, o + d, c, p, type, v + d * size, row, n);
        for (; d + 8 <= hd; d += 8) add_values(1, o + d, c, p, type, v + d * size, row, n);
        if (d < hd) add_values_tail(hd - d, o + d, c, p, type, v + d * size, row, n);
        k += n * row;
        v += n * row;
    }
    for (uint32_t d = 0; d < hd; d += 8) {
        store_first(o + d, _mm256_div_ps(load_first(o + d, hd - d), _mm256_set1_ps(l)), hd - d);
    }
}

void slc_attend_f16_avx2(float *o, const float *q, const uint16_t *k, const uint16_t *v,
                         uint32_t n_pos, uint32_t hd, float scale) {
    attend(o, q, SLC_DTYPE_F16, (const uint8_t *)k, (const uint8_t *)v, n_pos, hd, scale);
}

void slc_attend_f32_avx2(float *o, const float *q, const float *k, const float *v, uint32_t n_pos,
                         uint32_t hd, float scale) {
    attend(o, q, SLC_DTYPE_F32, (const uint8_t *)k, (const uint8_t *)v, n_pos, hd, scale);
}

#endif
