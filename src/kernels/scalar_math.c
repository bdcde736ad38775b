/* Double-precision elementary functions from exactly rounded operations: argument reduction, then a
 * power series long enough for the reduced range. Clarity before speed: they run at load time or
 * once per token. */
#include "kernels/scalar_math.h"

#define LN2_HI   0x1.62e42fefa39efp-1
#define LN2_LO   0x1.abc9e3b39803fp-56
#define PIO2_HI  0x1.921fb54442d18p+0
#define PIO2_LO  0x1.1a62633145c07p-54
#define TWO_O_PI 0x1.45f306dc9c883p-1

static double from_bits(uint64_t u) {
    double d;

    memcpy(&d, &u, sizeof(d));
    return d;
}

/* 2^n, -1022 <= n <= 1023. */
static double pow2(int n) {
    return from_bits((uint64_t)(n + 1023) << 52);
}

/* c[0] + c[1] x + ... + c[n - 1] x^(n - 1) */
static double polynomial(double x, const double *c, int n) {
    double p = 0;

    while (n-- > 0) p = p * x + c[n]; // no fma: a library call where the CPU level is unknown
    return p;
}

double slc_exp(double x) {
    static const double c[] = {
        1,
        1,
        1.0 / 2,
        1.0 / 6,
        1.0 / 24,
        1.0 / 120,
        1.0 / 720,
        1.0 / 5040,
        1.0 / 40320,
        1.0 / 362880,
        1.0 / 3628800,
        1.0 / 39916800,
        1.0 / 479001600,
        1.0 / 6227020800,
    };

    if (!(x <= 709.782712893383)) return x > 0 ? (double)INFINITY : x; // or NaN
    if (x < -708.396418532264) return 0;

    double n = rint(x / LN2_HI);
    double r = fma(-n, LN2_LO, fma(-n, LN2_HI, x));
    int half = (int)n / 2; // in two steps: 2^1024 is not a double

    return polynomial(r, c, 14) * pow2(half) * pow2((int)n - half);
}

/* 2 atanh(s) = log((1 + s) / (1 - s)) for |s| <= 1/3: 2 (s + s^3/3 + s^5/5 + ...) */
static double two_atanh(double s) {
    static const double c[] = {
        1.0,      1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17,
        1.0 / 19, 1.0 / 21, 1.0 / 23, 1.0 / 25, 1.0 / 27, 1.0 / 29, 1.0 / 31, 1.0 / 33,
    };

    return 2 * s * polynomial(s * s, c, 17);
}

double slc_ln(double x) {
    uint64_t u;

    if (!(x > 0)) return x == 0 ? -(double)INFINITY : (double)NAN;
    if (x > 0x1.fffffffffffffp+1023) return x;
    memcpy(&u, &x, sizeof(u));

    // x = 2^n m with m in [sqrt(1/2), sqrt(2)): the constant is the fraction of sqrt(2)
    int n = (int)(u >> 52) - 1023;
    double m = from_bits((u & 0xfffffffffffff) | (uint64_t)1023 << 52);

    if (m > 0x1.6a09e667f3bcdp+0) m *= 0.5, n++;
    return fma(n, LN2_HI, fma(n, LN2_LO, two_atanh((m - 1) / (m + 1))));
}

double slc_pow(double x, double y) {
    return slc_exp(y * slc_ln(x));
}

void slc_sincos(double x, double *s, double *c) {
    static const double sin_c[] = {
        1,
        -1.0 / 6,
        1.0 / 120,
        -1.0 / 5040,
        1.0 / 362880,
        -1.0 / 39916800,
        1.0 / 6227020800.0,
        -1.0 / 1307674368000.0,
        1.0 / 355687428096000.0,
    };
    static const double cos_c[] = {
        1,
        -1.0 / 2,
        1.0 / 24,
        -1.0 / 720,
        1.0 / 40320,
        -1.0 / 3628800,
        1.0 / 479001600.0,
        -1.0 / 87178291200.0,
        1.0 / 20922789888000.0,
        -1.0 / 6402373705728000.0,
    };

    *s = *c = (double)NAN;
    if (!(fabs(x) <= 0x1p30)) return;

    // x = n pi/2 + r, |r| <= pi/4; the first fma is exact up to the rounding of r itself
    double n = rint(x * TWO_O_PI);
    double r = fma(-n, PIO2_LO, fma(-n, PIO2_HI, x));
    double sin_r = r * polynomial(r * r, sin_c, 9), cos_r = polynomial(r * r, cos_c, 10);
    unsigned quadrant = (unsigned)(int)n & 3;

    *s = quadrant & 1 ? cos_r : sin_r;
    *c = quadrant & 1 ? sin_r : cos_r;
    if (quadrant == 2 || quadrant == 3) *s = -*s;
    if (quadrant == 1 || quadrant == 2) *c = -*c;
}

float slc_softplusf(float x) {
    double e = slc_exp(-fabs((double)x)); // log(1 + e) = 2 atanh(e / (2 + e)), exact for tiny e
    double tail = two_atanh(e / (2 + e));

    return (float)(x > 0 ? x + tail : tail);
}
