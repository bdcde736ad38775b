/* Status codes and the error record that every fallible function of Sluice uses.
 *
 * A function that can fail returns slc_status and takes `slc_err *err` last. `err` may be NULL. On
 * failure it holds the code, the errno of the system call behind it (0 if none) and one sentence
 * that names what failed, where, what was expected and what was found. On success it is untouched.
 * The first error wins: clean-up never overwrites it. */
#ifndef SLUICE_STATUS_H
#define SLUICE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#define SLC_API        __attribute__((visibility("default")))
#define SLC_MUST_CHECK __attribute__((warn_unused_result))

typedef enum slc_status {
    SLC_OK = 0,
    SLC_E_NOMEM = -1,       /* memory or the memory budget is not enough */
    SLC_E_IO = -2,          /* a file could not be opened or read */
    SLC_E_FORMAT = -3,      /* a file's contents are damaged or contradict each other */
    SLC_E_UNSUPPORTED = -4, /* valid, but not something this build can do */
    SLC_E_INVALID = -5,     /* an argument or option is wrong */
    SLC_E_BUSY = -6,        /* a bounded resource is in use; try again later */
    SLC_E_CANCELLED = -7,   /* stopped on request */
    SLC_E_TIMEOUT = -8,     /* a deadline passed */
} slc_status;

typedef struct slc_err {
    slc_status code;
    int sys_errno;
    char msg[512];
} slc_err;

/* "not enough memory", "input/output error", ...: a static string, never NULL. */
SLC_API const char *slc_status_str(slc_status s);

#ifdef __cplusplus
}
#endif
#endif
