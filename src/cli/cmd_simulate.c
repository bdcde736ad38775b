/* sluice simulate: what a recorded run would have been with another cache, policy or disk. Needs
 * the trace alone; the model only to turn a limit on the whole process into experts. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "cli/list_args.h"
#include "cli/model_args.h"
#include "sluice/bench.h"

#define ALL_POLICIES SLC_POLICIES "|belady"

typedef struct simulate_args {
    slc_common_args common;
    const char *model, *memory, *expert_cache, *policy;
    int64_t ctx_size;
    double disk, compute_ms, expert_ms, latency_us, foreseen;
    bool json;
} simulate_args;

#define T simulate_args

static const slc_opt options[] = {
    SLC_HEADING("Caches to try (lists)"),
    SLC_OPTION(T, expert_cache, STRING, 0, "expert-cache", "LIST",
               "sizes, or shares of all experts (default 10%,25%,50%,100%)"),
    SLC_OPTION(T, memory, STRING, 0, "memory", "LIST",
               "limits of the whole process; the model says what they\nleave for experts"),
    SLC_OPTION(T, policy, STRING, 0, "policy", "LIST",
               "best, lru, lfu-decay, belady: one that knows the future\n(default: all)"),
    SLC_HEADING("Model (for --memory, and for the exact size of an expert in the cache)"),
    SLC_OPTION(T, model, STRING, 'm', "model", "DIR", "that the trace was recorded from"),
    SLC_OPTION_IN(T, ctx_size, INT, 'c', "ctx-size", "N", "context, for --memory", 1, UINT32_MAX),
    SLC_HEADING("Speed (without --disk only hits are predicted)"),
    SLC_OPTION_IN(T, disk, FLOAT, 0, "disk", "MB/S", "rate of the disk, as bench io prints it",
                  0.001, 1e6),
    SLC_OPTION_IN(T, compute_ms, FLOAT, 0, "compute-ms", "X",
                  "time of a token whose experts are all held (default 0)", 0, 1e6),
    SLC_OPTION_IN(T, expert_ms, FLOAT, 0, "expert-ms", "X",
                  "of that, what is computed while experts are read\n"
                  "(default: a third)",
                  0, 1e6),
    SLC_OPTION_IN(T, latency_us, FLOAT, 0, "latency-us", "X",
                  "time until a layer's first read is there (default 0)", 0, 1e6),
    SLC_OPTION_IN(T, foreseen, FLOAT, 0, "foreseen", "X",
                  "share of the misses read before they are asked for\n(default 0)", 0, 1),
    SLC_HEADING("Output"),
    SLC_OPTION(T, json, FLAG, 0, "json", NULL, "print one JSON object"),
    SLC_COMMON_OPTIONS(T),
};

#undef T

/* ---- options ---- */

static slc_status check_lists(const simulate_args *o, slc_err *err) {
    bool of_process = o->memory != NULL;
    slc_list list;
    slc_amount amount;
    slc_status rc = slc_list_choices("policy", o->policy, ALL_POLICIES, &list, err);

    if (!rc)
        rc = slc_list_split(of_process ? "memory" : "expert-cache",
                            of_process ? o->memory : o->expert_cache, &list, err);
    for (uint32_t i = 0; !rc && i < list.n; i++)
        rc = slc_list_amount(of_process ? "memory" : "expert-cache", list.item[i], !of_process,
                             &amount, err);
    return rc;
}

static slc_status check(const slc_args *a, const void *values, slc_err *err) {
    const simulate_args *o = values;

    if (!a->positional) return slc_fail(err, SLC_E_INVALID, "expected a trace (run --trace FILE)");
    if (o->memory && o->expert_cache)
        return slc_fail(err, SLC_E_INVALID, "expected one of --memory and --expert-cache");
    if (o->memory && !o->model)
        return slc_fail(err, SLC_E_INVALID, "--memory needs the model: -m DIR");
    if (!o->memory && slc_args_refuse(a, "ctx-size", "without --memory", err)) return SLC_E_INVALID;
    if (!slc_args_given(a, "disk"))
        for (const char *const *name =
                 (const char *const[]){"compute-ms", "expert-ms", "latency-us", "foreseen", NULL};
             *name; name++)
            if (slc_args_refuse(a, *name, "without --disk", err)) return SLC_E_INVALID;
    if (slc_args_given(a, "expert-ms") && o->expert_ms > o->compute_ms)
        return slc_fail(err, SLC_E_INVALID, "--expert-ms is a part of --compute-ms: %g of %g",
                        o->expert_ms, o->compute_ms);
    return check_lists(o, err);
}

