/* The expert store: routed experts of a checkpoint, read on demand into a slab of fixed-size slots.
 *
 * Key (layer, expert) -> up to nine extents -> one slot. Each part is read as one aligned superset
 * of its extent, in place: a view holds nine byte pointers, at any alignment. Slot states are
 * empty, loading, ready; a pinned or loading slot is never a victim; completion of all of a slot's
 * reads is the only way to ready. The victim is chosen by a policy (policy.h; LRU).
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

typedef struct slc_store slc_store;

typedef struct slc_store_options {
    uint32_t n_slots; /* >= 1 */
    slc_io *io;       /* borrowed, used by this store alone */
    const slc_log *log;
} slc_store_options;

/* An expert in memory: the addresses of its parts (NULL where the encoding has none). */
typedef struct slc_expert_view {
    const uint8_t *part[SLC_N_PROJ][SLC_N_PARTS];
} slc_expert_view;

/* Counters since create. */
typedef struct slc_store_stats {
    uint64_t hits, misses;      /* experts asked for that were ready / were not */
    uint64_t reads, bytes_read; /* what the disk was asked for, padding included */
    uint64_t stall_ns;          /* time blocked in slc_fetch_next */
    uint64_t failed_reads;
} slc_store_stats;

/* Bytes of one slot (the largest expert of the model with its alignment padding, block-aligned),
 * and the bookkeeping bytes a store with n_slots needs outside the slab. 0 for a dense model. The
 * files' align fields must be final (slc_file_enable_direct called). */
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
slc_store_stats slc_store_get_stats(const slc_store *s);
/* Verifies every invariant of slots, pins, map and list; aborts on a violation. For tests. */
void slc_store_check(const slc_store *s);

/* A fetch: the experts that one pass through a layer needs, each once, delivered as they become
 * ready. All reads that fit into free slots are submitted at begin; when more experts are asked for
 * than slots can be had, the rest follows as earlier ones are released. One fetch at a time.
 *
 *     slc_fetch_begin(s, layer, experts, n);
 *     while ((got = slc_fetch_next(s, ready, max)) > 0) {
 *         for each: compute with ready[i].view, or note ready[i].status
 *         slc_fetch_release(s, ready, got);
 *     }
 *     slc_fetch_end(s); */
typedef struct slc_fetched {
    uint32_t idx;      /* position in the experts array */
    slc_status status; /* SLC_OK, or SLC_E_IO: the expert could not be read (slc_fetch_error) */
    slc_expert_view view;
    uint32_t slot; /* private */
} slc_fetched;

/* `experts` [n] distinct ids, borrowed until slc_fetch_end. Hits are delivered first, then misses
 * in completion order; misses are submitted in file order. */
void slc_fetch_begin(slc_store *s, uint32_t layer, const uint32_t *experts, uint32_t n);
/* Takes up to `max` experts that are ready (or failed), waiting until there is one. Each is pinned
 * until released. 0: all n have been delivered. */
uint32_t slc_fetch_next(slc_store *s, slc_fetched *ready, uint32_t max);
void slc_fetch_release(slc_store *s, const slc_fetched *ready, uint32_t n);
/* The first failure since slc_fetch_begin: layer, expert, file, offset. */
slc_status slc_fetch_error(const slc_store *s, slc_err *err);
/* Ends the fetch; undelivered experts are abandoned, reads in flight complete later into their
 * slots. */
void slc_fetch_end(slc_store *s);

#endif
