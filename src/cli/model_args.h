/* The options that say which model and how it may use the machine, shared by the subcommands as
 * groups of table entries. T is the command's values struct, which has `slc_model_args model`. */
#ifndef SLC_CLI_MODEL_ARGS_H
#define SLC_CLI_MODEL_ARGS_H

#include "cli/cli.h"
#include "sluice/sluice.h"

typedef struct slc_model_args {
    const char *path;
    uint64_t memory, expert_cache;
    int64_t ctx_size, prefill_chunk, threads;
    bool exact, verify_reads;
    const char *io, *cpu, *stream_mode, *policy, *predict, *trace, *hot_start;
} slc_model_args;

#define SLC_CPU_LEVELS   "auto|scalar|avx2|avx512"
#define SLC_IO_KINDS     "auto|uring|threads|buffered"
#define SLC_STREAM_MODES "full|seed|serial"
#define SLC_POLICIES     "best|lru|lfu-decay"

#define SLC_MODEL_OPTION(T)                                                                        \
    SLC_HEADING("Model"), SLC_OPTION(T, model.path, STRING, 'm', "model", "DIR",                   \
                                     "checkpoint folder (safetensors) or pack")

/* How the model may use the machine. */
#define SLC_MACHINE_OPTIONS(T)                                                                     \
    SLC_HEADING("Memory"),                                                                         \
        SLC_OPTION(T, model.memory, SIZE, 0, "memory", "SIZE",                                     \
                   "hard limit for the whole process, such as 8G\n"                                \
                   "(default: what the machine can spare)"),                                       \
        SLC_OPTION(T, model.expert_cache, SIZE, 0, "expert-cache", "SIZE",                         \
                   "expert cache alone (default: what --memory leaves)"),                          \
        SLC_OPTION_IN(T, model.ctx_size, INT, 'c', "ctx-size", "N",                                \
                      "context in tokens (default: the model's, at most 8192)", 1, UINT32_MAX),    \
        SLC_OPTION_IN(T, model.prefill_chunk, INT, 0, "prefill-chunk", "N",                        \
                      "prompt tokens a pass (default: up to 512)", 1, 65536),                      \
        SLC_OPTION_IN(T, model.threads, INT, 't', "threads", "N",                                  \
                      "compute threads (default: one a core it may use)", 1, 1024),                \
        SLC_OPTION(T, model.exact, FLAG, 0, "exact", NULL,                                         \
                   "float32 activations and cache, to compare with references"),                   \
        SLC_HEADING("Machine"),                                                                    \
        SLC_OPTION_OF(T, model.io, 0, "io", "KIND",                                                \
                      "how experts are read: auto, uring, threads, buffered", SLC_IO_KINDS),       \
        SLC_OPTION_OF(T, model.cpu, 0, "cpu", "LEVEL",                                             \
                      "highest instruction set used: auto, scalar, avx2, avx512\n"                 \
                      "(default: $SLUICE_CPU, else auto)",                                         \
                      SLC_CPU_LEVELS),                                                             \
        SLC_HEADING("Streaming of experts (none of it changes the text)"),                         \
        SLC_OPTION_OF(T, model.stream_mode, 0, "stream-mode", "MODE",                              \
                      "full (default); seed, serial: as the original did it,\n"                    \
                      "to compare with",                                                           \
                      SLC_STREAM_MODES),                                                           \
        SLC_OPTION_OF(T, model.policy, 0, "policy", "NAME",                                        \
                      "which expert is given up: best (default), lru, lfu-decay", SLC_POLICIES),   \
        SLC_OPTION(T, model.predict, STRING, 0, "predict", "LIST",                                 \
                   "what is read before it is asked for: auto (default), off, or\n"                \
                   "a list of previous, next, ahead2, prompt")

/* The same, for commands that run the model. */
#define SLC_RUN_OPTIONS(T)                                                                         \
    SLC_OPTION(T, model.trace, STRING, 0, "trace", "FILE",                                         \
               "record every expert asked for, for sluice simulate"),                              \
        SLC_OPTION(T, model.hot_start, STRING, 0, "hot-start", "FILE",                             \
                   "remember there which experts are held at the end, and\n"                       \
                   "read them at the next start"),                                                 \
        SLC_OPTION(T, model.verify_reads, FLAG, 0, "verify-reads", NULL,                           \
                   "hold every expert read from a pack against its hash")

/* Fills *opt, with con as the receiver of messages. SLC_E_INVALID for a wrong $SLUICE_CPU. */
slc_status slc_model_args_options(const slc_model_args *m, slc_console *con, slc_model_options *opt,
                                  slc_err *err) SLC_MUST_CHECK;
/* The exit code when a model could not be opened or inspected: options that are wrong for this
 * model are usage errors. */
int slc_model_args_exit(slc_status rc);

#endif
