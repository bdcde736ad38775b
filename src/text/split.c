/* Running a split: the scanner for the expressions it knows, PCRE2 for the rest.
 *
 * PCRE2 with UCP reads \s, \p{L} and (?i:) as the reference's engine does, but for two things: its
 * Unicode version is that of the installed library, and \s also takes U+180E. Its just-in-time code
 * is used where the library can make it. That code works on a stack of our own; where even this is
 * too small, or there is no such code, the interpreter runs, which keeps its state on the heap,
 * with the same result. Either way the machine stack stays small. */
#include "text/split.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/alloc.h"
#include "base/fail.h"

#define MATCH_LIMIT     10000000u /* steps for one match: far beyond any honest one */
#define HEAP_LIMIT_KIB  (64u << 10)
#define JIT_STACK_BYTES ((size_t)256 << 10)

struct slc_splitter {
    enum { SPLIT_NONE, SPLIT_QWEN2, SPLIT_QWEN3_5, SPLIT_REGEX } kind;
    pcre2_code *code;
};

/* What one run over a text needs of PCRE2. */
struct run {
    pcre2_match_data *data;
    pcre2_match_context *ctx;
    pcre2_jit_stack *stack;
};

static slc_status compile(slc_splitter *s, const char *regex, slc_err *err) {
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
    PCRE2_UCHAR why[128];
    uint32_t empty = 0;
    size_t at;
    int code;

    s->code = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED, options, &code, &at, NULL);
    if (!s->code) {
        pcre2_get_error_message(code, why, sizeof(why));
        return slc_fail(err, SLC_E_UNSUPPORTED, "split pattern, at character %zu: %s", at,
                        (const char *)why);
    }
    pcre2_pattern_info(s->code, PCRE2_INFO_MATCHEMPTY, &empty);
    if (empty) return slc_fail(err, SLC_E_UNSUPPORTED, "the split pattern can match nothing");
    pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE); /* without it the interpreter runs */
    return SLC_OK;
}

slc_status slc_splitter_create(const char *regex, bool no_scanner, slc_splitter **out,
                               slc_err *err) {
    slc_splitter *s = slc_calloc(1, sizeof(*s));
    slc_status rc = SLC_OK;

    *out = NULL;
    if (!s) return slc_fail(err, SLC_E_NOMEM, "no memory for the split pattern");
    if (!regex) {
        s->kind = SPLIT_NONE;
    } else if (!no_scanner && strcmp(regex, slc_split_qwen3_5) == 0) {
        s->kind = SPLIT_QWEN3_5;
    } else if (!no_scanner && strcmp(regex, slc_split_qwen2) == 0) {
        s->kind = SPLIT_QWEN2;
    } else {
        s->kind = SPLIT_REGEX;
        rc = compile(s, regex, err);
    }
    if (rc) {
        slc_splitter_destroy(s);
        return rc;
    }
    *out = s;
    return SLC_OK;
}

void slc_splitter_destroy(slc_splitter *s) {
    if (!s) return;
    pcre2_code_free(s->code);
    free(s);
}

static slc_status run_scanner(bool marks, const char *text, size_t n, slc_piece_fn *fn, void *user,
                              slc_err *err) {
    const char *end = text + n, *next;
    slc_status rc;

    for (; text < end; text = next) {
        next = slc_qwen_piece_end(text, end, marks);
        if ((rc = fn(user, text, (size_t)(next - text), err))) return rc;
    }
    return SLC_OK;
}

/* The next match at or after `at`: 1 and its range, 0 if there is none, else PCRE2's error. */
static int next_match(const slc_splitter *s, struct run *r, const char *text, size_t n, size_t at,
                      size_t range[2]) {
    int got = pcre2_match(s->code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK, r->data, r->ctx);

    if (got == PCRE2_ERROR_JIT_STACKLIMIT)
        got = pcre2_match(s->code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                          r->data, r->ctx);
    if (got == PCRE2_ERROR_NOMATCH) return 0;
    if (got < 0) return got;
    memcpy(range, pcre2_get_ovector_pointer(r->data), 2 * sizeof(*range));
    return 1;
}

static slc_status match_all(const slc_splitter *s, struct run *r, const char *text, size_t n,
                            slc_piece_fn *fn, void *user, slc_err *err) {
    size_t at = 0, range[2];
    PCRE2_UCHAR why[128];
    slc_status rc;

    while (at < n) {
        int got = next_match(s, r, text, n, at, range);

        if (got < 0) {
            pcre2_get_error_message(got, why, sizeof(why));
            return slc_fail(err, got == PCRE2_ERROR_NOMEMORY ? SLC_E_NOMEM : SLC_E_UNSUPPORTED,
                            "the split pattern fails at byte %zu of %zu: %s", at, n,
                            (const char *)why);
        }
        if (!got) return fn(user, text + at, n - at, err);
        if (range[0] > at && (rc = fn(user, text + at, range[0] - at, err))) return rc;
        if ((rc = fn(user, text + range[0], range[1] - range[0], err))) return rc;
        at = range[1];
    }
    return SLC_OK;
}

static slc_status run_regex(const slc_splitter *s, const char *text, size_t n, slc_piece_fn *fn,
                            void *user, slc_err *err) {
    struct run r = {.data = pcre2_match_data_create(1, NULL),
                    .ctx = pcre2_match_context_create(NULL)};
    slc_status rc;

    if (r.data && r.ctx) {
        pcre2_set_match_limit(r.ctx, MATCH_LIMIT);
        pcre2_set_heap_limit(r.ctx, HEAP_LIMIT_KIB);
        r.stack = pcre2_jit_stack_create(32 << 10, JIT_STACK_BYTES, NULL); /* NULL: no JIT */
        if (r.stack) pcre2_jit_stack_assign(r.ctx, NULL, r.stack);
        rc = match_all(s, &r, text, n, fn, user, err);
    } else {
        rc = slc_fail(err, SLC_E_NOMEM, "no memory to split %zu bytes of text", n);
    }
    pcre2_jit_stack_free(r.stack);
    pcre2_match_context_free(r.ctx);
    pcre2_match_data_free(r.data);
    return rc;
}

slc_status slc_splitter_run(const slc_splitter *s, const char *text, size_t n, slc_piece_fn *fn,
                            void *user, slc_err *err) {
    if (!n) return SLC_OK;
    switch (s->kind) {
    case SPLIT_NONE: return fn(user, text, n, err);
    case SPLIT_QWEN2: return run_scanner(false, text, n, fn, user, err);
    case SPLIT_QWEN3_5: return run_scanner(true, text, n, fn, user, err);
    case SPLIT_REGEX: break;
    }
    return run_regex(s, text, n, fn, user, err);
}
