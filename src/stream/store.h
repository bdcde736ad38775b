/* The expert store: routed experts of a checkpoint, read on demand, or before, into a slab of
 * fixed-size slots.
 *
 * Key (layer, expert) -> up to nine extents -> one slot. Parts that are neighbours in the file are
 * one read (slot_layout.h), each read is the aligned superset of its range, in place: a view holds
 * nine byte pointers, at any alignment. Slot states are empty, loading, ready; a pinned or loading
 * slot is never a victim; completion of all of a slot's reads is the only way to ready. The victim
 * is chosen by a policy (policy.h).
 *
 * What the caller gets never depends on the policy or on what was prefetched, only when it gets it.
 *
 * One thread owns a store (the one that steps the model). Views may be read by any thread until the
 * expert is released. */
#ifndef SLC_STREAM_STORE_H
#define SLC_STREAM_STORE_H

#include <stdint.h>

#include "base/log.h"
#include "format/checkpoint.h"
#include "io/io.h"
#include "sluice/status.h"
#include "stream/policy.h"

typedef struct slc_store slc_store;

/* What became of an expert that was asked for. */
typedef enum slc_outcome { SLC_OUT_HIT = 0, SLC_OUT_LATE, SLC_OUT_MISS } slc_outcome;

/* One fetch, told as it begins. Borrowed for the call. */
typedef struct slc_fetch_event {
    uint64_t pass; /* since create; a layer not above the last one begins the next */
    uint32_t n_tokens, layer, n;
    bool decode;
    const uint32_t *experts;     /* [n] */
    const float *scores;         /* [n] or NULL */
    const slc_outcome *outcomes; /* [n] */
    uint64_t expert_bytes;       /* of one expert of this layer, without padding */
} slc_fetch_event;

typedef void slc_fetch_sink(void *user, const slc_fetch_event *e);

typedef struct slc_store_options {
    uint32_t n_slots;         /* >= 1 */
    slc_io *io;               /* borrowed, used by this store alone */
    const slc_policy *policy; /* NULL: slc_policy_best */
    bool no_prefetch;         /* false; hints are ignored */
    bool verify;              /* false; hold each expert read from a pack against its hash */
    slc_fetch_sink *trace;    /* NULL: none */
    void *trace_user;
    const slc_log *log;
} slc_store_options;

/* An expert in memory: the addresses of its parts (NULL where the encoding has none). */
typedef struct slc_expert_view {
    const uint8_t *part[SLC_N_PROJ][SLC_N_PARTS];
} slc_expert_view;

/* Where a hint comes from. The first three are about the next turn of their layer, and stale when
 * that has come. */
typedef enum slc_guess {
    SLC_GUESS_PREVIOUS,   /* what the token before used in this layer */
    SLC_GUESS_NEXT_LAYER, /* the next layer's router on this layer's hidden state */
    SLC_GUESS_TWO_AHEAD,  /* the one after that */
    SLC_GUESS_PROMPT,     /* what the prompt used most */
    SLC_GUESS_HOT,        /* what was held when the program last ended; into empty slots only */
    SLC_N_GUESS
} slc_guess;

/* Of one source: an expert read ends as used, late or wasted, or waits to. */
typedef struct slc_guess_stats {
    uint64_t asked;      /* experts hinted at */
    uint64_t present;    /* of these held, or on their way, already */
    uint64_t read;       /* of these read */
    uint64_t used;       /* of these ready when they were asked for */
    uint64_t late;       /* of these still loading then */
    uint64_t wasted;     /* of these evicted, superseded or failed, unused */
    uint64_t bytes_read; /* padding included */
    uint64_t wanted;     /* in decoding, experts of the turns about which there were hints */
    uint64_t foreseen;   /* of these hinted at, whether they were there or not */
    bool off;            /* hardly ever right at the moment (prefetch.c) */
} slc_guess_stats;

/* Counters since create. */
typedef struct slc_store_stats {
    uint64_t hits, misses;      /* experts asked for that were ready / were not */
    uint64_t late;              /* of the misses: already on their way */
    uint64_t reads, bytes_read; /* what the disk was asked for, padding included */
    uint64_t stall_ns;          /* time blocked in slc_fetch_next */
    /* What arrived, and the time it took, while the disk was surely busy: in each fetch that had to
     * wait, from its begin to the end of its last wait. */
    uint64_t timed_bytes, timed_ns;
    uint64_t failed_reads;
    uint64_t disk_bytes_per_s; /* measured while waiting; 0: not yet */
    slc_guess_stats guess[SLC_N_GUESS];
} slc_store_stats;

