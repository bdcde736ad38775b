/* Entry points of the AVX-512 level (F, BW, DQ, VL and VNNI, beside what AVX2 asks for). What is
 * not here is the AVX2 level's. Same bits as the reference. */
#ifndef SLC_KERNELS_X86_AVX512_H
#define SLC_KERNELS_X86_AVX512_H

#include "kernels/x86/avx2.h"

slc_matmul_fn slc_matmul_affine_avx512;
slc_gemv_fn slc_gemv_affine_avx512; /* the parts of slc_matmul_affine_avx512 */
slc_matmul_fn slc_gemm_affine_avx512;

#endif
