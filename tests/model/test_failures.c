/* What fails, fails alone: an expert that cannot be read, or weights that are not numbers, break
 * the sequences that needed them and no other; a broken sequence says so until it is reset, and is
 * then as good as new. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/model_internal.h"
#include "support/faults.h"
#include "support/run.h"
#include "support/temp.h"

#define MODEL                                                                                      \
    "tests/golden/moe-many" /* 40 experts a layer: one token leaves most of them unread            \
                             */
#define N_LONG 60u

static const int32_t one_token[] = {5};
static int32_t many[N_LONG];
/* What every opened model reads its experts through. */
static faults disk;

/* ---- a copy of the model, to be damaged ---- */

typedef struct copy {
    char *dir, *weights;
    char *bytes; /* the weights as they should be */
    size_t n;
} copy;

static copy copy_model(void) {
    static const char *const names[] = {"config.json", "model.safetensors"};
    copy c = {.dir = temp_dir()};

    for (int i = 0; i < 2; i++) {
        char relative[128], *path;
        size_t n;

        snprintf(relative, sizeof(relative), MODEL "/%s", names[i]);
        path = source_path(relative);
        free(c.bytes);
        c.bytes = temp_read(path, &n);
        c.n = n;
        free(path);
        free(c.weights);
        c.weights = temp_write(c.dir, names[i], c.bytes, n);
    }
    return c;
}

static void write_weights(const copy *c) {
    int fd = open(c->weights, O_WRONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, c->bytes, c->n, 0), (ssize_t)c->n);
    close(fd);
}

static void remove_copy(copy *c) {
    temp_dir_remove(c->dir);
    free(c->weights);
    free(c->bytes);
}

static slc_model *open_with(const copy *c, slc_model_options o) {
    slc_err err = {0};
    slc_model *m;

    o.ctx_size = 128;
    o.n_seqs = 2;
    o.memory_bytes = 256ull << 20; /* all experts fit: what was read stays */
    if (slc_model_open(c->dir, &o, &m, &err)) fail_msg("%s", err.msg);
    faults_init(&disk);
    m->ckpt->files[0].sys = &disk.sys;
    return m;
}

static slc_model *open_copy(const copy *c, const char *io) {
    slc_model_options o = slc_model_options_default();

    o.io = io;
    return open_with(c, o);
}

/* From now on reads of these bytes fail, and at once. */
static void break_disk(uint64_t off, uint64_t bytes) {
    disk.bad_off = off;
    disk.bad_len = bytes;
    disk.bad_errno = ENXIO;
    disk.bad_times = UINT32_MAX;
}

static void mend_disk(void) {
    disk.bad_times = 0;
}

/* ---- steps ---- */

typedef struct pair {
    slc_step_item items[2];
    float *logits[2]; /* of the last token; calls counted */
    uint32_t calls[2], vocab;
} pair;

static void keep(void *user, uint32_t item, uint32_t pos, const float *logits) {
    pair *p = user;

    (void)pos;
    memcpy(p->logits[item], logits, p->vocab * sizeof(float));
    p->calls[item]++;
}

static pair new_pair(slc_model *m) {
    pair p = {.vocab = run_vocab(m)};
    slc_err err = {0};

    for (int i = 0; i < 2; i++) {
        assert_int_equal(slc_seq_create(m, &p.items[i].seq, &err), SLC_OK);
        p.items[i].want = SLC_WANT_LAST;
        p.logits[i] = calloc(p.vocab, sizeof(float));
        assert_non_null(p.logits[i]);
    }
    return p;
}

static void set(pair *p, int i, const int32_t *tokens, uint32_t n) {
    p->items[i].tokens = tokens;
    p->items[i].n_tokens = n;
}

static void step(slc_model *m, pair *p) {
    slc_err err = {0};

    p->calls[0] = p->calls[1] = 0;
    assert_int_equal(slc_step(m, p->items, 2, keep, p, &err), SLC_OK);
}

