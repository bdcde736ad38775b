/* Reading experts before they are asked for.
 *
 * The device knows no priority, so hints wait here, one queue a source. `slc_prefetch_pump` starts
 * them when the disk would otherwise have nothing to do: while a fetch waits, everything on its way
 * together stays below LEAD_NS of measured disk time; between fetches, below the time until the
 * next fetch is due, going by how long that took before. So a demand that comes meets about LEAD_NS
 * of other reads at most. A hint is dropped before it costs anything if its expert is there or its
 * layer's turn has come. What is in flight completes.
 *
 * A guess gets an empty slot, or a victim that the policy yields for it (policy.h), and all guesses
 * for coming turns together get a quarter of the slots: few slots, no guesses. Until its layer's
 * turn a guessed expert is kept from the policy (`awaited`), unless demand finds no slot at all.
 *
 * Does a source pay? Every expert read on a hint is settled once, in disk time t of its bytes:
 *
 *                                        gain     loss
 *     used, read while nobody waited      t
 *     used, but a fetch waited meanwhile
 *     late                                t/2
 *     wasted, read while nobody waited              t/8   (a slot that others could have used)
 *     wasted, and a fetch waited                    t
 *
 * After WINDOW settlements a source whose loss exceeds its gain is switched off; it ignores the
 * next SKIP hints, then is let through for another window, and stays on if its gain is at least
 * 1.25 times its loss. Each failure in a row doubles the pause, up to 64 times. */
#include "base/clock.h"
#include "stream/store_internal.h"

#define LEAD_NS        UINT64_C(1000000)
#define GUESS_SHARE    4u /* 1 / the share of the slots that guesses for coming turns may have */
#define WINDOW         64u
#define SKIP           1024u
#define MAX_DOUBLINGS  6u
#define PROBATION      1.25
#define DEFAULT_RATE   1.0 /* bytes per ns, until measured */
#define PRIOR_STRENGTH 16.0f

static const slc_guess by_urgency[SLC_N_GUESS] = {
    SLC_GUESS_NEXT_LAYER, SLC_GUESS_TWO_AHEAD, SLC_GUESS_PREVIOUS, SLC_GUESS_PROMPT, SLC_GUESS_HOT};

/* How often a guess that is not in the cache comes true, before anything is known about it. */
static const float prior[SLC_N_GUESS] = {[SLC_GUESS_PREVIOUS] = 0.2f,
                                         [SLC_GUESS_NEXT_LAYER] = 0.5f,
                                         [SLC_GUESS_TWO_AHEAD] = 0.4f,
                                         [SLC_GUESS_PROMPT] = 0.1f,
                                         [SLC_GUESS_HOT] = 0.0f};

void slc_prefetch_take(slc_store *s, slc_arena *a) {
    for (int i = 0; i < SLC_N_GUESS; i++) {
        s->hints[i].ring = slc_arena_take(a, s->n_hints, sizeof(slc_hint));
    }
}

static double rate(const slc_store *s) {
    return s->rate_ns > 0 && s->rate_bytes > 0 ? s->rate_bytes / s->rate_ns : DEFAULT_RATE;
}

/* ---- does it pay? ---- */

static void judge(slc_hint_queue *q) {
    bool on_probation = q->n_failed > 0;
    bool pays = q->gain_ns >= q->loss_ns * (on_probation ? PROBATION : 1.0);

    if (pays) {
        q->n_failed = 0;
        q->gain_ns /= 2; /* the past counts, but less */
        q->loss_ns /= 2;
    } else {
        q->n_skip = SKIP << (q->n_failed < MAX_DOUBLINGS ? q->n_failed : MAX_DOUBLINGS);
        q->n_failed++;
        q->gain_ns = q->loss_ns = 0;
        q->n = 0;
    }
    q->n_settled = 0;
}

void slc_guess_settle(slc_store *s, uint32_t id, slc_verdict verdict) {
    slc_slot *at = &s->slots[id];
    slc_guess_stats *st = &s->stats.guess[at->guess];
    slc_hint_queue *q = &s->hints[at->guess];
    double ns = at->read_bytes / rate(s);

    if (verdict == SLC_GUESS_USED) {
        st->used++;
        if (!at->held_up_fetch) q->gain_ns += ns;
    } else if (verdict == SLC_GUESS_LATE) {
        st->late++;
        q->gain_ns += ns / 2;
    } else {
        st->wasted++;
        q->loss_ns += at->held_up_fetch ? ns : ns / 8;
    }
    if (slc_guess_is_timed(at->guess)) s->n_guessed--;
    if (++q->n_settled >= WINDOW && at->guess != SLC_GUESS_HOT) judge(q);
    at->guess = SLC_N_GUESS;
}

/* The share of this source's reads that were used, mixed with the prior. */
static float chance_of(const slc_store *s, slc_guess source) {
    const slc_guess_stats *st = &s->stats.guess[source];
    float good = (float)(st->used + st->late), all = good + (float)st->wasted;

    return (good + prior[source] * PRIOR_STRENGTH) / (all + PRIOR_STRENGTH);
}

/* ---- slots read on a hint ---- */

static void give_to_policy(slc_store *s, uint32_t id) {
    s->slots[id].awaited = false;
    s->policy->add(s->policy_state, id, s->slots[id].key);
}

