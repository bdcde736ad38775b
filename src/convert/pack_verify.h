/* Checking every byte of an open pack. */
#ifndef SLC_CONVERT_PACK_VERIFY_H
#define SLC_CONVERT_PACK_VERIFY_H

#include "format/checkpoint.h"
#include "sluice/convert.h"

/* SLC_E_FORMAT names the first weight or expert whose bytes are not those that were packed. */
slc_status slc_pack_verify_open(const slc_checkpoint *c, const slc_pack_options *opt,
                                slc_err *err) SLC_MUST_CHECK;

#endif
