/* Gated DeltaNet, the linear-attention mixer (docs/architecture.md, "Gated DeltaNet").
 *
 *     qkv = Wqkv u, z = Wz u, b = Wb u, a = Wa u
 *     q, k, v = silu(causal depthwise convolution of qkv)
 *     q, k l2-normed per head, q times 1/sqrt(dk)
 *     beta = sigmoid(b), g = exp(-exp(A_log) softplus(a + dt_bias))        per value head
 *     S = g S; d = beta (v - S k); S = S + d k^T; o = S q      head j uses key head j/(VH/KH)
 *     out = Wout( norm(o) * silu(z) )
 *
 * The recurrence itself is run, token after token: exact at any chunk size, and no exponential of a
 * cumulated decay that could overflow. */
#include <math.h>
#include <string.h>

#include "kernels/scalar_math.h"
#include "model/net.h"

/* Of the l2 norm of q and k, added to the sum of squares. */
#define L2_EPS 1e-6f

typedef struct gdn_job {
    const slc_net *net;
    const slc_cpu *cpu;
    const slc_state_layout *sl;
    slc_pass *p;
    const slc_layer *l;
    uint32_t key_dim, conv_dim;
    float *b, *a; /* [n_tok][VH] projections, then beta and g in place */
} gdn_job;

static float *conv_state(const gdn_job *j, const slc_state *s) {
    return (float *)(void *)(s->base + j->sl->conv_off + j->l->kind_idx * j->sl->conv_bytes);
}

static float *recurrent_state(const gdn_job *j, const slc_state *s, uint32_t head) {
    const slc_config *c = j->net->cfg;

    return (float *)(void *)(s->base + j->sl->s_off + j->l->kind_idx * j->sl->s_bytes) +
           (size_t)head * c->value_head_dim * c->key_head_dim;
}

/* Raw row `i` before (i < 0) or in a span: the state holds the last taps - 1 rows, oldest first. */
static const float *raw_row(const gdn_job *j, const slc_span *span, int64_t i) {
    if (i < 0)
        return conv_state(j, span->state) +
               (size_t)(i + j->net->cfg->conv_kernel - 1) * j->conv_dim;
    return j->p->proj + (span->row + (size_t)i) * j->conv_dim;
}

/* Convolution, norms and gates of one token. */
static void prepare_row(void *ctx, uint32_t row, uint32_t worker) {
    const gdn_job *j = ctx;
    const slc_config *c = j->net->cfg;
    const slc_span *span = &j->p->spans[j->p->span_of_row[row]];
    uint32_t taps = c->conv_kernel, dk = c->key_head_dim;
    float *out = j->p->conv + (size_t)row * j->conv_dim, *q = out, *k = out + j->key_dim;
    float *b = j->b + (size_t)row * c->n_value_heads, *a = j->a + (size_t)row * c->n_value_heads;
    const float *rows[SLC_MAX_CONV_TAPS];

    (void)worker;
    for (uint32_t t = 0; t < taps; t++)
        rows[t] = raw_row(j, span, (int64_t)(row - span->row) + t - (taps - 1));
    j->cpu->k.conv_silu(out, rows, j->l->conv, j->conv_dim, taps, j->conv_dim);
    for (uint32_t h = 0; h < c->n_key_heads; h++, q += dk, k += dk) {
        j->cpu->k.l2_norm(q, q, dk, L2_EPS, 1.0f / sqrtf((float)dk));
        j->cpu->k.l2_norm(k, k, dk, L2_EPS, 1.0f);
    }
    for (uint32_t h = 0; h < c->n_value_heads; h++) {
        b[h] = 1.0f / (1.0f + slc_expf(-b[h]));
        a[h] = slc_expf(j->l->neg_exp_a[h] * slc_softplusf(a[h] + j->l->dt_bias[h]));
    }
}

