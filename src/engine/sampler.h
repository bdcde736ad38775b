/* Choosing the next token: a pure function of logits, token history, parameters, seed and position.
 *
 * The same arguments give the same id on every platform: the arithmetic is IEEE double in a fixed
 * order with its own exponential, and the random number is a hash of (seed, position), so no
 * generator state exists that a retry, a batch neighbour or a rejected draft could disturb.
 *
 * A slc_sampler is only scratch: one per thread that samples, nothing in it outlives a call. */
#ifndef SLC_ENGINE_SAMPLER_H
#define SLC_ENGINE_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "sluice/sluice.h"

typedef struct slc_sampler slc_sampler;

/* Scratch for logits of `n_ids` ids: the vocabulary rows that have a token. Rows past them are
 * padding and can never be drawn. SLC_E_INVALID when n_ids is 0. */
slc_status slc_sampler_create(uint32_t n_ids, slc_sampler **out, slc_err *err) SLC_MUST_CHECK;
void slc_sampler_destroy(slc_sampler *s);

/* SLC_E_INVALID, naming the parameter, when one is out of range or not a number. slc_sample trusts
 * parameters that passed. */
slc_status slc_sampling_check(const slc_sampling *p, slc_err *err) SLC_MUST_CHECK;

/* The tokens before the one to choose, oldest first. Ids out of range have no effect. */
typedef struct slc_history {
    const int32_t *prompt;
    size_t n_prompt;
    const int32_t *made; /* generated so far */
    size_t n_made;
} slc_history;

/* Draws one id.
 *   logits    [>= n_ids] f32, borrowed, unchanged
 *   position  of the drawn token in its sequence; with p->seed it decides the random number
 * SLC_E_FORMAT when a logit is NaN or +inf, or all are -inf (-inf alone means "never").
 * No allocation. */
slc_status slc_sample(slc_sampler *s, const float *logits, const slc_history *history,
                      const slc_sampling *p, uint64_t position, int32_t *id,
                      slc_err *err) SLC_MUST_CHECK;

/* Uniform in [0, 1), a multiple of 2^-53: a hash of its arguments (see sampler.c). */
double slc_sample_uniform(uint64_t seed, uint64_t position);

#endif
