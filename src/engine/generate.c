/* The generation loop: prompt in, tokens out, until something says stop.
 *
 * It works the model through the public step call; sampling (sampler.h) and text with stop strings
 * (emit.h) are elsewhere. The logits are sampled inside the step's callback, where they are
 * borrowed, so none are ever copied.
 *
 * The prompt is fed in pieces of the model's own pass size: results do not depend on the split, and
 * between pieces there is a place to report progress and to be cancelled. Memory is taken before
 * the first step; only a text longer than usual can make its buffer grow on the way. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "engine/emit.h"
#include "engine/model_internal.h"
#include "engine/sampler.h"
#include "sluice/sluice.h"

typedef struct generator {
    slc_model *model;
    slc_seq *seq;
    const slc_generate_options *opt;
    const slc_tokenizer *tok; /* NULL: ids only */
    slc_generation *out;
    slc_emit emit;
    slc_detok detok;
    slc_history history;
    uint32_t max_ids;   /* most ids to generate: max_tokens or what the context has left */
    uint32_t pass_size; /* prompt tokens a step */
    size_t max_piece;   /* bytes of text one id can give */
    uint64_t start;     /* length of the sequence before the prompt */
    int32_t next;       /* sampled by on_logits */
    slc_status sampled; /* its outcome */
    slc_err *err;
} generator;

slc_sampling slc_sampling_default(const slc_model *m) {
    const slc_config *c = slc_model_config(m);
    slc_sampling p = {
        .temperature = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, /* rest 0 */
    };

    if (c->temperature >= 0) p.temperature = c->temperature;
    if (c->top_k >= 0) p.top_k = c->top_k;
    if (c->top_p >= 0) p.top_p = c->top_p;
    if (c->min_p >= 0) p.min_p = c->min_p;
    if (c->repeat_penalty >= 0) p.repeat_penalty = c->repeat_penalty;
    if (c->presence_penalty >= 0) p.presence_penalty = c->presence_penalty;
    if (c->do_sample == 0) p.temperature = 0;
    return p;
}

/* ---- before the first step ---- */

static slc_status check_prompt(const generator *g, const slc_model_info *info,
                               const int32_t *prompt, uint32_t n_prompt) {
    if (n_prompt == 0) return slc_fail(g->err, SLC_E_INVALID, "the prompt is empty");
    if (g->start + n_prompt >= info->ctx_size)
        return slc_fail(g->err, SLC_E_INVALID,
                        "the prompt has %u tokens and the sequence %llu, but the context holds %u, "
                        "one of them for the answer: shorten the prompt or enlarge the context",
                        n_prompt, (unsigned long long)g->start, info->ctx_size);
    for (uint32_t i = 0; i < n_prompt; i++)
        if (prompt[i] < 0 || (uint32_t)prompt[i] >= info->vocab_size)
            return slc_fail(g->err, SLC_E_INVALID,
                            "token %u of the prompt is %d, expected an id from 0 to %u", i,
                            prompt[i], info->vocab_size - 1);
    return SLC_OK;
}

static slc_status prepare(generator *g, const int32_t *prompt, uint32_t n_prompt) {
    const slc_generate_options *opt = g->opt;
    slc_model_info info;
    slc_status rc;

    slc_model_get_info(g->model, &info);
    g->start = slc_seq_len(g->seq);
    g->pass_size = info.prefill_chunk ? info.prefill_chunk : 1;
    if ((rc = slc_sampling_check(&opt->sampling, g->err))) return rc;
    if ((rc = slc_emit_init(&g->emit, opt->stop, opt->n_stop, g->err))) return rc;
    if ((rc = check_prompt(g, &info, prompt, n_prompt))) return rc;
    if (opt->n_stop && !g->tok)
        return slc_fail(g->err, SLC_E_INVALID,
                        "stop strings need a tokenizer, and this model has no tokenizer.json");

    if (g->tok) g->max_piece = slc_detok_max_bytes(g->tok);
    g->max_ids = info.ctx_size - (uint32_t)g->start - n_prompt;
    if (opt->max_tokens && opt->max_tokens < g->max_ids) g->max_ids = opt->max_tokens;
    g->out->ids = slc_calloc(g->max_ids, sizeof(*g->out->ids));
    if (!g->out->ids || !slc_emit_reserve(&g->emit, g->max_piece, NULL))
        return slc_fail(g->err, SLC_E_NOMEM, "no memory for %u generated tokens", g->max_ids);
    g->history = (slc_history){prompt, n_prompt, g->out->ids, 0};
    g->emit.on_text = opt->on_text;
    g->emit.user = opt->user;
    return SLC_OK;
}

/* ---- one step ---- */

static void on_logits(void *user, uint32_t item, uint32_t pos, const float *logits) {
    generator *g = user;
    uint64_t position = g->start + g->history.n_prompt + g->history.n_made;

    g->sampled = slc_sample(g->model->sampler, logits, &g->history, &g->opt->sampling, position,
                            &g->next, g->err);
}

