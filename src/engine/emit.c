/* Stop strings over a growing text. Matching is direct comparison at every new byte: stop strings
 * are few and short, a token adds a handful of bytes. One thread, the one that generates. */
#include "engine/emit.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fail.h"

slc_status slc_emit_init(slc_emit *e, const char *const *stop, uint32_t n_stop, slc_err *err) {
    *e = (slc_emit){.stop = stop, .n_stop = n_stop};
    for (uint32_t i = 0; i < n_stop; i++) {
        if (!stop[i] || !stop[i][0])
            return slc_fail(err, SLC_E_INVALID, "stop string %u of %u is empty", i + 1, n_stop);
        if (((unsigned char)stop[i][0] & 0xc0) == 0x80)
            return slc_fail(err, SLC_E_INVALID,
                            "stop string %u of %u begins inside a UTF-8 character (byte 0x%02x)",
                            i + 1, n_stop, (unsigned char)stop[i][0]);
    }
    return SLC_OK;
}

void slc_emit_deinit(slc_emit *e) {
    free(e->text);
    *e = (slc_emit){0};
}

char *slc_emit_reserve(slc_emit *e, size_t n, slc_err *err) {
    size_t need, cap = e->cap ? e->cap : 4096;
    char *grown;

    if (!slc_add(e->n_text, n, &need)) need = SIZE_MAX;
    if (e->text && need <= e->cap) return e->text + e->n_text;
    while (cap < need && cap <= SIZE_MAX / 2) cap *= 2;
    grown = cap < need ? NULL : slc_realloc(e->text, cap, 1);
    if (!grown) {
        slc_fail(err, SLC_E_NOMEM, "no memory for %zu bytes of generated text", need);
        return NULL;
    }
    e->text = grown;
    e->cap = cap;
    return e->text + e->n_text;
}

/* Length of the longest stop string that ends at text[end), not reaching back before n_out; 0:
 * none.
 */
static size_t match_ending_at(const slc_emit *e, size_t end) {
    size_t longest = 0;

    for (uint32_t i = 0; i < e->n_stop; i++) {
        size_t n = strlen(e->stop[i]);

        if (n > longest && n <= end - e->n_out && !memcmp(e->text + end - n, e->stop[i], n))
            longest = n;
    }
    return longest;
}

/* Length of the longest tail of the text that is a proper beginning of a stop string. */
static size_t held_back(const slc_emit *e) {
    size_t longest = 0, pending = e->n_text - e->n_out;

    for (uint32_t i = 0; i < e->n_stop; i++) {
        size_t n = strlen(e->stop[i]) - 1;

        if (n > pending) n = pending;
        while (n > longest && memcmp(e->text + e->n_text - n, e->stop[i], n)) n--;
        if (n > longest) longest = n;
    }
    return longest;
}

static bool pass_on(slc_emit *e, size_t end) {
    size_t from = e->n_out;

    if (end == from) return true;
    e->n_out = end;
    return !e->on_text || e->on_text(e->user, e->text + from, end - from);
}

bool slc_emit_advance(slc_emit *e, size_t n) {
    size_t end = e->n_text;

    if (e->stopped) return true;
    slc_assert(n <= e->cap - e->n_text);
    e->n_text += n;
    while (end < e->n_text) {
        size_t match = match_ending_at(e, ++end);

        if (!match) continue;
        e->stopped = true;
        e->n_text = end - match;
        return pass_on(e, e->n_text);
    }
    return pass_on(e, e->n_text - held_back(e));
}

bool slc_emit_flush(slc_emit *e) {
    return pass_on(e, e->n_text);
}

char *slc_emit_take(slc_emit *e, size_t *n_text) {
    char *text, *end = slc_emit_reserve(e, 1, NULL);

    if (!end) return NULL;
    *end = '\0';
    text = e->text;
    *n_text = e->n_text;
    e->text = NULL;
    slc_emit_deinit(e);
    return text;
}
