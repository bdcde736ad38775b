/* Reads by a pool of threads that call pread: the backend that works everywhere.
 *
 * The owner puts attempts into `queue` and takes them out of `finished`; workers do the opposite.
 * One lock guards both lists, and a worker takes it once per read: it hands in one result and takes
 * the next attempt. Workers never decide anything about a result (io.c does, on the owner's
 * thread), so they hold no state. They block all signals. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "io/backend.h"

#define MAX_THREADS 24u
#define STACK_BYTES ((size_t)256 << 10)

typedef struct pool {
    pthread_mutex_t lock;
    pthread_cond_t work;    /* queue is not empty, or stop */
    pthread_cond_t done;    /* finished is not empty */
    slc_read_list queue;    /* guard: lock */
    slc_read_list finished; /* guard: lock */
    uint32_t n_idle;        /* workers waiting on `work`; guard: lock */
    bool owner_waits;       /* guard: lock */
    bool stop;              /* guard: lock */
    uint32_t n_threads;     /* owner only */
    pthread_t threads[MAX_THREADS];
} pool;

static void attempt(slc_io_read *r) {
    slc_io_attempt a = slc_io_attempt_of(r);
    const slc_sys *sys = r->file->sys;
    ssize_t got = sys->pread(sys, a.fd, a.buf, a.len, (off_t)a.off);

    r->result = got < 0 ? -errno : (int32_t)got; /* one read moves less than 2 GiB */
}

static void *worker(void *arg) {
    pool *p = arg;

    pthread_mutex_lock(&p->lock);
    for (;;) {
        slc_io_read *r = slc_read_list_pop(&p->queue);
        if (r) {
            pthread_mutex_unlock(&p->lock);
            attempt(r);
            pthread_mutex_lock(&p->lock);
            slc_read_list_push(&p->finished, r);
            if (p->owner_waits) pthread_cond_signal(&p->done);
        } else if (p->stop) {
            break;
        } else {
            p->n_idle++;
            pthread_cond_wait(&p->work, &p->lock);
            p->n_idle--;
        }
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void pool_start(void *state, slc_read_list list) {
    pool *p = state;
    uint32_t n = 0, n_wake;

    pthread_mutex_lock(&p->lock);
    for (slc_io_read *r; (r = slc_read_list_pop(&list)); n++) slc_read_list_push(&p->queue, r);
    n_wake = n < p->n_idle ? n : p->n_idle;
    pthread_mutex_unlock(&p->lock);
    while (n_wake--) pthread_cond_signal(&p->work);
}

static slc_read_list pool_collect(void *state, bool wait) {
    pool *p = state;
    slc_read_list got;

    pthread_mutex_lock(&p->lock);
    p->owner_waits = wait;
    while (wait && !p->finished.head) pthread_cond_wait(&p->done, &p->lock);
    p->owner_waits = false;
    got = p->finished;
    p->finished = (slc_read_list){0};
    pthread_mutex_unlock(&p->lock);
    return got;
}

static void pool_destroy(void *state) {
    pool *p = state;

    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->n_threads; i++) pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* Starts up to n workers; returns the errno of the first that could not be started. */
static int start_workers(pool *p, uint32_t n) {
    pthread_attr_t attr;
    sigset_t all, old;
    int rc = pthread_attr_init(&attr);

    if (rc) return rc;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (p->n_threads < n) {
        rc = pthread_create(&p->threads[p->n_threads], &attr, worker, p);
        if (rc) break;
        pthread_setname_np(p->threads[p->n_threads++], "slc-io");
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}

slc_status slc_pread_create(uint32_t depth, slc_io_backend *out, slc_err *err) {
    pool *p = slc_calloc(1, sizeof(*p));
    int rc;

    if (!p) return slc_fail(err, SLC_E_NOMEM, "no memory for the read threads");
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    rc = start_workers(p, depth < MAX_THREADS ? depth : MAX_THREADS);
    if (p->n_threads == 0) { /* fewer than asked are merely slower */
        pool_destroy(p);
        return slc_fail_errno(err, rc, "cannot start a read thread");
    }
    *out = (slc_io_backend){.name = "threads",
                            .depth = depth,
                            .state = p,
                            .start = pool_start,
                            .collect = pool_collect,
                            .destroy = pool_destroy};
    return SLC_OK;
}
