/* The reader over the trained models of the repository: what is in them is known exactly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "format/checkpoint.h"

static slc_checkpoint *open_demo(const char *name) {
    char path[512];
    slc_checkpoint *c = NULL;
    slc_err err = {0};

    snprintf(path, sizeof(path), "%s/models/%s", SLC_SOURCE_DIR, name);
    if (slc_checkpoint_open(path, NULL, &c, &err)) fail_msg("%s", err.msg);
    return c;
}

static uint64_t weight_bytes(const slc_weight *w) {
    uint64_t sum = 0;

    for (int p = 0; p < SLC_N_PARTS; p++) {
        assert_int_equal(w->part[p].bytes, slc_matrix_part_bytes(&w->type, p));
        sum += w->part[p].bytes;
    }
    return sum;
}

/* Bytes of all weights, each counted once. */
static uint64_t total_bytes(const slc_checkpoint *c) {
    uint64_t sum = 0;

    for (int w = 0; w < SLC_W_N_MODEL; w++)
        if (w != SLC_W_LM_HEAD || !c->tied) sum += weight_bytes(&c->w[w]);
    for (uint32_t i = 0; i < c->cfg.n_layers; i++) {
        for (int w = 0; w < SLC_W_N_LAYER; w++)
            if (c->layers[i].w[w].type.rows) sum += weight_bytes(&c->layers[i].w[w]);
        sum += c->cfg.n_experts * slc_checkpoint_expert_bytes(c, i);
    }
    return sum;
}

static void reads_demo_moe(void **state) {
    slc_checkpoint *c = open_demo("demo-moe");
    const slc_config *g = &c->cfg;
    const slc_matrix_type *t;

    assert_string_equal(g->model_type, "qwen3_5_moe");
    assert_int_equal(c->n_files, 4);
    assert_int_equal(g->n_layers, 12);
    assert_int_equal(g->n_experts, 128);
    assert_int_equal(g->n_experts_per_tok, 8);
    assert_int_equal(g->rope_dims, 16);
    assert_int_equal(g->n_stop_ids, 2);
    assert_int_equal(g->stop_ids[0], 2);
    assert_int_equal(g->stop_ids[1], 0);
    assert_int_equal(g->top_k, 20);
    assert_int_equal(g->layer_kind[3], SLC_LAYER_FULL);
    assert_int_equal(g->layer_kind[4], SLC_LAYER_GDN);
    assert_true(c->tied);
    assert_false(c->norms_are_raw);
    assert_int_equal(total_bytes(c), 47290032);
    assert_int_equal(c->ignored_bytes, 0);
    assert_null(c->pack);

    t = &c->layers[5].w[SLC_W_ROUTER].type;
    assert_int_equal(t->bits, 8);
    assert_int_equal(t->group, 64);
    t = &c->layers[5].expert[SLC_EXPERT_DOWN];
    assert_int_equal(t->bits, 4);
    assert_int_equal(t->rows, 256);
    assert_int_equal(t->cols, 64);
    /* layer 5's tensors lie in the second shard, behind an 8 + 19856 byte front */
    assert_int_equal(slc_checkpoint_expert(c, 5, 3, SLC_EXPERT_DOWN, SLC_PART_W).file, 1);
    assert_int_equal(slc_checkpoint_expert(c, 5, 3, SLC_EXPERT_DOWN, SLC_PART_W).off,
                     8 + 19856 + 6804064 + 3 * 8192);
    slc_checkpoint_close(c);
}

static void reads_demo_draft(void **state) {
    slc_checkpoint *c = open_demo("demo-draft");

    assert_string_equal(c->cfg.model_type, "qwen3_5");
    assert_int_equal(c->n_files, 1);
    assert_int_equal(c->cfg.n_layers, 4);
    assert_int_equal(c->cfg.n_experts, 0);
    assert_int_equal(total_bytes(c), 1604040);
    assert_int_equal(slc_checkpoint_expert_bytes(c, 0), 0);
    assert_int_equal(c->layers[0].w[SLC_W_A_LOG].type.dtype, SLC_DTYPE_F32);
    assert_int_equal(c->layers[0].w[SLC_W_DT_BIAS].type.dtype, SLC_DTYPE_BF16);
    slc_checkpoint_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_demo_moe),
        cmocka_unit_test(reads_demo_draft),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
