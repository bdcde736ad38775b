/* NFC where it is needed, and nowhere else.
 *
 * Most text is in form C already. The text is walked once; a stretch is normalised only around
 * characters that normalisation could touch (slc_char_nfc_unsafe):
 *
 *     safe safe | safe unsafe unsafe | safe ...        a stretch begins with the safe character
 *      copied   |     normalised     | copied          before, which marks may join
 *
 * A stretch is decomposed character by character, its marks are put in order and it is composed.
 * The library does the first and last step. Its own ordering takes quadratic time on a long run of
 * marks, so that step is here. */
#include "text/nfc.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "text/unicode.h"
#include "text/utf8.h"

#define MAX_DECOMPOSED 18u /* characters that one may become; canonical ones become at most 4 */

struct work {
    char *out;
    size_t n_out, cap_out;
    int32_t *chars, *spare; /* the stretch, decomposed; [cap] each */
    size_t n, cap;
    slc_err *err;
};

static slc_status no_memory(struct work *w) {
    return slc_fail(w->err, SLC_E_NOMEM, "no memory to normalise the text");
}

static slc_status room_out(struct work *w, size_t more) {
    size_t need, cap;
    char *p;

    if (!slc_add(w->n_out, more, &need)) return no_memory(w);
    if (need <= w->cap_out) return SLC_OK;
    if (!slc_add(need, need / 2, &cap) || !(p = slc_realloc(w->out, cap, 1))) return no_memory(w);
    w->out = p;
    w->cap_out = cap;
    return SLC_OK;
}

static slc_status put(struct work *w, const char *s, size_t n) {
    slc_status rc = room_out(w, n);

    if (rc) return rc;
    if (n) memcpy(w->out + w->n_out, s, n);
    w->n_out += n;
    return SLC_OK;
}

static slc_status room_chars(struct work *w, size_t need) {
    size_t cap = w->cap ? w->cap : 64;
    int32_t *p;

    if (need <= w->cap) return SLC_OK;
    while (cap < need) cap *= 2;
    if (!(p = slc_realloc(w->chars, cap, sizeof(*p)))) return no_memory(w);
    w->chars = p;
    if (!(p = slc_realloc(w->spare, cap, sizeof(*p)))) return no_memory(w);
    w->spare = p;
    w->cap = cap;
    return SLC_OK;
}

static slc_status decompose(struct work *w, const char *s, size_t n) {
    slc_status rc;

    w->n = 0;
    for (size_t i = 0; i < n;) {
        uint32_t len, c = slc_utf8_decode(s + i, &len);
        utf8proc_ssize_t made;
        int boundary = 0;

        if ((rc = room_chars(w, w->n + MAX_DECOMPOSED))) return rc;
        made = utf8proc_decompose_char((int32_t)c, w->chars + w->n, MAX_DECOMPOSED,
                                       UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &boundary);
        if (made < 0 || made > (utf8proc_ssize_t)MAX_DECOMPOSED)
            return slc_fail(w->err, SLC_E_UNSUPPORTED, "cannot decompose U+%04X", c);
        w->n += (size_t)made;
        i += len;
    }
    return SLC_OK;
}

static uint32_t combining_class(int32_t c) {
    return (uint32_t)utf8proc_get_property(c)->combining_class & 255;
}

/* Sorts a run of marks by combining class, equal ones left in order: a counting sort. */
static void sort_marks(int32_t *run, size_t n, int32_t *spare) {
    size_t start[257] = {0};

    for (size_t i = 0; i < n; i++) start[combining_class(run[i]) + 1]++;
    for (size_t k = 1; k < 257; k++) start[k] += start[k - 1];
    for (size_t i = 0; i < n; i++) spare[start[combining_class(run[i])]++] = run[i];
    memcpy(run, spare, n * sizeof(*run));
}

static void order_marks(struct work *w) {
    for (size_t i = 0, end; i < w->n; i = end + 1) {
        uint32_t before = 0, k;
        bool sorted = true;

        for (end = i; end < w->n && (k = combining_class(w->chars[end])) != 0; end++) {
            sorted = sorted && before <= k;
            before = k;
        }
        if (!sorted) sort_marks(w->chars + i, end - i, w->spare);
    }
}

static slc_status normalise(struct work *w, const char *s, size_t n) {
    utf8proc_ssize_t n_chars;
    slc_status rc;

    if ((rc = decompose(w, s, n))) return rc;
    order_marks(w);
    n_chars = utf8proc_normalize_utf32(w->chars, (utf8proc_ssize_t)w->n,
                                       UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    if (n_chars < 0) return slc_fail(w->err, SLC_E_UNSUPPORTED, "cannot compose the text");
    if ((rc = room_out(w, (size_t)n_chars * 4))) return rc;
    for (utf8proc_ssize_t i = 0; i < n_chars; i++)
        w->n_out += (size_t)utf8proc_encode_char(w->chars[i], (uint8_t *)w->out + w->n_out);
    return SLC_OK;
}

/* Finds the next stretch to normalise at or after `from`: [*begin, *end). False if there is none.
 */
static bool next_stretch(const char *text, size_t n, size_t from, size_t *begin, size_t *end) {
    bool found = false;
    uint32_t len;

    *begin = from;
    for (size_t i = from; i < n; i += len) {
        bool unsafe = slc_char_nfc_unsafe(slc_utf8_decode(text + i, &len));

        if (found && !unsafe) {
            *end = i;
            return true;
        }
        if (!found && !unsafe) *begin = i;
        found |= unsafe;
    }
    *end = n;
    return found;
}

slc_status slc_nfc(const char *text, size_t n, char **out, size_t *n_out, slc_err *err) {
    struct work w = {.err = err};
    size_t at = 0, begin, end;
    slc_status rc = SLC_OK;

    *out = NULL;
    *n_out = 0;
    while (!rc && next_stretch(text, n, at, &begin, &end)) {
        if (!(rc = put(&w, text + at, begin - at))) rc = normalise(&w, text + begin, end - begin);
        at = end;
    }
    if (!rc && at) rc = put(&w, text + at, n - at);
    free(w.chars);
    free(w.spare);
    if (rc || !at) {
        free(w.out);
        return rc;
    }
    *out = w.out;
    *n_out = w.n_out;
    return SLC_OK;
}
