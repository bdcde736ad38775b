/* The expert store: which expert is in which slot, and the fetch that brings a layer's experts in.
 * A slot's life is drawn in store_internal.h.
 *
 * Empty slots wait on a stack; ready ones that nobody uses are with the policy; a loading slot
 * belongs to its reads and to nobody else. `map` leads from key (layer * n_experts + expert) to the
 * slot, loading or ready. A loading slot may have no fetch waiting for it (`idx` none: the fetch
 * ended early, or it was read on a hint); its reads complete all the same and the expert stays for
 * whoever comes next.
 *
 * A fetch marks its misses by their rank in file order, so that the next one to start is found by
 * walking up, and starts them while slots can be had: at begin, at each release, and when a load
 * that nobody waits for frees its slot, or one that was read early failed and is to be read again.
 * Hits are pinned at begin, so that misses cannot evict them. Parts of an expert lie far apart in a
 * folder of stacked tensors; reads go expert by expert, since the first complete expert is what
 * lets computing start.
 *
 * Everything is allocated at create. Entered by the owner thread alone. */
#include "stream/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "stream/store_internal.h"

#define SLOT_ALIGN    4096u
#define REAP_MAX      64u
#define RATE_WINDOW   20e6              /* ns of busy disk after which older ones count half */
#define FIRST_CALM_NS UINT64_C(1000000) /* until measured */
/* A calm longer than this, in decoding and while a prompt is read, is not the model computing but
 * nobody asking. */
#define MAX_CALM_NS(decode) ((decode) ? UINT64_C(100000000) : UINT64_C(5000000000))

/* ---- sizes ---- */

uint64_t slc_store_slot_bytes(const slc_checkpoint *c) {
    slc_slot_layout layout;
    uint64_t most = 0, align = SLOT_ALIGN;

    for (uint32_t i = 0; i < c->n_files; i++) {
        if (c->files[i].align > align) align = c->files[i].align;
    }
    for (uint32_t layer = 0; layer < c->cfg.n_layers; layer++) {
        if (!slc_layer_has_experts(c, layer)) continue;
        for (uint32_t expert = 0; expert < c->cfg.n_experts; expert++) {
            slc_slot_layout_of(c, layer, expert, &layout);
            if (layout.bytes > most) most = layout.bytes;
        }
    }
    return slc_align_up(most, align);
}

/* Lays out all arrays: measures on an empty arena, hands out on an allocated one. */
static void take_arrays(slc_store *s, slc_arena *a) {
    size_t at_once = s->n_slots < s->n_experts ? s->n_slots : s->n_experts;
    size_t n_reads = (size_t)s->n_slots * SLC_SLOT_PARTS;
    slc_policy_shape shape = {.n_slots = s->n_slots,
                              .n_layers = s->ckpt->cfg.n_layers,
                              .n_experts = s->n_experts,
                              .n_active = s->ckpt->cfg.n_experts_per_tok};

    s->slots = slc_arena_take(a, s->n_slots, sizeof(*s->slots));
    s->reads = slc_arena_take(a, n_reads, sizeof(*s->reads));
    s->part_at = slc_arena_take(a, n_reads, sizeof(*s->part_at));
    s->empty = slc_arena_take(a, s->n_slots, sizeof(*s->empty));
    s->map = slc_arena_take(a, s->n_keys, sizeof(*s->map));
    s->rank = slc_arena_take(a, s->n_keys, sizeof(*s->rank));
    s->turns = slc_arena_take(a, shape.n_layers, sizeof(*s->turns));
    s->named = slc_arena_take(a, s->n_keys, sizeof(*s->named));
    s->batch = slc_arena_take(a, at_once * SLC_SLOT_PARTS, sizeof(slc_io_read *));
    s->fetch.slot_of = slc_arena_take(a, s->n_experts, sizeof(uint32_t));
    s->fetch.queue = slc_arena_take(a, s->n_experts, sizeof(uint32_t));
    s->fetch.outcomes = slc_arena_take(a, s->n_experts, sizeof(slc_outcome));
    s->fetch.idx_at_rank = slc_arena_take(a, s->n_experts, sizeof(uint32_t));
    s->fetch.failure = slc_arena_take(a, s->n_experts, sizeof(slc_io_read));
    slc_prefetch_take(s, a);
    s->policy_state = s->policy->take(a, &shape);
}

