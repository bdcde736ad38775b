/* Where the stream and the model meet: an expert's bytes become matrices, and the experts of a
 * layer are computed as they arrive.
 *
 *     router -> reads of everything missing submitted -> hints for later layers
 *            -> shared expert computed meanwhile
 *            -> whatever is ready computed, again and again -> sum in rank order */
#include "base/fail.h"
#include "engine/model_internal.h"

/* Experts computed together at most: enough for the widest decode step to be one batch. */
#define MAX_READY 64u

static slc_moe_expert bind_expert(const slc_layer *l, uint32_t id, const slc_expert_view *view) {
    slc_moe_expert e = {.id = id};

    for (int proj = 0; proj < SLC_N_PROJ; proj++) {
        e.w[proj].type = l->expert[proj];
        for (int part = 0; part < SLC_N_PARTS; part++)
            e.w[proj].part[part] = view->part[proj][part];
    }
    return e;
}

/* An expert that could not be read fails every item with a token that chose it, saying which. */
static void fail_users(slc_model *m, uint32_t idx) {
    slc_pass *p = &m->pass;
    uint32_t expert = p->distinct[idx];

    for (uint32_t pair = p->first_pair[expert]; pair < p->first_pair[expert + 1]; pair++)
        slc_source_error(&m->source, idx, &m->pass_items[p->span_of_row[p->pair_row[pair]]]->err);
}

void slc_run_experts(slc_model *m, uint32_t layer) {
    slc_pass *p = &m->pass;
    slc_fetched ready[MAX_READY];
    slc_moe_expert experts[MAX_READY];
    bool decode = p->n_tok == p->n_spans;
    uint32_t got;

    slc_stage_begin(&m->cpu.stages, SLC_STAGE_FETCH);
    slc_source_predict(&m->source, layer);
    slc_moe_route(&m->net, &m->cpu, p, layer);
    slc_stage_begin(&m->cpu.stages, SLC_STAGE_FETCH);
    slc_source_begin(&m->source, layer, p->distinct, p->distinct_score, p->n_distinct, decode);
    slc_predict_layer(m, layer, decode);
    slc_moe_shared(&m->net, &m->cpu, p, layer);
    slc_stage_begin(&m->cpu.stages, SLC_STAGE_FETCH);
    while ((got = slc_source_next(&m->source, ready, MAX_READY)) > 0) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < got; i++) {
            uint32_t id = p->distinct[ready[i].idx];

            if (ready[i].status)
                fail_users(m, ready[i].idx);
            else
                experts[n++] = bind_expert(&m->net.layers[layer], id, &ready[i].view);
        }
        slc_moe_experts(&m->net, &m->cpu, p, experts, n);
        slc_stage_begin(&m->cpu.stages, SLC_STAGE_FETCH);
        slc_source_release(&m->source, ready, got);
    }
    slc_source_end(&m->source);
    slc_moe_combine(&m->net, &m->cpu, p);
}
