/* Error records: the first error wins, messages fit, NULL is fine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/fail.h"

static void the_first_error_wins(void **state) {
    slc_err err = {0};

    assert_int_equal(slc_fail(&err, SLC_E_FORMAT, "first %d", 1), SLC_E_FORMAT);
    assert_int_equal(slc_fail(&err, SLC_E_IO, "second"), SLC_E_IO);
    assert_int_equal(slc_fail_errno(&err, ENOENT, "third"), SLC_E_IO);
    assert_int_equal(err.code, SLC_E_FORMAT);
    assert_int_equal(err.sys_errno, 0);
    assert_string_equal(err.msg, "first 1");
    assert_int_equal(slc_fail_context(&err, "file %s", "x"), SLC_E_FORMAT);
    assert_string_equal(err.msg, "file x: first 1");
}

static void an_errno_is_kept_and_named(void **state) {
    slc_err err = {0};

    assert_int_equal(slc_fail_errno(&err, ENOENT, "x: cannot open"), SLC_E_IO);
    assert_int_equal(err.sys_errno, ENOENT);
    assert_string_equal(err.msg, "x: cannot open: No such file or directory");
    err = (slc_err){0};
    assert_int_equal(slc_fail_errno(&err, ENOMEM, "y"), SLC_E_NOMEM);
}

static void long_messages_are_cut(void **state) {
    char text[2000];
    slc_err err = {0};

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    slc_fail_errno(&err, ENOENT, "%s", text);
    assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
    slc_fail_context(&err, "%s", text);
    assert_true(strlen(err.msg) < sizeof(err.msg));
    err = (slc_err){0};
    slc_fail(&err, SLC_E_IO, "the reason");
    slc_fail_context(&err, "%s", text);
    assert_non_null(strstr(err.msg, ": the reason"));
}

static void nobody_need_listen(void **state) {
    assert_int_equal(slc_fail(NULL, SLC_E_BUSY, "x"), SLC_E_BUSY);
    assert_int_equal(slc_fail_errno(NULL, EIO, "x"), SLC_E_IO);
    assert_int_equal(slc_fail_context(NULL, "x"), SLC_OK);
    for (int s = 0; s >= -8; s--)
        assert_string_not_equal(slc_status_str((slc_status)s), "unknown status");
    assert_string_equal(slc_status_str((slc_status)-9), "unknown status");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(an_errno_is_kept_and_named),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(nobody_need_listen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
