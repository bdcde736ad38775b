/* The expert store on a fake checkpoint: every delivered byte is compared with the files, and
 * slc_store_check runs after every step. Cases run over both backends, reordered completions
 * included. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "stream/slot_layout.h"
#include "stream/store.h"
#include "support/fake_model.h"
#include "support/faults.h"

enum { LAYERS = 4, EXPERTS = 16 };

typedef struct variant {
    const char *name;
    slc_io_kind kind;
    bool direct, reorder;
} variant;

typedef struct world {
    const variant *variant;
    faults faults;
    fake_model *model;
    slc_io *io;
    slc_store *store;
    const slc_policy *policy; /* NULL: the default */
    uint32_t random;
    slc_err failure; /* of the last expert that fetch_all found failed */
    slc_err err;
} world;

static int setup(void **state) {
    world *w = calloc(1, sizeof(*w));
    fake_model_options opt = {.n_layers = LAYERS,
                              .n_experts = EXPERTS,
                              .n_files = 2,
                              .part_bytes = 9000,
                              .seed = 11,
                              .sys = &w->faults.sys};

    w->variant = *state;
    w->random = 4711;
    faults_init(&w->faults);
    opt.direct = w->variant->direct;
    w->model = fake_model_create(&opt);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;

    slc_store_destroy(w->store);
    slc_io_destroy(w->io);
    fake_model_destroy(w->model);
    assert_int_equal(w->faults.n_open, 0);
    free(w);
    return 0;
}

static slc_status make_io(world *w, uint32_t depth) {
    slc_io_backend backend;
    slc_status rc = w->variant->kind == SLC_IO_URING ? slc_uring_create(depth, &backend, &w->err)
                                                     : slc_pread_create(depth, &backend, &w->err);

    if (rc) return rc;
    if (w->variant->reorder) backend = faults_reorder(backend, 77);
    return slc_io_create_on(&backend, NULL, &w->io, &w->err);
}

static void start(world *w, uint32_t n_slots) {
    slc_store_options opt = {.n_slots = n_slots};
    slc_status rc = make_io(w, 16);

    if (rc == SLC_E_UNSUPPORTED) skip();
    assert_int_equal(rc, SLC_OK);
    opt.io = w->io;
    opt.policy = w->policy;
    assert_int_equal(slc_store_create(&w->model->ckpt, &opt, &w->store, &w->err), SLC_OK);
    slc_store_check(w->store);
}

/* Fills ids with n distinct random experts. */
static void choose(world *w, uint32_t *ids, uint32_t n) {
    uint32_t all[EXPERTS];

    for (uint32_t i = 0; i < EXPERTS; i++) all[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = i + faults_random(&w->random) % (EXPERTS - i);
        ids[i] = all[k];
        all[k] = all[i];
    }
}

/* An expert that failed says that it did, and not another. */
static void expect_failure(world *w, uint32_t layer, uint32_t expert, const slc_fetched *got) {
    slc_err *e = &w->failure;
    char name[64];

    *e = (slc_err){0};
    assert_int_equal(slc_fetch_error(w->store, got->idx, e), got->status);
    snprintf(name, sizeof(name), "layer %u, expert %u: ", layer, expert);
    if (strncmp(e->msg, name, strlen(name))) fail_msg("%s is not about %s", e->msg, name);
}

/* Runs a fetch to its end, at most `max` at a time; returns how many experts failed. */
static uint32_t fetch_all(world *w, uint32_t layer, const uint32_t *ids, uint32_t n, uint32_t max) {
    bool seen[EXPERTS] = {false};
    uint32_t n_seen = 0, n_failed = 0, got;
    slc_fetched ready[EXPERTS];

    w->failure = (slc_err){0};
    slc_fetch_begin(w->store, layer, ids, NULL, n, true);
    slc_store_check(w->store);
    while ((got = slc_fetch_next(w->store, ready, max)) > 0) {
        assert_true(got <= max);
        slc_store_check(w->store);
        for (uint32_t i = 0; i < got; i++) {
            assert_true(ready[i].idx < n && !seen[ready[i].idx]);
            seen[ready[i].idx] = true;
            if (ready[i].status) {
                n_failed++;
                expect_failure(w, layer, ids[ready[i].idx], &ready[i]);
            } else {
                assert_true(fake_model_matches(w->model, layer, ids[ready[i].idx], &ready[i].view));
            }
        }
        n_seen += got;
        slc_fetch_release(w->store, ready, got);
        slc_store_check(w->store);
    }
    slc_fetch_end(w->store);
    slc_store_check(w->store);
    assert_int_equal(n_seen, n);
    return n_failed;
}

