/* Measurements on demo-moe: not how fast this machine is, but that what is counted adds up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "sluice/bench.h"
#include "support/temp.h"

#define MODEL SLC_SOURCE_DIR "/models/demo-moe"
#define DENSE SLC_SOURCE_DIR "/models/demo-draft"

static slc_model_info inspect(const char *path) {
    slc_model_options opt = slc_model_options_default();
    slc_model_info info;

    assert_int_equal(slc_model_inspect(path, &opt, &info, NULL), SLC_OK);
    return info;
}

static void a_token_touches_the_dense_part_once_and_its_experts(void **state) {
    slc_model_info info = inspect(MODEL);
    slc_bench_touched t, exact;

    assert_int_equal(slc_bench_touch(MODEL, false, &t, NULL), SLC_OK);
    assert_true(info.tied_embeddings); /* so lm_head is not another matrix */
    assert_int_equal(t.dense_bytes, info.file_bytes - info.expert_bytes_total);
    assert_int_equal(t.expert_bytes, info.expert_bytes_per_token);
    assert_int_equal(slc_bench_touch(MODEL, true, &exact, NULL), SLC_OK);
    assert_int_equal(exact.kv_bytes, 2 * t.kv_bytes);
    assert_int_equal(exact.state_bytes, t.state_bytes);
    /* the plan's state: keys and values at full context, and the rest once */
    assert_in_range(info.state_bytes, t.kv_bytes * info.ctx_size + t.state_bytes / 2,
                    t.kv_bytes * info.ctx_size + t.state_bytes / 2 + 4096);
}

static void a_dense_model_touches_no_experts(void **state) {
    slc_bench_touched t;

    assert_int_equal(slc_bench_touch(DENSE, false, &t, NULL), SLC_OK);
    assert_true(t.dense_bytes > 0 && t.expert_bytes == 0);
}

static void memory_has_a_rate(void **state) {
    double one, two;

    assert_int_equal(slc_bench_memory(1 << 20, 1, 0.02, &one, NULL), SLC_OK);
    assert_int_equal(slc_bench_memory((64u << 20) + 1, 2, 0.02, &two, NULL), SLC_OK);
    assert_true(one > 1e8 && one < 1e13);
    assert_true(two > 1e8 && two < 1e13);
}

static void memory_of_nothing_or_by_nobody_is_refused(void **state) {
    double rate;

    assert_int_equal(slc_bench_memory(0, 1, 0.01, &rate, NULL), SLC_E_INVALID);
    assert_int_equal(slc_bench_memory(1, 0, 0.01, &rate, NULL), SLC_E_INVALID);
    assert_int_equal(slc_bench_memory(1, 5000, 0.01, &rate, NULL), SLC_E_INVALID);
}

static void reads_of_every_backend_add_up(void **state) {
    static const char *const backends[] = {"auto", "threads"};
    slc_model_info info = inspect(MODEL);

    for (int i = 0; i < 2; i++) {
        slc_bench_io_options opt = slc_bench_io_options_default();
        slc_bench_io_result r;

        opt.io = backends[i];
        opt.depth = i ? 1 : 40;
        opt.seconds = 0.05;
        assert_int_equal(slc_bench_io(MODEL, &opt, &r, NULL), SLC_OK);
        assert_true(r.experts > 0 && r.ns > 0);
        assert_int_equal(r.expert_bytes, r.experts * info.expert_bytes);
        assert_true(r.bytes >= r.expert_bytes);
        assert_true(r.reads >= r.experts && r.reads <= 9 * r.experts);
        assert_true(i == 0 || !strcmp(r.io, "threads"));
    }
}

static void expect_io_refused(const char *path, const slc_bench_io_options *opt, const char *part) {
    slc_bench_io_result r;
    slc_err err = {0};

    assert_int_not_equal(slc_bench_io(path, opt, &r, &err), SLC_OK);
    assert_non_null(strstr(err.msg, part));
}

static void reads_of_nonsense_are_refused(void **state) {
    slc_bench_io_options opt = slc_bench_io_options_default();

    expect_io_refused(DENSE, &opt, "without experts");
    opt.depth = 0;
    expect_io_refused(MODEL, &opt, "0 reads in flight");
    opt.depth = 1u << 20;
    expect_io_refused(MODEL, &opt, "reads in flight");
    opt.depth = 1;
    opt.io = "mmap";
    expect_io_refused(MODEL, &opt, "\"mmap\"");
    opt.io = NULL;
    opt.trace = "/nowhere/x.trace";
    expect_io_refused(MODEL, &opt, "/nowhere/x.trace");
}

