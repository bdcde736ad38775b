/* Where the time of a run went, stage by stage, as JSON and as a table. */
#ifndef SLC_CLI_PROFILE_H
#define SLC_CLI_PROFILE_H

#include "cli/console.h"

/* A new array of the stages in the order of a pass, NULL without memory. */
json_t *slc_profile_json(const slc_model *m);

/* Prints a Markdown table over n runs of the same work, each given by its array of stages and its
 * stats (slc_report_json). */
void slc_profile_print(FILE *out, json_t *const *stages, json_t *const *stats, uint32_t n);

#endif
