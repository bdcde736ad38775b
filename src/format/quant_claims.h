/* Reading the "quantization" block; the lookup is declared in format/config.h. */
#ifndef SLC_FORMAT_QUANT_CLAIMS_H
#define SLC_FORMAT_QUANT_CLAIMS_H

#include "format/config.h"
#include "format/json_object.h"

/* *out is NULL when `block` is absent. */
slc_status slc_quant_claims_parse(const slc_object *block, slc_quant_claims **out,
                                  slc_err *err) SLC_MUST_CHECK;

#endif
