/* Measurements beside a model: what the disk and the memory of this machine could give it at most,
 * and what a cache of another size would have held. Needs a checkpoint, never its weights in
 * memory. Every call stands alone, keeps nothing and may be made from any thread. */
#ifndef SLUICE_BENCH_H
#define SLUICE_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "sluice/sluice.h"
#include "sluice/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the disk ---- */

typedef struct slc_bench_io_options {
    const char *io;    /* NULL: "auto"; "uring", "threads", "buffered" */
    const char *trace; /* NULL: experts drawn evenly; else the file's misses, again and again */
    uint32_t depth;    /* 32; reads in flight */
    double seconds;    /* 2 */
    uint64_t seed;     /* 0; of the draw */
    slc_log_fn *log;   /* NULL: silent */
    void *log_user;
    int log_level; /* 1 */
} slc_bench_io_options;

typedef struct slc_bench_io_result {
    uint64_t experts, reads;
    uint64_t bytes;        /* read, with what alignment adds */
    uint64_t expert_bytes; /* of those, of experts */
    uint64_t ns;
    uint32_t n_sizes, sizes[9]; /* of the reads that the last expert took */
    bool direct;                /* past the page cache, all files */
    const char *io;             /* backend used */
} slc_bench_io_result;

SLC_API slc_bench_io_options slc_bench_io_options_default(void);
/* Reads experts exactly as the expert cache does (the same ranges, alignment, memory and backend)
 * with nothing computed between, `depth` reads always in flight: the rate that streaming cannot
 * beat. SLC_E_INVALID for a model without experts. */
SLC_API slc_status slc_bench_io(const char *path, const slc_bench_io_options *opt,
                                slc_bench_io_result *out, slc_err *err) SLC_MUST_CHECK;

/* Writes back what is dirty and drops the page cache of every weight file, so that the next run
 * starts from the disk. *left: bytes that the kernel kept all the same (mapped or locked by
 * somebody, or a file system in memory). */
SLC_API slc_status slc_bench_drop_cache(const char *path, uint64_t *left,
                                        slc_err *err) SLC_MUST_CHECK;

/* ---- the memory ---- */

/* What one decoded token moves at least. */
typedef struct slc_bench_touched {
    uint64_t dense_bytes;  /* weights outside the routed experts; of the embedding nothing */
    uint64_t expert_bytes; /* of the experts that a token chooses */
    uint64_t state_bytes;  /* recurrent state, read and written */
    uint64_t kv_bytes;     /* keys and values, per position before the token */
} slc_bench_touched;

/* `exact` as in slc_model_options. */
SLC_API slc_status slc_bench_touch(const char *path, bool exact, slc_bench_touched *out,
                                   slc_err *err) SLC_MUST_CHECK;

/* Reads `bytes` of memory over and over with `threads` threads for about `seconds`; the rate of the
 * median pass. Takes that much memory, at most half of what is free. */
SLC_API slc_status slc_bench_memory(uint64_t bytes, uint32_t threads, double seconds,
                                    double *bytes_per_s, slc_err *err) SLC_MUST_CHECK;

/* ---- traces ---- */

/* What slc_model_options.trace has recorded, in memory. */
typedef struct slc_bench_trace slc_bench_trace;

typedef struct slc_bench_trace_facts {
    uint32_t n_layers, n_experts, n_experts_per_tok; /* layers: those with experts */
    uint64_t expert_bytes, expert_bytes_total;       /* the largest one; all, as far as seen */
    uint64_t decode_tokens;
} slc_bench_trace_facts;

SLC_API slc_status slc_bench_trace_open(const char *path, slc_bench_trace **out,
                                        slc_err *err) SLC_MUST_CHECK;
SLC_API void slc_bench_trace_close(slc_bench_trace *t);
SLC_API slc_bench_trace_facts slc_bench_trace_get_facts(const slc_bench_trace *t);

typedef struct slc_bench_replay_options {
    const char *policy;      /* NULL: "best"; "lru", "lfu-decay"; "belady": knows the future */
    uint32_t n_slots;        /* experts held at once */
    double disk_bytes_per_s; /* 0: reads take no time */
    double read_latency_s;   /* 0; of a layer that has to read at all */
    double compute_s;        /* 0; of a token whose experts are all held */
    double expert_s;         /* 0; of that, what reads run beside: from the router's choice on */
    double foreseen;         /* 0; share of the misses read before they are asked for */
} slc_bench_replay_options;

typedef struct slc_bench_replay_result {
    uint64_t asked, hits;                     /* experts */
    uint64_t decode_asked, decode_hits;       /* of these after the prompt */
    double misses_per_token, bytes_per_token; /* after the prompt, read on demand, unpadded */
    double tokens_per_s;                      /* after the prompt; 0 if no times were given */
} slc_bench_replay_result;

/* What a cache of this size and policy would have held, and how fast it would have been: reads
 * overlap with what the expert cache can overlap them with, and with nothing else. Which experts
 * are held is exact. */
SLC_API slc_status slc_bench_replay(const slc_bench_trace *t, const slc_bench_replay_options *opt,
                                    slc_bench_replay_result *out, slc_err *err) SLC_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