/* Feeds n tokens; with `sample`, the token after them is then in g->next. */
static slc_status step(generator *g, const int32_t *tokens, uint32_t n, bool sample) {
    slc_step_item item = {
        .seq = g->seq,
        .tokens = tokens,
        .n_tokens = n,
        .want = sample ? SLC_WANT_LAST : SLC_WANT_NONE,
    };
    slc_status rc;

    g->sampled = SLC_OK;
    if ((rc = slc_step(g->model, &item, 1, on_logits, g, g->err))) return rc;
    if (item.err.code) {
        *g->err = item.err;
        return item.err.code;
    }
    return g->sampled;
}

static slc_status feed_prompt(generator *g) {
    uint32_t total = (uint32_t)g->history.n_prompt;
    slc_status rc;

    for (uint32_t done = 0; done < total;) {
        uint32_t n = total - done < g->pass_size ? total - done : g->pass_size;

        if ((rc = step(g, g->history.prompt + done, n, done + n == total))) return rc;
        done += n;
        if (g->opt->on_prefill) g->opt->on_prefill(g->opt->user, done, total);
    }
    return SLC_OK;
}

/* ---- one token ---- */

static slc_status unwanted(generator *g) {
    g->emit.on_text = NULL; /* it is not asked again */
    return slc_fail(g->err, SLC_E_CANCELLED, "stopped by the receiver of the text");
}

static slc_status add_text(generator *g, int32_t id) {
    char *piece;

    if (!g->tok) return SLC_OK;
    if (!(piece = slc_emit_reserve(&g->emit, g->max_piece, g->err))) return SLC_E_NOMEM;
    if (!slc_emit_advance(&g->emit, slc_detok_push(&g->detok, g->tok, id, true, piece)))
        return unwanted(g);
    return SLC_OK;
}

/* Samples until a reason to stop; the reason goes to out->finish. */
static slc_status generate(generator *g) {
    slc_generation *out = g->out;
    slc_status rc;

    for (;;) {
        int32_t id = g->next;

        out->ids[out->n_ids++] = id;
        g->history.n_made = out->n_ids;
        if (!g->opt->ignore_eos && slc_model_is_stop_id(g->model, id)) break;
        if ((rc = add_text(g, id))) return rc;
        if (g->emit.stopped) break;
        if (out->n_ids == g->max_ids) {
            out->finish = SLC_FINISH_LENGTH;
            return SLC_OK;
        }
        if ((rc = step(g, &out->ids[out->n_ids - 1], 1, true))) return rc;
    }
    out->finish = SLC_FINISH_STOP;
    return SLC_OK;
}

/* Completes the text, also after a failure: an unfinished character, what was held back. */
static slc_status finish_text(generator *g) {
    char *tail;

    if (g->tok && !g->emit.stopped) {
        if (!(tail = slc_emit_reserve(&g->emit, 4, g->err))) return SLC_E_NOMEM;
        if (!slc_emit_advance(&g->emit, slc_detok_finish(&g->detok, tail)) ||
            !slc_emit_flush(&g->emit))
            return unwanted(g);
        if (g->emit.stopped && g->out->finish == SLC_FINISH_LENGTH)
            g->out->finish = SLC_FINISH_STOP;
    }
    return SLC_OK;
}

slc_status slc_generate(slc_model *m, slc_seq *seq, const int32_t *prompt, uint32_t n_prompt,
                        const slc_generate_options *opt, slc_generation *out, slc_err *err) {
    slc_err local = {0};
    generator g = {
        .model = m,
        .seq = seq,
        .opt = opt,
        .tok = slc_model_tokenizer(m),
        .out = out,
        .err = err ? err : &local,
    };
    slc_status rc, end_rc;

    *out = (slc_generation){.n_prompt = n_prompt, .finish = SLC_FINISH_ERROR};
    if ((rc = prepare(&g, prompt, n_prompt))) goto out;
    if (!(rc = feed_prompt(&g))) rc = generate(&g);
    end_rc = finish_text(&g);
    if (!rc) rc = end_rc;
    out->text = slc_emit_take(&g.emit, &out->n_text);
    if (!out->text && !rc) rc = slc_fail(g.err, SLC_E_NOMEM, "no memory for the generated text");
    if (rc) out->finish = rc == SLC_E_CANCELLED ? SLC_FINISH_CANCELLED : SLC_FINISH_ERROR;
out:
    slc_emit_deinit(&g.emit);
    atomic_store(&m->cancel, false); /* a request that came too late is not the next call's */
    return rc;
}

void slc_generation_deinit(slc_generation *g) {
    if (!g) return;
    free(g->ids);
    free(g->text);
    *g = (slc_generation){0};
}
