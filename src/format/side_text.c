/* Texts beside the weights, or inside a pack; see the header. */
#include "format/side_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "format/checkpoint.h"
#include "format/pack_index.h"

const char *const slc_text_names[SLC_N_TEXTS] = {
    [SLC_TEXT_CONFIG] = "config.json",
    [SLC_TEXT_GENERATION_CONFIG] = "generation_config.json",
    [SLC_TEXT_TOKENIZER] = "tokenizer.json",
    [SLC_TEXT_TOKENIZER_CONFIG] = "tokenizer_config.json",
    [SLC_TEXT_CHAT_TEMPLATE] = "chat_template.jinja",
};

slc_status slc_side_text_open_file(const char *path, slc_side_text *out, slc_err *err) {
    slc_status rc;

    *out = (slc_side_text){0};
    if ((rc = slc_file_open(&out->own, path, err))) return rc;
    out->file = &out->own;
    out->bytes = out->own.size_bytes;
    return SLC_OK;
}

static slc_status open_beside(const slc_checkpoint *c, slc_text_kind kind, slc_side_text *out,
                              slc_err *err) {
    struct stat st; /* of the link itself: one that leads nowhere is no missing text */
    char *path;
    slc_status rc = SLC_OK;

    if (asprintf(&path, "%s/%s", c->dir, slc_text_names[kind]) < 0)
        return slc_fail(err, SLC_E_NOMEM, "%s: no memory for a path", c->dir);
    if (lstat(path, &st) == 0 || errno != ENOENT) rc = slc_side_text_open_file(path, out, err);
    free(path);
    return rc;
}

slc_status slc_side_text_open(const slc_checkpoint *c, slc_text_kind kind, slc_side_text *out,
                              slc_err *err) {
    const slc_pack_range *r;

    *out = (slc_side_text){0};
    if (!c->pack) return open_beside(c, kind, out, err);
    r = &c->pack->text[kind];
    if (!r->off) return SLC_OK;
    *out = (slc_side_text){.file = &c->files[0], .off = r->off, .bytes = r->bytes};
    return SLC_OK;
}

void slc_side_text_close(slc_side_text *t) {
    slc_file_close(&t->own);
    *t = (slc_side_text){0};
}

static slc_status read_whole(const slc_side_text *t, const char *name, uint64_t max_bytes,
                             char **text, slc_err *err) {
    slc_status rc;

    if (t->bytes > max_bytes)
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: %s has %" PRIu64 " bytes, expected at most %" PRIu64, t->file->path,
                        name, t->bytes, max_bytes);
    if (!(*text = slc_calloc((size_t)t->bytes + 1, 1)))
        return slc_fail(err, SLC_E_NOMEM, "%s: no memory for %s", t->file->path, name);
    rc = slc_file_read(t->file, t->off, *text, (size_t)t->bytes, err);
    if (rc) {
        free(*text);
        *text = NULL;
    }
    return rc;
}

slc_status slc_side_text_read(const slc_checkpoint *c, slc_text_kind kind, uint64_t max_bytes,
                              char **text, size_t *n, slc_err *err) {
    slc_side_text t;
    slc_status rc = slc_side_text_open(c, kind, &t, err);

    *text = NULL;
    *n = 0;
    if (!rc && t.file) {
        rc = read_whole(&t, slc_text_names[kind], max_bytes, text, err);
        if (!rc) *n = (size_t)t.bytes;
    }
    slc_side_text_close(&t);
    return rc;
}
