/* The reader of tokenizer.json: JSON events in, vocabulary and settings out.
 *
 * The parser reports events; the reader keeps the path to the current value as a few small numbers
 * (one per nesting level) and hands each value to the section it belongs to:
 *
 *     added_tokens[]           {id, content, special, ...}
 *     normalizer               a component, or a Sequence of them
 *     pre_tokenizer            likewise; so are post_processor and decoder
 *     model                    options, vocab {text: id}, merges ["a b"] or [["a","b"]]
 *
 * In the file, a token is spelled in the byte-level alphabet: one character per byte, printable
 * bytes as themselves, the other 68 as U+0100 and up. Texts are turned into bytes on the way in.
 *
 * Merges name tokens by text, so they need the vocabulary. Should a file give merges first, they
 * are skipped and the file is read a second time for them alone. */
#include "format/tokenizer_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "base/alloc.h"
#include "base/fail.h"

#define CHUNK_BYTES ((size_t)64 << 10)
#define MAX_DEPTH   8u
#define N_ALPHABET  0x144u /* one past the last character of the byte-level alphabet */

/* What a ByteLevel pre-tokenizer splits by when it is not told otherwise. */
static const char gpt2_split[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

enum key {
    KEY_OTHER,
    KEY_ITEM, /* of an array */
    KEY_ADDED_TOKENS,
    KEY_NORMALIZER,
    KEY_PRE_TOKENIZER,
    KEY_POST_PROCESSOR,
    KEY_DECODER,
    KEY_MODEL,
    KEY_ID,
    KEY_CONTENT,
    KEY_SPECIAL,
    KEY_NORMALIZED,
    KEY_SINGLE_WORD,
    KEY_LSTRIP,
    KEY_RSTRIP,
    KEY_TYPE,
    KEY_PATTERN,
    KEY_REGEX,
    KEY_BEHAVIOR,
    KEY_INVERT,
    KEY_ADD_PREFIX_SPACE,
    KEY_USE_REGEX,
    KEY_VOCAB,
    KEY_MERGES,
    KEY_DROPOUT,
    KEY_UNK_TOKEN,
    KEY_CONTINUING_SUBWORD_PREFIX,
    KEY_END_OF_WORD_SUFFIX,
    KEY_BYTE_FALLBACK,
    KEY_IGNORE_MERGES,
    N_KEYS
};

static const char *const key_names[N_KEYS] = {
    [KEY_OTHER] = "?",
    [KEY_ITEM] = "[]",
    [KEY_ADDED_TOKENS] = "added_tokens",
    [KEY_NORMALIZER] = "normalizer",
    [KEY_PRE_TOKENIZER] = "pre_tokenizer",
    [KEY_POST_PROCESSOR] = "post_processor",
    [KEY_DECODER] = "decoder",
    [KEY_MODEL] = "model",
    [KEY_ID] = "id",
    [KEY_CONTENT] = "content",
    [KEY_SPECIAL] = "special",
    [KEY_NORMALIZED] = "normalized",
    [KEY_SINGLE_WORD] = "single_word",
    [KEY_LSTRIP] = "lstrip",
    [KEY_RSTRIP] = "rstrip",
    [KEY_TYPE] = "type",
    [KEY_PATTERN] = "pattern",
    [KEY_REGEX] = "Regex",
    [KEY_BEHAVIOR] = "behavior",
    [KEY_INVERT] = "invert",
    [KEY_ADD_PREFIX_SPACE] = "add_prefix_space",
    [KEY_USE_REGEX] = "use_regex",
    [KEY_VOCAB] = "vocab",
    [KEY_MERGES] = "merges",
    [KEY_DROPOUT] = "dropout",
    [KEY_UNK_TOKEN] = "unk_token",
    [KEY_CONTINUING_SUBWORD_PREFIX] = "continuing_subword_prefix",
    [KEY_END_OF_WORD_SUFFIX] = "end_of_word_suffix",
    [KEY_BYTE_FALLBACK] = "byte_fallback",
    [KEY_IGNORE_MERGES] = "ignore_merges",
};

/* A JSON scalar. */
struct value {
    enum { IS_NULL, IS_BOOL, IS_INT, IS_DOUBLE, IS_STRING } kind;
    int64_t i; /* IS_BOOL, IS_INT */
    double d;
    const char *s; /* IS_STRING: n bytes, not terminated */
    size_t n;
};

/* One {"type": ...} of a pipeline section, collected until its closing brace. */
struct component {
    char type[32];
    char *regex;
    bool isolated, invert, add_prefix_space, use_regex;
};

struct added {
    int64_t id;
    slc_span content;                 /* in the vocabulary's text */
    bool special, normalized, placed; /* placed: matching depends on what stands around it */
};

struct reader {
    slc_tokenizer_json *out;
    slc_err *err;
    slc_status rc; /* why the parse was cancelled */

    uint8_t path[MAX_DEPTH]; /* enum key of each open container */
    uint32_t depth, deeper;  /* open containers; those beyond MAX_DEPTH, which are skipped */

    int16_t byte_of[N_ALPHABET]; /* character to byte, -1 for none */
    char *scratch;               /* a vocabulary key, or the bytes of a merge's two halves */
    size_t n_scratch, cap_scratch;
    bool scratch_is_bytes; /* the text was all of the byte-level alphabet */

    struct component part[2]; /* of a pipeline section: the outer one, an item of a Sequence */
    struct added item, *added;
    uint32_t n_added;
    bool has_byte_level, has_model, has_merges, only_merges, merges_early, needs_all_bytes;
    int32_t pair[2];
    uint32_t n_pair;
};

/* ---- texts ---- */

static void alphabet_init(struct reader *r) {
    uint32_t next = 0x100;

    memset(r->byte_of, 0xff, sizeof(r->byte_of));
    for (uint32_t b = 0; b < 256; b++) {
        bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad);

        r->byte_of[printable ? b : next++] = (int16_t)b;
    }
}

