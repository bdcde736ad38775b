/* Whole layers against numbers worked out by hand in double precision: projections with known
 * outputs (inputs are unit vectors, so a column of a weight matrix is what a token projects to),
 * then convolution, gates, recurrence, gate split, grouped heads, routing. Every layer is fed at
 * once, token by token, in uneven pieces, and beside a second sequence. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/net.h"

static void assert_near(const char *what, const float *got, const double *want, uint32_t n,
                        double tolerance) {
    for (uint32_t i = 0; i < n; i++) {
        if (fabs((double)got[i] - want[i]) <= tolerance) continue;
        fail_msg("%s[%u]: expected %.9g, found %.9g", what, i, want[i], (double)got[i]);
    }
}

/* ---- a network of one layer ---- */

enum { MAX_TOK = 16, CTX = 8, MAX_FLOATS = 4096 };

typedef struct rig {
    slc_config cfg;
    slc_net net;
    slc_cpu cpu;
    slc_state_layout layout;
    slc_arena scratch, states;
    slc_pass pass;
    slc_state state[2];
    float floats[MAX_FLOATS]; /* of weights */
    uint32_t n_floats;
} rig;

static float *take(rig *r, uint32_t n) {
    float *f = r->floats + r->n_floats;

    r->n_floats += n;
    assert_true(r->n_floats <= MAX_FLOATS);
    return f;
}

static slc_matrix matrix(const float *w, uint32_t rows, uint32_t cols) {
    slc_matrix m = {.type = {.dtype = SLC_DTYPE_F32, .rows = rows, .cols = cols}};

    m.part[SLC_PART_W] = (const uint8_t *)w;
    return m;
}

/* [rows][cols] whose column t is rows [t] of `by_token`: W e_t = by_token[t]. */
static slc_matrix columns(rig *r, const float *by_token, uint32_t n_tok, uint32_t rows) {
    uint32_t cols = r->cfg.hidden_size;
    float *w = take(r, rows * cols);

    for (uint32_t t = 0; t < n_tok; t++)
        for (uint32_t i = 0; i < rows; i++) w[i * cols + t] = by_token[t * rows + i];
    return matrix(w, rows, cols);
}

static slc_matrix identity(rig *r, uint32_t n) {
    float *w = take(r, n * n);

    for (uint32_t i = 0; i < n; i++) w[i * n + i] = 1;
    return matrix(w, n, n);
}

/* cfg is set: everything else. Token t is the unit vector e_t. */
static void start(rig *r) {
    slc_err err = {0};

    r->cfg.n_layers = 1;
    r->cfg.vocab_size = r->cfg.hidden_size;
    r->cfg.rms_eps = 1e-6f;
    assert_int_equal(slc_net_init(&r->net, &r->cfg, &err), SLC_OK);
    assert_int_equal(slc_cpu_init(&r->cpu, SLC_CPU_AUTO, 2, true, &err), SLC_OK);
    r->net.embed = identity(r, r->cfg.hidden_size);
    slc_pass_take(&r->pass, &r->net, &r->scratch, MAX_TOK, 2, 1);
    assert_int_equal(slc_arena_alloc(&r->scratch, false, &err), SLC_OK);
    slc_pass_take(&r->pass, &r->net, &r->scratch, MAX_TOK, 2, 1);
    slc_state_layout_init(&r->layout, &r->net, CTX, true);
    r->states.used = 2 * r->layout.total_bytes;
    assert_int_equal(slc_arena_alloc(&r->states, false, &err), SLC_OK);
    for (int i = 0; i < 2; i++) {
        r->state[i].base = slc_arena_take(&r->states, r->layout.total_bytes, 1);
        slc_state_reset(&r->layout, &r->state[i]);
    }
}

static void stop(rig *r) {
    slc_net_deinit(&r->net);
    slc_cpu_deinit(&r->cpu);
    slc_arena_free(&r->scratch);
    slc_arena_free(&r->states);
}

