/* Least recently used: a ring of links through a sentinel, oldest first. A guess may take the
 * oldest slot if that was last used more than one pass ago; with fewer slots than a pass uses there
 * is none such. */
#include "stream/policy.h"

typedef struct link {
    uint32_t prev, next; /* SLC_NO_SLOT: not in the ring */
    uint64_t added;      /* turn */
} link;

typedef struct lru {
    link *links;       /* [n_slots + 1]; the last is the sentinel: next oldest, prev newest */
    uint32_t sentinel; /* n_slots */
    uint32_t n_layers;
    uint64_t turn; /* layers begun */
} lru;

static void *lru_take(slc_arena *arena, const slc_policy_shape *shape) {
    lru *l = slc_arena_take(arena, 1, sizeof(*l));
    link *links = slc_arena_take(arena, (size_t)shape->n_slots + 1, sizeof(*links));
    uint32_t n = shape->n_slots;

    if (!l) return NULL;
    for (uint32_t i = 0; i < n; i++) links[i] = (link){.prev = SLC_NO_SLOT, .next = SLC_NO_SLOT};
    links[n] = (link){.prev = n, .next = n};
    l->links = links;
    l->sentinel = n;
    l->n_layers = shape->n_layers;
    return l;
}

static void lru_use(void *state, const slc_policy_use *use) {
    lru *l = state;

    l->turn++;
}

static void lru_add(void *state, uint32_t slot, uint32_t key) {
    lru *l = state;
    link *end = &l->links[l->sentinel];

    l->links[slot] = (link){.prev = end->prev, .next = l->sentinel, .added = l->turn};
    l->links[end->prev].next = slot;
    end->prev = slot;
}

static void lru_remove(void *state, uint32_t slot) {
    lru *l = state;
    link *at = &l->links[slot];

    l->links[at->prev].next = at->next;
    l->links[at->next].prev = at->prev;
    at->prev = at->next = SLC_NO_SLOT;
}

static uint32_t lru_victim(void *state) {
    const lru *l = state;
    uint32_t oldest = l->links[l->sentinel].next;

    return oldest == l->sentinel ? SLC_NO_SLOT : oldest;
}

static bool lru_yields(const void *state, uint32_t victim, uint32_t key, float chance) {
    const lru *l = state;

    return l->turn - l->links[victim].added > l->n_layers;
}

static bool lru_holds(const void *state, uint32_t slot) {
    const lru *l = state;

    return l->links[slot].next != SLC_NO_SLOT;
}

const slc_policy slc_policy_lru = {
    .name = "lru",
    .take = lru_take,
    .use = lru_use,
    .add = lru_add,
    .remove = lru_remove,
    .victim = lru_victim,
    .yields = lru_yields,
    .holds = lru_holds,
};
