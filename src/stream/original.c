/* The original's two modes; see the header. Only packed weights are streamed: an expert is three
 * reads, one per projection.
 *
 *   arena     scales and biases of every expert, [layer][projection][part][expert]
 *   kept      seed: [layer][K] slots, the buffers of the previous token
 *   window    serial: one slot; seed: a slot per expert of a layer, for prompts; given back to the
 *             system after each use, as the original's buffers were */
#include "stream/original.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/fail.h"
#include "stream/slot_layout.h"

#define NONE UINT32_MAX

typedef struct fetch {
    uint32_t layer, n, n_started, n_taken, n_out; /* n_out: delivered and not released */
    const uint32_t *experts;
    uint8_t **slot;     /* [n_experts] by idx */
    slc_status *status; /* [n_experts] by idx */
    slc_err error;      /* serial: of the last expert */
} fetch;

struct slc_original {
    const slc_checkpoint *ckpt;
    slc_stream_mode mode;
    slc_io *io;
    slc_arena arena;
    uint8_t **scales;  /* [layer][projection][part]: of expert 0 */
    uint8_t *kept;     /* seed: [layer][K] */
    uint32_t *kept_id; /* [layer][K] expert in each slot; NONE */
    uint8_t *window;   /* [n_window] */
    uint32_t n_window, n_experts, k;
    uint64_t slot_bytes; /* weights of one expert, the largest layer's */
    slc_io_read *reads;  /* [n_experts][SLC_N_PROJ] by idx, or by kept slot while predicting */
    slc_io_read **batch; /* [n_experts * SLC_N_PROJ] */
    fetch fetch;
    slc_store_stats stats;
};

/* ---- sizes ---- */

static uint64_t weight_bytes(const slc_checkpoint *c, uint32_t layer) {
    uint64_t n = 0;

    for (int proj = 0; proj < SLC_N_PROJ; proj++)
        n += slc_align_up(slc_matrix_part_bytes(&c->layers[layer].expert[proj], SLC_PART_W),
                          SLC_SIMD_ALIGN);
    return n;
}

static void set_counts(slc_original *o, const slc_checkpoint *c, slc_stream_mode mode) {
    o->ckpt = c;
    o->mode = mode;
    o->n_experts = c->cfg.n_experts;
    o->k = c->cfg.n_experts_per_tok;
    o->n_window = mode == SLC_MODE_SEED ? o->n_experts : 1;
    for (uint32_t l = 0; l < c->cfg.n_layers; l++)
        if (slc_layer_has_experts(c, l) && weight_bytes(c, l) > o->slot_bytes)
            o->slot_bytes = weight_bytes(c, l);
}

static size_t scale_index(uint32_t layer, int proj, int part) {
    return ((size_t)layer * SLC_N_PROJ + (size_t)proj) * SLC_N_PARTS + (size_t)part;
}

static void take_arrays(slc_original *o, slc_arena *a) {
    const slc_checkpoint *c = o->ckpt;
    size_t n_kept = o->mode == SLC_MODE_SEED ? (size_t)c->cfg.n_layers * o->k : 0;

    o->scales = slc_arena_take(a, scale_index(c->cfg.n_layers, 0, 0), sizeof(*o->scales));
    for (uint32_t l = 0; l < c->cfg.n_layers; l++)
        for (int proj = 0; slc_layer_has_experts(c, l) && proj < SLC_N_PROJ; proj++)
            for (int part = SLC_PART_SCALES; part < SLC_N_PARTS; part++) {
                uint8_t *p = slc_arena_take(
                    a, o->n_experts, slc_matrix_part_bytes(&c->layers[l].expert[proj], part));
                if (o->scales) o->scales[scale_index(l, proj, part)] = p;
            }
    o->kept = slc_arena_take(a, n_kept, o->slot_bytes);
    o->kept_id = slc_arena_take(a, n_kept, sizeof(uint32_t));
    o->reads = slc_arena_take(a, (size_t)o->n_experts * SLC_N_PROJ, sizeof(*o->reads));
    o->batch = slc_arena_take(a, (size_t)o->n_experts * SLC_N_PROJ, sizeof(*o->batch));
    o->fetch.slot = slc_arena_take(a, o->n_experts, sizeof(*o->fetch.slot));
    o->fetch.status = slc_arena_take(a, o->n_experts, sizeof(*o->fetch.status));
}

