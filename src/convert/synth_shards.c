/* Two passes over the plan's tensors: the first says which shard each goes to, the second writes
 * shard after shard through one buffer of a few MiB. */
#include "convert/synth_shards.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"

#define BUFFER_BYTES ((uint64_t)8 << 20)

/* A tensor: a part of a weight. */
typedef struct tensor {
    const slc_synth_weight *w;
    int part;
    uint32_t shard;
    uint64_t bytes;
} tensor;

typedef struct writer {
    const slc_synth_folder *folder;
    slc_synth_fill_fn *fill;
    void *ctx;
    const slc_synth_options *opt;
    slc_err *err;
    tensor *tensors; /* [n], by shard */
    uint32_t n, n_shards;
    uint8_t *buf; /* [buf_bytes], at least a row of any tensor */
    size_t buf_bytes;
    uint64_t done, total;
} writer;

static slc_status no_memory(writer *w, const char *what) {
    return slc_fail(w->err, SLC_E_NOMEM, "%s: no memory for %s", w->folder->path, what);
}

/* ---- who goes where ---- */

static slc_status list_tensors(writer *w, const slc_synth_plan *plan) {
    uint64_t in_shard = 0, longest_row = 0;

    w->tensors = slc_calloc((size_t)plan->n * SLC_N_PARTS, sizeof(*w->tensors));
    if (!w->tensors) return no_memory(w, "the list of tensors");
    for (uint32_t i = 0; i < plan->n; i++) {
        for (int part = 0; part < SLC_N_PARTS; part++) {
            tensor t = {&plan->weights[i], part, 0, slc_synth_part_bytes(&plan->weights[i], part)};
            uint64_t row = slc_matrix_row_bytes(&t.w->type, part);

            if (t.bytes == 0) continue;
            if (in_shard && t.bytes > w->opt->shard_bytes - in_shard) {
                w->n_shards++;
                in_shard = 0;
            }
            t.shard = w->n_shards;
            in_shard +=
                t.bytes < w->opt->shard_bytes - in_shard ? t.bytes : w->opt->shard_bytes - in_shard;
            w->tensors[w->n++] = t;
            w->total += t.bytes;
            if (row > longest_row) longest_row = row;
        }
    }
    w->n_shards++;
    w->buf_bytes = longest_row > BUFFER_BYTES ? longest_row : BUFFER_BYTES;
    w->buf = slc_calloc(1, w->buf_bytes);
    return w->buf ? SLC_OK : no_memory(w, "a buffer");
}

enum { SHARD_NAME_BYTES = 64 };

static void shard_name(const writer *w, uint32_t shard, char name[SHARD_NAME_BYTES]) {
    if (w->n_shards == 1)
        snprintf(name, SHARD_NAME_BYTES, "model.safetensors");
    else
        snprintf(name, SHARD_NAME_BYTES, "model-%05u-of-%05u.safetensors", shard + 1, w->n_shards);
}

/* ---- headers and the index ---- */

static void print_tensor(FILE *out, const tensor *t, uint64_t begin) {
    char name[SLC_SYNTH_NAME_BYTES];
    uint64_t dims[3];
    uint32_t n_dims = slc_synth_part_dims(t->w, t->part, dims);

    slc_synth_part_name(t->w, t->part, name);
    fprintf(out, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", name,
            slc_dtype_name(slc_synth_part_dtype(t->w, t->part)));
    for (uint32_t d = 0; d < n_dims; d++) fprintf(out, "%s%" PRIu64, d ? "," : "", dims[d]);
    fprintf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, begin + t->bytes);
}

/* The text that `print` writes to a stream in memory; malloc'd, NULL without memory. */
typedef void print_fn(const writer *w, FILE *out, uint32_t shard);

static char *printed(const writer *w, print_fn *print, uint32_t shard, size_t *n) {
    char *text = NULL;
    FILE *out = open_memstream(&text, n);
    bool failed;

    if (!out) return NULL;
    print(w, out, shard);
    failed = ferror(out) != 0;
    if (fclose(out) || failed) {
        free(text);
        return NULL;
    }
    return text;
}

