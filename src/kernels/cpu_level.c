/* What the CPU and the operating system support, and the names of the levels. */
#include <string.h>

#include "kernels/table.h"

static const char *const level_names[] = {
    [SLC_CPU_SCALAR] = "scalar", [SLC_CPU_AVX2] = "avx2", [SLC_CPU_AVX512] = "avx512"};

slc_cpu_level slc_cpu_level_parse(const char *name) {
    for (unsigned i = 0; i < SLC_CPU_N_LEVELS; i++) {
        if (!strcmp(name, level_names[i])) return (slc_cpu_level)i;
    }
    return strcmp(name, "auto") ? SLC_CPU_N_LEVELS : SLC_CPU_AUTO;
}

#if defined(__x86_64__)
#include <cpuid.h>

/* The register file that the operating system saves on a context switch. */
static uint64_t xcr0(void) {
    uint32_t lo, hi;

    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

/* What CPUID says has to be there, bit by bit. */
typedef struct features {
    uint32_t leaf1_c, leaf7_b, leaf7_c;
    uint64_t registers; /* that the operating system saves */
} features;

#define XMM_YMM UINT64_C(0x06)
#define ZMM     UINT64_C(0xe0) /* with the mask registers */

static const features needed[SLC_CPU_N_LEVELS] = {
    [SLC_CPU_AVX2] = {bit_FMA | bit_AVX | bit_F16C | bit_OSXSAVE, bit_AVX2 | bit_BMI2, 0, XMM_YMM},
    [SLC_CPU_AVX512] = {0, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL, bit_AVX512VNNI,
                        ZMM},
};

slc_cpu_level slc_cpu_level_best(void) {
    slc_cpu_level best = SLC_CPU_SCALAR;
    features has = {0};
    uint32_t a, b, d;

    if (!__get_cpuid(1, &a, &b, &has.leaf1_c, &d)) return best;
    if (!__get_cpuid_count(7, 0, &a, &has.leaf7_b, &has.leaf7_c, &d)) return best;
    if (has.leaf1_c & bit_OSXSAVE) has.registers = xcr0();
    for (int level = best + 1; level < SLC_CPU_N_LEVELS; level++) {
        const features *n = &needed[level];

        if ((has.leaf1_c & n->leaf1_c) != n->leaf1_c || (has.leaf7_b & n->leaf7_b) != n->leaf7_b ||
            (has.leaf7_c & n->leaf7_c) != n->leaf7_c ||
            (has.registers & n->registers) != n->registers)
            break;
        best = (slc_cpu_level)level;
    }
    return best;
}
#else
slc_cpu_level slc_cpu_level_best(void) {
    return SLC_CPU_SCALAR;
}
#endif
