/* A trained checkpoint with more channels, of which the new ones contribute exactly nothing.
 *
 * With H channels widened to f^2 H, f a power of two:
 *
 *   stream      [f x, 0]: embedding rows and the products that are added to the stream get scales
 *               and offsets times f. Powers of two are exact, so every sum and product on the way
 *               is f times the old one, to the bit.
 *   rms norm    mean((f x)^2) over f^2 H channels = mean(x^2) over H: the same float, the same
 *               epsilon. Input, post-attention and final norm weights are divided by f, and what
 *               the layer sees is the old vector, followed by zeros.
 *   products    new rows and columns have scale = offset = 0: +0 is added to a sum that is not -0.
 *               They are appended, so old elements keep their groups and their lanes.
 *   experts     new channels between gate/up and down are silu(0) * 0 = 0.
 *   lm_head     sees the old vector: not scaled, and therefore no longer the embedding.
 *
 * New codes are random bits: zeros would flatter disks that compress. Heads keep their sizes, and
 * with them their norms, the convolution and the recurrent state. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "convert/synth_checkpoint.h"
#include "convert/synth_noise.h"

typedef struct inflation {
    slc_checkpoint *from;
    slc_config cfg; /* of the result */
    float f;        /* the stream's factor */
    uint64_t seed;
    uint8_t *src; /* [src_bytes], rows as read */
    size_t src_bytes;
} inflation;

/* ---- sizes ---- */

/* The power of two whose square is new / old; 0 if there is none. */
static uint32_t stream_factor(uint32_t old, uint32_t new) {
    for (uint32_t f = 1; f <= 256; f *= 2)
        if ((uint64_t)old * f * f == new) return f;
    return 0;
}

static slc_status choose_hidden(inflation *x, uint32_t hidden, slc_err *err) {
    uint32_t old = x->from->cfg.hidden_size, f = stream_factor(old, hidden ? hidden : old);

    if (!f)
        return slc_fail(err, SLC_E_INVALID,
                        "%s: the hidden size is %u, expected a new one of %u, %u, %u, ..., found "
                        "%u: the ratio must be a power of four",
                        x->from->dir, old, 4 * old, 16 * old, 64 * old, hidden);
    x->f = (float)f;
    x->cfg.hidden_size = old * f * f;
    return SLC_OK;
}

static slc_status choose_experts(inflation *x, uint32_t size, slc_err *err) {
    const slc_config *old = &x->from->cfg;

    if (!size) return SLC_OK;
    if (!slc_config_is_moe(old))
        return slc_fail(err, SLC_E_INVALID,
                        "%s: an expert size was given for a dense model; leave it out",
                        x->from->dir);
    if (size < old->expert_size)
        return slc_fail(err, SLC_E_INVALID,
                        "%s: experts are %u channels wide, expected at least as many, found %u",
                        x->from->dir, old->expert_size, size);
    x->cfg.expert_size = size;
    if (size > old->shared_expert_size) x->cfg.shared_expert_size = size;
    return SLC_OK;
}

/* ---- where things are in the old checkpoint ---- */

static slc_matrix_type old_type(const inflation *x, slc_synth_id id) {
    const slc_checkpoint *c = x->from;

    if (id.layer == SLC_SYNTH_MODEL) return c->w[id.which].type;
    if (slc_synth_is_expert(id)) return c->layers[id.layer].expert[id.which - SLC_SYNTH_EXPERT];
    return c->layers[id.layer].w[id.which].type;
}

/* Of matrix `i` of the stack. */
static slc_extent old_extent(const inflation *x, slc_synth_id id, uint32_t i, int part) {
    const slc_checkpoint *c = x->from;

    if (id.layer == SLC_SYNTH_MODEL) return c->w[id.which].part[part];
    if (slc_synth_is_expert(id))
        return slc_checkpoint_expert(c, id.layer, i, (int)(id.which - SLC_SYNTH_EXPERT), part);
    return c->layers[id.layer].w[id.which].part[part];
}

