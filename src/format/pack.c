/* Opening a pack.
 *
 * pack_index.c has made sure that the tables are whole and every range lies inside the file, apart
 * from all others. Here they are held against the config that the pack carries: exactly the
 * weights, layers and experts that it implies, in its shapes, nothing missing and nothing more.
 * Names play no part: ids were resolved when the pack was made.
 *
 * The hashes of the texts are checked here, since a changed byte of a tokenizer would change what
 * the model says without a word. Those of weights are checked on request (slc_checkpoint_verify_*),
 * because reading all of them is what a pack is there to avoid. */
#include "format/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fail.h"
#include "format/hash64.h"

enum { HASH_CHUNK = 64 << 10 };

/* ---- which file ---- */

static bool is_called_pack(const char *name) {
    size_t n = strlen(name);

    return n > 5 && strcmp(name + n - 5, ".pack") == 0;
}

static bool begins_like_pack(const char *path) {
    char magic[sizeof(slc_pack_magic)];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is;

    if (fd < 0) return false;
    is = pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
         (memcmp(magic, slc_pack_magic, sizeof(magic)) == 0 ||
          memcmp(magic, slc_pack_unfinished_magic, sizeof(magic)) == 0);
    close(fd);
    return is;
}

static bool is_folder(const char *path) {
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The only *.pack of a folder that is no checkpoint itself. */
static slc_status find_in_folder(const char *dir, char **file, slc_err *err) {
    DIR *d = opendir(dir);
    struct dirent *e;
    slc_status rc = SLC_OK;

    while (d && !rc && (e = readdir(d))) {
        char *other = *file;

        if (strcmp(e->d_name, slc_text_names[SLC_TEXT_CONFIG]) == 0) { /* a checkpoint */
            free(*file);
            *file = NULL;
            break;
        }
        if (!is_called_pack(e->d_name)) continue;
        if (other)
            rc = slc_fail(err, SLC_E_INVALID,
                          "%s: holds several packs, %s and %s among them: name one", dir,
                          strrchr(other, '/') + 1, e->d_name);
        else if (asprintf(file, "%s/%s", dir, e->d_name) < 0)
            rc = slc_fail(err, SLC_E_NOMEM, "%s: no memory for a path", dir);
    }
    if (d) closedir(d);
    return rc;
}

slc_status slc_pack_find(const char *path, char **file, slc_err *err) {
    slc_status rc;

    *file = NULL;
    if (is_folder(path)) {
        rc = find_in_folder(path, file, err);
        if (rc) {
            free(*file);
            *file = NULL;
        }
        return rc;
    }
    if (!is_called_pack(path) && !begins_like_pack(path)) return SLC_OK;
    if (!(*file = strdup(path)))
        return slc_fail(err, SLC_E_NOMEM, "%s: no memory for a path", path);
    return SLC_OK;
}

/* ---- tables ---- */

static slc_status open_file(slc_opening *o) {
    slc_checkpoint *c = o->c;
    slc_status rc;

    if (!(c->files = slc_calloc(1, sizeof(*c->files))))
        return slc_fail(o->err, SLC_E_NOMEM, "%s: no memory for a file", c->dir);
    if ((rc = slc_file_open(&c->files[0], c->dir, o->err))) return rc;
    c->n_files = 1;
    return SLC_OK;
}

static slc_status read_index(slc_opening *o, const slc_pack_head *head) {
    const slc_file *f = &o->c->files[0];
    size_t n = (size_t)head->index_bytes;
    uint8_t *bytes = slc_calloc(n, 1);
    slc_status rc;

    if (!bytes) return slc_fail(o->err, SLC_E_NOMEM, "%s: no memory for the index", f->path);
    rc = slc_file_read(f, head->index_off, bytes, n, o->err);
    if (!rc) rc = slc_pack_index_parse(bytes, n, head, f->path, &o->c->pack, o->err);
    free(bytes);
    return rc;
}

static slc_status check_text(slc_opening *o, slc_text_kind kind, uint8_t *chunk) {
    const slc_file *f = &o->c->files[0];
    const slc_pack_range *r = &o->c->pack->text[kind];
    slc_hash64 hash;
    slc_status rc = SLC_OK;

    slc_hash64_init(&hash);
    for (uint64_t done = 0; !rc && done < r->bytes;) {
        size_t n = r->bytes - done < HASH_CHUNK ? (size_t)(r->bytes - done) : HASH_CHUNK;

        rc = slc_file_read(f, r->off + done, chunk, n, o->err);
        slc_hash64_update(&hash, chunk, n);
        done += n;
    }
    if (rc || slc_hash64_get(&hash) == r->hash) return rc;
    return slc_fail(o->err, SLC_E_FORMAT,
                    "%s: the %s in the pack is damaged: the hash of %" PRIu64 " bytes at %" PRIu64
                    " is wrong",
                    f->path, slc_text_names[kind], r->bytes, r->off);
}

static slc_status check_texts(slc_opening *o) {
    uint8_t *chunk = slc_calloc(HASH_CHUNK, 1);
    slc_status rc = SLC_OK;

    if (!chunk) return slc_fail(o->err, SLC_E_NOMEM, "%s: no memory to read it", o->c->dir);
    for (int kind = 0; !rc && kind < SLC_N_TEXTS; kind++)
        if (o->c->pack->text[kind].off) rc = check_text(o, (slc_text_kind)kind, chunk);
    free(chunk);
    return rc;
}

slc_status slc_pack_load(slc_opening *o) {
    uint8_t bytes[SLC_PACK_HEAD_BYTES] = {0};
    const slc_file *f;
    slc_pack_head head;
    size_t n = sizeof(bytes);
    slc_status rc;

    if ((rc = open_file(o))) return rc;
    f = &o->c->files[0];
    if (f->size_bytes < n)
        n = (size_t)f->size_bytes; /* an interrupted writer's file may be short */
    if ((rc = slc_file_read(f, 0, bytes, n, o->err))) return rc;
    if ((rc = slc_pack_head_parse(bytes, f->size_bytes, f->path, &head, o->err))) return rc;
    if ((rc = read_index(o, &head))) return rc;
    return check_texts(o);
}

/* ---- the weights of a config, in order ---- */

bool slc_pack_walk_next(slc_pack_walk *w) {
    if (!w->begun) {
        w->begun = true;
        w->layer = SLC_PACK_NO_LAYER;
        w->id = SLC_W_EMBED;
    } else {
        w->id++;
    }
    if (w->layer == SLC_PACK_NO_LAYER) {
        if (w->id == SLC_W_LM_HEAD && w->tied) w->id++;
        if (w->id < SLC_W_N_MODEL) {
            slc_model_weight_spec(w->cfg, (slc_model_weight)w->id, &w->spec);
            return true;
        }
        w->layer = 0;
        w->id = 0;
    }
    for (; w->layer < w->cfg->n_layers; w->layer++, w->id = 0)
        for (; w->id < SLC_W_N_LAYER; w->id++)
            if (slc_layer_weight_spec(w->cfg, w->layer, (slc_layer_weight)w->id, &w->spec))
                return true;
    return false;
}

const char *slc_pack_weight_name(const slc_config *cfg, uint32_t layer, uint32_t id,
                                 char buf[SLC_NAME_BYTES]) {
    slc_weight_spec spec;

    if (layer == SLC_PACK_NO_LAYER && id < SLC_W_N_MODEL) {
        slc_model_weight_spec(cfg, (slc_model_weight)id, &spec);
        snprintf(buf, SLC_NAME_BYTES, "%s", spec.name);
    } else if (layer < cfg->n_layers && id < SLC_W_N_LAYER &&
               slc_layer_weight_spec(cfg, layer, (slc_layer_weight)id, &spec)) {
        snprintf(buf, SLC_NAME_BYTES, "layers.%u.%s", layer, spec.name);
    } else {
        snprintf(buf, SLC_NAME_BYTES, "id %u of layer %u", id, layer);
    }
    return buf;
}

/* ---- tables against config ---- */

static slc_status bind_weight(slc_opening *o, const slc_pack_walk *want, const slc_pack_weight *w,
                              slc_weight *out) {
    uint64_t at[1][SLC_N_PARTS];
    char name[SLC_NAME_BYTES], found[SLC_NAME_BYTES];

    slc_pack_weight_name(want->cfg, want->layer, want->id, name);
    if (w->layer != want->layer || w->id != want->id)
        return slc_fail(o->err, SLC_E_FORMAT, "%s: expected the weight %s, found %s", o->c->dir,
                        name, slc_pack_weight_name(want->cfg, w->layer, w->id, found));
    if (w->type.rows != want->spec.rows || w->type.cols != want->spec.cols ||
        (slc_matrix_is_affine(&w->type) && want->spec.form != SLC_FORM_MATRIX))
        return slc_fail(o->err, SLC_E_FORMAT,
                        "%s: weight %s is %u x %u values of %u bits (0: float), expected %u x %u%s",
                        o->c->dir, name, w->type.rows, w->type.cols, w->type.bits, want->spec.rows,
                        want->spec.cols, want->spec.form == SLC_FORM_MATRIX ? "" : " floats");
    out->type = w->type;
    slc_pack_record_layout(&w->type, 1, at);
    for (int part = 0; part < SLC_N_PARTS; part++) {
        uint64_t bytes = slc_matrix_part_bytes(&w->type, part);

        if (bytes) out->part[part] = (slc_extent){.off = w->at.off + at[0][part], .bytes = bytes};
    }
    return SLC_OK;
}

static slc_status bind_weights(slc_opening *o) {
    slc_checkpoint *c = o->c;
    slc_pack_walk want = {.cfg = &c->cfg, .tied = c->tied};
    uint32_t n = 0;
    slc_status rc;

    while (slc_pack_walk_next(&want)) {
        slc_weight *out =
            want.layer == SLC_PACK_NO_LAYER ? &c->w[want.id] : &c->layers[want.layer].w[want.id];
        char name[SLC_NAME_BYTES];

        if (n == c->pack->n_weights)
            return slc_fail(o->err, SLC_E_FORMAT, "%s: the weight %s is missing", c->dir,
                            slc_pack_weight_name(&c->cfg, want.layer, want.id, name));
        if ((rc = bind_weight(o, &want, &c->pack->weights[n++], out))) return rc;
    }
    if (n != c->pack->n_weights)
        return slc_fail(o->err, SLC_E_FORMAT, "%s: %u weights, the config in the pack has %u",
                        c->dir, c->pack->n_weights, n);
    if (c->tied) c->w[SLC_W_LM_HEAD] = c->w[SLC_W_EMBED];
    return SLC_OK;
}

static slc_status bind_expert_layer(slc_opening *o, uint32_t layer) {
    const slc_pack_layer *l = &o->c->pack->layers[layer];
    uint64_t at[SLC_N_PROJ][SLC_N_PARTS];
    uint32_t rows, cols;

    slc_pack_record_layout(l->type, SLC_N_PROJ, at);
    for (int proj = 0; proj < SLC_N_PROJ; proj++) {
        const slc_matrix_type *t = &l->type[proj];

        slc_expert_proj_shape(&o->c->cfg, proj, &rows, &cols);
        if (t->rows != rows || t->cols != cols)
            return slc_fail(o->err, SLC_E_FORMAT,
                            "%s: %s of layer %u's experts is %u x %u, expected %u x %u", o->c->dir,
                            slc_expert_proj_names[proj], layer, t->rows, t->cols, rows, cols);
        o->c->layers[layer].expert[proj] = *t;
        for (int part = 0; part < SLC_N_PARTS; part++)
            o->c->places[layer].stack[proj][part] =
                (slc_expert_stack){.first.off = l->off + at[proj][part], .stride = l->stride};
    }
    return SLC_OK;
}

static slc_status bind_experts(slc_opening *o) {
    slc_checkpoint *c = o->c;
    slc_status rc = SLC_OK;

    if (!slc_config_is_moe(&c->cfg)) return SLC_OK;
    if (!(c->places = slc_calloc(c->cfg.n_layers, sizeof(*c->places))))
        return slc_fail(o->err, SLC_E_NOMEM, "%s: no memory for expert places", c->dir);
    for (uint32_t i = 0; !rc && i < c->cfg.n_layers; i++) rc = bind_expert_layer(o, i);
    return rc;
}

slc_status slc_pack_bind(slc_opening *o) {
    slc_checkpoint *c = o->c;
    const slc_pack_index *x = c->pack;
    slc_status rc;

    if (x->n_layers != c->cfg.n_layers || x->n_experts != c->cfg.n_experts ||
        x->tied != c->cfg.tie_embeddings)
        return slc_fail(o->err, SLC_E_FORMAT,
                        "%s: the index has %u layers of %u experts%s, the config in the pack %u "
                        "of %u%s",
                        c->dir, x->n_layers, x->n_experts, x->tied ? ", tied" : "", c->cfg.n_layers,
                        c->cfg.n_experts, c->cfg.tie_embeddings ? ", tied" : "");
    c->tied = x->tied;
    c->norms_are_raw = x->norms_are_raw;
    c->ignored_bytes = x->ignored_bytes;
    if ((rc = bind_weights(o))) return rc;
    return bind_experts(o);
}

/* ---- what only packs have ---- */

slc_extent slc_checkpoint_expert_record(const slc_checkpoint *c, uint32_t layer, uint32_t expert) {
    const slc_pack_layer *l;

    slc_assert(layer < c->cfg.n_layers && expert < c->cfg.n_experts);
    if (!c->pack) return (slc_extent){0};
    l = &c->pack->layers[layer];
    return (slc_extent){.off = l->off + expert * l->stride, .bytes = l->bytes};
}

/* Hash of a record from its parts; the bytes between them are zero. */
static uint64_t hash_parts(const slc_matrix_type *types, int n,
                           const uint8_t *const *parts /* [n][SLC_N_PARTS] */) {
    static const uint8_t zeros[SLC_PACK_PART_ALIGN];
    uint64_t at[SLC_N_PROJ][SLC_N_PARTS], done = 0;
    slc_hash64 hash;

    slc_hash64_init(&hash);
    slc_pack_record_layout(types, n, at);
    for (int i = 0; i < n; i++)
        for (int part = 0; part < SLC_N_PARTS; part++) {
            uint64_t bytes = slc_matrix_part_bytes(&types[i], part);

            if (!bytes) continue;
            slc_hash64_update(&hash, zeros, (size_t)(at[i][part] - done));
            slc_hash64_update(&hash, parts[i * SLC_N_PARTS + part], (size_t)bytes);
            done = at[i][part] + bytes;
        }
    return slc_hash64_get(&hash);
}

bool slc_checkpoint_verify_expert(const slc_checkpoint *c, uint32_t layer, uint32_t expert,
                                  const uint8_t *part[SLC_N_PROJ][SLC_N_PARTS]) {
    slc_assert(layer < c->cfg.n_layers && expert < c->cfg.n_experts);
    if (!c->pack) return true;
    return hash_parts(c->layers[layer].expert, SLC_N_PROJ, &part[0][0]) ==
           c->pack->layers[layer].hash[expert];
}
