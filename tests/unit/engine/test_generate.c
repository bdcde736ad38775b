/* Generation over a scripted model: slc_step here answers with the next id of a list, the tokenizer
 * has a table of pieces. No file, no weights. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fail.h"
#include "engine/model_internal.h"

enum { VOCAB = 16, CTX = 12, CHUNK = 3, EOS = 15, FIRST_BYTE = 13, NUL_ID = 14 };

/* Ids 0..12 are text; 13 is the first byte of a two-byte character whose second is in 12; 14 is a
 * zero byte; 15 ends. */
static const char *const piece[VOCAB] = {"a", "b", "c", "ab", "STOP", "ST",   "OP", "x",
                                         "O", "P", "!", " ",  "\xa9", "\xc3", "",   ""};

static struct {
    slc_model model;
    slc_checkpoint *ckpt;
    uint32_t len; /* of the one sequence */
    const int32_t *script;
    uint32_t n_script, n_asked;
    uint32_t passes[32], n_passes;
    uint32_t fail_at, cancel_at; /* number of the step that does; 0: none */
    bool nan;
    int32_t fed[64];
} fake;

/* ---- what generate.c needs ---- */

void slc_model_get_info(const slc_model *m, slc_model_info *info) {
    *info = (slc_model_info){.vocab_size = VOCAB, .ctx_size = CTX, .prefill_chunk = CHUNK};
}

bool slc_model_is_stop_id(const slc_model *m, int32_t id) {
    return id == EOS;
}

uint32_t slc_seq_len(const slc_seq *s) {
    return fake.len;
}

slc_status slc_step(slc_model *m, slc_step_item *items, uint32_t n_items, slc_logits_fn *on_logits,
                    void *user, slc_err *err) {
    float logits[VOCAB] = {0};

    assert_int_equal(n_items, 1);
    assert_true(fake.len + items[0].n_tokens <= CTX);
    fake.passes[fake.n_passes++] = items[0].n_tokens;
    if (fake.n_passes == fake.cancel_at) return slc_fail(err, SLC_E_CANCELLED, "cancelled");
    if (fake.n_passes == fake.fail_at) {
        slc_fail(&items[0].err, SLC_E_IO, "expert 3 of layer 1 could not be read");
        return SLC_OK;
    }
    memcpy(fake.fed + fake.len, items[0].tokens, items[0].n_tokens * sizeof(int32_t));
    fake.len += items[0].n_tokens;
    if (items[0].want == SLC_WANT_NONE) return SLC_OK;
    assert_true(fake.n_asked < fake.n_script);
    logits[fake.script[fake.n_asked++]] = fake.nan ? NAN : 5;
    on_logits(user, 0, items[0].n_tokens - 1, logits);
    return SLC_OK;
}

size_t slc_detok_max_bytes(const slc_tokenizer *t) {
    return 8;
}

size_t slc_detok_push(slc_detok *d, const slc_tokenizer *t, int32_t id, bool skip_special,
                      char *out) {
    size_t n = 0, n_piece = id == NUL_ID ? 1 : strlen(piece[id]);

    assert_true(skip_special);
    if (id == FIRST_BYTE) {
        d->tail[0] = piece[id][0];
        d->n_tail = 1;
        return 0;
    }
    if (d->n_tail) out[n++] = d->tail[0];
    d->n_tail = 0;
    memcpy(out + n, piece[id], n_piece);
    return n + n_piece;
}

size_t slc_detok_finish(slc_detok *d, char out[4]) {
    if (!d->n_tail) return 0;
    memcpy(out, "\xef\xbf\xbd", 3);
    return 3;
}

/* ---- harness ---- */

typedef struct sink {
    char text[128];
    size_t n;
    uint32_t calls, accept, prefill_calls, prefill_done;
} sink;

static bool on_text(void *user, const char *text, size_t n) {
    sink *s = user;

    assert_true(s->calls < s->accept); /* not asked again after "no more" */
    memcpy(s->text + s->n, text, n);
    s->n += n;
    return ++s->calls < s->accept;
}

static void on_prefill(void *user, uint32_t done, uint32_t total) {
    sink *s = user;

    assert_true(done > s->prefill_done && done <= total);
    s->prefill_done = done;
    s->prefill_calls++;
}

