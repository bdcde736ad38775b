/* Lists in option values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/list_args.h"

static void items_keep_their_order(void **state) {
    slc_list l;

    assert_int_equal(slc_list_split("x", "8G,25%,a+b", &l, NULL), SLC_OK);
    assert_int_equal(l.n, 3);
    assert_string_equal(l.item[0], "8G");
    assert_string_equal(l.item[1], "25%");
    assert_string_equal(l.item[2], "a+b");
}

static void no_text_is_an_empty_list(void **state) {
    slc_list l;

    assert_int_equal(slc_list_split("x", NULL, &l, NULL), SLC_OK);
    assert_int_equal(l.n, 0);
}

static void expect_refused(const char *text, const char *part) {
    slc_list l;
    slc_err err = {0};

    assert_int_equal(slc_list_split("depth", text, &l, &err), SLC_E_INVALID);
    assert_non_null(strstr(err.msg, "--depth"));
    assert_non_null(strstr(err.msg, part));
}

static void empty_repeated_and_long_items_are_refused(void **state) {
    char word[SLC_LIST_ITEM_MAX + 1];

    expect_refused("", "empty");
    expect_refused("a,,b", "empty");
    expect_refused("a,", "empty");
    expect_refused(",a", "empty");
    expect_refused("a,b,a", "twice");
    memset(word, 'x', sizeof(word));
    word[SLC_LIST_ITEM_MAX] = '\0';
    expect_refused(word, "too long");
    expect_refused("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "more than 16");
}

static void the_longest_list_and_item_fit(void **state) {
    char word[SLC_LIST_ITEM_MAX];
    slc_list l;

    memset(word, 'x', sizeof(word));
    word[SLC_LIST_ITEM_MAX - 1] = '\0';
    assert_int_equal(slc_list_split("x", word, &l, NULL), SLC_OK);
    assert_int_equal(slc_list_split("x", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", &l, NULL),
                     SLC_OK);
    assert_int_equal(l.n, 16);
}

static void choices_are_checked_one_by_one(void **state) {
    slc_list l;
    slc_err err = {0};

    assert_int_equal(slc_list_choices("io", "uring,auto", "auto|uring|threads", &l, NULL), SLC_OK);
    assert_int_equal(slc_list_choices("io", "uring,mmap", "auto|uring|threads", &l, &err),
                     SLC_E_INVALID);
    assert_non_null(strstr(err.msg, "found 'mmap'"));
}

static void amounts_are_sizes_or_shares(void **state) {
    static const char *const wrong[] = {"0%",   "101%", "%", "-5%", "5%%",
                                        "1e1%", "..%",  "x", "0",   ""};
    slc_amount a;

    assert_int_equal(slc_list_amount("x", "12.5%", true, &a, NULL), SLC_OK);
    assert_true(a.bytes == 0 && a.share == 0.125);
    assert_int_equal(slc_list_amount("x", "100%", true, &a, NULL), SLC_OK);
    assert_true(a.share == 1);
    assert_int_equal(slc_list_amount("x", "1.5K", true, &a, NULL), SLC_OK);
    assert_true(a.bytes == 1536 && a.share == 0);
    assert_int_equal(slc_list_amount("x", "25%", false, &a, NULL), SLC_E_INVALID);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_equal(slc_list_amount("x", wrong[i], true, &a, NULL), SLC_E_INVALID);
}

static void numbers_keep_their_limits(void **state) {
    static const char *const wrong[] = {"0", "4097", "", "-1", "3x", "99999999999", "4 "};
    uint32_t n;

    assert_int_equal(slc_list_number("x", "4096", 1, 4096, &n, NULL), SLC_OK);
    assert_int_equal(n, 4096);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_equal(slc_list_number("x", wrong[i], 1, 4096, &n, NULL), SLC_E_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_keep_their_order),
        cmocka_unit_test(no_text_is_an_empty_list),
        cmocka_unit_test(empty_repeated_and_long_items_are_refused),
        cmocka_unit_test(the_longest_list_and_item_fit),
        cmocka_unit_test(choices_are_checked_one_by_one),
        cmocka_unit_test(amounts_are_sizes_or_shares),
        cmocka_unit_test(numbers_keep_their_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
