/* The expert store: which expert is in which slot, and the fetch that brings a layer's experts in.
 *
 * A slot's life:
 *
 *     empty --start_load--> loading --last read done--> ready --evicted--> empty
 *       ^                      |                         pins > 0: in use; 0: the policy has it
 *       +------ a read failed -+
 *
 * Empty slots wait on a stack; ready unpinned ones are with the policy; a loading slot belongs to
 * its reads and to nobody else. `map` leads from key (layer * n_experts + expert) to the slot,
 * loading or ready. A loading slot may have no fetch waiting for it (`idx` none: the fetch ended
 * early); its reads complete all the same and the expert stays for whoever comes next. Prefetch is
 * that state entered on purpose.
 *
 * A fetch marks its misses by their rank in file order, so that the next one to start is found by
 * walking up, and starts them while slots can be had: at begin, at each release, and when an
 * abandoned load frees its slot. Hits are pinned at begin, so that misses cannot evict them.
 * Parts of an expert lie far apart in a folder of stacked tensors; reads go expert by expert, since
 * the first complete expert is what lets computing start.
 *
 * Everything is allocated at create. Entered by the owner thread alone. */
#include "stream/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/fail.h"
#include "stream/policy.h"
#include "stream/slab.h"
#include "stream/slot_layout.h"

#define NONE       UINT32_MAX
#define SLOT_ALIGN 4096u
#define REAP_MAX   64u

typedef enum slot_state { SLOT_EMPTY = 0, SLOT_LOADING, SLOT_READY } slot_state;

typedef struct slot {
    uint32_t key; /* NONE: empty */
    uint32_t idx; /* of the running fetch that waits for it; NONE: delivered, or nobody does */
    uint32_t pins;
    uint8_t state;
    uint8_t n_pending; /* reads not reaped */
    bool failed;       /* one of them failed */
} slot;

typedef struct fetch {
    bool active;
    uint32_t layer, n;
    const uint32_t *experts;
    uint32_t *slot_of; /* [n_experts] by idx; NONE: not started, or failed */
    uint32_t *queue;   /* [n_experts] idx in order of delivery */
    uint32_t n_queued, n_taken;
    uint32_t *idx_at_rank;      /* [n_experts] misses not started; NONE elsewhere */
    uint32_t rank, n_unstarted; /* all misses below rank are started */
    slc_err error;              /* the first */
} fetch;

struct slc_store {
    const slc_checkpoint *ckpt;
    slc_io *io;
    const slc_policy *policy;
    void *policy_state;
    slc_slab slab;
    slc_arena arena; /* everything below that is an array */
    uint32_t n_slots, n_experts, n_keys;
    slot *slots;
    slc_io_read *reads; /* [n_slots][SLC_SLOT_PARTS] */
    uint32_t *empty;    /* stack of empty slots */
    uint32_t n_empty;
    uint32_t *map;       /* [n_keys] slot or NONE */
    uint32_t *rank;      /* [n_keys] place among the layer's experts in file order */
    slc_io_read **batch; /* [min(n_slots, n_experts) * SLC_SLOT_PARTS] being put together */
    fetch fetch;
    slc_store_stats stats;
};

/* ---- sizes ---- */

uint64_t slc_store_slot_bytes(const slc_checkpoint *c) {
    slc_slot_part part[SLC_SLOT_PARTS];
    uint64_t most = 0, align = SLOT_ALIGN;

    for (uint32_t i = 0; i < c->n_files; i++) {
        if (c->files[i].align > align) align = c->files[i].align;
    }
    for (uint32_t layer = 0; layer < c->cfg.n_layers; layer++) {
        if (!slc_layer_has_experts(c, layer)) continue;
        for (uint32_t expert = 0; expert < c->cfg.n_experts; expert++) {
            uint64_t bytes = slc_slot_layout(c, layer, expert, part);
            if (bytes > most) most = bytes;
        }
    }
    return slc_align_up(most, align);
}

