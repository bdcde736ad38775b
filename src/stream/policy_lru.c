/* Least recently used: a ring of links through a sentinel, oldest first. */
#include "stream/policy.h"

typedef struct link {
    uint32_t prev, next; /* SLC_NO_SLOT: not in the ring */
} link;

typedef struct lru {
    link *links;       /* [n_slots + 1]; the last is the sentinel: next oldest, prev newest */
    uint32_t sentinel; /* n_slots */
} lru;

static void *lru_take(slc_arena *arena, uint32_t n_slots, uint32_t n_keys) {
    lru *l = slc_arena_take(arena, 1, sizeof(*l));
    link *links = slc_arena_take(arena, (size_t)n_slots + 1, sizeof(*links));

    if (!l) return NULL;
    for (uint32_t i = 0; i < n_slots; i++) links[i] = (link){SLC_NO_SLOT, SLC_NO_SLOT};
    links[n_slots] = (link){n_slots, n_slots};
    l->links = links;
    l->sentinel = n_slots;
    return l;
}

static void lru_add(void *state, uint32_t slot, uint32_t key) {
    lru *l = state;
    link *end = &l->links[l->sentinel];

    l->links[slot] = (link){.prev = end->prev, .next = l->sentinel};
    l->links[end->prev].next = slot;
    end->prev = slot;
}

static void lru_remove(void *state, uint32_t slot) {
    lru *l = state;
    link *at = &l->links[slot];

    l->links[at->prev].next = at->next;
    l->links[at->next].prev = at->prev;
    *at = (link){SLC_NO_SLOT, SLC_NO_SLOT};
}

static uint32_t lru_victim(const void *state) {
    const lru *l = state;
    uint32_t oldest = l->links[l->sentinel].next;

    return oldest == l->sentinel ? SLC_NO_SLOT : oldest;
}

static bool lru_holds(const void *state, uint32_t slot) {
    const lru *l = state;

    return l->links[slot].next != SLC_NO_SLOT;
}

const slc_policy slc_policy_lru = {
    .name = "lru",
    .take = lru_take,
    .add = lru_add,
    .remove = lru_remove,
    .victim = lru_victim,
    .holds = lru_holds,
};
