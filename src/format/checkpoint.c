/* Opening a checkpoint: the order of the steps, a report of what was left over, and the lookups
 * that stay. Names and headers are needed only while opening; what remains is a few kilobytes per
 * layer, plus a table of places for checkpoints that store every expert by itself. */
#include "format/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fail.h"
#include "format/opening.h"
#include "format/pack.h"
#include "format/qwen3_5_names.h"

enum { CONFIG_MAX_BYTES = 16 << 20 };

/* ---- configuration files ---- */

/* Reads one of the two; *text stays NULL where there is no such text. */
static slc_status read_json(slc_opening *o, slc_text_kind kind, slc_text_file *f) {
    *f = (slc_text_file){0};
    if (asprintf(&f->path, "%s/%s", o->c->dir, slc_text_names[kind]) < 0) {
        f->path = NULL;
        return slc_fail(o->err, SLC_E_NOMEM, "%s: no memory for a path", o->c->dir);
    }
    return slc_side_text_read(o->c, kind, CONFIG_MAX_BYTES, &f->text, &f->n, o->err);
}

static slc_status read_main_config(slc_opening *o) {
    slc_text_file f;
    slc_status rc = read_json(o, SLC_TEXT_CONFIG, &f);

    if (!rc && !f.text)
        rc = slc_fail_errno(o->err, ENOENT, "%s: cannot open", f.path);
    else if (!rc)
        rc = slc_config_parse(f.text, f.n, f.path, &o->c->cfg, &o->claims, o->err);
    slc_text_file_deinit(&f);
    return rc;
}

static slc_status read_generation_config(slc_opening *o) {
    slc_text_file f;
    slc_status rc = read_json(o, SLC_TEXT_GENERATION_CONFIG, &f);

    if (!rc && f.text) rc = slc_config_parse_generation(f.text, f.n, f.path, &o->c->cfg, o->err);
    slc_text_file_deinit(&f);
    return rc;
}

static slc_status read_config(slc_opening *o) {
    slc_status rc = read_main_config(o);

    if (!rc) rc = read_generation_config(o);
    if (!rc && o->c->cfg.n_stop_ids == 0)
        slc_logf(o->log, SLC_LOG_WARN,
                 "%s: neither config.json nor generation_config.json has an eos_token_id",
                 o->c->dir);
    return rc;
}

/* ---- leftovers ---- */

typedef enum leftover { SIDE_TOWER, SECOND_LAYOUT, TIED_HEAD, UNKNOWN, N_LEFTOVERS } leftover;

static leftover kind_of(const slc_opening *o, const char *name) {
    if (slc_name_is_side_tower(name)) return SIDE_TOWER;
    if (slc_config_is_moe(&o->c->cfg) &&
        (strstr(name, ".mlp.experts.") || strstr(name, ".mlp.switch_mlp.")))
        return SECOND_LAYOUT;
    if (o->c->tied && strncmp(name, "lm_head.", 8) == 0) return TIED_HEAD;
    return UNKNOWN;
}

/* One line per kind of tensor that nothing asked for. */
static void report_leftovers(slc_opening *o) {
    static const struct {
        slc_log_level level;
        const char *what;
    } lines[N_LEFTOVERS] = {
        [SIDE_TOWER] = {SLC_LOG_INFO, "vision or mtp tensors skipped"},
        [SECOND_LAYOUT] = {SLC_LOG_WARN, "expert tensors are there in a second layout, ignored"},
        [TIED_HEAD] = {SLC_LOG_INFO, "lm_head tensors ignored, the embedding is tied"},
        [UNKNOWN] = {SLC_LOG_WARN, "unknown tensors ignored"},
    };
    struct {
        uint32_t n;
        uint64_t bytes;
        const char *first;
    } seen[N_LEFTOVERS] = {0};

    for (uint32_t i = 0; i < o->set.n; i++) {
        const slc_set_tensor *s = &o->set.tensors[i];
        leftover k = kind_of(o, s->name);

        if (s->used) continue;
        if (!seen[k].n++) seen[k].first = s->t->name;
        seen[k].bytes += s->t->bytes;
    }
    for (int k = 0; k < N_LEFTOVERS; k++)
        if (seen[k].n)
            slc_logf(o->log, lines[k].level, "%s: %u %s, %" PRIu64 " bytes (first: %s)", o->c->dir,
                     seen[k].n, lines[k].what, seen[k].bytes, seen[k].first);
    o->c->ignored_bytes = seen[SIDE_TOWER].bytes;
}

