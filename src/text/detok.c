/* The streaming detokenizer: a UTF-8 decoder that keeps its state between tokens.
 *
 * The tail is always a proper beginning of a character. A byte either goes on with it, or the tail
 * becomes one U+FFFD and the byte is looked at afresh; a byte that can begin nothing is one U+FFFD
 * too. That is the rule of Unicode 3.9 ("maximal subpart"), of Python's errors="replace" and of
 * Rust's from_utf8_lossy, and it does not depend on where tokens are cut. */
#include <string.h>

#include "text/tokenizer.h"
#include "text/utf8.h"

static size_t put(char *out, const char *s, size_t n) {
    memcpy(out, s, n);
    return n;
}

static size_t put_replacement(char *out) {
    return put(out, "\xef\xbf\xbd", 3);
}

static bool goes_on(const slc_detok *d, uint8_t byte) {
    if (d->n_tail == 1) return slc_utf8_second((uint8_t)d->tail[0], byte);
    return (byte & 0xc0) == 0x80;
}

static size_t push_byte(slc_detok *d, char c, char *out) {
    size_t n_out = 0;

    if (d->n_tail && !goes_on(d, (uint8_t)c)) {
        n_out = put_replacement(out);
        d->n_tail = 0;
    }
    if (!d->n_tail && !slc_utf8_length((uint8_t)c)) return n_out + put_replacement(out + n_out);
    d->tail[d->n_tail++] = c;
    if (d->n_tail < slc_utf8_length((uint8_t)d->tail[0])) return n_out;
    n_out += put(out + n_out, d->tail, d->n_tail);
    d->n_tail = 0;
    return n_out;
}

size_t slc_detok_push(slc_detok *d, const slc_tokenizer *t, int32_t id, bool skip_special,
                      char *out) {
    size_t n, n_out = 0;
    const char *s = slc_tokenizer_bytes(t, id, &n);

    if (skip_special && slc_tokenizer_is_special(t, id)) return 0;
    for (size_t i = 0; i < n; i++) n_out += push_byte(d, s[i], out + n_out);
    return n_out;
}

size_t slc_detok_finish(slc_detok *d, char out[4]) {
    size_t n_out = d->n_tail ? put_replacement(out) : 0;

    d->n_tail = 0;
    return n_out;
}