static void random_fetches(world *w, int n_fetches, uint32_t n_max) {
    uint32_t ids[EXPERTS];

    for (int i = 0; i < n_fetches; i++) {
        uint32_t n = 1 + faults_random(&w->random) % n_max;
        choose(w, ids, n);
        assert_int_equal(fetch_all(w, faults_random(&w->random) % LAYERS, ids, n,
                                   1 + faults_random(&w->random) % 4),
                         0);
    }
}

static uint64_t misses(const world *w) {
    return slc_store_get_stats(w->store).misses;
}

/* ---- cases ---- */

static void random_fetches_give_the_right_bytes(void **state) {
    world *w = *state;
    slc_store_stats st;

    start(w, 20);
    random_fetches(w, 150, EXPERTS);
    st = slc_store_get_stats(w->store);
    assert_true(st.hits > 0 && st.misses > 0 && st.failed_reads == 0);
    assert_true(st.reads >= st.misses * 6 && st.reads <= st.misses * SLC_SLOT_PARTS);
    assert_true(st.bytes_read > 0);
}

static void b03_one_slot_slides_through_all_experts(void **state) {
    world *w = *state;
    uint32_t ids[EXPERTS];

    start(w, 1);
    for (uint32_t i = 0; i < EXPERTS; i++) ids[i] = i;
    assert_int_equal(fetch_all(w, 1, ids, EXPERTS, EXPERTS), 0);
    assert_int_equal(misses(w), EXPERTS);
    random_fetches(w, 40, EXPERTS);
}

static void b03_exactly_k_slots(void **state) {
    world *w = *state;

    start(w, 4);
    random_fetches(w, 80, 4);
}

static void b03_all_experts_with_few_slots(void **state) {
    world *w = *state;
    uint32_t ids[EXPERTS];

    start(w, 5);
    for (int i = 0; i < 10; i++) {
        choose(w, ids, EXPERTS);
        assert_int_equal(fetch_all(w, (uint32_t)i % LAYERS, ids, EXPERTS, 3), 0);
    }
}

static void room_for_all_reads_each_expert_once(void **state) {
    world *w = *state;
    slc_store_stats st;

    start(w, LAYERS * EXPERTS + 3);
    random_fetches(w, 100, EXPERTS);
    st = slc_store_get_stats(w->store);
    assert_true(st.misses <= LAYERS * EXPERTS);
}

static void hits_come_first(void **state) {
    world *w = *state;
    const uint32_t warm[] = {3, 7}, ids[] = {1, 7, 2, 3};
    slc_fetched ready[4];

    start(w, 10);
    assert_int_equal(fetch_all(w, 0, warm, 2, 2), 0);
    slc_fetch_begin(w->store, 0, ids, NULL, 4, true);
    assert_int_equal(slc_fetch_next(w->store, ready, 1), 1);
    assert_int_equal(ready[0].idx, 1);
    slc_fetch_release(w->store, ready, 1);
    assert_int_equal(slc_fetch_next(w->store, ready, 1), 1);
    assert_int_equal(ready[0].idx, 3);
    slc_fetch_release(w->store, ready, 1);
    slc_fetch_end(w->store);
    assert_int_equal(slc_store_get_stats(w->store).hits, 2);
}

/* The disk works on the next expert while the caller computes. */
static void release_starts_the_next_load(void **state) {
    world *w = *state;
    const uint32_t ids[] = {1, 2};
    slc_fetched ready;

    start(w, 1);
    slc_fetch_begin(w->store, 0, ids, NULL, 2, true);
    assert_int_equal(slc_fetch_next(w->store, &ready, 1), 1);
    assert_int_equal(slc_io_outstanding(w->io), 0);
    slc_fetch_release(w->store, &ready, 1);
    assert_true(slc_io_outstanding(w->io) > 0);
    slc_fetch_end(w->store);
}

