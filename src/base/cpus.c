/* Two threads of one core share what a product needs, so a core counts once. */
#include "base/cpus.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cgroup.h"
#include "base/textfile.h"

/* ---- cores ---- */

/* The lowest CPU that shares the core; the CPU itself where the kernel does not say. */
static int first_of_core(const char *root, int cpu) {
    char name[96];
    int first = cpu;
    FILE *f;

    snprintf(name, sizeof(name), "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    if (!(f = slc_textfile_open(root, name))) return cpu;
    if (fscanf(f, "%d", &first) != 1) first = cpu;
    fclose(f);
    return first;
}

static uint32_t count_cores(const char *root, const cpu_set_t *allowed) {
    cpu_set_t seen;

    CPU_ZERO(&seen);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        int first;

        if (!CPU_ISSET(cpu, allowed)) continue;
        first = first_of_core(root, cpu);
        if (first >= 0 && first < CPU_SETSIZE) CPU_SET(first, &seen);
    }
    return (uint32_t)CPU_COUNT(&seen);
}

/* ---- quotas ---- */

static long long read_field(const char *dir, const char *name, int field) {
    char text[2][32] = {"", ""};
    FILE *f = slc_textfile_open(dir, name);
    long long value = -1;

    if (!f) return -1;
    if (fscanf(f, "%31s %31s", text[0], text[1]) > field) value = atoll(text[field]);
    fclose(f);
    return value;
}

/* CPUs that the level's quota pays for, rounded up; UINT32_MAX: no quota. */
static uint32_t level_quota(const slc_cgroup_hierarchy *h, const char *dir) {
    long long quota, period;

    if (h->controller) { /* -1: none */
        quota = read_field(dir, "cpu.cfs_quota_us", 0);
        period = read_field(dir, "cpu.cfs_period_us", 0);
    } else { /* "max 100000": none */
        quota = read_field(dir, "cpu.max", 0);
        period = read_field(dir, "cpu.max", 1);
    }
    if (quota <= 0 || period <= 0 || quota / period >= UINT32_MAX) return UINT32_MAX;
    return (uint32_t)((quota + period - 1) / period);
}

static uint32_t quota(const slc_cgroup_hierarchy *h, const char *root) {
    char dir[3 * PATH_MAX];
    uint32_t least = UINT32_MAX;
    size_t top;

    if (!slc_cgroup_dir(h, root, dir, sizeof(dir), &top)) return least;
    do {
        uint32_t here = level_quota(h, dir);
        if (here < least) least = here;
    } while (slc_cgroup_up(dir, top));
    return least;
}

uint32_t slc_cpus_usable(const char *root, const cpu_set_t *allowed) {
    static const slc_cgroup_hierarchy hierarchies[] = {{NULL, "/sys/fs/cgroup"},
                                                       {"cpu", "/sys/fs/cgroup/cpu"}};
    uint32_t n = count_cores(root, allowed);

    for (int i = 0; i < 2; i++) {
        uint32_t most = quota(&hierarchies[i], root);
        if (most < n) n = most;
    }
    return n ? n : 1;
}
