/* XXH3 with 64 bits (xxhash.com), seed 0: what tells damaged bytes from sound ones in a pack. No
 * defence against anyone who means to deceive. The state is the caller's and needs no release. */
#ifndef SLC_FORMAT_HASH64_H
#define SLC_FORMAT_HASH64_H

#include <stddef.h>
#include <stdint.h>

typedef struct slc_hash64 {
    _Alignas(64) unsigned char state[576];
} slc_hash64;

void slc_hash64_init(slc_hash64 *h);
void slc_hash64_update(slc_hash64 *h, const void *p, size_t n);
/* The hash of everything since init; more may follow. */
uint64_t slc_hash64_get(const slc_hash64 *h);

/* Of one block. */
uint64_t slc_hash64_of(const void *p, size_t n);

#endif
