/* What `sluice bench` compares and what it has measured so far: configurations, each with one run a
 * round, and the rates of the machine, measured once a round beside them.
 *
 *     bench_runs.c      figures, spreads, names      bench_roofline.c  the rates and the bound
 *     bench_table.c     Markdown and CSV             bench_plot.c      SVG
 *     cmd_bench.c       options, the rounds */
#ifndef SLC_CLI_BENCH_RUNS_H
#define SLC_CLI_BENCH_RUNS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/console.h"
#include "cli/list_args.h"
#include "sluice/bench.h"

#define SLC_BENCH_MAX_ROUNDS 1000

typedef struct slc_bench_run {
    json_t *stats, *settings, *stages; /* as `run --json` prints them */
    uint64_t read_bytes;               /* from storage, whoever of the process asked for it */
    uint64_t cached_bytes; /* of the weights that were in the page cache before it began */
    double wall_s;
} slc_bench_run;

/* A token  takes at least as long as the slower of disk and memory. */
typedef struct slc_bench_bound {
    double disk_s, memory_s; /* of a token, each alone */
    double misses_per_token; /* experts */
    double tokens_per_s;     /* 1 / the larger of both; 0: unknown */
} slc_bench_bound;

typedef struct slc_bench_config {
    const char *budget;    /* as written; "" when none was given */
    uint64_t memory_bytes; /* --memory; 0: not given */
    uint64_t cache_bytes;  /* --expert-cache; 0: not given */
    uint64_t plan_bytes;   /* what the memory plan comes to */
    uint64_t needed_bytes; /* does not fit, and is not run: the smallest that would; 0: fits */
    uint32_t n_slots;      /* experts it holds (mode full, also for the bound of others) */
    const char *mode, *io, *policy, *predict; /* NULL: not given, or of no effect */
    slc_bench_run *runs;                      /* [n_runs] */
    uint32_t n_runs;
    slc_bench_bound bound;
} slc_bench_config;

#define SLC_MACHINE_MAX 384

typedef struct slc_bench_results {
    const char *model;
    char machine[SLC_MACHINE_MAX]; /* processors, memory, kernel, version of this program */
    slc_model_info info;
    slc_bench_touched touched;
    slc_bench_trace *trace;    /* which experts the text needs; NULL: a model without */
    slc_bench_config *configs; /* [n_configs] */
    uint32_t n_configs, n_rounds;
    uint32_t n_prompt, n_tokens;
    bool cgroup;
    double *disk_rates, *memory_rates; /* [n_rounds] bytes a second */
    uint32_t n_rates, disk_depth;
    bool through_cache; /* direct reads do not work here: the disk's rate is not the disk's */
} slc_bench_results;

typedef struct slc_spread {
    double min, median, max;
} slc_spread;

/* The run made first; NULL: none yet. */
const slc_bench_run *slc_bench_first_run(const slc_bench_results *r);
/* A number of a run's stats; 0 if there is none of this name. */
double slc_bench_figure(const slc_bench_run *run, const char *key);
/* Over the runs of a configuration; zeros before the first. */
slc_spread slc_bench_spread(const slc_bench_config *c, const char *key);
slc_spread slc_spread_of(const double *values, uint32_t n);

/* Which of a configuration's choices differ anywhere in the results. */
typedef struct slc_bench_dims {
    bool budget, mode, io, policy, predict;
} slc_bench_dims;

slc_bench_dims slc_bench_varied(const slc_bench_results *r);
/* The choices that vary, budget aside: "seed threads"; "" if none does. */
const char *slc_bench_series(const slc_bench_results *r, const slc_bench_config *c, char buf[128]);
/* Two configurations that differ in their budget at most. */
bool slc_bench_same_series(const slc_bench_config *a, const slc_bench_config *b);
/* Two that are held against the same bound, budget aside. */
bool slc_bench_same_policy(const slc_bench_config *a, const slc_bench_config *b);

/* The limit of a configuration's cgroup; 0: none. */
uint64_t slc_bench_cgroup_bytes(const slc_bench_results *r, const slc_bench_config *c);

void slc_bench_describe_machine(char line[SLC_MACHINE_MAX]);
void slc_bench_results_deinit(slc_bench_results *r);

/* bench_roofline.c: measures the rates of one round into disk_rates and memory_rates; the disk with
 * the reads of the trace. */
slc_status slc_bench_measure_rates(slc_bench_results *r, const char *trace_path,
                                   slc_err *err) SLC_MUST_CHECK;
/* Fills the bound of every configuration that has runs. */
slc_status slc_bench_find_bounds(slc_bench_results *r, slc_err *err) SLC_MUST_CHECK;

/* bench_table.c */
void slc_bench_print_table(const slc_bench_results *r, slc_console *con);
/* Where the time went, a table for each configuration. */
void slc_bench_print_profiles(const slc_bench_results *r, slc_console *con);
slc_status slc_bench_write_csv(const slc_bench_results *r, const char *path,
                               slc_err *err) SLC_MUST_CHECK;
/* bench_plot.c */
slc_status slc_bench_write_svg(const slc_bench_results *r, const char *path,
                               slc_err *err) SLC_MUST_CHECK;

#endif
