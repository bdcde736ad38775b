/* The option parser. A table entry says everything about an option; there is one function per kind
 * of value, and one loop over argv. Pointers into argv are kept, nothing is copied. */
#include "cli/args.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fail.h"

/* ---- names ---- */

/* Walks "a|b|c": returns the next name and its length, NULL at the end. */
static const char *next_name(const char **list, size_t *n) {
    const char *name = *list;

    if (!name || !*name) return NULL;
    *n = strcspn(name, "|");
    *list = name[*n] ? name + *n + 1 : NULL;
    return name;
}

static bool is_one_of(const char *list, const char *word, size_t n_word) {
    size_t n;

    for (const char *name; (name = next_name(&list, &n));)
        if (n == n_word && !memcmp(name, word, n)) return true;
    return false;
}

static const slc_opt *find_long(const slc_args *a, const char *word, size_t n) {
    for (size_t i = 0; i < a->n_opts; i++)
        if (a->opts[i].kind != SLC_OPT_HEADING && is_one_of(a->opts[i].name, word, n))
            return &a->opts[i];
    return NULL;
}

static const slc_opt *find_short(const slc_args *a, char letter) {
    for (size_t i = 0; i < a->n_opts; i++)
        if (a->opts[i].short_name && a->opts[i].short_name == letter) return &a->opts[i];
    return NULL;
}

bool slc_args_given(const slc_args *a, const char *name) {
    const slc_opt *o = find_long(a, name, strlen(name));

    slc_assert(o);
    return a->given >> (o - a->opts) & 1;
}

slc_status slc_args_refuse(const slc_args *a, const char *name, const char *why, slc_err *err) {
    if (!slc_args_given(a, name)) return SLC_OK;
    return slc_fail(err, SLC_E_INVALID, "option --%s has no effect %s", name, why);
}

bool slc_args_is_choice(const char *choices, const char *word) {
    return is_one_of(choices, word, strlen(word));
}

/* ---- suggestions ---- */

#define MAX_WORD 64

static size_t smallest(size_t a, size_t b, size_t c) {
    size_t m = a < b ? a : b;

    return m < c ? m : c;
}

