/* State of sequences: the same after any way of feeding the same tokens, empty after reset, and
 * never shared. Looks inside (engine/model_internal.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/model_internal.h"
#include "support/run.h"

#define MODEL     "tests/golden/moe-q4g64"
#define N_LENGTHS 200u

static int32_t tokens[N_LENGTHS + 1];

static slc_model *open_model(uint32_t chunk, uint32_t n_seqs) {
    slc_model_options o = slc_model_options_default();

    o.ctx_size = N_LENGTHS + 1;
    o.prefill_chunk = chunk;
    o.n_seqs = n_seqs;
    o.memory_bytes = 256ull << 20;
    return run_open(MODEL, &o);
}

static void feed(slc_model *m, slc_seq *s, const int32_t *t, uint32_t n) {
    slc_step_item item = {.seq = s, .tokens = t, .n_tokens = n};
    slc_err err = {0};

    assert_int_equal(slc_step(m, &item, 1, NULL, NULL, &err), SLC_OK);
    assert_int_equal(item.err.code, SLC_OK);
}

static slc_seq *new_seq(slc_model *m) {
    slc_err err = {0};
    slc_seq *s;

    assert_int_equal(slc_seq_create(m, &s, &err), SLC_OK);
    return s;
}

/* Convolution rows, recurrent matrices and the used part of the KV cache, bit for bit. */
static void assert_same_state(const slc_seq *a, const slc_seq *b) {
    const slc_state_layout *l = &a->model->state_layout;
    const slc_config *c = slc_model_config(a->model);
    size_t head_bytes = (size_t)l->ctx * c->head_dim * 2, used = (size_t)c->head_dim * 2;

    assert_int_equal(a->state.len, b->state.len);
    assert_memory_equal(a->state.base + l->conv_off, b->state.base + l->conv_off,
                        l->total_bytes - l->conv_off);
    for (uint32_t kv = 0; kv < 2 * a->model->net.n_full; kv++)
        for (uint32_t h = 0; h < c->n_kv_heads; h++) {
            size_t at = kv * l->kv_bytes + h * head_bytes;

            assert_memory_equal(a->state.base + at, b->state.base + at, used * a->state.len);
        }
}

static void every_length_ends_in_the_state_of_single_steps(void **state) {
    slc_model *chunked = open_model(64, 1), *single = open_model(1, 1);
    slc_seq *a = new_seq(chunked), *b = new_seq(single);

    (void)state;
    for (uint32_t n = 1; n <= N_LENGTHS; n++) {
        slc_seq_reset(a);
        feed(chunked, a, tokens, n);
        feed(single, b, tokens + n - 1, 1);
        assert_same_state(a, b);
    }
    slc_model_close(chunked);
    slc_model_close(single);
}

static void reset_is_like_new(void **state) {
    slc_model *m = open_model(0, 2);
    slc_seq *used = new_seq(m), *fresh = new_seq(m);

    (void)state;
    feed(m, used, tokens, 77);
    slc_seq_reset(used);
    assert_int_equal(slc_seq_len(used), 0);
    feed(m, used, tokens + 20, 31);
    feed(m, fresh, tokens + 20, 31);
    assert_same_state(used, fresh);

    slc_seq_destroy(used); /* the next owner of the memory starts empty, too */
    used = new_seq(m);
    assert_int_equal(slc_seq_len(used), 0);
    feed(m, used, tokens + 20, 31);
    assert_same_state(used, fresh);
    slc_model_close(m);
}

static void sequences_are_counted(void **state) {
    slc_model *m = open_model(0, 2);
    slc_seq *a = new_seq(m), *b = new_seq(m), *c;
    slc_err err = {0};

    (void)state;
    assert_ptr_not_equal(a, b);
    assert_int_equal(slc_seq_create(m, &c, &err), SLC_E_BUSY);
    slc_seq_destroy(a);
    assert_ptr_equal(new_seq(m), a);
    slc_model_close(m);
}

