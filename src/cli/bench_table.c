/* Results as a Markdown table for people and as CSV, one row a run, for programs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "cli/bench_runs.h"
#include "cli/profile.h"

/* ---- Markdown ---- */

static void print_head(const slc_bench_results *r, slc_console *con) {
    slc_spread disk = slc_spread_of(r->disk_rates, r->n_rates);
    slc_spread memory = slc_spread_of(r->memory_rates, r->n_rates);
    char size[24], experts[24];

    slc_console_printf(con, "%s\n", r->machine);
    slc_console_printf(
        con, "%u tokens after a prompt of %u from %s (%s of weights, %s of experts), ", r->n_tokens,
        r->n_prompt, r->model, slc_console_bytes(r->info.file_bytes, size),
        slc_console_bytes(r->info.expert_bytes_total, experts));
    slc_console_printf(con,
                       "page cache dropped before each run%s; median (lowest to highest) of %u "
                       "alternating round%s\n",
                       r->cgroup ? ", each in a cgroup of its budget + 64 MiB" : "", r->n_rounds,
                       r->n_rounds == 1 ? "" : "s");
    if (r->n_rates == 0) return;
    slc_console_printf(con, "memory reads %.1f GB/s", memory.median / 1e9);
    if (r->disk_depth)
        slc_console_printf(con,
                           ", the disk %.0f MB/s (%.0f to %.0f) of these experts at depth %u%s",
                           disk.median / 1e6, disk.min / 1e6, disk.max / 1e6, r->disk_depth,
                           r->through_cache ? ", through the page cache: not the disk's rate" : "");
    slc_console_printf(con, "\n\n");
}

static void print_header(const slc_bench_results *r, const slc_bench_dims *d, slc_console *con) {
    const char *budget = r->configs[0].cache_bytes ? "expert cache" : "memory limit";
    int left = d->mode + d->io + d->policy + d->predict;

    slc_console_printf(con, "| %s |%s%s%s%s", budget, d->mode ? " mode |" : "",
                       d->io ? " io |" : "", d->policy ? " policy |" : "",
                       d->predict ? " predict |" : "");
    slc_console_printf(con,
                       " peak memory | prompt tokens/s | tokens/s | read from disk | experts in "
                       "cache | waiting | roofline | reached |\n| ---: |");
    while (left-- > 0) slc_console_printf(con, " --- |");
    slc_console_printf(con, " ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
}

static void print_choice(slc_console *con, bool varied, const char *value) {
    if (varied) slc_console_printf(con, " %s |", value ? value : "");
}

static void print_row(const slc_bench_config *c, const slc_bench_dims *d, slc_console *con) {
    slc_spread rate = slc_bench_spread(c, "decode_tokens_per_s");
    double busy = slc_bench_spread(c, "prefill_s").median + slc_bench_spread(c, "decode_s").median;
    double stall = slc_bench_spread(c, "stall_s").median;
    const slc_bench_bound *b = &c->bound;

    slc_console_printf(con, "| %s |", *c->budget ? c->budget : "default");
    print_choice(con, d->mode, c->mode);
    print_choice(con, d->io, c->io);
    print_choice(con, d->policy, c->policy);
    print_choice(con, d->predict, c->predict);
    if (c->needed_bytes) {
        slc_console_printf(con, " does not fit | | needs %.1f MiB | | | | | |\n",
                           (double)c->needed_bytes / 1048576);
        return;
    }
    slc_console_printf(
        con, " %.1f MiB | %.1f | %.1f (%.1f to %.1f) | %.1f MB | %.0f %% | %.0f %% |",
        slc_bench_spread(c, "peak_rss_bytes").max / 1048576,
        slc_bench_spread(c, "prefill_tokens_per_s").median, rate.median, rate.min, rate.max,
        slc_bench_spread(c, "bytes_read").median / 1e6,
        100 * slc_bench_spread(c, "hit_rate").median, busy > 0 ? 100 * stall / busy : 0);
    slc_console_printf(con, " %.1f (%s) | %.0f %% |\n", b->tokens_per_s,
                       b->disk_s > b->memory_s ? "disk" : "memory",
                       b->tokens_per_s > 0 ? 100 * rate.median / b->tokens_per_s : 0);
}

void slc_bench_print_table(const slc_bench_results *r, slc_console *con) {
    slc_bench_dims d = slc_bench_varied(r);

    print_head(r, con);
    print_header(r, &d, con);
    for (uint32_t i = 0; i < r->n_configs; i++)
        if (r->configs[i].n_runs || r->configs[i].needed_bytes) print_row(&r->configs[i], &d, con);
}

/* ---- profiles ---- */

static void write_profile(const slc_bench_config *c, FILE *out) {
    json_t *stages[SLC_BENCH_MAX_ROUNDS], *stats[SLC_BENCH_MAX_ROUNDS];

    for (uint32_t i = 0; i < c->n_runs; i++) {
        stages[i] = c->runs[i].stages;
        stats[i] = c->runs[i].stats;
    }
    slc_profile_print(out, stages, stats, c->n_runs);
}

void slc_bench_print_profiles(const slc_bench_results *r, slc_console *con) {
    for (uint32_t i = 0; i < r->n_configs; i++) {
        const slc_bench_config *c = &r->configs[i];
        char series[128], *text = NULL;
        size_t n = 0;
        FILE *out = c->n_runs ? open_memstream(&text, &n) : NULL;

        if (!out) continue;
        slc_bench_series(r, c, series);
        fprintf(out, "\n%s%s%s\n\n", *c->budget ? c->budget : "default", *series ? ", " : "",
                series);
        write_profile(c, out);
        fclose(out);
        slc_console_write(con, text, n);
        free(text);
    }
}

/* ---- CSV (RFC 4180) ---- */

static void put_text(FILE *f, const char *text) {
    fputc('"', f);
    for (; *text; text++) {
        if (*text == '"') fputc('"', f);
        fputc(*text, f);
    }
    fputc('"', f);
}

static void put_json(FILE *f, const json_t *value) {
    if (json_is_string(value))
        put_text(f, json_string_value(value));
    else if (json_is_integer(value))
        fprintf(f, "%lld", (long long)json_integer_value(value));
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "1" : "0", f);
    else
        fprintf(f, "%.9g", json_number_value(value));
}