/* A slc_synth_encode_fn: the old encoding with the new shape. */
static slc_status encode(void *ctx, slc_synth_weight *w, slc_err *err) {
    const inflation *x = ctx;
    slc_matrix_type t = old_type(x, w->id);
    bool wider = t.rows != w->type.rows || t.cols != w->type.cols;

    if (wider && w->form == SLC_FORM_MATRIX) {
        if (!slc_matrix_is_affine(&t))
            return slc_fail(err, SLC_E_UNSUPPORTED,
                            "%s: %s is stored as %s, expected the affine encoding: only there can "
                            "new channels hold random bits and count for nothing",
                            x->from->dir, w->module, slc_dtype_name(t.dtype));
        if (w->type.cols % t.group)
            return slc_fail(err, SLC_E_INVALID,
                            "%s: %s has groups of %u channels, %u are no multiple of that",
                            x->from->dir, w->module, t.group, w->type.cols);
    }
    t.rows = w->type.rows;
    t.cols = w->type.cols;
    w->type = t;
    return SLC_OK;
}

/* What a weight's values (scales and offsets of a matrix) are multiplied by. */
static float factor_of(const inflation *x, slc_synth_id id) {
    if (id.layer == SLC_SYNTH_MODEL)
        return id.which == SLC_W_EMBED ? x->f : id.which == SLC_W_FINAL_NORM ? 1 / x->f : 1;
    switch (id.which) {
    case SLC_W_INPUT_NORM:
    case SLC_W_POST_NORM: return 1 / x->f;
    case SLC_W_O:
    case SLC_W_OUT:
    case SLC_W_DOWN:
    case SLC_W_SHARED_DOWN:
    case SLC_SYNTH_EXPERT + SLC_EXPERT_DOWN: return x->f;
    default: return 1;
    }
}

/* ---- values ---- */

/* Bits that do not fit are cut off. */
static void store(slc_dtype type, float value, uint8_t *to) {
    uint32_t bits = slc_f32_bits(value);
    uint16_t half = type == SLC_DTYPE_F16 ? slc_f16_from_f32(value) : (uint16_t)(bits >> 16);

    if (type == SLC_DTYPE_F32)
        memcpy(to, &bits, sizeof(bits));
    else
        memcpy(to, &half, sizeof(half));
}

/* to[i] = from[i] * f in the same type; false where that is not exact: overflow, lost bits of a
 * subnormal, infinity and NaN all fail to come back. */
static bool scale_exactly(slc_dtype type, const uint8_t *from, uint8_t *to, uint64_t n, float f) {
    bool exact = true;

    for (uint64_t i = 0; i < n; i++) {
        float old = slc_load_f32(type, from, i);

        store(type, old * f, to + i * slc_dtype_bytes(type));
        exact &= slc_load_f32(type, to, i) / f == old && old - old == 0;
    }
    return exact;
}

static slc_status copy_values(const inflation *x, const slc_synth_weight *w, int part,
                              const uint8_t *src, uint8_t *dst, uint64_t bytes, slc_err *err) {
    slc_dtype type = slc_synth_part_dtype(w, part);
    float f = factor_of(x, w->id);
    char name[SLC_SYNTH_NAME_BYTES];

    if (type == SLC_DTYPE_U32 || f == 1) {
        memcpy(dst, src, bytes);
        return SLC_OK;
    }
    if (scale_exactly(type, src, dst, bytes / slc_synth_part_width(w, part), f)) return SLC_OK;
    slc_synth_part_name(w, part, name);
    return slc_fail(err, SLC_E_UNSUPPORTED,
                    "%s: a value of %s times %g is not exact in %s: this checkpoint cannot be "
                    "inflated with the same logits",
                    x->from->dir, name, (double)f, slc_dtype_name(type));
}

/* Everything that no old value will cover: random codes, scales and offsets of zero. New norm
 * weights meet zeros; 1 / f is what the stream's factor makes of an ordinary one. */
