/* Making a pack, with the system calls of its output as a parameter: for tests. */
#ifndef SLC_CONVERT_PACKER_H
#define SLC_CONVERT_PACKER_H

#include "convert/outfile.h"
#include "sluice/convert.h"

slc_status slc_pack_write_with(const char *model, const char *out, const slc_pack_options *opt,
                               const slc_out_sys *sys, slc_err *err) SLC_MUST_CHECK;

#endif
