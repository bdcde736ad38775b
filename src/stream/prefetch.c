/* Reading experts before they are asked for.
 *
 * The device knows no priority, so hints wait here, one queue a source, and `slc_prefetch_pump`
 * starts them when the disk would otherwise have nothing to do. A hint is dropped before it costs
 * anything if its expert is there or its layer's turn has come. What is in flight completes.
 *
 * Does a hint pay? What is on its way keeps the disk busy until then; what this read adds falls
 * partly into the time in which nobody waits (until the next fetch is due, going by how long that
 * took before), and delays the next fetch by the rest:
 *
 *     now                      next fetch due
 *      |--- on its way ---|--- free ---|- rest -|
 *                         |------ this read ----|
 *
 *     chance * free >= (1 - chance) * rest * DELAY
 *
 * The chance is measured, hint or no hint read: when a layer's turn comes, each source's hints at
 * experts that were not there have come true or not, and the average over the last ones is kept for
 * each place in the list (sources name the likeliest first), for prompts and for decoding apart. So
 * a source that is no good is not read, and is again as soon as it would have been right. While a
 * fetch waits, hints go behind its last reads only: everything on its way together stays below
 * LEAD_NS of disk time.
 *
 * A guess gets an empty slot, or a victim that the policy yields for it (policy.h), and all guesses
 * for coming turns together get a quarter of the slots: few slots, no guesses. Until its layer's
 * turn a guessed expert is kept from the policy (`awaited`), unless demand finds no slot at all. */
#include <string.h>

#include "base/clock.h"
#include "stream/store_internal.h"

#define LEAD_NS      UINT64_C(1000000)
#define GUESS_SHARE  4u  /* 1 / the share of the slots that guesses for coming turns may have */
#define DELAY        0.5 /* of its rest: with few reads in flight, one more costs the others less */
#define MIN_CHANCE   0.25f /* below it, a read is wasted work even where the disk is free */
#define CHANCE_OF    64.0f /* hints that the average of a chance goes over */
#define DEFAULT_RATE 1.0   /* bytes per ns, until measured */

static const slc_guess by_urgency[SLC_N_GUESS] = {
    SLC_GUESS_NEXT_LAYER, SLC_GUESS_TWO_AHEAD, SLC_GUESS_PREVIOUS, SLC_GUESS_PROMPT, SLC_GUESS_HOT};

/* Before anything is known. */
static const float first_chance[SLC_N_GUESS] = {[SLC_GUESS_PREVIOUS] = 0.3f,
                                                [SLC_GUESS_NEXT_LAYER] = 0.7f,
                                                [SLC_GUESS_TWO_AHEAD] = 0.5f,
                                                [SLC_GUESS_PROMPT] = 0.3f,
                                                [SLC_GUESS_HOT] = 1.0f};

void slc_prefetch_take(slc_store *s, slc_arena *a) {
    for (int i = 0; i < SLC_N_GUESS; i++) {
        slc_hint_queue *q = &s->hints[i];

        q->ring = slc_arena_take(a, s->n_hints, sizeof(slc_hint));
        q->overall = first_chance[i];
        for (int k = 0; k < SLC_N_CHANCES; k++) q->chance[k] = first_chance[i];
    }
}

static double rate(const slc_store *s) {
    return s->rate_ns > 0 && s->rate_bytes > 0 ? s->rate_bytes / s->rate_ns : DEFAULT_RATE;
}

/* ---- chances ---- */

/* Whether the running fetch wants it, started or not. */
static bool is_wanted(const slc_store *s, uint32_t key) {
    uint32_t id = s->map[key];

    return id != SLC_NONE ? s->slots[id].idx != SLC_NONE
                          : s->fetch.idx_at_rank[s->rank[key]] != SLC_NONE;
}

static slc_hint *oldest(slc_store *s, slc_hint_queue *q) {
    return q->n ? &q->ring[q->head] : NULL;
}

static void drop_oldest(slc_store *s, slc_hint_queue *q) {
    q->head = (q->head + 1) % s->n_hints;
    q->n--;
    if (q->n_passed) q->n_passed--;
}

