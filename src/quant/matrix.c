/* Sizes and the scalar reading of weight matrices: the oracle that kernels are checked against. */
#include "quant/matrix.h"

#include <math.h>
#include <stdio.h>

uint64_t slc_matrix_row_bytes(const slc_matrix_type *t, int part) {
    if (!slc_matrix_is_affine(t)) {
        return part == SLC_PART_W ? (uint64_t)t->cols * slc_dtype_bytes(t->dtype) : 0;
    }
    if (part == SLC_PART_W) return (uint64_t)t->cols * t->bits / 8;
    return (uint64_t)(t->cols / t->group) * slc_dtype_bytes(t->scale_dtype);
}

uint64_t slc_matrix_part_bytes(const slc_matrix_type *t, int part) {
    uint64_t bytes;

    if (__builtin_mul_overflow(slc_matrix_row_bytes(t, part), t->rows, &bytes)) return UINT64_MAX;
    return bytes;
}

void slc_matrix_dequant_row(const slc_matrix *m, uint32_t row, float *out) {
    const slc_matrix_type *t = &m->type;
    const uint8_t *w = m->part[SLC_PART_W] + row * slc_matrix_row_bytes(t, SLC_PART_W);

    for (uint32_t j = 0; j < t->cols; j++) {
        if (slc_matrix_is_affine(t)) {
            uint64_t g = (uint64_t)row * (t->cols / t->group) + j / t->group;
            float scale = slc_load_f32(t->scale_dtype, m->part[SLC_PART_SCALES], g);
            float bias = slc_load_f32(t->scale_dtype, m->part[SLC_PART_BIASES], g);

            out[j] = fmaf(scale, (float)slc_affine_code(w, t->bits, j), bias);
        } else {
            out[j] = slc_load_f32(t->dtype, w, j);
        }
    }
}

const char *slc_matrix_type_str(const slc_matrix_type *t, char *buf, uint32_t cap) {
    if (slc_matrix_is_affine(t)) {
        snprintf(buf, cap, "affine %u-bit g%u", t->bits, t->group);
    } else {
        snprintf(buf, cap, "%s", slc_dtype_name(t->dtype));
    }
    return buf;
}
