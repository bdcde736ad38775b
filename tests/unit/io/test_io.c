/* Asynchronous reads: every case runs over every backend, directly and through the page cache, with
 * files and memory registered and not, on a disk that can be told to misbehave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "io/io.h"
#include "support/faults.h"
#include "support/temp.h"

#define SIZE    (1000u * 1000u + 77u) /* ends inside a block */
#define N_READS 96u
#define BUF     32768u

typedef struct variant {
    const char *name;
    slc_io_kind kind;
    bool direct, registered;
} variant;

typedef struct world {
    const variant *variant;
    char *dir, *path;
    uint8_t *bytes;
    faults faults;
    slc_file file;
    slc_io *io;
    slc_io_read reads[N_READS];
    uint8_t *buf; /* [N_READS][BUF] */
    uint32_t random;
    char log[256]; /* the last line */
    uint32_t n_log;
    slc_err err;
} world;

static void keep_line(void *user, int level, const char *line) {
    world *w = user;

    w->n_log++;
    strncpy(w->log, line, sizeof(w->log) - 1);
}

static int setup(void **state) {
    world *w = calloc(1, sizeof(*w));
    const char *why;

    w->variant = *state;
    w->random = 99;
    w->bytes = malloc(SIZE);
    for (uint32_t i = 0; i < SIZE; i++) w->bytes[i] = (uint8_t)faults_random(&w->random);
    w->dir = temp_dir();
    w->path = temp_write(w->dir, "data", w->bytes, SIZE);
    w->buf = aligned_alloc(4096, (size_t)N_READS * BUF);
    faults_init(&w->faults);
    assert_int_equal(slc_file_open_with(&w->file, w->path, &w->faults.sys, &w->err), SLC_OK);
    if (w->variant->direct) slc_file_enable_direct(&w->file, &why);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;

    slc_io_destroy(w->io);
    slc_file_close(&w->file);
    assert_int_equal(w->faults.n_open, 0);
    free(w->buf);
    free(w->bytes);
    free(w->path);
    temp_dir_remove(w->dir);
    free(w);
    return 0;
}

/* In two segments, which no read may cross; the last reads' memory is in neither. */
static void use_all(world *w) {
    size_t half = (size_t)N_READS / 2 * BUF;
    const struct iovec memory[] = {{w->buf, half}, {w->buf + half, half - BUF}};

    slc_io_use_files(w->io, &w->file, 1);
    slc_io_use_memory(w->io, memory, 2);
    assert_int_equal(w->n_log, 1); /* not refused */
}

/* Skips where the machine cannot run the variant. */
static void start(world *w, uint32_t depth) {
    static slc_log log;
    slc_io_options opt = {.kind = w->variant->kind, .depth = depth, .log = &log};

    log = (slc_log){.sink = keep_line, .user = w, .max_level = SLC_LOG_INFO};
    if (w->variant->direct && w->file.direct_fd < 0) {
        print_message("no direct reads below %s\n", w->dir);
        skip();
    }
    if (slc_io_create(&opt, &w->io, &w->err) == SLC_E_UNSUPPORTED) {
        print_message("%s\n", w->err.msg);
        skip();
    }
    assert_non_null(w->io);
    assert_int_equal(w->n_log, 1);
    if (w->variant->registered) use_all(w);
}

static void start_reordered(world *w, uint32_t seed) {
    slc_io_backend inner;
    slc_status rc = w->variant->kind == SLC_IO_URING ? slc_uring_create(16, &inner, &w->err)
                                                     : slc_pread_create(16, &inner, &w->err);

    if (rc == SLC_E_UNSUPPORTED || (w->variant->direct && w->file.direct_fd < 0)) skip();
    assert_int_equal(rc, SLC_OK);
    inner = faults_reorder(inner, seed);
    assert_int_equal(slc_io_create_on(&inner, NULL, &w->io, &w->err), SLC_OK);
}

