/* sluice run: one prompt, one continuation.
 *
 * The prompt is read before the model is opened. Sampling starts from the model's
 * generation_config.json; an option that ends up without effect, for instance --top-k when the
 * temperature is 0, is refused instead of ignored. Text goes out as it is made; with --json one
 * object at the end instead. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "cli/input.h"
#include "cli/model_args.h"
#include "cli/profile.h"
#include "cli/report.h"

typedef struct run_args {
    slc_common_args common;
    slc_model_args model;
    const char *prompt, *file, *token_ids;
    bool raw, ignore_eos, stats, profile, json;
    int64_t max_tokens;
    double temp, top_p, min_p, repeat_penalty, presence_penalty;
    int64_t top_k, repeat_last_n;
    uint64_t seed;
    slc_opt_list stop;
} run_args;

#define T run_args

static const slc_opt options[] = {
    SLC_MODEL_OPTION(T),

    SLC_HEADING("Prompt (one of these, else standard input)"),
    SLC_OPTION(T, prompt, STRING, 'p', "prompt", "TEXT", "the prompt"),
    SLC_OPTION(T, file, STRING, 'f', "file", "FILE", "read the prompt from a file"),
    SLC_OPTION(T, token_ids, STRING, 0, "token-ids", "FILE",
               "JSON array of token ids, or an object with \"token_ids\""),
    SLC_OPTION(T, raw, FLAG, 0, "raw", NULL,
               "take the text as it is, without a chat template\n(what happens in any case)"),

    SLC_HEADING("Output"),
    SLC_OPTION_IN(T, max_tokens, INT, 'n', "max-tokens|n-predict", "N",
                  "most tokens to make; 0: until the context is full (default)", 0, UINT32_MAX),
    SLC_OPTION(T, stop, LIST, 0, "stop", "TEXT", "end before this text; may be repeated"),
    SLC_OPTION(T, ignore_eos, FLAG, 0, "ignore-eos", NULL, "go on at the model's stop tokens"),
    SLC_OPTION(T, json, FLAG, 0, "json", NULL, "print one JSON object instead of text"),
    SLC_OPTION(T, stats, FLAG, 0, "stats", NULL, "print counters and rates to standard error"),
    SLC_OPTION(T, profile, FLAG, 0, "profile", NULL, "print where the time went to standard error"),

    SLC_HEADING("Sampling (defaults: the model's generation_config.json)"),
    SLC_OPTION_IN(T, temp, FLOAT, 0, "temp|temperature", "X", "0: the likeliest token always", 0,
                  100),
    SLC_OPTION_IN(T, top_k, INT, 0, "top-k", "N", "only the N likeliest; 0: off", 0, INT32_MAX),
    SLC_OPTION_IN(T, top_p, FLOAT, 0, "top-p", "X", "only the likeliest with X of the mass; 1: off",
                  0, 1),
    SLC_OPTION_IN(T, min_p, FLOAT, 0, "min-p", "X", "only those with X of the top's chance; 0: off",
                  0, 1),
    SLC_OPTION_IN(T, repeat_penalty, FLOAT, 0, "repeat-penalty", "X",
                  "divide the logits of recent tokens; 1: off", 0.01, 100),
    SLC_OPTION_IN(T, repeat_last_n, INT, 0, "repeat-last-n", "N",
                  "recent: the last N tokens (default 64); -1: all", -1, INT32_MAX),
    SLC_OPTION_IN(T, presence_penalty, FLOAT, 0, "presence-penalty", "X",
                  "lower the logits of tokens made; 0: off", -100, 100),
    SLC_OPTION(T, seed, SEED, 0, "seed", "N", "of the random numbers (default 0)"),

    SLC_MACHINE_OPTIONS(T),
    SLC_RUN_OPTIONS(T),
    SLC_COMMON_OPTIONS(T),
};

#undef T

typedef struct run_state {
    slc_console *con;
    const slc_args *args;
    const run_args *opt;
    slc_model *model;
    slc_seq *seq;
    slc_model_info info;
    slc_generate_options gen;
    char *text; /* the prompt, if it is text */
    size_t n_text;
    slc_id_lists prompt;
    slc_generation out;
} run_state;

/* ---- options ---- */

static slc_status check(const slc_args *a, const void *values, slc_err *err) {
    const run_args *o = values;
    int sources = !!o->prompt + !!o->file + !!o->token_ids;

    if (!o->model.path) return slc_fail(err, SLC_E_INVALID, "expected a model: -m DIR");
    if (sources > 1)
        return slc_fail(err, SLC_E_INVALID,
                        "expected one prompt, found %d of --prompt, --file, --token-ids", sources);
    return o->token_ids ? slc_args_refuse(a, "raw", "on --token-ids", err) : SLC_OK;
}

