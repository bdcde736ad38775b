/* sluice synth: checkpoints for measuring, of random weights or widened from a trained one. */
#include <math.h>
#include <stdio.h>

#include "base/fail.h"
#include "cli/cli.h"
#include "sluice/synth.h"

typedef struct synth_args {
    slc_common_args common;
    const char *geometry, *inflate;
    int64_t layers, hidden, expert_hidden;
    uint64_t seed;
} synth_args;

static const slc_opt options[] = {
    SLC_HEADING("Random weights"),
    SLC_OPTION_OF(synth_args, geometry, 0, "geometry", "NAME",
                  "sizes of qwen3.5-35b-a3b, qwen3.5-122b-a10b or\n"
                  "qwen3.5-397b-a17b, 4 bits, as MLX stores them",
                  "qwen3.5-35b-a3b|qwen3.5-122b-a10b|qwen3.5-397b-a17b"),
    SLC_OPTION_IN(synth_args, layers, INT, 0, "layers", "N", "the first N layers (default: all)", 1,
                  1024),
    SLC_HEADING("A trained checkpoint, widened: the same logits to the last bit"),
    SLC_OPTION(synth_args, inflate, STRING, 0, "inflate", "DIR", "the checkpoint (MLX layout)"),
    SLC_OPTION_IN(synth_args, hidden, INT, 0, "hidden", "N",
                  "hidden size: 4, 16 or 64 times the old one", 1, 65536),
    SLC_OPTION_IN(synth_args, expert_hidden, INT, 0, "expert-hidden", "N",
                  "width of an expert, shared ones included", 1, 1 << 20),
    SLC_HEADING("Both"),
    SLC_OPTION(synth_args, seed, SEED, 0, "seed", "N",
               "of the random bits (default 0): the same seed,\nthe same files"),
    SLC_COMMON_OPTIONS(synth_args),
};

static slc_status check(const slc_args *a, const void *values, slc_err *err) {
    const synth_args *o = values;
    slc_status rc;

    if (!o->geometry == !o->inflate)
        return slc_fail(err, SLC_E_INVALID, "expected one of --geometry and --inflate, found %s",
                        o->geometry ? "both" : "neither");
    if (!a->positional)
        return slc_fail(err, SLC_E_INVALID, "expected the name of a new folder, found none");
    if (o->inflate) return slc_args_refuse(a, "layers", "with --inflate", err);
    if ((rc = slc_args_refuse(a, "hidden", "with --geometry", err))) return rc;
    return slc_args_refuse(a, "expert-hidden", "with --geometry", err);
}

static bool on_progress(void *user, uint64_t done, uint64_t total) {
    slc_console_progress(user, "MiB", done >> 20, total >> 20);
    return !slc_console_interrupted();
}

static void print_result(slc_console *con, const char *out, const slc_synth_result *r) {
    const slc_synth_routing *g = &r->routing;
    double seconds = (double)r->write_ns / 1e9;
    char size[24];

    slc_console_printf(con, "%s: %s in %u file%s, %.1f s, %.0f MB/s\n", out,
                       slc_console_bytes(r->bytes, size), r->n_files, r->n_files == 1 ? "" : "s",
                       seconds, (double)r->bytes / 1e6 / seconds);
    if (g->n_tokens)
        slc_console_printf(con,
                           "routing of %u random token ids: entropy %.3f of %.3f bits, %u of %u "
                           "experts used, the busiest %.2f times the mean\n",
                           g->n_tokens, g->entropy_bits, log2(g->n_experts), g->n_used,
                           g->n_experts, g->busiest);
}

static int run(slc_console *con, const slc_args *a, void *values) {
    const synth_args *o = values;
    slc_synth_options opt = slc_synth_options_default();
    slc_synth_result result;
    slc_err err = {0};
    slc_status rc;

    opt.seed = o->seed;
    opt.on_progress = on_progress;
    opt.user = con;
    slc_console_catch_interrupt();
    if (o->geometry)
        rc = slc_synth_geometry(o->geometry, (uint32_t)o->layers, a->positional, &opt, &result,
                                &err);
    else
        rc = slc_synth_inflate(o->inflate, (uint32_t)o->hidden, (uint32_t)o->expert_hidden,
                               a->positional, &opt, &result, &err);
    slc_console_watch_interrupt(NULL);
    if (rc == SLC_E_CANCELLED) return SLC_EXIT_INTERRUPTED;
    if (rc) {
        slc_console_error(con, &err);
        return SLC_EXIT_FAILURE;
    }
    print_result(con, a->positional, &result);
    return SLC_EXIT_OK;
}

const slc_command slc_command_synth = {
    .name = "synth",
    .summary = "writes checkpoints of real sizes for measuring",
    .usage = "(--geometry NAME [--layers N] | --inflate DIR [--hidden N] [--expert-hidden N])\n"
             "                    [OPTIONS] OUTDIR",
    .notes = "A random checkpoint has no tokenizer: run and eval take token ids.",
    .positional = "OUTDIR",
    .opts = options,
    .n_opts = sizeof(options) / sizeof(*options),
    .values_size = sizeof(synth_args),
    .check = check,
    .run = run,
};
