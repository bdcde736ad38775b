/* Entry points of the AVX2 level (with FMA, F16C and BMI2). Same bits as the reference. */
#ifndef SLC_KERNELS_X86_AVX2_H
#define SLC_KERNELS_X86_AVX2_H

#include "kernels/table.h"
#include "kernels/x86/matmul_affine.h"

slc_matmul_fn slc_matmul_affine_avx2, slc_matmul_f32_avx2;
slc_gemv_fn slc_gemv_affine_avx2; /* the parts of slc_matmul_affine_avx2 */
slc_matmul_fn slc_gemm_affine_avx2;

void slc_act_quantize_avx2(const float *x, uint32_t k, uint32_t group, int16_t *q, float *scale,
                           int32_t *sum);
void slc_dequant_row_avx2(const slc_matrix *w, uint32_t row, float *out);
void slc_rms_norm_avx2(float *y, const float *x, const float *w, uint32_t n, float eps);
void slc_l2_norm_avx2(float *y, const float *x, uint32_t n, float eps, float scale);
void slc_swiglu_avx2(float *y, const float *gate, const float *up, uint32_t n);
void slc_sigmoid_mul_avx2(float *y, const float *gate, uint32_t n);
void slc_add_avx2(float *y, const float *x, uint32_t n);
void slc_axpy_avx2(float *y, float a, const float *x, uint32_t n);
void slc_softmax_avx2(float *x, uint32_t n);
void slc_conv_silu_avx2(float *out, const float *const *rows, const float *w, size_t ldw,
                        uint32_t n_taps, uint32_t n);
void slc_gdn_avx2(float *S, uint32_t n_rows, uint32_t dk, uint32_t n_tok, const float *q,
                  const float *k, size_t ld_qk, const float *v, size_t ld_v, const float *g,
                  const float *beta, size_t ld_g, float *o, size_t ld_o);
void slc_rope_avx2(float *x, const float *cosv, const float *sinv, uint32_t half);
void slc_attend_f16_avx2(float *o, const float *q, const uint16_t *k, const uint16_t *v,
                         uint32_t n_pos, uint32_t hd, float scale);
void slc_attend_f32_avx2(float *o, const float *q, const float *k, const float *v, uint32_t n_pos,
                         uint32_t hd, float scale);
void slc_f32_to_f16_avx2(uint16_t *y, const float *x, uint32_t n);

#endif
