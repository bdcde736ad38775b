/* Recorded runs against other caches: stream/simulate.h, with options and figures of a token. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "sluice/bench.h"
#include "stream/simulate.h"
#include "stream/trace.h"

struct slc_bench_trace {
    slc_trace t;
    slc_bench_trace_facts facts;
};

/* ---- the trace ---- */

static slc_status find_facts(slc_bench_trace *b, slc_err *err) {
    slc_bench_trace_facts *out = &b->facts;
    bool *seen = slc_calloc(b->t.n_layers + 1, sizeof(*seen)); /* never 0 bytes */

    if (!seen) return slc_fail(err, SLC_E_NOMEM, "no memory for a trace");
    out->n_experts = b->t.n_experts;
    out->n_experts_per_tok = b->t.n_active;
    for (size_t i = 0; i < b->t.n_fetches; i++) {
        const slc_trace_fetch *f = &b->t.fetches[i];

        if (f->decode && (i == 0 || f->pass != f[-1].pass))
            out->decode_tokens += f->n_tokens ? f->n_tokens : 1;
        if (f->expert_bytes > out->expert_bytes) out->expert_bytes = f->expert_bytes;
        if (seen[f->layer]) continue;
        seen[f->layer] = true;
        out->n_layers++;
        out->expert_bytes_total += b->t.n_experts * f->expert_bytes;
    }
    free(seen);
    return SLC_OK;
}

slc_status slc_bench_trace_open(const char *path, slc_bench_trace **out, slc_err *err) {
    slc_bench_trace *b = slc_calloc(1, sizeof(*b));
    slc_status rc;

    *out = NULL;
    if (!b) return slc_fail(err, SLC_E_NOMEM, "%s: no memory for a trace", path);
    rc = slc_trace_read(path, &b->t, err);
    if (!rc && !b->t.n_fetches) rc = slc_fail(err, SLC_E_FORMAT, "%s: an empty trace", path);
    if (!rc) rc = find_facts(b, err);
    if (!rc && !b->facts.expert_bytes)
        rc = slc_fail(err, SLC_E_FORMAT, "%s: expected experts of some bytes, found 0", path);
    if (rc) {
        slc_bench_trace_close(b);
        return rc;
    }
    *out = b;
    return SLC_OK;
}

void slc_bench_trace_close(slc_bench_trace *b) {
    if (!b) return;
    slc_trace_deinit(&b->t);
    free(b);
}

slc_bench_trace_facts slc_bench_trace_get_facts(const slc_bench_trace *b) {
    return b->facts;
}

/* ---- the replay ---- */

static slc_status find_policy(const char *name, const slc_policy **out, slc_err *err) {
    *out = NULL; /* perfect knowledge */
    if (name && !strcmp(name, "belady")) return SLC_OK;
    if ((*out = slc_policy_find(name ? name : "best"))) return SLC_OK;
    return slc_fail(err, SLC_E_INVALID,
                    "unknown policy \"%s\", expected best, lru, lfu-decay or belady", name);
}

static slc_status check_times(const slc_bench_replay_options *o, slc_err *err) {
    if (!(o->disk_bytes_per_s >= 0 && o->read_latency_s >= 0 && o->expert_s >= 0 &&
          o->compute_s >= o->expert_s && o->compute_s < 1e6 && o->read_latency_s < 1e6))
        return slc_fail(err, SLC_E_INVALID,
                        "times of a token: expected 0 <= experts <= all of it, found %g and %g s",
                        o->expert_s, o->compute_s);
    return SLC_OK;
}

static void per_token(const slc_simulation *s, bool timed, slc_bench_replay_result *out) {
    double tokens = (double)s->decode_tokens;

    *out = (slc_bench_replay_result){.asked = s->asked,
                                     .hits = s->hits,
                                     .decode_asked = s->decode_asked,
                                     .decode_hits = s->decode_hits};
    if (tokens <= 0) return;
    out->misses_per_token = (double)(s->decode_asked - s->decode_hits) / tokens;
    out->bytes_per_token = (double)s->decode_bytes / tokens;
    if (timed && s->decode_ns) out->tokens_per_s = tokens * 1e9 / (double)s->decode_ns;
}

slc_status slc_bench_replay(const slc_bench_trace *b, const slc_bench_replay_options *opt,
                            slc_bench_replay_result *out, slc_err *err) {
    double layers = b->facts.n_layers;
    slc_simulate_options so = {.n_slots = opt->n_slots, .foreseen = opt->foreseen};
    slc_simulation sim;
    slc_status rc = check_times(opt, err);

    if (!rc) rc = find_policy(opt->policy, &so.policy, err);
    if (rc) return rc;
    so.mix_ns = (uint64_t)((opt->compute_s - opt->expert_s) * 1e9 / layers);
    so.expert_ns = (uint64_t)(opt->expert_s * 1e9 / layers);
    so.disk_bytes_per_s = (uint64_t)opt->disk_bytes_per_s;
    so.latency_ns = (uint64_t)(opt->read_latency_s * 1e9);
    if ((rc = slc_simulate(&b->t, &so, &sim, err))) return rc;
    per_token(&sim, opt->compute_s > 0 || opt->disk_bytes_per_s > 0, out);
    return SLC_OK;
}
