/* Head and index of a pack file.
 *
 *     | head 64 | index | texts | resident weights | experts, layer by layer ... |
 *
 * Both directions stand side by side here, field by field: a cursor reads little-endian integers
 * and notes when the bytes run out, its twin writes them. Nothing is allocated from a count that
 * was not first held against the bytes that are there. */
#include "format/pack_index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "format/checkpoint.h"
#include "format/hash64.h"

/* Numbers that stand in files; an enum that grows in the middle would change their meaning. */
_Static_assert(SLC_N_TEXTS == 5, "the index has five texts");
_Static_assert(SLC_W_Q == 2 && SLC_W_QKV == 8 && SLC_W_GATE == 17 && SLC_W_ROUTER == 20 &&
                   SLC_W_N_LAYER == 25,
               "ids of layer weights");
_Static_assert(SLC_W_EMBED == 0 && SLC_W_FINAL_NORM == 1 && SLC_W_LM_HEAD == 2,
               "ids of model weights");
_Static_assert(SLC_DTYPE_F32 == 1 && SLC_DTYPE_F16 == 2 && SLC_DTYPE_BF16 == 3 &&
                   SLC_DTYPE_U32 == 4,
               "codes of dtypes");
_Static_assert(SLC_PART_W == 0 && SLC_PART_SCALES == 1 && SLC_PART_BIASES == 2, "order of parts");
_Static_assert(SLC_N_PROJ == 3, "projections of an expert");

const char slc_pack_magic[8] = {'S', 'L', 'C', 'P', 'A', 'C', 'K', '\n'};
const char slc_pack_unfinished_magic[8] = {'S', 'L', 'C', 'P', 'A', 'R', 'T', '\n'};

/* Fixed sizes within the index. */
enum {
    COUNTS_BYTES = 32,
    RANGE_BYTES = 24,
    SOURCE_BYTES = 40, /* before the name */
    TYPE_BYTES = 16,
    WEIGHT_BYTES = 8 + TYPE_BYTES + RANGE_BYTES,
    LAYER_BYTES = 3 * TYPE_BYTES + 24, /* before the hashes */
    HEAD_HASHED = 56,
    MAX_NAME = 4096,
    MAX_SIDE = 1 << 28, /* rows or columns: far above any config's, and sums stay below 2^64 */
    FLAG_RAW_NORMS = 1,
    FLAG_TIED = 2,
};

/* ---- integers ---- */

typedef struct cursor {
    const uint8_t *at, *end;
    bool short_of; /* something was read beyond the end; it was 0 */
} cursor;

static uint64_t get(cursor *c, size_t n) {
    uint64_t v = 0;

    if ((size_t)(c->end - c->at) < n) {
        c->short_of = true;
        c->at = c->end;
        return 0;
    }
    for (size_t i = n; i > 0; i--) v = v << 8 | c->at[i - 1];
    c->at += n;
    return v;
}

static uint16_t get16(cursor *c) {
    return (uint16_t)get(c, 2);
}
static uint32_t get32(cursor *c) {
    return (uint32_t)get(c, 4);
}
static uint64_t get64(cursor *c) {
    return get(c, 8);
}

static void put(uint8_t **at, uint64_t v, size_t n) {
    for (size_t i = 0; i < n; i++) *(*at)++ = (uint8_t)(v >> 8 * i);
}

/* ---- records ---- */

uint64_t slc_pack_record_layout(const slc_matrix_type *types, int n, uint64_t at[][SLC_N_PARTS]) {
    uint64_t used = 0;

    for (int i = 0; i < n; i++)
        for (int part = 0; part < SLC_N_PARTS; part++) {
            uint64_t bytes = slc_matrix_part_bytes(&types[i], part);

            at[i][part] = slc_align_up(used, SLC_PACK_PART_ALIGN);
            if (bytes) used = at[i][part] + bytes;
        }
    return used;
}

