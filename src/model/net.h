/* The network of a Qwen3.5 model, MoE or dense: its weights as views, the state of a sequence, the
 * working memory of a pass, and the operations of a layer. Computes on memory it is given; reads no
 * file and knows nothing of where experts come from.
 *
 * A pass moves the tokens of one or more sequences ("spans") through all layers together:
 *
 *     slc_net_begin                        embedding, rotary angles
 *     per layer: slc_layer_mix             x += mixer(norm(x)): attention or Gated DeltaNet
 *                dense: slc_layer_dense    x += mlp(norm(x))
 *                MoE:   slc_moe_route      u = norm(x), experts and weights of every token
 *                       slc_moe_shared     shared expert
 *                       slc_moe_experts    routed experts, any number at a time, in any order
 *                       slc_moe_combine    x += sum in rank order + gated shared expert
 *     slc_net_advance                      sequences have consumed their tokens
 *     slc_net_logits                       final norm and lm_head of chosen rows
 *
 * What is computed for a token never depends on the other tokens of the pass, except through its
 * own sequence's state. Letters are those of docs/architecture.md: H hidden size, nh/nkv query and
 * KV heads, hd head dim, KH/VH key and value heads, dk/dv their dims, E experts, K per token, I
 * expert width, Is shared expert width, F dense width, V vocabulary. */
#ifndef SLC_MODEL_NET_H
#define SLC_MODEL_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/cpu.h"
#include "base/alloc.h"
#include "format/checkpoint.h"

/* ---- weights ---- */

/* Small weights of a layer as f32, converted at load. Absent ones are NULL. */
typedef struct slc_layer {
    slc_matrix w[SLC_W_N_LAYER];  /* the matrices; vectors and the convolution are below instead */
    const float *input_norm;      /* [H], +1 folded in */
    const float *post_norm;       /* [H], +1 folded in */
    const float *q_norm, *k_norm; /* [hd], +1 folded in */
    const float *conv;            /* [taps][conv_dim]: transposed from the file */
    const float *neg_exp_a;       /* [VH]: -exp(A_log) */
    const float *dt_bias;         /* [VH] */
    const float *gdn_norm;        /* [dv], plain */
    slc_matrix_type expert[SLC_N_PROJ];
    slc_layer_kind kind;
    uint32_t kind_idx; /* index among the layers of its kind: which state it owns */
} slc_layer;

typedef struct slc_net {
    const slc_config *cfg; /* borrowed */
    slc_layer *layers;     /* [cfg->n_layers] */
    slc_matrix embed, lm_head;
    const float *final_norm; /* [H], +1 folded in */
    uint32_t n_full, n_gdn;  /* layers of each kind */
    double *inv_freq;        /* [rope_dims / 2]: theta^(-2i / rope_dims) */
} slc_net;

/* Fills layer kinds, kind indices and inv_freq; weights are set by the loader. */
slc_status slc_net_init(slc_net *net, const slc_config *cfg, slc_err *err);
void slc_net_deinit(slc_net *net);

/* ---- state of a sequence ---- */

/* Where things lie in the memory of one sequence; the same for all sequences of a model.
 *   K, V  per full layer [nkv][ctx][hd], f16 (f32 when exact)
 *   conv  per GDN layer [taps - 1][conv_dim] f32: the last raw qkv rows, oldest first
 *   S     per GDN layer [VH][dv][dk] f32 */
typedef struct slc_state_layout {
    uint32_t ctx; /* positions */
    bool kv_f32;
    uint64_t kv_bytes;   /* of K, and of V, of one layer */
    uint64_t conv_bytes; /* of one layer */
    uint64_t s_bytes;    /* of one layer */
    uint64_t conv_off;   /* KV comes first, then conv of all layers, then S */
    uint64_t s_off;
    uint64_t total_bytes;
} slc_state_layout;

typedef struct slc_state {
    uint8_t *base; /* total_bytes, zeroed by slc_state_reset */
    uint32_t len;  /* tokens consumed */
} slc_state;

void slc_state_layout_init(slc_state_layout *l, const slc_net *net, uint32_t ctx, bool kv_f32);
/* Empties a sequence: length, convolution rows and recurrent matrices together. */
void slc_state_reset(const slc_state_layout *l, slc_state *s);

/* ---- a pass ---- */

/* Consecutive tokens of one sequence: rows [row, row + n_tok) of the pass. */
typedef struct slc_span {
    slc_state *state; /* state->len is the position of the first token */
    uint32_t row, n_tok;
} slc_span;

