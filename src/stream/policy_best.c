/* What is an expert worth to the cache? Two things that no page cache knows decide it.
 *
 *     worth = p - COST * d
 *
 * p    how likely the next pass is to use it: uses on two time scales, each an average over passes
 *      that decays as exp(-age / tau). The fast one follows a sentence, the slow one a text; the
 *      slow one counts double. An expert seen once (a scan) has almost nothing on either, goes
 *      first, and what the last passes used again stays: this is what keeps a cache much smaller
 *      than a few passes' use from being flushed by them. A use counts by the square root of its
 *      router weight, an even share being 1.
 * d    how far away the layer's next turn is, as a part of a pass: the layer just passed is a whole
 *      pass away, the next one nearly here. A slot kept for a far layer is a slot that others go
 *      without until then; COST is the price of one slot for one pass. While a prompt is read
 *      nothing comes round again, so d counts for nothing, the prompt's experts replace each other,
 *      and what decoding needs survives (with 256 of every 512 tokens read as a prompt, 0.27 0.49
 *      0.73 of what the others use is there; with the price 0.27 0.48 0.69).
 *
 * Hit rates on demo-moe's own text (6 x 512 tokens) with 10, 25 and 50 % of the experts held: LRU
 * 0.18 0.42 0.69; decayed counts 0.25 0.47 0.72; two time scales 0.25 0.48 0.73; with COST
 * 0.27 0.49 0.73; perfect knowledge 0.49 0.71 0.88. The router weight changes them by 0.001.
 *
 * Averages grow instead of decaying: a use at pass t adds exp(t / tau), so that nothing but the
 * used changes between passes, and `base` is moved along before that overflows. An evictable slot's
 * averages lie side by side in slot order, one scan computes every worth and keeps the N_LOW
 * lowest; those, and whatever lower comes in meanwhile, serve as victims until they are used up or
 * the next layer begins. */
#include <math.h>
#include <string.h>

#include "stream/policy.h"

#define TAU_FAST   8.0f
#define TAU_SLOW   128.0f
#define SHARE_FAST (1.0f / 3)
#define SHARE_SLOW (2.0f / 3)
#define COST       (1.0f / 3)
/* A prompt's pass uses nearly every expert, for hundreds of tokens at once: more than a token says
 * about the text, nothing about the last words. */
#define PROMPT_CREDIT 4.0f
#define BASE_PASSES   256u /* exp(256 / TAU_FAST) < 1e14 */
#define N_LOW         32u

typedef struct average {
    float fast, slow; /* of exp((pass - base) / tau) per use */
} average;

typedef struct low_slot {
    float worth;
    uint32_t slot, stamp; /* another stamp now: it has been in use since */
} low_slot;

typedef struct best {
    average *of_key;     /* [n_keys] */
    average *of_slot;    /* [n_slots] of what an evictable slot holds */
    uint32_t *layer;     /* [n_slots] SLC_NO_SLOT: not evictable */
    uint32_t *stamp;     /* [n_slots] changes when it becomes evictable */
    float *price;        /* [n_layers] COST * d */
    low_slot low[N_LOW]; /* [next_low, n_low) by rising worth: no other slot is worth less */
    uint32_t next_low, n_low;
    uint32_t n_slots, n_layers, n_experts, n_active;
    uint32_t last_layer, pass; /* since base */
    float fast, slow;          /* what turns an average into a probability now */
} best;

/* The factors of the current pass. */
static void set_scale(best *b) {
    b->fast = SHARE_FAST / TAU_FAST * expf(-(float)b->pass / TAU_FAST);
    b->slow = SHARE_SLOW / TAU_SLOW * expf(-(float)b->pass / TAU_SLOW);
}

static void *best_take(slc_arena *arena, const slc_policy_shape *shape) {
    size_t n_keys = (size_t)shape->n_layers * shape->n_experts;
    best *b = slc_arena_take(arena, 1, sizeof(*b));
    average *of_key = slc_arena_take(arena, n_keys, sizeof(*of_key));
    average *of_slot = slc_arena_take(arena, shape->n_slots, sizeof(*of_slot));
    uint32_t *layer = slc_arena_take(arena, shape->n_slots, sizeof(*layer));
    uint32_t *stamp = slc_arena_take(arena, shape->n_slots, sizeof(*stamp));
    float *price = slc_arena_take(arena, shape->n_layers, sizeof(*price));

    if (!b) return NULL;
    *b = (best){.of_key = of_key,
                .of_slot = of_slot,
                .layer = layer,
                .stamp = stamp,
                .price = price,
                .n_slots = shape->n_slots,
                .n_layers = shape->n_layers,
                .n_experts = shape->n_experts,
                .n_active = shape->n_active};
    for (uint32_t i = 0; i < shape->n_slots; i++) layer[i] = SLC_NO_SLOT;
    set_scale(b);
    return b;
}

