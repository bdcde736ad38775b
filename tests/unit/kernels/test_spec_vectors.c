/* The formulas of the model family, against numbers from independent implementations, at every CPU
 * level: convolution, L2 norm, gates and recurrence (five tokens), attention with grouped heads and
 * partial RoPE, softmax, norms, an affine dot product. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/scalar_math.h"
#include "unit/kernels/levels.h"

static void assert_near(const char *what, const float *got, const double *want, uint32_t n,
                        double tolerance) {
    for (uint32_t i = 0; i < n; i++) {
        if (fabs((double)got[i] - want[i]) <= tolerance) continue;
        fail_msg("%s[%u]: expected %.9g, found %.9g", what, i, want[i], (double)got[i]);
    }
}

/* ---- recurrence ---- */

static void gdn_makes_one_step(void **state) {
    static const float q[] = {-0.399130110f, 0.583689215f}, k[] = {0.637016772f, -0.770844613f};
    static const float v[] = {-0.272883991f, 0.102513403f, 0.509384024f};
    static const float beta = 0.377540669f, g = 0.437823499f;
    static const double want_S[] = {0.089162342,  0.162357375, -0.018989215,
                                    -0.054986118, 0.035256778, -0.194750603};
    static const double want_o[] = {0.059178874, -0.024515637, -0.127745868};
    const slc_kernels *kt;

    FOR_EACH_LEVEL(kt) {
        float S[] = {0.384141298f,  0.152417366f,  -0.107107810f,
                     -0.048463746f, -0.216692320f, -0.085154150f};
        float o[3];

        kt->gdn(S, 3, 2, 1, q, k, 2, v, 3, &g, &beta, 1, o, 3);
        assert_near("S", S, want_S, 6, 1e-7);
        assert_near("o", o, want_o, 3, 1e-7);
    }
}

enum { T = 5, CONV = 10, DK = 2, DV = 3, VH = 2 }; /* q 2 | k 2 | v0 3 | v1 3, one key head */

/* Raw rows before time 0 are zero: rows[0..2] of `raw`. */
static void make_conv_inputs(float w[4][CONV], float raw[T + 3][CONV]) {
    memset(raw, 0, 3 * sizeof(raw[0]));
    for (int c = 0; c < CONV; c++) {
        for (int j = 0; j < 4; j++) w[j][c] = (float)((3 * c + 5 * j) % 7 - 3) / 4;
        for (int t = 0; t < T; t++) raw[t + 3][c] = (float)((5 * t + 3 * c) % 11 - 5) / 4;
    }
}

static const double want_o[T][VH][DV] = {
    {{0.084196663, -0.011276651, -0.049179388}, {0.111484945, 0.043481351, 0}},
    {{-0.107767893, 0.034266671, 0.060208909}, {-0.002563590, 0.015905865, 0.022577260}},
    {{0.059178874, -0.024515637, -0.127745868}, {-0.029663608, -0.136659764, 0.025656609}},
    {{-0.020185590, -0.180596113, 0.080730517}, {0.085628590, 0.119167581, 0.036283130}},
    {{-0.037853255, 0.057243280, -0.055620149}, {-0.121243190, -0.153949712, -0.410965848}},
};
static const double want_S[VH][DV * DK] = {
    {-0.073910754, -0.038968729, -0.059053518, 0.095375723, -0.004737807, -0.079418649},
    {-0.090210881, -0.156077020, -0.103800193, -0.200472963, -0.497400110, -0.488155962},
};
static const double want_g[T][VH] = {{0.320821301, 0.528431308},
                                     {0.679178699, 0.256213579},
                                     {0.437823499, 0.114726703},
                                     {0.222700139, 0.717433976},
                                     {0.377540669, 0.386909845}};
static const double want_gated[VH][DV] = {{-0.230952811, -0.150900699, -3.841554855},
                                          {-0.337189722, 0, 0.590247654}};

static void gates(float g[T][VH], float beta[T][VH]) {
    static const float A_log[VH] = {0, 0.5f}, dt_bias[VH] = {0.25f, -0.5f};
    static const float a[T][VH] = {{0.5f, -0.25f}, {-1, 0.75f}, {0, 1.5f}, {1, -1}, {0.25f, 0.25f}};
    static const float b[T][VH] = {{0, 1}, {2, -1}, {-0.5f, 0.5f}, {1.5f, 0}, {-2, 3}};

    for (int t = 0; t < T; t++) {
        for (int h = 0; h < VH; h++) {
            g[t][h] = slc_expf(-slc_expf(A_log[h]) * slc_softplusf(a[t][h] + dt_bias[h]));
            beta[t][h] = slc_sigmoidf(b[t][h]);
        }
    }
}

