/* Running a model in a test: open with options, feed tokens, keep the logits. Every function prints
 * the error and aborts the test program on failure. Public interface only. */
#ifndef SLC_TESTS_SUPPORT_RUN_H
#define SLC_TESTS_SUPPORT_RUN_H

#include <stddef.h>
#include <stdint.h>

#include "sluice/sluice.h"

/* SLC_SOURCE_DIR/relative, malloc'd. */
char *source_path(const char *relative);

/* Opens SLC_SOURCE_DIR/relative. Warnings go to stderr. */
slc_model *run_open(const char *relative, const slc_model_options *opt);
uint32_t run_vocab(const slc_model *m);

/* Logits [n][vocab] after each of the n tokens, fed to an empty sequence in one step; malloc'd. */
float *run_logits(slc_model *m, const int32_t *tokens, uint32_t n);
/* As above, only after the last token: [vocab]. */
float *run_last_logits(slc_model *m, const int32_t *tokens, uint32_t n);

/* Greedy continuation of n_new tokens on a fresh sequence, one step a token; ids to out. */
void run_greedy(slc_model *m, const int32_t *prompt, uint32_t n, int32_t *out, uint32_t n_new);
/* As above; `before` is told how many are made before each step. */
void run_greedy_with(slc_model *m, const int32_t *prompt, uint32_t n, int32_t *out, uint32_t n_new,
                     void (*before)(slc_model *m, uint32_t n_made));

uint32_t argmax(const float *x, uint32_t n);
/* Natural log of the probability of id under logits, in double. */
double log_prob(const float *logits, uint32_t n, uint32_t id);

/* Contents of models/<demo>/golden.json. */
typedef struct demo_case {
    uint32_t n_ids, n_greedy, n_top;
    int32_t *ids, *greedy;
    double *margins;  /* [n_greedy] */
    int32_t *top_ids; /* [n_ids][n_top] */
    double *top_logprobs;
} demo_case;

typedef struct demo_golden {
    double ppl;
    uint32_t n_windows, window;
    int32_t *ppl_tokens; /* [n_windows][window] */
    uint32_t n_cases;
    demo_case *cases;
} demo_golden;

void demo_golden_read(const char *demo, demo_golden *g);
void demo_golden_free(demo_golden *g);

#endif
