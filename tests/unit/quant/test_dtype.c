/* Element types: half and bfloat16 conversions over all their values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "quant/dtype.h"

/* The value of a half by the definition: sign * 2^(e - 15) * 1.f, or sign * 2^-14 * 0.f. */
static double half_value(uint32_t h) {
    double sign = h & 0x8000 ? -1 : 1, fraction = (h & 0x3ff) / 1024.0;
    int exponent = (int)(h >> 10 & 31);

    if (exponent == 31) return fraction > 0 ? (double)NAN : sign * (double)INFINITY;
    return exponent ? sign * ldexp(1 + fraction, exponent - 15) : sign * ldexp(fraction, -14);
}

static void every_half_converts_exactly_and_back(void **state) {
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = slc_f32_from_f16((uint16_t)h);
        double want = half_value(h);

        if (isnan(want)) {
            assert_true(isnan(f));
            assert_int_equal(slc_f16_from_f32(f), h | 0x200); // quiet, payload and sign kept
            continue;
        }
        assert_true((double)f == want);
        assert_int_equal(slc_f16_from_f32(f), h);
    }
}

/* Between two neighbouring halves: below the middle down, above up, in the middle to even. */
static void halves_round_to_nearest_even(void **state) {
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double above_value = h + 1 == 0x7c00 ? 65536 : half_value(h + 1);
        float middle = (float)((half_value(h) + above_value) / 2); // exact: 12 bits
        uint32_t even = h & 1 ? h + 1 : h;

        assert_int_equal(slc_f16_from_f32(middle), even);
        assert_int_equal(slc_f16_from_f32(nextafterf(middle, 0)), h);
        assert_int_equal(slc_f16_from_f32(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(slc_f16_from_f32(-middle), even | 0x8000);
    }
    assert_int_equal(slc_f16_from_f32(3e38f), 0x7c00);
    assert_int_equal(slc_f16_from_f32(0x1p-149f), 0);
}

static void elements_load_from_any_byte(void **state) {
    const uint8_t bytes[] = {0xff, 0x00, 0x3c, 0x80, 0xbf, 0x00, 0x00, 0x20, 0x40};
    //                        ^ pad  f16 1.0     bf16 -1.0   f32 2.5

    assert_true(slc_load_f32(SLC_DTYPE_F16, bytes + 1, 0) == 1.0f);
    assert_true(slc_load_f32(SLC_DTYPE_BF16, bytes + 1, 1) == -1.0f);
    assert_true(slc_load_f32(SLC_DTYPE_F32, bytes + 1, 1) == 2.5f);
}

static void types_have_names_and_sizes(void **state) {
    assert_string_equal(slc_dtype_name(SLC_DTYPE_BF16), "BF16");
    assert_string_equal(slc_dtype_name((slc_dtype)99), "invalid");
    assert_int_equal(slc_dtype_bytes(SLC_DTYPE_F32), 4);
    assert_int_equal(slc_dtype_bytes(SLC_DTYPE_F16), 2);
    assert_int_equal(slc_dtype_bytes(SLC_DTYPE_U32), 4);
    assert_int_equal(slc_dtype_bytes(SLC_DTYPE_OTHER), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_converts_exactly_and_back),
        cmocka_unit_test(halves_round_to_nearest_even),
        cmocka_unit_test(elements_load_from_any_byte),
        cmocka_unit_test(types_have_names_and_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