static bool scratch_room(struct reader *r, size_t need) {
    size_t cap = r->cap_scratch ? r->cap_scratch : 256;
    char *p;

    if (need <= r->cap_scratch) return true;
    while (cap < need) cap *= 2; /* need is bounded by the size of the file */
    if (!(p = slc_realloc(r->scratch, cap, 1))) {
        r->rc = slc_fail(r->err, SLC_E_NOMEM, "no memory for a token of %zu bytes", need);
        return false;
    }
    r->scratch = p;
    r->cap_scratch = cap;
    return true;
}

/* Writes the bytes that s spells to dst (room for n). Returns how many, or SIZE_MAX when a
 * character is outside the alphabet. Its characters have one or two bytes of UTF-8. */
static size_t spelled_bytes(const struct reader *r, const char *s, size_t n, char *dst) {
    size_t n_out = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t c = (uint8_t)s[i];

        if (c >= 0x80 && i + 1 < n) c = (c & 0x3f) << 6 | ((uint8_t)s[++i] & 0x3f);
        if (c >= N_ALPHABET || r->byte_of[c] < 0) return SIZE_MAX;
        dst[n_out++] = (char)r->byte_of[c];
    }
    return n_out;
}

/* Puts the bytes of a token's text in scratch; a text outside the alphabet stays as it is. */
static bool scratch_token(struct reader *r, const char *s, size_t n) {
    if (!scratch_room(r, n)) return false;
    r->n_scratch = spelled_bytes(r, s, n, r->scratch);
    r->scratch_is_bytes = r->n_scratch != SIZE_MAX;
    if (r->scratch_is_bytes) return true;
    memcpy(r->scratch, s, n);
    r->n_scratch = n;
    return true;
}

