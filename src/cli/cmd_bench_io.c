/* sluice bench io: how fast the disk gives experts, when nothing is computed between. */
#include "base/fail.h"
#include "cli/list_args.h"
#include "cli/model_args.h"
#include "sluice/bench.h"

#define DEPTHS "1,4,8,16,32,64,128"

typedef struct bench_io_args {
    slc_common_args common;
    slc_model_args model; /* path and io alone */
    const char *trace, *depth;
    double seconds;
    uint64_t seed;
    bool json;
} bench_io_args;

#define T bench_io_args

static const slc_opt options[] = {
    SLC_MODEL_OPTION(T),
    SLC_HEADING("Reads"),
    SLC_OPTION(T, trace, STRING, 0, "trace", "FILE",
               "read again what a run missed (run --trace FILE);\n"
               "default: experts drawn evenly"),
    SLC_OPTION(T, depth, STRING, 0, "depth", "LIST",
               "reads in flight, one after another\n(default " DEPTHS ")"),
    SLC_OPTION_OF(T, model.io, 0, "io", "KIND", "auto, uring, threads, buffered", SLC_IO_KINDS),
    SLC_OPTION_IN(T, seconds, FLOAT, 0, "seconds", "S", "for each depth (default 2)", 0.01, 3600),
    SLC_OPTION(T, seed, SEED, 0, "seed", "N", "of the draw (default 0)"),
    SLC_HEADING("Output"),
    SLC_OPTION(T, json, FLAG, 0, "json", NULL, "print one JSON object"),
    SLC_COMMON_OPTIONS(T),
};

#undef T

typedef struct depths {
    uint32_t n, depth[SLC_LIST_MAX];
} depths;

static slc_status parse_depths(const bench_io_args *o, depths *out, slc_err *err) {
    slc_list list;
    slc_status rc = slc_list_split("depth", o->depth ? o->depth : DEPTHS, &list, err);

    for (out->n = 0; !rc && out->n < list.n; out->n++)
        rc = slc_list_number("depth", list.item[out->n], 1, 4096, &out->depth[out->n], err);
    return rc;
}

static slc_status check(const slc_args *a, const void *values, slc_err *err) {
    const bench_io_args *o = values;
    depths d;

    if (!o->model.path) return slc_fail(err, SLC_E_INVALID, "expected a model: -m DIR");
    if (o->trace && slc_args_refuse(a, "seed", "on the reads of a trace", err))
        return SLC_E_INVALID;
    return parse_depths(o, &d, err);
}

static double per_second(uint64_t n, const slc_bench_io_result *r) {
    return r->ns ? (double)n * 1e9 / (double)r->ns : 0;
}

static json_t *sizes_json(const slc_bench_io_result *r) {
    json_t *sizes = json_array();

    for (uint32_t i = 0; i < r->n_sizes; i++)
        if (json_array_append_new(sizes, json_integer(r->sizes[i]))) {
            json_decref(sizes);
            return NULL;
        }
    return sizes;
}

static json_t *depth_json(uint32_t depth, const slc_bench_io_result *r) {
    return json_pack("{sI, sI, sI, sI, sI, sf, sf, sf}",          //
                     "depth", (json_int_t)depth,                  //
                     "experts", (json_int_t)r->experts,           //
                     "reads", (json_int_t)r->reads,               //
                     "bytes", (json_int_t)r->bytes,               //
                     "expert_bytes", (json_int_t)r->expert_bytes, //
                     "seconds", (double)r->ns / 1e9,              //
                     "bytes_per_s", per_second(r->bytes, r),      //
                     "reads_per_s", per_second(r->reads, r));
}

static void print_depth(slc_console *con, uint32_t depth, const slc_bench_io_result *r) {
    char size[24];

    slc_console_printf(con, "depth %4u  %8.1f MB/s  %8.0f reads/s of %s  %8.1f experts/s\n", depth,
                       per_second(r->bytes, r) / 1e6, per_second(r->reads, r),
                       slc_console_bytes(r->reads ? r->bytes / r->reads : 0, size),
                       per_second(r->experts, r));
}

static void print_best(slc_console *con, const bench_io_args *o, uint32_t depth,
                       const slc_bench_io_result *r, json_t *all) {
    if (o->json) {
        slc_console_json(con, json_pack("{ss, sb, sI, sf, so, sO}", "io", r->io, "direct",
                                        r->direct, "best_depth", (json_int_t)depth,
                                        "best_bytes_per_s", per_second(r->bytes, r), "read_sizes",
                                        sizes_json(r), "depths", all));
        return;
    }
    slc_console_printf(con, "best depth %u: %.1f MB/s through %s, %.2f %% of it alignment%s\n",
                       depth, per_second(r->bytes, r) / 1e6, r->io,
                       100 * (1 - (double)r->expert_bytes / (double)r->bytes),
                       r->direct ? "" : " (PAGE CACHE, not the disk)");
}

static int run(slc_console *con, const slc_args *a, void *values) {
    const bench_io_args *o = values;
    slc_bench_io_options opt = slc_bench_io_options_default();
    slc_bench_io_result best = {0}, here;
    uint32_t best_depth = 0;
    json_t *all = json_array();
    slc_err err = {0};
    depths d;

    opt.io = o->model.io;
    opt.trace = o->trace;
    opt.seed = o->seed;
    if (slc_args_given(a, "seconds")) opt.seconds = o->seconds;
    opt.log = slc_console_log;
    opt.log_user = con;
    opt.log_level = con->level;
    slc_console_catch_interrupt();
    if (parse_depths(o, &d, &err)) goto fail;
    for (uint32_t i = 0; i < d.n && !slc_console_interrupted(); i++) {
        opt.depth = d.depth[i];
        slc_console_progress(con, "depth", i + 1, d.n);
        if (slc_bench_io(o->model.path, &opt, &here, &err)) goto fail;
        opt.log_level = opt.log_level > 0 ? 0 : opt.log_level; /* how it reads is said once */
        if (o->json)
            json_array_append_new(all, depth_json(opt.depth, &here));
        else
            print_depth(con, opt.depth, &here);
        if (per_second(here.bytes, &here) <= per_second(best.bytes, &best)) continue;
        best = here;
        best_depth = opt.depth;
    }
    if (best_depth) print_best(con, o, best_depth, &best, all);
    json_decref(all);
    return slc_console_interrupted() ? SLC_EXIT_INTERRUPTED : SLC_EXIT_OK;
fail:
    json_decref(all);
    slc_console_error(con, &err);
    return SLC_EXIT_FAILURE;
}

const slc_command slc_command_bench_io = {
    .name = "bench io",
    .summary = "measures how fast the disk gives a model's experts",
    .usage = "-m DIR [OPTIONS]",
    .notes = "Reads go past the page cache as the expert cache's do: the same ranges, the same\n"
             "alignment. Nothing is computed, so this is the rate that streaming cannot beat.",
    .opts = options,
    .n_opts = sizeof(options) / sizeof(*options),
    .values_size = sizeof(bench_io_args),
    .check = check,
    .run = run,
};
