/* A pack: a whole checkpoint in one file, an aligned record per expert (docs/formats/pack.md).
 * slc_checkpoint_open reads it like a folder; these are its steps, and what the writer shares. */
#ifndef SLC_FORMAT_PACK_H
#define SLC_FORMAT_PACK_H

#include "format/opening.h"
#include "format/pack_index.h"
#include "format/qwen3_5_names.h"

/* Whether `path` means a pack: a file that begins like one or is called *.pack, or a folder without
 * config.json that holds one file called so. *file: the malloc'd path of the pack, NULL for
 * anything else. A folder with several is refused. */
slc_status slc_pack_find(const char *path, char **file, slc_err *err) SLC_MUST_CHECK;

/* Opens the pack o->c->dir and reads its tables into o->c->pack; checks the texts' hashes. */
slc_status slc_pack_load(slc_opening *o) SLC_MUST_CHECK;
/* Holds the tables against o->c->cfg, which was read from the pack, and fills the rest of o->c. */
slc_status slc_pack_bind(slc_opening *o) SLC_MUST_CHECK;

/* The weights outside the experts that a config implies, in the order of the index: those of no
 * layer, then layer by layer, by rising id. */
typedef struct slc_pack_walk {
    const slc_config *cfg;
    bool tied; /* no lm_head of its own */
    bool begun;
    uint32_t layer, id; /* of the current weight, as in slc_pack_weight */
    slc_weight_spec spec;
} slc_pack_walk;

/* Zero the rest before the first call. False at the end. */
bool slc_pack_walk_next(slc_pack_walk *w);

/* "layers.3.self_attn.q_proj"; returns buf. */
const char *slc_pack_weight_name(const slc_config *cfg, uint32_t layer, uint32_t id,
                                 char buf[SLC_NAME_BYTES]);

#endif
