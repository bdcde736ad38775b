/* Memory: checked sizes, zeroed heap blocks, page mappings, and a bump arena over one mapping.
 *
 * Everything a decoded token needs is allocated at open; these functions are for open and close. */
#ifndef SLC_BASE_ALLOC_H
#define SLC_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/status.h"

#define SLC_SIMD_ALIGN 64u

/* False on overflow. */
static inline bool slc_mul(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool slc_add(size_t a, size_t b, size_t *out) {
    return !__builtin_add_overflow(a, b, out);
}
/* `align` is a power of two. */
static inline uint64_t slc_align_up(uint64_t x, uint64_t align) {
    return (x + align - 1) & ~(align - 1);
}
static inline uint64_t slc_align_down(uint64_t x, uint64_t align) {
    return x & ~(align - 1);
}

/* Zeroed heap block of n * size bytes, NULL on overflow or exhaustion. Free with free(). */
void *slc_calloc(size_t n, size_t size);
/* realloc to n * size bytes with overflow check; the old block stays valid on failure. */
void *slc_realloc(void *p, size_t n, size_t size);

/* Anonymous zeroed pages, page-aligned (2 MiB-aligned and advised huge when `huge`).
 * Not populated: see slc_map_populate. Release with slc_map_free(p, bytes). */
slc_status slc_map_alloc(size_t bytes, bool huge, void **out, slc_err *err) SLC_MUST_CHECK;
/* Touches every page for writing, so that the memory is really there; SLC_E_NOMEM if not. */
slc_status slc_map_populate(void *p, size_t bytes, slc_err *err) SLC_MUST_CHECK;
void slc_map_free(void *p, size_t bytes);

/* Bump arena: slices of one mapping, each 64-byte aligned and zero when first handed out.
 * Used twice in the same order: once on a zeroed slc_arena to measure (`base` NULL: take returns
 * NULL and only counts), once after slc_arena_alloc to hand out. */
typedef struct slc_arena {
    uint8_t *base; /* NULL while measuring */
    size_t used, cap;
} slc_arena;

/* Maps and populates a->used bytes, then rewinds the arena. */
slc_status slc_arena_alloc(slc_arena *a, bool huge, slc_err *err) SLC_MUST_CHECK;
/* n * size bytes. Overflowing sizes abort: counts are checked against files before. */
void *slc_arena_take(slc_arena *a, size_t n, size_t size);
void slc_arena_free(slc_arena *a);

#endif
