/* Hints: what they bring, what they may not take, and what is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stream/store_internal.h"
#include "support/fake_model.h"
#include "support/faults.h"

enum { LAYERS = 4, EXPERTS = 16 };

typedef struct world {
    faults faults;
    fake_model *model;
    slc_io *io;
    slc_store *store;
    const slc_policy *policy;
    bool no_prefetch;
} world;

static int setup(void **state) {
    world *w = calloc(1, sizeof(*w));
    fake_model_options opt = {.n_layers = LAYERS,
                              .n_experts = EXPERTS,
                              .n_files = 2,
                              .part_bytes = 3000,
                              .seed = 5,
                              .sys = &w->faults.sys};

    faults_init(&w->faults);
    w->model = fake_model_create(&opt);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;

    slc_store_destroy(w->store);
    slc_io_destroy(w->io);
    fake_model_destroy(w->model);
    free(w);
    return 0;
}

/* Between fetches there is all the time in the world. */
static void lend_disk(world *w) {
    w->store->calm_ns[0] = w->store->calm_ns[1] = UINT64_C(1000000000000);
}

static void start(world *w, uint32_t n_slots) {
    slc_io_options io = {.kind = SLC_IO_THREADS};
    slc_store_options opt = {
        .n_slots = n_slots, .policy = w->policy, .no_prefetch = w->no_prefetch};

    assert_int_equal(slc_io_create(&io, &w->io, NULL), SLC_OK);
    opt.io = w->io;
    assert_int_equal(slc_store_create(&w->model->ckpt, &opt, &w->store, NULL), SLC_OK);
    lend_disk(w);
}

static slc_guess_stats stats(const world *w, slc_guess source) {
    slc_store_check(w->store);
    return slc_store_get_stats(w->store).guess[source];
}

/* Runs the hints dry. */
static void settle(world *w) {
    do {
        slc_store_poll(w->store);
        slc_store_check(w->store);
    } while (slc_io_outstanding(w->io));
}

static void use(world *w, uint32_t layer, const uint32_t *ids, uint32_t n) {
    slc_fetched ready[EXPERTS];
    uint32_t got;

    slc_fetch_begin(w->store, layer, ids, NULL, n, true);
    while ((got = slc_fetch_next(w->store, ready, EXPERTS)) > 0) {
        for (uint32_t i = 0; i < got; i++) {
            assert_int_equal(ready[i].status, SLC_OK);
            assert_true(fake_model_matches(w->model, layer, ids[ready[i].idx], &ready[i].view));
        }
        slc_fetch_release(w->store, ready, got);
    }
    slc_fetch_end(w->store);
    slc_store_check(w->store);
    lend_disk(w);
}

/* ---- cases ---- */

static void a_right_hint_is_a_hit(void **state) {
    world *w = *state;
    const uint32_t now[] = {1, 2}, next[] = {3, 4, 5};
    slc_guess_stats st;

    start(w, 40);
    use(w, 0, now, 2);
    slc_store_prefetch(w->store, 1, next, 3, SLC_GUESS_NEXT_LAYER);
    settle(w);
    assert_int_equal(stats(w, SLC_GUESS_NEXT_LAYER).read, 3);
    use(w, 1, next, 2);
    st = stats(w, SLC_GUESS_NEXT_LAYER);
    assert_int_equal(st.asked, 3);
    assert_int_equal(st.used, 2);
    assert_int_equal(st.wasted, 1); /* its turn has come and gone */
    assert_int_equal(st.late, 0);
    assert_true(st.bytes_read > 0);
    assert_int_equal(slc_store_get_stats(w->store).hits, 2);
    assert_int_equal(slc_store_get_stats(w->store).misses, 2);
    use(w, 1, next + 2, 1); /* too late for the hint, but it is still there */
    assert_int_equal(slc_store_get_stats(w->store).hits, 3);
}

static void what_is_there_is_not_read_again(void **state) {
    world *w = *state;
    const uint32_t ids[] = {3, 4};
    slc_guess_stats st;

    start(w, 40);
    use(w, 1, ids, 2);
    slc_store_prefetch(w->store, 1, ids, 2, SLC_GUESS_PREVIOUS);
    settle(w);
    st = stats(w, SLC_GUESS_PREVIOUS);
    assert_int_equal(st.asked, 2);
    assert_int_equal(st.present, 2);
    assert_int_equal(st.read, 0);
}

