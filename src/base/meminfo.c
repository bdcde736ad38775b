/* Memory facts from /proc and the cgroup files.
 *
 * A container's limit can sit at any level above the process's own cgroup, and /proc/meminfo knows
 * nothing of it. So every directory from the process's cgroup up to the mount point is asked, in
 * both hierarchies (v1 and v2 can be mounted side by side; base/cgroup.h).
 *
 * File cache on the LRU lists is given back under pressure and so does not count as use. Nothing
 * is cached; any thread may call. */
#include "base/meminfo.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/textfile.h"

/* ---- small readers ---- */

/* Finds "key<blanks>value" at a line start of an open file; v2, v1 and /proc formats alike. */
static bool find_value(FILE *f, const char *key, uint64_t *out) {
    char line[512];
    size_t n = strlen(key);

    rewind(f);
    while (fgets(line, sizeof(line), f)) {
        if (strncmp(line, key, n) || !strchr(" \t:", line[n])) continue;
        *out = strtoull(line + n + strspn(line + n, " \t:"), NULL, 10);
        return true;
    }
    return false;
}

static uint64_t find_kb(FILE *f, const char *key) {
    uint64_t kb;

    return find_value(f, key, &kb) && kb <= UINT64_MAX / 1024 ? kb * 1024 : 0;
}

/* A file that holds one number, or "max" for none (UINT64_MAX). False if it cannot be read. */
static bool read_number(const char *dir, const char *name, uint64_t *out) {
    char text[64];
    FILE *f = slc_textfile_open(dir, name);
    bool ok = f && fgets(text, sizeof(text), f);
    char *end;

    if (f) fclose(f);
    if (!ok) return false;
    *out = UINT64_MAX;
    if (strncmp(text, "max", 3) == 0) return true;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return end != text && errno == 0;
}

/* ---- one cgroup ---- */

typedef struct hierarchy {
    slc_cgroup_hierarchy at;
    const char *limits[2]; /* the lower counts; NULL: only one */
    const char *usage;
    const char *cache_keys[2]; /* of memory.stat: file pages that can be dropped */
} hierarchy;

static const hierarchy v2 = {
    .at = {NULL, "/sys/fs/cgroup"},
    .limits = {"memory.max", "memory.high"}, /* above `high` the kernel slows us to a crawl */
    .usage = "memory.current",
    .cache_keys = {"inactive_file", "active_file"},
};
static const hierarchy v1 = {
    .at = {"memory", "/sys/fs/cgroup/memory"},
    .limits = {"memory.limit_in_bytes", NULL}, /* "unlimited" is a number near 2^63 */
    .usage = "memory.usage_in_bytes",
    .cache_keys = {"total_inactive_file", "total_active_file"},
};

static uint64_t droppable_bytes(const hierarchy *h, const char *dir) {
    uint64_t sum = 0, value;
    FILE *f = slc_textfile_open(dir, "memory.stat");

    if (!f) return 0;
    for (int i = 0; i < 2; i++) {
        if (find_value(f, h->cache_keys[i], &value)) sum += value;
    }
    fclose(f);
    return sum;
}

static uint64_t cgroup_room(const hierarchy *h, const char *dir) {
    uint64_t limit = UINT64_MAX, value, used, cache;

    for (int i = 0; i < 2; i++) {
        if (h->limits[i] && read_number(dir, h->limits[i], &value) && value < limit) limit = value;
    }
    if (limit == UINT64_MAX || !read_number(dir, h->usage, &used)) return UINT64_MAX;
    cache = droppable_bytes(h, dir);
    used = used > cache ? used - cache : 0;
    return limit > used ? limit - used : 0;
}

/* Room in our cgroup and all above it that are visible. */
static uint64_t hierarchy_room(const hierarchy *h, const char *root) {
    char dir[3 * PATH_MAX];
    uint64_t room = UINT64_MAX;
    size_t top;

    if (!slc_cgroup_dir(&h->at, root, dir, sizeof(dir), &top)) return UINT64_MAX;
    do {
        uint64_t here = cgroup_room(h, dir);
        if (here < room) room = here;
    } while (slc_cgroup_up(dir, top));
    return room;
}

/* ---- public ---- */

uint64_t slc_mem_room_bytes(const char *root) {
    uint64_t room = UINT64_MAX, part;
    FILE *f = slc_textfile_open(root, "proc/meminfo");

    if (f) {
        if (find_value(f, "MemAvailable", &part) && part <= UINT64_MAX / 1024) room = part * 1024;
        fclose(f);
    }
    if ((part = hierarchy_room(&v2, root)) < room) room = part;
    if ((part = hierarchy_room(&v1, root)) < room) room = part;
    return room;
}

bool slc_mem_cgroup(const char *root, char *dir, size_t cap, const char **limit_file) {
    const hierarchy *found[] = {&v1, &v2}; /* side by side, v1 is the one with the controller */
    size_t top;

    for (int i = 0; i < 2; i++) {
        *limit_file = found[i]->limits[0];
        if (slc_cgroup_dir(&found[i]->at, root, dir, cap, &top)) return true;
    }
    return false;
}

/* "start-end perms offset dev inode   /path": a path is a file; heap, stack and rings have none. */
static uint64_t file_mapped_bytes(void) {
    char line[PATH_MAX + 128];
    uint64_t sum = 0;
    FILE *f = fopen("/proc/self/maps", "re");

    while (f && fgets(line, sizeof(line), f)) {
        unsigned long long start, end;
        if (strchr(line, '/') && sscanf(line, "%llx-%llx", &start, &end) == 2) sum += end - start;
    }
    if (f) fclose(f);
    return sum;
}

slc_mem_usage slc_mem_usage_get(void) {
    slc_mem_usage u = {.file_mapped_bytes = file_mapped_bytes()};
    FILE *f = fopen("/proc/self/status", "re");

    if (!f) return u;
    u.rss_bytes = find_kb(f, "VmRSS");
    u.peak_rss_bytes = find_kb(f, "VmHWM");
    u.file_rss_bytes = find_kb(f, "RssFile");
    fclose(f);
    return u;
}
