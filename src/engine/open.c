/* Opening and closing a model: every room is set up in the order in which the memory plan needs
 * them. Small things first (folder, tokenizer, threads), so that what they take is measured; then
 * the plan, which refuses a budget that is too small; then the large arenas; the expert slab last,
 * with what is left. */
#include <malloc.h>
#include <sched.h>
#include <stdlib.h>

#include "base/cpus.h"
#include "base/fail.h"
#include "base/meminfo.h"
#include "engine/model_internal.h"

#define MIB (1024.0 * 1024.0)

const char *slc_version(void) {
    return SLC_VERSION;
}

slc_model_options slc_model_options_default(void) {
    return (slc_model_options){.n_seqs = 1, .log_level = SLC_LOG_INFO};
}

/* ---- set-up of the rooms ---- */

static uint32_t default_threads(void) {
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set)) return 1;
    return slc_cpus_usable("", &set);
}

static slc_status init_cpu(slc_model *m, const slc_model_options *opt, slc_err *err) {
    slc_cpu_level level = slc_cpu_level_parse(opt->cpu_level ? opt->cpu_level : "auto");
    uint32_t threads = opt->threads ? opt->threads : default_threads();

    if (level == SLC_CPU_N_LEVELS)
        return slc_fail(err, SLC_E_INVALID,
                        "unknown CPU level \"%s\", expected auto, scalar, avx2 or avx512",
                        opt->cpu_level);
    if (level == SLC_CPU_AUTO) level = slc_cpu_level_best();
    if (level > slc_cpu_level_best())
        return slc_fail(err, SLC_E_UNSUPPORTED, "this CPU does not have the level \"%s\"",
                        opt->cpu_level);
    if (threads > 1024) return slc_fail(err, SLC_E_INVALID, "%u threads, at most 1024", threads);
    m->plan.threads = threads;
    return slc_cpu_init(&m->cpu, level, threads, opt->exact, err);
}

static void add_stop_id(slc_model *m, int32_t id) {
    if (id < 0 || slc_model_is_stop_id(m, id)) return;
    m->stop_ids[m->n_stop_ids++] = id;
}

/* The ids of both configuration files, and the family's two end tokens in any case. */
static void init_stop_ids(slc_model *m) {
    const slc_config *c = slc_model_config(m);

    for (uint32_t i = 0; i < c->n_stop_ids; i++) add_stop_id(m, c->stop_ids[i]);
    if (m->tok) {
        add_stop_id(m, slc_tokenizer_added_id(m->tok, "<|im_end|>"));
        add_stop_id(m, slc_tokenizer_added_id(m->tok, "<|endoftext|>"));
    }
    if (!m->n_stop_ids)
        slc_logf(&m->log, SLC_LOG_WARN,
                 "%s: no end-of-text id in any file: generation stops at the token limit only",
                 m->ckpt->dir);
}

bool slc_model_is_stop_id(const slc_model *m, int32_t id) {
    for (uint32_t i = 0; i < m->n_stop_ids; i++)
        if (m->stop_ids[i] == id) return true;
    return false;
}

uint32_t slc_model_n_ids(const slc_model *m) {
    uint32_t v = slc_model_config(m)->vocab_size, n = m->tok ? slc_tokenizer_n_ids(m->tok) : v;

    return n < v ? n : v;
}

/* A checkpoint without one is run by token ids alone. */
static slc_status open_tokenizer(slc_model *m, slc_err *err) {
    slc_side_text t;
    slc_status rc = slc_side_text_open(m->ckpt, SLC_TEXT_TOKENIZER, &t, err);

    if (!rc && t.file) rc = slc_tokenizer_open_text(&t, &m->tok, err);
    slc_side_text_close(&t);
    return rc;
}