static void set_counts(slc_store *s, const slc_checkpoint *c, uint32_t n_slots) {
    s->ckpt = c;
    s->n_slots = n_slots;
    s->n_experts = c->cfg.n_experts;
    s->n_keys = c->cfg.n_layers * c->cfg.n_experts;
    /* a start from a saved list hints at a whole cache, lookahead at two layers */
    s->n_hints = n_slots > 2 * s->n_experts ? n_slots : 2 * s->n_experts;
}

uint64_t slc_store_overhead_bytes(const slc_checkpoint *c, uint32_t n_slots) {
    uint64_t slot_bytes = slc_store_slot_bytes(c), most = 0;

    if (!slot_bytes || !n_slots) return 0;
    for (uint32_t i = 0; slc_policies[i]; i++) {
        slc_arena measure = {0};
        slc_store s = {.policy = slc_policies[i]};
        set_counts(&s, c, n_slots);
        take_arrays(&s, &measure);
        if (measure.used > most) most = measure.used;
    }
    return sizeof(slc_store) + most + slc_slab_n_segments(slot_bytes, n_slots) * sizeof(void *);
}

/* ---- slots ---- */

static void pin(slc_store *s, uint32_t id) {
    slc_slot *at = &s->slots[id];

    if (at->pins++ == 0 && !at->awaited) s->policy->remove(s->policy_state, id);
    at->awaited = false;
}

static void unpin(slc_store *s, uint32_t id) {
    slc_slot *at = &s->slots[id];

    slc_assert(at->state == SLC_SLOT_READY && at->pins > 0);
    if (--at->pins == 0) s->policy->add(s->policy_state, id, at->key);
}

static void make_empty(slc_store *s, uint32_t id) {
    if (s->slots[id].guess != SLC_N_GUESS) slc_guess_settle(s, id, SLC_GUESS_WASTED);
    s->map[s->slots[id].key] = SLC_NONE;
    s->slots[id] = (slc_slot){.key = SLC_NONE, .idx = SLC_NONE, .guess = SLC_N_GUESS};
    s->empty[s->n_empty++] = id;
}

void slc_store_evict(slc_store *s, uint32_t id) {
    s->policy->remove(s->policy_state, id);
    make_empty(s, id);
}

/* Whether a prompt's fetch has enough on its way to wait rather than evict what is worth more. */
static bool can_wait(const slc_store *s) {
    const slc_fetch *f = &s->fetch;

    return !f->decode &&
           s->n_demanded + (f->n_queued - f->n_taken) >= slc_prompt_window(s->n_slots);
}

/* An empty slot for a miss of the fetch, evicting if need be; SLC_NONE: not now. */
static uint32_t take_slot(slc_store *s, uint32_t key) {
    uint32_t victim;

    if (s->n_empty) return s->empty[--s->n_empty];
    victim = s->policy->victim(s->policy_state);
    if (victim == SLC_NO_SLOT && slc_guess_give_way(s)) victim = s->policy->victim(s->policy_state);
    if (victim == SLC_NO_SLOT) return SLC_NONE; /* all are pinned or loading */
    if (can_wait(s) && !s->policy->yields(s->policy_state, victim, key, 0)) return SLC_NONE;
    slc_store_evict(s, victim);
    return s->empty[--s->n_empty];
}

uint32_t slc_store_start_load(slc_store *s, uint32_t id, uint32_t key, slc_io_read **batch) {
    uint8_t *base = slc_slab_slot(&s->slab, id);
    slc_slot *at = &s->slots[id];
    slc_slot_layout layout;

    slc_slot_layout_of(s->ckpt, key / s->n_experts, key % s->n_experts, &layout);
    slc_assert(layout.n_reads); /* an expert has at least its weights */
    *at = (slc_slot){.key = key,
                     .idx = SLC_NONE,
                     .state = SLC_SLOT_LOADING,
                     .n_pending = (uint8_t)layout.n_reads,
                     .guess = SLC_N_GUESS};
    for (uint32_t i = 0; i < layout.n_reads; i++) {
        const slc_slot_read *from = &layout.read[i];
        slc_io_read *r = &s->reads[(size_t)id * SLC_SLOT_PARTS + i];
        *r = (slc_io_read){.file = from->file,
                           .off = from->off,
                           .buf = base + from->at,
                           .len = (uint32_t)from->len,
                           .need = (uint32_t)from->need,
                           .user = at};
        batch[i] = r;
        at->read_bytes += r->len;
    }
    for (int i = 0; i < SLC_SLOT_PARTS; i++) { /* no such part: SLC_NONE */
        s->part_at[(size_t)id * SLC_SLOT_PARTS + (size_t)i] = (uint32_t)layout.part_at[i];
    }
    s->map[key] = id;
    s->loading_bytes += at->read_bytes;
    s->stats.reads += layout.n_reads;
    s->stats.bytes_read += at->read_bytes;
    return layout.n_reads;
}

