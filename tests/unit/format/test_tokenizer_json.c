/* The reader of tokenizer.json: every form it takes, what it refuses and how it says so, damaged
 * files, and the cost of a vocabulary of real size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/meminfo.h"
#include "format/tokenizer_json.h"
#include "support/temp.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEASURED_UNDER_SANITIZER 1
#elif defined(__has_feature)
#define MEASURED_UNDER_SANITIZER                                                                   \
    (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define MEASURED_UNDER_SANITIZER 0
#endif

#define BYTE_LEVEL   "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}"
#define VOCAB        "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"\\u0120\": 3, \"\\u0120a\": 4}"
#define MERGES       "\"merges\": [[\"a\", \"b\"], [\"\\u0120\", \"a\"]]"
#define MODEL        "\"model\": {\"type\": \"BPE\", " VOCAB ", " MERGES "}"
#define WITH(fields) "{" fields ", \"pre_tokenizer\": " BYTE_LEVEL ", " MODEL "}"
#define WITH_MODEL(fields)                                                                         \
    "{\"pre_tokenizer\": " BYTE_LEVEL ", \"model\": {\"type\": \"BPE\", " fields "}}"
#define WITH_PRE(json) "{\"pre_tokenizer\": " json ", " MODEL "}"
#define SPLIT(pattern, behavior)                                                                   \
    "{\"type\": \"Split\", \"pattern\": " pattern ", \"behavior\": " behavior "}"
#define SEQUENCE(parts) "{\"type\": \"Sequence\", \"pretokenizers\": [" parts "]}"

static void parse(const char *json, slc_tokenizer_json *t) {
    slc_err err = {0};

    if (slc_tokenizer_json_parse(json, strlen(json), "test.json", t, &err))
        fail_msg("%s\n%s", err.msg, json);
}

static void check_small_vocab(const char *json) {
    slc_tokenizer_json t;

    parse(json, &t);
    assert_int_equal(t.vocab.n_ids, 5);
    assert_int_equal(t.vocab.n_merges, 2);
    assert_int_equal(slc_vocab_rank(&t.vocab, 0, 1), 0);
    assert_int_equal(t.vocab.merged[0], 2);
    assert_int_equal(slc_vocab_rank(&t.vocab, 3, 0), 1);
    assert_int_equal(t.vocab.merged[1], 4);
    assert_int_equal(slc_vocab_rank(&t.vocab, 1, 0), UINT32_MAX);
    assert_int_equal(t.vocab.tokens[4].len, 2);
    assert_memory_equal(t.vocab.text + t.vocab.tokens[4].off, " a", 2);
    assert_int_equal(t.byte_id['a'], 0);
    assert_int_equal(t.byte_id[' '], 3);
    assert_int_equal(t.byte_id['c'], -1);
    slc_tokenizer_json_deinit(&t);
}

static void reads_merges_in_every_form_and_place(void **state) {
    check_small_vocab(WITH_MODEL(VOCAB ", " MERGES));
    check_small_vocab(WITH_MODEL(VOCAB ", \"merges\": [\"a b\", \"\\u0120 a\"]"));
    check_small_vocab(WITH_MODEL(MERGES ", " VOCAB));
    check_small_vocab(WITH_MODEL("\"merges\": [\"a b\", \"\\u0120 a\"], " VOCAB));
    check_small_vocab("{" MODEL ", \"pre_tokenizer\": " BYTE_LEVEL "}");
}

static void reads_the_settings(void **state) {
    slc_tokenizer_json t;

    parse(WITH("\"normalizer\": {\"type\": \"NFC\"}, \"decoder\": null, \"post_processor\": null, "
               "\"added_tokens\": null"),
          &t);
    assert_true(t.nfc);
    assert_null(t.split);
    assert_false(t.ignore_merges);
    slc_tokenizer_json_deinit(&t);

    parse(WITH("\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}]}"),
          &t);
    assert_true(t.nfc);
    slc_tokenizer_json_deinit(&t);

    parse(WITH_PRE(SEQUENCE(SPLIT("{\"Regex\": \"a|\\\\s\"}", "\"Isolated\"") ", " BYTE_LEVEL)),
          &t);
    assert_false(t.nfc);
    assert_string_equal(t.split, "a|\\s");
    slc_tokenizer_json_deinit(&t);

    parse(WITH_PRE("{\"type\": \"ByteLevel\", \"add_prefix_space\": false}"), &t);
    assert_non_null(strstr(t.split, "\\p{N}+"));
    slc_tokenizer_json_deinit(&t);

    parse(WITH_MODEL("\"ignore_merges\": true, \"dropout\": null, \"unk_token\": null, "
                     "\"continuing_subword_prefix\": \"\", \"byte_fallback\": false, "
                     "\"later\": {\"x\": [[[[[[[[[[1]]]]]]]]]]}, " VOCAB ", " MERGES),
          &t);
    assert_true(t.ignore_merges);
    assert_int_equal(slc_vocab_find(&t.vocab, "ab", 2), 2);
    slc_tokenizer_json_deinit(&t);
}

static void reads_added_tokens(void **state) {
    slc_tokenizer_json t;

    parse(WITH("\"added_tokens\": [{\"id\": 7, \"content\": \"<x y>\", \"special\": true, "
               "\"normalized\": false}, {\"content\": \"ab\", \"id\": 2, \"normalized\": true}, "
               "{\"id\": 9, \"content\": \"\"}]"),
          &t);
    assert_int_equal(t.n_added, 2);
    assert_int_equal(t.vocab.n_ids, 8);
    assert_int_equal(t.added[0].id, 7);
    assert_true(t.added[0].special && !t.added[0].normalized);
    assert_memory_equal(t.vocab.text + t.vocab.tokens[7].off, "<x y>", 5);
    assert_int_equal(t.added[1].id, 2);
    assert_true(!t.added[1].special && t.added[1].normalized);
    assert_int_equal(t.vocab.tokens[5].len, 0);
    slc_tokenizer_json_deinit(&t);
}

/* ---- refusals ---- */

