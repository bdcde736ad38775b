/* A pack gives the same logits as the folder it was made from, bit for bit: tiny models of every
 * layout, and a demo model that streams its experts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "sluice/convert.h"
#include "support/run.h"
#include "support/temp.h"

#define N_TOKENS 40u

static char *dir, *pack;

static int make_dir(void **state) {
    dir = temp_dir();
    pack = temp_path(dir, "model.pack");
    return 0;
}

static int drop_dir(void **state) {
    free(pack);
    temp_dir_remove(dir);
    return 0;
}

static float *logits_of(const char *path, const slc_model_options *opt, const int32_t *tokens,
                        uint32_t *vocab) {
    slc_model *m;
    slc_err err = {0};
    float *logits;

    if (slc_model_open(path, opt, &m, &err)) fail_msg("%s", err.msg);
    *vocab = run_vocab(m);
    logits = run_logits(m, tokens, N_TOKENS);
    slc_model_close(m);
    return logits;
}

static void expect_equal_logits(const char *a, const char *b, const slc_model_options *opt) {
    int32_t tokens[N_TOKENS];
    uint32_t n, m;
    float *x, *y;

    for (uint32_t i = 0; i < N_TOKENS; i++) tokens[i] = (int32_t)(7 + i * 37 % 50);
    x = logits_of(a, opt, tokens, &n);
    y = logits_of(b, opt, tokens, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, (size_t)N_TOKENS * n * sizeof(float));
    free(x);
    free(y);
}

/* Packs the folder and compares both. */
static void expect_same(const char *name, const slc_model_options *opt) {
    slc_pack_options po = slc_pack_options_default();
    char *folder = source_path(name);
    slc_err err = {0};

    if (slc_pack_write(folder, pack, &po, &err)) fail_msg("%s", err.msg);
    print_message("%s\n", name);
    expect_equal_logits(folder, pack, opt);
    assert_int_equal(unlink(pack), 0);
    free(folder);
}

static slc_model_options options(void) {
    slc_model_options o = slc_model_options_default();

    o.ctx_size = 64;
    o.memory_bytes = 256ull << 20;
    return o;
}

static void tiny_models_of_every_layout(void **state) {
    static const char *const models[] = {
        "moe-mixed", "moe-hf-bf16", "moe-hf-f16",  "moe-experts-f32", "moe-experts-q4",
        "moe-odd",   "moe-q3g32",   "dense-q4g64", "dense-hf-bf16",   "moe-many",
    };
    slc_model_options o = options();
    char name[64];

    for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
        snprintf(name, sizeof(name), "tests/golden/%s", models[i]);
        expect_same(name, &o);
    }
}

static void a_demo_model_on_every_backend_with_little_memory(void **state) {
    static const char *const backends[] = {"threads", "uring"};
    slc_model_options o = options();

    o.expert_cache_bytes = 4 << 20; /* a tenth of its experts */
    for (int i = 0; i < 2; i++) {
        o.io = backends[i];
        expect_same("models/demo-moe", &o);
    }
}

static void packs_of_older_versions_still_open(void **state) {
    char *sample = source_path("tests/data/pack_v1.pack");
    char *folder = source_path("tests/golden/moe-odd");
    slc_model_options o = options();

    expect_equal_logits(folder, sample, &o);
    free(sample);
    free(folder);
}

static void a_pack_needs_nothing_of_its_source(void **state) {
    slc_pack_options po = slc_pack_options_default();
    slc_model_options o = options();
    char *folder = source_path("models/demo-draft"), *text;
    slc_model *m;
    slc_err err = {0};
    int32_t *ids;
    size_t n, n_text;

    if (slc_pack_write(folder, pack, &po, &err)) fail_msg("%s", err.msg);
    if (slc_model_open(dir, &o, &m, &err)) fail_msg("%s", err.msg); /* the folder it lies in */
    assert_int_equal(slc_tokenize(m, "Once upon a time", 16, true, &ids, &n, &err), SLC_OK);
    assert_int_equal(slc_detokenize(m, ids, n, &text, &n_text, &err), SLC_OK);
    assert_string_equal(text, "Once upon a time");
    free(text);
    free(ids);
    slc_model_close(m);
    unlink(pack);
    free(folder);
}