static int setup(void **state) {
    memset(&fake, 0, sizeof(fake));
    fake.ckpt = calloc(1, sizeof(*fake.ckpt));
    fake.model.ckpt = fake.ckpt;
    fake.model.tok = (slc_tokenizer *)&fake; /* only ever passed back to the functions above */
    return slc_sampler_create(VOCAB, &fake.model.sampler, NULL);
}

static int teardown(void **state) {
    slc_sampler_destroy(fake.model.sampler);
    free(fake.ckpt);
    return 0;
}

static const int32_t prompt[] = {0, 1, 2, 0, 1};

typedef struct result {
    slc_status rc;
    slc_generation out;
    sink sink;
    slc_err err;
} result;

static result run(const int32_t *script, uint32_t n_script, slc_generate_options opt) {
    result r = {.sink.accept = 1000};

    fake.script = script;
    fake.n_script = n_script;
    opt.sampling = (slc_sampling){.top_p = 1, .repeat_penalty = 1};
    if (!opt.user) {
        opt.on_text = on_text;
        opt.on_prefill = on_prefill;
        opt.user = &r.sink;
    }
    r.rc = slc_generate(&fake.model, NULL, prompt, 5, &opt, &r.out, &r.err);
    return r;
}

#define RUN(opt, ...)                                                                              \
    run((const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t), opt)

static void expect(result *r, slc_status rc, slc_finish finish, const char *text, uint32_t n_ids) {
    assert_int_equal(r->rc, rc);
    assert_int_equal(r->out.finish, finish);
    assert_non_null(r->out.text);
    assert_string_equal(r->out.text, text);
    assert_int_equal(r->out.n_text, strlen(text));
    assert_int_equal(r->out.n_ids, n_ids);
    assert_int_equal(r->sink.n, strlen(text));
    assert_memory_equal(r->sink.text, text, r->sink.n);
    slc_generation_deinit(&r->out);
}

static const slc_generate_options none;

/* ---- cases ---- */

static void stops_at_a_stop_id_and_keeps_it_out_of_the_text(void **state) {
    result r = RUN(none, 0, 3, 2, EOS);

    assert_int_equal(r.out.ids[3], EOS);
    assert_int_equal(r.out.n_prompt, 5);
    expect(&r, SLC_OK, SLC_FINISH_STOP, "aabc", 4);
}

static void feeds_the_prompt_in_passes_and_then_every_token_once(void **state) {
    static const int32_t want[] = {0, 1, 2, 0, 1, 7, 8};
    result r = RUN(none, 7, 8, EOS);

    assert_int_equal(fake.n_passes, 4); /* 3 + 2, 1, 1 */
    assert_int_equal(fake.passes[0], 3);
    assert_int_equal(fake.passes[1], 2);
    assert_int_equal(r.sink.prefill_calls, 2);
    assert_int_equal(r.sink.prefill_done, 5);
    assert_int_equal(fake.len, 7);
    assert_memory_equal(fake.fed, want, sizeof(want));
    expect(&r, SLC_OK, SLC_FINISH_STOP, "xO", 3);
}

static void ignore_eos_goes_on(void **state) {
    slc_generate_options opt = {.ignore_eos = true, .max_tokens = 3};
    result r = RUN(opt, 0, EOS, 1);

    expect(&r, SLC_OK, SLC_FINISH_LENGTH, "ab", 3);
}

static void ends_at_max_tokens_or_when_the_context_is_full(void **state) {
    slc_generate_options two = {.max_tokens = 2}, many = {.max_tokens = 1000};
    result r = RUN(two, 0, 1, 2, 0);

    expect(&r, SLC_OK, SLC_FINISH_LENGTH, "ab", 2);
    fake.len = fake.n_asked = fake.n_passes = 0;
    r = RUN(many, 0, 1, 2, 0, 1, 2, 0, 1, 2);
    expect(&r, SLC_OK, SLC_FINISH_LENGTH, "abcabca", CTX - 5);
    fake.len = fake.n_asked = fake.n_passes = 0;
    r = RUN(none, 0, 1, 2, 0, 1, 2, 0, 1, 2);
    expect(&r, SLC_OK, SLC_FINISH_LENGTH, "abcabca", CTX - 5);
}

