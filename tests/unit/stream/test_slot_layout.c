/* Parts that are neighbours in the file become one read; what is apart stays apart; every byte of
 * every part lands where the layout says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "stream/slot_layout.h"
#include "stream/store.h"
#include "support/fake_model.h"
#include "support/faults.h"

enum { ALIGN = 512, FILE_BYTES = 1 << 20 };

/* One expert whose extents the cases set; the file is never read. */
typedef struct world {
    slc_file files[2];
    slc_layer_map layer;
    fake_model model;
    slc_extent extents[SLC_SLOT_PARTS];
} world;

static void start(world *w, uint32_t align) {
    memset(w, 0, sizeof(*w));
    for (int i = 0; i < 2; i++) w->files[i] = (slc_file){.size_bytes = FILE_BYTES, .align = align};
    w->layer.expert[SLC_EXPERT_GATE].rows = 1;
    w->model.ckpt.cfg.n_layers = w->model.ckpt.cfg.n_experts = 1;
    w->model.ckpt.files = w->files;
    w->model.ckpt.n_files = 2;
    w->model.ckpt.layers = &w->layer;
    w->model.extents = w->extents;
}

/* The invariants of any layout. */
static void check(const world *w, const slc_slot_layout *l) {
    uint64_t end = 0;

    for (uint32_t i = 0; i < l->n_reads; i++) {
        const slc_slot_read *r = &l->read[i];
        assert_int_equal(r->off % r->file->align, 0);
        assert_int_equal(r->len % r->file->align, 0);
        assert_int_equal(r->at % r->file->align, 0);
        assert_int_equal(r->at % SLC_SIMD_ALIGN, 0);
        assert_true(r->need <= r->len && r->len - r->need < r->file->align && r->at >= end);
        end = r->at + r->len;
    }
    assert_int_equal(end, l->bytes);
    for (int i = 0; i < SLC_SLOT_PARTS; i++) {
        const slc_extent *e = &w->extents[i];
        uint32_t n_covering = 0;
        assert_int_equal(l->part_at[i] == SLC_NO_PART, e->bytes == 0);
        for (uint32_t k = 0; e->bytes && k < l->n_reads; k++) {
            const slc_slot_read *r = &l->read[k];
            if (r->file != &w->files[e->file] || l->part_at[i] < r->at) continue;
            if (l->part_at[i] + e->bytes > r->at + r->need) continue;
            assert_int_equal(l->part_at[i] - r->at, e->off - r->off);
            n_covering++;
        }
        assert_int_equal(n_covering, e->bytes > 0);
    }
}

static slc_slot_layout lay_out(const world *w) {
    slc_slot_layout l;

    slc_slot_layout_of(&w->model.ckpt, 0, 0, &l);
    check(w, &l);
    return l;
}

static void one_extent_is_one_read(void **state) {
    slc_slot_layout l;
    world w;

    start(&w, ALIGN);
    for (uint64_t i = 0, off = 4096; i < SLC_SLOT_PARTS; off += w.extents[i++].bytes) {
        w.extents[i] = (slc_extent){.off = off, .bytes = 1000 + i};
    }
    l = lay_out(&w);
    assert_int_equal(l.n_reads, 1);
    assert_int_equal(l.read[0].off, 4096);
    assert_int_equal(l.read[0].need, 9 * 1000 + 36);
    assert_int_equal(l.read[0].len, 18 * ALIGN);
}

static void order_in_the_file_does_not_matter(void **state) {
    slc_slot_layout l;
    world w;

    start(&w, ALIGN);
    for (uint64_t i = 0; i < SLC_SLOT_PARTS; i++) {
        w.extents[i] = (slc_extent){.off = 8000 - 700 * i, .bytes = 700};
    }
    l = lay_out(&w);
    assert_int_equal(l.n_reads, 1);
    assert_true(l.part_at[8] < l.part_at[0]);
}

