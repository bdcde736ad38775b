/* Asynchronous reads, the part that both backends share: what is in flight, what waits, and what
 * the result of an attempt means.
 *
 *     submit -> waiting -> (backend: started, collected) -> settle -> finished -> reap
 *                  ^                                          |
 *                  +---- short: at once, at the front --------+
 *                  +---- transient error: deferred until due -+
 *
 * A read lives in exactly one of these lists; `in_flight` counts those the backend holds. Short
 * reads go on where they stopped, so every continuation either makes progress or meets the end of
 * the file. Back-off is a due time, not a sleep: the owner blocks only in a waiting reap that has
 * nothing else to wait for. Entered by the owner thread alone. */
#include "io/io.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/fail.h"
#include "io/backend.h"

#define DEFAULT_DEPTH 64u
#define MAX_DEPTH     4096u
/* Reads handed to the pool at once when the kernel caches; those behind are told to it. */
#define BUFFERED_DEPTH 24u

struct slc_io {
    slc_io_backend backend;
    const slc_log *log;
    slc_read_list waiting, deferred, finished;
    uint32_t in_flight, outstanding;
    bool buffered;     /* every read goes through the page cache */
    bool told_refusal; /* the log has heard that a direct read was refused */
};

/* ---- one read ---- */

slc_io_attempt slc_io_attempt_of(const slc_io_read *r) {
    const slc_file *f = r->file;
    uint64_t off = r->off + r->got;
    bool direct = f->direct_fd >= 0 && !r->buffered && off % f->align == 0;

    return (slc_io_attempt){.fd = direct ? f->direct_fd : f->fd,
                            .direct = direct,
                            .buf = (uint8_t *)r->buf + r->got,
                            .len = r->len - r->got,
                            .off = off};
}

static void finish(slc_io *io, slc_io_read *r, slc_status status, int sys_errno) {
    r->status = status;
    r->sys_errno = sys_errno;
    slc_read_list_push(&io->finished, r);
}

static void tell_refusal(slc_io *io, const slc_io_read *r) {
    if (io->told_refusal) return;
    io->told_refusal = true;
    slc_logf(io->log, SLC_LOG_WARN,
             "%s: direct read at offset %" PRIu64 " refused (%s); "
             "such reads are repeated through the page cache",
             r->file->path, r->off + r->got, strerror(-r->result));
}

static void settle_error(slc_io *io, slc_io_read *r) {
    uint64_t delay;

    /* the kernel cancels what a thread has submitted when that thread ends; the owner may change */
    if (r->result == -EINTR || r->result == -ECANCELED) {
        slc_read_list_push_front(&io->waiting, r);
        return;
    }
    if ((r->result == -EINVAL || r->result == -EOPNOTSUPP) && slc_io_attempt_of(r).direct) {
        tell_refusal(io, r);
        r->buffered = true;
        slc_read_list_push_front(&io->waiting, r);
        return;
    }
    delay = slc_sys_backoff_ns(-r->result, ++r->n_tries);
    if (delay) {
        r->due_ns = slc_now_ns() + delay;
        slc_read_list_push(&io->deferred, r);
    } else {
        finish(io, r, SLC_E_IO, -r->result);
    }
}

/* Decides what becomes of a read whose attempt is over. */
static void settle(slc_io *io, slc_io_read *r) {
    if (r->result < 0) {
        settle_error(io, r);
    } else if (r->result == 0) {
        finish(io, r, SLC_E_IO, 0);
    } else {
        r->got += (uint32_t)r->result;
        if (r->got >= r->need) {
            finish(io, r, SLC_OK, 0);
        } else {
            slc_read_list_push_front(&io->waiting, r);
        }
    }
}

