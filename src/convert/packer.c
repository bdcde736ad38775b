/* From a checkpoint folder to a pack.
 *
 *     open the source -> place everything -> copy and hash -> index, head -> fsync -> look again
 *
 * Sizes follow from the source's headers, so the place of every record is known before the first
 * byte is copied; only hashes are not, which is why index and head are written last. A finished
 * file is opened as any reader would before it gets its name: what cannot be read is never handed
 * out. The bytes pass through one buffer, that of the output file.
 *
 * Sources may be replaced or rewritten while this runs. Size, times and identity of every file are
 * noted before anything is copied and compared after everything is. */
#include "convert/packer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fail.h"
#include "convert/pack_verify.h"
#include "format/hash64.h"
#include "format/pack.h"
#include "format/safetensors.h"

/* A file as it was; all zero: not there. */
typedef struct stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec mtime, ctime;
} stamp;

typedef struct packer {
    const char *model;
    const slc_pack_options *opt;
    slc_log log;
    slc_err *err;
    slc_checkpoint *src;
    stamp *files;             /* [src->n_files] */
    stamp texts[SLC_N_TEXTS]; /* of a folder's texts */
    slc_pack_index *x;
    size_t index_bytes;
    uint64_t total_bytes;
    uint64_t reported; /* bytes at the last progress report */
    slc_outfile out;
} packer;

/* ---- what the sources are ---- */

static stamp stamp_of(const struct stat *st) {
    return (stamp){st->st_dev, st->st_ino, st->st_size, st->st_mtim, st->st_ctim};
}

