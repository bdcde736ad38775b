/* The inner product of kernels/x86/gemm_affine_avx2.h, AVX-512 with VNNI: sixteen tokens by sixteen
 * rows in registers. */
#if defined(__x86_64__)

#include "kernels/x86/avx512.h"
#include "kernels/x86/gemm_affine_avx2.h"

enum { AT_ONCE = 16 };

/* Sums in this type stay in registers where gcc copies those in __m512i around. */
typedef int32_t lanes32 __attribute__((vector_size(64)));

/* A group's sums of n tokens (a constant). */
SLC_ALWAYS_INLINE void sum_group(const int32_t (*pairs)[PANEL_ROWS], uint32_t n_pairs,
                                 const int16_t *x, size_t ldx, uint32_t n, lanes32 sum[AT_ONCE]) {
    const int32_t(*end)[PANEL_ROWS] = pairs + n_pairs;
    const int16_t *x4[AT_ONCE / 4]; /* of every fourth token */

    for (uint32_t t = 0; t < n; t += 4) x4[t / 4] = x + t * ldx;
    for (uint32_t t = 0; t < n; t++) sum[t] = (lanes32){0};
    do {
        __m512i w = _mm512_load_si512(*pairs);

        for (uint32_t t = 0; t < n; t++) {
            int32_t two;

            memcpy(&two, x4[t / 4] + t % 4 * ldx, sizeof(two));
            sum[t] = (lanes32)_mm512_dpwssd_epi32((__m512i)sum[t], w, _mm512_set1_epi32(two));
        }
        for (uint32_t t = 0; t < n; t += 4) x4[t / 4] += 2;
    } while (++pairs < end);
}

SLC_ALWAYS_INLINE void multiply_n(const panel *p, token at, size_t ldx, size_t ldg, uint32_t n,
                                  float (*acc)[PANEL_ROWS]) {
    const uint32_t n_pairs = p->group / 2;

    for (uint32_t g = 0; g < p->n_groups; g++) {
        const __m512 sw = _mm512_load_ps(p->sw[g]), bw = _mm512_load_ps(p->bw[g]);
        lanes32 sum[AT_ONCE];

        sum_group(p->pairs + (size_t)g * n_pairs, n_pairs, at.x + (size_t)g * p->group, ldx, n,
                  sum);
        for (uint32_t t = 0; t < n; t++) {
            __m512 sum_x = _mm512_cvtepi32_ps(_mm512_set1_epi32(at.sum[t * ldg + g]));
            __m512 term = _mm512_mul_ps(bw, sum_x);

            term = _mm512_fmadd_ps(sw, _mm512_cvtepi32_ps((__m512i)sum[t]), term);
            term = _mm512_fmadd_ps(_mm512_set1_ps(at.scale[t * ldg + g]), term,
                                   _mm512_load_ps(acc[t]));
            _mm512_store_ps(acc[t], term);
        }
    }
}

DEFINE_MULTIPLY(1)
DEFINE_MULTIPLY(4)
DEFINE_MULTIPLY(16)

static const multiplier multipliers[] = {{16, multiply16}, {4, multiply4}, {1, multiply1}};

void slc_gemm_affine_avx512(const slc_matrix *w, uint32_t row0, uint32_t row1, const slc_acts *a,
                            float *y, size_t ldy) {
    gemm_affine(w, row0, row1, a, y, ldy, multipliers);
}

#endif
