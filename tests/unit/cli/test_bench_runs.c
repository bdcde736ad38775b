/* Figures, names, CSV and plot of results that are made up here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cli/bench_runs.h"
#include "support/temp.h"

/* Two budgets in two modes, two rounds. */
typedef struct fixture {
    slc_bench_results r;
    slc_bench_config configs[4];
    slc_bench_run runs[4][2];
    double rates[2];
    char *dir;
} fixture;

static int setup(void **state) {
    fixture *f = test_calloc(1, sizeof(*f));

    f->dir = temp_dir();
    f->rates[0] = f->rates[1] = 1e9;
    f->r = (slc_bench_results){.model = "a \"quoted\", <odd> & model",
                               .machine = "1 x test",
                               .configs = f->configs,
                               .n_configs = 4,
                               .n_rounds = 2,
                               .n_tokens = 20,
                               .disk_rates = f->rates,
                               .memory_rates = f->rates,
                               .n_rates = 2};
    for (int i = 0; i < 4; i++) {
        f->configs[i] = (slc_bench_config){.budget = i / 2 ? "50%" : "10%",
                                           .cache_bytes = i / 2 ? 5000 : 1000,
                                           .mode = i % 2 ? "seed" : "full",
                                           .runs = f->runs[i],
                                           .n_runs = 2,
                                           .bound.tokens_per_s = 100};
        for (int k = 0; k < 2; k++) {
            f->runs[i][k].stats = json_pack("{sf, s{s{si}}}", "decode_tokens_per_s", 10.0 * i + k,
                                            "predict", "next", "used", 7);
            f->runs[i][k].settings = json_pack("{ss}", "io", "uring");
        }
    }
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;

    for (int i = 0; i < 8; i++) {
        json_decref(f->runs[i / 2][i % 2].stats);
        json_decref(f->runs[i / 2][i % 2].settings);
    }
    temp_dir_remove(f->dir);
    test_free(f);
    return 0;
}

static void spreads_of_odd_even_and_no_values(void **state) {
    slc_spread s = slc_spread_of((const double[]){3, 1, 2}, 3);

    assert_true(s.min == 1 && s.median == 2 && s.max == 3);
    s = slc_spread_of((const double[]){4, 1, 3, 2}, 4);
    assert_true(s.min == 1 && s.median == 2.5 && s.max == 4);
    s = slc_spread_of((const double[]){5}, 1);
    assert_true(s.min == 5 && s.median == 5 && s.max == 5);
    s = slc_spread_of(NULL, 0);
    assert_true(s.min == 0 && s.median == 0 && s.max == 0);
}

static void figures_come_from_the_stats(void **state) {
    fixture *f = *state;

    assert_true(slc_bench_spread(&f->configs[1], "decode_tokens_per_s").median == 10.5);
    assert_true(slc_bench_spread(&f->configs[1], "no such figure").max == 0);
}

static void series_are_named_by_what_varies(void **state) {
    fixture *f = *state;
    char name[128];

    assert_string_equal(slc_bench_series(&f->r, &f->configs[1], name), "seed");
    assert_true(slc_bench_same_series(&f->configs[1], &f->configs[3]));
    assert_false(slc_bench_same_series(&f->configs[0], &f->configs[1]));
    f->configs[1].predict = "off";
    assert_string_equal(slc_bench_series(&f->r, &f->configs[1], name), "seed off");
}

/* Fields of a CSV line, quotes respected; the end of the line in *end. */
static int count_fields(const char *line, const char **end) {
    bool quoted = false;
    int n = 1;

    for (; *line && (quoted || *line != '\r'); line++) {
        if (*line == '"') quoted = !quoted;
        n += *line == ',' && !quoted;
    }
    assert_false(quoted);
    assert_true(line[0] == '\r' && line[1] == '\n');
    *end = line + 2;
    return n;
}

static void csv_has_a_row_a_run_and_equal_columns(void **state) {
    fixture *f = *state;
    char *path = temp_path(f->dir, "out.csv"), *text;
    const char *at;
    int n, rows = 0;

    f->configs[3].n_runs = 1; /* interrupted */
    assert_int_equal(slc_bench_write_csv(&f->r, path, NULL), SLC_OK);
    text = temp_read(path, NULL);
    n = count_fields(text, &at);
    assert_non_null(strstr(text, ",predict_next_used,"));
    for (; *at; rows++) assert_int_equal(count_fields(at, &at), n);
    assert_int_equal(rows, 7);
    assert_non_null(strstr(text, "\"a \"\"quoted\"\", <odd> & model\""));
    free(text);
    free(path);
}

static int count(const char *text, const char *part) {
    int n = 0;

    for (; (text = strstr(text, part)); text++) n++;
    return n;
}

static void svg_has_a_line_a_series_and_escapes(void **state) {
    fixture *f = *state;
    char *path = temp_path(f->dir, "out.svg"), *text;

    assert_int_equal(slc_bench_write_svg(&f->r, path, NULL), SLC_OK);
    text = temp_read(path, NULL);
    assert_int_equal(count(text, "<polyline"), 3); /* two series, one bound: the policy is one */
    assert_int_equal(count(text, "<circle"), 4);
    assert_int_equal(count(text, "<text"), count(text, "</text>"));
    assert_non_null(strstr(text, "&lt;odd> &amp; model"));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    assert_non_null(strstr(text, "</svg>\n"));
    free(text);
    free(path);
}

static void one_configuration_makes_a_plot_too(void **state) {
    fixture *f = *state;
    char *path = temp_path(f->dir, "out.svg"), *text;

    f->r.n_configs = 1;
    f->configs[0].budget = "";
    f->configs[0].cache_bytes = 0;
    f->configs[0].plan_bytes = 1 << 20;
    f->configs[0].bound.tokens_per_s = 0;
    assert_int_equal(slc_bench_write_svg(&f->r, path, NULL), SLC_OK);
    text = temp_read(path, NULL);
    assert_null(strstr(text, "nan"));
    assert_non_null(strstr(text, ">default<"));
    free(text);
    free(path);
}

static void files_that_cannot_be_written_are_named(void **state) {
    fixture *f = *state;
    slc_err err = {0};

    assert_int_equal(slc_bench_write_csv(&f->r, "/nowhere/x.csv", &err), SLC_E_IO);
    assert_non_null(strstr(err.msg, "/nowhere/x.csv"));
    err = (slc_err){0};
    assert_int_equal(slc_bench_write_svg(&f->r, "/dev/full", &err), SLC_E_IO);
    assert_non_null(strstr(err.msg, "/dev/full"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spreads_of_odd_even_and_no_values),
        cmocka_unit_test_setup_teardown(figures_come_from_the_stats, setup, teardown),
        cmocka_unit_test_setup_teardown(series_are_named_by_what_varies, setup, teardown),
        cmocka_unit_test_setup_teardown(csv_has_a_row_a_run_and_equal_columns, setup, teardown),
        cmocka_unit_test_setup_teardown(svg_has_a_line_a_series_and_escapes, setup, teardown),
        cmocka_unit_test_setup_teardown(one_configuration_makes_a_plot_too, setup, teardown),
        cmocka_unit_test_setup_teardown(files_that_cannot_be_written_are_named, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
