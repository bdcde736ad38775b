/* Where the program's words go: results to stdout, everything else to stderr.
 *
 * stdout is checked: when its reader is gone (EPIPE) the console says so once through `closed` and
 * the command ends quietly; any other failure to write is an error. Progress is one line that
 * overwrites itself, on terminals only. */
#ifndef SLC_CLI_CONSOLE_H
#define SLC_CLI_CONSOLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/sluice.h"

typedef struct slc_console {
    const char *command; /* "run"; messages begin "sluice run: " */
    int level;           /* -1 errors only, 0 warnings, 1 information, 2 details */
    bool out_is_terminal, err_is_terminal;
    bool progress_shown;
    bool closed;    /* nobody reads stdout any more */
    int out_errno;  /* why stdout failed otherwise; 0: it did not */
    char last_char; /* written to stdout */
} slc_console;

void slc_console_init(slc_console *con, const char *command, bool quiet, bool verbose);

/* ---- stderr ---- */

/* A slc_log_fn; user is the console. */
void slc_console_log(void *con, int level, const char *line);
void slc_console_info(slc_console *con, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* One line: what went wrong. */
void slc_console_error(slc_console *con, const slc_err *err);
/* "what done/total (percent)". Nothing unless stderr is a terminal and messages are wanted. */
void slc_console_progress(slc_console *con, const char *what, uint64_t done, uint64_t total);
void slc_console_progress_end(slc_console *con);

/* ---- stdout ---- */

/* Writes now. False once stdout no longer takes anything. */
bool slc_console_write(slc_console *con, const char *text, size_t n);
bool slc_console_printf(slc_console *con, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* One line of JSON. Takes `json` (a NULL object: out of memory, reported as such). */
bool slc_console_json(slc_console *con, json_t *json);
/* A new array of token ids, NULL without memory. */
json_t *slc_console_ids(const int32_t *ids, size_t n);
/* The exit code: `code`, or failure with a message if stdout could not be written. */
int slc_console_exit(slc_console *con, int code);

/* ---- numbers ---- */

/* "1.50 GiB", "312 KiB"; returns buf. */
const char *slc_console_bytes(uint64_t bytes, char buf[24]);

/* ---- Ctrl-C ---- */

/* From now on the first SIGINT or SIGTERM cancels `m`, the second kills. NULL: back to default. */
void slc_console_watch_interrupt(slc_model *m);
/* The same without a model: the first one only makes slc_console_interrupted true. */
void slc_console_catch_interrupt(void);
bool slc_console_interrupted(void);

#endif
