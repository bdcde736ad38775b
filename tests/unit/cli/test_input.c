/* Token lists and texts from files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/input.h"
#include "support/temp.h"

static char *dir;

static int setup(void **state) {
    dir = temp_dir();
    return 0;
}

static int teardown(void **state) {
    temp_dir_remove(dir);
    return 0;
}

static slc_status read_ids(const char *json, bool many, slc_id_lists *l, slc_err *err) {
    char *path = temp_write(dir, "ids.json", json, strlen(json));
    slc_status rc = slc_input_ids(path, many, l, err);

    free(path);
    return rc;
}

static void check_refused(const char *json, bool many, const char *part) {
    slc_id_lists l;
    slc_err err = {0};

    assert_int_equal(read_ids(json, many, &l, &err), SLC_E_FORMAT);
    if (!strstr(err.msg, part)) fail_msg("'%s' is not in '%s'", part, err.msg);
    assert_non_null(strstr(err.msg, "ids.json: "));
    slc_id_lists_deinit(&l);
}

static void reads_an_array_and_an_object(void **state) {
    static const char *const forms[] = {"[3, 0, 2147483647]",
                                        "{\"text\": \"x\", \"token_ids\": [3,0,2147483647]}"};

    for (int i = 0; i < 2; i++) {
        slc_id_lists l;

        assert_int_equal(read_ids(forms[i], i, &l, NULL), SLC_OK);
        assert_int_equal(l.n_ids, 3);
        assert_int_equal(l.n_lists, 1);
        assert_int_equal(l.ends[0], 3);
        assert_false(l.nested);
        assert_int_equal(l.ids[2], INT32_MAX);
        slc_id_lists_deinit(&l);
    }
}

static void reads_several_lists(void **state) {
    slc_id_lists l;

    assert_int_equal(read_ids("[[1, 2], [], [3]]", true, &l, NULL), SLC_OK);
    assert_true(l.nested);
    assert_int_equal(l.n_lists, 3);
    assert_int_equal(l.n_ids, 3);
    assert_int_equal(l.ends[0], 2);
    assert_int_equal(l.ends[1], 2);
    assert_int_equal(l.ends[2], 3);
    slc_id_lists_deinit(&l);
}

static void an_empty_list_is_empty(void **state) {
    slc_id_lists l;

    assert_int_equal(read_ids("[]", false, &l, NULL), SLC_OK);
    assert_int_equal(l.n_ids, 0);
    assert_int_equal(l.n_lists, 1);
    slc_id_lists_deinit(&l);
}

static void refuses_what_is_no_list_of_ids(void **state) {
    check_refused("[1, -2]", false, "item 1 of list 0: expected a token id");
    check_refused("[1, 2147483648]", false, "item 1 of list 0");
    check_refused("[1.0]", false, "item 0 of list 0");
    check_refused("[\"1\"]", false, "item 0 of list 0");
    check_refused("[1, [2]]", true, "item 1 of list 0");
    check_refused("[[1], 2]", true, "item 1: expected a list");
    check_refused("[[1], [2]]", false, "expected one list of token ids, found a list of 2");
    check_refused("{\"ids\": [1]}", false, "expected a JSON array of token ids");
    check_refused("7", false, "not JSON");
    check_refused("[1, 2", false, "line 1, column");
    check_refused("", false, "not JSON");
    check_refused("{\"token_ids\": [1], \"token_ids\": [2]}", false, "not JSON");
}

static void ids_are_held_against_the_vocabulary(void **state) {
    slc_id_lists l;
    slc_err err = {0};

    assert_int_equal(read_ids("[5, 9, 10]", false, &l, NULL), SLC_OK);
    assert_int_equal(slc_id_lists_check(&l, 11, "f", NULL), SLC_OK);
    assert_int_equal(slc_id_lists_check(&l, 10, "f", &err), SLC_E_INVALID);
    assert_string_equal(err.msg, "f: id 2 is 10, but the model's ids go from 0 to 9");
    slc_id_lists_deinit(&l);
}

static void texts_are_read_whole_with_any_bytes(void **state) {
    size_t n = 300000, got;
    char *bytes = malloc(n), *text, *path;

    for (size_t i = 0; i < n; i++) bytes[i] = (char)(i * 7 % 256);
    path = temp_write(dir, "text", bytes, n);
    assert_int_equal(slc_input_text(path, &text, &got, NULL), SLC_OK);
    assert_int_equal(got, n);
    assert_memory_equal(text, bytes, n);
    assert_int_equal(text[n], 0);
    free(text);
    free(bytes);
    free(path);
}

static void a_missing_file_is_named(void **state) {
    char *text, *path = temp_path(dir, "none");
    size_t n;
    slc_err err = {0};

    assert_int_equal(slc_input_text(path, &text, &n, &err), SLC_E_IO);
    assert_non_null(strstr(err.msg, "/none: cannot open: No such file"));
    err = (slc_err){0};
    assert_int_equal(slc_input_text(dir, &text, &n, &err), SLC_E_IO); /* a folder */
    assert_non_null(strstr(err.msg, ": cannot read: Is a directory"));
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_an_array_and_an_object),
        cmocka_unit_test(reads_several_lists),
        cmocka_unit_test(an_empty_list_is_empty),
        cmocka_unit_test(refuses_what_is_no_list_of_ids),
        cmocka_unit_test(ids_are_held_against_the_vocabulary),
        cmocka_unit_test(texts_are_read_whole_with_any_bytes),
        cmocka_unit_test(a_missing_file_is_named),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