/* Everything small, and the plan. */
static slc_status prepare(slc_model *m, const char *path, const slc_model_options *opt, bool refuse,
                          slc_err *err) {
    slc_status rc;

    m->log = (slc_log){.user = opt->log_user, .max_level = (slc_log_level)opt->log_level};
    m->log.sink = opt->log;
    if ((rc = slc_checkpoint_open(path, &m->log, &m->ckpt, err))) return rc;
    if ((rc = open_tokenizer(m, err))) return rc;
    init_stop_ids(m);
    if ((rc = init_cpu(m, opt, err))) return rc;
    if ((rc = slc_streaming_init(m, opt, err))) return rc;
    if ((rc = slc_net_init(&m->net, slc_model_config(m), err))) return rc;
    if ((rc = slc_sampler_create(slc_model_n_ids(m), &m->sampler, err))) return rc;
    malloc_trim(0); /* what parsing freed is not held against the budget */
    return slc_plan_make(m, opt, refuse, err);
}

/* ---- the large parts ---- */

static slc_status alloc_states(slc_model *m, slc_err *err) {
    slc_plan *p = &m->plan;
    slc_status rc;

    for (uint32_t i = 0; i < p->n_seqs; i++)
        slc_arena_take(&m->states, m->state_layout.total_bytes, 1);
    if ((rc = slc_arena_alloc(&m->states, true, err))) return rc;
    if (!(m->seqs = slc_calloc(p->n_seqs, sizeof(*m->seqs))))
        return slc_fail(err, SLC_E_NOMEM, "no memory for %u sequences", p->n_seqs);
    for (uint32_t i = 0; i < p->n_seqs; i++) {
        m->seqs[i].model = m;
        m->seqs[i].state.base = slc_arena_take(&m->states, m->state_layout.total_bytes, 1);
    }
    return SLC_OK;
}

static slc_status load(slc_model *m, const slc_model_options *opt, slc_err *err) {
    slc_status rc;

    m->resident.used = m->plan.resident_bytes;
    if ((rc = slc_arena_alloc(&m->resident, true, err))) return rc;
    if ((rc = slc_load_resident(m, &m->resident, err))) return rc;
    if ((rc = alloc_states(m, err))) return rc;
    m->scratch.used = m->plan.scratch_bytes;
    if ((rc = slc_arena_alloc(&m->scratch, true, err))) return rc;
    slc_step_take(m, &m->scratch, m->plan.chunk);
    malloc_trim(0);
    if ((rc = slc_streaming_open(m, opt, err))) return rc;
    return slc_checkpoint_check_files(m->ckpt, err);
}

static void log_start(const slc_model *m) {
    const slc_plan *p = &m->plan;

    slc_logf(
        &m->log, SLC_LOG_INFO,
        "context %u, %u threads, %s kernels, %.1f MiB of weights resident, memory limit %.1f MiB",
        p->ctx, p->threads, m->cpu.k.level, (double)p->resident_bytes / MIB,
        (double)p->budget_bytes / MIB);
}

slc_status slc_model_open(const char *path, const slc_model_options *opt, slc_model **out,
                          slc_err *err) {
    slc_model *m = slc_calloc(1, sizeof(*m));
    slc_status rc;

    *out = NULL;
    if (!m) return slc_fail(err, SLC_E_NOMEM, "no memory for a model");
    rc = prepare(m, path, opt, true, err);
    if (!rc) rc = load(m, opt, err);
    if (rc) {
        slc_model_close(m);
        return rc;
    }
    log_start(m);
    *out = m;
    return SLC_OK;
}

void slc_model_close(slc_model *m) {
    if (!m) return;
    slc_streaming_close(m);
    slc_cpu_deinit(&m->cpu);
    slc_net_deinit(&m->net);
    slc_sampler_destroy(m->sampler);
    free(m->seqs);
    slc_arena_free(&m->scratch);
    slc_arena_free(&m->states);
    slc_arena_free(&m->resident);
    slc_tokenizer_close(m->tok);
    slc_checkpoint_close(m->ckpt);
    free(m);
}

slc_status slc_model_inspect(const char *path, const slc_model_options *opt, slc_model_info *info,
                             slc_err *err) {
    slc_model *m = slc_calloc(1, sizeof(*m));
    slc_status rc;

    if (!m) return slc_fail(err, SLC_E_NOMEM, "no memory for a model");
    rc = prepare(m, path, opt, false, err);
    if (!rc) slc_model_get_info(m, info);
    slc_model_close(m);
    return rc;
}
