/* The split: the pieces that the specification lists, the scanner against PCRE2 on random text, and
 * what happens with expressions that are wrong or endless. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <utf8proc.h>

#include "base/fail.h"
#include "text/split.h"
#include "text/unicode.h"

#define MAX_TEXT 4096

/* Pieces joined by '|' (which the texts here do not contain). */
struct joined {
    char text[2 * MAX_TEXT];
    size_t n, pieces;
};

static slc_status join(void *user, const char *piece, size_t n, slc_err *err) {
    struct joined *j = user;

    assert_true(n > 0 && j->n + n + 1 <= sizeof(j->text));
    memcpy(j->text + j->n, piece, n);
    j->n += n;
    j->text[j->n++] = '|';
    j->pieces++;
    return SLC_OK;
}

static slc_splitter *create(const char *regex, bool no_scanner) {
    slc_splitter *s;
    slc_err err = {0};

    if (slc_splitter_create(regex, no_scanner, &s, &err)) fail_msg("%s", err.msg);
    return s;
}

static void split(const slc_splitter *s, const char *text, size_t n, struct joined *j) {
    slc_err err = {0};

    *j = (struct joined){.n = 0};
    if (slc_splitter_run(s, text, n, join, j, &err)) fail_msg("%s", err.msg);
}

static void check(const char *regex, const char *text, const char *want) {
    for (int no_scanner = 0; no_scanner < 2; no_scanner++) {
        slc_splitter *s = create(regex, no_scanner);
        struct joined j;

        split(s, text, strlen(text), &j);
        j.text[j.n] = 0;
        assert_string_equal(j.text, want);
        slc_splitter_destroy(s);
    }
}

static void gives_the_specified_pieces(void **state) {
    const char *hindi = "नमस्ते दुनिया";
    slc_splitter *s;
    struct joined j;

    check(slc_split_qwen3_5, "Hello world, it's 2024!", "Hello| world|,| it|'s| |2|0|2|4|!|");
    check(slc_split_qwen3_5, "  two  spaces\n\n\nx", " | two| | spaces|\n\n\n|x|");
    check(slc_split_qwen3_5, "a\t b  \n", "a|\t| b|  \n|");
    check(slc_split_qwen3_5, "I'LL don't", "I|'LL| don|'t|");
    check(slc_split_qwen3_5, "if (x==1) {\n    return;\n}\n",
          "if| (|x|==|1|)| {\n|   | return|;\n|}\n|");
    check(slc_split_qwen3_5, "...\n\nfoo", "...\n\n|foo|");
    check(slc_split_qwen3_5, hindi, "नमस्ते| दुनिया|");
    s = create(slc_split_qwen2, false);
    split(s, hindi, strlen(hindi), &j);
    assert_int_equal(j.pieces, 7);
    slc_splitter_destroy(s);
}

static void knows_the_odd_corners(void **state) {
    check(slc_split_qwen3_5, "x'\u017f y'\u017fab",
          "x|'\u017f| y|'\u017f|ab|"); /* long s folds to s */
    check(slc_split_qwen3_5, "x'\u212a 'R 'l 'rex", "x|'\u212a| '|R| '|l| '|rex|");
    check(slc_split_qwen3_5, "'", "'|");
    check(slc_split_qwen3_5, " '", " '|");
    check(slc_split_qwen3_5, "\u0301a \u0301 !", "\u0301a| \u0301| !|");
    check(slc_split_qwen2, "\u0301a \u0301 !", "\u0301a| \u0301| !|");
    check(slc_split_qwen3_5, "a\u0301b", "a\u0301b|");
    check(slc_split_qwen2, "a\u0301b", "a|\u0301b|");
    check(slc_split_qwen3_5, " \n \n x", " \n \n| x|");
    check(slc_split_qwen3_5, "\nx\rx\u2028x\u00a0x", "\n|x|\r|x|\u2028x|\u00a0x|");
    check(slc_split_qwen3_5, "\u00a0 \u3000", "\u00a0 \u3000|");
    check(slc_split_qwen3_5, " \u00a0!", " |\u00a0|!|");
    check(slc_split_qwen3_5, "!\r\n\r\n!", "!\r\n\r\n|!|");
    check(slc_split_qwen3_5,
          "\xc2\x85"
          "x\u200bx\ufeffx",
          "\xc2\x85"
          "x|\u200bx|\ufeffx|");
}

