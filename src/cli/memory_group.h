/* A cgroup with a memory limit, for one child process: made below our own, in whichever hierarchy
 * limits memory here (v1 or v2), and removed afterwards. */
#ifndef SLC_CLI_MEMORY_GROUP_H
#define SLC_CLI_MEMORY_GROUP_H

#include <limits.h>
#include <stdint.h>

#include "sluice/status.h"

typedef struct slc_memory_group {
    char dir[PATH_MAX]; /* "": none */
} slc_memory_group;

/* A fresh group that holds at most limit_bytes, page cache included, swap excluded. Fails with what
 * is missing: a memory cgroup at all, or the right to make one below ours. */
slc_status slc_memory_group_create(slc_memory_group *g, uint64_t limit_bytes,
                                   slc_err *err) SLC_MUST_CHECK;
/* Moves the calling process into it, for a child before exec. 0, or -1 with errno. */
int slc_memory_group_enter(const slc_memory_group *g);
/* Its processes are gone. */
void slc_memory_group_destroy(slc_memory_group *g);

#endif
