/* Writing a large file so that nobody ever sees half of it.
 *
 *     lock NAME.partial -> reserve -> write -> fsync -> rename to NAME -> fsync the folder
 *
 * The lock (flock) ends with its process, so a partial file without one was left by a kill. Between
 * opening such a file and locking it, its writer may have finished and renamed it: then the name no
 * longer leads to what was locked, and the search begins again. */
#include "convert/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fail.h"

/* ---- system calls ---- */

static ssize_t sys_pwrite(const slc_out_sys *sys, int fd, const void *buf, size_t n, off_t off) {
    return pwrite(fd, buf, n, off);
}

static int sys_allocate(const slc_out_sys *sys, int fd, off_t bytes) {
    return fallocate(fd, 0, 0, bytes);
}

static int sys_sync(const slc_out_sys *sys, int fd) {
    return fsync(fd);
}

static int64_t sys_free_bytes(const slc_out_sys *sys, int fd) {
    struct statvfs fs;
    uint64_t bytes;

    if (fstatvfs(fd, &fs)) return -1;
    if (__builtin_mul_overflow((uint64_t)fs.f_bavail, (uint64_t)fs.f_frsize, &bytes) ||
        bytes > INT64_MAX)
        return INT64_MAX;
    return (int64_t)bytes;
}

const slc_out_sys slc_out_sys_linux = {
    .pwrite = sys_pwrite,
    .allocate = sys_allocate,
    .sync = sys_sync,
    .free_bytes = sys_free_bytes,
};

/* ---- opening ---- */

static slc_status write_all(slc_outfile *f, uint64_t off, const uint8_t *p, size_t n,
                            slc_err *err) {
    while (n) {
        ssize_t wrote = f->sys->pwrite(f->sys, f->fd, p, n, (off_t)off);

        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0)
            return slc_fail_errno(err, wrote ? errno : ENOSPC,
                                  "%s: cannot write %zu bytes at offset %" PRIu64, f->partial, n,
                                  off);
        p += wrote;
        n -= (size_t)wrote;
        off += (uint64_t)wrote;
    }
    return SLC_OK;
}

static bool begins_with(int fd, const char magic[8]) {
    char found[8];

    return pread(fd, found, sizeof(found), 0) == (ssize_t)sizeof(found) &&
           memcmp(found, magic, sizeof(found)) == 0;
}

/* Is the target's name free, or held by something that may go? */
static slc_status check_target(const slc_outfile *f, const slc_out_magic *magic, slc_err *err) {
    struct stat st;
    bool is_ours;
    int fd;

    if (lstat(f->path, &st)) {
        if (errno == ENOENT) return SLC_OK;
        return slc_fail_errno(err, errno, "%s: cannot look at it", f->path);
    }
    if (S_ISDIR(st.st_mode))
        return slc_fail(err, SLC_E_INVALID, "%s: a folder, expected the name of a file to write",
                        f->path);
    if (!f->replace)
        return slc_fail(err, SLC_E_INVALID, "%s: exists already; --force replaces a pack", f->path);
    fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    is_ours = S_ISREG(st.st_mode) && fd >= 0 && begins_with(fd, magic->finished);
    if (fd >= 0) close(fd);
    if (is_ours) return SLC_OK;
    return slc_fail(err, SLC_E_INVALID, "%s: exists and is no pack; it is not replaced", f->path);
}