/* ",key" for every figure; those of an object within are ",outer_key". */
static void put_names(FILE *f, const char *outer, json_t *object) {
    char name[160];
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value) {
        snprintf(name, sizeof(name), "%s%s%s", outer, *outer ? "_" : "", key);
        if (json_is_object(value))
            put_names(f, name, value);
        else
            fprintf(f, ",%s", name);
    }
}

static void put_header(FILE *f, const slc_bench_run *run) {
    fprintf(f, "machine,model,file_bytes,expert_bytes_total,round,budget,memory_limit_bytes,"
               "expert_cache_bytes,stream_mode,io_asked,policy,predict,cgroup_limit_bytes,"
               "cached_before_bytes");
    put_names(f, "", run->settings);
    put_names(f, "", run->stats);
    fprintf(f, ",process_read_bytes,wall_s,disk_bytes_per_s,disk_depth,memory_bytes_per_s,"
               "misses_per_token,roofline_disk_s,roofline_memory_s,roofline_tokens_per_s\r\n");
}

static void put_values(FILE *f, json_t *object) {
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value) {
        if (json_is_object(value)) {
            put_values(f, value);
            continue;
        }
        fputc(',', f);
        put_json(f, value);
    }
}

static void put_choice(FILE *f, const char *value) {
    fputc(',', f);
    put_text(f, value ? value : "");
}

static void put_row(FILE *f, const slc_bench_results *r, const slc_bench_config *c,
                    uint32_t round) {
    const slc_bench_run *run = &c->runs[round];

    put_text(f, r->machine);
    put_choice(f, r->model);
    fprintf(f, ",%llu,%llu,%u", (unsigned long long)r->info.file_bytes,
            (unsigned long long)r->info.expert_bytes_total, round + 1);
    put_choice(f, c->budget);
    fprintf(f, ",%llu,%llu", (unsigned long long)c->memory_bytes,
            (unsigned long long)c->cache_bytes);
    put_choice(f, c->mode);
    put_choice(f, c->io);
    put_choice(f, c->policy);
    put_choice(f, c->predict);
    fprintf(f, ",%llu,%llu", (unsigned long long)slc_bench_cgroup_bytes(r, c),
            (unsigned long long)run->cached_bytes);
    put_values(f, run->settings);
    put_values(f, run->stats);
    fprintf(f, ",%llu,%.3f,%.0f,%u,%.0f,%.9g,%.9g,%.9g,%.9g\r\n",
            (unsigned long long)run->read_bytes, run->wall_s, r->disk_rates[round], r->disk_depth,
            r->memory_rates[round], c->bound.misses_per_token, c->bound.disk_s, c->bound.memory_s,
            c->bound.tokens_per_s);
}

slc_status slc_bench_write_csv(const slc_bench_results *r, const char *path, slc_err *err) {
    FILE *f = fopen(path, "we");
    int failed;

    if (!f) return slc_fail_errno(err, errno, "%s: cannot write", path);
    put_header(f, slc_bench_first_run(r));
    for (uint32_t round = 0; round < r->n_rounds; round++) /* in the order they were made */
        for (uint32_t i = 0; i < r->n_configs; i++)
            if (round < r->configs[i].n_runs) put_row(f, r, &r->configs[i], round);
    failed = ferror(f);
    if (fclose(f) || failed) return slc_fail_errno(err, errno, "%s: cannot write", path);
    return SLC_OK;
}