/* ---- head ---- */

slc_status slc_pack_head_parse(const uint8_t head[SLC_PACK_HEAD_BYTES], uint64_t file_bytes,
                               const char *name, slc_pack_head *out, slc_err *err) {
    cursor c = {.at = head + sizeof(slc_pack_magic), .end = head + SLC_PACK_HEAD_BYTES};
    uint64_t version, flags, reserved;

    if (memcmp(head, slc_pack_unfinished_magic, sizeof(slc_pack_magic)) == 0)
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: an unfinished pack: its writer was interrupted; make it again", name);
    if (file_bytes < SLC_PACK_HEAD_BYTES)
        return slc_fail(err, SLC_E_FORMAT, "%s: %" PRIu64 " bytes are too few for a pack", name,
                        file_bytes);
    if (memcmp(head, slc_pack_magic, sizeof(slc_pack_magic)) != 0)
        return slc_fail(err, SLC_E_FORMAT, "%s: not a pack: it does not begin with \"SLCPACK\"",
                        name);
    version = get32(&c);
    if (version != SLC_PACK_VERSION)
        return slc_fail(err, SLC_E_UNSUPPORTED,
                        "%s: pack format version %" PRIu64 ", this program reads version %u", name,
                        version, SLC_PACK_VERSION);
    flags = get32(&c);
    out->file_bytes = get64(&c);
    out->index_off = get64(&c);
    out->index_bytes = get64(&c);
    out->index_hash = get64(&c);
    reserved = get64(&c);
    if (get64(&c) != slc_hash64_of(head, HEAD_HASHED))
        return slc_fail(err, SLC_E_FORMAT, "%s: the pack's head is damaged: its hash is wrong",
                        name);
    if (flags || reserved)
        return slc_fail(err, SLC_E_FORMAT, "%s: the pack's head has reserved fields that are not 0",
                        name);
    if (out->file_bytes != file_bytes)
        return slc_fail(
            err, SLC_E_FORMAT,
            "%s: the pack is %s: its head says %" PRIu64 " bytes, the file has %" PRIu64, name,
            file_bytes < out->file_bytes ? "cut short" : "too long", out->file_bytes, file_bytes);
    if (out->index_off != SLC_PACK_HEAD_BYTES || out->index_bytes > SLC_PACK_MAX_INDEX_BYTES ||
        out->index_bytes > file_bytes - SLC_PACK_HEAD_BYTES)
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: the index is said to be %" PRIu64 " bytes at %" PRIu64
                        ", expected at most %" PRIu64 " at %u",
                        name, out->index_bytes, out->index_off, file_bytes - SLC_PACK_HEAD_BYTES,
                        SLC_PACK_HEAD_BYTES);
    return SLC_OK;
}

void slc_pack_head_put(const slc_pack_head *h, uint8_t out[SLC_PACK_HEAD_BYTES]) {
    uint8_t *at = out + sizeof(slc_pack_magic);

    memcpy(out, slc_pack_magic, sizeof(slc_pack_magic));
    put(&at, SLC_PACK_VERSION, 4);
    put(&at, 0, 4);
    put(&at, h->file_bytes, 8);
    put(&at, h->index_off, 8);
    put(&at, h->index_bytes, 8);
    put(&at, h->index_hash, 8);
    put(&at, 0, 8);
    put(&at, slc_hash64_of(out, HEAD_HASHED), 8);
}

/* ---- the index's pieces ---- */

typedef struct reader {
    cursor c;
    const char *name;
    uint64_t file_bytes, free_from; /* the next range must not begin before */
    slc_pack_index *x;
    slc_err *err;
} reader;

