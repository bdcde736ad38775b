/* The safetensors header parser, on memory alone: what it takes, what it refuses, what it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/safetensors.h"

/* Parses a header as that of a file with `data` bytes behind it; the text lies in a block of its
 * exact size, so that a sanitizer sees every byte too far. */
static slc_status parse_bytes(const char *json, size_t n, uint64_t data, slc_tensor_table *t,
                              slc_err *err) {
    char *copy = malloc(n ? n : 1);
    slc_status rc;

    memcpy(copy, json, n);
    *err = (slc_err){0};
    rc = slc_safetensors_parse(copy, n, 8 + n + data, "a.safetensors", t, err);
    free(copy);
    assert_int_equal(rc, err->code);
    return rc;
}

static void accept(const char *json, uint64_t data, slc_tensor_table *t) {
    slc_err err;

    if (parse_bytes(json, strlen(json), data, t, &err)) fail_msg("%s: %s", json, err.msg);
}

static void refuse(const char *json, uint64_t data, slc_status code, const char *says) {
    slc_tensor_table t;
    slc_err err;

    if (parse_bytes(json, strlen(json), data, &t, &err) != code)
        fail_msg("%s: got %d (%s), expected %d", json, err.code, err.msg, code);
    if (!strstr(err.msg, says)) fail_msg("\"%s\" does not say \"%s\"", err.msg, says);
    if (!strstr(err.msg, "a.safetensors")) fail_msg("\"%s\" does not name the file", err.msg);
    assert_null(t.tensors);
}

/* ---- what is accepted ---- */

static void table_is_sorted_and_absolute(void **state) {
    static const char json[] = "{\"__metadata__\":{\"format\":\"pt\",\"x\":\"\\u0041\\n\"},"
                               "\"b\":{\"data_offsets\":[8,20],\"shape\":[2,3],\"dtype\":\"BF16\"},"
                               "\"a\":{\"dtype\":\"U32\",\"shape\":[2],\"data_offsets\":[0,8]}}   ";
    slc_tensor_table t;

    accept(json, 20, &t);
    assert_int_equal(t.n, 2);
    assert_string_equal(t.tensors[0].name, "a");
    assert_int_equal(t.tensors[0].dtype, SLC_DTYPE_U32);
    assert_int_equal(t.tensors[0].off, 8 + strlen(json));
    assert_string_equal(t.tensors[1].name, "b");
    assert_int_equal(t.tensors[1].off, 8 + strlen(json) + 8);
    assert_int_equal(t.tensors[1].bytes, 12);
    assert_int_equal(t.tensors[1].n_dims, 2);
    assert_int_equal(t.tensors[1].dims[1], 3);
    assert_string_equal(t.tensors[1].dtype_text, "BF16");
    slc_tensor_table_deinit(&t);
}

static void every_standard_dtype_has_its_size(void **state) {
    static const struct {
        const char *dtype;
        uint32_t bits;
    } cases[] = {{"F64", 64},    {"F32", 32},    {"F16", 16},    {"BF16", 16},   {"I64", 64},
                 {"I32", 32},    {"I16", 16},    {"I8", 8},      {"U64", 64},    {"U32", 32},
                 {"U16", 16},    {"U8", 8},      {"BOOL", 8},    {"C64", 64},    {"F8_E4M3", 8},
                 {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};
    slc_tensor_table t;
    char json[200];

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint32_t bytes = 3 * 8 * cases[i].bits / 8;

        snprintf(json, sizeof(json),
                 "{\"a\":{\"dtype\":\"%s\",\"shape\":[3,8],\"data_offsets\":[0,%u]}}",
                 cases[i].dtype, bytes);
        accept(json, bytes, &t);
        assert_int_equal(t.tensors[0].bytes, bytes);
        slc_tensor_table_deinit(&t);
        snprintf(json, sizeof(json),
                 "{\"a\":{\"dtype\":\"%s\",\"shape\":[3,8],\"data_offsets\":[0,%u]}}",
                 cases[i].dtype, bytes + 1);
        refuse(json, bytes + 1, SLC_E_FORMAT, "shape and dtype need");
    }
    refuse("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, SLC_E_FORMAT,
           "whole number");
    refuse("{\"a\":{\"dtype\":\"Q5_K\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1,
           SLC_E_UNSUPPORTED, "Q5_K");
}

