/* Reference: activation quantisation and both matrix products. */
#include <math.h>
#include <stdbool.h>

#include "kernels/ref/lanes.h"
#include "kernels/ref/ref.h"

static uint32_t magnitude_bits(float x) {
    return slc_f32_bits(x) & 0x7fffffff;
}

void slc_act_quantize_ref(const float *x, uint32_t k, uint32_t group, int16_t *q, float *scale,
                          int32_t *sum) {
    for (uint32_t g = 0; g < k / group; g++, x += group, q += group) {
        uint32_t max = 0;

        for (uint32_t j = 0; j < group; j++) {
            if (magnitude_bits(x[j]) > max) max = magnitude_bits(x[j]);
        }

        float m = slc_f32_from_bits(max);
        bool usable = m >= 0x1p-100f && m < INFINITY;
        float inverse = usable ? 32767 / m : 0;

        scale[g] = usable ? m / 32767 : m < 0x1p-100f ? 0 : NAN;
        sum[g] = 0;
        for (uint32_t j = 0; j < group; j++) {
            q[j] = usable ? (int16_t)rintf(x[j] * inverse) : 0;
            sum[g] += q[j];
        }
    }
}

/* Group g of a row times group g of an activation row, added to acc. */
static float add_group(float acc, const slc_matrix *w, uint32_t row, uint32_t g, const slc_acts *a,
                       uint32_t t) {
    const slc_matrix_type *type = &w->type;
    uint32_t group = type->group, n_groups = type->cols / group;
    const uint8_t *codes = w->part[SLC_PART_W] + row * slc_matrix_row_bytes(type, SLC_PART_W);
    const int16_t *q = a->q + (size_t)t * a->k;
    size_t a_idx = (size_t)t * n_groups + g;
    uint64_t w_idx = (uint64_t)row * n_groups + g;
    float sw = slc_load_f32(type->scale_dtype, w->part[SLC_PART_SCALES], w_idx);
    float bw = slc_load_f32(type->scale_dtype, w->part[SLC_PART_BIASES], w_idx);
    int32_t sum_wx = 0;

    for (uint32_t j = g * group; j < (g + 1) * group; j++) {
        sum_wx += (int32_t)slc_affine_code(codes, type->bits, j) * q[j];
    }

    float term = fmaf(sw, (float)sum_wx, bw * (float)a->sum[a_idx]);

    return fmaf(a->scale[a_idx], term, acc);
}

void slc_matmul_affine_ref(const slc_matrix *w, uint32_t row0, uint32_t row1, const slc_acts *a,
                           float *y, size_t ldy) {
    uint32_t n_groups = w->type.cols / w->type.group;

    for (uint32_t t = 0; t < a->n_tok; t++) {
        for (uint32_t r = row0; r < row1; r++) {
            float acc = 0;

            for (uint32_t g = 0; g < n_groups; g++) acc = add_group(acc, w, r, g, a, t);
            y[t * ldy + r] = acc;
        }
    }
}

/* W[row][j] as f32, the arithmetic of slc_matrix_dequant_row. */
static float element(const slc_matrix *w, uint32_t row, uint32_t j) {
    const slc_matrix_type *type = &w->type;
    const uint8_t *at = w->part[SLC_PART_W] + row * slc_matrix_row_bytes(type, SLC_PART_W);

    if (!slc_matrix_is_affine(type)) return slc_load_f32(type->dtype, at, j);

    uint64_t g = (uint64_t)row * (type->cols / type->group) + j / type->group;
    float scale = slc_load_f32(type->scale_dtype, w->part[SLC_PART_SCALES], g);
    float bias = slc_load_f32(type->scale_dtype, w->part[SLC_PART_BIASES], g);

    return fmaf(scale, (float)slc_affine_code(at, type->bits, j), bias);
}

void slc_matmul_f32_ref(const slc_matrix *w, uint32_t row0, uint32_t row1, const slc_acts *a,
                        float *y, size_t ldy) {
    for (uint32_t t = 0; t < a->n_tok; t++) {
        const float *x = a->x + t * a->ldx;

        for (uint32_t r = row0; r < row1; r++) {
            float lane[16] = {0};

            for (uint32_t j = 0; j < w->type.cols; j++) {
                lane[j % 16] = fmaf(element(w, r, j), x[j], lane[j % 16]);
            }
            y[t * ldy + r] = lanes_total(lane);
        }
    }
}
