/* Running a model in a test. */
#include "support/run.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(slc_status rc, const slc_err *err, const char *what) {
    if (!rc) return;
    fprintf(stderr, "%s: %s: %s\n", what, slc_status_str(rc), err->msg);
    abort();
}

char *source_path(const char *relative) {
    char *path = NULL;

    if (asprintf(&path, "%s/%s", SLC_SOURCE_DIR, relative) < 0) abort();
    return path;
}

static void print_warning(void *user, int level, const char *line) {
    (void)user;
    if (level == 0) fprintf(stderr, "warning: %s\n", line);
}

slc_model *run_open(const char *relative, const slc_model_options *opt) {
    slc_model_options o = *opt;
    char *path = source_path(relative);
    slc_model *m;
    slc_err err = {0};

    o.log = print_warning;
    must(slc_model_open(path, &o, &m, &err), &err, path);
    free(path);
    return m;
}

uint32_t run_vocab(const slc_model *m) {
    slc_model_info info;

    slc_model_get_info(m, &info);
    return info.vocab_size;
}

/* ---- steps ---- */

typedef struct sink {
    float *out;
    uint32_t vocab;
    bool last_only;
} sink;

static void keep_logits(void *user, uint32_t item, uint32_t pos, const float *logits) {
    sink *s = user;
    size_t row = s->last_only ? 0 : pos;

    (void)item;
    memcpy(s->out + row * s->vocab, logits, s->vocab * sizeof(float));
}

static float *feed(slc_model *m, const int32_t *tokens, uint32_t n, slc_want want) {
    uint32_t rows = want == SLC_WANT_ALL ? n : 1;
    sink s = {.vocab = run_vocab(m), .last_only = want == SLC_WANT_LAST};
    slc_step_item item = {.tokens = tokens, .n_tokens = n, .want = want};
    slc_err err = {0};

    s.out = calloc((size_t)rows * s.vocab, sizeof(float));
    if (!s.out) abort();
    must(slc_seq_create(m, &item.seq, &err), &err, "slc_seq_create");
    must(slc_step(m, &item, 1, keep_logits, &s, &err), &err, "slc_step");
    must(item.err.code, &item.err, "slc_step item");
    slc_seq_destroy(item.seq);
    return s.out;
}

float *run_logits(slc_model *m, const int32_t *tokens, uint32_t n) {
    return feed(m, tokens, n, SLC_WANT_ALL);
}

float *run_last_logits(slc_model *m, const int32_t *tokens, uint32_t n) {
    return feed(m, tokens, n, SLC_WANT_LAST);
}

void run_greedy_with(slc_model *m, const int32_t *prompt, uint32_t n, int32_t *out, uint32_t n_new,
                     void (*before)(slc_model *m, uint32_t n_made)) {
    sink s = {.vocab = run_vocab(m), .last_only = true};
    slc_step_item item = {.tokens = prompt, .n_tokens = n, .want = SLC_WANT_LAST};
    slc_err err = {0};

    s.out = calloc(s.vocab, sizeof(float));
    if (!s.out) abort();
    must(slc_seq_create(m, &item.seq, &err), &err, "slc_seq_create");
    for (uint32_t i = 0; i < n_new; i++) {
        if (before) before(m, i);
        must(slc_step(m, &item, 1, keep_logits, &s, &err), &err, "slc_step");
        must(item.err.code, &item.err, "slc_step item");
        out[i] = (int32_t)argmax(s.out, s.vocab);
        item.tokens = &out[i];
        item.n_tokens = 1;
    }
    slc_seq_destroy(item.seq);
    free(s.out);
}

void run_greedy(slc_model *m, const int32_t *prompt, uint32_t n, int32_t *out, uint32_t n_new) {
    run_greedy_with(m, prompt, n, out, n_new, NULL);
}

uint32_t argmax(const float *x, uint32_t n) {
    uint32_t best = 0;

    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

double log_prob(const float *logits, uint32_t n, uint32_t id) {
    double max = logits[argmax(logits, n)], sum = 0;

    for (uint32_t i = 0; i < n; i++) sum += exp(logits[i] - max);
    return logits[id] - max - log(sum);
}

/* ---- golden.json of the demo models ---- */

static json_t *get(json_t *o, const char *key) {
    json_t *v = json_object_get(o, key);

    if (v) return v;
    fprintf(stderr, "golden.json: no \"%s\"\n", key);
    abort();
}

static int32_t *ints(json_t *a, uint32_t *n) {
    int32_t *out = calloc(json_array_size(a) + 1, sizeof(*out));

    if (!out) abort();
    *n = (uint32_t)json_array_size(a);
    for (uint32_t i = 0; i < *n; i++) out[i] = (int32_t)json_integer_value(json_array_get(a, i));
    return out;
}

static void read_case(json_t *j, demo_case *c) {
    json_t *top = get(j, "top_ids"), *lp = get(j, "top_logprobs"), *margins = get(j, "margins");

    c->ids = ints(get(j, "ids"), &c->n_ids);
    c->greedy = ints(get(j, "greedy"), &c->n_greedy);
    c->n_top = (uint32_t)json_array_size(json_array_get(top, 0));
    c->margins = calloc(c->n_greedy, sizeof(double));
    c->top_ids = calloc((size_t)c->n_ids * c->n_top, sizeof(int32_t));
    c->top_logprobs = calloc((size_t)c->n_ids * c->n_top, sizeof(double));
    if (!c->margins || !c->top_ids || !c->top_logprobs || json_array_size(margins) != c->n_greedy)
        abort();
    for (uint32_t i = 0; i < c->n_greedy; i++)
        c->margins[i] = json_number_value(json_array_get(margins, i));
    for (uint32_t i = 0; i < c->n_ids; i++)
        for (uint32_t k = 0; k < c->n_top; k++) {
            size_t at = (size_t)i * c->n_top + k;

            c->top_ids[at] = (int32_t)json_integer_value(json_array_get(json_array_get(top, i), k));
            c->top_logprobs[at] = json_number_value(json_array_get(json_array_get(lp, i), k));
        }
}

void demo_golden_read(const char *demo, demo_golden *g) {
    char relative[128], *path;
    json_error_t e;
    json_t *j, *cases;
    uint32_t n;

    snprintf(relative, sizeof(relative), "models/%s/golden.json", demo);
    path = source_path(relative);
    j = json_load_file(path, 0, &e);
    if (!j) {
        fprintf(stderr, "%s: %s\n", path, e.text);
        abort();
    }
    free(path);
    g->ppl = json_number_value(get(j, "ppl"));
    g->ppl_tokens = ints(get(j, "ppl_tokens"), &n);
    g->window = 512;
    g->n_windows = n / g->window;
    cases = get(j, "cases");
    g->n_cases = (uint32_t)json_array_size(cases);
    g->cases = calloc(g->n_cases, sizeof(*g->cases));
    if (!g->cases) abort();
    for (uint32_t i = 0; i < g->n_cases; i++) read_case(json_array_get(cases, i), &g->cases[i]);
    json_decref(j);
}

void demo_golden_free(demo_golden *g) {
    for (uint32_t i = 0; i < g->n_cases; i++) {
        free(g->cases[i].ids);
        free(g->cases[i].greedy);
        free(g->cases[i].margins);
        free(g->cases[i].top_ids);
        free(g->cases[i].top_logprobs);
    }
    free(g->cases);
    free(g->ppl_tokens);
}
