/* The tokenizer: what tokenizer.json describes, put together.
 *
 * Encoding is a chain of cuts, each handing what lies between to the next:
 *
 *     text -> added tokens (raw) -> bytes that are not UTF-8 -> NFC -> added tokens (normalised)
 *          -> split -> bytes to ids -> merges
 *
 * Bytes that are not UTF-8: the text is read as the longest run of whole characters, again and
 * again; a byte at which no whole character begins becomes the token of that byte alone and does
 * not merge. Text before and after it is encoded as if it stood alone.
 *
 * A vocabulary may lack tokens for some bytes. Encoding a text that needs one fails, rather than
 * dropping it. */
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "format/tokenizer_json.h"
#include "text/bpe.h"
#include "text/literals.h"
#include "text/nfc.h"
#include "text/split.h"
#include "text/utf8.h"

struct slc_tokenizer {
    slc_tokenizer_json file; /* added sorted by id */
    slc_splitter *split;
    slc_literals raw, normalized; /* added tokens, by when they are looked for */
    uint32_t longest;             /* bytes of the longest token */
};

/* ---- life ---- */

static int by_id(const void *x, const void *y) {
    const slc_added_token *a = x, *b = y;

    return (a->id > b->id) - (a->id < b->id);
}

/* The text of an added token is looked for in normalised text, so it must be normalised itself. */
static slc_status check_normalized(const slc_tokenizer *t, slc_span text, slc_err *err) {
    const char *s = t->file.vocab.text + text.off;
    size_t n;
    char *other;
    slc_status rc;

    if (!t->file.nfc) return SLC_OK;
    for (uint32_t i = 0, len; i < text.len; i += len)
        if (!(len = slc_utf8_valid(s + i, text.len - i)))
            return slc_fail(err, SLC_E_FORMAT, "an added token is not UTF-8");
    if ((rc = slc_nfc(s, text.len, &other, &n, err)) || !other) return rc;
    if (n != text.len || memcmp(s, other, n))
        rc = slc_fail(err, SLC_E_UNSUPPORTED, "added token \"%.*s\": normalized, but not in NFC",
                      text.len < 100 ? (int)text.len : 100, s);
    free(other);
    return rc;
}

static slc_status init_literals(slc_tokenizer *t, bool normalized, slc_literals *set,
                                slc_err *err) {
    const slc_tokenizer_json *f = &t->file;
    slc_literal *list = slc_calloc(f->n_added, sizeof(*list));
    uint32_t n = 0;

    if (!list) return slc_fail(err, SLC_E_NOMEM, "no memory for the added tokens");
    for (uint32_t i = 0; i < f->n_added; i++) {
        slc_span text = f->vocab.tokens[f->added[i].id];

        if (f->added[i].normalized == normalized)
            list[n++] = (slc_literal){f->vocab.text + text.off, text.len, f->added[i].id};
    }
    return slc_literals_init(set, list, n, err);
}

static slc_status init(slc_tokenizer *t, slc_err *err) {
    const slc_tokenizer_json *f = &t->file;
    slc_status rc;

    qsort(t->file.added, f->n_added, sizeof(*f->added), by_id);
    for (uint32_t i = 0; i < f->n_added; i++)
        if (f->added[i].normalized &&
            (rc = check_normalized(t, f->vocab.tokens[f->added[i].id], err)))
            return rc;
    if ((rc = init_literals(t, false, &t->raw, err))) return rc;
    if ((rc = init_literals(t, true, &t->normalized, err))) return rc;
    for (uint32_t id = 0; id < f->vocab.n_ids; id++)
        if (f->vocab.tokens[id].len > t->longest) t->longest = f->vocab.tokens[id].len;
    return slc_splitter_create(f->split, false, &t->split, err);
}

