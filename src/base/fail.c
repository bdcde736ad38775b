/* Error records: one place that formats them, so that "first error wins" holds everywhere. */
#include "base/fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *slc_status_str(slc_status s) {
    switch (s) {
    case SLC_OK: return "ok";
    case SLC_E_NOMEM: return "not enough memory";
    case SLC_E_IO: return "input/output error";
    case SLC_E_FORMAT: return "damaged or inconsistent data";
    case SLC_E_UNSUPPORTED: return "not supported";
    case SLC_E_INVALID: return "invalid argument";
    case SLC_E_BUSY: return "busy";
    case SLC_E_CANCELLED: return "cancelled";
    case SLC_E_TIMEOUT: return "timed out";
    }
    return "unknown status";
}

slc_status slc_fail(slc_err *err, slc_status code, const char *fmt, ...) {
    va_list ap;

    if (!err || err->code != SLC_OK) return code;
    err->code = code;
    err->sys_errno = 0;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    return code;
}

slc_status slc_fail_errno(slc_err *err, int sys_errno, const char *fmt, ...) {
    slc_status code = sys_errno == ENOMEM ? SLC_E_NOMEM : SLC_E_IO;
    size_t used;
    va_list ap;

    if (!err || err->code != SLC_OK) return code;
    err->code = code;
    err->sys_errno = sys_errno;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    used = strlen(err->msg);
    snprintf(err->msg + used, sizeof(err->msg) - used, ": %s", strerror(sys_errno));
    return code;
}

slc_status slc_fail_context(slc_err *err, const char *fmt, ...) {
    char old[sizeof(err->msg)], front[256];
    va_list ap;

    if (!err) return SLC_OK;
    va_start(ap, fmt);
    vsnprintf(front, sizeof(front), fmt, ap);
    va_end(ap);
    memcpy(old, err->msg, sizeof(old));
    snprintf(err->msg, sizeof(err->msg), "%s: %.*s", front, (int)(sizeof(old) - sizeof(front) - 3),
             old);
    return err->code;
}
