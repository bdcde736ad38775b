/* Norms, activations, softmax, convolution, RoPE and the other operations on vectors, AVX2.
 *
 * Element-wise loops do eight at a time and give the tail to the reference, whose operations are
 * the same. Sums use the 16 lanes. */
#if defined(__x86_64__)

#include "kernels/ref/ref.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/simd_avx2.h"

void slc_rms_norm_avx2(float *y, const float *x, const float *w, uint32_t n, float eps) {
    float r = 1 / sqrtf(lanes_dot(x, x, n) / (float)n + eps);
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256 xr = _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(r));

        _mm256_storeu_ps(y + i, _mm256_mul_ps(xr, _mm256_loadu_ps(w + i)));
    }
    for (; i < n; i++) y[i] = x[i] * r * w[i];
}

void slc_l2_norm_avx2(float *y, const float *x, uint32_t n, float eps, float scale) {
    float r = 1 / sqrtf(lanes_dot(x, x, n) + eps);
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256 xr = _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(r));

        _mm256_storeu_ps(y + i, _mm256_mul_ps(xr, _mm256_set1_ps(scale)));
    }
    for (; i < n; i++) y[i] = x[i] * r * scale;
}

SLC_ALWAYS_INLINE __m256 silu8(__m256 x) {
    return _mm256_div_ps(x, one_plus_exp_neg8(x));
}

void slc_swiglu_avx2(float *y, const float *gate, const float *up, uint32_t n) {
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256 silu = silu8(_mm256_loadu_ps(gate + i));

        _mm256_storeu_ps(y + i, _mm256_mul_ps(silu, _mm256_loadu_ps(up + i)));
    }
    slc_swiglu_ref(y + i, gate + i, up + i, n - i);
}

void slc_sigmoid_mul_avx2(float *y, const float *gate, uint32_t n) {
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256 denominator = one_plus_exp_neg8(_mm256_loadu_ps(gate + i));
        __m256 sigmoid = _mm256_div_ps(_mm256_set1_ps(1), denominator);

        _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_loadu_ps(y + i), sigmoid));
    }
    slc_sigmoid_mul_ref(y + i, gate + i, n - i);
}

void slc_add_avx2(float *y, const float *x, uint32_t n) {
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_loadu_ps(y + i), _mm256_loadu_ps(x + i)));
    }
    slc_add_ref(y + i, x + i, n - i);
}

void slc_axpy_avx2(float *y, float a, const float *x, uint32_t n) {
    __m256 a8 = _mm256_set1_ps(a);
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256 sum = _mm256_fmadd_ps(a8, _mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i));

        _mm256_storeu_ps(y + i, sum);
    }
    slc_axpy_ref(y + i, a, x + i, n - i);
}

/* Which element wins among NaNs or zeros of both signs does not show in the result of softmax. */
static float maximum(const float *x, uint32_t n) {
    __m256 max8 = _mm256_set1_ps(x[0]);
    float part[8], max;
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8) max8 = _mm256_max_ps(_mm256_loadu_ps(x + i), max8);
    _mm256_storeu_ps(part, max8);
    max = part[0];
    for (int j = 1; j < 8; j++) max = part[j] > max ? part[j] : max;
    for (; i < n; i++) max = x[i] > max ? x[i] : max;
    return max;
}

void slc_softmax_avx2(float *x, uint32_t n) {
    float max = maximum(x, n);
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(x + i, exp8(_mm256_sub_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(max))));
    }
    for (; i < n; i++) x[i] = slc_expf(x[i] - max);

    float sum = lanes_sum(x, n);

    for (i = 0; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(x + i, _mm256_div_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(sum)));
    }
    for (; i < n; i++) x[i] = x[i] / sum;
}

void slc_conv_silu_avx2(float *out, const float *const *rows, const float *w, size_t ldw,
                        uint32_t n_taps, uint32_t n) {
    for (uint32_t ch = 0; ch < n; ch += 8) {
        __m256 c = _mm256_setzero_ps();

        for (uint32_t j = 0; j < n_taps; j++) {
            __m256 wj = load_first(w + j * ldw + ch, n - ch);

            c = _mm256_fmadd_ps(wj, load_first(rows[j] + ch, n - ch), c);
        }
        store_first(out + ch, silu8(c), n - ch);
    }
}

void slc_rope_avx2(float *x, const float *cosv, const float *sinv, uint32_t half) {
    for (uint32_t i = 0; i < half; i += 8) {
        uint32_t n = half - i;
        __m256 a = load_first(x + i, n), b = load_first(x + half + i, n);
        __m256 c = load_first(cosv + i, n), s = load_first(sinv + i, n);

        store_first(x + i, _mm256_sub_ps(_mm256_mul_ps(a, c), _mm256_mul_ps(b, s)), n);
        store_first(x + half + i, _mm256_add_ps(_mm256_mul_ps(b, c), _mm256_mul_ps(a, s)), n);
    }
}

void slc_f32_to_f16_avx2(uint16_t *y, const float *x, uint32_t n) {
    uint32_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT);

        _mm_storeu_si128((__m128i_u *)(y + i), half);
    }
    slc_f32_to_f16_ref(y + i, x + i, n - i);
}

#endif
