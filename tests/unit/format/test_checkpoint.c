/* Whole checkpoint folders: tiny ones are written, damaged in one place, and opened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/checkpoint.h"
#include "support/temp.h"
#include "support/tiny_ckpt.h"

static char *dir;        /* of the running test */
static char lines[8192]; /* what the last open logged */
static int n_lines;

static int n_open_before;

static int count_open_files(void) {
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static int new_dir(void **state) {
    dir = temp_dir();
    n_open_before = count_open_files();
    return 0;
}

/* No test may leave a file open, whether its checkpoints opened or not. */
static int remove_dir(void **state) {
    temp_dir_remove(dir);
    return count_open_files() == n_open_before ? 0 : -1;
}

static void collect(void *user, int level, const char *line) {
    size_t used = strlen(lines);

    snprintf(lines + used, sizeof(lines) - used, "%d %s\n", level, line);
    n_lines++;
}

static slc_status open_path(const char *path, slc_checkpoint **c, slc_err *err) {
    slc_log log = {.sink = collect, .max_level = SLC_LOG_INFO};
    slc_status rc;

    lines[0] = 0;
    n_lines = 0;
    *err = (slc_err){0};
    rc = slc_checkpoint_open(path, &log, c, err);
    assert_int_equal(rc, err->code);
    if (rc) assert_null(*c);
    return rc;
}

static slc_checkpoint *must_open(const char *path) {
    slc_checkpoint *c;
    slc_err err;

    if (open_path(path, &c, &err)) fail_msg("%s", err.msg);
    return c;
}

static void must_refuse(slc_status code, const char *says) {
    slc_checkpoint *c;
    slc_err err;

    if (open_path(dir, &c, &err) != code)
        fail_msg("got %d (%s), expected %d", err.code, err.msg, code);
    if (!strstr(err.msg, says)) fail_msg("\"%s\" does not say \"%s\"", err.msg, says);
}

static void must_log(const char *says) {
    if (!strstr(lines, says)) fail_msg("the log does not say \"%s\":\n%s", says, lines);
}

/* Writes and frees. */
static void put(tiny_ckpt *t) {
    tiny_write(t, dir);
    tiny_destroy(t);
}

static char *in_dir(const char *name) {
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

/* The bytes of an expert's part, malloc'd. */
static uint8_t *expert_bytes(const slc_checkpoint *c, uint32_t layer, uint32_t e, int proj,
                             int part, uint64_t *n) {
    slc_extent x = slc_checkpoint_expert(c, layer, e, proj, part);
    uint8_t *p = malloc(x.bytes + 1);
    slc_err err = {0};

    if (slc_file_read(&c->files[x.file], x.off, p, x.bytes, &err)) fail_msg("%s", err.msg);
    *n = x.bytes;
    return p;
}

static void expect_same_experts(const slc_checkpoint *a, const slc_checkpoint *b) {
    for (uint32_t i = 0; i < a->cfg.n_layers * a->cfg.n_experts * SLC_N_PROJ * SLC_N_PARTS; i++) {
        int part = (int)(i % SLC_N_PARTS), proj = (int)(i / SLC_N_PARTS % SLC_N_PROJ);
        uint32_t e = i / (SLC_N_PARTS * SLC_N_PROJ) % a->cfg.n_experts;
        uint32_t layer = i / (SLC_N_PARTS * SLC_N_PROJ) / a->cfg.n_experts;
        uint64_t n, m;
        uint8_t *x = expert_bytes(a, layer, e, proj, part, &n);
        uint8_t *y = expert_bytes(b, layer, e, proj, part, &m);

        assert_int_equal(n, m);
        if (part == SLC_PART_W) assert_true(n > 0);
        if (memcmp(x, y, n))
            fail_msg("layer %u expert %u projection %d part %d differs", layer, e, proj, part);
        free(x);
        free(y);
    }
}

/* ---- sound folders ---- */

static void opens_one_file_and_many(void **state) {
    slc_checkpoint *c;
    slc_side_text text;
    slc_err err = {0};

    put(tiny_create((tiny_options){.bits = 4}));
    c = must_open(dir);
    assert_int_equal(c->n_files, 1);
    assert_string_equal(c->dir, dir);
    assert_int_equal(n_lines, 0);
    assert_int_equal(slc_side_text_open(c, SLC_TEXT_TOKENIZER, &text, &err), SLC_OK);
    assert_null(text.file);
    slc_side_text_close(&text);
    slc_checkpoint_close(c);

    free(temp_write(dir, "tokenizer.json", "{}", 2));
    unlink(in_dir("model.safetensors"));
    put(tiny_create((tiny_options){.bits = 4, .n_files = 5}));
    c = must_open(dir);
    assert_int_equal(c->n_files, 5);
    assert_int_equal(n_lines, 0);
    assert_int_equal(slc_side_text_open(c, SLC_TEXT_TOKENIZER, &text, &err), SLC_OK);
    assert_string_equal(text.file->path, in_dir("tokenizer.json"));
    assert_int_equal(text.bytes, 2);
    slc_side_text_close(&text);
    slc_checkpoint_close(c);
    slc_checkpoint_close(NULL);
}

static void encodings_follow_from_shapes(void **state) {
    static const uint32_t bits[] = {2, 3, 4, 5, 6, 8};

    for (size_t i = 0; i < sizeof(bits) / sizeof(*bits); i++)
        for (int claimed = 0; claimed < 2; claimed++) {
            tiny_ckpt *t = tiny_create((tiny_options){.bits = bits[i]});
            slc_checkpoint *c;

            if (!claimed) tiny_config(t, "\"quantization\"", "\"no_block\"");
            put(t);
            c = must_open(dir);
            assert_int_equal(c->layers[3].w[SLC_W_Q].type.bits, bits[i]);
            assert_int_equal(c->layers[3].w[SLC_W_Q].type.group, 32);
            assert_int_equal(c->layers[0].expert[SLC_EXPERT_UP].bits, bits[i]);
            assert_int_equal(c->layers[0].w[SLC_W_Q].type.rows, 0);
            slc_checkpoint_close(c);
        }
}

static void conv_shape_alone_decides_about_norms(void **state) {
    tiny_ckpt *t = tiny_create((tiny_options){.raw_conv = true});
    slc_checkpoint *c;
    uint64_t one = 1, folded[3] = {128, 4, 1};

    tiny_add(t, "mtp.norm.weight", "BF16", 1, &one);
    tiny_write(t, dir);
    c = must_open(dir);
    assert_true(c->norms_are_raw);
    slc_checkpoint_close(c);

    memcpy(tiny_find(t, "language_model.model.layers.1.linear_attn.conv1d.weight")->dims, folded,
           sizeof(folded));
    put(t);
    must_refuse(SLC_E_FORMAT, "both axis orders");

    t = tiny_create((tiny_options){0});
    tiny_add(t, "mtp.norm.weight", "BF16", 1, &one);
    put(t);
    c = must_open(dir);
    assert_false(c->norms_are_raw);
    slc_checkpoint_close(c);
}

static void tied_embeddings_stand_in_for_the_head(void **state) {
    tiny_ckpt *t = tiny_create((tiny_options){0});
    slc_checkpoint *c;

    tiny_config(t, "\"eos", "\"tie_word_embeddings\": true, \"eos");
    tiny_write(t, dir);
    c = must_open(dir);
    assert_true(c->tied);
    assert_int_equal(c->w[SLC_W_LM_HEAD].part[0].off, c->w[SLC_W_EMBED].part[0].off);
    must_log("1 lm_head tensors ignored");
    slc_checkpoint_close(c);

    tiny_remove(t, "language_model.lm_head.weight");
    tiny_write(t, dir);
    slc_checkpoint_close(must_open(dir));
    tiny_config(t, "true", "false");
    put(t);
    must_refuse(SLC_E_FORMAT, "lm_head.weight is missing");
}

static void any_prefix_is_found(void **state) {
    static const char *const prefixes[] = {"language_model.model.", "model.language_model.",
                                           "model.", ""};

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
        put(tiny_create((tiny_options){.bits = 4, .prefix = prefixes[i]}));
        slc_checkpoint_close(must_open(dir));
    }
}

static void two_prefixes_for_one_weight_are_refused(void **state) {
    tiny_ckpt *t = tiny_create((tiny_options){0});

    tiny_add(t, "model.norm.weight", "BF16", 1, (uint64_t[]){64});
    put(t);
    must_refuse(SLC_E_FORMAT, "name the same weight");
}

/* ---- reports ---- */

static void a01_truncated_shards_are_refused(void **state) {
    static const off_t cuts[] = {1, 4096};

    for (int shard = 0; shard < 3; shard++)
        for (size_t i = 0; i < sizeof(cuts) / sizeof(*cuts); i++) {
            tiny_ckpt *t = tiny_create((tiny_options){.bits = 4, .n_files = 3});
            char name[64];
            struct stat st;

            snprintf(name, sizeof(name), "%s", tiny_file_name(t, shard));
            put(t);
            assert_int_equal(stat(in_dir(name), &st), 0);
            assert_int_equal(truncate(in_dir(name), st.st_size - cuts[i]), 0);
            must_refuse(SLC_E_FORMAT, name);
            must_refuse(SLC_E_FORMAT, "cut short: tensor");
        }
    assert_int_equal(truncate(in_dir("model-00001-of-00003.safetensors"), 5), 0);
    must_refuse(SLC_E_FORMAT, "5 bytes are too few");
    assert_int_equal(truncate(in_dir("model-00001-of-00003.safetensors"), 0), 0);
    must_refuse(SLC_E_FORMAT, "0 bytes are too few");
}

static void a02_every_needed_tensor_must_be_there(void **state) {
    /* one of each kind: taken out of the index, then out of the shard as well */
    static const char *const needed[] = {
        "language_model.model.embed_tokens.scales",
        "language_model.model.layers.0.linear_attn.A_log",
        "language_model.model.layers.1.linear_attn.conv1d.weight",
        "language_model.model.layers.2.mlp.switch_mlp.up_proj.weight",
        "language_model.model.layers.2.mlp.switch_mlp.gate_proj.weight",
        "language_model.model.layers.3.self_attn.q_proj.biases",
        "language_model.model.layers.3.post_attention_layernorm.weight",
    };

    for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
        for (int gone = 0; gone < 2; gone++) {
            tiny_ckpt *t = tiny_create((tiny_options){.bits = 4, .n_files = 3});
            slc_checkpoint *c;
            slc_err err;

            tiny_find(t, needed[i])->index_file = -1;
            if (gone) tiny_remove(t, needed[i]);
            put(t);
            if (!open_path(dir, &c, &err)) fail_msg("opened without %s", needed[i]);
            assert_non_null(strstr(err.msg, "missing"));
        }
}

static void a02_a04_missing_shards_are_one_plain_message(void **state) {
    put(tiny_create((tiny_options){.bits = 4, .n_files = 3}));
    unlink(in_dir("model-00002-of-00003.safetensors"));
    must_refuse(SLC_E_FORMAT, "1 of 3 files it names are missing: model-00002-of-00003");
    unlink(in_dir("model-00003-of-00003.safetensors"));
    must_refuse(SLC_E_FORMAT, "stale");
    must_refuse(SLC_E_FORMAT, "2 of 3 files it names are missing: model-00002-of-00003.safetensors,"
                              " model-00003-of-00003.safetensors");
}

static void a03_stray_files_are_ignored_and_reported(void **state) {
    tiny_ckpt *t = tiny_create((tiny_options){.n_files = 3}), *stray;
    slc_checkpoint *c;

    stray = tiny_create((tiny_options){.n_files = 1});
    put(stray); /* model.safetensors with the same names */
    put(t);
    c = must_open(dir);
    assert_int_equal(c->n_files, 3);
    for (uint32_t i = 0; i < c->n_files; i++)
        assert_non_null(strstr(c->files[i].path, "-of-00003.safetensors"));
    assert_int_equal(n_lines, 1);
    must_log("model.safetensors is not part of the checkpoint, ignored");
    slc_checkpoint_close(c);
}

static void a05_index_must_agree_with_headers(void **state) {
    tiny_ckpt *t = tiny_create((tiny_options){.bits = 4, .n_files = 3});
    tiny_tensor *mtp = tiny_add(t, "language_model.mtp.fc.weight", "BF16", 1, (uint64_t[]){8});
    slc_checkpoint *c;

    mtp->index_file = 2; /* lies in file 0 */
    tiny_write(t, dir);
    c = must_open(dir);
    must_log("language_model.mtp.fc.weight is not in model-00003-of-00003.safetensors");
    slc_checkpoint_close(c);

    tiny_find(t, "language_model.model.layers.0.mlp.gate.weight")->index_file = 2;
    put(t);
    must_refuse(SLC_E_FORMAT, "says that tensor language_model.model.layers.0.mlp.gate.weight lies "
                              "in model-00003-of-00003.safetensors");
}

static void a18_mixed_widths_are_derived_and_claims_checked(void **state) {
    static const char *const prefixes[] = {"language_model.model.", "model.language_model.",
                                           "model."};
    static const char *const modules[] = {"layers.0.linear_attn.in_proj_z", "layers.1.mlp.gate"};
    static const uint32_t bits[] = {6, 8};

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
        tiny_ckpt *t = tiny_create((tiny_options){.bits = 4});
        slc_checkpoint *c;
        char text[256], name[128];

        for (int m = 0; m < 2; m++) {
            snprintf(name, sizeof(name), "language_model.model.%s.weight", modules[m]);
            tiny_find(t, name)->dims[1] = 64 * bits[m] / 32;
            snprintf(text, sizeof(text), "\"quantization\": {\"%s%s\": {\"bits\": %u}, ",
                     prefixes[i], modules[m], bits[m]);
            tiny_config(t, "\"quantization\": {", text);
        }
        tiny_write(t, dir);
        c = must_open(dir);
        assert_int_equal(c->layers[0].w[SLC_W_Z].type.bits, 6);
        assert_int_equal(c->layers[1].w[SLC_W_ROUTER].type.bits, 8);
        assert_int_equal(c->layers[2].w[SLC_W_ROUTER].type.bits, 4);
        slc_checkpoint_close(c);
        tiny_config(t, "{\"bits\": 6}", "{\"bits\": 5}");
        put(t);
        must_refuse(SLC_E_FORMAT, "claims 5 bits in groups of 32 for "
                                  "layers.0.linear_attn.in_proj_z, its tensors hold 6 bits");
    }
}

