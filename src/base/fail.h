/* Filling slc_err. Every failing path in the library goes through one of these. */
#ifndef SLC_BASE_FAIL_H
#define SLC_BASE_FAIL_H

#include "sluice/status.h"

/* Records code and message in `err` (NULL is fine) and returns code: `return slc_fail(...)`.
 * Does nothing but return the code when err already holds an error. */
slc_status slc_fail(slc_err *err, slc_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* As slc_fail with SLC_E_IO (SLC_E_NOMEM for ENOMEM), saving `sys_errno` and appending its text. */
slc_status slc_fail_errno(slc_err *err, int sys_errno, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "context: " in front of the message already in err. Returns err's code. */
slc_status slc_fail_context(slc_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
