/* sluice bench: what a budget, a mode, a policy costs or gains on this machine.
 *
 * Every run is a process of its own (`sluice run --json`), so that its peak memory, its expert
 * cache and what it reads are its own; the page cache is emptied of the model before each. The
 * configurations take turns, round by round: a machine that gets slower meanwhile slows them all.
 * All runs must make the same tokens.
 *
 *     plan      every combination asked for, and what its memory plan comes to
 *     record    one run, not counted, writes a trace: what a cache of each size would miss
 *     rounds    rates of disk and memory, then every configuration once
 *     report    table, CSV, plot; of what there is, if a run fails or Ctrl-C comes */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fail.h"
#include "cli/bench_runs.h"
#include "cli/child.h"
#include "cli/model_args.h"

#define DEFAULT_PROMPT "Once upon a time"
#define MAX_CONFIGS    256u
#define MAX_ARGV       64

typedef struct bench_args {
    slc_common_args common;
    slc_model_args model; /* lists below instead of memory, expert_cache, io and so on */
    const char *memory, *expert_cache, *mode, *io, *policy, *predict;
    const char *prompt, *file, *token_ids, *csv, *svg;
    int64_t n_tokens, rounds;
    double temp;
    uint64_t seed;
    bool cgroup, profile;
} bench_args;

#define T bench_args

static const slc_opt options[] = {
    SLC_MODEL_OPTION(T),

    SLC_HEADING("What is compared (lists: every combination is run)"),
    SLC_OPTION(T, expert_cache, STRING, 0, "expert-cache", "LIST",
               "sizes, or shares of all experts: 10%,25%,50%,100%"),
    SLC_OPTION(T, memory, STRING, 0, "memory", "LIST", "limits of the whole process: 8G,16G"),
    SLC_OPTION(T, mode, STRING, 0, "stream-mode", "LIST", "some of full, seed, serial"),
    SLC_OPTION(T, io, STRING, 0, "io", "LIST", "some of auto, uring, threads, buffered"),
    SLC_OPTION(T, policy, STRING, 0, "policy", "LIST", "some of best, lru, lfu-decay"),
    SLC_OPTION(T, predict, STRING, 0, "predict", "LIST",
               "as for run, with + between what belongs together:\noff,next,previous+next"),

    SLC_HEADING("A run"),
    SLC_OPTION(T, prompt, STRING, 'p', "prompt", "TEXT",
               "the prompt (default \"" DEFAULT_PROMPT "\")"),
    SLC_OPTION(T, file, STRING, 'f', "file", "FILE", "read the prompt from a file"),
    SLC_OPTION(T, token_ids, STRING, 0, "token-ids", "FILE", "a prompt of token ids, as for run"),
    SLC_OPTION_IN(T, n_tokens, INT, 'n', "max-tokens", "N", "tokens to make (default 200)", 2,
                  UINT32_MAX),
    SLC_OPTION_IN(T, temp, FLOAT, 0, "temp|temperature", "X", "as for run", 0, 100),
    SLC_OPTION(T, seed, SEED, 0, "seed", "N", "of the text (default 0)"),
    SLC_OPTION_IN(T, model.ctx_size, INT, 'c', "ctx-size", "N",
                  "context in tokens (default: the model's, at most 8192)", 1, UINT32_MAX),
    SLC_OPTION_IN(T, model.prefill_chunk, INT, 0, "prefill-chunk", "N", "prompt tokens a pass", 1,
                  65536),
    SLC_OPTION_IN(T, model.threads, INT, 't', "threads", "N", "compute threads", 1, 1024),
    SLC_OPTION_OF(T, model.cpu, 0, "cpu", "LEVEL", "highest instruction set used", SLC_CPU_LEVELS),
    SLC_OPTION(T, model.exact, FLAG, 0, "exact", NULL, "float32 activations and cache"),

    SLC_HEADING("Measuring"),
    SLC_OPTION_IN(T, rounds, INT, 0, "rounds", "N", "runs of every configuration (default 5)", 1,
                  SLC_BENCH_MAX_ROUNDS),
    SLC_OPTION(T, cgroup, FLAG, 0, "cgroup", NULL,
               "each run in a cgroup of its budget + 64 MiB, page cache\nincluded"),
    SLC_OPTION(T, profile, FLAG, 0, "profile", NULL,
               "print where the time of each configuration went"),
    SLC_OPTION(T, csv, STRING, 0, "csv", "FILE", "write every figure of every run"),
    SLC_OPTION(T, svg, STRING, 0, "svg", "FILE", "plot tokens/s against the budget"),
    SLC_COMMON_OPTIONS(T),
};

