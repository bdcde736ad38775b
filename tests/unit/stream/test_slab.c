/* The slab: slots do not overlap, and populating stops before the machine is out of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/meminfo.h"
#include "stream/slab.h"
#include "support/temp.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

static void slots_are_apart_and_writable(void **state) {
    slc_slab slab;

    assert_int_equal(slc_slab_create(&slab, 12 * KIB, 300, "", NULL), SLC_OK);
    for (uint32_t i = 0; i < 300; i++) memset(slc_slab_slot(&slab, i), (int)i, 12 * KIB);
    for (uint32_t i = 0; i < 300; i++) {
        const uint8_t *p = slc_slab_slot(&slab, i);
        assert_int_equal((uintptr_t)p % 4096, 0);
        for (uint32_t k = 0; k < 12 * KIB; k++) assert_int_equal(p[k], (uint8_t)i);
    }
    slc_slab_destroy(&slab);
    slc_slab_destroy(&slab); /* zeroed is fine */
}

static void segments_hold_whole_slots(void **state) {
    assert_int_equal(slc_slab_n_segments(4096, 1), 1);
    assert_int_equal(slc_slab_n_segments(300 * MIB, 3), 1);
    assert_int_equal(slc_slab_n_segments(300 * MIB, 4), 2);
    assert_int_equal(slc_slab_n_segments(2000 * MIB, 4), 4);
    assert_int_equal(slc_slab_n_segments(1024 * MIB, 2), 2);
}

static void is_populated_from_the_start(void **state) {
    slc_mem_usage before = slc_mem_usage_get(), after;
    slc_slab slab;

    assert_int_equal(slc_slab_create(&slab, 1 * MIB, 50, "", NULL), SLC_OK);
    after = slc_mem_usage_get();
    assert_in_range(after.rss_bytes - before.rss_bytes, 48 * MIB, 60 * MIB);
    slc_slab_destroy(&slab);
    assert_true(slc_mem_usage_get().rss_bytes < before.rss_bytes + 10 * MIB);
}

static void stops_before_the_machine_is_out_of_memory(void **state) {
    static const char meminfo[] = "MemAvailable: 409600 kB\n"; /* 400 MiB, 32 of them stay free */
    slc_mem_usage before = slc_mem_usage_get();
    char *root = temp_dir(), *proc = temp_path(root, "proc");
    slc_slab slab;
    slc_err err = {0};

    assert_int_equal(mkdir(proc, 0755), 0);
    free(temp_write(root, "proc/meminfo", meminfo, sizeof(meminfo) - 1));
    assert_int_equal(slc_slab_create(&slab, 1 * MIB, 500, root, &err), SLC_E_NOMEM);
    assert_null(slab.segments);
    assert_non_null(strstr(err.msg, "asked 500 MiB"));
    assert_non_null(strstr(err.msg, "got 0 MiB"));
    assert_non_null(strstr(err.msg, "400 MiB were left"));
    assert_non_null(strstr(err.msg, "32 MiB of those stay free"));
    assert_true(slc_mem_usage_get().rss_bytes < before.rss_bytes + 10 * MIB);
    assert_int_equal(slc_slab_create(&slab, 1 * MIB, 369, root, NULL), SLC_E_NOMEM);
    assert_int_equal(slc_slab_create(&slab, 1 * MIB, 50, root, NULL), SLC_OK);
    slc_slab_destroy(&slab);
    temp_dir_remove(root);
    free(proc);
}

/* In a small container an eighth stays free. */
static void b14_little_room_is_used_all_the_same(void **state) {
    static const char meminfo[] = "MemAvailable: 24576 kB\n";
    char *root = temp_dir(), *proc = temp_path(root, "proc");
    slc_slab slab;

    assert_int_equal(mkdir(proc, 0755), 0);
    free(temp_write(root, "proc/meminfo", meminfo, sizeof(meminfo) - 1));
    assert_int_equal(slc_slab_create(&slab, 1 * MIB, 22, root, NULL), SLC_E_NOMEM);
    assert_int_equal(slc_slab_create(&slab, 1 * MIB, 21, root, NULL), SLC_OK);
    slc_slab_destroy(&slab);
    temp_dir_remove(root);
    free(proc);
}

static void sizes_that_overflow_are_refused(void **state) {
    slc_slab slab;
    slc_err err = {0};

    assert_int_equal(slc_slab_create(&slab, UINT64_C(1) << 40, UINT32_MAX, "", &err), SLC_E_NOMEM);
    assert_null(slab.segments);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_apart_and_writable),
        cmocka_unit_test(segments_hold_whole_slots),
        cmocka_unit_test(is_populated_from_the_start),
        cmocka_unit_test(stops_before_the_machine_is_out_of_memory),
        cmocka_unit_test(b14_little_room_is_used_all_the_same),
        cmocka_unit_test(sizes_that_overflow_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