/* U+180E is no white space since Unicode 6.3, and the reference's engine agrees; PCRE2 keeps it in
 * \s. The scanner follows the reference. */
static void differs_from_pcre2_at_u180e(void **state) {
    slc_splitter *s = create(slc_split_qwen3_5, false);
    struct joined j;

    split(s, "! \u180e", strlen("! \u180e"), &j);
    j.text[j.n] = 0;
    assert_string_equal(j.text, "!| \u180e|");
    slc_splitter_destroy(s);
}

/* ---- the scanner against PCRE2 ---- */

#define N_ALPHABET 2000

static uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* True if PCRE2, whose Unicode version may be older, puts c in the same class as the scanner. */
static bool same_class(slc_splitter *const classes[4], uint32_t c) {
    static const slc_char_class kinds[4] = {SLC_CHAR_LETTER, SLC_CHAR_MARK, SLC_CHAR_NUMBER,
                                            SLC_CHAR_SPACE};
    char text[8] = {1};
    size_t n = 1 + (size_t)utf8proc_encode_char((int32_t)c, (uint8_t *)text + 1);
    struct joined j;

    for (int k = 0; k < 4; k++) {
        split(classes[k], text, n, &j);
        if ((j.pieces == 2) != (slc_char_class_of(c) == kinds[k])) return false;
    }
    return true;
}

/* Characters of all scripts, those of syntax many times. Returns how many were left out. */
static int make_alphabet(uint32_t alphabet[N_ALPHABET], uint64_t *random) {
    static const char syntax[] = "    \n\n\r\t''''sStTrReEvVlLmMdDxa019!.-";
    static const char *const regex[4] = {"\\p{L}", "\\p{M}", "\\p{N}", "\\s"};
    slc_splitter *classes[4];
    int left_out = 0;

    for (int k = 0; k < 4; k++) classes[k] = create(regex[k], false);
    for (int i = 0; i < N_ALPHABET;) {
        static const uint32_t tops[3] = {0x400, 0x3100, 0x20000};
        uint32_t c = next_random(random) % tops[i % 3];

        if (i < N_ALPHABET / 2) c = (uint8_t)syntax[c % (sizeof(syntax) - 1)];
        if (i % 50 == 0) c = 0x17f;
        if (c >= 0xd800 && c < 0xe000) continue;
        if (same_class(classes, c))
            alphabet[i++] = c;
        else
            left_out++;
    }
    for (int k = 0; k < 4; k++) slc_splitter_destroy(classes[k]);
    return left_out;
}

static void scanner_equals_pcre2(void **state) {
    static const char *const regex[2] = {slc_split_qwen3_5, slc_split_qwen2};
    static uint32_t alphabet[N_ALPHABET];
    uint64_t random = 1;

    assert_true(make_alphabet(alphabet, &random) < N_ALPHABET / 10);
    for (int r = 0; r < 2; r++) {
        slc_splitter *scanner = create(regex[r], false), *pcre = create(regex[r], true);

        for (int round = 0; round < 20000; round++) {
            struct joined a, b;
            char text[MAX_TEXT];
            size_t n = 0;

            for (uint32_t left = 1 + next_random(&random) % 40; left; left--) {
                uint32_t c = alphabet[next_random(&random) % N_ALPHABET];

                n += (size_t)utf8proc_encode_char((int32_t)c, (uint8_t *)text + n);
            }
            split(scanner, text, n, &a);
            split(pcre, text, n, &b);
            assert_int_equal(a.n, b.n);
            assert_memory_equal(a.text, b.text, a.n);
        }
        slc_splitter_destroy(scanner);
        slc_splitter_destroy(pcre);
    }
}

/* ---- expressions ---- */

