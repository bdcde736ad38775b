/* kcheck: every entry of every kernel table against the scalar reference, bit for bit, and against
 * double precision. This header: the case in hand, random inputs, guarded memory, comparison. */
#ifndef SLC_TESTS_KERNELS_KCHECK_H
#define SLC_TESTS_KERNELS_KCHECK_H

#include <stdbool.h>

#include "kernels/table.h"

/* One check runs one random case. */
typedef struct kcase {
    const slc_kernels *ref, *k;
    uint64_t rng;
    char what[256]; /* the case in words, for the report */
    int n_slots;    /* slots of guarded memory in use */
} kcase;

typedef struct kcheck {
    const char *name;
    size_t entry;                        /* offset of the pointer in slc_kernels */
    bool (*run)(kcase *c, uint32_t arg); /* false: failed, reported */
    uint32_t arg;
    uint32_t n_cases;
} kcheck;

extern const kcheck slc_kcheck_matmul[], slc_kcheck_vector[];
extern const size_t slc_kcheck_n_matmul, slc_kcheck_n_vector;

/* ---- random ---- */
uint32_t slc_kc_random(kcase *c); /* 32 bits */
uint32_t slc_kc_below(kcase *c, uint32_t n);
#define PICK(c, ...)                                                                               \
    ((const uint32_t[]){                                                                           \
        __VA_ARGS__}[slc_kc_below(c, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))])

typedef enum flavour {
    PLAIN,   /* [-1, 1] */
    WIDE,    /* exponents from 2^-40 to 2^40 */
    SPARSE,  /* mostly zeros of both signs */
    TINY,    /* subnormals and their neighbours */
    HUGE_,   /* near the largest float */
    SPECIAL, /* PLAIN with infinities and NaN */
    N_FLAVOURS
} flavour;

void slc_kc_fill(kcase *c, float *x, size_t n, flavour f);

/* ---- memory ----
 * A block for this case. Inputs lie against an inaccessible page, after (most often) or before
 * them, or at a random offset mod 64 with `any_align` (weights) or mod 64 in steps of the element
 * size. Outputs are surrounded by bytes that must stay. */
void *slc_kc_input(kcase *c, size_t n, size_t size, bool any_align);

typedef struct kc_out {
    uint8_t *ref, *k; /* what each of the two writes; equal content at first */
    size_t bytes;
} kc_out;

kc_out slc_kc_output(kcase *c, size_t n, size_t size);

/* ---- verdicts ---- */
/* Equal bits, guards included; any NaN equals any NaN when `is_float`. */
bool slc_kc_same(kcase *c, const char *name, kc_out out, bool is_float);
/* |got - want| <= bound, or both NaN, or equal infinities. */
bool slc_kc_near(kcase *c, const char *name, size_t i, double got, double want, double bound);

#define EPS 0x1p-24 /* half an ulp of 1: the rounding error of one operation, relative */

/* ---- bench ---- */
int slc_kcheck_bench(const slc_kernels *ref, const slc_kernels *k);

#endif
