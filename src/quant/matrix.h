/* A weight matrix as it lies in a checkpoint: the type (shape and encoding), and a view (type plus
 * the addresses of its parts). Views own nothing.
 *
 * Two encodings:
 *   float   dtype F32, F16 or BF16; part W holds rows * cols elements, row-major. bits = 0.
 *   affine  MLX affine quantisation (bits 2, 3, 4, 5, 6, 8; group 32, 64, 128 elements of a row):
 *           w = scale * q + bias, q unsigned. Part W: each row one little-endian bit stream of cols
 *           codes, low bits first. Parts SCALES and BIASES: [rows][cols / group] of scale_dtype.
 *           dtype = U32. The scale may be negative.
 * Parts may start at any byte address: readers use unaligned loads.
 * Source: mlx/backend/cpu/quantized.cpp as described in docs/architecture.md. */
#ifndef SLC_QUANT_MATRIX_H
#define SLC_QUANT_MATRIX_H

#include <stdbool.h>
#include <stdint.h>

#include "quant/dtype.h"

enum { SLC_PART_W = 0, SLC_PART_SCALES = 1, SLC_PART_BIASES = 2, SLC_N_PARTS = 3 };

typedef struct slc_matrix_type {
    slc_dtype dtype;       /* of part W */
    slc_dtype scale_dtype; /* affine only: F32, F16 or BF16, of scales and biases */
    uint8_t bits;          /* affine: 2, 3, 4, 5, 6 or 8; float: 0 */
    uint16_t group;        /* affine: 32, 64 or 128; float: 0 */
    uint32_t rows, cols;   /* y[rows] = W x[cols]; affine: cols is a multiple of group */
} slc_matrix_type;

typedef struct slc_matrix {
    slc_matrix_type type;
    const uint8_t *part[SLC_N_PARTS]; /* scales and biases NULL for float */
} slc_matrix;

static inline bool slc_matrix_is_affine(const slc_matrix_type *t) {
    return t->bits != 0;
}

/* Code j of an affine row whose codes start at `row`; reads no byte past the code. */
static inline uint32_t slc_affine_code(const uint8_t *row, uint32_t bits, uint32_t j) {
    uint64_t bit = (uint64_t)j * bits;
    uint32_t shift = bit & 7, window = row[bit >> 3];

    if (shift + bits > 8) window |= (uint32_t)row[(bit >> 3) + 1] << 8;
    return window >> shift & ((1u << bits) - 1);
}

/* Bytes of one row of a part, and of a whole part; 0 where the encoding has no such part.
 * A size past 64 bits saturates to UINT64_MAX, which no file can hold. */
uint64_t slc_matrix_row_bytes(const slc_matrix_type *t, int part);
uint64_t slc_matrix_part_bytes(const slc_matrix_type *t, int part);

/* Row `row` as f32, out [cols]: fmaf(scale, q, bias) for affine. The oracle for every kernel. */
void slc_matrix_dequant_row(const slc_matrix *m, uint32_t row, float *out);

/* "affine 4-bit g64", "BF16", ...; written to buf, returned. */
const char *slc_matrix_type_str(const slc_matrix_type *t, char *buf, uint32_t cap);

#endif
