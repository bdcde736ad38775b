/* Figures of runs, and what the configurations are called. */
#include "cli/bench_runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* ---- figures ---- */

const slc_bench_run *slc_bench_first_run(const slc_bench_results *r) {
    for (uint32_t i = 0; i < r->n_configs; i++)
        if (r->configs[i].n_runs) return r->configs[i].runs;
    return NULL;
}

double slc_bench_figure(const slc_bench_run *run, const char *key) {
    return json_number_value(json_object_get(run->stats, key));
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

slc_spread slc_spread_of(const double *values, uint32_t n) {
    double sorted[SLC_BENCH_MAX_ROUNDS];

    if (n == 0 || n > SLC_BENCH_MAX_ROUNDS) return (slc_spread){0};
    memcpy(sorted, values, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), by_value);
    return (slc_spread){sorted[0], (sorted[(n - 1) / 2] + sorted[n / 2]) / 2, sorted[n - 1]};
}

slc_spread slc_bench_spread(const slc_bench_config *c, const char *key) {
    double values[SLC_BENCH_MAX_ROUNDS];

    for (uint32_t i = 0; i < c->n_runs; i++) values[i] = slc_bench_figure(&c->runs[i], key);
    return slc_spread_of(values, c->n_runs);
}

/* Beyond the budget: page tables, and the page cache that a mode may want. */
#define CGROUP_MARGIN_BYTES (UINT64_C(64) << 20)

uint64_t slc_bench_cgroup_bytes(const slc_bench_results *r, const slc_bench_config *c) {
    return r->cgroup ? c->plan_bytes + CGROUP_MARGIN_BYTES : 0;
}

/* ---- names ---- */

static bool same(const char *a, const char *b) {
    return a == b || (a && b && !strcmp(a, b));
}

bool slc_bench_same_series(const slc_bench_config *a, const slc_bench_config *b) {
    return same(a->mode, b->mode) && same(a->io, b->io) && same(a->policy, b->policy) &&
           same(a->predict, b->predict);
}

bool slc_bench_same_policy(const slc_bench_config *a, const slc_bench_config *b) {
    return same(a->policy ? a->policy : "best", b->policy ? b->policy : "best");
}

slc_bench_dims slc_bench_varied(const slc_bench_results *r) {
    const slc_bench_config *first = &r->configs[0];
    slc_bench_dims d = {0};

    for (uint32_t i = 0; i < r->n_configs; i++) {
        const slc_bench_config *c = &r->configs[i];

        d.budget |= strcmp(c->budget, first->budget) != 0;
        d.mode |= !same(c->mode, first->mode);
        d.io |= !same(c->io, first->io);
        d.policy |= !same(c->policy, first->policy);
        d.predict |= !same(c->predict, first->predict);
    }
    return d;
}

static void append(char *buf, const char *word) {
    size_t n = strlen(buf);

    if (word) snprintf(buf + n, 128 - n, "%s%s", n ? " " : "", word);
}

const char *slc_bench_series(const slc_bench_results *r, const slc_bench_config *c, char buf[128]) {
    slc_bench_dims d = slc_bench_varied(r);

    buf[0] = '\0';
    if (d.mode) append(buf, c->mode ? c->mode : "full");
    if (d.io) append(buf, c->io);
    if (d.policy) append(buf, c->policy);
    if (d.predict) append(buf, c->predict);
    return buf;
}

/* ---- the machine ---- */

/* "2 x AMD EPYC"; the architecture where /proc/cpuinfo names no model. */
static void describe_processors(char *text, size_t cap, const char *fallback) {
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256], model[128];
    unsigned n = 0;

    snprintf(model, sizeof(model), "%s", fallback);
    while (f && fgets(line, sizeof(line), f)) {
        char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) || !colon) continue;
        n++;
        colon[1 + strcspn(colon + 1, "\n")] = '\0';
        snprintf(model, sizeof(model), "%.120s", colon + 1 + strspn(colon + 1, " \t"));
    }
    if (f) fclose(f);
    if (!n) n = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(text, cap, "%u x %s", n, model);
}

void slc_bench_describe_machine(char line[SLC_MACHINE_MAX]) {
    char processors[160];
    struct utsname u;
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);

    uname(&u);
    describe_processors(processors, sizeof(processors), u.machine);
    snprintf(line, SLC_MACHINE_MAX, "%s, %.1f GiB, %s %.40s, sluice %s", processors,
             memory / 1073741824.0, u.sysname, u.release, slc_version());
}

/* ---- */

void slc_bench_results_deinit(slc_bench_results *r) {
    for (uint32_t i = 0; i < r->n_configs; i++) {
        for (uint32_t k = 0; k < r->configs[i].n_runs; k++) {
            json_decref(r->configs[i].runs[k].stats);
            json_decref(r->configs[i].runs[k].settings);
            json_decref(r->configs[i].runs[k].stages);
        }
        free(r->configs[i].runs);
    }
    slc_bench_trace_close(r->trace);
    free(r->configs);
    free(r->disk_rates);
    free(r->memory_rates);
}
