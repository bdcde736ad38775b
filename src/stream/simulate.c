/* Replaying a trace against a policy.
 *
 * The cache: as the store does it for reads on demand. A fetch tells the policy its experts, pins
 * what is there, loads the rest one after another into empty slots or victims; all go back to the
 * policy afterwards, or earlier, the first loaded first, when there are fewer slots than experts.
 *
 * Belady's policy needs the future: for every use, when the same key is used next. It is computed
 * backwards over the whole trace; the victim is whatever is needed last, and a prompt's experts
 * replace each other at once if they are it.
 *
 * The time of a decoded layer: `mix_ns` until its experts are known, then the longer of computing
 * and reading what is missing. The foreseen part of the misses is read since the layer before has
 * its own: it costs time only as far as it takes longer than the computing in between. */
#include "stream/simulate.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fail.h"

#define NONE  UINT32_MAX
#define NEVER SIZE_MAX

/* ---- perfect knowledge ---- */

typedef struct belady {
    size_t *due;   /* [n_keys] the next fetch that uses it */
    uint32_t *key; /* [n_slots] NONE: not evictable */
    size_t n_slots;
} belady;

static void *belady_take(slc_arena *arena, const slc_policy_shape *shape) {
    size_t n_keys = (size_t)shape->n_layers * shape->n_experts;
    belady *b = slc_arena_take(arena, 1, sizeof(*b));
    size_t *due = slc_arena_take(arena, n_keys, sizeof(*due));
    uint32_t *key = slc_arena_take(arena, shape->n_slots, sizeof(*key));

    if (!b) return NULL;
    *b = (belady){.due = due, .key = key, .n_slots = shape->n_slots};
    memset(key, 0xff, shape->n_slots * sizeof(*key));
    return b;
}

static void belady_use(void *state, const slc_policy_use *use) {
}

static void belady_add(void *state, uint32_t slot, uint32_t key) {
    belady *b = state;

    b->key[slot] = key;
}

static void belady_remove(void *state, uint32_t slot) {
    belady *b = state;

    b->key[slot] = NONE;
}

static uint32_t belady_victim(void *state) {
    const belady *b = state;
    uint32_t last = SLC_NO_SLOT;

    for (uint32_t i = 0; i < b->n_slots; i++) {
        if (b->key[i] == NONE) continue;
        if (last == SLC_NO_SLOT || b->due[b->key[i]] > b->due[b->key[last]]) last = i;
    }
    return last;
}

static bool belady_yields(const void *state, uint32_t victim, uint32_t key, float chance) {
    const belady *b = state;

    return b->due[b->key[victim]] > b->due[key];
}

static const slc_policy policy_belady = {
    .name = "belady",
    .take = belady_take,
    .use = belady_use,
    .add = belady_add,
    .remove = belady_remove,
    .victim = belady_victim,
    .yields = belady_yields,
};

/* next[i]: the fetch in which the key of use i is used again. */
static size_t *look_ahead(const slc_trace *t) {
    size_t n_keys = (size_t)t->n_layers * t->n_experts;
    size_t *next = slc_calloc(t->n_uses ? t->n_uses : 1, sizeof(*next));
    size_t *due = slc_calloc(n_keys, sizeof(*due));

    for (size_t i = 0; due && i < n_keys; i++) due[i] = NEVER;
    for (size_t f = t->n_fetches; due && next && f-- > 0;) {
        const slc_trace_fetch *at = &t->fetches[f];
        for (uint32_t i = 0; i < at->n; i++) {
            size_t *d = &due[at->layer * t->n_experts + t->experts[at->first + i]];
            next[at->first + i] = *d;
            *d = f;
        }
    }
    if (!due) {
        free(next);
        next = NULL;
    }
    free(due);
    return next;
}

/* ---- the cache ---- */

typedef struct cache {
    const slc_trace *t;
    const slc_policy *policy;
    void *state;
    size_t *next;  /* for belady, else NULL */
    uint32_t *map; /* [n_keys] slot or NONE */
    uint32_t *key; /* [n_slots] of what a slot holds */
    uint32_t n_slots, n_filled;
    uint32_t *pinned; /* [n_experts] slots in use by the fetch, first in first */
    uint32_t *missed; /* [n_experts] keys the fetch has to load */
    uint32_t n_pinned, n_released;
} cache;

static void take_arrays(cache *c, slc_arena *a) {
    const slc_trace *t = c->t;
    slc_policy_shape shape = {.n_slots = c->n_slots,
                              .n_layers = t->n_layers,
                              .n_experts = t->n_experts,
                              .n_active = t->n_active};

    c->map = slc_arena_take(a, (size_t)t->n_layers * t->n_experts, sizeof(*c->map));
    c->key = slc_arena_take(a, c->n_slots, sizeof(*c->key));
    c->pinned = slc_arena_take(a, t->n_experts, sizeof(*c->pinned));
    c->missed = slc_arena_take(a, t->n_experts, sizeof(*c->missed));
    c->state = c->policy->take(a, &shape);
}

static void release_first(cache *c) {
    uint32_t slot = c->pinned[c->n_released++];

    c->policy->add(c->state, slot, c->key[slot]);
}

/* As the store does it: a prompt's expert waits for one of its own kind rather than take what is
 * worth more (slc_prompt_window). */
