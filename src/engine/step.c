/* Sequences and the one verb: slc_step feeds tokens of any number of sequences through the model.
 *
 * A step is cut into passes of at most `chunk` tokens. A pass takes what is left of every item, in
 * order, as one span per item. An item that fails (an expert could not be read, a value is not
 * finite) keeps its rows to the end of the pass, where they harm nobody, and is left out
 * afterwards.
 *
 * Where experts are read while the model runs, its files are looked at after each pass, before any
 * logits are handed out: all that the pass used was read by then, so text of mixed weights is never
 * made. A model whose files were written to stays unusable, since its cache may hold anything. */
#include "base/clock.h"
#include "base/fail.h"
#include "engine/model_internal.h"

/* Rows of logits computed together: shares each lm_head row among them. */
#define LOGIT_ROWS 8u

void slc_step_take(slc_model *m, slc_arena *a, uint32_t chunk) {
    uint32_t n_seqs = m->plan.n_seqs;

    slc_pass_take(&m->pass, &m->net, a, chunk, n_seqs, LOGIT_ROWS < chunk ? LOGIT_ROWS : chunk);
    m->pass_items = slc_arena_take(a, n_seqs, sizeof(*m->pass_items));
    if (slc_config_is_moe(slc_model_config(m))) slc_predict_take(m, a);
    m->pass_tokens = slc_arena_take(a, chunk, sizeof(*m->pass_tokens));
}

/* ---- sequences ---- */

slc_status slc_seq_create(slc_model *m, slc_seq **out, slc_err *err) {
    *out = NULL;
    for (uint32_t i = 0; i < m->plan.n_seqs; i++) {
        slc_seq *s = &m->seqs[i];

        if (s->in_use) continue;
        s->in_use = true;
        slc_seq_reset(s);
        *out = s;
        return SLC_OK;
    }
    return slc_fail(err, SLC_E_BUSY, "all %u sequences of the model are in use", m->plan.n_seqs);
}

void slc_seq_destroy(slc_seq *s) {
    if (s) s->in_use = false;
}

void slc_seq_reset(slc_seq *s) {
    slc_state_reset(&s->model->state_layout, &s->state);
    s->broken = false;
}

uint32_t slc_seq_len(const slc_seq *s) {
    return s->state.len;
}

/* ---- checks ---- */

static void check_item(const slc_model *m, slc_step_item *it) {
    uint32_t v = slc_model_config(m)->vocab_size;

    if (m->changed.code)
        it->err = m->changed;
    else if (it->seq->broken)
        slc_fail(&it->err, SLC_E_INVALID, "the sequence failed earlier: reset it before reuse");
    else if (it->n_tokens == 0)
        slc_fail(&it->err, SLC_E_INVALID, "no tokens to process");
    else if (it->n_tokens > m->plan.ctx - it->seq->state.len)
        slc_fail(&it->err, SLC_E_INVALID,
                 "%u tokens after %u do not fit the context of %u (--ctx-size)", it->n_tokens,
                 it->seq->state.len, m->plan.ctx);
    for (uint32_t i = 0; !it->err.code && i < it->n_tokens; i++)
        if (it->tokens[i] < 0 || (uint32_t)it->tokens[i] >= v)
            slc_fail(&it->err, SLC_E_INVALID, "token %u is %d, expected an id below %u", i,
                     it->tokens[i], v);
}

static slc_status check_items(const slc_model *m, slc_step_item *items, uint32_t n, slc_err *err) {
    slc_status rc = SLC_OK;

    for (uint32_t i = 0; i < n && !rc; i++) {
        slc_seq *s = items[i].seq;

        if (!s || s->model != m || !s->in_use || s->in_this_step) {
            rc = slc_fail(err, SLC_E_INVALID,
                          "item %u of the step names no live sequence of this model, or one named "
                          "before",
                          i);
            break;
        }
        s->in_this_step = true;
        s->n_done = 0;
        items[i].err = (slc_err){0};
        check_item(m, &items[i]);
    }
    for (uint32_t i = 0; i < n; i++)
        if (items[i].seq && items[i].seq->model == m) items[i].seq->in_this_step = false;
    return rc;
}

/* ---- one pass ---- */

/* Fills the pass with what is left of the items. False when nothing is. */
static bool gather(slc_model *m, slc_step_item *items, uint32_t n_items) {
    slc_pass *p = &m->pass;
    uint32_t row = 0;

    p->n_spans = 0;
    for (uint32_t i = 0; i < n_items && row < p->max_tok; i++) {
        slc_step_item *it = &items[i];
        uint32_t left = it->n_tokens - it->seq->n_done, room = p->max_tok - row;
        uint32_t n = left < room ? left : room;

        if (it->err.code || n == 0) continue;
        for (uint32_t t = 0; t < n; t++) m->pass_tokens[row + t] = it->tokens[it->seq->n_done + t];
        m->pass_items[p->n_spans] = it;
        p->spans[p->n_spans++] = (slc_span){.state = &it->seq->state, .row = row, .n_tok = n};
        row += n;
    }
    return p->n_spans > 0;
}

/* Fails the items of rows that hold an infinity or NaN. */
static void check_finite(slc_model *m, uint32_t layer) {
    slc_pass *p = &m->pass;
    uint32_t h = slc_model_config(m)->hidden_size;

    for (uint32_t row = 0; row < p->n_tok; row++)
        if (!slc_all_finite(p->x + (size_t)row * h, h))
            slc_fail(
                &m->pass_items[p->span_of_row[row]]->err, SLC_E_FORMAT,
                "layer %u (%s): the hidden state at position %u is not finite; the weights may "
                "be damaged",
                layer,
                m->net.layers[layer].kind == SLC_LAYER_FULL ? "full attention" : "linear attention",
                p->pos_of_row[row]);
}

