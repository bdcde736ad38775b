/* The names of the stages. */
#include "backend/stages.h"

static const struct {
    const char *block, *name;
} names[SLC_N_STAGES] = {
    [SLC_STAGE_NONE] = {"", "none"},
    [SLC_STAGE_EMBED] = {"", "embedding"},
    [SLC_STAGE_GDN_IN] = {"linear attention", "projections in"},
    [SLC_STAGE_GDN_CONV] = {"linear attention", "convolution"},
    [SLC_STAGE_GDN_STATE] = {"linear attention", "recurrence"},
    [SLC_STAGE_GDN_OUT] = {"linear attention", "projection out"},
    [SLC_STAGE_FULL_IN] = {"full attention", "projections in"},
    [SLC_STAGE_FULL_ROTATE] = {"full attention", "norms and rotation"},
    [SLC_STAGE_FULL_ATTEND] = {"full attention", "attention"},
    [SLC_STAGE_FULL_OUT] = {"full attention", "projection out"},
    [SLC_STAGE_ROUTER] = {"experts", "router"},
    [SLC_STAGE_GUESS] = {"experts", "looking ahead"},
    [SLC_STAGE_SHARED] = {"experts", "shared expert"},
    [SLC_STAGE_FETCH] = {"experts", "fetching"},
    [SLC_STAGE_EXPERTS] = {"experts", "routed experts"},
    [SLC_STAGE_COMBINE] = {"experts", "sum"},
    [SLC_STAGE_DENSE] = {"dense", "feed-forward"},
    [SLC_STAGE_CHECK] = {"", "checks"},
    [SLC_STAGE_LOGITS] = {"", "logits"},
    [SLC_STAGE_SAMPLE] = {"", "sampling"},
};

const char *slc_stage_block(slc_stage s) {
    return names[s].block;
}

const char *slc_stage_name(slc_stage s) {
    return names[s].name;
}
