/* Products of affine weights, however many tokens there are, from a level's two ways. */
#ifndef SLC_KERNELS_X86_MATMUL_AFFINE_H
#define SLC_KERNELS_X86_MATMUL_AFFINE_H

#include "kernels/table.h"

/* The product with one token: a->n_tok is 1. */
typedef void slc_gemv_fn(const slc_matrix *w, uint32_t row0, uint32_t row1, const slc_acts *a,
                         float *y);

enum {
    SLC_FEW_TOKENS = 3, /* a panel costs as much as two or three of them */
    SLC_FEW_ROWS = 64,  /* rows that stay in the cache from one token to the next */
};

/* Few tokens go one by one. */
static inline void slc_matmul_affine(slc_gemv_fn *gemv, slc_matmul_fn *gemm, const slc_matrix *w,
                                     uint32_t row0, uint32_t row1, const slc_acts *a, float *y,
                                     size_t ldy) {
    uint32_t at_once = a->n_tok == 1 ? row1 - row0 : SLC_FEW_ROWS;
    size_t n_groups = a->k / a->group;

    if (a->n_tok > SLC_FEW_TOKENS) {
        gemm(w, row0, row1, a, y, ldy);
        return;
    }
    for (uint32_t row = row0, n; row < row1; row += n) {
        n = row1 - row < at_once ? row1 - row : at_once;
        for (uint32_t t = 0; t < a->n_tok; t++) {
            slc_acts one = *a;

            one.n_tok = 1;
            one.q += (size_t)t * a->k;
            one.sum += t * n_groups;
            one.scale += t * n_groups;
            gemv(w, row, row + n, &one, y + t * ldy);
        }
    }
}

#endif
