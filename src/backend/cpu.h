/* The CPU as a device: a kernel table and a worker pool, and matrix products spread over both.
 *
 * Owned and called by one thread. Results do not depend on the number of threads. */
#ifndef SLC_BACKEND_CPU_H
#define SLC_BACKEND_CPU_H

#include <stdbool.h>

#include "backend/pool.h"
#include "backend/stages.h"
#include "kernels/table.h"

typedef struct slc_cpu {
    slc_kernels k;
    slc_pool *pool;
    bool exact; /* affine products use f32 activations instead of int16 */
    slc_stages stages;
} slc_cpu;

/* level: at most slc_cpu_level_best(), or AUTO. */
slc_status slc_cpu_init(slc_cpu *cpu, slc_cpu_level level, uint32_t n_threads, bool exact,
                        slc_err *err) SLC_MUST_CHECK;
void slc_cpu_deinit(slc_cpu *cpu);

/* One matrix product: y[t * ldy + r] for all rows of w and all tokens of acts. */
typedef struct slc_product {
    const slc_matrix *w;
    slc_acts *acts; /* quantised on demand for w's group; set acts->group = 0 when x changed */
    float *y;
    size_t ldy;
    bool f32_acts; /* never quantise the activations (the router: its choice is discontinuous) */
} slc_product;

/* Runs n independent products, in one parallel loop where their activations allow. */
void slc_cpu_products(slc_cpu *cpu, const slc_product *p, uint32_t n);

#endif
