/* The Gated DeltaNet recurrence, AVX2.
 *
 * Rows of S are independent: four go together (eight accumulators hide the latency of the sums) and
 * stay in the first-level cache for all tokens. Each token reads a row twice and writes it once:
 *
 *     pass 1   m = sum(g s[j] * k[j])
 *     pass 2   s[j] = fmaf(d, k[j], g s[j]);  o = sum(s[j] * q[j])
 *
 * g s[j] is computed in both passes, which is cheaper than storing it and gives the same bits. */
#if defined(__x86_64__)

#include "kernels/x86/avx2.h"
#include "kernels/x86/simd_avx2.h"

enum { ROWS = 4 };

/* One token's inputs that all rows share. */
typedef struct step {
    const float *q, *k; /* [dk] */
    float g;
    uint32_t dk;
} step;

/* The last dk % 16 elements, from j. */
SLC_ALWAYS_INLINE lanes predict_tail(lanes m, const float *s, const step *st, uint32_t j) {
    uint32_t lo = st->dk - j, hi = lo > 8 ? lo - 8 : 0;
    __m256 g = _mm256_set1_ps(st->g);
    __m256 s_lo = _mm256_mul_ps(g, load_first(s + j, lo));
    __m256 s_hi = _mm256_mul_ps(g, load_first(s + j + 8, hi));

    return lanes_fma_first(m, s_lo, s_hi, load_first(st->k + j, lo), load_first(st->k + j + 8, hi),
                           lo);
}

SLC_ALWAYS_INLINE lanes update_tail(lanes o, float *s, float d, const step *st, uint32_t j) {
    uint32_t lo = st->dk - j, hi = lo > 8 ? lo - 8 : 0;
    __m256 g = _mm256_set1_ps(st->g), d8 = _mm256_set1_ps(d);
    __m256 s_lo = _mm256_mul_ps(g, load_first(s + j, lo));
    __m256 s_hi = _mm256_mul_ps(g, load_first(s + j + 8, hi));

    s_lo = _mm256_fmadd_ps(d8, load_first(st->k + j, lo), s_lo);
    s_hi = _mm256_fmadd_ps(d8, load_first(st->k + j + 8, hi), s_hi);
    store_first(s + j, s_lo, lo);
    store_first(s + j + 8, s_hi, hi);
    return lanes_fma_first(o, s_lo, s_hi, load_first(st->q + j, lo), load_first(st->q + j + 8, hi),
                           lo);
}

/* m[r] = (g S k)[r] for n_rows rows; n_rows is a constant where this is inlined. */
SLC_ALWAYS_INLINE void predict(uint32_t n_rows, const float *S, const step *st, float *m) {
    lanes sum[ROWS] = {lanes_zero(), lanes_zero(), lanes_zero(), lanes_zero()};
    __m256 g = _mm256_set1_ps(st->g);
    uint32_t j = 0;

    for (; j + 16 <= st->dk; j += 16) {
        __m256 k_lo = _mm256_loadu_ps(st->k + j), k_hi = _mm256_loadu_ps(st->k + j + 8);

        for (uint32_t r = 0; r < n_rows; r++) {
            const float *s = S + (size_t)r * st->dk + j;

            sum[r] = lanes_fma(sum[r], _mm256_mul_ps(g, _mm256_loadu_ps(s)),
                               _mm256_mul_ps(g, _mm256_loadu_ps(s + 8)), k_lo, k_hi);
        }
    }
    for (uint32_t r = 0; r < n_rows; r++) {
        if (j < st->dk) sum[r] = predict_tail(sum[r], S + (size_t)r * st->dk, st, j);
        m[r] = lanes_total(sum[r]);
    }
}

/* S = g S + d k^T and o[r] = (S q)[r]. */
SLC_ALWAYS_INLINE void update(uint32_t n_rows, float *S, const float *d, const step *st, float *o) {
    lanes sum[ROWS] = {lanes_zero(), lanes_zero(), lanes_zero(), lanes_zero()};
    __m256 g = _mm256_set1_ps(st->g);
    uint32_t j = 0;

    for (; j + 16 <= st->dk; j += 16) {
        __m256 k_lo = _mm256_loadu_ps(st->k + j), k_hi = _mm256_loadu_ps(st->k + j + 8);
        __m256 q_lo = _mm256_loadu_ps(st->q + j), q_hi = _mm256_loadu_ps(st->q + j + 8);

        for (uint32_t r = 0; r < n_rows; r++) {
            float *s = S + (size_t)r * st->dk + j;
            __m256 d8 = _mm256_broadcast_ss(d + r);
            __m256 lo = _mm256_fmadd_ps(d8, k_lo, _mm256_mul_ps(g, _mm256_loadu_ps(s)));
            __m256 hi = _mm256_fmadd_ps(d8, k_hi, _mm256_mul_ps(g, _mm256_loadu_ps(s + 8)));

            _mm256_storeu_ps(s, lo);
            _mm256_storeu_ps(s + 8, hi);
            sum[r] = lanes_fma(sum[r], lo, hi, q_lo, q_hi);
        }
    }
    for (uint32_t r = 0; r < n_rows; r++) {
        if (j < st->dk) sum[r] = update_tail(sum[r], S + (size_t)r * st->dk, d[r], st, j);
        o[r] = lanes_total(sum[r]);
    }
}

SLC_ALWAYS_INLINE void step_rows(uint32_t n_rows, float *S, const step *st, float beta,
                                 const float *v, float *o) {
    float m[ROWS], d[ROWS];

    predict(n_rows, S, st, m);
    for (uint32_t r = 0; r < n_rows; r++) d[r] = beta * (v[r] - m[r]);
    update(n_rows, S, d, st, o);
}

void slc_gdn_avx2(float *S, uint32_t n_rows, uint32_t dk, uint32_t n_tok, const float *q,
                  const float *k, size_t ld_qk, const float *v, size_t ld_v, const float *g,
                  const float *beta, size_t ld_g, float *o, size_t ld_o) {
    for (uint32_t i = 0, n; i < n_rows; i += n) {
        float *rows = S + (size_t)i * dk;

        n = n_rows - i >= ROWS ? ROWS : 1;
        for (uint32_t t = 0; t < n_tok; t++) {
            const step st = {q + t * ld_qk, k + t * ld_qk, g[t * ld_g], dk};
            const float *vt = v + t * ld_v + i;
            float *ot = o + t * ld_o + i;

            if (n == ROWS)
                step_rows(ROWS, rows, &st, beta[t * ld_g], vt, ot);
            else
                step_rows(1, rows, &st, beta[t * ld_g], vt, ot);
        }
    }
}

#endif
