/* Random checkpoints: sizes of the real models, and what a small one holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "convert/synth_geometry.h"
#include "support/temp.h"

static const slc_geometry small = {"small", 128, 5, 512, 500, 2, 1, 64, 1, 2, 64, 16, 2, 64};

static char *dir, *out;

static int make_dir(void **state) {
    (void)state;
    dir = temp_dir();
    out = temp_path(dir, "a");
    return 0;
}

static int remove_dir(void **state) {
    (void)state;
    temp_dir_remove(dir);
    free(out);
    return 0;
}

static slc_synth_result write_small(const slc_geometry *g, const char *name,
                                    const slc_synth_options *opt) {
    char *path = temp_path(dir, name);
    slc_synth_result r;
    slc_err err = {0};

    if (slc_geometry_write(g, path, opt, &r, &err)) fail_msg("%s", err.msg);
    free(path);
    return r;
}

static slc_checkpoint *open_small(const char *name) {
    char *path = temp_path(dir, name);
    slc_checkpoint *c;
    slc_err err = {0};

    if (slc_checkpoint_open(path, NULL, &c, &err)) fail_msg("%s", err.msg);
    free(path);
    return c;
}

/* ---- the real sizes, from the models' published shapes ---- */

static void sizes_are_those_of_the_conversions(void **state) {
    static const struct {
        const char *name;
        uint64_t experts, rest;
    } models[] = {
        {"qwen3.5-35b-a3b", 18119393280, 1389396096},
        {"qwen3.5-122b-a10b", 65229815808, 3479864832},
        {"qwen3.5-397b-a17b", 217432719360, 5579065472},
    };
    slc_config *cfg = calloc(1, sizeof(*cfg));

    (void)state;
    assert_non_null(cfg);
    for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
        const slc_geometry *g = slc_geometry_find(models[i].name);
        uint64_t experts = 0, rest = 0;
        slc_synth_plan plan;
        slc_err err = {0};
        json_t *config;

        assert_non_null(g);
        assert_non_null(strstr(slc_synth_geometries(), g->name));
        if (slc_geometry_plan(g, &config, cfg, &plan, &err)) fail_msg("%s", err.msg);
        for (uint32_t k = 0; k < plan.n; k++)
            for (int part = 0; part < SLC_N_PARTS; part++)
                *(slc_synth_is_expert(plan.weights[k].id) ? &experts : &rest) +=
                    slc_synth_part_bytes(&plan.weights[k], part);
        assert_int_equal(experts, models[i].experts);
        assert_int_equal(rest, models[i].rest);
        assert_int_equal(slc_synth_plan_bytes(&plan), experts + rest);
        slc_synth_plan_deinit(&plan);
        json_decref(config);
    }
    free(cfg);
}

static void names_and_shapes_are_those_of_mlx(void **state) {
    static const struct {
        const char *name, *dtype;
        uint32_t n;
        uint64_t dims[3];
    } expected[] = {
        {"language_model.model.embed_tokens.weight", "U32", 2, {248320, 256}},
        {"language_model.model.layers.0.mlp.switch_mlp.gate_proj.weight",
         "U32",
         3,
         {256, 512, 256}},
        {"language_model.model.layers.0.mlp.switch_mlp.down_proj.scales",
         "BF16",
         3,
         {256, 2048, 8}},
        {"language_model.model.layers.0.mlp.gate.weight", "U32", 2, {256, 512}},
        {"language_model.model.layers.0.mlp.shared_expert_gate.biases", "BF16", 2, {1, 32}},
        {"language_model.model.layers.0.linear_attn.conv1d.weight", "BF16", 3, {8192, 4, 1}},
        {"language_model.model.layers.0.linear_attn.A_log", "F32", 1, {32}},
        {"language_model.model.layers.0.linear_attn.dt_bias", "BF16", 1, {32}},
        {"language_model.model.layers.3.self_attn.q_proj.weight", "U32", 2, {8192, 256}},
        {"language_model.model.layers.3.self_attn.q_norm.weight", "BF16", 1, {256}},
        {"language_model.model.norm.weight", "BF16", 1, {2048}},
        {"language_model.lm_head.scales", "BF16", 2, {248320, 32}},
    };
    slc_config *cfg = calloc(1, sizeof(*cfg));
    slc_synth_plan plan;
    slc_err err = {0};
    json_t *config;
    uint32_t n_found = 0;

    (void)state;
    assert_non_null(cfg);
    assert_int_equal(
        slc_geometry_plan(slc_geometry_find("qwen3.5-35b-a3b"), &config, cfg, &plan, &err), SLC_OK);
    for (uint32_t k = 0; k < plan.n; k++)
        for (int part = 0; part < SLC_N_PARTS; part++) {
            char name[SLC_SYNTH_NAME_BYTES];
            uint64_t dims[3] = {0};

            if (slc_synth_part_bytes(&plan.weights[k], part) == 0) continue;
            slc_synth_part_name(&plan.weights[k], part, name);
            for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
                if (strcmp(name, expected[i].name) != 0) continue;
                n_found++;
                assert_int_equal(slc_synth_part_dims(&plan.weights[k], part, dims), expected[i].n);
                assert_memory_equal(dims, expected[i].dims, sizeof(dims));
                assert_string_equal(slc_dtype_name(slc_synth_part_dtype(&plan.weights[k], part)),
                                    expected[i].dtype);
            }
        }
    assert_int_equal(n_found, sizeof(expected) / sizeof(*expected));
    slc_synth_plan_deinit(&plan);
    json_decref(config);
    free(cfg);
}

