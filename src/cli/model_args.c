/* From model options on the command line to slc_model_options. */
#include "cli/model_args.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

static slc_status cpu_from_environment(slc_model_options *opt, slc_err *err) {
    const char *level = getenv("SLUICE_CPU");

    if (!level || !*level) return SLC_OK;
    if (!slc_args_is_choice(SLC_CPU_LEVELS, level))
        return slc_fail(err, SLC_E_INVALID,
                        "environment variable SLUICE_CPU: expected one of %s, "
                        "found '%s'",
                        SLC_CPU_LEVELS, level);
    opt->cpu_level = level;
    return SLC_OK;
}

slc_status slc_model_args_options(const slc_model_args *m, slc_console *con, slc_model_options *opt,
                                  slc_err *err) {
    *opt = slc_model_options_default();
    opt->memory_bytes = m->memory;
    opt->expert_cache_bytes = m->expert_cache;
    opt->ctx_size = (uint32_t)m->ctx_size;
    opt->prefill_chunk = (uint32_t)m->prefill_chunk;
    opt->threads = (uint32_t)m->threads;
    opt->exact = m->exact;
    opt->io = m->io;
    opt->stream_mode = m->stream_mode;
    opt->policy = m->policy;
    opt->predict = m->predict;
    opt->trace = m->trace;
    opt->hot_start = m->hot_start;
    opt->verify_reads = m->verify_reads;
    opt->cpu_level = m->cpu;
    opt->log = slc_console_log;
    opt->log_user = con;
    opt->log_level = con->level;
    return m->cpu ? SLC_OK : cpu_from_environment(opt, err);
}

int slc_model_args_exit(slc_status rc) {
    return rc == SLC_E_INVALID ? SLC_EXIT_USAGE : SLC_EXIT_FAILURE;
}
