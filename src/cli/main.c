/* The entry: picks the subcommand, parses its options, turns outcomes into exit codes. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "cli/cli.h"
#include "sluice/sluice.h"

static const slc_command *const commands[] = {
    &slc_command_run,   &slc_command_inspect, &slc_command_eval,     &slc_command_pack,
    &slc_command_synth, &slc_command_bench,   &slc_command_bench_io, &slc_command_simulate,
};

enum { N_COMMANDS = sizeof(commands) / sizeof(*commands) };

static const char exit_codes[] = "Exit codes: 0 success, 1 failure, 2 wrong usage, "
                                 "130 interrupted.\n";

static void print_overview(FILE *out) {
    fprintf(out,
            "sluice %s: mixture-of-experts language models larger than memory\n\n"
            "usage: sluice COMMAND [OPTIONS]\n\n",
            slc_version());
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(out,
            "\n'sluice COMMAND --help' lists its options; 'sluice --version' names the "
            "version.\n%s",
            exit_codes);
}

static void print_help(const slc_command *c) {
    printf("usage: sluice %s %s\n\n%s\n", c->name, c->usage, c->summary);
    slc_args_print_help(c->opts, c->n_opts, stdout);
    if (c->notes) printf("\n%s\n", c->notes);
    printf("\n%s", exit_codes);
}

/* The code of a command that only printed help: failure if that could not be written, unless its
 * reader has seen enough. */
static int printed(void) {
    if (!fflush(stdout) && !ferror(stdout)) return SLC_EXIT_OK;
    if (errno == EPIPE) return SLC_EXIT_OK;
    fprintf(stderr, "sluice: the text could not be written to standard output: %s\n",
            strerror(errno));
    return SLC_EXIT_FAILURE;
}

static int usage_error(const char *command, const slc_err *err) {
    fprintf(stderr, "sluice %s: %s\nTry 'sluice %s --help'.\n", command, err->msg, command);
    return SLC_EXIT_USAGE;
}

/* How many words of argv are this name ("bench io" has two); 0: they are another. */
static int match(const char *name, int argc, char **argv) {
    int n = 0;

    for (size_t length; *name; name += length + (name[length] == ' '), n++) {
        length = strcspn(name, " ");
        if (n == argc || strlen(argv[n]) != length || memcmp(name, argv[n], length)) return 0;
    }
    return n;
}

/* The command whose name is the most words at the start of argv. */
static const slc_command *find_command(int argc, char **argv, int *n_words) {
    const slc_command *found = NULL;

    *n_words = 0;
    for (int i = 0; i < N_COMMANDS; i++) {
        int n = match(commands[i]->name, argc, argv);

        if (n <= *n_words) continue;
        found = commands[i];
        *n_words = n;
    }
    return found;
}

static int unknown_command(const char *name) {
    const char *names[N_COMMANDS], *nearest;

    for (int i = 0; i < N_COMMANDS; i++) names[i] = commands[i]->name;
    nearest = slc_args_nearest(name, names, N_COMMANDS);
    fprintf(stderr, "sluice: unknown %s '%s'", name[0] == '-' ? "option" : "command", name);
    if (nearest) fprintf(stderr, ": did you mean '%s'?", nearest);
    fprintf(stderr, "\nTry 'sluice --help'.\n");
    return SLC_EXIT_USAGE;
}

static slc_status check(const slc_command *c, const slc_args *a, const slc_common_args *common,
                        slc_err *err) {
    if (common->quiet && common->verbose)
        return slc_fail(err, SLC_E_INVALID, "expected one of --quiet and --verbose, found both");
    return c->check(a, common, err);
}

static int run_command(const slc_command *c, int argc, char **argv) {
    slc_args args = {.opts = c->opts, .n_opts = c->n_opts};
    slc_common_args *common = slc_calloc(1, c->values_size);
    slc_console con;
    slc_err err = {0};
    int code;

    if (!common) {
        fprintf(stderr, "sluice %s: out of memory\n", c->name);
        return SLC_EXIT_FAILURE;
    }
    if (slc_args_parse(&args, argc, argv, c->positional, common, &err)) {
        code = usage_error(c->name, &err);
    } else if (common->help) {
        print_help(c);
        code = printed();
    } else if (check(c, &args, common, &err)) {
        code = usage_error(c->name, &err);
    } else {
        slc_console_init(&con, c->name, common->quiet, common->verbose);
        code = c->run(&con, &args, common);
        code = slc_console_exit(&con, code);
    }
    if (c->release) c->release(common);
    free(common);
    return code;
}

int main(int argc, char **argv) {
    const char *word = argc > 1 ? argv[1] : NULL;
    const slc_command *c;
    int n_words;

    signal(SIGPIPE, SIG_IGN); /* a closed stdout is noticed by write() */
    signal(SIGXFSZ, SIG_IGN); /* as is a limit on the size of files */
    if (!word) {
        print_overview(stderr);
        return SLC_EXIT_USAGE;
    }
    if (!strcmp(word, "--version")) {
        printf("sluice %s\n", slc_version());
        return printed();
    }
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
        if (argc > 2 && (c = find_command(argc - 2, argv + 2, &n_words)))
            print_help(c);
        else if (argc > 2)
            return unknown_command(argv[2]);
        else
            print_overview(stdout);
        return printed();
    }
    if (!(c = find_command(argc - 1, argv + 1, &n_words))) return unknown_command(word);
    return run_command(c, argc - 1 - n_words, argv + 1 + n_words);
}