/* ---- a small one on disk ---- */

static char *read_in(const char *folder, const char *name, size_t *n) {
    char *where = temp_path(dir, folder), *path = temp_path(where, name);
    char *bytes = temp_read(path, n);

    free(where);
    free(path);
    return bytes;
}

static bool same_file(const char *a, const char *b, const char *name) {
    size_t n_a, n_b;
    char *x = read_in(a, name, &n_a), *y = read_in(b, name, &n_b);
    bool same = n_a == n_b && memcmp(x, y, n_a) == 0;

    free(x);
    free(y);
    return same;
}

static void the_seed_decides_every_byte(void **state) {
    slc_synth_options opt = slc_synth_options_default();

    (void)state;
    opt.seed = 4;
    write_small(&small, "a", &opt);
    write_small(&small, "b", &opt);
    opt.seed = 5;
    write_small(&small, "c", &opt);
    assert_true(same_file("a", "b", "model.safetensors"));
    assert_true(same_file("a", "b", "config.json"));
    assert_false(same_file("a", "c", "model.safetensors"));
}

/* Bytes of a weight's part, malloc'd. */
static uint8_t *part_bytes(const slc_checkpoint *c, const slc_weight *w, int part) {
    uint8_t *bytes = malloc(w->part[part].bytes + 1);
    slc_err err = {0};

    assert_non_null(bytes);
    if (slc_file_read(&c->files[w->part[part].file], w->part[part].off, bytes, w->part[part].bytes,
                      &err))
        fail_msg("%s", err.msg);
    return bytes;
}

static void fewer_layers_are_the_first_ones(void **state) {
    slc_synth_options opt = slc_synth_options_default();
    slc_geometry fewer = small;
    slc_checkpoint *a, *b;

    (void)state;
    fewer.n_layers = 2;
    write_small(&small, "a", &opt);
    write_small(&fewer, "b", &opt);
    a = open_small("a");
    b = open_small("b");
    for (int w = 0; w < SLC_W_N_LAYER; w++)
        for (int part = 0; part < SLC_N_PARTS; part++) {
            const slc_weight *x = &a->layers[1].w[w], *y = &b->layers[1].w[w];
            uint8_t *p = part_bytes(a, x, part), *q = part_bytes(b, y, part);

            assert_int_equal(x->part[part].bytes, y->part[part].bytes);
            assert_memory_equal(p, q, x->part[part].bytes);
            free(p);
            free(q);
        }
    slc_checkpoint_close(a);
    slc_checkpoint_close(b);
}

static void shards_keep_to_their_limit(void **state) {
    slc_synth_options opt = slc_synth_options_default();
    slc_synth_result r;
    slc_checkpoint *one, *many;
    uint8_t *p, *q;

    (void)state;
    write_small(&small, "a", &opt);
    opt.shard_bytes = 70000;
    r = write_small(&small, "b", &opt);
    one = open_small("a");
    many = open_small("b");
    assert_int_equal(one->n_files, 1);
    assert_int_equal(many->n_files, r.n_files);
    assert_true(r.n_files > 10);
    for (uint32_t i = 0; i < many->n_files; i++)
        assert_true(many->files[i].size_bytes < 70000 + 10000); /* and a header */
    p = part_bytes(one, &one->w[SLC_W_LM_HEAD], SLC_PART_SCALES);
    q = part_bytes(many, &many->w[SLC_W_LM_HEAD], SLC_PART_SCALES);
    assert_memory_equal(p, q, one->w[SLC_W_LM_HEAD].part[SLC_PART_SCALES].bytes);
    free(p);
    free(q);
    slc_checkpoint_close(one);
    slc_checkpoint_close(many);
}

