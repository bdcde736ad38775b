/* The invariants of a store, for tests and for whoever suspects it. */
#include "stream/store_internal.h"

static void check_ready(const slc_store *s, const slc_slot *at, bool evictable) {
    slc_assert(!at->n_pending && !at->failed);
    slc_assert(evictable + at->awaited + (at->pins > 0) == 1); /* somebody has it, and only one */
    slc_assert(at->idx == SLC_NONE || at->pins);
    slc_assert(!at->awaited || slc_guess_is_timed(at->guess));
    slc_assert(!at->pins || at->guess == SLC_N_GUESS); /* a use settles it */
}

static void check_slot(const slc_store *s, uint32_t id) {
    const slc_slot *at = &s->slots[id];
    bool evictable = s->policy->holds(s->policy_state, id);

    if (at->state == SLC_SLOT_EMPTY) {
        slc_assert(at->key == SLC_NONE && at->idx == SLC_NONE && !at->pins && !at->n_pending);
        slc_assert(at->guess == SLC_N_GUESS && !at->awaited && !evictable);
        return;
    }
    slc_assert(at->key < s->n_keys && s->map[at->key] == id);
    if (at->idx != SLC_NONE) {
        slc_assert(s->fetch.active && at->idx < s->fetch.n && s->fetch.slot_of[at->idx] == id);
        slc_assert(at->key == slc_store_key(s, s->fetch.layer, s->fetch.experts[at->idx]));
        slc_assert(at->guess == SLC_N_GUESS);
    }
    if (at->state == SLC_SLOT_LOADING) {
        slc_assert(at->n_pending && !at->pins && !evictable && !at->awaited);
    } else {
        slc_assert(at->state == SLC_SLOT_READY);
        check_ready(s, at, evictable);
    }
}

static void check_fetch(const slc_store *s) {
    const slc_fetch *f = &s->fetch;
    uint32_t n_waiting = 0, n_unstarted = 0;

    for (uint32_t i = 0; i < s->n_slots; i++) {
        n_waiting += s->slots[i].state == SLC_SLOT_LOADING && s->slots[i].idx != SLC_NONE;
    }
    for (uint32_t i = 0; i < s->n_experts; i++) n_unstarted += f->idx_at_rank[i] != SLC_NONE;
    slc_assert(n_unstarted == f->n_unstarted && f->n_taken <= f->n_queued);
    slc_assert(n_waiting == s->n_demanded);
    if (f->active) slc_assert(f->n_queued + n_waiting + n_unstarted == f->n);
}

/* Every expert read on a hint is settled or still marked; hints that wait are within range. */
static void check_hints(const slc_store *s) {
    uint32_t n_marked[SLC_N_GUESS + 1] = {0}, n_timed = 0;

    for (uint32_t i = 0; i < s->n_slots; i++) n_marked[s->slots[i].guess]++;
    for (uint32_t i = 0; i < SLC_N_GUESS; i++) {
        const slc_guess_stats *st = &s->stats.guess[i];
        const slc_hint_queue *q = &s->hints[i];
        slc_assert(st->read == st->used + st->late + st->wasted + n_marked[i]);
        slc_assert(st->asked >= st->present + st->read + q->n - q->n_passed &&
                   q->n_passed <= q->n && q->n <= s->n_hints);
        for (uint32_t k = 0; k < q->n; k++) {
            slc_assert(q->ring[(q->head + k) % s->n_hints].key < s->n_keys);
        }
        if (slc_guess_is_timed(i)) n_timed += n_marked[i];
    }
    slc_assert(n_timed == s->n_guessed);
}

void slc_store_check(const slc_store *s) {
    uint32_t n_mapped = 0, n_twice = 0, n_empty = 0, n_pending = 0;
    uint64_t loading = 0;

    for (uint32_t i = 0; i < s->n_slots; i++) {
        const slc_slot *at = &s->slots[i];
        check_slot(s, i);
        n_empty += at->state == SLC_SLOT_EMPTY;
        n_pending += at->n_pending;
        if (at->state == SLC_SLOT_LOADING) loading += at->read_bytes;
    }
    for (uint32_t i = 0; i < s->n_keys; i++) n_mapped += s->map[i] != SLC_NONE;
    for (uint32_t i = 0; i < s->n_empty; i++) {
        slc_assert(s->slots[s->empty[i]].state == SLC_SLOT_EMPTY);
        for (uint32_t k = 0; k < i; k++) n_twice += s->empty[k] == s->empty[i];
    }
    slc_assert(n_twice == 0); /* no slot is on the stack twice */
    slc_assert(n_empty == s->n_empty && n_mapped == s->n_slots - n_empty);
    slc_assert(n_pending == slc_io_outstanding(s->io) && loading == s->loading_bytes);
    check_fetch(s);
    check_hints(s);
}