static void a18_unquantised_modules_may_be_claimed_or_not(void **state) {
    tiny_ckpt *t = tiny_create((tiny_options){.bits = 4});
    tiny_tensor *w = tiny_find(t, "language_model.lm_head.weight");
    slc_checkpoint *c;

    w->dtype = "F16";
    w->dims[1] = 64;
    tiny_remove(t, "language_model.lm_head.scales");
    tiny_remove(t, "language_model.lm_head.biases");
    tiny_write(t, dir);
    c = must_open(dir);
    assert_int_equal(c->w[SLC_W_LM_HEAD].type.dtype, SLC_DTYPE_F16);
    slc_checkpoint_close(c);
    tiny_config(t, "\"quantization\": {", "\"quantization\": {\"language_model.lm_head\": false, ");
    tiny_write(t, dir);
    slc_checkpoint_close(must_open(dir));
    tiny_config(t, "language_model.lm_head", "language_model.model.embed_tokens");
    put(t);
    must_refuse(SLC_E_FORMAT, "claims 0 bits in groups of 0 for embed_tokens");
}

static void a20_side_towers_are_skipped_with_one_line(void **state) {
    static const char *const side[] = {
        "vision_tower.blocks.0.attn.qkv.weight",
        "model.visual.patch_embed.weight",
        "visual.merger.norm.weight",
        "model.language_model.visual.x",
        "mtp.fc.weight",
        "language_model.mtp.layers.0.mlp.gate.weight",
        "model.mtp.norm.weight",
    };
    tiny_ckpt *t = tiny_create((tiny_options){.bits = 4, .n_files = 2});
    slc_checkpoint *c;

    for (size_t i = 0; i < sizeof(side) / sizeof(*side); i++)
        tiny_add(t, side[i], "BF16", 1, (uint64_t[]){5});
    tiny_write(t, dir);
    c = must_open(dir);
    assert_int_equal(c->ignored_bytes, 70);
    assert_int_equal(n_lines, 1);
    must_log("7 vision or mtp tensors skipped, 70 bytes");
    slc_checkpoint_close(c);

    tiny_add(t, "model.layers.0.self_attn.sinks", "F8_E4M3", 1, (uint64_t[]){3});
    tiny_add(t, "model.layers.9.input_layernorm.weight", "BF16", 1, (uint64_t[]){64});
    put(t);
    c = must_open(dir);
    assert_int_equal(n_lines, 2);
    must_log("0 "); /* a warning */
    must_log("2 unknown tensors ignored, 131 bytes (first: model.layers.0.self_attn.sinks)");
    slc_checkpoint_close(c);
}