slc_status slc_tokenizer_open_text(const slc_side_text *text, slc_tokenizer **out, slc_err *err) {
    slc_tokenizer *t = slc_calloc(1, sizeof(*t));
    const char *name = text->file->path;
    slc_status rc;

    *out = NULL;
    if (!t) return slc_fail(err, SLC_E_NOMEM, "%s: no memory for the tokenizer", name);
    if ((rc = slc_tokenizer_json_read(text, &t->file, err))) goto out;
    if ((rc = init(t, err))) {
        slc_fail_context(err, "%s", name);
        goto out;
    }
    *out = t;
    t = NULL;
out:
    slc_tokenizer_close(t);
    return rc;
}

slc_status slc_tokenizer_open(const char *path, slc_tokenizer **out, slc_err *err) {
    slc_side_text text;
    slc_status rc = slc_side_text_open_file(path, &text, err);

    *out = NULL;
    if (!rc) rc = slc_tokenizer_open_text(&text, out, err);
    slc_side_text_close(&text);
    return rc;
}

void slc_tokenizer_close(slc_tokenizer *t) {
    if (!t) return;
    slc_splitter_destroy(t->split);
    slc_literals_deinit(&t->raw);
    slc_literals_deinit(&t->normalized);
    slc_tokenizer_json_deinit(&t->file);
    free(t);
}

/* ---- facts ---- */

uint32_t slc_tokenizer_n_ids(const slc_tokenizer *t) {
    return t->file.vocab.n_ids;
}

int32_t slc_tokenizer_added_id(const slc_tokenizer *t, const char *text) {
    size_t n = strlen(text);
    const slc_literal *found = slc_literals_get(&t->raw, text, n);

    if (!found) found = slc_literals_get(&t->normalized, text, n);
    return found ? found->id : -1;
}

const char *slc_tokenizer_bytes(const slc_tokenizer *t, int32_t id, size_t *n) {
    const slc_vocab *v = &t->file.vocab;
    slc_span text = id >= 0 && (uint32_t)id < v->n_ids ? v->tokens[id] : (slc_span){0, 0};

    *n = text.len;
    return v->text + text.off;
}

bool slc_tokenizer_is_special(const slc_tokenizer *t, int32_t id) {
    const slc_added_token key = {.id = id}, *found;

    if (!t->file.n_added) return false;
    found = bsearch(&key, t->file.added, t->file.n_added, sizeof(key), by_id);
    return found && found->special;
}

size_t slc_detok_max_bytes(const slc_tokenizer *t) {
    return ((size_t)t->longest + 4) * 3; /* all invalid, after a held-back tail: U+FFFD each */
}

/* ---- encoding ---- */

struct encoding {
    const slc_tokenizer *t;
    bool special;
    slc_bpe_work work;
    int32_t *ids;
    size_t n, cap;
    slc_err *err;
};

static slc_status reserve(struct encoding *e, size_t more) {
    size_t need, cap = e->cap ? e->cap : 64;
    int32_t *p;

    if (!slc_add(e->n, more, &need))
        return slc_fail(e->err, SLC_E_NOMEM, "a text of too many tokens");
    if (need <= e->cap) return SLC_OK;
    while (cap < need) cap *= 2; /* need is at most 2^32 */
    if (!(p = slc_realloc(e->ids, cap, sizeof(*p))))
        return slc_fail(e->err, SLC_E_NOMEM, "no memory for %zu token ids", cap);
    e->ids = p;
    e->cap = cap;
    return SLC_OK;
}

/* One id per byte, at the end of e->ids. */
static slc_status put_bytes(struct encoding *e, const char *s, size_t n) {
    slc_status rc = reserve(e, n);

    for (size_t i = 0; !rc && i < n; i++) {
        int32_t id = e->t->file.byte_id[(uint8_t)s[i]];

        if (id < 0)
            return slc_fail(e->err, SLC_E_INVALID, "this tokenizer has no token for byte 0x%02x",
                            (unsigned)(uint8_t)s[i]);
        e->ids[e->n++] = id;
    }
    return rc;
}

