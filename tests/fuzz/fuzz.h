/* What fuzz harnesses share. Each defines LLVMFuzzerTestOneInput; libFuzzer calls it, or replay.c
 * with the files of a corpus. Options come from the last bytes of an input, so that the rest is a
 * file as the parser would see it. */
#ifndef SLC_TESTS_FUZZ_H
#define SLC_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A block of exactly n bytes, so that a sanitizer sees every byte read too far. */
static inline char *fuzz_copy(const uint8_t *data, size_t n) {
    char *copy = malloc(n ? n : 1);

    if (!copy) abort();
    memcpy(copy, data, n);
    return copy;
}

/* What must hold whatever the input is. */
#define fuzz_check(cond) ((cond) ? (void)0 : abort())

#endif