/* The recurrence and the gated norm of one value head over one span. */
static void recur_head(void *ctx, uint32_t task, uint32_t worker) {
    const gdn_job *j = ctx;
    const slc_config *c = j->net->cfg;
    slc_pass *p = j->p;
    const slc_span *span = &p->spans[task / c->n_value_heads];
    uint32_t h = task % c->n_value_heads, kh = h / (c->n_value_heads / c->n_key_heads);
    uint32_t dk = c->key_head_dim, dv = c->value_head_dim, z_dim = c->n_value_heads * dv;
    const float *conv = p->conv + (size_t)span->row * j->conv_dim;
    float *o = p->mixed_x + (size_t)span->row * z_dim + (size_t)h * dv;
    const float *z = p->proj2 + (size_t)span->row * z_dim + (size_t)h * dv;
    size_t gate = (size_t)span->row * c->n_value_heads + h;

    (void)worker;
    j->cpu->k.gdn(recurrent_state(j, span->state, h), dv, dk, span->n_tok, conv + (size_t)kh * dk,
                  conv + j->key_dim + (size_t)kh * dk, j->conv_dim,
                  conv + 2 * (size_t)j->key_dim + (size_t)h * dv, j->conv_dim, j->a + gate,
                  j->b + gate, c->n_value_heads, o, z_dim);
    for (uint32_t t = 0; t < span->n_tok; t++, o += z_dim, z += z_dim) {
        j->cpu->k.rms_norm(o, o, j->l->gdn_norm, dv, c->rms_eps);
        j->cpu->k.swiglu(o, z, o, dv);
    }
}

/* The new convolution state: the last taps - 1 rows of (old state, rows of the span), oldest first.
 * Ascending order reads every old row before it is overwritten. */
static void update_conv_state(const gdn_job *j, const slc_span *span) {
    uint32_t keep = j->net->cfg->conv_kernel - 1;
    float *state = conv_state(j, span->state);

    for (uint32_t i = 0; i < keep; i++)
        memmove(state + (size_t)i * j->conv_dim, raw_row(j, span, (int64_t)span->n_tok - keep + i),
                j->conv_dim * sizeof(float));
}

void slc_layer_gdn(const slc_net *net, slc_cpu *cpu, const slc_state_layout *sl, slc_pass *p,
                   const slc_layer *l) {
    const slc_config *c = net->cfg;
    uint32_t z_dim = c->n_value_heads * c->value_head_dim;
    gdn_job job = {.net = net,
                   .cpu = cpu,
                   .sl = sl,
                   .p = p,
                   .l = l,
                   .key_dim = c->n_key_heads * c->key_head_dim,
                   .conv_dim = slc_config_conv_dim(c),
                   .b = p->gates,
                   .a = p->gates + (size_t)p->n_tok * c->n_value_heads};
    slc_product in[] = {
        {&l->w[SLC_W_QKV], &p->u, p->proj, job.conv_dim},
        {&l->w[SLC_W_Z], &p->u, p->proj2, z_dim},
        {&l->w[SLC_W_B], &p->u, job.b, c->n_value_heads},
        {&l->w[SLC_W_A], &p->u, job.a, c->n_value_heads},
    };
    slc_product out = {&l->w[SLC_W_OUT], &p->mixed, p->out, c->hidden_size};

    slc_cpu_products(cpu, in, 4);
    slc_stage_begin(&cpu->stages, SLC_STAGE_GDN_CONV);
    slc_pool_run(cpu->pool, prepare_row, &job, p->n_tok);
    slc_stage_begin(&cpu->stages, SLC_STAGE_GDN_STATE);
    slc_stage_move(&cpu->stages, 2 * sl->s_bytes * p->n_spans);
    slc_pool_run(cpu->pool, recur_head, &job, p->n_spans * c->n_value_heads);
    slc_stage_begin(&cpu->stages, SLC_STAGE_GDN_OUT);
    for (uint32_t s = 0; s < p->n_spans; s++) update_conv_state(&job, &p->spans[s]);
    slc_acts_set(&p->mixed, p->mixed_x, z_dim, p->n_tok, z_dim);
    slc_cpu_products(cpu, &out, 1);
}
