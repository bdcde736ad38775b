/* Where the routed experts lie. Three layouts, chosen layer by layer, the first that is there:
 *
 *     stacked     mlp.switch_mlp.{gate,up,down}_proj, one tensor [E, ...] per part
 *     fused       mlp.experts.gate_up_proj [E, 2I, H], an expert's gate rows before its up rows,
 *                 and mlp.experts.down_proj [E, H, I]
 *     per expert  mlp.experts.{e}.{gate,up,down}_proj
 *
 * The first two need a base and a stride per part, the last a place for every expert. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "format/opening.h"
#include "format/qwen3_5_names.h"

static slc_expert_place place_of(const slc_set_tensor *s) {
    return (slc_expert_place){.off = s->t->off, .file = s->file};
}

/* Projection `proj` of a layer is, for each expert, `rows` rows of `l` from row `first` on. */
static void place_rows(slc_opening *o, uint32_t layer, int proj, const slc_linear *l,
                       uint32_t first, uint32_t rows) {
    slc_matrix_type *type = &o->c->layers[layer].expert[proj];

    *type = l->type;
    type->rows = rows;
    for (int p = 0; p < SLC_N_PARTS; p++) {
        slc_expert_stack *stack = &o->c->places[layer].stack[proj][p];

        if (!l->part[p]) continue;
        stack->first = place_of(l->part[p]);
        stack->first.off += first * slc_matrix_row_bytes(type, p);
        stack->stride = l->part[p]->t->bytes / o->c->cfg.n_experts;
    }
}

static slc_status stacked_layer(slc_opening *o, uint32_t layer) {
    uint32_t rows, cols;
    char module[SLC_NAME_BYTES];
    slc_linear l;
    slc_status rc;

    for (int proj = 0; proj < SLC_N_PROJ; proj++) {
        slc_expert_proj_shape(&o->c->cfg, proj, &rows, &cols);
        snprintf(module, sizeof(module), "layers.%u.mlp.switch_mlp.%s", layer,
                 slc_expert_proj_names[proj]);
        rc = slc_opening_linear(o, module, o->c->cfg.n_experts, rows, cols, &l);
        if (rc) return rc;
        place_rows(o, layer, proj, &l, 0, rows);
    }
    return SLC_OK;
}

static slc_status fused_layer(slc_opening *o, uint32_t layer) {
    const slc_config *cfg = &o->c->cfg;
    uint32_t size = cfg->expert_size, h = cfg->hidden_size, n = cfg->n_experts;
    char module[SLC_NAME_BYTES];
    slc_linear l;
    slc_status rc;

    snprintf(module, sizeof(module), "layers.%u.mlp.experts.gate_up_proj", layer);
    if ((rc = slc_opening_linear(o, module, n, 2 * size, h, &l))) return rc;
    place_rows(o, layer, SLC_EXPERT_GATE, &l, 0, size);
    place_rows(o, layer, SLC_EXPERT_UP, &l, size, size);
    snprintf(module, sizeof(module), "layers.%u.mlp.experts.down_proj", layer);
    if ((rc = slc_opening_linear(o, module, n, h, size, &l))) return rc;
    place_rows(o, layer, SLC_EXPERT_DOWN, &l, 0, h);
    return SLC_OK;
}

static bool same_encoding(const slc_matrix_type *a, const slc_matrix_type *b) {
    return a->dtype == b->dtype && a->scale_dtype == b->scale_dtype && a->bits == b->bits &&
           a->group == b->group;
}

static slc_status single_expert(slc_opening *o, uint32_t layer, uint32_t expert,
                                slc_expert_place place[SLC_N_PROJ][SLC_N_PARTS]) {
    uint32_t rows, cols;
    char module[SLC_NAME_BYTES];
    slc_linear l;
    slc_status rc;

    for (int proj = 0; proj < SLC_N_PROJ; proj++) {
        slc_matrix_type *type = &o->c->layers[layer].expert[proj];

        slc_expert_proj_shape(&o->c->cfg, proj, &rows, &cols);
        snprintf(module, sizeof(module), "layers.%u.mlp.experts.%u.%s", layer, expert,
                 slc_expert_proj_names[proj]);
        if ((rc = slc_opening_linear(o, module, 0, rows, cols, &l))) return rc;
        if (expert == 0) *type = l.type;
        if (!same_encoding(type, &l.type))
            return slc_fail(o->err, SLC_E_UNSUPPORTED,
                            "%s: %s is encoded differently from expert 0 of its layer", o->c->dir,
                            module);
        for (int p = 0; p < SLC_N_PARTS; p++)
            if (l.part[p]) place[proj][p] = place_of(l.part[p]);
    }
    return SLC_OK;
}

static slc_status separate_layer(slc_opening *o, uint32_t layer) {
    uint32_t n = o->c->cfg.n_experts;
    slc_expert_place(*each)[SLC_N_PROJ][SLC_N_PARTS] = slc_calloc(n, sizeof(*each));
    slc_status rc = SLC_OK;

    if (!each) return slc_fail(o->err, SLC_E_NOMEM, "%s: no memory for %u experts", o->c->dir, n);
    o->c->places[layer].each = &each[0][0][0];
    for (uint32_t e = 0; !rc && e < n; e++) rc = single_expert(o, layer, e, each[e]);
    return rc;
}

static slc_status expert_layer(slc_opening *o, uint32_t layer) {
    static const struct layout {
        const char *tensor; /* its presence tells the layout */
        slc_status (*read)(slc_opening *o, uint32_t layer);
    } layouts[] = {
        {"switch_mlp.gate_proj.weight", stacked_layer},
        {"experts.gate_up_proj", fused_layer},
        {"experts.gate_up_proj.weight", fused_layer},
        {"experts.0.gate_proj.weight", separate_layer},
    };
    char name[SLC_NAME_BYTES];

    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
        snprintf(name, sizeof(name), "layers.%u.mlp.%s", layer, layouts[i].tensor);
        if (slc_tensor_set_has(&o->set, name)) return layouts[i].read(o, layer);
    }
    return slc_fail(o->err, SLC_E_FORMAT,
                    "%s: the experts of layer %u are missing: none of mlp.switch_mlp.gate_proj, "
                    "mlp.experts.gate_up_proj, mlp.experts.0.gate_proj is there",
                    o->c->dir, layer);
}

slc_status slc_opening_experts(slc_opening *o) {
    slc_checkpoint *c = o->c;
    slc_status rc = SLC_OK;

    if (!slc_config_is_moe(&c->cfg)) return SLC_OK;
    if (!(c->places = slc_calloc(c->cfg.n_layers, sizeof(*c->places))))
        return slc_fail(o->err, SLC_E_NOMEM, "%s: no memory for expert places", c->dir);
    for (uint32_t i = 0; !rc && i < c->cfg.n_layers; i++) rc = expert_layer(o, i);
    return rc;
}
