/* Token ids of the reference tokenizer: tests/data/tokenizer_vectors.txt, written by
 * tools/reference/tokenizer_vectors.py, and the prompts of models/demo-moe/golden.json. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "support/temp.h"
#include "text/tokenizer.h"

#define DEMO SLC_SOURCE_DIR "/models/demo-moe/"

static int open_demo(void **state) {
    slc_tokenizer *t;
    slc_err err = {0};

    if (slc_tokenizer_open(DEMO "tokenizer.json", &t, &err)) fail_msg("%s", err.msg);
    *state = t;
    return 0;
}

static int close_demo(void **state) {
    slc_tokenizer_close(*state);
    return 0;
}

static void check(const slc_tokenizer *t, const char *text, size_t n, const int32_t *want,
                  size_t n_want) {
    int32_t *ids;
    size_t n_ids;
    slc_err err = {0};

    if (slc_tokenizer_encode(t, text, n, true, &ids, &n_ids, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < n_ids && i < n_want; i++)
        if (ids[i] != want[i])
            fail_msg("\"%.*s\": id %zu is %d, expected %d", (int)n, text, i, ids[i], want[i]);
    assert_int_equal(n_ids, n_want);
    free(ids);
}

static void encodes_the_golden_prompts(void **state) {
    json_t *root = json_load_file(DEMO "golden.json", 0, NULL), *item;
    size_t i, k, n_cases = 0;

    assert_non_null(root);
    json_array_foreach(json_object_get(root, "cases"), i, item) {
        const json_t *prompt = json_object_get(item, "prompt"), *ids = json_object_get(item, "ids");
        size_t n = json_array_size(ids);
        int32_t *want = calloc(n, sizeof(*want));

        assert_non_null(want);
        for (k = 0; k < n; k++) want[k] = (int32_t)json_integer_value(json_array_get(ids, k));
        check(*state, json_string_value(prompt), json_string_length(prompt), want, n);
        free(want);
        n_cases++;
    }
    assert_true(n_cases > 0);
    json_decref(root);
}

static size_t parse_hex(const char *line, char *out) {
    size_t n = 0;
    unsigned byte;

    for (; sscanf(line, "%2x", &byte) == 1; line += 2) out[n++] = (char)byte;
    return n;
}

static size_t parse_ids(const char *line, int32_t *out) {
    size_t n = 0;
    char *end;

    for (long id; id = strtol(line, &end, 10), end != line; line = end) out[n++] = (int32_t)id;
    return n;
}

static void encodes_the_reference_vectors(void **state) {
    char *file = temp_read(SLC_SOURCE_DIR "/tests/data/tokenizer_vectors.txt", NULL), *rest = file;
    size_t n_vectors = 0;

    for (char *hex, *numbers; (hex = strsep(&rest, "\n")) && rest;) {
        char text[8192];
        int32_t want[8192];

        if (hex[0] == '#') continue;
        assert_true(strlen(hex) < 2 * sizeof(text));
        assert_non_null(numbers = strsep(&rest, "\n"));
        check(*state, text, parse_hex(hex, text), want, parse_ids(numbers, want));
        n_vectors++;
    }
    assert_true(n_vectors > 400);
    free(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_the_golden_prompts),
        cmocka_unit_test(encodes_the_reference_vectors),
    };
    return cmocka_run_group_tests_name("text.vectors", tests, open_demo, close_demo);
}