/* Ranges come in the order of the file, so that one look each proves them disjoint. */
static slc_status check_range(reader *r, uint64_t off, uint64_t bytes, uint64_t align,
                              const char *what, uint32_t i) {
    if (off % align || off < r->free_from || off > r->file_bytes || bytes > r->file_bytes - off)
        return slc_fail(r->err, SLC_E_FORMAT,
                        "%s: %s %u is said to be %" PRIu64 " bytes at %" PRIu64
                        ", expected a multiple of %" PRIu64 " from %" PRIu64
                        " on, and an end within %" PRIu64,
                        r->name, what, i, bytes, off, align, r->free_from, r->file_bytes);
    r->free_from = off + bytes;
    return SLC_OK;
}

static slc_pack_range get_range(reader *r) {
    slc_pack_range at;

    at.off = get64(&r->c);
    at.bytes = get64(&r->c);
    at.hash = get64(&r->c);
    return at;
}

static void put_range(uint8_t **at, const slc_pack_range *r) {
    put(at, r->off, 8);
    put(at, r->bytes, 8);
    put(at, r->hash, 8);
}

static bool is_float(uint32_t dtype) {
    return dtype == SLC_DTYPE_F32 || dtype == SLC_DTYPE_F16 || dtype == SLC_DTYPE_BF16;
}

/* One of the two encodings of quant/matrix.h, with nothing left over. */
static slc_status get_type(reader *r, slc_matrix_type *t, const char *what, uint32_t i) {
    uint32_t dtype = (uint32_t)get(&r->c, 1), scales = (uint32_t)get(&r->c, 1);
    uint32_t bits = get16(&r->c), group = get16(&r->c), reserved = get16(&r->c);
    uint32_t rows = get32(&r->c), cols = get32(&r->c);
    bool is_affine = dtype == SLC_DTYPE_U32 && is_float(scales) && bits >= 2 && bits <= 8 &&
                     bits != 7 && (group == 32 || group == 64 || group == 128) && cols % group == 0;
    bool is_plain = is_float(dtype) && !scales && !bits && !group;

    if ((!is_affine && !is_plain) || reserved || !rows || !cols || rows > MAX_SIDE ||
        cols > MAX_SIDE)
        return slc_fail(r->err, SLC_E_FORMAT,
                        "%s: %s %u is said to be %u x %u values of dtype %u with %u bits, groups "
                        "of %u and scales of dtype %u, which is no encoding of version %u",
                        r->name, what, i, rows, cols, dtype, bits, group, scales, SLC_PACK_VERSION);
    *t = (slc_matrix_type){.dtype = (slc_dtype)dtype,
                           .scale_dtype = (slc_dtype)scales,
                           .bits = (uint8_t)bits,
                           .group = (uint16_t)group,
                           .rows = rows,
                           .cols = cols};
    return SLC_OK;
}

static void put_type(uint8_t **at, const slc_matrix_type *t) {
    put(at, t->dtype, 1);
    put(at, t->scale_dtype, 1);
    put(at, t->bits, 2);
    put(at, t->group, 2);
    put(at, 0, 2);
    put(at, t->rows, 4);
    put(at, t->cols, 4);
}

static slc_status get_texts(reader *r) {
    slc_status rc;

    for (uint32_t i = 0; i < SLC_N_TEXTS; i++) {
        slc_pack_range *t = &r->x->text[i];

        *t = get_range(r);
        if (t->off == 0 && t->bytes == 0) continue;
        if ((rc = check_range(r, t->off, t->bytes, SLC_PACK_PART_ALIGN, "text", i))) return rc;
    }
    return SLC_OK;
}

static slc_status get_name(reader *r, slc_pack_source *s, uint32_t n, uint32_t i) {
    if (n == 0 || n > MAX_NAME || (size_t)(r->c.end - r->c.at) < n)
        return slc_fail(r->err, SLC_E_FORMAT,
                        "%s: the name of source %u is said to have %u bytes, expected 1 to %d that "
                        "lie in the index",
                        r->name, i, n, MAX_NAME);
    for (uint32_t k = 0; k < n; k++)
        if (r->c.at[k] < 0x20 || r->c.at[k] == 0x7f)
            return slc_fail(r->err, SLC_E_FORMAT,
                            "%s: the name of source %u holds control characters", r->name, i);
    if (!(s->name = slc_calloc((size_t)n + 1, 1)))
        return slc_fail(r->err, SLC_E_NOMEM, "%s: no memory for a name", r->name);
    memcpy(s->name, r->c.at, n);
    r->c.at += n;
    return SLC_OK;
}