slc_status slc_io_read_error(const slc_io_read *r, slc_err *err) {
    if (r->status == SLC_OK) return SLC_OK;
    if (r->sys_errno) {
        return slc_fail_errno(err, r->sys_errno,
                              "%s: cannot read at offset %" PRIu64 ": wanted %u bytes, got %u "
                              "(%u tries)",
                              r->file->path, r->off, r->need, r->got, r->n_tries);
    }
    return slc_fail(err, r->status,
                    "%s: unexpected end of file: wanted %u bytes at offset %" PRIu64
                    ", got %u; the file was %" PRIu64 " bytes long when it was opened",
                    r->file->path, r->need, r->off, r->got, r->file->size_bytes);
}

/* ---- the queues ---- */

static void promote_due(slc_io *io) {
    slc_read_list later = {0};
    uint64_t now = slc_now_ns();

    for (slc_io_read *r; (r = slc_read_list_pop(&io->deferred));) {
        slc_read_list_push(r->due_ns <= now ? &io->waiting : &later, r);
    }
    io->deferred = later;
}

/* Starts as many waiting reads as the depth allows, in one call of the backend. */
static void pump(slc_io *io) {
    slc_read_list batch = {0};

    if (io->deferred.head) promote_due(io);
    while (io->waiting.head && io->in_flight < io->backend.depth) {
        slc_read_list_push(&batch, slc_read_list_pop(&io->waiting));
        io->in_flight++;
    }
    if (batch.head) io->backend.start(io->backend.state, batch);
}

static void collect(slc_io *io, bool wait) {
    slc_read_list got = io->backend.collect(io->backend.state, wait);

    for (slc_io_read *r; (r = slc_read_list_pop(&got));) {
        io->in_flight--;
        settle(io, r);
    }
}

static void sleep_until_due(const slc_io *io) {
    uint64_t now = slc_now_ns(), due = UINT64_MAX;

    for (const slc_io_read *r = io->deferred.head; r; r = r->next) {
        if (r->due_ns < due) due = r->due_ns;
    }
    if (due > now && due != UINT64_MAX) {
        uint64_t ns = due - now;
        struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
        nanosleep(&t, NULL);
    }
}

/* The disk can work on what is not yet the pool's turn. */
static void hint(const slc_io *io) {
    for (slc_io_read *r = io->waiting.head; r; r = r->next) {
        const slc_sys *sys = r->file->sys;
        if (r->hinted) continue;
        r->hinted = true;
        sys->willneed(sys, r->file->fd, (off_t)r->off, r->need);
    }
}

void slc_io_submit(slc_io *io, slc_io_read *const *reads, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        slc_io_read *r = reads[i];
        uint64_t low = r->off | r->len | (uintptr_t)r->buf;

        slc_assert(r->need <= r->len);
        slc_assert(r->file->direct_fd < 0 || low % r->file->align == 0);
        r->status = SLC_OK;
        r->sys_errno = 0;
        r->got = 0;
        r->buffered = io->buffered;
        r->hinted = false;
        r->n_tries = 0;
        if (r->need) {
            slc_read_list_push(&io->waiting, r);
        } else {
            finish(io, r, SLC_OK, 0);
        }
    }
    io->outstanding += n;
    pump(io);
    if (io->buffered) hint(io);
}

uint32_t slc_io_reap(slc_io *io, slc_io_read **done, uint32_t max, bool wait) {
    uint32_t n = 0;

    if (io->in_flight) collect(io, false);
    pump(io);
    while (wait && !io->finished.head && io->outstanding) {
        if (io->in_flight) {
            collect(io, true);
        } else {
            sleep_until_due(io);
        }
        pump(io);
    }
    while (n < max && io->finished.head) done[n++] = slc_read_list_pop(&io->finished);
    io->outstanding -= n;
    return n;
}

uint32_t slc_io_outstanding(const slc_io *io) {
    return io->outstanding;
}

/* ---- create, destroy ---- */

slc_status slc_io_create_on(const slc_io_backend *backend, const slc_log *log, slc_io **out,
                            slc_err *err) {
    slc_io *io = slc_calloc(1, sizeof(*io));

    *out = io;
    if (!io) {
        backend->destroy(backend->state);
        return slc_fail(err, SLC_E_NOMEM, "no memory for the read queue");
    }
    io->backend = *backend;
    io->log = log;
    return SLC_OK;
}

