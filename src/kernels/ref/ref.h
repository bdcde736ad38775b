/* Entry points of the scalar reference: each is the definition of what its table entry computes. */
#ifndef SLC_KERNELS_REF_REF_H
#define SLC_KERNELS_REF_REF_H

#include "kernels/table.h"

slc_matmul_fn slc_matmul_affine_ref; /* all widths */
slc_matmul_fn slc_matmul_f32_ref;

void slc_act_quantize_ref(const float *x, uint32_t k, uint32_t group, int16_t *q, float *scale,
                          int32_t *sum);
void slc_rms_norm_ref(float *y, const float *x, const float *w, uint32_t n, float eps);
void slc_l2_norm_ref(float *y, const float *x, uint32_t n, float eps, float scale);
void slc_swiglu_ref(float *y, const float *gate, const float *up, uint32_t n);
void slc_sigmoid_mul_ref(float *y, const float *gate, uint32_t n);
void slc_add_ref(float *y, const float *x, uint32_t n);
void slc_axpy_ref(float *y, float a, const float *x, uint32_t n);
void slc_softmax_ref(float *x, uint32_t n);
void slc_conv_silu_ref(float *out, const float *const *rows, const float *w, size_t ldw,
                       uint32_t n_taps, uint32_t n);
void slc_gdn_ref(float *S, uint32_t n_rows, uint32_t dk, uint32_t n_tok, const float *q,
                 const float *k, size_t ld_qk, const float *v, size_t ld_v, const float *g,
                 const float *beta, size_t ld_g, float *o, size_t ld_o);
void slc_rope_ref(float *x, const float *cosv, const float *sinv, uint32_t half);
void slc_attend_f16_ref(float *o, const float *q, const uint16_t *k, const uint16_t *v,
                        uint32_t n_pos, uint32_t hd, float scale);
void slc_attend_f32_ref(float *o, const float *q, const float *k, const float *v, uint32_t n_pos,
                        uint32_t hd, float scale);
void slc_f32_to_f16_ref(uint16_t *y, const float *x, uint32_t n);

#endif