/* The layer's turn has come: which hints were right? */
static void judge(slc_store *s, slc_hint_queue *q, uint32_t layer) {
    slc_hint *h;

    while ((h = oldest(s, q)) && h->turn != s->turns[h->key / s->n_experts]) {
        if (h->key / s->n_experts == layer) {
            float *chance = &q->chance[h->chance], right = is_wanted(s, h->key);

            *chance += (right - *chance) / CHANCE_OF;
            q->overall += (right - q->overall) / CHANCE_OF;
        }
        drop_oldest(s, q);
    }
}

/* Counts what the sources had named for this turn, and forgets it. */
static void count_foreseen(slc_store *s, uint32_t layer) {
    const slc_fetch *f = &s->fetch;
    uint8_t *named = s->named + slc_store_key(s, layer, 0), any = 0;

    for (uint32_t e = 0; e < s->n_experts; e++) any |= named[e];
    for (int i = 0; any && f->decode && i < SLC_N_GUESS; i++) {
        if (!(any >> i & 1)) continue;
        s->stats.guess[i].wanted += f->n;
        for (uint32_t k = 0; k < f->n; k++) {
            s->stats.guess[i].foreseen += named[f->experts[k]] >> i & 1;
        }
    }
    if (any) memset(named, 0, s->n_experts);
}

bool slc_guess_is_off(const slc_store *s, slc_guess source) {
    return s->hints[source].overall < MIN_CHANCE;
}

/* ---- slots read on a hint ---- */

void slc_guess_settle(slc_store *s, uint32_t id, slc_verdict verdict) {
    slc_slot *at = &s->slots[id];
    slc_guess_stats *st = &s->stats.guess[at->guess];

    st->used += verdict == SLC_GUESS_USED;
    st->late += verdict == SLC_GUESS_LATE;
    st->wasted += verdict == SLC_GUESS_WASTED;
    if (slc_guess_is_timed(at->guess)) s->n_guessed--;
    at->guess = SLC_N_GUESS;
}

static void give_to_policy(slc_store *s, uint32_t id) {
    s->slots[id].awaited = false;
    s->policy->add(s->policy_state, id, s->slots[id].key);
}

