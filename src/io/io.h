/* Asynchronous positioned reads: one interface over `uring` (io_uring), `threads` (a pread pool)
 * and `buffered` (a pread pool through the page cache, for models that fit into it).
 *
 * One thread owns an slc_io: it submits and reaps. A read owns its buffer from submit until it is
 * reaped. Short reads are continued, interrupted ones repeated, errors that may pass (sys.h)
 * retried a bounded number of times; what is reaped is either complete or failed for good. */
#ifndef SLC_IO_IO_H
#define SLC_IO_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/log.h"
#include "io/file.h"
#include "sluice/status.h"

/* One read: caller memory, kept alive and untouched from submit to reap. */
typedef struct slc_io_read {
    /* set by the caller */
    const slc_file *file;
    uint64_t off;  /* aligned to file->align when the file has a direct descriptor */
    void *buf;     /* aligned alike */
    uint32_t len;  /* aligned alike; may reach past the end of the file */
    uint32_t need; /* bytes from off that must arrive, <= len (the rest may lie past the end) */
    void *user;
    /* set by the backend when reaped */
    slc_status status; /* SLC_OK, or SLC_E_IO */
    int sys_errno;     /* of the failed call; 0 for an unexpected end of file */
    uint32_t got;      /* bytes that arrived */
    /* private between submit and reap */
    bool buffered;    /* through the page cache: direct reads are refused, or not wanted */
    bool hinted;      /* the kernel was told that this will be read */
    uint32_t n_tries; /* failed so far */
    int32_t result;   /* of the last attempt: bytes or -errno */
    uint64_t due_ns;  /* when a failed attempt is repeated */
    struct slc_io_read *next;
} slc_io_read;

typedef struct slc_io slc_io;

typedef enum slc_io_kind {
    SLC_IO_AUTO = 0,
    SLC_IO_URING,
    SLC_IO_THREADS,
    SLC_IO_BUFFERED /* also for files that could be read directly */
} slc_io_kind;

typedef struct slc_io_options {
    slc_io_kind kind; /* AUTO: uring where the kernel allows it, else threads */
    uint32_t depth;   /* reads in flight at most; 0: 64, capped at 4096. Threads: min(depth, 24) */
    const slc_log *log; /* borrowed; one line says which backend is active and why not a better */
} slc_io_options;

/* With kind URING, an unusable io_uring is SLC_E_UNSUPPORTED with the reason; with AUTO it falls
 * back to threads. */
slc_status slc_io_create(const slc_io_options *opt, slc_io **out, slc_err *err) SLC_MUST_CHECK;
/* Waits for everything in flight, then frees. */
void slc_io_destroy(slc_io *io);
/* "uring", "threads" or "buffered". */
const char *slc_io_name(const slc_io *io);

/* Tells the backend of files that will be read often and memory that will be read into, which saves
 * the kernel looking them up and pinning pages at every read. Reads of other files and into other
 * memory work all the same, and where the kernel refuses (memory counts against ulimit -l) one log
 * line says so and nothing else changes. Before the files are closed or the memory is unmapped:
 * slc_io_forget, with nothing outstanding. */
void slc_io_use_files(slc_io *io, const slc_file *files, uint32_t n);
void slc_io_use_memory(slc_io *io, const struct iovec *segments, uint32_t n);
void slc_io_forget(slc_io *io);

/* Hands n reads to the backend in order. Any number may be outstanding: beyond the depth they wait
 * in a queue inside. Never fails: a read that cannot be started is reaped as failed. */
void slc_io_submit(slc_io *io, slc_io_read *const *reads, uint32_t n);
/* Takes up to `max` finished reads. With `wait`, blocks until there is at least one, unless nothing
 * is outstanding. Returns how many. */
uint32_t slc_io_reap(slc_io *io, slc_io_read **done, uint32_t max, bool wait);
uint32_t slc_io_outstanding(const slc_io *io);

/* Fills err from a failed read: path, offset, wanted, got, errno text. Returns r->status. */
slc_status slc_io_read_error(const slc_io_read *r, slc_err *err);

#endif
