/* kcheck --bench: time of each hot kernel at the sizes of a real model, beside the memory's read
 * rate measured in the same run. CSV: name, ns, GB/s (of weights, state or cache), GFLOP/s where it
 * is the measure, ratio to the reference. Each figure is the best of several runs of a few
 * milliseconds, in CPU time of the thread: other programs cost cache and bandwidth, not turns. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "kernels/kcheck.h"

enum {
    ROWS = 2048,
    COLS = 2048,
    N_TOK = 64,
    HD = 256,
    N_POS = 8192,
    DK = 128,
    COPIES = 24, /* of a matrix, so that a walk over them comes from memory, not from cache */
    RUNS = 15,
};

typedef struct setup {
    const slc_kernels *k;
    slc_matrix w;
    slc_acts acts;
    size_t copy_bytes;
    uint32_t n_tok, n_copies;
    bool f32_acts;
    float *x, *y, *S;
    uint16_t *kv;
    uint8_t *weights;
    size_t weights_bytes;
} setup;

typedef void body(setup *s);

static void *allocate(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED) {
        perror("kcheck: mmap");
        exit(2);
    }
    madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

static uint64_t cpu_ns(void) {
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t best_ns(setup *s, body *fn, uint32_t runs) {
    uint64_t best = UINT64_MAX;

    for (uint32_t i = 0; i < runs; i++) {
        uint64_t start = cpu_ns(), ns;

        fn(s);
        ns = cpu_ns() - start;
        if (ns < best) best = ns;
    }
    return best;
}

static void report(const char *name, setup *s, const slc_kernels *ref, body *fn, double bytes,
                   double flops) {
    const slc_kernels *k = s->k;
    uint64_t ns = best_ns(s, fn, RUNS), ref_ns;

    s->k = ref;
    ref_ns = best_ns(s, fn, 1);
    s->k = k;
    printf("%s,%llu,%.2f,%.2f,%.1f\n", name, (unsigned long long)ns, bytes / (double)ns,
           flops / (double)ns, (double)ref_ns / (double)ns);
}

/* Plain reading, four streams of 8 bytes at a time: what memory gives one thread. */
static void read_all(setup *s) {
    const uint64_t *p = (const uint64_t *)s->weights;
    size_t n = s->weights_bytes / 8 / 4;
    uint64_t sum[4] = {0};

    for (size_t i = 0; i < n; i += 4) {
        for (size_t j = 0; j < 4; j++) {
            const uint64_t *q = p + j * n + i;

            sum[j] ^= q[0] ^ q[1] ^ q[2] ^ q[3];
        }
    }
    s->y[0] = (float)(sum[0] ^ sum[1] ^ sum[2] ^ sum[3]);
}

static void matmul(setup *s) {
    bool quantised = s->w.type.bits && !s->f32_acts;
    slc_matmul_fn *fn = quantised ? s->k->matmul_affine[s->w.type.bits] : s->k->matmul_f32;
    slc_acts a = s->acts;

    a.n_tok = s->n_tok;
    for (uint32_t i = 0; i < s->n_copies; i++) {
        slc_matrix w = s->w;

        for (int p = 0; p < SLC_N_PARTS; p++) {
            if (w.part[p]) w.part[p] += i * s->copy_bytes;
        }
        fn(&w, 0, w.type.rows, &a, s->y, w.type.rows);
    }
}

/* As many single-token products as the batch has tokens. */
static void matmul_one_by_one(setup *s) {
    slc_acts a = s->acts;
    uint32_t n_groups = COLS / a.group;

    a.n_tok = 1;
    for (uint32_t t = 0; t < s->n_tok; t++) {
        s->k->matmul_affine[s->w.type.bits](&s->w, 0, ROWS, &a, s->y + (size_t)t * ROWS, ROWS);
        a.q += COLS;
        a.scale += n_groups;
        a.sum += n_groups;
    }
}

static void use_matrix(setup *s, uint32_t bits, uint32_t group, uint32_t rows, uint32_t cols) {
    const slc_matrix_type type = {.dtype = bits ? SLC_DTYPE_U32 : SLC_DTYPE_BF16,
                                  .scale_dtype = bits ? SLC_DTYPE_BF16 : SLC_DTYPE_NONE,
                                  .bits = (uint8_t)bits,
                                  .group = (uint16_t)group,
                                  .rows = rows,
                                  .cols = cols};
    size_t at = 0;

    s->w.type = type;
    for (int p = 0; p < SLC_N_PARTS; p++) {
        s->w.part[p] = slc_matrix_part_bytes(&type, p) ? s->weights + at : NULL;
        at += slc_matrix_part_bytes(&type, p);
    }
    s->copy_bytes = at;
    s->acts.group = group;
    s->acts.k = cols;
    for (uint32_t t = 0; bits && t < N_TOK; t++) {
        s->k->act_quantize(s->x + (size_t)t * COLS, cols, group, s->acts.q + (size_t)t * cols,
                           s->acts.scale + (size_t)t * (cols / group),
                           s->acts.sum + (size_t)t * (cols / group));
    }
}

static void bench_matmul(setup *s, const slc_kernels *ref, uint32_t bits, uint32_t group) {
    char name[64];
    double flops = 2.0 * ROWS * COLS;

    use_matrix(s, bits, group, ROWS, COLS);
    s->n_tok = 1;
    s->n_copies = COPIES;
    snprintf(name, sizeof(name), "gemv_%s%u_g%u", bits ? "affine" : "bf16_", bits, group);
    report(name, s, ref, matmul, (double)COPIES * (double)s->copy_bytes, COPIES * flops);
    s->n_tok = N_TOK;
    s->n_copies = 1;
    snprintf(name, sizeof(name), "gemm%d_%s%u_g%u", N_TOK, bits ? "affine" : "bf16_", bits, group);
    report(name, s, ref, matmul, (double)s->copy_bytes, N_TOK * flops);
    if (!bits) return;
    printf("# %s: %.2f times faster than %d products of one token\n", name,
           (double)best_ns(s, matmul_one_by_one, RUNS) / (double)best_ns(s, matmul, RUNS), N_TOK);
}

/* One token, `copies` of a matrix of another shape. */
static void bench_shape(setup *s, const slc_kernels *ref, const char *name, uint32_t bits,
                        uint32_t rows, uint32_t cols, uint32_t copies) {
    use_matrix(s, bits, 64, rows, cols);
    s->n_tok = 1;
    s->n_copies = copies;
    report(name, s, ref, matmul, (double)copies * (double)s->copy_bytes,
           2.0 * copies * rows * cols);
}

static void bench_shapes(setup *s, const slc_kernels *ref) {
    bench_shape(s, ref, "gemv_affine4_g64_in_cache", 4, 128, COLS, 1);
    bench_shape(s, ref, "gemv_affine4_g64_256_columns", 4, 4096, 256, 60);
    bench_shape(s, ref, "gemv_affine4_g64_256_columns_in_cache", 4, 1024, 256, 1);
    s->f32_acts = true;
    bench_shape(s, ref, "gemv_affine8_g64_f32_acts_in_cache", 8, 128, COLS, 1);
    s->f32_acts = false;
}

#if defined(__x86_64__)
enum { MADD_ROUNDS = 100000, MADDS = 8, MADD_FLOPS = 32 };

/* Nothing but pmaddwd of 32-byte registers: what bounds a product of int16 on AVX2. */
static void madd_peak(setup *s) {
    uint32_t n = MADD_ROUNDS;

    (void)s;
    __asm__ volatile("1:\n\t"
                     "vpmaddwd %%ymm5, %%ymm4, %%ymm0\n\t"
                     "vpmaddwd %%ymm5, %%ymm4, %%ymm1\n\t"
                     "vpmaddwd %%ymm5, %%ymm4, %%ymm2\n\t"
                     "vpmaddwd %%ymm5, %%ymm4, %%ymm3\n\t"
                     "vpmaddwd %%ymm5, %%ymm4, %%ymm0\n\t"
                     "vpmaddwd %%ymm5, %%ymm4, %%ymm1\n\t"
                     "vpmaddwd %%ymm5, %%ymm4, %%ymm2\n\t"
                     "vpmaddwd %%ymm5, %%ymm4, %%ymm3\n\t"
                     "dec %0\n\t"
                     "jnz 1b\n\t"
                     "vzeroupper"
                     : "+r"(n)
                     :
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "cc");
}
#endif

/* All heads of a 35B layer stack would not fit the caches either: walk 32 MiB of state. */
enum { GDN_HEADS = 512 };

static void gdn(setup *s) {
    static const float g = 0.9f, beta = 0.5f;

    for (uint32_t h = 0; h < GDN_HEADS; h++) {
        s->k->gdn(s->S + (size_t)h * DK * DK, DK, DK, 1, s->x, s->x + DK, DK, s->x + 2 * DK, DK, &g,
                  &beta, 1, s->y, DK);
    }
}

static void gdn_64(setup *s) {
    static float g[N_TOK], beta[N_TOK];

    for (int t = 0; t < N_TOK; t++) g[t] = 0.9f, beta[t] = 0.5f;
    s->k->gdn(s->S, DK, DK, N_TOK, s->x, s->x + (size_t)N_TOK * DK, DK,
              s->x + (size_t)2 * N_TOK * DK, DK, g, beta, 1, s->y, DK);
}

static void attend_f16(setup *s) {
    s->k->attend_f16(s->y, s->x, s->kv, s->kv + (size_t)N_POS * HD, N_POS, HD, 0.0625f);
}

static void attend_f32(setup *s) {
    s->k->attend_f32(s->y, s->x, s->S, s->S + (size_t)N_POS * HD, N_POS, HD, 0.0625f);
}

static void act_quantize(setup *s) {
    s->k->act_quantize(s->x, COLS, 64, s->acts.q, s->acts.scale, s->acts.sum);
}

static void rms_norm(setup *s) {
    s->k->rms_norm(s->y, s->x, s->x + COLS, COLS, 1e-6f);
}

static void swiglu(setup *s) {
    s->k->swiglu(s->y, s->x, s->x + COLS, COLS);
}

static void softmax(setup *s) {
    memcpy(s->y, s->x, 256 * sizeof(float));
    s->k->softmax(s->y, 256);
}

static void fill(setup *s) {
    kcase c = {.rng = 1};

    for (size_t i = 0; i < s->weights_bytes; i += 4) {
        /* as bf16 between 2^-15 and 2^-7: subnormal scales would be another measurement */
        uint32_t u = (slc_kc_random(&c) & 0x03ff03ff) | 0x38003800;

        memcpy(s->weights + i, &u, 4);
    }
    slc_kc_fill(&c, s->x, (size_t)N_TOK * COLS, PLAIN);
    slc_kc_fill(&c, s->S, (size_t)GDN_HEADS * DK * DK, PLAIN);
    for (size_t i = 0; i < (size_t)2 * N_POS * HD; i++) {
        s->kv[i] = slc_f16_from_f32((float)slc_kc_random(&c) * 0x1p-32f);
    }
}

int slc_kcheck_bench(const slc_kernels *ref, const slc_kernels *k) {
    setup s = {.k = k, .weights_bytes = (size_t)COPIES * ROWS * COLS * 2};
    double state = (double)GDN_HEADS * DK * DK * 4;

    s.weights = allocate(s.weights_bytes);
    s.x = allocate(sizeof(float) * N_TOK * COLS);
    s.y = allocate(sizeof(float) * N_TOK * ROWS);
    s.S = allocate(sizeof(float) * GDN_HEADS * DK * DK);
    s.kv = allocate(sizeof(uint16_t) * 2 * N_POS * HD);
    s.acts = (slc_acts){.x = s.x, .ldx = COLS, .n_tok = N_TOK, .k = COLS};
    s.acts.q = allocate(sizeof(int16_t) * N_TOK * COLS);
    s.acts.scale = allocate(sizeof(float) * N_TOK * COLS / 32);
    s.acts.sum = allocate(sizeof(int32_t) * N_TOK * COLS / 32);
    fill(&s);
    printf("# level %s, one thread\nname,ns,GB/s,GFLOP/s,ratio_to_ref\n", k->level);
    uint64_t ns = best_ns(&s, read_all, RUNS);
    printf("memory_read,%llu,%.2f,0,1\n", (unsigned long long)ns,
           (double)s.weights_bytes / (double)ns);
#if defined(__x86_64__)
    if (slc_cpu_level_best() >= SLC_CPU_AVX2) {
        ns = best_ns(&s, madd_peak, RUNS);
        printf("pmaddwd_peak,%llu,0,%.2f,1\n", (unsigned long long)ns,
               (double)MADD_ROUNDS * MADDS * MADD_FLOPS / (double)ns);
    }
#endif
    bench_matmul(&s, ref, 4, 64);
    bench_matmul(&s, ref, 8, 64);
    bench_matmul(&s, ref, 2, 64);
    bench_matmul(&s, ref, 3, 64);
    bench_matmul(&s, ref, 5, 64);
    bench_matmul(&s, ref, 6, 64);
    bench_matmul(&s, ref, 4, 32);
    bench_matmul(&s, ref, 4, 128);
    bench_matmul(&s, ref, 0, 0);
    bench_shapes(&s, ref);
    report("gdn_1_token", &s, ref, gdn, 2 * state, GDN_HEADS * 7.0 * DK * DK);
    report("gdn_64_tokens", &s, ref, gdn_64, 0, N_TOK * 7.0 * DK * DK);
    report("attend_f16", &s, ref, attend_f16, 4.0 * N_POS * HD, 4.0 * N_POS * HD);
    report("attend_f32", &s, ref, attend_f32, 8.0 * N_POS * HD, 4.0 * N_POS * HD);
    report("act_quantize_2048", &s, ref, act_quantize, 4.0 * COLS, 0);
    report("rms_norm_2048", &s, ref, rms_norm, 8.0 * COLS, 0);
    report("swiglu_2048", &s, ref, swiglu, 8.0 * COLS, 0);
    report("softmax_256", &s, ref, softmax, 0, 0);
    return 0;
}