static void a_stop_string_across_tokens_never_leaks(void **state) {
    const char *stop[] = {"STOP"};
    slc_generate_options opt = {.stop = stop, .n_stop = 1};
    result r = RUN(opt, 0, 5, 7, 5, 8, 9); /* "a" "ST" "x" "ST" "O" "P" */

    expect(&r, SLC_OK, SLC_FINISH_STOP, "aSTx", 6);
    fake.len = fake.n_asked = fake.n_passes = 0;
    r = RUN(opt, 0, 5, EOS); /* held back, but it was no stop string */
    expect(&r, SLC_OK, SLC_FINISH_STOP, "aST", 3);
}

static void characters_stay_whole(void **state) {
    slc_generate_options one = {.max_tokens = 1};
    result r = RUN(none, FIRST_BYTE, 12, EOS);

    expect(&r, SLC_OK, SLC_FINISH_STOP, "\xc3\xa9", 3);
    fake.len = fake.n_asked = fake.n_passes = 0;
    r = RUN(one, FIRST_BYTE);
    expect(&r, SLC_OK, SLC_FINISH_LENGTH, "\xef\xbf\xbd", 1);
}

static void a_stop_string_completed_by_the_end_counts(void **state) {
    const char *stop[] = {"\xef\xbf\xbd"};
    slc_generate_options opt = {.max_tokens = 2, .stop = stop, .n_stop = 1};
    result r = RUN(opt, 0, FIRST_BYTE);

    expect(&r, SLC_OK, SLC_FINISH_STOP, "a", 2);
}

static void zero_bytes_are_text(void **state) {
    slc_generate_options two = {.max_tokens = 2};
    result r = RUN(two, NUL_ID, 0);

    assert_int_equal(r.rc, SLC_OK);
    assert_int_equal(r.out.n_text, 2);
    assert_memory_equal(r.out.text, "\0a", 3);
    slc_generation_deinit(&r.out);
}

static void cancelling_keeps_what_was_made(void **state) {
    result r;

    fake.cancel_at = 4; /* 2 passes of the prompt, one token, then this */
    r = RUN(none, 0, 1, 2);
    expect(&r, SLC_E_CANCELLED, SLC_FINISH_CANCELLED, "ab", 2);
    fake.len = fake.n_asked = fake.n_passes = 0;
    fake.cancel_at = 2;
    r = RUN(none, 0);
    expect(&r, SLC_E_CANCELLED, SLC_FINISH_CANCELLED, "", 0);
}

static void the_receiver_can_end_it_and_is_not_asked_again(void **state) {
    sink s = {.accept = 2};
    slc_generate_options opt = {.on_text = on_text, .user = &s};
    result r = RUN(opt, 0, 1, 2);

    assert_int_equal(r.rc, SLC_E_CANCELLED);
    assert_int_equal(r.out.finish, SLC_FINISH_CANCELLED);
    assert_int_equal(s.calls, 2);
    assert_string_equal(r.out.text, "ab");
    slc_generation_deinit(&r.out);
}

static void a_late_cancel_is_not_the_next_calls(void **state) {
    result r;

    atomic_store(&fake.model.cancel, true);
    r = RUN(none, 0, EOS);
    expect(&r, SLC_OK, SLC_FINISH_STOP, "a", 2);
    assert_false(atomic_load(&fake.model.cancel));
}

static void a_failed_step_reports_its_cause_and_what_was_made(void **state) {
    result r;

    fake.fail_at = 4;
    r = RUN(none, 0, 1, 2);
    assert_string_equal(r.err.msg, "expert 3 of layer 1 could not be read");
    expect(&r, SLC_E_IO, SLC_FINISH_ERROR, "ab", 2);
}

static void nan_is_an_error_never_a_token(void **state) {
    result r;

    fake.nan = true;
    r = RUN(none, 4);
    assert_non_null(strstr(r.err.msg, "position 5: the logit of id 4 is "));
    expect(&r, SLC_E_FORMAT, SLC_FINISH_ERROR, "", 0);
}

