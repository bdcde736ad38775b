/* A long random life of the store: fetches of all sizes, hints, every policy, held pins, abandoned
 * fetches, views read by another thread while the owner goes on, on a slow disk that comes short,
 * stutters, fails and reorders. Every byte is compared. The seed is printed; SLUICE_SEED sets it,
 * SLUICE_ROUNDS the length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "stream/store.h"
#include "support/fake_model.h"
#include "support/faults.h"

enum { LAYERS = 6, EXPERTS = 32, MAX_HELD = 3 };

typedef struct world {
    faults faults;
    fake_model *model;
    slc_io *io;
    slc_store *store;
    uint32_t random, layer;
    slc_fetched held[MAX_HELD]; /* delivered earlier, still pinned */
    uint32_t held_layer[MAX_HELD], held_expert[MAX_HELD], n_held;
} world;

typedef struct reader {
    const world *w;
    uint32_t layer, expert;
    const slc_expert_view *view;
    bool ok;
} reader;

static void *compare(void *arg) {
    reader *r = arg;

    r->ok = fake_model_matches(r->w->model, r->layer, r->expert, r->view);
    return NULL;
}

static uint32_t below(world *w, uint32_t n) {
    return faults_random(&w->random) % n;
}

static void choose(world *w, uint32_t *ids, uint32_t n) {
    uint32_t all[EXPERTS];

    for (uint32_t i = 0; i < EXPERTS; i++) all[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = i + below(w, EXPERTS - i);
        ids[i] = all[k];
        all[k] = all[i];
    }
}

static void check_ready(world *w, uint32_t layer, const uint32_t *ids, const slc_fetched *f,
                        bool other_thread) {
    reader r = {.w = w, .layer = layer, .expert = ids[f->idx], .view = &f->view};
    pthread_t thread;

    if (f->status) return;
    if (other_thread && pthread_create(&thread, NULL, compare, &r) == 0) {
        slc_store_check(w->store);
        pthread_join(thread, NULL);
    } else {
        compare(&r);
    }
    assert_true(r.ok);
}

static void release_held(world *w) {
    while (w->n_held) {
        uint32_t i = --w->n_held;
        assert_true(
            fake_model_matches(w->model, w->held_layer[i], w->held_expert[i], &w->held[i].view));
        slc_fetch_release(w->store, &w->held[i], 1);
    }
}

/* Hints of any kind, right and wrong, for any layer. */
static void some_hints(world *w) {
    uint32_t ids[EXPERTS], n = below(w, EXPERTS);

    choose(w, ids, n);
    slc_store_prefetch(w->store, below(w, LAYERS), ids, n, (slc_guess)below(w, SLC_N_GUESS));
    slc_store_check(w->store);
}

/* One fetch; sometimes left early, sometimes keeping the last expert pinned beyond its end. */
static void one_fetch(world *w) {
    uint32_t ids[EXPERTS], layer = below(w, LAYERS), n = 1 + below(w, EXPERTS), got, n_got = 0;
    uint32_t stop = below(w, 5) ? n : below(w, n), keep = below(w, 4) == 0;
    float scores[EXPERTS];
    slc_fetched ready[8];

    choose(w, ids, n);
    for (uint32_t i = 0; i < n; i++) scores[i] = (float)below(w, 100) / 99;
    if (below(w, 2)) some_hints(w);
    if (below(w, 4)) layer = (w->layer + 1) % LAYERS;
    w->layer = layer;
    slc_fetch_begin(w->store, layer, ids, below(w, 3) ? scores : NULL, n, below(w, 4) > 0);
    while (n_got <= stop && (got = slc_fetch_next(w->store, ready, 1 + below(w, 8))) > 0) {
        n_got += got;
        if (below(w, 4) == 0) some_hints(w);
        for (uint32_t i = 0; i < got; i++) check_ready(w, layer, ids, &ready[i], below(w, 16) == 0);
        if (keep && w->n_held < MAX_HELD && ready[got - 1].status == SLC_OK) {
            w->held[w->n_held] = ready[got - 1];
            w->held_layer[w->n_held] = layer;
            w->held_expert[w->n_held++] = ids[ready[--got].idx];
            keep = 0;
        }
        slc_fetch_release(w->store, ready, got);
    }
    slc_fetch_end(w->store);
    slc_store_check(w->store);
    for (uint32_t i = below(w, 4); i > 0; i--) slc_store_poll(w->store);
    slc_store_check(w->store);
    if (below(w, 6) == 0) release_held(w);
}

