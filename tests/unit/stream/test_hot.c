/* The warm start's file: what was held comes back; a file that does not fit is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stream/hot.h"
#include "support/fake_model.h"
#include "support/faults.h"
#include "support/temp.h"

enum { LAYERS = 3, EXPERTS = 11, SLOTS = 12, FILE_BYTES = 8 + 12 + 2 * 16 + 5 + 8 };

typedef struct world {
    fake_model *model;
    slc_io *io;
    slc_store *store;
    char *dir, *path;
} world;

static void open_store(world *w, uint32_t n_slots) {
    slc_io_options io = {.kind = SLC_IO_THREADS};
    slc_store_options opt = {.n_slots = n_slots};

    slc_store_destroy(w->store);
    slc_io_destroy(w->io);
    assert_int_equal(slc_io_create(&io, &w->io, NULL), SLC_OK);
    opt.io = w->io;
    assert_int_equal(slc_store_create(&w->model->ckpt, &opt, &w->store, NULL), SLC_OK);
}

static int setup(void **state) {
    world *w = calloc(1, sizeof(*w));
    fake_model_options opt = {
        .n_layers = LAYERS, .n_experts = EXPERTS, .n_files = 2, .part_bytes = 900, .seed = 3};

    w->model = fake_model_create(&opt);
    w->dir = temp_dir();
    w->path = temp_path(w->dir, "hot");
    open_store(w, SLOTS);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;

    slc_store_destroy(w->store);
    slc_io_destroy(w->io);
    fake_model_destroy(w->model);
    temp_dir_remove(w->dir);
    free(w->path);
    free(w);
    return 0;
}

static void use(world *w, uint32_t layer, const uint32_t *ids, uint32_t n) {
    slc_fetched ready;

    slc_fetch_begin(w->store, layer, ids, NULL, n, true);
    while (slc_fetch_next(w->store, &ready, 1)) {
        assert_true(fake_model_matches(w->model, layer, ids[ready.idx], &ready.view));
        slc_fetch_release(w->store, &ready, 1);
    }
    slc_fetch_end(w->store);
}

static void settle(world *w) {
    do {
        slc_store_poll(w->store);
        slc_store_check(w->store);
    } while (slc_io_outstanding(w->io));
}

static const uint32_t in_0[] = {0, 10, 4}, in_1[] = {7}, in_2[] = {1, 2, 3, 9};

static void save_some(world *w) {
    use(w, 0, in_0, 3);
    use(w, 1, in_1, 1);
    use(w, 2, in_2, 4);
    assert_int_equal(slc_hot_save(w->store, w->path, NULL), SLC_OK);
}

static void what_was_held_is_read_again(void **state) {
    world *w = *state;
    struct stat st;
    uint32_t n;

    save_some(w);
    assert_int_equal(stat(w->path, &st), 0);
    assert_int_equal(st.st_size, FILE_BYTES);
    open_store(w, SLOTS);
    assert_int_equal(slc_hot_load(w->store, w->path, &n, NULL), SLC_OK);
    assert_int_equal(n, 8);
    settle(w);
    use(w, 0, in_0, 3);
    use(w, 1, in_1, 1);
    use(w, 2, in_2, 4);
    assert_int_equal(slc_store_get_stats(w->store).hits, 8);
    assert_int_equal(slc_store_get_stats(w->store).misses, 0);
    assert_int_equal(slc_store_get_stats(w->store).guess[SLC_GUESS_HOT].used, 8);
}

static void a_smaller_cache_takes_what_fits(void **state) {
    world *w = *state;
    uint32_t n, keys[5];

    save_some(w);
    open_store(w, 5);
    assert_int_equal(slc_hot_load(w->store, w->path, &n, NULL), SLC_OK);
    assert_int_equal(n, 5);
    settle(w);
    assert_int_equal(slc_store_held(w->store, keys), 5);
}

static void expect_refusal(world *w, slc_status code, const char *says) {
    slc_err err = {0};
    uint32_t n = 99;

    assert_int_equal(slc_hot_load(w->store, w->path, &n, &err), code);
    assert_int_equal(n, 0);
    assert_non_null(strstr(err.msg, w->path));
    assert_non_null(strstr(err.msg, says));
    settle(w);
    assert_int_equal(slc_store_get_stats(w->store).guess[SLC_GUESS_HOT].asked, 0);
}

static void any_damage_is_seen(void **state) {
    world *w = *state;

    save_some(w);
    for (long at = 0; at < FILE_BYTES; at++) {
        FILE *f = fopen(w->path, "r+b");
        int byte;
        assert_non_null(f);
        fseek(f, at, SEEK_SET);
        byte = getc(f);
        fseek(f, at, SEEK_SET);
        putc(byte ^ 0x10, f);
        fclose(f);
        expect_refusal(w, SLC_E_FORMAT, "checksum");
        f = fopen(w->path, "r+b");
        assert_non_null(f);
        fseek(f, at, SEEK_SET);
        putc(byte, f);
        fclose(f);
    }
    assert_int_equal(truncate(w->path, FILE_BYTES - 1), 0);
    expect_refusal(w, SLC_E_FORMAT, "expected 65");
    assert_int_equal(truncate(w->path, 0), 0);
    expect_refusal(w, SLC_E_FORMAT, "0 bytes");
    assert_int_equal(unlink(w->path), 0);
    expect_refusal(w, SLC_E_IO, "cannot open");
}

static void b22_a_changed_checkpoint_is_seen(void **state) {
    world *w = *state;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000}};

    save_some(w);
    assert_int_equal(utimensat(AT_FDCWD, w->model->ckpt.files[1].path, times, 0), 0);
    expect_refusal(w, SLC_E_FORMAT, "changed");
}

static void a_failed_save_leaves_the_old_file(void **state) {
    world *w = *state;
    char *inside = temp_path(w->path, "hot");
    slc_err err = {0};

    save_some(w);
    assert_int_equal(slc_hot_save(w->store, inside, &err), SLC_E_IO); /* its folder is a file */
    assert_non_null(strstr(err.msg, inside));
    assert_int_equal(slc_hot_load(w->store, w->path, NULL, NULL), SLC_OK);
    free(inside);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(what_was_held_is_read_again),
        CASE(a_smaller_cache_takes_what_fits),
        CASE(any_damage_is_seen),
        CASE(b22_a_changed_checkpoint_is_seen),
        CASE(a_failed_save_leaves_the_old_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
