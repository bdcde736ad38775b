/* The mixture-of-experts block (docs/architecture.md, "Mixture of experts").
 *
 *   p = softmax(Wr u) over all experts; the K largest, lower id first on ties; w = p / sum of the K
 *   y = sum over ranks of w_e expert_e(u), in rank order, + sigmoid(ws u) * shared(u)
 *
 * A "pair" is one (token, rank). Pairs are sorted by expert, so that an expert's tokens are
 * neighbouring rows: it is computed once for all of them, and writes to rows of its own. Experts
 * may come in any order and any grouping; only slc_moe_combine adds, always in rank order. */
#include <string.h>

#include "base/assert.h"
#include "kernels/scalar_math.h"
#include "model/net.h"

/* ---- routing ---- */

typedef struct moe_job {
    const slc_net *net;
    const slc_cpu *cpu;
    slc_pass *p;
} moe_job;

/* By insertion into a short sorted list: a later expert enters only if strictly better, so ties go
 * to the lower id. NaN compares false everywhere; the ids stay valid and the NaN travels on through
 * the weights. */
void slc_moe_choose(const float *prob, uint32_t n, uint32_t k, uint32_t *ids, float *weights) {
    float sum = 0.0f;
    uint32_t have = 0;

    for (uint32_t e = 0; e < n; e++) {
        uint32_t at;

        if (have == k && !(prob[e] > weights[k - 1])) continue;
        at = have < k ? have++ : k - 1;
        for (; at > 0 && prob[e] > weights[at - 1]; at--) {
            ids[at] = ids[at - 1];
            weights[at] = weights[at - 1];
        }
        ids[at] = e;
        weights[at] = prob[e];
    }
    for (uint32_t r = 0; r < k; r++) sum += weights[r];
    for (uint32_t r = 0; r < k; r++) weights[r] = weights[r] / sum;
}

static void route_row(void *ctx, uint32_t row, uint32_t worker) {
    const moe_job *j = ctx;
    const slc_config *c = j->net->cfg;
    float *prob = j->p->router + (size_t)row * c->n_experts;
    size_t at = (size_t)row * c->n_experts_per_tok;

    (void)worker;
    j->cpu->k.softmax(prob, c->n_experts);
    slc_moe_choose(prob, c->n_experts, c->n_experts_per_tok, j->p->expert_ids + at,
                   j->p->expert_weights + at);
}

/* Sorts the pass's pairs by expert, tokens ascending within one: a counting sort. */
static void sort_pairs(const slc_config *c, slc_pass *p) {
    uint32_t k = c->n_experts_per_tok, n = p->n_tok * k, *first = p->first_pair;
    float *best = p->best;

    memset(first, 0, ((size_t)c->n_experts + 1) * sizeof(*first));
    memset(best, 0, c->n_experts * sizeof(*best));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t e = p->expert_ids[i];

        first[e]++;
        if (p->expert_weights[i] > best[e]) best[e] = p->expert_weights[i];
    }
    p->n_distinct = 0;
    for (uint32_t e = 0, at = 0; e <= c->n_experts; e++) {
        uint32_t count = first[e];

        if (count) {
            p->distinct_score[p->n_distinct] = best[e];
            p->distinct[p->n_distinct++] = e;
        }
        first[e] = at;
        at += count;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t pair = first[p->expert_ids[i]]++;

        p->pair_of[i] = pair;
        p->pair_row[pair] = i / k;
    }
    /* Every start has moved to the next expert's: shift back. */
    memmove(first + 1, first, c->n_experts * sizeof(*first));
    first[0] = 0;
}

void slc_moe_route(const slc_net *net, slc_cpu *cpu, slc_pass *p, uint32_t layer) {
    const slc_layer *l = &net->layers[layer];
    /* A near tie between two experts turns the smallest error into another expert: on demo-moe this
     * halves the tail (p75 to p99) of the divergence from the exact run. */
    slc_product router = {&l->w[SLC_W_ROUTER], &p->u, p->router, net->cfg->n_experts, true};
    moe_job job = {net, cpu, p};

    slc_stage_begin(&cpu->stages, SLC_STAGE_ROUTER);
    slc_pass_norm(net, cpu, p, l->post_norm);
    slc_cpu_products(cpu, &router, 1);
    slc_pool_run(cpu->pool, route_row, &job, p->n_tok);
    sort_pairs(net->cfg, p);
}

/* ---- experts ---- */

void slc_moe_shared(const slc_net *net, slc_cpu *cpu, slc_pass *p, uint32_t layer) {
    const slc_config *c = net->cfg;
    const slc_layer *l = &net->layers[layer];
    slc_product in[] = {
        {&l->w[SLC_W_SHARED_GATE], &p->u, p->gate, c->shared_expert_size},
        {&l->w[SLC_W_SHARED_UP], &p->u, p->up, c->shared_expert_size},
        {&l->w[SLC_W_SHARED_ROUTE], &p->u, p->shared_route, 1},
    };
    slc_product out = {&l->w[SLC_W_SHARED_DOWN], &p->act, p->out, c->hidden_size};

    slc_stage_begin(&cpu->stages, SLC_STAGE_SHARED);
    slc_cpu_products(cpu, in, 3);
    slc_pass_swiglu(cpu, p, p->n_tok, c->shared_expert_size);
    slc_cpu_products(cpu, &out, 1);
}

