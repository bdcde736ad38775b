/* A folder is there when it is complete, and not before; what is not ours is left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert/synth_folder.h"
#include "support/temp.h"

static char *dir, *out, *partial;

static int make_dir(void **state) {
    (void)state;
    dir = temp_dir();
    out = temp_path(dir, "model");
    partial = temp_path(dir, "model.partial");
    return 0;
}

static int remove_dir(void **state) {
    (void)state;
    temp_dir_remove(dir);
    free(out);
    free(partial);
    return 0;
}

static bool exists(const char *folder, const char *name) {
    char *path = temp_path(folder, name);
    bool found = access(path, F_OK) == 0;

    free(path);
    return found;
}

static void open_it(slc_synth_folder *f) {
    slc_err err = {0};

    if (slc_synth_folder_open(f, out, 100, &err)) fail_msg("%s", err.msg);
}

static void put(slc_synth_folder *f, const char *name, const char *text) {
    slc_err err = {0};

    if (slc_synth_folder_put(f, name, text, strlen(text), &err)) fail_msg("%s", err.msg);
}

static void expect_refusal(slc_status code, const char *part) {
    slc_synth_folder f;
    slc_err err = {0};

    assert_int_equal(slc_synth_folder_open(&f, out, 100, &err), code);
    if (!strstr(err.msg, part)) fail_msg("expected '%s' in: %s", part, err.msg);
    slc_synth_folder_close(&f);
}

static void appears_when_it_is_finished(void **state) {
    slc_synth_folder f;
    slc_err err = {0};
    char *path, *text;

    (void)state;
    open_it(&f);
    put(&f, "config.json", "{}");
    assert_false(exists(dir, "model"));
    assert_int_equal(slc_synth_folder_finish(&f, &err), SLC_OK);
    slc_synth_folder_close(&f);
    assert_false(exists(dir, "model.partial"));
    path = temp_path(out, "config.json");
    text = temp_read(path, NULL);
    assert_string_equal(text, "{}");
    free(text);
    free(path);
    expect_refusal(SLC_E_INVALID, "found one with files in it");
    assert_true(exists(out, "config.json"));
}

static void an_empty_folder_may_be_there(void **state) {
    slc_synth_folder f;
    slc_err err = {0};

    (void)state;
    assert_int_equal(mkdir(out, 0777), 0);
    out = realloc(out, strlen(out) + 3);
    assert_non_null(out);
    strcat(out, "//");
    open_it(&f);
    put(&f, "config.json", "{}");
    assert_int_equal(slc_synth_folder_finish(&f, &err), SLC_OK);
    slc_synth_folder_close(&f);
    assert_true(exists(out, "config.json"));
}

static void a_failure_leaves_nothing(void **state) {
    slc_synth_folder f;

    (void)state;
    open_it(&f);
    put(&f, "config.json", "{}");
    put(&f, "model-00001-of-00002.safetensors", "x");
    slc_synth_folder_close(&f);
    assert_false(exists(dir, "model"));
    assert_false(exists(dir, "model.partial"));
    slc_synth_folder_close(&f); /* again is fine */
}

static void what_a_killed_run_left_is_cleared(void **state) {
    slc_synth_folder f;
    slc_err err = {0};

    (void)state;
    assert_int_equal(mkdir(partial, 0777), 0);
    free(temp_write(partial, "model-00007-of-00009.safetensors", "old", 3));
    open_it(&f);
    put(&f, "config.json", "{}");
    assert_int_equal(slc_synth_folder_finish(&f, &err), SLC_OK);
    slc_synth_folder_close(&f);
    assert_false(exists(out, "model-00007-of-00009.safetensors"));
    assert_true(exists(out, "config.json"));
}

static void what_others_put_there_stays(void **state) {
    (void)state;
    assert_int_equal(mkdir(partial, 0777), 0);
    free(temp_write(partial, "thesis.odt", "old", 3));
    expect_refusal(SLC_E_INVALID, "holds thesis.odt");
    assert_true(exists(partial, "thesis.odt"));
}

static void a_second_writer_is_told(void **state) {
    slc_synth_folder f;

    (void)state;
    open_it(&f);
    put(&f, "config.json", "{}");
    expect_refusal(SLC_E_BUSY, "another process is writing it");
    assert_true(exists(partial, "config.json"));
    slc_synth_folder_close(&f);
}

static void a_file_of_that_name_is_refused(void **state) {
    (void)state;
    free(temp_write(dir, "model", "x", 1));
    expect_refusal(SLC_E_INVALID, "found a file");
}

static void a_full_disk_is_known_before(void **state) {
    slc_synth_folder f;
    slc_err err = {0};

    (void)state;
    assert_int_equal(slc_synth_folder_open(&f, out, UINT64_C(1) << 60, &err), SLC_E_IO);
    assert_non_null(strstr(err.msg, "1152921504606846976 bytes are needed"));
    assert_false(exists(dir, "model.partial"));
}

static void a_missing_parent_is_named(void **state) {
    (void)state;
    free(out);
    out = temp_path(dir, "no/model");
    expect_refusal(SLC_E_IO, "no/model.partial: cannot make the folder");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(appears_when_it_is_finished),    CASE(an_empty_folder_may_be_there),
        CASE(a_failure_leaves_nothing),       CASE(what_a_killed_run_left_is_cleared),
        CASE(what_others_put_there_stays),    CASE(a_second_writer_is_told),
        CASE(a_file_of_that_name_is_refused), CASE(a_full_disk_is_known_before),
        CASE(a_missing_parent_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
