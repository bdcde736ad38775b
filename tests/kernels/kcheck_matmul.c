/* kcheck: activation quantisation, both matrix products, the embedding row. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kcheck.h"

/* ---- random matrices and activations ---- */

static void store_as(slc_dtype type, uint8_t *p, size_t i, float f) {
    uint16_t half = type == SLC_DTYPE_F16 ? slc_f16_from_f32(f) : (uint16_t)(slc_f32_bits(f) >> 16);

    if (type == SLC_DTYPE_F32)
        memcpy(p + 4 * i, &f, 4);
    else
        memcpy(p + 2 * i, &half, 2);
}

/* `n` random values of a stored type. */
static const uint8_t *random_part(kcase *c, slc_dtype type, size_t n, flavour f) {
    uint8_t *p = slc_kc_input(c, n, slc_dtype_bytes(type), true);

    for (size_t i = 0; i < n; i++) {
        float x;

        slc_kc_fill(c, &x, 1, f);
        store_as(type, p, i, x);
    }
    return p;
}

static const uint8_t *random_codes(kcase *c, size_t n) {
    uint8_t *p = slc_kc_input(c, n, 1, true);
    uint32_t kind = slc_kc_below(c, 8);

    for (size_t i = 0; i < n; i++) {
        p[i] = kind == 0 ? 0 : kind == 1 ? 0xff : (uint8_t)slc_kc_random(c);
    }
    return p;
}

static slc_dtype random_float_type(kcase *c) {
    return (slc_dtype)PICK(c, SLC_DTYPE_F32, SLC_DTYPE_F16, SLC_DTYPE_BF16);
}

enum { MAX_COLS = 128 * 160 };

/* bits 0: a float matrix. */
static slc_matrix random_matrix(kcase *c, uint32_t bits, flavour f) {
    slc_matrix m = {0};
    slc_matrix_type *t = &m.type;

    t->bits = (uint8_t)bits;
    t->rows = 1 + slc_kc_below(c, 41);
    if (!bits) {
        t->dtype = random_float_type(c);
        t->cols = PICK(c, 1 + slc_kc_below(c, 70), 1 + slc_kc_below(c, 1200), 1024, 1040, 2049);
        m.part[SLC_PART_W] = random_part(c, t->dtype, (size_t)t->rows * t->cols, f);
        return m;
    }
    t->dtype = SLC_DTYPE_U32;
    t->scale_dtype = random_float_type(c);
    t->group = (uint16_t)PICK(c, 32, 64, 128);
    t->cols = t->group * PICK(c, 1 + slc_kc_below(c, 12), 8, 16, 1 + slc_kc_below(c, 30));
    if (slc_kc_below(c, 64) == 0) { /* wide, rarely: the reference takes its time */
        t->rows = 1 + slc_kc_below(c, 9);
        t->cols = t->group * (MAX_COLS / 128 - slc_kc_below(c, 30));
    } else if (slc_kc_below(c, 8) == 0) { /* tall */
        t->rows = 40 + slc_kc_below(c, 110);
        t->cols = t->group * (1 + slc_kc_below(c, 2));
    }
    m.part[SLC_PART_W] = random_codes(c, slc_matrix_part_bytes(t, SLC_PART_W));

    size_t n_scales = (size_t)t->rows * (t->cols / t->group);

    m.part[SLC_PART_SCALES] = random_part(c, t->scale_dtype, n_scales, f);
    m.part[SLC_PART_BIASES] = random_part(c, t->scale_dtype, n_scales, f);
    return m;
}

static uint32_t random_n_tok(kcase *c, uint32_t k) {
    if (k > 4096) return 1 + slc_kc_below(c, 3);
    if (k <= 256 && slc_kc_below(c, 8) == 0) return 60 + slc_kc_below(c, 80);
    return PICK(c, 1, 1, 1 + slc_kc_below(c, 9), 15, 16, 17, 33);
}

static slc_acts random_acts(kcase *c, uint32_t k, uint32_t n_tok, flavour f) {
    slc_acts a = {.ldx = k + slc_kc_below(c, 5), .n_tok = n_tok, .k = k};
    size_t n = (n_tok - 1) * a.ldx + k;
    float *x = slc_kc_input(c, n, sizeof(*x), false);

    slc_kc_fill(c, x, n, f);
    a.x = x;
    return a;
}

/* Quantised as the reference does, now and then with the largest values everywhere. */
static void quantize_acts(kcase *c, slc_acts *a, uint32_t group) {
    uint32_t n_groups = a->k / group;
    bool largest = slc_kc_below(c, 8) == 0, negative = slc_kc_below(c, 2);

    a->group = group;
    a->q = slc_kc_input(c, (size_t)a->n_tok * a->k, sizeof(*a->q), false);
    a->scale = slc_kc_input(c, (size_t)a->n_tok * n_groups, sizeof(*a->scale), false);
    a->sum = slc_kc_input(c, (size_t)a->n_tok * n_groups, sizeof(*a->sum), false);
    for (uint32_t t = 0; t < a->n_tok; t++) {
        int16_t *q = a->q + (size_t)t * a->k;

        c->ref->act_quantize(a->x + t * a->ldx, a->k, group, q, a->scale + (size_t)t * n_groups,
                             a->sum + (size_t)t * n_groups);
        for (uint32_t j = 0; largest && j < a->k; j++) q[j] = negative ? -32767 : 32767;
        for (uint32_t g = 0; largest && g < n_groups; g++) {
            a->sum[(size_t)t * n_groups + g] = (int32_t)group * q[0];
        }
    }
}

