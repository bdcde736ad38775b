/* sluice eval: how well a model predicts a text.
 *
 *     perplexity = exp(mean over all predictions of -log p(token | tokens before it in its window))
 *
 * The text is cut into windows that do not overlap; each starts from an empty sequence, so a window
 * of N tokens gives N - 1 predictions, and a shorter last one gives what it can. Log-probabilities
 * are a log-softmax over the whole vocabulary, in double. With --top-logprobs the likeliest
 * continuations after every token are listed too. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "cli/input.h"
#include "cli/model_args.h"

#define DEFAULT_WINDOW 512u
#define MAX_TOP        1000

typedef struct eval_args {
    slc_common_args common;
    slc_model_args model;
    const char *text, *token_ids, *prompt;
    int64_t window, top;
    bool json;
} eval_args;

#define T eval_args

static const slc_opt options[] = {
    SLC_MODEL_OPTION(T),

    SLC_HEADING("Text (one of these)"),
    SLC_OPTION(T, text, STRING, 0, "text", "FILE", "a text file; - for standard input"),
    SLC_OPTION(
        T, token_ids, STRING, 0, "token-ids", "FILE",
        "JSON: an array of ids, an object with \"token_ids\",\nor an array of arrays, each a "
        "window"),
    SLC_OPTION(T, prompt, STRING, 0, "prompt", "TEXT", "this text, as one window"),

    SLC_HEADING("Evaluation"),
    SLC_OPTION_IN(T, window, INT, 0, "window", "N",
                  "tokens a window (default: 512, or the context\nif that is smaller)", 2,
                  UINT32_MAX),
    SLC_OPTION_IN(T, top, INT, 0, "top-logprobs", "K",
                  "list the K likeliest tokens after every token", 1, MAX_TOP),
    SLC_OPTION(T, json, FLAG, 0, "json", NULL, "print one JSON object"),

    SLC_MACHINE_OPTIONS(T),
    SLC_RUN_OPTIONS(T),
    SLC_COMMON_OPTIONS(T),
};

#undef T

typedef struct choice {
    int32_t id;
    float logit;
} choice;

typedef struct eval_state {
    slc_console *con;
    const slc_args *args;
    const eval_args *opt;
    slc_model *model;
    slc_seq *seq;
    slc_model_info info;
    char *text;
    size_t n_text;
    slc_id_lists input;
    /* the window being run */
    const int32_t *ids;
    uint32_t n_ids;
    /* results */
    double nll; /* sum over predictions */
    uint64_t n_predictions, n_windows, n_tokens;
    choice top[MAX_TOP];
    json_t *top_json; /* NULL: not wanted, or no memory */
} eval_state;

static slc_status check(const slc_args *a, const void *values, slc_err *err) {
    const eval_args *o = values;
    int sources = !!o->text + !!o->token_ids + !!o->prompt;

    if (!o->model.path) return slc_fail(err, SLC_E_INVALID, "expected a model: -m DIR");
    if (sources != 1)
        return slc_fail(err, SLC_E_INVALID,
                        "expected one of --text, --token-ids, --prompt, found %d of them", sources);
    return o->prompt ? slc_args_refuse(a, "window", "on --prompt, which is one window", err)
                     : SLC_OK;
}

/* ---- one position ---- */

/* log of the sum of exp(logits). */
static double log_sum_exp(const float *logits, uint32_t n) {
    double highest = -INFINITY, sum = 0;

    for (uint32_t i = 0; i < n; i++)
        if ((double)logits[i] > highest) highest = (double)logits[i];
    for (uint32_t i = 0; i < n; i++) sum += exp((double)logits[i] - highest);
    return highest + log(sum);
}

/* Fills top[k] with the highest logits, falling; of equals the lower id first. */
static uint32_t find_top(const float *logits, uint32_t n, choice *top, uint32_t k) {
    uint32_t used = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t at;

        if (used == k && !(logits[i] > top[k - 1].logit)) continue;
        at = used < k ? used++ : k - 1;
        for (; at > 0 && logits[i] > top[at - 1].logit; at--) top[at] = top[at - 1];
        top[at] = (choice){(int32_t)i, logits[i]};
    }
    return used;
}