/* Options over defaults; refuses those that then play no part. */
static slc_status set_sampling(run_state *r, slc_err *err) {
    const run_args *o = r->opt;
    const slc_args *a = r->args;
    slc_sampling *s = &r->gen.sampling;
    slc_status rc = SLC_OK;

    *s = slc_sampling_default(r->model);
    if (slc_args_given(a, "temp")) s->temperature = (float)o->temp;
    if (slc_args_given(a, "top-k")) s->top_k = (int32_t)o->top_k;
    if (slc_args_given(a, "top-p")) s->top_p = (float)o->top_p;
    if (slc_args_given(a, "min-p")) s->min_p = (float)o->min_p;
    if (slc_args_given(a, "repeat-penalty")) s->repeat_penalty = (float)o->repeat_penalty;
    if (slc_args_given(a, "repeat-last-n")) s->repeat_last_n = (int32_t)o->repeat_last_n;
    if (slc_args_given(a, "presence-penalty")) s->presence_penalty = (float)o->presence_penalty;
    s->seed = o->seed;
    if (s->temperature == 0) {
        static const char why[] = "at temperature 0";

        if (!rc) rc = slc_args_refuse(a, "top-k", why, err);
        if (!rc) rc = slc_args_refuse(a, "top-p", why, err);
        if (!rc) rc = slc_args_refuse(a, "min-p", why, err);
    }
    if (!rc && s->repeat_penalty == 1)
        rc = slc_args_refuse(a, "repeat-last-n", "without --repeat-penalty", err);
    return rc;
}

/* ---- prompt ---- */

static slc_status read_prompt(run_state *r, slc_err *err) {
    const run_args *o = r->opt;

    if (o->token_ids) return slc_input_ids(o->token_ids, false, &r->prompt, err);
    if (o->prompt) {
        r->n_text = strlen(o->prompt);
        r->text = strdup(o->prompt);
        return r->text ? SLC_OK : slc_fail(err, SLC_E_NOMEM, "no memory for the prompt");
    }
    if (!o->file && isatty(STDIN_FILENO))
        slc_console_info(r->con, "type the prompt and end it with Ctrl-D");
    return slc_input_text(o->file ? o->file : "-", &r->text, &r->n_text, err);
}

static slc_status make_prompt_ids(run_state *r, slc_err *err) {
    int32_t *ids;
    size_t n;
    slc_status rc;

    if (r->opt->token_ids)
        return slc_id_lists_check(&r->prompt, r->info.vocab_size, r->opt->token_ids, err);
    if ((rc = slc_tokenize(r->model, r->text, r->n_text, true, &ids, &n, err))) return rc;
    return slc_id_lists_take(&r->prompt, ids, n, err);
}

/* ---- generation ---- */

static bool on_text(void *user, const char *text, size_t n) {
    return slc_console_write(user, text, n);
}

static void on_prefill(void *user, uint32_t done, uint32_t total) {
    slc_console_progress(user, "reading the prompt", done, total);
    if (done == total) slc_console_progress_end(user);
}

static void announce(const run_state *r) {
    const slc_sampling *s = &r->gen.sampling;
    uint64_t room, most = r->gen.max_tokens;

    if (r->prompt.n_ids >= r->info.ctx_size) return; /* slc_generate will say so */
    room = r->info.ctx_size - r->prompt.n_ids;
    if (most == 0 || most > room) most = room;
    slc_console_info(r->con,
                     "prompt of %zu tokens, at most %llu to make in a context of %u; "
                     "temperature %g, seed %llu",
                     r->prompt.n_ids, (unsigned long long)most, r->info.ctx_size,
                     (double)s->temperature, (unsigned long long)s->seed);
}

static slc_status generate(run_state *r, slc_err *err) {
    const run_args *o = r->opt;
    slc_status rc;

    r->gen.max_tokens = (uint32_t)o->max_tokens;
    r->gen.ignore_eos = o->ignore_eos;
    r->gen.stop = o->stop.items;
    r->gen.n_stop = o->stop.n;
    r->gen.on_text = o->json ? NULL : on_text;
    r->gen.on_prefill = on_prefill;
    r->gen.user = r->con;
    if (r->prompt.n_ids > UINT32_MAX)
        return slc_fail(err, SLC_E_INVALID, "the prompt has %zu tokens", r->prompt.n_ids);
    slc_console_watch_interrupt(r->model);
    announce(r);
    rc = slc_generate(r->model, r->seq, r->prompt.ids, (uint32_t)r->prompt.n_ids, &r->gen, &r->out,
                      err);
    slc_console_watch_interrupt(NULL);
    if (rc != SLC_E_CANCELLED) return rc;
    *err = (slc_err){0}; /* no failure: r->out.finish says so */
    return SLC_OK;
}

