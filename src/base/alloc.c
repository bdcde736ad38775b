/* Heap blocks, page mappings and the bump arena. Thread-safe apart from slc_arena (one owner). */
#include "base/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/fail.h"

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

void *slc_calloc(size_t n, size_t size) {
    return calloc(n ? n : 1, size ? size : 1);
}

void *slc_realloc(void *p, size_t n, size_t size) {
    size_t bytes;

    if (!slc_mul(n ? n : 1, size ? size : 1, &bytes)) return NULL;
    return realloc(p, bytes);
}

slc_status slc_map_alloc(size_t bytes, bool huge, void **out, slc_err *err) {
    size_t slack = huge ? HUGE_PAGE_BYTES : 0, page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *p, *start;

    *out = NULL;
    if (bytes > SIZE_MAX - slack - page)
        return slc_fail(err, SLC_E_NOMEM, "a mapping is too large");
    bytes = slc_align_up(bytes, page);
    p = mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return slc_fail_errno(err, errno, "cannot map %zu bytes", bytes);
    start = huge ? (uint8_t *)slc_align_up((uintptr_t)p, HUGE_PAGE_BYTES) : p;
    if (huge) { /* give back what lies before and after the aligned part */
        size_t head = (size_t)(start - p);
        if (head) munmap(p, head);
        munmap(start + bytes, slack - head);
        madvise(start, bytes, MADV_HUGEPAGE);
    } else {
        madvise(start, bytes, MADV_NOHUGEPAGE);
    }
    *out = start;
    return SLC_OK;
}

slc_status slc_map_populate(void *p, size_t bytes, slc_err *err) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (!bytes || madvise(p, slc_align_up(bytes, page), MADV_POPULATE_WRITE) == 0) return SLC_OK;
    if (errno != EINVAL) return slc_fail_errno(err, ENOMEM, "cannot populate %zu bytes", bytes);
    for (size_t i = 0; i < bytes; i += page) ((volatile uint8_t *)p)[i] = 0; /* before 5.14 */
    return SLC_OK;
}

void slc_map_free(void *p, size_t bytes) {
    if (p) munmap(p, bytes);
}

slc_status slc_arena_alloc(slc_arena *a, bool huge, slc_err *err) {
    void *p;
    slc_status rc = slc_map_alloc(a->used, huge, &p, err);

    if (rc) return rc;
    if ((rc = slc_map_populate(p, a->used, err))) {
        slc_map_free(p, a->used);
        return rc;
    }
    a->base = p;
    a->cap = a->used;
    a->used = 0;
    return SLC_OK;
}

void *slc_arena_take(slc_arena *a, size_t n, size_t size) {
    size_t bytes, end, at = a->used;

    slc_assert(slc_mul(n, size, &bytes) && slc_add(at, bytes, &end));
    slc_assert(end <= SIZE_MAX - SLC_SIMD_ALIGN);
    a->used = slc_align_up(end, SLC_SIMD_ALIGN);
    if (!a->base) return NULL;
    slc_assert(a->used <= a->cap);
    return a->base + at;
}

void slc_arena_free(slc_arena *a) {
    slc_map_free(a->base, a->cap);
    *a = (slc_arena){0};
}