uint64_t slc_original_bytes(const slc_checkpoint *c, slc_stream_mode mode) {
    slc_original o = {0};
    slc_arena measure = {0};

    set_counts(&o, c, mode);
    take_arrays(&o, &measure);
    return measure.used + o.n_window * o.slot_bytes;
}

/* ---- reading ---- */

/* The three reads of an expert into a slot; appends them to batch. */
static uint32_t fill_reads(slc_original *o, uint32_t layer, uint32_t expert, uint8_t *slot,
                           slc_io_read *reads, void *user, slc_io_read **batch) {
    for (int proj = 0; proj < SLC_N_PROJ; proj++) {
        slc_extent e = slc_checkpoint_expert(o->ckpt, layer, expert, proj, SLC_PART_W);

        reads[proj] = (slc_io_read){.file = &o->ckpt->files[e.file],
                                    .off = e.off,
                                    .buf = slot,
                                    .len = (uint32_t)e.bytes,
                                    .need = (uint32_t)e.bytes,
                                    .user = user};
        batch[proj] = &reads[proj];
        slot += slc_align_up(e.bytes, SLC_SIMD_ALIGN);
        o->stats.reads++;
        o->stats.bytes_read += e.bytes;
    }
    return SLC_N_PROJ;
}

/* Waits for everything in flight; a failed read is noted in the status it points to. */
static void wait_all(slc_original *o) {
    slc_io_read *done[64];
    uint64_t start = slc_now_ns();
    uint32_t n;

    while ((n = slc_io_reap(o->io, done, 64, true)) > 0)
        for (uint32_t i = 0; i < n; i++) {
            slc_status *status = done[i]->user;

            if (!done[i]->status) continue;
            o->stats.failed_reads++;
            *status = done[i]->status;
        }
    o->stats.stall_ns += slc_now_ns() - start;
}

/* Reads a batch, which asks for so many bytes, and waits for it. */
static void read_together(slc_original *o, uint32_t n, uint64_t bytes) {
    uint64_t start = slc_now_ns();

    if (!n) return;
    slc_io_submit(o->io, o->batch, n);
    wait_all(o);
    o->stats.timed_bytes += bytes;
    o->stats.timed_ns += slc_now_ns() - start;
}

/* One blocking read after another. */
static slc_status read_serially(slc_original *o, uint32_t layer, uint32_t expert, uint8_t *slot) {
    slc_io_read reads[SLC_N_PROJ], *batch[SLC_N_PROJ];
    uint64_t start = slc_now_ns(), before = o->stats.bytes_read, ns;
    slc_err *err = &o->fetch.error;
    slc_status rc = SLC_OK;

    *err = (slc_err){0};
    fill_reads(o, layer, expert, slot, reads, NULL, batch);
    for (int i = 0; i < SLC_N_PROJ && !rc; i++)
        rc = slc_file_read(reads[i].file, reads[i].off, reads[i].buf, reads[i].len, err);
    ns = slc_now_ns() - start;
    o->stats.stall_ns += ns;
    o->stats.timed_ns += ns;
    o->stats.timed_bytes += o->stats.bytes_read - before;
    o->stats.failed_reads += rc != SLC_OK;
    return rc;
}

/* ---- the previous token's buffers ---- */

static uint8_t *kept_slot(const slc_original *o, uint32_t layer, uint32_t i) {
    return o->kept + ((size_t)layer * o->k + i) * o->slot_bytes;
}

void slc_original_predict(slc_original *o, uint32_t layer) {
    uint32_t *id = o->kept_id + (size_t)layer * o->k, n = 0;

    if (o->mode != SLC_MODE_SEED) return;
    for (uint32_t i = 0; i < o->k; i++) {
        o->fetch.status[i] = SLC_OK;
        if (id[i] != NONE)
            n += fill_reads(o, layer, id[i], kept_slot(o, layer, i), o->reads + i * SLC_N_PROJ,
                            &o->fetch.status[i], o->batch + n);
    }
    if (n) slc_io_submit(o->io, o->batch, n);
}