static void the_least_recently_used_is_evicted(void **state) {
    world *w = *state;
    uint32_t id;

    w->policy = &slc_policy_lru;
    start(w, 3);
    for (id = 0; id < 3; id++) fetch_all(w, 0, &id, 1, 1);
    id = 0;
    fetch_all(w, 0, &id, 1, 1); /* 1 is the oldest now */
    id = 5;
    fetch_all(w, 0, &id, 1, 1);
    assert_int_equal(misses(w), 4);
    for (id = 0; id < 3; id += 2) fetch_all(w, 0, &id, 1, 1);
    assert_int_equal(misses(w), 4);
    id = 1;
    fetch_all(w, 0, &id, 1, 1);
    assert_int_equal(misses(w), 5);
}

static void a_pinned_expert_is_never_evicted(void **state) {
    world *w = *state;
    uint32_t held = 9, others[EXPERTS - 1], n = 0;
    slc_fetched pinned;

    start(w, 2);
    slc_fetch_begin(w->store, 3, &held, NULL, 1, true);
    assert_int_equal(slc_fetch_next(w->store, &pinned, 1), 1);
    slc_fetch_end(w->store); /* ended, not released */
    for (uint32_t i = 0; i < EXPERTS; i++) {
        if (i != held) others[n++] = i;
    }
    assert_int_equal(fetch_all(w, 3, others, n, 4), 0);
    assert_true(fake_model_matches(w->model, 3, held, &pinned.view));
    slc_fetch_release(w->store, &pinned, 1);
    slc_store_check(w->store);
    assert_int_equal(fetch_all(w, 3, others, n, 4), 0);
}

static void an_abandoned_fetch_harms_nobody(void **state) {
    world *w = *state;
    uint32_t ids[EXPERTS];
    slc_fetched ready[2];

    start(w, 6);
    for (int i = 0; i < 60; i++) {
        uint32_t layer = faults_random(&w->random) % LAYERS, n, taken;
        n = 1 + faults_random(&w->random) % EXPERTS;
        choose(w, ids, n);
        slc_fetch_begin(w->store, layer, ids, NULL, n, true);
        slc_store_check(w->store);
        taken = faults_random(&w->random) % 3;
        for (uint32_t k = 0; k < taken; k++) {
            uint32_t got = slc_fetch_next(w->store, ready, 2);
            for (uint32_t m = 0; m < got; m++) {
                assert_true(fake_model_matches(w->model, layer, ids[ready[m].idx], &ready[m].view));
            }
            slc_fetch_release(w->store, ready, got);
        }
        slc_fetch_end(w->store);
        slc_store_check(w->store);
        if (i % 3 == 0) random_fetches(w, 1, EXPERTS);
    }
}

static void an_abandoned_load_is_not_read_twice(void **state) {
    world *w = *state;
    const uint32_t ids[] = {4, 5};
    uint64_t reads;

    start(w, 4);
    w->faults.delay_us = 3000;
    slc_fetch_begin(w->store, 0, ids, NULL, 2, true);
    slc_fetch_end(w->store);
    slc_store_check(w->store);
    reads = slc_store_get_stats(w->store).reads;
    assert_int_equal(fetch_all(w, 0, ids, 2, 2), 0);
    assert_int_equal(slc_store_get_stats(w->store).reads, reads);
}

static void destroy_with_reads_in_flight(void **state) {
    world *w = *state;
    const uint32_t ids[] = {4, 5, 6, 7};

    start(w, 4);
    w->faults.delay_us = 3000;
    slc_fetch_begin(w->store, 0, ids, NULL, 4, true);
    slc_fetch_end(w->store);
}

static void b01_short_reads_change_nothing(void **state) {
    world *w = *state;

    start(w, 7);
    w->faults.short_every = 3;
    w->faults.eintr_every = 4;
    random_fetches(w, 60, EXPERTS);
}