/* Lays out all arrays: measures on an empty arena, hands out on an allocated one. */
static void take_arrays(slc_store *s, slc_arena *a) {
    size_t at_once = s->n_slots < s->n_experts ? s->n_slots : s->n_experts;

    s->slots = slc_arena_take(a, s->n_slots, sizeof(*s->slots));
    s->reads = slc_arena_take(a, (size_t)s->n_slots * SLC_SLOT_PARTS, sizeof(*s->reads));
    s->empty = slc_arena_take(a, s->n_slots, sizeof(*s->empty));
    s->map = slc_arena_take(a, s->n_keys, sizeof(*s->map));
    s->rank = slc_arena_take(a, s->n_keys, sizeof(*s->rank));
    s->batch = slc_arena_take(a, at_once * SLC_SLOT_PARTS, sizeof(slc_io_read *));
    s->fetch.slot_of = slc_arena_take(a, s->n_experts, sizeof(uint32_t));
    s->fetch.queue = slc_arena_take(a, s->n_experts, sizeof(uint32_t));
    s->fetch.idx_at_rank = slc_arena_take(a, s->n_experts, sizeof(uint32_t));
    s->policy_state = s->policy->take(a, s->n_slots, s->n_keys);
}

static void set_counts(slc_store *s, const slc_checkpoint *c, uint32_t n_slots) {
    s->ckpt = c;
    s->policy = &slc_policy_lru;
    s->n_slots = n_slots;
    s->n_experts = c->cfg.n_experts;
    s->n_keys = c->cfg.n_layers * c->cfg.n_experts;
}

uint64_t slc_store_overhead_bytes(const slc_checkpoint *c, uint32_t n_slots) {
    uint64_t slot_bytes = slc_store_slot_bytes(c);
    slc_arena measure = {0};
    slc_store s = {0};

    if (!slot_bytes || !n_slots) return 0;
    set_counts(&s, c, n_slots);
    take_arrays(&s, &measure);
    return sizeof(s) + measure.used + slc_slab_n_segments(slot_bytes, n_slots) * sizeof(void *);
}

/* ---- slots ---- */

static uint32_t key_of(const slc_store *s, uint32_t layer, uint32_t expert) {
    return layer * s->n_experts + expert;
}

static void pin(slc_store *s, uint32_t id) {
    if (s->slots[id].pins++ == 0 && s->policy->holds(s->policy_state, id)) {
        s->policy->remove(s->policy_state, id);
    }
}

static void unpin(slc_store *s, uint32_t id) {
    slot *at = &s->slots[id];

    slc_assert(at->state == SLOT_READY && at->pins > 0);
    if (--at->pins == 0) s->policy->add(s->policy_state, id, at->key);
}

static void make_empty(slc_store *s, uint32_t id) {
    s->map[s->slots[id].key] = NONE;
    s->slots[id] = (slot){.key = NONE, .idx = NONE};
    s->empty[s->n_empty++] = id;
}

/* An empty slot, evicting if need be; NONE when all are pinned or loading. */
static uint32_t take_slot(slc_store *s) {
    if (s->n_empty == 0) {
        uint32_t victim = s->policy->victim(s->policy_state);
        if (victim == SLC_NO_SLOT) return NONE;
        s->policy->remove(s->policy_state, victim);
        make_empty(s, victim);
    }
    return s->empty[--s->n_empty];
}

/* Fills the slot's reads and appends them to batch; returns how many. */
static uint32_t start_load(slc_store *s, uint32_t id, uint32_t key, uint32_t idx,
                           slc_io_read **batch) {
    slc_slot_part part[SLC_SLOT_PARTS];
    uint8_t *base = slc_slab_slot(&s->slab, id);
    uint32_t n = 0;

    slc_slot_layout(s->ckpt, key / s->n_experts, key % s->n_experts, part);
    for (int i = 0; i < SLC_SLOT_PARTS; i++) {
        slc_io_read *r = &s->reads[(size_t)id * SLC_SLOT_PARTS + n];
        if (!part[i].file) continue;
        *r = (slc_io_read){.file = part[i].file,
                           .off = part[i].off,
                           .buf = base + part[i].at,
                           .len = (uint32_t)part[i].len,
                           .need = (uint32_t)part[i].need,
                           .user = &s->slots[id]};
        batch[n++] = r;
        s->stats.bytes_read += r->len;
    }
    slc_assert(n); /* an expert has at least its weights */
    s->stats.reads += n;
    s->slots[id] = (slot){.key = key, .idx = idx, .state = SLOT_LOADING, .n_pending = (uint8_t)n};
    s->map[key] = id;
    return n;
}

static void enqueue(fetch *f, uint32_t idx) {
    f->queue[f->n_queued++] = idx;
}

static void note_failure(slc_store *s, const slot *at, const slc_io_read *r) {
    slc_err *e = &s->fetch.error;

    s->stats.failed_reads++;
    if (at->idx == NONE || e->code) return; /* abandoned, or not the first */
    slc_io_read_error(r, e);
    slc_fail_context(e, "layer %u, expert %u", at->key / s->n_experts, at->key % s->n_experts);
}