static bool contains(const uint32_t *ids, uint32_t n, uint32_t id) {
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

/* Hits use the buffer they are in; misses take buffers that hold no needed expert. */
static void start_token(slc_original *o) {
    fetch *f = &o->fetch;
    uint32_t *id = o->kept_id + (size_t)f->layer * o->k, n = 0, free_slot = 0;
    uint64_t before = o->stats.bytes_read;

    wait_all(o); /* the prediction */
    for (uint32_t i = 0; i < o->k; i++)
        if (f->status[i]) id[i] = NONE; /* its read failed: not there */
    for (uint32_t i = 0; i < f->n; i++) {
        uint32_t at = 0;

        f->status[i] = SLC_OK;
        while (at < o->k && id[at] != f->experts[i]) at++;
        if (at < o->k) {
            o->stats.hits++;
        } else {
            while (id[free_slot] != NONE && contains(f->experts, f->n, id[free_slot])) free_slot++;
            at = free_slot++;
            id[at] = f->experts[i];
            o->stats.misses++;
            n += fill_reads(o, f->layer, f->experts[i], kept_slot(o, f->layer, at),
                            o->reads + i * SLC_N_PROJ, &f->status[i], o->batch + n);
        }
        f->slot[i] = kept_slot(o, f->layer, at);
    }
    read_together(o, n, o->stats.bytes_read - before);
    for (uint32_t i = 0; i < f->n; i++)
        for (uint32_t at = 0; f->status[i] && at < o->k; at++)
            if (id[at] == f->experts[i]) id[at] = NONE;
    f->n_started = f->n;
}

/* As many of the remaining experts as the window holds. */
static void start_window(slc_original *o) {
    fetch *f = &o->fetch;
    uint64_t before = o->stats.bytes_read;
    uint32_t n = 0;

    for (uint32_t w = 0; w < o->n_window && f->n_started < f->n; w++) {
        uint32_t i = f->n_started++;

        f->slot[i] = o->window + w * o->slot_bytes;
        f->status[i] = SLC_OK;
        o->stats.misses++;
        if (o->mode == SLC_MODE_SERIAL)
            f->status[i] = read_serially(o, f->layer, f->experts[i], f->slot[i]);
        else
            n += fill_reads(o, f->layer, f->experts[i], f->slot[i], o->reads + i * SLC_N_PROJ,
                            &f->status[i], o->batch + n);
    }
    read_together(o, n, o->stats.bytes_read - before);
}

/* ---- the fetch ---- */

void slc_original_begin(slc_original *o, uint32_t layer, const uint32_t *experts, uint32_t n) {
    fetch *f = &o->fetch;

    f->layer = layer;
    f->n = n;
    f->experts = experts;
    f->n_started = f->n_taken = f->n_out = 0;
    if (o->mode == SLC_MODE_SEED && n <= o->k) {
        start_token(o);
    } else if (o->mode == SLC_MODE_SEED) {
        wait_all(o);
    }
}

static slc_fetched deliver(const slc_original *o, uint32_t idx) {
    const fetch *f = &o->fetch;
    slc_fetched got = {.idx = idx, .status = f->status[idx]};
    const uint8_t *w = f->slot[idx];

    for (int proj = 0; proj < SLC_N_PROJ; proj++) {
        const slc_matrix_type *t = &o->ckpt->layers[f->layer].expert[proj];

        got.view.part[proj][SLC_PART_W] = w;
        w += slc_align_up(slc_matrix_part_bytes(t, SLC_PART_W), SLC_SIMD_ALIGN);
        for (int part = SLC_PART_SCALES; part < SLC_N_PARTS; part++) {
            uint64_t bytes = slc_matrix_part_bytes(t, part);

            if (bytes)
                got.view.part[proj][part] =
                    o->scales[scale_index(f->layer, proj, part)] + f->experts[idx] * bytes;
        }
    }
    return got;
}

uint32_t slc_original_next(slc_original *o, slc_fetched *ready, uint32_t max) {
    fetch *f = &o->fetch;
    uint32_t n = 0;

    if (f->n_taken == f->n_started && f->n_out == 0) start_window(o);
    while (n < max && f->n_taken < f->n_started) ready[n++] = deliver(o, f->n_taken++);
    f->n_out += n;
    return n;
}

void slc_original_release(slc_original *o, const slc_fetched *ready, uint32_t n) {
    (void)ready;
    o->fetch.n_out -= n;
}

/* An expert that was not read has its reads still, or, read serially, the last error. */
slc_status slc_original_error(const slc_original *o, uint32_t idx, slc_err *err) {
    const slc_io_read *r = &o->reads[(size_t)idx * SLC_N_PROJ];
    const fetch *f = &o->fetch;

    if (!f->status[idx] || !err || err->code) return f->status[idx];
    if (o->mode == SLC_MODE_SERIAL) {
        *err = f->error;
    } else {
        while (!r->status) r++;
        slc_io_read_error(r, err);
    }
    return slc_fail_context(err, "layer %u, expert %u", f->layer, f->experts[idx]);
}

void slc_original_end(slc_original *o) {
    if (o->mode == SLC_MODE_SEED && o->fetch.n > o->k)
        madvise(o->window, o->n_window * o->slot_bytes, MADV_DONTNEED);
}

/* ---- create, destroy ---- */

/* Every expert's scales and biases, neighbours in the file as one read. */
static slc_status read_scales(slc_original *o, uint32_t layer, int proj, int part, slc_err *err) {
    uint64_t bytes = slc_matrix_part_bytes(&o->ckpt->layers[layer].expert[proj], part);
    uint8_t *to = o->scales[scale_index(layer, proj, part)];
    slc_status rc;

    for (uint32_t e = 0, n; bytes && e < o->n_experts; e += n) {
        slc_extent at = slc_checkpoint_expert(o->ckpt, layer, e, proj, part);

        for (n = 1; e + n < o->n_experts; n++) {
            slc_extent next = slc_checkpoint_expert(o->ckpt, layer, e + n, proj, part);
            if (next.file != at.file || next.off != at.off + n * bytes) break;
        }
        rc = slc_file_read(&o->ckpt->files[at.file], at.off, to + e * bytes, n * bytes, err);
        if (rc) return rc;
    }
    return SLC_OK;
}

static slc_status init(slc_original *o, slc_err *err) {
    size_t n_kept = o->mode == SLC_MODE_SEED ? (size_t)o->ckpt->cfg.n_layers * o->k : 0;
    slc_status rc;
    void *window;

    take_arrays(o, &o->arena); /* counts */
    if ((rc = slc_arena_alloc(&o->arena, true, err))) return rc;
    take_arrays(o, &o->arena); /* hands out */
    for (size_t i = 0; i < n_kept; i++) o->kept_id[i] = NONE;
    if ((rc = slc_map_alloc(o->n_window * o->slot_bytes, true, &window, err))) return rc;
    o->window = window;
    for (uint32_t l = 0; l < o->ckpt->cfg.n_layers; l++)
        for (int proj = 0; slc_layer_has_experts(o->ckpt, l) && proj < SLC_N_PROJ; proj++)
            for (int part = SLC_PART_SCALES; part < SLC_N_PARTS; part++)
                if ((rc = read_scales(o, l, proj, part, err))) return rc;
    return SLC_OK;
}

slc_status slc_original_create(const slc_checkpoint *c, slc_stream_mode mode, slc_io *io,
                               slc_original **out, slc_err *err) {
    slc_original *o = slc_calloc(1, sizeof(*o));
    slc_status rc;

    *out = NULL;
    if (!o) return slc_fail(err, SLC_E_NOMEM, "no memory");
    set_counts(o, c, mode);
    o->io = mode == SLC_MODE_SEED ? io : NULL;
    if ((rc = init(o, err))) {
        slc_original_destroy(o);
        return rc;
    }
    *out = o;
    return SLC_OK;
}

void slc_original_destroy(slc_original *o) {
    if (!o) return;
    if (o->io) wait_all(o);
    slc_map_free(o->window, o->n_window * o->slot_bytes);
    slc_arena_free(&o->arena);
    free(o);
}

slc_store_stats slc_original_get_stats(const slc_original *o) {
    return o->stats;
}