static void free_pair(pair *p) {
    for (int i = 0; i < 2; i++) {
        slc_seq_destroy(p->items[i].seq);
        free(p->logits[i]);
    }
}

static void assert_same(const float *a, const float *b, uint32_t n) {
    assert_memory_equal(a, b, n * sizeof(float));
}

/* Item `bad` needs experts that cannot be read, the other has all of its own in the cache. */
static void check_failed_read(const char *io, int bad) {
    copy c = copy_model();
    slc_model *m = open_copy(&c, io);
    float *short_alone, *long_alone;
    int good = 1 - bad;
    pair p;

    { /* the reference: nothing of it is cached in m */
        slc_model *whole = open_copy(&c, io);

        short_alone = run_last_logits(whole, one_token, 1);
        long_alone = run_last_logits(whole, many, N_LONG);
        slc_model_close(whole);
    }
    free(run_last_logits(m, one_token, 1)); /* its experts are in the cache from here on */
    break_disk(0, c.n);

    p = new_pair(m);
    set(&p, good, one_token, 1);
    set(&p, bad, many, N_LONG);
    step(m, &p);
    assert_int_equal(p.items[good].err.code, SLC_OK);
    assert_int_equal(p.calls[good], 1);
    assert_same(p.logits[good], short_alone, p.vocab);
    assert_int_equal(p.items[bad].err.code, SLC_E_IO);
    assert_int_equal(p.calls[bad], 0);
    assert_non_null(strstr(p.items[bad].err.msg, "layer 0, expert "));
    assert_non_null(strstr(p.items[bad].err.msg, "model.safetensors"));

    /* Broken until it is reset; the other goes on. */
    slc_seq_reset(p.items[good].seq);
    set(&p, bad, one_token, 1);
    step(m, &p);
    assert_int_equal(p.items[bad].err.code, SLC_E_INVALID);
    assert_non_null(strstr(p.items[bad].err.msg, "reset"));
    assert_int_equal(p.calls[bad], 0);
    assert_int_equal(p.items[good].err.code, SLC_OK);
    assert_same(p.logits[good], short_alone, p.vocab);

    /* The disk is back: nothing of the failure is left in the cache or in the sequence. */
    mend_disk();
    slc_seq_reset(p.items[good].seq);
    slc_seq_reset(p.items[bad].seq);
    set(&p, bad, many, N_LONG);
    step(m, &p);
    assert_int_equal(p.items[bad].err.code, SLC_OK);
    assert_same(p.logits[bad], long_alone, p.vocab);
    assert_same(p.logits[good], short_alone, p.vocab);
    slc_store_check(m->source.store);

    free_pair(&p);
    free(short_alone);
    free(long_alone);
    slc_model_close(m);
    remove_copy(&c);
}

static void a_failed_read_fails_those_who_need_it(void **state) {
    static const char *const io[] = {"threads", "auto"};

    (void)state;
    for (int i = 0; i < 2; i++)
        for (int bad = 0; bad < 2; bad++) check_failed_read(io[i], bad);
}

/* Two that need the same expert both fail; the same tokens, so that they need nothing else. */
static void a_failed_read_fails_all_who_need_it(void **state) {
    copy c = copy_model();
    slc_model *m = open_copy(&c, "auto");
    pair p = new_pair(m);

    (void)state;
    break_disk(0, c.n);
    for (int i = 0; i < 2; i++) set(&p, i, one_token, 1);
    step(m, &p);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(p.items[i].err.code, SLC_E_IO);
        assert_int_equal(p.calls[i], 0);
    }
    free_pair(&p);
    slc_model_close(m);
    remove_copy(&c);
}

