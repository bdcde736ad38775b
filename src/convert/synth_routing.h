/* How a checkpoint's router spreads uniformly drawn tokens. */
#ifndef SLC_CONVERT_SYNTH_ROUTING_H
#define SLC_CONVERT_SYNTH_ROUTING_H

#include "format/checkpoint.h"
#include "sluice/synth.h"

/* The router of `layer` on the embedding rows of 2,000 token ids, as if the layers and the mixer
 * before it added nothing: what the first layer does nearly, later ones of a random checkpoint
 * about as well. Zero counts for a dense model. */
slc_status slc_synth_measure_routing(const slc_checkpoint *c, uint32_t layer, uint64_t seed,
                                     slc_synth_routing *out, slc_err *err) SLC_MUST_CHECK;

#endif