static void scalars_gaps_and_trailing_bytes_are_allowed(void **state) {
    slc_tensor_table t;

    accept("{\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[3,7]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[9,11]}}",
           50, &t);
    assert_int_equal(t.n, 2);
    assert_int_equal(t.tensors[0].n_dims, 0);
    slc_tensor_table_deinit(&t);
    accept("{}", 0, &t);
    assert_int_equal(t.n, 0);
    slc_tensor_table_deinit(&t);
}

/* ---- reports ---- */

static void a01_truncated_file_names_tensor_and_both_sizes(void **state) {
    static const char json[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}";
    slc_tensor_table t;

    refuse(json, 15, SLC_E_FORMAT, "tensor w needs 16 bytes of data, 15 are present");
    refuse(json, 0, SLC_E_FORMAT, "tensor w needs 16 bytes of data, 0 are present");
    accept(json, 16, &t);
    slc_tensor_table_deinit(&t);
}

static void a07_range_must_fit_shape_and_file(void **state) {
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1000,1000],\"data_offsets\":[0,4]}}", 4,
           SLC_E_FORMAT, "need 4000000 bytes, data_offsets span 4");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,4]}}", 16, SLC_E_FORMAT,
           "rising");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", 7, SLC_E_FORMAT,
           "cut short");
    /* products that wrap to a small number */
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 7,
           SLC_E_FORMAT, "whole number");
    refuse("{\"a\":{\"dtype\":\"F64\",\"shape\":[1152921504606846976],\"data_offsets\":[0,0]}}", 7,
           SLC_E_FORMAT, "whole number");
    /* begin and end near 2^64 */
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
           "\"data_offsets\":[18446744073709551614,18446744073709551615]}}",
           100, SLC_E_FORMAT, "cut short");
}

static void a09_overlaps_are_refused_in_any_order(void **state) {
    static const char *const bad[] = {
        "{\"k\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
        "\"v\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
        "{\"k\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[4,12]},"
        "\"v\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
        /* one inside another that starts earlier, with an empty one between them */
        "{\"k\":{\"dtype\":\"U8\",\"shape\":[16],\"data_offsets\":[0,16]},"
        "\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]},"
        "\"v\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[3,4]}}",
    };
    slc_tensor_table t;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        refuse(bad[i], 16, SLC_E_FORMAT, "overlap");
    accept("{\"v\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,16]},"
           "\"k\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
           16, &t);
    assert_string_equal(t.tensors[0].name, "k");
    slc_tensor_table_deinit(&t);
}

static void a10_header_length_is_bounded_before_use(void **state) {
    static const struct {
        uint64_t claimed, file;
        bool ok;
    } cases[] = {
        {1ull << 63, 1000, false},
        {UINT64_MAX, 1000, false},
        {UINT64_MAX - 7, 1000, false}, /* wraps to 0 when 8 is added */
        {0, 1000, false},
        {1, 1000, false},
        {1000, 1000, false},
        {993, 1000, false},
        {992, 1000, true},
        {7, 1000, true}, /* the parser refuses what 7 bytes hold */
        {2, 10, true},
        {0, 8, false},
        {2, 7, false},
        {2, 0, false},
        {(uint64_t)SLC_SAFETENSORS_MAX_HEADER + 1, 1ull << 40, false},
        {SLC_SAFETENSORS_MAX_HEADER, 1ull << 40, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint8_t head[8];
        uint64_t n = 0;
        slc_err err = {0};
        slc_status rc;

        for (int b = 0; b < 8; b++) head[b] = (uint8_t)(cases[i].claimed >> (8 * b));
        rc = slc_safetensors_header_bytes(head, cases[i].file, "a.safetensors", &n, &err);
        if (rc != (cases[i].ok ? SLC_OK : SLC_E_FORMAT)) fail_msg("case %zu: %s", i, err.msg);
        if (cases[i].ok)
            assert_int_equal(n, cases[i].claimed);
        else
            assert_non_null(strstr(err.msg, "a.safetensors"));
    }
    refuse("{\"a\":1", 0, SLC_E_FORMAT, "");
}

static void a12_numbers_are_plain_integers(void **state) {
    static const char *const bad[] = {
        "[-4,4]",    "[8,4]",   "[0,1e30]", "[0.5,4]",
        "[0,4.0]",   "[0,4e0]", "[-0,4]",   "[0,18446744073709551620]",
        "[0]",       "[0,4,4]", "[]",       "[null,4]",
        "[\"0\",4]", "[[0],4]", "{}",       "4"};
    char json[200];

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        snprintf(json, sizeof(json), "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":%s}}",
                 bad[i]);
        refuse(json, 16, SLC_E_FORMAT, "tensor a");
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        if (!strcmp(bad[i], "[]") || !strcmp(bad[i], "[0]")) continue; /* a legal shape */
        snprintf(json, sizeof(json),
                 "{\"a\":{\"dtype\":\"U8\",\"shape\":%s,\"data_offsets\":[0,7]}}", bad[i]);
        refuse(json, 16, SLC_E_FORMAT, "tensor a");
    }
}