/* A cache: snapshots/x holds relative links into ../../blobs. */
static void make_cache(void) {
    tiny_ckpt *t = tiny_create((tiny_options){.bits = 4, .n_files = 2});
    char *blobs = temp_path(dir, "blobs"), *snap = temp_path(dir, "snapshots/x");
    const char *names[] = {"config.json", "model-00001-of-00002.safetensors",
                           "model-00002-of-00002.safetensors", "model.safetensors.index.json"};
    char target[128], link[512];

    assert_int_equal(mkdir(blobs, 0700), 0);
    assert_int_equal(mkdir(in_dir("snapshots"), 0700), 0);
    assert_int_equal(mkdir(snap, 0700), 0);
    tiny_write(t, blobs);
    for (int i = 0; i < 4; i++) {
        char *from = temp_path(blobs, names[i]), blob[512];

        snprintf(blob, sizeof(blob), "%s/sha%d", blobs, i);
        assert_int_equal(rename(from, blob), 0);
        snprintf(target, sizeof(target), "../../blobs/sha%d", i);
        snprintf(link, sizeof(link), "%s/%s", snap, names[i]);
        assert_int_equal(symlink(target, link), 0);
        free(from);
    }
    tiny_destroy(t);
    free(blobs);
    free(snap);
}

static void a22_links_are_followed_and_names_stay_inside(void **state) {
    tiny_ckpt *t;

    make_cache();
    slc_checkpoint_close(must_open(in_dir("snapshots/x")));
    t = tiny_create((tiny_options){.n_files = 2});
    t->extra_index = "\"extra.weight\": \"../../secret.safetensors\", ";
    put(t);
    must_refuse(SLC_E_FORMAT, "../../secret.safetensors");
}

