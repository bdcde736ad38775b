/* b21: weight files that are changed while the model runs. What is removed or replaced by name goes
 * on working; what is written to fails the step that might have read it and all later ones, and no
 * token is ever made of mixed weights. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/model_internal.h"
#include "support/faults.h"
#include "support/run.h"
#include "support/temp.h"

#define MODEL "tests/golden/moe-many"

enum { N_TOKENS = 40, N_BEFORE = 10 };

static char *dir, *weights;
static char *bytes;
static size_t n_bytes;
static int32_t expected[N_TOKENS]; /* of the whole model */

/* ---- the model in a folder of its own ---- */

static void put_file(const char *name) {
    struct timespec hour = {.tv_sec = time(NULL) - 3600}, an_hour_ago[2] = {hour, hour};
    char relative[128], *from;

    snprintf(relative, sizeof(relative), MODEL "/%s", name);
    from = source_path(relative);
    free(bytes);
    bytes = temp_read(from, &n_bytes);
    free(weights);
    weights = temp_write(dir, name, bytes, n_bytes);
    /* An hour ago: not within the tick of the clock in which the test changes it. */
    assert_int_equal(utimensat(AT_FDCWD, weights, an_hour_ago, 0), 0);
    free(from);
}

static int setup(void **state) {
    (void)state;
    dir = temp_dir();
    put_file("config.json");
    put_file("model.safetensors");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    temp_dir_remove(dir);
    free(weights);
    free(bytes);
    weights = bytes = NULL;
    return 0;
}

static slc_model *open_model(const char *io, uint64_t cache) {
    slc_model_options o = slc_model_options_default();
    slc_err err = {0};
    slc_model *m;

    o.ctx_size = 128;
    o.memory_bytes = UINT64_C(256) << 20;
    o.expert_cache_bytes = cache;
    o.io = io;
    if (slc_model_open(dir, &o, &m, &err)) fail_msg("%s", err.msg);
    return m;
}

/* ---- what happens to the file ---- */

static void truncate_to_half(void) {
    assert_int_equal(truncate(weights, (off_t)n_bytes / 2), 0);
}

static void remove_it(void) {
    assert_int_equal(unlink(weights), 0);
}

static void rename_another_over_it(void) {
    char *other = temp_write(dir, "other", bytes, n_bytes / 3);

    assert_int_equal(rename(other, weights), 0);
    free(other);
}

/* The same length, other weights. */
static void overwrite_it(void) {
    static const char noise[4096] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    int fd = open(weights, O_WRONLY | O_CLOEXEC);

    for (off_t at = 65536; at + 4096 < (off_t)n_bytes; at += 4096)
        if (pwrite(fd, noise, 4096, at) != 4096) abort();
    close(fd);
}

static void grow_it(void) {
    int fd = open(weights, O_WRONLY | O_APPEND | O_CLOEXEC);

    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
}

/* ---- generating ---- */

/* The ways to read; with all experts kept, and with next to none. */
static const struct way {
    const char *io;
    uint64_t cache;
} ways[] = {{"auto", 0}, {"auto", 65536}, {"threads", 65536}, {"buffered", 65536}};

typedef struct sink {
    int32_t id;
    uint32_t vocab, calls;
} sink;

static void take_best(void *user, uint32_t item, uint32_t pos, const float *logits) {
    sink *s = user;

    (void)item, (void)pos;
    s->id = (int32_t)argmax(logits, s->vocab);
    s->calls++;
}

/* Greedy tokens to ids until n or an error; `event` happens after N_BEFORE of them. */
static uint32_t generate(slc_model *m, void (*event)(void), int32_t *ids, uint32_t n,
                         slc_err *err) {
    int32_t token = 5;
    slc_step_item it = {.tokens = &token, .n_tokens = 1, .want = SLC_WANT_LAST};
    sink s = {.vocab = run_vocab(m)};
    uint32_t made = 0;

    *err = (slc_err){0};
    assert_int_equal(slc_seq_create(m, &it.seq, err), SLC_OK);
    while (made < n) {
        if (event && made == N_BEFORE) event();
        assert_int_equal(slc_step(m, &it, 1, take_best, &s, err), SLC_OK);
        if (it.err.code) break;
        assert_int_equal(s.calls, made + 1);
        ids[made++] = token = s.id;
    }
    assert_int_equal(s.calls, made); /* an item that failed was given no logits */
    *err = it.err;
    slc_seq_destroy(it.seq);
    return made;
}

