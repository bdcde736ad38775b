/* A persistent pool of worker threads that runs one parallel loop at a time.
 *
 * The caller of slc_pool_run is worker 0 and takes part. Workers spin briefly, then sleep on a
 * futex. One run at a time, always from the thread that owns the pool. */
#ifndef SLC_BACKEND_POOL_H
#define SLC_BACKEND_POOL_H

#include <stdint.h>

#include "sluice/status.h"

typedef struct slc_pool slc_pool;

/* fn(ctx, task, worker): task in [0, n_tasks), worker in [0, n_threads). */
typedef void slc_task_fn(void *ctx, uint32_t task, uint32_t worker);

slc_status slc_pool_create(uint32_t n_threads, slc_pool **out, slc_err *err) SLC_MUST_CHECK;
void slc_pool_destroy(slc_pool *p);
uint32_t slc_pool_size(const slc_pool *p);

/* Runs every task once, in any order on any worker, and returns when all are done. Memory written
 * before is visible to tasks, and what they write is visible after. */
void slc_pool_run(slc_pool *p, slc_task_fn *fn, void *ctx, uint32_t n_tasks);

#endif
