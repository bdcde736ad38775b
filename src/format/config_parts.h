/* What config.c and generation_config.c share. */
#ifndef SLC_FORMAT_CONFIG_PARTS_H
#define SLC_FORMAT_CONFIG_PARTS_H

#include "format/config.h"
#include "format/json_object.h"

/* Adds eos_token_id of the object (an integer, a list of them, or absent) to cfg's stop ids.
 * cfg->vocab_size must be set. */
slc_status slc_config_add_stop_ids(slc_config *cfg, const slc_object *o,
                                   slc_err *err) SLC_MUST_CHECK;

#endif