static bool same_time(struct timespec a, struct timespec b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* ctime too: it moves with every write, whatever is done to mtime. */
static bool same_stamp(const stamp *a, const stamp *b) {
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
           same_time(a->mtime, b->mtime) && same_time(a->ctime, b->ctime);
}

static slc_status stamp_text(packer *p, int kind, stamp *out) {
    char *path = NULL;
    struct stat st;

    *out = (stamp){0};
    if (asprintf(&path, "%s/%s", p->src->dir, slc_text_names[kind]) < 0)
        return slc_fail(p->err, SLC_E_NOMEM, "%s: no memory for a path", p->src->dir);
    if (stat(path, &st) == 0) *out = stamp_of(&st);
    free(path);
    return SLC_OK;
}

/* The file that is open must also still be the one of that name. */
static slc_status stamp_file(packer *p, uint32_t i, stamp *out) {
    const slc_file *f = &p->src->files[i];
    struct stat st, named;
    stamp other;

    if (fstat(f->fd, &st) || stat(f->path, &named))
        return slc_fail_errno(p->err, errno, "%s: cannot look at it", f->path);
    *out = stamp_of(&st);
    other = stamp_of(&named);
    if (!same_stamp(out, &other) || (uint64_t)st.st_size != f->size_bytes)
        return slc_fail(p->err, SLC_E_IO, "%s: changed while it was being packed", f->path);
    return SLC_OK;
}

static slc_status stamp_all(packer *p) {
    slc_status rc = SLC_OK;

    if (!(p->files = slc_calloc(p->src->n_files, sizeof(*p->files))))
        return slc_fail(p->err, SLC_E_NOMEM, "%s: no memory for its files", p->model);
    for (uint32_t i = 0; !rc && i < p->src->n_files; i++) rc = stamp_file(p, i, &p->files[i]);
    for (int kind = 0; !rc && kind < SLC_N_TEXTS; kind++) rc = stamp_text(p, kind, &p->texts[kind]);
    return rc;
}

static slc_status check_unchanged(packer *p) {
    stamp now;
    slc_status rc;

    for (uint32_t i = 0; i < p->src->n_files; i++) {
        if ((rc = stamp_file(p, i, &now))) return rc;
        if (!same_stamp(&now, &p->files[i]))
            return slc_fail(p->err, SLC_E_IO, "%s: changed while it was being packed",
                            p->src->files[i].path);
    }
    for (int kind = 0; kind < SLC_N_TEXTS; kind++) {
        if ((rc = stamp_text(p, kind, &now))) return rc;
        if (!same_stamp(&now, &p->texts[kind]))
            return slc_fail(p->err, SLC_E_IO, "%s/%s: changed while it was being packed",
                            p->src->dir, slc_text_names[kind]);
    }
    return SLC_OK;
}

/* ---- the plan ---- */

static slc_status hash_header(packer *p, const slc_file *f, uint64_t *hash) {
    uint8_t head[8];
    uint64_t n;
    uint8_t *text;
    slc_status rc;

    if ((rc = slc_file_read(f, 0, head, sizeof(head), p->err))) return rc;
    rc = slc_safetensors_header_bytes(head, f->size_bytes, f->path, &n, p->err);
    if (rc) return rc;
    if (!(text = slc_calloc((size_t)n + sizeof(head), 1)))
        return slc_fail(p->err, SLC_E_NOMEM, "%s: no memory for its header", f->path);
    rc = slc_file_read(f, 0, text, (size_t)n + sizeof(head), p->err);
    *hash = slc_hash64_of(text, (size_t)n + sizeof(head));
    free(text);
    return rc;
}

/* The name below the folder; what a terminal would obey becomes '?'. */
static char *source_name(const packer *p, const slc_file *f) {
    size_t n_dir = strlen(p->src->dir);
    char *name = strdup(strncmp(f->path, p->src->dir, n_dir) ? f->path : f->path + n_dir + 1);

    for (char *c = name; c && *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    return name;
}

static slc_status plan_source(packer *p, uint32_t i) {
    const slc_file *f = &p->src->files[i];
    slc_pack_source *s = &p->x->sources[i];

    s->bytes = f->size_bytes;
    s->mtime_s = p->files[i].mtime.tv_sec;
    s->mtime_ns = (uint32_t)p->files[i].mtime.tv_nsec;
    if (!(s->name = source_name(p, f)))
        return slc_fail(p->err, SLC_E_NOMEM, "%s: no memory for a name", f->path);
    return hash_header(p, f, &s->header_hash);
}

static slc_pack_walk all_weights(const packer *p) {
    return (slc_pack_walk){.cfg = &p->src->cfg, .tied = p->src->tied};
}

static slc_status create_index(packer *p) {
    const slc_config *cfg = &p->src->cfg;
    slc_pack_walk w = all_weights(p);
    uint32_t n = 0;
    slc_status rc = SLC_OK;

    while (slc_pack_walk_next(&w)) n++;
    p->x = slc_pack_index_create(cfg->n_layers, cfg->n_experts, p->src->n_files, n);
    if (!p->x) return slc_fail(p->err, SLC_E_NOMEM, "%s: no memory for the index", p->model);
    p->x->norms_are_raw = p->src->norms_are_raw;
    p->x->tied = p->src->tied;
    p->x->ignored_bytes = p->src->ignored_bytes;
    for (uint32_t i = 0; !rc && i < p->src->n_files; i++) rc = plan_source(p, i);
    return rc;
}

static uint64_t place(uint64_t *at, uint64_t bytes, uint64_t align) {
    uint64_t off = slc_align_up(*at, align);

    *at = off + bytes;
    return off;
}

static slc_status place_texts(packer *p, uint64_t *at) {
    for (int kind = 0; kind < SLC_N_TEXTS; kind++) {
        slc_pack_range *r = &p->x->text[kind];
        slc_side_text t;
        slc_status rc = slc_side_text_open(p->src, (slc_text_kind)kind, &t, p->err);

        if (!rc && t.file) {
            r->bytes = t.bytes;
            r->off = place(at, r->bytes, SLC_PACK_PART_ALIGN);
        }
        slc_side_text_close(&t);
        if (rc) return rc;
    }
    return SLC_OK;
}

static const slc_weight *source_weight(const packer *p, uint32_t layer, uint32_t id) {
    return layer == SLC_PACK_NO_LAYER ? &p->src->w[id] : &p->src->layers[layer].w[id];
}

static void place_weights(packer *p, uint64_t *at) {
    uint64_t part[1][SLC_N_PARTS];
    slc_pack_walk walk = all_weights(p);

    for (slc_pack_weight *w = p->x->weights; slc_pack_walk_next(&walk); w++) {
        w->layer = walk.layer;
        w->id = walk.id;
        w->type = source_weight(p, w->layer, w->id)->type;
        w->at.bytes = slc_pack_record_layout(&w->type, 1, part);
        w->at.off = place(at, w->at.bytes, SLC_PACK_PART_ALIGN);
    }
}

static void place_experts(packer *p, uint64_t *at) {
    uint64_t part[SLC_N_PROJ][SLC_N_PARTS];

    for (uint32_t i = 0; p->x->n_experts && i < p->x->n_layers; i++) {
        slc_pack_layer *l = &p->x->layers[i];

        memcpy(l->type, p->src->layers[i].expert, sizeof(l->type));
        l->bytes = slc_pack_record_layout(l->type, SLC_N_PROJ, part);
        l->stride = slc_align_up(l->bytes, SLC_PACK_EXPERT_ALIGN);
        l->off = place(at, l->stride * p->x->n_experts, SLC_PACK_EXPERT_ALIGN);
    }
}

static slc_status make_plan(packer *p) {
    uint64_t at;
    slc_status rc;

    if ((rc = create_index(p))) return rc;
    p->index_bytes = slc_pack_index_bytes(p->x);
    if (p->index_bytes > SLC_PACK_MAX_INDEX_BYTES)
        return slc_fail(p->err, SLC_E_UNSUPPORTED,
                        "%s: its index would take %zu bytes, the format allows %" PRIu64, p->model,
                        p->index_bytes, SLC_PACK_MAX_INDEX_BYTES);
    at = SLC_PACK_HEAD_BYTES + p->index_bytes;
    if ((rc = place_texts(p, &at))) return rc;
    place_weights(p, &at);
    place_experts(p, &at);
    p->total_bytes = slc_align_up(at, SLC_PACK_EXPERT_ALIGN);
    return SLC_OK;
}

/* ---- copying ---- */

static slc_status report(packer *p) {
    uint64_t done = slc_outfile_at(&p->out);

    if (!p->opt->on_progress || done - p->reported < SLC_OUT_BUFFER) return SLC_OK;
    p->reported = done;
    if (p->opt->on_progress(p->opt->user, "packing", done, p->total_bytes)) return SLC_OK;
    return slc_fail(p->err, SLC_E_CANCELLED, "%s: stopped, nothing is left of it", p->out.path);
}

static slc_status copy(packer *p, const slc_file *f, uint64_t off, uint64_t bytes,
                       slc_hash64 *hash) {
    while (bytes) {
        uint8_t *at;
        size_t n;
        slc_status rc;

        if ((rc = slc_outfile_room(&p->out, bytes, &at, &n, p->err))) return rc;
        if ((rc = slc_file_read(f, off, at, n, p->err))) return rc;
        slc_hash64_update(hash, at, n);
        slc_outfile_advance(&p->out, n);
        if ((rc = report(p))) return rc;
        off += n;
        bytes -= n;
    }
    return SLC_OK;
}

static slc_status copy_text(packer *p, slc_text_kind kind) {
    slc_pack_range *r = &p->x->text[kind];
    slc_hash64 hash;
    slc_side_text t;
    slc_status rc;

    if ((rc = slc_side_text_open(p->src, kind, &t, p->err))) goto out;
    if (!t.file || t.bytes != r->bytes) {
        rc = slc_fail(p->err, SLC_E_IO, "%s/%s: changed while it was being packed", p->src->dir,
                      slc_text_names[kind]);
        goto out;
    }
    slc_hash64_init(&hash);
    if ((rc = slc_outfile_pad(&p->out, r->off, p->err))) goto out;
    if ((rc = copy(p, t.file, t.off, t.bytes, &hash))) goto out;
    r->hash = slc_hash64_get(&hash);
out:
    slc_side_text_close(&t);
    return rc;
}

/* Matrices to one record; `part` [n][SLC_N_PARTS] says where they lie now. */
static slc_status copy_record(packer *p, uint64_t off, const slc_matrix_type *types, int n,
                              const slc_extent *part, uint64_t *hash) {
    static const uint8_t zeros[SLC_PACK_PART_ALIGN];
    uint64_t at[SLC_N_PROJ][SLC_N_PARTS];
    slc_hash64 h;
    slc_status rc;

    slc_hash64_init(&h);
    slc_pack_record_layout(types, n, at);
    if ((rc = slc_outfile_pad(&p->out, off, p->err))) return rc;
    for (int i = 0; i < n * SLC_N_PARTS; i++) {
        uint64_t to = off + at[i / SLC_N_PARTS][i % SLC_N_PARTS];

        if (!part[i].bytes) continue;
        slc_hash64_update(&h, zeros, (size_t)(to - slc_outfile_at(&p->out)));
        if ((rc = slc_outfile_pad(&p->out, to, p->err))) return rc;
        rc = copy(p, &p->src->files[part[i].file], part[i].off, part[i].bytes, &h);
        if (rc) return rc;
    }
    *hash = slc_hash64_get(&h);
    return SLC_OK;
}

static slc_status copy_expert(packer *p, uint32_t layer, uint32_t expert) {
    slc_pack_layer *l = &p->x->layers[layer];
    slc_extent part[SLC_N_PROJ * SLC_N_PARTS];

    for (int i = 0; i < SLC_N_PROJ * SLC_N_PARTS; i++)
        part[i] = slc_checkpoint_expert(p->src, layer, expert, i / SLC_N_PARTS, i % SLC_N_PARTS);
    return copy_record(p, l->off + expert * l->stride, l->type, SLC_N_PROJ, part, &l->hash[expert]);
}

static slc_status copy_all(packer *p) {
    slc_status rc;

    for (int kind = 0; kind < SLC_N_TEXTS; kind++)
        if (p->x->text[kind].off && (rc = copy_text(p, (slc_text_kind)kind))) return rc;
    for (uint32_t i = 0; i < p->x->n_weights; i++) {
        slc_pack_weight *w = &p->x->weights[i];
        const slc_weight *from = source_weight(p, w->layer, w->id);

        rc = copy_record(p, w->at.off, &w->type, 1, from->part, &w->at.hash);
        if (rc) return rc;
    }
    for (uint32_t i = 0; p->x->n_experts && i < p->x->n_layers; i++)
        for (uint32_t e = 0; e < p->x->n_experts; e++)
            if ((rc = copy_expert(p, i, e))) return rc;
    return slc_outfile_pad(&p->out, p->total_bytes, p->err);
}

/* ---- head and index ---- */

/* Room for both, to be filled when the hashes are known; until then the file says it is unfinished.
 */
static slc_status begin_file(packer *p) {
    uint8_t *at;
    size_t n;
    slc_status rc = slc_outfile_room(&p->out, p->total_bytes, &at, &n, p->err);

    if (rc) return rc;
    memcpy(at, slc_pack_unfinished_magic, sizeof(slc_pack_unfinished_magic));
    slc_outfile_advance(&p->out, sizeof(slc_pack_unfinished_magic));
    return slc_outfile_pad(&p->out, SLC_PACK_HEAD_BYTES + p->index_bytes, p->err);
}

static slc_status write_tables(packer *p) {
    slc_pack_head head = {.file_bytes = p->total_bytes,
                          .index_off = SLC_PACK_HEAD_BYTES,
                          .index_bytes = p->index_bytes};
    uint8_t bytes[SLC_PACK_HEAD_BYTES], *index = slc_calloc(p->index_bytes, 1);
    slc_status rc;

    if (!index) return slc_fail(p->err, SLC_E_NOMEM, "%s: no memory for the index", p->out.path);
    slc_pack_index_put(p->x, index);
    head.index_hash = slc_hash64_of(index, p->index_bytes);
    slc_pack_head_put(&head, bytes);
    rc = slc_outfile_put_at(&p->out, head.index_off, index, p->index_bytes, p->err);
    if (!rc) rc = slc_outfile_put_at(&p->out, 0, bytes, sizeof(bytes), p->err);
    free(index);
    return rc;
}

/* The file as a reader sees it. */
static slc_status look_again(packer *p) {
    slc_checkpoint *c;
    slc_status rc = slc_checkpoint_open(p->out.partial, NULL, &c, p->err);

    if (rc) return rc;
    if (p->opt->verify) rc = slc_pack_verify_open(c, p->opt, p->err);
    slc_checkpoint_close(c);
    return rc;
}

/* ---- all of it ---- */

static slc_status open_source(packer *p) {
    slc_status rc = slc_checkpoint_open(p->model, &p->log, &p->src, p->err);

    if (rc) return rc;
    if (p->src->pack)
        return slc_fail(p->err, SLC_E_INVALID, "%s: a pack already, expected a checkpoint folder",
                        p->src->dir);
    return SLC_OK;
}

static slc_status open_out(packer *p, const char *out, const slc_out_sys *sys) {
    slc_out_magic magic;

    memcpy(magic.partial, slc_pack_unfinished_magic, sizeof(magic.partial));
    memcpy(magic.finished, slc_pack_magic, sizeof(magic.finished));
    return slc_outfile_open(&p->out, out, p->total_bytes, p->opt->force, &magic, sys, p->err);
}

static slc_status pack(packer *p, const char *out, const slc_out_sys *sys) {
    slc_status rc;

    if ((rc = open_source(p))) return rc;
    if ((rc = stamp_all(p))) return rc;
    if ((rc = make_plan(p))) return rc;
    if ((rc = open_out(p, out, sys))) return rc;
    if ((rc = begin_file(p))) return rc;
    if ((rc = copy_all(p))) return rc;
    if ((rc = check_unchanged(p))) return rc;
    if ((rc = write_tables(p))) return rc;
    if ((rc = slc_outfile_sync(&p->out, p->err))) return rc;
    if ((rc = look_again(p))) return rc;
    return slc_outfile_commit(&p->out, p->err);
}

slc_pack_options slc_pack_options_default(void) {
    return (slc_pack_options){0};
}

slc_status slc_pack_write_with(const char *model, const char *out, const slc_pack_options *opt,
                               const slc_out_sys *sys, slc_err *err) {
    packer p = {.model = model, .opt = opt, .err = err};
    slc_status rc;

    p.log = (slc_log){.user = opt->user, .max_level = SLC_LOG_INFO};
    p.log.sink = opt->log;
    rc = pack(&p, out, sys);
    slc_outfile_close(&p.out);
    slc_pack_index_destroy(p.x);
    free(p.files);
    slc_checkpoint_close(p.src);
    return rc;
}

slc_status slc_pack_write(const char *model, const char *out, const slc_pack_options *opt,
                          slc_err *err) {
    return slc_pack_write_with(model, out, opt, &slc_out_sys_linux, err);
}