typedef struct product {
    slc_matrix w;
    slc_acts a;
    uint32_t row0, row1;
    size_t ldy;
    kc_out y;
} product;

static void finish_product(kcase *c, product *p, const char *name, flavour f) {
    char type[64];

    p->row0 = slc_kc_below(c, p->w.type.rows);
    p->row1 = p->row0 + slc_kc_below(c, p->w.type.rows - p->row0 + 1);
    if (slc_kc_below(c, 2)) p->row0 = 0, p->row1 = p->w.type.rows;
    p->ldy = p->w.type.rows + slc_kc_below(c, 4);
    p->y = slc_kc_output(c, p->a.n_tok * p->ldy, sizeof(float));
    snprintf(c->what, sizeof(c->what),
             "%s %s, %u x %u, rows [%u, %u), %u tokens, ldy %zu, input %d", name,
             slc_matrix_type_str(&p->w.type, type, sizeof(type)), p->w.type.rows, p->w.type.cols,
             p->row0, p->row1, p->a.n_tok, p->ldy, (int)f);
}

/* ---- against double ---- */

/* y[t][r] against the sum of w[j] x[j] in double, w and x being what the kernel was given.
 * Allowed: a rounding of each product of the dequantised weight and of each addition in a lane or a
 * group, k = cols / 16 + 24 of them in the worst lane (16 lanes, or groups of at least 32). */