static void enqueue(slc_fetch *f, uint32_t idx) {
    f->queue[f->n_queued++] = idx;
}

/* The first of the slot's reads that failed; there is one. */
static const slc_io_read *failed_read(const slc_store *s, uint32_t id) {
    const slc_io_read *r = &s->reads[(size_t)id * SLC_SLOT_PARTS];

    while (!r->status) r++;
    return r;
}

/* The fetch no longer waits for the slot's reads. */
static void undemand(slc_store *s) {
    if (--s->n_demanded == 0) s->calm_since_ns = slc_now_ns();
}

/* The expert becomes a miss that is not started. */
static void put_back(slc_store *s, uint32_t idx) {
    slc_fetch *f = &s->fetch;
    uint32_t rank = s->rank[slc_store_key(s, f->layer, f->experts[idx])];

    f->idx_at_rank[rank] = idx;
    f->n_unstarted++;
    if (rank < f->rank) f->rank = rank;
}

/* What was read early and failed is read once more for the fetch that waits for it: a hint must not
 * fail what would have worked without it. */
static void load_failed(slc_store *s, uint32_t id) {
    uint32_t idx = s->slots[id].idx;
    bool asked = s->slots[id].asked;
    slc_io_read failed = *failed_read(s, id);

    make_empty(s, id);
    if (idx == SLC_NONE) return;
    s->fetch.slot_of[idx] = SLC_NONE;
    if (!asked) {
        put_back(s, idx);
        return;
    }
    s->fetch.failure[idx] = failed;
    enqueue(&s->fetch, idx);
}

static void load_done(slc_store *s, slc_slot *at) {
    uint32_t id = (uint32_t)(at - s->slots), idx = at->idx;

    s->loading_bytes -= at->read_bytes;
    s->fetch.done_bytes += at->read_bytes;
    if (idx != SLC_NONE) undemand(s);
    if (at->started_ns) slc_guess_arrived(s, at);
    if (at->failed) {
        load_failed(s, id);
        return;
    }
    at->state = SLC_SLOT_READY;
    if (idx != SLC_NONE) {
        at->pins = 1;
        enqueue(&s->fetch, idx);
        return;
    }
    at->awaited = slc_guess_is_timed(at->guess);
    if (!at->awaited) s->policy->add(s->policy_state, id, at->key);
}

static slc_expert_view view_of(const slc_store *s, uint32_t id) {
    slc_expert_view view = {0};

    for (int i = 0; i < SLC_SLOT_PARTS; i++) {
        uint32_t at = s->part_at[(size_t)id * SLC_SLOT_PARTS + (size_t)i];
        if (at != SLC_NONE) {
            view.part[i / SLC_N_PARTS][i % SLC_N_PARTS] = slc_slab_slot(&s->slab, id) + at;
        }
    }
    return view;
}

/* Holds what was read against the checkpoint's hash; another content is a failed read. */
static void verify(slc_store *s, slc_slot *at) {
    uint32_t id = (uint32_t)(at - s->slots);
    uint32_t layer = at->key / s->n_experts, expert = at->key % s->n_experts;
    slc_expert_view view = view_of(s, id);

    if (slc_checkpoint_verify_expert(s->ckpt, layer, expert, view.part)) return;
    at->failed = true;
    s->reads[(size_t)id * SLC_SLOT_PARTS].status = SLC_E_FORMAT;
    s->stats.failed_reads++;
}