/* One expert cannot be read: it alone fails, with its name; later it can be read again. */
static void b02_a_bad_range_fails_one_expert(void **state) {
    world *w = *state;
    slc_extent bad = slc_checkpoint_expert(&w->model->ckpt, 1, 6, SLC_EXPERT_UP, SLC_PART_W);
    uint32_t ids[EXPERTS];

    start(w, 5);
    for (uint32_t i = 0; i < EXPERTS; i++) ids[i] = i;
    w->faults.bad_off = bad.off + bad.bytes / 2;
    w->faults.bad_len = 1;
    w->faults.bad_errno = ENXIO;
    w->faults.bad_times = 1;
    assert_int_equal(fetch_all(w, 1, ids, EXPERTS, 4), 1);
    assert_int_equal(w->failure.code, SLC_E_IO);
    assert_non_null(strstr(w->failure.msg, "shard-1"));
    assert_int_equal(w->failure.sys_errno, ENXIO);
    assert_int_equal(slc_store_get_stats(w->store).failed_reads, 1);
    assert_int_equal(fetch_all(w, 1, ids, EXPERTS, 4), 0);
}

static void b19_passing_errors_are_not_seen(void **state) {
    world *w = *state;
    uint32_t ids[EXPERTS];

    start(w, 8);
    for (uint32_t i = 0; i < EXPERTS; i++) ids[i] = i;
    w->faults.bad_len = UINT64_C(1) << 40;
    w->faults.bad_errno = EIO;
    w->faults.bad_times = 20;
    assert_int_equal(fetch_all(w, 0, ids, EXPERTS, 4), 0);
    assert_int_equal(w->faults.bad_times, 0);
}

/* The n-th read fails for good, for every n: the store survives and goes on. */
static void every_nth_failure_is_survived(void **state) {
    world *w = *state;
    uint32_t ids[6];

    start(w, 3);
    for (uint32_t nth = 1; nth <= 60; nth++) {
        uint32_t layer = nth % LAYERS;
        choose(w, ids, 6);
        w->faults.fail_nth = w->faults.n_reads + nth;
        w->faults.fail_errno = ENXIO;
        assert_true(fetch_all(w, layer, ids, 6, 2) <= 1);
        w->faults.fail_nth = 0;
        assert_int_equal(fetch_all(w, layer, ids, 6, 2), 0);
    }
    assert_true(slc_store_get_stats(w->store).failed_reads > 20);
}

static void an_abandoned_failure_is_nobodys(void **state) {
    world *w = *state;
    const uint32_t ids[] = {1, 2, 3};

    start(w, 3);
    w->faults.bad_len = UINT64_C(1) << 40;
    w->faults.bad_errno = ENXIO;
    w->faults.bad_times = 3;
    slc_fetch_begin(w->store, 0, ids, NULL, 3, true);
    slc_fetch_end(w->store);
    while (slc_io_outstanding(w->io)) { /* another fetch takes the results in */
        uint32_t other = 9;
        assert_int_equal(fetch_all(w, 3, &other, 1, 1), 0);
    }
    assert_int_equal(slc_store_get_stats(w->store).failed_reads, 3);
    assert_int_equal(fetch_all(w, 0, ids, 3, 3), 0);
}

/* A hint's read fails before the expert is asked for, the rest of it comes while the fetch waits:
 * it is read again. */
static void a_hint_that_failed_fails_nobody(void **state) {
    world *w = *state;
    uint32_t n_late = 0;

    start(w, LAYERS * EXPERTS);
    w->faults.bad_len = UINT64_C(1) << 40;
    w->faults.bad_errno = ENXIO;
    for (uint32_t i = 0; i < LAYERS * EXPERTS; i++) {
        uint64_t before = slc_store_get_stats(w->store).failed_reads;
        uint32_t layer = i / EXPERTS, id = i % EXPERTS;

        w->faults.bad_times = 1;
        slc_store_prefetch(w->store, layer, &id, 1, SLC_GUESS_HOT);
        for (int k = 0; k < 1000 && slc_store_get_stats(w->store).failed_reads == before; k++) {
            slc_store_poll(w->store);
        }
        n_late += slc_io_outstanding(w->io) > 0;
        assert_int_equal(fetch_all(w, layer, &id, 1, 1), 0);
        assert_int_equal(w->faults.bad_times, 0);
    }
    if (w->variant->reorder) assert_true(n_late > 0);
}

