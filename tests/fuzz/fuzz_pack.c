/* A pack, opened as a file. The input is head, index and texts; the file is as long as its head
 * says, up to a limit, with zeros behind the input. The last byte is an option: bit 0 makes the
 * hashes right first, so that tables which lie get as far as those that are only damaged. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/hash64.h"
#include "format/pack.h"
#include "fuzz/fuzz.h"

#define MAX_FILE_BYTES ((uint64_t)1 << 30)

static uint64_t get64(const uint8_t *p) {
    uint64_t v = 0;

    for (int i = 7; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static void put64(uint8_t *p, uint64_t v) {
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> 8 * i);
}

/* Texts first, whose hashes stand in the index, then the index, then the head. */
static void make_hashes_right(uint8_t *data, size_t n) {
    uint64_t n_index;

    if (n < 64 + 32 + SLC_N_TEXTS * 24) return;
    for (uint8_t *t = data + 64 + 32; t < data + 64 + 32 + SLC_N_TEXTS * 24; t += 24) {
        uint64_t off = get64(t), bytes = get64(t + 8);

        if (off < n && bytes <= n - off) put64(t + 16, slc_hash64_of(data + off, bytes));
    }
    n_index = get64(data + 32);
    if (n_index <= n - 64) put64(data + 40, slc_hash64_of(data + 64, n_index));
    put64(data + 56, slc_hash64_of(data, 56));
}

static void check_extent(const slc_checkpoint *c, slc_extent e) {
    fuzz_check(e.file == 0 && e.off <= c->files[0].size_bytes &&
               e.bytes <= c->files[0].size_bytes - e.off);
}

/* What readers of a checkpoint rely on. */
static void check_checkpoint(const slc_checkpoint *c) {
    for (int part = 0; part < SLC_N_PARTS; part++) {
        for (int w = 0; w < SLC_W_N_MODEL; w++) check_extent(c, c->w[w].part[part]);
        for (uint32_t l = 0; l < c->cfg.n_layers; l++)
            for (int w = 0; w < SLC_W_N_LAYER; w++) check_extent(c, c->layers[l].w[w].part[part]);
    }
    for (uint32_t l = 0; l < c->cfg.n_layers; l++)
        for (uint32_t e = 0; e < c->cfg.n_experts; e++) {
            slc_extent whole = slc_checkpoint_expert_record(c, l, e);

            check_extent(c, whole);
            for (int i = 0; i < SLC_N_PROJ * SLC_N_PARTS; i++) {
                slc_extent x = slc_checkpoint_expert(c, l, e, i / SLC_N_PARTS, i % SLC_N_PARTS);

                if (!x.bytes) continue;
                fuzz_check(x.off >= whole.off && x.off + x.bytes <= whole.off + whole.bytes);
            }
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy;
    slc_checkpoint *c;
    slc_err err = {0};
    slc_status rc;
    char path[64];
    int fd;

    if (size < 1) return 0;
    size--;
    copy = (uint8_t *)fuzz_copy(data, size);
    if (data[size] & 1) make_hashes_right(copy, size);
    fd = memfd_create("pack", MFD_CLOEXEC);
    fuzz_check(fd >= 0 && write(fd, copy, size) == (ssize_t)size);
    if (size >= 24 && get64(copy + 16) > size && get64(copy + 16) <= MAX_FILE_BYTES)
        fuzz_check(ftruncate(fd, (off_t)get64(copy + 16)) == 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (size >= 8 && memcmp(copy, slc_pack_magic, 8) == 0) {
        rc = slc_checkpoint_open(path, NULL, &c, &err);
        fuzz_check(rc == err.code && (rc == SLC_OK || (*err.msg && !c)));
        if (!rc) check_checkpoint(c);
        slc_checkpoint_close(c);
    }
    close(fd);
    free(copy);
    return 0;
}
