/* Mappings and the arena: alignment, and that everything taken is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <sys/mman.h>

#include "base/alloc.h"

/* Whether the page at p is mapped. */
static bool mapped(const uint8_t *p) {
    unsigned char resident;

    return mincore((void *)(uintptr_t)p, 4096, &resident) == 0;
}

static void mappings_are_aligned_zeroed_and_given_back(void **state) {
    static const size_t sizes[] = {1, 4096, 4097, 2u << 20, (2u << 20) + 1, (4u << 20) - 100};

    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t bytes = sizes[i / 2], last = (bytes - 1) & ~(size_t)4095;
        bool huge = i % 2;
        void *map;
        uint8_t *p;

        assert_int_equal(slc_map_alloc(bytes, huge, &map, NULL), SLC_OK);
        p = map;
        assert_int_equal((uintptr_t)p % (huge ? 2u << 20 : 4096), 0);
        assert_int_equal(slc_map_populate(p, bytes, NULL), SLC_OK);
        for (size_t at = 0; at < bytes; at += 511) assert_int_equal(p[at], 0);
        assert_true(mapped(p + last));
        slc_map_free(p, bytes);
        assert_false(mapped(p));
        assert_false(mapped(p + last));
    }
    slc_map_free(NULL, 0);
}

/* Everything around a huge mapping that was only there for its alignment is unmapped at once. */
static void alignment_costs_no_address_space(void **state) {
    enum { N = 64 };
    void *maps[N];
    unsigned long before, after;
    FILE *f;

    for (int pass = 0; pass < 2; pass++) { /* the first one warms up stdio */
        f = fopen("/proc/self/statm", "r");
        assert_int_equal(fscanf(f, "%lu", &before), 1);
        fclose(f);
        for (int i = 0; i < N; i++)
            assert_int_equal(slc_map_alloc(4096 * 3 + 5, true, &maps[i], NULL), SLC_OK);
        f = fopen("/proc/self/statm", "r");
        assert_int_equal(fscanf(f, "%lu", &after), 1);
        fclose(f);
        for (int i = 0; i < N; i++) slc_map_free(maps[i], 4096 * 3 + 5);
    }
    assert_int_equal(after - before, N * 4);
}

static void impossible_sizes_are_refused(void **state) {
    void *p;
    slc_err err = {0};

    assert_int_equal(slc_map_alloc(SIZE_MAX, true, &p, &err), SLC_E_NOMEM);
    assert_null(p);
    assert_int_equal(slc_map_alloc(SIZE_MAX - 4096, false, &p, NULL), SLC_E_NOMEM);
    assert_int_equal(slc_map_alloc(SIZE_MAX / 4, false, &p, NULL), SLC_E_NOMEM);
    assert_null(slc_realloc(NULL, SIZE_MAX / 2, 3));
}

static void an_arena_hands_out_what_it_measured(void **state) {
    slc_arena a = {0};
    uint8_t *first, *second;

    assert_null(slc_arena_take(&a, 3, 7));
    assert_null(slc_arena_take(&a, 0, 8));
    assert_null(slc_arena_take(&a, 65, 1));
    assert_int_equal(a.used, 64 + 128);
    assert_int_equal(slc_arena_alloc(&a, false, NULL), SLC_OK);
    first = slc_arena_take(&a, 3, 7);
    assert_ptr_equal(slc_arena_take(&a, 0, 8), first + 64);
    second = slc_arena_take(&a, 65, 1);
    assert_ptr_equal(second, first + 64);
    assert_int_equal((uintptr_t)first % SLC_SIMD_ALIGN, 0);
    assert_int_equal(a.used, a.cap);
    slc_arena_free(&a);
    assert_null(a.base);
    slc_arena_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mappings_are_aligned_zeroed_and_given_back),
        cmocka_unit_test(alignment_costs_no_address_space),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(an_arena_hands_out_what_it_measured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
