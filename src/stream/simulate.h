/* What would the same model have done with another policy, other room, another disk? Replays a
 * trace: which experts are held is exact (for reads on demand), times come from a model with a few
 * measured numbers. Pure; any thread. */
#ifndef SLC_STREAM_SIMULATE_H
#define SLC_STREAM_SIMULATE_H

#include "sluice/status.h"
#include "stream/policy.h"
#include "stream/trace.h"

typedef struct slc_simulate_options {
    const slc_policy *policy; /* NULL: perfect knowledge of the trace (Belady), the bound */
    uint32_t n_slots;         /* >= 1 */
    /* The time of a decoded token; all 0: not wanted. Of one layer and pass: */
    uint64_t mix_ns;           /* computing until the router has chosen */
    uint64_t expert_ns;        /* computing after it; reads run meanwhile */
    uint64_t disk_bytes_per_s; /* 0: reads take no time */
    uint64_t latency_ns;       /* of a fetch that has to read at all */
    double foreseen;           /* share of the misses read before they are asked for, 0 to 1 */
} slc_simulate_options;

typedef struct slc_simulation {
    uint64_t n_passes;
    uint64_t asked, hits, bytes; /* bytes: read, without padding */
    /* of these while decoding */
    uint64_t decode_passes, decode_tokens;
    uint64_t decode_asked, decode_hits, decode_bytes;
    uint64_t decode_ns, decode_stall_ns;
} slc_simulation;

slc_status slc_simulate(const slc_trace *t, const slc_simulate_options *opt, slc_simulation *out,
                        slc_err *err) SLC_MUST_CHECK;

#endif