static bool product_is_near(kcase *c, const product *p, bool quantised) {
    const slc_matrix_type *t = &p->w.type;
    static float w[MAX_COLS];

    for (uint32_t r = p->row0; r < p->row1; r++) {
        c->ref->dequant_row(&p->w, r, w);
        for (uint32_t i = 0; i < p->a.n_tok; i++) {
            double sum = 0, magnitude = 0;

            for (uint32_t j = 0; j < t->cols; j++) {
                double x = (double)p->a.x[i * p->a.ldx + j];
                double scale = 1, bias = 0;

                if (quantised) {
                    size_t g = (size_t)i * (t->cols / t->group) + j / t->group;

                    x = (double)p->a.q[(size_t)i * t->cols + j] * (double)p->a.scale[g];
                }
                if (slc_matrix_is_affine(t)) {
                    uint64_t g = (uint64_t)r * (t->cols / t->group) + j / t->group;
                    const uint8_t *row =
                        p->w.part[SLC_PART_W] + r * slc_matrix_row_bytes(t, SLC_PART_W);

                    scale = (double)slc_load_f32(t->scale_dtype, p->w.part[SLC_PART_SCALES], g) *
                            slc_affine_code(row, t->bits, j);
                    bias = (double)slc_load_f32(t->scale_dtype, p->w.part[SLC_PART_BIASES], g);
                    sum += (scale + bias) * x;
                    magnitude += (fabs(scale) + fabs(bias)) * fabs(x);
                } else {
                    sum += (double)w[j] * x;
                    magnitude += fabs((double)w[j] * x);
                }
            }

            size_t at = i * p->ldy + r;
            float got;

            memcpy(&got, p->y.k + at * sizeof(got), sizeof(got));
            if (!slc_kc_near(c, "y", at, (double)got, sum, (t->cols / 16 + 24) * EPS * magnitude)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- checks ---- */

static bool check_act_quantize(kcase *c, uint32_t arg) {
    flavour f = (flavour)slc_kc_below(c, N_FLAVOURS);
    uint32_t group = PICK(c, 32, 64, 128), n_groups = slc_kc_below(c, 9), k = group * n_groups;
    float *x = slc_kc_input(c, k, sizeof(*x), false);
    kc_out q = slc_kc_output(c, k, 2), scale = slc_kc_output(c, n_groups, 4);
    kc_out sum = slc_kc_output(c, n_groups, 4);

    slc_kc_fill(c, x, k, f);
    snprintf(c->what, sizeof(c->what), "k %u, group %u, input %d", k, group, (int)f);
    c->ref->act_quantize(x, k, group, (int16_t *)q.ref, (float *)scale.ref, (int32_t *)sum.ref);
    c->k->act_quantize(x, k, group, (int16_t *)q.k, (float *)scale.k, (int32_t *)sum.k);
    if (!slc_kc_same(c, "q", q, false) || !slc_kc_same(c, "scale", scale, true) ||
        !slc_kc_same(c, "sum", sum, false)) {
        return false;
    }
    for (uint32_t j = 0; f <= WIDE && j < k; j++) { // half a step; 32767 rounds to 0.006
        double step = (double)((float *)scale.k)[j / group];
        double got = ((int16_t *)q.k)[j] * step;

        if (!slc_kc_near(c, "x", j, got, (double)x[j], 0.51 * step)) return false;
    }
    return true;
}

static bool check_affine(kcase *c, uint32_t bits) {
    flavour f = (flavour)slc_kc_below(c, N_FLAVOURS), fx = (flavour)slc_kc_below(c, N_FLAVOURS);
    product p = {.w = random_matrix(c, bits, f)};

    if (slc_kc_below(c, 2)) f = fx = PLAIN, c->n_slots = 0, p.w = random_matrix(c, bits, f);
    p.a = random_acts(c, p.w.type.cols, random_n_tok(c, p.w.type.cols), fx);
    quantize_acts(c, &p.a, p.w.type.group);
    finish_product(c, &p, "matmul_affine", f);
    c->ref->matmul_affine[bits](&p.w, p.row0, p.row1, &p.a, (float *)p.y.ref, p.ldy);
    c->k->matmul_affine[bits](&p.w, p.row0, p.row1, &p.a, (float *)p.y.k, p.ldy);
    if (!slc_kc_same(c, "y", p.y, true)) return false;
    return f != PLAIN || fx != PLAIN || product_is_near(c, &p, true);
}

static bool check_f32(kcase *c, uint32_t arg) {
    flavour f = (flavour)slc_kc_below(c, N_FLAVOURS), fx = f;
    product p = {.w = random_matrix(c, PICK(c, 0, 0, 0, 2, 3, 4, 5, 6, 8), f)};

    p.a = random_acts(c, p.w.type.cols, random_n_tok(c, p.w.type.cols), fx);
    finish_product(c, &p, "matmul_f32", f);
    c->ref->matmul_f32(&p.w, p.row0, p.row1, &p.a, (float *)p.y.ref, p.ldy);
    c->k->matmul_f32(&p.w, p.row0, p.row1, &p.a, (float *)p.y.k, p.ldy);
    if (!slc_kc_same(c, "y", p.y, true)) return false;
    return f != PLAIN || product_is_near(c, &p, false);
}

/* The router's kind: one token, 8 bits, bf16 scales. */
static bool check_router(kcase *c, uint32_t arg) {
    flavour f = (flavour)slc_kc_below(c, N_FLAVOURS);
    product p;

    do {
        c->n_slots = 0;
        p = (product){.w = random_matrix(c, 8, f)};
    } while (p.w.type.scale_dtype != SLC_DTYPE_BF16);
    p.a = random_acts(c, p.w.type.cols, 1, f);
    finish_product(c, &p, "matmul_f32", f);
    c->ref->matmul_f32(&p.w, p.row0, p.row1, &p.a, (float *)p.y.ref, p.ldy);
    c->k->matmul_f32(&p.w, p.row0, p.row1, &p.a, (float *)p.y.k, p.ldy);
    if (!slc_kc_same(c, "y", p.y, true)) return false;
    return f != PLAIN || product_is_near(c, &p, false);
}

static bool check_dequant_row(kcase *c, uint32_t arg) {
    flavour f = (flavour)slc_kc_below(c, N_FLAVOURS);
    slc_matrix w = random_matrix(c, PICK(c, 0, 0, 2, 3, 4, 5, 6, 8), f);
    uint32_t row = slc_kc_below(c, w.type.rows);
    kc_out out = slc_kc_output(c, w.type.cols, sizeof(float));
    char type[64];

    snprintf(c->what, sizeof(c->what), "%s, %u x %u, row %u",
             slc_matrix_type_str(&w.type, type, sizeof(type)), w.type.rows, w.type.cols, row);
    c->ref->dequant_row(&w, row, (float *)out.ref);
    c->k->dequant_row(&w, row, (float *)out.k);
    return slc_kc_same(c, "out", out, true);
}

#define AFFINE(bits)                                                                               \
    {                                                                                              \
        "matmul_affine[" #bits "]", offsetof(slc_kernels, matmul_affine[bits]), check_affine,      \
            bits, 150                                                                              \
    }

const kcheck slc_kcheck_matmul[] = {
    {"act_quantize", offsetof(slc_kernels, act_quantize), check_act_quantize, 0, 2000},
    AFFINE(2),
    AFFINE(3),
    AFFINE(4),
    AFFINE(5),
    AFFINE(6),
    AFFINE(8),
    {"matmul_f32", offsetof(slc_kernels, matmul_f32), check_f32, 0, 300},
    {"matmul_f32, as the router's", offsetof(slc_kernels, matmul_f32), check_router, 0, 150},
    {"dequant_row", offsetof(slc_kernels, dequant_row), check_dequant_row, 0, 1000},
};
const size_t slc_kcheck_n_matmul = sizeof(slc_kcheck_matmul) / sizeof(*slc_kcheck_matmul);
