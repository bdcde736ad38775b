/* The program around the library: what every subcommand has in common.
 *
 *     main.c      finds the command, parses its table, maps outcomes to exit codes
 *     args.c      the option parser      console.c   stdout, stderr, progress, Ctrl-C
 *     input.c     prompts, token lists   model_args.c  the options that make slc_model_options
 *     cmd_run.c, cmd_inspect.c, cmd_eval.c, cmd_pack.c, cmd_synth.c,
 *     cmd_bench.c, cmd_bench_io.c, cmd_simulate.c  one subcommand each
 *     child.c, memory_group.c  runs of bench      bench_runs.c  what they gave (see its header)
 *
 * Only this folder prints or decides to exit. */
#ifndef SLC_CLI_CLI_H
#define SLC_CLI_CLI_H

#include "cli/args.h"
#include "cli/console.h"

enum {
    SLC_EXIT_OK = 0,
    SLC_EXIT_FAILURE = 1,
    SLC_EXIT_USAGE = 2,
    SLC_EXIT_INTERRUPTED = 130,
};

/* First member of every command's values. */
typedef struct slc_common_args {
    bool help, quiet, verbose;
} slc_common_args;

#define SLC_COMMON_OPTIONS(T)                                                                      \
    SLC_HEADING("Messages"), SLC_OPTION(T, common.quiet, FLAG, 'q', "quiet", NULL, "errors only"), \
        SLC_OPTION(T, common.verbose, FLAG, 'v', "verbose", NULL, "say more"),                     \
        SLC_OPTION(T, common.help, FLAG, 'h', "help", NULL, "this text")

typedef struct slc_command {
    const char *name, *summary;
    const char *usage;      /* what follows "sluice NAME" */
    const char *notes;      /* printed after the options; may be NULL */
    const char *positional; /* names of up to two arguments that are no options; may be NULL */
    const slc_opt *opts;    /* [n_opts] */
    size_t n_opts;
    size_t values_size; /* of the struct that the table fills; zeroed before */
    /* Checks options against each other; a failure is a usage error. */
    slc_status (*check)(const slc_args *a, const void *values, slc_err *err);
    /* Does it. Returns an exit code after printing its own errors. */
    int (*run)(slc_console *con, const slc_args *a, void *values);
    void (*release)(void *values); /* frees lists; may be NULL */
} slc_command;

extern const slc_command slc_command_run, slc_command_inspect, slc_command_eval, slc_command_pack,
    slc_command_synth, slc_command_bench, slc_command_bench_io, slc_command_simulate;

#endif
