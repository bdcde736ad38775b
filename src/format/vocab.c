/* Flat storage of a vocabulary.
 *
 * Both tables use open addressing with linear probing and are at most two thirds full; what costs
 * time is cache misses. A word of the merge table holds the whole entry, so a look-up touches one
 * cache line; a word of the text table has ten bits of the hash, so only the right text is read:
 *
 *      63   62        42 41        21 20        0          31   30   21 20     0
 *     used |    left    |   right    |   rank    |        used | hash  |   id   |
 *
 * Arrays grow by doubling; large blocks are remapped by the allocator, not copied, so the peak
 * stays near the final size. */
#include "format/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"

#define MERGE_USED ((uint64_t)1 << 63)
#define TEXT_USED  (1u << 31)
#define ID_MASK    (SLC_VOCAB_MAX_IDS - 1)

/* Makes room for `need` items. *cap is changed on success only. */
static bool grow(void **array, uint32_t *cap, uint64_t need, size_t size) {
    uint64_t want = *cap ? *cap : 1024;
    void *p;

    if (need <= *cap) return true;
    if (need > UINT32_MAX) return false;
    while (want < need) want *= 2;
    if (want > UINT32_MAX) want = UINT32_MAX;
    if (!(p = slc_realloc(*array, (size_t)want, size))) return false;
    *array = p;
    *cap = (uint32_t)want;
    return true;
}

static slc_status no_memory(slc_err *err) {
    return slc_fail(err, SLC_E_NOMEM, "no memory for the vocabulary");
}

/* ---- texts ---- */

