/* From a path to open files and one sorted set of tensors.
 *
 * With an index, exactly the files it names are opened, and exactly the tensors it maps are taken,
 * each from the file it is mapped to: other weight files in the folder, and tensors that a shard
 * holds beyond the map, are left alone and reported. Without one, model.safetensors is the
 * checkpoint. Paths are put together from the folder as the user wrote it; links are followed and
 * never resolved by hand, because model caches keep names in one folder and bytes in another. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "format/index.h"
#include "format/opening.h"
#include "format/qwen3_5_names.h"

static const char index_name[] = "model.safetensors.index.json";
static const char single_name[] = "model.safetensors";

enum { INDEX_MAX_BYTES = 256 << 20 };

/* ---- paths ---- */

static char *join(const slc_opening *o, const char *name) {
    char *path = NULL;

    return asprintf(&path, "%s/%s", o->c->dir, name) < 0 ? NULL : path;
}

static slc_status no_memory(slc_opening *o, const char *what) {
    return slc_fail(o->err, SLC_E_NOMEM, "%s: no memory for %s", o->c->dir ? o->c->dir : "open",
                    what);
}

slc_status slc_opening_folder(slc_opening *o, const char *path) {
    struct stat st;
    const char *slash = strrchr(path, '/');

    if (stat(path, &st)) return slc_fail_errno(o->err, errno, "%s: cannot open", path);
    if (S_ISDIR(st.st_mode))
        o->c->dir = strdup(path);
    else if (!slash)
        o->c->dir = strdup(".");
    else
        o->c->dir = strndup(path, slash == path ? 1 : (size_t)(slash - path));
    return o->c->dir ? SLC_OK : no_memory(o, "a path");
}

char *slc_opening_existing(const slc_opening *o, const char *name) {
    char *path = join(o, name);
    struct stat st;

    if (path && (lstat(path, &st) == 0 || errno != ENOENT)) return path;
    free(path);
    return NULL;
}

static slc_status read_whole(slc_opening *o, const slc_file *f, uint64_t max_bytes,
                             slc_text_file *out) {
    if (f->size_bytes > max_bytes)
        return slc_fail(o->err, SLC_E_FORMAT, "%s: %" PRIu64 " bytes, expected at most %" PRIu64,
                        f->path, f->size_bytes, max_bytes);
    out->n = (size_t)f->size_bytes;
    if (!(out->text = slc_calloc(out->n + 1, 1))) return no_memory(o, "a file's text");
    return slc_file_read(f, 0, out->text, out->n, o->err);
}

slc_status slc_opening_read_text(slc_opening *o, const char *name, uint64_t max_bytes,
                                 slc_text_file *out) {
    slc_file f;
    slc_status rc;

    *out = (slc_text_file){.path = join(o, name)};
    if (!out->path) return no_memory(o, "a path");
    if ((rc = slc_file_open(&f, out->path, o->err))) return rc;
    rc = read_whole(o, &f, max_bytes, out);
    slc_file_close(&f);
    return rc;
}

void slc_text_file_deinit(slc_text_file *f) {
    free(f->path);
    free(f->text);
    *f = (slc_text_file){0};
}

/* ---- before anything is opened ---- */

/* One message with all missing names: reports of single missing tensors would hide the cause. */
static slc_status check_shards_exist(slc_opening *o, const slc_index *x) {
    char names[300] = "";
    size_t used = 0;
    uint32_t missing = 0;

    for (uint32_t i = 0; i < x->n_files; i++) {
        char *path = join(o, x->files[i]);
        struct stat st;

        if (!path) return no_memory(o, "a path");
        if (stat(path, &st)) {
            missing++;
            if (used < sizeof(names))
                used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
                                         used ? ", " : "", x->files[i]);
        }
        free(path);
    }
    if (!missing) return SLC_OK;
    return slc_fail(o->err, SLC_E_FORMAT,
                    "%s/%s is stale or the download incomplete: %u of %u files it names are "
                    "missing: %s",
                    o->c->dir, index_name, missing, x->n_files, names);
}

