/* Reading a trace: checked line by line, so that a replay can trust it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "io/file.h"
#include "stream/trace.h"

#define MAX_KEYS (UINT64_C(1) << 26) /* layers x experts */

typedef struct parser {
    const char *at, *end; /* *end is NUL */
    const char *name;
    size_t line;
    slc_trace *t;
    size_t fetch_cap, use_cap;
    size_t *seen; /* [n_experts] line that named the expert last */
} parser;

static slc_status bad(const parser *p, slc_err *err, const char *expected) {
    size_t n = strcspn(p->at, " \n");

    return slc_fail(err, SLC_E_FORMAT, "%s: line %zu: expected %s, found \"%.*s\"", p->name,
                    p->line, expected, (int)(n < 40 ? n : 40), p->at);
}

/* Decimal digits, at most `max`. */
static bool number(parser *p, uint64_t max, uint64_t *out) {
    const char *start = p->at;
    uint64_t x = 0;

    while (*p->at >= '0' && *p->at <= '9') {
        if (__builtin_mul_overflow(x, 10, &x)) break;
        if (__builtin_add_overflow(x, (uint64_t)(*p->at - '0'), &x) || x > max) break;
        p->at++;
    }
    *out = x;
    if (p->at == start || (*p->at >= '0' && *p->at <= '9') || x > max) {
        p->at = start;
        return false;
    }
    return true;
}

static bool literal(parser *p, const char *text) {
    size_t n = strlen(text);

    if (strncmp(p->at, text, n)) return false;
    p->at += n;
    return true;
}

/* `array` with room for one more than n; NULL: no memory, the old one stays valid. */
static void *grow(void *array, size_t n, size_t *cap, size_t size) {
    size_t wanted = *cap ? 2 * *cap : 1024;
    void *larger;

    if (n < *cap) return array;
    larger = slc_realloc(array, wanted, size);
    if (larger) *cap = wanted;
    return larger;
}

static bool grow_uses(parser *p) {
    slc_trace *t = p->t;
    size_t cap_e = p->use_cap, cap_s = p->use_cap, cap_o = p->use_cap;
    void *e = grow(t->experts, t->n_uses, &cap_e, sizeof(*t->experts));
    void *s = grow(t->scores, t->n_uses, &cap_s, sizeof(*t->scores));
    void *o = grow(t->outcomes, t->n_uses, &cap_o, sizeof(*t->outcomes));

    if (e) t->experts = e;
    if (s) t->scores = s;
    if (o) t->outcomes = o;
    if (!e || !s || !o) return false;
    p->use_cap = cap_e;
    return true;
}

static bool grow_fetches(parser *p) {
    slc_trace *t = p->t;
    void *f = grow(t->fetches, t->n_fetches, &p->fetch_cap, sizeof(*t->fetches));

    if (f) t->fetches = f;
    return f != NULL;
}

static slc_status read_header(parser *p, slc_err *err) {
    uint64_t layers, experts, active;

    if (!literal(p, "sluice-trace 1 ")) {
        return bad(p, err, "\"sluice-trace 1\": a trace of this version");
    }
    if (!number(p, UINT32_MAX, &layers) || !literal(p, " ") || !number(p, UINT32_MAX, &experts) ||
        !literal(p, " ") || !number(p, experts, &active) || !literal(p, "\n")) {
        return bad(p, err, "the numbers of layers, experts and experts per token");
    }
    if (!layers || !experts || layers > MAX_KEYS / experts) {
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: %" PRIu64 " layers of %" PRIu64 " experts, expected 1 to %" PRIu64
                        " in all",
                        p->name, layers, experts, MAX_KEYS);
    }
    p->t->n_layers = (uint32_t)layers;
    p->t->n_experts = (uint32_t)experts;
    p->t->n_active = (uint32_t)active;
    p->seen = slc_calloc(experts, sizeof(*p->seen));
    return p->seen ? SLC_OK : slc_fail(err, SLC_E_NOMEM, "%s: no memory", p->name);
}