/* Makes read i ask for [off, off + bytes) as an aligned superset. */
static slc_io_read *want(world *w, uint32_t i, uint64_t off, uint32_t bytes) {
    slc_io_read *r = &w->reads[i];
    uint64_t start = slc_align_down(off, w->file.align);
    uint64_t end = slc_align_up(off + bytes, w->file.align);

    assert_true(end - start <= BUF);
    memset(w->buf + (size_t)i * BUF, 0xee, BUF);
    *r = (slc_io_read){.file = &w->file,
                       .off = start,
                       .buf = w->buf + (size_t)i * BUF,
                       .len = (uint32_t)(end - start),
                       .need = (uint32_t)(off + bytes - start)};
    return r;
}

static slc_io_read *want_random(world *w, uint32_t i) {
    uint32_t bytes = 1 + faults_random(&w->random) % 20000;
    uint64_t off = faults_random(&w->random) % (SIZE - bytes);

    if (i % 8 == 0) off = SIZE - bytes; /* up to the last byte */
    return want(w, i, off, bytes);
}

static void expect_bytes(const world *w, const slc_io_read *r) {
    assert_int_equal(r->status, SLC_OK);
    assert_true(r->got >= r->need);
    assert_memory_equal(r->buf, w->bytes + r->off, r->need);
}

/* Submits n random reads in two batches and reaps them all; each must be right. */
static void run_round(world *w, uint32_t n) {
    slc_io_read *reads[N_READS], *done[7];
    bool seen[N_READS] = {false};
    uint32_t n_done = 0, got;

    for (uint32_t i = 0; i < n; i++) reads[i] = want_random(w, i);
    slc_io_submit(w->io, reads, n / 2);
    slc_io_submit(w->io, reads + n / 2, n - n / 2);
    assert_int_equal(slc_io_outstanding(w->io), n);
    while ((got = slc_io_reap(w->io, done, 7, true)) > 0) {
        for (uint32_t i = 0; i < got; i++) {
            assert_false(seen[done[i] - w->reads]);
            seen[done[i] - w->reads] = true;
            expect_bytes(w, done[i]);
        }
        n_done += got;
        assert_int_equal(slc_io_outstanding(w->io), n - n_done);
    }
    assert_int_equal(n_done, n);
}

static slc_io_read *run_one(world *w, uint64_t off, uint32_t bytes) {
    slc_io_read *r = want(w, 0, off, bytes), *done = NULL;

    slc_io_submit(w->io, &r, 1);
    assert_int_equal(slc_io_reap(w->io, &done, 1, true), 1);
    assert_ptr_equal(done, r);
    assert_int_equal(slc_io_outstanding(w->io), 0);
    return r;
}

/* ---- cases ---- */

static void reads_at_any_offset(void **state) {
    world *w = *state;

    start(w, 0);
    for (int i = 0; i < 10; i++) run_round(w, N_READS);
}

static void more_reads_than_depth_wait_inside(void **state) {
    world *w = *state;

    start(w, 1);
    run_round(w, N_READS);
    slc_io_destroy(w->io);
    w->io = NULL;
    w->n_log = 0;
    start(w, 3);
    run_round(w, N_READS);
}

static void reap_without_work_returns_at_once(void **state) {
    world *w = *state;
    slc_io_read *done;

    start(w, 0);
    assert_int_equal(slc_io_reap(w->io, &done, 1, true), 0);
    assert_int_equal(slc_io_reap(w->io, &done, 1, false), 0);
    run_one(w, 5, 1);
    slc_io_submit(w->io, NULL, 0);
    assert_int_equal(slc_io_reap(w->io, &done, 1, true), 0);
}

static void a_read_of_nothing_succeeds(void **state) {
    world *w = *state;
    slc_io_read r = {.file = &w->file, .buf = w->buf}, *p = &r, *done;

    start(w, 0);
    slc_io_submit(w->io, &p, 1);
    assert_int_equal(slc_io_reap(w->io, &done, 1, true), 1);
    assert_int_equal(done->status, SLC_OK);
}