static void gdn_layer_runs_five_tokens(void **state) {
    static const float z[VH][DV] = {{0.5f, -1, 2}, {1, 0, -0.5f}}, w_norm[DV] = {1, 0.5f, 2};
    float w[4][CONV], raw[T + 3][CONV], c[T][CONV], g[T][VH], beta[T][VH];
    const slc_kernels *kt;

    make_conv_inputs(w, raw);
    gates(g, beta);
    for (int t = 0; t < T; t++) assert_near("g", g[t], want_g[t], VH, 1e-7);
    FOR_EACH_LEVEL(kt) {
        float S[VH][DV * DK] = {0}, o[T][VH][DV];

        for (int t = 0; t < T; t++) {
            const float *rows[4] = {raw[t], raw[t + 1], raw[t + 2], raw[t + 3]};

            kt->conv_silu(c[t], rows, w[0], CONV, 4, CONV);
            kt->l2_norm(c[t], c[t], DK, 1e-6f, 0.70710678f);
            kt->l2_norm(c[t] + DK, c[t] + DK, DK, 1e-6f, 1);
        }
        for (int h = 0; h < VH; h++) {
            kt->gdn(S[h], DV, DK, T, c[0], c[0] + DK, CONV, c[0] + 2 * DK + h * DV, CONV, g[0] + h,
                    beta[0] + h, VH, o[0][h], VH * DV);
            assert_near("S", S[h], want_S[h], DV * DK, 5e-7);
        }
        for (int t = 0; t < T; t++) assert_near("o", o[t][0], want_o[t][0], VH * DV, 5e-7);
        for (int h = 0; h < VH; h++) { // norm of o, gated by silu(z)
            float y[DV];

            kt->rms_norm(y, o[T - 1][h], w_norm, DV, 1e-6f);
            kt->swiglu(y, z[h], y, DV);
            assert_near("gated", y, want_gated[h], DV, 1e-5);
        }
    }
}

/* ---- attention ---- */

/* Two tokens, two query heads on one KV head, hd 4, RoPE on the first 2 elements. */
static void attention_layer_runs_two_tokens(void **state) {
    static const float qg[2][2][8] = {
        {{1, 0, 2, -1, 0.5f, -0.5f, 1, 0}, {0, 1, -1, 2, -1, 2, 0, 0.25f}},
        {{-1, 1, 0.5f, 2, 0, 1, -1, 2}, {2, -1, 0, 1, 0.5f, 0.5f, -2, 1}}};
    static const float k_in[2][4] = {{1, 2, 0, -1}, {0.5f, -1, 1, 0}};
    static const float v[2][4] = {{1, 0, -1, 2}, {0, 3, 1, -1}};
    static const float w_q[] = {1, 0.5f, 2, 1}, w_k[] = {0.5f, 1, 1, 2};
    static const double want_k[2][4] = {{0.408248154, 1.632992618, 0, -1.632992618},
                                        {1.302060924, -0.439912355, 1.333332148, 0}};
    static const double want[2][8] = {
        {0.622459331, 0, -0.731058579, 1, 0.268941421, 0, -0.5, 1.124353002},
        {0.061202614, 1.924719560, 0.203101749, -0.557354576, 0.308286531, 0.942518402, 0.001127239,
         0.355159435}};
    const slc_kernels *kt;

    FOR_EACH_LEVEL(kt) {
        float k[2][4];

        for (int t = 0; t < 2; t++) {
            double s, c;
            float out[8], sinv, cosv;

            slc_sincos(t, &s, &c);
            sinv = (float)s, cosv = (float)c;
            kt->rms_norm(k[t], k_in[t], w_k, 4, 1e-6f);
            kt->rope(k[t], &cosv, &sinv, 1);
            assert_near("k", k[t], want_k[t], 4, 1e-6);
            for (int h = 0; h < 2; h++) {
                float q[4];

                kt->rms_norm(q, qg[t][h], w_q, 4, 1e-6f);
                kt->rope(q, &cosv, &sinv, 1);
                kt->attend_f32(out + 4 * h, q, k[0], v[0], (uint32_t)t + 1, 4, 0.5f);
                kt->sigmoid_mul(out + 4 * h, qg[t][h] + 4, 4);
            }
            assert_near("out", out, want[t], 8, 1e-6);
        }
    }
}

static void rope_turns_pairs_half_a_head_apart(void **state) {
    static const double want[] = {-1.918259545, 0.656896189, 2.514016769, 4.423628307, 5, 6, 7, 8};
    const slc_kernels *kt;
    float cosv[2], sinv[2];

    for (int i = 0; i < 2; i++) {
        double s, c;

        slc_sincos(1000 * slc_pow(1e7, -2.0 * i / 4), &s, &c);
        sinv[i] = (float)s, cosv[i] = (float)c;
    }
    FOR_EACH_LEVEL(kt) {
        float x[] = {1, 2, 3, 4, 5, 6, 7, 8};

        kt->rope(x, cosv, sinv, 2);
        assert_near("x", x, want, 8, 1e-6);
    }
}

