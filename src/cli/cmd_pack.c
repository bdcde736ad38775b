/* sluice pack: a checkpoint folder as one file made for streaming, and a look at every byte of such
 * a file. */
#include "base/fail.h"
#include "cli/cli.h"
#include "sluice/convert.h"

typedef struct pack_args {
    slc_common_args common;
    bool force, verify;
} pack_args;

static const slc_opt options[] = {
    SLC_HEADING("Pack"),
    SLC_OPTION(pack_args, force, FLAG, 0, "force", NULL, "replace a pack that is already there"),
    SLC_OPTION(pack_args, verify, FLAG, 0, "verify", NULL,
               "read everything back and compare hashes, before the file\n"
               "gets its name; without DIR: check a pack that is there"),
    SLC_COMMON_OPTIONS(pack_args),
};

static slc_status check(const slc_args *a, const void *values, slc_err *err) {
    const pack_args *o = values;

    if (a->second) return SLC_OK;
    if (!a->positional || !o->verify)
        return slc_fail(err, SLC_E_INVALID,
                        "expected a checkpoint folder and the file to write, found %s",
                        a->positional ? "one of them" : "neither");
    return slc_args_refuse(a, "force", "without a file to write", err);
}

static bool on_progress(void *user, const char *what, uint64_t done, uint64_t total) {
    char line[32];

    snprintf(line, sizeof(line), "%s, MiB", what);
    slc_console_progress(user, line, done >> 20, total >> 20);
    return !slc_console_interrupted();
}

/* One line: what the pack is. */
static slc_status print_pack(slc_console *con, const char *path, const char *state, slc_err *err) {
    slc_pack_info info;
    slc_status rc = slc_pack_inspect(path, &info, err);
    char size[24];

    if (!rc)
        slc_console_printf(con, "%s: %s, %u layers of %u experts, %s\n", path,
                           slc_console_bytes(info.file_bytes, size), info.n_layers, info.n_experts,
                           state);
    slc_pack_info_deinit(&info);
    return rc;
}

static int run(slc_console *con, const slc_args *a, void *values) {
    const pack_args *o = values;
    slc_pack_options opt = slc_pack_options_default();
    const char *path = a->second ? a->second : a->positional;
    slc_err err = {0};
    slc_status rc;

    opt.force = o->force;
    opt.verify = o->verify;
    opt.on_progress = on_progress;
    opt.log = slc_console_log;
    opt.user = con;
    slc_console_catch_interrupt();
    rc = a->second ? slc_pack_write(a->positional, path, &opt, &err)
                   : slc_pack_verify(path, &opt, &err);
    slc_console_watch_interrupt(NULL);
    if (rc == SLC_E_CANCELLED) return SLC_EXIT_INTERRUPTED;
    if (!rc) rc = print_pack(con, path, o->verify ? "all hashes right" : "written", &err);
    if (!rc) return SLC_EXIT_OK;
    slc_console_error(con, &err);
    return SLC_EXIT_FAILURE;
}

const slc_command slc_command_pack = {
    .name = "pack",
    .summary = "makes one file of a checkpoint, faster to stream from, with hashes",
    .usage = "DIR OUT [--force] [--verify]\n       sluice pack --verify PACK",
    .notes = "OUT takes the place of DIR in every command: the same text, bit for bit. Until it\n"
             "is complete it is OUT.partial; what an interrupted run leaves there, the next one\n"
             "starts over.",
    .positional = "DIR OUT",
    .opts = options,
    .n_opts = sizeof(options) / sizeof(*options),
    .values_size = sizeof(pack_args),
    .check = check,
    .run = run,
};
