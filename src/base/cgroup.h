/* Where this process is in the cgroup hierarchies, v1 and v2. */
#ifndef SLC_BASE_CGROUP_H
#define SLC_BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct slc_cgroup_hierarchy {
    const char *controller;    /* of v1: "memory", "cpu"; NULL: v2 */
    const char *default_mount; /* where mountinfo does not say */
} slc_cgroup_hierarchy;

/* Our directory, in dir [cap]; its first *top bytes are the mount point. A limit can sit at any
 * level from there up to the mount point: slc_cgroup_up leads to the next one. False if the
 * hierarchy is not there. `root` is "" in programs; tests give a folder with fake proc and sys
 * trees. */
bool slc_cgroup_dir(const slc_cgroup_hierarchy *h, const char *root, char *dir, size_t cap,
                    size_t *top);
/* Shortens dir by one level. False: it is the mount point. */
bool slc_cgroup_up(char *dir, size_t top);

#endif
