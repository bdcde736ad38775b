/* Matrix products over the pool. A list of products becomes one loop over blocks of rows, so that a
 * layer's small matrices (b and a of a Gated DeltaNet layer, eight experts of a token) cost one
 * start of the pool together. Blocks only divide rows: no result depends on them. */
#include "backend/cpu.h"

#include "base/assert.h"
#include "base/fail.h"

/* Products in one loop at most: eight experts with gate and up, and room to spare. */
#define MAX_BATCH 64u
/* Rows per block: a multiple of what kernels interleave. */
#define ROW_STEP 16u
/* Enough blocks that a late worker costs little, few enough that claiming them does not. */
#define BLOCKS_PER_THREAD 4u

slc_status slc_cpu_init(slc_cpu *cpu, slc_cpu_level level, uint32_t n_threads, bool exact,
                        slc_err *err) {
    *cpu = (slc_cpu){.exact = exact};
    slc_kernels_init(&cpu->k, level);
    return slc_pool_create(n_threads, &cpu->pool, err);
}

void slc_cpu_deinit(slc_cpu *cpu) {
    slc_pool_destroy(cpu->pool);
    *cpu = (slc_cpu){0};
}

/* The activation group a product needs: 0 for f32 activations. */
static uint32_t product_group(const slc_cpu *cpu, const slc_product *p) {
    bool quantised = slc_matrix_is_affine(&p->w->type) && !cpu->exact && !p->f32_acts;

    return quantised ? p->w->type.group : 0;
}

/* ---- quantising activations ---- */

typedef struct quantize_job {
    const slc_cpu *cpu;
    slc_acts *a;
} quantize_job;

static void quantize_token(void *ctx, uint32_t t, uint32_t worker) {
    const quantize_job *j = ctx;
    slc_acts *a = j->a;
    size_t n_groups = a->k / a->group;

    (void)worker;
    j->cpu->k.act_quantize(a->x + t * a->ldx, a->k, a->group, a->q + (size_t)t * a->k,
                           a->scale + t * n_groups, a->sum + t * n_groups);
}

static void quantize(slc_cpu *cpu, slc_acts *a, uint32_t group) {
    quantize_job job = {cpu, a};

    a->group = group;
    if (a->n_tok >= 8) {
        slc_pool_run(cpu->pool, quantize_token, &job, a->n_tok);
    } else {
        for (uint32_t t = 0; t < a->n_tok; t++) quantize_token(&job, t, 0);
    }
}

/* ---- products ---- */

typedef struct product_loop {
    const slc_cpu *cpu;
    const slc_product *p;
    uint32_t n;
    uint32_t rows_per_block;
    uint32_t first_block[MAX_BATCH + 1]; /* of each product */
} product_loop;

static void product_block(void *ctx, uint32_t task, uint32_t worker) {
    const product_loop *l = ctx;
    const slc_product *p;
    slc_matmul_fn *fn;
    uint32_t i = 0, row0, row1;

    (void)worker;
    while (task >= l->first_block[i + 1]) i++;
    p = &l->p[i];
    row0 = (task - l->first_block[i]) * l->rows_per_block;
    row1 = row0 + l->rows_per_block;
    if (row1 > p->w->type.rows) row1 = p->w->type.rows;
    fn = product_group(l->cpu, p) ? l->cpu->k.matmul_affine[p->w->type.bits] : l->cpu->k.matmul_f32;
    fn(p->w, row0, row1, p->acts, p->y, p->ldy);
}

static void run_products(slc_cpu *cpu, const slc_product *p, uint32_t n) {
    product_loop loop = {.cpu = cpu, .p = p, .n = n};
    uint32_t n_blocks = slc_pool_size(cpu->pool) * BLOCKS_PER_THREAD;
    uint64_t rows = 0;

    for (uint32_t i = 0; i < n; i++) rows += p[i].w->type.rows;
    loop.rows_per_block = (uint32_t)((rows + n_blocks - 1) / n_blocks);
    loop.rows_per_block = (loop.rows_per_block + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t r = p[i].w->type.rows;
        loop.first_block[i + 1] =
            loop.first_block[i] + (r + loop.rows_per_block - 1) / loop.rows_per_block;
    }
    slc_pool_run(cpu->pool, product_block, &loop, loop.first_block[n]);
}

static uint64_t matrix_bytes(const slc_matrix *w) {
    uint64_t n = 0;

    for (int part = 0; part < SLC_N_PARTS; part++) n += slc_matrix_part_bytes(&w->type, part);
    return n;
}

void slc_cpu_products(slc_cpu *cpu, const slc_product *p, uint32_t n) {
    uint32_t first = 0;

    for (uint32_t i = 0; i < n; i++) {
        slc_acts *a = p[i].acts;
        uint32_t group = product_group(cpu, &p[i]);

        slc_stage_move(&cpu->stages, matrix_bytes(p[i].w));
        slc_assert(a->k == p[i].w->type.cols);
        /* Requantising activations that an earlier product of the batch still needs, or a full
         * batch: run what is collected first. */
        if (i - first == MAX_BATCH || (group && a->group && a->group != group)) {
            run_products(cpu, p + first, i - first);
            first = i;
        }
        if (group && a->group != group) quantize(cpu, a, group);
    }
    if (n > first) run_products(cpu, p + first, n - first);
}
