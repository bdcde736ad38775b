/* Dequantises the router once, then for each token the embedding row. The division by the root mean
 * square is left out: it scales all logits of a token alike, and only their order matters here. */
#include "convert/synth_routing.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "convert/synth_noise.h"

#define N_TOKENS 2000u
#define LANES    16u /* partial sums, so that the compiler may use SIMD */

typedef struct routing {
    const slc_checkpoint *c;
    slc_err *err;
    uint8_t *parts[SLC_N_PARTS]; /* rows as read; of the larger of router and embedding */
    float *router;               /* [E][H] */
    float *norm, *x;             /* [H] */
    float *logits;               /* [E] */
    uint32_t *chosen;            /* [E] */
} routing;

/* Rows [row0, row0 + n) of a weight as f32, out [n][cols]. */
static slc_status read_rows(routing *r, const slc_weight *w, uint32_t row0, uint32_t n,
                            float *out) {
    slc_matrix m = {.type = w->type};
    slc_status rc;

    m.type.rows = n;
    for (int p = 0; p < SLC_N_PARTS; p++) {
        uint64_t row_bytes = slc_matrix_row_bytes(&w->type, p);

        if (row_bytes == 0) continue;
        rc = slc_file_read(&r->c->files[w->part[p].file], w->part[p].off + row0 * row_bytes,
                           r->parts[p], n * row_bytes, r->err);
        if (rc) return rc;
        m.part[p] = r->parts[p];
    }
    for (uint32_t i = 0; i < n; i++) slc_matrix_dequant_row(&m, i, out + (size_t)i * w->type.cols);
    return SLC_OK;
}

/* Buffers for `router` rows at once and an embedding row. */
static slc_status allocate(routing *r, const slc_weight *router, const slc_weight *embed) {
    size_t h = router->type.cols, e = router->type.rows;

    for (int p = 0; p < SLC_N_PARTS; p++) {
        uint64_t a = slc_matrix_part_bytes(&router->type, p);
        uint64_t b = slc_matrix_row_bytes(&embed->type, p);

        if (!(r->parts[p] = slc_calloc(1, a > b ? a : b))) goto fail;
    }
    r->router = slc_calloc(e * h, sizeof(*r->router));
    r->norm = slc_calloc(h, sizeof(*r->norm));
    r->x = slc_calloc(h, sizeof(*r->x));
    r->logits = slc_calloc(e, sizeof(*r->logits));
    r->chosen = slc_calloc(e, sizeof(*r->chosen));
    if (r->router && r->norm && r->x && r->logits && r->chosen) return SLC_OK;
fail:
    return slc_fail(r->err, SLC_E_NOMEM, "%s: no memory to look at the routing", r->c->dir);
}

static float dot(const float *a, const float *b, uint32_t n) {
    float lane[LANES] = {0}, sum = 0;
    uint32_t j = 0;

    for (; j + LANES <= n; j += LANES)
        for (uint32_t i = 0; i < LANES; i++) lane[i] += a[j + i] * b[j + i];
    for (; j < n; j++) sum += a[j] * b[j];
    for (uint32_t i = 0; i < LANES; i++) sum += lane[i];
    return sum;
}

static void choose(routing *r, uint32_t h, uint32_t n_experts, uint32_t k) {
    for (uint32_t e = 0; e < n_experts; e++) r->logits[e] = dot(r->router + (size_t)e * h, r->x, h);
    for (; k > 0; k--) {
        uint32_t best = 0;

        for (uint32_t e = 1; e < n_experts; e++)
            if (r->logits[e] > r->logits[best]) best = e;
        r->chosen[best]++;
        r->logits[best] = -INFINITY;
    }
}

static slc_status route_tokens(routing *r, uint32_t layer, uint64_t seed) {
    const slc_config *cfg = &r->c->cfg;
    uint32_t ids[N_TOKENS], h = cfg->hidden_size;
    slc_status rc;

    slc_noise_fill(slc_noise_key(seed, NULL, 0), 0, ids, sizeof(ids));
    for (uint32_t t = 0; t < N_TOKENS; t++) {
        uint32_t id = (uint32_t)((uint64_t)ids[t] * cfg->vocab_size >> 32);

        if ((rc = read_rows(r, &r->c->w[SLC_W_EMBED], id, 1, r->x))) return rc;
        for (uint32_t j = 0; j < h; j++) r->x[j] *= r->norm[j];
        choose(r, h, cfg->n_experts, cfg->n_experts_per_tok);
    }
    return SLC_OK;
}

static void summarise(const routing *r, slc_synth_routing *out) {
    const slc_config *cfg = &r->c->cfg;
    double total = (double)N_TOKENS * cfg->n_experts_per_tok;
    uint32_t most = 0;

    *out = (slc_synth_routing){.n_tokens = N_TOKENS,
                               .n_experts = cfg->n_experts,
                               .n_experts_per_tok = cfg->n_experts_per_tok};
    for (uint32_t e = 0; e < cfg->n_experts; e++) {
        double share = r->chosen[e] / total;

        if (r->chosen[e] == 0) continue;
        out->n_used++;
        out->entropy_bits -= share * log2(share);
        if (r->chosen[e] > most) most = r->chosen[e];
    }
    out->busiest = most * cfg->n_experts / total;
}

slc_status slc_synth_measure_routing(const slc_checkpoint *c, uint32_t layer, uint64_t seed,
                                     slc_synth_routing *out, slc_err *err) {
    const slc_weight *w = c->layers[layer].w;
    routing r = {.c = c, .err = err};
    slc_status rc;

    *out = (slc_synth_routing){0};
    if (!slc_config_is_moe(&c->cfg)) return SLC_OK;
    if ((rc = allocate(&r, &w[SLC_W_ROUTER], &c->w[SLC_W_EMBED]))) goto out;
    if ((rc = read_rows(&r, &w[SLC_W_POST_NORM], 0, 1, r.norm))) goto out;
    if ((rc = read_rows(&r, &w[SLC_W_ROUTER], 0, c->cfg.n_experts, r.router))) goto out;
    if ((rc = route_tokens(&r, layer, seed))) goto out;
    summarise(&r, out);
out:
    for (int p = 0; p < SLC_N_PARTS; p++) free(r.parts[p]);
    free(r.router);
    free(r.norm);
    free(r.x);
    free(r.logits);
    free(r.chosen);
    return rc;
}