static void fill_new(const inflation *x, const slc_synth_weight *w, int part, uint64_t row0,
                     uint64_t n_rows, uint8_t *out) {
    uint64_t row_bytes = slc_matrix_row_bytes(&w->type, part);
    slc_dtype type = slc_synth_part_dtype(w, part);
    uint32_t place[] = {w->id.layer, w->id.which}, bytes = slc_dtype_bytes(type);

    if (type == SLC_DTYPE_U32)
        slc_noise_fill(slc_noise_key(x->seed, place, 2), row0 * row_bytes, out, n_rows * row_bytes);
    else if (w->form == SLC_FORM_MATRIX)
        memset(out, 0, n_rows * row_bytes);
    else
        for (uint64_t at = 0; at < n_rows * row_bytes; at += bytes) store(type, 1 / x->f, out + at);
}

static slc_status reserve(inflation *x, size_t bytes, slc_err *err) {
    uint8_t *grown;

    if (bytes <= x->src_bytes) return SLC_OK;
    if (!(grown = slc_realloc(x->src, bytes, 1)))
        return slc_fail(err, SLC_E_NOMEM, "%s: no memory to read %zu bytes", x->from->dir, bytes);
    x->src = grown;
    x->src_bytes = bytes;
    return SLC_OK;
}

/* Lays the old rows among [row, row + n) of matrix i over what is in `out`. */
static slc_status lay_old(inflation *x, const slc_synth_weight *w, int part, uint32_t i,
                          uint32_t row, uint32_t n, uint8_t *out, slc_err *err) {
    slc_matrix_type old = old_type(x, w->id);
    slc_extent at = old_extent(x, w->id, i, part);
    uint64_t old_row = slc_matrix_row_bytes(&old, part);
    uint64_t new_row = slc_matrix_row_bytes(&w->type, part);
    slc_status rc;

    if (row >= old.rows) return SLC_OK;
    if (n > old.rows - row) n = old.rows - row;
    if ((rc = reserve(x, n * old_row, err))) return rc;
    rc = slc_file_read(&x->from->files[at.file], at.off + row * old_row, x->src, n * old_row, err);
    for (uint32_t k = 0; !rc && k < n; k++)
        rc = copy_values(x, w, part, x->src + k * old_row, out + k * new_row, old_row, err);
    return rc;
}

/* A slc_synth_fill_fn: cuts the rows at the borders of stacked matrices. */
static slc_status fill(void *ctx, const slc_synth_weight *w, int part, uint64_t row0,
                       uint64_t n_rows, uint8_t *out, slc_err *err) {
    inflation *x = ctx;
    uint64_t row_bytes = slc_matrix_row_bytes(&w->type, part);
    slc_status rc;

    fill_new(x, w, part, row0, n_rows, out);
    while (n_rows) {
        uint32_t i = (uint32_t)(row0 / w->type.rows), row = (uint32_t)(row0 % w->type.rows);
        uint64_t rest = w->type.rows - row;
        uint32_t n = (uint32_t)(n_rows < rest ? n_rows : rest);

        if ((rc = lay_old(x, w, part, i, row, n, out, err))) return rc;
        out += n * row_bytes;
        row0 += n;
        n_rows -= n;
    }
    return SLC_OK;
}

/* ---- files beside the weights ---- */

static slc_status read_text(const char *path, char **text, size_t *n, slc_err *err) {
    slc_file f;
    slc_status rc = slc_file_open(&f, path, err);

    *text = NULL;
    if (rc) return rc;
    *n = f.size_bytes;
    if (!(*text = slc_calloc(*n, 1)))
        rc = slc_fail(err, SLC_E_NOMEM, "%s: no memory to read it", path);
    else
        rc = slc_file_read(&f, 0, *text, *n, err);
    slc_file_close(&f);
    return rc;
}

