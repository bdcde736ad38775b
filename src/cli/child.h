/* This program once more, as a process of its own: one measured run that shares no memory, no cache
 * and no peak with any other. */
#ifndef SLC_CLI_CHILD_H
#define SLC_CLI_CHILD_H

#include <jansson.h>
#include <stdint.h>

#include "sluice/status.h"

typedef struct slc_child {
    json_t *result;      /* what it printed; the caller's to json_decref */
    uint64_t read_bytes; /* fetched from storage by the process, whoever asked for it */
    double wall_s;
} slc_child;

/* Runs argv ("sluice", "run", "--json", ..., NULL) to its end, in a cgroup of at most limit_bytes
 * (0: in ours). Its standard output must be one JSON object. A child that fails is the error, its
 * own last message included; one that was interrupted is SLC_E_CANCELLED. */
slc_status slc_child_run(const char *const *argv, uint64_t limit_bytes, slc_child *out,
                         slc_err *err) SLC_MUST_CHECK;

#endif
