/* Where the time of a pass goes: the stages that passes consist of, one at a time, each with its
 * time and the bytes that it moves. Kept always; a change of stage costs one look at the clock. */
#ifndef SLC_BACKEND_STAGES_H
#define SLC_BACKEND_STAGES_H

#include <stdint.h>

#include "base/clock.h"

typedef enum slc_stage {
    SLC_STAGE_NONE = 0, /* between passes */
    SLC_STAGE_EMBED,
    SLC_STAGE_GDN_IN,
    SLC_STAGE_GDN_CONV,
    SLC_STAGE_GDN_STATE,
    SLC_STAGE_GDN_OUT,
    SLC_STAGE_FULL_IN,
    SLC_STAGE_FULL_ROTATE,
    SLC_STAGE_FULL_ATTEND,
    SLC_STAGE_FULL_OUT,
    SLC_STAGE_ROUTER,
    SLC_STAGE_GUESS,
    SLC_STAGE_SHARED,
    SLC_STAGE_FETCH,
    SLC_STAGE_EXPERTS,
    SLC_STAGE_COMBINE,
    SLC_STAGE_DENSE,
    SLC_STAGE_CHECK,
    SLC_STAGE_LOGITS,
    SLC_STAGE_SAMPLE,
    SLC_N_STAGES
} slc_stage;

enum { SLC_PHASE_PREFILL = 0, SLC_PHASE_DECODE, SLC_N_PHASES };

typedef struct slc_stage_count {
    uint64_t ns, bytes;
} slc_stage_count;

/* Zeroed: nothing counted, between passes. */
typedef struct slc_stages {
    slc_stage now;
    int phase;
    uint64_t since_ns;
    slc_stage_count of[SLC_N_PHASES][SLC_N_STAGES];
} slc_stages;

/* Ends the stage in hand and begins another. */
static inline void slc_stage_begin(slc_stages *s, slc_stage next) {
    uint64_t now = slc_now_ns();

    s->of[s->phase][s->now].ns += now - s->since_ns;
    s->since_ns = now;
    s->now = next;
}

/* The stage in hand moves that many bytes: weights, state, keys and values. */
static inline void slc_stage_move(slc_stages *s, uint64_t bytes) {
    s->of[s->phase][s->now].bytes += bytes;
}

/* What a stage belongs to ("linear attention", "experts", "" for none) and what it does. */
const char *slc_stage_block(slc_stage s);
const char *slc_stage_name(slc_stage s);

#endif
