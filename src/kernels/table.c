/* Which function stands in which entry at which level. */
#include "kernels/table.h"

#include "base/assert.h"
#include "kernels/ref/ref.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/avx512.h"

static const slc_kernels ref_table = {
    .level = "scalar",
    .act_quantize = slc_act_quantize_ref,
    .matmul_f32 = slc_matmul_f32_ref,
    .dequant_row = slc_matrix_dequant_row,
    .rms_norm = slc_rms_norm_ref,
    .l2_norm = slc_l2_norm_ref,
    .swiglu = slc_swiglu_ref,
    .sigmoid_mul = slc_sigmoid_mul_ref,
    .add = slc_add_ref,
    .axpy = slc_axpy_ref,
    .softmax = slc_softmax_ref,
    .conv_silu = slc_conv_silu_ref,
    .gdn = slc_gdn_ref,
    .rope = slc_rope_ref,
    .attend_f16 = slc_attend_f16_ref,
    .attend_f32 = slc_attend_f32_ref,
    .f32_to_f16 = slc_f32_to_f16_ref,
};

static void use_affine(slc_kernels *k, slc_matmul_fn *fn) {
    static const uint8_t bits[] = {2, 3, 4, 5, 6, 8};

    for (size_t i = 0; i < sizeof(bits); i++) k->matmul_affine[bits[i]] = fn;
}

#if defined(__x86_64__)
static void use_avx2(slc_kernels *k) {
    k->level = "avx2";
    k->act_quantize = slc_act_quantize_avx2;
    use_affine(k, slc_matmul_affine_avx2);
    k->matmul_f32 = slc_matmul_f32_avx2;
    k->dequant_row = slc_dequant_row_avx2;
    k->rms_norm = slc_rms_norm_avx2;
    k->l2_norm = slc_l2_norm_avx2;
    k->swiglu = slc_swiglu_avx2;
    k->sigmoid_mul = slc_sigmoid_mul_avx2;
    k->add = slc_add_avx2;
    k->axpy = slc_axpy_avx2;
    k->softmax = slc_softmax_avx2;
    k->conv_silu = slc_conv_silu_avx2;
    k->gdn = slc_gdn_avx2;
    k->rope = slc_rope_avx2;
    k->attend_f16 = slc_attend_f16_avx2;
    k->attend_f32 = slc_attend_f32_avx2;
    k->f32_to_f16 = slc_f32_to_f16_avx2;
}

static void use_avx512(slc_kernels *k) {
    k->level = "avx512";
    use_affine(k, slc_matmul_affine_avx512);
}
#endif

void slc_kernels_init(slc_kernels *k, slc_cpu_level level) {
    if (level == SLC_CPU_AUTO) level = slc_cpu_level_best();
    slc_assert(level <= slc_cpu_level_best());
    *k = ref_table;
    use_affine(k, slc_matmul_affine_ref);
#if defined(__x86_64__)
    if (level >= SLC_CPU_AVX2) use_avx2(k);
    if (level >= SLC_CPU_AVX512) use_avx512(k);
#endif
}