static json_t *top_as_json(const choice *top, uint32_t n, double lse) {
    json_t *list = json_array();

    for (uint32_t i = 0; i < n; i++)
        if (json_array_append_new(list, json_pack("{si, sf}", "id", (int)top[i].id, "logprob",
                                                  (double)top[i].logit - lse))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static void list_top(eval_state *e, uint32_t pos, const float *logits, double lse) {
    uint32_t n = find_top(logits, e->info.vocab_size, e->top, (uint32_t)e->opt->top);

    if (e->opt->json) {
        if (json_array_append_new(e->top_json, top_as_json(e->top, n, lse))) {
            json_decref(e->top_json);
            e->top_json = NULL;
        }
        return;
    }
    slc_console_printf(e->con, "%u\t%d\t", pos, e->ids[pos]);
    for (uint32_t i = 0; i < n; i++)
        slc_console_printf(e->con, "%s%d:%.5f", i ? " " : "", e->top[i].id,
                           (double)e->top[i].logit - lse);
    slc_console_write(e->con, "\n", 1);
}

static void on_logits(void *user, uint32_t item, uint32_t pos, const float *logits) {
    eval_state *e = user;
    double lse = log_sum_exp(logits, e->info.vocab_size);

    if (pos + 1 < e->n_ids) {
        e->nll += lse - (double)logits[e->ids[pos + 1]];
        e->n_predictions++;
    }
    if (e->opt->top) list_top(e, pos, logits, lse);
}

/* ---- windows ---- */

static slc_status run_window(eval_state *e, const int32_t *ids, size_t n, slc_err *err) {
    slc_step_item item = {.seq = e->seq, .tokens = ids, .want = SLC_WANT_ALL};
    slc_status rc;

    if (n > e->info.ctx_size)
        return slc_fail(err, SLC_E_INVALID,
                        "a window has %zu tokens, the context holds %u: "
                        "enlarge --ctx-size",
                        n, e->info.ctx_size);
    item.n_tokens = e->n_ids = (uint32_t)n;
    e->ids = ids;
    slc_seq_reset(e->seq);
    if ((rc = slc_step(e->model, &item, 1, on_logits, e, err))) return rc;
    if (item.err.code) {
        *err = item.err;
        return item.err.code;
    }
    e->n_tokens += n;
    e->n_windows++;
    return SLC_OK;
}

static slc_status run_windows(eval_state *e, slc_err *err) {
    const slc_id_lists *in = &e->input;
    size_t window = DEFAULT_WINDOW < e->info.ctx_size ? DEFAULT_WINDOW : e->info.ctx_size;
    size_t list = 0;
    slc_status rc;

    if (e->opt->window) window = (size_t)e->opt->window;
    if (e->opt->prompt || in->nested) window = SIZE_MAX; /* one window a list */
    slc_console_info(e->con, "%zu tokens in windows of at most %zu", in->n_ids,
                     window < in->n_ids ? window : in->n_ids);
    for (size_t at = 0; at < in->n_ids;) {
        size_t n;

        while (in->ends[list] == at) list++;
        n = in->ends[list] - at < window ? in->ends[list] - at : window;
        if ((rc = run_window(e, in->ids + at, n, err))) return rc;
        if (e->con->closed || e->con->out_errno) return SLC_OK;
        at += n;
        slc_console_progress(e->con, "evaluating token", at, in->n_ids);
    }
    slc_console_progress_end(e->con);
    return SLC_OK;
}

/* ---- input ---- */

static slc_status read_input(eval_state *e, slc_err *err) {
    const eval_args *o = e->opt;

    if (o->text) return slc_input_text(o->text, &e->text, &e->n_text, err);
    return o->token_ids ? slc_input_ids(o->token_ids, true, &e->input, err) : SLC_OK;
}

static slc_status make_ids(eval_state *e, slc_err *err) {
    const char *text = e->opt->prompt ? e->opt->prompt : e->text;
    size_t n_text = e->opt->prompt ? strlen(text) : e->n_text;
    int32_t *ids;
    size_t n;
    slc_status rc;

    if (e->opt->token_ids)
        return slc_id_lists_check(&e->input, e->info.vocab_size, e->opt->token_ids, err);
    if ((rc = slc_tokenize(e->model, text, n_text, true, &ids, &n, err))) return rc;
    return slc_id_lists_take(&e->input, ids, n, err);
}

/* A context as large as the windows asked for, where the user left it open. */
static void fit_context(const eval_state *e, slc_model_options *opt) {
    const slc_id_lists *in = &e->input;
    size_t longest = (size_t)e->opt->window;

    if (opt->ctx_size) return;
    for (size_t i = 0, from = 0; in->nested && i < in->n_lists; from = in->ends[i++])
        if (in->ends[i] - from > longest) longest = in->ends[i] - from;
    if (longest <= UINT32_MAX) opt->ctx_size = (uint32_t)longest;
}

/* ---- result ---- */

static json_t *number(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

static void print_result(eval_state *e) {
    double mean = e->n_predictions ? e->nll / (double)e->n_predictions : NAN;
    json_t *out;

    if (!e->opt->json) {
        if (e->n_predictions)
            slc_console_printf(e->con,
                               "perplexity %.4f  mean nll %.6f  predictions %llu  "
                               "windows %llu\n",
                               exp(mean), mean, (unsigned long long)e->n_predictions,
                               (unsigned long long)e->n_windows);
        return;
    }
    out = json_pack("{so, so, sI, sI, sI}",                        //
                    "perplexity", number(exp(mean)),               //
                    "mean_nll", number(mean),                      //
                    "n_tokens", (json_int_t)e->n_tokens,           //
                    "n_predictions", (json_int_t)e->n_predictions, //
                    "n_windows", (json_int_t)e->n_windows);
    if (out && e->opt->top &&
        (json_object_set_new(out, "token_ids", slc_console_ids(e->input.ids, e->input.n_ids)) ||
         json_object_set(out, "top", e->top_json))) {
        json_decref(out);
        out = NULL;
    }
    slc_console_json(e->con, out);
}

/* ---- the command ---- */

static slc_status open_model(eval_state *e, slc_err *err) {
    slc_model_options opt;
    slc_status rc;

    if ((rc = slc_model_args_options(&e->opt->model, e->con, &opt, err))) return rc;
    fit_context(e, &opt);
    if ((rc = slc_model_open(e->opt->model.path, &opt, &e->model, err))) return rc;
    slc_model_get_info(e->model, &e->info);
    return SLC_OK;
}

/* Refuses options that play no part with this input. */
static slc_status check_effects(const eval_state *e, slc_err *err) {
    if (!e->input.nested) return SLC_OK;
    return slc_args_refuse(e->args, "window", "on windows given one by one", err);
}

static slc_status prepare(eval_state *e, slc_err *err) {
    slc_status rc;

    if ((rc = make_ids(e, err))) return rc;
    if (e->input.n_ids == 0) return slc_fail(err, SLC_E_INVALID, "the text is empty");
    if (e->opt->top && e->opt->json && !(e->top_json = json_array()))
        return slc_fail(err, SLC_E_NOMEM, "no memory for the result");
    return slc_seq_create(e->model, &e->seq, err);
}

static int work(eval_state *e, slc_err *err) {
    slc_status rc;

    if (read_input(e, err)) return SLC_EXIT_FAILURE;
    if ((rc = open_model(e, err))) return slc_model_args_exit(rc);
    if (check_effects(e, err)) return SLC_EXIT_USAGE;
    if (prepare(e, err)) return SLC_EXIT_FAILURE;
    slc_console_watch_interrupt(e->model);
    rc = run_windows(e, err);
    slc_console_watch_interrupt(NULL);
    if (rc == SLC_E_CANCELLED) {
        *err = (slc_err){0}; /* no failure, and half a measurement is none */
        return SLC_EXIT_INTERRUPTED;
    }
    if (rc) return SLC_EXIT_FAILURE;
    if (!e->n_predictions && !e->opt->top) {
        slc_fail(err, SLC_E_INVALID, "no window has two tokens: there is nothing to predict");
        return SLC_EXIT_FAILURE;
    }
    print_result(e);
    return SLC_EXIT_OK;
}

static int run(slc_console *con, const slc_args *a, void *values) {
    eval_state e = {.con = con, .args = a, .opt = values};
    slc_err err = {0};
    int code = work(&e, &err);

    if (err.code) slc_console_error(con, &err);
    json_decref(e.top_json);
    slc_id_lists_deinit(&e.input);
    free(e.text);
    slc_seq_destroy(e.seq);
    slc_model_close(e.model);
    return code;
}

const slc_command slc_command_eval = {
    .name = "eval",
    .summary = "measures perplexity, lists the likeliest tokens",
    .usage = "-m DIR (--text FILE | --token-ids FILE | --prompt TEXT) [OPTIONS]",
    .notes = "Perplexity is exp(mean negative log-likelihood) over windows that do not overlap,\n"
             "each from an empty sequence: a window of N tokens gives N - 1 predictions.",
    .opts = options,
    .n_opts = sizeof(options) / sizeof(*options),
    .values_size = sizeof(eval_args),
    .check = check,
    .run = run,
};