static slc_status get_source(reader *r, uint32_t i) {
    slc_pack_source *s = &r->x->sources[i];
    uint32_t n_name;

    s->bytes = get64(&r->c);
    s->mtime_s = (int64_t)get64(&r->c);
    s->mtime_ns = get32(&r->c);
    n_name = get32(&r->c);
    s->header_hash = get64(&r->c);
    if (get64(&r->c) != 0 || s->mtime_ns >= 1000000000u)
        return slc_fail(r->err, SLC_E_FORMAT,
                        "%s: the entry of source %u has %u nanoseconds or a reserved field that is "
                        "not 0",
                        r->name, i, s->mtime_ns);
    return get_name(r, s, n_name, i);
}

static void put_source(uint8_t **at, const slc_pack_source *s) {
    size_t n = strlen(s->name);

    put(at, s->bytes, 8);
    put(at, (uint64_t)s->mtime_s, 8);
    put(at, s->mtime_ns, 4);
    put(at, n, 4);
    put(at, s->header_hash, 8);
    put(at, 0, 8);
    memcpy(*at, s->name, n);
    *at += n;
}

static slc_status get_weight(reader *r, uint32_t i) {
    slc_pack_weight *w = &r->x->weights[i];
    uint64_t at[1][SLC_N_PARTS];
    slc_status rc;

    w->layer = get32(&r->c);
    w->id = get32(&r->c);
    if ((rc = get_type(r, &w->type, "weight", i))) return rc;
    w->at = get_range(r);
    if (w->at.bytes != slc_pack_record_layout(&w->type, 1, at))
        return slc_fail(r->err, SLC_E_FORMAT,
                        "%s: weight %u is said to take %" PRIu64
                        " bytes, its shape and encoding take %" PRIu64,
                        r->name, i, w->at.bytes, slc_pack_record_layout(&w->type, 1, at));
    return check_range(r, w->at.off, w->at.bytes, SLC_PACK_PART_ALIGN, "weight", i);
}

static void put_weight(uint8_t **at, const slc_pack_weight *w) {
    put(at, w->layer, 4);
    put(at, w->id, 4);
    put_type(at, &w->type);
    put_range(at, &w->at);
}

static slc_status get_layer(reader *r, uint32_t i) {
    slc_pack_layer *l = &r->x->layers[i];
    uint64_t at[SLC_N_PROJ][SLC_N_PARTS], span;
    slc_status rc;

    for (int proj = 0; proj < SLC_N_PROJ; proj++)
        if ((rc = get_type(r, &l->type[proj], "an expert of layer", i))) return rc;
    l->off = get64(&r->c);
    l->bytes = get64(&r->c);
    l->stride = get64(&r->c);
    for (uint32_t e = 0; e < r->x->n_experts; e++) l->hash[e] = get64(&r->c);
    if (l->bytes != slc_pack_record_layout(l->type, SLC_N_PROJ, at) || l->stride < l->bytes ||
        l->stride % SLC_PACK_EXPERT_ALIGN ||
        __builtin_mul_overflow(l->stride, r->x->n_experts, &span))
        return slc_fail(r->err, SLC_E_FORMAT,
                        "%s: an expert of layer %u is said to take %" PRIu64
                        " bytes, one every %" PRIu64 ": its shapes and encodings take %" PRIu64
                        ", in steps that are a multiple of %u",
                        r->name, i, l->bytes, l->stride,
                        slc_pack_record_layout(l->type, SLC_N_PROJ, at), SLC_PACK_EXPERT_ALIGN);
    return check_range(r, l->off, span, SLC_PACK_EXPERT_ALIGN, "the experts of layer", i);
}

