/* Where the hierarchy is mounted, and which part of it, stands in /proc/self/mountinfo; where the
 * process is, in /proc/self/cgroup:
 *
 *     mountinfo  ... /docker/ab  /sys/fs/cgroup/memory ... - cgroup cgroup rw,memory
 *     cgroup     4:memory:/docker/ab/job
 *     => /sys/fs/cgroup/memory/job, below /sys/fs/cgroup/memory
 *
 * Nothing is cached; any thread may call. */
#include "base/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/textfile.h"

/* The controller list of a v1 line names it. */
static bool has_controller(const char *list, const char *name) {
    size_t n = strlen(name);

    for (const char *p = list; (p = strstr(p, name)); p += n) {
        bool starts = p == list || p[-1] == ',', ends = !p[n] || p[n] == ',' || p[n] == '\n';
        if (starts && ends) return true;
    }
    return false;
}

/* Our path from /proc/self/cgroup ("id:controllers:path"). */
static bool own_path(const slc_cgroup_hierarchy *h, const char *root, char *path, size_t cap) {
    char line[PATH_MAX + 256];
    FILE *f = slc_textfile_open(root, "proc/self/cgroup");
    bool found = false;

    while (f && !found && fgets(line, sizeof(line), f)) {
        char *list = strchr(line, ':'), *at = list ? strchr(list + 1, ':') : NULL;
        if (!at) continue;
        *at++ = 0;
        list++;
        at[strcspn(at, "\n")] = 0;
        found = (h->controller ? has_controller(list, h->controller) : !*list) && strlen(at) < cap;
        if (found) strcpy(path, at);
    }
    if (f) fclose(f);
    return found;
}

/* Mount point and mounted part of the hierarchy from /proc/self/mountinfo:
 * "id parent dev root mount-point options... - type source super-options". */
static void find_mount(const slc_cgroup_hierarchy *h, const char *root, char *mount, char *part) {
    char line[3 * PATH_MAX], type[64], super[1024];
    FILE *f = slc_textfile_open(root, "proc/self/mountinfo");

    strcpy(mount, h->default_mount);
    strcpy(part, "/");
    while (f && fgets(line, sizeof(line), f)) {
        char where[PATH_MAX], what[PATH_MAX], *tail = strstr(line, " - ");
        if (!tail || sscanf(tail, " - %63s %*s %1023s", type, super) != 2) continue;
        if (strcmp(type, h->controller ? "cgroup" : "cgroup2")) continue;
        if (h->controller && !has_controller(super, h->controller)) continue;
        if (sscanf(line, "%*s %*s %*s %4095s %4095s", what, where) != 2) continue;
        strcpy(mount, where);
        strcpy(part, what);
        break;
    }
    if (f) fclose(f);
}

bool slc_cgroup_dir(const slc_cgroup_hierarchy *h, const char *root, char *dir, size_t cap,
                    size_t *top) {
    char path[PATH_MAX], mount[PATH_MAX], part[PATH_MAX];
    const char *below;
    size_t skip;
    bool inside;

    if (!own_path(h, root, path, sizeof(path))) return false;
    find_mount(h, root, mount, part);
    skip = strcmp(part, "/") ? strlen(part) : 0;
    /* a path outside the mounted part (another namespace): only the mount point can be asked */
    inside = strncmp(path, part, skip) == 0 && strchr("/", path[skip]) && !strstr(path, "/..");
    below = inside && strcmp(path + skip, "/") ? path + skip : "";
    *top = strlen(root) + strlen(mount);
    return (size_t)snprintf(dir, cap, "%s%s%s", root, mount, below) < cap;
}

bool slc_cgroup_up(char *dir, size_t top) {
    char *slash = strrchr(dir + top, '/');

    if (slash) *slash = 0;
    return slash != NULL;
}