static int32_t find_token(struct reader *r, const char *s, size_t n) {
    int32_t id = -1;

    if (!scratch_token(r, s, n)) return -1;
    if (r->scratch_is_bytes) id = slc_vocab_find(&r->out->vocab, r->scratch, r->n_scratch);
    if (id < 0)
        r->rc =
            slc_fail(r->err, SLC_E_FORMAT, "a merge names \"%.*s\", which is not in the vocabulary",
                     n < 100 ? (int)n : 100, s);
    return id;
}

/* ---- refusals and checks ---- */

static int refuse(struct reader *r, const char *section, const char *what) {
    r->rc = slc_fail(r->err, SLC_E_UNSUPPORTED, "%s %s is not supported", section, what);
    return 0;
}

static int damaged(struct reader *r, const char *what, const char *expected) {
    r->rc = slc_fail(r->err, SLC_E_FORMAT, "%s: expected %s", what, expected);
    return 0;
}

static bool is_true(const struct value *v) {
    return v->kind == IS_BOOL && v->i;
}

static bool is_text(const struct value *v, const char *text) {
    return v->kind == IS_STRING && v->n == strlen(text) && memcmp(v->s, text, v->n) == 0;
}

/* null, false, 0 and "" all switch an option off. */
static bool is_off(const struct value *v) {
    switch (v->kind) {
    case IS_NULL: return true;
    case IS_BOOL:
    case IS_INT: return v->i == 0;
    case IS_DOUBLE: return v->d == 0;
    case IS_STRING: return v->n == 0;
    }
    return false;
}

/* ---- sections: the top-level values that matter ---- */

static bool is_section(const struct reader *r) {
    return r->depth == 1 && r->path[0] >= KEY_ADDED_TOKENS && r->path[0] <= KEY_MODEL;
}

static int wrong_section(struct reader *r) {
    return damaged(r, key_names[r->path[0]],
                   r->path[0] == KEY_ADDED_TOKENS ? "an array" : "an object");
}

/* ---- added_tokens ---- */

static int added_value(struct reader *r, const struct value *v) {
    struct added *a = &r->item;

    if (r->depth == 2) return damaged(r, "added_tokens: an entry", "an object");
    if (r->depth != 3) return 1;
    switch (r->path[2]) {
    case KEY_ID:
        if (v->kind != IS_INT) return damaged(r, "added_tokens: id", "an integer");
        a->id = v->i;
        return 1;
    case KEY_CONTENT:
        if (v->kind != IS_STRING) return damaged(r, "added_tokens: content", "a string");
        r->rc = slc_vocab_store(&r->out->vocab, v->s, v->n, &a->content, r->err);
        return !r->rc;
    case KEY_SPECIAL: a->special = is_true(v); return 1;
    case KEY_NORMALIZED: a->normalized = is_true(v); return 1;
    case KEY_SINGLE_WORD:
    case KEY_LSTRIP:
    case KEY_RSTRIP: a->placed |= is_true(v); return 1;
    default: return 1;
    }
}

static int added_end(struct reader *r) {
    struct added *list;

    if (r->item.id < 0) return damaged(r, "added_tokens: an entry", "an id of 0 or more");
    if (r->item.placed)
        return refuse(r, "added_tokens:", "an entry with single_word, lstrip or rstrip");
    if (r->n_added == SLC_VOCAB_MAX_IDS)
        return refuse(r, "added_tokens:", "such a number of entries");
    if ((r->n_added & (r->n_added - 1)) == 0) { /* full at each power of two */
        list = slc_realloc(r->added, r->n_added ? (size_t)r->n_added * 2 : 1, sizeof(*list));
        if (!list) {
            r->rc = slc_fail(r->err, SLC_E_NOMEM, "no memory for the added tokens");
            return 0;
        }
        r->added = list;
    }
    r->added[r->n_added++] = r->item;
    return 1;
}

/* ---- normalizer, pre_tokenizer, post_processor, decoder ---- */

static bool in_pipeline(const struct reader *r) {
    return r->depth >= 2 && r->path[0] >= KEY_NORMALIZER && r->path[0] <= KEY_DECODER;
}

