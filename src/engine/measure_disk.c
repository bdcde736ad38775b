/* What the disk can give to a checkpoint: experts read as the expert cache reads them, and nothing
 * else. The ranges come from stream/slot_layout.h, the memory from a slab of the store's slots, the
 * reads go through io/io.h; only the order (random, or that of a trace) and the clock are here.
 *
 *     slot    0        1        2        3   ...        one expert each, its reads in flight
 *           |#######| |##     | |       | |###    |
 *                                  ^ empty: the next expert starts as soon as fewer than `depth`
 *                                    reads are outstanding */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "engine/model_internal.h"
#include "format/checkpoint.h"
#include "io/io.h"
#include "sluice/bench.h"
#include "stream/slab.h"
#include "stream/slot_layout.h"
#include "stream/store.h"
#include "stream/trace.h"

#define MAX_DEPTH 4096u
#define REAP_MAX  64u

/* ---- which expert next ---- */

typedef struct expert_id {
    uint32_t layer, expert;
} expert_id;

typedef struct source {
    const slc_checkpoint *ck;
    uint64_t random; /* state of splitmix64 */
    expert_id *list; /* [n_list] of a trace; NULL: random */
    size_t n_list, at;
} source;

static uint64_t next_random(source *s) {
    uint64_t x = s->random += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static expert_id next_expert(source *s) {
    expert_id id;

    if (s->list) return s->list[s->at++ % s->n_list];
    do { /* a layer without experts is drawn again: there is one with, or bench_open had failed */
        id.layer = (uint32_t)(next_random(s) % s->ck->cfg.n_layers);
    } while (!slc_layer_has_experts(s->ck, id.layer));
    id.expert = (uint32_t)(next_random(s) % s->ck->cfg.n_experts);
    return id;
}

/* ---- reading ---- */

typedef struct place {
    slc_io_read reads[SLC_SLOT_PARTS];
    uint32_t n_pending;
} place;

_Static_assert(sizeof((slc_bench_io_result){0}.sizes) / sizeof(uint32_t) == SLC_SLOT_PARTS,
               "a size a read");

typedef struct bench {
    slc_checkpoint *ck;
    slc_io *io;
    slc_slab slab;
    place *places;   /* [slab.n_slots] */
    uint32_t *empty; /* [n_empty] places without reads */
    uint32_t n_empty;
    source from;
    slc_bench_io_result *out;
} bench;

static void start_expert(bench *b) {
    uint32_t slot = b->empty[--b->n_empty];
    expert_id id = next_expert(&b->from);
    slc_io_read *batch[SLC_SLOT_PARTS];
    slc_slot_layout layout;
    place *p = &b->places[slot];

    slc_slot_layout_of(b->ck, id.layer, id.expert, &layout);
    for (uint32_t i = 0; i < layout.n_reads; i++) {
        const slc_slot_read *r = &layout.read[i];

        p->reads[i] = (slc_io_read){.file = r->file,
                                    .off = r->off,
                                    .buf = slc_slab_slot(&b->slab, slot) + r->at,
                                    .len = (uint32_t)r->len,
                                    .need = (uint32_t)r->need,
                                    .user = p};
        batch[i] = &p->reads[i];
        b->out->sizes[i] = (uint32_t)r->len;
        b->out->bytes += r->len;
    }
    p->n_pending = b->out->n_sizes = layout.n_reads;
    b->out->experts++;
    b->out->reads += layout.n_reads;
    b->out->expert_bytes += slc_checkpoint_expert_bytes(b->ck, id.layer);
    slc_io_submit(b->io, batch, layout.n_reads);
}

/* Takes what is finished, waiting for at least one read; the first failure stays in err. */
static slc_status reap(bench *b, slc_err *err) {
    slc_io_read *done[REAP_MAX];
    uint32_t n = slc_io_reap(b->io, done, REAP_MAX, true);
    slc_status rc = SLC_OK;

    for (uint32_t i = 0; i < n; i++) {
        place *p = done[i]->user;

        if (done[i]->status && !rc) rc = slc_io_read_error(done[i], err);
        if (--p->n_pending == 0) b->empty[b->n_empty++] = (uint32_t)(p - b->places);
    }
    return rc;
}

static slc_status read_for(bench *b, uint32_t depth, double seconds, slc_err *err) {
    uint64_t start = slc_now_ns(), end = start + (uint64_t)(seconds * 1e9);
    slc_status rc = SLC_OK;

    do {
        while (b->n_empty && slc_io_outstanding(b->io) < depth) start_expert(b);
        rc = reap(b, err);
    } while (!rc && slc_now_ns() < end);
    while (!rc && slc_io_outstanding(b->io)) rc = reap(b, err);
    b->out->ns = slc_now_ns() - start;
    return rc;
}

/* ---- open, close ---- */

/* The misses of a trace, which must be of this checkpoint, in their order. */
static slc_status read_trace(source *s, const char *path, slc_err *err) {
    const slc_config *c = &s->ck->cfg;
    slc_trace t;
    slc_status rc = slc_trace_read(path, &t, err);

    if (rc) return rc;
    if (t.n_layers != c->n_layers || t.n_experts != c->n_experts)
        rc = slc_fail(
            err, SLC_E_INVALID,
            "%s: recorded from a model of %u layers with %u experts, but %s has %u with %u", path,
            t.n_layers, t.n_experts, s->ck->dir, c->n_layers, c->n_experts);
    else if (!(s->list = slc_calloc(t.n_uses + 1, sizeof(*s->list)))) /* never 0 bytes */
        rc = slc_fail(err, SLC_E_NOMEM, "%s: no memory for its experts", path);
    for (size_t f = 0; !rc && f < t.n_fetches; f++)
        for (uint32_t i = 0; i < t.fetches[f].n; i++) {
            size_t use = t.fetches[f].first + i;

            if (t.outcomes[use] == SLC_OUT_HIT) continue;
            s->list[s->n_list++] = (expert_id){t.fetches[f].layer, t.experts[use]};
        }
    if (!rc && !s->n_list)
        rc = slc_fail(err, SLC_E_INVALID, "%s: nothing was read while it was recorded", path);
    slc_trace_deinit(&t);
    return rc;
}

static slc_status bench_open(bench *b, const char *path, const slc_bench_io_options *opt,
                             const slc_log *log, slc_err *err) {
    slc_io_options io = {.depth = opt->depth, .log = log};
    slc_status rc;

    if (!opt->depth || opt->depth > MAX_DEPTH)
        return slc_fail(err, SLC_E_INVALID, "%u reads in flight, expected 1 to %u", opt->depth,
                        MAX_DEPTH);
    if ((rc = slc_io_kind_parse(opt->io, &io.kind, err))) return rc;
    if ((rc = slc_checkpoint_open(path, NULL, &b->ck, err))) return rc;
    b->from = (source){.ck = b->ck, .random = opt->seed};
    if (!slc_config_is_moe(&b->ck->cfg))
        return slc_fail(err, SLC_E_INVALID, "%s: a model without experts streams nothing", path);
    if (opt->trace && (rc = read_trace(&b->from, opt->trace, err))) return rc;
    b->out->direct = io.kind != SLC_IO_BUFFERED && slc_enable_direct_reads(b->ck, log);
    if ((rc = slc_io_create(&io, &b->io, err))) return rc;
    b->out->io = slc_io_name(b->io);
    /* one more than reads in flight: while the last read of each is awaited, another can start */
    b->n_empty = opt->depth + 1;
    rc = slc_slab_create(&b->slab, slc_store_slot_bytes(b->ck), b->n_empty, "", err);
    if (rc) return rc;
    b->places = slc_calloc(b->n_empty, sizeof(*b->places));
    b->empty = slc_calloc(b->n_empty, sizeof(*b->empty));
    if (!b->places || !b->empty)
        return slc_fail(err, SLC_E_NOMEM, "no memory for %u reads in flight", opt->depth);
    for (uint32_t i = 0; i < b->n_empty; i++) b->empty[i] = i;
    return SLC_OK;
}

static void bench_close(bench *b) {
    slc_io_destroy(b->io); /* waits for what is in flight: before its memory goes */
    slc_slab_destroy(&b->slab);
    free(b->places);
    free(b->empty);
    free(b->from.list);
    slc_checkpoint_close(b->ck);
}

slc_bench_io_options slc_bench_io_options_default(void) {
    return (slc_bench_io_options){.depth = 32, .seconds = 2, .log_level = SLC_LOG_INFO};
}

slc_status slc_bench_io(const char *path, const slc_bench_io_options *opt, slc_bench_io_result *out,
                        slc_err *err) {
    slc_log log = {opt->log, opt->log_user, (slc_log_level)opt->log_level};
    bench b = {.out = out};
    slc_status rc;

    *out = (slc_bench_io_result){0};
    rc = bench_open(&b, path, opt, &log, err);
    if (!rc) rc = read_for(&b, opt->depth, opt->seconds, err);
    bench_close(&b);
    return rc;
}

/* ---- the page cache ---- */

/* Bytes of a file that lie in the page cache. */
static slc_status resident_bytes(const slc_file *f, uint64_t *bytes, slc_err *err) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), step = page << 18; /* 1 GiB at a time */
    unsigned char *held = slc_calloc(step / page, 1);

    *bytes = 0;
    if (!held) return slc_fail(err, SLC_E_NOMEM, "%s: no memory to look at its pages", f->path);
    for (uint64_t at = 0; at < f->size_bytes; at += step) {
        uint64_t n = f->size_bytes - at < step ? f->size_bytes - at : step;
        void *map = mmap(NULL, n, PROT_READ, MAP_SHARED, f->fd, (off_t)at);
        int failed = map == MAP_FAILED || mincore(map, n, held);

        if (failed) slc_fail_errno(err, errno, "%s: cannot ask what the page cache holds", f->path);
        if (map != MAP_FAILED) munmap(map, n);
        if (failed) {
            free(held);
            return SLC_E_IO;
        }
        for (uint64_t i = 0; i < (n + page - 1) / page; i++) *bytes += (held[i] & 1) * page;
    }
    free(held);
    return SLC_OK;
}

slc_status slc_bench_drop_cache(const char *path, uint64_t *left, slc_err *err) {
    slc_checkpoint *ck;
    slc_status rc = slc_checkpoint_open(path, NULL, &ck, err);

    *left = 0;
    if (rc) return rc;
    sync(); /* dirty pages cannot be dropped: a checkpoint that was just written */
    for (uint32_t i = 0; i < ck->n_files && !rc; i++) {
        uint64_t bytes;
        int failed = posix_fadvise(ck->files[i].fd, 0, 0, POSIX_FADV_DONTNEED);

        if (failed)
            rc = slc_fail_errno(err, failed, "%s: cannot drop its cache", ck->files[i].path);
        else if (!(rc = resident_bytes(&ck->files[i], &bytes, err)))
            *left += bytes;
    }
    slc_checkpoint_close(ck);
    return rc;
}
