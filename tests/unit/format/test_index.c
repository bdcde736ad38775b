/* The shard index parser, on memory alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/index.h"

static slc_status parse(const char *json, slc_index *x, slc_err *err) {
    size_t n = strlen(json);
    char *copy = malloc(n ? n : 1);
    slc_status rc;

    memcpy(copy, json, n);
    *err = (slc_err){0};
    rc = slc_index_parse(copy, n, "i.json", x, err);
    free(copy);
    assert_int_equal(rc, err->code);
    return rc;
}

static void refuse(const char *json, slc_status code, const char *says) {
    slc_index x;
    slc_err err;

    if (parse(json, &x, &err) != code) fail_msg("%s: got %d (%s)", json, err.code, err.msg);
    if (!strstr(err.msg, says)) fail_msg("\"%s\" does not say \"%s\"", err.msg, says);
    assert_null(x.entries);
}

static void maps_tensors_to_files(void **state) {
    slc_index x;
    slc_err err;

    if (parse("{\"metadata\":{\"total_size\":123,\"other\":[{}]},\"more\":[1,{\"weight_map\":2}],"
              "\"weight_map\":{\"c\":\"2.safetensors\",\"a\":\"1.safetensors\","
              "\"b\":\"sub/2.safetensors\",\"d\":\"1.safetensors\"}}",
              &x, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(x.n, 4);
    assert_int_equal(x.n_files, 3);
    assert_int_equal(x.total_bytes, 123);
    assert_string_equal(x.files[slc_index_find(&x, "a")->file], "1.safetensors");
    assert_string_equal(x.files[slc_index_find(&x, "b")->file], "sub/2.safetensors");
    assert_string_equal(x.files[slc_index_find(&x, "c")->file], "2.safetensors");
    assert_int_equal(slc_index_find(&x, "d")->file, slc_index_find(&x, "a")->file);
    assert_null(slc_index_find(&x, "e"));
    slc_index_deinit(&x);
}

static void a_total_written_as_float_is_not_used(void **state) {
    slc_index x;
    slc_err err;

    if (parse("{\"metadata\":{\"total_size\":1.5e9},\"weight_map\":{\"a\":\"1.safetensors\"}}", &x,
              &err))
        fail_msg("%s", err.msg);
    assert_int_equal(x.total_bytes, 0);
    slc_index_deinit(&x);
}

static void a22_written_names_stay_inside_the_folder(void **state) {
    static const char *const bad[] = {"../../secret",
                                      "..",
                                      "../a.safetensors",
                                      "a/../../b.safetensors",
                                      "a/..",
                                      "/etc/a.safetensors",
                                      "/",
                                      ""};
    char json[200];

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        snprintf(json, sizeof(json), "{\"weight_map\":{\"w\":\"%s\"}}", bad[i]);
        refuse(json, SLC_E_FORMAT, "inside the folder");
    }
    refuse("{\"weight_map\":{\"w\":\"..a.bin\"}}", SLC_E_UNSUPPORTED, ".safetensors");
}

static void malformed_indexes_are_refused(void **state) {
    static const struct {
        const char *json, *says;
    } cases[] = {
        {"", ""},
        {"{}", "names no tensor"},
        {"{\"weight_map\":{}}", "names no tensor"},
        {"[]", "not a JSON object"},
        {"\"weight_map\"", "not a JSON object"},
        {"{\"weight_map\":[\"a\"]}", "weight_map is not an object"},
        {"{\"weight_map\":7}", "weight_map is not an object"},
        {"{\"weight_map\":{\"a\":7}}", "file of a is not a string"},
        {"{\"weight_map\":{\"a\":[\"1.safetensors\"]}}", "file of a is not a string"},
        {"{\"weight_map\":{\"a\":\"1.safetensors\",\"a\":\"1.safetensors\"}}", "a twice"},
        {"{\"weight_map\":{\"a\":\"1.safetensors\"},\"weight_map\":{}}", "appears twice"},
        {"{\"weight_map\":{\"\":\"1.safetensors\"}}", "name is empty"},
        {"{\"weight_map\":{\"a\":\"1\\u0000.safetensors\"}}", "NUL"},
        {"{\"weight_map\":{\"a\":\"1\\n.safetensors\"}}", "inside the folder"},
        {"{\"x\":[[[[[[[[[[]]]]]]]]]]}", "levels deep"},
        {"{\"weight_map\":{\"a\":\"1.safetensors\"}", "not valid JSON"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        refuse(cases[i].json, SLC_E_FORMAT, cases[i].says);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_tensors_to_files),
        cmocka_unit_test(a_total_written_as_float_is_not_used),
        cmocka_unit_test(a22_written_names_stay_inside_the_folder),
        cmocka_unit_test(malformed_indexes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
