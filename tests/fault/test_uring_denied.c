/* Sandboxes that forbid io_uring, and a tight limit of locked memory: reads still work, by the
 * thread pool where needed, and one line says why. Each case runs in a child of its own, because a
 * seccomp filter cannot be taken off again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/io.h"
#include "support/temp.h"

#define SIZE 10000u

enum { CHILD_OK = 0, CHILD_SKIP = 77 };

typedef struct seen {
    char line[256];
    uint32_t n;
} seen;

static void keep_line(void *user, int level, const char *line) {
    seen *s = user;

    s->n++;
    strncpy(s->line, line, sizeof(s->line) - 1);
}

/* All io_uring calls (setup 425, enter 426, register 427) from `first` on fail with sys_errno. */
static void deny(uint32_t first, int sys_errno) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 427, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((uint32_t)sys_errno & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &prog))
        _exit(CHILD_SKIP);
}

/* Reads a file through an AUTO backend; returns whether bytes, backend (NULL: any) and log are as
 * they must. */
static bool reads_work(const char *backend, const char *reason) {
    uint8_t bytes[SIZE], got[SIZE];
    seen s = {0};
    slc_log log = {.sink = keep_line, .user = &s, .max_level = SLC_LOG_INFO};
    slc_io_options opt = {.log = &log};
    slc_io_read r = {.buf = got, .len = SIZE, .need = SIZE}, *p = &r;
    char *dir = temp_dir(), *path;
    slc_file f;
    slc_io *io;
    bool ok;

    for (uint32_t i = 0; i < SIZE; i++) bytes[i] = (uint8_t)(i * 7 + i / 256);
    path = temp_write(dir, "data", bytes, SIZE);
    r.file = &f;
    if (slc_file_open(&f, path, NULL) || slc_io_create(&opt, &io, NULL)) return false;
    slc_io_submit(io, &p, 1);
    ok = slc_io_reap(io, &p, 1, true) == 1 && p->status == SLC_OK &&
         memcmp(bytes, got, SIZE) == 0 && s.n == 1 &&
         (!backend || strcmp(slc_io_name(io), backend) == 0) && (!reason || strstr(s.line, reason));
    if (!ok) print_message("backend %s, %u lines, last: %s\n", slc_io_name(io), s.n, s.line);
    slc_io_destroy(io);
    slc_file_close(&f);
    free(path);
    temp_dir_remove(dir);
    return ok;
}

static void expect_child(pid_t child) {
    int status;

    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == CHILD_SKIP) skip();
    assert_int_equal(WEXITSTATUS(status), CHILD_OK);
}

static void denied(uint32_t first, int sys_errno, const char *reason) {
    pid_t child = fork();

    if (child == 0) {
        slc_io_options opt = {.kind = SLC_IO_URING};
        slc_io *io;
        slc_err err = {0};
        deny(first, sys_errno);
        if (!reads_work("threads", reason)) _exit(1);
        if (slc_io_create(&opt, &io, &err) != SLC_E_UNSUPPORTED || !err.msg[0]) _exit(2);
        _exit(CHILD_OK);
    }
    expect_child(child);
}

static bool built_with_uring(void) {
    slc_io_options opt = {.kind = SLC_IO_URING};
    slc_io *io;
    bool have = slc_io_create(&opt, &io, NULL) == SLC_OK;

    slc_io_destroy(io);
    return have;
}

static void b09_denied_setup_falls_back(void **state) {
    const char *eperm = built_with_uring() ? "Operation not permitted" : "io_uring";
    const char *enosys = built_with_uring() ? "Function not implemented" : "io_uring";

    denied(SYS_io_uring_setup, EPERM, eperm);
    denied(SYS_io_uring_setup, ENOSYS, enosys);
    denied(SYS_io_uring_setup, ENOMEM, "io_uring");
}

static void b09_denied_enter_falls_back(void **state) {
    denied(SYS_io_uring_enter, EPERM, "io_uring");
    denied(SYS_io_uring_register, EPERM, "io_uring");
}

/* Nothing is registered, so the usual limit is plenty. Some kernels charge the rings themselves;
 * where not even those fit, the threads do. */
static void b11_locked_memory_is_optional(void **state) {
    static const rlim_t limits[] = {8u << 20, 64u << 10, 0};
    const char *backend = built_with_uring() ? "uring" : "threads";

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        pid_t child = fork();
        if (child == 0) {
            struct rlimit lim = {limits[i], limits[i]};
            if (setrlimit(RLIMIT_MEMLOCK, &lim)) _exit(CHILD_SKIP);
            if (geteuid() == 0 && (setgid(65534) || setuid(65534))) _exit(CHILD_SKIP);
            _exit(reads_work(i == 0 ? backend : NULL, NULL) ? CHILD_OK : 1);
        }
        expect_child(child);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b09_denied_setup_falls_back),
        cmocka_unit_test(b09_denied_enter_falls_back),
        cmocka_unit_test(b11_locked_memory_is_optional),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
