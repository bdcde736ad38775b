/* A file opened for positioned reads, with what is needed to read it directly (O_DIRECT).
 * Immutable after open; any thread may read through it. */
#ifndef SLC_IO_FILE_H
#define SLC_IO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/log.h"
#include "io/sys.h"
#include "sluice/status.h"

typedef struct slc_file {
    const slc_sys *sys; /* the system calls all reads of this file go through */
    char *path;         /* as given by the caller; for messages */
    int fd;             /* buffered descriptor */
    int direct_fd;      /* O_DIRECT descriptor, -1 where direct reads do not work */
    uint64_t size_bytes;
    struct timespec mtime; /* when it was opened, as is size_bytes */
    uint32_t align; /* of offset, length and memory of a direct read (a power of two, >= 512);
                       1 where direct reads do not work */
} slc_file;

/* Opens the regular file `path` read-only (symbolic links followed). Does not try direct reads. */
slc_status slc_file_open(slc_file *f, const char *path, slc_err *err) SLC_MUST_CHECK;
/* As slc_file_open, through another table of system calls (borrowed, outlives the file). */
slc_status slc_file_open_with(slc_file *f, const char *path, const slc_sys *sys,
                              slc_err *err) SLC_MUST_CHECK;
/* Opens the direct descriptor, finds the alignment (STATX_DIOALIGN, else 4096) and proves it by
 * aligned reads, which must also leave the page cache alone. Where that fails, the file stays
 * buffered and *why gets a short reason (static string, NULL on success); never an error. */
void slc_file_enable_direct(slc_file *f, const char **why);
/* What stands between us and the disk, where that may be a network or another process: "NFS",
 * "SMB", "FUSE" and the like. NULL: nothing that is known. */
const char *slc_file_remote(const slc_file *f);
/* SLC_E_IO, with what was found and what was expected, when the file has another length or time of
 * last change than when it was opened: what is read from it may be anything. A file that was
 * removed, or replaced by another of its name, is unchanged: the descriptor leads to the old one,
 * whose data stay. One fstat, well under a microsecond. (Changes in the same tick of the kernel's
 * clock, some milliseconds, look like one.) */
slc_status slc_file_check(const slc_file *f, slc_err *err) SLC_MUST_CHECK;
/* A zeroed or closed slc_file is fine. */
void slc_file_close(slc_file *f);

/* Descriptors kept for what is no weight file: sockets, outputs. Half the limit where that is less.
 */
#define SLC_FILE_ROOM 128u
/* How many descriptors weight files may take, which would like to have `wanted`: the limit of open
 * files (ulimit -n) less that room. The soft limit is raised to the hard one if it falls short. */
uint64_t slc_file_allowance(uint64_t wanted);
/* The least limit under which `wanted` are allowed. */
uint64_t slc_file_limit_for(uint64_t wanted);

/* Reads exactly `bytes` at `off` through the buffered descriptor, in pieces of at least 1 MiB where
 * the request is that large; continues short reads, retries EINTR, and transient errors a bounded
 * number of times. Failure names path, offset, wanted and got. */
slc_status slc_file_read(const slc_file *f, uint64_t off, void *buf, size_t bytes,
                         slc_err *err) SLC_MUST_CHECK;

#endif