/* A model cache whose download broke off may hold links to nothing. */
static void links_to_nothing_are_missing_files(void **state) {
    static const char *const names[] = {"generation_config.json", "model.safetensors.index.json"};

    put(tiny_create((tiny_options){0}));
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        assert_int_equal(symlink("../../blobs/none", in_dir(names[i])), 0);
        must_refuse(SLC_E_IO, names[i]);
        unlink(in_dir(names[i]));
    }
    put(tiny_create((tiny_options){.n_files = 3}));
    unlink(in_dir("model-00002-of-00003.safetensors"));
    assert_int_equal(symlink("none", in_dir("model-00002-of-00003.safetensors")), 0);
    must_refuse(SLC_E_FORMAT, "1 of 3 files it names are missing: model-00002");
}

static void a24_siblings_are_found_beside_the_link(void **state) {
    static const char *const given[] = {"snapshots/x/config.json",
                                        "snapshots/x/model-00002-of-00002.safetensors",
                                        "snapshots/x/model.safetensors.index.json", "snapshots/x/"};
    char cwd[512];

    make_cache();
    for (size_t i = 0; i < sizeof(given) / sizeof(*given); i++) {
        slc_checkpoint *c = must_open(in_dir(given[i]));

        assert_int_equal(c->n_files, 2);
        slc_checkpoint_close(c);
    }
    assert_non_null(getcwd(cwd, sizeof(cwd)));
    assert_int_equal(chdir(in_dir("snapshots/x")), 0);
    slc_checkpoint_close(must_open("config.json"));
    slc_checkpoint_close(must_open("."));
    assert_int_equal(chdir(cwd), 0);
}

