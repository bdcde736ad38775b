/* kcheck: norms, activations, softmax, convolution, the recurrence, RoPE, attention, conversion. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kcheck.h"

static flavour random_flavour(kcase *c) {
    return slc_kc_below(c, 2) ? PLAIN : (flavour)slc_kc_below(c, N_FLAVOURS);
}

static uint32_t random_n(kcase *c) {
    return PICK(c, 1 + slc_kc_below(c, 40), 1 + slc_kc_below(c, 700), 128, 256, 1024);
}

/* An input of n floats. PLAIN numbers are scaled by 1, 16 or 128 so that exp sees its whole range.
 */
static float *random_input(kcase *c, size_t n, flavour f) {
    float *x = slc_kc_input(c, n, sizeof(*x), false), scale = (float)PICK(c, 1, 16, 128);

    slc_kc_fill(c, x, n, f);
    for (size_t i = 0; f == PLAIN && i < n; i++) x[i] *= scale;
    return x;
}

/* An output that is also an input: both copies start as x. */
static kc_out in_out(kcase *c, const float *x, size_t n) {
    kc_out out = slc_kc_output(c, n, sizeof(*x));

    memcpy(out.ref, x, n * sizeof(*x));
    memcpy(out.k, x, n * sizeof(*x));
    return out;
}

static double value(kc_out out, size_t i) {
    float f;

    memcpy(&f, out.k + i * sizeof(f), sizeof(f));
    return (double)f;
}

