/* Replays of small traces whose outcome is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stream/simulate.h"
#include "support/faults.h"

static slc_trace parse(const char *text) {
    slc_trace t;

    assert_int_equal(slc_trace_parse(text, strlen(text), "test", &t, NULL), SLC_OK);
    return t;
}

static slc_simulation run(const slc_trace *t, slc_simulate_options opt) {
    slc_simulation r;

    assert_int_equal(slc_simulate(t, &opt, &r, NULL), SLC_OK);
    return r;
}

/* Three experts in turn, two slots: LRU misses always, perfect knowledge hits every other time. */
static void a_loop_defeats_lru_but_not_belady(void **state) {
    char text[4096] = "sluice-trace 1 1 4 1\n";
    slc_trace t;

    for (int i = 0; i < 60; i++) sprintf(text + strlen(text), "%d 1 0 d 10 %dm\n", i, i % 3);
    t = parse(text);
    assert_int_equal(run(&t, (slc_simulate_options){&slc_policy_lru, 2}).hits, 0);
    assert_int_equal(run(&t, (slc_simulate_options){NULL, 2}).hits, 29);
    for (int i = 0; slc_policies[i]; i++) {
        slc_simulation r = run(&t, (slc_simulate_options){slc_policies[i], 3});
        assert_int_equal(r.hits, 57);
        assert_int_equal(r.bytes, 30);
        assert_int_equal(r.n_passes, 60);
        assert_int_equal(r.asked, 60);
    }
    slc_trace_deinit(&t);
}

/* A few experts are used all the time, others pass through once. */
static void a_scan_does_not_flush_what_is_used(void **state) {
    char *text = calloc(1, 1 << 16);
    slc_trace t;

    strcpy(text, "sluice-trace 1 1 200 3\n");
    for (int i = 0; i < 180; i++) {
        sprintf(text + strlen(text), "%d 1 0 d 10 %dm %dm\n", i, i % 4, 4 + i);
    }
    t = parse(text);
    assert_int_equal(run(&t, (slc_simulate_options){&slc_policy_lru, 6}).hits, 0);
    assert_true(run(&t, (slc_simulate_options){&slc_policy_lfu_decay, 6}).hits > 150);
    assert_true(run(&t, (slc_simulate_options){&slc_policy_best, 6}).hits > 150);
    slc_trace_deinit(&t);
    free(text);
}

/* Decoding uses experts 0 to 3 of both layers; a prompt that reads all 40 comes now and then. */
static void a_prompt_does_not_flush_what_decoding_needs(void **state) {
    char *text = calloc(1, 1 << 18);
    slc_trace t;

    strcpy(text, "sluice-trace 1 2 40 4\n");
    for (int i = 0; i < 80; i++) {
        bool prompt = i % 10 == 9;
        sprintf(text + strlen(text), "%d %d 0 %c 10", i, prompt ? 64 : 1, prompt ? 'p' : 'd');
        for (int e = 0; e < (prompt ? 40 : 4); e++) sprintf(text + strlen(text), " %dm200000", e);
        sprintf(text + strlen(text), "\n%d 1 1 %c 10", i, prompt ? 'p' : 'd');
        for (int e = 0; e < (prompt ? 40 : 4); e++) sprintf(text + strlen(text), " %dm200000", e);
        strcat(text, "\n");
    }
    t = parse(text);
    for (int i = 0; slc_policies[i]; i++) {
        slc_simulation r = run(&t, (slc_simulate_options){slc_policies[i], 24});
        assert_int_equal(r.decode_asked, 72 * 8);
        if (slc_policies[i] == &slc_policy_lru) {
            assert_in_range(r.decode_hits, 0, (72 - 8) * 8);
        } else {
            assert_int_equal(r.decode_hits, (72 - 1) * 8);
        }
    }
    slc_trace_deinit(&t);
    free(text);
}