/* Mean and deviation of all values of a matrix. */
static void moments(const slc_checkpoint *c, const slc_weight *w, double *mean, double *deviation) {
    slc_matrix m = {.type = w->type};
    float *row = malloc(w->type.cols * sizeof(*row));
    double sum = 0, squares = 0, n = (double)w->type.rows * w->type.cols;

    assert_non_null(row);
    for (int part = 0; part < SLC_N_PARTS; part++) m.part[part] = part_bytes(c, w, part);
    for (uint32_t r = 0; r < w->type.rows; r++) {
        slc_matrix_dequant_row(&m, r, row);
        for (uint32_t j = 0; j < w->type.cols; j++) sum += row[j], squares += row[j] * row[j];
    }
    *mean = sum / n;
    *deviation = sqrt(squares / n);
    for (int part = 0; part < SLC_N_PARTS; part++) free((void *)(uintptr_t)m.part[part]);
    free(row);
}

static void weights_have_mean_zero_and_the_stated_size(void **state) {
    slc_synth_options opt = slc_synth_options_default();
    slc_checkpoint *c;
    struct {
        const slc_weight *w;
        double size;
    } of[4];

    (void)state;
    write_small(&small, "a", &opt);
    c = open_small("a");
    of[0].w = &c->w[SLC_W_EMBED], of[0].size = 1;
    of[1].w = &c->layers[0].w[SLC_W_ROUTER], of[1].size = 2 / sqrt(128);
    of[2].w = &c->layers[0].w[SLC_W_OUT], of[2].size = 1 / (32 * sqrt(128));
    of[3].w = &c->layers[3].w[SLC_W_Q], of[3].size = 1 / sqrt(128);
    for (int i = 0; i < 4; i++) {
        double mean, deviation, n = (double)of[i].w->type.rows * of[i].w->type.cols;

        moments(c, of[i].w, &mean, &deviation);
        if (fabs(mean) > 5 * of[i].size / sqrt(n) || fabs(deviation / of[i].size - 1) > 0.05)
            fail_msg("matrix %d: mean %g, deviation %g, expected %g", i, mean, deviation,
                     of[i].size);
    }
    slc_checkpoint_close(c);
}

static void tokens_spread_over_all_experts(void **state) {
    slc_synth_options opt = slc_synth_options_default();
    slc_geometry wide = small;
    slc_synth_routing r;

    (void)state;
    wide.hidden = 1024;
    wide.n_layers = 1;
    wide.vocab = 4096;
    r = write_small(&wide, "a", &opt).routing;
    assert_int_equal(r.n_experts, 16);
    assert_int_equal(r.n_used, 16);
    if (r.entropy_bits < 3.98 || r.busiest > 1.3)
        fail_msg("entropy %.3f of 4 bits, busiest %.2f", r.entropy_bits, r.busiest);
}

/* ---- refusals ---- */

static bool stop_half_way(void *user, uint64_t done, uint64_t total) {
    (void)user;
    return done < total / 2;
}

static void stopping_leaves_nothing(void **state) {
    slc_synth_options opt = slc_synth_options_default();
    slc_synth_result r;
    slc_err err = {0};

    (void)state;
    opt.on_progress = stop_half_way;
    assert_int_equal(slc_geometry_write(&small, out, &opt, &r, &err), SLC_E_CANCELLED);
    assert_int_equal(rmdir(dir), 0); /* empty */
}

static void wrong_names_and_counts_are_refused(void **state) {
    slc_synth_options opt = slc_synth_options_default();
    slc_synth_result r;
    slc_err err = {0};

    (void)state;
    assert_int_equal(slc_synth_geometry("qwen9", 0, out, &opt, &r, &err), SLC_E_INVALID);
    assert_non_null(strstr(err.msg, "'qwen9' is unknown, expected one of qwen3.5-35b-a3b|"));
    err = (slc_err){0};
    assert_int_equal(slc_synth_geometry("qwen3.5-35b-a3b", 41, out, &opt, &r, &err), SLC_E_INVALID);
    assert_non_null(strstr(err.msg, "has 40 layers, 41 were asked for"));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_of_the_conversions),
        cmocka_unit_test(names_and_shapes_are_those_of_mlx),
        CASE(the_seed_decides_every_byte),
        CASE(fewer_layers_are_the_first_ones),
        CASE(shards_keep_to_their_limit),
        CASE(weights_have_mean_zero_and_the_stated_size),
        CASE(tokens_spread_over_all_experts),
        CASE(stopping_leaves_nothing),
        CASE(wrong_names_and_counts_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
