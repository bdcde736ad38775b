/* The memory of the expert store: n slots of one size in segments of at most 1 GiB (one slot where
 * a slot is larger), on huge pages where the machine has them (a direct read pins and maps its
 * memory page by page: 256 KiB reads at depth 64 gave 1.8 GB/s into huge pages, 0.5 to 0.9 into
 * small ones, on a 2-core virtual machine with a virtio disk). Every page is there from the start:
 * what the machine cannot give shows at create, not in the middle of a text. */
#ifndef SLC_STREAM_SLAB_H
#define SLC_STREAM_SLAB_H

#include <stdint.h>

#include "sluice/status.h"

typedef struct slc_slab {
    uint64_t slot_bytes; /* a multiple of the page size */
    uint32_t n_slots, slots_per_segment, n_segments;
    void **segments; /* [n_segments] */
} slc_slab;

/* Segment count for n_slots >= 1 of slot_bytes >= 1. */
uint32_t slc_slab_n_segments(uint64_t slot_bytes, uint32_t n_slots);
uint64_t slc_slab_segment_bytes(const slc_slab *slab, uint32_t segment);
/* Populates piece by piece and looks at the room left on the machine before each, so that it (or
 * several processes that start at once) stops with SLC_E_NOMEM before the machine is out of memory.
 * `meminfo_root` as for slc_mem_room_bytes. */
slc_status slc_slab_create(slc_slab *slab, uint64_t slot_bytes, uint32_t n_slots,
                           const char *meminfo_root, slc_err *err) SLC_MUST_CHECK;
void slc_slab_destroy(slc_slab *slab);

static inline uint8_t *slc_slab_slot(const slc_slab *slab, uint32_t slot) {
    uint8_t *segment = slab->segments[slot / slab->slots_per_segment];

    return segment + (slot % slab->slots_per_segment) * slab->slot_bytes;
}

#endif
