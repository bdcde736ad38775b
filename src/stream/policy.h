/* Which expert to give up when a slot is needed. The store is the mechanism: it knows states, pins
 * and keys, tells the policy which experts each pass uses, and which slots may be evicted at the
 * moment (ready and unpinned). The policy orders those and names a victim. Keys are
 * layer * n_experts + expert; a pass goes through the layers in rising order, so a layer that is
 * not above the last one begins the next pass. Called by the store's owner thread; no allocation
 * after take. */
#ifndef SLC_STREAM_POLICY_H
#define SLC_STREAM_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"

#define SLC_NO_SLOT UINT32_MAX

typedef struct slc_policy_shape {
    uint32_t n_slots, n_layers, n_experts;
    uint32_t n_active; /* experts per token; 0: unknown */
} slc_policy_shape;

/* The experts one pass uses in one layer, hits and misses alike. Those held are pinned by then: a
 * use changes nothing about what is evictable. */
typedef struct slc_policy_use {
    uint32_t layer, n;
    const uint32_t *experts; /* [n] */
    const float *scores;     /* [n] router weight, the largest over the pass; NULL: not known */
    bool decode;             /* one token a sequence; false: a prompt is being read */
} slc_policy_use;

typedef struct slc_policy {
    const char *name;
    /* State from the arena: nothing evictable, nothing used yet. NULL while the arena measures. */
    void *(*take)(slc_arena *arena, const slc_policy_shape *shape);
    void (*use)(void *state, const slc_policy_use *use);
    /* The slot, which holds `key`, may be evicted from now on. */
    void (*add)(void *state, uint32_t slot, uint32_t key);
    /* The slot was added and may no longer be evicted: it is pinned or given up. */
    void (*remove)(void *state, uint32_t slot);
    /* The slot to evict next; it stays added. SLC_NO_SLOT: nothing is evictable. */
    uint32_t (*victim)(void *state);
    /* Whether the victim is worth less than `key` would be in its place, if `key` is used at its
     * layer's next turn with probability `chance` (or more often, as far as the policy knows). */
    bool (*yields)(const void *state, uint32_t victim, uint32_t key, float chance);
    bool (*holds)(const void *state, uint32_t slot); /* for slc_store_check */
} slc_policy;

/* Least recently used. The plain one, to compare with: a prompt flushes it. */
extern const slc_policy slc_policy_lru;
/* Least often used, where a use counts less the longer ago it was. */
extern const slc_policy slc_policy_lfu_decay;
/* Habit on two time scales, less what keeping costs until the layer's next turn. The default. */
extern const slc_policy slc_policy_best;

/* All of them, the default first, NULL at the end. */
extern const slc_policy *const slc_policies[];

/* While a prompt is read, a pass has far more experts than decoding needs kept. As long as this
 * many are on their way, the next one takes only a victim that yields to it, and otherwise waits
 * for one of its own kind to be done with. */
static inline uint32_t slc_prompt_window(uint32_t n_slots) {
    return n_slots < 8 ? 1 : n_slots < 256 ? n_slots / 8 : 32;
}

/* By name; NULL: no such policy. */
const slc_policy *slc_policy_find(const char *name);

#endif
