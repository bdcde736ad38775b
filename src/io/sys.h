/* The system calls behind file.c and the read backends, as a table, so that tests can make the n-th
 * call fail with any errno, shorten it or delay it. Every slc_file carries the table it was opened
 * with; programs use slc_sys_linux. Entries behave like the calls they are named after (-1 and
 * errno) and may be called from any thread. */
#ifndef SLC_IO_SYS_H
#define SLC_IO_SYS_H

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>

typedef struct slc_sys slc_sys;

struct slc_sys {
    int (*open)(const slc_sys *sys, const char *path, int flags);
    int (*close)(const slc_sys *sys, int fd);
    int (*fstat)(const slc_sys *sys, int fd, struct stat *st);
    int (*fstatfs)(const slc_sys *sys, int fd, struct statfs *fs);
    /* Required alignment of direct reads (offset, length and memory) as STATX_DIOALIGN reports it:
     * > 0; 0 where the kernel or file system does not say; -1 where it says "no direct reads". */
    int64_t (*direct_align)(const slc_sys *sys, int fd);
    ssize_t (*pread)(const slc_sys *sys, int fd, void *buf, size_t n, off_t off);
    /* Asks the kernel to bring the range into the page cache; a hint. */
    void (*willneed)(const slc_sys *sys, int fd, off_t off, off_t n);
    /* Every result of an io_uring read (bytes or -errno) passes through here before it is believed;
     * called by the thread that owns the ring. */
    int32_t (*uring_result)(const slc_sys *sys, int fd, uint32_t n, uint64_t off, int32_t result);
};

extern const slc_sys slc_sys_linux;

/* How long to wait before trying again after `n_tries` tries failed, the last with `sys_errno`:
 * 1, 4, 16, 64, 256 ms for errors that may pass (EIO, EAGAIN, ENOMEM). 0: give up. */
uint64_t slc_sys_backoff_ns(int sys_errno, uint32_t n_tries);

#endif
