/* Memory room under fake /proc and cgroup trees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/meminfo.h"
#include "support/temp.h"

#define MIB (UINT64_C(1) << 20)

static int setup(void **state) {
    *state = temp_dir();
    temp_put(*state, "proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable:    4194304 kB\n");
    return 0;
}

static int teardown(void **state) {
    temp_dir_remove(*state);
    return 0;
}

static void expect_room(const char *root, uint64_t mib) {
    assert_int_equal(slc_mem_room_bytes(root) / MIB, mib);
}

static void unknown_room_is_unlimited(void **state) {
    assert_true(slc_mem_room_bytes("/nowhere") == UINT64_MAX);
}

static void without_cgroups_it_is_mem_available(void **state) {
    expect_room(*state, 4096);
}

static void v2_max_means_no_limit(void **state) {
    temp_put(*state, "proc/self/cgroup", "0::/job\n");
    temp_put(*state, "sys/fs/cgroup/job/memory.max", "max\n");
    temp_put(*state, "sys/fs/cgroup/job/memory.current", "1048576\n");
    expect_room(*state, 4096);
}

static void v2_file_cache_is_not_use(void **state) {
    temp_put(*state, "proc/self/cgroup", "0::/job\n");
    temp_put(*state, "sys/fs/cgroup/job/memory.max", "536870912\n");
    temp_put(*state, "sys/fs/cgroup/job/memory.current", "419430400\n");
    temp_put(*state, "sys/fs/cgroup/job/memory.stat",
             "anon 104857600\nfile 314572800\ninactive_file_x 999999999\n"
             "inactive_file 209715200\nactive_file 104857600\n");
    expect_room(*state, 512 - (400 - 300));
}

static void v2_high_counts_too(void **state) {
    temp_put(*state, "proc/self/cgroup", "0::/job\n");
    temp_put(*state, "sys/fs/cgroup/job/memory.max", "536870912\n");
    temp_put(*state, "sys/fs/cgroup/job/memory.high", "268435456\n");
    temp_put(*state, "sys/fs/cgroup/job/memory.current", "0\n");
    expect_room(*state, 256);
}

static void v2_the_tightest_level_counts(void **state) {
    temp_put(*state, "proc/self/cgroup", "0::/a/b/c\n");
    temp_put(*state, "sys/fs/cgroup/a/b/c/memory.max", "max\n");
    temp_put(*state, "sys/fs/cgroup/a/b/c/memory.current", "104857600\n");
    temp_put(*state, "sys/fs/cgroup/a/b/memory.max", "1073741824\n");
    temp_put(*state, "sys/fs/cgroup/a/b/memory.current", "104857600\n");
    temp_put(*state, "sys/fs/cgroup/a/memory.max", "1073741824\n");
    temp_put(*state, "sys/fs/cgroup/a/memory.current",
             "943718400\n"); /* a neighbour uses 800 MiB */
    expect_room(*state, 1024 - 900);
}

static void a_limit_below_use_leaves_nothing(void **state) {
    temp_put(*state, "proc/self/cgroup", "0::/\n");
    temp_put(*state, "sys/fs/cgroup/memory.max", "1048576\n");
    temp_put(*state, "sys/fs/cgroup/memory.current", "2097152\n");
    expect_room(*state, 0);
}