#undef T

/* The dimensions of what is compared. */
enum { BUDGET, MODE, IO, POLICY, PREDICT, N_DIMS };

typedef struct lists {
    slc_list of[N_DIMS];
} lists;

typedef struct bench {
    slc_console *con;
    const slc_args *args;
    const bench_args *opt;
    lists lists;
    slc_bench_results results;
    char trace[64];    /* path of the recording; "": none */
    json_t *token_ids; /* of the first run */
} bench;

/* ---- options ---- */

static slc_status parse_lists(const bench_args *o, lists *l, slc_err *err) {
    bool of_process = o->memory != NULL;
    const char *budget = of_process ? "memory" : "expert-cache";
    slc_amount amount;
    slc_status rc =
        slc_list_split(budget, of_process ? o->memory : o->expert_cache, &l->of[BUDGET], err);

    for (uint32_t i = 0; !rc && i < l->of[BUDGET].n; i++)
        rc = slc_list_amount(budget, l->of[BUDGET].item[i], !of_process, &amount, err);
    if (!rc) rc = slc_list_choices("stream-mode", o->mode, SLC_STREAM_MODES, &l->of[MODE], err);
    if (!rc) rc = slc_list_choices("io", o->io, SLC_IO_KINDS, &l->of[IO], err);
    if (!rc) rc = slc_list_choices("policy", o->policy, SLC_POLICIES, &l->of[POLICY], err);
    if (!rc) rc = slc_list_split("predict", o->predict, &l->of[PREDICT], err);
    for (uint32_t i = 0; !rc && i < l->of[PREDICT].n; i++) /* as run wants it */
        for (char *p = l->of[PREDICT].item[i]; (p = strchr(p, '+'));) *p = ',';
    return rc;
}

static slc_status check(const slc_args *a, const void *values, slc_err *err) {
    const bench_args *o = values;
    int sources = !!o->prompt + !!o->file + !!o->token_ids;
    lists l;

    if (!o->model.path) return slc_fail(err, SLC_E_INVALID, "expected a model: -m DIR");
    if (o->memory && o->expert_cache)
        return slc_fail(err, SLC_E_INVALID, "expected one of --memory and --expert-cache");
    if (sources > 1)
        return slc_fail(err, SLC_E_INVALID,
                        "expected one prompt, found %d of --prompt, --file, --token-ids", sources);
    if ((o->file && !strcmp(o->file, "-")) || (o->token_ids && !strcmp(o->token_ids, "-")))
        return slc_fail(err, SLC_E_INVALID,
                        "every run reads the prompt again: expected a file, found standard input");
    if (o->cgroup && !o->memory && !o->expert_cache)
        return slc_fail(err, SLC_E_INVALID, "--cgroup needs budgets: --memory or --expert-cache");
    return parse_lists(o, &l, err);
}

/* ---- the plan ---- */

/* Item `at[dim]` of the dimension's list; NULL: no list was given. */
static const char *item_of(const lists *l, const uint32_t at[N_DIMS], int dim) {
    return l->of[dim].n ? l->of[dim].item[at[dim]] : NULL;
}

/* Is the mode one that knows no backend, policy, prediction or size of a cache? */
static bool is_original(const char *mode) {
    return mode && strcmp(mode, "full") != 0;
}

