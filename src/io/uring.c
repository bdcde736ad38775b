/* Reads through io_uring. The ring belongs to the owner thread; there is no other thread.
 *
 * A batch is written into the submission ring and handed over by one system call. io.c never starts
 * more than `depth` attempts at a time and the ring has at least that many entries, so neither ring
 * can overflow. When the kernel takes only part of a batch (EAGAIN, EBUSY), the rest stays in the
 * submission ring and goes with the next call. When it refuses for good, the ring is `broken`:
 * everything not yet taken is collected with that error, what is in flight is still waited for.
 *
 * Files and memory are registered where the kernel allows: a read into registered memory does not
 * pin its pages anew. What a read costs the owner in all, user and kernel, at depth 64 on a 2-core
 * virtual machine with a virtio disk at 2.3 GB/s (medians of three; rdtsc at 2.4 GHz):
 *
 *                            64 KiB          256 KiB          1.75 MiB
 *     not registered     10,100 cycles    15,600 cycles    20,400 cycles
 *     registered          8,500           11,100           14,600
 *     threads            35,200           36,800           74,600
 *
 * From 256 KiB on, the size of an expert's parts in real models, the bytes per second are the same:
 * where locked memory is short nothing is lost but those cycles.
 *
 * Flags: COOP_TASKRUN spares the interrupt per completion (data arrive by DMA anyway, bookkeeping
 * is done at the next call). SINGLE_ISSUER and DEFER_TASKRUN are not used: they bind the ring to
 * the thread that created it, and a model is often opened by another thread than the one that steps
 * it. */
#include "io/backend.h"

#include "base/fail.h"

#ifndef SLC_HAVE_URING

slc_status slc_uring_create(uint32_t depth, slc_io_backend *out, slc_err *err) {
    return slc_fail(err, SLC_E_UNSUPPORTED, "built without liburing");
}

#else

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/assert.h"

typedef struct uring {
    struct io_uring ring;
    int broken;            /* errno with which the kernel refused a submission for good, or 0 */
    slc_read_list refused; /* attempts it refused, to be collected */
    /* registered with the kernel; descriptors in pairs: direct, then buffered */
    const slc_file *files;
    struct iovec *memory;
    uint32_t n_files, n_memory;
} uring;

static void refuse(uring *u, slc_io_read *r) {
    r->result = -u->broken;
    slc_read_list_push(&u->refused, r);
}

/* Gives up on the ring: what the kernel has not taken is refused. Its entries stay where they are;
 * nothing is submitted any more. */
static void break_ring(uring *u, int sys_errno) {
    const struct io_uring_sq *sq = &u->ring.sq;
    unsigned n = io_uring_sq_ready(&u->ring);

    u->broken = sys_errno;
    for (unsigned i = sq->sqe_tail - n; i != sq->sqe_tail; i++) {
        refuse(u, (slc_io_read *)(uintptr_t)sq->sqes[i & *sq->kring_mask].user_data);
    }
}

/* Hands over what is in the submission ring; with wait_n blocks for that many completions. */
static int enter(uring *u, unsigned wait_n) {
    int rc;

    if (u->broken) {
        struct io_uring_cqe *cqe;
        return wait_n ? io_uring_wait_cqe(&u->ring, &cqe) : 0;
    }
    rc = wait_n ? io_uring_submit_and_wait(&u->ring, wait_n) : io_uring_submit(&u->ring);
    if (rc >= 0 || rc == -EINTR || rc == -EAGAIN || rc == -EBUSY) return rc;
    break_ring(u, -rc);
    return rc;
}

/* ---- registered files and memory ---- */

/* Registered descriptors go by number. */
static void use_number(const uring *u, const slc_io_read *r, bool direct,
                       struct io_uring_sqe *sqe) {
    uintptr_t at = (uintptr_t)r->file - (uintptr_t)u->files;

    if (!u->n_files || at >= u->n_files * sizeof(*u->files)) return;
    sqe->fd = (int)(at / sizeof(*u->files) * 2 + !direct);
    sqe->flags |= IOSQE_FIXED_FILE;
}

/* The number of the registered segment that holds the attempt's memory, or -1. */
static int segment_of(const uring *u, const slc_io_attempt *a) {
    for (uint32_t i = 0; i < u->n_memory; i++) {
        uintptr_t from = (uintptr_t)a->buf - (uintptr_t)u->memory[i].iov_base;
        if (from < u->memory[i].iov_len && a->len <= u->memory[i].iov_len - from) return (int)i;
    }
    return -1;
}

static void prepare(const uring *u, slc_io_read *r, struct io_uring_sqe *sqe) {
    slc_io_attempt a = slc_io_attempt_of(r);
    int segment = segment_of(u, &a);

    if (segment >= 0) {
        io_uring_prep_read_fixed(sqe, a.fd, a.buf, a.len, a.off, segment);
    } else {
        io_uring_prep_read(sqe, a.fd, a.buf, a.len, a.off);
    }
    use_number(u, r, a.direct, sqe);
    io_uring_sqe_set_data(sqe, r);
}

static int uring_use_files(void *state, const slc_file *files, uint32_t n) {
    uring *u = state;
    int *fds = slc_calloc(n, 2 * sizeof(*fds)), rc;

    if (!fds) return ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        fds[2 * i] = files[i].direct_fd; /* -1: an empty place */
        fds[2 * i + 1] = files[i].fd;
    }
    rc = u->n_files ? -EBUSY : io_uring_register_files(&u->ring, fds, 2 * n);
    free(fds);
    if (rc < 0) return -rc;
    u->files = files;
    u->n_files = n;
    return 0;
}