static void component_reset(struct component *c) {
    free(c->regex);
    *c = (struct component){.use_regex = true};
}

static int component_regex(struct reader *r, struct component *c, const struct value *v) {
    if (v->kind != IS_STRING) return damaged(r, "pre_tokenizer: Regex", "a string");
    free(c->regex);
    if (!(c->regex = slc_calloc(v->n + 1, 1))) {
        r->rc = slc_fail(r->err, SLC_E_NOMEM, "no memory for the split pattern");
        return 0;
    }
    memcpy(c->regex, v->s, v->n);
    if (strlen(c->regex) != v->n) return refuse(r, "pre_tokenizer", "Regex with a NUL character");
    return 1;
}

static int component_value(struct reader *r, const struct value *v) {
    uint8_t leaf = r->path[r->depth - 1];
    struct component *c = &r->part[r->depth > 3];

    if (leaf == KEY_TYPE) {
        if (v->kind != IS_STRING) return damaged(r, key_names[r->path[0]], "a string as type");
        if (r->depth != 2 && r->depth != 4)
            return refuse(r, key_names[r->path[0]], "with a Sequence inside a Sequence");
        snprintf(c->type, sizeof(c->type), "%.*s", v->n < 100 ? (int)v->n : 100, v->s);
    }
    if (leaf == KEY_REGEX && r->path[r->depth - 2] == KEY_PATTERN) return component_regex(r, c, v);
    if (r->depth != 2 && r->depth != 4) return 1;
    if (leaf == KEY_BEHAVIOR) c->isolated = is_text(v, "Isolated");
    if (leaf == KEY_INVERT) c->invert = is_true(v);
    if (leaf == KEY_ADD_PREFIX_SPACE) c->add_prefix_space = is_true(v);
    if (leaf == KEY_USE_REGEX) c->use_regex = is_true(v);
    return 1;
}

static int split_end(struct reader *r, struct component *c) {
    const char *section = key_names[KEY_PRE_TOKENIZER];

    if (!c->regex) return refuse(r, section, "Split by a pattern that is no Regex");
    if (!c->isolated || c->invert) return refuse(r, section, "Split that is not \"Isolated\"");
    if (r->out->split || r->has_byte_level)
        return refuse(r, section, "with a Split after another part");
    r->out->split = c->regex;
    c->regex = NULL;
    return 1;
}

static int byte_level_end(struct reader *r, const struct component *c) {
    const char *section = key_names[KEY_PRE_TOKENIZER];

    if (c->add_prefix_space) return refuse(r, section, "ByteLevel with add_prefix_space");
    if (r->has_byte_level) return refuse(r, section, "with two ByteLevel parts");
    r->has_byte_level = true;
    if (!c->use_regex) return 1;
    if (r->out->split) return refuse(r, section, "ByteLevel with use_regex after a Split");
    if ((r->out->split = strdup(gpt2_split))) return 1;
    r->rc = slc_fail(r->err, SLC_E_NOMEM, "no memory for the split pattern");
    return 0;
}

static int component_end(struct reader *r) {
    struct component *c = &r->part[r->depth > 3];
    const char *section = key_names[r->path[0]];
    bool byte_level = strcmp(c->type, "ByteLevel") == 0;

    if (strcmp(c->type, "Sequence") == 0 && r->depth == 2) return 1;
    switch (r->path[0]) {
    case KEY_NORMALIZER:
        if (strcmp(c->type, "NFC")) break;
        r->out->nfc = true;
        return 1;
    case KEY_PRE_TOKENIZER:
        if (byte_level) return byte_level_end(r, c);
        if (strcmp(c->type, "Split")) break;
        return split_end(r, c);
    default: /* a ByteLevel post_processor only trims offsets; the decoder's is the one we have */
        if (byte_level) return 1;
    }
    return refuse(r, section, c->type[0] ? c->type : "without a type");
}

