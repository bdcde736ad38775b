/* The option parser: every accepted form, and the words of every refusal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/args.h"

typedef struct values {
    bool flag, other;
    const char *text, *choice;
    int64_t n;
    double x;
    uint64_t size, seed;
    slc_opt_list list;
} values;

static const slc_opt table[] = {
    SLC_HEADING("Things"),
    SLC_OPTION(values, flag, FLAG, 'f', "flag", NULL, "a flag"),
    SLC_OPTION(values, other, FLAG, 'o', "other", NULL, "another"),
    SLC_OPTION(values, text, STRING, 't', "text", "TEXT", "a text"),
    SLC_OPTION_OF(values, choice, 0, "choice", "KIND", "one of", "auto|one|two"),
    SLC_OPTION_IN(values, n, INT, 'n', "number|count", "N", "a number\nsecond line", -5, 100),
    SLC_OPTION_IN(values, x, FLOAT, 'x', "fraction", "X", "a fraction", 0, 1),
    SLC_OPTION(values, size, SIZE, 's', "size", "SIZE", "a size"),
    SLC_OPTION(values, seed, SEED, 0, "seed", "N", "a seed"),
    SLC_OPTION(values, list, LIST, 0, "item", "TEXT", "an item"),
};

enum { N_TABLE = sizeof(table) / sizeof(*table), MAX_WORDS = 16 };

typedef struct parsed {
    slc_args args;
    values v;
    slc_err err;
    slc_status rc;
} parsed;

/* Splits `line` at single spaces; the pieces live until the next call. */
static parsed parse(const char *line, const char *positional) {
    static char copy[256];
    parsed p = {.args = {.opts = table, .n_opts = N_TABLE}};
    char *argv[MAX_WORDS], *save;
    int argc = 0;

    snprintf(copy, sizeof(copy), "%s", line);
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    p.rc = slc_args_parse(&p.args, argc, argv, positional, &p.v, &p.err);
    return p;
}

static void check_refused(const char *line, const char *message) {
    parsed p = parse(line, NULL);

    assert_int_equal(p.rc, SLC_E_INVALID);
    assert_string_equal(p.err.msg, message);
    free(p.v.list.items);
}

static void every_form_is_understood(void **state) {
    static const char *const lines[] = {
        "--flag --text T --number 7 --fraction 0.5 --size 2K --choice two",
        "-f -t T -n 7 -x .5 -s 2048 --choice=two",
        "-fn7 -tT -x0.5 --size=2KiB --choice two",
        "--choice two --flag --count=7 --fraction=0.50 --text=T -s2KB",
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        parsed p = parse(lines[i], NULL);

        assert_string_equal(p.err.msg, "");
        assert_int_equal(p.rc, SLC_OK);
        assert_true(p.v.flag && !p.v.other && p.v.n == 7 && p.v.x == 0.5 && p.v.size == 2048);
        assert_string_equal(p.v.text, "T");
        assert_string_equal(p.v.choice, "two");
        assert_true(slc_args_given(&p.args, "flag") && slc_args_given(&p.args, "count"));
        assert_false(slc_args_given(&p.args, "other"));
        assert_false(slc_args_given(&p.args, "seed"));
    }
}

static void values_may_look_like_options(void **state) {
    parsed p = parse("-t --flag -n -5 --item=", NULL);

    assert_int_equal(p.rc, SLC_OK);
    assert_string_equal(p.v.text, "--flag");
    assert_false(p.v.flag);
    assert_int_equal(p.v.n, -5);
    assert_string_equal(p.v.list.items[0], "");
    free(p.v.list.items);
}

static void lists_collect_in_order(void **state) {
    parsed p = parse("--item a --item=b -f --item a", NULL);

    assert_int_equal(p.rc, SLC_OK);
    assert_int_equal(p.v.list.n, 3);
    assert_string_equal(p.v.list.items[0], "a");
    assert_string_equal(p.v.list.items[1], "b");
    assert_string_equal(p.v.list.items[2], "a");
    free(p.v.list.items);
}

static void one_positional_where_asked_for(void **state) {
    parsed p = parse("dir -f", "DIR");

    assert_int_equal(p.rc, SLC_OK);
    assert_string_equal(p.args.positional, "dir");
    p = parse("-f -- --flag", "DIR");
    assert_int_equal(p.rc, SLC_OK);
    assert_string_equal(p.args.positional, "--flag");
    p = parse("a b", "DIR");
    assert_string_equal(p.err.msg, "unexpected argument 'b'");
    check_refused("-f dir", "unexpected argument 'dir'");
    p = parse("-", "DIR");
    assert_string_equal(p.args.positional, "-");
}

