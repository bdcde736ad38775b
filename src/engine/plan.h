/* The memory plan: who gets how much of the budget.
 *
 *     budget = process (code, libraries, tokenizer, stacks; measured)
 *            + resident weights + state of all sequences at full context + scratch of a pass
 *            + expert slab (what is left)
 *
 * The plan is made before anything large is allocated, so that a budget that is too small is
 * refused with the smallest that works; the slab is sized after loading, from what the process
 * really uses. */
#ifndef SLC_ENGINE_PLAN_H
#define SLC_ENGINE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "sluice/sluice.h"

typedef struct slc_plan {
    uint32_t ctx, n_seqs, chunk, threads;
    uint64_t budget_bytes;
    uint64_t process_bytes, resident_bytes, state_bytes, scratch_bytes;
    uint64_t slot_bytes;     /* slab and bookkeeping of one expert; 0 for a dense model */
    uint64_t original_bytes; /* what the original's way takes instead of slots */
    uint32_t min_slots;      /* 1, or the expert cache asked for; 0 for a dense model */
    uint32_t max_slots;      /* all experts */
    uint32_t n_slots;        /* planned; after open: real */
    uint64_t smallest_bytes;
} slc_plan;

/* Plans with the options given. `m` has its checkpoint, tokenizer, threads and network. With
 * `refuse`, a budget below the smallest is SLC_E_NOMEM; without, n_slots is 0 then. */
slc_status slc_plan_make(slc_model *m, const slc_model_options *opt, bool refuse,
                         slc_err *err) SLC_MUST_CHECK;

/* Slots that fit now that everything else is in memory. */
slc_status slc_plan_slots(const slc_model *m, const slc_model_options *opt, uint32_t *n_slots,
                          slc_err *err) SLC_MUST_CHECK;

#endif
