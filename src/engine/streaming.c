/* Setting up the stream of experts as the options say: backend, mode, policy, prediction, trace and
 * warm start; and taking it down again. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "engine/model_internal.h"
#include "stream/hot.h"
#include "stream/trace.h"

/* ---- options ---- */

slc_status slc_io_kind_parse(const char *name, slc_io_kind *kind, slc_err *err) {
    if (!name || !strcmp(name, "auto"))
        *kind = SLC_IO_AUTO;
    else if (!strcmp(name, "uring"))
        *kind = SLC_IO_URING;
    else if (!strcmp(name, "threads"))
        *kind = SLC_IO_THREADS;
    else if (!strcmp(name, "buffered"))
        *kind = SLC_IO_BUFFERED;
    else
        return slc_fail(err, SLC_E_INVALID,
                        "unknown I/O backend \"%s\", expected auto, uring, threads or buffered",
                        name);
    return SLC_OK;
}

/* The first option given that is about the store; NULL: none. */
static const char *store_option(const slc_model_options *opt) {
    if (opt->expert_cache_bytes) return "expert-cache";
    if (opt->policy) return "policy";
    if (opt->predict) return "predict";
    if (opt->trace) return "trace";
    if (opt->hot_start) return "hot-start";
    return opt->verify_reads ? "verify-reads" : NULL;
}

/* Options that would have no effect are errors. */
static slc_status check_options(const slc_model *m, const slc_model_options *opt, slc_err *err) {
    const char *name = store_option(opt);

    if (!slc_config_is_moe(slc_model_config(m)) && (name || opt->stream_mode))
        return slc_fail(err, SLC_E_INVALID, "option --%s has no effect on a model without experts",
                        name ? name : "stream-mode");
    if (m->mode != SLC_MODE_FULL && (name || opt->io))
        return slc_fail(err, SLC_E_INVALID, "option --%s has no effect in stream mode %s",
                        name ? name : "io", opt->stream_mode);
    return SLC_OK;
}

/* ---- before the plan ---- */

bool slc_enable_direct_reads(slc_checkpoint *c, const slc_log *log) {
    uint64_t allowed = slc_file_allowance(2 * (uint64_t)c->n_files), n_open = c->n_files;
    const char *first_why = NULL;
    uint32_t n_buffered = 0;

    for (uint32_t i = 0; i < c->n_files; i++) {
        const char *why = "too many open files (raise: ulimit -n)";

        if (n_open < allowed) slc_file_enable_direct(&c->files[i], &why);
        n_open += c->files[i].direct_fd >= 0;
        if (c->files[i].direct_fd >= 0) continue;
        n_buffered++;
        if (!first_why) first_why = why;
    }
    if (n_buffered)
        slc_logf(log, SLC_LOG_INFO, "%u of %u files are read through the page cache: %s",
                 n_buffered, c->n_files, first_why ? first_why : "no direct reads");
    return !n_buffered;
}

/* Loading and every expert that is not held go through it. */
static void tell_remote(const slc_checkpoint *c, const slc_log *log) {
    for (uint32_t i = 0; i < c->n_files; i++) {
        const char *kind = slc_file_remote(&c->files[i]);

        if (!kind) continue;
        slc_logf(log, SLC_LOG_INFO,
                 "%s: reached through %s, which may be many times slower than a local SSD; a copy "
                 "on one is better",
                 c->files[i].path, kind);
        return;
    }
}

slc_status slc_streaming_init(slc_model *m, const slc_model_options *opt, slc_err *err) {
    slc_io_options io = {.log = &m->log};
    slc_status rc = slc_stream_mode_parse(opt->stream_mode, &m->mode, err);

    if (!rc) rc = slc_predict_parse(opt->predict, &m->predict, err);
    if (!rc) rc = slc_io_kind_parse(opt->io, &io.kind, err);
    if (!rc) rc = check_options(m, opt, err);
    if (rc) return rc;
    if (opt->policy && !(m->policy = slc_policy_find(opt->policy)))
        return slc_fail(err, SLC_E_INVALID,
                        "unknown policy \"%s\", expected best, lru or lfu-decay", opt->policy);
    if (opt->verify_reads && !m->ckpt->pack)
        return slc_fail(err, SLC_E_INVALID,
                        "option --verify-reads: %s is no pack and has no hashes", m->ckpt->dir);
    tell_remote(m->ckpt, &m->log);
    if (!slc_config_is_moe(slc_model_config(m))) return SLC_OK;
    if (m->mode != SLC_MODE_FULL) io.kind = SLC_IO_BUFFERED;
    if (io.kind != SLC_IO_BUFFERED) slc_enable_direct_reads(m->ckpt, &m->log);
    return slc_io_create(&io, &m->io, err);
}

/* ---- after everything else is in memory ---- */

static slc_status open_store(slc_model *m, const slc_model_options *opt, slc_err *err) {
    slc_store_options so = {
        .io = m->io, .policy = m->policy, .verify = opt->verify_reads, .log = &m->log};
    slc_status rc = slc_plan_slots(m, opt, &so.n_slots, err);

    if (rc) return rc;
    if (opt->trace) {
        if ((rc = slc_trace_writer_open(opt->trace, m->ckpt, &m->trace, err))) return rc;
        so.trace = slc_trace_write;
        so.trace_user = m->trace;
    }
    m->plan.n_slots = so.n_slots;
    return slc_store_create(m->ckpt, &so, &m->source.store, err);
}

/* A warm start that cannot be had is a cold one. */
static slc_status start_warm(slc_model *m, const char *path, slc_err *err) {
    slc_err why = {0};
    uint32_t n = 0;

    if (!(m->hot_path = strdup(path))) return slc_fail(err, SLC_E_NOMEM, "no memory for a path");
    if (slc_hot_load(m->source.store, path, &n, &why))
        slc_logf(&m->log, SLC_LOG_INFO, "cold start: %s", why.msg);
    else
        slc_logf(&m->log, SLC_LOG_INFO, "warm start: %u experts that were held last time", n);
    return SLC_OK;
}

slc_status slc_streaming_open(slc_model *m, const slc_model_options *opt, slc_err *err) {
    slc_status rc;

    if (!m->io) return SLC_OK;
    if (m->mode != SLC_MODE_FULL)
        return slc_original_create(m->ckpt, m->mode, m->io, &m->source.original, err);
    rc = open_store(m, opt, err);
    return rc || !opt->hot_start ? rc : start_warm(m, opt->hot_start, err);
}

void slc_streaming_close(slc_model *m) {
    slc_err err = {0};

    if (m->hot_path && m->source.store && slc_hot_save(m->source.store, m->hot_path, &err))
        slc_logf(&m->log, SLC_LOG_WARN, "the next start will be cold: %s", err.msg);
    slc_store_destroy(m->source.store);
    slc_original_destroy(m->source.original);
    slc_io_destroy(m->io);
    err = (slc_err){0};
    if (slc_trace_writer_close(m->trace, &err)) slc_logf(&m->log, SLC_LOG_WARN, "%s", err.msg);
    free(m->hot_path);
}