void slc_guess_supersede(slc_store *s, uint32_t layer) {
    if (!s->n_guessed) return;
    for (uint32_t e = 0; e < s->n_experts; e++) {
        uint32_t id = s->map[slc_store_key(s, layer, e)];
        if (id == SLC_NONE || !slc_guess_is_timed(s->slots[id].guess)) continue;
        slc_guess_settle(s, id, SLC_GUESS_WASTED);
        if (s->slots[id].awaited) give_to_policy(s, id);
    }
}

bool slc_guess_give_way(slc_store *s) {
    bool any = false;

    for (uint32_t i = 0; i < s->n_slots && s->n_guessed; i++) {
        if (!s->slots[i].awaited) continue;
        slc_guess_settle(s, i, SLC_GUESS_WASTED);
        give_to_policy(s, i);
        any = true;
    }
    return any;
}

/* ---- hints ---- */

static void ask(slc_store *s, uint32_t key, slc_guess source) {
    slc_hint_queue *q = &s->hints[source];

    slc_assert(key < s->n_keys);
    s->stats.guess[source].asked++;
    if (s->map[key] != SLC_NONE) {
        s->stats.guess[source].present++;
    } else if (q->n_skip) {
        q->n_skip--;
    } else if (q->n < s->n_hints) {
        q->ring[(q->head + q->n++) % s->n_hints] = (slc_hint){key, s->turns[key / s->n_experts]};
    }
}

void slc_store_prefetch(slc_store *s, uint32_t layer, const uint32_t *experts, uint32_t n,
                        slc_guess source) {
    slc_assert(layer < s->ckpt->cfg.n_layers && source < SLC_N_GUESS);
    if (!slc_layer_has_experts(s->ckpt, layer)) return;
    for (uint32_t i = 0; i < n && !s->no_prefetch; i++) {
        ask(s, slc_store_key(s, layer, experts[i]), source);
    }
    slc_prefetch_pump(s);
}

/* The next hint of a source that is worth reading, left in its queue; NULL: none. */
static const slc_hint *peek(slc_store *s, slc_guess source) {
    slc_hint_queue *q = &s->hints[source];

    while (q->n) {
        const slc_hint *h = &q->ring[q->head];
        bool present = s->map[h->key] != SLC_NONE;
        if (!present && (!slc_guess_is_timed(source) || h->turn == s->turns[h->key / s->n_experts]))
            return h;
        s->stats.guess[source].present += present;
        q->head = (q->head + 1) % s->n_hints;
        q->n--;
    }
    return NULL;
}

static const slc_hint *most_urgent(slc_store *s, slc_guess *source) {
    for (int i = 0; i < SLC_N_GUESS; i++) {
        const slc_hint *h = peek(s, *source = by_urgency[i]);
        if (h) return h;
    }
    return NULL;
}

/* Bytes that may be on their way at the moment. */
static uint64_t bytes_allowed(const slc_store *s) {
    uint64_t ns = LEAD_NS, now;

    if (!s->n_demanded && s->calm_ns > LEAD_NS) {
        now = slc_now_ns();
        if (s->calm_since_ns + s->calm_ns > now + ns) ns = s->calm_since_ns + s->calm_ns - now;
    }
    return (uint64_t)((double)ns * rate(s));
}

/* A slot for the guess, or SLC_NONE. */
static uint32_t take_slot(slc_store *s, uint32_t key, slc_guess source) {
    uint32_t victim;

    if (slc_guess_is_timed(source) && s->n_guessed >= s->n_slots / GUESS_SHARE) return SLC_NONE;
    if (s->n_empty) return s->empty[--s->n_empty];
    if (source == SLC_GUESS_HOT) return SLC_NONE;
    victim = s->policy->victim(s->policy_state);
    if (victim == SLC_NO_SLOT) return SLC_NONE;
    if (!s->policy->yields(s->policy_state, victim, key, chance_of(s, source))) return SLC_NONE;
    slc_store_evict(s, victim);
    return s->empty[--s->n_empty];
}

static uint32_t start(slc_store *s, uint32_t id, uint32_t key, slc_guess source,
                      slc_io_read **batch) {
    slc_guess_stats *st = &s->stats.guess[source];
    uint32_t n = slc_store_start_load(s, id, key, batch);

    s->slots[id].guess = (uint8_t)source;
    s->n_guessed += slc_guess_is_timed(source);
    st->read++;
    st->bytes_read += s->slots[id].read_bytes;
    return n;
}

void slc_prefetch_pump(slc_store *s) {
    uint32_t at_once = s->n_slots < s->n_experts ? s->n_slots : s->n_experts, n = 0;
    uint64_t allowed = 0;
    slc_guess source;
    const slc_hint *h;

    if (s->fetch.n_unstarted) return; /* demand is short of slots */
    for (uint32_t i = 0; i < at_once && (h = most_urgent(s, &source)); i++) {
        uint32_t key = h->key, id;
        if (!allowed) allowed = bytes_allowed(s);
        if (s->loading_bytes && s->loading_bytes + s->slab.slot_bytes > allowed) break;
        s->hints[source].head = (s->hints[source].head + 1) % s->n_hints;
        s->hints[source].n--;
        id = take_slot(s, key, source);
        if (id != SLC_NONE) n += start(s, id, key, source, s->batch + n);
    }
    if (n) slc_io_submit(s->io, s->batch, n);
}
