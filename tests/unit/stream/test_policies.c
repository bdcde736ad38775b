/* Every policy against a plain calculation of what it says it does: random lives of uses, pins and
 * evictions, and the victim must be one that the formula rates lowest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "stream/policy.h"
#include "support/faults.h"

enum { SLOTS = 40, LAYERS = 5, EXPERTS = 24, ACTIVE = 3, KEYS = LAYERS * EXPERTS };

/* What a use of a key at a pass was worth. */
typedef struct past {
    double fast[KEYS], slow[KEYS], count[KEYS]; /* decayed to the pass */
    uint32_t last_layer;
    bool decode; /* the last fetch */
} past;

typedef struct world {
    const slc_policy *policy;
    slc_arena arena;
    void *p;
    past past;
    uint32_t random, key[SLOTS];
    bool held[SLOTS];
    uint32_t n_filled, stamp[SLOTS], now; /* when a slot was added */
} world;

static void start(world *w, const slc_policy *policy) {
    const slc_policy_shape shape = {
        .n_slots = SLOTS, .n_layers = LAYERS, .n_experts = EXPERTS, .n_active = ACTIVE};

    memset(w, 0, sizeof(*w));
    w->policy = policy;
    w->random = 5;
    assert_null(policy->take(&w->arena, &shape));
    assert_int_equal(slc_arena_alloc(&w->arena, false, NULL), SLC_OK);
    w->p = policy->take(&w->arena, &shape);
    assert_int_equal(policy->victim(w->p), SLC_NO_SLOT);
}

static void next_pass(past *p) {
    for (uint32_t i = 0; i < KEYS; i++) {
        p->fast[i] *= exp(-1 / 8.0);
        p->slow[i] *= exp(-1 / 128.0);
        p->count[i] *= exp(-1 / 48.0);
    }
}

static void use(world *w, uint32_t layer, const uint32_t *experts, const float *scores, uint32_t n,
                bool decode) {
    slc_policy_use u = {layer, n, experts, scores, decode};
    past *p = &w->past;

    w->policy->use(w->p, &u);
    if (layer <= p->last_layer) next_pass(p);
    p->last_layer = layer;
    p->decode = decode;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t key = layer * EXPERTS + experts[i];
        double credit = scores ? sqrt((double)scores[i] * ACTIVE) : 1;
        p->fast[key] += decode ? credit : 0;
        p->slow[key] += decode ? credit : 4 * credit;
        p->count[key] += decode ? 1 : 0.25;
    }
}

/* What the policy should think of a slot; larger: keep. */
static double rating(const world *w, uint32_t slot) {
    uint32_t key = w->key[slot], layer = key / EXPERTS, last = w->past.last_layer;
    double d = layer > last ? layer - last : layer + LAYERS - last;

    if (w->policy == &slc_policy_lru) return w->stamp[slot];
    if (w->policy == &slc_policy_lfu_decay) return w->past.count[key];
    return w->past.fast[key] / 8 / 3 + w->past.slow[key] / 128 * 2 / 3 -
           (w->past.decode ? d / LAYERS / 3 : 0);
}

static void check_victim(world *w) {
    uint32_t victim = w->policy->victim(w->p);
    double lowest = INFINITY;

    for (uint32_t i = 0; i < SLOTS; i++) {
        assert_int_equal(w->policy->holds(w->p, i), w->held[i]);
        if (w->held[i] && rating(w, i) < lowest) lowest = rating(w, i);
    }
    if (lowest == INFINITY) {
        assert_int_equal(victim, SLC_NO_SLOT);
        return;
    }
    assert_true(victim < SLOTS && w->held[victim]);
    assert_true(rating(w, victim) <= lowest + 1e-5 * (1 + fabs(lowest)));
}

static void add(world *w, uint32_t slot) {
    w->policy->add(w->p, slot, w->key[slot]);
    w->held[slot] = true;
    w->stamp[slot] = ++w->now;
}

static void drop(world *w, uint32_t slot) {
    w->policy->remove(w->p, slot);
    w->held[slot] = false;
}

