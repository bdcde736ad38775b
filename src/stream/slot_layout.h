/* How one expert lies in a slot: the parts that are neighbours in the file are one read, each read
 * is the aligned superset of its range, and reads lie one after another at aligned boundaries.
 *
 *     file   ...|----block----|----block----|----block----|...
 *                      [====part====][=part=]
 *     slot   at ->|----[====part====][=part=]------|  next read, aligned
 *
 * Nothing in a checkpoint is aligned, so a part starts anywhere in its read. In a folder of stacked
 * tensors the parts of an expert lie far apart and each is a read of its own; in a file that keeps
 * them together they become one. Pure functions of the checkpoint; any thread. */
#ifndef SLC_STREAM_SLOT_LAYOUT_H
#define SLC_STREAM_SLOT_LAYOUT_H

#include <stdint.h>

#include "format/checkpoint.h"

enum { SLC_SLOT_PARTS = SLC_N_PROJ * SLC_N_PARTS };

#define SLC_NO_PART UINT64_MAX

typedef struct slc_slot_read {
    const slc_file *file;
    uint64_t off;  /* aligned to file->align */
    uint64_t len;  /* aligned alike; may reach past the end of the file */
    uint64_t need; /* bytes that must arrive: up to the end of the last part */
    uint64_t at;   /* where the read goes, from the start of the slot */
} slc_slot_read;

typedef struct slc_slot_layout {
    uint64_t bytes; /* taken up */
    uint32_t n_reads;
    slc_slot_read read[SLC_SLOT_PARTS]; /* in file order */
    /* where part [proj * SLC_N_PARTS + part] starts; SLC_NO_PART: the encoding has none */
    uint64_t part_at[SLC_SLOT_PARTS];
} slc_slot_layout;

/* Sums cannot overflow: extents lie within their files. */
void slc_slot_layout_of(const slc_checkpoint *c, uint32_t layer, uint32_t expert,
                        slc_slot_layout *out);

/* Whether the feed-forward block of this layer has routed experts. */
bool slc_layer_has_experts(const slc_checkpoint *c, uint32_t layer);

#endif
