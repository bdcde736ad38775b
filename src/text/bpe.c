/* Merging with a heap instead of a scan.
 *
 * The piece is a doubly linked list of symbols in one array. Each symbol knows the rank of the pair
 * that it forms with the next. The heap holds (rank, position) words, so its least word is the pair
 * of lowest rank, leftmost of equals. A merge changes at most two pairs; their new words are pushed
 * and the old ones left: a word whose rank is not the symbol's any more is dropped when it comes
 * up. Each merge takes out at least one word and puts in two, so 2n words are enough. */
#include "text/bpe.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/fail.h"

#define NONE UINT32_MAX

struct slc_bpe_symbol {
    uint32_t id, prev, next; /* positions, NONE at the ends */
    uint32_t rank;           /* of the pair with next; NONE: cannot merge, or merged away */
};

struct heap {
    uint64_t *words; /* rank << 32 | position, least first */
    size_t n;
};

void slc_bpe_work_deinit(slc_bpe_work *w) {
    free(w->symbols);
    free(w->heap);
    *w = (slc_bpe_work){0};
}

static slc_status reserve(slc_bpe_work *w, size_t n, slc_err *err) {
    size_t cap = w->cap ? w->cap : 64;

    if (n <= w->cap) return SLC_OK;
    while (cap < n) cap *= 2;
    slc_bpe_work_deinit(w);
    w->symbols = slc_calloc(cap, sizeof(*w->symbols));
    w->heap = slc_calloc(cap, 2 * sizeof(*w->heap));
    if (!w->symbols || !w->heap) {
        slc_bpe_work_deinit(w);
        return slc_fail(err, SLC_E_NOMEM, "no memory to tokenize a piece of %zu bytes", n);
    }
    w->cap = cap;
    return SLC_OK;
}

static void heap_push(struct heap *h, uint64_t word) {
    size_t i = h->n++;

    for (; i && h->words[(i - 1) / 2] > word; i = (i - 1) / 2) h->words[i] = h->words[(i - 1) / 2];
    h->words[i] = word;
}

static uint64_t heap_pop(struct heap *h) {
    uint64_t top = h->words[0], last = h->words[--h->n];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < h->n) {
        if (child + 1 < h->n && h->words[child + 1] < h->words[child]) child++;
        if (last <= h->words[child]) break;
        h->words[i] = h->words[child];
        i = child;
    }
    h->words[i] = last;
    return top;
}

/* Looks up the pair that begins at `at` and puts it in the heap if it can merge. */
static void pair(const slc_vocab *v, struct slc_bpe_symbol *s, struct heap *h, uint32_t at) {
    s[at].rank = s[at].next == NONE ? NONE : slc_vocab_rank(v, s[at].id, s[s[at].next].id);
    if (s[at].rank != NONE) heap_push(h, (uint64_t)s[at].rank << 32 | at);
}

/* Joins the symbol at `at` with the next one. */
static void merge(const slc_vocab *v, struct slc_bpe_symbol *s, struct heap *h, uint32_t at) {
    uint32_t gone = s[at].next;

    s[at].id = v->merged[s[at].rank];
    s[at].next = s[gone].next;
    s[gone].rank = NONE;
    if (s[at].next != NONE) s[s[at].next].prev = at;
    pair(v, s, h, at);
    if (s[at].prev != NONE) pair(v, s, h, s[at].prev);
}

slc_status slc_bpe_merge(const slc_vocab *v, slc_bpe_work *w, int32_t *ids, size_t *n,
                         slc_err *err) {
    slc_status rc = reserve(w, *n, err);
    struct slc_bpe_symbol *s = w->symbols;
    struct heap h = {w->heap, 0};
    uint32_t count = (uint32_t)*n;

    if (rc || count < 2) return rc;
    for (uint32_t i = 0; i < count; i++)
        s[i] = (struct slc_bpe_symbol){(uint32_t)ids[i], i ? i - 1 : NONE,
                                       i + 1 < count ? i + 1 : NONE, NONE};
    for (uint32_t i = 0; i < count; i++) pair(v, s, &h, i);
    while (h.n) {
        uint64_t word = heap_pop(&h);
        uint32_t at = (uint32_t)word;

        if (s[at].rank == word >> 32) merge(v, s, &h, at);
    }
    *n = 0;
    for (uint32_t i = 0; i != NONE; i = s[i].next) ids[(*n)++] = (int32_t)s[i].id;
    return SLC_OK;
}