static void a_shared_block_joins_a_gap_does_not(void **state) {
    slc_slot_layout l;
    world w;

    start(&w, ALIGN);
    w.extents[0] = (slc_extent){.off = 10, .bytes = 100};           /* block 0 */
    w.extents[1] = (slc_extent){.off = 300, .bytes = 300};          /* blocks 0 and 1: one read */
    w.extents[2] = (slc_extent){.off = 2 * ALIGN + 5, .bytes = 10}; /* block 2 follows block 1 */
    w.extents[3] = (slc_extent){.off = 4 * ALIGN, .bytes = 1};      /* block 3 lies between */
    w.extents[4] = (slc_extent){.file = 1, .off = 5 * ALIGN, .bytes = 1}; /* another file */
    l = lay_out(&w);
    assert_int_equal(l.n_reads, 3);
    assert_int_equal(l.read[0].len, 3 * ALIGN);
    start(&w, 1); /* not aligned: only what touches */
    w.extents[0] = (slc_extent){.off = 10, .bytes = 100};
    w.extents[1] = (slc_extent){.off = 110, .bytes = 300};
    w.extents[2] = (slc_extent){.off = 411, .bytes = 10};
    l = lay_out(&w);
    assert_int_equal(l.n_reads, 2);
}

static void any_places_are_laid_out(void **state) {
    uint32_t random = 77;
    world w;

    for (int round = 0; round < 3000; round++) {
        start(&w, round % 3 ? ALIGN : 1);
        for (int i = 0; i < SLC_SLOT_PARTS; i++) {
            if (faults_random(&random) % 5 == 0) continue;
            w.extents[i].file = faults_random(&random) % 2;
            w.extents[i].off = faults_random(&random) % 20000;
            w.extents[i].bytes = 1 + faults_random(&random) % 3000;
        }
        lay_out(&w);
    }
}

/* A whole store over a file that keeps each expert together. */
static void a_store_reads_such_experts_at_once(void **state) {
    fake_model_options opt = {
        .n_layers = 3, .n_experts = 5, .n_files = 1, .part_bytes = 2000, .direct = true, .seed = 9};
    fake_model *m = fake_model_create(&opt);
    slc_io_options io_opt = {.kind = SLC_IO_AUTO};
    slc_store_options so = {.n_slots = 4};
    const uint32_t ids[] = {4, 0, 2};
    slc_fetched ready;
    slc_store *s;
    slc_io *io;
    uint64_t off = 0;

    /* The file's bytes follow from their place, so its extents may be put anywhere in it. */
    for (uint32_t i = 0; i < 3 * 5 * SLC_SLOT_PARTS; i++) {
        if (i % SLC_SLOT_PARTS == 0) off = i / SLC_SLOT_PARTS * 8192;
        m->extents[i].bytes = 1 + m->extents[i].bytes % 900;
        m->extents[i].off = off;
        off += m->extents[i].bytes;
    }
    assert_true(off <= m->ckpt.files[0].size_bytes);
    assert_int_equal(slc_io_create(&io_opt, &io, NULL), SLC_OK);
    so.io = io;
    assert_int_equal(slc_store_create(&m->ckpt, &so, &s, NULL), SLC_OK);
    for (uint32_t layer = 0; layer < 3; layer++) {
        slc_fetch_begin(s, layer, ids, NULL, 3, true);
        while (slc_fetch_next(s, &ready, 1)) {
            assert_true(fake_model_matches(m, layer, ids[ready.idx], &ready.view));
            slc_fetch_release(s, &ready, 1);
        }
        slc_fetch_end(s);
        slc_store_check(s);
    }
    assert_int_equal(slc_store_get_stats(s).reads, 9);
    slc_store_destroy(s);
    slc_io_destroy(io);
    fake_model_destroy(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_extent_is_one_read),
        cmocka_unit_test(order_in_the_file_does_not_matter),
        cmocka_unit_test(a_shared_block_joins_a_gap_does_not),
        cmocka_unit_test(any_places_are_laid_out),
        cmocka_unit_test(a_store_reads_such_experts_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