static void b01_short_and_interrupted_reads_go_on(void **state) {
    world *w = *state;

    start(w, 8);
    for (w->faults.short_every = 1; w->faults.short_every <= 3; w->faults.short_every++) {
        w->faults.eintr_every = 4;
        run_round(w, N_READS);
    }
    assert_true(w->faults.n_reads > 3 * N_READS);
    assert_int_equal(w->n_log, 1); /* no continuation was refused for its alignment */
}

static void b01_end_of_file_names_all(void **state) {
    world *w = *state;
    slc_io_read *r;

    start(w, 0);
    assert_int_equal(truncate(w->path, 50001), 0);
    r = run_one(w, 40000, 10002);
    assert_int_equal(r->status, SLC_E_IO);
    assert_int_equal(r->sys_errno, 0);
    assert_int_equal(r->off + r->got, 50001);
    assert_int_equal(slc_io_read_error(r, &w->err), SLC_E_IO);
    assert_non_null(strstr(w->err.msg, w->path));
    assert_non_null(strstr(w->err.msg, "unexpected end of file"));
    assert_null(strstr(w->err.msg, "Success"));
    expect_bytes(w, run_one(w, 40000, 10001));
    r = run_one(w, 60000, 1000);
    assert_int_equal(r->got, 0);
    assert_int_equal(r->status, SLC_E_IO);
}

static void b19_a_passing_error_is_retried(void **state) {
    world *w = *state;
    slc_io_read *r;

    start(w, 0);
    w->faults.bad_off = 5000;
    w->faults.bad_len = 1;
    w->faults.bad_errno = EIO;
    w->faults.bad_times = 2;
    r = run_one(w, 4000, 8000);
    expect_bytes(w, r);
    assert_int_equal(r->n_tries, 2);
    w->faults.bad_errno = EAGAIN;
    w->faults.bad_times = 3;
    expect_bytes(w, run_one(w, 4000, 8000));
    run_round(w, N_READS);
}

static void b19_a_lasting_error_fails_in_time(void **state) {
    world *w = *state;
    uint64_t begin;
    slc_io_read *r;

    start(w, 0);
    w->faults.bad_off = 5000;
    w->faults.bad_len = 1;
    w->faults.bad_errno = EIO;
    w->faults.bad_times = 1u << 30;
    begin = slc_now_ns();
    r = run_one(w, 4000, 8000);
    assert_int_equal(r->status, SLC_E_IO);
    assert_int_equal(r->sys_errno, EIO);
    assert_true(slc_now_ns() - begin < 5000000000u);
    assert_int_equal(slc_io_read_error(r, &w->err), SLC_E_IO);
    assert_int_equal(w->err.sys_errno, EIO);
    assert_non_null(strstr(w->err.msg, "Input/output error"));
    expect_bytes(w, run_one(w, 20000, 8000)); /* others go on */
}

/* While one read backs off, the owner is not held up and other reads pass. */
static void b19_back_off_holds_up_nobody(void **state) {
    world *w = *state;
    slc_io_read *bad, *good, *done;
    uint64_t begin;

    start(w, 0);
    w->faults.bad_len = 1;
    w->faults.bad_errno = EIO;
    w->faults.bad_times = 5; /* succeeds after 1 + 4 + 16 + 64 + 256 ms */
    bad = want(w, 0, 0, 100);
    slc_io_submit(w->io, &bad, 1);
    begin = slc_now_ns();
    while (w->faults.bad_times > 1) assert_int_equal(slc_io_reap(w->io, &done, 1, false), 0);
    good = want(w, 1, 50000, 100);
    slc_io_submit(w->io, &good, 1);
    assert_int_equal(slc_io_reap(w->io, &done, 1, true), 1);
    assert_ptr_equal(done, good);
    expect_bytes(w, good);
    assert_int_equal(slc_io_reap(w->io, &done, 1, true), 1);
    assert_ptr_equal(done, bad);
    expect_bytes(w, bad);
    assert_true(slc_now_ns() - begin >= 341000000u);
}

