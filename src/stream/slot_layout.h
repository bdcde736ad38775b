/* How the parts of one expert lie in a slot: one after another, each at the next aligned boundary,
 * read as the aligned superset of its extent.
 *
 *     file   ...|----block----|----block----|----block----|...
 *                      [=========part=========]
 *     slot   at ->|lead[=========part=========]tail|  next part, aligned
 *
 * Nothing in a checkpoint is aligned, so a part starts `lead` bytes into its place. Pure functions
 * of the checkpoint; any thread. */
#ifndef SLC_STREAM_SLOT_LAYOUT_H
#define SLC_STREAM_SLOT_LAYOUT_H

#include <stdint.h>

#include "format/checkpoint.h"

enum { SLC_SLOT_PARTS = SLC_N_PROJ * SLC_N_PARTS };

typedef struct slc_slot_part {
    const slc_file *file; /* NULL: the encoding has no such part */
    uint64_t off;         /* where the read starts, aligned to file->align */
    uint64_t len;         /* of the read, aligned alike; may reach past the end of the file */
    uint64_t lead;        /* bytes of the read in front of the part */
    uint64_t need;        /* lead + the part's bytes */
    uint64_t at;          /* where the read goes, from the start of the slot */
} slc_slot_part;

/* Fills part [proj * SLC_N_PARTS + part]; returns the bytes taken up. Sums cannot overflow: extents
 * lie within their files. */
uint64_t slc_slot_layout(const slc_checkpoint *c, uint32_t layer, uint32_t expert,
                         slc_slot_part part[SLC_SLOT_PARTS]);

/* Whether the feed-forward block of this layer has routed experts. */
bool slc_layer_has_experts(const slc_checkpoint *c, uint32_t layer);

#endif
