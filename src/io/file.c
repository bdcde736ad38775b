/* Opening a file for positioned reads, noticing when it changes, and reading it through the page
 * cache; how many may be open. Direct reads are set up in direct.c. */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/fail.h"

#define MAX_READ_BYTES ((size_t)1 << 30) /* of one call; the kernel takes just under 2 GiB */

/* O_NONBLOCK keeps open() from hanging on a FIFO; it must not stay on, because reads through
 * io_uring would then fail with EAGAIN instead of waiting for the disk. */
static slc_status open_regular(slc_file *f, slc_err *err) {
    struct stat st;

    f->fd = f->sys->open(f->sys, f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        return slc_fail_errno(err, errno, "%s: cannot open (raise the limit: ulimit -n)", f->path);
    }
    if (f->fd < 0) return slc_fail_errno(err, errno, "%s: cannot open", f->path);
    if (f->sys->fstat(f->sys, f->fd, &st)) {
        return slc_fail_errno(err, errno, "%s: cannot get the file's size", f->path);
    }
    if (!S_ISREG(st.st_mode)) {
        return slc_fail(err, SLC_E_IO, "%s: not a regular file", f->path);
    }
    fcntl(f->fd, F_SETFL, 0);
    f->size_bytes = (uint64_t)st.st_size;
    f->mtime = st.st_mtim;
    return SLC_OK;
}

slc_status slc_file_open_with(slc_file *f, const char *path, const slc_sys *sys, slc_err *err) {
    slc_status rc;

    *f = (slc_file){.sys = sys, .path = strdup(path), .fd = -1, .direct_fd = -1, .align = 1};
    if (!f->path) return slc_fail(err, SLC_E_NOMEM, "%s: no memory for the path", path);
    rc = open_regular(f, err);
    if (rc) slc_file_close(f);
    return rc;
}

slc_status slc_file_open(slc_file *f, const char *path, slc_err *err) {
    return slc_file_open_with(f, path, &slc_sys_linux, err);
}

const char *slc_file_remote(const slc_file *f) {
    struct statfs fs;

    if (f->sys->fstatfs(f->sys, f->fd, &fs)) return NULL;
    switch ((uint32_t)fs.f_type) {
    case NFS_SUPER_MAGIC: return "NFS";
    case SMB_SUPER_MAGIC:
    case CIFS_SUPER_MAGIC:
    case SMB2_SUPER_MAGIC: return "SMB";
    case FUSE_SUPER_MAGIC: return "FUSE";
    case V9FS_MAGIC: return "9P";
    case CEPH_SUPER_MAGIC: return "Ceph";
    default: return NULL;
    }
}

/* "2026-01-31 23:59:59.123456789 UTC" */
static const char *time_text(struct timespec t, char text[64]) {
    struct tm tm;
    size_t n = 0;

    if (gmtime_r(&t.tv_sec, &tm)) n = strftime(text, 40, "%Y-%m-%d %H:%M:%S", &tm);
    snprintf(text + n, 64 - n, ".%09ld UTC", t.tv_nsec);
    return text;
}

slc_status slc_file_check(const slc_file *f, slc_err *err) {
    char now[64], then[64];
    struct stat st;

    if (f->sys->fstat(f->sys, f->fd, &st)) {
        return slc_fail_errno(err, errno, "%s: cannot tell whether it changed", f->path);
    }
    if ((uint64_t)st.st_size != f->size_bytes) {
        return slc_fail(err, SLC_E_IO,
                        "%s: changed since it was opened: %" PRIu64 " bytes long, expected %" PRIu64
                        "; open the model again",
                        f->path, (uint64_t)st.st_size, f->size_bytes);
    }
    if (st.st_mtim.tv_sec != f->mtime.tv_sec || st.st_mtim.tv_nsec != f->mtime.tv_nsec) {
        return slc_fail(err, SLC_E_IO,
                        "%s: changed since it was opened: last written at %s, expected %s; open "
                        "the model again",
                        f->path, time_text(st.st_mtim, now), time_text(f->mtime, then));
    }
    return SLC_OK;
}

void slc_file_close(slc_file *f) {
    if (!f->path) return; /* never opened */
    if (f->direct_fd >= 0) f->sys->close(f->sys, f->direct_fd);
    if (f->fd >= 0) f->sys->close(f->sys, f->fd);
    free(f->path);
    *f = (slc_file){.fd = -1, .direct_fd = -1};
}

static void nap(uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};

    nanosleep(&t, NULL);
}

slc_status slc_file_read(const slc_file *f, uint64_t off, void *buf, size_t bytes, slc_err *err) {
    size_t got = 0;
    uint32_t n_tries = 0;

    while (got < bytes) {
        size_t want = bytes - got < MAX_READ_BYTES ? bytes - got : MAX_READ_BYTES;
        ssize_t n = f->sys->pread(f->sys, f->fd, (uint8_t *)buf + got, want, (off_t)(off + got));
        if (n > 0) {
            got += (size_t)n;
        } else if (n == 0) {
            return slc_fail(err, SLC_E_IO,
                            "%s: unexpected end of file: wanted %zu bytes at offset %" PRIu64
                            ", got %zu; the file was %" PRIu64 " bytes long when it was opened",
                            f->path, bytes, off, got, f->size_bytes);
        } else if (errno != EINTR) {
            int sys_errno = errno;
            uint64_t delay = slc_sys_backoff_ns(sys_errno, ++n_tries);
            if (!delay) {
                return slc_fail_errno(err, sys_errno,
                                      "%s: cannot read at offset %" PRIu64
                                      ": wanted %zu bytes, got %zu (%u tries)",
                                      f->path, off, bytes, got, n_tries);
            }
            nap(delay);
        }
    }
    return SLC_OK;
}

static uint64_t allowed_by(rlim_t limit) {
    return limit - (limit / 2 < SLC_FILE_ROOM ? limit / 2 : SLC_FILE_ROOM);
}

uint64_t slc_file_limit_for(uint64_t wanted) {
    return wanted + (wanted < SLC_FILE_ROOM ? wanted : SLC_FILE_ROOM);
}

uint64_t slc_file_allowance(uint64_t wanted) {
    struct rlimit lim, higher;

    if (getrlimit(RLIMIT_NOFILE, &lim)) return wanted; /* the open that fails will say so */
    higher = (struct rlimit){lim.rlim_max, lim.rlim_max};
    if (allowed_by(lim.rlim_cur) < wanted && setrlimit(RLIMIT_NOFILE, &higher) == 0) lim = higher;
    return allowed_by(lim.rlim_cur);
}