/* Working memory of a pass of at most max_tok tokens; every buffer is row-major by token. */
typedef struct slc_pass {
    uint32_t max_tok, max_spans;
    /* this pass */
    uint32_t n_tok, n_spans;
    slc_span *spans;            /* [max_spans] */
    uint32_t *span_of_row;      /* [max_tok] */
    uint32_t *pos_of_row;       /* [max_tok] position in its sequence */
    float *x;                   /* [max_tok][H] residual stream */
    float *rope_cos, *rope_sin; /* [max_tok][rope_dims / 2] */
    slc_acts u;                 /* normed input of the current block, [max_tok][H] */
    float *u_x;                 /* u's values (slc_acts holds them const) */
    float *proj;                /* [max_tok][widest first projection: q with gate, or qkv] */
    float *proj2;               /* [max_tok][k and v of attention, or z] */
    float *gates;               /* [max_tok][2 * VH]: b then a; then beta and g */
    float *conv;                /* [max_tok][conv_dim] after convolution */
    slc_acts mixed;             /* heads' output, input of the last projection */
    float *mixed_x;
    float *out; /* [max_tok][H] what a block adds */
    /* feed-forward */
    float *gate, *up; /* [ff_rows][ff width]; dense, shared and routed experts */
    slc_acts act;     /* silu(gate) * up */
    float *act_x;
    uint32_t ff_rows; /* token rows that gate, up and act hold */
    /* mixture of experts */
    float *router;         /* [max_tok][E] logits, then probabilities */
    uint32_t *expert_ids;  /* [max_tok][K], rank order */
    float *expert_weights; /* [max_tok][K], sum 1 */
    float *shared_route;   /* [max_tok] */
    uint32_t n_distinct;   /* experts that this pass needs */
    float *distinct_score; /* [E] by place in distinct: the largest weight that a token gives it */
    uint32_t *distinct;    /* [E] their ids, ascending */
    uint32_t *first_pair;  /* [E + 1] per expert id: where its pairs start */
    uint32_t *pair_row;    /* [max_tok * K] token of each pair, pairs sorted by expert then token */
    uint32_t *pair_of;     /* [max_tok][K] pair of a token's rank */
    slc_acts gathered;     /* [ff_rows][H] inputs of experts that not every token chose */
    float *gathered_x;
    float *pair_out; /* [max_tok * K][H] expert outputs, one row a pair */
    float
        *best; /* [E] by id: the largest weight over the tokens; scratch of routing and guessing */
    uint32_t n_guess;      /* experts that a later layer will probably need */
    uint32_t *guess;       /* [E] their ids, most probable first */
    float *guess_score;    /* [E] their weights */
    slc_product *products; /* [2 * E], slc_moe_experts */
    slc_acts *expert_acts; /* [2 * E] */
    /* logits */
    uint32_t logit_rows;
    slc_acts final; /* [logit_rows][H] */
    float *final_x;
    float *logits; /* [logit_rows][V] */
} slc_pass;

/* Takes every buffer from the arena (measuring or handing out, see base/alloc.h). */
void slc_pass_take(slc_pass *p, const slc_net *net, slc_arena *a, uint32_t max_tok,
                   uint32_t max_spans, uint32_t logit_rows);

/* Starts a pass: the caller has set spans and n_spans; `tokens` [n_tok] in row order are valid ids.
 */
void slc_net_begin(const slc_net *net, slc_cpu *cpu, slc_pass *p, const int32_t *tokens);
/* Every span's sequence has consumed its tokens. */
void slc_net_advance(slc_pass *p);
/* Logits of `n` rows of the pass (n <= logit_rows) into p->logits. */
void slc_net_logits(const slc_net *net, slc_cpu *cpu, slc_pass *p, const uint32_t *rows,
                    uint32_t n);
/* False if any of n values is infinite or NaN. */
bool slc_all_finite(const float *x, size_t n);

/* ---- layers ---- */

void slc_layer_mix(const slc_net *net, slc_cpu *cpu, const slc_state_layout *sl, slc_pass *p,
                   uint32_t layer);
void slc_layer_attention(const slc_net *net, slc_cpu *cpu, const slc_state_layout *sl, slc_pass *p,
                         const slc_layer *l);
void slc_layer_gdn(const slc_net *net, slc_cpu *cpu, const slc_state_layout *sl, slc_pass *p,
                   const slc_layer *l);
void slc_layer_dense(const slc_net *net, slc_cpu *cpu, slc_pass *p, uint32_t layer);

/* Fills expert_ids, expert_weights and the pairs of the pass. */
void slc_moe_route(const slc_net *net, slc_cpu *cpu, slc_pass *p, uint32_t layer);
void slc_moe_shared(const slc_net *net, slc_cpu *cpu, slc_pass *p, uint32_t layer);

/* The k largest of prob [n], largest first, lower id on ties, and their shares of the sum of the k.
 */
void slc_moe_choose(const float *prob, uint32_t n, uint32_t k, uint32_t *ids, float *weights);

/* Which experts layer `ahead` will probably choose: its norm and router applied to the residual
 * stream as it stands now. Fills guess and n_guess. Only prefetching depends on it, no result does.
 * Uses the buffers `mixed` and `router`, which nothing else needs between routing and the next
 * mixer. */
void slc_moe_guess(const slc_net *net, slc_cpu *cpu, slc_pass *p, uint32_t ahead);

/* A routed expert whose weights are in memory. */
typedef struct slc_moe_expert {
    uint32_t id;
    slc_matrix w[SLC_N_PROJ];
} slc_moe_expert;

/* Runs n experts of the pass on all tokens that chose them; outputs go to the pairs' own rows. */
void slc_moe_experts(const slc_net *net, slc_cpu *cpu, slc_pass *p, const slc_moe_expert *e,
                     uint32_t n);
void slc_moe_combine(const slc_net *net, slc_cpu *cpu, slc_pass *p);

/* ---- shared by the layer files ---- */

/* y = norm(x; w) of n rows of the pass (`rows` NULL: the first n), set as `out`, not yet quantised.
 */
void slc_norm_rows(const slc_net *net, slc_cpu *cpu, slc_pass *p, const float *w,
                   const uint32_t *rows, uint32_t n, slc_acts *out, float *y);
/* u = norm(x; w) for every token of the pass, not yet quantised. */
void slc_pass_norm(const slc_net *net, slc_cpu *cpu, slc_pass *p, const float *w);
/* x += out. */
void slc_pass_add(const slc_net *net, slc_cpu *cpu, slc_pass *p);
/* Points acts at n_tok rows of width k (its buffers sized by slc_acts_take), not quantised. */
void slc_acts_set(slc_acts *a, const float *x, size_t ldx, uint32_t n_tok, uint32_t k);

/* act = silu(gate) * up over `rows` rows of width `width`, as input of a down projection. */
void slc_pass_swiglu(slc_cpu *cpu, slc_pass *p, uint32_t rows, uint32_t width);

#endif
