/* Least often used, with decay: a use counts exp(-age / TAU), ages in passes.
 *
 * Only the order matters, and all counts shrink alike, so nothing is ever decayed: a count is kept
 * as what it would be worth at pass 0, by its logarithm (`rank`), and a binary heap keeps the
 * lowest on top. An expert that only a prompt touched counts a quarter: one pass over hundreds of
 * tokens uses nearly every expert and says little about the next token.
 *
 * TAU: the best for 10 to 50 % of the experts of demo-moe on its own text is 32 to 64 (hit rates
 * 0.245, 0.465, 0.722 at 10, 25, 50 %; at 8 and 512 up to 2.5 points less). */
#include <math.h>

#include "stream/policy.h"

#define TAU           48.0
#define PROMPT_CREDIT 0.25

typedef struct lfu {
    double *rank;   /* [n_keys] log of the decayed count, as of pass 0 */
    uint32_t *heap; /* [n_slots] slots, no child below its parent's rank */
    uint32_t *at;   /* [n_slots] place in the heap; SLC_NO_SLOT: not evictable */
    uint32_t *key;  /* [n_slots] of an evictable slot */
    uint32_t n;     /* evictable */
    uint32_t n_experts, last_layer;
    double pass;
} lfu;

static void *lfu_take(slc_arena *arena, const slc_policy_shape *shape) {
    size_t n_keys = (size_t)shape->n_layers * shape->n_experts;
    lfu *l = slc_arena_take(arena, 1, sizeof(*l));
    double *rank = slc_arena_take(arena, n_keys, sizeof(*rank));
    uint32_t *heap = slc_arena_take(arena, shape->n_slots, sizeof(*heap));
    uint32_t *at = slc_arena_take(arena, shape->n_slots, sizeof(*at));
    uint32_t *key = slc_arena_take(arena, shape->n_slots, sizeof(*key));

    if (!l) return NULL;
    *l = (lfu){.rank = rank, .heap = heap, .at = at, .key = key, .n_experts = shape->n_experts};
    for (size_t i = 0; i < n_keys; i++) rank[i] = -INFINITY;
    for (uint32_t i = 0; i < shape->n_slots; i++) at[i] = SLC_NO_SLOT;
    return l;
}

/* log(exp(a) + exp(b)) */
static double log_add(double a, double b) {
    double high = a > b ? a : b, low = a > b ? b : a;

    return high + log1p(exp(low - high));
}

static void lfu_use(void *state, const slc_policy_use *use) {
    lfu *l = state;
    double credit;

    if (use->layer <= l->last_layer) l->pass++;
    l->last_layer = use->layer;
    credit = l->pass / TAU + (use->decode ? 0 : log(PROMPT_CREDIT));
    for (uint32_t i = 0; i < use->n; i++) {
        double *rank = &l->rank[use->layer * l->n_experts + use->experts[i]];
        *rank = log_add(credit, *rank);
    }
}

/* ---- the heap ---- */

static double rank_at(const lfu *l, uint32_t i) {
    return l->rank[l->key[l->heap[i]]];
}

static void put(lfu *l, uint32_t i, uint32_t slot) {
    l->heap[i] = slot;
    l->at[slot] = i;
}

static void swap(lfu *l, uint32_t i, uint32_t k) {
    uint32_t slot = l->heap[i];

    put(l, i, l->heap[k]);
    put(l, k, slot);
}

static void sift(lfu *l, uint32_t i) {
    while (i > 0 && rank_at(l, i) < rank_at(l, (i - 1) / 2)) {
        swap(l, i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
    for (;;) {
        uint32_t low = 2 * i + 1;
        if (low >= l->n) break;
        if (low + 1 < l->n && rank_at(l, low + 1) < rank_at(l, low)) low++;
        if (!(rank_at(l, low) < rank_at(l, i))) break;
        swap(l, i, low);
        i = low;
    }
}

static void lfu_add(void *state, uint32_t slot, uint32_t key) {
    lfu *l = state;

    l->key[slot] = key;
    put(l, l->n++, slot);
    sift(l, l->at[slot]);
}

static void lfu_remove(void *state, uint32_t slot) {
    lfu *l = state;
    uint32_t i = l->at[slot], last = l->heap[--l->n];

    l->at[slot] = SLC_NO_SLOT;
    if (last == slot) return;
    put(l, i, last);
    sift(l, i);
}

static uint32_t lfu_victim(void *state) {
    const lfu *l = state;

    return l->n ? l->heap[0] : SLC_NO_SLOT;
}

/* Used with probability p at every pass, a count settles at p * TAU. */
static bool lfu_yields(const void *state, uint32_t victim, uint32_t key, float chance) {
    const lfu *l = state;
    double now = l->pass / TAU, own = exp(l->rank[key] - now), guess = TAU * (double)chance;

    return exp(l->rank[l->key[victim]] - now) < (own > guess ? own : guess);
}

static bool lfu_holds(const void *state, uint32_t slot) {
    const lfu *l = state;

    return l->at[slot] != SLC_NO_SLOT;
}

const slc_policy slc_policy_lfu_decay = {
    .name = "lfu-decay",
    .take = lfu_take,
    .use = lfu_use,
    .add = lfu_add,
    .remove = lfu_remove,
    .victim = lfu_victim,
    .yields = lfu_yields,
    .holds = lfu_holds,
};