static void bad_steps_are_refused_untouched(void **state) {
    slc_model *m = open_model(0, 2);
    slc_seq *s = new_seq(m);
    int32_t bad[] = {1, -1}, big[] = {1, 1 << 30};
    slc_step_item items[2] = {{.seq = s, .tokens = tokens, .n_tokens = N_LENGTHS + 2}};
    slc_err err = {0};

    (void)state;
    assert_int_equal(slc_step(m, items, 1, NULL, NULL, &err), SLC_OK);
    assert_int_equal(items[0].err.code, SLC_E_INVALID);
    assert_non_null(strstr(items[0].err.msg, "context of 201"));
    items[0].n_tokens = 0;
    assert_int_equal(slc_step(m, items, 1, NULL, NULL, &err), SLC_OK);
    assert_int_equal(items[0].err.code, SLC_E_INVALID);
    items[0].n_tokens = 2;
    items[0].tokens = bad;
    assert_int_equal(slc_step(m, items, 1, NULL, NULL, &err), SLC_OK);
    assert_non_null(strstr(items[0].err.msg, "-1"));
    items[0].tokens = big;
    assert_int_equal(slc_step(m, items, 1, NULL, NULL, &err), SLC_OK);
    assert_int_equal(items[0].err.code, SLC_E_INVALID);
    assert_int_equal(slc_seq_len(s), 0);

    /* The same sequence twice is the caller's mistake: nothing runs. */
    items[0] = items[1] = (slc_step_item){.seq = s, .tokens = tokens, .n_tokens = 1};
    assert_int_equal(slc_step(m, items, 2, NULL, NULL, &err), SLC_E_INVALID);
    assert_int_equal(slc_seq_len(s), 0);
    feed(m, s, tokens, 5); /* and it is still usable */
    assert_int_equal(slc_seq_len(s), 5);
    slc_model_close(m);
}

static void cancel_stops_between_passes(void **state) {
    slc_model *m = open_model(8, 1);
    slc_seq *s = new_seq(m);
    slc_step_item item = {.seq = s, .tokens = tokens, .n_tokens = 100};
    slc_err err = {0};

    (void)state;
    slc_model_cancel(m);
    assert_int_equal(slc_step(m, &item, 1, NULL, NULL, &err), SLC_E_CANCELLED);
    assert_int_equal(slc_seq_len(s), 0);
    feed(m, s, tokens, 100); /* cleared */
    slc_model_close(m);
}

/* A cold cache misses everything: that is when looking ahead matters, in the very first pass. Once
 * nothing is missing it stops. */
static void the_first_pass_looks_ahead(void **state) {
    slc_model *m = open_model(0, 1);
    slc_seq *s = new_seq(m);
    uint64_t cold, warm;

    (void)state;
    feed(m, s, tokens, 40);
    cold = slc_model_get_stats(m).predict[SLC_PREDICT_NEXT].asked;
    assert_true(cold > 0);
    for (uint32_t i = 40; i < 80; i++) feed(m, s, tokens + i, 1); /* all 24 experts are there now */
    warm = slc_model_get_stats(m).predict[SLC_PREDICT_NEXT].asked;
    feed(m, s, tokens + 80, 1);
    assert_int_equal(slc_model_get_stats(m).predict[SLC_PREDICT_NEXT].asked, warm);
    slc_model_close(m);
}

/* The stages of a phase are all of its time, and every kind of layer has its own. */
static void stages_add_up(void **state) {
    slc_model *m = open_model(0, 1);
    slc_seq *s = new_seq(m);
    slc_stage_stats stages[SLC_MAX_STAGES];
    uint64_t prefill_ns = 0, decode_ns = 0;
    uint32_t n, n_linear = 0, n_full = 0, n_experts = 0;
    slc_stats st;

    (void)state;
    assert_int_equal(slc_model_get_stages(m, stages), 0);
    feed(m, s, tokens, 64);
    for (uint32_t i = 64; i < 128; i++) feed(m, s, tokens + i, 1);
    st = slc_model_get_stats(m);
    n = slc_model_get_stages(m, stages);
    for (uint32_t i = 0; i < n; i++) {
        prefill_ns += stages[i].prefill_ns;
        decode_ns += stages[i].decode_ns;
        n_linear += !strcmp(stages[i].block, "linear attention");
        n_full += !strcmp(stages[i].block, "full attention");
        n_experts += !strcmp(stages[i].block, "experts");
    }
    assert_true(n_linear == 4 && n_full == 4 && n_experts >= 5);
    assert_true(prefill_ns > st.prefill_ns / 2 && prefill_ns <= st.prefill_ns);
    assert_true(decode_ns > st.decode_ns / 2 && decode_ns <= st.decode_ns);
    slc_model_close(m);
}

static int fill_tokens(void **state) {
    uint32_t x = 1;

    (void)state;
    for (uint32_t i = 0; i <= N_LENGTHS; i++) {
        x = x * 1664525u + 1013904223u;
        tokens[i] = (int32_t)((x >> 8) % 256);
    }
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_ends_in_the_state_of_single_steps),
        cmocka_unit_test(reset_is_like_new),
        cmocka_unit_test(sequences_are_counted),
        cmocka_unit_test(bad_steps_are_refused_untouched),
        cmocka_unit_test(cancel_stops_between_passes),
        cmocka_unit_test(the_first_pass_looks_ahead),
        cmocka_unit_test(stages_add_up),
    };

    return cmocka_run_group_tests(tests, fill_tokens, NULL);
}