/* Uses the layer's experts: those held are pinned, others take victims, all are added again. */
static void fetch(world *w, uint32_t layer, bool decode) {
    uint32_t n = decode ? ACTIVE : 1 + faults_random(&w->random) % 15, ids[EXPERTS], slots[EXPERTS];
    bool chosen[EXPERTS] = {false};
    float scores[EXPERTS];

    for (uint32_t i = 0; i < n; i++) {
        do {
            ids[i] = faults_random(&w->random) % EXPERTS * (faults_random(&w->random) % EXPERTS) /
                     EXPERTS;
            if (chosen[ids[i]]) ids[i] = faults_random(&w->random) % EXPERTS;
        } while (chosen[ids[i]]);
        chosen[ids[i]] = true;
        scores[i] = (float)(faults_random(&w->random) % 1000) / 999;
    }
    for (uint32_t i = 0; i < n; i++) {
        slots[i] = SLOTS;
        for (uint32_t k = 0; k < SLOTS; k++) {
            if (w->held[k] && w->key[k] == layer * EXPERTS + ids[i]) slots[i] = k;
        }
        if (slots[i] < SLOTS) drop(w, slots[i]);
    }
    use(w, layer, ids, faults_random(&w->random) % 4 ? scores : NULL, n, decode);
    for (uint32_t i = 0; i < n; i++) {
        if (slots[i] < SLOTS) continue;
        if (w->n_filled < SLOTS) {
            slots[i] = w->n_filled++;
        } else {
            check_victim(w);
            slots[i] = w->policy->victim(w->p);
            drop(w, slots[i]);
        }
        w->key[slots[i]] = layer * EXPERTS + ids[i];
    }
    check_victim(w);
    for (uint32_t i = 0; i < n; i++) add(w, slots[i]);
    check_victim(w);
}

static void live(const slc_policy *policy) {
    world w;

    start(&w, policy);
    for (uint32_t pass = 0; pass < 700; pass++) { /* beyond the point where averages are rebased */
        bool decode = faults_random(&w.random) % 8 > 0;
        for (uint32_t layer = 0; layer < LAYERS; layer++) fetch(&w, layer, decode);
    }
    slc_arena_free(&w.arena);
}

static void lru_names_the_least_recent(void **state) {
    live(&slc_policy_lru);
}

static void lfu_decay_names_the_lowest_count(void **state) {
    live(&slc_policy_lfu_decay);
}

static void best_names_the_lowest_worth(void **state) {
    live(&slc_policy_best);
}

/* An expert in regular use does not yield to a guess that is rarely right, but to a sure one. */
static void what_is_in_use_yields_to_better_only(void **state) {
    static const slc_policy *const policies[] = {&slc_policy_lfu_decay, &slc_policy_best};
    const uint32_t often = 1, rare = 2;

    for (int i = 0; i < 2; i++) {
        world w;
        start(&w, policies[i]);
        for (uint32_t pass = 0; pass < 200; pass++) {
            use(&w, 0, pass % 2 ? &often : &rare, NULL, pass % 2 || pass % 40 == 0, true);
        }
        w.policy->add(w.p, 0, often);
        w.policy->add(w.p, 1, rare);
        assert_false(w.policy->yields(w.p, 0, 5, 0.2f));
        assert_true(w.policy->yields(w.p, 0, 5, 0.9f));
        assert_true(w.policy->yields(w.p, 1, 5, 0.2f));
        assert_true(w.policy->yields(w.p, 1, often, 0)); /* known by its own past */
        assert_false(w.policy->yields(w.p, 0, rare, 0));
        slc_arena_free(&w.arena);
    }
}

/* A damaged model routes by anything. */
static void no_score_upsets_best(void **state) {
    const float scores[] = {NAN, -1, INFINITY, 2, 0.5f};
    const uint32_t ids[] = {0, 1, 2, 3, 4};
    slc_policy_use u = {.layer = 0, .n = 5, .experts = ids, .scores = scores, .decode = true};
    world w;

    start(&w, &slc_policy_best);
    slc_policy_best.use(w.p, &u);
    for (uint32_t i = 0; i < 5; i++) slc_policy_best.add(w.p, i, i);
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t victim = slc_policy_best.victim(w.p);
        assert_true(victim < 5);
        slc_policy_best.remove(w.p, victim);
    }
    assert_int_equal(slc_policy_best.victim(w.p), SLC_NO_SLOT);
    slc_arena_free(&w.arena);
}

static void they_are_found_by_name(void **state) {
    assert_ptr_equal(slc_policy_find("lru"), &slc_policy_lru);
    assert_ptr_equal(slc_policy_find("lfu-decay"), &slc_policy_lfu_decay);
    assert_ptr_equal(slc_policy_find("best"), &slc_policy_best);
    assert_ptr_equal(slc_policies[0], &slc_policy_best);
    assert_null(slc_policy_find("belady")); /* needs the future */
    assert_null(slc_policy_find(""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lru_names_the_least_recent),
        cmocka_unit_test(lfu_decay_names_the_lowest_count),
        cmocka_unit_test(best_names_the_lowest_worth),
        cmocka_unit_test(what_is_in_use_yields_to_better_only),
        cmocka_unit_test(no_score_upsets_best),
        cmocka_unit_test(they_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
