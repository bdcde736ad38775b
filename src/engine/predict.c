/* Hints for the store; see the header. */
#include "engine/predict.h"

#include <string.h>

#include "base/fail.h"
#include "engine/model_internal.h"

static const char *const names[4] = {[SLC_GUESS_PREVIOUS] = "previous",
                                     [SLC_GUESS_NEXT_LAYER] = "next",
                                     [SLC_GUESS_TWO_AHEAD] = "ahead2",
                                     [SLC_GUESS_PROMPT] = "prompt"};

slc_status slc_predict_parse(const char *text, slc_predict *p, slc_err *err) {
    if (!text || !strcmp(text, "auto")) text = "next,ahead2,prompt";
    if (!strcmp(text, "off")) return SLC_OK;
    while (*text) {
        size_t n = strcspn(text, ",");
        int i = 0;

        while (i < 4 && (strlen(names[i]) != n || strncmp(names[i], text, n) != 0)) i++;
        if (i == 4)
            return slc_fail(err, SLC_E_INVALID,
                            "unknown prediction \"%.*s\", expected auto, off, or a list of "
                            "previous, next, ahead2, prompt",
                            (int)n, text);
        p->on[i] = true;
        text += n + (text[n] == ',');
    }
    return SLC_OK;
}

void slc_predict_take(slc_model *m, slc_arena *a) {
    const slc_config *c = slc_model_config(m);
    size_t n = (size_t)c->n_layers * c->n_experts;

    m->predict.prompt = slc_arena_take(a, n, sizeof(float));
    m->predict.previous = slc_arena_take(a, n, sizeof(uint32_t));
    m->predict.n_previous = slc_arena_take(a, c->n_layers, sizeof(uint32_t));
}

/* A prompt has ended: its favourites, as many a layer as the cache holds on average. */
static void hint_prompt(slc_model *m) {
    const slc_config *c = slc_model_config(m);
    uint32_t share = m->plan.n_slots / c->n_layers;

    for (uint32_t l = 0; l < c->n_layers; l++) {
        const float *weight = m->predict.prompt + (size_t)l * c->n_experts;
        uint32_t n = 0;

        for (uint32_t e = 0; e < c->n_experts; e++) n += weight[e] > 0;
        if (n > share) n = share;
        if (n == 0) continue;
        slc_moe_choose(weight, c->n_experts, n, m->pass.guess, m->pass.guess_score);
        slc_store_prefetch(m->source.store, l, m->pass.guess, n, SLC_GUESS_PROMPT);
    }
}

void slc_predict_begin(slc_model *m, bool decode) {
    const slc_config *c = slc_model_config(m);
    slc_predict *p = &m->predict;
    slc_store_stats st;

    if (!m->source.store) return;
    st = slc_store_get_stats(m->source.store);
    p->quiet = st.misses == p->misses && st.hits > 0; /* not before the first pass */
    p->misses = st.misses;
    if (decode && p->in_prompt && p->on[SLC_GUESS_PROMPT]) hint_prompt(m);
    if (!decode && !p->in_prompt)
        memset(p->prompt, 0, (size_t)c->n_layers * c->n_experts * sizeof(float));
    p->in_prompt = !decode;
}

static void remember(slc_model *m, uint32_t layer, bool decode) {
    size_t at = (size_t)layer * slc_model_config(m)->n_experts;
    const slc_pass *pass = &m->pass;
    slc_predict *p = &m->predict;

    memcpy(p->previous + at, pass->distinct, pass->n_distinct * sizeof(uint32_t));
    p->n_previous[layer] = pass->n_distinct;
    for (uint32_t i = 0; !decode && i < pass->n_distinct; i++)
        p->prompt[at + pass->distinct[i]] += pass->distinct_score[i];
}

static void look_ahead(slc_model *m, uint32_t layer, uint32_t ahead, slc_guess source) {
    uint32_t target = layer + ahead;

    if (!m->predict.on[source] || target >= slc_model_config(m)->n_layers) return;
    slc_moe_guess(&m->net, &m->cpu, &m->pass, target);
    slc_store_prefetch(m->source.store, target, m->pass.guess, m->pass.n_guess, source);
}

void slc_predict_layer(slc_model *m, uint32_t layer, bool decode) {
    const slc_config *c = slc_model_config(m);
    slc_predict *p = &m->predict;
    uint32_t next = layer + 1;

    if (!m->source.store) return;
    remember(m, layer, decode);
    if (p->quiet) return;
    look_ahead(m, layer, 1, SLC_GUESS_NEXT_LAYER);
    look_ahead(m, layer, 2, SLC_GUESS_TWO_AHEAD);
    if (decode && p->on[SLC_GUESS_PREVIOUS] && next < c->n_layers)
        slc_store_prefetch(m->source.store, next, p->previous + (size_t)next * c->n_experts,
                           p->n_previous[next], SLC_GUESS_PREVIOUS);
}
