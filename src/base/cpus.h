/* How many compute threads this process can use. Reads /proc, /sys and the cgroup files. */
#ifndef SLC_BASE_CPUS_H
#define SLC_BASE_CPUS_H

#include <sched.h>
#include <stdint.h>

/* The cores among `allowed`, each counted once however many threads it runs, but no more than the
 * cgroup's CPU time (v1 or v2, any level) can keep busy, rounded up. At least 1. `root` as in
 * base/cgroup.h. */
uint32_t slc_cpus_usable(const char *root, const cpu_set_t *allowed);

#endif