static uint32_t take_slot(cache *c, uint32_t key, bool decode) {
    uint32_t window = c->next ? 1 : slc_prompt_window(c->n_slots), victim;

    if (c->n_filled < c->n_slots) return c->n_filled++;
    for (;;) {
        uint32_t n_in_use = c->n_pinned - c->n_released;
        victim = c->policy->victim(c->state);
        if (victim == SLC_NO_SLOT) {
            release_first(c);
        } else if (!decode && n_in_use >= window && !c->policy->yields(c->state, victim, key, 0)) {
            release_first(c);
        } else {
            break;
        }
    }
    c->policy->remove(c->state, victim);
    c->map[c->key[victim]] = NONE;
    return victim;
}

static void tell_policy(cache *c, const slc_trace_fetch *f) {
    const float *scores = c->t->scores + f->first;
    bool known = f->n > 0;

    for (uint32_t i = 0; i < f->n; i++) known = known && scores[i] >= 0;
    c->policy->use(c->state, &(slc_policy_use){.layer = f->layer,
                                               .n = f->n,
                                               .experts = c->t->experts + f->first,
                                               .scores = known ? scores : NULL,
                                               .decode = f->decode});
    for (uint32_t i = 0; c->next && i < f->n; i++) {
        belady *b = c->state;
        b->due[f->layer * c->t->n_experts + c->t->experts[f->first + i]] = c->next[f->first + i];
    }
}

/* Replays one fetch; returns how many of its experts were there. */
static uint32_t fetch(cache *c, const slc_trace_fetch *f) {
    uint32_t n_missed = 0;

    c->n_pinned = c->n_released = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        uint32_t key = f->layer * c->t->n_experts + c->t->experts[f->first + i];
        uint32_t slot = c->map[key];
        if (slot == NONE) {
            c->missed[n_missed++] = key;
        } else {
            c->policy->remove(c->state, slot);
            c->pinned[c->n_pinned++] = slot;
        }
    }
    tell_policy(c, f);
    for (uint32_t i = 0; i < n_missed; i++) {
        uint32_t slot = take_slot(c, c->missed[i], f->decode);
        c->map[c->missed[i]] = slot;
        c->key[slot] = c->missed[i];
        c->pinned[c->n_pinned++] = slot;
    }
    while (c->n_released < c->n_pinned) release_first(c);
    return f->n - n_missed;
}

/* ---- the clock ---- */

typedef struct timing {
    const slc_simulate_options *opt;
    double spare_ns; /* the disk has had nothing to do, and knew what to read, since */
} timing;

/* The time of a layer that has to read `bytes`; *stall: of it spent waiting. */
static double layer_ns(timing *clock, uint64_t bytes, double *stall) {
    const slc_simulate_options *o = clock->opt;
    double compute = (double)o->expert_ns, rate = (double)o->disk_bytes_per_s / 1e9, read = 0;

    if (bytes) read = (double)o->latency_ns;
    if (bytes && rate > 0) {
        double all = (double)bytes / rate, ahead = all * o->foreseen;
        ahead = ahead < clock->spare_ns ? ahead : clock->spare_ns;
        read += all - ahead;
    }
    *stall = read > compute ? read - compute : 0;
    clock->spare_ns = (double)o->mix_ns + (read < compute ? compute - read : 0);
    return (double)o->mix_ns + compute + *stall;
}

/* ---- the replay ---- */

static void replay(cache *c, const slc_simulate_options *opt, slc_simulation *out) {
    const slc_trace *t = c->t;
    timing clock = {.opt = opt};
    double ns = 0, all_stall = 0;

    for (size_t i = 0; i < t->n_fetches; i++) {
        const slc_trace_fetch *f = &t->fetches[i];
        bool begins = i == 0 || f->pass != f[-1].pass;
        uint32_t hits = fetch(c, f);
        uint64_t bytes = (f->n - hits) * f->expert_bytes;
        double stall;

        out->n_passes += begins;
        out->asked += f->n;
        out->hits += hits;
        out->bytes += bytes;
        if (!f->decode) continue;
        out->decode_passes += begins;
        if (begins) out->decode_tokens += f->n_tokens ? f->n_tokens : 1;
        out->decode_asked += f->n;
        out->decode_hits += hits;
        out->decode_bytes += bytes;
        ns += layer_ns(&clock, bytes, &stall);
        all_stall += stall;
    }
    out->decode_ns = (uint64_t)ns;
    out->decode_stall_ns = (uint64_t)all_stall;
}

slc_status slc_simulate(const slc_trace *t, const slc_simulate_options *opt, slc_simulation *out,
                        slc_err *err) {
    size_t n_keys = (size_t)t->n_layers * t->n_experts;
    cache c = {.t = t, .policy = opt->policy ? opt->policy : &policy_belady};
    slc_arena arena = {0};
    slc_status rc;

    *out = (slc_simulation){0};
    if (!opt->n_slots) return slc_fail(err, SLC_E_INVALID, "a cache needs at least one slot");
    if (!(opt->foreseen >= 0 && opt->foreseen <= 1)) {
        return slc_fail(err, SLC_E_INVALID, "foreseen is %g, expected 0 to 1", opt->foreseen);
    }
    c.n_slots = opt->n_slots < n_keys ? opt->n_slots : (uint32_t)n_keys;
    if (!opt->policy && !(c.next = look_ahead(t))) {
        return slc_fail(err, SLC_E_NOMEM, "no memory to look ahead in the trace");
    }
    take_arrays(&c, &arena); /* counts */
    rc = slc_arena_alloc(&arena, false, err);
    if (!rc) {
        take_arrays(&c, &arena); /* hands out */
        memset(c.map, 0xff, n_keys * sizeof(*c.map));
        replay(&c, opt, out);
    }
    slc_arena_free(&arena);
    free(c.next);
    return rc;
}