/* ---- result ---- */

static json_t *result_json(const run_state *r) {
    static const char *const finish[] = {"stop", "length", "cancelled", "error"};
    slc_stats stats = slc_model_get_stats(r->model);

    return json_pack("{ss%, so, sI, sI, ss, sI, so, so, so}", "text", r->out.text, r->out.n_text, //
                     "token_ids", slc_console_ids(r->out.ids, r->out.n_ids),                      //
                     "prompt_tokens", (json_int_t)r->out.n_prompt,                                //
                     "completion_tokens", (json_int_t)r->out.n_ids,                               //
                     "finish_reason", finish[r->out.finish],                                      //
                     "seed", (json_int_t)r->gen.sampling.seed,                                    //
                     "settings", slc_report_settings(&r->info),                                   //
                     "stats", slc_report_json(&stats),                                            //
                     "stages", slc_profile_json(r->model));
}

static void print_profile(const run_state *r, const slc_stats *s) {
    json_t *stages = slc_profile_json(r->model), *stats = slc_report_json(s);

    slc_console_progress_end(r->con);
    if (stages && stats) slc_profile_print(stderr, &stages, &stats, 1);
    json_decref(stages);
    json_decref(stats);
}

static bool has_tokenizer(const slc_model *m) {
    int32_t *ids = NULL;
    size_t n;
    bool has = slc_tokenize(m, "", 0, false, &ids, &n, NULL) == SLC_OK;

    free(ids);
    return has;
}

/* A model without a tokenizer makes ids, not text. */
static void print_ids(run_state *r) {
    for (uint32_t i = 0; i < r->out.n_ids; i++)
        slc_console_printf(r->con, i ? " %d" : "%d", r->out.ids[i]);
    slc_console_write(r->con, "\n", 1);
}

static void print_result(run_state *r) {
    slc_stats stats = slc_model_get_stats(r->model);

    if (r->opt->json)
        slc_console_json(r->con, result_json(r));
    else if (!has_tokenizer(r->model))
        print_ids(r);
    else if (r->con->out_is_terminal && r->con->last_char != '\n')
        slc_console_write(r->con, "\n", 1);
    if (r->opt->stats) slc_report_print(r->con, &stats);
    if (r->opt->profile) print_profile(r, &stats);
}

/* ---- the command ---- */

static int work(run_state *r, slc_err *err) {
    slc_model_options opt;
    slc_status rc;

    if (read_prompt(r, err)) return SLC_EXIT_FAILURE;
    rc = slc_model_args_options(&r->opt->model, r->con, &opt, err);
    if (!rc) rc = slc_model_open(r->opt->model.path, &opt, &r->model, err);
    if (rc) return slc_model_args_exit(rc);
    slc_model_get_info(r->model, &r->info);
    if (set_sampling(r, err)) return SLC_EXIT_USAGE;
    if (make_prompt_ids(r, err) || slc_seq_create(r->model, &r->seq, err) || generate(r, err))
        return SLC_EXIT_FAILURE;
    print_result(r);
    return slc_console_interrupted() ? SLC_EXIT_INTERRUPTED : SLC_EXIT_OK;
}

static int run(slc_console *con, const slc_args *a, void *values) {
    run_state r = {.con = con, .args = a, .opt = values};
    slc_err err = {0};
    int code = work(&r, &err);

    if (err.code) slc_console_error(con, &err);
    slc_generation_deinit(&r.out);
    slc_id_lists_deinit(&r.prompt);
    free(r.text);
    slc_seq_destroy(r.seq);
    slc_model_close(r.model);
    return code;
}

static void release(void *values) {
    run_args *o = values;

    free(o->stop.items);
}

const slc_command slc_command_run = {
    .name = "run",
    .summary = "continues a prompt",
    .usage = "-m DIR [-p TEXT | -f FILE | --token-ids FILE] [OPTIONS]",
    .notes = "Text goes to standard output as it is made, everything else to standard error.\n"
             "The same seed gives the same text on every machine and at every memory limit.",
    .opts = options,
    .n_opts = sizeof(options) / sizeof(*options),
    .values_size = sizeof(run_args),
    .check = check,
    .run = run,
    .release = release,
};
