/* The bound that runs are held against. A decoded token must move the weights it uses, its state
 * twice and its keys and values once from memory, and the experts that the cache misses from disk;
 * with perfect overlap it takes the longer of the two. Both rates are measured on this machine, in
 * the same rounds as the runs, because machines change by the minute. */
#include "base/fail.h"
#include "cli/bench_runs.h"

#define DISK_SECONDS   1.0
#define SEARCH_SECONDS 0.3
#define MEMORY_SECONDS 0.5

static slc_status disk_rate(slc_bench_results *r, const char *trace, uint32_t depth, double seconds,
                            double *rate, slc_err *err) {
    slc_bench_io_options opt = slc_bench_io_options_default();
    slc_bench_io_result got;
    slc_status rc;

    opt.depth = depth;
    opt.seconds = seconds;
    opt.trace = trace;
    if ((rc = slc_bench_io(r->model, &opt, &got, err))) return rc;
    *rate = (double)got.bytes * 1e9 / (double)got.ns;
    r->through_cache = !got.direct;
    return SLC_OK;
}

/* The depth that gives most, once for all rounds. */
static slc_status find_depth(slc_bench_results *r, const char *trace, slc_err *err) {
    static const uint32_t depths[] = {8, 16, 32, 64};
    double best = 0, here = 0;
    slc_status rc = SLC_OK;

    for (uint32_t i = 0; i < 4 && !rc; i++) {
        rc = disk_rate(r, trace, depths[i], SEARCH_SECONDS, &here, err);
        if (rc || here <= best) continue;
        best = here;
        r->disk_depth = depths[i];
    }
    return rc;
}

static double touched_bytes(const slc_bench_results *r) {
    const slc_bench_touched *t = &r->touched;
    double positions = r->n_prompt + r->n_tokens / 2.0;

    return (double)(t->dense_bytes + t->expert_bytes + t->state_bytes) +
           (double)t->kv_bytes * positions;
}

slc_status slc_bench_measure_rates(slc_bench_results *r, const char *trace_path, slc_err *err) {
    double disk = 0, memory;
    slc_status rc = SLC_OK;

    if (trace_path && !r->disk_depth) rc = find_depth(r, trace_path, err);
    if (!rc && trace_path) rc = disk_rate(r, trace_path, r->disk_depth, DISK_SECONDS, &disk, err);
    if (!rc)
        rc = slc_bench_memory((uint64_t)touched_bytes(r), r->info.threads, MEMORY_SECONDS, &memory,
                              err);
    if (rc) return rc;
    r->disk_rates[r->n_rates] = disk;
    r->memory_rates[r->n_rates++] = memory;
    return SLC_OK;
}

/* What the cache of the runs held, not what was planned before anything was loaded. */
static uint32_t slots_of(const slc_bench_config *c) {
    json_t *n = c->n_runs ? json_object_get(c->runs[0].settings, "n_slots") : NULL;

    return json_integer_value(n) > 0 ? (uint32_t)json_integer_value(n) : c->n_slots;
}

/* Misses of the configuration's policy without prefetch: predicting may hide reads, not save any.
 */
static slc_status find_misses(const slc_bench_results *r, slc_bench_config *c, double *bytes,
                              slc_err *err) {
    slc_bench_replay_options opt = {.policy = c->policy, .n_slots = slots_of(c)};
    slc_bench_replay_result got;
    slc_status rc;

    *bytes = 0;
    if (!r->trace) return SLC_OK;
    if ((rc = slc_bench_replay(r->trace, &opt, &got, err))) return rc;
    c->bound.misses_per_token = got.misses_per_token;
    *bytes = got.bytes_per_token;
    return SLC_OK;
}

slc_status slc_bench_find_bounds(slc_bench_results *r, slc_err *err) {
    double disk = slc_spread_of(r->disk_rates, r->n_rates).median;
    double memory = slc_spread_of(r->memory_rates, r->n_rates).median, bytes;
    slc_status rc;

    for (uint32_t i = 0; i < r->n_configs; i++) {
        slc_bench_bound *b = &r->configs[i].bound;

        if (!r->configs[i].n_runs) continue;
        if ((rc = find_misses(r, &r->configs[i], &bytes, err))) return rc;
        b->memory_s = touched_bytes(r) / memory;
        b->disk_s = disk > 0 ? bytes / disk : 0;
        b->tokens_per_s = 1 / (b->disk_s > b->memory_s ? b->disk_s : b->memory_s);
    }
    return SLC_OK;
}