static void a_cancelled_attempt_is_repeated(void **state) {
    world *w = *state;

    start(w, 0);
    for (uint32_t nth = 1; nth <= 3; nth++) {
        w->faults.fail_nth = w->faults.n_reads + nth;
        w->faults.fail_errno = ECANCELED;
        run_round(w, 3);
        assert_int_equal(w->faults.n_reads, w->faults.fail_nth - nth + 4);
    }
}

static void any_other_error_fails_at_once(void **state) {
    world *w = *state;
    static const int errors[] = {EBADF, EISDIR, EPERM, ENXIO};

    start(w, 0);
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        slc_io_read *r;
        w->faults.fail_nth = w->faults.n_reads + 1;
        w->faults.fail_errno = errors[i];
        r = run_one(w, 777, 5000);
        assert_int_equal(r->status, SLC_E_IO);
        assert_int_equal(r->sys_errno, errors[i]);
        assert_int_equal(w->faults.n_reads, w->faults.fail_nth);
    }
    expect_bytes(w, run_one(w, 777, 5000));
}

/* The n-th attempt of a round fails, for every n: exactly one read is reported, or none where the
 * error passes. */
static void every_nth_failure_hits_one_read(void **state) {
    world *w = *state;

    start(w, 4);
    for (uint32_t nth = 1; nth <= 12; nth++) {
        slc_io_read *reads[12], *done[12];
        uint32_t n_failed = 0, got;
        for (uint32_t i = 0; i < 12; i++) reads[i] = want_random(w, i);
        w->faults.fail_nth = w->faults.n_reads + nth;
        w->faults.fail_errno = ENXIO;
        slc_io_submit(w->io, reads, 12);
        while ((got = slc_io_reap(w->io, done, 12, true)) > 0) {
            for (uint32_t i = 0; i < got; i++) {
                if (done[i]->status) {
                    n_failed++;
                } else {
                    expect_bytes(w, done[i]);
                }
            }
        }
        assert_int_equal(n_failed, 1);
    }
}

static void b08_a_refused_direct_read_goes_through_the_cache(void **state) {
    world *w = *state;

    start(w, 0);
    if (!w->variant->direct || w->variant->kind == SLC_IO_BUFFERED) skip();
    w->faults.direct_read_errno = EINVAL;
    run_round(w, N_READS);
    assert_int_equal(w->n_log, 2); /* said once */
    assert_non_null(strstr(w->log, w->path));
}

static void reordered_completions_are_right(void **state) {
    world *w = *state;

    start_reordered(w, 12345);
    w->faults.short_every = 5;
    w->faults.eintr_every = 7;
    for (int i = 0; i < 10; i++) run_round(w, N_READS);
}

static void slow_reads_are_right(void **state) {
    world *w = *state;

    start(w, 0);
    w->faults.delay_us = 2000;
    run_round(w, N_READS);
}

/* The signals a thread blocks, from /proc; `name` is its name. 0 for another thread. */
static unsigned long long blocked_by(const char *task, const char *name) {
    char path[300], line[200] = "", found[64] = "";
    unsigned long long mask = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/task/%.20s/status", task);
    if (!(f = fopen(path, "r"))) return 0;
    while (fgets(line, sizeof(line), f)) {
        sscanf(line, "Name: %63s", found);
        sscanf(line, "SigBlk: %llx", &mask);
    }
    fclose(f);
    return strcmp(found, name) ? 0 : mask;
}

