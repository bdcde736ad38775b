/* Memory of sequences and passes: sizes and addresses, nothing computed. */
#include <string.h>

#include "model/net.h"

#define MAX2(a, b) ((a) > (b) ? (a) : (b))

void slc_state_layout_init(slc_state_layout *l, const slc_net *net, uint32_t ctx, bool kv_f32) {
    const slc_config *c = net->cfg;

    *l = (slc_state_layout){.ctx = ctx, .kv_f32 = kv_f32};
    l->kv_bytes = (uint64_t)c->n_kv_heads * ctx * c->head_dim * (kv_f32 ? 4 : 2);
    l->kv_bytes = slc_align_up(l->kv_bytes, SLC_SIMD_ALIGN);
    l->conv_bytes = (uint64_t)(c->conv_kernel - 1) * slc_config_conv_dim(c) * sizeof(float);
    l->conv_bytes = slc_align_up(l->conv_bytes, SLC_SIMD_ALIGN);
    l->s_bytes = (uint64_t)c->n_value_heads * c->value_head_dim * c->key_head_dim * sizeof(float);
    l->s_bytes = slc_align_up(l->s_bytes, SLC_SIMD_ALIGN);
    l->conv_off = 2 * net->n_full * l->kv_bytes;
    l->s_off = l->conv_off + net->n_gdn * l->conv_bytes;
    l->total_bytes = l->s_off + net->n_gdn * l->s_bytes;
}

void slc_state_reset(const slc_state_layout *l, slc_state *s) {
    /* Rows of K and V past len are never read, so they need no clearing. */
    memset(s->base + l->conv_off, 0, l->total_bytes - l->conv_off);
    s->len = 0;
}

static void acts_take(slc_acts *acts, float **x, slc_arena *a, uint32_t n_tok, uint32_t k) {
    *x = slc_arena_take(a, (size_t)n_tok * k, sizeof(float));
    acts->q = slc_arena_take(a, (size_t)n_tok * k, sizeof(int16_t));
    acts->scale = slc_arena_take(a, (size_t)n_tok * (k / SLC_MIN_GROUP + 1), sizeof(float));
    acts->sum = slc_arena_take(a, (size_t)n_tok * (k / SLC_MIN_GROUP + 1), sizeof(int32_t));
}

static void moe_take(slc_pass *p, const slc_config *c, slc_arena *a) {
    size_t pairs = (size_t)p->max_tok * c->n_experts_per_tok;

    p->router = slc_arena_take(a, (size_t)p->max_tok * c->n_experts, sizeof(float));
    p->expert_ids = slc_arena_take(a, pairs, sizeof(uint32_t));
    p->expert_weights = slc_arena_take(a, pairs, sizeof(float));
    p->shared_route = slc_arena_take(a, p->max_tok, sizeof(float));
    p->distinct = slc_arena_take(a, c->n_experts, sizeof(uint32_t));
    p->first_pair = slc_arena_take(a, (size_t)c->n_experts + 1, sizeof(uint32_t));
    p->pair_row = slc_arena_take(a, pairs, sizeof(uint32_t));
    p->pair_of = slc_arena_take(a, pairs, sizeof(uint32_t));
    acts_take(&p->gathered, &p->gathered_x, a, p->ff_rows, c->hidden_size);
    p->pair_out = slc_arena_take(a, pairs * c->hidden_size, sizeof(float));
    p->distinct_score = slc_arena_take(a, c->n_experts, sizeof(float));
    p->best = slc_arena_take(a, c->n_experts, sizeof(float));
    p->guess = slc_arena_take(a, c->n_experts, sizeof(uint32_t));
    p->guess_score = slc_arena_take(a, c->n_experts, sizeof(float));
    p->products = slc_arena_take(a, (size_t)2 * c->n_experts, sizeof(*p->products));
    p->expert_acts = slc_arena_take(a, (size_t)2 * c->n_experts, sizeof(*p->expert_acts));
}

void slc_pass_take(slc_pass *p, const slc_net *net, slc_arena *a, uint32_t max_tok,
                   uint32_t max_spans, uint32_t logit_rows) {
    const slc_config *c = net->cfg;
    uint32_t conv_dim = slc_config_conv_dim(c);
    uint32_t z_dim = c->n_value_heads * c->value_head_dim, attn_dim = c->n_heads * c->head_dim;
    uint32_t kv_dim = c->n_kv_heads * c->head_dim;
    uint32_t ff = MAX2(c->intermediate_size, MAX2(c->expert_size, c->shared_expert_size));

    *p = (slc_pass){.max_tok = max_tok, .max_spans = max_spans, .logit_rows = logit_rows};
    p->spans = slc_arena_take(a, max_spans, sizeof(*p->spans));
    p->span_of_row = slc_arena_take(a, max_tok, sizeof(uint32_t));
    p->pos_of_row = slc_arena_take(a, max_tok, sizeof(uint32_t));
    p->x = slc_arena_take(a, (size_t)max_tok * c->hidden_size, sizeof(float));
    p->rope_cos = slc_arena_take(a, (size_t)max_tok * (c->rope_dims / 2), sizeof(float));
    p->rope_sin = slc_arena_take(a, (size_t)max_tok * (c->rope_dims / 2), sizeof(float));
    acts_take(&p->u, &p->u_x, a, max_tok, c->hidden_size);
    p->proj = slc_arena_take(a, (size_t)max_tok * MAX2(2 * attn_dim, conv_dim), sizeof(float));
    p->proj2 = slc_arena_take(a, (size_t)max_tok * MAX2(2 * kv_dim, z_dim), sizeof(float));
    p->gates = slc_arena_take(a, (size_t)max_tok * 2 * c->n_value_heads, sizeof(float));
    p->conv = slc_arena_take(a, (size_t)max_tok * conv_dim, sizeof(float));
    acts_take(&p->mixed, &p->mixed_x, a, max_tok, MAX2(c->hidden_size, MAX2(attn_dim, z_dim)));
    p->out = slc_arena_take(a, (size_t)max_tok * c->hidden_size, sizeof(float));

    /* A whole token's experts, or a whole pass that chose one expert, fit at once. */
    p->ff_rows = MAX2(max_tok, c->n_experts_per_tok);
    p->gate = slc_arena_take(a, (size_t)p->ff_rows * ff, sizeof(float));
    p->up = slc_arena_take(a, (size_t)p->ff_rows * ff, sizeof(float));
    acts_take(&p->act, &p->act_x, a, p->ff_rows, ff);
    if (slc_config_is_moe(c)) moe_take(p, c, a);

    acts_take(&p->final, &p->final_x, a, logit_rows, c->hidden_size);
    p->logits = slc_arena_take(a, (size_t)logit_rows * c->vocab_size, sizeof(float));
}
