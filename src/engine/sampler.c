/* Choosing the next token.
 *
 * Order of operations, each skipped when off:
 *
 *   repeat penalty    logit / r if positive, * r otherwise, once for every distinct id among the
 *                     last repeat_last_n tokens, prompt included
 *   presence penalty  logit - a, once for every distinct id generated so far
 *   temperature 0     the highest logit, the lowest id among equals: done
 *   temperature T     weight w = exp((logit - highest) / T)
 *   top-k             the k highest
 *   top-p             of these the shortest run, from the highest down, with p of their weight
 *   min-p             of these the ones with w >= min_p (the highest has w = 1)
 *   draw              in proportion to w: with u uniform in [0, 1) the one in which u * sum(w)
 *                     falls, counted from the highest down (from the last id down with no cut on)
 *
 * All three cuts keep a prefix of the same order (logit falling, then id rising), so one ordered
 * walk applies them together. A vocabulary has 248,320 rows and a few dozen survive: top-k is a
 * bounded heap over one scan, and what remains is made a heap and popped only as far as the walk
 * goes. Nothing is ever sorted as a whole.
 *
 * Random numbers are counter based: with mix() a 64-bit bijection that avalanches,
 *
 *   bits(seed, position) = mix(mix(seed) + (position + 1) * 0x9e3779b97f4a7c15)
 *
 * and the top 53 bits make the fraction. The seed is mixed first so that neighbouring seeds are not
 * shifted copies of each other. */
#include "engine/sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "kernels/scalar_math.h"

typedef struct candidate {
    double w; /* weight, 1 for the highest logit; set for those that pass top-k */
    float logit;
    int32_t id;
} candidate;

struct slc_sampler {
    uint32_t n_ids;
    slc_arena arena; /* of both arrays: in memory from the start, so that the plan sees them */
    candidate *cand; /* [n_ids] */
    uint8_t *seen;   /* [n_ids] all 0 between calls */
};

/* ---- life ---- */

static void take_arrays(slc_sampler *s) {
    s->cand = slc_arena_take(&s->arena, s->n_ids, sizeof(*s->cand));
    s->seen = slc_arena_take(&s->arena, s->n_ids, 1);
}

slc_status slc_sampler_create(uint32_t n_ids, slc_sampler **out, slc_err *err) {
    slc_sampler *s;
    slc_status rc;

    *out = NULL;
    if (n_ids == 0) return slc_fail(err, SLC_E_INVALID, "there are no ids to sample from");
    if (!(s = slc_calloc(1, sizeof(*s))))
        return slc_fail(err, SLC_E_NOMEM, "no memory to sample from %u ids", n_ids);
    s->n_ids = n_ids;
    take_arrays(s); /* measures */
    if ((rc = slc_arena_alloc(&s->arena, false, err))) {
        slc_sampler_destroy(s);
        return rc;
    }
    take_arrays(s);
    *out = s;
    return SLC_OK;
}

void slc_sampler_destroy(slc_sampler *s) {
    if (!s) return;
    slc_arena_free(&s->arena);
    free(s);
}

/* ---- parameters ---- */

static slc_status check_range(const char *name, float value, float low, float high, slc_err *err) {
    if (value >= low && value <= high) return SLC_OK; /* false for NaN */
    return slc_fail(err, SLC_E_INVALID, "%s: expected a number from %g to %g, found %g", name,
                    (double)low, (double)high, (double)value);
}

slc_status slc_sampling_check(const slc_sampling *p, slc_err *err) {
    slc_status rc;

    if ((rc = check_range("temperature", p->temperature, 0, 100, err))) return rc;
    if ((rc = check_range("top_p", p->top_p, 0, 1, err))) return rc;
    if ((rc = check_range("min_p", p->min_p, 0, 1, err))) return rc;
    if ((rc = check_range("repeat_penalty", p->repeat_penalty, 0.01f, 100, err))) return rc;
    if ((rc = check_range("presence_penalty", p->presence_penalty, -100, 100, err))) return rc;
    if (p->top_k < 0)
        return slc_fail(err, SLC_E_INVALID, "top_k: expected 0 (off) or more, found %d", p->top_k);
    if (p->repeat_last_n < -1)
        return slc_fail(err, SLC_E_INVALID,
                        "repeat_last_n: expected -1 (all), 0 (off) or more, found %d",
                        p->repeat_last_n);
    return SLC_OK;
}

/* ---- arithmetic ---- */

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

double slc_sample_uniform(uint64_t seed, uint64_t position) {
    uint64_t bits = mix(mix(seed) + (position + 1) * 0x9e3779b97f4a7c15u);

    return (double)(bits >> 11) * 0x1p-53;
}

/* ---- logits and penalties ---- */

/* Finds the highest logit, and refuses what no model means to say. */
static slc_status scan_logits(const float *logits, uint32_t n, uint64_t position, float *highest,
                              slc_err *err) {
    *highest = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        if (!(logits[i] < INFINITY)) /* true for NaN */
            return slc_fail(err, SLC_E_FORMAT,
                            "position %llu: the logit of id %u is %g, expected a finite number",
                            (unsigned long long)position, i, (double)logits[i]);
        if (logits[i] > *highest) *highest = logits[i];
    }
    if (*highest == -INFINITY)
        return slc_fail(err, SLC_E_FORMAT, "position %llu: all %u logits are -inf",
                        (unsigned long long)position, n);
    return SLC_OK;
}

/* Marks ids as seen; true the first time. */
static bool first_time(slc_sampler *s, int32_t id) {
    if (id < 0 || (uint32_t)id >= s->n_ids || s->seen[id]) return false;
    s->seen[id] = 1;
    return true;
}

static void forget(slc_sampler *s, const int32_t *ids, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= 0 && (uint32_t)ids[i] < s->n_ids) s->seen[ids[i]] = 0;
}

