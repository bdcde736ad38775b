/* sluice inspect: what a checkpoint is and how it would be run, without loading it. Only headers
 * are read. The memory options are those of run, so that a plan can be tried before it is used. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/fail.h"
#include "cli/model_args.h"
#include "sluice/convert.h"

typedef struct inspect_args {
    slc_common_args common;
    slc_model_args model;
    bool json;
} inspect_args;

static const slc_opt options[] = {
    SLC_MODEL_OPTION(inspect_args),
    SLC_HEADING("Output"),
    SLC_OPTION(inspect_args, json, FLAG, 0, "json", NULL, "print one JSON object"),
    SLC_MACHINE_OPTIONS(inspect_args),
    SLC_COMMON_OPTIONS(inspect_args),
};

static slc_status check(const slc_args *a, const void *values, slc_err *err) {
    const inspect_args *o = values;

    if (!o->model.path == !a->positional)
        return slc_fail(err, SLC_E_INVALID, "expected one model folder, found %s",
                        a->positional ? "two" : "none");
    return SLC_OK;
}

/* ---- for people ---- */

static void row(slc_console *con, const char *name, uint64_t bytes, const char *note) {
    char text[24];

    slc_console_printf(con, "  %-18s %10s%s%s\n", name, slc_console_bytes(bytes, text),
                       *note ? "  " : "", note);
}

static void print_model(slc_console *con, const slc_model_info *i) {
    slc_console_printf(con, "%s, %.2f billion parameters\n", i->model_type,
                       (double)i->n_params / 1e9);
    slc_console_printf(con, "  layers             %u (%u with full attention), hidden size %u\n",
                       i->n_layers, i->n_full_layers, i->hidden_size);
    slc_console_printf(con, "  vocabulary         %u%s\n", i->vocab_size,
                       i->tied_embeddings ? ", embedding and output share weights" : "");
    slc_console_printf(con, "  positions          %u\n", i->max_positions);
    if (i->n_experts)
        slc_console_printf(con, "  experts            %u a layer, %u a token\n", i->n_experts,
                           i->n_experts_per_tok);
    slc_console_printf(con, "  stop ids          ");
    for (uint32_t k = 0; k < i->n_stop_ids; k++) slc_console_printf(con, " %d", i->stop_ids[k]);
    slc_console_printf(con, "\n");
}

static void print_files(slc_console *con, const slc_model_info *i) {
    slc_console_printf(con, "\nweights\n");
    row(con, "in the files", i->file_bytes, "");
    row(con, "resident", i->file_bytes - i->expert_bytes_total, i->dense_format);
    if (i->n_experts) {
        row(con, "experts", i->expert_bytes_total, i->expert_format);
        row(con, "one expert", i->expert_bytes, "");
        row(con, "experts of a token", i->expert_bytes_per_token, "read if none is in the cache");
    }
    if (i->ignored_bytes) row(con, "not used", i->ignored_bytes, "vision, multi-token prediction");
}

static const char *date_of(const slc_pack_origin *o, char buf[32]) {
    time_t t = (time_t)o->mtime_s;
    struct tm tm;

    if (!gmtime_r(&t, &tm) || !strftime(buf, 32, "%Y-%m-%d %H:%M:%S UTC", &tm)) *buf = '\0';
    return buf;
}

static void print_pack(slc_console *con, const slc_pack_info *p) {
    char size[24], date[32];

    if (!p->is_pack) return;
    slc_console_printf(con, "\npack, format version %u, made from\n", p->version);
    for (uint32_t i = 0; i < p->n_origins; i++)
        slc_console_printf(con, "  %s, %s, of %s, header %016llx\n", p->origins[i].name,
                           slc_console_bytes(p->origins[i].bytes, size),
                           date_of(&p->origins[i], date),
                           (unsigned long long)p->origins[i].header_hash);
}

static void print_plan(slc_console *con, const slc_model_info *i) {
    char note[64] = "", budget[24], smallest[24];

    slc_console_printf(con, "\nmemory for a context of %u, passes of %u tokens\n", i->ctx_size,
                       i->prefill_chunk);
    row(con, "process", i->process_bytes, "");
    row(con, "resident weights", i->resident_bytes, "");
    row(con, "state", i->state_bytes, "");
    row(con, "scratch", i->scratch_bytes, "");
    if (i->n_experts) {
        snprintf(note, sizeof(note), "%u of %llu experts", i->n_slots,
                 (unsigned long long)i->n_layers * i->n_experts);
        row(con, "expert cache", i->slab_bytes, note);
    }
    row(con, "budget", i->budget_bytes, "");
    row(con, "smallest budget", i->smallest_budget_bytes, "");
    if (i->budget_bytes < i->smallest_budget_bytes)
        slc_console_printf(con, "does not fit: %s given, at least %s needed\n",
                           slc_console_bytes(i->budget_bytes, budget),
                           slc_console_bytes(i->smallest_budget_bytes, smallest));
}

static void print_all(slc_console *con, const slc_model_info *i, const slc_pack_info *p) {
    print_model(con, i);
    print_files(con, i);
    print_pack(con, p);
    print_plan(con, i);
    slc_console_printf(con, "\n%u threads, %s kernels%s%s\n", i->threads, i->cpu_level,
                       *i->io ? ", experts read through " : "", i->io);
}