/* The plan of a configuration (NULL: of the model as it is) within memory_bytes. */
static slc_status inspect(const bench *b, const slc_bench_config *c, uint64_t memory_bytes,
                          slc_model_info *info, slc_err *err) {
    slc_model_options opt;
    slc_status rc = slc_model_args_options(&b->opt->model, b->con, &opt, err);

    if (rc) return rc;
    opt.log = NULL;
    opt.memory_bytes = memory_bytes;
    if (c) {
        opt.expert_cache_bytes = is_original(c->mode) ? 0 : c->cache_bytes;
        opt.stream_mode = c->mode;
        opt.io = c->io;
        opt.policy = c->policy;
        opt.predict = c->predict;
    }
    return slc_model_inspect(b->opt->model.path, &opt, info, err);
}

/* A cgroup alone would leave the budget to chance: there the limit is given as well. */
static uint64_t memory_option(const bench *b, const slc_bench_config *c) {
    return c->memory_bytes || !b->results.cgroup ? c->memory_bytes : c->plan_bytes;
}

/* Turns what was written into bytes. */
static slc_status parse_budget(const bench *b, const char *item, slc_bench_config *c,
                               slc_err *err) {
    const slc_model_info *model = &b->results.info;
    slc_amount amount;
    slc_status rc;

    c->budget = item ? item : "";
    if (!item) return SLC_OK;
    if ((rc = slc_list_amount("expert-cache", item, !b->opt->memory, &amount, err))) return rc;
    if (b->opt->memory) {
        c->memory_bytes = amount.bytes;
    } else if (!model->n_experts) {
        return slc_fail(err, SLC_E_INVALID,
                        "option --expert-cache has no effect on a model without experts");
    } else if (amount.bytes) {
        c->cache_bytes = amount.bytes;
    } else {
        double experts = amount.share * model->n_layers * model->n_experts + 0.5;

        c->cache_bytes = (uint64_t)experts * model->slot_bytes;
    }
    return SLC_OK;
}

static void note_fit(slc_bench_config *c, const slc_model_info *info) {
    bool fits = info->budget_bytes >= info->smallest_budget_bytes;

    c->needed_bytes = fits ? 0 : info->smallest_budget_bytes;
}

/* What the expert cache of the budget comes to, and whether the mode fits into it. */
static slc_status plan_config(const bench *b, slc_bench_config *c, slc_err *err) {
    slc_bench_config full = {.budget = c->budget, .cache_bytes = c->cache_bytes};
    slc_model_info info;
    slc_status rc;

    if ((rc = inspect(b, &full, c->memory_bytes, &info, err))) return rc;
    note_fit(c, &info);
    c->n_slots = info.n_slots;
    c->plan_bytes = c->memory_bytes;
    if (!c->plan_bytes)
        c->plan_bytes = info.process_bytes + info.resident_bytes + info.state_bytes +
                        info.scratch_bytes + info.n_slots * info.slot_bytes;
    if (c->needed_bytes) return SLC_OK;
    if ((rc = inspect(b, c, memory_option(b, c), &info, err))) return rc;
    note_fit(c, &info);
    return SLC_OK;
}

static slc_status add_config(bench *b, const uint32_t at[N_DIMS], slc_err *err) {
    const lists *l = &b->lists;
    slc_bench_results *r = &b->results;
    slc_bench_config *c = &r->configs[r->n_configs];
    slc_status rc;

    *c = (slc_bench_config){.mode = item_of(l, at, MODE)};
    if (is_original(c->mode) && (at[IO] || at[POLICY] || at[PREDICT]))
        return SLC_OK; /* they have no effect */
    if (r->n_configs == MAX_CONFIGS)
        return slc_fail(err, SLC_E_INVALID, "more than %u combinations", MAX_CONFIGS);
    if (!is_original(c->mode)) {
        c->io = item_of(l, at, IO);
        c->policy = item_of(l, at, POLICY);
        c->predict = item_of(l, at, PREDICT);
    }
    if (!(c->runs = slc_calloc(r->n_rounds, sizeof(*c->runs))))
        return slc_fail(err, SLC_E_NOMEM, "no memory for the runs");
    r->n_configs++;
    if ((rc = parse_budget(b, item_of(l, at, BUDGET), c, err))) return rc;
    return plan_config(b, c, err);
}

