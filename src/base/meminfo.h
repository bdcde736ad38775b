/* How much memory this process uses and may use. Reads /proc and the cgroup files; Linux only. */
#ifndef SLC_BASE_MEMINFO_H
#define SLC_BASE_MEMINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct slc_mem_usage {
    uint64_t rss_bytes, peak_rss_bytes; /* VmRSS, VmHWM */
    uint64_t file_mapped_bytes; /* file-backed mappings (code, libraries), resident or not */
    uint64_t file_rss_bytes;    /* of those, resident (RssFile) */
} slc_mem_usage;

slc_mem_usage slc_mem_usage_get(void);

/* Bytes this process could still take before the machine or its cgroup (v1 or v2, any level up the
 * tree) runs out: min(MemAvailable, limit - non-reclaimable use of each level). UINT64_MAX if
 * nothing can be read. `root` is "" in programs; tests give a folder with fake proc and sys trees.
 */
uint64_t slc_mem_room_bytes(const char *root);

/* The directory of this process's cgroup in the hierarchy that limits memory (v1 or v2), and the
 * name of the file there that holds the limit. False: there is none, or dir is too short. */
bool slc_mem_cgroup(const char *root, char *dir, size_t cap, const char **limit_file);

#endif
