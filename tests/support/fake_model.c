/* The fake checkpoint; see the header. */
#include "support/fake_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/faults.h"
#include "support/temp.h"

enum { PARTS = SLC_N_PROJ * SLC_N_PARTS };

uint8_t fake_model_byte(uint32_t file, uint64_t off) {
    uint64_t x = (off + 1) * 0x9e3779b97f4a7c15u + file;

    return (uint8_t)(x >> 40 ^ x >> 20);
}

static slc_extent *extent(const fake_model *m, uint32_t layer, uint32_t expert, int i) {
    return &m->extents[((size_t)layer * m->ckpt.cfg.n_experts + expert) * PARTS + (size_t)i];
}

slc_extent slc_checkpoint_expert(const slc_checkpoint *c, uint32_t layer, uint32_t expert, int proj,
                                 int part) {
    return *extent((const fake_model *)c, layer, expert, proj * SLC_N_PARTS + part);
}

uint64_t slc_checkpoint_expert_bytes(const slc_checkpoint *c, uint32_t layer) {
    uint64_t sum = 0;

    for (int i = 0; i < PARTS; i++) sum += extent((const fake_model *)c, layer, 0, i)->bytes;
    return sum;
}

/* Part after part of all experts of a layer, as stacked tensors lie; experts in descending order
 * in odd layers, so that file order is not id order. */
static void place_all(fake_model *m, const fake_model_options *opt, uint64_t *end) {
    uint32_t random = opt->seed | 1;

    for (uint32_t layer = 0; layer < opt->n_layers; layer++) {
        for (int i = 0; i < PARTS; i++) {
            for (uint32_t k = 0; k < opt->n_experts; k++) {
                uint32_t expert = layer % 2 ? opt->n_experts - 1 - k : k;
                uint32_t file = layer % opt->n_files;
                slc_extent e = {.file = file, .off = end[file] + faults_random(&random) % 3};
                e.bytes = 1 + faults_random(&random) % opt->part_bytes;
                if (layer == 2 && i % SLC_N_PARTS == SLC_PART_BIASES) e.bytes = 0; /* absent */
                end[file] = e.off + e.bytes;
                *extent(m, layer, expert, i) = e;
            }
        }
    }
}

static void write_file(fake_model *m, const fake_model_options *opt, uint32_t file, uint64_t size) {
    uint8_t *bytes = malloc(size);
    char name[32], *path;
    const char *why;
    slc_err err = {0};
    slc_file *f = &m->ckpt.files[file];

    if (!bytes) abort();
    for (uint64_t i = 0; i < size; i++) bytes[i] = fake_model_byte(file, i);
    snprintf(name, sizeof(name), "shard-%u", file);
    path = temp_write(m->temp, name, bytes, size);
    if (slc_file_open_with(f, path, opt->sys ? opt->sys : &slc_sys_linux, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    if (opt->direct) slc_file_enable_direct(f, &why);
    free(path);
    free(bytes);
}

fake_model *fake_model_create(const fake_model_options *opt) {
    fake_model *m = calloc(1, sizeof(*m));
    uint64_t *end = calloc(opt->n_files, sizeof(*end));

    if (!m || !end) abort();
    m->temp = temp_dir();
    m->ckpt.cfg.n_layers = opt->n_layers;
    m->ckpt.cfg.n_experts = opt->n_experts;
    m->ckpt.n_files = opt->n_files;
    m->ckpt.files = calloc(opt->n_files, sizeof(*m->ckpt.files));
    m->ckpt.layers = calloc(opt->n_layers, sizeof(*m->ckpt.layers));
    m->extents = calloc((size_t)opt->n_layers * opt->n_experts * PARTS, sizeof(*m->extents));
    if (!m->ckpt.files || !m->ckpt.layers || !m->extents) abort();
    for (uint32_t i = 0; i < opt->n_layers; i++) m->ckpt.layers[i].expert[SLC_EXPERT_GATE].rows = 1;
    place_all(m, opt, end);
    for (uint32_t i = 0; i < opt->n_files; i++) write_file(m, opt, i, end[i]);
    free(end);
    return m;
}

void fake_model_destroy(fake_model *m) {
    if (!m) return;
    for (uint32_t i = 0; i < m->ckpt.n_files; i++) slc_file_close(&m->ckpt.files[i]);
    free(m->ckpt.files);
    free(m->ckpt.layers);
    free(m->extents);
    temp_dir_remove(m->temp);
    free(m);
}

bool fake_model_matches(const fake_model *m, uint32_t layer, uint32_t expert,
                        const slc_expert_view *view) {
    for (int i = 0; i < PARTS; i++) {
        const slc_extent *e = extent(m, layer, expert, i);
        const uint8_t *p = view->part[i / SLC_N_PARTS][i % SLC_N_PARTS];
        if (!p != !e->bytes) return false;
        for (uint64_t k = 0; k < e->bytes; k++) {
            if (p[k] != fake_model_byte(e->file, e->off + k)) return false;
        }
    }
    return true;
}