/* ---- model ---- */

static int model_option(struct reader *r, const struct value *v) {
    uint8_t key = r->path[1];

    switch (key) {
    case KEY_TYPE:
        if (!is_text(v, "BPE")) return refuse(r, "model", "of a type other than BPE");
        return 1;
    case KEY_VOCAB: return damaged(r, "model: vocab", "an object");
    case KEY_MERGES: return damaged(r, "model: merges", "an array");
    case KEY_IGNORE_MERGES: r->out->ignore_merges = is_true(v); return 1;
    case KEY_DROPOUT:
    case KEY_CONTINUING_SUBWORD_PREFIX:
    case KEY_END_OF_WORD_SUFFIX:
        if (!is_off(v)) return refuse(r, "model", key_names[key]);
        return 1;
    case KEY_UNK_TOKEN: /* of no effect where every byte has a token */
    case KEY_BYTE_FALLBACK: r->needs_all_bytes |= !is_off(v); return 1;
    default: return 1;
    }
}

static int merge_add(struct reader *r, int32_t left, int32_t right) {
    slc_vocab *v = &r->out->vocab;
    slc_span a = v->tokens[left], b = v->tokens[right];
    int32_t merged;

    if (!scratch_room(r, (size_t)a.len + b.len)) return 0;
    memcpy(r->scratch, v->text + a.off, a.len);
    memcpy(r->scratch + a.len, v->text + b.off, b.len);
    merged = slc_vocab_find(v, r->scratch, (size_t)a.len + b.len);
    if (merged < 0) {
        r->rc = slc_fail(r->err, SLC_E_FORMAT,
                         "the merge of tokens %d and %d makes a text that is not in the vocabulary",
                         left, right);
        return 0;
    }
    r->rc = slc_vocab_add_merge(v, left, right, merged, r->err);
    return !r->rc;
}

/* "left right": the byte-level alphabet has no space. */
static int merge_string(struct reader *r, const struct value *v) {
    const char *space = memchr(v->s, ' ', v->n);
    size_t n_left = space ? (size_t)(space - v->s) : 0;
    int32_t left, right;

    if (!space) return damaged(r, "model: a merge", "two tokens with a space between them");
    if ((left = find_token(r, v->s, n_left)) < 0) return 0;
    if ((right = find_token(r, space + 1, v->n - n_left - 1)) < 0) return 0;
    return merge_add(r, left, right);
}

static int merge_value(struct reader *r, const struct value *v) {
    if (r->merges_early) return 1;
    if (v->kind != IS_STRING) return damaged(r, "model: a merge", "a string or two");
    if (r->depth == 3) return merge_string(r, v);
    if (r->depth != 4 || r->n_pair == 2) return damaged(r, "model: a merge", "two strings");
    return (r->pair[r->n_pair++] = find_token(r, v->s, v->n)) >= 0;
}

static int merge_pair_end(struct reader *r) {
    if (r->merges_early) return 1;
    if (r->n_pair != 2) return damaged(r, "model: a merge", "two strings");
    r->n_pair = 0;
    return merge_add(r, r->pair[0], r->pair[1]);
}

static int vocab_value(struct reader *r, const struct value *v) {
    if (r->depth != 3 || v->kind != IS_INT) return damaged(r, "model: a vocab entry", "an integer");
    r->rc =
        slc_vocab_add(&r->out->vocab, v->i, r->scratch, r->n_scratch, r->scratch_is_bytes, r->err);
    return !r->rc;
}

/* ---- events ---- */

static bool in_model(const struct reader *r, enum key part) {
    return r->depth >= 3 && r->path[0] == KEY_MODEL && r->path[1] == part;
}