static void put_layer(uint8_t **at, const slc_pack_layer *l, uint32_t n_experts) {
    for (int proj = 0; proj < SLC_N_PROJ; proj++) put_type(at, &l->type[proj]);
    put(at, l->off, 8);
    put(at, l->bytes, 8);
    put(at, l->stride, 8);
    for (uint32_t e = 0; e < n_experts; e++) put(at, l->hash[e], 8);
}

/* ---- the whole index ---- */

typedef struct counts {
    uint32_t n_layers, n_experts, flags, n_weights, n_sources;
    uint64_t ignored_bytes;
} counts;

/* The least that tables of these counts take; every count is below 2^32 and every entry small, so
 * that 64 bits hold the sum. */
static uint64_t least_bytes(const counts *n) {
    uint64_t layers = n->n_experts ? n->n_layers : 0;
    uint64_t layer_bytes = LAYER_BYTES + 8 * (uint64_t)n->n_experts, sum;

    if (__builtin_mul_overflow(layers, layer_bytes, &sum)) return UINT64_MAX;
    sum += COUNTS_BYTES + SLC_N_TEXTS * RANGE_BYTES + (uint64_t)n->n_sources * SOURCE_BYTES;
    return sum + (uint64_t)n->n_weights * WEIGHT_BYTES;
}

static slc_status get_counts(reader *r, size_t n_bytes, counts *n) {
    uint32_t reserved;

    n->n_layers = get32(&r->c);
    n->n_experts = get32(&r->c);
    n->flags = get32(&r->c);
    n->n_weights = get32(&r->c);
    n->n_sources = get32(&r->c);
    reserved = get32(&r->c);
    n->ignored_bytes = get64(&r->c);
    if (r->c.short_of || n->n_layers > SLC_MAX_LAYERS || n->n_experts > 1u << 16 ||
        least_bytes(n) > n_bytes)
        return slc_fail(r->err, SLC_E_FORMAT,
                        "%s: the index claims %u layers of %u experts, %u weights and %u sources, "
                        "more than fit in its %zu bytes",
                        r->name, n->n_layers, n->n_experts, n->n_weights, n->n_sources, n_bytes);
    if (reserved || n->flags > (FLAG_RAW_NORMS | FLAG_TIED))
        return slc_fail(r->err, SLC_E_FORMAT,
                        "%s: the index has flags 0x%x and a reserved field of %u, expected no "
                        "flags but 0x3, and 0",
                        r->name, n->flags, reserved);
    return SLC_OK;
}

static slc_status get_tables(reader *r) {
    slc_pack_index *x = r->x;
    slc_status rc;

    if ((rc = get_texts(r))) return rc;
    for (uint32_t i = 0; i < x->n_sources; i++)
        if ((rc = get_source(r, i))) return rc;
    for (uint32_t i = 0; i < x->n_weights; i++)
        if ((rc = get_weight(r, i))) return rc;
    for (uint32_t i = 0; x->n_experts && i < x->n_layers; i++)
        if ((rc = get_layer(r, i))) return rc;
    if (r->c.short_of || r->c.at != r->c.end)
        return slc_fail(r->err, SLC_E_FORMAT, "%s: the index is %s than its tables", r->name,
                        r->c.short_of ? "shorter" : "longer");
    return SLC_OK;
}

