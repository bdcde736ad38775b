/* Formats a log line on the stack and hands it to the caller's sink. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void slc_logf(const slc_log *log, slc_log_level level, const char *fmt, ...) {
    char line[1024];
    va_list ap;

    if (!log || !log->sink || level > log->max_level) return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    log->sink(log->user, level, line);
}