/* Bytes of one slot (the largest expert of the model with its alignment padding, block-aligned),
 * and the bookkeeping bytes a store with n_slots needs outside the slab, with whatever policy. 0
 * for a dense model. The files' align fields must be final (slc_file_enable_direct called). */
uint64_t slc_store_slot_bytes(const slc_checkpoint *c);
uint64_t slc_store_overhead_bytes(const slc_checkpoint *c, uint32_t n_slots);

/* Allocates and populates the slab in segments of at most 1 GiB; before each piece the room that is
 * left on the machine (base/meminfo.h) is checked, and SLC_E_NOMEM returned rather than
 * driving it into the ground. */
slc_status slc_store_create(const slc_checkpoint *c, const slc_store_options *opt, slc_store **out,
                            slc_err *err) SLC_MUST_CHECK;
void slc_store_destroy(slc_store *s);
uint32_t slc_store_n_slots(const slc_store *s);
uint64_t slc_store_slab_bytes(const slc_store *s);
const char *slc_store_policy(const slc_store *s);
const slc_checkpoint *slc_store_checkpoint(const slc_store *s);
slc_store_stats slc_store_get_stats(const slc_store *s);
/* Keys (layer * n_experts + expert) of the experts that are ready, to keys [n_slots]. */
uint32_t slc_store_held(const slc_store *s, uint32_t *keys);
/* Verifies every invariant of slots, pins, map, queues and counters; aborts on a violation. For
 * tests. */
void slc_store_check(const slc_store *s);

/* A fetch: the experts that one pass through a layer needs, each once, delivered as they become
 * ready. All reads that fit into free slots are submitted at begin; when more experts are asked for
 * than slots can be had, the rest follows as earlier ones are released. One fetch at a time.
 *
 *     slc_fetch_begin(s, layer, experts, scores, n, decode);
 *     while ((got = slc_fetch_next(s, ready, max)) > 0) {
 *         for each: compute with ready[i].view, or note ready[i].status
 *         slc_fetch_release(s, ready, got);
 *     }
 *     slc_fetch_end(s); */
typedef struct slc_fetched {
    uint32_t idx;      /* position in the experts array */
    slc_status status; /* SLC_OK, or why the expert could not be read (slc_fetch_error) */
    slc_expert_view view;
    uint32_t slot; /* private */
} slc_fetched;

/* `experts` [n] distinct ids, borrowed until slc_fetch_end. `scores` [n] or NULL: the router's
 * weight, the largest over the pass. `decode`: one token a sequence; false: a prompt is being read,
 * whose experts are kept only until decoding needs the room. Hits are delivered first, then misses
 * in completion order; misses are submitted in file order. */
void slc_fetch_begin(slc_store *s, uint32_t layer, const uint32_t *experts, const float *scores,
                     uint32_t n, bool decode);
/* Takes up to `max` experts that are ready (or failed), waiting until there is one. Each is pinned
 * until released. 0: all n have been delivered. */
uint32_t slc_fetch_next(slc_store *s, slc_fetched *ready, uint32_t max);
void slc_fetch_release(slc_store *s, const slc_fetched *ready, uint32_t n);
/* Why experts[idx], delivered with a status, could not be read: layer, expert, file, offset. Until
 * slc_fetch_end. */
slc_status slc_fetch_error(const slc_store *s, uint32_t idx, slc_err *err);
/* Ends the fetch; undelivered experts are abandoned, reads in flight complete later into their
 * slots. */
void slc_fetch_end(slc_store *s);

/* A hint that the experts may be needed soon, likeliest first. Never blocks, never fails, and may
 * do nothing; at any time. The ids are copied. */
void slc_store_prefetch(slc_store *s, uint32_t layer, const uint32_t *experts, uint32_t n,
                        slc_guess source);
/* Takes in finished reads and starts hints that are due. Cheap; between the stages of a pass, so
 * that the disk is not left without work. */
void slc_store_poll(slc_store *s);
/* Says, for the trace alone, how many tokens the coming pass has. */
void slc_store_set_tokens(slc_store *s, uint32_t n_tokens);

#endif