static void a_demand_waits_for_what_is_on_its_way(void **state) {
    world *w = *state;
    const uint32_t id = 7;
    uint64_t reads;

    start(w, 40);
    w->faults.delay_us = 20000;
    slc_store_prefetch(w->store, 2, &id, 1, SLC_GUESS_TWO_AHEAD);
    reads = slc_store_get_stats(w->store).reads;
    assert_true(reads > 0);
    use(w, 2, &id, 1);
    assert_int_equal(slc_store_get_stats(w->store).reads, reads);
    assert_int_equal(stats(w, SLC_GUESS_TWO_AHEAD).late, 1);
    assert_int_equal(slc_store_get_stats(w->store).late, 1);
    assert_int_equal(slc_store_get_stats(w->store).misses, 1);
}

/* One expert on its way is all that the disk is lent before its speed is known; the rest of the
 * hints wait, and go when their layer's turn has come. */
static void a_stale_hint_is_dropped_unread(void **state) {
    world *w = *state;
    const uint32_t many[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, other = 12;
    uint64_t read;

    start(w, 64);
    w->faults.delay_us = 30000;
    /* more than a millisecond of anything: at the rate assumed it stands for 1 MB */
    for (uint32_t i = 0; i < 9; i++) {
        slc_store_prefetch(w->store, 3, &many[i], 1, SLC_GUESS_NEXT_LAYER);
        slc_store_prefetch(w->store, 2, &many[i], 1, SLC_GUESS_TWO_AHEAD);
    }
    read = stats(w, SLC_GUESS_NEXT_LAYER).read + stats(w, SLC_GUESS_TWO_AHEAD).read;
    assert_true(read >= 1);
    use(w, 3, &other, 1);
    use(w, 2, &other, 1);
    settle(w);
    assert_int_equal(stats(w, SLC_GUESS_NEXT_LAYER).wasted, stats(w, SLC_GUESS_NEXT_LAYER).read);
    assert_int_equal(stats(w, SLC_GUESS_TWO_AHEAD).wasted, stats(w, SLC_GUESS_TWO_AHEAD).read);
}

static void few_slots_no_guesses(void **state) {
    world *w = *state;
    const uint32_t ids[] = {1, 2, 3};

    for (uint32_t n_slots = 1; n_slots <= 3; n_slots++) {
        start(w, n_slots);
        slc_store_prefetch(w->store, 1, ids, 3, SLC_GUESS_NEXT_LAYER);
        settle(w);
        assert_int_equal(stats(w, SLC_GUESS_NEXT_LAYER).read, 0);
        use(w, 1, ids, 3);
        slc_store_destroy(w->store);
        slc_io_destroy(w->io);
    }
    w->store = NULL;
    w->io = NULL;
}

/* With LRU and room for one pass, everything was used less than a pass ago: nothing yields. */
static void what_was_just_used_does_not_yield(void **state) {
    world *w = *state;
    const uint32_t ids[] = {1, 2}, guess[] = {9, 10};

    w->policy = &slc_policy_lru;
    start(w, 2 * LAYERS);
    for (uint32_t i = 0; i < 4 * LAYERS; i++) {
        use(w, i % LAYERS, ids, 2);
        if (i + 1 < LAYERS) continue; /* not full yet */
        slc_store_prefetch(w->store, (i + 1) % LAYERS, guess, 2, SLC_GUESS_NEXT_LAYER);
        settle(w);
    }
    assert_true(stats(w, SLC_GUESS_NEXT_LAYER).asked > 0);
    assert_int_equal(stats(w, SLC_GUESS_NEXT_LAYER).read, 0);
    assert_int_equal(slc_store_get_stats(w->store).misses, 2 * LAYERS);
}

/* Demand gets the slots of guesses when there is nothing else. */
static void demand_takes_guessed_slots(void **state) {
    world *w = *state;
    const uint32_t guess[] = {1, 2};
    uint32_t all[EXPERTS];
    slc_fetched ready[EXPERTS];
    uint32_t got = 0;

    start(w, 8);
    for (uint32_t i = 0; i < EXPERTS; i++) all[i] = i;
    slc_store_prefetch(w->store, 3, guess, 2, SLC_GUESS_NEXT_LAYER);
    settle(w);
    assert_int_equal(stats(w, SLC_GUESS_NEXT_LAYER).read, 2);
    slc_fetch_begin(w->store, 0, all, NULL, 8, true);
    while (got < 8) got += slc_fetch_next(w->store, ready + got, 8 - got); /* all held at once */
    assert_int_equal(stats(w, SLC_GUESS_NEXT_LAYER).wasted, 2);
    slc_fetch_release(w->store, ready, got);
    slc_fetch_end(w->store);
    slc_store_check(w->store);
    lend_disk(w);
}

static void a_failed_guess_is_silent(void **state) {
    world *w = *state;
    slc_extent e = slc_checkpoint_expert(&w->model->ckpt, 1, 6, SLC_EXPERT_DOWN, SLC_PART_W);
    const uint32_t id = 6, other = 2;

    start(w, 20);
    w->faults.bad_off = e.off;
    w->faults.bad_len = 1;
    w->faults.bad_errno = ENXIO;
    w->faults.bad_times = 1;
    slc_store_prefetch(w->store, 1, &id, 1, SLC_GUESS_NEXT_LAYER);
    settle(w);
    assert_int_equal(stats(w, SLC_GUESS_NEXT_LAYER).wasted, 1);
    assert_int_equal(slc_store_get_stats(w->store).failed_reads, 1);
    use(w, 0, &other, 1);
    use(w, 1, &id, 1); /* read again, on demand */
}

/* Hints that are never right stop being read, and are read again once they would have been right.
 */
static void a_source_that_does_not_pay_is_switched_off(void **state) {
    world *w = *state;
    uint64_t asked_before_off = 0, read;
    slc_guess_stats st;
    uint32_t i;

    start(w, 40);
    for (i = 0; i < 4000; i++) {
        uint32_t layer = i % LAYERS, right = i % 3, wrong = 3 + i % 13;
        use(w, layer, &right, 1);
        slc_store_prefetch(w->store, (layer + 1) % LAYERS, &wrong, 1, SLC_GUESS_NEXT_LAYER);
        while (slc_io_outstanding(w->io)) slc_store_poll(w->store);
        st = slc_store_get_stats(w->store).guess[SLC_GUESS_NEXT_LAYER];
        if (st.off && !asked_before_off) asked_before_off = st.asked;
        if (asked_before_off && !st.off) break;
    }
    assert_true(asked_before_off > 0);
    st = stats(w, SLC_GUESS_NEXT_LAYER);
    assert_int_equal(st.used, 0);
    assert_in_range(st.read, 32, 128);
    assert_true(i == 4000); /* it stays so */
    read = st.read;
    for (uint32_t k = 0; k < 600; k++) { /* now they are right */
        uint32_t layer = k % LAYERS, id = 3 + k / 3 % 13;
        use(w, layer, &id, 1);
        id = 3 + (k + 1) / 3 % 13;
        slc_store_prefetch(w->store, (layer + 1) % LAYERS, &id, 1, SLC_GUESS_NEXT_LAYER);
        while (slc_io_outstanding(w->io)) slc_store_poll(w->store);
    }
    st = stats(w, SLC_GUESS_NEXT_LAYER);
    assert_true(st.read > read);
    assert_false(st.off);
}

/* Of lists whose first guess is always right and the others never, only the first is read. */
static void each_place_has_its_own_chance(void **state) {
    world *w = *state;
    slc_guess_stats before = {0}, after;

    start(w, 20);
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t layer = i % LAYERS, id = i / LAYERS % EXPERTS, list[8];

        use(w, layer, &id, 1);
        for (uint32_t k = 0; k < 8; k++) list[k] = ((i + 1) / LAYERS + k) % EXPERTS;
        slc_store_prefetch(w->store, (layer + 1) % LAYERS, list, 8, SLC_GUESS_NEXT_LAYER);
        while (slc_io_outstanding(w->io)) slc_store_poll(w->store);
        if (i == 3000) before = stats(w, SLC_GUESS_NEXT_LAYER);
    }
    after = stats(w, SLC_GUESS_NEXT_LAYER);
    assert_true(after.used - before.used > 500);
    assert_int_equal(after.wasted, before.wasted);
}