static void a13_empty_tensors_are_legal_and_only_they(void **state) {
    slc_tensor_table t;

    accept("{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
           "\"b\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[4,4]},"
           "\"c\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808,9223372036854775808,0],"
           "\"data_offsets\":[0,0]},"
           "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
           8, &t);
    assert_int_equal(t.n, 4);
    slc_tensor_table_deinit(&t);
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,0]}}", 8, SLC_E_FORMAT,
           "need 4 bytes");
    refuse("{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,4]}}", 8, SLC_E_FORMAT,
           "need 0 bytes");
}

static void a14_counts_are_checked_in_release_builds(void **state) {
    slc_tensor_table t;

    accept("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, &t);
    slc_tensor_table_deinit(&t);
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
           SLC_E_FORMAT, "more than 8 dimensions");
}

/* ---- shape of the text ---- */

static void malformed_headers_are_refused(void **state) {
    static const struct {
        const char *json, *says;
    } cases[] = {
        {"", ""},
        {"[]", "not a JSON object"},
        {"{}{}", "not valid JSON"},
        {"{\"a\":[]}", "entry of a is not an object"},
        {"{\"a\":{}}", "no dtype"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", "no data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", "twice"},
        {"{\"a\":{\"dtype\":\"U8\",\"stride\":[1]}}", "unknown field \"stride\""},
        {"{\"a\":{\"dtype\":[\"U8\"]}}", "dtype is not a string"},
        {"{\"a\":{\"shape\":\"1\"}}", "shape is not a list"},
        {"{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "name is empty"},
        {"{\"a\\u0000b\":{}}", "NUL"},
        {"{\"a\\u001b[2J\":{}}", "control"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]}}",
         "tensor a appears twice"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", "__metadata__ appears twice"},
        {"{\"__metadata__\":{\"a\":[[[[[[[[[1]]]]]]]]]}}", "levels deep"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},}", "not valid JSON"},
        {"{\"a\xff\":{}}", "not valid JSON"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        refuse(cases[i].json, 100, SLC_E_FORMAT, cases[i].says);
}

static void every_prefix_of_a_header_is_refused(void **state) {
    static const char json[] = "{\"__metadata__\":{\"f\":\"\\ud83d\\ude00\"},"
                               "\"a\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
                               "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[12,12]}}";

    for (size_t n = 0; n < sizeof(json) - 1; n++) {
        slc_tensor_table t;
        slc_err err;

        if (parse_bytes(json, n, 64, &t, &err) != SLC_E_FORMAT)
            fail_msg("prefix of %zu bytes was taken", n);
    }
}

static void a_header_longer_than_the_file_is_refused(void **state) {
    slc_tensor_table t;
    slc_err err = {0};

    assert_int_equal(slc_safetensors_parse("{}", 2, 9, "a.safetensors", &t, &err), SLC_E_FORMAT);
    err = (slc_err){0};
    assert_int_equal(slc_safetensors_parse("{}", 2, 0, "a.safetensors", &t, &err), SLC_E_FORMAT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_sorted_and_absolute),
        cmocka_unit_test(every_standard_dtype_has_its_size),
        cmocka_unit_test(scalars_gaps_and_trailing_bytes_are_allowed),
        cmocka_unit_test(a01_truncated_file_names_tensor_and_both_sizes),
        cmocka_unit_test(a07_range_must_fit_shape_and_file),
        cmocka_unit_test(a09_overlaps_are_refused_in_any_order),
        cmocka_unit_test(a10_header_length_is_bounded_before_use),
        cmocka_unit_test(a12_numbers_are_plain_integers),
        cmocka_unit_test(a13_empty_tensors_are_legal_and_only_they),
        cmocka_unit_test(a14_counts_are_checked_in_release_builds),
        cmocka_unit_test(malformed_headers_are_refused),
        cmocka_unit_test(every_prefix_of_a_header_is_refused),
        cmocka_unit_test(a_header_longer_than_the_file_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
