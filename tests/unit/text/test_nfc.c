/* NFC: the classic cases, equality with normalising everything, and linear time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <utf8proc.h>

#include "text/nfc.h"
#include "unit/text/cpu_time.h"

/* The normalised text, malloc'd and terminated; *copied is false if it was left alone. */
static char *nfc(const char *text, size_t n, size_t *n_out, bool *changed) {
    char *out;
    slc_err err = {0};

    if (slc_nfc(text, n, &out, n_out, &err)) fail_msg("%s", err.msg);
    *changed = out != NULL;
    if (!out) {
        assert_non_null(out = malloc(n + 1));
        memcpy(out, text, n);
        *n_out = n;
    }
    assert_non_null(out = realloc(out, *n_out + 1));
    out[*n_out] = 0;
    return out;
}

static void check(const char *text, const char *want) {
    size_t n;
    bool changed;
    char *got = nfc(text, strlen(text), &n, &changed);

    assert_string_equal(got, want);
    assert_int_equal(n, strlen(want));
    free(got);
}

static void d08_classic_cases(void **state) {
    check("", "");
    check("cafe\u0301 x", "caf\u00e9 x");
    check("\u212b\u2126\u212a", "\u00c5\u03a9K");
    check("q\u0307\u0323", "q\u0323\u0307");
    check("\u1e9b\u0323", "\u1e9b\u0323");
    check("\u1112\u1161\u11ab\u1100\u1161", "\ud55c\uac00");
    check("\uac00\u11a8 \uac01\u11a8", "\uac01 \uac01\u11a8");
    check("\u0344\u0958", "\u0308\u0301\u0915\u093c");
    check("\u09c7\u09be\u0b47\u0b56", "\u09cb\u0b48");
    check("\u0301", "\u0301");
    check("a\u0345\u0301", "\u00e1\u0345");
    check("\u4e00\uf900", "\u4e00\u8c48");
    check("\uac00\u11a7", "\uac00\u11a7"); /* one before the first final consonant */
}

static void leaves_normal_text_alone(void **state) {
    static const char text[] = "plain caf\u00e9 \u4e16\u754c \u0434\u0430 \u304c \U0001f600";
    size_t n;
    bool changed;

    free(nfc(text, sizeof(text) - 1, &n, &changed));
    assert_false(changed);
}

static uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static size_t random_text(uint64_t *random, char *text) {
    static const uint32_t ranges[][2] = {{0x20, 0x7e},       {0xa0, 0x17f},      {0x300, 0x36f},
                                         {0x1100, 0x11ff},   {0xac00, 0xd7a3},   {0x900, 0xdff},
                                         {0x1e00, 0x1fff},   {0x3040, 0x30ff},   {0xf900, 0xfb4f},
                                         {0x590, 0x6ff},     {0x1d100, 0x1d1ff}, {1, 0xd7ff},
                                         {0x11000, 0x11fff}, {0x2f800, 0x2fa1d}};
    size_t n = 0;

    for (uint32_t left = 1 + next_random(random) % 30; left; left--) {
        const uint32_t *r = ranges[next_random(random) % (sizeof(ranges) / sizeof(ranges[0]))];
        uint32_t c = r[0] + next_random(random) % (r[1] - r[0] + 1);

        if (c == 0x11a7) continue; /* utf8proc_NFC drops it after a syllable without final */
        n += (size_t)utf8proc_encode_char((int32_t)c, (uint8_t *)text + n);
    }
    text[n] = 0;
    return n;
}

static void d08_equals_normalising_everything(void **state) {
    uint64_t random = 7;

    for (int round = 0; round < 100000; round++) {
        char text[256];
        size_t n = random_text(&random, text), n_got;
        char *want = (char *)utf8proc_NFC((const uint8_t *)text), *got;
        bool changed;

        got = nfc(text, n, &n_got, &changed);
        assert_string_equal(got, want);
        free(want);
        free(got);
    }
}

/* Time for n alternating marks of two classes, the worst case for ordering. */
static uint64_t time_marks(size_t n) {
    char *text = malloc(2 * n + 1), *out;
    size_t n_out;
    bool changed;
    uint64_t start;

    assert_non_null(text);
    text[0] = 'a';
    for (size_t i = 0; i < n; i++) memcpy(text + 1 + 2 * i, i % 2 ? "\u0323" : "\u0301", 2);
    start = cpu_ns();
    out = nfc(text, 2 * n + 1, &n_out, &changed);
    start = cpu_ns() - start;
    assert_true(changed);
    assert_memory_equal(out, "\u1ea1\u0323", 5);
    free(text);
    free(out);
    return start;
}

static void d08_orders_a_long_run_of_marks_in_linear_time(void **state) {
    uint64_t best[2] = {UINT64_MAX, UINT64_MAX};

    for (int round = 0; round < 5; round++)
        for (int k = 0; k < 2; k++) {
            uint64_t t = time_marks((size_t)1 << (16 + 3 * k));

            if (t < best[k]) best[k] = t;
        }
    /* eight times as many: 8 times the time, with room for a busy machine; 64 if it were quadratic
     */
    if ((double)best[1] > 32.0 * (double)best[0])
        fail_msg("64 Ki marks took %lu ns, 512 Ki %lu ns", best[0], best[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(d08_classic_cases),
        cmocka_unit_test(leaves_normal_text_alone),
        cmocka_unit_test(d08_equals_normalising_everything),
        cmocka_unit_test(d08_orders_a_long_run_of_marks_in_linear_time),
    };
    return cmocka_run_group_tests_name("text.nfc", tests, NULL, NULL);
}
