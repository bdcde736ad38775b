/* The random bytes: the same from anywhere, different between streams, and random enough that
 * codes have mean zero and nothing compresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "convert/synth_noise.h"

#define N 200000u

static uint8_t *stream(uint64_t key, uint64_t off, size_t n) {
    uint8_t *p = malloc(n);

    assert_non_null(p);
    slc_noise_fill(key, off, p, n);
    return p;
}

static void any_stretch_has_the_same_bytes(void **state) {
    static const uint64_t at[] = {0, 1, 2, 3, 5, 4095, 16383, 16384, 16385, 65537, 99999};
    uint8_t *all = stream(7, 0, N);

    (void)state;
    for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++)
        for (size_t n = 0; n < 40000; n = n * 3 + 1) {
            uint8_t *some = stream(7, at[i], n + 1);

            assert_memory_equal(some, all + at[i], n + 1);
            free(some);
        }
    free(all);
}

static void bytes_are_those_of_every_machine(void **state) {
    static const uint8_t first[8] = {0x7c, 0x2f, 0x86, 0x9d, 0x1a, 0x6e, 0x4a, 0xe1};
    static const uint8_t far[8] = {0x98, 0xfe, 0x00, 0x69, 0x10, 0x74, 0xed, 0x89};
    uint8_t found[8];

    (void)state;
    slc_noise_fill(1, 0, found, 8);
    assert_memory_equal(found, first, 8);
    slc_noise_fill(1, UINT64_C(1) << 40, found, 8);
    assert_memory_equal(found, far, 8);
}

/* Chi-square of n values over 256 classes, as deviations from its mean. */
static double excess(const uint32_t count[256], double n) {
    double sum = 0;

    for (int i = 0; i < 256; i++) sum += (count[i] - n / 256) * (count[i] - n / 256) / (n / 256);
    return (sum - 255) / sqrt(2 * 255);
}

static void every_byte_is_as_likely_after_any_other(void **state) {
    uint8_t *p = stream(11, 12345, N);

    (void)state;
    for (uint32_t gap = 0; gap <= 4; gap++) { /* gap 0: single bytes; else differences */
        uint32_t count[256] = {0};

        for (uint32_t i = gap; i < N; i++) count[gap ? (uint8_t)(p[i] - p[i - gap]) : p[i]]++;
        if (fabs(excess(count, N - gap)) > 5) fail_msg("gap %u: %g", gap, excess(count, N - gap));
    }
    free(p);
}

static void streams_and_their_parts_differ(void **state) {
    static const uint32_t a[] = {1, 2}, b[] = {2, 1}, c[] = {1};
    uint64_t keys[] = {slc_noise_key(5, a, 2), slc_noise_key(5, b, 2), slc_noise_key(5, c, 1),
                       slc_noise_key(6, a, 2)};
    enum { n_keys = sizeof(keys) / sizeof(*keys) };
    uint8_t *p[n_keys];

    (void)state;
    for (int i = 0; i < n_keys; i++) p[i] = stream(keys[i], 0, N);
    for (int i = 0; i < n_keys; i++)
        for (int k = 0; k < i; k++) {
            uint32_t same = 0;

            for (uint32_t j = 0; j < N; j++) same += p[i][j] == p[k][j];
            assert_in_range(same, N / 256 - 150, N / 256 + 150); /* five deviations */
        }
    assert_memory_not_equal(p[0], p[0] + 16384, 16384); /* blocks of one stream */
    for (int i = 0; i < n_keys; i++) free(p[i]);
}

static void picks_follow_the_bytes(void **state) {
    uint8_t *p = stream(3, 0, N), *out16 = malloc(2 * N + 1), *out32 = malloc(4 * N + 1);
    uint16_t table16[256], found16;
    uint32_t table32[256], found32;

    (void)state;
    assert_true(out16 && out32);
    for (uint32_t i = 0; i < 256; i++) table16[i] = (uint16_t)(i * 257), table32[i] = i * 16909;
    slc_noise_pick16(3, 9, table16, out16 + 1, N - 9); /* unaligned on purpose */
    slc_noise_pick32(3, 9, table32, out32 + 1, N - 9);
    for (uint32_t i = 9; i < N; i++) {
        memcpy(&found16, out16 + 1 + 2 * (i - 9), 2);
        memcpy(&found32, out32 + 1 + 4 * (i - 9), 4);
        assert_int_equal(found16, table16[p[i]]);
        assert_int_equal(found32, table32[p[i]]);
    }
    free(p);
    free(out16);
    free(out32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_stretch_has_the_same_bytes),
        cmocka_unit_test(bytes_are_those_of_every_machine),
        cmocka_unit_test(every_byte_is_as_likely_after_any_other),
        cmocka_unit_test(streams_and_their_parts_differ),
        cmocka_unit_test(picks_follow_the_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
