/* What an inflated checkpoint holds: old values where they were, scaled or not, and around them
 * random codes that count for nothing. That it computes the same, tests/model/test_inflate.c says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/checkpoint.h"
#include "sluice/synth.h"
#include "support/temp.h"

enum { OLD = 64, NEW = 1024, OLD_EXPERT = 64, NEW_EXPERT = 192, FACTOR = 4 };

static const char golden[] = SLC_SOURCE_DIR "/tests/golden/moe-q4g64";
static char *dir, *out;
static slc_checkpoint *old, *new;

static slc_checkpoint *open_path(const char *path) {
    slc_checkpoint *c;
    slc_err err = {0};

    if (slc_checkpoint_open(path, NULL, &c, &err)) fail_msg("%s", err.msg);
    return c;
}

static int inflate(void **state) {
    slc_synth_options opt = slc_synth_options_default();
    slc_synth_result r;
    slc_err err = {0};

    (void)state;
    dir = temp_dir();
    out = temp_path(dir, "out");
    if (slc_synth_inflate(golden, NEW, NEW_EXPERT, out, &opt, &r, &err)) fail_msg("%s", err.msg);
    old = open_path(golden);
    new = open_path(out);
    return 0;
}

static int clean_up(void **state) {
    (void)state;
    slc_checkpoint_close(old);
    slc_checkpoint_close(new);
    temp_dir_remove(dir);
    free(out);
    return 0;
}

static uint8_t *read_extent(const slc_checkpoint *c, slc_extent at) {
    uint8_t *bytes = malloc(at.bytes + 1);
    slc_err err = {0};

    assert_non_null(bytes);
    if (slc_file_read(&c->files[at.file], at.off, bytes, at.bytes, &err)) fail_msg("%s", err.msg);
    return bytes;
}

typedef struct pair {
    slc_matrix_type old_type, new_type;
    uint8_t *old_part[SLC_N_PARTS], *new_part[SLC_N_PARTS];
} pair;

static void free_pair(pair *p) {
    for (int part = 0; part < SLC_N_PARTS; part++) {
        free(p->old_part[part]);
        free(p->new_part[part]);
    }
}

static pair pair_of(const slc_weight *a, const slc_weight *b) {
    pair p = {.old_type = a->type, .new_type = b->type};

    for (int part = 0; part < SLC_N_PARTS; part++) {
        p.old_part[part] = read_extent(old, a->part[part]);
        p.new_part[part] = read_extent(new, b->part[part]);
    }
    return p;
}

static pair expert_pair(uint32_t layer, uint32_t expert, int proj) {
    pair p = {.old_type = old->layers[layer].expert[proj],
              .new_type = new->layers[layer].expert[proj]};

    for (int part = 0; part < SLC_N_PARTS; part++) {
        p.old_part[part] = read_extent(old, slc_checkpoint_expert(old, layer, expert, proj, part));
        p.new_part[part] = read_extent(new, slc_checkpoint_expert(new, layer, expert, proj, part));
    }
    return p;
}

/* Old groups: the same codes, scale and offset times f. New groups: scale and offset zero. */
static void check_matrix(pair p, uint32_t rows, uint32_t cols, float f) {
    const slc_matrix_type *a = &p.old_type, *b = &p.new_type;
    uint32_t n_old = a->cols / a->group, n_new = b->cols / b->group;
    uint64_t code_bytes = slc_matrix_row_bytes(a, SLC_PART_W);

    assert_int_equal(b->rows, rows);
    assert_int_equal(b->cols, cols);
    assert_int_equal(b->bits, a->bits);
    assert_int_equal(b->group, a->group);
    for (uint32_t r = 0; r < b->rows; r++) {
        if (r < a->rows)
            assert_memory_equal(p.new_part[SLC_PART_W] + r * slc_matrix_row_bytes(b, SLC_PART_W),
                                p.old_part[SLC_PART_W] + r * code_bytes, code_bytes);
        for (uint32_t g = 0; g < n_new; g++)
            for (int part = SLC_PART_SCALES; part <= SLC_PART_BIASES; part++) {
                float found = slc_load_f32(b->scale_dtype, p.new_part[part], r * n_new + g);
                bool was_there = r < a->rows && g < n_old;

                assert_true(found == (was_there ? f * slc_load_f32(a->scale_dtype, p.old_part[part],
                                                                   r * n_old + g)
                                                : 0));
            }
    }
    free_pair(&p);
}

static void check_layer_matrix(uint32_t layer, slc_layer_weight w, uint32_t rows, uint32_t cols,
                               float f) {
    check_matrix(pair_of(&old->layers[layer].w[w], &new->layers[layer].w[w]), rows, cols, f);
}

static void what_reads_the_stream_keeps_its_values(void **state) {
    const slc_layer_map *l = old->layers;

    (void)state;
    check_layer_matrix(0, SLC_W_ROUTER, old->cfg.n_experts, NEW, 1);
    check_layer_matrix(0, SLC_W_SHARED_ROUTE, 1, NEW, 1);
    check_layer_matrix(0, SLC_W_SHARED_UP, NEW_EXPERT, NEW, 1);
    check_layer_matrix(0, SLC_W_QKV, l[0].w[SLC_W_QKV].type.rows, NEW, 1);
    check_layer_matrix(3, SLC_W_Q, l[3].w[SLC_W_Q].type.rows, NEW, 1);
    check_matrix(expert_pair(1, 2, SLC_EXPERT_GATE), NEW_EXPERT, NEW, 1);
    check_matrix(expert_pair(1, 0, SLC_EXPERT_UP), NEW_EXPERT, NEW, 1);
    check_matrix(pair_of(&old->w[SLC_W_LM_HEAD], &new->w[SLC_W_LM_HEAD]), old->cfg.vocab_size, NEW,
                 1);
}