/* Starts a pass of the next n0 tokens of state 0 and n1 of state 1; u is the token as it is. */
static void begin(rig *r, uint32_t n0, uint32_t n1) {
    slc_pass *p = &r->pass;
    uint32_t n[] = {n0, n1}, h = r->cfg.hidden_size, row = 0;
    int32_t tokens[MAX_TOK];

    p->n_spans = 0;
    for (int i = 0; i < 2; i++) {
        if (!n[i]) continue;
        p->spans[p->n_spans++] = (slc_span){.state = &r->state[i], .n_tok = n[i]};
        for (uint32_t t = 0; t < n[i]; t++) tokens[row++] = (int32_t)(r->state[i].len + t);
    }
    slc_net_begin(&r->net, &r->cpu, p, tokens);
    memcpy(p->u_x, p->x, (size_t)row * h * sizeof(float));
    slc_acts_set(&p->u, p->u_x, h, row, h);
}

/* ---- Gated DeltaNet ---- */

enum { T = 5, VH = 2, DK = 2, DV = 3, CONV = 10 }; /* q 2 | k 2 | v0 3 | v1 3, one key head */

static const double gdn_o[T][VH * DV] = {
    {0.084196663, -0.011276651, -0.049179388, 0.111484945, 0.043481351, 0},
    {-0.107767893, 0.034266671, 0.060208909, -0.002563590, 0.015905865, 0.022577260},
    {0.059178874, -0.024515637, -0.127745868, -0.029663608, -0.136659764, 0.025656609},
    {-0.020185590, -0.180596113, 0.080730517, 0.085628590, 0.119167581, 0.036283130},
    {-0.037853255, 0.057243280, -0.055620149, -0.121243190, -0.153949712, -0.410965848},
};
static const double gdn_S[VH * DV * DK] = {
    -0.073910754, -0.038968729, -0.059053518, 0.095375723,  -0.004737807, -0.079418649,
    -0.090210881, -0.156077020, -0.103800193, -0.200472963, -0.497400110, -0.488155962,
};
static const float gdn_z[VH * DV] = {0.5f, -1, 2, 1, 0, -0.5f}, gdn_norm[DV] = {1, 0.5f, 2};

/* What the layer adds at time t: norm of o, gated by silu(z). */
static void gdn_want(uint32_t t, double *y) {
    for (int h = 0; h < VH; h++) {
        const double *o = gdn_o[t] + h * DV;
        double r = sqrt((o[0] * o[0] + o[1] * o[1] + o[2] * o[2]) / DV + 1e-6);

        for (int i = 0; i < DV; i++) {
            double z = (double)gdn_z[h * DV + i];

            y[h * DV + i] = o[i] / r * (double)gdn_norm[i] * z / (1 + exp(-z));
        }
    }
}

/* `taps` of the convolution, all but the last four zero. */
static rig *gdn_rig(uint32_t taps) {
    static const float a[T * VH] = {0.5f, -0.25f, -1, 0.75f, 0, 1.5f, 1, -1, 0.25f, 0.25f};
    static const float b[T * VH] = {0, 1, 2, -1, -0.5f, 0.5f, 1.5f, 0, -2, 3};
    static const float neg_exp_a[VH] = {-1, -1.64872127f}, dt_bias[VH] = {0.25f, -0.5f};
    float qkv[T * CONV], z[T * VH * DV], *conv;
    rig *r = calloc(1, sizeof(*r));
    slc_layer *l;

    assert_non_null(r);
    r->cfg = (slc_config){.hidden_size = VH * DV,
                          .layer_kind = {SLC_LAYER_GDN},
                          .n_key_heads = 1,
                          .n_value_heads = VH,
                          .key_head_dim = DK,
                          .value_head_dim = DV,
                          .conv_kernel = taps,
                          .intermediate_size = 1};
    start(r);
    for (int t = 0; t < T; t++) {
        for (int c = 0; c < CONV; c++) qkv[t * CONV + c] = (float)((5 * t + 3 * c) % 11 - 5) / 4;
        memcpy(z + t * VH * DV, gdn_z, sizeof(gdn_z));
    }
    conv = take(r, taps * CONV);
    for (int j = 0; j < 4; j++)
        for (int c = 0; c < CONV; c++)
            conv[(taps - 4 + (uint32_t)j) * CONV + (uint32_t)c] =
                (float)((3 * c + 5 * j) % 7 - 3) / 4;
    l = &r->net.layers[0];
    l->conv = conv;
    l->neg_exp_a = neg_exp_a;
    l->dt_bias = dt_bias;
    l->gdn_norm = gdn_norm;
    l->w[SLC_W_QKV] = columns(r, qkv, T, CONV);
    l->w[SLC_W_Z] = columns(r, z, T, VH * DV);
    l->w[SLC_W_A] = columns(r, a, T, VH);
    l->w[SLC_W_B] = columns(r, b, T, VH);
    l->w[SLC_W_OUT] = identity(r, VH * DV);
    return r;
}