static int on_value(struct reader *r, const struct value *v) {
    if (r->deeper || !r->depth) return 1;
    if (in_model(r, KEY_MERGES)) return merge_value(r, v);
    if (r->only_merges) return 1;
    if (is_section(r)) return v->kind == IS_NULL || wrong_section(r);
    if (in_model(r, KEY_VOCAB)) return vocab_value(r, v);
    if (r->depth == 2 && r->path[0] == KEY_MODEL) return model_option(r, v);
    if (r->path[0] == KEY_ADDED_TOKENS) return added_value(r, v);
    if (in_pipeline(r)) return component_value(r, v);
    return 1;
}

static int on_null(void *ctx) {
    return on_value(ctx, &(struct value){.kind = IS_NULL});
}
static int on_bool(void *ctx, int b) {
    return on_value(ctx, &(struct value){.kind = IS_BOOL, .i = b});
}
static int on_int(void *ctx, long long i) {
    return on_value(ctx, &(struct value){.kind = IS_INT, .i = i});
}
static int on_double(void *ctx, double d) {
    return on_value(ctx, &(struct value){.kind = IS_DOUBLE, .d = d});
}
static int on_string(void *ctx, const unsigned char *s, size_t n) {
    return on_value(ctx, &(struct value){.kind = IS_STRING, .s = (const char *)s, .n = n});
}

static int on_key(void *ctx, const unsigned char *s, size_t n) {
    struct reader *r = ctx;
    uint8_t *leaf = &r->path[r->depth - 1];

    if (r->deeper) return 1;
    if (in_model(r, KEY_VOCAB)) return r->only_merges || scratch_token(r, (const char *)s, n);
    for (*leaf = N_KEYS - 1; *leaf != KEY_OTHER; --*leaf)
        if (strlen(key_names[*leaf]) == n && memcmp(key_names[*leaf], s, n) == 0) break;
    return 1;
}

/* A container opens: its kind must suit the place, then the place is one level deeper. */
static int on_start(struct reader *r, bool is_array) {
    bool top = r->depth == 2 && r->path[0] == KEY_MODEL;

    if (r->deeper || r->depth == MAX_DEPTH) {
        r->deeper++;
        return 1;
    }
    if (r->depth == 0 && is_array) return damaged(r, "tokenizer", "a JSON object");
    if (is_section(r) && is_array != (r->path[0] == KEY_ADDED_TOKENS)) return wrong_section(r);
    if (top && r->path[1] == KEY_VOCAB) {
        if (is_array) return damaged(r, "model: vocab", "an object");
        if (r->has_model && !r->only_merges)
            return damaged(r, "model: vocab", "to stand there once");
        r->has_model = true;
    }
    if (top && r->path[1] == KEY_MERGES) {
        if (!is_array) return damaged(r, "model: merges", "an array");
        if (r->has_merges && !r->only_merges)
            return damaged(r, "model: merges", "to stand there once");
        r->has_merges = true;
        r->merges_early = !r->has_model;
    }
    if (in_model(r, KEY_VOCAB)) return damaged(r, "model: a vocab entry", "an integer");
    if (in_model(r, KEY_MERGES)) {
        if (!is_array || r->depth != 3) return damaged(r, "model: a merge", "two strings");
        r->n_pair = 0;
    }
    if (r->depth == 2 && r->path[0] == KEY_ADDED_TOKENS) {
        if (is_array) return damaged(r, "added_tokens: an entry", "an object");
        r->item = (struct added){.id = -1};
    }
    r->path[r->depth++] = is_array ? KEY_ITEM : KEY_OTHER;
    if (in_pipeline(r) && !is_array && (r->depth == 2 || r->depth == 4))
        component_reset(&r->part[r->depth == 4]);
    return 1;
}

static int on_end(struct reader *r, bool is_array) {
    int ok = 1;

    if (r->deeper) {
        r->deeper--;
        return 1;
    }
    if (in_model(r, KEY_MERGES) && r->depth == 4) {
        ok = merge_pair_end(r);
    } else if (!r->only_merges && !is_array) {
        if (in_pipeline(r) && (r->depth == 2 || r->depth == 4)) ok = component_end(r);
        if (r->depth == 3 && r->path[0] == KEY_ADDED_TOKENS) ok = added_end(r);
    }
    r->depth--;
    return ok;
}

