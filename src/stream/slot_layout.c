/* Packing of an expert's parts into reads and of reads into a slot; see the header. */
#include "stream/slot_layout.h"

#include "base/alloc.h"

bool slc_layer_has_experts(const slc_checkpoint *c, uint32_t layer) {
    return c->cfg.n_experts && c->layers[layer].expert[SLC_EXPERT_GATE].rows;
}

typedef struct piece {
    slc_extent e;
    int part;
} piece;

static bool precedes(const slc_extent *a, const slc_extent *b) {
    return a->file != b->file ? a->file < b->file : a->off < b->off;
}

/* The parts that exist, in file order. */
static uint32_t list_pieces(const slc_checkpoint *c, uint32_t layer, uint32_t expert,
                            piece pieces[SLC_SLOT_PARTS]) {
    uint32_t n = 0;

    for (int i = 0; i < SLC_SLOT_PARTS; i++) {
        slc_extent e = slc_checkpoint_expert(c, layer, expert, i / SLC_N_PARTS, i % SLC_N_PARTS);
        uint32_t at = n;
        if (!e.bytes) continue;
        for (n++; at > 0 && precedes(&e, &pieces[at - 1].e); at--) pieces[at] = pieces[at - 1];
        pieces[at] = (piece){e, i};
    }
    return n;
}

/* Widens the last read to cover the extent, if it touches it. */
static bool extend(slc_slot_layout *l, const slc_file *file, slc_extent e) {
    slc_slot_read *r = l->n_reads ? &l->read[l->n_reads - 1] : NULL;
    uint64_t end = e.off + e.bytes;

    if (!r || r->file != file || slc_align_down(e.off, file->align) > r->off + r->len) return false;
    if (end - r->off > r->need) r->need = end - r->off;
    r->len = slc_align_up(r->need, file->align);
    return true;
}

static void append(slc_slot_layout *l, const slc_file *file, slc_extent e) {
    uint64_t align = file->align > SLC_SIMD_ALIGN ? file->align : SLC_SIMD_ALIGN;
    uint64_t off = slc_align_down(e.off, file->align), need = e.off + e.bytes - off;

    l->read[l->n_reads++] = (slc_slot_read){.file = file,
                                            .off = off,
                                            .len = slc_align_up(need, file->align),
                                            .need = need,
                                            .at = slc_align_up(l->bytes, align)};
}

void slc_slot_layout_of(const slc_checkpoint *c, uint32_t layer, uint32_t expert,
                        slc_slot_layout *out) {
    piece pieces[SLC_SLOT_PARTS];
    uint32_t n = list_pieces(c, layer, expert, pieces);

    out->bytes = 0;
    out->n_reads = 0;
    for (int i = 0; i < SLC_SLOT_PARTS; i++) out->part_at[i] = SLC_NO_PART;
    for (uint32_t i = 0; i < n; i++) {
        const slc_file *file = &c->files[pieces[i].e.file];
        const slc_slot_read *r;
        if (!extend(out, file, pieces[i].e)) append(out, file, pieces[i].e);
        r = &out->read[out->n_reads - 1];
        out->part_at[pieces[i].part] = r->at + (pieces[i].e.off - r->off);
        out->bytes = r->at + r->len;
    }
}
