/* The real system calls, and which of their failures are worth another try. */
#include "io/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define MAX_TRIES 6u

static int sys_open(const slc_sys *sys, const char *path, int flags) {
    return open(path, flags);
}

static int sys_close(const slc_sys *sys, int fd) {
    return close(fd);
}

static int sys_fstat(const slc_sys *sys, int fd, struct stat *st) {
    return fstat(fd, st);
}

static int sys_fstatfs(const slc_sys *sys, int fd, struct statfs *fs) {
    return fstatfs(fd, fs);
}

static int64_t sys_direct_align(const slc_sys *sys, int fd) {
#ifdef STATX_DIOALIGN
    struct statx sx;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) || !(sx.stx_mask & STATX_DIOALIGN)) {
        return 0;
    }
    if (!sx.stx_dio_offset_align || !sx.stx_dio_mem_align) return -1;
    return sx.stx_dio_offset_align > sx.stx_dio_mem_align ? sx.stx_dio_offset_align
                                                          : sx.stx_dio_mem_align;
#else
    return 0;
#endif
}

static ssize_t sys_pread(const slc_sys *sys, int fd, void *buf, size_t n, off_t off) {
    return pread(fd, buf, n, off);
}

static void sys_willneed(const slc_sys *sys, int fd, off_t off, off_t n) {
    posix_fadvise(fd, off, n, POSIX_FADV_WILLNEED);
}

static int32_t sys_uring_result(const slc_sys *sys, int fd, uint32_t n, uint64_t off,
                                int32_t result) {
    return result;
}

const slc_sys slc_sys_linux = {
    .open = sys_open,
    .close = sys_close,
    .fstat = sys_fstat,
    .fstatfs = sys_fstatfs,
    .direct_align = sys_direct_align,
    .pread = sys_pread,
    .willneed = sys_willneed,
    .uring_result = sys_uring_result,
};

uint64_t slc_sys_backoff_ns(int sys_errno, uint32_t n_tries) {
    if (sys_errno != EIO && sys_errno != EAGAIN && sys_errno != ENOMEM) return 0;
    if (n_tries == 0 || n_tries >= MAX_TRIES) return 0;
    return UINT64_C(1000000) << 2 * (n_tries - 1);
}
