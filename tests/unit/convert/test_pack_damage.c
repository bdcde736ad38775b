/* Packs that are damaged, cut short or put together wrongly: refused with a reason, or read with
 * every range where it belongs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/hash64.h"
#include "format/pack.h"
#include "sluice/convert.h"
#include "support/temp.h"
#include "support/tiny_ckpt.h"

static char *dir, *path; /* path: dir/x.pack */
static uint8_t *image;   /* [n_image] the sound pack */
static size_t n_image, n_index;

static uint64_t get64(const uint8_t *p) {
    uint64_t v = 0;

    for (int i = 7; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static void put64(uint8_t *p, uint64_t v) {
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> 8 * i);
}

static int make_image(void **state) {
    tiny_ckpt *t = tiny_create((tiny_options){.bits = 4, .n_experts = 3});
    slc_pack_options opt = slc_pack_options_default();
    slc_err err = {0};
    char *model;

    dir = temp_dir();
    model = temp_path(dir, "model");
    path = temp_path(dir, "x.pack");
    mkdir(model, 0777);
    tiny_write(t, model);
    tiny_destroy(t);
    free(temp_write(model, "tokenizer.json", "{\"a\": 1}", 8));
    if (slc_pack_write(model, path, &opt, &err)) fail_msg("%s", err.msg);
    free(model);
    image = (uint8_t *)temp_read(path, &n_image);
    n_index = get64(image + 32);
    return 0;
}

static int drop_image(void **state) {
    temp_dir_remove(dir);
    free(path);
    free(image);
    return 0;
}

static void put_image(const uint8_t *bytes, size_t n) {
    free(temp_write(dir, "x.pack", bytes, n));
}

/* Overwrites the first n bytes of what put_image wrote. */
static void put_front(const uint8_t *bytes, size_t n) {
    int fd = open(path, O_WRONLY);

    assert_int_equal(pwrite(fd, bytes, n, 0), n);
    close(fd);
}

static slc_status try_open(const char *at, slc_err *err) {
    slc_checkpoint *c;
    slc_status rc;

    *err = (slc_err){0};
    rc = slc_checkpoint_open(at, NULL, &c, err);
    assert_int_equal(rc, err->code);
    if (!rc) {
        for (uint32_t l = 0; l < c->cfg.n_layers; l++)
            for (uint32_t e = 0; e < c->cfg.n_experts; e++) {
                slc_extent x = slc_checkpoint_expert_record(c, l, e);

                assert_true(x.bytes && x.off + x.bytes <= c->files[0].size_bytes);
            }
    }
    slc_checkpoint_close(c);
    return rc;
}

static void must_refuse(slc_status code, const char *says) {
    slc_err err;

    if (try_open(path, &err) != code) fail_msg("got %d (%s), expected %d", err.code, err.msg, code);
    if (!strstr(err.msg, says)) fail_msg("\"%s\" does not say \"%s\"", err.msg, says);
}

/* Makes hashes right again after a change of head or index. */
static void rehash(uint8_t *bytes) {
    put64(bytes + 40, slc_hash64_of(bytes + 64, n_index));
    put64(bytes + 56, slc_hash64_of(bytes, 56));
}

static uint8_t *copy_of_image(void) {
    uint8_t *copy = malloc(n_image);

    assert_non_null(copy);
    memcpy(copy, image, n_image);
    return copy;
}

/* ---- damage as a disk or a download does it ---- */

static void every_flipped_byte_of_head_index_and_texts_is_refused(void **state) {
    size_t end = get64(image + 64 + 32) + get64(image + 64 + 32 + 8); /* of config.json */
    uint8_t *copy = copy_of_image();
    slc_err err;

    put_image(image, n_image);
    assert_int_equal(try_open(path, &err), SLC_OK);
    for (size_t i = 0; i < end; i += i < 64 ? 1 : 7) {
        if (i >= 64 + n_index && i < get64(image + 96)) continue; /* padding */
        copy[i] ^= 0x40;
        put_front(copy, end);
        if (try_open(path, &err) != SLC_E_FORMAT && err.code != SLC_E_UNSUPPORTED)
            fail_msg("byte %zu: %d %s", i, err.code, err.msg);
        copy[i] ^= 0x40;
    }
    free(copy);
}

static void every_length_but_the_right_one_is_refused(void **state) {
    static const size_t lengths[] = {0, 1, 7, 8, 63, 64, 65, 200, 4095, 4096};
    uint8_t *longer = calloc(n_image + 1, 1);

    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        put_image(image, lengths[i]);
        must_refuse(SLC_E_FORMAT, lengths[i] < 64 ? "too few" : "cut short");
    }
    put_image(image, n_image - 1);
    must_refuse(SLC_E_FORMAT, "cut short");
    put_image(image, n_image - 4096);
    must_refuse(SLC_E_FORMAT, "cut short");
    memcpy(longer, image, n_image);
    put_image(longer, n_image + 1);
    must_refuse(SLC_E_FORMAT, "too long");
    free(longer);
}

