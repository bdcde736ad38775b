/* The worker pool: every task of every run exactly once, whoever sleeps or wakes late; what was
 * written before a run is seen in it, and what it wrote after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/pool.h"

#define MAX_TASKS 300u

/* Plain memory: under the thread sanitizer a missing order between owner and workers is a race. */
typedef struct run {
    uint32_t number, n_threads;
    uint32_t done_by_task[MAX_TASKS]; /* number of the run that did it last */
    uint32_t times[MAX_TASKS];
} run;

static void note(void *ctx, uint32_t task, uint32_t worker) {
    run *r = ctx;

    if (worker >= r->n_threads) abort();
    r->done_by_task[task] = r->number;
    r->times[task]++;
}

static slc_pool *create(uint32_t n_threads) {
    slc_err err = {0};
    slc_pool *p;

    assert_int_equal(slc_pool_create(n_threads, &p, &err), SLC_OK);
    assert_int_equal(slc_pool_size(p), n_threads);
    return p;
}

static void check_run(slc_pool *p, run *r, uint32_t n_tasks) {
    r->number++;
    slc_pool_run(p, note, r, n_tasks);
    for (uint32_t i = 0; i < n_tasks; i++) {
        assert_int_equal(r->done_by_task[i], r->number);
        assert_int_equal(r->times[i], 1);
        r->times[i] = 0;
    }
}

static void every_task_runs_once_in_every_run(void **state) {
    for (uint32_t n_threads = 1; n_threads <= 8; n_threads++) {
        slc_pool *p = create(n_threads);
        run r = {.n_threads = n_threads};

        for (uint32_t i = 0; i < 3000; i++) check_run(p, &r, i % 7);
        for (uint32_t i = 0; i < 50; i++) check_run(p, &r, MAX_TASKS);
        slc_pool_destroy(p);
    }
}

static void workers_that_sleep_wake_up(void **state) {
    slc_pool *p = create(3);
    run r = {.n_threads = 3};

    for (uint32_t i = 0; i < 100; i++) {
        if (i % 4 == 0) usleep(3000); /* all asleep */
        usleep(i);                    /* some about to be */
        check_run(p, &r, 1 + i % 5);
    }
    slc_pool_destroy(p);
}

/* The owner finishes first, and sleeps. */
static void dawdle(void *ctx, uint32_t task, uint32_t worker) {
    if (worker) usleep(2000);
    note(ctx, task, worker);
}

static void owner_waits_for_slow_workers(void **state) {
    slc_pool *p = create(4);
    run r = {.n_threads = 4};

    for (uint32_t i = 0; i < 60; i++) {
        r.number++;
        slc_pool_run(p, dawdle, &r, 8);
        for (uint32_t t = 0; t < 8; t++) assert_int_equal(r.done_by_task[t], r.number);
    }
    slc_pool_destroy(p);
}

typedef struct meeting {
    uint32_t n;
    _Atomic uint32_t here;
    _Atomic bool missed;
} meeting;

/* Stays until all have come; gives up after ten seconds. */
static void meet(void *ctx, uint32_t task, uint32_t worker) {
    meeting *m = ctx;

    (void)task, (void)worker;
    m->here++;
    for (int ms = 0; m->here < m->n; ms++) {
        if (ms >= 10000 || m->missed) {
            m->missed = true;
            return;
        }
        usleep(1000);
    }
}

static void every_worker_takes_part(void **state) {
    slc_pool *p = create(4);

    for (uint32_t i = 0; i < 30; i++) {
        meeting m = {.n = 4};

        if (i % 2) usleep(5000); /* all asleep */
        slc_pool_run(p, meet, &m, 4);
        assert_false(m.missed);
    }
    slc_pool_destroy(p);
}

static void count(void *ctx, uint32_t task, uint32_t worker) {
    _Atomic uint64_t *sum = ctx;

    (void)worker;
    atomic_fetch_add_explicit(sum, task, memory_order_relaxed);
}

/* A long pass has a task for every token and head. */
static void a_run_may_have_millions_of_tasks(void **state) {
    const uint32_t n = (1u << 21) + 3;
    slc_pool *p = create(2);
    _Atomic uint64_t sum = 0;

    slc_pool_run(p, count, &sum, n);
    assert_int_equal(sum, (uint64_t)n * (n - 1) / 2);
    slc_pool_destroy(p);
}

static void a_pool_may_be_destroyed_at_any_moment(void **state) {
    run r = {.n_threads = 4};

    for (uint32_t i = 0; i < 200; i++) {
        slc_pool *p = create(4);

        if (i % 2) check_run(p, &r, 3);
        if (i % 3 == 0) usleep(i * 10);
        slc_pool_destroy(p);
    }
    slc_pool_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once_in_every_run),
        cmocka_unit_test(workers_that_sleep_wake_up),
        cmocka_unit_test(owner_waits_for_slow_workers),
        cmocka_unit_test(every_worker_takes_part),
        cmocka_unit_test(a_run_may_have_millions_of_tasks),
        cmocka_unit_test(a_pool_may_be_destroyed_at_any_moment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
