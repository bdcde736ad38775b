/* Cgroups by mkdir, write and rmdir. Where ours may not have children that limit memory (v2 forbids
 * it to a group that holds processes itself) its parent is tried, which is what a service manager
 * delegates. */
#include "cli/memory_group.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/meminfo.h"

/* Writes text to DIR/NAME; errno is kept. */
static bool put(const char *dir, const char *name, const char *text) {
    char path[PATH_MAX + 64];
    int fd, saved;
    bool ok;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    if ((fd = open(path, O_WRONLY | O_CLOEXEC)) < 0) return false;
    ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    saved = errno;
    close(fd);
    errno = saved;
    return ok;
}

static bool create_below(slc_memory_group *g, const char *parent, const char *limit_file,
                         const char *limit) {
    int saved;

    if (snprintf(g->dir, sizeof(g->dir), "%s/sluice-bench-%ld", parent, (long)getpid()) >=
        (int)sizeof(g->dir)) {
        errno = ENAMETOOLONG;
        g->dir[0] = '\0';
        return false;
    }
    if (mkdir(g->dir, 0755) && errno != EEXIST) {
        g->dir[0] = '\0';
        return false;
    }
    if (put(g->dir, limit_file, limit)) return true;
    saved = errno;
    slc_memory_group_destroy(g);
    errno = saved;
    return false;
}

slc_status slc_memory_group_create(slc_memory_group *g, uint64_t limit_bytes, slc_err *err) {
    char own[PATH_MAX - 64], parent[PATH_MAX - 64], limit[32];
    const char *limit_file;
    char *slash;
    int own_errno;

    g->dir[0] = '\0';
    if (!slc_mem_cgroup("", own, sizeof(own), &limit_file))
        return slc_fail(err, SLC_E_UNSUPPORTED,
                        "--cgroup needs a memory cgroup (v1 or v2), and none is mounted");
    snprintf(limit, sizeof(limit), "%llu", (unsigned long long)limit_bytes);
    strcpy(parent, own);
    if ((slash = strrchr(parent, '/'))) *slash = '\0';
    if (!create_below(g, own, limit_file, limit)) {
        own_errno = errno;
        if (!create_below(g, parent, limit_file, limit))
            return slc_fail_errno(err, own_errno,
                                  "--cgroup needs the right to make a cgroup with a %s in %s "
                                  "(run as root, or under systemd-run --user --scope -p "
                                  "Delegate=yes)",
                                  limit_file, own);
    }
    /* Where swap is counted, it must not stretch the limit; where it is not, these do not exist. */
    put(g->dir, "memory.swap.max", "0");
    put(g->dir, "memory.memsw.limit_in_bytes", limit);
    return SLC_OK;
}

int slc_memory_group_enter(const slc_memory_group *g) {
    return put(g->dir, "cgroup.procs", "0") ? 0 : -1;
}

void slc_memory_group_destroy(slc_memory_group *g) {
    if (g->dir[0]) rmdir(g->dir);
    g->dir[0] = '\0';
}
