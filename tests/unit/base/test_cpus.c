/* Usable cores under fake /sys and cgroup trees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/cpus.h"
#include "support/temp.h"

static int setup(void **state) {
    *state = temp_dir();
    return 0;
}

static int teardown(void **state) {
    temp_dir_remove(*state);
    return 0;
}

static void expect_with(const char *root, int n_cpus, uint32_t usable) {
    cpu_set_t set;

    CPU_ZERO(&set);
    for (int i = 0; i < n_cpus; i++) CPU_SET(i, &set);
    assert_int_equal(slc_cpus_usable(root, &set), usable);
}

static void without_topology_every_cpu_counts(void **state) {
    expect_with(*state, 6, 6);
}

/* CPUs 0 to 3 are cores, 4 to 7 their second threads. */
static void a_core_counts_once(void **state) {
    char name[96], text[32];

    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof(name), "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 i);
        snprintf(text, sizeof(text), "%d,%d\n", i % 4, i % 4 + 4);
        temp_put(*state, name, text);
    }
    expect_with(*state, 8, 4);
    expect_with(*state, 3, 3);
    expect_with(*state, 5, 4);
}

static void v2_quota_is_rounded_up(void **state) {
    temp_put(*state, "proc/self/cgroup", "0::/job\n");
    temp_put(*state, "sys/fs/cgroup/job/cpu.max", "250000 100000\n");
    expect_with(*state, 8, 3);
    temp_put(*state, "sys/fs/cgroup/job/cpu.max", "max 100000\n");
    expect_with(*state, 8, 8);
    temp_put(*state, "sys/fs/cgroup/job/cpu.max", "1000 100000\n");
    expect_with(*state, 8, 1);
}

static void the_lowest_level_counts(void **state) {
    temp_put(*state, "proc/self/cgroup", "0::/pod/job\n");
    temp_put(*state, "sys/fs/cgroup/pod/job/cpu.max", "600000 100000\n");
    temp_put(*state, "sys/fs/cgroup/pod/cpu.max", "200000 100000\n");
    expect_with(*state, 8, 2);
}

static void v1_quota(void **state) {
    temp_put(*state, "proc/self/cgroup", "5:cpuset:/other\n3:cpu,cpuacct:/job\n0::/job\n");
    temp_put(*state, "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "400000\n");
    temp_put(*state, "sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    expect_with(*state, 8, 4);
    temp_put(*state, "sys/fs/cgroup/job/cpu.max", "300000 100000\n"); /* v2 beside it */
    expect_with(*state, 8, 3);
    temp_put(*state, "sys/fs/cgroup/job/cpu.max", "max 100000\n");
    temp_put(*state, "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
    expect_with(*state, 8, 8);
}

static void nonsense_is_no_quota(void **state) {
    temp_put(*state, "proc/self/cgroup", "0::/job\n");
    temp_put(*state, "sys/fs/cgroup/job/cpu.max", "");
    expect_with(*state, 4, 4);
    temp_put(*state, "sys/fs/cgroup/job/cpu.max", "100000 0\n");
    expect_with(*state, 4, 4);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(without_topology_every_cpu_counts),
        CASE(a_core_counts_once),
        CASE(v2_quota_is_rounded_up),
        CASE(the_lowest_level_counts),
        CASE(v1_quota),
        CASE(nonsense_is_no_quota),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