static slc_trace random_trace(char *text) {
    uint32_t random = 17;

    strcpy(text, "sluice-trace 1 4 16 3\n");
    for (int i = 0; i < 150; i++) {
        bool prompt = faults_random(&random) % 10 == 0;
        for (int l = 0; l < 4; l++) {
            uint32_t mask = 0, n = prompt ? 12 : 3;
            sprintf(text + strlen(text), "%d 1 %d %c 1000", i, l, prompt ? 'p' : 'd');
            while (n) {
                uint32_t e = faults_random(&random) % 16 * (faults_random(&random) % 16) / 16;
                if (prompt) e = faults_random(&random) % 16;
                if (mask >> e & 1) continue;
                mask |= 1u << e;
                n--;
                sprintf(text + strlen(text), " %um", e);
            }
            strcat(text, "\n");
        }
    }
    return parse(text);
}

static void nothing_beats_perfect_knowledge(void **state) {
    static const uint32_t slots[] = {1, 2, 3, 5, 9, 17, 33, 63, 64, 1000};
    char *text = calloc(1, 1 << 20);
    slc_trace t = random_trace(text);

    for (size_t k = 0; k < sizeof(slots) / sizeof(slots[0]); k++) {
        uint64_t bound = run(&t, (slc_simulate_options){NULL, slots[k]}).hits;
        for (int i = 0; slc_policies[i]; i++) {
            slc_simulation r = run(&t, (slc_simulate_options){slc_policies[i], slots[k]});
            assert_true(r.hits <= bound);
            assert_int_equal(r.bytes, (r.asked - r.hits) * 1000);
        }
    }
    slc_trace_deinit(&t);
    free(text);
}

static uint64_t decode_ns(const slc_trace *t, double foreseen, uint64_t rate) {
    return run(t, (slc_simulate_options){.policy = &slc_policy_lru,
                                         .n_slots = 1,
                                         .mix_ns = 3000,
                                         .expert_ns = 2000,
                                         .disk_bytes_per_s = rate,
                                         .latency_ns = 500,
                                         .foreseen = foreseen})
        .decode_ns;
}

/* Ten layers that each miss 4000 bytes, at one byte a nanosecond. */
static void time_is_the_longer_of_reading_and_computing(void **state) {
    char text[1024] = "sluice-trace 1 10 2 1\n";
    slc_trace t;

    for (int l = 0; l < 10; l++) sprintf(text + strlen(text), "0 1 %d d 4000 1m\n", l);
    t = parse(text);
    assert_int_equal(decode_ns(&t, 0, 0), 10 * 5000);                  /* a disk without limits */
    assert_int_equal(decode_ns(&t, 0, 1000000000), 10 * 7500);         /* 3000 + 500 + 4000 */
    assert_int_equal(decode_ns(&t, 0, 100000000000), 10 * 5000);       /* hidden by 2000 */
    assert_int_equal(decode_ns(&t, 0.5, 1000000000), 7500 + 9 * 5500); /* half is read before */
    assert_int_equal(decode_ns(&t, 1, 1000000000), 7500 + 9 * (3000 + 2000)); /* 3000 of 4000 */
    slc_trace_deinit(&t);
}

static void nonsense_is_refused(void **state) {
    slc_trace t = parse("sluice-trace 1 1 1 1\n");
    slc_simulation r;
    slc_err err = {0};

    assert_int_equal(slc_simulate(&t, &(slc_simulate_options){.n_slots = 0}, &r, &err),
                     SLC_E_INVALID);
    err = (slc_err){0};
    assert_int_equal(
        slc_simulate(&t, &(slc_simulate_options){.n_slots = 1, .foreseen = 1.5}, &r, &err),
        SLC_E_INVALID);
    assert_int_equal(run(&t, (slc_simulate_options){NULL, 1}).asked,
                     0); /* an empty trace is fine */
    slc_trace_deinit(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_defeats_lru_but_not_belady),
        cmocka_unit_test(a_scan_does_not_flush_what_is_used),
        cmocka_unit_test(a_prompt_does_not_flush_what_decoding_needs),
        cmocka_unit_test(nothing_beats_perfect_knowledge),
        cmocka_unit_test(time_is_the_longer_of_reading_and_computing),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