static void a_warm_start_takes_empty_slots_only(void **state) {
    world *w = *state;
    uint32_t used[] = {1, 2, 3, 4, 5, 6}, all[EXPERTS], keys[12];

    start(w, 12);
    for (uint32_t i = 0; i < EXPERTS; i++) all[i] = i;
    use(w, 0, used, 6);
    slc_store_prefetch(w->store, 2, all, EXPERTS, SLC_GUESS_HOT);
    settle(w);
    assert_int_equal(stats(w, SLC_GUESS_HOT).read, 6);
    assert_int_equal(slc_store_held(w->store, keys), 12);
    use(w, 0, used, 6);
    assert_int_equal(slc_store_get_stats(w->store).hits, 6);
    use(w, 2, all, 6);
    assert_int_equal(stats(w, SLC_GUESS_HOT).used, 6);
}

static void no_prefetch_means_none(void **state) {
    world *w = *state;
    const uint32_t id = 3;

    w->no_prefetch = true;
    start(w, 40);
    slc_store_prefetch(w->store, 1, &id, 1, SLC_GUESS_NEXT_LAYER);
    settle(w);
    assert_int_equal(slc_store_get_stats(w->store).reads, 0);
}

/* Recall: of what a turn asks for, what had been named for it, there or not; in decoding only,
 * and each turn for itself. */