static void load_done(slc_store *s, slot *at) {
    uint32_t id = (uint32_t)(at - s->slots), idx = at->idx;

    if (at->failed) {
        make_empty(s, id);
        if (idx == NONE) return;
        s->fetch.slot_of[idx] = NONE;
        enqueue(&s->fetch, idx);
    } else {
        at->state = SLOT_READY;
        if (idx == NONE) {
            s->policy->add(s->policy_state, id, at->key);
        } else {
            pin(s, id);
            enqueue(&s->fetch, idx);
        }
    }
}

/* Takes what the disk has finished. */
static void drain(slc_store *s, bool wait) {
    slc_io_read *done[REAP_MAX];
    uint32_t n;

    while ((n = slc_io_reap(s->io, done, REAP_MAX, wait)) > 0) {
        for (uint32_t i = 0; i < n; i++) {
            slot *at = done[i]->user;
            if (done[i]->status) {
                note_failure(s, at, done[i]);
                at->failed = true;
            }
            if (--at->n_pending == 0) load_done(s, at);
        }
        wait = false;
    }
}

/* ---- the fetch ---- */

/* Starts misses in file order while slots can be had, all reads in one submission. */
static void start_misses(slc_store *s) {
    fetch *f = &s->fetch;
    uint32_t n = 0;

    while (f->n_unstarted) {
        uint32_t id = take_slot(s), idx;
        if (id == NONE) break;
        while (f->idx_at_rank[f->rank] == NONE) f->rank++;
        idx = f->idx_at_rank[f->rank];
        f->idx_at_rank[f->rank] = NONE;
        f->n_unstarted--;
        f->slot_of[idx] = id;
        n += start_load(s, id, key_of(s, f->layer, f->experts[idx]), idx, s->batch + n);
    }
    if (n) slc_io_submit(s->io, s->batch, n);
}

/* Sorts one wanted expert into hit, on its way, or miss. */
static void want(slc_store *s, uint32_t idx) {
    fetch *f = &s->fetch;
    uint32_t key, id;

    slc_assert(f->experts[idx] < s->n_experts);
    key = key_of(s, f->layer, f->experts[idx]);
    id = s->map[key];
    f->slot_of[idx] = id;
    if (id == NONE) {
        slc_assert(f->idx_at_rank[s->rank[key]] == NONE); /* ids are distinct */
        f->idx_at_rank[s->rank[key]] = idx;
        f->n_unstarted++;
        s->stats.misses++;
        return;
    }
    slc_assert(s->slots[id].idx == NONE);
    s->slots[id].idx = idx;
    if (s->slots[id].state == SLOT_READY) {
        pin(s, id);
        enqueue(f, idx);
        s->stats.hits++;
    } else {
        s->stats.misses++;
    }
}

void slc_fetch_begin(slc_store *s, uint32_t layer, const uint32_t *experts, uint32_t n) {
    fetch *f = &s->fetch;

    slc_assert(!f->active && n <= s->n_experts);
    slc_assert(layer < s->ckpt->cfg.n_layers && slc_layer_has_experts(s->ckpt, layer));
    drain(s, false);
    f->active = true;
    f->layer = layer;
    f->n = n;
    f->experts = experts;
    f->n_queued = f->n_taken = f->rank = f->n_unstarted = 0;
    f->error = (slc_err){0};
    for (uint32_t i = 0; i < n; i++) want(s, i);
    start_misses(s);
}

static slc_fetched deliver(slc_store *s, uint32_t idx) {
    fetch *f = &s->fetch;
    slc_fetched got = {.idx = idx, .slot = f->slot_of[idx]};
    slc_slot_part part[SLC_SLOT_PARTS];

    if (got.slot == NONE) {
        got.status = SLC_E_IO;
        return got;
    }
    s->slots[got.slot].idx = NONE;
    slc_slot_layout(s->ckpt, f->layer, f->experts[idx], part);
    for (int i = 0; i < SLC_SLOT_PARTS; i++) {
        if (!part[i].file) continue;
        got.view.part[i / SLC_N_PARTS][i % SLC_N_PARTS] =
            slc_slab_slot(&s->slab, got.slot) + part[i].at + part[i].lead;
    }
    return got;
}

static void wait_for_disk(slc_store *s) {
    uint64_t start = slc_now_ns();

    /* otherwise the caller pins every slot and asks for more: it must release first */
    slc_assert(slc_io_outstanding(s->io) > 0);
    drain(s, true);
    s->stats.stall_ns += slc_now_ns() - start;
}