/* ---- uses ---- */

static void shrink(average *a, uint32_t n, float fast, float slow) {
    for (uint32_t i = 0; i < n; i++) a[i] = (average){a[i].fast * fast, a[i].slow * slow};
}

static void next_pass(best *b) {
    if (++b->pass == BASE_PASSES) {
        float fast = expf(-(float)BASE_PASSES / TAU_FAST);
        float slow = expf(-(float)BASE_PASSES / TAU_SLOW);
        shrink(b->of_key, b->n_layers * b->n_experts, fast, slow);
        shrink(b->of_slot, b->n_slots, fast, slow);
        b->pass = 0;
    }
    set_scale(b);
}

static float credit_of(const best *b, const slc_policy_use *use, uint32_t i) {
    float credit = 1.0f;

    /* a damaged model may route by NaN */
    if (use->scores && b->n_active && use->scores[i] >= 0 && use->scores[i] <= 1) {
        credit = sqrtf(use->scores[i] * (float)b->n_active);
    }
    return use->decode ? credit : PROMPT_CREDIT * credit;
}

static void best_use(void *state, const slc_policy_use *use) {
    best *b = state;
    float fast, slow;

    if (use->layer <= b->last_layer) next_pass(b);
    b->last_layer = use->layer;
    fast = use->decode ? expf((float)b->pass / TAU_FAST) : 0;
    slow = expf((float)b->pass / TAU_SLOW);
    for (uint32_t i = 0; i < use->n; i++) {
        average *a = &b->of_key[use->layer * b->n_experts + use->experts[i]];
        float credit = credit_of(b, use, i);
        a->fast += credit * fast;
        a->slow += credit * slow;
    }
    for (uint32_t l = 0; l < b->n_layers; l++) {
        uint32_t d = l > use->layer ? l - use->layer : l + b->n_layers - use->layer;
        b->price[l] = use->decode ? COST * (float)d / (float)b->n_layers : 0;
    }
    b->n_low = b->next_low = 0; /* prices have changed */
}

static float likelihood(const best *b, average a) {
    return a.fast * b->fast + a.slow * b->slow;
}

static float worth(const best *b, uint32_t slot) {
    return likelihood(b, b->of_slot[slot]) - b->price[b->layer[slot]];
}

/* ---- evictable slots ---- */

/* Puts the slot where it belongs; the last falls off when there is no room. */
static void insert_low(best *b, uint32_t slot, float w) {
    uint32_t at = b->n_low < N_LOW ? b->n_low++ : N_LOW - 1;

    for (; at > b->next_low && w < b->low[at - 1].worth; at--) b->low[at] = b->low[at - 1];
    b->low[at] = (low_slot){w, slot, b->stamp[slot]};
}

static void best_add(void *state, uint32_t slot, uint32_t key) {
    best *b = state;
    float w;

    b->of_slot[slot] = b->of_key[key];
    b->layer[slot] = key / b->n_experts;
    b->stamp[slot]++;
    w = worth(b, slot);
    if (b->next_low < b->n_low && w < b->low[b->n_low - 1].worth) insert_low(b, slot, w);
}

static void best_remove(void *state, uint32_t slot) {
    best *b = state;

    b->layer[slot] = SLC_NO_SLOT;
}

static void scan(best *b) {
    b->n_low = b->next_low = 0;
    for (uint32_t i = 0; i < b->n_slots; i++) {
        float w;
        if (b->layer[i] == SLC_NO_SLOT) continue;
        w = worth(b, i);
        if (b->n_low < N_LOW || w < b->low[N_LOW - 1].worth) insert_low(b, i, w);
    }
}

static bool is_evictable(const best *b, low_slot l) {
    return b->layer[l.slot] != SLC_NO_SLOT && b->stamp[l.slot] == l.stamp;
}

static uint32_t best_victim(void *state) {
    best *b = state;

    while (b->next_low < b->n_low && !is_evictable(b, b->low[b->next_low])) b->next_low++;
    if (b->next_low == b->n_low) scan(b);
    return b->n_low ? b->low[b->next_low].slot : SLC_NO_SLOT;
}

static bool best_yields(const void *state, uint32_t victim, uint32_t key, float chance) {
    const best *b = state;
    float own = likelihood(b, b->of_key[key]);

    return worth(b, victim) < (own > chance ? own : chance) - b->price[key / b->n_experts];
}

static bool best_holds(const void *state, uint32_t slot) {
    const best *b = state;

    return b->layer[slot] != SLC_NO_SLOT;
}

const slc_policy slc_policy_best = {
    .name = "best",
    .take = best_take,
    .use = best_use,
    .add = best_add,
    .remove = best_remove,
    .victim = best_victim,
    .yields = best_yields,
    .holds = best_holds,
};