/* ---- open and close ---- */

static slc_status open_folder(slc_opening *o) {
    slc_status rc;

    if ((rc = slc_opening_files(o))) return rc;
    if ((rc = slc_opening_weights(o))) return rc;
    if ((rc = slc_opening_experts(o))) return rc;
    report_leftovers(o);
    return SLC_OK;
}

static slc_status open_steps(slc_opening *o, const char *path) {
    slc_checkpoint *c = o->c;
    slc_status rc;

    if ((rc = slc_pack_find(path, &c->dir, o->err))) return rc;
    if ((rc = c->dir ? slc_pack_load(o) : slc_opening_folder(o, path))) return rc;
    if ((rc = read_config(o))) return rc;
    if (!(c->layers = slc_calloc(c->cfg.n_layers, sizeof(*c->layers))))
        return slc_fail(o->err, SLC_E_NOMEM, "%s: no memory for %u layers", c->dir,
                        c->cfg.n_layers);
    return c->pack ? slc_pack_bind(o) : open_folder(o);
}

slc_status slc_checkpoint_open(const char *path, const slc_log *log, slc_checkpoint **out,
                               slc_err *err) {
    slc_opening o = {.log = log, .err = err};
    slc_status rc;

    *out = NULL;
    if (!(o.c = slc_calloc(1, sizeof(*o.c))))
        return slc_fail(err, SLC_E_NOMEM, "%s: no memory for a checkpoint", path);
    rc = open_steps(&o, path);
    slc_tensor_set_deinit(&o.set);
    slc_quant_claims_free(o.claims);
    if (rc)
        slc_checkpoint_close(o.c);
    else
        *out = o.c;
    return rc;
}

void slc_checkpoint_close(slc_checkpoint *c) {
    if (!c) return;
    for (uint32_t i = 0; i < c->n_files; i++) slc_file_close(&c->files[i]);
    for (uint32_t i = 0; c->places && i < c->cfg.n_layers; i++) free(c->places[i].each);
    free(c->files);
    free(c->places);
    free(c->layers);
    slc_pack_index_destroy(c->pack);
    free(c->dir);
    free(c);
}

slc_status slc_checkpoint_check_files(const slc_checkpoint *c, slc_err *err) {
    slc_status rc = SLC_OK;

    for (uint32_t i = 0; !rc && i < c->n_files; i++) rc = slc_file_check(&c->files[i], err);
    return rc;
}

/* ---- experts ---- */

slc_extent slc_checkpoint_expert(const slc_checkpoint *c, uint32_t layer, uint32_t expert, int proj,
                                 int part) {
    const struct slc_expert_places *places = &c->places[layer];
    const slc_expert_stack *stack = &places->stack[proj][part];
    uint64_t bytes = slc_matrix_part_bytes(&c->layers[layer].expert[proj], part);
    slc_expert_place place = {.off = stack->first.off + expert * stack->stride,
                              .file = stack->first.file};

    slc_assert(layer < c->cfg.n_layers && expert < c->cfg.n_experts);
    if (bytes == 0) return (slc_extent){0};
    if (places->each)
        place =
            places->each[((size_t)expert * SLC_N_PROJ + (size_t)proj) * SLC_N_PARTS + (size_t)part];
    return (slc_extent){.file = place.file, .off = place.off, .bytes = bytes};
}

uint64_t slc_checkpoint_expert_bytes(const slc_checkpoint *c, uint32_t layer) {
    uint64_t sum = 0;

    for (int proj = 0; proj < SLC_N_PROJ; proj++)
        for (int part = 0; part < SLC_N_PARTS; part++)
            sum += slc_matrix_part_bytes(&c->layers[layer].expert[proj], part);
    return sum;
}