/* ---- sizes ---- */

typedef struct simulation {
    slc_console *con;
    const slc_args *args;
    const simulate_args *opt;
    slc_bench_trace *trace;
    slc_bench_trace_facts facts;
    slc_model_options model; /* for -m */
    json_t *rows;            /* with --json */
} simulation;

static slc_status inspect(const simulation *s, uint64_t memory_bytes, slc_model_info *info,
                          slc_err *err) {
    slc_model_options opt = s->model;
    slc_status rc;

    opt.memory_bytes = memory_bytes;
    if ((rc = slc_model_inspect(s->opt->model, &opt, info, err))) return rc;
    if (info->n_experts != s->facts.n_experts)
        return slc_fail(err, SLC_E_INVALID,
                        "%s has %u experts a layer, the trace %u: another model", s->opt->model,
                        info->n_experts, s->facts.n_experts);
    if (memory_bytes && !info->n_slots)
        return slc_fail(
            err, SLC_E_INVALID, "--memory: %llu bytes are too few, at least %llu needed",
            (unsigned long long)memory_bytes, (unsigned long long)info->smallest_budget_bytes);
    return SLC_OK;
}

/* How many experts an item of --memory or --expert-cache holds. */
static slc_status find_slots(const simulation *s, const char *item, uint32_t *n_slots,
                             slc_err *err) {
    const char *option = s->opt->memory ? "memory" : "expert-cache";
    double all = (double)s->facts.n_layers * s->facts.n_experts;
    uint64_t slot_bytes = s->facts.expert_bytes;
    slc_amount amount;
    slc_model_info info = {0};
    slc_status rc;

    if ((rc = slc_list_amount(option, item, !s->opt->memory, &amount, err))) return rc;
    if (s->opt->model) {
        rc = inspect(s, s->opt->memory ? amount.bytes : 0, &info, err);
        if (rc) return rc;
        slot_bytes = info.slot_bytes;
    }
    if (s->opt->memory)
        *n_slots = info.n_slots;
    else if (amount.bytes)
        *n_slots = amount.bytes / slot_bytes < UINT32_MAX ? (uint32_t)(amount.bytes / slot_bytes)
                                                          : UINT32_MAX;
    else
        *n_slots = (uint32_t)(amount.share * all + 0.5);
    if (*n_slots > all) *n_slots = (uint32_t)all;
    if (!*n_slots)
        return slc_fail(err, SLC_E_INVALID, "--%s: %s holds no expert (%llu bytes)", option, item,
                        (unsigned long long)slot_bytes);
    return SLC_OK;
}

/* ---- results ---- */

static double rate(uint64_t hits, uint64_t asked) {
    return asked ? (double)hits / (double)asked : 0;
}

static void print_header(const simulation *s) {
    if (s->opt->json) return;
    slc_console_printf(s->con,
                       "%u layers of %u experts, %u a token; %llu tokens after the prompt\n\n",
                       s->facts.n_layers, s->facts.n_experts, s->facts.n_experts_per_tok,
                       (unsigned long long)s->facts.decode_tokens);
    slc_console_printf(s->con,
                       "| %s | experts held | policy | in cache | prompt included | read per "
                       "token |%s\n| ---: | ---: | --- | ---: | ---: | ---: |%s\n",
                       s->opt->memory ? "memory limit" : "expert cache",
                       s->opt->disk > 0 ? " tokens/s |" : "", s->opt->disk > 0 ? " ---: |" : "");
}