static void bad_calls_fail_before_any_work(void **state) {
    static const int32_t bad_id[] = {0, VOCAB, 1}, negative[] = {-1}, any[CTX] = {0};
    const char *empty[] = {""}, *stop[] = {"x"};
    slc_generate_options opt = {.sampling = {.top_p = 1, .repeat_penalty = 1}};
    slc_generation out;
    slc_err err = {0};

    assert_int_equal(slc_generate(&fake.model, NULL, any, 0, &opt, &out, NULL), SLC_E_INVALID);
    assert_int_equal(slc_generate(&fake.model, NULL, any, CTX, &opt, &out, &err), SLC_E_INVALID);
    assert_non_null(strstr(err.msg, "12 tokens"));
    err = (slc_err){0};
    assert_int_equal(slc_generate(&fake.model, NULL, bad_id, 3, &opt, &out, &err), SLC_E_INVALID);
    assert_string_equal(err.msg, "token 1 of the prompt is 16, expected an id from 0 to 15");
    assert_int_equal(slc_generate(&fake.model, NULL, negative, 1, &opt, &out, NULL), SLC_E_INVALID);
    opt.stop = empty;
    opt.n_stop = 1;
    assert_int_equal(slc_generate(&fake.model, NULL, any, 1, &opt, &out, NULL), SLC_E_INVALID);
    opt.stop = stop;
    fake.model.tok = NULL;
    assert_int_equal(slc_generate(&fake.model, NULL, any, 1, &opt, &out, NULL), SLC_E_INVALID);
    opt.n_stop = 0;
    opt.sampling.top_p = 2;
    assert_int_equal(slc_generate(&fake.model, NULL, any, 1, &opt, &out, NULL), SLC_E_INVALID);
    assert_int_equal(out.finish, SLC_FINISH_ERROR);
    assert_int_equal(fake.n_passes, 0);
    slc_generation_deinit(&out);
}

static void works_without_a_tokenizer(void **state) {
    result r;

    fake.model.tok = NULL;
    r = RUN(none, 0, 4, EOS);
    assert_int_equal(r.out.ids[1], 4);
    expect(&r, SLC_OK, SLC_FINISH_STOP, "", 3);
}

static void continues_a_sequence(void **state) {
    slc_generate_options opt = {.max_tokens = 100};
    result r;

    fake.len = 4;
    r = RUN(opt, 0, 1, 2, 0);
    expect(&r, SLC_OK, SLC_FINISH_LENGTH, "abc", CTX - 4 - 5);
}

static void defaults_come_from_the_configuration(void **state) {
    slc_config *c = &fake.ckpt->cfg;
    slc_sampling p;

    c->temperature = c->top_p = c->min_p = c->repeat_penalty = c->presence_penalty = -1;
    c->top_k = -1;
    c->do_sample = -1;
    p = slc_sampling_default(&fake.model);
    assert_true(p.temperature == 1 && p.top_k == 0 && p.top_p == 1 && p.min_p == 0);
    assert_true(p.repeat_penalty == 1 && p.presence_penalty == 0 && p.repeat_last_n == 64);
    c->temperature = 0.5f;
    c->top_k = 20;
    c->top_p = 0.25f;
    c->min_p = 0.125f;
    c->repeat_penalty = 1.5f;
    c->presence_penalty = 2;
    p = slc_sampling_default(&fake.model);
    assert_true(p.temperature == 0.5f && p.top_k == 20 && p.top_p == 0.25f && p.min_p == 0.125f);
    assert_true(p.repeat_penalty == 1.5f && p.presence_penalty == 2);
    c->do_sample = 0;
    assert_true(slc_sampling_default(&fake.model).temperature == 0);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(stops_at_a_stop_id_and_keeps_it_out_of_the_text),
        CASE(feeds_the_prompt_in_passes_and_then_every_token_once),
        CASE(ignore_eos_goes_on),
        CASE(ends_at_max_tokens_or_when_the_context_is_full),
        CASE(a_stop_string_across_tokens_never_leaks),
        CASE(characters_stay_whole),
        CASE(a_stop_string_completed_by_the_end_counts),
        CASE(zero_bytes_are_text),
        CASE(cancelling_keeps_what_was_made),
        CASE(the_receiver_can_end_it_and_is_not_asked_again),
        CASE(a_late_cancel_is_not_the_next_calls),
        CASE(a_failed_step_reports_its_cause_and_what_was_made),
        CASE(nan_is_an_error_never_a_token),
        CASE(bad_calls_fail_before_any_work),
        CASE(works_without_a_tokenizer),
        CASE(continues_a_sequence),
        CASE(defaults_come_from_the_configuration),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