static void penalise_repeats(slc_sampler *s, const int32_t *ids, size_t n, float penalty) {
    for (size_t i = 0; i < n; i++) {
        float *logit;

        if (!first_time(s, ids[i])) continue;
        logit = &s->cand[ids[i]].logit;
        *logit = *logit > 0 ? *logit / penalty : *logit * penalty;
    }
}

static void apply_penalties(slc_sampler *s, const slc_history *h, const slc_sampling *p) {
    size_t all = h->n_prompt + h->n_made;
    size_t last = p->repeat_last_n < 0 ? all : (size_t)p->repeat_last_n;
    size_t n_made = last < h->n_made ? last : h->n_made;
    size_t n_prompt = last - n_made < h->n_prompt ? last - n_made : h->n_prompt;
    const int32_t *made = n_made ? h->made + (h->n_made - n_made) : NULL;
    const int32_t *prompt = n_prompt ? h->prompt + (h->n_prompt - n_prompt) : NULL;

    if (p->repeat_penalty != 1) {
        penalise_repeats(s, prompt, n_prompt, p->repeat_penalty);
        penalise_repeats(s, made, n_made, p->repeat_penalty);
        forget(s, prompt, n_prompt);
        forget(s, made, n_made);
    }
    if (p->presence_penalty != 0) {
        for (size_t i = 0; i < h->n_made; i++)
            if (first_time(s, h->made[i])) s->cand[h->made[i]].logit -= p->presence_penalty;
        forget(s, h->made, h->n_made);
    }
}

/* ---- selection ---- */

static bool precedes(const candidate *a, const candidate *b) {
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

/* Restores the heap below `i`. `first_on_top`: the root precedes all others; otherwise it follows
 * all others. */
static void sift_down(candidate *c, size_t n, size_t i, bool first_on_top) {
    candidate moving = c[i];

    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && precedes(&c[child + 1], &c[child]) == first_on_top) child++;
        if (precedes(&c[child], &moving) != first_on_top) break;
        c[i] = c[child];
    }
    c[i] = moving;
}

static void make_heap(candidate *c, size_t n, bool first_on_top) {
    for (size_t i = n / 2; i-- > 0;) sift_down(c, n, i, first_on_top);
}

/* Gathers the k first candidates, in no order, at the front of c. */
static size_t keep_top_k(candidate *c, size_t n, size_t k) {
    if (k == 0 || k >= n) return n;
    make_heap(c, k, false);
    for (size_t i = k; i < n; i++) {
        if (!precedes(&c[i], &c[0])) continue;
        c[0] = c[i];
        sift_down(c, k, 0, false);
    }
    return k;
}

static size_t find_first(const candidate *c, size_t n) {
    size_t best = 0;

    for (size_t i = 1; i < n; i++)
        if (precedes(&c[i], &c[best])) best = i;
    return best;
}

/* Sets the weights; returns their sum. */
static double weigh(candidate *c, size_t n, float temperature) {
    double highest = (double)c[find_first(c, n)].logit, sum = 0;

    for (size_t i = 0; i < n; i++) {
        double below = (double)c[i].logit - highest; /* NaN if a penalty overflowed */

        c[i].w = (double)c[i].logit == highest ? 1 : slc_exp(below / (double)temperature);
        sum += c[i].w;
    }
    return sum;
}

/* Walks from the first candidate down while top-p and min-p allow, at least one. The kept ones end
 * up at the back of c, the first last; returns how many, and the sum of their weights. */
static size_t keep_likely(candidate *c, size_t n, double top_p_mass, double min_p, double *sum) {
    size_t left = n;

    make_heap(c, n, true);
    *sum = 0;
    do {
        candidate first = c[0];

        left--;
        c[0] = c[left];
        sift_down(c, left, 0, true);
        c[left] = first;
        *sum += first.w;
    } while (left > 0 && *sum < top_p_mass && c[0].w >= min_p);
    return n - left;
}

/* The candidate in which `target` falls, counted from the back. Rounding can leave a remainder:
 * then the last one with any weight. */
static int32_t pick(const candidate *c, size_t n, double target) {
    size_t chosen = n - 1;

    for (size_t i = n; i-- > 0;) {
        if (c[i].w == 0) continue;
        chosen = i;
        target -= c[i].w;
        if (target < 0) break;
    }
    return c[chosen].id;
}

slc_status slc_sample(slc_sampler *s, const float *logits, const slc_history *history,
                      const slc_sampling *p, uint64_t position, int32_t *id, slc_err *err) {
    candidate *c = s->cand;
    size_t n = s->n_ids, kept;
    double sum;
    float highest;
    slc_status rc;

    if ((rc = scan_logits(logits, s->n_ids, position, &highest, err))) return rc;
    if (p->temperature == 0 && p->repeat_penalty == 1 && p->presence_penalty == 0) {
        for (*id = 0; logits[*id] != highest;) ++*id;
        return SLC_OK;
    }
    for (uint32_t i = 0; i < s->n_ids; i++)
        c[i] = (candidate){.logit = logits[i], .id = (int32_t)i};
    apply_penalties(s, history, p);
    if (p->temperature == 0) {
        *id = c[find_first(c, n)].id;
        return SLC_OK;
    }
    n = kept = keep_top_k(c, n, (size_t)p->top_k);
    sum = weigh(c, n, p->temperature);
    if (n < s->n_ids || p->top_p < 1 || p->min_p > 0)
        kept = keep_likely(c, n, p->top_p < 1 ? (double)p->top_p * sum : INFINITY, (double)p->min_p,
                           &sum);
    *id = pick(c + (n - kept), kept, slc_sample_uniform(p->seed, position) * sum);
    return SLC_OK;
}
