/* Which expert to give up when a slot is needed. The store is the mechanism: it knows states, pins
 * and keys, and tells the policy which slots may be evicted at the moment (ready and unpinned). The
 * policy orders those and names a victim. Called by the store's owner thread; no allocation. */
#ifndef SLC_STREAM_POLICY_H
#define SLC_STREAM_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"

#define SLC_NO_SLOT UINT32_MAX

typedef struct slc_policy {
    const char *name;
    /* State for n_slots slots and keys below n_keys, from the arena: nothing evictable yet. NULL
     * while the arena measures. */
    void *(*take)(slc_arena *arena, uint32_t n_slots, uint32_t n_keys);
    /* The slot, which holds `key`, was used and may be evicted from now on. */
    void (*add)(void *state, uint32_t slot, uint32_t key);
    /* The slot was added and may no longer be evicted: it is pinned or given up. */
    void (*remove)(void *state, uint32_t slot);
    /* The slot to evict next; it stays added. SLC_NO_SLOT: nothing is evictable. */
    uint32_t (*victim)(const void *state);
    bool (*holds)(const void *state, uint32_t slot); /* for slc_store_check */
} slc_policy;

/* Least recently used. */
extern const slc_policy slc_policy_lru;

#endif