static void what_writes_the_stream_is_scaled(void **state) {
    const slc_layer_map *l = old->layers;

    (void)state;
    check_layer_matrix(0, SLC_W_OUT, NEW, l[0].w[SLC_W_OUT].type.cols, FACTOR);
    check_layer_matrix(3, SLC_W_O, NEW, l[3].w[SLC_W_O].type.cols, FACTOR);
    check_layer_matrix(3, SLC_W_SHARED_DOWN, NEW, NEW_EXPERT, FACTOR);
    check_matrix(expert_pair(3, 1, SLC_EXPERT_DOWN), NEW, NEW_EXPERT, FACTOR);
    check_matrix(pair_of(&old->w[SLC_W_EMBED], &new->w[SLC_W_EMBED]), old->cfg.vocab_size, NEW,
                 FACTOR);
}

static void norms_of_the_stream_are_divided(void **state) {
    const slc_weight *norms[][2] = {
        {&old->layers[0].w[SLC_W_INPUT_NORM], &new->layers[0].w[SLC_W_INPUT_NORM]},
        {&old->layers[3].w[SLC_W_POST_NORM], &new->layers[3].w[SLC_W_POST_NORM]},
        {&old->w[SLC_W_FINAL_NORM], &new->w[SLC_W_FINAL_NORM]},
    };

    (void)state;
    for (int i = 0; i < 3; i++) {
        pair p = pair_of(norms[i][0], norms[i][1]);

        assert_int_equal(p.new_type.cols, NEW);
        for (uint32_t j = 0; j < NEW; j++) {
            float was = j < OLD ? slc_load_f32(p.old_type.dtype, p.old_part[0], j) : 1;

            assert_true(slc_load_f32(p.new_type.dtype, p.new_part[0], j) == was / FACTOR);
        }
        free_pair(&p);
    }
}

static void heads_are_as_they_were(void **state) {
    static const struct {
        uint32_t layer;
        slc_layer_weight w;
    } kept[] = {{0, SLC_W_CONV},     {0, SLC_W_A_LOG},  {0, SLC_W_DT_BIAS},
                {0, SLC_W_GDN_NORM}, {3, SLC_W_Q_NORM}, {3, SLC_W_K_NORM}};

    (void)state;
    for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++) {
        const slc_weight *a = &old->layers[kept[i].layer].w[kept[i].w],
                         *b = &new->layers[kept[i].layer].w[kept[i].w];
        pair p = pair_of(a, b);

        assert_memory_equal(&a->type, &b->type, sizeof(a->type));
        assert_memory_equal(p.old_part[0], p.new_part[0], a->part[0].bytes);
        free_pair(&p);
    }
}

/* Nothing that a disk could compress: each byte value about as often as any other. */
static void new_codes_are_random(void **state) {
    pair p = expert_pair(2, 3, SLC_EXPERT_DOWN);
    uint64_t row = slc_matrix_row_bytes(&p.new_type, SLC_PART_W);
    uint64_t n = (NEW - OLD) * row;
    uint32_t count[256] = {0};

    (void)state;
    for (uint64_t i = OLD * row; i < NEW * row; i++) count[p.new_part[SLC_PART_W][i]]++;
    for (int i = 0; i < 256; i++)
        assert_in_range(count[i], n / 256 * 3 / 4, n / 256 * 5 / 4); /* five deviations */
    free_pair(&p);
}

/* Copies a file of the original to `to` and returns its bytes. */
static char *copy(const char *name, const char *to, size_t *n) {
    char *path = temp_path(golden, name), *bytes = temp_read(path, n);

    free(temp_write(to, name, bytes, *n));
    free(path);
    return bytes;
}

static void values_that_would_round_are_refused(void **state) {
    slc_synth_options opt = slc_synth_options_default();
    uint64_t at = old->w[SLC_W_FINAL_NORM].part[0].off;
    char *from = temp_path(dir, "from"), *to = temp_path(dir, "to"), *bytes;
    slc_synth_result r;
    slc_err err = {0};
    size_t n;

    (void)state;
    assert_int_equal(mkdir(from, 0777), 0);
    free(copy("config.json", from, &n));
    bytes = copy("model.safetensors", from, &n);
    bytes[at] = 1, bytes[at + 1] = 0; /* the smallest subnormal: half of it is nothing */
    free(temp_write(from, "model.safetensors", bytes, n));
    assert_int_equal(slc_synth_inflate(from, 4 * OLD, 0, to, &opt, &r, &err), SLC_E_UNSUPPORTED);
    if (!strstr(err.msg, "a value of language_model.model.norm.weight times 0.5 is not exact"))
        fail_msg("%s", err.msg);
    assert_int_not_equal(access(to, F_OK), 0);
    free(bytes);
    free(from);
    free(to);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_reads_the_stream_keeps_its_values),
        cmocka_unit_test(what_writes_the_stream_is_scaled),
        cmocka_unit_test(norms_of_the_stream_are_divided),
        cmocka_unit_test(heads_are_as_they_were),
        cmocka_unit_test(new_codes_are_random),
        cmocka_unit_test(values_that_would_round_are_refused),
    };

    return cmocka_run_group_tests(tests, inflate, clean_up);
}
