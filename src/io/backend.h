/* Between io.c and the backends. A backend runs single attempts: it is handed reads, asks
 * slc_io_attempt_of what to read now, and gives each back with r->result set to what the kernel
 * said. Everything else (queueing beyond the depth, short reads, retries, end of file) is decided
 * once, in io.c. All functions are called by the thread that owns the slc_io. */
#ifndef SLC_IO_BACKEND_H
#define SLC_IO_BACKEND_H

#include "io/io.h"

/* A queue of reads linked through `next`; zeroed is empty. */
typedef struct slc_read_list {
    slc_io_read *head, *last;
} slc_read_list;

static inline void slc_read_list_push(slc_read_list *l, slc_io_read *r) {
    r->next = NULL;
    if (l->head) {
        l->last->next = r;
    } else {
        l->head = r;
    }
    l->last = r;
}

static inline void slc_read_list_push_front(slc_read_list *l, slc_io_read *r) {
    r->next = l->head;
    if (!l->head) l->last = r;
    l->head = r;
}

static inline slc_io_read *slc_read_list_pop(slc_read_list *l) {
    slc_io_read *r = l->head;

    if (r) l->head = r->next;
    return r;
}

typedef struct slc_io_backend {
    const char *name;
    uint32_t depth; /* attempts that may be started and not collected */
    void *state;
    /* Starts every read of the list; cannot fail: an attempt that cannot be started is collected
     * with its error. */
    void (*start)(void *state, slc_read_list list);
    /* Takes all finished attempts. With `wait` blocks for one while any is started, but may also
     * return none (the caller asks again). */
    slc_read_list (*collect)(void *state, bool wait);
    void (*destroy)(void *state); /* nothing is started any more */
    /* As in io.h; NULL: of no use to this backend. Returns 0 or the errno of the refusal. */
    int (*use_files)(void *state, const slc_file *files, uint32_t n);
    int (*use_memory)(void *state, const struct iovec *segments, uint32_t n);
    void (*forget)(void *state);
} slc_io_backend;

/* The next thing to read for r, given r->got. A direct read goes on as long as the position is
 * aligned; a position inside a block goes on through the buffered descriptor. */
typedef struct slc_io_attempt {
    int fd;
    bool direct;
    void *buf;
    uint32_t len;
    uint64_t off;
} slc_io_attempt;

slc_io_attempt slc_io_attempt_of(const slc_io_read *r);

/* SLC_E_UNSUPPORTED with the reason where this kernel or sandbox has no usable io_uring. */
slc_status slc_uring_create(uint32_t depth, slc_io_backend *out, slc_err *err) SLC_MUST_CHECK;
slc_status slc_pread_create(uint32_t depth, slc_io_backend *out, slc_err *err) SLC_MUST_CHECK;

/* An slc_io over a given backend, which it takes over (also on failure). For wrappers in tests. */
slc_status slc_io_create_on(const slc_io_backend *backend, const slc_log *log, slc_io **out,
                            slc_err *err) SLC_MUST_CHECK;

#endif