/* The tokenizer's files and the generation settings, as they are. */
static slc_status put_files(void *ctx, const slc_synth_folder *folder, slc_err *err) {
    static const char *const names[] = {
        "generation_config.json",  "tokenizer.json",    "tokenizer_config.json", "vocab.json",
        "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",   "merges.txt"};
    const inflation *x = ctx;
    slc_status rc = SLC_OK;

    for (size_t i = 0; !rc && i < sizeof(names) / sizeof(*names); i++) {
        char *path, *text;
        size_t n;

        if (asprintf(&path, "%s/%s", x->from->dir, names[i]) < 0)
            return slc_fail(err, SLC_E_NOMEM, "%s: no memory for a path", x->from->dir);
        if (access(path, F_OK) == 0) {
            rc = read_text(path, &text, &n, err);
            if (!rc) rc = slc_synth_folder_put(folder, names[i], text, n, err);
            free(text);
        }
        free(path);
    }
    return rc;
}

/* The old config.json with the new sizes. The old one has been checked by the reader. */
static slc_status make_config(const inflation *x, json_t **out, slc_err *err) {
    char *path;
    json_t *root, *text;
    int failed;

    *out = NULL;
    if (asprintf(&path, "%s/config.json", x->from->dir) < 0)
        return slc_fail(err, SLC_E_NOMEM, "%s: no memory for a path", x->from->dir);
    root = json_load_file(path, 0, NULL);
    free(path);
    if (!root) return slc_fail(err, SLC_E_IO, "%s: config.json cannot be read again", x->from->dir);
    text = json_object_get(root, "text_config");
    if (!json_is_object(text)) text = root;
    failed = json_object_set_new(text, "hidden_size", json_integer(x->cfg.hidden_size)) |
             json_object_set_new(text, "tie_word_embeddings", json_false()) |
             json_object_set_new(root, "tie_word_embeddings", json_false());
    if (slc_config_is_moe(&x->cfg))
        failed |=
            json_object_set_new(text, "moe_intermediate_size", json_integer(x->cfg.expert_size)) |
            json_object_set_new(text, "shared_expert_intermediate_size",
                                json_integer(x->cfg.shared_expert_size));
    if (failed) {
        json_decref(root);
        return slc_fail(err, SLC_E_NOMEM, "%s: no memory for config.json", x->from->dir);
    }
    *out = root;
    return SLC_OK;
}

/* ---- the whole ---- */

static slc_status prepare(inflation *x, uint32_t hidden, uint32_t expert_hidden,
                          slc_synth_plan *plan, json_t **config, slc_err *err) {
    slc_status rc;

    if (x->from->norms_are_raw)
        return slc_fail(err, SLC_E_UNSUPPORTED,
                        "%s: norm weights lack the folded 1, so that dividing them is not exact; "
                        "inflate takes MLX conversions",
                        x->from->dir);
    x->cfg = x->from->cfg;
    x->cfg.tie_embeddings = false;
    if ((rc = choose_hidden(x, hidden, err))) return rc;
    if ((rc = choose_experts(x, expert_hidden, err))) return rc;
    if ((rc = slc_synth_plan_init(plan, &x->cfg, encode, x, err))) return rc;
    return make_config(x, config, err);
}

slc_status slc_synth_inflate(const char *dir, uint32_t hidden, uint32_t expert_hidden,
                             const char *out, const slc_synth_options *opt,
                             slc_synth_result *result, slc_err *err) {
    inflation *x = slc_calloc(1, sizeof(*x));
    slc_synth_plan plan = {0};
    slc_synth_job job = {
        .out = out, .plan = &plan, .fill = fill, .ctx = x, .put_files = put_files, .opt = opt};
    slc_status rc;

    if (!x) return slc_fail(err, SLC_E_NOMEM, "%s: no memory to inflate it", dir);
    x->seed = opt->seed;
    if ((rc = slc_checkpoint_open(dir, NULL, &x->from, err))) goto out;
    if ((rc = prepare(x, hidden, expert_hidden, &plan, &job.config, err))) goto out;
    rc = slc_synth_checkpoint(&job, result, err);
out:
    slc_synth_plan_deinit(&plan);
    json_decref(job.config);
    slc_checkpoint_close(x->from);
    free(x->src);
    free(x);
    return rc;
}