static bool still_named(const slc_outfile *f) {
    struct stat a, b;

    return fstat(f->fd, &a) == 0 && lstat(f->partial, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* Opens and locks the partial file; *found is its length. */
static slc_status lock_partial(slc_outfile *f, off_t *found, slc_err *err) {
    struct stat st;

    for (;;) {
        f->fd = open(f->partial, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        if (f->fd < 0) return slc_fail_errno(err, errno, "%s: cannot write it", f->partial);
        if (flock(f->fd, LOCK_EX | LOCK_NB)) {
            if (errno == EWOULDBLOCK)
                return slc_fail(err, SLC_E_BUSY, "%s: another process is writing it", f->partial);
            return slc_fail_errno(err, errno, "%s: cannot lock it", f->partial);
        }
        if (still_named(f)) break;
        close(f->fd); /* its writer was faster */
    }
    if (fstat(f->fd, &st)) return slc_fail_errno(err, errno, "%s: cannot look at it", f->partial);
    if (!S_ISREG(st.st_mode))
        return slc_fail(err, SLC_E_INVALID, "%s: not a regular file", f->partial);
    *found = st.st_size;
    return SLC_OK;
}

static slc_status take_partial(slc_outfile *f, const slc_out_magic *magic, slc_err *err) {
    off_t found = 0;
    slc_status rc;

    if ((rc = lock_partial(f, &found, err))) return rc;
    if (found && !begins_with(f->fd, magic->partial) && !begins_with(f->fd, magic->finished))
        return slc_fail(err, SLC_E_INVALID,
                        "%s: exists and is not what an interrupted run leaves; it is not replaced",
                        f->partial);
    f->ours = true;
    if (ftruncate(f->fd, 0)) return slc_fail_errno(err, errno, "%s: cannot empty it", f->partial);
    return SLC_OK;
}

static slc_status check_room(const slc_outfile *f, slc_err *err) {
    int64_t free_bytes = f->sys->free_bytes(f->sys, f->fd);

    if (free_bytes >= 0 && (uint64_t)free_bytes < f->total_bytes)
        return slc_fail(err, SLC_E_IO,
                        "%s: no room: needs %" PRIu64 " bytes, the file system has %" PRId64
                        " free",
                        f->path, f->total_bytes, free_bytes);
    return SLC_OK;
}

/* What statvfs promises a quota or another writer may take away. */
static slc_status reserve(const slc_outfile *f, slc_err *err) {
    if (f->sys->allocate(f->sys, f->fd, (off_t)f->total_bytes) == 0) return SLC_OK;
    if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) return SLC_OK; /* not here */
    return slc_fail_errno(err, errno, "%s: cannot reserve %" PRIu64 " bytes", f->path,
                          f->total_bytes);
}

slc_status slc_outfile_open(slc_outfile *f, const char *path, uint64_t total_bytes, bool force,
                            const slc_out_magic *magic, const slc_out_sys *sys, slc_err *err) {
    slc_status rc;

    *f = (slc_outfile){.sys = sys, .fd = -1, .replace = force, .total_bytes = total_bytes};
    f->path = strdup(path);
    if (asprintf(&f->partial, "%s.partial", path) < 0) f->partial = NULL;
    f->buf = slc_calloc(SLC_OUT_BUFFER, 1);
    if (!f->path || !f->partial || !f->buf) {
        rc = slc_fail(err, SLC_E_NOMEM, "%s: no memory to write it", path);
        goto fail;
    }
    if ((rc = check_target(f, magic, err))) goto fail;
    if ((rc = take_partial(f, magic, err))) goto fail;
    if ((rc = check_room(f, err))) goto fail;
    /* first of all: from here on a killed run leaves something that is recognised */
    if ((rc = write_all(f, 0, (const uint8_t *)magic->partial, sizeof(magic->partial), err)))
        goto fail;
    if ((rc = reserve(f, err))) goto fail;
    return SLC_OK;
fail:
    slc_outfile_close(f);
    return rc;
}

/* ---- writing ---- */

/* Writing to disk starts at once: the disk works while the next piece is made, and the wait in
 * sync is short. */
static slc_status flush(slc_outfile *f, slc_err *err) {
    slc_status rc = write_all(f, f->flushed, f->buf, f->used, err);

    if (rc) return rc;
    (void)sync_file_range(f->fd, (off_t)f->flushed, (off_t)f->used, SYNC_FILE_RANGE_WRITE);
    f->flushed += f->used;
    f->used = 0;
    return SLC_OK;
}

uint64_t slc_outfile_at(const slc_outfile *f) {
    return f->flushed + f->used;
}

slc_status slc_outfile_room(slc_outfile *f, uint64_t want, uint8_t **at, size_t *n, slc_err *err) {
    slc_status rc;

    slc_assert(want && want <= f->total_bytes - slc_outfile_at(f));
    if (f->used == SLC_OUT_BUFFER && (rc = flush(f, err))) return rc;
    *at = f->buf + f->used;
    *n = SLC_OUT_BUFFER - f->used;
    if (*n > want) *n = (size_t)want;
    return SLC_OK;
}

void slc_outfile_advance(slc_outfile *f, size_t n) {
    slc_assert(n <= SLC_OUT_BUFFER - f->used);
    f->used += n;
}

slc_status slc_outfile_pad(slc_outfile *f, uint64_t off, slc_err *err) {
    while (slc_outfile_at(f) < off) {
        uint8_t *at;
        size_t n;
        slc_status rc = slc_outfile_room(f, off - slc_outfile_at(f), &at, &n, err);

        if (rc) return rc;
        memset(at, 0, n);
        slc_outfile_advance(f, n);
    }
    return SLC_OK;
}

slc_status slc_outfile_put_at(slc_outfile *f, uint64_t off, const void *bytes, size_t n,
                              slc_err *err) {
    slc_assert(off + n <= slc_outfile_at(f));
    if (f->used) {
        slc_status rc = flush(f, err);

        if (rc) return rc;
    }
    return write_all(f, off, bytes, n, err);
}

/* ---- the end ---- */

slc_status slc_outfile_sync(slc_outfile *f, slc_err *err) {
    slc_status rc = flush(f, err);

    if (rc) return rc;
    slc_assert(slc_outfile_at(f) == f->total_bytes);
    if (f->sys->sync(f->sys, f->fd))
        return slc_fail_errno(err, errno, "%s: cannot be written to disk", f->partial);
    return SLC_OK;
}

static int rename_to_target(const slc_outfile *f) {
    if (f->replace) return rename(f->partial, f->path);
    if (renameat2(AT_FDCWD, f->partial, AT_FDCWD, f->path, RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return -1;
    /* a file system without it: a hard link does not replace either */
    if (link(f->partial, f->path)) return -1;
    return unlink(f->partial);
}

static slc_status sync_folder(const slc_outfile *f, slc_err *err) {
    const char *slash = strrchr(f->path, '/');
    char *dir = !slash             ? strdup(".")
                : slash == f->path ? strdup("/")
                                   : strndup(f->path, (size_t)(slash - f->path));
    int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    slc_status rc = SLC_OK;

    /* a file system that cannot sync folders says EINVAL */
    if (fd < 0 || (f->sys->sync(f->sys, fd) && errno != EINVAL))
        rc = slc_fail_errno(err, errno, "%s: its folder cannot be written to disk", f->path);
    if (fd >= 0) close(fd);
    free(dir);
    return rc;
}

slc_status slc_outfile_commit(slc_outfile *f, slc_err *err) {
    if (rename_to_target(f)) {
        if (errno == EEXIST)
            return slc_fail(err, SLC_E_INVALID, "%s: somebody else has made it meanwhile", f->path);
        return slc_fail_errno(err, errno, "%s: cannot be given its name", f->path);
    }
    f->ours = false;
    return sync_folder(f, err);
}

void slc_outfile_close(slc_outfile *f) {
    if (!f->path && !f->partial) return;
    if (f->partial && f->ours) unlink(f->partial);
    if (f->fd >= 0) close(f->fd); /* last: the lock must outlive the name */
    free(f->path);
    free(f->partial);
    free(f->buf);
    *f = (slc_outfile){.fd = -1};
}