/* Feeds each item a token of its own; the expert of layer 0 that each is told of. */
static void step_failing(slc_model *m, pair *p, const int32_t *token, uint32_t *expert) {
    for (int i = 0; i < 2; i++) {
        slc_seq_reset(p->items[i].seq);
        set(p, i, &token[i], 1);
    }
    step(m, p);
    for (int i = 0; i < 2; i++) {
        const char *msg = p->items[i].err.msg;

        if (sscanf(msg, "layer 0, expert %u: ", &expert[i]) != 1) fail_msg("\"%s\"", msg);
    }
}

/* Whether the token fails when this expert of layer 0 alone cannot be read. */
static void expect_use(const copy *c, int32_t token, uint32_t expert) {
    slc_model *m = open_copy(c, "buffered"); /* no read touches a neighbour */
    slc_extent e = slc_checkpoint_expert(m->ckpt, 0, expert, SLC_EXPERT_UP, SLC_PART_W);
    slc_step_item it = {.tokens = &token, .n_tokens = 1};
    slc_err err = {0};

    break_disk(e.off, e.bytes);
    assert_int_equal(slc_seq_create(m, &it.seq, &err), SLC_OK);
    assert_int_equal(slc_step(m, &it, 1, NULL, NULL, &err), SLC_OK);
    assert_int_equal(it.err.code, SLC_E_IO);
    slc_seq_destroy(it.seq);
    slc_model_close(m);
}

/* Nothing can be read: each item is told of an expert that it needs itself. */
static void every_item_is_told_its_own_failure(void **state) {
    copy c = copy_model();
    slc_model *m = open_copy(&c, "auto");
    pair p = new_pair(m);
    uint32_t n_different = 0;

    (void)state;
    for (int32_t k = 0; k < 4; k++) {
        int32_t token[2] = {5 + 7 * k, 90 + 11 * k};
        uint32_t expert[2];

        break_disk(0, c.n);
        step_failing(m, &p, token, expert);
        n_different += expert[0] != expert[1];
        for (int i = 0; i < 2; i++) expect_use(&c, token[i], expert[i]);
    }
    assert_true(n_different > 0);
    free_pair(&p);
    slc_model_close(m);
    remove_copy(&c);
}

/* So do the original's two ways, for single tokens and for prompts. */
static void every_stream_mode_names_the_expert(void **state) {
    static const char *const modes[] = {"serial", "seed"};

    (void)state;
    for (int i = 0; i < 2; i++)
        for (uint32_t n = 1; n <= N_LONG; n += N_LONG - 1) {
            copy c = copy_model();
            slc_model_options o = slc_model_options_default();
            slc_model *m;
            pair p;

            o.stream_mode = modes[i];
            m = open_with(&c, o);
            p = new_pair(m);
            break_disk(0, c.n);
            for (int k = 0; k < 2; k++) set(&p, k, many, n);
            step(m, &p);
            for (int k = 0; k < 2; k++) {
                assert_int_equal(p.items[k].err.code, SLC_E_IO);
                assert_non_null(strstr(p.items[k].err.msg, "layer 0, expert "));
                assert_non_null(strstr(p.items[k].err.msg, "model.safetensors: cannot read"));
            }
            free_pair(&p);
            slc_model_close(m);
            remove_copy(&c);
        }
}

/* A generation that meets a failed read ends with an error and what was made so far. */
static void a_generation_keeps_what_was_made(void **state) {
    copy c = copy_model();
    slc_model *m = open_copy(&c, "auto");
    slc_generate_options o = {.sampling = slc_sampling_default(m), .max_tokens = 50};
    slc_generation g;
    slc_err err = {0};
    slc_seq *s;

    (void)state;
    o.ignore_eos = true;
    o.sampling.temperature = 0;
    assert_int_equal(slc_seq_create(m, &s, &err), SLC_OK);
    free(run_last_logits(m, one_token, 1));
    break_disk(0, c.n);
    assert_int_equal(slc_generate(m, s, one_token, 1, &o, &g, &err), SLC_E_IO);
    assert_int_equal(g.finish, SLC_FINISH_ERROR);
    assert_true(g.n_ids >= 1 && g.n_ids < 50);
    assert_non_null(g.text);
    slc_generation_deinit(&g);

    slc_seq_reset(s);
    mend_disk();
    err = (slc_err){0};
    assert_int_equal(slc_generate(m, s, one_token, 1, &o, &g, &err), SLC_OK);
    assert_int_equal(g.n_ids, 50);
    slc_generation_deinit(&g);
    slc_model_close(m);
    remove_copy(&c);
}