/* ---- for programs ---- */

static json_t *model_json(const slc_model_info *i) {
    return json_pack("{ss, sI, si, si, si, si, si, si, si, sb, sb, ss, ss, so}", //
                     "model_type", i->model_type,                                //
                     "n_params", (json_int_t)i->n_params,                        //
                     "n_layers", (int)i->n_layers,                               //
                     "n_full_layers", (int)i->n_full_layers,                     //
                     "hidden_size", (int)i->hidden_size,                         //
                     "vocab_size", (int)i->vocab_size,                           //
                     "max_positions", (int)i->max_positions,                     //
                     "n_experts", (int)i->n_experts,                             //
                     "n_experts_per_tok", (int)i->n_experts_per_tok,             //
                     "tied_embeddings", i->tied_embeddings,                      //
                     "norms_are_raw", i->norms_are_raw,                          //
                     "dense_format", i->dense_format,                            //
                     "expert_format", i->expert_format,                          //
                     "stop_ids", slc_console_ids(i->stop_ids, i->n_stop_ids));
}

static json_t *bytes_json(const slc_model_info *i) {
    return json_pack("{sI, sI, sI, sI, sI}",                        //
                     "file_bytes", (json_int_t)i->file_bytes,       //
                     "ignored_bytes", (json_int_t)i->ignored_bytes, //
                     "expert_bytes", (json_int_t)i->expert_bytes,   //
                     "expert_bytes_total", (json_int_t)i->expert_bytes_total,
                     "expert_bytes_per_token", (json_int_t)i->expert_bytes_per_token);
}

/* null for a folder */
static json_t *pack_json(const slc_pack_info *p) {
    json_t *origins = json_array();
    char hash[20];

    for (uint32_t i = 0; i < p->n_origins; i++) {
        const slc_pack_origin *o = &p->origins[i];

        json_t *name = json_string(o->name);

        snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)o->header_hash);
        if (!name) name = json_null(); /* a file name need not be UTF-8 */
        json_array_append_new(origins, json_pack("{so, sI, sI, ss}", "name", name, "bytes",
                                                 (json_int_t)o->bytes, "mtime",
                                                 (json_int_t)o->mtime_s, "header_hash", hash));
    }
    if (p->is_pack)
        return json_pack("{si, sI, so}", "version", (int)p->version, "file_bytes",
                         (json_int_t)p->file_bytes, "sources", origins);
    json_decref(origins);
    return json_null();
}

static json_t *plan_json(const slc_model_info *i) {
    return json_pack("{sI, sI, sI, sI, ss, ss, sI, sI, sI, sI, sI, sI, sI, sI, sI}", //
                     "ctx_size", (json_int_t)i->ctx_size,                            //
                     "n_seqs", (json_int_t)i->n_seqs,                                //
                     "prefill_chunk", (json_int_t)i->prefill_chunk,                  //
                     "threads", (json_int_t)i->threads,                              //
                     "cpu_level", i->cpu_level,                                      //
                     "io", i->io,                                                    //
                     "budget_bytes", (json_int_t)i->budget_bytes,                    //
                     "smallest_budget_bytes", (json_int_t)i->smallest_budget_bytes,  //
                     "process_bytes", (json_int_t)i->process_bytes,                  //
                     "resident_bytes", (json_int_t)i->resident_bytes,                //
                     "state_bytes", (json_int_t)i->state_bytes,                      //
                     "scratch_bytes", (json_int_t)i->scratch_bytes,                  //
                     "slab_bytes", (json_int_t)i->slab_bytes,                        //
                     "n_slots", (json_int_t)i->n_slots,                              //
                     "slot_bytes", (json_int_t)i->slot_bytes);
}

/* ---- the command ---- */

static int run(slc_console *con, const slc_args *a, void *values) {
    inspect_args *o = values;
    slc_model_options opt;
    slc_model_info info;
    slc_pack_info pack = {0};
    slc_err err = {0};
    slc_status rc;

    if (a->positional) o->model.path = a->positional;
    if ((rc = slc_model_args_options(&o->model, con, &opt, &err))) goto fail;
    if (opt.log_level == 1) opt.log_level = 0; /* what it would say stands in the plan */
    if ((rc = slc_model_inspect(o->model.path, &opt, &info, &err))) goto fail;
    if ((rc = slc_pack_inspect(o->model.path, &pack, &err))) goto fail;
    if (o->json)
        slc_console_json(con, json_pack("{so, so, so, so}", "model", model_json(&info), "weights",
                                        bytes_json(&info), "pack", pack_json(&pack), "plan",
                                        plan_json(&info)));
    else
        print_all(con, &info, &pack);
    slc_pack_info_deinit(&pack);
    return SLC_EXIT_OK;
fail:
    slc_pack_info_deinit(&pack);
    slc_console_error(con, &err);
    return slc_model_args_exit(rc);
}

const slc_command slc_command_inspect = {
    .name = "inspect",
    .summary = "shows what a checkpoint is and the memory it would take",
    .usage = "DIR [OPTIONS]",
    .positional = "DIR",
    .opts = options,
    .n_opts = sizeof(options) / sizeof(*options),
    .values_size = sizeof(inspect_args),
    .check = check,
    .run = run,
};
