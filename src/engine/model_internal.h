/* What an slc_model is inside: the rooms, joined. For the files of engine/ only.
 *
 * One thread at a time uses a model; `cancel` alone may be set from elsewhere. */
#ifndef SLC_ENGINE_MODEL_INTERNAL_H
#define SLC_ENGINE_MODEL_INTERNAL_H

#include <stdatomic.h>

#include "backend/cpu.h"
#include "engine/plan.h"
#include "engine/predict.h"
#include "engine/sampler.h"
#include "engine/source.h"
#include "format/checkpoint.h"
#include "model/net.h"
#include "sluice/sluice.h"
#include "text/tokenizer.h"

struct slc_seq {
    slc_model *model;
    slc_state state;
    bool in_use;
    bool broken;       /* an item failed half way: only reset and destroy work */
    uint32_t n_done;   /* tokens of the current step consumed (step.c) */
    bool in_this_step; /* a sequence may appear once in a step (step.c) */
};

struct slc_model {
    slc_log log;
    slc_checkpoint *ckpt;
    slc_tokenizer *tok; /* NULL: the folder has no tokenizer.json */
    slc_cpu cpu;
    slc_io *io; /* NULL for a dense model */
    slc_stream_mode mode;
    const slc_policy *policy; /* NULL: the store's default */
    slc_source source;
    struct slc_trace_writer *trace; /* NULL: not recorded */
    char *hot_path;                 /* NULL: what is held is not remembered */
    slc_predict predict;
    slc_net net;
    slc_plan plan;
    slc_arena resident; /* weights */
    slc_arena states;   /* of all sequences */
    slc_arena scratch;  /* pass, tokens */
    slc_state_layout state_layout;
    slc_pass pass;
    slc_step_item **pass_items; /* [n_seqs] item of each span of the pass */
    int32_t *pass_tokens;       /* [chunk] */
    slc_seq *seqs;              /* [n_seqs] */
    slc_sampler *sampler;
    uint32_t n_stop_ids;
    int32_t stop_ids[SLC_MAX_STOP_IDS + 2];
    slc_err changed; /* a weight file was written to: no step works any more (step.c) */
    slc_stats stats; /* the token and time counters; the rest is filled in on request */
    _Atomic bool cancel;
};

static inline const slc_config *slc_model_config(const slc_model *m) {
    return &m->ckpt->cfg;
}

/* NULL if the checkpoint has none. */
static inline const slc_tokenizer *slc_model_tokenizer(const slc_model *m) {
    return m->tok;
}

bool slc_model_is_stop_id(const slc_model *m, int32_t id);
/* Ids that have text: rows of the vocabulary past them are padding, never sampled. */
uint32_t slc_model_n_ids(const slc_model *m);

/* Lays out and, unless the arena only measures, reads every resident weight into `a`, and sets the
 * network's views (load.c). */
slc_status slc_load_resident(slc_model *m, slc_arena *a, slc_err *err) SLC_MUST_CHECK;

/* The stream of experts: what the plan must know (backend, mode), then the store itself, and the
 * end of it (streaming.c). Nothing to do for a dense model. */
slc_status slc_streaming_init(slc_model *m, const slc_model_options *opt,
                              slc_err *err) SLC_MUST_CHECK;
slc_status slc_streaming_open(slc_model *m, const slc_model_options *opt,
                              slc_err *err) SLC_MUST_CHECK;
void slc_streaming_close(slc_model *m);

/* A backend by name, NULL meaning "auto". SLC_E_INVALID for another one. */
slc_status slc_io_kind_parse(const char *name, slc_io_kind *kind, slc_err *err) SLC_MUST_CHECK;
/* Tries direct reads on every file of a checkpoint and logs why some are not; whether all are. */
bool slc_enable_direct_reads(slc_checkpoint *c, const slc_log *log);

/* The routed experts of one layer for the current pass: fetched, computed as they arrive, summed.
 * Rows whose expert could not be read fail their item (experts.c). */
void slc_run_experts(slc_model *m, uint32_t layer);

/* Takes the memory of a pass from an arena, measuring or for real (step.c). */
void slc_step_take(slc_model *m, slc_arena *a, uint32_t chunk);

#endif