/* Ctrl-C is for the threads that expect it. */
static void read_threads_take_no_signals(void **state) {
    const unsigned long long some = 1ull << (SIGINT - 1) | 1ull << (SIGTERM - 1);
    world *w = *state;
    struct dirent *e;
    uint32_t n = 0;
    DIR *d;

    start(w, 3);
    if (w->variant->kind != SLC_IO_THREADS) skip();
    run_round(w, N_READS);
    assert_non_null(d = opendir("/proc/self/task"));
    while ((e = readdir(d))) n += (blocked_by(e->d_name, "slc-io") & some) == some;
    closedir(d);
    assert_int_equal(n, 3);
}

static void destroy_waits_for_what_is_in_flight(void **state) {
    world *w = *state;
    slc_io_read *reads[N_READS];

    start(w, 4);
    w->faults.delay_us = 1000;
    w->faults.short_every = 2;
    for (uint32_t i = 0; i < N_READS; i++) reads[i] = want_random(w, i);
    slc_io_submit(w->io, reads, N_READS);
    slc_io_destroy(w->io);
    w->io = NULL;
    for (uint32_t i = 0; i < N_READS; i++) expect_bytes(w, reads[i]);
}

static void registered_files_and_memory_can_be_forgotten(void **state) {
    world *w = *state;

    start(w, 0);
    for (int i = 0; i < 3; i++) {
        run_round(w, N_READS);
        slc_io_forget(w->io);
        run_round(w, N_READS);
        use_all(w);
    }
}

/* Reads beyond what the pool works on are told to the page cache, once each. */
static void what_waits_for_the_pool_is_hinted(void **state) {
    world *w = *state;

    start(w, 0);
    w->faults.delay_us = 500;
    run_round(w, N_READS);
    if (w->variant->kind == SLC_IO_BUFFERED) {
        assert_string_equal(slc_io_name(w->io), "buffered");
        assert_in_range(w->faults.n_hints, 1, N_READS - 24);
    } else {
        assert_int_equal(w->faults.n_hints, 0);
    }
}

int main(void) {
    static const variant variants[] = {
        {"uring, direct", SLC_IO_URING, true, false},
        {"uring, direct, registered", SLC_IO_URING, true, true},
        {"uring, buffered", SLC_IO_URING, false, false},
        {"uring, buffered, registered", SLC_IO_URING, false, true},
        {"threads, direct", SLC_IO_THREADS, true, true},
        {"threads, buffered", SLC_IO_THREADS, false, false},
        {"buffered", SLC_IO_BUFFERED, false, true},
        {"buffered, of a file that could be read directly", SLC_IO_BUFFERED, true, false},
    };
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    struct CMUnitTest tests[] = {
        CASE(reads_at_any_offset),
        CASE(more_reads_than_depth_wait_inside),
        CASE(reap_without_work_returns_at_once),
        CASE(a_read_of_nothing_succeeds),
        CASE(b01_short_and_interrupted_reads_go_on),
        CASE(b01_end_of_file_names_all),
        CASE(b19_a_passing_error_is_retried),
        CASE(b19_a_lasting_error_fails_in_time),
        CASE(b19_back_off_holds_up_nobody),
        CASE(a_cancelled_attempt_is_repeated),
        CASE(any_other_error_fails_at_once),
        CASE(every_nth_failure_hits_one_read),
        CASE(b08_a_refused_direct_read_goes_through_the_cache),
        CASE(reordered_completions_are_right),
        CASE(slow_reads_are_right),
        CASE(read_threads_take_no_signals),
        CASE(destroy_waits_for_what_is_in_flight),
        CASE(registered_files_and_memory_can_be_forgotten),
        CASE(what_waits_for_the_pool_is_hinted),
    };
    int failed = 0;

    for (size_t v = 0; v < sizeof(variants) / sizeof(variants[0]); v++) {
        for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
            tests[i].initial_state = (void *)(uintptr_t)&variants[v];
        }
        failed += cmocka_run_group_tests_name(variants[v].name, tests, NULL, NULL);
    }
    return failed;
}
