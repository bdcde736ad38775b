/* Reference: norms, activations, softmax, convolution, RoPE and the other operations on vectors. */
#include <math.h>

#include "kernels/ref/lanes.h"
#include "kernels/ref/ref.h"
#include "kernels/scalar_math.h"

void slc_rms_norm_ref(float *y, const float *x, const float *w, uint32_t n, float eps) {
    float r = 1 / sqrtf(lanes_dot(x, x, n) / (float)n + eps);

    for (uint32_t i = 0; i < n; i++) y[i] = x[i] * r * w[i];
}

void slc_l2_norm_ref(float *y, const float *x, uint32_t n, float eps, float scale) {
    float r = 1 / sqrtf(lanes_dot(x, x, n) + eps);

    for (uint32_t i = 0; i < n; i++) y[i] = x[i] * r * scale;
}

void slc_swiglu_ref(float *y, const float *gate, const float *up, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) y[i] = slc_siluf(gate[i]) * up[i];
}

void slc_sigmoid_mul_ref(float *y, const float *gate, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) y[i] = y[i] * slc_sigmoidf(gate[i]);
}

void slc_add_ref(float *y, const float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) y[i] = y[i] + x[i];
}

void slc_axpy_ref(float *y, float a, const float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) y[i] = fmaf(a, x[i], y[i]);
}

void slc_softmax_ref(float *x, uint32_t n) {
    float max = x[0];

    for (uint32_t i = 1; i < n; i++) max = x[i] > max ? x[i] : max;
    for (uint32_t i = 0; i < n; i++) x[i] = slc_expf(x[i] - max);

    float sum = lanes_sum(x, n);

    for (uint32_t i = 0; i < n; i++) x[i] = x[i] / sum;
}

void slc_conv_silu_ref(float *out, const float *const *rows, const float *w, size_t ldw,
                       uint32_t n_taps, uint32_t n) {
    for (uint32_t ch = 0; ch < n; ch++) {
        float c = 0;

        for (uint32_t j = 0; j < n_taps; j++) c = fmaf(w[j * ldw + ch], rows[j][ch], c);
        out[ch] = slc_siluf(c);
    }
}

void slc_rope_ref(float *x, const float *cosv, const float *sinv, uint32_t half) {
    for (uint32_t i = 0; i < half; i++) {
        float a = x[i], b = x[i + half];

        x[i] = a * cosv[i] - b * sinv[i];
        x[i + half] = b * cosv[i] + a * sinv[i];
    }
}

void slc_f32_to_f16_ref(uint16_t *y, const float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) y[i] = slc_f16_from_f32(x[i]);
}