static bool is_named(const char *name, const char *const *files, uint32_t n_files) {
    for (uint32_t i = 0; i < n_files; i++)
        if (strcmp(name, files[i]) == 0) return true;
    return false;
}

static void report_stray_files(slc_opening *o, const char *const *files, uint32_t n_files) {
    DIR *d = opendir(o->c->dir);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        size_t n = strlen(e->d_name), m = strlen(".safetensors");

        if (n > m && strcmp(e->d_name + n - m, ".safetensors") == 0 &&
            !is_named(e->d_name, files, n_files))
            slc_logf(o->log, SLC_LOG_WARN, "%s: %s is not part of the checkpoint, ignored",
                     o->c->dir, e->d_name);
    }
    if (d) closedir(d);
}

/* ---- headers ---- */

static slc_status open_files(slc_opening *o, const char *const *files, uint32_t n_files) {
    slc_checkpoint *c = o->c;
    /* Direct reads want a second descriptor a file, and do without. */
    uint64_t allowed = slc_file_allowance(2 * (uint64_t)n_files);

    if (allowed < n_files)
        return slc_fail_errno(o->err, EMFILE,
                              "%s: its %u files must be open at once, the limit of open files "
                              "allows %" PRIu64 " beside everything else; raise it to %" PRIu64
                              " (ulimit -n), or use a pack of the model (sluice pack), which is "
                              "one file",
                              o->c->dir, n_files, allowed, slc_file_limit_for(n_files));
    if (!(c->files = slc_calloc(n_files, sizeof(*c->files)))) return no_memory(o, "the file list");
    for (uint32_t i = 0; i < n_files; i++) {
        char *path = join(o, files[i]);
        slc_status rc = path ? slc_file_open(&c->files[i], path, o->err) : no_memory(o, "a path");

        free(path);
        if (rc) return rc;
        c->n_files = i + 1; /* close() closes what was opened */
    }
    return SLC_OK;
}

static slc_status read_header(slc_opening *o, uint32_t file) {
    const slc_file *f = &o->c->files[file];
    uint8_t head[8] = {0};
    uint64_t n;
    char *json;
    slc_status rc;

    if (f->size_bytes >= 8 && (rc = slc_file_read(f, 0, head, 8, o->err))) return rc;
    if ((rc = slc_safetensors_header_bytes(head, f->size_bytes, f->path, &n, o->err))) return rc;
    if (!(json = slc_calloc((size_t)n, 1))) return no_memory(o, "a header");
    rc = slc_file_read(f, 8, json, (size_t)n, o->err);
    if (!rc)
        rc = slc_safetensors_parse(json, (size_t)n, f->size_bytes, f->path, &o->set.tables[file],
                                   o->err);
    free(json);
    return rc;
}

/* What the index and the headers say about each other. */
typedef struct agreement {
    uint32_t unlisted; /* tensors in a shard that the index does not map to it */
    const char *first_unlisted;
    uint64_t bytes; /* of the tensors taken */
    bool *found;    /* [index n] the entry's tensor was in its file */
} agreement;

static slc_status take_listed(slc_opening *o, const slc_index *x, uint32_t file, agreement *a) {
    const slc_tensor_table *t = &o->set.tables[file];
    slc_status rc;

    for (uint32_t i = 0; i < t->n; i++) {
        const slc_index_entry *e = slc_index_find(x, t->tensors[i].name);

        if (!e || e->file != file) {
            if (!a->unlisted++) a->first_unlisted = t->tensors[i].name;
            continue;
        }
        a->found[e - x->entries] = true;
        a->bytes += t->tensors[i].bytes; /* each lies inside a file: no overflow in practice */
        if ((rc = slc_tensor_set_add(&o->set, &t->tensors[i], file, o->err))) return rc;
    }
    return SLC_OK;
}

