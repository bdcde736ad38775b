/* The worker pool: one parallel loop at a time, claimed task by task.
 *
 * The whole claim lives in one 64-bit word: next task (32 bits), number of tasks (32). A worker
 * claims a task by compare-and-swap on that word, so a worker that wakes late either finds no task
 * left or claims one of the current run, whichever run it looked at before: it reads fn and ctx
 * after the claim, and a run cannot end while one of its tasks is held.
 *
 *   owner                                   worker
 *   fn, ctx, n_done = 0                     spin, then sleep on `wake`
 *   claim = (0, n)  --release->             claim (acquire), fn(ctx, task)
 *   wake workers that sleep                 n_done += 1 (release)
 *   claims tasks too, waits for n_done == n (acquire)
 */
#include "backend/pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/fail.h"

/* The owner waits for the last tasks of a loop: about 20 microseconds on a 3 GHz core. */
#define SPIN_ROUNDS 1000
/* A worker waits for the next loop. Between two of one token lies a disk's answer at most, about
 * 1 ms for an expert of a few MB; waking up takes as long as computing one (on a virtual machine up
 * to 0.1 ms), and it comes at every expert. */
#define IDLE_SPIN_NS     UINT64_C(2000000)
#define ROUNDS_PER_CLOCK 64
/* Small stacks: kernels keep at most about 24 KiB on them, and every touched page counts. */
#define STACK_BYTES ((size_t)256 << 10)

typedef struct worker {
    slc_pool *pool;
    pthread_t thread;
    uint32_t idx;
} worker;

