/* What an slc_store is inside, for store.c (slots and fetches), prefetch.c (hints) and
 * store_check.c.
 *
 * A slot's life:
 *
 *     empty --start_load--> loading --last read done--> ready --evicted--> empty
 *       ^                      |                         pins > 0: in use
 *       +------ a read failed -+                         awaited:  for its layer's turn
 *                                                        else:     the policy has it
 *
 * A slot that was read on a hint carries its source (`guess`) until it is settled: used, late or
 * wasted. */
#ifndef SLC_STREAM_STORE_INTERNAL_H
#define SLC_STREAM_STORE_INTERNAL_H

#include "base/alloc.h"
#include "base/assert.h"
#include "stream/slab.h"
#include "stream/slot_layout.h"
#include "stream/store.h"

#define SLC_NONE UINT32_MAX

typedef enum slc_slot_state { SLC_SLOT_EMPTY = 0, SLC_SLOT_LOADING, SLC_SLOT_READY } slc_slot_state;

typedef struct slc_slot {
    uint32_t key; /* SLC_NONE: empty */
    uint32_t idx; /* of the running fetch that waits for it; SLC_NONE: delivered, or nobody does */
    uint32_t pins;
    uint32_t read_bytes; /* of its reads together */
    uint64_t started_ns; /* when it was read on a hint; 0: it was not */
    uint8_t state;
    uint8_t n_pending; /* reads not reaped */
    uint8_t guess;     /* the source whose hint it was read on, not settled; SLC_N_GUESS: none */
    bool awaited;      /* ready, kept from the policy until its layer's turn */
    bool failed;       /* a read failed */
    bool asked;        /* read for the running fetch, not on a hint or for an earlier one */
} slc_slot;

typedef struct slc_fetch {
    bool active, decode;
    uint32_t layer, n;
    const uint32_t *experts;
    uint32_t *slot_of;     /* [n_experts] by idx; SLC_NONE: not started, or failed */
    uint32_t *queue;       /* [n_experts] idx in order of delivery */
    slc_outcome *outcomes; /* [n_experts] by idx */
    uint32_t n_queued, n_taken;
    uint32_t *idx_at_rank;      /* [n_experts] misses not started; SLC_NONE elsewhere */
    uint32_t rank, n_unstarted; /* all misses below rank are started */
    slc_io_read *failure;       /* [n_experts] by idx: the read that failed; status OK: none */
    /* measuring the disk: from the submission to the last time somebody waited, it was busy */
    uint64_t begun_ns, done_bytes;
    uint64_t busy_ns, busy_bytes;
} slc_fetch;

/* Chances that hints come true: for each eighth of a list, while a prompt is read and in decoding.
 */
#define SLC_N_PLACES  8
#define SLC_N_CHANCES (2 * SLC_N_PLACES)

typedef struct slc_hint {
    uint32_t key;
    uint32_t turn;  /* of its layer when it was given: stale when another has begun */
    uint8_t chance; /* index */
} slc_hint;

/* Hints at experts that were not there, in the order given. */
typedef struct slc_hint_queue {
    slc_hint *ring; /* [n_hints] */
    uint32_t head, n;
    uint32_t n_passed; /* of them read or not worth it, and waiting for their layer's turn */
    float chance[SLC_N_CHANCES], overall;
} slc_hint_queue;

struct slc_store {
    const slc_checkpoint *ckpt;
    slc_io *io;
    const slc_policy *policy;
    void *policy_state;
    slc_fetch_sink *trace;
    void *trace_user;
    slc_slab slab;
    slc_arena arena; /* everything below that is an array */
    uint32_t n_slots, n_experts, n_keys, n_hints;
    slc_slot *slots;
    slc_io_read *reads; /* [n_slots][SLC_SLOT_PARTS] */
    uint32_t *part_at; /* [n_slots][SLC_SLOT_PARTS] from the slot's start; SLC_NONE: no such part */
    uint32_t *empty;   /* stack of empty slots */
    uint32_t n_empty;
    uint32_t *map;   /* [n_keys] slot or SLC_NONE */
    uint32_t *rank;  /* [n_keys] place among the layer's experts in file order */
    uint32_t *turns; /* [n_layers] fetches begun */
    uint8_t *named;  /* [n_keys] the sources, as bits, that named it for its layer's next turn */
    slc_io_read **batch; /* [min(n_slots, n_experts) * SLC_SLOT_PARTS] being put together */
    slc_fetch fetch;
    slc_hint_queue hints[SLC_N_GUESS];
    bool no_prefetch, verify;
    uint64_t pass;
    uint32_t n_tokens, last_layer;
    uint32_t n_demanded;    /* loading slots that the fetch waits for */
    uint32_t n_guessed;     /* slots read, or being read, for a turn of their layer, not settled */
    uint64_t loading_bytes; /* of all loading slots */
    /* the disk's measured rate is rate_bytes / rate_ns */
    double rate_bytes, rate_ns;
    /* from the end of a fetch's reads to the next fetch: since when, and how long as a rule, while
     * a prompt is read and in decoding */
    uint64_t calm_since_ns, calm_ns[2];
    double
        guess_ns; /* from starting a hint's reads to noticing their end, as a rule; 0: not known */
    slc_store_stats stats;
};

static inline uint32_t slc_store_key(const slc_store *s, uint32_t layer, uint32_t expert) {
    return layer * s->n_experts + expert;
}

/* Whether hints of this source are about the next turn of their layer. */
static inline bool slc_guess_is_timed(unsigned source) {
    return source <= SLC_GUESS_TWO_AHEAD;
}

/* store.c: an evictable slot becomes empty; a slot starts to load a key, its reads appended to
 * batch, with how many of them returned. */
void slc_store_evict(slc_store *s, uint32_t id);
uint32_t slc_store_start_load(slc_store *s, uint32_t id, uint32_t key, slc_io_read **batch);
/* Takes what the disk has finished. */
void slc_store_drain(slc_store *s, bool wait);

/* prefetch.c: what becomes of the slots that were read on a hint ... */
typedef enum slc_verdict { SLC_GUESS_USED, SLC_GUESS_LATE, SLC_GUESS_WASTED } slc_verdict;

void slc_guess_settle(slc_store *s, uint32_t id, slc_verdict verdict);
/* The layer's turn has begun and its fetch has taken what it wants: which hints were right is
 * counted, and the other guesses for it were wrong. */
void slc_guess_supersede(slc_store *s, uint32_t layer);
/* A slot that was read on a hint has arrived. */
void slc_guess_arrived(slc_store *s, const slc_slot *at);
/* Whether hints of this source hardly ever come true now. */
bool slc_guess_is_off(const slc_store *s, slc_guess source);
/* Gives all awaited slots to the policy. False: there were none. */
bool slc_guess_give_way(slc_store *s);
/* ... and starting hints, as far as the disk is free for them. */
void slc_prefetch_pump(slc_store *s);
/* Lays out the queues: measures, or hands out. */
void slc_prefetch_take(slc_store *s, slc_arena *a);

#endif
