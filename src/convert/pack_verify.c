/* Reading a pack from end to end and holding it against its hashes, in the order of the file; and
 * what a pack says about itself. Head, index and texts are checked by opening it. */
#include "convert/pack_verify.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "format/hash64.h"
#include "format/pack.h"

#define CHUNK_BYTES ((size_t)4 << 20)

typedef struct verifier {
    const slc_checkpoint *c;
    const slc_pack_options *opt;
    slc_err *err;
    uint8_t *chunk;
    uint64_t done, total, reported;
} verifier;

static slc_status report(verifier *v) {
    if (!v->opt->on_progress || v->done - v->reported < CHUNK_BYTES) return SLC_OK;
    v->reported = v->done;
    if (v->opt->on_progress(v->opt->user, "verifying", v->done, v->total)) return SLC_OK;
    return slc_fail(v->err, SLC_E_CANCELLED, "%s: stopped after %" PRIu64 " of %" PRIu64 " bytes",
                    v->c->dir, v->done, v->total);
}

static slc_status hash_range(verifier *v, uint64_t off, uint64_t bytes, uint64_t *out) {
    slc_hash64 hash;

    slc_hash64_init(&hash);
    while (bytes) {
        size_t n = bytes < CHUNK_BYTES ? (size_t)bytes : CHUNK_BYTES;
        slc_status rc;

        if ((rc = slc_file_read(&v->c->files[0], off, v->chunk, n, v->err))) return rc;
        slc_hash64_update(&hash, v->chunk, n);
        off += n;
        bytes -= n;
        v->done += n;
        if ((rc = report(v))) return rc;
    }
    *out = slc_hash64_get(&hash);
    return SLC_OK;
}

static slc_status damaged(const verifier *v, const char *what, uint64_t off, uint64_t bytes,
                          uint64_t found, uint64_t expected) {
    return slc_fail(v->err, SLC_E_FORMAT,
                    "%s: %s is damaged: %" PRIu64 " bytes at %" PRIu64 " have the hash %016" PRIx64
                    ", expected %016" PRIx64 "; make the pack again",
                    v->c->dir, what, bytes, off, found, expected);
}

static slc_status verify_weight(verifier *v, const slc_pack_weight *w) {
    char name[SLC_NAME_BYTES];
    uint64_t found;
    slc_status rc = hash_range(v, w->at.off, w->at.bytes, &found);

    if (rc || found == w->at.hash) return rc;
    return damaged(v, slc_pack_weight_name(&v->c->cfg, w->layer, w->id, name), w->at.off,
                   w->at.bytes, found, w->at.hash);
}

static slc_status verify_expert(verifier *v, uint32_t layer, uint32_t expert) {
    slc_extent at = slc_checkpoint_expert_record(v->c, layer, expert);
    uint64_t found, expected = v->c->pack->layers[layer].hash[expert];
    char name[48];
    slc_status rc = hash_range(v, at.off, at.bytes, &found);

    if (rc || found == expected) return rc;
    snprintf(name, sizeof(name), "expert %u of layer %u", expert, layer);
    return damaged(v, name, at.off, at.bytes, found, expected);
}

static slc_status verify_all(verifier *v) {
    const slc_pack_index *x = v->c->pack;
    slc_status rc;

    for (uint32_t i = 0; i < x->n_weights; i++)
        if ((rc = verify_weight(v, &x->weights[i]))) return rc;
    for (uint32_t i = 0; x->n_experts && i < x->n_layers; i++)
        for (uint32_t e = 0; e < x->n_experts; e++)
            if ((rc = verify_expert(v, i, e))) return rc;
    return SLC_OK;
}

static uint64_t bytes_to_read(const slc_pack_index *x) {
    uint64_t sum = 0;

    for (uint32_t i = 0; i < x->n_weights; i++) sum += x->weights[i].at.bytes;
    for (uint32_t i = 0; x->n_experts && i < x->n_layers; i++)
        sum += x->layers[i].bytes * x->n_experts;
    return sum;
}

slc_status slc_pack_verify_open(const slc_checkpoint *c, const slc_pack_options *opt,
                                slc_err *err) {
    verifier v = {.c = c, .opt = opt, .err = err, .total = bytes_to_read(c->pack)};
    slc_status rc;

    if (!(v.chunk = slc_calloc(CHUNK_BYTES, 1)))
        return slc_fail(err, SLC_E_NOMEM, "%s: no memory to read it", c->dir);
    /* what is on the disk, not what memory remembers of it */
    (void)posix_fadvise(c->files[0].fd, 0, 0, POSIX_FADV_DONTNEED);
    rc = verify_all(&v);
    free(v.chunk);
    return rc;
}

slc_status slc_pack_verify(const char *path, const slc_pack_options *opt, slc_err *err) {
    slc_checkpoint *c;
    slc_status rc = slc_checkpoint_open(path, NULL, &c, err);

    if (rc) return rc;
    rc = c->pack ? slc_pack_verify_open(c, opt, err)
                 : slc_fail(err, SLC_E_INVALID,
                            "%s: no pack, and other checkpoints carry no hashes", path);
    slc_checkpoint_close(c);
    return rc;
}

/* ---- what it says about itself ---- */

static slc_status copy_origins(const slc_checkpoint *c, slc_pack_info *info, slc_err *err) {
    const slc_pack_index *x = c->pack;

    if (!(info->origins = slc_calloc(x->n_sources, sizeof(*info->origins))))
        return slc_fail(err, SLC_E_NOMEM, "%s: no memory for its sources", c->dir);
    info->n_origins = x->n_sources;
    for (uint32_t i = 0; i < x->n_sources; i++) {
        const slc_pack_source *s = &x->sources[i];

        info->origins[i] = (slc_pack_origin){.name = strdup(s->name),
                                             .bytes = s->bytes,
                                             .mtime_s = s->mtime_s,
                                             .mtime_ns = s->mtime_ns,
                                             .header_hash = s->header_hash};
        if (!info->origins[i].name)
            return slc_fail(err, SLC_E_NOMEM, "%s: no memory for a name", c->dir);
    }
    return SLC_OK;
}

slc_status slc_pack_inspect(const char *path, slc_pack_info *info, slc_err *err) {
    slc_checkpoint *c;
    char *file;
    slc_status rc;

    *info = (slc_pack_info){0};
    rc = slc_pack_find(path, &file, err);
    if (rc || !file) return rc;
    rc = slc_checkpoint_open(file, NULL, &c, err);
    free(file);
    if (rc) return rc;
    info->is_pack = true;
    info->version = SLC_PACK_VERSION;
    info->n_layers = c->pack->n_layers;
    info->n_experts = c->pack->n_experts;
    info->file_bytes = c->files[0].size_bytes;
    rc = copy_origins(c, info, err);
    slc_checkpoint_close(c);
    return rc;
}

void slc_pack_info_deinit(slc_pack_info *info) {
    for (uint32_t i = 0; info->origins && i < info->n_origins; i++) free(info->origins[i].name);
    free(info->origins);
    *info = (slc_pack_info){0};
}