static void expect_failure(const struct way *w, void (*event)(void), const char *says) {
    int32_t ids[N_TOKENS];
    slc_err err;
    slc_model *m;

    setup(NULL);
    m = open_model(w->io, w->cache);
    assert_int_equal(generate(m, event, ids, N_TOKENS, &err), N_BEFORE);
    assert_memory_equal(ids, expected, N_BEFORE * sizeof(*ids));
    for (int again = 0; again < 2; again++) { /* the step, and every later one */
        assert_int_equal(err.code, SLC_E_IO);
        assert_non_null(strstr(err.msg, "model.safetensors: changed since it was opened: "));
        if (!strstr(err.msg, says)) fail_msg("\"%s\" lacks \"%s\"", err.msg, says);
        if (again) break;
        free(temp_write(dir, "model.safetensors", bytes, n_bytes)); /* repaired, but too late */
        assert_int_equal(generate(m, NULL, ids, 1, &err), 0);
    }
    slc_model_close(m);
    m = open_model(w->io, w->cache);
    assert_int_equal(generate(m, NULL, ids, N_TOKENS, &err), N_TOKENS);
    assert_memory_equal(ids, expected, sizeof(ids));
    slc_model_close(m);
    teardown(NULL);
}

static void b21_a_file_that_is_written_to_fails_the_step(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        char half[64], more[64];

        snprintf(half, sizeof(half), ": %zu bytes long, expected %zu;", n_bytes / 2, n_bytes);
        snprintf(more, sizeof(more), ": %zu bytes long, expected %zu;", n_bytes + 1, n_bytes);
        expect_failure(&ways[i], truncate_to_half, half);
        expect_failure(&ways[i], grow_it, more);
        expect_failure(&ways[i], overwrite_it, ": last written at 20");
    }
}

static void expect_no_harm(const struct way *w, void (*event)(void)) {
    int32_t ids[N_TOKENS];
    slc_err err;
    slc_model *m;

    setup(NULL);
    m = open_model(w->io, w->cache);
    if (generate(m, event, ids, N_TOKENS, &err) != N_TOKENS) fail_msg("%s", err.msg);
    assert_memory_equal(ids, expected, sizeof(ids));
    slc_model_close(m);
    teardown(NULL);
}

static void b21_a_file_that_is_removed_or_replaced_goes_on(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        expect_no_harm(&ways[i], remove_it);
        expect_no_harm(&ways[i], rename_another_over_it);
    }
}

static void *overwrite_later(void *arg) {
    usleep(*(const useconds_t *)arg);
    overwrite_it();
    return NULL;
}

/* At any moment, in the midst of a pass as well: every token that was made is the right one. */
static void b21_no_token_comes_of_mixed_weights(void **state) {
    uint32_t random = 4711, n_failed = 0;

    (void)state;
    for (int i = 0; i < 30; i++) {
        useconds_t delay = faults_random(&random) % 8000;
        int32_t ids[N_TOKENS];
        uint32_t made;
        pthread_t writer;
        slc_err err;
        slc_model *m;

        setup(NULL);
        m = open_model(i % 2 ? "auto" : "threads", 65536);
        assert_int_equal(pthread_create(&writer, NULL, overwrite_later, &delay), 0);
        made = generate(m, NULL, ids, N_TOKENS, &err);
        pthread_join(writer, NULL);
        assert_memory_equal(ids, expected, made * sizeof(*ids));
        n_failed += made < N_TOKENS;
        if (made < N_TOKENS && !strstr(err.msg, "changed since it was opened"))
            fail_msg("%s", err.msg);
        slc_model_close(m);
        teardown(NULL);
    }
    print_message("%u of 30 runs were hit\n", n_failed);
    assert_true(n_failed > 0);
}

static void overwrite_on_word(void *user, int level, const char *line) {
    (void)user, (void)level;
    if (strstr(line, "expert reads")) overwrite_it();
}

/* Between the headers and the weights: the model does not open. */
static void b21_a_file_written_to_while_loading_is_refused(void **state) {
    slc_model_options o = slc_model_options_default();
    slc_err err = {0};
    slc_model *m;

    (void)state;
    setup(NULL);
    o.log = overwrite_on_word;
    assert_int_equal(slc_model_open(dir, &o, &m, &err), SLC_E_IO);
    assert_non_null(strstr(err.msg, "changed since it was opened: last written at"));
    assert_null(m);
    teardown(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b21_a_file_that_is_written_to_fails_the_step),
        cmocka_unit_test(b21_a_file_that_is_removed_or_replaced_goes_on),
        cmocka_unit_test(b21_no_token_comes_of_mixed_weights),
        cmocka_unit_test(b21_a_file_written_to_while_loading_is_refused),
    };
    slc_err err;
    slc_model *m;

    setup(NULL);
    m = open_model("auto", 0);
    if (generate(m, NULL, expected, N_TOKENS, &err) != N_TOKENS) abort();
    slc_model_close(m);
    teardown(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