static void gdn_feed(rig *r, uint32_t n0, uint32_t n1) {
    slc_pass *p = &r->pass;

    begin(r, n0, n1);
    slc_layer_gdn(&r->net, &r->cpu, &r->layout, p, &r->net.layers[0]);
    for (uint32_t row = 0; row < p->n_tok; row++) {
        double y[VH * DV];

        gdn_want(p->pos_of_row[row], y);
        assert_near("out", p->out + row * VH * DV, y, VH * DV, 2e-5);
    }
    slc_net_advance(p);
}

static void gdn_check_state(const rig *r, const slc_state *s) {
    const float *conv = (const float *)(const void *)(s->base + r->layout.conv_off);

    assert_int_equal(s->len, T);
    assert_near("S", (const float *)(const void *)(s->base + r->layout.s_off), gdn_S, VH * DV * DK,
                5e-7);
    for (int t = 2; t < T; t++) /* the last three raw rows, oldest first */
        for (int c = 0; c < CONV; c++)
            assert_true(conv[(t - 2) * CONV + c] == (float)((5 * t + 3 * c) % 11 - 5) / 4);
}

static void gdn_layer_in_any_pieces(void **state) {
    static const uint32_t pieces[][T] = {{5}, {1, 1, 1, 1, 1}, {2, 3}, {4, 1}, {1, 2, 2}};

    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        rig *r = gdn_rig(4);

        for (int k = 0; k < T && pieces[i][k]; k++) gdn_feed(r, pieces[i][k], 0);
        gdn_check_state(r, &r->state[0]);
        stop(r);
        free(r);
    }
}

static void gdn_layer_keeps_sequences_apart(void **state) {
    rig *r = gdn_rig(4);

    gdn_feed(r, 2, 0);
    gdn_feed(r, 1, 3);
    gdn_feed(r, 2, 2);
    gdn_check_state(r, &r->state[0]);
    gdn_check_state(r, &r->state[1]);
    slc_state_reset(&r->layout, &r->state[0]);
    gdn_feed(r, 5, 0);
    gdn_check_state(r, &r->state[0]);
    stop(r);
    free(r);
}

static void gdn_layer_with_the_longest_convolution(void **state) {
    rig *r = gdn_rig(SLC_MAX_CONV_TAPS);

    gdn_feed(r, 1, 0);
    gdn_feed(r, 4, 5);
    stop(r);
    free(r);
}

/* ---- attention ---- */

enum { QD = 8 }; /* two query heads of 4 on one KV head, RoPE on the first 2 elements */

static const double attn_out[2][QD] = {
    {0.622459331, 0, -0.731058579, 1, 0.268941421, 0, -0.5, 1.124353002},
    {0.061202614, 1.924719560, 0.203101749, -0.557354576, 0.308286531, 0.942518402, 0.001127239,
     0.355159435}};

static rig *attn_rig(void) {
    static const float q[2 * 2 * QD] = {1,  0,  2, -1, 0.5f,  -0.5f, 1,    0,    0,  1, -1,
                                        2,  -1, 2, 0,  0.25f, -1,    1,    0.5f, 2,  0, 1,
                                        -1, 2,  2, -1, 0,     1,     0.5f, 0.5f, -2, 1};
    static const float k[2 * 4] = {1, 2, 0, -1, 0.5f, -1, 1, 0};
    static const float v[2 * 4] = {1, 0, -1, 2, 0, 3, 1, -1};
    static const float q_norm[] = {1, 0.5f, 2, 1}, k_norm[] = {0.5f, 1, 1, 2};
    rig *r = calloc(1, sizeof(*r));
    slc_layer *l;

    assert_non_null(r);
    r->cfg = (slc_config){.hidden_size = QD,
                          .layer_kind = {SLC_LAYER_FULL},
                          .n_heads = 2,
                          .n_kv_heads = 1,
                          .head_dim = 4,
                          .rope_dims = 2,
                          .rope_theta = 1e7,
                          .intermediate_size = 1};
    start(r);
    l = &r->net.layers[0];
    l->q_norm = q_norm;
    l->k_norm = k_norm;
    l->w[SLC_W_Q] = columns(r, q, 2, 2 * QD);
    l->w[SLC_W_K] = columns(r, k, 2, 4);
    l->w[SLC_W_V] = columns(r, v, 2, 4);
    l->w[SLC_W_O] = identity(r, QD);
    return r;
}