static void print_row(const simulation *s, const char *item, uint32_t n_slots, const char *policy,
                      const slc_bench_replay_result *r) {
    double decode = rate(r->decode_hits, r->decode_asked), all = rate(r->hits, r->asked);
    char size[24];

    if (s->opt->json) {
        json_array_append_new(s->rows,
                              json_pack("{ss, sI, ss, sf, sf, sf, sf, sf}", "budget", item,
                                        "n_slots", (json_int_t)n_slots, "policy", policy,
                                        "decode_hit_rate", decode, "hit_rate", all,
                                        "misses_per_token", r->misses_per_token, "bytes_per_token",
                                        r->bytes_per_token, "tokens_per_s", r->tokens_per_s));
        return;
    }
    slc_console_printf(s->con, "| %s | %u | %s | %.1f %% | %.1f %% | %s |", item, n_slots, policy,
                       100 * decode, 100 * all,
                       slc_console_bytes((uint64_t)r->bytes_per_token, size));
    if (s->opt->disk > 0) slc_console_printf(s->con, " %.2f |", r->tokens_per_s);
    slc_console_printf(s->con, "\n");
}

static slc_status simulate_one(const simulation *s, const char *item, uint32_t n_slots,
                               const char *policy, slc_err *err) {
    const simulate_args *o = s->opt;
    slc_bench_replay_options opt = {
        .policy = policy,
        .n_slots = n_slots,
        .disk_bytes_per_s = o->disk * 1e6,
        .read_latency_s = o->latency_us / 1e6,
        .compute_s = o->compute_ms / 1e3,
        .expert_s = slc_args_given(s->args, "expert-ms") ? o->expert_ms / 1e3 : o->compute_ms / 3e3,
        .foreseen = o->foreseen,
    };
    slc_bench_replay_result result;
    slc_status rc = slc_bench_replay(s->trace, &opt, &result, err);

    if (!rc) print_row(s, item, n_slots, policy, &result);
    return rc;
}

static slc_status simulate_all(simulation *s, slc_err *err) {
    const simulate_args *o = s->opt;
    const char *sizes = o->memory         ? o->memory
                        : o->expert_cache ? o->expert_cache
                                          : "10%,25%,50%,100%";
    uint32_t n_slots[SLC_LIST_MAX] = {0};
    slc_list size, policy;
    slc_status rc;

    if ((rc = slc_list_split("expert-cache", sizes, &size, err))) return rc;
    rc =
        slc_list_split("policy", o->policy ? o->policy : "lru,lfu-decay,best,belady", &policy, err);
    for (uint32_t i = 0; !rc && i < size.n; i++) rc = find_slots(s, size.item[i], &n_slots[i], err);
    if (!rc) print_header(s);
    for (uint32_t i = 0; !rc && i < size.n; i++)
        for (uint32_t k = 0; !rc && k < policy.n; k++)
            rc = simulate_one(s, size.item[i], n_slots[i], policy.item[k], err);
    return rc;
}

static int run(slc_console *con, const slc_args *a, void *values) {
    simulation s = {.con = con, .args = a, .opt = values, .rows = json_array()};
    slc_err err = {0};
    slc_status rc = slc_bench_trace_open(a->positional, &s.trace, &err);

    if (!rc) {
        s.facts = slc_bench_trace_get_facts(s.trace);
        s.model = slc_model_options_default();
        s.model.ctx_size = (uint32_t)s.opt->ctx_size;
        rc = simulate_all(&s, &err);
    }
    if (!rc && s.opt->json)
        slc_console_json(con, json_pack("{sI, sI, sO}", "decode_tokens",
                                        (json_int_t)s.facts.decode_tokens, "expert_bytes",
                                        (json_int_t)s.facts.expert_bytes, "results", s.rows));
    json_decref(s.rows);
    slc_bench_trace_close(s.trace);
    if (rc) slc_console_error(con, &err);
    return rc ? SLC_EXIT_FAILURE : SLC_EXIT_OK;
}

const slc_command slc_command_simulate = {
    .name = "simulate",
    .summary = "predicts hits and speed of other caches from a recorded run",
    .usage = "TRACE [OPTIONS]",
    .positional = "TRACE",
    .opts = options,
    .n_opts = sizeof(options) / sizeof(*options),
    .values_size = sizeof(simulate_args),
    .check = check,
    .run = run,
};