static void rope_at_full_size(void **state) {
    static const double low[] = {-0.264500464, -0.451842307, 0.050927156, 0.033198451};
    static const double high[] = {1.389258617, 1.340089000, 1.413296298, 1.413823845};
    const slc_kernels *kt;
    float cosv[32], sinv[32];

    for (int i = 0; i < 32; i++) {
        double s, c;

        slc_sincos(1000 * slc_pow(1e7, -2.0 * i / 64), &s, &c);
        sinv[i] = (float)s, cosv[i] = (float)c;
    }
    FOR_EACH_LEVEL(kt) {
        float x[256];

        for (int i = 0; i < 256; i++) x[i] = 1;
        kt->rope(x, cosv, sinv, 32);
        assert_near("low", x, low, 4, 1e-6);
        assert_near("high", x + 32, high, 4, 1e-6);
        assert_true(fabsf(x[31] - 0.999834505f) < 1e-6f && fabsf(x[63] - 1.000165468f) < 1e-6f);
        for (int i = 64; i < 256; i++) assert_true(x[i] == 1);
    }
}

/* ---- softmax and norms ---- */

static void softmax_of_router_logits(void **state) {
    static const double want[] = {0.136156023, 0.030380515, 0.370110444, 0.064315551,
                                  0.224483332, 0.018426714, 0.050089002, 0.106038418};
    const slc_kernels *kt;

    FOR_EACH_LEVEL(kt) {
        float x[] = {1, -0.5f, 2, 0.25f, 1.5f, -1, 0, 0.75f};

        kt->softmax(x, 8);
        assert_near("p", x, want, 8, 1e-7);
    }
}

static void norms_of_small_vectors(void **state) {
    static const float x[] = {1, -2, 3, -4}, one_plus_w[] = {1.1f, 0.8f, 1, 1.5f};
    static const double want[] = {0.401663182, -0.584237356, 1.095445042, -2.190890084};
    static const float size[] = {1, 0.01f, 0.001f};
    static const double original[] = {0.088388347, 0.088384895, 0.088045091};
    static const double mlx[] = {0.088388303, 0.087949693, 0.0625};
    const slc_kernels *kt;

    FOR_EACH_LEVEL(kt) {
        float y[128];

        kt->rms_norm(y, x, one_plus_w, 4, 1e-6f);
        assert_near("rms", y, want, 4, 5e-7);
        for (int i = 0; i < 3; i++) {
            float c[128];

            for (int j = 0; j < 128; j++) c[j] = size[i];
            kt->l2_norm(y, c, 128, 1e-6f, 1);
            assert_near("l2", y, &original[i], 1, 1e-8);
            kt->l2_norm(y, c, 128, 128e-6f, 1);
            assert_near("l2 mlx", y, &mlx[i], 1, 1e-8);
        }
    }
}

/* ---- affine product ---- */

static void affine_dot_product_of_one_group(void **state) {
    static const uint32_t words[] = {0x7ad158bf, 0xae259c03, 0xe269c047, 0x369d148b};
    static const uint16_t scale = 0xbe87, bias = 0x4018;
    const slc_matrix w = {
        {SLC_DTYPE_U32, SLC_DTYPE_BF16, 4, 32, 1, 32},
        {(const uint8_t *)words, (const uint8_t *)&scale, (const uint8_t *)&bias}};
    const slc_kernels *kt;
    float x[32];

    for (int i = 0; i < 32; i++) x[i] = (float)(i % 5 - 2) / 2;
    FOR_EACH_LEVEL(kt) {
        int16_t q[32];
        int32_t sum;
        float dx, y, exact;
        slc_acts a = {
            .x = x, .ldx = 32, .n_tok = 1, .k = 32, .group = 32, .q = q, .scale = &dx, .sum = &sum};

        kt->act_quantize(x, 32, 32, q, &dx, &sum);
        assert_int_equal(q[0], -32767);
        assert_int_equal(q[3], 16384); // 16383.5 to even
        kt->matmul_affine[4](&w, 0, 1, &a, &y, 1);
        kt->matmul_f32(&w, 0, 1, &a, &exact, 1);
        assert_true(exact == 5.0068359375f);
        assert_true(fabsf(y - 5.0068359375f) < 1e-3f); // int16 activations
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gdn_makes_one_step),
        cmocka_unit_test(gdn_layer_runs_five_tokens),
        cmocka_unit_test(attention_layer_runs_two_tokens),
        cmocka_unit_test(rope_turns_pairs_half_a_head_apart),
        cmocka_unit_test(rope_at_full_size),
        cmocka_unit_test(softmax_of_router_logits),
        cmocka_unit_test(norms_of_small_vectors),
        cmocka_unit_test(affine_dot_product_of_one_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
