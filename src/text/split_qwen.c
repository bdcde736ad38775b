/* The split expressions of the Qwen family, by hand.
 *
 * The seven alternatives are tried in order at each position; a is "letter" (with marks in
 * Qwen3.5), o is "neither white space, letter nor number":
 *
 *     1  (?i:'s|'t|'re|'ve|'m|'ll|'d)
 *     2  [^\r\n\p{L}\p{N}]?a+           a word, with one character of anything before it
 *     3  \p{N}                          one digit
 *     4   ?o+[\r\n]*                    punctuation, with a space before and line ends after
 *     5  \s*[\r\n]+                     white space up to its last line end
 *     6  \s+(?!\S)                      white space but for its last character
 *     7  \s+
 *
 * What backtracking would find is known beforehand. 2: the optional character is taken if a letter
 * follows. 5: a run of white space that has a line end matches up to the last one. 6: a run that
 * ends the text matches whole; else all but the last character does, if that leaves any. Each piece
 * is found by looking at its own characters and at most one run of white space after it, which
 * later pieces look at once more. */
#include <stdint.h>

#include "text/split.h"
#include "text/unicode.h"
#include "text/utf8.h"

const char slc_split_qwen3_5[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
    " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const char slc_split_qwen2[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
                               " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

#define LONG_S 0x17fu /* its upper case is S */

struct scan {
    const char *end;
    bool marks_are_letters;
};

/* A character, its class (marks resolved) and where the next one begins. next is NULL at the end
 * of the text; the class then fits no alternative. */
struct ch {
    uint32_t c;
    slc_char_class k;
    const char *next;
};

static struct ch peek(const struct scan *s, const char *p) {
    struct ch ch = {0, SLC_CHAR_MARK, NULL};
    uint32_t len;

    if (p == s->end) return ch;
    ch.c = slc_utf8_decode(p, &len);
    ch.k = slc_char_class_of(ch.c);
    if (ch.k == SLC_CHAR_MARK) ch.k = s->marks_are_letters ? SLC_CHAR_LETTER : SLC_CHAR_OTHER;
    ch.next = p + len;
    return ch;
}

static bool is_line_end(struct ch ch) {
    return ch.next && (ch.c == '\r' || ch.c == '\n');
}

/* The end of the run of one class that begins at p. */
static const char *run_end(const struct scan *s, const char *p, slc_char_class k) {
    for (struct ch ch; (ch = peek(s, p)).k == k;) p = ch.next;
    return p;
}

/* Alternative 1, after the apostrophe: the end of the suffix, NULL if there is none. */
static const char *suffix_end(const char *p, const char *end) {
    size_t left = (size_t)(end - p);
    char a, b;

    if (left == 0) return NULL;
    a = p[0] | 0x20;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return p + 1;
    if (left == 1) return NULL;
    if (p[0] == (char)(0xc0 | LONG_S >> 6) && p[1] == (char)(0x80 | (LONG_S & 0x3f))) return p + 2;
    b = p[1] | 0x20;
    if (((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l')) return p + 2;
    return NULL;
}

/* Alternatives 5 to 7: p begins a run of white space. */
static const char *space_end(const struct scan *s, const char *p) {
    const char *q = p, *last = p, *after_line = NULL;

    for (struct ch ch; (ch = peek(s, q)).k == SLC_CHAR_SPACE;) {
        last = q;
        q = ch.next;
        if (is_line_end(ch)) after_line = q;
    }
    if (after_line) return after_line;
    return q == s->end || last == p ? q : last;
}

/* Alternative 4: p begins a run of other characters. */
static const char *other_end(const struct scan *s, const char *p) {
    p = run_end(s, p, SLC_CHAR_OTHER);
    while (p < s->end && (*p == '\r' || *p == '\n')) p++;
    return p;
}

const char *slc_qwen_piece_end(const char *p, const char *end, bool marks_are_letters) {
    struct scan s = {end, marks_are_letters};
    struct ch first = peek(&s, p), second;
    const char *suffix;

    if (first.c == '\'' && (suffix = suffix_end(first.next, end))) return suffix;
    if (first.k == SLC_CHAR_LETTER) return run_end(&s, first.next, SLC_CHAR_LETTER);
    if (first.k == SLC_CHAR_NUMBER) return first.next;
    second = peek(&s, first.next);
    if (second.k == SLC_CHAR_LETTER && !is_line_end(first))
        return run_end(&s, second.next, SLC_CHAR_LETTER);
    if (first.k == SLC_CHAR_OTHER) return other_end(&s, first.next);
    if (first.c == ' ' && second.k == SLC_CHAR_OTHER) return other_end(&s, second.next);
    return space_end(&s, p);
}
