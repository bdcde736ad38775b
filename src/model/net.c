/* The frame of a pass: set-up of a network, embedding, norms, residual additions, logits. The layer
 * files (mixer.c, attention.c, gdn.c, ffn.c, moe.c) hold what happens inside a layer. */
#include "model/net.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "kernels/scalar_math.h"

slc_status slc_net_init(slc_net *net, const slc_config *cfg, slc_err *err) {
    uint32_t half = cfg->rope_dims / 2;

    *net = (slc_net){.cfg = cfg};
    net->layers = slc_calloc(cfg->n_layers, sizeof(*net->layers));
    net->inv_freq = slc_calloc(half, sizeof(*net->inv_freq));
    if (!net->layers || !net->inv_freq) {
        slc_net_deinit(net);
        return slc_fail(err, SLC_E_NOMEM, "no memory for %u layers", cfg->n_layers);
    }
    for (uint32_t i = 0; i < half; i++)
        net->inv_freq[i] = slc_pow(cfg->rope_theta, -2.0 * i / cfg->rope_dims);
    for (uint32_t i = 0; i < cfg->n_layers; i++) {
        slc_layer *l = &net->layers[i];

        l->kind = (slc_layer_kind)cfg->layer_kind[i];
        l->kind_idx = l->kind == SLC_LAYER_FULL ? net->n_full++ : net->n_gdn++;
    }
    return SLC_OK;
}

void slc_net_deinit(slc_net *net) {
    free(net->layers);
    free(net->inv_freq);
    *net = (slc_net){0};
}

/* ---- embedding and angles ---- */

typedef struct begin_job {
    const slc_net *net;
    const slc_cpu *cpu;
    slc_pass *p;
    const int32_t *tokens;
} begin_job;

static void begin_row(void *ctx, uint32_t row, uint32_t worker) {
    const begin_job *j = ctx;
    const slc_config *c = j->net->cfg;
    slc_pass *p = j->p;
    uint32_t half = c->rope_dims / 2;

    (void)worker;
    j->cpu->k.dequant_row(&j->net->embed, (uint32_t)j->tokens[row],
                          p->x + (size_t)row * c->hidden_size);
    for (uint32_t i = 0; i < half; i++) {
        double s, co;

        slc_sincos((double)p->pos_of_row[row] * j->net->inv_freq[i], &s, &co);
        p->rope_cos[(size_t)row * half + i] = (float)co;
        p->rope_sin[(size_t)row * half + i] = (float)s;
    }
}

void slc_net_begin(const slc_net *net, slc_cpu *cpu, slc_pass *p, const int32_t *tokens) {
    begin_job job = {net, cpu, p, tokens};

    slc_stage_begin(&cpu->stages, SLC_STAGE_EMBED);
    p->n_tok = 0;
    for (uint32_t s = 0; s < p->n_spans; s++) {
        slc_span *span = &p->spans[s];

        span->row = p->n_tok;
        for (uint32_t i = 0; i < span->n_tok; i++) {
            p->span_of_row[p->n_tok] = s;
            p->pos_of_row[p->n_tok++] = span->state->len + i;
        }
    }
    slc_pool_run(cpu->pool, begin_row, &job, p->n_tok);
}

void slc_net_advance(slc_pass *p) {
    for (uint32_t s = 0; s < p->n_spans; s++) p->spans[s].state->len += p->spans[s].n_tok;
}

/* ---- norms and residual ---- */

void slc_acts_set(slc_acts *a, const float *x, size_t ldx, uint32_t n_tok, uint32_t k) {
    a->x = x;
    a->ldx = ldx;
    a->n_tok = n_tok;
    a->k = k;
    a->group = 0;
}

typedef struct norm_job {
    const slc_net *net;
    const slc_cpu *cpu;
    slc_pass *p;
    const float *w;
    const uint32_t *rows; /* of x; NULL: row i is i */
    float *y;
} norm_job;

static void norm_row(void *ctx, uint32_t i, uint32_t worker) {
    const norm_job *j = ctx;
    uint32_t h = j->net->cfg->hidden_size, row = j->rows ? j->rows[i] : i;

    (void)worker;
    j->cpu->k.rms_norm(j->y + (size_t)i * h, j->p->x + (size_t)row * h, j->w, h,
                       j->net->cfg->rms_eps);
}

void slc_norm_rows(const slc_net *net, slc_cpu *cpu, slc_pass *p, const float *w,
                   const uint32_t *rows, uint32_t n, slc_acts *out, float *y) {
    norm_job job = {net, cpu, p, w, rows, y};

    slc_pool_run(cpu->pool, norm_row, &job, n);
    slc_acts_set(out, y, net->cfg->hidden_size, n, net->cfg->hidden_size);
}

void slc_pass_norm(const slc_net *net, slc_cpu *cpu, slc_pass *p, const float *w) {
    slc_norm_rows(net, cpu, p, w, NULL, p->n_tok, &p->u, p->u_x);
}

typedef struct row_job {
    slc_cpu *cpu;
    slc_pass *p;
    uint32_t width;
} row_job;

static void add_row(void *ctx, uint32_t row, uint32_t worker) {
    const row_job *j = ctx;
    size_t at = (size_t)row * j->width;

    (void)worker;
    j->cpu->k.add(j->p->x + at, j->p->out + at, j->width);
}

void slc_pass_add(const slc_net *net, slc_cpu *cpu, slc_pass *p) {
    row_job job = {cpu, p, net->cfg->hidden_size};

    slc_pool_run(cpu->pool, add_row, &job, p->n_tok);
}

/* ---- logits ---- */

void slc_net_logits(const slc_net *net, slc_cpu *cpu, slc_pass *p, const uint32_t *rows,
                    uint32_t n) {
    slc_product product = {&net->lm_head, &p->final, p->logits, net->cfg->vocab_size};

    slc_stage_begin(&cpu->stages, SLC_STAGE_LOGITS);
    slc_norm_rows(net, cpu, p, net->final_norm, rows, n, &p->final, p->final_x);
    slc_cpu_products(cpu, &product, 1);
}

bool slc_all_finite(const float *x, size_t n) {
    uint32_t bad = 0; /* branch-free so that it vectorises */

    for (size_t i = 0; i < n; i++) bad |= (slc_f32_bits(x[i]) & 0x7f800000u) == 0x7f800000u;
    return !bad;
}
