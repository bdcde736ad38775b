/* The file of a warm start, little-endian:
 *
 *     8         "slc-hot1"
 *     4 4 4     layers, experts per layer, files of the checkpoint
 *     8 8       per file: size, modification time in ns
 *     ...       a bit per expert, key 0 in the lowest bit of the first byte
 *     8         FNV-1a of everything before
 *
 * Everything but the bits follows from the checkpoint, so the expected size is known, and loading
 * is comparing. */
#include "stream/hot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fail.h"

#define MAGIC_BYTES 8u

static const uint8_t magic[MAGIC_BYTES] = {'s', 'l', 'c', '-', 'h', 'o', 't', '1'};

static uint8_t *put(uint8_t *p, uint64_t x, int bytes) {
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(x >> 8 * i);
    return p + bytes;
}

static uint64_t fnv(const uint8_t *p, size_t n) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}

typedef struct layout {
    size_t bits_at, sum_at, bytes;
    size_t n_keys;
} layout;

static layout layout_of(const slc_checkpoint *c) {
    layout l = {.bits_at = MAGIC_BYTES + 3 * 4 + (size_t)c->n_files * 16};

    l.n_keys = (size_t)c->cfg.n_layers * c->cfg.n_experts;
    l.sum_at = l.bits_at + (l.n_keys + 7) / 8;
    l.bytes = l.sum_at + 8;
    return l;
}

/* The part in front of the bits, which a file must agree with. */
static slc_status put_identity(const slc_checkpoint *c, uint8_t *p, slc_err *err) {
    memcpy(p, magic, MAGIC_BYTES);
    p = put(p + MAGIC_BYTES, c->cfg.n_layers, 4);
    p = put(p, c->cfg.n_experts, 4);
    p = put(p, c->n_files, 4);
    for (uint32_t i = 0; i < c->n_files; i++) {
        const slc_file *f = &c->files[i];
        struct stat st;
        if (f->sys->fstat(f->sys, f->fd, &st)) {
            return slc_fail_errno(err, errno, "%s: cannot get the file's time", f->path);
        }
        p = put(p, (uint64_t)st.st_size, 8);
        p = put(p, (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec, 8);
    }
    return SLC_OK;
}

/* ---- save ---- */

static int write_all(int fd, const uint8_t *p, size_t n) {
    while (n) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return errno;
        p += done;
        n -= (size_t)done;
    }
    return fsync(fd) ? errno : 0;
}

static slc_status write_file(const char *path, const uint8_t *p, size_t n, slc_err *err) {
    size_t name_bytes = strlen(path) + sizeof(".XXXXXX");
    char *temp = slc_calloc(name_bytes, 1);
    int fd, sys_errno;

    if (!temp) return slc_fail(err, SLC_E_NOMEM, "%s: no memory for the path", path);
    snprintf(temp, name_bytes, "%s.XXXXXX", path);
    if ((fd = mkostemp(temp, O_CLOEXEC)) < 0) {
        sys_errno = errno;
    } else {
        sys_errno = write_all(fd, p, n);
        if (close(fd) && !sys_errno) sys_errno = errno;
        if (!sys_errno && rename(temp, path)) sys_errno = errno;
        if (sys_errno) unlink(temp);
    }
    free(temp);
    return sys_errno ? slc_fail_errno(err, sys_errno, "%s: cannot write", path) : SLC_OK;
}

slc_status slc_hot_save(const slc_store *s, const char *path, slc_err *err) {
    const slc_checkpoint *c = slc_store_checkpoint(s);
    layout l = layout_of(c);
    uint8_t *bytes = slc_calloc(l.bytes, 1);
    uint32_t *keys = slc_calloc(slc_store_n_slots(s), sizeof(*keys)), n;
    slc_status rc;

    if (!bytes || !keys) {
        rc = slc_fail(err, SLC_E_NOMEM, "%s: no memory to write it", path);
        goto out;
    }
    if ((rc = put_identity(c, bytes, err))) goto out;
    n = slc_store_held(s, keys);
    for (uint32_t i = 0; i < n; i++) {
        bytes[l.bits_at + keys[i] / 8] |= (uint8_t)(1u << keys[i] % 8);
    }
    put(bytes + l.sum_at, fnv(bytes, l.sum_at), 8);
    rc = write_file(path, bytes, l.bytes, err);
out:
    free(keys);
    free(bytes);
    return rc;
}