uint32_t slc_fetch_next(slc_store *s, slc_fetched *ready, uint32_t max) {
    fetch *f = &s->fetch;
    uint32_t n = 0;

    slc_assert(f->active && max > 0);
    if (f->n_taken == f->n) return 0;
    drain(s, false);
    start_misses(s);
    while (f->n_queued == f->n_taken) {
        wait_for_disk(s);
        start_misses(s);
    }
    while (n < max && f->n_taken < f->n_queued) ready[n++] = deliver(s, f->queue[f->n_taken++]);
    return n;
}

void slc_fetch_release(slc_store *s, const slc_fetched *ready, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (ready[i].status == SLC_OK) unpin(s, ready[i].slot);
    }
    if (s->fetch.active) start_misses(s);
}

slc_status slc_fetch_error(const slc_store *s, slc_err *err) {
    const slc_err *e = &s->fetch.error;

    if (e->code && err && !err->code) *err = *e;
    return e->code;
}

void slc_fetch_end(slc_store *s) {
    fetch *f = &s->fetch;

    slc_assert(f->active);
    for (uint32_t i = 0; i < f->n; i++) { /* what was not delivered is no longer waited for */
        uint32_t id = f->slot_of[i];
        if (id == NONE || s->slots[id].idx != i) continue;
        s->slots[id].idx = NONE;
        if (s->slots[id].state == SLOT_READY) unpin(s, id);
    }
    if (f->n_unstarted) memset(f->idx_at_rank, 0xff, s->n_experts * sizeof(*f->idx_at_rank));
    f->n_unstarted = 0;
    f->active = false;
}

/* ---- create, destroy ---- */

typedef struct place {
    uint32_t file, expert;
    uint64_t off;
} place;

static int by_place(const void *a, const void *b) {
    const place *x = a, *y = b;

    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    if (x->off != y->off) return x->off < y->off ? -1 : 1;
    return x->expert < y->expert ? -1 : 1;
}

/* Orders the experts of every layer by where their gate weights lie. */
static slc_status rank_experts(slc_store *s, slc_err *err) {
    place *order = slc_calloc(s->n_experts, sizeof(*order));

    if (!order) return slc_fail(err, SLC_E_NOMEM, "no memory to order the experts");
    for (uint32_t layer = 0; layer < s->ckpt->cfg.n_layers; layer++) {
        if (!slc_layer_has_experts(s->ckpt, layer)) continue;
        for (uint32_t i = 0; i < s->n_experts; i++) {
            slc_extent e = slc_checkpoint_expert(s->ckpt, layer, i, SLC_EXPERT_GATE, SLC_PART_W);
            order[i] = (place){.file = e.file, .expert = i, .off = e.off};
        }
        qsort(order, s->n_experts, sizeof(*order), by_place);
        for (uint32_t i = 0; i < s->n_experts; i++) s->rank[key_of(s, layer, order[i].expert)] = i;
    }
    free(order);
    return SLC_OK;
}

/* A part is one read, whose length is 32 bits wide; so are keys. */
static slc_status check_sizes(const slc_checkpoint *c, uint64_t slot_bytes, slc_err *err) {
    if (slot_bytes == 0) {
        return slc_fail(err, SLC_E_INVALID, "the model has no routed experts to stream");
    }
    if (slot_bytes > UINT32_MAX) {
        return slc_fail(err, SLC_E_UNSUPPORTED,
                        "an expert of %" PRIu64 " bytes is too large: at most 4 GiB", slot_bytes);
    }
    if ((uint64_t)c->cfg.n_layers * c->cfg.n_experts >= NONE) {
        return slc_fail(err, SLC_E_UNSUPPORTED, "%u layers of %u experts are too many",
                        c->cfg.n_layers, c->cfg.n_experts);
    }
    return SLC_OK;
}

static slc_status init(slc_store *s, slc_err *err) {
    slc_status rc;

    take_arrays(s, &s->arena); /* counts */
    if ((rc = slc_arena_alloc(&s->arena, false, err))) return rc;
    take_arrays(s, &s->arena); /* hands out */
    memset(s->map, 0xff, s->n_keys * sizeof(*s->map));
    memset(s->fetch.idx_at_rank, 0xff, s->n_experts * sizeof(*s->fetch.idx_at_rank));
    for (uint32_t i = s->n_slots; i-- > 0;) { /* slot 0 on top */
        s->slots[i] = (slot){.key = NONE, .idx = NONE};
        s->empty[s->n_empty++] = i;
    }
    return rank_experts(s, err);
}

