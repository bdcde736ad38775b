/* Affine weights times int16 activations, AVX-512. */
#if defined(__x86_64__)

#include "kernels/x86/avx512.h"

void slc_matmul_affine_avx512(const slc_matrix *w, uint32_t row0, uint32_t row1, const slc_acts *a,
                              float *y, size_t ldy) {
    slc_matmul_affine(slc_gemv_affine_avx512, slc_gemm_affine_avx512, w, row0, row1, a, y, ldy);
}

#endif
