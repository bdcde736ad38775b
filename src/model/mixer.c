/* The first half of a layer: x += mixer(norm(x)), by the kind of the layer. */
#include "model/net.h"

void slc_layer_mix(const slc_net *net, slc_cpu *cpu, const slc_state_layout *sl, slc_pass *p,
                   uint32_t layer) {
    const slc_layer *l = &net->layers[layer];

    slc_stage_begin(&cpu->stages, l->kind == SLC_LAYER_FULL ? SLC_STAGE_FULL_IN : SLC_STAGE_GDN_IN);
    slc_pass_norm(net, cpu, p, l->input_norm);
    if (l->kind == SLC_LAYER_FULL)
        slc_layer_attention(net, cpu, sl, p, l);
    else
        slc_layer_gdn(net, cpu, sl, p, l);
    slc_pass_add(net, cpu, p);
}
