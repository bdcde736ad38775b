/* Activations to int16 groups, AVX2. */
#if defined(__x86_64__)

#include "kernels/ref/ref.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/simd_avx2.h"

SLC_ALWAYS_INLINE uint32_t horizontal_max(__m256i v) {
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

SLC_ALWAYS_INLINE int32_t horizontal_sum(__m256i v) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return _mm_cvtsi128_si32(s);
}

/* Largest |x| of a group of 8 n elements, as float bits. */
SLC_ALWAYS_INLINE uint32_t max_magnitude(const float *x, uint32_t group) {
    __m256i max = _mm256_setzero_si256(), magnitude = _mm256_set1_epi32(0x7fffffff);

    for (uint32_t j = 0; j < group; j += 8) {
        __m256i bits = _mm256_loadu_si256((const __m256i_u *)(x + j));

        max = _mm256_max_epu32(max, _mm256_and_si256(bits, magnitude));
    }
    return horizontal_max(max);
}

/* Rounds x * inverse to q and returns their sum. */
SLC_ALWAYS_INLINE int32_t round_group(const float *x, uint32_t group, __m256 inverse, int16_t *q) {
    __m256i sum = _mm256_setzero_si256();

    for (uint32_t j = 0; j < group; j += 16) {
        __m256i lo = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + j), inverse));
        __m256i hi = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + j + 8), inverse));
        __m256i packed = _mm256_packs_epi32(lo, hi); // quarters in order 0 2 1 3

        packed = _mm256_permute4x64_epi64(packed, 0xd8);
        _mm256_storeu_si256((__m256i_u *)(q + j), packed);
        sum = _mm256_add_epi32(sum, _mm256_add_epi32(lo, hi));
    }
    return horizontal_sum(sum);
}

void slc_act_quantize_avx2(const float *x, uint32_t k, uint32_t group, int16_t *q, float *scale,
                           int32_t *sum) {
    if (group % 16) { // not a weight group; kept for completeness of the contract
        slc_act_quantize_ref(x, k, group, q, scale, sum);
        return;
    }
    for (uint32_t g = 0; g < k / group; g++, x += group, q += group) {
        float m = slc_f32_from_bits(max_magnitude(x, group));

        if (m >= 0x1p-100f && m < INFINITY) {
            scale[g] = m / 32767;
            sum[g] = round_group(x, group, _mm256_set1_ps(32767 / m), q);
        } else {
            scale[g] = m < 0x1p-100f ? 0 : NAN;
            sum[g] = 0;
            memset(q, 0, group * sizeof(*q));
        }
    }
}

#endif