void slc_store_drain(slc_store *s, bool wait) {
    slc_io_read *done[REAP_MAX];
    uint32_t n;

    while ((n = slc_io_reap(s->io, done, REAP_MAX, wait)) > 0) {
        for (uint32_t i = 0; i < n; i++) {
            slc_slot *at = done[i]->user;
            if (done[i]->status) {
                s->stats.failed_reads++;
                at->failed = true;
            }
            if (--at->n_pending) continue;
            if (s->verify && !at->failed) verify(s, at);
            load_done(s, at);
        }
        wait = false;
    }
}

/* ---- the fetch ---- */

/* Starts misses in file order while slots can be had, all reads in one submission. */
static void start_misses(slc_store *s) {
    slc_fetch *f = &s->fetch;
    uint32_t n = 0;

    while (f->n_unstarted) {
        uint32_t idx, key, id;
        while (f->idx_at_rank[f->rank] == SLC_NONE) f->rank++;
        idx = f->idx_at_rank[f->rank];
        key = slc_store_key(s, f->layer, f->experts[idx]);
        if ((id = take_slot(s, key)) == SLC_NONE) break;
        f->idx_at_rank[f->rank] = SLC_NONE;
        f->n_unstarted--;
        f->slot_of[idx] = id;
        n += slc_store_start_load(s, id, key, s->batch + n);
        s->slots[id].idx = idx;
        s->slots[id].asked = true;
        s->n_demanded++;
    }
    if (n) slc_io_submit(s->io, s->batch, n);
}

/* Sorts one wanted expert into hit, on its way, or miss. */
static slc_outcome want(slc_store *s, uint32_t idx) {
    slc_fetch *f = &s->fetch;
    slc_outcome outcome = SLC_OUT_HIT;
    uint32_t key, id;

    slc_assert(f->experts[idx] < s->n_experts);
    key = slc_store_key(s, f->layer, f->experts[idx]);
    id = s->map[key];
    f->slot_of[idx] = id;
    f->failure[idx].status = SLC_OK;
    if (id == SLC_NONE) {
        slc_assert(f->idx_at_rank[s->rank[key]] == SLC_NONE); /* ids are distinct */
        f->idx_at_rank[s->rank[key]] = idx;
        f->n_unstarted++;
        return SLC_OUT_MISS;
    }
    slc_assert(s->slots[id].idx == SLC_NONE);
    s->slots[id].idx = idx;
    if (s->slots[id].state == SLC_SLOT_READY) {
        pin(s, id);
        enqueue(f, idx);
    } else {
        s->n_demanded++;
        outcome = SLC_OUT_LATE;
    }
    if (s->slots[id].guess != SLC_N_GUESS) {
        slc_guess_settle(s, id, outcome == SLC_OUT_HIT ? SLC_GUESS_USED : SLC_GUESS_LATE);
    }
    return outcome;
}

static void want_all(slc_store *s) {
    slc_fetch *f = &s->fetch;

    for (uint32_t i = 0; i < f->n; i++) {
        f->outcomes[i] = want(s, i);
        s->stats.hits += f->outcomes[i] == SLC_OUT_HIT;
        s->stats.misses += f->outcomes[i] != SLC_OUT_HIT;
        s->stats.late += f->outcomes[i] == SLC_OUT_LATE;
    }
}

/* The time between the last fetch's reads and this fetch: how long the disk can be lent out. */
static void note_calm(slc_store *s, uint64_t now) {
    uint64_t calm = now - s->calm_since_ns, *usual = &s->calm_ns[s->fetch.decode];

    if (s->calm_since_ns && calm < MAX_CALM_NS(s->fetch.decode)) {
        *usual = (7 * *usual + calm) / 8;
    }
    s->calm_since_ns = now;
}

static void tell_trace(const slc_store *s, const float *scores) {
    const slc_fetch *f = &s->fetch;
    slc_fetch_event e = {.pass = s->pass,
                         .n_tokens = s->n_tokens,
                         .layer = f->layer,
                         .n = f->n,
                         .decode = f->decode,
                         .experts = f->experts,
                         .scores = scores,
                         .outcomes = f->outcomes};

    e.expert_bytes = slc_checkpoint_expert_bytes(s->ckpt, f->layer);
    s->trace(s->trace_user, &e);
}