static void keeps_what_no_match_covers(void **state) {
    check("b+", "aabbabc", "aa|bb|a|b|c|");
    check("\\p{N}{1,3}", "1234567", "123|456|7|");
    check(NULL, "one piece\n\n", "one piece\n\n|");
}

static void fails_with(const char *regex, const char *word) {
    slc_splitter *s;
    slc_err err = {0};

    assert_int_equal(slc_splitter_create(regex, false, &s, &err), SLC_E_UNSUPPORTED);
    assert_null(s);
    if (!strstr(err.msg, word)) fail_msg("\"%s\" should name \"%s\"", err.msg, word);
}

static void refuses_bad_expressions(void **state) {
    fails_with("a(b", "parenthesis");
    fails_with("a*", "nothing");
}

static slc_status count_piece(void *user, const char *piece, size_t n, slc_err *err) {
    ++*(size_t *)user;
    return SLC_OK;
}

static void gives_up_on_endless_backtracking(void **state) {
    slc_splitter *s = create("(a+a+)+b|c", false);
    char text[64];
    slc_err err = {0};
    size_t count = 0;

    memset(text, 'a', sizeof(text));
    text[0] = 'b';
    text[63] = 'c';
    assert_int_equal(slc_splitter_run(s, text, sizeof(text), count_piece, &count, &err),
                     SLC_E_UNSUPPORTED);
    if (!strstr(err.msg, "limit")) fail_msg("\"%s\" should name the limit", err.msg);
    slc_splitter_destroy(s);
}

/* A megabyte of one character, through the compiled and the interpreted form, on a small stack. */
/* One match that needs more state than just-in-time code has room for: the interpreter takes over.
 */
static void deep_matches_are_found(void **state) {
    enum { N = 60001 };
    slc_splitter *s = create("(?:a|b)+c|[ab]", false);
    char *text = malloc(N);
    size_t count = 0;
    slc_err err = {0};

    for (int i = 0; i < N; i++) text[i] = i == N - 1 ? 'c' : "ab"[i % 2];
    if (slc_splitter_run(s, text, N, count_piece, &count, &err)) fail_msg("%s", err.msg);
    assert_int_equal(count, 1);
    free(text);
    slc_splitter_destroy(s);
}

static void *split_runs(void *arg) {
    static const char interpreted[] = "(*NO_JIT)";
    const size_t n = (size_t)1 << 20;
    char *text = malloc(n), regex[512] = "";

    for (int form = 0; text && form < 2; form++) {
        slc_splitter *s;

        snprintf(regex, sizeof(regex), "%s%s", form ? interpreted : "", slc_split_qwen3_5);
        if (slc_splitter_create(regex, true, &s, arg)) break;
        for (const char *c = "A \n7!"; *c; c++) {
            size_t count = 0;

            memset(text, *c, n);
            if (slc_splitter_run(s, text, n, count_piece, &count, arg)) break;
            if (count != (*c == '7' ? n : 1)) slc_fail(arg, SLC_E_FORMAT, "%zu pieces", count);
        }
        slc_splitter_destroy(s);
    }
    free(text);
    return NULL;
}

static void d04_expressions_need_no_stack_either(void **state) {
    pthread_attr_t attr;
    pthread_t thread;
    slc_err err = {0};

    pthread_attr_init(&attr);
    assert_int_equal(pthread_attr_setstacksize(&attr, 256 << 10), 0);
    assert_int_equal(pthread_create(&thread, &attr, split_runs, &err), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    if (err.code) fail_msg("%s", err.msg);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_specified_pieces),
        cmocka_unit_test(knows_the_odd_corners),
        cmocka_unit_test(differs_from_pcre2_at_u180e),
        cmocka_unit_test(scanner_equals_pcre2),
        cmocka_unit_test(keeps_what_no_match_covers),
        cmocka_unit_test(refuses_bad_expressions),
        cmocka_unit_test(gives_up_on_endless_backtracking),
        cmocka_unit_test(deep_matches_are_found),
        cmocka_unit_test(d04_expressions_need_no_stack_either),
    };
    return cmocka_run_group_tests_name("text.split", tests, NULL, NULL);
}
