/* The streaming detokenizer: however bytes are cut into tokens, the text is what Python's
 * bytes.decode("utf-8", errors="replace") makes of them all. tests/data/utf8_replace.txt comes from
 * tools/reference/tokenizer_vectors.py --utf8. */
#include "unit/text/tiny_tokenizer.h"

static size_t decode(const slc_tokenizer *t, const int32_t *ids, size_t n, bool skip, char *out) {
    slc_detok d = {0};
    size_t n_out = 0;

    for (size_t i = 0; i < n; i++) {
        size_t more = slc_detok_push(&d, t, ids[i], skip, out + n_out);

        assert_true(more <= slc_detok_max_bytes(t));
        n_out += more;
    }
    return n_out + slc_detok_finish(&d, out + n_out);
}

/* All cuts of an emoji into tokens: 1+3, 2+2, 3+1, 1+1+1+1, ... */
static const tiny_merge emoji_merges[] = {{"\xf0", "\x9f"},
                                          {"\xf0\x9f", "\x98"},
                                          {"\x98", "\x80"},
                                          {"\x9f", "\x98"},
                                          {"\x9f\x98", "\x80"}};
static const tiny_options emoji = {.merges = emoji_merges,
                                   .n_merges = 5,
                                   .added =
                                       "{\"id\": 300, \"content\": \"<s>\", \"special\": true}",
                                   .model = "",
                                   .missing = -1};

static void d02_emoji_in_every_cut(void **state) {
    static const int32_t cuts[][4] = {
        {0xf0, 0x9f, 0x98, 0x80}, {256, 258},        {257, 0x80},      {0xf0, 260},
        {256, 0x98, 0x80},        {0xf0, 0x9f, 258}, {0xf0, 259, 0x80}};
    static const size_t lengths[] = {4, 2, 2, 2, 3, 3, 3};
    slc_tokenizer *t = tiny_open(&emoji);
    char out[256];

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        assert_int_equal(decode(t, cuts[i], lengths[i], true, out), 4);
        assert_memory_equal(out, "\U0001f600", 4);
    }
    slc_tokenizer_close(t);
}

static void gives_out_characters_as_soon_as_they_are_whole(void **state) {
    slc_tokenizer *t = tiny_open(&emoji);
    slc_detok d = {0};
    char out[64];

    assert_int_equal(slc_detok_push(&d, t, 'a', true, out), 1);
    assert_int_equal(slc_detok_push(&d, t, 256, true, out), 0);
    assert_int_equal(slc_detok_push(&d, t, 0x98, true, out), 0);
    assert_int_equal(slc_detok_push(&d, t, 0x80, true, out), 4);
    assert_int_equal(slc_detok_push(&d, t, 256, true, out), 0);
    assert_int_equal(slc_detok_push(&d, t, 'b', true, out), 4);
    assert_memory_equal(out,
                        "\ufffd"
                        "b",
                        4);
    assert_int_equal(slc_detok_finish(&d, out), 0);
    assert_int_equal(slc_detok_push(&d, t, 257, true, out), 0);
    assert_int_equal(slc_detok_finish(&d, out), 3);
    assert_memory_equal(out, "\ufffd", 3);
    assert_int_equal(slc_detok_finish(&d, out), 0);
    slc_tokenizer_close(t);
}

static void special_tokens_can_be_shown_or_not(void **state) {
    static const int32_t ids[] = {'a', 256, 300, 258, 300};
    slc_tokenizer *t = tiny_open(&emoji);
    char out[256];
    size_t n = decode(t, ids, 5, true, out);

    assert_int_equal(n, 5);
    assert_memory_equal(out, "a\U0001f600", 5);
    n = decode(t, ids, 5, false, out);
    assert_int_equal(n, 1 + 3 + 3 + 3 + 3 + 3);
    assert_memory_equal(out, "a\ufffd<s>\ufffd\ufffd<s>", n);
    slc_tokenizer_close(t);
}

static size_t parse_hex(const char *line, char *out) {
    size_t n = 0;
    unsigned byte;

    for (; sscanf(line, "%2x", &byte) == 1; line += 2) out[n++] = (char)byte;
    return n;
}

/* Cuts bytes into ids at random: the longest token that fits, or a single byte. */
static size_t cut(const slc_tokenizer *t, const char *s, size_t n, uint64_t *random, int32_t *ids) {
    size_t n_ids = 0;

    for (size_t i = 0; i < n; n_ids++) {
        int32_t id = (uint8_t)s[i];
        size_t len = 1;

        *random = *random * 6364136223846793005u + 1442695040888963407u;
        for (int32_t longer = 256; *random >> 63 && longer < 261; longer++) {
            size_t want;
            const char *text = slc_tokenizer_bytes(t, longer, &want);

            if (want <= n - i && want > len && memcmp(text, s + i, want) == 0) {
                id = longer;
                len = want;
            }
        }
        ids[n_ids] = id;
        i += len;
    }
    return n_ids;
}

static void replaces_as_python_does(void **state) {
    char *file = temp_read(SLC_SOURCE_DIR "/tests/data/utf8_replace.txt", NULL), *rest = file;
    slc_tokenizer *t = tiny_open(&emoji);
    uint64_t random = 5;
    size_t n_vectors = 0;

    for (char *hex, *want_hex; (hex = strsep(&rest, "\n")) && rest;) {
        char bytes[256], want[1024], out[1024];
        int32_t ids[256];
        size_t n, n_want;

        if (hex[0] == '#') continue;
        assert_non_null(want_hex = strsep(&rest, "\n"));
        assert_true(strlen(hex) <= 2 * sizeof(bytes) && strlen(want_hex) <= 2 * sizeof(want));
        n = parse_hex(hex, bytes);
        n_want = parse_hex(want_hex, want);
        for (int round = 0; round < 8; round++) {
            assert_int_equal(decode(t, ids, cut(t, bytes, n, &random, ids), true, out), n_want);
            assert_memory_equal(out, want, n_want);
        }
        n_vectors++;
    }
    assert_true(n_vectors > 1000);
    slc_tokenizer_close(t);
    free(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(d02_emoji_in_every_cut),
        cmocka_unit_test(gives_out_characters_as_soon_as_they_are_whole),
        cmocka_unit_test(special_tokens_can_be_shown_or_not),
        cmocka_unit_test(replaces_as_python_does),
    };
    return cmocka_run_group_tests_name("text.detok", tests, NULL, NULL);
}