/* Entries without a tensor: side towers only cost a log line, anything else is a wrong index. */
static slc_status check_found(slc_opening *o, const slc_index *x, const agreement *a) {
    uint32_t n_side = 0;

    for (uint32_t i = 0; i < x->n; i++) {
        const slc_index_entry *e = &x->entries[i];

        if (a->found[i]) continue;
        if (!slc_name_is_side_tower(slc_name_strip_prefix(e->tensor)))
            return slc_fail(o->err, SLC_E_FORMAT,
                            "%s/%s says that tensor %s lies in %s, but that file does not hold it",
                            o->c->dir, index_name, e->tensor, e->file_name);
        if (!n_side++)
            slc_logf(o->log, SLC_LOG_WARN,
                     "%s: %s is not in %s, where the index puts it; not needed for text", o->c->dir,
                     e->tensor, e->file_name);
    }
    if (n_side > 1)
        slc_logf(o->log, SLC_LOG_WARN, "%s: the same for %u more vision or mtp tensors", o->c->dir,
                 n_side - 1);
    if (a->unlisted)
        slc_logf(o->log, SLC_LOG_WARN,
                 "%s: %u tensors are not where the index puts them, or not in it; ignored (first: "
                 "%s)",
                 o->c->dir, a->unlisted, a->first_unlisted);
    if (x->total_bytes && x->total_bytes != a->bytes)
        slc_logf(o->log, SLC_LOG_INFO,
                 "%s: the index states a total of %" PRIu64 " bytes, its tensors have %" PRIu64,
                 o->c->dir, x->total_bytes, a->bytes);
    return SLC_OK;
}

/* ---- the two kinds of folder ---- */

static slc_status load_indexed(slc_opening *o, const slc_index *x) {
    agreement a = {0};
    slc_status rc;

    if ((rc = check_shards_exist(o, x))) return rc;
    report_stray_files(o, x->files, x->n_files);
    if ((rc = open_files(o, x->files, x->n_files))) return rc;
    if ((rc = slc_tensor_set_init(&o->set, x->n_files, o->err))) return rc;
    if (!(a.found = slc_calloc(x->n, sizeof(*a.found)))) return no_memory(o, "the index");
    for (uint32_t i = 0; !rc && i < x->n_files; i++)
        if (!(rc = read_header(o, i))) rc = take_listed(o, x, i, &a);
    if (!rc) rc = check_found(o, x, &a);
    free(a.found);
    return rc;
}

static slc_status load_single(slc_opening *o) {
    const char *file = single_name;
    slc_status rc;

    report_stray_files(o, &file, 1);
    if ((rc = open_files(o, &file, 1))) return rc;
    if ((rc = slc_tensor_set_init(&o->set, 1, o->err))) return rc;
    if ((rc = read_header(o, 0))) return rc;
    for (uint32_t i = 0; i < o->set.tables[0].n; i++)
        if ((rc = slc_tensor_set_add(&o->set, &o->set.tables[0].tensors[i], 0, o->err))) return rc;
    return SLC_OK;
}

static slc_status load_with_index(slc_opening *o) {
    slc_text_file f;
    slc_index x = {0};
    slc_status rc = slc_opening_read_text(o, index_name, INDEX_MAX_BYTES, &f);

    if (!rc) rc = slc_index_parse(f.text, f.n, f.path, &x, o->err);
    slc_text_file_deinit(&f);
    if (!rc) rc = load_indexed(o, &x);
    slc_index_deinit(&x);
    return rc;
}

slc_status slc_opening_files(slc_opening *o) {
    char *index = slc_opening_existing(o, index_name);
    char *single = slc_opening_existing(o, single_name);
    slc_status rc;

    if (index)
        rc = load_with_index(o);
    else if (single)
        rc = load_single(o);
    else
        rc = slc_fail(o->err, SLC_E_IO, "%s: holds neither %s nor %s", o->c->dir, index_name,
                      single_name);
    free(index);
    free(single);
    if (rc) return rc;
    if ((rc = slc_tensor_set_sort(&o->set, o->err))) slc_fail_context(o->err, "%s", o->c->dir);
    return rc;
}
