/* Traces, and a replay of whatever is accepted. */
#include "fuzz/fuzz.h"
#include "stream/simulate.h"

static void check_trace(const slc_trace *t) {
    fuzz_check(t->n_layers && t->n_experts && t->n_active <= t->n_experts);
    for (size_t i = 0; i < t->n_fetches; i++) {
        const slc_trace_fetch *f = &t->fetches[i];
        fuzz_check(f->layer < t->n_layers && f->first + f->n <= t->n_uses);
        fuzz_check(i == 0 || f->pass > f[-1].pass ||
                   (f->pass == f[-1].pass && f->layer > f[-1].layer));
    }
    for (size_t i = 0; i < t->n_uses; i++) {
        fuzz_check(t->experts[i] < t->n_experts && t->outcomes[i] <= SLC_OUT_MISS);
        fuzz_check(t->scores[i] <= 1);
    }
}

/* Small ones, with every policy. */
static void replay(const slc_trace *t) {
    if ((uint64_t)t->n_layers * t->n_experts > 10000 || t->n_uses > 2000) return;
    for (int i = 0; i == 0 || slc_policies[i - 1]; i++) {
        slc_simulate_options o = {.policy = i ? slc_policies[i - 1] : NULL, .n_slots = 5};
        slc_simulation r;
        fuzz_check(slc_simulate(t, &o, &r, NULL) == SLC_OK);
        fuzz_check(r.asked == t->n_uses && r.hits <= r.asked);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    slc_err err = {0};
    slc_trace t;
    slc_status rc;

    if (!text) abort();
    memcpy(text, data, size);
    text[size] = 0;
    rc = slc_trace_parse(text, size, "input", &t, &err);
    free(text);
    fuzz_check(rc == err.code && (rc == SLC_OK || *err.msg));
    if (!rc) {
        check_trace(&t);
        replay(&t);
    } else {
        fuzz_check(!t.fetches && !t.experts);
    }
    slc_trace_deinit(&t);
    return 0;
}
