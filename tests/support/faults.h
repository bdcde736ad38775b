/* A disk that misbehaves on order: a table of system calls whose reads can fail, come short or come
 * late, and a backend that hands completions out in another order. Both work under io_uring and the
 * thread pool alike. */
#ifndef SLC_TESTS_SUPPORT_FAULTS_H
#define SLC_TESTS_SUPPORT_FAULTS_H

#include <stdatomic.h>
#include <stdint.h>

#include "io/backend.h"
#include "io/sys.h"

typedef struct faults {
    slc_sys sys; /* first: open files with &f->sys */
    /* orders; zero is "no such fault". Set while no read is in flight. */
    uint32_t short_every; /* every n-th read returns half of what it got */
    uint32_t eintr_every; /* every n-th read is interrupted */
    uint32_t fail_nth;    /* the n-th read from now (1-based) fails with fail_errno */
    int fail_errno;
    uint64_t bad_off, bad_len;   /* reads that touch this range fail with bad_errno ... */
    int bad_errno;               /* ... */
    _Atomic uint32_t bad_times;  /* ... this many times more */
    uint32_t delay_us;           /* thread pool only: longest random delay of a read */
    _Atomic uint32_t latency_us; /* thread pool only: added to every read; may change at any time */
    int direct_open_errno;       /* open with O_DIRECT fails */
    int direct_read_errno;       /* every read of an O_DIRECT descriptor fails */
    int fstat_errno;
    uint32_t fs_type;      /* what fstatfs says; 0: the truth */
    uint32_t min_align;    /* direct reads at lesser offset, length or memory alignment: EINVAL */
    int64_t claimed_align; /* what direct_align says; 0: the truth */
    /* counts */
    _Atomic uint32_t n_reads; /* attempts */
    _Atomic uint32_t n_open;  /* descriptors open */
    uint32_t n_hints;         /* ranges the page cache was told of */
} faults;

void faults_init(faults *f);

/* Takes over `inner`; completions are held back and released in random order. */
slc_io_backend faults_reorder(slc_io_backend inner, uint32_t seed);

/* xorshift; never zero. */
static inline uint32_t faults_random(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

#endif