static int on_start_map(void *ctx) {
    return on_start(ctx, false);
}
static int on_end_map(void *ctx) {
    return on_end(ctx, false);
}
static int on_start_array(void *ctx) {
    return on_start(ctx, true);
}
static int on_end_array(void *ctx) {
    return on_end(ctx, true);
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_bool,
    .yajl_integer = on_int,
    .yajl_double = on_double,
    .yajl_string = on_string,
    .yajl_map_key = on_key,
    .yajl_start_map = on_start_map,
    .yajl_end_map = on_end_map,
    .yajl_start_array = on_start_array,
    .yajl_end_array = on_end_array,
};

/* ---- the whole ---- */

/* Where the JSON text comes from: a file, read in chunks, or memory. */
struct source {
    const char *name;
    uint64_t bytes;
    const slc_file *file; /* NULL: memory */
    uint64_t off;         /* in the file */
    const char *memory;
    char *chunk; /* [CHUNK_BYTES], for a file */
};

static slc_status parse_failed(struct reader *r, yajl_handle y, const struct source *src,
                               uint64_t at) {
    unsigned char *text;

    if (!r->rc) {
        text = yajl_get_error(y, 0, NULL, 0);
        r->rc = slc_fail(r->err, SLC_E_FORMAT, "%s", text ? (const char *)text : "not JSON");
        yajl_free_error(y, text);
        if (r->err) r->err->msg[strcspn(r->err->msg, "\n")] = 0;
    }
    slc_fail_context(r->err, "%s: near byte %llu", src->name,
                     (unsigned long long)(at + yajl_get_bytes_consumed(y)));
    return r->rc;
}

static slc_status parse_all(struct reader *r, yajl_handle y, const struct source *src) {
    uint64_t at = 0;
    slc_status rc;

    r->depth = r->deeper = 0;
    while (at < src->bytes) {
        uint64_t left = src->bytes - at;
        size_t n = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
        const char *chunk = src->file ? src->chunk : src->memory + at;

        if (src->file && (rc = slc_file_read(src->file, src->off + at, src->chunk, n, r->err)))
            return rc;
        if (yajl_parse(y, (const unsigned char *)chunk, n)) return parse_failed(r, y, src, at);
        at += n;
    }
    if (yajl_complete_parse(y)) return parse_failed(r, y, src, at);
    return SLC_OK;
}

static slc_status pass(struct reader *r, const struct source *src) {
    yajl_handle y = yajl_alloc(&callbacks, NULL, r);
    slc_status rc;

    if (!y) return slc_fail(r->err, SLC_E_NOMEM, "%s: no memory for the parser", src->name);
    rc = parse_all(r, y, src);
    yajl_free(y);
    return rc;
}

/* Added tokens usually stand in the vocabulary too: then both must mean the same. */
static bool added_agrees(struct reader *r, const struct added *a, const char *content) {
    const slc_vocab *v = &r->out->vocab;
    int32_t known = r->scratch_is_bytes ? slc_vocab_find(v, r->scratch, r->n_scratch) : -1;
    slc_span taken = a->id < v->n_ids ? v->tokens[a->id] : (slc_span){0, 0};

    if (known >= 0) return known == a->id;
    return !taken.len ||
           (taken.len == a->content.len && memcmp(v->text + taken.off, content, taken.len) == 0);
}