/* ---- load ---- */

/* Reads the file's l.bytes and holds them against what the checkpoint says. */
static slc_status check_file(const slc_file *f, layout l, const uint8_t *wanted, uint8_t *found,
                             slc_err *err) {
    uint8_t sum[8];
    slc_status rc;

    if (f->size_bytes != l.bytes) {
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: %" PRIu64 " bytes, expected %zu: not of this checkpoint", f->path,
                        f->size_bytes, l.bytes);
    }
    if ((rc = slc_file_read(f, 0, found, l.bytes, err))) return rc;
    put(sum, fnv(found, l.sum_at), 8);
    if (memcmp(sum, found + l.sum_at, 8)) {
        return slc_fail(err, SLC_E_FORMAT, "%s: damaged: the checksum does not match", f->path);
    }
    if (memcmp(wanted, found, l.bits_at)) {
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: not of this checkpoint, or the checkpoint has changed since", f->path);
    }
    return SLC_OK;
}

/* The file's bytes, checked; the caller's to free. */
static slc_status read_file(const slc_checkpoint *c, const char *path, uint8_t **bytes,
                            slc_err *err) {
    layout l = layout_of(c);
    uint8_t *wanted = slc_calloc(l.bytes, 1), *found = slc_calloc(l.bytes, 1);
    slc_file f = {0};
    slc_status rc;

    *bytes = NULL;
    if (!wanted || !found) {
        rc = slc_fail(err, SLC_E_NOMEM, "%s: no memory to read it", path);
        goto out;
    }
    if ((rc = slc_file_open(&f, path, err))) goto out;
    if ((rc = put_identity(c, wanted, err))) goto out;
    if ((rc = check_file(&f, l, wanted, found, err))) goto out;
    *bytes = found;
    found = NULL;
out:
    slc_file_close(&f);
    free(wanted);
    free(found);
    return rc;
}

typedef struct spot {
    uint32_t file, key;
    uint64_t off;
} spot;

static int by_spot(const void *a, const void *b) {
    const spot *x = a, *y = b;

    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return x->off < y->off ? -1 : x->off > y->off;
}

slc_status slc_hot_load(slc_store *s, const char *path, uint32_t *n, slc_err *err) {
    const slc_checkpoint *c = slc_store_checkpoint(s);
    layout l = layout_of(c);
    uint32_t n_experts = c->cfg.n_experts, found = 0;
    uint8_t *bytes;
    spot *spots;
    slc_status rc = read_file(c, path, &bytes, err);

    if (n) *n = 0;
    if (!bytes) return rc;
    if (!(spots = slc_calloc(l.n_keys, sizeof(*spots)))) {
        free(bytes);
        return slc_fail(err, SLC_E_NOMEM, "%s: no memory to order the experts", path);
    }
    for (uint32_t key = 0; key < l.n_keys; key++) {
        slc_extent e;
        if (!(bytes[l.bits_at + key / 8] >> key % 8 & 1)) continue;
        e = slc_checkpoint_expert(c, key / n_experts, key % n_experts, SLC_EXPERT_GATE, SLC_PART_W);
        spots[found++] = (spot){e.file, key, e.off};
    }
    qsort(spots, found, sizeof(*spots), by_spot);
    if (found > slc_store_n_slots(s)) found = slc_store_n_slots(s);
    for (uint32_t i = 0; i < found; i++) {
        uint32_t expert = spots[i].key % n_experts;
        slc_store_prefetch(s, spots[i].key / n_experts, &expert, 1, SLC_GUESS_HOT);
    }
    if (n) *n = found;
    free(spots);
    free(bytes);
    return SLC_OK;
}
