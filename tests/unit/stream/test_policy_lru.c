/* The LRU policy against a plain list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "stream/policy.h"
#include "support/faults.h"

#define N 5u

typedef struct plain {
    uint32_t at[N], n; /* oldest first */
} plain;

static void plain_remove(plain *p, uint32_t slot) {
    uint32_t i = 0;

    while (p->at[i] != slot) i++;
    memmove(p->at + i, p->at + i + 1, (--p->n - i) * sizeof(*p->at));
}

static void *make(slc_arena *arena) {
    const slc_policy_shape shape = {.n_slots = N, .n_layers = 10, .n_experts = 10};

    assert_null(slc_policy_lru.take(arena, &shape));
    assert_int_equal(slc_arena_alloc(arena, false, NULL), SLC_OK);
    return slc_policy_lru.take(arena, &shape);
}

static void victim_is_the_least_recently_added(void **state) {
    const slc_policy *lru = &slc_policy_lru;
    slc_arena arena = {0};
    void *l = make(&arena);
    plain p = {0};
    uint32_t random = 3;

    assert_int_equal(lru->victim(l), SLC_NO_SLOT);
    for (int i = 0; i < 2000; i++) {
        uint32_t slot = faults_random(&random) % N;
        if (lru->holds(l, slot)) {
            lru->remove(l, slot);
            plain_remove(&p, slot);
            assert_false(lru->holds(l, slot));
        } else {
            lru->add(l, slot, slot + 7);
            p.at[p.n++] = slot;
            assert_true(lru->holds(l, slot));
        }
        assert_int_equal(lru->victim(l), p.n ? p.at[0] : SLC_NO_SLOT);
    }
    slc_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(victim_is_the_least_recently_added)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