/* Configurations that do not fit are left out, as long as one does. */
static slc_status check_fit(const bench *b, slc_err *err) {
    const slc_bench_results *r = &b->results;
    const slc_bench_config *c = r->configs;

    for (uint32_t i = 0; i < r->n_configs; i++)
        if (!r->configs[i].needed_bytes) return SLC_OK;
    return slc_fail(err, SLC_E_NOMEM,
                    "mode %s does not fit into %s: at least %llu bytes are needed",
                    c->mode ? c->mode : "full", *c->budget ? c->budget : "what is free",
                    (unsigned long long)c->needed_bytes);
}

/* Every combination, the last list running fastest. */
static slc_status plan(bench *b, slc_err *err) {
    slc_bench_results *r = &b->results;
    uint32_t at[N_DIMS] = {0};
    slc_status rc;
    int dim;

    r->configs = slc_calloc(MAX_CONFIGS + 1, sizeof(*r->configs));
    r->disk_rates = slc_calloc(r->n_rounds, sizeof(double));
    r->memory_rates = slc_calloc(r->n_rounds, sizeof(double));
    if (!r->configs || !r->disk_rates || !r->memory_rates)
        return slc_fail(err, SLC_E_NOMEM, "no memory for the results");
    do {
        if ((rc = add_config(b, at, err))) return rc;
        for (dim = N_DIMS - 1; dim >= 0 && ++at[dim] >= b->lists.of[dim].n; dim--) at[dim] = 0;
    } while (dim >= 0);
    return check_fit(b, err);
}

/* ---- one run ---- */

typedef struct command_line {
    const char *argv[MAX_ARGV];
    int n;
    char number[8][24];
    int n_numbers;
    char temp[32];
} command_line;

static void add(command_line *l, const char *option, const char *value) {
    if (!value) return;
    slc_assert(l->n + 3 < MAX_ARGV);
    l->argv[l->n++] = option;
    l->argv[l->n++] = value;
}

static void add_number(command_line *l, const char *option, uint64_t value) {
    char *text = l->number[l->n_numbers++];

    slc_assert(l->n_numbers <= 8);
    snprintf(text, sizeof(l->number[0]), "%llu", (unsigned long long)value);
    add(l, option, text);
}

static void add_flag(command_line *l, const char *option) {
    l->argv[l->n++] = option;
}

static void add_prompt(command_line *l, const bench_args *o) {
    add(l, "--file", o->file);
    add(l, "--token-ids", o->token_ids);
    if (!o->file && !o->token_ids) add(l, "--prompt", o->prompt ? o->prompt : DEFAULT_PROMPT);
}

static void add_common(command_line *l, const bench *b) {
    const bench_args *o = b->opt;

    add(l, "--model", o->model.path);
    add_prompt(l, o);
    add_number(l, "--max-tokens", (uint64_t)b->results.n_tokens);
    add_number(l, "--seed", o->seed);
    if (slc_args_given(b->args, "temp")) {
        snprintf(l->temp, sizeof(l->temp), "%.6f", o->temp);
        add(l, "--temp", l->temp);
    }
    if (o->model.ctx_size) add_number(l, "--ctx-size", (uint64_t)o->model.ctx_size);
    if (o->model.prefill_chunk) add_number(l, "--prefill-chunk", (uint64_t)o->model.prefill_chunk);
    if (o->model.threads) add_number(l, "--threads", (uint64_t)o->model.threads);
    add(l, "--cpu", o->model.cpu);
    if (o->model.exact) add_flag(l, "--exact");
}

static void add_choices(command_line *l, const bench *b, const slc_bench_config *c) {
    uint64_t memory = memory_option(b, c);

    if (memory) add_number(l, "--memory", memory);
    if (c->cache_bytes && !is_original(c->mode)) add_number(l, "--expert-cache", c->cache_bytes);
    add(l, "--stream-mode", c->mode);
    add(l, "--io", c->io);
    add(l, "--policy", c->policy);
    add(l, "--predict", c->predict);
}

