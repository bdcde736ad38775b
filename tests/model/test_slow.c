/* Slow storage: a drive that becomes slow changes the time and nothing else, and the counters say
 * so; over a network every call costs, so what stays in memory is read in few. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/model_internal.h"
#include "support/faults.h"
#include "support/run.h"

enum { N_TOKENS = 20, N_FAST = 15 };

static faults disk;
static slc_stats at_start, in_between;

static slc_model_options small_options(void) {
    slc_model_options o = slc_model_options_default();

    o.ctx_size = 128;
    o.memory_bytes = UINT64_C(256) << 20;
    return o;
}

static void read_through_faults(slc_model *m) {
    faults_init(&disk);
    for (uint32_t i = 0; i < m->ckpt->n_files; i++) m->ckpt->files[i].sys = &disk.sys;
}

/* ---- a drive that becomes slow ---- */

static double rate(const slc_stats *a, const slc_stats *b) {
    return (double)(b->timed_bytes - a->timed_bytes) / (double)(b->timed_ns - a->timed_ns) * 1e9;
}

static double waiting(const slc_stats *a, const slc_stats *b) {
    return (double)(b->stall_ns - a->stall_ns) / (double)(b->decode_ns - a->decode_ns);
}

static void become_slow(slc_model *m, uint32_t n_made) {
    if (n_made != N_FAST) return;
    in_between = slc_model_get_stats(m);
    disk.latency_us = 50000;
}

/* From 0.2 to 50 ms a read: a drive that protects itself from heat, and worse. */
static void b24_a_drive_that_becomes_slow_costs_time_alone(void **state) {
    slc_model_options o = small_options();
    int32_t token = 5, expected[N_TOKENS], ids[N_TOKENS];
    slc_stats at_end;
    slc_model *m = run_open("tests/golden/moe-many", &o);

    (void)state;
    run_greedy(m, &token, 1, expected, N_TOKENS);
    slc_model_close(m);
    o.io = "threads";
    o.expert_cache_bytes = 65536; /* next to nothing is kept */
    m = run_open("tests/golden/moe-many", &o);
    read_through_faults(m);
    disk.latency_us = 200;
    at_start = slc_model_get_stats(m);
    run_greedy_with(m, &token, 1, ids, N_TOKENS, become_slow);
    at_end = slc_model_get_stats(m);
    assert_memory_equal(ids, expected, sizeof(ids));
    print_message("%.0f kB/s and %.0f %% waiting, then %.0f kB/s and %.0f %%\n",
                  rate(&at_start, &in_between) / 1e3, 100 * waiting(&at_start, &in_between),
                  rate(&in_between, &at_end) / 1e3, 100 * waiting(&in_between, &at_end));
    assert_true(rate(&in_between, &at_end) < rate(&at_start, &in_between) / 3);
    assert_true(waiting(&in_between, &at_end) > 0.5 && waiting(&in_between, &at_end) <= 1);
    slc_model_close(m);
}

/* ---- a network ---- */

static uint32_t count_parts(const slc_weight *w) {
    uint32_t n = 0;

    for (int part = 0; part < SLC_N_PARTS; part++) n += w->part[part].bytes > 0;
    return n;
}

static uint32_t count_resident_tensors(const slc_checkpoint *c) {
    uint32_t n = 0;

    for (int i = 0; i < SLC_W_N_MODEL; i++) n += count_parts(&c->w[i]);
    for (uint32_t l = 0; l < c->cfg.n_layers; l++)
        for (int i = 0; i < SLC_W_N_LAYER; i++) n += count_parts(&c->layers[l].w[i]);
    return n;
}

/* The weights are loaded once more, through calls that are counted. */
static void b28_the_resident_part_takes_few_calls(void **state) {
    slc_model_options o = small_options();
    slc_model *m = run_open("models/demo-moe", &o);
    uint32_t n_tensors = count_resident_tensors(m->ckpt);
    slc_arena again = {.used = m->plan.resident_bytes};
    slc_err err = {0};

    (void)state;
    read_through_faults(m);
    assert_int_equal(slc_arena_alloc(&again, false, &err), SLC_OK);
    assert_int_equal(slc_load_resident(m, &again, &err), SLC_OK);
    print_message("%u reads of %.1f MiB in %u tensors\n", disk.n_reads,
                  (double)again.used / (1 << 20), n_tensors);
    assert_true(disk.n_reads > 0);
    assert_true(disk.n_reads <= (again.used >> 20) + n_tensors);
    slc_model_close(m);
    slc_arena_free(&again);
}

static char told[512];

static void remember(void *user, int level, const char *line) {
    (void)user, (void)level;
    if (strstr(line, "reached through")) snprintf(told, sizeof(told), "%s", line);
}

/* What the model's log says of a checkpoint on a file system of this type. */
static const char *told_of(slc_checkpoint *c, uint32_t fs_type) {
    slc_model_options o = small_options();
    slc_model m = {.ckpt = c, .log = {.max_level = SLC_LOG_INFO}};
    slc_err err = {0};

    told[0] = '\0';
    m.log.sink = remember;
    disk.fs_type = fs_type;
    assert_int_equal(slc_streaming_init(&m, &o, &err), SLC_OK);
    slc_io_destroy(m.io);
    return told;
}

static void b28_a_network_file_system_is_pointed_out(void **state) {
    slc_model_options o = small_options();
    slc_model *m = run_open("tests/golden/moe-many", &o);

    (void)state;
    read_through_faults(m);
    assert_string_equal(told_of(m->ckpt, 0xef53), ""); /* ext4 */
    assert_non_null(strstr(told_of(m->ckpt, 0x6969), "model.safetensors: reached through NFS"));
    slc_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b24_a_drive_that_becomes_slow_costs_time_alone),
        cmocka_unit_test(b28_the_resident_part_takes_few_calls),
        cmocka_unit_test(b28_a_network_file_system_is_pointed_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