static void run_layers(slc_model *m) {
    const slc_config *c = slc_model_config(m);
    slc_pass *p = &m->pass;

    slc_net_begin(&m->net, &m->cpu, p, m->pass_tokens);
    m->cpu.stages.phase = p->n_tok == p->n_spans ? SLC_PHASE_DECODE : SLC_PHASE_PREFILL;
    if (m->source.store) slc_store_set_tokens(m->source.store, p->n_tok);
    slc_predict_begin(m, p->n_tok == p->n_spans);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        slc_layer_mix(&m->net, &m->cpu, &m->state_layout, p, l);
        if (m->source.store) slc_store_poll(m->source.store);
        if (slc_config_is_moe(c))
            slc_run_experts(m, l);
        else
            slc_layer_dense(&m->net, &m->cpu, p, l);
        slc_stage_begin(&m->cpu.stages, SLC_STAGE_CHECK);
        check_finite(m, l);
    }
}

/* A file that was written to fails every item, whatever else its bytes may have led to. */
static void check_files(slc_model *m) {
    if (!m->io) return; /* everything is in memory */
    if (!m->changed.code && slc_checkpoint_check_files(m->ckpt, &m->changed) == SLC_OK) return;
    for (uint32_t s = 0; s < m->pass.n_spans; s++) m->pass_items[s]->err = m->changed;
}

/* ---- logits ---- */

/* Rows of the pass whose logits are wanted, collected across items and computed together. */
typedef struct logit_tile {
    slc_model *m;
    const slc_step_item *items;
    slc_logits_fn *on_logits;
    void *user;
    uint32_t n, rows[LOGIT_ROWS];
} logit_tile;

static void deliver_tile(logit_tile *tile) {
    slc_model *m = tile->m;
    slc_pass *p = &m->pass;
    uint32_t v = slc_model_config(m)->vocab_size;

    if (tile->n) slc_net_logits(&m->net, &m->cpu, p, tile->rows, tile->n);
    for (uint32_t i = 0; i < tile->n; i++) {
        const slc_span *span = &p->spans[p->span_of_row[tile->rows[i]]];
        slc_step_item *it = m->pass_items[span - p->spans];
        uint32_t pos = it->seq->n_done + tile->rows[i] - span->row;
        const float *logits = p->logits + (size_t)i * v;

        if (it->err.code) continue;
        if (slc_all_finite(logits, v)) {
            slc_stage_begin(&m->cpu.stages, SLC_STAGE_SAMPLE);
            tile->on_logits(tile->user, (uint32_t)(it - tile->items), pos, logits);
        } else {
            slc_fail(
                &it->err, SLC_E_FORMAT,
                "lm_head: the logits after token %u are not finite; the weights may be damaged",
                pos);
        }
    }
    tile->n = 0;
}

static bool is_wanted(const slc_span *s, const slc_step_item *it, uint32_t t) {
    if (it->err.code || it->want == SLC_WANT_NONE) return false;
    return it->want == SLC_WANT_ALL || it->seq->n_done + t + 1 == it->n_tokens;
}

static void deliver_logits(slc_model *m, const slc_step_item *items, slc_logits_fn *on_logits,
                           void *user) {
    logit_tile tile = {.m = m, .items = items, .on_logits = on_logits, .user = user};
    slc_pass *p = &m->pass;

    for (uint32_t s = 0; s < p->n_spans; s++) {
        for (uint32_t t = 0; t < p->spans[s].n_tok; t++) {
            if (!is_wanted(&p->spans[s], m->pass_items[s], t)) continue;
            tile.rows[tile.n++] = p->spans[s].row + t;
            if (tile.n == p->logit_rows) deliver_tile(&tile);
        }
    }
    deliver_tile(&tile);
}

/* ---- the verb ---- */

static void finish_pass(slc_model *m, uint64_t ns) {
    slc_pass *p = &m->pass;

    slc_net_advance(p);
    for (uint32_t s = 0; s < p->n_spans; s++) {
        slc_step_item *it = m->pass_items[s];

        it->seq->n_done += p->spans[s].n_tok;
        if (it->err.code) it->seq->broken = true;
    }
    if (p->n_tok == p->n_spans) {
        m->stats.decode_tokens += p->n_tok;
        m->stats.decode_ns += ns;
    } else {
        m->stats.prefill_tokens += p->n_tok;
        m->stats.prefill_ns += ns;
    }
}

slc_status slc_step(slc_model *m, slc_step_item *items, uint32_t n_items, slc_logits_fn *on_logits,
                    void *user, slc_err *err) {
    slc_status rc = check_items(m, items, n_items, err);

    if (rc) return rc;
    while (gather(m, items, n_items)) {
        uint64_t start = slc_now_ns();

        if (atomic_exchange_explicit(&m->cancel, false, memory_order_relaxed))
            return slc_fail(err, SLC_E_CANCELLED, "stopped on request");
        run_layers(m);
        check_files(m);
        if (on_logits) deliver_logits(m, items, on_logits, user);
        slc_stage_begin(&m->cpu.stages, SLC_STAGE_NONE);
        finish_pass(m, slc_now_ns() - start);
    }
    return SLC_OK;
}

void slc_model_cancel(slc_model *m) {
    atomic_store_explicit(&m->cancel, true, memory_order_relaxed);
}
