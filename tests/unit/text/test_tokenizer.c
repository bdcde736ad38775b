/* The tokenizer as a whole: added tokens, bytes that are not UTF-8, small vocabularies, long runs
 * on a small stack. */
#include "unit/text/tiny_tokenizer.h"

#include <pthread.h>

static const tiny_merge merges[] = {{"a", "b"}, {"ab", "c"}, {"\xc3", "\xa9"}, {"<", "|"}};
static const char added[] = "{\"id\": 300, \"content\": \"<|a|>\", \"special\": true},"
                            "{\"id\": 301, \"content\": \"<|a|>b\"},"
                            "{\"id\": 302, \"content\": \"<t>\", \"normalized\": true}";

static const tiny_options plain = {.merges = merges,
                                   .n_merges = 4,
                                   .added = added,
                                   .model = "",
                                   .split = NULL,
                                   .missing = -1,
                                   .nfc = true};

static void check(const slc_tokenizer *t, const char *text, size_t n, bool special,
                  const int32_t *want, size_t n_want) {
    int32_t *ids;
    size_t n_ids;
    slc_err err = {0};

    if (slc_tokenizer_encode(t, text, n, special, &ids, &n_ids, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < n_ids && i < n_want; i++)
        if (ids[i] != want[i])
            fail_msg("\"%.*s\": id %zu is %d, expected %d", (int)n, text, i, ids[i], want[i]);
    assert_int_equal(n_ids, n_want);
    free(ids);
}

#define CHECK(t, text, special, ...)                                                               \
    check(t, text, sizeof(text) - 1, special, (const int32_t[]){__VA_ARGS__},                      \
          sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void finds_the_longest_added_token(void **state) {
    slc_tokenizer *t = tiny_open(&plain);

    CHECK(t, "x<|a|>c", true, 'x', 300, 'c');
    CHECK(t, "<|a|>bc", true, 301, 'c');
    CHECK(t, "<|<|a|>", true, 259, 300);
    CHECK(t, "<|a|", true, 259, 'a', '|');
    CHECK(t, "ab<t>abc", true, 256, 302, 257);
    CHECK(t, "ab<|a|>", false, 256, 259, 'a', '|', '>');
    CHECK(t, "<t>", false, '<', 't', '>');
    slc_tokenizer_close(t);
}

static void knows_its_ids(void **state) {
    slc_tokenizer *t = tiny_open(&plain);
    size_t n;

    assert_int_equal(slc_tokenizer_n_ids(t), 303);
    assert_int_equal(slc_tokenizer_added_id(t, "<|a|>"), 300);
    assert_int_equal(slc_tokenizer_added_id(t, "<t>"), 302);
    assert_int_equal(slc_tokenizer_added_id(t, "<|a|"), -1);
    assert_int_equal(slc_tokenizer_added_id(t, ""), -1);
    assert_true(slc_tokenizer_is_special(t, 300));
    assert_false(slc_tokenizer_is_special(t, 301));
    assert_false(slc_tokenizer_is_special(t, 'a'));
    assert_false(slc_tokenizer_is_special(t, -1));
    assert_memory_equal(slc_tokenizer_bytes(t, 257, &n), "abc", 3);
    assert_int_equal(n, 3);
    for (int32_t id = 260; id < 300; id++) { /* a gap */
        slc_tokenizer_bytes(t, id, &n);
        assert_int_equal(n, 0);
    }
    slc_tokenizer_bytes(t, 303, &n);
    assert_int_equal(n, 0);
    slc_tokenizer_bytes(t, -1, &n);
    assert_int_equal(n, 0);
    slc_tokenizer_close(t);
}

static void d08_normalises_outside_raw_added_tokens(void **state) {
    tiny_options o = plain;
    slc_tokenizer *t;

    o.added = "{\"id\": 300, \"content\": \"e\\u0301\", \"normalized\": false}";
    t = tiny_open(&o);
    CHECK(t, "e\u0301x", true, 300, 'x');
    CHECK(t, "e\u0301x", false, 258, 'x');
    slc_tokenizer_close(t);
    o.nfc = false;
    t = tiny_open(&o);
    CHECK(t, "e\u0301x", false, 'e', 0xcc, 0x81, 'x');
    slc_tokenizer_close(t);
}

/* ---- bytes ---- */

static void d10_invalid_bytes_are_their_own_tokens(void **state) {
    slc_tokenizer *t = tiny_open(&plain);

    CHECK(t, "\xc3", true, 0xc3);
    CHECK(t, "\xa9\xc3\xa9", true, 0xa9, 258);
    CHECK(t,
          "a\xff"
          "ab\xed\xa0\x80"
          "c",
          true, 'a', 0xff, 256, 0xed, 0xa0, 0x80, 'c');
    CHECK(t, "\xf0\x9f\x98", true, 0xf0, 0x9f, 0x98);
    CHECK(t, "a\0b", true, 'a', 0, 'b');
    slc_tokenizer_close(t);
}

/* Decoding the ids gives the text again (it is in NFC, or not normalised). */
static void round_trip(const slc_tokenizer *t, const char *text, size_t n) {
    int32_t *ids;
    size_t n_ids, at = 0;
    slc_err err = {0};

    if (slc_tokenizer_encode(t, text, n, false, &ids, &n_ids, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < n_ids; i++) {
        size_t len;
        const char *s = slc_tokenizer_bytes(t, ids[i], &len);

        assert_true(len && at + len <= n);
        assert_memory_equal(s, text + at, len);
        at += len;
    }
    assert_int_equal(at, n);
    free(ids);
}

static void d10_any_byte_string_round_trips(void **state) {
    tiny_options o = plain;
    slc_tokenizer *t;
    uint64_t random = 11;
    char text[1024];

    o.nfc = false;
    o.split =
        "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|\\\\p{N}|"
        " ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|"
        "\\\\s+\"";
    t = tiny_open(&o);
    for (int a = 0; a < 256; a++) {
        text[0] = (char)a;
        round_trip(t, text, 1);
        for (int b = 0; b < 256; b++) {
            text[1] = (char)b;
            round_trip(t, text, 2);
        }
    }
    for (int round = 0; round < 300; round++) {
        for (size_t i = 0; i < sizeof(text); i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            text[i] = (char)(random >> 40);
        }
        round_trip(t, text, sizeof(text));
    }
    slc_tokenizer_close(t);
}

/* ---- small vocabularies ---- */

static void d14_a_vocabulary_may_lack_bytes_and_specials(void **state) {
    tiny_options o = {.added = "", .model = "", .missing = '\n'};
    slc_tokenizer *t = tiny_open(&o);
    int32_t *ids;
    size_t n_ids;
    slc_err err = {0};
    slc_detok d = {0};
    char out[64];

    CHECK(t, "ab", true, 'a', 'b');
    assert_int_equal(slc_tokenizer_encode(t, "a\n", 2, true, &ids, &n_ids, &err), SLC_E_INVALID);
    assert_null(ids);
    assert_non_null(strstr(err.msg, "0x0a"));
    assert_int_equal(slc_tokenizer_added_id(t, "<|im_end|>"), -1);
    assert_false(slc_tokenizer_is_special(t, 5));
    assert_int_equal(slc_detok_push(&d, t, '\n', true, out), 0);
    assert_int_equal(slc_detok_push(&d, t, 1 << 30, true, out), 0);
    slc_tokenizer_close(t);
}

static void empty_text_has_no_tokens(void **state) {
    slc_tokenizer *t = tiny_open(&plain);
    int32_t *ids;
    size_t n_ids;

    assert_int_equal(slc_tokenizer_encode(t, "", 0, true, &ids, &n_ids, NULL), SLC_OK);
    assert_non_null(ids);
    assert_int_equal(n_ids, 0);
    free(ids);
    slc_tokenizer_close(t);
}

static void ignore_merges_takes_whole_pieces(void **state) {
    static const tiny_merge odd[] = {{"b", "c"}, {"a", "b"}, {"ab", "c"}};
    tiny_options o = {.merges = odd, .n_merges = 3, .added = "", .model = "", .missing = -1};
    slc_tokenizer *t = tiny_open(&o);

    CHECK(t, "abc", true, 'a', 256);
    slc_tokenizer_close(t);
    o.model = "\"ignore_merges\": true,";
    t = tiny_open(&o);
    CHECK(t, "abc", true, 258);
    CHECK(t, "abcx", true, 'a', 256, 'x');
    slc_tokenizer_close(t);
}

/* ---- long runs ---- */

static const slc_tokenizer *demo;

static void *encode_runs(void *arg) {
    static const char *const runs[] = {
        "A",          "\u0301", "\u0301\u0323", " ",    "\n",           "7",
        "\U0001f600", " \n",    "\u0928\u093f", "\xff", "<|im_start|>", "'"};
    const size_t bytes = (size_t)1 << 20;
    char *text = malloc(bytes);

    for (size_t r = 0; text && r < sizeof(runs) / sizeof(runs[0]); r++) {
        size_t len = strlen(runs[r]), n = bytes / len * len, n_ids;
        int32_t *ids;

        for (size_t i = 0; i < n; i++) text[i] = runs[r][i % len];
        if (slc_tokenizer_encode(demo, text, n, true, &ids, &n_ids, arg)) break;
        free(ids);
    }
    free(text);
    return NULL;
}

static void d04_megabyte_runs_need_no_stack(void **state) {
    slc_tokenizer *t;
    pthread_attr_t attr;
    pthread_t thread;
    slc_err err = {0};

    if (slc_tokenizer_open(SLC_SOURCE_DIR "/models/demo-moe/tokenizer.json", &t, &err))
        fail_msg("%s", err.msg);
    demo = t;
    pthread_attr_init(&attr);
    assert_int_equal(pthread_attr_setstacksize(&attr, 256 << 10), 0);
    assert_int_equal(pthread_create(&thread, &attr, encode_runs, &err), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    if (err.code) fail_msg("%s", err.msg);
    slc_tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_longest_added_token),
        cmocka_unit_test(knows_its_ids),
        cmocka_unit_test(d08_normalises_outside_raw_added_tokens),
        cmocka_unit_test(d10_invalid_bytes_are_their_own_tokens),
        cmocka_unit_test(d10_any_byte_string_round_trips),
        cmocka_unit_test(d14_a_vocabulary_may_lack_bytes_and_specials),
        cmocka_unit_test(empty_text_has_no_tokens),
        cmocka_unit_test(ignore_merges_takes_whole_pieces),
        cmocka_unit_test(d04_megabyte_runs_need_no_stack),
    };
    return cmocka_run_group_tests_name("text.tokenizer", tests, NULL, NULL);
}
