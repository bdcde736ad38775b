/* Writing to standard output: a pipe that somebody has made non-blocking, and one that is closed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/console.h"

enum { N_BYTES = 300000 }; /* more than a pipe holds */

/* A child whose standard output is a new pipe with O_NONBLOCK and which writes N_BYTES to it. It
 * exits with 0 if all were taken, 1 if the reader left, 2 for an error. */
static pid_t start_writer(int *read_end) {
    int ends[2];
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char *text = malloc(N_BYTES);
        slc_console con;

        signal(SIGPIPE, SIG_IGN);
        close(ends[0]);
        dup2(ends[1], STDOUT_FILENO);
        fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
        for (int i = 0; i < N_BYTES; i++) text[i] = (char)('a' + i % 23);
        slc_console_init(&con, "test", false, false);
        slc_console_write(&con, text, N_BYTES);
        _exit(con.out_errno ? 2 : con.closed);
    }
    close(ends[1]);
    *read_end = ends[0];
    return child;
}

static int exit_code(pid_t child) {
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_full_pipe_is_waited_for(void **state) {
    char part[5000];
    int fd, total = 0;
    pid_t child = start_writer(&fd);
    ssize_t n;

    usleep(50000); /* let it fill the pipe */
    while ((n = read(fd, part, sizeof(part))) > 0)
        for (ssize_t i = 0; i < n; i++) assert_int_equal(part[i], 'a' + total++ % 23);
    assert_int_equal(total, N_BYTES);
    assert_int_equal(exit_code(child), 0);
    close(fd);
}

static void a_reader_that_leaves_ends_the_wait(void **state) {
    int fd;
    pid_t child = start_writer(&fd);

    usleep(50000);
    close(fd);
    assert_int_equal(exit_code(child), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_pipe_is_waited_for),
        cmocka_unit_test(a_reader_that_leaves_ends_the_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
