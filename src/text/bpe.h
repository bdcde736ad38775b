/* Byte-pair merging of one piece of text. */
#ifndef SLC_TEXT_BPE_H
#define SLC_TEXT_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "format/vocab.h"
#include "sluice/status.h"

/* Scratch that grows to the longest piece met. Zero it to start; one owner. */
typedef struct slc_bpe_work {
    struct slc_bpe_symbol *symbols; /* [cap] */
    uint64_t *heap;                 /* [2 * cap] */
    size_t cap;
} slc_bpe_work;

void slc_bpe_work_deinit(slc_bpe_work *w);

/* Replaces n ids (one per byte of the piece) by what merging makes of them: again and again the
 * adjacent pair of lowest rank, the leftmost of equals. *n is updated. Time O(n log n), n below
 * 2^31. */
slc_status slc_bpe_merge(const slc_vocab *v, slc_bpe_work *w, int32_t *ids, size_t *n,
                         slc_err *err) SLC_MUST_CHECK;

#endif
