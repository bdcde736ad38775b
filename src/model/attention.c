/* Full attention with output gate (spec: docs/architecture.md, "Full attention").
 *
 *   q|gate = Wq u (per head: hd query rows, then hd gate rows), k = Wk u, v = Wv u
 *   q, k normed per head and rotated; k and v appended to the cache
 *   o_h = softmax(q_h K / sqrt(hd)) V, times sigmoid(gate_h); out = Wo o */
#include <math.h>
#include <string.h>

#include "model/net.h"

typedef struct attn_job {
    const slc_net *net;
    const slc_cpu *cpu;
    const slc_state_layout *sl;
    slc_pass *p;
    const slc_layer *l;
    float *kx, *vx; /* [n_tok][nkv * hd] */
} attn_job;

/* Address of K (which = 0) or V (1) of one KV head at position 0. */
static void *kv_head(const attn_job *j, const slc_state *s, int which, uint32_t head) {
    const slc_config *c = j->net->cfg;
    uint64_t elem = j->sl->kv_f32 ? 4 : 2;

    return s->base + (2 * (uint64_t)j->l->kind_idx + which) * j->sl->kv_bytes +
           (uint64_t)head * j->sl->ctx * c->head_dim * elem;
}

static void kv_store(const attn_job *j, void *cache, uint32_t pos, const float *x) {
    uint32_t hd = j->net->cfg->head_dim;

    if (j->sl->kv_f32)
        memcpy((float *)cache + (size_t)pos * hd, x, hd * sizeof(float));
    else
        j->cpu->k.f32_to_f16((uint16_t *)cache + (size_t)pos * hd, x, hd);
}

/* Norms and rotates one token's queries and keys, and appends its keys and values to the cache. */
static void prepare_row(void *ctx, uint32_t row, uint32_t worker) {
    const attn_job *j = ctx;
    const slc_config *c = j->net->cfg;
    slc_pass *p = j->p;
    const slc_state *s = p->spans[p->span_of_row[row]].state;
    uint32_t hd = c->head_dim, half = c->rope_dims / 2, pos = p->pos_of_row[row];
    const float *co = p->rope_cos + (size_t)row * half, *si = p->rope_sin + (size_t)row * half;
    float *q = p->proj + (size_t)row * c->n_heads * 2 * hd;
    float *k = j->kx + (size_t)row * c->n_kv_heads * hd;
    const float *v = j->vx + (size_t)row * c->n_kv_heads * hd;

    (void)worker;
    for (uint32_t h = 0; h < c->n_heads; h++, q += 2 * hd) {
        j->cpu->k.rms_norm(q, q, j->l->q_norm, hd, c->rms_eps);
        j->cpu->k.rope(q, co, si, half);
    }
    for (uint32_t h = 0; h < c->n_kv_heads; h++, k += hd, v += hd) {
        j->cpu->k.rms_norm(k, k, j->l->k_norm, hd, c->rms_eps);
        j->cpu->k.rope(k, co, si, half);
        kv_store(j, kv_head(j, s, 0, h), pos, k);
        kv_store(j, kv_head(j, s, 1, h), pos, v);
    }
}

/* One query head of one token over its whole past. */
static void attend_head(void *ctx, uint32_t task, uint32_t worker) {
    const attn_job *j = ctx;
    const slc_config *c = j->net->cfg;
    slc_pass *p = j->p;
    uint32_t row = task / c->n_heads, h = task % c->n_heads, hd = c->head_dim;
    uint32_t kv = h / (c->n_heads / c->n_kv_heads), n_pos = p->pos_of_row[row] + 1;
    const slc_state *s = p->spans[p->span_of_row[row]].state;
    const float *q = p->proj + ((size_t)row * c->n_heads + h) * 2 * hd;
    float *o = p->mixed_x + ((size_t)row * c->n_heads + h) * hd;
    const void *kc = kv_head(j, s, 0, kv), *vc = kv_head(j, s, 1, kv);
    float scale = 1.0f / sqrtf((float)hd);

    (void)worker;
    if (j->sl->kv_f32)
        j->cpu->k.attend_f32(o, q, kc, vc, n_pos, hd, scale);
    else
        j->cpu->k.attend_f16(o, q, kc, vc, n_pos, hd, scale);
    j->cpu->k.sigmoid_mul(o, q + hd, hd);
}

/* Keys and values that the pass looks at, each once. */
static uint64_t past_bytes(const attn_job *j) {
    uint64_t n_pos = 0, row = 2ull * j->net->cfg->n_kv_heads * j->net->cfg->head_dim;

    for (uint32_t s = 0; s < j->p->n_spans; s++)
        n_pos += j->p->spans[s].state->len + j->p->spans[s].n_tok;
    return n_pos * row * (j->sl->kv_f32 ? 4 : 2);
}

void slc_layer_attention(const slc_net *net, slc_cpu *cpu, const slc_state_layout *sl, slc_pass *p,
                         const slc_layer *l) {
    const slc_config *c = net->cfg;
    uint32_t q_dim = c->n_heads * c->head_dim, kv_dim = c->n_kv_heads * c->head_dim;
    float *kx = p->proj2, *vx = p->proj2 + (size_t)p->n_tok * kv_dim;
    attn_job job = {net, cpu, sl, p, l, kx, vx};
    slc_product in[] = {
        {&l->w[SLC_W_Q], &p->u, p->proj, 2 * q_dim},
        {&l->w[SLC_W_K], &p->u, kx, kv_dim},
        {&l->w[SLC_W_V], &p->u, vx, kv_dim},
    };
    slc_product out = {&l->w[SLC_W_O], &p->mixed, p->out, c->hidden_size};

    slc_cpu_products(cpu, in, 3);
    slc_stage_begin(&cpu->stages, SLC_STAGE_FULL_ROTATE);
    slc_pool_run(cpu->pool, prepare_row, &job, p->n_tok);
    slc_stage_begin(&cpu->stages, SLC_STAGE_FULL_ATTEND);
    slc_stage_move(&cpu->stages, past_bytes(&job));
    slc_pool_run(cpu->pool, attend_head, &job, p->n_tok * c->n_heads);
    slc_stage_begin(&cpu->stages, SLC_STAGE_FULL_OUT);
    slc_acts_set(&p->mixed, p->mixed_x, q_dim, p->n_tok, q_dim);
    slc_cpu_products(cpu, &out, 1);
}
