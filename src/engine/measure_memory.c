/* What memory can give: the bytes a token touches, and the rate at which this machine reads that
 * many. Both are bounds from below and above on purpose: every byte is counted once, and the reader
 * does nothing with what it reads. */
#include <stdlib.h>

#include "backend/pool.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/meminfo.h"
#include "engine/model_internal.h"
#include "sluice/bench.h"

/* ---- bytes of a token ---- */

static uint64_t weight_bytes(const slc_weight *w) {
    uint64_t n = 0;

    for (int part = 0; part < SLC_N_PARTS; part++) n += w->part[part].bytes;
    return n;
}

static uint64_t dense_bytes(const slc_checkpoint *ck) {
    uint64_t n = weight_bytes(&ck->w[SLC_W_LM_HEAD]) + weight_bytes(&ck->w[SLC_W_FINAL_NORM]);

    for (uint32_t l = 0; l < ck->cfg.n_layers; l++)
        for (int id = 0; id < SLC_W_N_LAYER; id++) n += weight_bytes(&ck->layers[l].w[id]);
    return n;
}

static uint64_t expert_bytes(const slc_checkpoint *ck) {
    uint64_t n = 0;

    if (!slc_config_is_moe(&ck->cfg)) return 0;
    for (uint32_t l = 0; l < ck->cfg.n_layers; l++)
        n += ck->cfg.n_experts_per_tok * slc_checkpoint_expert_bytes(ck, l);
    return n;
}

slc_status slc_bench_touch(const char *path, bool exact, slc_bench_touched *out, slc_err *err) {
    slc_checkpoint *ck;
    slc_state_layout state;
    slc_net net = {0};
    slc_status rc = slc_checkpoint_open(path, NULL, &ck, err);

    if (rc) return rc;
    if (!(rc = slc_net_init(&net, &ck->cfg, err))) {
        slc_state_layout_init(&state, &net, 1, exact);
        *out = (slc_bench_touched){
            .dense_bytes = dense_bytes(ck),
            .expert_bytes = expert_bytes(ck),
            .state_bytes = 2 * (state.total_bytes - state.conv_off),
            .kv_bytes =
                (uint64_t)net.n_full * 2 * ck->cfg.n_kv_heads * ck->cfg.head_dim * (exact ? 4 : 2),
        };
    }
    slc_net_deinit(&net);
    slc_checkpoint_close(ck);
    return rc;
}

/* ---- rate ---- */

#define BLOCK_BYTES ((size_t)128 << 10) /* of a task: small enough to share evenly */
#define MAX_PASSES  4096u
#define MAX_BYTES   (UINT64_C(1) << 36) /* fits the pool's count of tasks */

typedef uint64_t lanes __attribute__((vector_size(32)));

typedef struct reading {
    const uint8_t *base;
    size_t bytes;
    lanes *sums;       /* [n_threads]: what was read must be used, or the compiler reads nothing */
    uint64_t *pass_ns; /* [MAX_PASSES] */
} reading;

/* Four streams a block: one stream at a time leaves a core at about half of its rate. */
static void read_block(void *ctx, uint32_t task, uint32_t worker) {
    reading *r = ctx;
    const lanes *p = (const lanes *)(r->base + (size_t)task * BLOCK_BYTES);
    size_t quarter = BLOCK_BYTES / sizeof(lanes) / 4;
    lanes a = {0}, b = {0}, c = {0}, d = {0};

    for (size_t i = 0; i < quarter; i++) {
        a += p[i];
        b += p[i + quarter];
        c += p[i + 2 * quarter];
        d += p[i + 3 * quarter];
    }
    r->sums[worker] += a + b + c + d;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Reads everything until the time is over; nanoseconds of the median pass. */
static uint64_t time_passes(slc_pool *pool, reading *r, double seconds) {
    uint32_t n = 0, n_tasks = (uint32_t)(r->bytes / BLOCK_BYTES);
    uint64_t end = slc_now_ns() + (uint64_t)(seconds * 1e9), start;

    slc_pool_run(pool, read_block, r, n_tasks); /* wakes the threads, fills what caches there are */
    do {
        start = slc_now_ns();
        slc_pool_run(pool, read_block, r, n_tasks);
        r->pass_ns[n++] = slc_now_ns() - start;
    } while (n < MAX_PASSES && slc_now_ns() < end);
    qsort(r->pass_ns, n, sizeof(*r->pass_ns), by_value);
    return r->pass_ns[n / 2] ? r->pass_ns[n / 2] : 1;
}

static void take(reading *r, slc_arena *a, uint32_t threads) {
    r->base = slc_arena_take(a, r->bytes, 1);
    r->sums = slc_arena_take(a, threads, sizeof(*r->sums));
    r->pass_ns = slc_arena_take(a, MAX_PASSES, sizeof(*r->pass_ns));
}

slc_status slc_bench_memory(uint64_t bytes, uint32_t threads, double seconds, double *bytes_per_s,
                            slc_err *err) {
    uint64_t room = slc_mem_room_bytes("") / 2;
    reading r = {0};
    slc_arena arena = {0};
    slc_pool *pool;
    slc_status rc;

    if (!threads || threads > 1024)
        return slc_fail(err, SLC_E_INVALID, "%u threads, expected 1 to 1024", threads);
    if (!bytes) return slc_fail(err, SLC_E_INVALID, "expected a number of bytes to read, found 0");
    if (bytes > room) bytes = room;
    if (bytes > MAX_BYTES) bytes = MAX_BYTES;
    r.bytes = slc_align_up(bytes, BLOCK_BYTES);
    if ((rc = slc_pool_create(threads, &pool, err))) return rc;
    take(&r, &arena, threads); /* counts */
    if (!(rc = slc_arena_alloc(&arena, true, err))) {
        take(&r, &arena, threads); /* hands out */
        *bytes_per_s = (double)r.bytes * 1e9 / (double)time_passes(pool, &r, seconds);
    }
    slc_arena_free(&arena);
    slc_pool_destroy(pool);
    return rc;
}
