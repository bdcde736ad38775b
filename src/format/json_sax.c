/* The streaming JSON reader: yajl with depth counted, NUL bytes refused and errors in our form.
 *
 * yajl keeps its own stack on the heap, so deep nesting cannot overflow ours; the depth limit is
 * there to bound memory and to catch files that are not what they claim. Numbers are handed on as
 * text, because every reader here wants exact integers and nothing rounded on the way. */
#include "format/json_sax.h"

#include <string.h>

#include <yajl/yajl_parse.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fail.h"

typedef struct sax {
    const char *name;
    slc_json_fn *fn;
    void *user;
    slc_err *err;
    slc_status status;
    uint32_t depth, max_depth;
} sax;

static int emit(sax *s, slc_json_kind kind, const void *text, size_t n) {
    slc_json_event ev = {.kind = kind, .depth = s->depth, .text = text, .n = n};

    if (s->fn) s->status = s->fn(s->user, &ev, s->err);
    return s->status == SLC_OK;
}

static int emit_text(sax *s, slc_json_kind kind, const unsigned char *text, size_t n) {
    if (memchr(text, 0, n)) {
        s->status = slc_fail(s->err, SLC_E_FORMAT, "%s: a string holds a NUL byte: \"%.100s\"",
                             s->name, (const char *)text);
        return 0;
    }
    return emit(s, kind, text, n);
}

static int emit_open(sax *s, slc_json_kind kind) {
    if (s->depth == s->max_depth) {
        s->status = slc_fail(s->err, SLC_E_FORMAT, "%s: nested more than %u levels deep", s->name,
                             s->max_depth);
        return 0;
    }
    if (!emit(s, kind, NULL, 0)) return 0;
    s->depth++;
    return 1;
}

static int emit_close(sax *s, slc_json_kind kind) {
    s->depth--;
    return emit(s, kind, NULL, 0);
}

static int on_null(void *s) {
    return emit(s, SLC_JSON_OTHER, NULL, 0);
}
static int on_bool(void *s, int value) {
    return emit(s, SLC_JSON_OTHER, NULL, 0);
}
static int on_number(void *s, const char *text, size_t n) {
    return emit(s, SLC_JSON_NUMBER, text, n);
}
static int on_string(void *s, const unsigned char *text, size_t n) {
    return emit_text(s, SLC_JSON_STRING, text, n);
}
static int on_key(void *s, const unsigned char *text, size_t n) {
    return emit_text(s, SLC_JSON_KEY, text, n);
}
static int on_object(void *s) {
    return emit_open(s, SLC_JSON_OBJECT);
}
static int on_object_end(void *s) {
    return emit_close(s, SLC_JSON_OBJECT_END);
}
static int on_array(void *s) {
    return emit_open(s, SLC_JSON_ARRAY);
}
static int on_array_end(void *s) {
    return emit_close(s, SLC_JSON_ARRAY_END);
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_bool,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_object,
    .yajl_map_key = on_key,
    .yajl_end_map = on_object_end,
    .yajl_start_array = on_array,
    .yajl_end_array = on_array_end,
};

static slc_status syntax_error(sax *s, yajl_handle h) {
    unsigned char *text = yajl_get_error(h, 0, NULL, 0);
    size_t n = text ? strcspn((const char *)text, "\n") : 0;

    slc_fail(s->err, SLC_E_FORMAT, "%s: not valid JSON near byte %zu: %.*s", s->name,
             yajl_get_bytes_consumed(h), (int)n, text ? (const char *)text : "");
    if (text) yajl_free_error(h, text);
    return SLC_E_FORMAT;
}

slc_status slc_json_sax(const char *json, size_t n, const char *name, uint32_t max_depth,
                        slc_json_fn *fn, void *user, slc_err *err) {
    sax s = {.name = name, .fn = fn, .user = user, .err = err, .max_depth = max_depth};
    yajl_handle h = yajl_alloc(&callbacks, NULL, &s);
    yajl_status st;

    if (!h) return slc_fail(err, SLC_E_NOMEM, "%s: no memory to parse %zu bytes", name, n);
    st = yajl_parse(h, (const unsigned char *)json, n);
    if (st == yajl_status_ok) st = yajl_complete_parse(h);
    if (st == yajl_status_error) s.status = syntax_error(&s, h);
    yajl_free(h);
    return s.status;
}

bool slc_json_is(const slc_json_event *ev, const char *s) {
    return ev->n == strlen(s) && memcmp(ev->text, s, ev->n) == 0;
}

bool slc_json_u64(const slc_json_event *ev, uint64_t *out) {
    uint64_t value = 0;

    if (ev->n == 0) return false;
    for (size_t i = 0; i < ev->n; i++) {
        if (ev->text[i] < '0' || ev->text[i] > '9') return false;
        if (__builtin_mul_overflow(value, 10u, &value)) return false;
        if (__builtin_add_overflow(value, (uint64_t)(ev->text[i] - '0'), &value)) return false;
    }
    *out = value;
    return true;
}

slc_status slc_json_pool_init(slc_json_pool *p, size_t text_bytes, const char *name, slc_err *err) {
    *p = (slc_json_pool){.base = slc_calloc(text_bytes ? text_bytes : 1, 1), .cap = text_bytes};
    if (!p->base)
        return slc_fail(err, SLC_E_NOMEM, "%s: no memory for %zu bytes of names", name, text_bytes);
    return SLC_OK;
}

const char *slc_json_pool_put(slc_json_pool *p, const slc_json_event *ev) {
    char *copy = p->base + p->used;

    if (ev->n == 0) return NULL;
    for (size_t i = 0; i < ev->n; i++) {
        unsigned char c = (unsigned char)ev->text[i];

        if (c < 0x20 || c == 0x7f) return NULL;
    }
    slc_assert(ev->n < p->cap - p->used);
    memcpy(copy, ev->text, ev->n); /* the block is zeroed: terminated */
    p->used += ev->n + 1;
    return copy;
}