static void print_header(const writer *w, FILE *out, uint32_t shard) {
    uint64_t begin = 0;

    fprintf(out, "{\"__metadata__\":{\"format\":\"mlx\"}");
    for (uint32_t i = 0; i < w->n; i++) {
        if (w->tensors[i].shard != shard) continue;
        print_tensor(out, &w->tensors[i], begin);
        begin += w->tensors[i].bytes;
    }
    fprintf(out, "}");
}

static void print_index(const writer *w, FILE *out, uint32_t shard) {
    char file[SHARD_NAME_BYTES], name[SLC_SYNTH_NAME_BYTES];

    (void)shard;
    fprintf(out, "{\n    \"metadata\": {\n        \"total_size\": %" PRIu64 "\n    },\n", w->total);
    fprintf(out, "    \"weight_map\": {");
    for (uint32_t i = 0; i < w->n; i++) {
        shard_name(w, w->tensors[i].shard, file);
        slc_synth_part_name(w->tensors[i].w, w->tensors[i].part, name);
        fprintf(out, "%s\n        \"%s\": \"%s\"", i ? "," : "", name, file);
    }
    fprintf(out, "\n    }\n}\n");
}

static slc_status write_header(writer *w, slc_synth_file *f, uint32_t shard) {
    size_t n;
    char *text = printed(w, print_header, shard, &n);
    uint8_t length[8];
    slc_status rc;

    if (!text) return no_memory(w, "a header");
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)n >> 8 * i);
    rc = slc_synth_file_write(f, length, sizeof(length), w->err);
    if (!rc) rc = slc_synth_file_write(f, text, n, w->err);
    free(text);
    return rc;
}

static slc_status write_index(writer *w) {
    size_t n;
    char *text = printed(w, print_index, 0, &n);
    slc_status rc;

    if (!text) return no_memory(w, "the index");
    rc = slc_synth_folder_put(w->folder, "model.safetensors.index.json", text, n, w->err);
    free(text);
    return rc;
}

/* ---- data ---- */

static slc_status report(writer *w, uint64_t bytes) {
    w->done += bytes;
    if (!w->opt->on_progress || w->opt->on_progress(w->opt->user, w->done, w->total)) return SLC_OK;
    return slc_fail(w->err, SLC_E_CANCELLED, "%s: stopped after %" PRIu64 " of %" PRIu64 " bytes",
                    w->folder->path, w->done, w->total);
}

static slc_status write_tensor(writer *w, slc_synth_file *f, const tensor *t) {
    uint64_t row_bytes = slc_matrix_row_bytes(&t->w->type, t->part);
    uint64_t n_rows = slc_synth_part_rows(t->w, t->part), at_once = w->buf_bytes / row_bytes;
    slc_status rc;

    for (uint64_t row = 0; row < n_rows; row += at_once) {
        uint64_t n = n_rows - row < at_once ? n_rows - row : at_once;

        if ((rc = w->fill(w->ctx, t->w, t->part, row, n, w->buf, w->err))) return rc;
        if ((rc = slc_synth_file_write(f, w->buf, n * row_bytes, w->err))) return rc;
        if ((rc = report(w, n * row_bytes))) return rc;
    }
    return SLC_OK;
}

static slc_status write_shard(writer *w, uint32_t shard) {
    char name[SHARD_NAME_BYTES];
    slc_synth_file f;
    slc_status rc;

    shard_name(w, shard, name);
    if ((rc = slc_synth_file_create(&f, w->folder, name, w->err))) return rc;
    rc = write_header(w, &f, shard);
    for (uint32_t i = 0; !rc && i < w->n; i++)
        if (w->tensors[i].shard == shard) rc = write_tensor(w, &f, &w->tensors[i]);
    if (!rc) rc = slc_synth_file_finish(&f, w->err);
    slc_synth_file_close(&f);
    return rc;
}

slc_status slc_synth_write_shards(const slc_synth_folder *folder, const slc_synth_plan *plan,
                                  slc_synth_fill_fn *fill, void *ctx, const slc_synth_options *opt,
                                  uint32_t *n_files, slc_err *err) {
    writer w = {.folder = folder, .fill = fill, .ctx = ctx, .opt = opt, .err = err};
    slc_status rc = list_tensors(&w, plan);

    for (uint32_t i = 0; !rc && i < w.n_shards; i++) rc = write_shard(&w, i);
    if (!rc) rc = write_index(&w);
    *n_files = w.n_shards;
    free(w.tensors);
    free(w.buf);
    return rc;
}
