/* A file that appears under its name only when it is complete and on disk. Until then it is
 * NAME.partial: locked by whoever writes it, so that two writers of one name cannot meet, and
 * recognised by its first bytes, so that what a killed writer left can be started over. One thread.
 */
#ifndef SLC_CONVERT_OUTFILE_H
#define SLC_CONVERT_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sluice/status.h"

/* The calls that a full or failing disk makes fail, as a table for tests. -1 and errno. */
typedef struct slc_out_sys slc_out_sys;
struct slc_out_sys {
    ssize_t (*pwrite)(const slc_out_sys *sys, int fd, const void *buf, size_t n, off_t off);
    int (*allocate)(const slc_out_sys *sys, int fd, off_t bytes); /* reserves [0, bytes) */
    int (*sync)(const slc_out_sys *sys, int fd);
    int64_t (*free_bytes)(const slc_out_sys *sys, int fd); /* of the file system; -1: unknown */
};

extern const slc_out_sys slc_out_sys_linux;

/* What a NAME.partial of ours begins with, and a finished file that may be replaced. */
typedef struct slc_out_magic {
    char partial[8], finished[8];
} slc_out_magic;

typedef struct slc_outfile {
    const slc_out_sys *sys;
    char *path, *partial;
    int fd;       /* of the partial file, locked; -1: not open */
    bool ours;    /* the partial file is ours to remove */
    bool replace; /* an existing `path` may be replaced */
    uint64_t total_bytes;
    uint64_t flushed; /* bytes before the buffer */
    uint8_t *buf;     /* [SLC_OUT_BUFFER] */
    size_t used;
} slc_outfile;

#define SLC_OUT_BUFFER ((size_t)4 << 20)

/* Refuses a `path` that exists, unless `force` and it begins with magic->finished. Checks that the
 * file system has room for total_bytes and reserves them. */
slc_status slc_outfile_open(slc_outfile *f, const char *path, uint64_t total_bytes, bool force,
                            const slc_out_magic *magic, const slc_out_sys *sys,
                            slc_err *err) SLC_MUST_CHECK;

/* Where the next bytes go: at least 1 and at most `want` of them; tell with advance how many were
 * put there. Nothing beyond total_bytes. */
slc_status slc_outfile_room(slc_outfile *f, uint64_t want, uint8_t **at, size_t *n,
                            slc_err *err) SLC_MUST_CHECK;
void slc_outfile_advance(slc_outfile *f, size_t n);
/* Bytes appended so far. */
uint64_t slc_outfile_at(const slc_outfile *f);
/* Zeros up to offset `off`. */
slc_status slc_outfile_pad(slc_outfile *f, uint64_t off, slc_err *err) SLC_MUST_CHECK;
/* Overwrites bytes that were appended and flushed before. */
slc_status slc_outfile_put_at(slc_outfile *f, uint64_t off, const void *bytes, size_t n,
                              slc_err *err) SLC_MUST_CHECK;

/* Writes what is buffered and waits until all is on disk; the file is still NAME.partial. */
slc_status slc_outfile_sync(slc_outfile *f, slc_err *err) SLC_MUST_CHECK;
/* Gives the file its name and makes that durable. After sync. */
slc_status slc_outfile_commit(slc_outfile *f, slc_err *err) SLC_MUST_CHECK;
/* Removes a file that was not committed. A zeroed or closed one is fine. */
void slc_outfile_close(slc_outfile *f);

#endif
