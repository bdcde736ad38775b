/* The misbehaving disk; see the header. */
#include "support/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- system calls ---- */

static faults *of(const slc_sys *sys) {
    return (faults *)(uintptr_t)sys;
}

static bool is_direct(int fd) {
    return fcntl(fd, F_GETFL) & O_DIRECT;
}

static int fault_open(const slc_sys *sys, const char *path, int flags) {
    int fd;

    if ((flags & O_DIRECT) && of(sys)->direct_open_errno) {
        errno = of(sys)->direct_open_errno;
        return -1;
    }
    fd = open(path, flags);
    if (fd >= 0) of(sys)->n_open++;
    return fd;
}

static int fault_close(const slc_sys *sys, int fd) {
    of(sys)->n_open--;
    return close(fd);
}

static int fault_fstat(const slc_sys *sys, int fd, struct stat *st) {
    if (of(sys)->fstat_errno) {
        errno = of(sys)->fstat_errno;
        return -1;
    }
    return fstat(fd, st);
}

static int fault_fstatfs(const slc_sys *sys, int fd, struct statfs *fs) {
    int rc = fstatfs(fd, fs);

    if (of(sys)->fs_type) fs->f_type = of(sys)->fs_type;
    return rc;
}

static int64_t fault_direct_align(const slc_sys *sys, int fd) {
    if (of(sys)->claimed_align) return of(sys)->claimed_align;
    return slc_sys_linux.direct_align(&slc_sys_linux, fd);
}

static bool take_one(_Atomic uint32_t *times) {
    uint32_t left = atomic_load(times);

    while (left && !atomic_compare_exchange_weak(times, &left, left - 1)) {
    }
    return left > 0;
}

/* What becomes of a read that ended with `result` (bytes or -errno). */
static int32_t spoil(faults *f, int fd, uint64_t n, uint64_t off, int32_t result) {
    uint32_t nth = ++f->n_reads;

    if (f->direct_read_errno && is_direct(fd)) return -f->direct_read_errno;
    if (f->min_align && is_direct(fd) && (off | n) % f->min_align) return -EINVAL;
    if (f->bad_len && off < f->bad_off + f->bad_len && off + n > f->bad_off &&
        take_one(&f->bad_times)) {
        return -f->bad_errno;
    }
    if (f->fail_nth && nth == f->fail_nth) return -f->fail_errno;
    if (f->eintr_every && nth % f->eintr_every == 0) return -EINTR;
    if (f->short_every && nth % f->short_every == 0 && result > 1) return result / 2;
    return result;
}

static ssize_t fault_pread(const slc_sys *sys, int fd, void *buf, size_t n, off_t off) {
    faults *f = of(sys);
    ssize_t got = pread(fd, buf, n, off);
    int32_t result = got < 0 ? -errno : (int32_t)got;

    if (f->latency_us) usleep(f->latency_us);
    if (f->delay_us) {
        uint32_t random = (uint32_t)off * 2654435761u + f->n_reads + 1;
        usleep(faults_random(&random) % f->delay_us);
    }
    result = spoil(f, fd, n, (uint64_t)off, result);
    if (f->min_align && is_direct(fd) && (uintptr_t)buf % f->min_align) result = -EINVAL;
    if (result >= 0) return result;
    errno = -result;
    return -1;
}

static int32_t fault_uring_result(const slc_sys *sys, int fd, uint32_t n, uint64_t off,
                                  int32_t result) {
    return spoil(of(sys), fd, n, off, result);
}

static void fault_willneed(const slc_sys *sys, int fd, off_t off, off_t n) {
    of(sys)->n_hints++;
    slc_sys_linux.willneed(&slc_sys_linux, fd, off, n);
}

void faults_init(faults *f) {
    *f = (faults){.sys = {.open = fault_open,
                          .close = fault_close,
                          .fstat = fault_fstat,
                          .fstatfs = fault_fstatfs,
                          .direct_align = fault_direct_align,
                          .pread = fault_pread,
                          .willneed = fault_willneed,
                          .uring_result = fault_uring_result}};
}

/* ---- completion order ---- */

typedef struct reorder {
    slc_io_backend inner;
    slc_io_read **held; /* [inner.depth] finished, not handed out */
    uint32_t n_held, n_inner, random;
} reorder;

static void reorder_start(void *state, slc_read_list list) {
    reorder *o = state;

    for (const slc_io_read *r = list.head; r; r = r->next) o->n_inner++;
    o->inner.start(o->inner.state, list);
}

static void hold(reorder *o, bool wait) {
    slc_read_list got = o->inner.collect(o->inner.state, wait);

    for (slc_io_read *r; (r = slc_read_list_pop(&got)); o->n_inner--) o->held[o->n_held++] = r;
}

static slc_read_list reorder_collect(void *state, bool wait) {
    reorder *o = state;
    slc_read_list out = {0};
    uint32_t n;

    hold(o, false);
    while (wait && !o->n_held) hold(o, true);
    n = o->n_held ? faults_random(&o->random) % (o->n_held + 1) : 0;
    if (wait && n == 0) n = 1;
    while (n--) {
        uint32_t i = faults_random(&o->random) % o->n_held;
        slc_read_list_push(&out, o->held[i]);
        o->held[i] = o->held[--o->n_held];
    }
    return out;
}

static void reorder_destroy(void *state) {
    reorder *o = state;

    o->inner.destroy(o->inner.state);
    free(o->held);
    free(o);
}

slc_io_backend faults_reorder(slc_io_backend inner, uint32_t seed) {
    reorder *o = calloc(1, sizeof(*o));
    slc_io_read **held = calloc(inner.depth, sizeof(*held));

    if (!o || !held) abort();
    *o = (reorder){.inner = inner, .held = held, .random = seed | 1};
    return (slc_io_backend){.name = inner.name,
                            .depth = inner.depth,
                            .state = o,
                            .start = reorder_start,
                            .collect = reorder_collect,
                            .destroy = reorder_destroy};
}
