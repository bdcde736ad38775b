/* Our exp, log, sin, cos and softplus against libm in higher precision. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/scalar_math.h"

static double ulp_of(double x) { // of a float with this magnitude
    int exponent;

    frexp(x, &exponent);
    return ldexp(1, exponent - 24);
}

static void expf_is_within_an_ulp(void **state) {
    double worst = 0;

    for (uint32_t u = 0; u < 0x43000000; u += 997) { // 0 to 128, and the negatives
        for (int sign = 0; sign < 2; sign++) {
            float x = slc_f32_from_bits(u | (uint32_t)sign << 31);

            if (x > SLC_EXPF_MAX || x < SLC_EXPF_MIN) continue;

            double want = exp((double)x), error = fabs((double)slc_expf(x) - want) / ulp_of(want);

            if (error > worst) worst = error;
        }
    }
    assert_true(worst < 0.9);
}

static void expf_follows_its_rules_at_the_ends(void **state) {
    float below_max = slc_expf(SLC_EXPF_MAX), at_min = slc_expf(SLC_EXPF_MIN);

    assert_true(isfinite(below_max) && below_max > 3.4e38f);
    assert_true(isinf(slc_expf(nextafterf(SLC_EXPF_MAX, INFINITY))));
    assert_true(at_min >= 0x1p-126f && at_min < 0x1.001p-126f);
    assert_true(slc_expf(nextafterf(SLC_EXPF_MIN, -INFINITY)) == 0);
    assert_true(isinf(slc_expf(INFINITY)) && slc_expf(-INFINITY) == 0);
    assert_true(isnan(slc_expf(NAN)) && isnan(slc_expf(-NAN)));
    assert_true(slc_expf(0) == 1 && slc_expf(-0.0f) == 1);
}

static void expf_never_falls(void **state) { // around every change of n, where the reduction steps
    for (int n = -125; n < 128; n++) {
        float x = ((float)n + 0.5f) * 0.69314718f;

        x = slc_f32_from_bits(slc_f32_bits(x) - 64);
        for (int i = 0; i < 128; i++) {
            float up = slc_f32_from_bits(slc_f32_bits(x) + 1);
            float low = x < up ? x : up, high = x < up ? up : x;

            assert_true(slc_expf(low) <= slc_expf(high) * 1.0000002f);
            x = up;
        }
    }
}

static void sigmoid_and_silu_have_their_limits(void **state) {
    assert_true(slc_sigmoidf(0) == 0.5f && slc_sigmoidf(200) == 1 && slc_sigmoidf(-200) == 0);
    assert_true(slc_siluf(0) == 0 && slc_siluf(200) == 200 && slc_siluf(-200) == 0);
}

static void double_exp_and_log_are_good_to_1e_15(void **state) {
    for (int i = 0; i < 400000; i++) {
        double x = -708 + i * (1417.0 / 400000), want = exp(x), y = exp(x / 3);

        assert_true(fabs(slc_exp(x) - want) <= 1e-15 * want);
        assert_true(fabs(slc_ln(y) - log(y)) <= 1e-15 * fabs(log(y)));
        y = 1 + (x - 0.1) * 1e-5; // near 1, where the logarithm is small
        assert_true(fabs(slc_ln(y) - log(y)) <= 1e-15 * fabs(log(y)));
    }
    assert_true(isinf(slc_exp(710)) && slc_exp(-709) == 0 && isnan(slc_exp((double)NAN)));
    assert_true(isfinite(slc_exp(709.78)) && slc_exp(0) == 1);
    assert_true(isinf(slc_ln(0)) && isnan(slc_ln(-1)) && isnan(slc_ln((double)NAN)));
    assert_true(isinf(slc_ln((double)INFINITY)) && slc_ln(1) == 0);
}

static void pow_gives_rope_frequencies(void **state) {
    static const double want[] = {1, 0.60429639, 0.365174127, 0.220673407};

    for (int i = 0; i < 4; i++) assert_true(fabs(slc_pow(1e7, -2.0 * i / 64) - want[i]) < 1e-8);
    for (int i = 0; i < 32; i++) {
        double exact = pow(1e7, -2.0 * i / 64);

        assert_true(fabs(slc_pow(1e7, -2.0 * i / 64) - exact) <= 1e-14 * exact);
    }
}

static void sincos_is_good_to_1e_11_up_to_a_million(void **state) {
    for (int i = 0; i < 1000000; i++) {
        double x = (i - 500000) * (2.0 + 1.0 / 977), s, c;

        slc_sincos(x, &s, &c);
        assert_true(fabs(s - sin(x)) < 2e-15 && fabs(c - cos(x)) < 2e-15);
    }
    for (int q = -8; q <= 8; q++) { // quadrant borders and axes
        double s, c;

        slc_sincos(q * 0.78539816339744831, &s, &c);
        assert_true(fabs(s - sin(q * 0.78539816339744831)) < 1e-15);
        assert_true(fabs(c - cos(q * 0.78539816339744831)) < 1e-15);
    }
}

static void sincos_refuses_what_it_cannot_reduce(void **state) {
    static const double bad[] = {1e300, -0x1.1p30, (double)INFINITY, (double)NAN};

    for (int i = 0; i < 4; i++) {
        double s = 0, c = 0;

        slc_sincos(bad[i], &s, &c);
        assert_true(isnan(s) && isnan(c));
    }
}

static void softplus_is_correct_to_an_ulp(void **state) {
    for (uint32_t u = 0; u < 0x43200000; u += 1009) {
        for (int sign = 0; sign < 2; sign++) {
            float x = slc_f32_from_bits(u | (uint32_t)sign << 31);
            double want = log1p(exp((double)x)), got = (double)slc_softplusf(x);

            assert_true(fabs(got - want) <= 0.51 * ulp_of(want) || want < 0x1p-126);
        }
    }
    assert_true(slc_softplusf(1000) == 1000 && slc_softplusf(-1000) == 0);
    assert_true(isnan(slc_softplusf(NAN)) && isinf(slc_softplusf(INFINITY)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expf_is_within_an_ulp),
        cmocka_unit_test(expf_follows_its_rules_at_the_ends),
        cmocka_unit_test(expf_never_falls),
        cmocka_unit_test(sigmoid_and_silu_have_their_limits),
        cmocka_unit_test(double_exp_and_log_are_good_to_1e_15),
        cmocka_unit_test(pow_gives_rope_frequencies),
        cmocka_unit_test(sincos_is_good_to_1e_11_up_to_a_million),
        cmocka_unit_test(sincos_refuses_what_it_cannot_reduce),
        cmocka_unit_test(softplus_is_correct_to_an_ulp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