/* The same tokens in every run, or something is wrong with a mode. */
static slc_status check_tokens(bench *b, const slc_bench_config *c, json_t *result, slc_err *err) {
    json_t *ids = json_object_get(result, "token_ids");

    if (!b->token_ids) {
        b->token_ids = json_incref(ids);
        b->results.n_prompt =
            (uint32_t)json_integer_value(json_object_get(result, "prompt_tokens"));
        return SLC_OK;
    }
    if (json_equal(ids, b->token_ids)) return SLC_OK;
    return slc_fail(
        err, SLC_E_FORMAT,
        "the text differs from that of the first run: budget %s, mode %s, io %s, policy "
        "%s, predict %s",
        *c->budget ? c->budget : "default", c->mode ? c->mode : "full", c->io ? c->io : "auto",
        c->policy ? c->policy : "best", c->predict ? c->predict : "auto");
}

static slc_status drop_cache(bench *b, uint64_t *left, slc_err *err) {
    char size[24], line[160];
    slc_status rc = slc_bench_drop_cache(b->opt->model.path, left, err);

    if (rc || !*left) return rc;
    snprintf(line, sizeof(line),
             "%s of the model stay in the page cache: in use by another process, on a file system "
             "in memory, or not ours to ask about",
             slc_console_bytes(*left, size));
    slc_console_log(b->con, 0, line);
    return SLC_OK;
}

/* Runs a configuration, into *out if that is not NULL. */
static slc_status run_config(bench *b, const slc_bench_config *c, const char *trace,
                             slc_bench_run *out, slc_err *err) {
    command_line l = {.argv = {"sluice", "run", "--json", "--quiet", "--ignore-eos"}, .n = 5};
    slc_bench_run run = {0};
    slc_child child;
    slc_status rc;

    if (slc_console_interrupted()) return slc_fail(err, SLC_E_CANCELLED, "interrupted");
    add_common(&l, b);
    add_choices(&l, b, c);
    add(&l, "--trace", trace);
    if ((rc = drop_cache(b, &run.cached_bytes, err))) return rc;
    if ((rc = slc_child_run(l.argv, slc_bench_cgroup_bytes(&b->results, c), &child, err)))
        return rc;
    if (!(rc = check_tokens(b, c, child.result, err)) && out) {
        run.stats = json_incref(json_object_get(child.result, "stats"));
        run.settings = json_incref(json_object_get(child.result, "settings"));
        run.stages = json_incref(json_object_get(child.result, "stages"));
        run.read_bytes = child.read_bytes;
        run.wall_s = child.wall_s;
        *out = run;
    }
    json_decref(child.result);
    return rc;
}

/* ---- the recording ---- */

static const slc_bench_config *first_fitting(const slc_bench_results *r) {
    const slc_bench_config *c = r->configs;

    while (c->needed_bytes) c++; /* there is one: check_fit */
    return c;
}

static slc_status record(bench *b, slc_err *err) {
    slc_bench_config c = *first_fitting(&b->results);
    const char *dir = getenv("TMPDIR");
    slc_status rc;
    int fd;

    if (!b->results.info.n_experts) return SLC_OK;
    if (snprintf(b->trace, sizeof(b->trace), "%s/sluice-trace-XXXXXX",
                 dir && *dir ? dir : "/tmp") >= (int)sizeof(b->trace))
        snprintf(b->trace, sizeof(b->trace), "/tmp/sluice-trace-XXXXXX");
    if ((fd = mkstemp(b->trace)) < 0) {
        rc = slc_fail_errno(err, errno, "%s: cannot make a file for the trace", b->trace);
        b->trace[0] = '\0';
        return rc;
    }
    close(fd);
    slc_console_info(b->con, "recording which experts the text needs");
    c.mode = NULL;
    if ((rc = run_config(b, &c, b->trace, NULL, err))) return rc;
    return slc_bench_trace_open(b->trace, &b->results.trace, err);
}

/* ---- the rounds ---- */