static slc_status place_added(struct reader *r) {
    slc_tokenizer_json *out = r->out;

    if (!(out->added = slc_calloc(r->n_added, sizeof(*out->added))))
        return slc_fail(r->err, SLC_E_NOMEM, "no memory for the added tokens");
    for (uint32_t i = 0; i < r->n_added; i++) {
        const struct added *a = &r->added[i];
        const char *content = out->vocab.text + a->content.off;

        if (!a->content.len) continue; /* never matches; the id has no text */
        if (!scratch_token(r, content, a->content.len)) return r->rc;
        if (!added_agrees(r, a, content))
            return slc_fail(
                r->err, SLC_E_FORMAT, "added token \"%.*s\" has id %lld, the vocabulary disagrees",
                a->content.len < 100 ? (int)a->content.len : 100, content, (long long)a->id);
        if ((r->rc = slc_vocab_set(&out->vocab, a->id, a->content, r->err))) return r->rc;
        out->added[out->n_added++] = (slc_added_token){(int32_t)a->id, a->special, a->normalized};
    }
    return SLC_OK;
}

static slc_status check_all(struct reader *r) {
    slc_tokenizer_json *out = r->out;

    if (!r->has_model) return slc_fail(r->err, SLC_E_FORMAT, "there is no model with a vocab");
    if (!r->has_byte_level)
        return slc_fail(r->err, SLC_E_UNSUPPORTED, "a pre_tokenizer without ByteLevel");
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;

        out->byte_id[b] = slc_vocab_find(&out->vocab, &byte, 1);
        if (r->needs_all_bytes && out->byte_id[b] < 0)
            return slc_fail(r->err, SLC_E_UNSUPPORTED,
                            "model with unk_token or byte_fallback and no token for byte 0x%02x",
                            b);
    }
    if (!r->has_merges) return slc_fail(r->err, SLC_E_FORMAT, "the model has no merges");
    return SLC_OK;
}

static slc_status read_source(struct reader *r, const struct source *src) {
    slc_status rc;

    if (src->bytes > SLC_TOKENIZER_JSON_MAX_BYTES)
        return slc_fail(r->err, SLC_E_UNSUPPORTED, "%s: %llu bytes, at most %u are read", src->name,
                        (unsigned long long)src->bytes, SLC_TOKENIZER_JSON_MAX_BYTES);
    alphabet_init(r);
    if ((rc = pass(r, src))) return rc;
    if (r->merges_early) {
        r->only_merges = true;
        r->merges_early = false;
        if ((rc = pass(r, src))) return rc;
    }
    if ((rc = check_all(r)) || (rc = place_added(r))) {
        slc_fail_context(r->err, "%s", src->name);
        return rc;
    }
    slc_vocab_finish(&r->out->vocab, r->out->ignore_merges);
    return SLC_OK;
}

static slc_status read_into(const struct source *src, slc_tokenizer_json *out, slc_err *err) {
    struct reader r = {.out = out, .err = err};
    slc_status rc;

    *out = (slc_tokenizer_json){0};
    rc = read_source(&r, src);
    if (rc) slc_tokenizer_json_deinit(out);
    component_reset(&r.part[0]);
    component_reset(&r.part[1]);
    free(r.scratch);
    free(r.added);
    return rc;
}

slc_status slc_tokenizer_json_read(const slc_side_text *text, slc_tokenizer_json *out,
                                   slc_err *err) {
    struct source src = {
        .name = text->file->path, .bytes = text->bytes, .file = text->file, .off = text->off};
    slc_status rc;

    *out = (slc_tokenizer_json){0};
    src.chunk = slc_calloc(CHUNK_BYTES, 1);
    rc = src.chunk ? read_into(&src, out, err)
                   : slc_fail(err, SLC_E_NOMEM, "%s: no memory to read it", src.name);
    free(src.chunk);
    return rc;
}

slc_status slc_tokenizer_json_parse(const char *json, size_t n, const char *name,
                                    slc_tokenizer_json *out, slc_err *err) {
    struct source src = {.name = name, .bytes = n, .memory = json};

    return read_into(&src, out, err);
}

void slc_tokenizer_json_deinit(slc_tokenizer_json *t) {
    slc_vocab_deinit(&t->vocab);
    free(t->added);
    free(t->split);
    *t = (slc_tokenizer_json){0};
}