static uint32_t hash_text(const char *s, size_t n) {
    uint64_t h = n * 0x9e3779b97f4a7c15u, word;

    for (; n >= 8; s += 8, n -= 8) {
        memcpy(&word, s, 8);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    word = 0;
    if (n) memcpy(&word, s, n);
    h = (h ^ word) * 0xc4ceb9fe1a85ec53u;
    return (uint32_t)(h >> 32);
}

/* A word of the text table. The low bits of the hash choose the slot, the high ones stand here. */
static uint32_t text_word(uint32_t hash, uint32_t id) {
    return TEXT_USED | (hash >> 1 & ~ID_MASK) | id;
}

/* The slot that holds the text, or the free one where it belongs. The table is not full. */
static uint32_t *text_slot(const slc_vocab *v, uint32_t hash, const char *s, size_t n) {
    uint32_t mask = v->cap_by_text - 1, i = hash & mask, word;

    for (; (word = v->by_text[i]); i = (i + 1) & mask) {
        slc_span t;

        if (word != text_word(hash, word & ID_MASK)) continue;
        t = v->tokens[word & ID_MASK];
        if (t.len == n && memcmp(v->text + t.off, s, n) == 0) break;
    }
    return &v->by_text[i];
}

static slc_status grow_by_text(slc_vocab *v, slc_err *err) {
    uint32_t *old = v->by_text, old_cap = v->cap_by_text;
    uint32_t cap = old_cap ? old_cap * 2 : 1024;

    if ((uint64_t)(v->n_by_text + 1) * 3 <= (uint64_t)old_cap * 2) return SLC_OK;
    if (!(v->by_text = slc_calloc(cap, sizeof(*old)))) {
        v->by_text = old;
        return no_memory(err);
    }
    v->cap_by_text = cap;
    for (uint32_t i = 0; i < old_cap; i++) {
        slc_span t;
        const char *s;

        if (!old[i]) continue;
        t = v->tokens[old[i] & ID_MASK];
        s = v->text + t.off;
        *text_slot(v, hash_text(s, t.len), s, t.len) = old[i];
    }
    free(old);
    return SLC_OK;
}

slc_status slc_vocab_store(slc_vocab *v, const char *text, size_t n, slc_span *out, slc_err *err) {
    if (n > UINT32_MAX ||
        !grow((void **)&v->text, &v->cap_text, (uint64_t)v->n_text + n, sizeof(char)))
        return no_memory(err);
    *out = (slc_span){v->n_text, (uint32_t)n};
    if (n) memcpy(v->text + v->n_text, text, n);
    v->n_text += (uint32_t)n;
    return SLC_OK;
}

slc_status slc_vocab_set(slc_vocab *v, int64_t id, slc_span text, slc_err *err) {
    if (id < 0 || id >= SLC_VOCAB_MAX_IDS)
        return slc_fail(err, SLC_E_FORMAT, "token id %lld: expected 0 to %u", (long long)id,
                        SLC_VOCAB_MAX_IDS - 1);
    if (!grow((void **)&v->tokens, &v->cap_ids, (uint64_t)id + 1, sizeof(*v->tokens)))
        return no_memory(err);
    for (; v->n_ids <= id; v->n_ids++) v->tokens[v->n_ids] = (slc_span){0, 0};
    v->tokens[id] = text;
    return SLC_OK;
}

slc_status slc_vocab_add(slc_vocab *v, int64_t id, const char *text, size_t n, bool findable,
                         slc_err *err) {
    uint32_t hash = hash_text(text, n), *slot;
    slc_span span;
    slc_status rc;

    if (id >= 0 && id < v->n_ids && v->tokens[id].len)
        return slc_fail(err, SLC_E_FORMAT, "token id %lld is given twice", (long long)id);
    if ((rc = slc_vocab_store(v, text, n, &span, err))) return rc;
    if ((rc = slc_vocab_set(v, id, span, err)) || !findable || !n) return rc;
    if ((rc = grow_by_text(v, err))) return rc;
    slot = text_slot(v, hash, text, n);
    if (*slot)
        return slc_fail(err, SLC_E_FORMAT, "tokens %u and %lld have the same text", *slot & ID_MASK,
                        (long long)id);
    *slot = text_word(hash, (uint32_t)id);
    v->n_by_text++;
    return SLC_OK;
}

int32_t slc_vocab_find(const slc_vocab *v, const char *text, size_t n) {
    uint32_t word = v->cap_by_text ? *text_slot(v, hash_text(text, n), text, n) : 0;

    return word ? (int32_t)(word & ID_MASK) : -1;
}

/* ---- merges ---- */

static uint64_t merge_key(uint32_t left, uint32_t right) {
    return MERGE_USED | (uint64_t)left << 2 * SLC_VOCAB_ID_BITS |
           (uint64_t)right << SLC_VOCAB_ID_BITS;
}

/* The slot that holds the pair, or the free one where it belongs. The table is not full. */
static uint64_t *merge_slot(const slc_vocab *v, uint64_t key) {
    uint32_t mask = v->cap_merges - 1;
    uint32_t i = (uint32_t)((key >> SLC_VOCAB_ID_BITS) * 0x9e3779b97f4a7c15u >> 32) & mask;

    while (v->merges[i] && (v->merges[i] ^ key) >> SLC_VOCAB_ID_BITS) i = (i + 1) & mask;
    return &v->merges[i];
}

/* The first table is as large as a merge for every token needs: usually the last one too. */
static slc_status grow_merges(slc_vocab *v, slc_err *err) {
    uint64_t *old = v->merges;
    uint32_t old_cap = v->cap_merges, cap = old_cap ? old_cap * 2 : 1024;

    if ((uint64_t)(v->n_merges + 1) * 3 <= (uint64_t)old_cap * 2) return SLC_OK;
    while ((uint64_t)cap * 2 < (uint64_t)v->n_ids * 3) cap *= 2;
    if (!(v->merges = slc_calloc(cap, sizeof(*old)))) {
        v->merges = old;
        return no_memory(err);
    }
    v->cap_merges = cap;
    for (uint32_t i = 0; i < old_cap; i++)
        if (old[i]) *merge_slot(v, old[i]) = old[i];
    free(old);
    return SLC_OK;
}

slc_status slc_vocab_add_merge(slc_vocab *v, int32_t left, int32_t right, int32_t merged,
                               slc_err *err) {
    uint64_t key = merge_key((uint32_t)left, (uint32_t)right);
    slc_status rc;

    if (v->n_merges == SLC_VOCAB_MAX_IDS)
        return slc_fail(err, SLC_E_UNSUPPORTED, "more than %u merges", SLC_VOCAB_MAX_IDS);
    if (!grow((void **)&v->merged, &v->cap_merged, (uint64_t)v->n_merges + 1, sizeof(*v->merged)))
        return no_memory(err);
    if ((rc = grow_merges(v, err))) return rc;
    *merge_slot(v, key) = key | v->n_merges;
    v->merged[v->n_merges++] = (uint32_t)merged;
    return SLC_OK;
}

uint32_t slc_vocab_rank(const slc_vocab *v, uint32_t left, uint32_t right) {
    uint64_t entry = v->cap_merges ? *merge_slot(v, merge_key(left, right)) : 0;

    return entry ? (uint32_t)(entry & ID_MASK) : UINT32_MAX;
}

/* ---- life ---- */

static void shrink(void **array, uint32_t *cap, uint32_t n, size_t size) {
    void *p = slc_realloc(*array, n, size);

    if (!p) return;
    *array = p;
    *cap = n ? n : 1;
}

void slc_vocab_finish(slc_vocab *v, bool keep_find) {
    shrink((void **)&v->text, &v->cap_text, v->n_text, sizeof(char));
    shrink((void **)&v->tokens, &v->cap_ids, v->n_ids, sizeof(*v->tokens));
    shrink((void **)&v->merged, &v->cap_merged, v->n_merges, sizeof(*v->merged));
    if (keep_find) return;
    free(v->by_text);
    v->by_text = NULL;
    v->n_by_text = v->cap_by_text = 0;
}

void slc_vocab_deinit(slc_vocab *v) {
    free(v->text);
    free(v->tokens);
    free(v->by_text);
    free(v->merges);
    free(v->merged);
    *v = (slc_vocab){0};
}
