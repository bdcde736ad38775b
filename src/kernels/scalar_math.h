/* Elementary functions of our own: libm's differ between versions and CPUs, these give the same
 * bits everywhere, because they use only operations that IEEE 754 rounds exactly.
 *
 * slc_expf is the exponential of every kernel; a SIMD level repeats its operations in its order.
 * The double functions are for load time and once-per-token work (rope angles, decay). */
#ifndef SLC_KERNELS_SCALAR_MATH_H
#define SLC_KERNELS_SCALAR_MATH_H

#include <math.h>

#include "quant/dtype.h"

/* exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2) / 2; exp(r) is its Taylor series up to
 * r^7 (truncation 0.05 ulp). Total error below 1 ulp. */
#define SLC_EXPF_MAX    88.72283f      /* above: +inf */
#define SLC_EXPF_MIN    (-87.33654f)   /* below: +0, never a subnormal */
#define SLC_EXPF_LOG2E  0x1.715476p+0f /* 1 / ln 2 */
#define SLC_EXPF_LN2_HI 0x1.62e4p-1f   /* ln 2 in two parts; n * hi is exact */
#define SLC_EXPF_LN2_LO 0x1.7f7d1cp-20f
#define SLC_EXPF_ROUND  0x1.8p+23f /* adding it rounds to an integer, left in the low bits */
#define SLC_EXPF_C7     (1.0f / 5040)
#define SLC_EXPF_C6     (1.0f / 720)
#define SLC_EXPF_C5     (1.0f / 120)
#define SLC_EXPF_C4     (1.0f / 24)
#define SLC_EXPF_C3     (1.0f / 6)

static inline float slc_expf(float x) {
    if (!(x <= SLC_EXPF_MAX)) return x > SLC_EXPF_MAX ? INFINITY : x; // or NaN
    if (x < SLC_EXPF_MIN) return 0;

    float z = fmaf(x, SLC_EXPF_LOG2E, SLC_EXPF_ROUND);
    float n = z - SLC_EXPF_ROUND;
    float r = fmaf(-n, SLC_EXPF_LN2_LO, fmaf(-n, SLC_EXPF_LN2_HI, x));
    float p = SLC_EXPF_C7;

    p = fmaf(p, r, SLC_EXPF_C6);
    p = fmaf(p, r, SLC_EXPF_C5);
    p = fmaf(p, r, SLC_EXPF_C4);
    p = fmaf(p, r, SLC_EXPF_C3);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r, 1);
    p = fmaf(p, r, 1);
    // p is in [0.7, 1.42]: n goes straight into its exponent, and the range checks above keep the
    // sum inside the normal numbers.
    return slc_f32_from_bits(slc_f32_bits(p) + (slc_f32_bits(z) << 23));
}

static inline float slc_sigmoidf(float x) {
    return 1 / (1 + slc_expf(-x));
}

static inline float slc_siluf(float x) {
    return x / (1 + slc_expf(-x));
}

/* Relative error below 1e-15. exp: +inf above 709.78, 0 below -708.39 (no subnormals).
 * ln: x > 0 and normal; 0 gives -inf, a negative number NaN, +inf itself. NaN gives NaN. */
double slc_exp(double x);
double slc_ln(double x);
/* x^y for x > 0 as exp(y ln x): relative error about 1e-16 (1 + |y ln x|). */
double slc_pow(double x, double y);
/* Absolute error below 1e-15 for |x| <= 1e6, growing in proportion beyond; past 2^30 both NaN. */
void slc_sincos(double x, double *s, double *c);
/* log(1 + exp(x)), rounded once from a double: correct to 1 ulp for every x. */
float slc_softplusf(float x);

#endif
