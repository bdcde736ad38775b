/* Looking ahead: the hidden state changes little from one layer to the next, so a later layer's
 * router applied to it now names most of the experts that will be wanted then. On demo-moe's real
 * routing about 0.71 of them one layer ahead and 0.61 two layers ahead. */
#include <string.h>

#include "model/net.h"

/* Marks the experts that a row would choose with the largest weight any row gives them. */
static void mark_row(const slc_config *c, slc_pass *p, const slc_cpu *cpu, uint32_t row) {
    float *prob = p->router + (size_t)row * c->n_experts;

    cpu->k.softmax(prob, c->n_experts);
    slc_moe_choose(prob, c->n_experts, c->n_experts_per_tok, p->guess, p->guess_score);
    for (uint32_t r = 0; r < c->n_experts_per_tok; r++)
        if (p->guess_score[r] > p->best[p->guess[r]]) p->best[p->guess[r]] = p->guess_score[r];
}

void slc_moe_guess(const slc_net *net, slc_cpu *cpu, slc_pass *p, uint32_t ahead) {
    const slc_config *c = net->cfg;
    const slc_layer *l = &net->layers[ahead];
    slc_product router = {&l->w[SLC_W_ROUTER], &p->mixed, p->router, c->n_experts};

    slc_stage_begin(&cpu->stages, SLC_STAGE_GUESS);
    slc_norm_rows(net, cpu, p, l->post_norm, NULL, p->n_tok, &p->mixed, p->mixed_x);
    slc_cpu_products(cpu, &router, 1);
    memset(p->best, 0, c->n_experts * sizeof(float));
    for (uint32_t row = 0; row < p->n_tok; row++) mark_row(c, p, cpu, row);

    p->n_guess = 0;
    for (uint32_t e = 0; e < c->n_experts; e++) p->n_guess += p->best[e] > 0;
    slc_moe_choose(p->best, c->n_experts, p->n_guess, p->guess, p->guess_score);
}