/* Faults may only change while nothing is in flight: run the queue dry first. */
static void new_weather(world *w) {
    uint32_t id = 0;
    slc_fetched ready;

    while (slc_io_outstanding(w->io)) {
        slc_fetch_begin(w->store, below(w, LAYERS), &id, NULL, 1, true);
        while (slc_fetch_next(w->store, &ready, 1)) slc_fetch_release(w->store, &ready, 1);
        slc_fetch_end(w->store);
    }
    w->faults.short_every = below(w, 3) ? 0 : 2 + below(w, 5);
    w->faults.eintr_every = below(w, 3) ? 0 : 3 + below(w, 5);
    w->faults.delay_us = below(w, 4) ? 0 : 300;
    w->faults.bad_off = (uint64_t)below(w, 1u << 20);
    w->faults.bad_len = below(w, 4) ? 0 : 50000;
    w->faults.bad_errno = ENXIO;
    w->faults.bad_times = 20;
}

static void run(slc_io_kind kind, bool direct, uint32_t n_slots, uint32_t seed, uint32_t rounds) {
    world w = {.random = seed};
    uint32_t n_policies = 0;
    fake_model_options opt = {.n_layers = LAYERS,
                              .n_experts = EXPERTS,
                              .n_files = 3,
                              .part_bytes = 6000,
                              .direct = direct,
                              .seed = seed,
                              .sys = &w.faults.sys};
    slc_store_options so = {.n_slots = n_slots};
    slc_io_backend backend;
    slc_status rc = kind == SLC_IO_URING ? slc_uring_create(24, &backend, NULL)
                                         : slc_pread_create(24, &backend, NULL);

    if (rc == SLC_E_UNSUPPORTED) skip();
    assert_int_equal(rc, SLC_OK);
    faults_init(&w.faults);
    w.model = fake_model_create(&opt);
    backend = faults_reorder(backend, seed);
    assert_int_equal(slc_io_create_on(&backend, NULL, &w.io, NULL), SLC_OK);
    so.io = w.io;
    while (slc_policies[n_policies]) n_policies++;
    so.policy = slc_policies[(seed / 2) % n_policies];
    assert_int_equal(slc_store_create(&w.model->ckpt, &so, &w.store, NULL), SLC_OK);
    for (uint32_t i = 0; i < rounds; i++) {
        if (i % 16 == 0) new_weather(&w);
        one_fetch(&w);
    }
    release_held(&w);
    slc_store_destroy(w.store);
    slc_io_destroy(w.io);
    fake_model_destroy(w.model);
}

static uint32_t from_env(const char *name, uint32_t otherwise) {
    const char *text = getenv(name);

    return text ? (uint32_t)strtoul(text, NULL, 10) : otherwise;
}

static void churn(slc_io_kind kind, bool direct) {
    static const uint32_t slots[] = {MAX_HELD + 1, 9, 40, LAYERS * EXPERTS};
    uint32_t seed = from_env("SLUICE_SEED", (uint32_t)time(NULL)) | 1;
    uint32_t rounds = from_env("SLUICE_ROUNDS", 400);

    print_message("SLUICE_SEED=%u\n", seed);
    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
        run(kind, direct, slots[i], seed + 2 * (uint32_t)i, rounds);
    }
}

static void uring_direct(void **state) {
    churn(SLC_IO_URING, true);
}

static void threads_direct(void **state) {
    churn(SLC_IO_THREADS, true);
}

static void threads_buffered(void **state) {
    churn(SLC_IO_THREADS, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uring_direct),
        cmocka_unit_test(threads_direct),
        cmocka_unit_test(threads_buffered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