static int uring_use_memory(void *state, const struct iovec *segments, uint32_t n) {
    uring *u = state;
    struct iovec *copy = slc_calloc(n, sizeof(*copy));
    int rc;

    if (!copy) return ENOMEM;
    memcpy(copy, segments, n * sizeof(*copy));
    rc = u->n_memory ? -EBUSY : io_uring_register_buffers(&u->ring, copy, n);
    if (rc < 0) {
        free(copy);
        return -rc;
    }
    u->memory = copy;
    u->n_memory = n;
    return 0;
}

static void uring_forget(void *state) {
    uring *u = state;

    if (u->n_files) io_uring_unregister_files(&u->ring);
    if (u->n_memory) io_uring_unregister_buffers(&u->ring);
    free(u->memory);
    u->memory = NULL;
    u->n_files = u->n_memory = 0;
}

/* ---- reads ---- */

static void uring_start(void *state, slc_read_list list) {
    uring *u = state;

    for (slc_io_read *r; (r = slc_read_list_pop(&list));) {
        struct io_uring_sqe *sqe;

        if (u->broken) {
            refuse(u, r);
            continue;
        }
        sqe = io_uring_get_sqe(&u->ring);
        slc_assert(sqe); /* depth attempts at most, depth entries at least */
        prepare(u, r, sqe);
    }
    if (!u->broken) enter(u, 0);
}

static void take_completions(uring *u, slc_read_list *got) {
    struct io_uring_cqe *cqe;
    unsigned head, n = 0;

    if (io_uring_peek_cqe(&u->ring, &cqe)) return; /* runs pending task work if there is any */
    io_uring_for_each_cqe(&u->ring, head, cqe) {
        slc_io_read *r = io_uring_cqe_get_data(cqe);
        slc_io_attempt a = slc_io_attempt_of(r);
        const slc_sys *sys = r->file->sys;

        r->result = sys->uring_result(sys, a.fd, a.len, a.off, cqe->res);
        slc_read_list_push(got, r);
        n++;
    }
    io_uring_cq_advance(&u->ring, n);
}

static slc_read_list uring_collect(void *state, bool wait) {
    uring *u = state;
    slc_read_list got;
    int rc = 0;

    if (wait && !u->refused.head) {
        rc = enter(u, 1);
    } else if (!u->broken && io_uring_sq_ready(&u->ring)) {
        rc = enter(u, 0); /* left over from an earlier call */
    }
    got = u->refused;
    u->refused = (slc_read_list){0};
    take_completions(u, &got);
    if (wait && rc < 0 && !got.head) { /* the kernel is short of memory: do not spin */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return got;
}

static void uring_destroy(void *state) {
    uring *u = state;

    io_uring_queue_exit(&u->ring);
    free(u->memory);
    free(u);
}

/* A ring that takes reads and whose io_uring_enter is allowed (a sandbox may permit only setup).
 * Returns 0 or a negative errno, *what naming the call. */
static int probe(struct io_uring *ring, const char **what) {
    struct io_uring_probe *ops = io_uring_get_probe_ring(ring);
    bool can_read = ops && io_uring_opcode_supported(ops, IORING_OP_READ);
    struct io_uring_sqe *sqe;
    struct io_uring_cqe *cqe;
    int rc;

    *what = "the kernel's io_uring cannot read";
    io_uring_free_probe(ops);
    if (!can_read) return -EOPNOTSUPP;
    *what = "io_uring_enter";
    sqe = io_uring_get_sqe(ring);
    io_uring_prep_nop(sqe);
    do {
        rc = io_uring_submit_and_wait(ring, 1);
    } while (rc == -EINTR);
    if (rc < 0 || (rc = io_uring_wait_cqe(ring, &cqe)) < 0) return rc;
    io_uring_cqe_seen(ring, cqe);
    return 0;
}

static int ring_init(struct io_uring *ring, uint32_t depth, const char **what) {
    int rc;

    *what = "io_uring_setup";
    rc = io_uring_queue_init(depth, ring, IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG);
    if (rc == -EINVAL) rc = io_uring_queue_init(depth, ring, 0); /* before 5.19 */
    if (rc) return rc;
    rc = probe(ring, what);
    if (rc) io_uring_queue_exit(ring);
    return rc;
}

slc_status slc_uring_create(uint32_t depth, slc_io_backend *out, slc_err *err) {
    uring *u = slc_calloc(1, sizeof(*u));
    const char *what;
    int rc;

    if (!u) return slc_fail(err, SLC_E_NOMEM, "no memory for the ring");
    rc = ring_init(&u->ring, depth, &what);
    if (rc) {
        free(u);
        return slc_fail(err, SLC_E_UNSUPPORTED, "%s: %s", what, strerror(-rc));
    }
    *out = (slc_io_backend){.name = "uring",
                            .depth = depth,
                            .state = u,
                            .start = uring_start,
                            .collect = uring_collect,
                            .destroy = uring_destroy,
                            .use_files = uring_use_files,
                            .use_memory = uring_use_memory,
                            .forget = uring_forget};
    return SLC_OK;
}

#endif
