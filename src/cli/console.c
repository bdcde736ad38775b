/* stdout, stderr and signals. stdout goes through write(2), unbuffered: text appears as it is made,
 * and what could not be written is known at once. Signal handlers need globals; these two are the
 * only mutable ones of the program. */
#include "cli/console.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "cli/cli.h"

static slc_model *_Atomic watched;
static volatile sig_atomic_t interrupted;

void slc_console_init(slc_console *con, const char *command, bool quiet, bool verbose) {
    *con = (slc_console){
        .command = command,
        .level = quiet     ? -1
                 : verbose ? 2
                           : 1,
        .out_is_terminal = isatty(STDOUT_FILENO),
        .err_is_terminal = isatty(STDERR_FILENO),
        .last_char = '\n',
    };
}

/* ---- stderr ---- */

void slc_console_progress_end(slc_console *con) {
    if (con->progress_shown) fputs("\r\033[K", stderr);
    con->progress_shown = false;
}

/* Clears the progress line and, on one terminal for both, ends the line of text being made. */
static void begin_line(slc_console *con) {
    slc_console_progress_end(con);
    if (con->out_is_terminal && con->err_is_terminal && con->last_char != '\n') {
        fputc('\n', stderr);
        con->last_char = '\n';
    }
}

void slc_console_log(void *user, int level, const char *line) {
    slc_console *con = user;

    if (level > con->level) return;
    begin_line(con);
    fprintf(stderr, "sluice %s: %s%s\n", con->command, level == 0 ? "warning: " : "", line);
}

void slc_console_info(slc_console *con, const char *fmt, ...) {
    char line[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    slc_console_log(con, 1, line);
}

void slc_console_error(slc_console *con, const slc_err *err) {
    begin_line(con);
    fprintf(stderr, "sluice %s: %s\n", con->command,
            err->msg[0] ? err->msg : slc_status_str(err->code));
}

void slc_console_progress(slc_console *con, const char *what, uint64_t done, uint64_t total) {
    if (con->level < 1 || !con->err_is_terminal || total == 0) return;
    fprintf(stderr, "\r\033[K%s %llu/%llu (%.0f %%)", what, (unsigned long long)done,
            (unsigned long long)total, 100.0 * (double)done / (double)total);
    fflush(stderr);
    con->progress_shown = true;
}

/* ---- stdout ---- */

bool slc_console_write(slc_console *con, const char *text, size_t n) {
    slc_console_progress_end(con);
    if (n) con->last_char = text[n - 1];
    while (n && !con->closed && !con->out_errno) {
        ssize_t wrote = write(STDOUT_FILENO, text, n);

        if (wrote >= 0) {
            text += wrote;
            n -= (size_t)wrote;
        } else if (errno == EPIPE) {
            con->closed = true;
        } else if (errno == EAGAIN) { /* whoever shares the pipe has made it non-blocking */
            poll(&(struct pollfd){.fd = STDOUT_FILENO, .events = POLLOUT}, 1, -1);
        } else if (errno != EINTR) {
            con->out_errno = errno;
        }
    }
    return !con->closed && !con->out_errno;
}

bool slc_console_printf(slc_console *con, const char *fmt, ...) {
    char *line;
    va_list ap;
    int n;
    bool ok;

    va_start(ap, fmt);
    n = vasprintf(&line, fmt, ap);
    va_end(ap);
    if (n < 0) {
        con->out_errno = ENOMEM;
        return false;
    }
    ok = slc_console_write(con, line, (size_t)n);
    free(line);
    return ok;
}

bool slc_console_json(slc_console *con, json_t *json) {
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    bool ok;

    json_decref(json);
    if (!text) {
        con->out_errno = ENOMEM;
        return false;
    }
    ok = slc_console_write(con, text, strlen(text)) && slc_console_write(con, "\n", 1);
    free(text);
    return ok;
}

json_t *slc_console_ids(const int32_t *ids, size_t n) {
    json_t *array = json_array();

    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(array, json_integer(ids[i]))) {
            json_decref(array);
            return NULL;
        }
    return array;
}

int slc_console_exit(slc_console *con, int code) {
    slc_err err = {0};

    slc_console_progress_end(con);
    if (!con->out_errno) return code;
    slc_fail_errno(&err, con->out_errno, "the result could not be written to standard output");
    slc_console_error(con, &err);
    return SLC_EXIT_FAILURE;
}

/* ---- numbers ---- */

const char *slc_console_bytes(uint64_t bytes, char buf[24]) {
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t i = 0;

    while (value >= 1024 && i < 4) {
        value /= 1024;
        i++;
    }
    snprintf(buf, 24, "%.*f %s", i == 0 ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0, value, unit[i]);
    return buf;
}

/* ---- Ctrl-C ---- */

static void on_signal(int number) {
    slc_model *m = atomic_load(&watched);

    interrupted = 1;
    if (m) slc_model_cancel(m);
}

static void set_handler(void (*handler)(int)) {
    struct sigaction act = {.sa_handler = handler};

    act.sa_flags = (int)SA_RESETHAND; /* the second one kills */
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
}

void slc_console_watch_interrupt(slc_model *m) {
    atomic_store(&watched, m);
    set_handler(m ? on_signal : SIG_DFL);
}

void slc_console_catch_interrupt(void) {
    set_handler(on_signal);
}

bool slc_console_interrupted(void) {
    return interrupted;
}
