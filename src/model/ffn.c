/* The dense feed-forward block, and SwiGLU for every kind of feed-forward. */
#include "model/net.h"

typedef struct swiglu_job {
    const slc_cpu *cpu;
    slc_pass *p;
    uint32_t width;
} swiglu_job;

static void swiglu_row(void *ctx, uint32_t row, uint32_t worker) {
    const swiglu_job *j = ctx;
    size_t at = (size_t)row * j->width;

    (void)worker;
    j->cpu->k.swiglu(j->p->act_x + at, j->p->gate + at, j->p->up + at, j->width);
}

void slc_pass_swiglu(slc_cpu *cpu, slc_pass *p, uint32_t rows, uint32_t width) {
    swiglu_job job = {cpu, p, width};

    slc_pool_run(cpu->pool, swiglu_row, &job, rows);
    slc_acts_set(&p->act, p->act_x, width, rows, width);
}

void slc_layer_dense(const slc_net *net, slc_cpu *cpu, slc_pass *p, uint32_t layer) {
    const slc_config *c = net->cfg;
    const slc_layer *l = &net->layers[layer];
    slc_product in[] = {
        {&l->w[SLC_W_GATE], &p->u, p->gate, c->intermediate_size},
        {&l->w[SLC_W_UP], &p->u, p->up, c->intermediate_size},
    };
    slc_product out = {&l->w[SLC_W_DOWN], &p->act, p->out, c->hidden_size};

    slc_stage_begin(&cpu->stages, SLC_STAGE_DENSE);
    slc_pass_norm(net, cpu, p, l->post_norm);
    slc_cpu_products(cpu, in, 2);
    slc_pass_swiglu(cpu, p, p->n_tok, c->intermediate_size);
    slc_cpu_products(cpu, &out, 1);
    slc_pass_add(net, cpu, p);
}