/* Levenshtein distance, one row at a time; words of up to MAX_WORD letters. */
static size_t edit_distance(const char *a, size_t n_a, const char *b, size_t n_b) {
    size_t row[MAX_WORD + 1];

    for (size_t j = 0; j <= n_b; j++) row[j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t above = row[j];

            row[j] = smallest(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[n_b];
}

const char *slc_args_nearest(const char *word, const char *const *candidates, size_t n) {
    size_t n_word = strlen(word), best = (n_word + 2) / 3 + 1;
    const char *nearest = NULL;

    if (n_word > MAX_WORD) return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t n_candidate = strlen(candidates[i]), distance;

        if (n_candidate > MAX_WORD) continue;
        distance = edit_distance(word, n_word, candidates[i], n_candidate);
        if (distance >= best) continue;
        best = distance;
        nearest = candidates[i];
    }
    return nearest;
}

/* Fails for --word (n letters), suggesting the nearest name of the table. */
static slc_status unknown_option(const slc_args *a, const char *word, size_t n, slc_err *err) {
    char name[SLC_OPT_MAX * 2][MAX_WORD], typed[MAX_WORD + 1];
    const char *names[SLC_OPT_MAX * 2], *nearest = NULL;
    size_t n_names = 0, length;

    for (size_t i = 0; i < a->n_opts; i++)
        for (const char *list = a->opts[i].name, *one; (one = next_name(&list, &length));) {
            slc_assert(n_names < SLC_OPT_MAX * 2 && length < MAX_WORD);
            snprintf(name[n_names], MAX_WORD, "%.*s", (int)length, one);
            names[n_names] = name[n_names];
            n_names++;
        }
    if (n <= MAX_WORD) {
        snprintf(typed, sizeof(typed), "%.*s", (int)n, word);
        nearest = slc_args_nearest(typed, names, n_names);
    }
    if (nearest)
        return slc_fail(err, SLC_E_INVALID, "unknown option --%.*s: did you mean --%s?", (int)n,
                        word, nearest);
    return slc_fail(err, SLC_E_INVALID, "unknown option --%.*s", (int)n, word);
}

/* ---- values ---- */

static bool is_number(const char *text, bool fraction) {
    size_t digits;

    if (*text == '-' || *text == '+') text++;
    digits = strspn(text, "0123456789");
    text += digits;
    if (fraction && *text == '.') {
        size_t after = strspn(++text, "0123456789");

        digits += after;
        text += after;
    }
    return digits > 0 && *text == '\0';
}

bool slc_args_size(const char *text, uint64_t *bytes) {
    static const char suffixes[] = "KMGT";
    size_t n = strspn(text, "0123456789.");
    char number[32];
    double value, unit = 1;

    if (n == 0 || n >= sizeof(number)) return false;
    memcpy(number, text, n);
    number[n] = '\0';
    if (!is_number(number, true)) return false;
    text += n;
    if (*text) {
        char upper = *text >= 'a' ? (char)(*text - 'a' + 'A') : *text;
        const char *at = strchr(suffixes, upper);

        if (at) {
            for (const char *s = suffixes; s <= at; s++) unit *= 1024;
            text++;
            if (text[0] == 'i' && text[1] == 'B') text++;
        }
        if (*text == 'B') text++;
        if (*text) return false;
    }
    value = strtod(number, NULL) * unit;
    if (!(value >= 1 && value < 0x1p63)) return false;
    *bytes = (uint64_t)value;
    return true;
}

static bool parse_int(const slc_opt *o, const char *text, int64_t *out) {
    long long value;

    if (!is_number(text, false)) return false;
    errno = 0;
    value = strtoll(text, NULL, 10);
    if (errno || (double)value < o->min || (double)value > o->max) return false;
    *out = value;
    return true;
}

static bool parse_float(const slc_opt *o, const char *text, double *out) {
    double value;

    if (!is_number(text, true)) return false;
    value = strtod(text, NULL);
    if (!(value >= o->min && value <= o->max)) return false;
    *out = value;
    return true;
}

static bool parse_seed(const char *text, uint64_t *out) {
    if (!is_number(text, false) || *text == '-' || *text == '+') return false;
    errno = 0;
    *out = strtoull(text, NULL, 10);
    return errno == 0 && *out <= INT64_MAX; /* JSON and its readers know signed numbers */
}

static slc_status append(slc_opt_list *list, const char *value, slc_err *err) {
    const char **grown = slc_realloc(list->items, (size_t)list->n + 1, sizeof(*grown));

    if (!grown) return slc_fail(err, SLC_E_NOMEM, "no memory for the command line");
    grown[list->n++] = value;
    list->items = grown;
    return SLC_OK;
}

/* Fails for a value that is not what the table asks for. */
static slc_status bad_value(const slc_opt *o, const char *as, const char *value, slc_err *err) {
    char expected[160];

    switch (o->kind) {
    case SLC_OPT_INT:
        snprintf(expected, sizeof(expected), "a whole number from %.0f to %.0f", o->min, o->max);
        break;
    case SLC_OPT_FLOAT:
        snprintf(expected, sizeof(expected), "a number from %g to %g", o->min, o->max);
        break;
    case SLC_OPT_SIZE:
        snprintf(expected, sizeof(expected), "a size such as 512M, 1.5G or 8G");
        break;
    case SLC_OPT_SEED:
        snprintf(expected, sizeof(expected), "a whole number from 0 to %llu",
                 (unsigned long long)INT64_MAX);
        break;
    default: snprintf(expected, sizeof(expected), "one of %s", o->choices); break;
    }
    return slc_fail(err, SLC_E_INVALID, "option %s: expected %s, found '%s'", as, expected, value);
}

/* Stores `value` (NULL for a flag) in the field of option `o`, which was written as `as`. */
static slc_status store(slc_args *a, const slc_opt *o, const char *as, const char *value,
                        void *values, slc_err *err) {
    void *field = (char *)values + o->offset;
    uint64_t bit = UINT64_C(1) << (o - a->opts);
    bool ok = true;

    if ((a->given & bit) && o->kind != SLC_OPT_LIST)
        return slc_fail(err, SLC_E_INVALID, "option %s is given twice", as);
    a->given |= bit;
    switch (o->kind) {
    case SLC_OPT_HEADING: break;
    case SLC_OPT_FLAG: *(bool *)field = true; break;
    case SLC_OPT_STRING: *(const char **)field = value; break;
    case SLC_OPT_LIST: return append(field, value, err);
    case SLC_OPT_CHOICE:
        ok = slc_args_is_choice(o->choices, value);
        *(const char **)field = value;
        break;
    case SLC_OPT_INT: ok = parse_int(o, value, field); break;
    case SLC_OPT_FLOAT: ok = parse_float(o, value, field); break;
    case SLC_OPT_SIZE: ok = slc_args_size(value, field); break;
    case SLC_OPT_SEED: ok = parse_seed(value, field); break;
    }
    return ok ? SLC_OK : bad_value(o, as, value, err);
}

/* ---- the loop ---- */

typedef struct cursor {
    int at, argc;
    char **argv;
} cursor;

static slc_status next_value(cursor *c, const slc_opt *o, const char *as, const char **value,
                             slc_err *err) {
    if (c->at == c->argc)
        return slc_fail(err, SLC_E_INVALID, "option %s: expected %s after it, found nothing", as,
                        o->arg);
    *value = c->argv[c->at++];
    return SLC_OK;
}

/* word: what follows "--". */
static slc_status parse_long(slc_args *a, cursor *c, const char *word, void *values, slc_err *err) {
    size_t n = strcspn(word, "=");
    const slc_opt *o = find_long(a, word, n);
    const char *value = word[n] ? word + n + 1 : NULL;
    char as[MAX_WORD + 4];
    slc_status rc;

    if (!o) return unknown_option(a, word, n, err);
    snprintf(as, sizeof(as), "--%.*s", (int)n, word);
    if (o->kind == SLC_OPT_FLAG) {
        if (value)
            return slc_fail(err, SLC_E_INVALID, "option %s takes no value, found '%s'", as, value);
    } else if (!value && (rc = next_value(c, o, as, &value, err))) {
        return rc;
    }
    return store(a, o, as, value, values, err);
}

/* word: what follows "-": flags, the last letter possibly an option with its value. */
static slc_status parse_short(slc_args *a, cursor *c, const char *word, void *values,
                              slc_err *err) {
    slc_status rc;

    for (; *word; word++) {
        const slc_opt *o = find_short(a, *word);
        const char *value = word + 1;
        char as[3] = {'-', *word, '\0'};

        if (!o) return slc_fail(err, SLC_E_INVALID, "unknown option -%c", *word);
        if (o->kind == SLC_OPT_FLAG) {
            if ((rc = store(a, o, as, NULL, values, err))) return rc;
            continue;
        }
        if (!*value && (rc = next_value(c, o, as, &value, err))) return rc;
        return store(a, o, as, value, values, err);
    }
    return SLC_OK;
}

slc_status slc_args_parse(slc_args *a, int argc, char **argv, const char *positional, void *values,
                          slc_err *err) {
    cursor c = {0, argc, argv};
    bool options = true;
    slc_status rc;

    slc_assert(a->n_opts <= SLC_OPT_MAX);
    while (c.at < argc) {
        const char *word = argv[c.at++];

        if (options && !strcmp(word, "--")) {
            options = false;
        } else if (options && word[0] == '-' && word[1] == '-') {
            if ((rc = parse_long(a, &c, word + 2, values, err))) return rc;
        } else if (options && word[0] == '-' && word[1]) {
            if ((rc = parse_short(a, &c, word + 1, values, err))) return rc;
        } else if (positional && !a->positional) {
            a->positional = word;
        } else if (positional && strchr(positional, ' ') && !a->second) {
            a->second = word;
        } else {
            return slc_fail(err, SLC_E_INVALID, "unexpected argument '%s'", word);
        }
    }
    return SLC_OK;
}

/* ---- help ---- */

#define HELP_COLUMN 30

void slc_args_print_help(const slc_opt *opts, size_t n, FILE *out) {
    for (size_t i = 0; i < n; i++) {
        const slc_opt *o = &opts[i];
        const char *names = o->name, *name, *line = o->help;
        size_t length;
        int at;

        if (o->kind == SLC_OPT_HEADING) {
            fprintf(out, "\n%s:\n", o->help);
            continue;
        }
        at = o->short_name ? fprintf(out, "  -%c", o->short_name) : fprintf(out, "    ");
        for (const char *sep = o->short_name ? ", " : "  "; (name = next_name(&names, &length));
             sep = ", ")
            at += fprintf(out, "%s--%.*s", sep, (int)length, name);
        if (o->arg) at += fprintf(out, " %s", o->arg);
        while (line) {
            length = strcspn(line, "\n");
            if (at > HELP_COLUMN - 2) {
                fputc('\n', out);
                at = 0;
            }
            fprintf(out, "%*s%.*s\n", HELP_COLUMN - at, "", (int)length, line);
            line = line[length] ? line + length + 1 : NULL;
            at = 0;
        }
    }
}
