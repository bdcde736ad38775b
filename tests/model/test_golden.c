/* Tiny random models of every layout against recorded logits of transformers and mlx-lm
 * (tests/golden/README.md). Run with --exact: f32 activations and f32 KV. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/run.h"
#include "support/temp.h"

/* The references themselves lie within 1e-4 of a float64 computation; logits have a standard
 * deviation of about 3, so this is below 2e-4 relative. */
#define TOLERANCE 5e-4

typedef struct golden {
    char *bytes;
    uint32_t n_tokens, n_vocab, n_positions;
    const int32_t *tokens;
    const uint32_t *positions;
    const float *logits;
} golden;

static bool golden_read(const char *dir, const char *file, golden *g) {
    char relative[256], *path;
    uint32_t head[4];
    FILE *f;
    size_t n;

    snprintf(relative, sizeof(relative), "%s/%s", dir, file);
    path = source_path(relative);
    if (!(f = fopen(path, "rb"))) {
        free(path);
        return false;
    }
    fclose(f);
    g->bytes = temp_read(path, &n);
    free(path);
    assert_true(n > 24);
    assert_memory_equal(g->bytes, "SLCGOLD1", 8);
    memcpy(head, g->bytes + 8, sizeof(head));
    g->n_tokens = head[0];
    g->n_vocab = head[1];
    g->n_positions = head[2];
    g->tokens = (const void *)(g->bytes + 24);
    g->positions = (const void *)(g->tokens + g->n_tokens);
    g->logits = (const void *)(g->positions + g->n_positions);
    assert_int_equal(
        n, 24 + 4 * ((size_t)g->n_tokens + g->n_positions + (size_t)g->n_positions * g->n_vocab));
    return true;
}

static double compare(const char *dir, const char *file, const slc_model_options *opt) {
    slc_model_options o = *opt;
    slc_model *m;
    double worst = 0;
    float *logits;
    golden g;

    if (!golden_read(dir, file, &g)) return -1;
    o.ctx_size = g.n_tokens;
    m = run_open(dir, &o);
    assert_int_equal(run_vocab(m), g.n_vocab);
    logits = run_logits(m, g.tokens, g.n_tokens);
    for (uint32_t i = 0; i < g.n_positions; i++)
        for (uint32_t v = 0; v < g.n_vocab; v++) {
            double d = fabs((double)logits[(size_t)g.positions[i] * g.n_vocab + v] -
                            (double)g.logits[(size_t)i * g.n_vocab + v]);

            if (!(d <= worst)) worst = d; /* NaN too */
        }
    free(logits);
    slc_model_close(m);
    free(g.bytes);
    return worst;
}

static int failures;

static void check(const char *dir, const char *file, const slc_model_options *opt) {
    double worst = compare(dir, file, opt);

    if (worst == -1) return;
    print_message("%-36s %-16s largest difference %.2e\n", dir, file, worst);
    if (!(worst <= TOLERANCE)) failures++;
}

static void logits_match_references(void **state) {
    slc_model_options exact = slc_model_options_default();
    char *root = source_path("tests/golden");
    struct dirent **names;
    int n = scandir(root, &names, NULL, alphasort), n_models = 0;

    (void)state;
    free(root);
    exact.exact = true;
    exact.memory_bytes = 256ull << 20;
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        char dir[300];

        snprintf(dir, sizeof(dir), "tests/golden/%s", names[i]->d_name);
        if (names[i]->d_type == DT_DIR && names[i]->d_name[0] != '.') {
            check(dir, "golden.bin", &exact);
            check(dir, "golden_mlx.bin", &exact);
            n_models++;
        }
        free(names[i]);
    }
    free(names);
    assert_true(n_models >= 20);
    assert_int_equal(failures, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(logits_match_references)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
