/* Packing of an expert's parts into a slot; see the header. */
#include "stream/slot_layout.h"

#include "base/alloc.h"

bool slc_layer_has_experts(const slc_checkpoint *c, uint32_t layer) {
    return c->cfg.n_experts && c->layers[layer].expert[SLC_EXPERT_GATE].rows;
}

static uint64_t place(const slc_checkpoint *c, slc_extent e, uint64_t at, slc_slot_part *p) {
    const slc_file *file = &c->files[e.file];
    uint64_t align = file->align > SLC_SIMD_ALIGN ? file->align : SLC_SIMD_ALIGN;

    p->file = file;
    p->off = slc_align_down(e.off, file->align);
    p->len = slc_align_up(e.off + e.bytes, file->align) - p->off;
    p->lead = e.off - p->off;
    p->need = p->lead + e.bytes;
    p->at = slc_align_up(at, align);
    return p->at + p->len;
}

uint64_t slc_slot_layout(const slc_checkpoint *c, uint32_t layer, uint32_t expert,
                         slc_slot_part part[SLC_SLOT_PARTS]) {
    uint64_t used = 0;

    for (int i = 0; i < SLC_SLOT_PARTS; i++) {
        slc_extent e = slc_checkpoint_expert(c, layer, expert, i / SLC_N_PARTS, i % SLC_N_PARTS);
        part[i] = (slc_slot_part){0};
        if (e.bytes) used = place(c, e, used, &part[i]);
    }
    return used;
}
