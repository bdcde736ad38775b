/* Finding out whether a file can be read directly, and at which alignment.
 *
 * O_DIRECT can be refused at open (old tmpfs), accepted at open and refused at read (stacked file
 * systems), need more alignment than reported, or be accepted and served through the page cache
 * all the same (tmpfs since 6.6, compressed or encrypted file systems). So nothing is believed:
 * sample reads are made with exactly the promised alignment and not more, and the page cache is
 * looked at before and after. Only what was seen to work is used. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/file.h"

#define MIN_ALIGN     512u
#define DEFAULT_ALIGN 4096u
#define MAX_ALIGN     (1u << 20)
#define N_SAMPLES     3u

/* ---- is it in the page cache? ---- */

/* For users who may not write the file the kernel always answers "yes". */
static bool page_is_cached(int fd, uint64_t off) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t start = slc_align_down(off, page);
    void *p = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, (off_t)start);
    unsigned char resident = 1;

    if (p == MAP_FAILED) return true;
    if (mincore(p, page, &resident)) resident = 1;
    munmap(p, page);
    return resident & 1;
}

static bool lives_in_memory(const slc_file *f) {
    struct statfs fs;

    return f->sys->fstatfs(f->sys, f->fd, &fs) == 0 &&
           (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

/* ---- sample reads ---- */

typedef enum sample {
    SAMPLE_DIRECT,  /* read, page cache untouched */
    SAMPLE_CACHED,  /* read, and put into the page cache on the way */
    SAMPLE_UNKNOWN, /* read, but the page was (or seemed) cached before */
    SAMPLE_REFUSED, /* not read: alignment or file system */
} sample;

/* Reads one block at `off`; buf is aligned to `align`. */
static sample take_sample(const slc_file *f, int fd, uint32_t align, void *buf, uint64_t off) {
    uint64_t left = f->size_bytes - off, expected = left < align ? left : align;
    bool cached;
    ssize_t n;

    posix_fadvise(f->fd, (off_t)off, (off_t)align, POSIX_FADV_DONTNEED);
    cached = page_is_cached(f->fd, off);
    do {
        n = f->sys->pread(f->sys, fd, buf, align, (off_t)off);
    } while (n < 0 && errno == EINTR);
    if (n < 0 || (uint64_t)n != expected) return SAMPLE_REFUSED;
    if (cached) return SAMPLE_UNKNOWN;
    return page_is_cached(f->fd, off) ? SAMPLE_CACHED : SAMPLE_DIRECT;
}

/* Tries `align` at a few places of the file. A page may enter the cache by someone else's doing,
 * so one sample that stayed out of it is proof enough. Returns NULL, or why not. */
static const char *prove(const slc_file *f, int fd, uint32_t align) {
    uint8_t *block = NULL;
    bool seen_cached = false, proven = false;
    const char *why = NULL;

    /* offset by one block: memory that is aligned to `align` and to nothing larger */
    if (posix_memalign((void **)&block, 2 * (size_t)align, 2 * (size_t)align)) return "no memory";
    for (uint32_t i = 0; i < N_SAMPLES && !why && !proven; i++) {
        uint64_t off = slc_align_down(f->size_bytes / N_SAMPLES * i, 2 * (uint64_t)align);
        if (off + align < f->size_bytes) off += align; /* likewise an odd block of the file */
        sample s = take_sample(f, fd, align, block + align, off);
        if (s == SAMPLE_REFUSED) why = "direct reads fail";
        if (s == SAMPLE_CACHED) seen_cached = true;
        if (s == SAMPLE_DIRECT) proven = true;
    }
    free(block);
    if (!why && !proven && (seen_cached || lives_in_memory(f))) {
        why = "the file system serves direct reads from the page cache";
    }
    return why;
}

/* ---- set-up ---- */

/* The path may name another file by now. */
static bool same_file(const slc_file *f, int fd) {
    struct stat a, b;

    return f->sys->fstat(f->sys, f->fd, &a) == 0 && f->sys->fstat(f->sys, fd, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static const char *find_align(const slc_file *f, int fd, uint32_t *align) {
    int64_t reported = f->sys->direct_align(f->sys, fd);
    const char *why;

    if (!same_file(f, fd)) return "the file was replaced while it was being opened";
    if (reported < 0) return "the file system says it has no direct reads";
    if (reported == 0) reported = DEFAULT_ALIGN;
    if (reported < MIN_ALIGN) reported = MIN_ALIGN;
    if (reported > MAX_ALIGN || (reported & (reported - 1))) return "unusable block size";
    *align = (uint32_t)reported;
    why = prove(f, fd, *align);
    if (why && *align < DEFAULT_ALIGN) { /* a stacked file system may need more than it says */
        *align = DEFAULT_ALIGN;
        why = prove(f, fd, *align);
    }
    return why;
}

void slc_file_enable_direct(slc_file *f, const char **why) {
    uint32_t align;
    int fd;

    *why = NULL;
    if (f->direct_fd >= 0) return;
    *why = "the file is empty";
    if (f->size_bytes == 0) return;
    *why = "the file system refuses O_DIRECT";
    fd = f->sys->open(f->sys, f->path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE) *why = "too many open files (raise: ulimit -n)";
        return;
    }
    *why = find_align(f, fd, &align);
    if (*why) {
        f->sys->close(f->sys, fd);
        return;
    }
    f->direct_fd = fd;
    f->align = align;
}