static void what_was_foreseen_is_counted(void **state) {
    world *w = *state;
    const uint32_t now[] = {1, 2}, named[] = {3, 4}, next[] = {4, 5, 6};
    slc_fetched ready[EXPERTS];
    uint32_t got;

    start(w, 40);
    use(w, 0, now, 2);
    assert_int_equal(stats(w, SLC_GUESS_NEXT_LAYER).wanted, 0);
    slc_store_prefetch(w->store, 1, named, 2, SLC_GUESS_NEXT_LAYER);
    settle(w);
    use(w, 1, next, 3);
    assert_int_equal(stats(w, SLC_GUESS_NEXT_LAYER).wanted, 3);
    assert_int_equal(stats(w, SLC_GUESS_NEXT_LAYER).foreseen, 1);
    assert_int_equal(stats(w, SLC_GUESS_TWO_AHEAD).wanted, 0);
    use(w, 1, next, 3); /* nobody had named anything for this one */
    assert_int_equal(stats(w, SLC_GUESS_NEXT_LAYER).wanted, 3);
    slc_store_prefetch(w->store, 1, next, 2, SLC_GUESS_TWO_AHEAD); /* present, and counted */
    use(w, 1, next, 3);
    assert_int_equal(stats(w, SLC_GUESS_TWO_AHEAD).wanted, 3);
    assert_int_equal(stats(w, SLC_GUESS_TWO_AHEAD).foreseen, 2);

    slc_store_prefetch(w->store, 2, named, 2, SLC_GUESS_NEXT_LAYER);
    slc_fetch_begin(w->store, 2, named, NULL, 2, false);
    while ((got = slc_fetch_next(w->store, ready, EXPERTS)) > 0)
        slc_fetch_release(w->store, ready, got);
    slc_fetch_end(w->store);
    assert_int_equal(stats(w, SLC_GUESS_NEXT_LAYER).wanted, 3);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_right_hint_is_a_hit),
        CASE(what_is_there_is_not_read_again),
        CASE(a_demand_waits_for_what_is_on_its_way),
        CASE(a_stale_hint_is_dropped_unread),
        CASE(what_was_foreseen_is_counted),
        CASE(few_slots_no_guesses),
        CASE(what_was_just_used_does_not_yield),
        CASE(demand_takes_guessed_slots),
        CASE(a_failed_guess_is_silent),
        CASE(a_source_that_does_not_pay_is_switched_off),
        CASE(each_place_has_its_own_chance),
        CASE(a_warm_start_takes_empty_slots_only),
        CASE(no_prefetch_means_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