static slc_status run_rounds(bench *b, slc_err *err) {
    slc_bench_results *r = &b->results;
    slc_status rc = SLC_OK;

    for (uint32_t round = 0; !rc && round < r->n_rounds; round++) {
        rc = slc_bench_measure_rates(r, b->trace[0] ? b->trace : NULL, err);
        for (uint32_t i = 0; !rc && i < r->n_configs; i++) {
            slc_bench_config *c = &r->configs[i];

            if (c->needed_bytes) continue;
            slc_console_progress(b->con, "run", round * r->n_configs + i + 1,
                                 (uint64_t)r->n_rounds * r->n_configs);
            if ((rc = run_config(b, c, NULL, &c->runs[c->n_runs], err))) break;
            c->n_runs++;
        }
    }
    return rc;
}

/* ---- the report ---- */

/* Files are tried before an hour is spent on what goes into them. */
static slc_status check_writable(const char *path, slc_err *err) {
    FILE *f = path ? fopen(path, "ae") : NULL;

    if (path && !f) return slc_fail_errno(err, errno, "%s: cannot write", path);
    if (f) fclose(f);
    return SLC_OK;
}

static slc_status report(bench *b, slc_err *err) {
    slc_bench_results *r = &b->results;
    slc_status rc;

    if (!slc_bench_first_run(r)) return SLC_OK;
    if ((rc = slc_bench_find_bounds(r, err))) return rc;
    slc_bench_print_table(r, b->con);
    if (b->opt->profile) slc_bench_print_profiles(r, b->con);
    if (b->opt->csv && (rc = slc_bench_write_csv(r, b->opt->csv, err))) return rc;
    return b->opt->svg ? slc_bench_write_svg(r, b->opt->svg, err) : SLC_OK;
}

/* ---- the command ---- */

static slc_status work(bench *b, slc_err *err) {
    slc_bench_results *r = &b->results;
    const char *path = b->opt->model.path;
    slc_status rc;

    r->model = path;
    r->n_tokens = slc_args_given(b->args, "max-tokens") ? (uint32_t)b->opt->n_tokens : 200;
    r->n_rounds = slc_args_given(b->args, "rounds") ? (uint32_t)b->opt->rounds : 5;
    r->cgroup = b->opt->cgroup;
    slc_bench_describe_machine(r->machine);
    if ((rc = check_writable(b->opt->csv, err)) || (rc = check_writable(b->opt->svg, err)))
        return rc;
    if ((rc = parse_lists(b->opt, &b->lists, err))) return rc;
    if ((rc = slc_bench_touch(path, b->opt->model.exact, &r->touched, err))) return rc;
    if ((rc = inspect(b, NULL, 0, &r->info, err))) return rc;
    if ((rc = plan(b, err))) return rc;
    if ((rc = record(b, err))) return rc;
    return run_rounds(b, err);
}

static int run(slc_console *con, const slc_args *a, void *values) {
    bench b = {.con = con, .args = a, .opt = values};
    slc_err err = {0}, report_err = {0};
    int code = SLC_EXIT_OK;

    slc_console_catch_interrupt();
    if (work(&b, &err)) code = slc_console_interrupted() ? SLC_EXIT_INTERRUPTED : SLC_EXIT_FAILURE;
    slc_console_progress_end(con);
    if (report(&b, &report_err)) {
        slc_console_error(con, &report_err);
        code = SLC_EXIT_FAILURE;
    }
    if (err.code) slc_console_error(con, &err);
    if (b.trace[0]) unlink(b.trace);
    json_decref(b.token_ids);
    slc_bench_results_deinit(&b.results);
    return code;
}

const slc_command slc_command_bench = {
    .name = "bench",
    .summary = "measures speed at several budgets and ways of streaming",
    .usage = "-m DIR [OPTIONS]",
    .notes = "Prints a Markdown table. Every run is a process of its own, with the page cache\n"
             "emptied of the model before it; configurations take turns. The roofline is what the\n"
             "slower of disk and memory allows: 'sluice bench io' measures the disk alone.",
    .opts = options,
    .n_opts = sizeof(options) / sizeof(*options),
    .values_size = sizeof(bench_args),
    .check = check,
    .run = run,
};
