/* A byte-level BPE vocabulary in a few flat arrays: token texts, their ids, and the merge table.
 *
 * Texts are the bytes that tokens stand for. A quarter of a million tokens take about 10 MB and a
 * dozen allocations. Filled by one thread, then immutable: any thread may read it. */
#ifndef SLC_FORMAT_VOCAB_H
#define SLC_FORMAT_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/status.h"

/* Ids and ranks have 21 bits each, so that a merge (left, right, rank) is one word of the table. */
#define SLC_VOCAB_ID_BITS 21u
#define SLC_VOCAB_MAX_IDS (1u << SLC_VOCAB_ID_BITS)

typedef struct slc_span {
    uint32_t off, len; /* in slc_vocab.text; len 0: no text */
} slc_span;

typedef struct slc_vocab {
    char *text; /* all texts, in the order they came, no terminators */
    uint32_t n_text, cap_text;
    slc_span *tokens; /* [n_ids] */
    uint32_t n_ids, cap_ids;
    uint32_t *by_text; /* [cap_by_text] open addressing: see vocab.c, 0 is free */
    uint32_t n_by_text, cap_by_text;
    uint64_t *merges; /* [cap_merges] open addressing: see vocab.c, 0 is free */
    uint32_t cap_merges;
    uint32_t *merged; /* [n_merges] rank to the id that the merge makes */
    uint32_t n_merges, cap_merged;
} slc_vocab;

/* Keeps a copy of n bytes in v->text. */
slc_status slc_vocab_store(slc_vocab *v, const char *text, size_t n, slc_span *out,
                           slc_err *err) SLC_MUST_CHECK;
/* Gives an id its text. With `findable`, slc_vocab_find knows it. SLC_E_FORMAT when the id or a
 * findable text exists already, or the id is SLC_VOCAB_MAX_IDS or more. */
slc_status slc_vocab_add(slc_vocab *v, int64_t id, const char *text, size_t n, bool findable,
                         slc_err *err) SLC_MUST_CHECK;
/* Replaces (or sets) the text of an id, without making it findable. */
slc_status slc_vocab_set(slc_vocab *v, int64_t id, slc_span text, slc_err *err) SLC_MUST_CHECK;
/* The id of a text, -1 if none. */
int32_t slc_vocab_find(const slc_vocab *v, const char *text, size_t n);
/* Appends the merge of two tokens into a third, with the next rank. The last of equal pairs counts,
 * as in the reference implementation. */
slc_status slc_vocab_add_merge(slc_vocab *v, int32_t left, int32_t right, int32_t merged,
                               slc_err *err) SLC_MUST_CHECK;
/* Gives back spare room; without `keep_find`, also what slc_vocab_find needs (it then finds
 * nothing). */
void slc_vocab_finish(slc_vocab *v, bool keep_find);
void slc_vocab_deinit(slc_vocab *v);

/* The rank of the merge of two tokens, UINT32_MAX if there is none. v->merged[rank] is its result.
 */
uint32_t slc_vocab_rank(const slc_vocab *v, uint32_t left, uint32_t right);

#endif
