/* Stop strings and streaming, whatever the pieces in which the text arrives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/emit.h"

typedef struct sink {
    char text[256];
    size_t n, calls;
    size_t accept; /* calls answered with true */
} sink;

static bool collect(void *user, const char *text, size_t n) {
    sink *s = user;

    assert_true(n > 0 && s->n + n < sizeof(s->text));
    memcpy(s->text + s->n, text, n);
    s->n += n;
    return ++s->calls <= s->accept;
}

static bool push(slc_emit *e, const char *piece, size_t n) {
    char *room = slc_emit_reserve(e, n, NULL);

    assert_non_null(room);
    if (n) memcpy(room, piece, n);
    return slc_emit_advance(e, n);
}

static void check(const char *text, const char *const *stop, uint32_t n_stop, const char *want) {
    size_t len = strlen(text);

    for (size_t piece = 1; piece <= len + 1; piece++) {
        slc_emit e;
        sink s = {.accept = SIZE_MAX};
        size_t n;
        char *got;

        assert_int_equal(slc_emit_init(&e, stop, n_stop, NULL), SLC_OK);
        e.on_text = collect;
        e.user = &s;
        for (size_t at = 0; at < len; at += piece) {
            assert_true(push(&e, text + at, len - at < piece ? len - at : piece));
            /* never more than the text that is finally right */
            assert_true(s.n <= strlen(want) && !memcmp(s.text, want, s.n));
        }
        assert_true(slc_emit_flush(&e));
        got = slc_emit_take(&e, &n);
        assert_string_equal(got, want);
        assert_int_equal(n, strlen(want));
        assert_int_equal(s.n, strlen(want));
        assert_memory_equal(s.text, want, s.n);
        free(got);
    }
}

static void stops_before_the_string_in_any_pieces(void **state) {
    const char *one[] = {"###"}, *two[] = {"STOP", "\n\nUser:"}, *self[] = {"aab"};

    check("hello ### world", one, 1, "hello ");
    check("## # ##", one, 1, "## # ##");
    check("a\n\nUse\n\nUser: b", two, 2, "a\n\nUse");
    check("ST STO STOSTOP", two, 2, "ST STO STO");
    check("aaab", self, 1, "a");
    check("###", one, 1, "");
    check("no stop strings", NULL, 0, "no stop strings");
}

static void the_first_complete_string_wins(void **state) {
    const char *nested[] = {"abcd", "bc"}, *same_end[] = {"c", "abc", "bc"};

    check("xabcd", nested, 2, "xa");
    check("xabc", same_end, 3, "x");
}

static void holds_back_exactly_a_possible_beginning(void **state) {
    const char *stop[] = {"</end>", "<!--"};
    slc_emit e;
    sink s = {.accept = SIZE_MAX};

    assert_int_equal(slc_emit_init(&e, stop, 2, NULL), SLC_OK);
    e.on_text = collect;
    e.user = &s;
    assert_true(push(&e, "ab</", 4));
    assert_int_equal(s.n, 2);
    assert_true(push(&e, "e", 1));
    assert_int_equal(s.n, 2);
    assert_true(push(&e, "x<", 2)); /* "</e" cannot continue, "<" can */
    assert_int_equal(s.n, 6);
    assert_true(push(&e, "!-", 2));
    assert_int_equal(s.n, 6);
    assert_true(push(&e, "", 0));
    assert_true(slc_emit_flush(&e));
    assert_memory_equal(s.text, "ab</ex<!-", 9);
    assert_int_equal(s.n, 9);
    assert_false(e.stopped);
    slc_emit_deinit(&e);
}

static void nothing_follows_a_stop(void **state) {
    const char *stop[] = {"."};
    slc_emit e;
    sink s = {.accept = SIZE_MAX};

    assert_int_equal(slc_emit_init(&e, stop, 1, NULL), SLC_OK);
    e.on_text = collect;
    e.user = &s;
    assert_true(push(&e, "a.b", 3));
    assert_true(e.stopped);
    assert_true(push(&e, "more", 4));
    assert_true(slc_emit_flush(&e));
    assert_int_equal(s.n, 1);
    assert_int_equal(e.n_text, 1);
    slc_emit_deinit(&e);
}

static void reports_that_no_more_is_wanted(void **state) {
    slc_emit e;
    sink s = {.accept = 1};

    assert_int_equal(slc_emit_init(&e, NULL, 0, NULL), SLC_OK);
    e.on_text = collect;
    e.user = &s;
    assert_true(push(&e, "a", 1));
    assert_false(push(&e, "b", 1));
    assert_int_equal(e.n_text, 2); /* kept all the same */
    slc_emit_deinit(&e);
}

static void keeps_zero_bytes_and_grows(void **state) {
    enum { TIMES = 5000 };
    slc_emit e;
    size_t n;
    char *text;

    assert_int_equal(slc_emit_init(&e, NULL, 0, NULL), SLC_OK);
    for (int i = 0; i < TIMES; i++) assert_true(push(&e, "a\0b", 3));
    text = slc_emit_take(&e, &n);
    assert_int_equal(n, 3 * TIMES);
    for (int i = 0; i < TIMES; i++) assert_memory_equal(text + 3 * i, "a\0b", 3);
    assert_int_equal(text[n], 0);
    free(text);
}

static void bad_stop_strings_are_refused(void **state) {
    const char *empty[] = {"ok", ""}, *null[] = {NULL}, *inside[] = {"\x82\xac"};
    slc_emit e;
    slc_err err = {0};

    assert_int_equal(slc_emit_init(&e, empty, 2, &err), SLC_E_INVALID);
    assert_string_equal(err.msg, "stop string 2 of 2 is empty");
    assert_int_equal(slc_emit_init(&e, null, 1, NULL), SLC_E_INVALID);
    assert_int_equal(slc_emit_init(&e, inside, 1, NULL), SLC_E_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops_before_the_string_in_any_pieces),
        cmocka_unit_test(the_first_complete_string_wins),
        cmocka_unit_test(holds_back_exactly_a_possible_beginning),
        cmocka_unit_test(nothing_follows_a_stop),
        cmocka_unit_test(reports_that_no_more_is_wanted),
        cmocka_unit_test(keeps_zero_bytes_and_grows),
        cmocka_unit_test(bad_stop_strings_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