static void b21_a_truncated_file_fails_clearly(void **state) {
    world *w = *state;
    slc_file *f = &w->model->ckpt.files[0];
    uint32_t ids[EXPERTS];

    start(w, EXPERTS);
    for (uint32_t i = 0; i < EXPERTS; i++) ids[i] = i;
    assert_int_equal(truncate(f->path, (off_t)f->size_bytes / 4), 0);
    assert_int_equal(fetch_all(w, 2, ids, EXPERTS, 4), EXPERTS);
    assert_int_equal(w->failure.code, SLC_E_IO);
    assert_non_null(strstr(w->failure.msg, "unexpected end of file"));
    assert_non_null(strstr(w->failure.msg, "shard-0"));
    assert_int_equal(fetch_all(w, 1, ids, EXPERTS, 4), 0); /* in the other file */
}

static void sizes_are_told_before_create(void **state) {
    world *w = *state;
    const slc_checkpoint *c = &w->model->ckpt;
    uint64_t slot = slc_store_slot_bytes(c);
    slc_slot_layout l;

    start(w, 3);
    assert_int_equal(slc_store_n_slots(w->store), 3);
    assert_int_equal(slc_store_slab_bytes(w->store), 3 * slot);
    assert_int_equal(slot % 4096, 0);
    for (uint32_t i = 0; i < LAYERS * EXPERTS; i++) {
        uint64_t end = 0;
        slc_slot_layout_of(c, i / EXPERTS, i % EXPERTS, &l);
        assert_true(l.bytes <= slot);
        for (uint32_t k = 0; k < l.n_reads; k++) {
            const slc_slot_read *r = &l.read[k];
            assert_true(r->at >= end && r->need <= r->len);
            assert_int_equal(r->at % r->file->align, 0);
            assert_int_equal(r->at % SLC_SIMD_ALIGN, 0);
            end = r->at + r->len;
        }
        assert_int_equal(end, l.bytes);
    }
    assert_true(slc_store_overhead_bytes(c, 200) > slc_store_overhead_bytes(c, 100));
    assert_int_equal(slc_store_overhead_bytes(c, 0), 0);
}

static void a_dense_model_has_no_store(void **state) {
    world *w = *state;
    slc_store_options opt = {.n_slots = 4};
    slc_checkpoint dense = {0};
    slc_store *store;

    assert_int_equal(slc_store_slot_bytes(&dense), 0);
    assert_int_equal(slc_store_create(&dense, &opt, &store, &w->err), SLC_E_INVALID);
    assert_null(store);
    opt.n_slots = 0;
    assert_int_equal(slc_store_create(&w->model->ckpt, &opt, &store, NULL), SLC_E_INVALID);
}

int main(void) {
    static const variant variants[] = {
        {"uring, direct", SLC_IO_URING, true, false},
        {"uring, direct, reordered", SLC_IO_URING, true, true},
        {"threads, direct", SLC_IO_THREADS, true, false},
        {"threads, buffered, reordered", SLC_IO_THREADS, false, true},
    };
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    struct CMUnitTest tests[] = {
        CASE(random_fetches_give_the_right_bytes),
        CASE(b03_one_slot_slides_through_all_experts),
        CASE(b03_exactly_k_slots),
        CASE(b03_all_experts_with_few_slots),
        CASE(room_for_all_reads_each_expert_once),
        CASE(hits_come_first),
        CASE(release_starts_the_next_load),
        CASE(the_least_recently_used_is_evicted),
        CASE(a_pinned_expert_is_never_evicted),
        CASE(an_abandoned_fetch_harms_nobody),
        CASE(an_abandoned_load_is_not_read_twice),
        CASE(destroy_with_reads_in_flight),
        CASE(b01_short_reads_change_nothing),
        CASE(b02_a_bad_range_fails_one_expert),
        CASE(b19_passing_errors_are_not_seen),
        CASE(every_nth_failure_is_survived),
        CASE(an_abandoned_failure_is_nobodys),
        CASE(a_hint_that_failed_fails_nobody),
        CASE(b21_a_truncated_file_fails_clearly),
        CASE(sizes_are_told_before_create),
        CASE(a_dense_model_has_no_store),
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