static void attn_feed(rig *r, uint32_t n0, uint32_t n1) {
    slc_pass *p = &r->pass;

    begin(r, n0, n1);
    slc_layer_attention(&r->net, &r->cpu, &r->layout, p, &r->net.layers[0]);
    for (uint32_t row = 0; row < p->n_tok; row++)
        assert_near("out", p->out + row * QD, attn_out[p->pos_of_row[row]], QD, 2e-6);
    slc_net_advance(p);
}

static void attention_layer_in_any_pieces(void **state) {
    static const double k[] = {0.408248154, 1.632992618,  0,           -1.632992618,
                               1.302060924, -0.439912355, 1.333332148, 0};
    rig *r = attn_rig();

    attn_feed(r, 2, 0);
    assert_near("k", (const float *)(const void *)r->state[0].base, k, 8, 1e-6);
    slc_state_reset(&r->layout, &r->state[0]);
    attn_feed(r, 1, 0);
    attn_feed(r, 1, 1);
    attn_feed(r, 0, 1);
    for (int i = 0; i < 2; i++)
        assert_near("k", (const float *)(const void *)r->state[i].base, k, 8, 1e-6);
    stop(r);
    free(r);
}

/* ---- mixture of experts ---- */

static rig *moe_rig(uint32_t n_experts, uint32_t k, const float *router) {
    static float post_norm[2]; /* the norm of x gives x back */
    rig *r = calloc(1, sizeof(*r));

    assert_non_null(r);
    post_norm[0] = post_norm[1] = (float)sqrt(0.625 + 1e-6);
    r->cfg = (slc_config){.hidden_size = 2,
                          .layer_kind = {SLC_LAYER_GDN},
                          .n_key_heads = 1,
                          .n_value_heads = 1,
                          .key_head_dim = 1,
                          .value_head_dim = 1,
                          .conv_kernel = 2,
                          .n_experts = n_experts,
                          .n_experts_per_tok = k,
                          .expert_size = 2,
                          .shared_expert_size = 2};
    start(r);
    r->net.layers[0].post_norm = post_norm;
    r->net.layers[0].w[SLC_W_ROUTER] = matrix(router, n_experts, 2);
    return r;
}

/* Routes n tokens whose x and u are [1, -0.5]. */
static void moe_route(rig *r, uint32_t n) {
    slc_pass *p = &r->pass;

    begin(r, n, 0);
    for (uint32_t t = 0; t < n; t++) {
        p->x[2 * t] = 1;
        p->x[2 * t + 1] = -0.5f;
    }
    slc_moe_route(&r->net, &r->cpu, p, 0);
}

static void check_routing(const float *logits, uint32_t n_experts, uint32_t k, const uint32_t *ids,
                          const double *weights) {
    float router[8][2] = {{0}};
    rig *r;

    for (uint32_t e = 0; e < n_experts; e++) router[e][0] = logits[e];
    r = moe_rig(n_experts, k, router[0]);
    moe_route(r, 1);
    for (uint32_t i = 0; i < k; i++) assert_int_equal(r->pass.expert_ids[i], ids[i]);
    assert_near("weights", r->pass.expert_weights, weights, k, 5e-7);
    stop(r);
    free(r);
}