/* The pack is a copy: it gives what its source was, whatever becomes of that, and says what that
 * was. */
static void b22_a_pack_stays_what_it_was_made_of(void **state) {
    slc_pack_options po = slc_pack_options_default();
    slc_model_options o = options();
    char *golden = source_path("tests/golden/moe-many"), *from = temp_path(golden, "config.json");
    char *source = temp_path(dir, "source"), *weights = temp_path(golden, "model.safetensors");
    size_t n_config, n;
    char *config = temp_read(from, &n_config), *bytes = temp_read(weights, &n);
    slc_err err = {0};

    assert_int_equal(mkdir(source, 0777), 0);
    free(temp_write(source, "config.json", config, n_config));
    free(temp_write(source, "model.safetensors", bytes, n));
    if (slc_pack_write(source, pack, &po, &err)) fail_msg("%s", err.msg);
    memset(bytes + n / 2, 0, n / 2);
    free(temp_write(source, "model.safetensors", bytes, n));
    expect_equal_logits(golden, pack, &o);
    free(temp_write(source, "model.safetensors", bytes, n / 3));
    expect_equal_logits(golden, pack, &o);
    temp_dir_remove(source);
    expect_equal_logits(golden, pack, &o);
    assert_int_equal(unlink(pack), 0);
    free(config);
    free(bytes);
    free(weights);
    free(from);
    free(golden);
}

/* Flips a bit of every 4096-aligned block from `from` on: every expert is damaged. */
static void damage(const char *path, size_t from) {
    FILE *f = fopen(path, "r+b");

    assert_non_null(f);
    for (size_t at = from; fseek(f, (long)at, SEEK_SET) == 0; at += 4096) {
        int c = fgetc(f);

        if (c == EOF) break;
        assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
        fputc(c ^ 1, f);
    }
    fclose(f);
}

static slc_status step_one(slc_model *m, slc_err *why) {
    int32_t token = 7;
    slc_step_item item = {.tokens = &token, .n_tokens = 1};
    slc_err err = {0};

    assert_int_equal(slc_seq_create(m, &item.seq, &err), SLC_OK);
    assert_int_equal(slc_step(m, &item, 1, NULL, NULL, &err), SLC_OK);
    slc_seq_destroy(item.seq);
    *why = item.err;
    return item.err.code;
}

static void damaged_experts_are_noticed_on_request(void **state) {
    slc_pack_options po = slc_pack_options_default();
    slc_model_options o = options();
    char *folder = source_path("tests/golden/moe-q4g64");
    slc_err err = {0}, why;
    size_t bytes;
    slc_model *m;

    if (slc_pack_write(folder, pack, &po, &err)) fail_msg("%s", err.msg);
    o.verify_reads = true;
    if (slc_model_open(pack, &o, &m, &err)) fail_msg("%s", err.msg);
    assert_int_equal(step_one(m, &why), SLC_OK);
    slc_model_close(m);

    free(temp_read(pack, &bytes));
    damage(pack, bytes / 2); /* experts come last and are most of the file */
    if (slc_model_open(pack, &o, &m, &err)) fail_msg("%s", err.msg);
    assert_int_not_equal(step_one(m, &why), SLC_OK);
    assert_non_null(strstr(why.msg, "expert"));
    assert_non_null(strstr(why.msg, "hash"));
    slc_model_close(m);

    /* A folder has no hashes: asking for them is an error, not silence. */
    assert_int_equal(slc_model_open(folder, &o, &m, &err), SLC_E_INVALID);
    unlink(pack);
    free(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_models_of_every_layout),
        cmocka_unit_test(a_demo_model_on_every_backend_with_little_memory),
        cmocka_unit_test(packs_of_older_versions_still_open),
        cmocka_unit_test(a_pack_needs_nothing_of_its_source),
        cmocka_unit_test(b22_a_pack_stays_what_it_was_made_of),
        cmocka_unit_test(damaged_experts_are_noticed_on_request),
    };
    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