static double sum_of_squares(const float *x, uint32_t n) {
    double sum = 0;

    for (uint32_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}

/* ---- norms: the sum's error, halved by the root, and a few roundings ---- */

static bool check_rms_norm(kcase *c, uint32_t arg) {
    flavour f = random_flavour(c);
    uint32_t n = random_n(c);
    float *x = random_input(c, n, f), *w = random_input(c, n, f), eps = 1e-6f;
    bool in_place = slc_kc_below(c, 2);
    kc_out y = in_out(c, x, n);

    snprintf(c->what, sizeof(c->what), "rms_norm n %u, input %d%s", n, (int)f,
             in_place ? ", in place" : "");
    c->ref->rms_norm((float *)y.ref, in_place ? (float *)y.ref : x, w, n, eps);
    c->k->rms_norm((float *)y.k, in_place ? (float *)y.k : x, w, n, eps);
    if (!slc_kc_same(c, "y", y, true)) return false;

    double r = 1 / sqrt(sum_of_squares(x, n) / n + (double)eps);

    for (uint32_t i = 0; f == PLAIN && i < n; i++) {
        double want = (double)x[i] * r * (double)w[i];

        if (!slc_kc_near(c, "y", i, value(y, i), want, (n / 16 + 16) * EPS * fabs(want))) {
            return false;
        }
    }
    return true;
}

static bool check_l2_norm(kcase *c, uint32_t arg) {
    flavour f = random_flavour(c);
    uint32_t n = random_n(c);
    float *x = random_input(c, n, f), eps = 1e-6f, scale = 0.25f;
    bool in_place = slc_kc_below(c, 2);
    kc_out y = in_out(c, x, n);

    snprintf(c->what, sizeof(c->what), "l2_norm n %u, input %d", n, (int)f);
    c->ref->l2_norm((float *)y.ref, in_place ? (float *)y.ref : x, n, eps, scale);
    c->k->l2_norm((float *)y.k, in_place ? (float *)y.k : x, n, eps, scale);
    if (!slc_kc_same(c, "y", y, true)) return false;

    double r = 1 / sqrt(sum_of_squares(x, n) + (double)eps);

    for (uint32_t i = 0; f == PLAIN && i < n; i++) {
        double want = (double)x[i] * r * (double)scale;

        if (!slc_kc_near(c, "y", i, value(y, i), want, (n / 16 + 16) * EPS * fabs(want))) {
            return false;
        }
    }
    return true;
}

/* ---- activations: exp to an ulp, a sum, a division, a product; exp's flushed range ---- */

static bool check_swiglu(kcase *c, uint32_t arg) {
    flavour f = random_flavour(c);
    uint32_t n = random_n(c), alias = slc_kc_below(c, 3);
    float *gate = random_input(c, n, f), *up = random_input(c, n, f);
    kc_out y = in_out(c, alias == 2 ? up : gate, n);

    snprintf(c->what, sizeof(c->what), "swiglu n %u, input %d, alias %u", n, (int)f, alias);
    c->ref->swiglu((float *)y.ref, alias == 1 ? (float *)y.ref : gate,
                   alias == 2 ? (float *)y.ref : up, n);
    c->k->swiglu((float *)y.k, alias == 1 ? (float *)y.k : gate, alias == 2 ? (float *)y.k : up, n);
    if (!slc_kc_same(c, "y", y, true)) return false;
    for (uint32_t i = 0; f == PLAIN && i < n; i++) {
        double want = (double)gate[i] / (1 + exp(-(double)gate[i])) * (double)up[i];

        if (!slc_kc_near(c, "y", i, value(y, i), want, 8 * EPS * fabs(want) + 1e-34)) return false;
    }
    return true;
}

static bool check_sigmoid_mul(kcase *c, uint32_t arg) {
    flavour f = random_flavour(c);
    uint32_t n = random_n(c);
    float *x = random_input(c, n, f), *gate = random_input(c, n, f);
    kc_out y = in_out(c, x, n);

    snprintf(c->what, sizeof(c->what), "sigmoid_mul n %u, input %d", n, (int)f);
    c->ref->sigmoid_mul((float *)y.ref, gate, n);
    c->k->sigmoid_mul((float *)y.k, gate, n);
    if (!slc_kc_same(c, "y", y, true)) return false;
    for (uint32_t i = 0; f == PLAIN && i < n; i++) {
        double want = (double)x[i] / (1 + exp(-(double)gate[i]));

        if (!slc_kc_near(c, "y", i, value(y, i), want, 8 * EPS * fabs(want) + 1e-35)) return false;
    }
    return true;
}

/* Below -17 the sum 1 + exp(-g) keeps nearly all bits of exp: every last one of them shows. */
static bool check_exp_bits(kcase *c, uint32_t arg) {
    const uint32_t n = 4096;
    float *gate = slc_kc_input(c, n, sizeof(*gate), false);
    float *one = slc_kc_input(c, n, sizeof(*one), false);
    kc_out y;

    for (uint32_t i = 0; i < n; i++) {
        gate[i] = -17 - (float)slc_kc_random(c) * (71 * 0x1p-32f);
        one[i] = 1;
    }
    y = in_out(c, one, n);
    snprintf(c->what, sizeof(c->what), "sigmoid of %u numbers in [-88, -17]", n);
    c->ref->sigmoid_mul((float *)y.ref, gate, n);
    c->k->sigmoid_mul((float *)y.k, gate, n);
    return slc_kc_same(c, "y", y, true);
}

static bool check_softmax(kcase *c, uint32_t arg) {
    flavour f = random_flavour(c);
    uint32_t n = random_n(c);
    float *x = random_input(c, n, f), max = x[0];
    kc_out y = in_out(c, x, n);
    double sum = 0;

    snprintf(c->what, sizeof(c->what), "softmax n %u, input %d", n, (int)f);
    c->ref->softmax((float *)y.ref, n);
    c->k->softmax((float *)y.k, n);
    if (!slc_kc_same(c, "x", y, true)) return false;
    for (uint32_t i = 0; i < n; i++) max = fmaxf(max, x[i]);
    for (uint32_t i = 0; i < n; i++) sum += exp((double)x[i] - (double)max);
    for (uint32_t i = 0; f == PLAIN && i < n; i++) {
        double distance = (double)max - (double)x[i], want = exp(-distance) / sum;
        double bound = (n / 16 + 8 + distance) * EPS * want + 1e-37;

        if (!slc_kc_near(c, "x", i, value(y, i), want, bound)) return false;
    }
    for (uint32_t i = 0; f == SPECIAL && i < n; i++) { // one NaN spoils all
        bool nan_in = false;

        for (uint32_t j = 0; j < n; j++) nan_in |= isnan(x[j]);
        if (nan_in && !isnan(value(y, i))) {
            printf("  x[%u] is %g despite a NaN\n    %s\n", i, value(y, i), c->what);
            return false;
        }
    }
    return true;
}

/* ---- plain vector operations ---- */

static bool check_add_axpy(kcase *c, uint32_t is_axpy) {
    flavour f = random_flavour(c);
    uint32_t n = random_n(c);
    float *x = random_input(c, n, f), *y0 = random_input(c, n, f), a = is_axpy ? y0[0] : 1;
    kc_out y = in_out(c, y0, n);

    snprintf(c->what, sizeof(c->what), "%s n %u, input %d", is_axpy ? "axpy" : "add", n, (int)f);
    if (is_axpy) {
        c->ref->axpy((float *)y.ref, a, x, n);
        c->k->axpy((float *)y.k, a, x, n);
    } else {
        c->ref->add((float *)y.ref, x, n);
        c->k->add((float *)y.k, x, n);
    }
    if (!slc_kc_same(c, "y", y, true)) return false;
    for (uint32_t i = 0; f == PLAIN && i < n; i++) {
        double want = (double)a * (double)x[i] + (double)y0[i];

        if (!slc_kc_near(c, "y", i, value(y, i), want, EPS * fabs(want))) return false;
    }
    return true;
}

static bool check_rope(kcase *c, uint32_t arg) {
    flavour f = random_flavour(c);
    uint32_t half = PICK(c, 32, 1 + slc_kc_below(c, 40), 64);
    float *x0 = random_input(c, 2 * half, f), *cosv = random_input(c, half, f);
    float *sinv = random_input(c, half, f);
    kc_out x = in_out(c, x0, 2 * half);

    snprintf(c->what, sizeof(c->what), "rope half %u, input %d", half, (int)f);
    c->ref->rope((float *)x.ref, cosv, sinv, half);
    c->k->rope((float *)x.k, cosv, sinv, half);
    if (!slc_kc_same(c, "x", x, true)) return false;
    for (uint32_t i = 0; f == PLAIN && i < half; i++) {
        double a = (double)x0[i], b = (double)x0[i + half];
        double co = (double)cosv[i], si = (double)sinv[i];
        double bound = 2 * EPS * (fabs(a) + fabs(b)) * (fabs(co) + fabs(si));

        if (!slc_kc_near(c, "x", i, value(x, i), a * co - b * si, bound) ||
            !slc_kc_near(c, "x", i + half, value(x, i + half), b * co + a * si, bound)) {
            return false;
        }
    }
    return true;
}

static bool check_f32_to_f16(kcase *c, uint32_t arg) {
    uint32_t n = random_n(c);
    float *x = slc_kc_input(c, n, sizeof(*x), false);
    kc_out y = slc_kc_output(c, n, 2);

    for (uint32_t i = 0; i < n; i++) { // ties, their neighbours, and any bits
        uint32_t u = slc_kc_random(c), tie = (u & 0xffffe000) + 0x1000 + slc_kc_below(c, 3) - 1;

        x[i] = slc_f32_from_bits(u & 1 ? u : tie);
    }
    snprintf(c->what, sizeof(c->what), "f32_to_f16 n %u", n);
    c->ref->f32_to_f16((uint16_t *)y.ref, x, n);
    c->k->f32_to_f16((uint16_t *)y.k, x, n);
    if (!slc_kc_same(c, "y", y, false)) return false;
    for (uint32_t i = 0; i < n; i++) { // half a step of the result, 2^-25 below 2^-14
        double magnitude = fabs((double)x[i]), got;
        uint16_t half;

        memcpy(&half, y.k + 2 * i, sizeof(half));
        got = (double)slc_f32_from_f16(half);
        if (magnitude >= 65520 || isnan(x[i])) {
            if (isnan(x[i]) ? isnan(got) : isinf(got)) continue;
            return slc_kc_near(c, "y", i, got, (double)x[i], 0);
        }
        if (!slc_kc_near(c, "y", i, got, (double)x[i], fmax(magnitude * 0x1p-11, 0x1p-25))) {
            return false;
        }
    }
    return true;
}

/* ---- convolution ---- */

static bool check_conv_silu(kcase *c, uint32_t arg) {
    flavour f = random_flavour(c);
    uint32_t n = random_n(c), n_taps = 1 + slc_kc_below(c, 5);
    size_t ldw = n + slc_kc_below(c, 3);
    float *w = random_input(c, (n_taps - 1) * ldw + n, f);
    const float *rows[5];
    kc_out out;

    for (uint32_t j = 0; j < n_taps; j++) rows[j] = random_input(c, n, f);
    out = slc_kc_output(c, n, sizeof(float));
    snprintf(c->what, sizeof(c->what), "conv_silu n %u, %u taps, ldw %zu, input %d", n, n_taps, ldw,
             (int)f);
    c->ref->conv_silu((float *)out.ref, rows, w, ldw, n_taps, n);
    c->k->conv_silu((float *)out.k, rows, w, ldw, n_taps, n);
    if (!slc_kc_same(c, "out", out, true)) return false;
    for (uint32_t i = 0; f == PLAIN && i < n; i++) {
        double sum = 0, magnitude = 0, want, bound;

        for (uint32_t j = 0; j < n_taps; j++) {
            sum += (double)w[j * ldw + i] * (double)rows[j][i];
            magnitude += fabs((double)w[j * ldw + i] * (double)rows[j][i]);
        }
        want = sum / (1 + exp(-sum)); // |silu'| < 1.1
        bound = 1.1 * n_taps * EPS * magnitude + 8 * EPS * fabs(want) + 1e-34;
        if (!slc_kc_near(c, "out", i, value(out, i), want, bound)) return false;
    }
    return true;
}

/* ---- recurrence ---- */

typedef struct gdn_case {
    uint32_t n_rows, dk, n_tok;
    size_t ld_qk, ld_v, ld_g, ld_o;
    float *S0, *q, *k, *v, *g, *beta;
    kc_out S, o;
} gdn_case;

static void run_gdn(const slc_kernels *k, const gdn_case *d, uint8_t *S, uint8_t *o) {
    k->gdn((float *)S, d->n_rows, d->dk, d->n_tok, d->q, d->k, d->ld_qk, d->v, d->ld_v, d->g,
           d->beta, d->ld_g, (float *)o, d->ld_o);
}

/* q and k of length at most 1, g and beta in [0, 1]: then no entry of S exceeds |S0| + sum |v - m|,
 * and an error neither grows nor outlives its token by more than that. */
static void tame(gdn_case *d) {
    size_t n_qk = (d->n_tok - 1) * d->ld_qk + d->dk, n_g = (d->n_tok - 1) * d->ld_g + 1;
    float unit = 1 / sqrtf((float)d->dk);

    for (size_t i = 0; i < n_qk; i++) d->q[i] *= unit, d->k[i] *= unit;
    for (size_t i = 0; i < n_g; i++) d->g[i] = fabsf(d->g[i]), d->beta[i] = fabsf(d->beta[i]);
}

static bool gdn_row_is_near(kcase *c, const gdn_case *d, uint32_t i) {
    double s[256], scale = 1 + d->n_tok, bound = (d->dk / 16 + 16) * 4 * d->n_tok * EPS * scale;

    for (uint32_t j = 0; j < d->dk; j++) s[j] = (double)d->S0[(size_t)i * d->dk + j];
    for (uint32_t t = 0; t < d->n_tok; t++) {
        const float *k = d->k + t * d->ld_qk, *q = d->q + t * d->ld_qk;
        double m = 0, o = 0, delta;

        for (uint32_t j = 0; j < d->dk; j++) {
            s[j] *= (double)d->g[t * d->ld_g];
            m += s[j] * (double)k[j];
        }
        delta = (double)d->beta[t * d->ld_g] * ((double)d->v[t * d->ld_v + i] - m);
        for (uint32_t j = 0; j < d->dk; j++) {
            s[j] += delta * (double)k[j];
            o += s[j] * (double)q[j];
        }
        if (!slc_kc_near(c, "o", t * d->ld_o + i, value(d->o, t * d->ld_o + i), o,
                         bound * sqrt(d->dk))) {
            return false;
        }
    }
    for (uint32_t j = 0; j < d->dk; j++) {
        size_t at = (size_t)i * d->dk + j;

        if (!slc_kc_near(c, "S", at, value(d->S, at), s[j], bound)) return false;
    }
    return true;
}

static bool check_gdn(kcase *c, uint32_t arg) {
    flavour f = random_flavour(c);
    gdn_case d = {.n_rows = 1 + slc_kc_below(c, 20),
                  .dk = PICK(c, 128, 64, 2, 1 + slc_kc_below(c, 140)),
                  .n_tok = 1 + slc_kc_below(c, 6)};
    size_t n_S = (size_t)d.n_rows * d.dk;
    float *inputs[6];

    d.ld_qk = d.dk + slc_kc_below(c, 3);
    d.ld_v = d.n_rows + slc_kc_below(c, 3);
    d.ld_g = 1 + slc_kc_below(c, 3);
    d.ld_o = d.n_rows + slc_kc_below(c, 3);

    const size_t sizes[6] = {n_S,
                             (d.n_tok - 1) * d.ld_qk + d.dk,
                             (d.n_tok - 1) * d.ld_qk + d.dk,
                             (d.n_tok - 1) * d.ld_v + d.n_rows,
                             (d.n_tok - 1) * d.ld_g + 1,
                             (d.n_tok - 1) * d.ld_g + 1};

    for (int i = 0; i < 6; i++) {
        inputs[i] = slc_kc_input(c, sizes[i], sizeof(float), false);
        slc_kc_fill(c, inputs[i], sizes[i], f);
    }
    d.S0 = inputs[0], d.q = inputs[1], d.k = inputs[2];
    d.v = inputs[3], d.g = inputs[4], d.beta = inputs[5];
    if (f == PLAIN) tame(&d);
    d.S = in_out(c, d.S0, n_S);
    d.o = slc_kc_output(c, d.n_tok * d.ld_o, sizeof(float));
    snprintf(c->what, sizeof(c->what), "gdn %u rows, dk %u, %u tokens, input %d", d.n_rows, d.dk,
             d.n_tok, (int)f);
    run_gdn(c->ref, &d, d.S.ref, d.o.ref);
    run_gdn(c->k, &d, d.S.k, d.o.k);
    if (!slc_kc_same(c, "S", d.S, true) || !slc_kc_same(c, "o", d.o, true)) return false;
    for (uint32_t i = 0; f == PLAIN && i < d.n_rows; i++) {
        if (!gdn_row_is_near(c, &d, i)) return false;
    }
    return true;
}

/* ---- attention ---- */

typedef struct attend_case {
    uint32_t n_pos, hd;
    float scale;
    float *q;
    const void *k, *v;
    slc_dtype type;
} attend_case;

static void run_attend(const slc_kernels *k, const attend_case *a, uint8_t *o) {
    if (a->type == SLC_DTYPE_F16) {
        k->attend_f16((float *)o, a->q, a->k, a->v, a->n_pos, a->hd, a->scale);
    } else {
        k->attend_f32((float *)o, a->q, a->k, a->v, a->n_pos, a->hd, a->scale);
    }
}

/* A score's error e (its sum's roundings, and those of the difference to the maximum) changes its
 * weight by a factor e; the sums of weights and of values round once per position. */
static bool attend_is_near(kcase *c, const attend_case *a, kc_out o) {
    double s[600], max = -INFINITY, sum = 0, worst = 0;

    for (uint32_t t = 0; t < a->n_pos; t++) {
        double magnitude = 0;

        s[t] = 0;
        for (uint32_t d = 0; d < a->hd; d++) {
            double kd = (double)slc_load_f32(a->type, a->k, (size_t)t * a->hd + d);

            s[t] += (double)a->scale * (double)a->q[d] * kd;
            magnitude += fabs((double)a->scale * (double)a->q[d] * kd);
        }
        max = fmax(max, s[t]);
        worst = fmax(worst, magnitude);
    }
    for (uint32_t t = 0; t < a->n_pos; t++) sum += s[t] = exp(s[t] - max);
    for (uint32_t d = 0; d < a->hd; d++) {
        double want = 0, magnitude = 0;

        for (uint32_t t = 0; t < a->n_pos; t++) {
            double v = (double)slc_load_f32(a->type, a->v, (size_t)t * a->hd + d);

            want += s[t] / sum * v;
            magnitude += s[t] / sum * fabs(v);
        }

        double bound = (2 * (a->hd / 16 + 8) * worst + a->n_pos + 32) * EPS * magnitude + 1e-36;

        if (!slc_kc_near(c, "o", d, value(o, d), want, bound)) return false;
    }
    return true;
}

static const void *random_cache(kcase *c, slc_dtype type, size_t n, flavour f) {
    float *x = slc_kc_input(c, n, sizeof(*x), false);
    uint16_t *half;

    slc_kc_fill(c, x, n, f);
    if (type == SLC_DTYPE_F32) return x;
    half = slc_kc_input(c, n, sizeof(*half), false);
    c->ref->f32_to_f16(half, x, (uint32_t)n);
    return half;
}

static bool check_attend(kcase *c, uint32_t type) {
    flavour f = random_flavour(c);
    attend_case a = {.type = (slc_dtype)type, .scale = 0.0625f};
    kc_out o;

    a.n_pos = PICK(c, 1 + slc_kc_below(c, 9), 63, 64, 65, 1 + slc_kc_below(c, 300), 512);
    a.hd = PICK(c, 256, 128, 64, 4, 1 + slc_kc_below(c, 150));
    a.q = random_input(c, a.hd, f);
    a.k = random_cache(c, a.type, (size_t)a.n_pos * a.hd, f);
    a.v = random_cache(c, a.type, (size_t)a.n_pos * a.hd, f);
    o = slc_kc_output(c, a.hd, sizeof(float));
    snprintf(c->what, sizeof(c->what), "attend %u positions, hd %u, input %d", a.n_pos, a.hd,
             (int)f);
    run_attend(c->ref, &a, o.ref);
    run_attend(c->k, &a, o.k);
    return slc_kc_same(c, "o", o, true) && (f != PLAIN || attend_is_near(c, &a, o));
}

#define CHECK(entry, run, arg, n)                                                                  \
    { #entry, offsetof(slc_kernels, entry), run, arg, n }

const kcheck slc_kcheck_vector[] = {
    CHECK(rms_norm, check_rms_norm, 0, 1000),
    CHECK(l2_norm, check_l2_norm, 0, 1000),
    CHECK(swiglu, check_swiglu, 0, 1000),
    CHECK(sigmoid_mul, check_sigmoid_mul, 0, 1000),
    {"exp in sigmoid_mul", offsetof(slc_kernels, sigmoid_mul), check_exp_bits, 0, 1000},
    CHECK(add, check_add_axpy, 0, 500),
    CHECK(axpy, check_add_axpy, 1, 500),
    CHECK(softmax, check_softmax, 0, 1000),
    CHECK(conv_silu, check_conv_silu, 0, 500),
    CHECK(gdn, check_gdn, 0, 400),
    CHECK(rope, check_rope, 0, 500),
    CHECK(attend_f16, check_attend, SLC_DTYPE_F16, 200),
    CHECK(attend_f32, check_attend, SLC_DTYPE_F32, 200),
    CHECK(f32_to_f16, check_f32_to_f16, 0, 1000),
};
const size_t slc_kcheck_n_vector = sizeof(slc_kcheck_vector) / sizeof(*slc_kcheck_vector);