/* A group of acts rows [row, row + n) as acts of its own, sharing the buffers. */
static slc_acts acts_rows(const slc_acts *a, float *x, uint32_t row, uint32_t n, uint32_t k) {
    slc_acts part = *a;
    size_t groups = (size_t)row * (k / SLC_MIN_GROUP + 1);

    part.q = a->q + (size_t)row * k;
    part.scale = a->scale + groups;
    part.sum = a->sum + groups;
    slc_acts_set(&part, x + (size_t)row * k, k, n, k);
    return part;
}

/* Inputs of one expert: the pass's own when every token chose it (always so for one token),
 * otherwise gathered rows. */
static slc_acts *expert_input(const slc_net *net, slc_pass *p, uint32_t first, uint32_t n,
                              uint32_t row, slc_acts *own) {
    uint32_t h = net->cfg->hidden_size;

    if (n == p->n_tok) return &p->u;
    for (uint32_t i = 0; i < n; i++)
        memcpy(p->gathered_x + (size_t)(row + i) * h, p->u_x + (size_t)p->pair_row[first + i] * h,
               h * sizeof(float));
    *own = acts_rows(&p->gathered, p->gathered_x, row, n, h);
    return own;
}

/* Experts whose tokens together fit into ff_rows. */
static void run_experts(const slc_net *net, slc_cpu *cpu, slc_pass *p, const slc_moe_expert *e,
                        uint32_t n) {
    const slc_config *c = net->cfg;
    slc_product *in = p->products, *out = p->products;
    slc_acts *own = p->expert_acts, *act = p->expert_acts + n;
    uint32_t row = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = p->first_pair[e[i].id], count = p->first_pair[e[i].id + 1] - first;
        slc_acts *x = expert_input(net, p, first, count, row, &own[i]);
        size_t at = (size_t)row * c->expert_size;

        in[2 * i] = (slc_product){&e[i].w[SLC_EXPERT_GATE], x, p->gate + at, c->expert_size};
        in[2 * i + 1] = (slc_product){&e[i].w[SLC_EXPERT_UP], x, p->up + at, c->expert_size};
        act[i] = acts_rows(&p->act, p->act_x, row, count, c->expert_size);
        row += count;
    }
    slc_cpu_products(cpu, in, 2 * n);
    slc_pass_swiglu(cpu, p, row, c->expert_size);
    for (uint32_t i = 0; i < n; i++)
        out[i] = (slc_product){&e[i].w[SLC_EXPERT_DOWN], &act[i],
                               p->pair_out + (size_t)p->first_pair[e[i].id] * c->hidden_size,
                               c->hidden_size};
    slc_cpu_products(cpu, out, n);
}

void slc_moe_experts(const slc_net *net, slc_cpu *cpu, slc_pass *p, const slc_moe_expert *e,
                     uint32_t n) {
    uint32_t from = 0, rows = 0;

    slc_assert(n <= net->cfg->n_experts);
    slc_stage_begin(&cpu->stages, SLC_STAGE_EXPERTS);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t count = p->first_pair[e[i].id + 1] - p->first_pair[e[i].id];

        if (rows + count > p->ff_rows) {
            run_experts(net, cpu, p, e + from, i - from);
            from = i;
            rows = 0;
        }
        rows += count;
    }
    if (n > from) run_experts(net, cpu, p, e + from, n - from);
}

/* ---- the sum ---- */

static void combine_row(void *ctx, uint32_t row, uint32_t worker) {
    const moe_job *j = ctx;
    const slc_config *c = j->net->cfg;
    slc_pass *p = j->p;
    uint32_t h = c->hidden_size, k = c->n_experts_per_tok;
    float *sum = p->u_x + (size_t)row * h; /* u is done with */
    float shared = 1.0f / (1.0f + slc_expf(-p->shared_route[row]));

    (void)worker;
    memset(sum, 0, h * sizeof(float));
    for (uint32_t r = 0; r < k; r++)
        j->cpu->k.axpy(sum, p->expert_weights[(size_t)row * k + r],
                       p->pair_out + (size_t)p->pair_of[(size_t)row * k + r] * h, h);
    j->cpu->k.axpy(sum, shared, p->out + (size_t)row * h, h);
    j->cpu->k.add(p->x + (size_t)row * h, sum, h);
}

void slc_moe_combine(const slc_net *net, slc_cpu *cpu, slc_pass *p) {
    moe_job job = {net, cpu, p};

    slc_stage_begin(&cpu->stages, SLC_STAGE_COMBINE);
    slc_pool_run(cpu->pool, combine_row, &job, p->n_tok);
}
