/* CPU levels: names, and complete tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "unit/kernels/levels.h"

static void names_parse(void **state) {
    assert_int_equal(slc_cpu_level_parse("scalar"), SLC_CPU_SCALAR);
    assert_int_equal(slc_cpu_level_parse("avx2"), SLC_CPU_AVX2);
    assert_int_equal(slc_cpu_level_parse("avx512"), SLC_CPU_AVX512);
    assert_int_equal(slc_cpu_level_parse("auto"), SLC_CPU_AUTO);
    assert_int_equal(slc_cpu_level_parse("AVX2"), SLC_CPU_N_LEVELS);
    assert_int_equal(slc_cpu_level_parse(""), SLC_CPU_N_LEVELS);
}

static void every_level_has_a_name_that_parses_to_it(void **state) {
    const slc_kernels *k;

    FOR_EACH_LEVEL(k) {
        assert_int_equal(slc_cpu_level_parse(k->level), it.level);
    }
}

static void auto_is_the_best(void **state) {
    slc_kernels best, chosen;

    slc_kernels_init(&best, slc_cpu_level_best());
    slc_kernels_init(&chosen, SLC_CPU_AUTO);
    assert_memory_equal(&best, &chosen, sizeof(best));
}

/* A table is function pointers after its name; only widths that do not exist are NULL. */
static void every_entry_is_set(void **state) {
    const slc_kernels *k;

    FOR_EACH_LEVEL(k) {
        const size_t first = offsetof(slc_kernels, act_quantize) / sizeof(void *);
        const size_t affine = offsetof(slc_kernels, matmul_affine) / sizeof(void *);

        for (size_t i = first; i < sizeof(*k) / sizeof(void *); i++) {
            bool none = i == affine || i == affine + 1 || i == affine + 7;
            uintptr_t entry;

            memcpy(&entry, (const char *)k + i * sizeof(void *), sizeof(entry));
            assert_int_equal(entry == 0, none);
        }
    }
}

/* The kernel lists the same facts: what it shows in /proc/cpuinfo is what the OS enabled. */
static void detection_agrees_with_the_kernel(void **state) {
    static const char *const flags[SLC_CPU_N_LEVELS][8] = {
        [SLC_CPU_AVX2] = {" avx2 ", " fma ", " f16c ", " bmi2 "},
        [SLC_CPU_AVX512] = {" avx512f ", " avx512bw ", " avx512dq ", " avx512vl ", " avx512_vnni "},
    };
    int best = SLC_CPU_SCALAR;
    char line[8192] = "";
    FILE *f = fopen("/proc/cpuinfo", "r");

    if (!f) skip();
    while (fgets(line, sizeof(line), f) && strncmp(line, "flags", 5)) {
    }
    fclose(f);
    for (bool all = true; all && best + 1 < SLC_CPU_N_LEVELS; best += all) {
        for (int i = 0; i < 8 && flags[best + 1][i]; i++) {
            all = all && strstr(line, flags[best + 1][i]);
        }
    }
    assert_int_equal(slc_cpu_level_best(), best);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_parse),
        cmocka_unit_test(every_level_has_a_name_that_parses_to_it),
        cmocka_unit_test(auto_is_the_best),
        cmocka_unit_test(every_entry_is_set),
        cmocka_unit_test(detection_agrees_with_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
