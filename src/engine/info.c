/* Facts, plan and counters of a model, for whoever asks. */
#include <stdio.h>
#include <string.h>

#include "base/meminfo.h"
#include "engine/model_internal.h"

static uint64_t type_bytes(const slc_matrix_type *t) {
    uint64_t n = 0;

    for (int part = 0; part < SLC_N_PARTS; part++) n += slc_matrix_part_bytes(t, part);
    return n;
}

/* Encodings seen, weighted by bytes: a model has a handful. */
typedef struct tally {
    struct {
        char name[32];
        uint64_t bytes;
    } entry[16];
    uint32_t n;
} tally;

static void tally_add(tally *ta, const slc_matrix_type *t) {
    char name[32];
    uint32_t i = 0;

    slc_matrix_type_str(t, name, sizeof(name));
    while (i < ta->n && strcmp(ta->entry[i].name, name) != 0) i++;
    if (i == sizeof(ta->entry) / sizeof(ta->entry[0])) return;
    if (i == ta->n) snprintf(ta->entry[ta->n++].name, sizeof(name), "%s", name);
    ta->entry[i].bytes += type_bytes(t);
}

static const char *tally_top(const tally *ta) {
    uint32_t best = 0;

    for (uint32_t i = 1; i < ta->n; i++)
        if (ta->entry[i].bytes > ta->entry[best].bytes) best = i;
    return ta->n ? ta->entry[best].name : "";
}

static void count_weight(slc_model_info *info, tally *dense, const slc_weight *w) {
    if (!w->type.rows) return;
    info->n_params += (uint64_t)w->type.rows * w->type.cols;
    info->file_bytes += type_bytes(&w->type);
    if (w->type.rows > 1) tally_add(dense, &w->type);
}

static void count_weights(const slc_model *m, slc_model_info *info) {
    const slc_checkpoint *ck = m->ckpt;
    const slc_config *c = &ck->cfg;
    tally dense = {0}, experts = {0};

    count_weight(info, &dense, &ck->w[SLC_W_EMBED]);
    count_weight(info, &dense, &ck->w[SLC_W_FINAL_NORM]);
    if (!ck->tied) count_weight(info, &dense, &ck->w[SLC_W_LM_HEAD]);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        for (int id = 0; id < SLC_W_N_LAYER; id++) count_weight(info, &dense, &ck->layers[l].w[id]);
        if (!slc_config_is_moe(c)) continue;
        uint64_t bytes = slc_checkpoint_expert_bytes(ck, l);

        for (int proj = 0; proj < SLC_N_PROJ; proj++) {
            const slc_matrix_type *t = &ck->layers[l].expert[proj];

            info->n_params += (uint64_t)c->n_experts * t->rows * t->cols;
            tally_add(&experts, t);
        }
        if (bytes > info->expert_bytes) info->expert_bytes = bytes;
        info->expert_bytes_total += c->n_experts * bytes;
        info->expert_bytes_per_token += c->n_experts_per_tok * bytes;
    }
    info->file_bytes += info->expert_bytes_total;
    snprintf(info->dense_format, sizeof(info->dense_format), "%.31s", tally_top(&dense));
    snprintf(info->expert_format, sizeof(info->expert_format), "%.31s",
             experts.n > 1 ? "mixed" : tally_top(&experts));
}

static void copy_plan(const slc_plan *p, slc_model_info *info) {
    info->ctx_size = p->ctx;
    info->n_seqs = p->n_seqs;
    info->prefill_chunk = p->chunk;
    info->threads = p->threads;
    info->n_slots = p->n_slots;
    info->budget_bytes = p->budget_bytes;
    info->smallest_budget_bytes = p->smallest_bytes;
    info->process_bytes = p->process_bytes;
    info->resident_bytes = p->resident_bytes + p->original_bytes;
    info->state_bytes = p->state_bytes;
    info->scratch_bytes = p->scratch_bytes;
    info->slot_bytes = p->slot_bytes;
    info->slab_bytes = p->n_slots * p->slot_bytes;
}

void slc_model_get_info(const slc_model *m, slc_model_info *info) {
    const slc_config *c = slc_model_config(m);

    *info = (slc_model_info){
        .n_layers = c->n_layers,
        .n_full_layers = m->net.n_full,
        .hidden_size = c->hidden_size,
        .vocab_size = c->vocab_size,
        .max_positions = c->max_positions,
        .n_experts = c->n_experts,
        .n_experts_per_tok = c->n_experts_per_tok,
        .tied_embeddings = m->ckpt->tied,
        .norms_are_raw = m->ckpt->norms_are_raw,
        .ignored_bytes = m->ckpt->ignored_bytes,
        .temperature = c->temperature,
        .top_p = c->top_p,
        .min_p = c->min_p,
        .repeat_penalty = c->repeat_penalty,
        .presence_penalty = c->presence_penalty,
        .top_k = c->top_k,
        .do_sample = c->do_sample,
        .cpu_level = m->cpu.k.level,
        .io = m->io ? slc_io_name(m->io) : "",
    };
    memcpy(info->model_type, c->model_type, sizeof(info->model_type));
    info->n_stop_ids = m->n_stop_ids < 16 ? m->n_stop_ids : 16;
    memcpy(info->stop_ids, m->stop_ids, info->n_stop_ids * sizeof(int32_t));
    count_weights(m, info);
    copy_plan(&m->plan, info);
}

slc_stats slc_model_get_stats(const slc_model *m) {
    slc_stats s = m->stats;

    slc_store_stats st = slc_source_stats(&m->source);

    s.hits = st.hits;
    s.misses = st.misses;
    s.late = st.late;
    s.reads = st.reads;
    s.bytes_read = st.bytes_read;
    s.stall_ns = st.stall_ns;
    s.timed_bytes = st.timed_bytes;
    s.timed_ns = st.timed_ns;
    for (int i = 0; i < SLC_N_PREDICTIONS; i++) {
        const slc_guess_stats *g = &st.guess[i];

        s.predict[i] = (slc_prediction_stats){.asked = g->asked,
                                              .present = g->present,
                                              .read = g->read,
                                              .used = g->used,
                                              .late = g->late,
                                              .wasted = g->wasted,
                                              .bytes_read = g->bytes_read,
                                              .wanted = g->wanted,
                                              .foreseen = g->foreseen,
                                              .off = g->off};
    }
    s.peak_rss_bytes = slc_mem_usage_get().peak_rss_bytes;
    return s;
}

uint32_t slc_model_get_stages(const slc_model *m, slc_stage_stats *out) {
    const slc_stages *s = &m->cpu.stages;
    uint32_t n = 0;

    _Static_assert(SLC_N_STAGES <= SLC_MAX_STAGES, "room for every stage");
    for (int i = SLC_STAGE_NONE + 1; i < SLC_N_STAGES; i++) {
        const slc_stage_count *prefill = &s->of[SLC_PHASE_PREFILL][i];
        const slc_stage_count *decode = &s->of[SLC_PHASE_DECODE][i];

        if (!prefill->ns && !decode->ns) continue;
        out[n++] = (slc_stage_stats){slc_stage_block((slc_stage)i),
                                     slc_stage_name((slc_stage)i),
                                     prefill->ns,
                                     decode->ns,
                                     prefill->bytes,
                                     decode->bytes};
    }
    return n;
}
