/* Traces: what is written is read back; what does not follow the format is refused by its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stream/trace.h"
#include "support/temp.h"

static const slc_checkpoint ckpt = {.cfg = {.n_layers = 3, .n_experts = 9, .n_experts_per_tok = 2}};

static void what_is_written_is_read(void **state) {
    char *dir = temp_dir(), *path = temp_path(dir, "trace");
    const uint32_t a[] = {7, 2}, b[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    const float scores[] = {0.75f, 0.25f};
    const slc_outcome out_a[] = {SLC_OUT_MISS, SLC_OUT_LATE}, out_b[9] = {SLC_OUT_HIT};
    slc_fetch_event e = {.pass = 4, .n_tokens = 1, .layer = 2, .n = 2, .decode = true};
    slc_trace_writer *w;
    slc_trace t;

    assert_int_equal(slc_trace_writer_open(path, &ckpt, &w, NULL), SLC_OK);
    e.experts = a;
    e.scores = scores;
    e.outcomes = out_a;
    e.expert_bytes = 12345;
    slc_trace_write(w, &e);
    e = (slc_fetch_event){.pass = 5, .n_tokens = 64, .layer = 0, .n = 9, .experts = b};
    e.outcomes = out_b;
    slc_trace_write(w, &e);
    assert_int_equal(slc_trace_writer_close(w, NULL), SLC_OK);

    assert_int_equal(slc_trace_read(path, &t, NULL), SLC_OK);
    assert_int_equal(t.n_layers, 3);
    assert_int_equal(t.n_experts, 9);
    assert_int_equal(t.n_active, 2);
    assert_int_equal(t.n_fetches, 2);
    assert_int_equal(t.n_uses, 11);
    assert_int_equal(t.fetches[0].pass, 4);
    assert_int_equal(t.fetches[0].expert_bytes, 12345);
    assert_int_equal(t.fetches[0].layer, 2);
    assert_true(t.fetches[0].decode);
    assert_int_equal(t.fetches[1].n_tokens, 64);
    assert_int_equal(t.fetches[1].first, 2);
    assert_int_equal(t.fetches[1].n, 9);
    assert_false(t.fetches[1].decode);
    assert_memory_equal(t.experts, a, sizeof(a));
    assert_memory_equal(t.experts + 2, b, sizeof(b));
    assert_int_equal(t.outcomes[0], SLC_OUT_MISS);
    assert_int_equal(t.outcomes[1], SLC_OUT_LATE);
    assert_int_equal(t.outcomes[10], SLC_OUT_HIT);
    assert_true(t.scores[0] == 0.75f && t.scores[1] == 0.25f && t.scores[2] < 0);
    slc_trace_deinit(&t);
    slc_trace_deinit(&t);
    free(path);
    temp_dir_remove(dir);
}

static void bad_lines_are_named(void **state) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "line 1: expected \"sluice-trace 1\""},
        {"sluice-trace 2 3 9 2\n", "line 1: expected \"sluice-trace 1\""},
        {"sluice-trace 1 3 9\n", "line 1"},
        {"sluice-trace 1 3 9 10\n", "line 1"}, /* more experts per token than there are */
        {"sluice-trace 1 0 9 2\n", "0 layers"},
        {"sluice-trace 1 4000000000 4000000000 2\n", "4000000000 experts"},
        {"sluice-trace 1 99999999999999999999 9 2\n", "line 1"},
        {"sluice-trace 1 3 9 2", "line 1"},
        {"sluice-trace 1 3 9 2\n0 1 0 d 100 4m 5m", "cut short"},
        {"sluice-trace 1 3 9 2\n0 1 0 d 100 4m 4m\n", "line 2: expected each expert once"},
        {"sluice-trace 1 3 9 2\n0 1 0 d 100 9m\n", "id of an expert"},
        {"sluice-trace 1 3 9 2\n0 1 0 d 100 -1m\n", "found \"-1m\""},
        {"sluice-trace 1 3 9 2\n0 1 0 d 100 1x\n", "h, l or m"},
        {"sluice-trace 1 3 9 2\n0 1 0 d 100 1m1000001\n", "millionths"},
        {"sluice-trace 1 3 9 2\n0 1 0 d 100 1m \n", "id of an expert"},
        {"sluice-trace 1 3 9 2\n0 1 3 d 100 1m\n", "layer"},
        {"sluice-trace 1 3 9 2\n0 1 1 d 100 1m\n0 1 1 d 100 1m\n", "line 3: expected a layer"},
        {"sluice-trace 1 3 9 2\n1 1 1 d 100 1m\n0 1 2 d 100 1m\n", "line 3: expected a layer"},
        {"sluice-trace 1 3 9 2\n0 1 1 q 100 1m\n", "d or p"},
        {"sluice-trace 1 3 9 2\n0 1 1 d 5000000000 1m\n", "bytes"},
        {"sluice-trace 1 3 9 2\n\n", "line 2: expected a pass"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        slc_err err = {0};
        slc_trace t;
        assert_int_equal(slc_trace_parse(cases[i].text, strlen(cases[i].text), "x.trace", &t, &err),
                         SLC_E_FORMAT);
        assert_null(t.fetches);
        assert_non_null(strstr(err.msg, "x.trace"));
        if (!strstr(err.msg, cases[i].says)) fail_msg("case %zu says: %s", i, err.msg);
    }
}

/* Every prefix of a good trace is either good (cut between lines) or refused. */
static void any_prefix_is_safe(void **state) {
    static const char text[] =
        "sluice-trace 1 3 9 2\n0 1 1 d 100 1m5 2h\n1 8 0 p 100 0l 8m1000000\n";
    size_t n = sizeof(text) - 1;

    for (size_t i = 0; i <= n; i++) {
        char *copy = strndup(text, i); /* exact size: reads beyond it show under ASan */
        slc_trace t;
        bool whole = i > 0 && text[i - 1] == '\n';
        assert_int_equal(slc_trace_parse(copy, i, "x", &t, NULL), whole ? SLC_OK : SLC_E_FORMAT);
        slc_trace_deinit(&t);
        free(copy);
    }
}

static void a_trace_that_cannot_be_written_says_so(void **state) {
    const uint32_t id = 1;
    const slc_outcome hit = SLC_OUT_HIT;
    slc_fetch_event e = {.n = 1, .experts = &id, .outcomes = &hit};
    slc_trace_writer *w;
    slc_err err = {0};

    assert_int_equal(slc_trace_writer_open("/nowhere/at/all", &ckpt, &w, &err), SLC_E_IO);
    assert_null(w);
    assert_non_null(strstr(err.msg, "/nowhere/at/all"));
    err = (slc_err){0};
    if (slc_trace_writer_open("/dev/full", &ckpt, &w, NULL)) skip();
    for (int i = 0; i < 10000; i++) slc_trace_write(w, &e);
    assert_int_equal(slc_trace_writer_close(w, &err), SLC_E_IO);
    assert_non_null(strstr(err.msg, "not complete"));
    assert_int_equal(slc_trace_writer_close(NULL, NULL), SLC_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(bad_lines_are_named),
        cmocka_unit_test(any_prefix_is_safe),
        cmocka_unit_test(a_trace_that_cannot_be_written_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
