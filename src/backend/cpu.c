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
/* What claiming a block costs is small beside reading this much. */
#define MIN_BLOCK_BYTES 16384u
#define MAX_BLOCKS      1024u

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

/* The rows of all products in a row, each product's rounded up to whole steps. Blocks are cut off
 * that line: half of what is left, shared among the threads, so that they become small towards the
 * end and nobody waits long for the last one. */
typedef struct product_loop {
    const slc_cpu *cpu;
    const slc_product *p;
    uint32_t first_row[MAX_BATCH + 1]; /* of each product */
    uint32_t n_blocks;
    uint32_t first_of_block[MAX_BLOCKS + 1];
} product_loop;

static void product_block(void *ctx, uint32_t task, uint32_t worker) {
    const product_loop *l = ctx;
    uint32_t row = l->first_of_block[task], end = l->first_of_block[task + 1], i = 0;

    (void)worker;
    while (row >= l->first_row[i + 1]) i++;
    for (; row < end; row = l->first_row[++i]) {
        const slc_product *p = &l->p[i];
        const slc_matrix_type *type = &p->w->type;
        uint32_t row0 = row - l->first_row[i], row1 = end - l->first_row[i];
        slc_matmul_fn *fn =
            product_group(l->cpu, p) ? l->cpu->k.matmul_affine[type->bits] : l->cpu->k.matmul_f32;

        fn(p->w, row0, row1 < type->rows ? row1 : type->rows, p->acts, p->y, p->ldy);
    }
}

static uint32_t round_up(uint32_t rows) {
    return (rows + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
}

static void cut(product_loop *l, uint32_t n_rows, uint32_t least) {
    uint32_t n_shares = 2 * slc_pool_size(l->cpu->pool), row = 0;

    if (least < round_up(n_rows / (MAX_BLOCKS / 2))) least = round_up(n_rows / (MAX_BLOCKS / 2));
    for (l->n_blocks = 0; row < n_rows && l->n_blocks < MAX_BLOCKS; l->n_blocks++) {
        uint32_t rows = round_up((n_rows - row + n_shares - 1) / n_shares);

        l->first_of_block[l->n_blocks] = row;
        row += rows > least ? rows : least;
    }
    l->first_of_block[l->n_blocks] = n_rows; /* the last one takes what is left */
}

static void run_products(slc_cpu *cpu, const slc_product *p, uint32_t n) {
    product_loop loop = {.cpu = cpu, .p = p};
    uint64_t row_bytes = slc_matrix_row_bytes(&p[0].w->type, SLC_PART_W);

    for (uint32_t i = 0; i < n; i++)
        loop.first_row[i + 1] = loop.first_row[i] + round_up(p[i].w->type.rows);
    cut(&loop, loop.first_row[n], round_up((uint32_t)(MIN_BLOCK_BYTES / row_bytes)));
    slc_pool_run(cpu->pool, product_block, &loop, loop.n_blocks);
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
