/* The kernel table: every hot arithmetic operation as a pure function on buffers, one table per CPU
 * level. No threads, no files, no allocation; any thread may call; buffers are borrowed.
 *
 * The arithmetic is fixed here, so that every level gives the same bits:
 *
 *   lanes    A float sum over j = 0..n-1 uses 16 accumulators, all +0 at the start:
 *            lane[j % 16] = fmaf(a_j, b_j, lane[j % 16]) in ascending j, then the fixed tree
 *            lane[i] += lane[i + 8] (i < 8), += lane[i + 4] (i < 4), += lane[i + 2], += lane[i +
 * 1]. A plain sum of x_j is the same with lane[j % 16] += x_j. group    An affine weight group
 * times a quantised activation group contributes t   = bw * (float)sum_x          (one
 * multiplication) t   = fmaf(sw, (float)sum_wx, t) acc = fmaf(dx, t, acc) with sum_wx = sum of q_w
 * * q_x and sum_x = sum of q_x as exact int32 sums over the whole group (128 * 255 * 32767 < 2^31),
 * groups in ascending order from acc = +0. no fma   Everything else is separate IEEE operations in
 * the order written (files here are built with -ffp-contract=off); division and sqrtf are IEEE
 * exact. exp      slc_expf of kernels/scalar_math.h, its operations in its order, on every level.
 *
 * What is computed for one token or one row never depends on its neighbours: a matrix product gives
 * the same bits for any row range, token count and thread split. Weight parts may be unaligned;
 * activations, scales and outputs are naturally aligned. Any size is allowed, tails included. */
#ifndef SLC_KERNELS_TABLE_H
#define SLC_KERNELS_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "quant/matrix.h"

/* Positions in one block of attend(): absolute, position p is in block p / SLC_KV_BLOCK. */
#define SLC_KV_BLOCK 64u

/* The inputs x of a matrix product for n_tok tokens. For affine weights in the default mode they
 * are also given quantised, with the group of that weight. */
typedef struct slc_acts {
    const float *x; /* [n_tok][ldx], the first k of each row used */
    size_t ldx;
    uint32_t n_tok, k;
    uint32_t group; /* of q, scale and sum; 0: not quantised, x is used */
    int16_t *q;     /* [n_tok][k] */
    float *scale;   /* [n_tok][k / group] */
    int32_t *sum;   /* [n_tok][k / group]: sum of q over each group */
} slc_acts;

/* y[t * ldy + r] = sum_j W[r][j] x[t][j] for r in [row0, row1), t in [0, a->n_tok). */
typedef void slc_matmul_fn(const slc_matrix *w, uint32_t row0, uint32_t row1, const slc_acts *a,
                           float *y, size_t ldy);