/* Overwrites the scales of one row of an affine matrix with infinities, in memory and on disk. */
static void spoil_row(copy *c, const slc_weight *w, uint32_t row) {
    uint64_t bytes = slc_matrix_row_bytes(&w->type, SLC_PART_SCALES);
    uint8_t *at = (uint8_t *)c->bytes + w->part[SLC_PART_SCALES].off + row * bytes;

    assert_true(bytes > 0 && w->type.scale_dtype == SLC_DTYPE_BF16);
    for (uint64_t i = 0; i < bytes; i += 2) at[i] = 0x80, at[i + 1] = 0x7f;
    write_weights(c);
}

/* An embedding row full of infinities: whoever feeds that id fails, at its position. */
static void values_that_are_not_finite_fail_their_sequence(void **state) {
    copy c = copy_model();
    slc_model *m = open_copy(&c, "auto");
    int32_t with_bad[9];
    float *alone = run_last_logits(m, many, 20);

    (void)state;
    spoil_row(&c, &m->ckpt->w[SLC_W_EMBED], 77);
    slc_model_close(m);
    m = open_copy(&c, "auto");
    for (int i = 0; i < 9; i++) with_bad[i] = i == 6 ? 77 : 5 + i;
    for (int bad = 0; bad < 2; bad++) {
        pair p = new_pair(m);

        set(&p, bad, with_bad, 9);
        set(&p, 1 - bad, many, 20);
        step(m, &p);
        assert_int_equal(p.items[1 - bad].err.code, SLC_OK);
        assert_same(p.logits[1 - bad], alone, p.vocab);
        assert_int_equal(p.items[bad].err.code, SLC_E_FORMAT);
        assert_non_null(strstr(p.items[bad].err.msg, "layer 0"));
        assert_non_null(strstr(p.items[bad].err.msg, "position 6"));
        assert_int_equal(p.calls[bad], 0);
        free_pair(&p);
    }
    free(alone);
    slc_model_close(m);
    remove_copy(&c);
}

static void logits_that_are_not_finite_are_never_handed_out(void **state) {
    copy c = copy_model();
    slc_model *m = open_copy(&c, "auto");
    pair p;

    (void)state;
    spoil_row(&c, &m->ckpt->w[SLC_W_LM_HEAD], 200);
    slc_model_close(m);
    m = open_copy(&c, "auto");
    p = new_pair(m);
    set(&p, 0, many, 4);
    set(&p, 1, many, 6);
    p.items[1].want = SLC_WANT_NONE; /* never looks at lm_head */
    step(m, &p);
    assert_int_equal(p.items[0].err.code, SLC_E_FORMAT);
    assert_non_null(strstr(p.items[0].err.msg, "lm_head"));
    assert_int_equal(p.calls[0], 0);
    assert_int_equal(p.items[1].err.code, SLC_OK);
    free_pair(&p);
    slc_model_close(m);
    remove_copy(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_read_fails_those_who_need_it),
        cmocka_unit_test(a_failed_read_fails_all_who_need_it),
        cmocka_unit_test(every_item_is_told_its_own_failure),
        cmocka_unit_test(every_stream_mode_names_the_expert),
        cmocka_unit_test(a_generation_keeps_what_was_made),
        cmocka_unit_test(values_that_are_not_finite_fail_their_sequence),
        cmocka_unit_test(logits_that_are_not_finite_are_never_handed_out),
    };

    for (uint32_t i = 0; i < N_LONG; i++) many[i] = (int32_t)(100 + 37 * i % 150);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