static slc_status put_id(struct encoding *e, int32_t id) {
    slc_status rc = reserve(e, 1);

    if (!rc) e->ids[e->n++] = id;
    return rc;
}

/* A piece of the split. */
static slc_status put_piece(void *user, const char *s, size_t n, slc_err *err) {
    struct encoding *e = user;
    size_t first = e->n, n_ids = n;
    int32_t whole;
    slc_status rc;

    if (e->t->file.ignore_merges && (whole = slc_vocab_find(&e->t->file.vocab, s, n)) >= 0)
        return put_id(e, whole);
    if ((rc = put_bytes(e, s, n))) return rc;
    rc = slc_bpe_merge(&e->t->file.vocab, &e->work, e->ids + first, &n_ids, err);
    e->n = first + n_ids;
    return rc;
}

typedef slc_status cut_fn(struct encoding *e, const char *s, size_t n);

/* Cuts the literals of a set out; what lies between goes to `rest`. */
static slc_status cut_literals(struct encoding *e, const slc_literals *set, const char *s, size_t n,
                               cut_fn *rest) {
    const char *end = s + n;
    const slc_literal *found;
    slc_status rc;

    while (s < end) {
        const char *at = slc_literals_find(set, s, end, &found);

        if (at > s && (rc = rest(e, s, (size_t)(at - s)))) return rc;
        if (found && (rc = put_id(e, found->id))) return rc;
        s = at + (found ? found->len : 0);
    }
    return SLC_OK;
}

static slc_status encode_split(struct encoding *e, const char *s, size_t n) {
    return slc_splitter_run(e->t->split, s, n, put_piece, e, e->err);
}

static slc_status encode_normalized(struct encoding *e, const char *s, size_t n) {
    if (!e->special) return encode_split(e, s, n);
    return cut_literals(e, &e->t->normalized, s, n, encode_split);
}

static slc_status encode_utf8(struct encoding *e, const char *s, size_t n) {
    char *normal = NULL;
    size_t n_normal;
    slc_status rc;

    if (e->t->file.nfc && (rc = slc_nfc(s, n, &normal, &n_normal, e->err))) return rc;
    rc = normal ? encode_normalized(e, normal, n_normal) : encode_normalized(e, s, n);
    free(normal);
    return rc;
}

static slc_status encode_bytes(struct encoding *e, const char *s, size_t n) {
    size_t valid;
    slc_status rc;

    for (size_t at = 0; at < n;) {
        uint32_t len;

        for (valid = 0; (len = slc_utf8_valid(s + at + valid, n - at - valid)); valid += len) {
        }
        if (valid && (rc = encode_utf8(e, s + at, valid))) return rc;
        at += valid;
        if (at < n && (rc = put_bytes(e, s + at++, 1))) return rc;
    }
    return SLC_OK;
}

slc_status slc_tokenizer_encode(const slc_tokenizer *t, const char *text, size_t n, bool special,
                                int32_t **ids, size_t *n_ids, slc_err *err) {
    struct encoding e = {.t = t, .special = special, .err = err};
    slc_status rc;

    *ids = NULL;
    *n_ids = 0;
    if (n > INT32_MAX / 4) /* NFC can triple it; pieces are indexed with 31 bits */
        return slc_fail(err, SLC_E_INVALID, "a text of %zu bytes is too long to tokenize", n);
    rc = reserve(&e, 1);
    if (!rc)
        rc = special ? cut_literals(&e, &t->raw, text, n, encode_bytes) : encode_bytes(&e, text, n);
    slc_bpe_work_deinit(&e.work);
    if (rc) {
        free(e.ids);
        return rc;
    }
    *ids = slc_realloc(e.ids, e.n, sizeof(*e.ids));
    if (!*ids) *ids = e.ids; /* could not shrink */
    *n_ids = e.n;
    return SLC_OK;
}