static void v1_huge_limit_means_none(void **state) {
    temp_put(*state, "proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/job\n0::/\n");
    temp_put(*state, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    temp_put(*state, "sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1048576\n");
    expect_room(*state, 4096);
}

static void v1_parent_limit_counts(void **state) {
    temp_put(*state, "proc/self/cgroup", "4:hugetlb,memory:/slice/job\n");
    temp_put(*state, "sys/fs/cgroup/memory/slice/job/memory.limit_in_bytes",
             "9223372036854771712\n");
    temp_put(*state, "sys/fs/cgroup/memory/slice/job/memory.usage_in_bytes", "0\n");
    temp_put(*state, "sys/fs/cgroup/memory/slice/memory.limit_in_bytes", "314572800\n");
    temp_put(*state, "sys/fs/cgroup/memory/slice/memory.usage_in_bytes", "209715200\n");
    temp_put(*state, "sys/fs/cgroup/memory/slice/memory.stat",
             "inactive_file 1\ntotal_inactive_file 52428800\ntotal_active_file 52428800\n");
    expect_room(*state, 300 - (200 - 100));
}

/* A container without its own cgroup namespace: only part of the hierarchy is mounted. */
static void the_mounted_part_is_stripped_from_the_path(void **state) {
    temp_put(*state, "proc/self/cgroup", "4:memory:/docker/ab/job\n");
    temp_put(*state, "proc/self/mountinfo",
             "30 20 0:25 / /proc rw - proc proc rw\n"
             "34 31 0:31 / /cg/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu\n"
             "35 31 0:32 /docker/ab /cg/mem rw,relatime shared:9 - cgroup cgroup rw,memory\n");
    temp_put(*state, "cg/mem/job/memory.limit_in_bytes", "209715200\n");
    temp_put(*state, "cg/mem/job/memory.usage_in_bytes", "104857600\n");
    expect_room(*state, 100);
}

static void a_path_outside_the_mount_asks_the_mount_point(void **state) {
    temp_put(*state, "proc/self/cgroup", "4:memory:/docker/abc\n");
    temp_put(*state, "proc/self/mountinfo",
             "35 31 0:32 /docker/ab /cg/mem rw - cgroup cgroup rw,memory\n");
    temp_put(*state, "cg/mem/memory.limit_in_bytes", "104857600\n");
    temp_put(*state, "cg/mem/memory.usage_in_bytes", "0\n");
    expect_room(*state, 100);
}

static void usage_of_this_process_grows_with_it(void **state) {
    slc_mem_usage before = slc_mem_usage_get(), after;
    void *p;

    assert_int_equal(slc_map_alloc(64 * MIB, false, &p, NULL), SLC_OK);
    assert_int_equal(slc_map_populate(p, 64 * MIB, NULL), SLC_OK);
    after = slc_mem_usage_get();
    assert_in_range(after.rss_bytes - before.rss_bytes, 60 * MIB, 80 * MIB);
    assert_true(after.peak_rss_bytes >= after.rss_bytes - MIB);
    assert_true(after.file_mapped_bytes >= after.file_rss_bytes);
    assert_true(after.file_rss_bytes > 0);
    slc_map_free(p, 64 * MIB);
}

static void expect_cgroup(const char *root, const char *dir, const char *file) {
    char got[512], *want = temp_path(root, dir);
    const char *limit;

    assert_true(slc_mem_cgroup(root, got, sizeof(got), &limit));
    assert_string_equal(got, want);
    assert_string_equal(limit, file);
    free(want);
}

static void own_cgroup_is_found_in_both_hierarchies(void **state) {
    temp_put(*state, "proc/self/cgroup", "0::/job/a\n");
    expect_cgroup(*state, "sys/fs/cgroup/job/a", "memory.max");
    temp_put(*state, "proc/self/cgroup", "0::/\n");
    expect_cgroup(*state, "sys/fs/cgroup", "memory.max");
    temp_put(*state, "proc/self/cgroup", "4:memory:/job\n0::/job/a\n"); /* side by side */
    expect_cgroup(*state, "sys/fs/cgroup/memory/job", "memory.limit_in_bytes");
}

static void no_cgroup_and_no_room_for_its_name(void **state) {
    char dir[512], tiny[8];
    const char *limit;

    assert_false(slc_mem_cgroup("/nowhere", dir, sizeof(dir), &limit));
    temp_put(*state, "proc/self/cgroup", "0::/job\n");
    assert_false(slc_mem_cgroup(*state, tiny, sizeof(tiny), &limit));
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(unknown_room_is_unlimited),
        CASE(without_cgroups_it_is_mem_available),
        CASE(v2_max_means_no_limit),
        CASE(v2_file_cache_is_not_use),
        CASE(v2_high_counts_too),
        CASE(v2_the_tightest_level_counts),
        CASE(a_limit_below_use_leaves_nothing),
        CASE(v1_huge_limit_means_none),
        CASE(v1_parent_limit_counts),
        CASE(own_cgroup_is_found_in_both_hierarchies),
        CASE(no_cgroup_and_no_room_for_its_name),
        CASE(the_mounted_part_is_stripped_from_the_path),
        CASE(a_path_outside_the_mount_asks_the_mount_point),
        CASE(usage_of_this_process_grows_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