slc_status slc_pack_index_parse(const uint8_t *bytes, size_t n, const slc_pack_head *head,
                                const char *name, slc_pack_index **out, slc_err *err) {
    reader r = {.c = {.at = bytes, .end = bytes + n}, .name = name, .err = err};
    counts have;
    slc_status rc;

    *out = NULL;
    if (n != head->index_bytes || slc_hash64_of(bytes, n) != head->index_hash)
        return slc_fail(err, SLC_E_FORMAT, "%s: the pack's index is damaged: its hash is wrong",
                        name);
    if ((rc = get_counts(&r, n, &have))) return rc;
    r.x = slc_pack_index_create(have.n_layers, have.n_experts, have.n_sources, have.n_weights);
    if (!r.x) return slc_fail(err, SLC_E_NOMEM, "%s: no memory for the pack's index", name);
    r.x->norms_are_raw = have.flags & FLAG_RAW_NORMS;
    r.x->tied = have.flags & FLAG_TIED;
    r.x->ignored_bytes = have.ignored_bytes;
    r.file_bytes = head->file_bytes;
    r.free_from = head->index_off + head->index_bytes;
    rc = get_tables(&r);
    if (rc)
        slc_pack_index_destroy(r.x);
    else
        *out = r.x;
    return rc;
}

size_t slc_pack_index_bytes(const slc_pack_index *x) {
    counts n = {x->n_layers, x->n_experts, 0, x->n_weights, x->n_sources, 0};
    uint64_t sum = least_bytes(&n);

    for (uint32_t i = 0; i < x->n_sources; i++) sum += strlen(x->sources[i].name);
    return (size_t)sum;
}

void slc_pack_index_put(const slc_pack_index *x, uint8_t *out) {
    uint8_t *at = out;

    put(&at, x->n_layers, 4);
    put(&at, x->n_experts, 4);
    put(&at, (x->norms_are_raw ? FLAG_RAW_NORMS : 0) | (x->tied ? FLAG_TIED : 0), 4);
    put(&at, x->n_weights, 4);
    put(&at, x->n_sources, 4);
    put(&at, 0, 4);
    put(&at, x->ignored_bytes, 8);
    for (int i = 0; i < SLC_N_TEXTS; i++) put_range(&at, &x->text[i]);
    for (uint32_t i = 0; i < x->n_sources; i++) put_source(&at, &x->sources[i]);
    for (uint32_t i = 0; i < x->n_weights; i++) put_weight(&at, &x->weights[i]);
    for (uint32_t i = 0; x->n_experts && i < x->n_layers; i++)
        put_layer(&at, &x->layers[i], x->n_experts);
}

/* ---- memory ---- */

static bool alloc_layers(slc_pack_index *x) {
    uint64_t *hashes;

    if (!x->n_experts || !x->n_layers) return true;
    if (!(x->layers = slc_calloc(x->n_layers, sizeof(*x->layers)))) return false;
    hashes = slc_calloc((size_t)x->n_layers * x->n_experts, sizeof(*hashes));
    for (uint32_t i = 0; hashes && i < x->n_layers; i++)
        x->layers[i].hash = hashes + (size_t)i * x->n_experts;
    return hashes != NULL;
}

slc_pack_index *slc_pack_index_create(uint32_t n_layers, uint32_t n_experts, uint32_t n_sources,
                                      uint32_t n_weights) {
    slc_pack_index *x = slc_calloc(1, sizeof(*x));

    if (!x) return NULL;
    x->n_layers = n_layers;
    x->n_experts = n_experts;
    x->n_sources = n_sources;
    x->n_weights = n_weights;
    /* one entry at least: an empty table is no lack of memory */
    x->sources = slc_calloc((size_t)n_sources + 1, sizeof(*x->sources));
    x->weights = slc_calloc((size_t)n_weights + 1, sizeof(*x->weights));
    if (x->sources && x->weights && alloc_layers(x)) return x;
    slc_pack_index_destroy(x);
    return NULL;
}

void slc_pack_index_destroy(slc_pack_index *x) {
    if (!x) return;
    for (uint32_t i = 0; x->sources && i < x->n_sources; i++) free(x->sources[i].name);
    if (x->layers) free(x->layers[0].hash);
    free(x->layers);
    free(x->weights);
    free(x->sources);
    free(x);
}