static slc_status read_use(parser *p, slc_err *err) {
    static const char outcomes[] = "hlm";
    slc_trace *t = p->t;
    const char *outcome;
    uint64_t id, score;

    if (!number(p, t->n_experts - 1, &id)) return bad(p, err, "the id of an expert");
    if (p->seen[id] == p->line) return bad(p, err, "each expert once");
    p->seen[id] = p->line;
    if (!*p->at || !(outcome = strchr(outcomes, *p->at))) return bad(p, err, "h, l or m");
    p->at++;
    if (!grow_uses(p)) return slc_fail(err, SLC_E_NOMEM, "%s: no memory", p->name);
    t->experts[t->n_uses] = (uint32_t)id;
    t->outcomes[t->n_uses] = (uint8_t)(outcome - outcomes);
    t->scores[t->n_uses] = -1;
    if (*p->at >= '0' && *p->at <= '9') {
        if (!number(p, 1000000, &score)) return bad(p, err, "a weight in millionths");
        t->scores[t->n_uses] = (float)score / 1e6f;
    }
    t->n_uses++;
    return SLC_OK;
}

/* Passes follow each other, and layers within a pass. */
static bool in_order(const slc_trace *t, uint64_t pass, uint64_t layer) {
    const slc_trace_fetch *last = t->n_fetches ? &t->fetches[t->n_fetches - 1] : NULL;

    if (!last) return true;
    return pass == last->pass ? layer > last->layer : pass > last->pass;
}

static slc_status read_fetch(parser *p, slc_err *err) {
    slc_trace *t = p->t;
    uint64_t pass, tokens, layer, bytes;
    slc_trace_fetch f = {.first = t->n_uses};
    slc_status rc;

    if (!number(p, UINT64_MAX, &pass) || !literal(p, " ")) return bad(p, err, "a pass");
    if (!number(p, UINT32_MAX, &tokens) || !literal(p, " ")) return bad(p, err, "tokens");
    if (!number(p, t->n_layers - 1, &layer) || !in_order(t, pass, layer) || !literal(p, " ")) {
        return bad(p, err, "a layer of the model, after the last one");
    }
    f.decode = *p->at == 'd';
    if (!literal(p, "d ") && !literal(p, "p ")) return bad(p, err, "d or p");
    if (!number(p, UINT32_MAX, &bytes)) return bad(p, err, "the bytes of an expert");
    while (literal(p, " ")) {
        if ((rc = read_use(p, err))) return rc;
    }
    if (!literal(p, "\n")) return bad(p, err, "the end of the line (is the file cut short?)");
    if (!grow_fetches(p)) return slc_fail(err, SLC_E_NOMEM, "%s: no memory", p->name);
    f.pass = pass;
    f.n_tokens = (uint32_t)tokens;
    f.layer = (uint32_t)layer;
    f.expert_bytes = bytes;
    f.n = (uint32_t)(t->n_uses - f.first);
    t->fetches[t->n_fetches++] = f;
    return SLC_OK;
}

slc_status slc_trace_parse(const char *text, size_t n, const char *name, slc_trace *out,
                           slc_err *err) {
    parser p = {.at = text, .end = text + n, .name = name, .line = 1, .t = out};
    slc_status rc;

    *out = (slc_trace){0};
    rc = read_header(&p, err);
    while (!rc && p.at < p.end) {
        p.line++;
        rc = read_fetch(&p, err);
    }
    free(p.seen);
    if (rc) slc_trace_deinit(out);
    return rc;
}

slc_status slc_trace_read(const char *path, slc_trace *out, slc_err *err) {
    slc_file f;
    char *text = NULL;
    slc_status rc;

    *out = (slc_trace){0};
    if ((rc = slc_file_open(&f, path, err))) return rc;
    if (f.size_bytes >= SIZE_MAX || !(text = slc_calloc(f.size_bytes + 1, 1))) {
        rc = slc_fail(err, SLC_E_NOMEM, "%s: no memory for %" PRIu64 " bytes", path, f.size_bytes);
        goto out;
    }
    if ((rc = slc_file_read(&f, 0, text, f.size_bytes, err))) goto out;
    rc = slc_trace_parse(text, f.size_bytes, path, out, err);
out:
    slc_file_close(&f);
    free(text);
    return rc;
}

void slc_trace_deinit(slc_trace *t) {
    free(t->fetches);
    free(t->experts);
    free(t->scores);
    free(t->outcomes);
    *t = (slc_trace){0};
}
