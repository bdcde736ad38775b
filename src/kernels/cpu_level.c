/* What the CPU and the operating system support, and the names of the levels. */
#include <string.h>

#include "kernels/table.h"

static const char *const level_names[] = {[SLC_CPU_SCALAR] = "scalar", [SLC_CPU_AVX2] = "avx2"};

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

slc_cpu_level slc_cpu_level_best(void) {
    const uint32_t leaf1 = bit_FMA | bit_AVX | bit_F16C | bit_OSXSAVE; // of ecx
    const uint32_t leaf7 = bit_AVX2 | bit_BMI2;                        // of ebx
    const uint64_t xmm_ymm = 6;
    uint32_t a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & leaf1) != leaf1) return SLC_CPU_SCALAR;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & leaf7) != leaf7) return SLC_CPU_SCALAR;
    return (xcr0() & xmm_ymm) == xmm_ymm ? SLC_CPU_AVX2 : SLC_CPU_SCALAR;
}
#else
slc_cpu_level slc_cpu_level_best(void) {
    return SLC_CPU_SCALAR;
}
#endif