static slc_status create_threads(uint32_t depth, const slc_io_options *opt, const char *reason,
                                 slc_io_backend *backend, slc_err *err) {
    slc_status rc = slc_pread_create(depth, backend, err);

    if (rc) return rc;
    if (reason) {
        slc_logf(opt->log, SLC_LOG_WARN, "expert reads: thread pool (no io_uring: %s)", reason);
    } else {
        slc_logf(opt->log, SLC_LOG_INFO, "expert reads: thread pool");
    }
    return SLC_OK;
}

static slc_status create_buffered(const slc_io_options *opt, slc_io **out, slc_err *err) {
    slc_io_backend backend;
    slc_status rc = slc_pread_create(BUFFERED_DEPTH, &backend, err);

    if (rc) return rc;
    backend.name = "buffered";
    rc = slc_io_create_on(&backend, opt->log, out, err);
    if (!*out) return rc;
    (*out)->buffered = true;
    slc_logf(opt->log, SLC_LOG_INFO, "expert reads: thread pool through the page cache");
    return SLC_OK;
}

slc_status slc_io_create(const slc_io_options *opt, slc_io **out, slc_err *err) {
    uint32_t depth = opt->depth ? opt->depth : DEFAULT_DEPTH;
    slc_io_backend backend;
    slc_err why = {0};
    slc_status rc;

    *out = NULL;
    if (opt->kind == SLC_IO_BUFFERED) return create_buffered(opt, out, err);
    if (depth > MAX_DEPTH) depth = MAX_DEPTH;
    if (opt->kind == SLC_IO_THREADS) {
        rc = create_threads(depth, opt, NULL, &backend, err);
    } else if (slc_uring_create(depth, &backend, &why) == SLC_OK) {
        slc_logf(opt->log, SLC_LOG_INFO, "expert reads: io_uring, depth %u", depth);
        rc = SLC_OK;
    } else if (opt->kind == SLC_IO_URING) {
        return slc_fail(err, SLC_E_UNSUPPORTED, "io_uring cannot be used: %s", why.msg);
    } else {
        rc = create_threads(depth, opt, why.msg, &backend, err);
    }
    return rc ? rc : slc_io_create_on(&backend, opt->log, out, err);
}

void slc_io_destroy(slc_io *io) {
    slc_io_read *done[16];

    if (!io) return;
    while (slc_io_reap(io, done, 16, true)) {
    }
    io->backend.destroy(io->backend.state);
    free(io);
}

/* ---- what is read often ---- */

void slc_io_use_files(slc_io *io, const slc_file *files, uint32_t n) {
    int sys_errno = io->backend.use_files ? io->backend.use_files(io->backend.state, files, n) : 0;

    if (!sys_errno) return;
    slc_logf(io->log, SLC_LOG_INFO, "expert reads: %u files are not registered with the kernel: %s",
             n, strerror(sys_errno));
}

void slc_io_use_memory(slc_io *io, const struct iovec *segments, uint32_t n) {
    uint64_t bytes = 0;
    struct rlimit lim;
    int sys_errno;

    if (!io->backend.use_memory) return;
    sys_errno = io->backend.use_memory(io->backend.state, segments, n);
    if (!sys_errno) return;
    for (uint32_t i = 0; i < n; i++) bytes += segments[i].iov_len;
    if (getrlimit(RLIMIT_MEMLOCK, &lim)) lim.rlim_cur = 0;
    slc_logf(io->log, SLC_LOG_INFO,
             "expert reads: memory is not registered with the kernel: %s (%" PRIu64
             " KiB, ulimit -l allows %" PRIu64 ")",
             strerror(sys_errno), bytes / 1024, (uint64_t)lim.rlim_cur / 1024);
}

void slc_io_forget(slc_io *io) {
    slc_assert(io->outstanding == 0);
    if (io->backend.forget) io->backend.forget(io->backend.state);
}

const char *slc_io_name(const slc_io *io) {
    return io->backend.name;
}