void slc_fetch_begin(slc_store *s, uint32_t layer, const uint32_t *experts, const float *scores,
                     uint32_t n, bool decode) {
    slc_policy_use use = {
        .layer = layer, .n = n, .experts = experts, .scores = scores, .decode = decode};
    slc_fetch *f = &s->fetch;

    slc_assert(!f->active && n <= s->n_experts);
    slc_assert(layer < s->ckpt->cfg.n_layers && slc_layer_has_experts(s->ckpt, layer));
    slc_store_drain(s, false);
    f->active = true;
    f->layer = layer;
    f->decode = decode;
    f->n = n;
    f->experts = experts;
    f->n_queued = f->n_taken = f->rank = f->n_unstarted = 0;
    f->begun_ns = slc_now_ns();
    f->done_bytes = f->busy_bytes = f->busy_ns = 0;
    if (layer <= s->last_layer && s->last_layer != SLC_NONE) s->pass++;
    s->last_layer = layer;
    s->turns[layer]++;
    note_calm(s, f->begun_ns);
    want_all(s);
    s->policy->use(s->policy_state, &use);
    slc_guess_supersede(s, layer);
    start_misses(s);
    if (s->trace) tell_trace(s, scores);
    slc_prefetch_pump(s);
}

static slc_fetched deliver(slc_store *s, uint32_t idx) {
    const slc_fetch *f = &s->fetch;
    slc_fetched got = {.idx = idx, .slot = f->slot_of[idx]};

    if (got.slot == SLC_NONE) {
        got.status = f->failure[idx].status;
        return got;
    }
    s->slots[got.slot].idx = SLC_NONE;
    got.view = view_of(s, got.slot);
    return got;
}

static void wait_for_disk(slc_store *s) {
    slc_fetch *f = &s->fetch;
    uint64_t start = slc_now_ns(), end;

    /* otherwise the caller pins every slot and asks for more: it must release first */
    slc_assert(slc_io_outstanding(s->io) > 0);
    slc_store_drain(s, true);
    end = slc_now_ns();
    s->stats.stall_ns += end - start;
    f->busy_ns = end - f->begun_ns;
    f->busy_bytes = f->done_bytes;
}

uint32_t slc_fetch_next(slc_store *s, slc_fetched *ready, uint32_t max) {
    slc_fetch *f = &s->fetch;
    uint32_t n = 0;

    slc_assert(f->active && max > 0);
    if (f->n_taken == f->n) return 0;
    slc_store_drain(s, false);
    start_misses(s);
    while (f->n_queued == f->n_taken) {
        wait_for_disk(s);
        start_misses(s);
    }
    slc_prefetch_pump(s);
    while (n < max && f->n_taken < f->n_queued) ready[n++] = deliver(s, f->queue[f->n_taken++]);
    return n;
}

void slc_fetch_release(slc_store *s, const slc_fetched *ready, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (ready[i].status == SLC_OK) unpin(s, ready[i].slot);
    }
    if (s->fetch.active) start_misses(s);
}

slc_status slc_fetch_error(const slc_store *s, uint32_t idx, slc_err *err) {
    const slc_fetch *f = &s->fetch;
    const slc_io_read *r = &f->failure[idx];

    slc_assert(f->active && idx < f->n);
    if (!r->status || !err || err->code) return r->status;
    if (r->status == SLC_E_FORMAT) {
        slc_fail(err, r->status, "%s: what was read is not what was packed (hash differs)",
                 s->ckpt->dir);
    } else {
        slc_io_read_error(r, err);
    }
    return slc_fail_context(err, "layer %u, expert %u", f->layer, f->experts[idx]);
}

static void note_rate(slc_store *s) {
    const slc_fetch *f = &s->fetch;

    s->stats.timed_bytes += f->busy_bytes;
    s->stats.timed_ns += f->busy_ns;
    s->rate_bytes += (double)f->busy_bytes;
    s->rate_ns += (double)f->busy_ns;
    if (s->rate_ns > RATE_WINDOW) {
        s->rate_bytes /= 2;
        s->rate_ns /= 2;
    }
}