static void router_takes_the_largest_and_renormalises(void **state) {
    static const float logits[] = {1, -0.5f, 2, 0.25f, 1.5f, -1, 0, 0.75f};
    static const float tie[] = {0.5f, 1, 1, 1};
    static const uint32_t ids[] = {2, 4, 0, 7}, tie_ids[] = {1, 2};
    static const double w4[] = {0.442298824, 0.268267797, 0.162712644, 0.126720735};
    static const double w3[] = {0.506480391, 0.307195886, 0.186323723};
    static const double w2[] = {0.622459331, 0.377540669}, half[] = {0.5, 0.5};

    check_routing(logits, 8, 4, ids, w4);
    check_routing(logits, 8, 3, ids, w3);
    check_routing(logits, 8, 2, ids, w2);
    check_routing(tie, 4, 2, tie_ids, half); /* the lower id first */
}

static void moe_block_adds_experts_in_any_order(void **state) {
    static const float router[] = {0.5f, 1, 1, 0, -1, 0.5f, 0.25f, -1};
    static const float one[] = {1, 0, 0, 1}, two[] = {2, 0, 0, 2}, down_s[] = {1, 1, 0, 1};
    static const float route_s[] = {0.3f, 0.2f};
    static const double weights[] = {0.562176501, 0.437823499};
    static const double out1[] = {0.155614833, 0.521144122}, out3[] = {-0.471925836, -1.050248219};
    static const double y[] = {1 + 0.788576850, -0.5 - 0.063056023};
    float gate[4][4], up[4][4], down[4][4];

    for (int order = 0; order < 3; order++) { /* 1 then 3, 3 then 1, both at once */
        rig *r = moe_rig(4, 2, router);
        slc_pass *p = &r->pass;
        slc_layer *l = &r->net.layers[0];
        slc_moe_expert e[2];

        l->w[SLC_W_SHARED_GATE] = matrix(one, 2, 2);
        l->w[SLC_W_SHARED_UP] = matrix(two, 2, 2);
        l->w[SLC_W_SHARED_DOWN] = matrix(down_s, 2, 2);
        l->w[SLC_W_SHARED_ROUTE] = matrix(route_s, 1, 2);
        moe_route(r, 3);
        assert_int_equal(p->n_distinct, 2);
        assert_int_equal(p->distinct[0], 1);
        assert_int_equal(p->distinct[1], 3);
        assert_near("weights", p->expert_weights, weights, 2, 5e-7);
        for (int i = 0; i < 2; i++) {
            uint32_t id = p->distinct[order == 1 ? 1 - i : i];
            float f = (float)id;

            memcpy(gate[id], (float[]){1, f, 0.5f, -1}, sizeof(gate[id]));
            memcpy(up[id], (float[]){f, 1, 1, 1}, sizeof(up[id]));
            memcpy(down[id], (float[]){1, 0, f, 1}, sizeof(down[id]));
            e[i].id = id;
            e[i].w[SLC_EXPERT_GATE] = matrix(gate[id], 2, 2);
            e[i].w[SLC_EXPERT_UP] = matrix(up[id], 2, 2);
            e[i].w[SLC_EXPERT_DOWN] = matrix(down[id], 2, 2);
        }
        slc_moe_shared(&r->net, &r->cpu, p, 0);
        if (order == 2) {
            slc_moe_experts(&r->net, &r->cpu, p, e, 2);
        } else {
            slc_moe_experts(&r->net, &r->cpu, p, e, 1);
            slc_moe_experts(&r->net, &r->cpu, p, e + 1, 1);
        }
        for (uint32_t t = 0; t < 3; t++) {
            assert_near("expert 1", p->pair_out + 2 * (p->first_pair[1] + t), out1, 2, 1e-6);
            assert_near("expert 3", p->pair_out + 2 * (p->first_pair[3] + t), out3, 2, 1e-6);
        }
        slc_moe_combine(&r->net, &r->cpu, p);
        for (uint32_t t = 0; t < 3; t++) assert_near("x", p->x + 2 * t, y, 2, 1e-6);
        stop(r);
        free(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gdn_layer_in_any_pieces),
        cmocka_unit_test(gdn_layer_keeps_sequences_apart),
        cmocka_unit_test(gdn_layer_with_the_longest_convolution),
        cmocka_unit_test(attention_layer_in_any_pieces),
        cmocka_unit_test(router_takes_the_largest_and_renormalises),
        cmocka_unit_test(moe_block_adds_experts_in_any_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
