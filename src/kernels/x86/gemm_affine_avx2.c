/* The inner product of kernels/x86/gemm_affine_avx2.h, AVX2: four tokens by sixteen rows in
 * registers.
 */
#if defined(__x86_64__)

#include "kernels/x86/gemm_affine_avx2.h"
#include "kernels/x86/avx2.h"

enum { AT_ONCE = 4 };

/* Sums in this type stay in registers where gcc copies those in __m256i around. */
typedef int32_t lanes32 __attribute__((vector_size(32)));

/* A group's sums of n tokens (a constant), each in two vectors of eight rows. */
SLC_ALWAYS_INLINE void sum_group(const int32_t (*pairs)[PANEL_ROWS], uint32_t n_pairs,
                                 const int16_t *x, size_t ldx, uint32_t n,
                                 lanes32 sum[AT_ONCE][2]) {
    const int32_t(*end)[PANEL_ROWS] = pairs + n_pairs;

    for (uint32_t t = 0; t < n; t++) sum[t][0] = sum[t][1] = (lanes32){0};
#pragma GCC unroll 4
    do {
        __m256i w0 = _mm256_load_si256((const __m256i *)*pairs);
        __m256i w1 = _mm256_load_si256((const __m256i *)(*pairs + 8));

        for (uint32_t t = 0; t < n; t++) {
            int32_t two;
            __m256i x2;

            memcpy(&two, x + t * ldx, sizeof(two));
            x2 = _mm256_set1_epi32(two);
            sum[t][0] += (lanes32)_mm256_madd_epi16(w0, x2);
            sum[t][1] += (lanes32)_mm256_madd_epi16(w1, x2);
        }
        x += 2;
    } while (++pairs < end);
}

SLC_ALWAYS_INLINE void multiply_n(const panel *p, token at, size_t ldx, size_t ldg, uint32_t n,
                                  float (*acc)[PANEL_ROWS]) {
    const uint32_t n_pairs = p->group / 2;

    for (uint32_t g = 0; g < p->n_groups; g++) {
        lanes32 sum[AT_ONCE][2];

        sum_group(p->pairs + (size_t)g * n_pairs, n_pairs, at.x + (size_t)g * p->group, ldx, n,
                  sum);
        for (uint32_t t = 0; t < n; t++) {
            __m256 sum_x = _mm256_cvtepi32_ps(_mm256_set1_epi32(at.sum[t * ldg + g]));
            __m256 dx = _mm256_broadcast_ss(at.scale + t * ldg + g);

            for (int i = 0; i < 2; i++) {
                __m256 term = _mm256_mul_ps(_mm256_load_ps(p->bw[g] + 8 * i), sum_x);
                float *to = acc[t] + 8 * i;

                term = _mm256_fmadd_ps(_mm256_load_ps(p->sw[g] + 8 * i),
                                       _mm256_cvtepi32_ps((__m256i)sum[t][i]), term);
                _mm256_store_ps(to, _mm256_fmadd_ps(dx, term, _mm256_load_ps(to)));
            }
        }
    }
}

DEFINE_MULTIPLY(1)
DEFINE_MULTIPLY(2)
DEFINE_MULTIPLY(4)

static const multiplier multipliers[] = {{4, multiply4}, {2, multiply2}, {1, multiply1}};

void slc_gemm_affine_avx2(const slc_matrix *w, uint32_t row0, uint32_t row1, const slc_acts *a,
                          float *y, size_t ldy) {
    gemm_affine(w, row0, row1, a, y, ldy, multipliers);
}

#endif
