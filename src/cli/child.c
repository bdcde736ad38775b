/* fork, exec, collect. Standard output comes through a pipe and is parsed; standard error goes to a
 * file in memory, of which the last line is shown if the run fails. */
#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "cli/cli.h"
#include "cli/memory_group.h"

#define MAX_OUTPUT_BYTES ((size_t)1 << 28)
#define EXIT_NOT_STARTED 127

typedef struct pipes {
    int out[2]; /* read end, write end */
    int messages;
} pipes;

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* In the child: never returns. */
static _Noreturn void become(const char *const *argv, const slc_memory_group *group, pipes *p) {
    if (dup2(p->messages, STDERR_FILENO) < 0 || dup2(p->out[1], STDOUT_FILENO) < 0) _exit(1);
    if (group->dir[0] && slc_memory_group_enter(group)) {
        dprintf(STDERR_FILENO, "cannot enter the cgroup %s: %s", group->dir, strerror(errno));
        _exit(EXIT_NOT_STARTED);
    }
    execv("/proc/self/exe", (char *const *)(uintptr_t)argv); /* execv writes to none */
    dprintf(STDERR_FILENO, "cannot start: %s", strerror(errno));
    _exit(EXIT_NOT_STARTED);
}

/* Everything up to the end of the pipe; *text is malloc'd. */
static slc_status read_all(int fd, char **text, size_t *n, slc_err *err) {
    size_t cap = 1 << 16;
    ssize_t got = 1;

    *n = 0;
    *text = NULL;
    for (;;) {
        char *grown = *n == cap || !*text ? slc_realloc(*text, *text ? cap *= 2 : cap, 1) : *text;

        if (!grown || cap > MAX_OUTPUT_BYTES)
            return slc_fail(err, SLC_E_NOMEM, "no memory for the output of a run");
        *text = grown;
        got = read(fd, *text + *n, cap - *n);
        if (got > 0)
            *n += (size_t)got;
        else if (got == 0)
            return SLC_OK;
        else if (errno != EINTR)
            return slc_fail_errno(err, errno, "cannot read the output of a run");
    }
}

/* The last line of what the child said. */
static void last_message(int fd, char *line, size_t cap) {
    char tail[1024];
    off_t end = lseek(fd, 0, SEEK_END), from = end > 1000 ? end - 1000 : 0;
    ssize_t n = pread(fd, tail, 1000, from);
    char *start;

    tail[n > 0 ? n : 0] = '\0';
    while (n > 0 && tail[n - 1] == '\n') tail[--n] = '\0';
    start = strrchr(tail, '\n');
    snprintf(line, cap, "%.380s", start ? start + 1 : tail);
}

static slc_status check_exit(int status, const pipes *p, slc_err *err) {
    char line[400];
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

    if (code == SLC_EXIT_OK) return SLC_OK;
    if (code == SLC_EXIT_INTERRUPTED) return slc_fail(err, SLC_E_CANCELLED, "interrupted");
    if (code < 0)
        return slc_fail(err, SLC_E_NOMEM, "a run was killed by signal %d%s", WTERMSIG(status),
                        WTERMSIG(status) == SIGKILL ? ", probably for want of memory" : "");
    last_message(p->messages, line, sizeof(line));
    return slc_fail(err, SLC_E_IO, "a run ended with exit code %d: %s", code, line);
}

static slc_status parse(const char *text, size_t n, json_t **out, slc_err *err) {
    json_error_t where;

    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &where);
    if (*out) return SLC_OK;
    return slc_fail(err, SLC_E_FORMAT, "the output of a run is not JSON: %s", where.text);
}

/* The parent's part, once the child lives. */
static slc_status collect(pid_t pid, pipes *p, slc_child *out, slc_err *err) {
    struct rusage usage;
    char *text;
    size_t n;
    int status;
    slc_status rc;

    close_fd(&p->out[1]);
    rc = read_all(p->out[0], &text, &n, err);
    if (rc) kill(pid, SIGKILL); /* it would wait for a reader */
    while (wait4(pid, &status, 0, &usage) < 0)
        if (errno != EINTR) {
            free(text);
            return slc_fail_errno(err, errno, "cannot wait for a run");
        }
    if (!rc) rc = check_exit(status, p, err);
    if (!rc) rc = parse(text, n, &out->result, err);
    free(text);
    out->read_bytes = (uint64_t)usage.ru_inblock * 512;
    return rc;
}

static slc_status run_in(const char *const *argv, const slc_memory_group *group, slc_child *out,
                         slc_err *err) {
    pipes p = {{-1, -1}, -1};
    uint64_t start = slc_now_ns();
    slc_status rc;
    pid_t pid;

    if (pipe2(p.out, O_CLOEXEC) || (p.messages = memfd_create("messages", MFD_CLOEXEC)) < 0 ||
        (pid = fork()) < 0) {
        rc = slc_fail_errno(err, errno, "cannot start a run");
    } else {
        if (pid == 0) become(argv, group, &p);
        rc = collect(pid, &p, out, err);
        out->wall_s = (double)(slc_now_ns() - start) / 1e9;
    }
    close_fd(&p.out[0]);
    close_fd(&p.out[1]);
    close_fd(&p.messages);
    return rc;
}

slc_status slc_child_run(const char *const *argv, uint64_t limit_bytes, slc_child *out,
                         slc_err *err) {
    slc_memory_group group = {.dir = ""};
    slc_status rc = SLC_OK;

    *out = (slc_child){0};
    if (limit_bytes) rc = slc_memory_group_create(&group, limit_bytes, err);
    if (!rc) rc = run_in(argv, &group, out, err);
    slc_memory_group_destroy(&group);
    return rc;
}