void slc_fetch_end(slc_store *s) {
    slc_fetch *f = &s->fetch;

    slc_assert(f->active);
    for (uint32_t i = 0; i < f->n; i++) { /* what was not delivered is no longer waited for */
        uint32_t id = f->slot_of[i];
        if (id == SLC_NONE || s->slots[id].idx != i) continue;
        s->slots[id].idx = SLC_NONE;
        s->slots[id].asked = false;
        if (s->slots[id].state == SLC_SLOT_READY) {
            unpin(s, id);
        } else {
            undemand(s);
        }
    }
    if (f->n_unstarted) memset(f->idx_at_rank, 0xff, s->n_experts * sizeof(*f->idx_at_rank));
    f->n_unstarted = 0;
    f->active = false;
    if (f->busy_bytes) note_rate(s);
    slc_prefetch_pump(s);
}

void slc_store_poll(slc_store *s) {
    slc_store_drain(s, false);
    slc_prefetch_pump(s);
}

void slc_store_set_tokens(slc_store *s, uint32_t n_tokens) {
    s->n_tokens = n_tokens;
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
        for (uint32_t i = 0; i < s->n_experts; i++) {
            s->rank[slc_store_key(s, layer, order[i].expert)] = i;
        }
    }
    free(order);
    return SLC_OK;
}

/* A read's length is 32 bits wide; so are keys. */
static slc_status check_sizes(const slc_checkpoint *c, uint64_t slot_bytes, slc_err *err) {
    if (slot_bytes == 0) {
        return slc_fail(err, SLC_E_INVALID, "the model has no routed experts to stream");
    }
    if (slot_bytes > UINT32_MAX) { /* so no part is at SLC_NONE either */
        return slc_fail(err, SLC_E_UNSUPPORTED,
                        "an expert of %" PRIu64 " bytes is too large: at most 4 GiB", slot_bytes);
    }
    if ((uint64_t)c->cfg.n_layers * c->cfg.n_experts >= SLC_NONE) {
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
        s->slots[i] = (slc_slot){.key = SLC_NONE, .idx = SLC_NONE, .guess = SLC_N_GUESS};
        s->empty[s->n_empty++] = i;
    }
    return rank_experts(s, err);
}

/* Tells the reads' backend where it will read from and to. */
static slc_status register_all(slc_store *s, slc_err *err) {
    struct iovec *segments = slc_calloc(s->slab.n_segments, sizeof(*segments));

    if (!segments) return slc_fail(err, SLC_E_NOMEM, "no memory for the list of segments");
    for (uint32_t i = 0; i < s->slab.n_segments; i++) {
        segments[i] = (struct iovec){s->slab.segments[i], slc_slab_segment_bytes(&s->slab, i)};
    }
    slc_io_use_files(s->io, s->ckpt->files, s->ckpt->n_files);
    slc_io_use_memory(s->io, segments, s->slab.n_segments);
    free(segments);
    return SLC_OK;
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
    s->policy = opt->policy ? opt->policy : slc_policies[0];
    s->trace = opt->trace;
    s->trace_user = opt->trace_user;
    s->no_prefetch = opt->no_prefetch;
    s->verify = opt->verify;
    s->calm_ns[0] = s->calm_ns[1] = FIRST_CALM_NS;
    s->last_layer = UINT32_MAX; /* the first fetch belongs to pass 0 */
    rc = slc_slab_create(&s->slab, slot_bytes, opt->n_slots, "", err);
    if (!rc) rc = init(s, err);
    if (!rc) rc = register_all(s, err);
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
    slc_io_forget(s->io);
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

const char *slc_store_policy(const slc_store *s) {
    return s->policy->name;
}

const slc_checkpoint *slc_store_checkpoint(const slc_store *s) {
    return s->ckpt;
}

slc_store_stats slc_store_get_stats(const slc_store *s) {
    slc_store_stats st = s->stats;

    if (s->rate_ns > 0) st.disk_bytes_per_s = (uint64_t)(s->rate_bytes / s->rate_ns * 1e9);
    for (int i = 0; i < SLC_N_GUESS; i++) st.guess[i].off = slc_guess_is_off(s, (slc_guess)i);
    return st;
}

uint32_t slc_store_held(const slc_store *s, uint32_t *keys) {
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_slots; i++) {
        if (s->slots[i].state == SLC_SLOT_READY) keys[n++] = s->slots[i].key;
    }
    return n;
}
