/* What the engine tells the store to read before it is asked for. Only hints: no result depends on
 * them, and the store drops those that come too late, do not fit, or have not paid.
 *
 *   next, ahead2  the router of the next layer, and of the one after, on the present hidden state
 *   previous      what the token before used in the next layer
 *   prompt        after a prompt: what it used most, layer by layer */
#ifndef SLC_ENGINE_PREDICT_H
#define SLC_ENGINE_PREDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "sluice/sluice.h"

typedef struct slc_predict {
    bool on[4];           /* by slc_guess: previous, next, ahead2, prompt */
    float *prompt;        /* [layers][E] weight that the prompt gave each expert */
    uint32_t *previous;   /* [layers][E] experts of the last pass, n_previous of them */
    uint32_t *n_previous; /* [layers] */
    bool in_prompt;       /* the pass before this one read a prompt */
    bool quiet;           /* nothing was missing in the last pass: looking ahead would be idle */
    uint64_t misses;      /* of the store when this pass began */
} slc_predict;

/* "auto", "off", or names separated by commas; NULL is "auto". */
slc_status slc_predict_parse(const char *text, slc_predict *p, slc_err *err) SLC_MUST_CHECK;
void slc_predict_take(slc_model *m, slc_arena *a);

/* At the start of a pass. */
void slc_predict_begin(slc_model *m, bool decode);
/* After the demand of a layer was submitted: hints for later layers. */
void slc_predict_layer(slc_model *m, uint32_t layer, bool decode);

#endif