static void a25_no_stop_id_is_a_warning(void **state) {
    tiny_ckpt *t = tiny_create((tiny_options){0});
    slc_checkpoint *c;

    tiny_config(t, "\"eos_token_id\"", "\"no\"");
    put(t);
    c = must_open(dir);
    assert_int_equal(c->cfg.n_stop_ids, 0);
    must_log("has an eos_token_id");
    slc_checkpoint_close(c);
    free(temp_write(dir, "generation_config.json", "{\"eos_token_id\": [5]}", 21));
    c = must_open(dir);
    assert_int_equal(c->cfg.n_stop_ids, 1);
    assert_int_equal(n_lines, 0);
    slc_checkpoint_close(c);
    free(temp_write(dir, "generation_config.json", "{", 1));
    must_refuse(SLC_E_FORMAT, "generation_config.json");
}

static void a27_layouts_give_the_same_bytes(void **state) {
    static const tiny_layout layouts[] = {TINY_STACKED, TINY_FUSED, TINY_SEPARATE};

    for (uint32_t bits = 0; bits <= 4; bits += 4) {
        slc_checkpoint *c[3];
        char *dirs[3];

        for (int i = 0; i < 3; i++) {
            tiny_ckpt *t = tiny_create(
                (tiny_options){.bits = bits, .layout = layouts[i], .n_files = 1 + 3 * (uint32_t)i});

            dirs[i] = temp_dir();
            tiny_write(t, dirs[i]);
            tiny_destroy(t);
            c[i] = must_open(dirs[i]);
            assert_int_equal(n_lines, 0);
            assert_int_equal(slc_checkpoint_expert_bytes(c[i], 1), bits ? 3840 : 12288);
            expect_same_experts(c[0], c[i]);
        }
        for (int i = 0; i < 3; i++) {
            slc_checkpoint_close(c[i]);
            temp_dir_remove(dirs[i]);
        }
    }
}