/* A trace by hand: one decode pass over two layers, two experts each. */
static void a_trace_is_read_again_and_must_be_of_this_model(void **state) {
    static const char own[] = "sluice-trace 1 12 128 8\n"
                              "0 1 0 d 27648 5m500000 7h500000\n0 1 1 d 27648 9l500000 7m500000\n";
    static const char held[] = "sluice-trace 1 12 128 8\n0 1 0 d 27648 5h500000\n";
    static const char other[] = "sluice-trace 1 2 128 8\n0 1 0 d 27648 5m500000\n";
    slc_bench_io_options opt = slc_bench_io_options_default();
    char *dir = temp_dir(), *path = temp_write(dir, "t", own, sizeof(own) - 1);
    slc_bench_io_result r;

    opt.seconds = 0.02;
    opt.trace = path;
    assert_int_equal(slc_bench_io(MODEL, &opt, &r, NULL), SLC_OK);
    assert_true(r.experts >= 3);
    free(temp_write(dir, "t", other, sizeof(other) - 1));
    expect_io_refused(MODEL, &opt, "2 layers");
    free(temp_write(dir, "t", held, sizeof(held) - 1));
    expect_io_refused(MODEL, &opt, "nothing was read");
    free(path);
    temp_dir_remove(dir);
}

static void replay_counts_by_hand(void **state) {
    /* one expert a pass in one layer: 1 2 1 3 1, the first while reading the prompt */
    static const char text[] = "sluice-trace 1 1 4 1\n0 2 0 p 100 1m\n1 1 0 d 100 2m\n"
                               "2 1 0 d 100 1m\n3 1 0 d 100 3m\n4 1 0 d 100 1m\n";
    char *dir = temp_dir(), *path = temp_write(dir, "t", text, sizeof(text) - 1);
    slc_bench_replay_options opt = {.policy = "lru", .n_slots = 2};
    slc_bench_replay_result r;
    slc_bench_trace *t;

    assert_int_equal(slc_bench_trace_open(path, &t, NULL), SLC_OK);
    assert_int_equal(slc_bench_trace_get_facts(t).decode_tokens, 4);
    assert_int_equal(slc_bench_trace_get_facts(t).expert_bytes_total, 400);
    assert_int_equal(slc_bench_replay(t, &opt, &r, NULL), SLC_OK);
    assert_true(r.asked == 5 && r.decode_asked == 4 && r.decode_hits == 2 && r.hits == 2);
    assert_true(r.misses_per_token == 0.5 && r.bytes_per_token == 50 && r.tokens_per_s == 0);
    opt.disk_bytes_per_s = 100; /* two reads of a second each, and four times half a second */
    opt.compute_s = 0.5;
    assert_int_equal(slc_bench_replay(t, &opt, &r, NULL), SLC_OK);
    assert_true(r.tokens_per_s > 0.999 && r.tokens_per_s < 1.001);
    opt.expert_s = 0.6;
    assert_int_equal(slc_bench_replay(t, &opt, &r, NULL), SLC_E_INVALID);
    opt = (slc_bench_replay_options){.policy = "fifo", .n_slots = 2};
    assert_int_equal(slc_bench_replay(t, &opt, &r, NULL), SLC_E_INVALID);
    opt = (slc_bench_replay_options){.policy = "belady", .n_slots = 0};
    assert_int_equal(slc_bench_replay(t, &opt, &r, NULL), SLC_E_INVALID);
    slc_bench_trace_close(t);
    free(path);
    temp_dir_remove(dir);
}

/* Copies a file of the small model; returns its size. */
static size_t copy(const char *dir, const char *name) {
    char *from = temp_path(DENSE, name), *bytes, *to;
    size_t n;

    bytes = temp_read(from, &n);
    to = temp_write(dir, name, bytes, n);
    free(bytes);
    free(from);
    free(to);
    return n;
}

static void what_was_just_written_leaves_the_page_cache(void **state) {
    char *dir = temp_dir();
    struct statfs fs;
    uint64_t left;
    size_t n;

    copy(dir, "config.json");
    n = copy(dir, "model.safetensors");
    assert_int_equal(statfs(dir, &fs), 0);
    assert_int_equal(slc_bench_drop_cache(dir, &left, NULL), SLC_OK);
    if (fs.f_type == TMPFS_MAGIC)
        assert_true(left >= n); /* there it lives */
    else
        assert_int_equal(left, 0);
    assert_int_equal(slc_bench_drop_cache("/nowhere", &left, NULL), SLC_E_IO);
    temp_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_touches_the_dense_part_once_and_its_experts),
        cmocka_unit_test(a_dense_model_touches_no_experts),
        cmocka_unit_test(memory_has_a_rate),
        cmocka_unit_test(memory_of_nothing_or_by_nobody_is_refused),
        cmocka_unit_test(reads_of_every_backend_add_up),
        cmocka_unit_test(reads_of_nonsense_are_refused),
        cmocka_unit_test(a_trace_is_read_again_and_must_be_of_this_model),
        cmocka_unit_test(replay_counts_by_hand),
        cmocka_unit_test(what_was_just_written_leaves_the_page_cache),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