static void check_refused(const char *json, slc_status code, const char *word) {
    slc_tokenizer_json t;
    slc_err err = {0};

    if (slc_tokenizer_json_parse(json, strlen(json), "test.json", &t, &err) != code)
        fail_msg("code %d (%s), expected %d: %s", err.code, err.msg, code, json);
    assert_int_equal(err.code, code);
    if (!strstr(err.msg, word)) fail_msg("\"%s\" should name \"%s\"", err.msg, word);
    if (!strstr(err.msg, "test.json")) fail_msg("\"%s\" should name the file", err.msg);
    assert_null(t.vocab.text);
    assert_int_equal(slc_tokenizer_json_parse(json, strlen(json), "test.json", &t, NULL), code);
}

static void refuses_by_name_what_would_change_ids(void **state) {
    static const char *const cases[][2] = {
        {WITH("\"normalizer\": {\"type\": \"NFKC\"}"), "NFKC"},
        {WITH("\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": "
              "\"Lowercase\"}]}"),
         "Lowercase"},
        {WITH("\"post_processor\": {\"type\": \"TemplateProcessing\"}"), "TemplateProcessing"},
        {WITH("\"decoder\": {\"type\": \"Metaspace\"}"), "Metaspace"},
        {WITH("\"added_tokens\": [{\"id\": 7, \"content\": \"x\", \"lstrip\": true}]"), "lstrip"},
        {WITH_PRE("{\"type\": \"Whitespace\"}"), "Whitespace"},
        {WITH_PRE("{\"type\": \"ByteLevel\", \"add_prefix_space\": true}"), "add_prefix_space"},
        {WITH_PRE("null"), "ByteLevel"},
        {WITH_PRE(SEQUENCE(SPLIT("{\"String\": \"a\"}", "\"Isolated\"") ", " BYTE_LEVEL)), "Regex"},
        {WITH_PRE(SEQUENCE(SPLIT("{\"Regex\": \"a\"}", "\"Removed\"") ", " BYTE_LEVEL)),
         "Isolated"},
        {WITH_PRE(SEQUENCE(SPLIT("{\"Regex\": \"a\"}", "\"Isolated\"") ", " SPLIT(
             "{\"Regex\": \"b\"}", "\"Isolated\"") ", " BYTE_LEVEL)),
         "Split after"},
        {WITH_PRE(
             SEQUENCE(SPLIT("{\"Regex\": \"a\"}", "\"Isolated\"") ", {\"type\": \"ByteLevel\"}")),
         "use_regex after a Split"},
        {WITH_PRE(SEQUENCE(BYTE_LEVEL ", " BYTE_LEVEL)), "two ByteLevel"},
        {WITH_PRE(SEQUENCE(SEQUENCE(BYTE_LEVEL))), "Sequence"},
        {WITH_MODEL("\"dropout\": 0.1, " VOCAB), "dropout"},
        {WITH_MODEL("\"continuing_subword_prefix\": \"##\", " VOCAB), "continuing_subword_prefix"},
        {WITH_MODEL("\"end_of_word_suffix\": \"</w>\", " VOCAB), "end_of_word_suffix"},
        {WITH_MODEL("\"unk_token\": \"a\", " VOCAB), "0x00"},
        {WITH_MODEL("\"byte_fallback\": true, " VOCAB), "0x00"},
        {"{\"pre_tokenizer\": " BYTE_LEVEL ", \"model\": {\"type\": \"Unigram\", \"vocab\": []}}",
         "BPE"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check_refused(cases[i][0], SLC_E_UNSUPPORTED, cases[i][1]);
}

static void reports_what_is_damaged(void **state) {
    static const char *const cases[][2] = {
        {"", "premature"},
        {"[]", "object"},
        {"{}", "model"},
        {"{\"model\": {\"vocab\": {\"a\": 0}} x}", "byte"},
        {WITH_MODEL("\"vocab\": {\"a\": 0, \"b\": 0}"), "given twice"},
        {WITH_MODEL("\"vocab\": {\"a\": 0, \"a\": 1}"), "same text"},
        {WITH_MODEL("\"vocab\": {\"a\": -1}"), "-1"},
        {WITH_MODEL("\"vocab\": {\"a\": 2097152}"), "2097152"},
        {WITH_MODEL("\"vocab\": {\"a\": 1.5}"), "integer"},
        {WITH_MODEL("\"vocab\": {\"a\": \"0\"}"), "integer"},
        {WITH_MODEL("\"vocab\": {\"a\": [0]}"), "integer"},
        {WITH_MODEL("\"vocab\": [\"a\"]"), "object"},
        {WITH_MODEL(VOCAB ", " VOCAB), "once"},
        {WITH_MODEL(MERGES ", " VOCAB ", " MERGES), "once"},
        {WITH_MODEL(VOCAB ", \"merges\": {\"a\": \"b\"}"), "array"},
        {WITH_MODEL(VOCAB ", \"merges\": [\"ab\"]"), "space"},
        {WITH_MODEL(VOCAB ", \"merges\": [\"a c\"]"), "\"c\""},
        {WITH_MODEL(VOCAB ", \"merges\": [\"b a\"]"), "1 and 0"},
        {WITH_MODEL(VOCAB ", \"merges\": [[\"a\"]]"), "two strings"},
        {WITH_MODEL(VOCAB ", \"merges\": [[\"a\", \"b\", \"b\"]]"), "two strings"},
        {WITH_MODEL(VOCAB ", \"merges\": [[[\"a\"], \"b\"]]"), "two strings"},
        {WITH_MODEL(VOCAB ", \"merges\": [5]"), "string"},
        {WITH_MODEL(VOCAB), "no merges"},
        {WITH_MODEL(VOCAB ", \"merges\": null"), "array"},
        {WITH_MODEL("\"vocab\": \"a\""), "object"},
        {WITH("\"normalizer\": \"Lowercase\""), "normalizer: expected an object"},
        {WITH("\"normalizer\": [{\"type\": \"NFC\"}]"), "normalizer: expected an object"},
        {"{\"model\": [{" VOCAB "}]}", "model: expected an object"},
        {WITH("\"added_tokens\": 7"), "added_tokens: expected an array"},
        {WITH("\"added_tokens\": {\"a\": {\"id\": 7}}"), "added_tokens: expected an array"},
        {WITH("\"added_tokens\": [7]"), "entry: expected an object"},
        {WITH("\"added_tokens\": [[7]]"), "entry: expected an object"},
        {WITH("\"added_tokens\": [{\"content\": \"x\"}]"), "id"},
        {WITH("\"added_tokens\": [{\"id\": \"7\", \"content\": \"x\"}]"), "id"},
        {WITH("\"added_tokens\": [{\"id\": 7, \"content\": \"ab\"}]"), "disagrees"},
        {WITH("\"added_tokens\": [{\"id\": 2, \"content\": \"<x>\"}]"), "disagrees"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check_refused(cases[i][0], SLC_E_FORMAT, cases[i][1]);
}

static void fails_cleanly_at_every_cut(void **state) {
    static const char json[] = WITH(
        "\"added_tokens\": [{\"id\": 7, \"content\": \"x\"}], \"normalizer\": {\"type\": \"NFC\"}");

    for (size_t n = 0; n < sizeof(json) - 1; n++) {
        char *part = malloc(n ? n : 1);
        slc_tokenizer_json t;

        assert_non_null(part);
        memcpy(part, json, n);
        assert_int_equal(slc_tokenizer_json_parse(part, n, "cut", &t, NULL), SLC_E_FORMAT);
        free(part);
    }
}

/* ---- cost ---- */

static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/* All words of one, two and three letters, as exporters write them: one item a line. */
static void write_words(FILE *f) {
    const size_t n = sizeof(letters) - 1;
    const char *s = letters;
    uint32_t id = 0;

    fprintf(f, "{\"pre_tokenizer\": " BYTE_LEVEL ",\n \"model\": {\n  \"vocab\": {");
    for (size_t a = 0; a < n; a++) fprintf(f, "%s\n   \"%c\": %u", a ? "," : "", s[a], id++);
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++) fprintf(f, ",\n   \"%c%c\": %u", s[a], s[b], id++);
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            for (size_t c = 0; c < n; c++)
                fprintf(f, ",\n   \"%c%c%c\": %u", s[a], s[b], s[c], id++);
    fprintf(f, "\n  },\n  \"merges\": [");
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            fprintf(f, "%s\n   [\n    \"%c\",\n    \"%c\"\n   ]", a + b ? "," : "", s[a], s[b]);
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            for (size_t c = 0; c < n; c++)
                fprintf(f, ",\n   [\n    \"%c%c\",\n    \"%c\"\n   ]", s[a], s[b], s[c]);
    fprintf(f, "\n  ]\n }\n}\n");
}

static void a_quarter_million_entries_load_fast_and_small(void **state) {
    char *dir = temp_dir(), *path = temp_path(dir, "tokenizer.json");
    FILE *f = fopen(path, "w");
    slc_side_text text;
    slc_tokenizer_json t;
    slc_mem_usage before, after;
    slc_err err = {0};
    clock_t cpu;

    assert_non_null(f);
    write_words(f);
    fclose(f);
    before = slc_mem_usage_get();
    cpu = clock();
    if (slc_side_text_open_file(path, &text, &err)) fail_msg("%s", err.msg);
    if (slc_tokenizer_json_read(&text, &t, &err)) fail_msg("%s", err.msg);
    slc_side_text_close(&text);
    cpu = clock() - cpu;
    after = slc_mem_usage_get();
    print_message("loaded in %ld ms; resident %lu KiB, %lu KiB at the peak\n",
                  cpu * 1000 / CLOCKS_PER_SEC, (after.rss_bytes - before.rss_bytes) >> 10,
                  (after.peak_rss_bytes - before.rss_bytes) >> 10);
    assert_int_equal(t.vocab.n_ids, 62 + 62 * 62 + 62 * 62 * 62);
    assert_int_equal(t.vocab.n_merges, 62 * 62 + 62 * 62 * 62);
    assert_int_equal(t.vocab.merged[slc_vocab_rank(&t.vocab, 61, 61)], 62 + 62 * 62 - 1);
#if !MEASURED_UNDER_SANITIZER
    assert_true(cpu * 2 < CLOCKS_PER_SEC);
    assert_true(after.peak_rss_bytes - after.rss_bytes < (uint64_t)3 << 20);
    assert_true(after.rss_bytes - before.rss_bytes < (uint64_t)10 << 20);
#endif
    slc_tokenizer_json_deinit(&t);
    free(path);
    temp_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quarter_million_entries_load_fast_and_small),
        cmocka_unit_test(reads_merges_in_every_form_and_place),
        cmocka_unit_test(reads_the_settings),
        cmocka_unit_test(reads_added_tokens),
        cmocka_unit_test(refuses_by_name_what_would_change_ids),
        cmocka_unit_test(reports_what_is_damaged),
        cmocka_unit_test(fails_cleanly_at_every_cut),
    };
    return cmocka_run_group_tests_name("format.tokenizer_json", tests, NULL, NULL);
}
