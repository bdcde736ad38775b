/* Command-line options from a table: parsing, checking, suggestions and --help from one source.
 *
 *     static const slc_opt options[] = {
 *         SLC_HEADING("Output"),
 *         SLC_OPTION_IN(run_args, max_tokens, INT, 'n', "max-tokens", "N", "how many", 1, 100),
 *         SLC_OPTION(run_args, json, FLAG, 0, "json", NULL, "print one JSON object"),
 *     };
 *
 * Accepted forms: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, flags together (-qv), "--" to end
 * the options. Names are never abbreviated. An option may stand once unless it is a LIST. */
#ifndef SLC_CLI_ARGS_H
#define SLC_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sluice/status.h"

typedef struct slc_opt_list {
    const char **items; /* [n], pointers into argv; the array is malloc'd */
    uint32_t n;
} slc_opt_list;

/* What an option is, and with it the type of the field at its offset. */
typedef enum slc_opt_kind {
    SLC_OPT_HEADING, /* no option: a heading in --help, its text in `help` */
    SLC_OPT_FLAG,    /* bool */
    SLC_OPT_STRING,  /* const char *, into argv */
    SLC_OPT_LIST,    /* slc_opt_list: may be given again and again */
    SLC_OPT_CHOICE,  /* const char *, one of `choices` */
    SLC_OPT_INT,     /* int64_t in [min, max] */
    SLC_OPT_FLOAT,   /* double in [min, max] */
    SLC_OPT_SIZE,    /* uint64_t bytes, at least 1: 1073741824, 512M, 1.5G, 8GiB (powers of 1024) */
    SLC_OPT_SEED,    /* uint64_t, up to 2^63 - 1 */
} slc_opt_kind;

#define SLC_OPT_MAX 64 /* entries of a table */

typedef struct slc_opt {
    const char *name; /* without "--"; further names after '|': "max-tokens|n-predict" */
    char short_name;  /* 0: none */
    slc_opt_kind kind;
    const char *arg;  /* what the value is called in --help; NULL for flags */
    const char *help; /* lines split at '\n' */
    size_t offset;    /* of the field in the caller's struct */
    double min, max;
    const char *choices; /* "auto|uring|threads" */
} slc_opt;

/* Table entries: field of struct T, kind, letter (0: none), names, value name, help. */
#define SLC_HEADING(text)                                                                          \
    { .kind = SLC_OPT_HEADING, .help = text }
#define SLC_OPTION(T, field, KIND, letter, names, value, text)                                     \
    { names, letter, SLC_OPT_##KIND, value, text, offsetof(T, field), 0, 0, NULL }
#define SLC_OPTION_IN(T, field, KIND, letter, names, value, text, low, high)                       \
    { names, letter, SLC_OPT_##KIND, value, text, offsetof(T, field), low, high, NULL }
#define SLC_OPTION_OF(T, field, letter, names, value, text, list)                                  \
    { names, letter, SLC_OPT_CHOICE, value, text, offsetof(T, field), 0, 0, list }

typedef struct slc_args {
    const slc_opt *opts; /* [n_opts] */
    size_t n_opts;
    uint64_t given;         /* bit i: opts[i] was given */
    const char *positional; /* NULL: not given */
    const char *second;     /* likewise, where there may be two */
} slc_args;

/* Fills the fields of `values` named by the table (others keep their value). `positional`: the name
 * of the argument that is not an option, or two names with a blank between them, NULL when there is
 * none. Every failure is SLC_E_INVALID and names the option, the value, and what was expected. */
slc_status slc_args_parse(slc_args *a, int argc, char **argv, const char *positional, void *values,
                          slc_err *err) SLC_MUST_CHECK;

/* Was the option of this first name given? The name must be in the table. */
bool slc_args_given(const slc_args *a, const char *name);
/* SLC_E_INVALID if `name` was given: "option --name has no effect <why>". */
slc_status slc_args_refuse(const slc_args *a, const char *name, const char *why,
                           slc_err *err) SLC_MUST_CHECK;

/* The option lines of --help. */
void slc_args_print_help(const slc_opt *opts, size_t n, FILE *out);

/* The candidate nearest to `word` (edit distance, at most a third of its letters), or NULL. */
const char *slc_args_nearest(const char *word, const char *const *candidates, size_t n);

/* Is `word` one of a list "a|b|c"? */
bool slc_args_is_choice(const char *choices, const char *word);

/* Parses a size as SLC_OPT_SIZE does; false if it is none. */
bool slc_args_size(const char *text, uint64_t *bytes);

#endif
