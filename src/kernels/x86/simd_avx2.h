/* AVX2 building blocks shared by the *_avx2.c files: partial loads and stores, the 16 lanes of a
 * float sum, the exponential. Include only where the AVX2 flags are set. */
#ifndef SLC_KERNELS_X86_SIMD_AVX2_H
#define SLC_KERNELS_X86_SIMD_AVX2_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#include "kernels/scalar_math.h"
#include "quant/dtype.h"

#define SLC_ALWAYS_INLINE static inline __attribute__((always_inline))

/* All ones in the first n of 8 lanes; n may exceed 8. */
SLC_ALWAYS_INLINE __m256i mask_first(uint32_t n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? (int)n : 8), lane);
}

/* The first n of 8 floats, zero above; no access past them. */
SLC_ALWAYS_INLINE __m256 load_first(const float *p, uint32_t n) {
    return n >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, mask_first(n));
}

SLC_ALWAYS_INLINE void store_first(float *p, __m256 v, uint32_t n) {
    if (n >= 8)
        _mm256_storeu_ps(p, v);
    else
        _mm256_maskstore_ps(p, mask_first(n), v);
}

SLC_ALWAYS_INLINE __m128i load_16_bytes(const void *p) {
    return _mm_loadu_si128((const __m128i_u *)p);
}

SLC_ALWAYS_INLINE __m256i load_32_bytes(const void *p) {
    return _mm256_loadu_si256((const __m256i_u *)p);
}

/* 8 consecutive elements of type F32, F16 or BF16 at any byte address. */
SLC_ALWAYS_INLINE __m256 load8_as_f32(slc_dtype type, const void *p) {
    if (type == SLC_DTYPE_F32) return _mm256_castsi256_ps(load_32_bytes(p));

    __m128i half = load_16_bytes(p);

    if (type == SLC_DTYPE_F16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* The first n of 8 such elements, zero above; no access past them. */
SLC_ALWAYS_INLINE __m256 load_first_as_f32(slc_dtype type, const void *p, uint32_t n) {
    uint8_t copy[32] = {0};

    if (n >= 8) return load8_as_f32(type, p);
    memcpy(copy, p, (size_t)n * slc_dtype_bytes(type));
    return load8_as_f32(type, copy);
}

/* The 16 lanes: lo holds lanes 0-7, hi lanes 8-15. */
typedef struct lanes {
    __m256 lo, hi;
} lanes;

SLC_ALWAYS_INLINE lanes lanes_zero(void) {
    return (lanes){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

SLC_ALWAYS_INLINE lanes lanes_fma(lanes s, __m256 a_lo, __m256 a_hi, __m256 b_lo, __m256 b_hi) {
    return (lanes){_mm256_fmadd_ps(a_lo, b_lo, s.lo), _mm256_fmadd_ps(a_hi, b_hi, s.hi)};
}

/* The same for the first n < 16 lanes. The rest keep their value: adding a zero product would turn
 * a -0 (an underflown sum) into +0. */
SLC_ALWAYS_INLINE lanes lanes_fma_first(lanes s, __m256 a_lo, __m256 a_hi, __m256 b_lo, __m256 b_hi,
                                        uint32_t n) {
    lanes f = lanes_fma(s, a_lo, a_hi, b_lo, b_hi);
    __m256 keep_lo = _mm256_castsi256_ps(mask_first(n));
    __m256 keep_hi = _mm256_castsi256_ps(mask_first(n > 8 ? n - 8 : 0));

    return (lanes){_mm256_blendv_ps(s.lo, f.lo, keep_lo), _mm256_blendv_ps(s.hi, f.hi, keep_hi)};
}

/* The fixed tree: i + 8, i + 4, i + 2, i + 1. */
SLC_ALWAYS_INLINE float lanes_total(lanes s) {
    __m256 v8 = _mm256_add_ps(s.lo, s.hi);
    __m128 v4 = _mm_add_ps(_mm256_castps256_ps128(v8), _mm256_extractf128_ps(v8, 1));
    __m128 v2 = _mm_add_ps(v4, _mm_movehl_ps(v4, v4));

    return _mm_cvtss_f32(_mm_add_ss(v2, _mm_movehdup_ps(v2)));
}

SLC_ALWAYS_INLINE float lanes_dot(const float *a, const float *b, uint32_t n) {
    lanes s = lanes_zero();
    uint32_t j = 0;

    for (; j + 16 <= n; j += 16) {
        s = lanes_fma(s, _mm256_loadu_ps(a + j), _mm256_loadu_ps(a + j + 8), _mm256_loadu_ps(b + j),
                      _mm256_loadu_ps(b + j + 8));
    }
    if (j < n) {
        uint32_t lo = n - j, hi = lo > 8 ? lo - 8 : 0;

        s = lanes_fma_first(s, load_first(a + j, lo), load_first(a + j + 8, hi),
                            load_first(b + j, lo), load_first(b + j + 8, hi), lo);
    }
    return lanes_total(s);
}

/* A plain sum never reaches -0 from +0, so adding zeros in the tail is exact. */
SLC_ALWAYS_INLINE float lanes_sum(const float *x, uint32_t n) {
    lanes s = lanes_zero();

    for (uint32_t j = 0; j < n; j += 16) {
        uint32_t lo = n - j, hi = lo > 8 ? lo - 8 : 0;

        s.lo = _mm256_add_ps(s.lo, load_first(x + j, lo));
        s.hi = _mm256_add_ps(s.hi, load_first(x + j + 8, hi));
    }
    return lanes_total(s);
}

/* slc_expf, operation for operation, in 8 lanes. */
SLC_ALWAYS_INLINE __m256 exp8(__m256 x) {
    __m256 round = _mm256_set1_ps(SLC_EXPF_ROUND), max = _mm256_set1_ps(SLC_EXPF_MAX);
    __m256 z = _mm256_fmadd_ps(x, _mm256_set1_ps(SLC_EXPF_LOG2E), round);
    __m256 n = _mm256_sub_ps(z, round);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(SLC_EXPF_LN2_HI), x);
    __m256 p = _mm256_set1_ps(SLC_EXPF_C7);

    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(SLC_EXPF_LN2_LO), r);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(SLC_EXPF_C6));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(SLC_EXPF_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(SLC_EXPF_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(SLC_EXPF_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1));

    __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(z), 23);
    __m256 y = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
    __m256 tiny = _mm256_cmp_ps(x, _mm256_set1_ps(SLC_EXPF_MIN), _CMP_LT_OQ);

    y = _mm256_andnot_ps(tiny, y);
    y = _mm256_blendv_ps(y, _mm256_set1_ps(INFINITY), _mm256_cmp_ps(x, max, _CMP_GT_OQ));
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

/* 1 + exp(-x): the denominator of silu and sigmoid. */
SLC_ALWAYS_INLINE __m256 one_plus_exp_neg8(__m256 x) {
    __m256 minus_x = _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));

    return _mm256_add_ps(_mm256_set1_ps(1), exp8(minus_x));
}

#endif
