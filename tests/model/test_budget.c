/* --memory is a promise about the whole process: the program is run as a user would run it, and the
 * kernel's own account of its peak (VmHWM, read through wait4) is held against the limit.
 *
 *     test_budget PROGRAM */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/run.h"
#include "support/temp.h"

#define MIB    (1ull << 20)
#define NOBODY 65534

static const char *program;
static char *dir; /* outputs; open to every user */

typedef struct child {
    pid_t pid;
    char *out, *err_out;
} child;

/* Starts `sluice ARGS`; with `plain_user`, as nobody with 8 MiB of lockable memory. */
static child start(bool plain_user, const char *args) {
    static unsigned n_started;
    char *command = NULL, name[64];
    child c = {0};

    snprintf(name, sizeof(name), "%u.out", ++n_started);
    c.out = temp_path(dir, name);
    snprintf(name, sizeof(name), "%u.err", n_started);
    c.err_out = temp_path(dir, name);
    if (asprintf(&command, "exec %s %s >%s 2>%s </dev/null", program, args, c.out, c.err_out) < 0)
        abort();
    c.pid = fork();
    assert_true(c.pid >= 0);
    if (c.pid == 0) {
        if (plain_user) {
            struct rlimit lock = {8 * MIB, 8 * MIB};

            setrlimit(RLIMIT_MEMLOCK, &lock);
            if (getuid() == 0 && (setgid(NOBODY) || setuid(NOBODY))) _exit(99);
        }
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(98);
    }
    free(command);
    return c;
}

/* Exit status; the peak in bytes to *peak. */
static int finish(child *c, uint64_t *peak) {
    struct rusage ru;
    int status;

    assert_int_equal(wait4(c->pid, &status, 0, &ru), c->pid);
    *peak = (uint64_t)ru.ru_maxrss * 1024;
    if (!WIFEXITED(status)) fail_msg("killed by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

static void forget(child *c) {
    free(c->out);
    free(c->err_out);
}

static uint64_t smallest(const char *model, const char *more) {
    char args[512];
    json_error_t e;
    uint64_t bytes, peak;
    child c;
    json_t *j;

    snprintf(args, sizeof(args), "inspect -m %s/models/%s -c 1024 %s --json", SLC_SOURCE_DIR, model,
             more);
    c = start(false, args);
    assert_int_equal(finish(&c, &peak), 0);
    assert_non_null(j = json_load_file(c.out, 0, &e));
    bytes = (uint64_t)json_integer_value(
        json_object_get(json_object_get(j, "plan"), "smallest_budget_bytes"));
    assert_true(bytes > MIB);
    json_decref(j);
    forget(&c);
    return bytes;
}

static void run_args(char *args, size_t n, const char *model, uint64_t budget, const char *more) {
    snprintf(args, n,
             "run -m %s/models/%s -c 1024 --memory %llu -n 60 --seed 1 -p 'Once upon a time' %s",
             SLC_SOURCE_DIR, model, (unsigned long long)budget, more);
}

static void check_run(const char *model, bool plain_user, uint64_t budget, const char *more) {
    char args[512];
    uint64_t peak;
    child c;

    run_args(args, sizeof(args), model, budget, more);
    c = start(plain_user, args);
    if (finish(&c, &peak)) {
        char *text = temp_read(c.err_out, NULL);
        fail_msg("sluice %s: %s", args, text);
    }
    print_message("%s%s, %s: limit %.2f MiB, peak %.2f MiB\n", model,
                  plain_user ? " as nobody" : "", more, (double)budget / MIB, (double)peak / MIB);
    assert_true(peak <= budget);
    forget(&c);
}

/* Nobody may be shut out of the folder that the tree lies in. */
static bool plain_user_can_read(const char *model) {
    char relative[64], *path;
    uint64_t peak;
    child c = {0};
    int rc;

    snprintf(relative, sizeof(relative), "models/%s/config.json", model);
    path = source_path(relative);
    c.pid = fork();
    assert_true(c.pid >= 0);
    if (c.pid == 0) {
        if (getuid() == 0 && (setgid(NOBODY) || setuid(NOBODY))) _exit(99);
        _exit(access(path, R_OK) || access(program, X_OK));
    }
    rc = finish(&c, &peak);
    if (rc) print_message("skipped as nobody: %s is not readable\n", path);
    free(path);
    return rc == 0;
}

static void peak_stays_below_the_limit(void **state) {
    static const char *const models[] = {"demo-moe", "demo-draft"};
    static const char *const more[] = {"", "--io threads", "-t 4", "--exact", "--prefill-chunk 64"};

    (void)state;
    for (int m = 0; m < 2; m++)
        for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
            uint64_t least = (smallest(models[m], more[i]) + MIB - 1) / MIB * MIB;

            check_run(models[m], false, least, more[i]);
            check_run(models[m], false, least + 7 * MIB, more[i]);
            if (plain_user_can_read(models[m])) check_run(models[m], true, least, more[i]);
        }
}

static void check_refusal(const char *more) {
    uint64_t least = smallest("demo-moe", more), peak;
    unsigned long long works = 0;
    char args[512], *text, *at;
    child c;

    run_args(args, sizeof(args), "demo-moe", least - 2 * MIB, more);
    c = start(false, args);
    assert_int_equal(finish(&c, &peak), 1);
    assert_true(peak <= least);
    text = temp_read(c.err_out, NULL);
    assert_non_null(at = strstr(text, "--memory "));
    assert_int_equal(sscanf(at, "--memory %lluM", &works), 1);
    free(text);
    forget(&c);
    check_run("demo-moe", false, works * MIB, more);
}

static void too_small_is_refused_with_what_works(void **state) {
    (void)state;
    check_refusal("");
    check_refusal("--expert-cache 20M"); /* is part of what is needed */
}

static void two_at_once_both_keep_their_word(void **state) {
    uint64_t budget[2], peak[2];
    child c[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        char args[512];

        budget[i] = smallest("demo-moe", "") + (uint64_t)(1 + 8 * i) * MIB;
        run_args(args, sizeof(args), "demo-moe", budget[i], "");
        c[i] = start(false, args);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(finish(&c[i], &peak[i]), 0);
        assert_true(peak[i] <= budget[i]);
    }
    /* The same text from both. */
    for (int i = 0; i < 2; i++) {
        char *a = temp_read(c[0].out, NULL), *b = temp_read(c[1].out, NULL);

        assert_string_equal(a, b);
        free(a);
        free(b);
    }
    forget(&c[0]);
    forget(&c[1]);
}

/* Without --memory too, side by side: what one takes is not there for the other. */
static void two_with_the_default_budget_both_run(void **state) {
    child c[2];
    uint64_t peak;

    (void)state;
    for (int i = 0; i < 2; i++) {
        char args[512];

        snprintf(args, sizeof(args),
                 "run -m %s/models/demo-moe -c 1024 -n 20 --seed 1 -p 'Once upon a time'",
                 SLC_SOURCE_DIR);
        c[i] = start(false, args);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(finish(&c[i], &peak), 0);
        forget(&c[i]);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peak_stays_below_the_limit),
        cmocka_unit_test(too_small_is_refused_with_what_works),
        cmocka_unit_test(two_at_once_both_keep_their_word),
        cmocka_unit_test(two_with_the_default_budget_both_run),
    };
    int rc;

    if (argc != 2) return 2;
    program = argv[1];
    dir = temp_dir();
    if (chmod(dir, 0777)) return 2;
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    temp_dir_remove(dir);
    return rc;
}
