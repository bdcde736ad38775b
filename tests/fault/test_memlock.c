/* An ordinary user's limit of locked memory: registering memory with io_uring is refused, which is
 * said once with both sizes, and reads work all the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/io.h"
#include "support/temp.h"

#define N_BYTES (1u << 20)
#define LIMIT   (64u << 10)

enum { OK = 0, WRONG = 1, NO_URING = 2, NOT_REFUSED = 3 };

static char last_line[256];
static int n_lines;

static void keep(void *user, int level, const char *line) {
    n_lines++;
    strncpy(last_line, line, sizeof(last_line) - 1);
}

/* In a process of its own, which may give up its rights. */
static int as_ordinary_user(const slc_file *file, uint8_t *buf, const uint8_t *expected) {
    slc_log log = {.sink = keep, .max_level = SLC_LOG_INFO};
    slc_io_options opt = {.kind = SLC_IO_URING, .log = &log};
    const struct rlimit limit = {LIMIT, LIMIT};
    const struct iovec memory = {buf, N_BYTES};
    slc_io_read read = {.file = file, .buf = buf, .len = N_BYTES, .need = N_BYTES}, *done = &read;
    slc_io *io;

    if (setrlimit(RLIMIT_MEMLOCK, &limit)) return WRONG;
    if (geteuid() == 0 && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
        return WRONG;
    if (slc_io_create(&opt, &io, NULL)) return NO_URING;
    n_lines = 0;
    slc_io_use_files(io, file, 1);
    slc_io_use_memory(io, &memory, 1);
    if (n_lines == 0) return NOT_REFUSED;
    if (n_lines != 1 || !strstr(last_line, "1024 KiB") || !strstr(last_line, "allows 64")) {
        return WRONG;
    }
    slc_io_submit(io, &done, 1);
    if (slc_io_reap(io, &done, 1, true) != 1 || done->status) return WRONG;
    slc_io_destroy(io);
    return memcmp(buf, expected, N_BYTES) ? WRONG : OK;
}

static void b11_a_refused_registration_changes_nothing(void **state) {
    char *dir = temp_dir(), *path;
    uint8_t *bytes = malloc(N_BYTES), *buf = aligned_alloc(4096, N_BYTES);
    const char *why;
    slc_file file;
    int status;
    pid_t pid;

    for (uint32_t i = 0; i < N_BYTES; i++) bytes[i] = (uint8_t)(i * 7 + i / 256);
    path = temp_write(dir, "data", bytes, N_BYTES);
    assert_int_equal(slc_file_open(&file, path, NULL), SLC_OK);
    slc_file_enable_direct(&file, &why);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(as_ordinary_user(&file, buf, bytes));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    slc_file_close(&file);
    free(buf);
    free(bytes);
    free(path);
    temp_dir_remove(dir);
    if (WEXITSTATUS(status) == NO_URING || WEXITSTATUS(status) == NOT_REFUSED) {
        print_message("no io_uring here, or one that does not count locked memory\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b11_a_refused_registration_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