/* ---- tables that lie, with hashes that are right ---- */

/* An interrupted writer leaves its mark at the start of a file of any length. */
static void what_an_interrupted_writer_leaves_is_called_so(void **state) {
    put_image((const uint8_t *)"SLCPART\n", 8);
    must_refuse(SLC_E_FORMAT, "unfinished pack");
    put_image(image, n_image);
    put_front((const uint8_t *)"SLCPART\n", 8);
    must_refuse(SLC_E_FORMAT, "unfinished pack");
}

static void head_fields_are_checked(void **state) {
    static const struct {
        size_t at;
        uint64_t value;
        slc_status code;
        const char *says;
    } cases[] = {
        {8, 2, SLC_E_UNSUPPORTED, "version 2, this program reads version 1"},
        {8, 1 | (uint64_t)1 << 32, SLC_E_FORMAT, "reserved"},
        {16, 1, SLC_E_FORMAT, "too long"},
        {16, UINT64_MAX, SLC_E_FORMAT, "cut short"},
        {24, 63, SLC_E_FORMAT, "the index is said to be"},
        {24, UINT64_MAX, SLC_E_FORMAT, "the index is said to be"},
        {32, UINT64_MAX, SLC_E_FORMAT, "the index is said to be"},
        {32, 0, SLC_E_FORMAT, "index is damaged"},
        {40, 0, SLC_E_FORMAT, "index is damaged"},
        {48, 1, SLC_E_FORMAT, "reserved"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint8_t *copy = copy_of_image();

        put64(copy + cases[i].at, cases[i].value);
        put64(copy + 56, slc_hash64_of(copy, 56));
        put_image(copy, n_image);
        must_refuse(cases[i].code, cases[i].says);
        free(copy);
    }
}

/* Every 32-bit word of the index in turn holds a value that a careless reader would trip over. */
static void no_index_field_is_trusted(void **state) {
    static const uint32_t values[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff};
    uint8_t *copy = copy_of_image();
    unsigned n_refused = 0, n_taken = 0;
    slc_err err;

    put_image(image, n_image);
    for (size_t at = 64; at + 4 <= 64 + n_index; at += 4)
        for (size_t v = 0; v < sizeof(values) / sizeof(*values); v++) {
            for (int i = 0; i < 4; i++) copy[at + (size_t)i] = (uint8_t)(values[v] >> 8 * i);
            rehash(copy);
            put_front(copy, 64 + n_index);
            if (try_open(path, &err)) {
                assert_true(err.code == SLC_E_FORMAT || err.code == SLC_E_NOMEM);
                assert_true(strlen(err.msg) > strlen(path) + 10);
                n_refused++;
            } else {
                n_taken++; /* hashes of weights, times and names of sources */
            }
            memcpy(copy + at, image + at, 4);
        }
    free(copy);
    assert_true(n_refused > 2 * n_taken / 3 && n_taken > 0);
}

static void a_weight_in_the_wrong_place_is_named(void **state) {
    size_t at = 64 + 32 + 5 * 24 + 40 + strlen("model.safetensors"); /* the first weight */
    uint8_t *copy = copy_of_image();

    copy[at + 4] = 1; /* its id: embed_tokens becomes norm.weight */
    rehash(copy);
    put_image(copy, n_image);
    must_refuse(SLC_E_FORMAT, "expected the weight embed_tokens, found norm.weight");
    memcpy(copy, image, n_image);
    put64(copy + at + 24, get64(copy + at + 24) + 64); /* into the next one */
    rehash(copy);
    put_image(copy, n_image);
    must_refuse(SLC_E_FORMAT, "weight 1 is said to be");
    free(copy);
}

/* ---- paths ---- */

static void a_folder_with_one_pack_is_that_pack(void **state) {
    char *sub = temp_path(dir, "sub"), *other;
    slc_err err;

    mkdir(sub, 0777);
    free(temp_write(sub, "model.pack", image, n_image));
    free(temp_write(sub, "notes.txt", "x", 1));
    assert_int_equal(try_open(sub, &err), SLC_OK);
    other = temp_write(sub, "second.pack", image, n_image);
    assert_int_equal(try_open(sub, &err), SLC_E_INVALID);
    assert_non_null(strstr(err.msg, "several packs"));
    unlink(other);
    free(other);
    other = temp_write(sub, "any name", image, n_image);
    assert_int_equal(try_open(other, &err), SLC_OK);
    free(other);
    other = temp_write(sub, "letter.pack", "my letters", 10);
    assert_int_equal(try_open(other, &err), SLC_E_FORMAT);
    free(other);
    other = temp_path(sub, "none.pack");
    assert_int_equal(try_open(other, &err), SLC_E_IO);
    free(other);
    free(sub);
}

/* ---- damaged weights ---- */

static void must_not_verify(const char *says) {
    slc_pack_options opt = slc_pack_options_default();
    slc_err err = {0};

    assert_int_equal(slc_pack_verify(path, &opt, &err), SLC_E_FORMAT);
    if (!strstr(err.msg, says)) fail_msg("\"%s\" does not say \"%s\"", err.msg, says);
}

static void verify_names_the_first_that_is_damaged(void **state) {
    slc_pack_options opt = slc_pack_options_default();
    slc_extent router, second, last;
    slc_checkpoint *c;
    slc_err err = {0};
    uint8_t *copy;

    put_image(image, n_image);
    assert_int_equal(slc_pack_verify(path, &opt, &err), SLC_OK);
    assert_int_equal(slc_checkpoint_open(path, NULL, &c, &err), SLC_OK);
    router = c->layers[2].w[SLC_W_ROUTER].part[SLC_PART_W];
    second = slc_checkpoint_expert_record(c, 1, 1);
    last = slc_checkpoint_expert_record(c, 3, 2);
    slc_checkpoint_close(c);

    copy = copy_of_image();
    copy[last.off + last.bytes - 1] ^= 1;
    put_image(copy, n_image);
    must_not_verify("expert 2 of layer 3 is damaged");
    copy[second.off] ^= 0x80;
    put_image(copy, n_image);
    must_not_verify("expert 1 of layer 1 is damaged");
    copy[router.off + 5] ^= 4;
    put_image(copy, n_image);
    must_not_verify("layers.2.mlp.gate is damaged");
    copy[get64(image + 64 + 32 + 2 * 24)] ^= 1;
    put_image(copy, n_image);
    must_not_verify("tokenizer.json in the pack is damaged");
    free(copy);
}

static void an_expert_as_read_is_held_against_its_hash(void **state) {
    const uint8_t *part[SLC_N_PROJ][SLC_N_PARTS] = {0};
    slc_checkpoint *c;
    slc_err err = {0};
    uint8_t *copy = copy_of_image();

    put_image(image, n_image);
    assert_int_equal(slc_checkpoint_open(path, NULL, &c, &err), SLC_OK);
    for (int i = 0; i < SLC_N_PROJ * SLC_N_PARTS; i++)
        part[i / 3][i % 3] = copy + slc_checkpoint_expert(c, 2, 1, i / 3, i % 3).off;
    assert_true(slc_checkpoint_verify_expert(c, 2, 1, part));
    assert_false(slc_checkpoint_verify_expert(c, 2, 0, part));
    assert_false(slc_checkpoint_verify_expert(c, 1, 1, part));
    for (int i = 0; i < SLC_N_PROJ * SLC_N_PARTS; i++) {
        slc_extent x = slc_checkpoint_expert(c, 2, 1, i / 3, i % 3);

        copy[x.off + x.bytes - 1] ^= 1;
        assert_false(slc_checkpoint_verify_expert(c, 2, 1, part));
        copy[x.off + x.bytes - 1] ^= 1;
    }
    assert_true(slc_checkpoint_verify_expert(c, 2, 1, part));
    slc_checkpoint_close(c);
    free(copy);
}

static void folders_have_nothing_to_verify(void **state) {
    const uint8_t *part[SLC_N_PROJ][SLC_N_PARTS] = {0};
    slc_pack_options opt = slc_pack_options_default();
    char *model = temp_path(dir, "model");
    slc_checkpoint *c;
    slc_err err = {0};

    assert_int_equal(slc_pack_verify(model, &opt, &err), SLC_E_INVALID);
    err = (slc_err){0};
    assert_int_equal(slc_checkpoint_open(model, NULL, &c, &err), SLC_OK);
    assert_true(slc_checkpoint_verify_expert(c, 0, 0, part));
    slc_checkpoint_close(c);
    free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flipped_byte_of_head_index_and_texts_is_refused),
        cmocka_unit_test(every_length_but_the_right_one_is_refused),
        cmocka_unit_test(what_an_interrupted_writer_leaves_is_called_so),
        cmocka_unit_test(head_fields_are_checked),
        cmocka_unit_test(no_index_field_is_trusted),
        cmocka_unit_test(a_weight_in_the_wrong_place_is_named),
        cmocka_unit_test(a_folder_with_one_pack_is_that_pack),
        cmocka_unit_test(verify_names_the_first_that_is_damaged),
        cmocka_unit_test(an_expert_as_read_is_held_against_its_hash),
        cmocka_unit_test(folders_have_nothing_to_verify),
    };
    return cmocka_run_group_tests(tests, make_image, drop_image);
}