static void a27_stacked_is_preferred_and_the_rest_reported(void **state) {
    tiny_ckpt *t = tiny_create((tiny_options){.layout = TINY_SEPARATE});
    slc_checkpoint *c, *alone;
    char *other = temp_dir();

    tiny_write(t, other);
    alone = must_open(other);
    tiny_add_experts(t, 0, TINY_STACKED);
    put(t);
    c = must_open(dir);
    assert_int_equal(n_lines, 1);
    must_log("12 expert tensors are there in a second layout, ignored");
    /* expert 1 lies right behind expert 0: the stacked tensor is in use */
    assert_int_equal(slc_checkpoint_expert(c, 0, 1, SLC_EXPERT_UP, 0).off,
                     slc_checkpoint_expert(c, 0, 0, SLC_EXPERT_UP, 0).off + 32 * 64 * 2);
    expect_same_experts(alone, c);
    slc_checkpoint_close(alone);
    slc_checkpoint_close(c);
    temp_dir_remove(other);
}

static void a27_many_shards_raise_the_open_file_limit(void **state) {
    struct rlimit old, low;
    slc_checkpoint *c;
    tiny_ckpt *t = tiny_create((tiny_options){.layout = TINY_SEPARATE, .n_files = 100});

    put(t);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = (struct rlimit){.rlim_cur = 64, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    c = must_open(dir);
    assert_int_equal(c->n_files, 100);
    slc_checkpoint_close(c);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void a29_dtypes_come_from_headers(void **state) {
    static const char *const texts[] = {"F32", "BF16", "F16"};
    static const slc_dtype dtypes[] = {SLC_DTYPE_F32, SLC_DTYPE_BF16, SLC_DTYPE_F16};

    for (int i = 0; i < 3; i++) {
        tiny_ckpt *t = tiny_create((tiny_options){.bits = 4});
        slc_checkpoint *c;

        tiny_config(t, "\"eos", "\"dtype\": \"bfloat16\", \"eos");
        tiny_find(t, "language_model.model.layers.0.linear_attn.A_log")->dtype = texts[i];
        tiny_find(t, "language_model.model.layers.2.linear_attn.dt_bias")->dtype = texts[i];
        put(t);
        c = must_open(dir);
        assert_int_equal(c->layers[0].w[SLC_W_A_LOG].type.dtype, dtypes[i]);
        assert_int_equal(c->layers[2].w[SLC_W_DT_BIAS].type.dtype, dtypes[i]);
        assert_int_equal(c->layers[1].w[SLC_W_A_LOG].type.dtype, SLC_DTYPE_BF16);
        slc_checkpoint_close(c);
    }
}

/* ---- shapes and dtypes that do not fit ---- */

static void wrong_shapes_and_dtypes_are_refused(void **state) {
    static const struct {
        const char *name;
        int dim;
        uint64_t size; /* dims[dim] = size */
        const char *dtype;
        slc_status code;
        const char *says;
    } cases[] = {
        {"layers.0.input_layernorm.weight", 0, 63, NULL, SLC_E_FORMAT, "[63], expected [64]"},
        {"layers.0.linear_attn.conv1d.weight", 1, 3, NULL, SLC_E_FORMAT,
         "[128, 3, 1], expected [128, 1, 4] or [128, 4, 1]"},
        {"layers.0.mlp.gate.weight", 0, 5, NULL, SLC_E_FORMAT, "[5, 8], expected [4, any]"},
        {"layers.0.mlp.gate.weight", 1, 0, NULL, SLC_E_FORMAT, "[4, 0], expected [4, any]"},
        {"layers.0.mlp.gate.weight", 1, 14, NULL, SLC_E_UNSUPPORTED, "64 weights into 14 words"},
        {"layers.0.mlp.gate.weight", 1, 9, NULL, SLC_E_UNSUPPORTED, "64 weights into 9 words"},
        {"layers.0.mlp.gate.scales", 1, 3, NULL, SLC_E_UNSUPPORTED, "with 3 scales"},
        {"layers.0.mlp.gate.scales", 1, 4, NULL, SLC_E_UNSUPPORTED, "with 4 scales"},
        {"layers.0.mlp.gate.biases", 1, 1, NULL, SLC_E_FORMAT, "[4, 1], expected [4, 2]"},
        {"layers.0.mlp.gate.biases", 0, 4, "F16", SLC_E_UNSUPPORTED, "biases F16"},
        {"layers.0.mlp.gate.scales", 0, 4, "U8", SLC_E_UNSUPPORTED, "scales U8"},
        {"layers.0.mlp.gate.weight", 0, 4, "F32", SLC_E_UNSUPPORTED, "weight F32"},
        {"layers.0.mlp.switch_mlp.up_proj.weight", 0, 3, NULL, SLC_E_FORMAT,
         "[3, 32, 8], expected [4, 32, any]"},
        {"layers.0.linear_attn.A_log", 0, 2, "F8_E4M3", SLC_E_UNSUPPORTED, "stored as F8_E4M3"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        tiny_ckpt *t = tiny_create((tiny_options){.bits = 4});
        char name[128];
        tiny_tensor *x;

        snprintf(name, sizeof(name), "language_model.model.%s", cases[i].name);
        x = tiny_find(t, name);
        x->dims[cases[i].dim] = cases[i].size;
        if (cases[i].dtype) x->dtype = cases[i].dtype;
        put(t);
        must_refuse(cases[i].code, cases[i].says);
        *strrchr(name, '.') = 0; /* the module, at least, is named */
        must_refuse(cases[i].code, name + strlen("language_model.model."));
    }
}

static void packed_weights_need_scales_and_biases(void **state) {
    static const char *const gone[] = {"scales", "biases"};
    char name[128];
    tiny_ckpt *t;

    for (int i = 0; i < 2; i++) {
        t = tiny_create((tiny_options){.bits = 4});
        snprintf(name, sizeof(name), "language_model.model.layers.0.mlp.gate.%s", gone[i]);
        tiny_remove(t, name);
        put(t);
        snprintf(name, sizeof(name), "%s missing", gone[i]);
        must_refuse(SLC_E_UNSUPPORTED, name);
    }
    t = tiny_create((tiny_options){.bits = 4});
    tiny_remove(t, "language_model.model.layers.0.mlp.gate.scales");
    tiny_remove(t, "language_model.model.layers.0.mlp.gate.biases");
    put(t);
    must_refuse(SLC_E_UNSUPPORTED, "stored as U32");
}

static void experts_of_a_layer_must_be_alike_and_complete(void **state) {
    tiny_ckpt *t = tiny_create((tiny_options){.layout = TINY_SEPARATE});

    tiny_find(t, "language_model.model.layers.1.mlp.experts.2.up_proj.weight")->dtype = "F16";
    tiny_write(t, dir);
    must_refuse(SLC_E_UNSUPPORTED, "layers.1.mlp.experts.2.up_proj is encoded differently");
    tiny_remove(t, "language_model.model.layers.1.mlp.experts.2.up_proj.weight");
    put(t);
    must_refuse(SLC_E_FORMAT, "layers.1.mlp.experts.2.up_proj.weight is missing");
}

static void folders_without_a_model_are_refused(void **state) {
    slc_checkpoint *c;
    slc_err err;

    must_refuse(SLC_E_IO, "config.json");
    put(tiny_create((tiny_options){0}));
    unlink(in_dir("model.safetensors"));
    must_refuse(SLC_E_IO, "holds neither");
    assert_int_equal(open_path(in_dir("nothing"), &c, &err), SLC_E_IO);
    assert_int_equal(open_path("", &c, &err), SLC_E_IO);
    assert_int_equal(slc_checkpoint_open(in_dir("nothing"), NULL, &c, NULL), SLC_E_IO);
}

/* ---- cost ---- */

static void tables_of_a_huge_model_are_small(void **state) {
    tiny_ckpt *t = tiny_create(
        (tiny_options){.bits = 4, .n_layers = 60, .n_experts = 512, .n_files = 8, .no_data = true});
    slc_checkpoint *c;
    size_t before, after;

    put(t);
    slc_checkpoint_close(must_open(dir)); /* libraries have their own memory by now */
    before = mallinfo2().uordblks;
    c = must_open(dir);
    after = mallinfo2().uordblks;
    assert_int_equal(slc_checkpoint_expert(c, 59, 511, SLC_EXPERT_DOWN, SLC_PART_W).bytes,
                     64 * 32 / 2);
    assert_true(after - before < 512 * 1024);
    if (before) assert_true(after > before); /* a sanitizer's allocator reports nothing */
    slc_checkpoint_close(c);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, new_dir, remove_dir)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(opens_one_file_and_many),
        CASE(encodings_follow_from_shapes),
        CASE(conv_shape_alone_decides_about_norms),
        CASE(tied_embeddings_stand_in_for_the_head),
        CASE(any_prefix_is_found),
        CASE(two_prefixes_for_one_weight_are_refused),
        CASE(a01_truncated_shards_are_refused),
        CASE(a02_every_needed_tensor_must_be_there),
        CASE(a02_a04_missing_shards_are_one_plain_message),
        CASE(a03_stray_files_are_ignored_and_reported),
        CASE(a05_index_must_agree_with_headers),
        CASE(a18_mixed_widths_are_derived_and_claims_checked),
        CASE(a18_unquantised_modules_may_be_claimed_or_not),
        CASE(a20_side_towers_are_skipped_with_one_line),
        CASE(a22_links_are_followed_and_names_stay_inside),
        CASE(links_to_nothing_are_missing_files),
        CASE(a24_siblings_are_found_beside_the_link),
        CASE(a25_no_stop_id_is_a_warning),
        CASE(a27_layouts_give_the_same_bytes),
        CASE(a27_stacked_is_preferred_and_the_rest_reported),
        CASE(a27_many_shards_raise_the_open_file_limit),
        CASE(a29_dtypes_come_from_headers),
        CASE(wrong_shapes_and_dtypes_are_refused),
        CASE(packed_weights_need_scales_and_biases),
        CASE(experts_of_a_layer_must_be_alike_and_complete),
        CASE(folders_without_a_model_are_refused),
        CASE(tables_of_a_huge_model_are_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