struct slc_pool {
    uint32_t n_threads;
    worker *workers; /* [n_threads]; entry 0 is the owner and has no thread */
    uint32_t n_started;
    slc_task_fn *fn; /* written by the owner before `claim`, read after a claim */
    void *ctx;
    _Atomic uint64_t claim;
    _Atomic uint32_t n_done;
    _Atomic uint32_t wake;     /* futex word: counts runs */
    _Atomic uint32_t n_asleep; /* workers in, or about to enter, futex_wait on `wake` */
    _Atomic uint32_t owner_asleep;
    _Atomic bool stop;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake_all(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static inline void cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static uint32_t next_task(uint64_t claim) {
    return (uint32_t)(claim >> 32);
}

static uint32_t n_tasks_of(uint64_t claim) {
    return (uint32_t)claim;
}

static bool has_task(uint64_t claim) {
    return next_task(claim) < n_tasks_of(claim);
}

/* Claims and runs tasks until none is left. */
static void run_tasks(slc_pool *p, uint32_t idx) {
    uint64_t c = atomic_load_explicit(&p->claim, memory_order_acquire);

    while (has_task(c)) {
        uint32_t task = next_task(c), n = n_tasks_of(c);

        if (!atomic_compare_exchange_weak_explicit(&p->claim, &c, c + ((uint64_t)1 << 32),
                                                   memory_order_acq_rel, memory_order_acquire))
            continue;
        p->fn(p->ctx, task, idx);
        if (atomic_fetch_add_explicit(&p->n_done, 1, memory_order_seq_cst) + 1 == n &&
            atomic_load_explicit(&p->owner_asleep, memory_order_seq_cst))
            futex_wake_all(&p->n_done);
        c = atomic_load_explicit(&p->claim, memory_order_acquire);
    }
}

/* Until there is a task, for IDLE_SPIN_NS at most. */
static void spin_idle(slc_pool *p) {
    uint64_t start = slc_now_ns();

    do {
        for (int i = 0; i < ROUNDS_PER_CLOCK; i++) {
            if (has_task(atomic_load_explicit(&p->claim, memory_order_relaxed)) ||
                atomic_load_explicit(&p->stop, memory_order_relaxed))
                return;
            cpu_relax();
        }
    } while (slc_now_ns() - start < IDLE_SPIN_NS);
}

static void *worker_main(void *arg) {
    worker *w = arg;
    slc_pool *p = w->pool;

    while (!atomic_load_explicit(&p->stop, memory_order_acquire)) {
        uint32_t seen;

        run_tasks(p, w->idx);
        spin_idle(p);
        /* Announce sleep, then look once more: pairs with the owner's store of claim followed by
         * its load of n_asleep (both seq_cst), so a run is either seen here or wakes us. */
        seen = atomic_load_explicit(&p->wake, memory_order_seq_cst);
        atomic_fetch_add_explicit(&p->n_asleep, 1, memory_order_seq_cst);
        if (!has_task(atomic_load_explicit(&p->claim, memory_order_seq_cst)) &&
            !atomic_load_explicit(&p->stop, memory_order_seq_cst))
            futex_wait(&p->wake, seen);
        atomic_fetch_sub_explicit(&p->n_asleep, 1, memory_order_relaxed);
    }
    return NULL;
}

static void wake_workers(slc_pool *p) {
    atomic_fetch_add_explicit(&p->wake, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&p->n_asleep, memory_order_seq_cst)) futex_wake_all(&p->wake);
}

void slc_pool_run(slc_pool *p, slc_task_fn *fn, void *ctx, uint32_t n_tasks) {
    uint32_t done;

    if (n_tasks == 0) return;
    if (n_tasks == 1 || p->n_threads == 1) {
        for (uint32_t i = 0; i < n_tasks; i++) fn(ctx, i, 0);
        return;
    }
    p->fn = fn;
    p->ctx = ctx;
    atomic_store_explicit(&p->n_done, 0, memory_order_relaxed);
    atomic_store_explicit(&p->claim, n_tasks, memory_order_seq_cst);
    wake_workers(p);
    run_tasks(p, 0);

    for (int i = 0; i < SPIN_ROUNDS; i++) {
        if (atomic_load_explicit(&p->n_done, memory_order_acquire) == n_tasks) return;
        cpu_relax();
    }
    atomic_store_explicit(&p->owner_asleep, 1, memory_order_seq_cst);
    while ((done = atomic_load_explicit(&p->n_done, memory_order_seq_cst)) != n_tasks)
        futex_wait(&p->n_done, done);
    atomic_store_explicit(&p->owner_asleep, 0, memory_order_relaxed);
}

slc_status slc_pool_create(uint32_t n_threads, slc_pool **out, slc_err *err) {
    slc_status rc = SLC_OK;
    slc_pool *p = slc_calloc(1, sizeof(*p));
    pthread_attr_t attr;

    *out = NULL;
    slc_assert(n_threads >= 1);
    if (!p || !(p->workers = slc_calloc(n_threads, sizeof(*p->workers)))) {
        free(p);
        return slc_fail(err, SLC_E_NOMEM, "no memory for a pool of %u threads", n_threads);
    }
    p->n_threads = n_threads;
    p->n_started = 1;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    for (; p->n_started < n_threads; p->n_started++) {
        worker *w = &p->workers[p->n_started];
        char name[16];
        int e;

        *w = (worker){.pool = p, .idx = p->n_started};
        if ((e = pthread_create(&w->thread, &attr, worker_main, w))) {
            rc = slc_fail_errno(err, e, "cannot start worker thread %u of %u", p->n_started,
                                n_threads);
            break;
        }
        snprintf(name, sizeof(name), "slc-w%u", p->n_started);
        pthread_setname_np(w->thread, name);
    }
    pthread_attr_destroy(&attr);
    if (rc)
        slc_pool_destroy(p);
    else
        *out = p;
    return rc;
}

void slc_pool_destroy(slc_pool *p) {
    if (!p) return;
    atomic_store_explicit(&p->stop, true, memory_order_seq_cst);
    wake_workers(p);
    for (uint32_t i = 1; i < p->n_started; i++) pthread_join(p->workers[i].thread, NULL);
    free(p->workers);
    free(p);
}

uint32_t slc_pool_size(const slc_pool *p) {
    return p->n_threads;
}