slc_status slc_store_create(const slc_checkpoint *c, const slc_store_options *opt, slc_store **out,
                            slc_err *err) {
    uint64_t slot_bytes = slc_store_slot_bytes(c);
    slc_status rc = check_sizes(c, slot_bytes, err);
    slc_store *s;

    *out = NULL;
    if (rc) return rc;
    if (!opt->n_slots) return slc_fail(err, SLC_E_INVALID, "the expert cache needs one slot");
    if (!(s = slc_calloc(1, sizeof(*s)))) return slc_fail(err, SLC_E_NOMEM, "no memory");
    set_counts(s, c, opt->n_slots);
    s->io = opt->io;
    rc = slc_slab_create(&s->slab, slot_bytes, opt->n_slots, "", err);
    if (!rc) rc = init(s, err);
    if (rc) {
        slc_store_destroy(s);
        return rc;
    }
    slc_logf(opt->log, SLC_LOG_INFO,
             "expert cache: %u of %u experts, %" PRIu64 " KiB each, policy %s", s->n_slots,
             s->n_keys, slot_bytes / 1024, s->policy->name);
    *out = s;
    return SLC_OK;
}

void slc_store_destroy(slc_store *s) {
    slc_io_read *done[REAP_MAX];

    if (!s) return;
    while (slc_io_reap(s->io, done, REAP_MAX, true)) { /* the slab must outlive its reads */
    }
    slc_slab_destroy(&s->slab);
    slc_arena_free(&s->arena);
    free(s);
}

uint32_t slc_store_n_slots(const slc_store *s) {
    return s->n_slots;
}

uint64_t slc_store_slab_bytes(const slc_store *s) {
    return s->n_slots * s->slab.slot_bytes;
}

slc_store_stats slc_store_get_stats(const slc_store *s) {
    return s->stats;
}

/* ---- invariants ---- */

static void check_slot(const slc_store *s, uint32_t id) {
    const slot *at = &s->slots[id];
    bool evictable = s->policy->holds(s->policy_state, id);

    if (at->state == SLOT_EMPTY) {
        slc_assert(at->key == NONE && at->idx == NONE && !at->pins && !at->n_pending && !evictable);
        return;
    }
    slc_assert(at->key < s->n_keys && s->map[at->key] == id);
    if (at->idx != NONE) {
        slc_assert(s->fetch.active && at->idx < s->fetch.n && s->fetch.slot_of[at->idx] == id);
        slc_assert(at->key == key_of(s, s->fetch.layer, s->fetch.experts[at->idx]));
    }
    if (at->state == SLOT_LOADING) {
        slc_assert(at->n_pending && !at->pins && !evictable);
    } else {
        slc_assert(at->state == SLOT_READY && !at->n_pending && !at->failed);
        slc_assert(evictable == (at->pins == 0));
        slc_assert(at->idx == NONE || at->pins);
    }
}

static void check_fetch(const slc_store *s) {
    const fetch *f = &s->fetch;
    uint32_t n_waiting = 0, n_unstarted = 0;

    for (uint32_t i = 0; i < s->n_slots; i++) {
        n_waiting += s->slots[i].state == SLOT_LOADING && s->slots[i].idx != NONE;
    }
    for (uint32_t i = 0; i < s->n_experts; i++) n_unstarted += f->idx_at_rank[i] != NONE;
    slc_assert(n_unstarted == f->n_unstarted && f->n_taken <= f->n_queued);
    if (f->active) slc_assert(f->n_queued + n_waiting + n_unstarted == f->n);
}

void slc_store_check(const slc_store *s) {
    uint32_t n_mapped = 0, n_held = 0, n_empty = 0, n_pending = 0;

    for (uint32_t i = 0; i < s->n_slots; i++) {
        check_slot(s, i);
        n_empty += s->slots[i].state == SLOT_EMPTY;
        n_pending += s->slots[i].n_pending;
    }
    for (uint32_t i = 0; i < s->n_keys; i++) n_mapped += s->map[i] != NONE;
    for (uint32_t i = 0; i < s->n_empty; i++) {
        slc_assert(s->slots[s->empty[i]].state == SLOT_EMPTY);
        for (uint32_t k = 0; k < i; k++) n_held += s->empty[k] == s->empty[i];
    }
    slc_assert(n_held == 0); /* no slot is on the stack twice */
    slc_assert(n_empty == s->n_empty && n_mapped == s->n_slots - n_empty);
    slc_assert(n_pending == slc_io_outstanding(s->io));
    check_fetch(s);
}