typedef struct slc_kernels {
    const char *level; /* "scalar", "avx2", "avx512" */

    /* Quantises one token's k activations in groups (k a multiple of group).
     * m = max |x| of the group, compared as the integers (bits & 0x7fffffff), so NaN > inf >
     * finite. m is inf or NaN: scale NaN, q 0, sum 0. m < 2^-100: scale 0, q 0, sum 0. Otherwise
     * scale = m / 32767, q = round-half-even(x * (32767 / m)), sum = sum of q. */
    void (*act_quantize)(const float *x, uint32_t k, uint32_t group, int16_t *q, float *scale,
                         int32_t *sum);

    /* Affine weights times quantised activations ("group" arithmetic), indexed by bits
     * (2, 3, 4, 5, 6, 8; other entries NULL). a->group equals the weight's group. */
    slc_matmul_fn *matmul_affine[9];

    /* Any weight encoding times f32 activations: the weight element is converted exactly (float) or
     * dequantised as fmaf(scale, q, bias) (affine), then summed in "lanes". */
    slc_matmul_fn *matmul_f32;

    /* out[j] = W[row][j] as f32 (embedding lookup); equals slc_matrix_dequant_row. */
    void (*dequant_row)(const slc_matrix *w, uint32_t row, float *out);

    /* y = (x * r) * w with r = 1 / sqrtf(sum(x*x) / n + eps); sum in lanes. y may be x. */
    void (*rms_norm)(float *y, const float *x, const float *w, uint32_t n, float eps);
    /* y = (x * r) * scale with r = 1 / sqrtf(sum(x*x) + eps). y may be x. */
    void (*l2_norm)(float *y, const float *x, uint32_t n, float eps, float scale);
    /* y = silu(gate) * up, silu(g) = g / (1 + exp(-g)). y may be gate or up. */
    void (*swiglu)(float *y, const float *gate, const float *up, uint32_t n);
    /* y = y * sigmoid(gate), sigmoid(g) = 1 / (1 + exp(-g)). */
    void (*sigmoid_mul)(float *y, const float *gate, uint32_t n);
    /* y = y + x. */
    void (*add)(float *y, const float *x, uint32_t n);
    /* y = fmaf(a, x, y). */
    void (*axpy)(float *y, float a, const float *x, uint32_t n);
    /* x = exp(x - max(x)) / sum, in place; n >= 1; sum in lanes; NaN in gives NaN out. */
    void (*softmax)(float *x, uint32_t n);

    /* Causal depthwise convolution and SiLU for one token and n channels:
     * c = +0; c = fmaf(w[j * ldw + ch], rows[j][ch], c) for j = 0..n_taps-1; out[ch] = silu(c).
     * rows[n_taps - 1] is the current token. */
    void (*conv_silu)(float *out, const float *const *rows, const float *w, size_t ldw,
                      uint32_t n_taps, uint32_t n);

    /* Gated DeltaNet recurrence over n_tok tokens for n_rows rows (value indices) of one head.
     * For each token t, then row i (rows are independent), with s = S + i * dk:
     *   s[j] = g[t] * s[j]
     *   m = sum(s[j] * k[t][j]) in lanes;  d = beta[t] * (v[t][i] - m)
     *   s[j] = fmaf(d, k[t][j], s[j]);  o[t][i] = sum(s[j] * q[t][j]) in lanes
     * q, k [n_tok][ld_qk]; v [n_tok][ld_v]; g, beta [n_tok][ld_g]; o [n_tok][ld_o]. */
    void (*gdn)(float *S, uint32_t n_rows, uint32_t dk, uint32_t n_tok, const float *q,
                const float *k, size_t ld_qk, const float *v, size_t ld_v, const float *g,
                const float *beta, size_t ld_g, float *o, size_t ld_o);

    /* Rotate-half RoPE of one head in place: for i < half, a = x[i], b = x[i + half]:
     * x[i] = a * cos[i] - b * sin[i];  x[i + half] = b * cos[i] + a * sin[i]. */
    void (*rope)(float *x, const float *cosv, const float *sinv, uint32_t half);

    /* Softmax attention of one query head over n_pos positions of one KV head, online over blocks
     * of SLC_KV_BLOCK positions in ascending order, from m = -inf, l = +0, o = +0:
     *   s_t = scale * dot(q, k_t) in lanes;  bm = max of the block's s_t;  m' = max(m, bm)
     *   c = exp(m - m') (0 for the first block);  p_t = exp(s_t - m')
     *   l = fmaf(l, c, sum(p_t) in lanes);  o[d] = o[d] * c, then o[d] = fmaf(p_t, v_t[d], o[d]) in
     *   ascending t
     * at the end o = o / l. k, v [n_pos][hd] of the cache type; n_pos >= 1. NaN in, NaN out. */
    void (*attend_f16)(float *o, const float *q, const uint16_t *k, const uint16_t *v,
                       uint32_t n_pos, uint32_t hd, float scale);
    void (*attend_f32)(float *o, const float *q, const float *k, const float *v, uint32_t n_pos,
                       uint32_t hd, float scale);
    /* y = x rounded to half, to nearest even. */
    void (*f32_to_f16)(uint16_t *y, const float *x, uint32_t n);
} slc_kernels;

/* Levels in rising order. AUTO: the best the CPU has. */
typedef enum slc_cpu_level {
    SLC_CPU_SCALAR = 0,
    SLC_CPU_AVX2,
    SLC_CPU_AVX512, /* with VNNI */
    SLC_CPU_N_LEVELS,
    SLC_CPU_AUTO
} slc_cpu_level;

/* "scalar", "avx2", "avx512", "auto"; SLC_CPU_N_LEVELS for an unknown name. */
slc_cpu_level slc_cpu_level_parse(const char *name);
/* The highest level this CPU and operating system support (CPUID and XGETBV). */
slc_cpu_level slc_cpu_level_best(void);

/* Fills `k` with the scalar reference, then overrides upward to `level` (AUTO: the best). The level
 * must not exceed slc_cpu_level_best(). */
void slc_kernels_init(slc_kernels *k, slc_cpu_level level);

/* Scratch that quantised activations of n_tok tokens of width k need at the smallest group. */
#define SLC_MIN_GROUP 32u

#endif