void slc_guess_supersede(slc_store *s, uint32_t layer) {
    for (int i = 0; i < SLC_N_GUESS; i++) {
        if (slc_guess_is_timed((unsigned)i)) judge(s, &s->hints[i], layer);
    }
    count_foreseen(s, layer);
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

static void ask(slc_store *s, uint32_t key, slc_guess source, uint32_t chance) {
    slc_hint_queue *q = &s->hints[source];

    slc_assert(key < s->n_keys);
    s->stats.guess[source].asked++;
    if (slc_guess_is_timed(source)) s->named[key] |= (uint8_t)(1u << source);
    if (s->map[key] != SLC_NONE) {
        s->stats.guess[source].present++;
    } else if (q->n < s->n_hints) {
        q->ring[(q->head + q->n++) % s->n_hints] =
            (slc_hint){key, s->turns[key / s->n_experts], (uint8_t)chance};
    }
}

void slc_store_prefetch(slc_store *s, uint32_t layer, const uint32_t *experts, uint32_t n,
                        slc_guess source) {
    uint32_t first = s->fetch.decode ? SLC_N_PLACES : 0;

    slc_assert(layer < s->ckpt->cfg.n_layers && source < SLC_N_GUESS);
    if (!slc_layer_has_experts(s->ckpt, layer)) return;
    for (uint32_t i = 0; i < n && !s->no_prefetch; i++) {
        ask(s, slc_store_key(s, layer, experts[i]), source, first + i * SLC_N_PLACES / n);
    }
    slc_prefetch_pump(s);
}

/* Done with the hint that peek found. Only those that are judged stay in the queue. */
static void pass(slc_store *s, slc_guess source) {
    slc_hint_queue *q = &s->hints[source];

    if (slc_guess_is_timed(source))
        q->n_passed++;
    else
        drop_oldest(s, q);
}

/* The next hint of a source that may be worth reading; NULL: none. */
static const slc_hint *peek(slc_store *s, slc_guess source) {
    slc_hint_queue *q = &s->hints[source];

    while (q->n_passed < q->n) {
        const slc_hint *h = &q->ring[(q->head + q->n_passed) % s->n_hints];
        bool present = s->map[h->key] != SLC_NONE;
        bool timely = !slc_guess_is_timed(source) || h->turn == s->turns[h->key / s->n_experts];

        if (!present && timely && q->chance[h->chance] >= MIN_CHANCE) return h;
        s->stats.guess[source].present += present;
        pass(s, source);
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

/* How long the disk is lent out from now on: until the next fetch is due. */
static double free_ns(const slc_store *s, double on_its_way_ns) {
    double calm = (double)s->calm_ns[s->fetch.decode];
    double gone = s->calm_since_ns ? (double)(slc_now_ns() - s->calm_since_ns) : 0;

    if (s->n_demanded) return on_its_way_ns + calm;
    return gone < calm ? calm - gone : 0;
}

/* Whether a read with this chance of being wanted pays now (see above). */
static bool pays(const slc_store *s, float chance) {
    double before = (double)s->loading_bytes / rate(s);
    double own = (double)s->slab.slot_bytes / rate(s);
    double lent = free_ns(s, before), in_time;

    if (before > lent || (s->n_demanded && before + own > (double)LEAD_NS)) return false;
    if (s->guess_ns > 0) own = s->guess_ns;
    in_time = lent - before < own ? lent - before : own;
    return (double)chance * in_time >= (1 - (double)chance) * (own - in_time) * DELAY;
}

/* A slot for the guess, or SLC_NONE. */
static uint32_t take_slot(slc_store *s, uint32_t key, slc_guess source, float chance) {
    uint32_t victim;

    if (slc_guess_is_timed(source) && s->n_guessed >= s->n_slots / GUESS_SHARE) return SLC_NONE;
    if (s->n_empty) return s->empty[--s->n_empty];
    if (source == SLC_GUESS_HOT) return SLC_NONE;
    victim = s->policy->victim(s->policy_state);
    if (victim == SLC_NO_SLOT) return SLC_NONE;
    if (!s->policy->yields(s->policy_state, victim, key, chance)) return SLC_NONE;
    slc_store_evict(s, victim);
    return s->empty[--s->n_empty];
}

void slc_guess_arrived(slc_store *s, const slc_slot *at) {
    double ns = (double)(slc_now_ns() - at->started_ns);

    s->guess_ns = s->guess_ns > 0 ? (15 * s->guess_ns + ns) / 16 : ns;
}

static uint32_t start(slc_store *s, uint32_t id, uint32_t key, slc_guess source,
                      slc_io_read **batch) {
    slc_guess_stats *st = &s->stats.guess[source];
    uint32_t n = slc_store_start_load(s, id, key, batch);

    s->slots[id].guess = (uint8_t)source;
    s->slots[id].started_ns = slc_now_ns();
    s->n_guessed += slc_guess_is_timed(source);
    st->read++;
    st->bytes_read += s->slots[id].read_bytes;
    return n;
}

void slc_prefetch_pump(slc_store *s) {
    uint32_t at_once = s->n_slots < s->n_experts ? s->n_slots : s->n_experts, n = 0;
    slc_guess source;
    const slc_hint *h;

    if (s->fetch.n_unstarted) return; /* demand is short of slots */
    for (uint32_t i = 0; i < at_once && (h = most_urgent(s, &source)); i++) {
        slc_hint_queue *q = &s->hints[source];
        float chance = q->chance[h->chance];
        uint32_t key = h->key, id;

        if (!pays(s, chance)) break;
        pass(s, source);
        id = take_slot(s, key, source, chance);
        if (id != SLC_NONE) n += start(s, id, key, source, s->batch + n);
    }
    if (n) slc_io_submit(s->io, s->batch, n);
}
