/* The counters of a run, as JSON and as a table.
 *
 * The rate of reading is what the disk gave while it was busy, timed_bytes over timed_ns of
 * slc_stats: waits for experts, from asking for them, are counted, the time in between is not. A
 * drive that has become slow shows in it; bytes over all the time would also fall when less is
 * read. 0: nothing was waited for. */
#ifndef SLC_CLI_REPORT_H
#define SLC_CLI_REPORT_H

#include "cli/console.h"

/* A new object, NULL without memory. Rates of nothing are 0. */
json_t *slc_report_json(const slc_stats *s);
/* How the model was run: memory, threads, kernels, reads. As slc_report_json. */
json_t *slc_report_settings(const slc_model_info *info);
/* A few lines on stderr, shown even when messages are not. */
void slc_report_print(slc_console *con, const slc_stats *s);

#endif
