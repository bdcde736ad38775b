/* Mapping and populating the slab; see the header. */
#include "stream/slab.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/meminfo.h"

#define SEGMENT_BYTES ((uint64_t)1 << 30)
/* Two processes may both see room for a piece and both take it. The reserve covers that overshoot
 * for a handful of them, and is small beside what a caller should leave free anyway. Where there is
 * little room (a container of some ten MiB) both are less: an eighth of it, and a quarter of that.
 */
#define PIECE_BYTES   ((uint64_t)8 << 20)
#define RESERVE_BYTES ((uint64_t)32 << 20)
#define MIN_PIECE     ((uint64_t)64 << 10)
#define MIB           ((uint64_t)1 << 20)

static uint32_t slots_per_segment(uint64_t slot_bytes) {
    return slot_bytes < SEGMENT_BYTES ? (uint32_t)(SEGMENT_BYTES / slot_bytes) : 1;
}

uint32_t slc_slab_n_segments(uint64_t slot_bytes, uint32_t n_slots) {
    return (n_slots - 1) / slots_per_segment(slot_bytes) + 1;
}

uint64_t slc_slab_segment_bytes(const slc_slab *slab, uint32_t segment) {
    uint32_t first = segment * slab->slots_per_segment, left = slab->n_slots - first;

    return (left < slab->slots_per_segment ? left : slab->slots_per_segment) * slab->slot_bytes;
}

/* Populating, over all segments. */
typedef struct filling {
    const char *meminfo_root;
    uint64_t reserve, piece; /* bytes */
    uint64_t done;           /* bytes of the slab */
} filling;

static filling begin_filling(const char *meminfo_root) {
    filling f = {.meminfo_root = meminfo_root, .reserve = RESERVE_BYTES};
    uint64_t room = slc_mem_room_bytes(meminfo_root);

    if (room / 8 < f.reserve) f.reserve = slc_align_down(room / 8, MIN_PIECE);
    f.piece = slc_align_down(f.reserve / 4, MIN_PIECE);
    if (f.piece > PIECE_BYTES) f.piece = PIECE_BYTES;
    if (f.piece < MIN_PIECE) f.piece = MIN_PIECE;
    return f;
}

/* Are the next n bytes there to be taken? */
static slc_status check_room(const slc_slab *slab, const filling *f, uint64_t n, slc_err *err) {
    uint64_t room = slc_mem_room_bytes(f->meminfo_root);

    if (room >= f->reserve && room - f->reserve >= n) return SLC_OK;
    return slc_fail(err, SLC_E_NOMEM,
                    "not enough memory for the expert cache: asked %" PRIu64
                    " MiB (%u slots of %" PRIu64 " KiB), got %" PRIu64 " MiB, then %" PRIu64
                    " MiB were left on the machine, or in its cgroup, and %" PRIu64
                    " MiB of those stay free; ask for less",
                    slab->n_slots * slab->slot_bytes / MIB, slab->n_slots, slab->slot_bytes / 1024,
                    f->done / MIB, room / MIB, f->reserve / MIB);
}

static slc_status populate(const slc_slab *slab, uint32_t segment, filling *f, slc_err *err) {
    uint8_t *p = slab->segments[segment];
    uint64_t bytes = slc_slab_segment_bytes(slab, segment), n;
    slc_status rc;

    for (uint64_t at = 0; at < bytes; at += n, f->done += n) {
        n = bytes - at < f->piece ? bytes - at : f->piece;
        if ((rc = check_room(slab, f, n, err))) return rc;
        if ((rc = slc_map_populate(p + at, n, err))) return rc;
    }
    return SLC_OK;
}

slc_status slc_slab_create(slc_slab *slab, uint64_t slot_bytes, uint32_t n_slots,
                           const char *meminfo_root, slc_err *err) {
    filling f = begin_filling(meminfo_root);
    slc_status rc = SLC_OK;
    size_t total;

    *slab = (slc_slab){.slot_bytes = slot_bytes,
                       .n_slots = n_slots,
                       .slots_per_segment = slots_per_segment(slot_bytes),
                       .n_segments = slc_slab_n_segments(slot_bytes, n_slots)};
    if (!slc_mul(slot_bytes, n_slots, &total)) {
        return slc_fail(err, SLC_E_NOMEM, "expert cache: %u slots of %" PRIu64 " bytes overflow",
                        n_slots, slot_bytes);
    }
    if ((rc = check_room(slab, &f, total, err))) return rc;
    slab->segments = slc_calloc(slab->n_segments, sizeof(*slab->segments));
    if (!slab->segments) return slc_fail(err, SLC_E_NOMEM, "no memory for the expert cache");
    for (uint32_t i = 0; i < slab->n_segments && !rc; i++) {
        rc = slc_map_alloc(slc_slab_segment_bytes(slab, i), true, &slab->segments[i], err);
        if (!rc) rc = populate(slab, i, &f, err);
    }
    if (rc) slc_slab_destroy(slab);
    return rc;
}

void slc_slab_destroy(slc_slab *slab) {
    for (uint32_t i = 0; slab->segments && i < slab->n_segments; i++) {
        slc_map_free(slab->segments[i], slc_slab_segment_bytes(slab, i));
    }
    free(slab->segments);
    *slab = (slc_slab){0};
}