static void unknown_options_suggest_the_nearest(void **state) {
    check_refused("--flg", "unknown option --flg: did you mean --flag?");
    check_refused("--cuont=3", "unknown option --cuont: did you mean --count?");
    check_refused("--chice two", "unknown option --chice: did you mean --choice?");
    check_refused("--zzzzzz", "unknown option --zzzzzz");
    check_refused("--fla", "unknown option --fla: did you mean --flag?"); /* no abbreviations */
    check_refused("--=3", "unknown option --");
    check_refused("-fz", "unknown option -z");
    check_refused(
        "--a-very-long-option-that-nobody-could-ever-have-thought-of-in-the-whole-wide-world",
        "unknown option "
        "--a-very-long-option-that-nobody-could-ever-have-thought-of-in-the-whole-wide-world");
}

static void bad_values_name_option_value_and_expectation(void **state) {
    check_refused("-n 101", "option -n: expected a whole number from -5 to 100, found '101'");
    check_refused("--count=1x",
                  "option --count: expected a whole number from -5 to 100, found '1x'");
    check_refused("--number=", "option --number: expected a whole number from -5 to 100, found ''");
    check_refused("-n 99999999999999999999",
                  "option -n: expected a whole number from -5 to 100, found "
                  "'99999999999999999999'");
    check_refused("-x nan", "option -x: expected a number from 0 to 1, found 'nan'");
    check_refused("-x 1e-1", "option -x: expected a number from 0 to 1, found '1e-1'");
    check_refused("-x 1.01", "option -x: expected a number from 0 to 1, found '1.01'");
    check_refused("-s 8X", "option -s: expected a size such as 512M, 1.5G or 8G, found '8X'");
    check_refused("--choice no", "option --choice: expected one of auto|one|two, found 'no'");
    check_refused("--choice au", "option --choice: expected one of auto|one|two, found 'au'");
    check_refused(
        "--seed=-1",
        "option --seed: expected a whole number from 0 to 9223372036854775807, found '-1'");
    check_refused("--flag=1", "option --flag takes no value, found '1'");
    check_refused("--text", "option --text: expected TEXT after it, found nothing");
    check_refused("-fn", "option -n: expected N after it, found nothing");
    check_refused("-f --flag", "option --flag is given twice");
    check_refused("--number 1 --count 2", "option --count is given twice");
}

static void sizes_are_powers_of_1024(void **state) {
    static const struct {
        const char *text;
        uint64_t bytes; /* 0: refused */
    } cases[] = {
        {"1", 1},
        {"1024", 1024},
        {"512M", 512ull << 20},
        {"1.5G", 3ull << 29},
        {"8g", 8ull << 30},
        {"2T", 2ull << 40},
        {"3KiB", 3072},
        {"3kB", 3072},
        {"7B", 7},
        {"0.5K", 512},
        {"9223372036854774784", 9223372036854774784ull},
        {"0", 0},
        {"", 0},
        {"G", 0},
        {"-1G", 0},
        {"1GG", 0},
        {"1.2.3G", 0},
        {"1 G", 0},
        {"0x10", 0},
        {"inf", 0},
        {"8388608T", 0},
        {"99999999999999999999999999999999999999999", 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint64_t bytes = 0;

        assert_int_equal(slc_args_size(cases[i].text, &bytes), cases[i].bytes != 0);
        if (cases[i].bytes) assert_int_equal(bytes, cases[i].bytes);
    }
}

static void refuses_what_has_no_effect(void **state) {
    parsed p = parse("-f", NULL);

    assert_int_equal(slc_args_refuse(&p.args, "other", "today", &p.err), SLC_OK);
    assert_int_equal(slc_args_refuse(&p.args, "flag", "today", &p.err), SLC_E_INVALID);
    assert_string_equal(p.err.msg, "option --flag has no effect today");
}

static void help_lists_every_option_once_in_line(void **state) {
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    slc_args_print_help(table, N_TABLE, f);
    fclose(f);
    assert_non_null(strstr(text, "\nThings:\n  -f, --flag                  a flag\n"));
    assert_non_null(strstr(text, "\n  -n, --number, --count N     a number\n"
                                 "                              second line\n"));
    assert_non_null(strstr(text, "\n      --choice KIND           one of\n"));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_understood),
        cmocka_unit_test(values_may_look_like_options),
        cmocka_unit_test(lists_collect_in_order),
        cmocka_unit_test(one_positional_where_asked_for),
        cmocka_unit_test(unknown_options_suggest_the_nearest),
        cmocka_unit_test(bad_values_name_option_value_and_expectation),
        cmocka_unit_test(sizes_are_powers_of_1024),
        cmocka_unit_test(refuses_what_has_no_effect),
        cmocka_unit_test(help_lists_every_option_once_in_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
