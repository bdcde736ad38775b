/* The one place that includes xxhash. Its code is compiled in here: the layout of a state is then
 * fixed by this very header, so that states can live on the stack, which the shared library does
 * not promise; and a decoded token must not allocate. */
#include "format/hash64.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(XXH3_state_t) <= sizeof(slc_hash64), "room for a state");
_Static_assert(_Alignof(XXH3_state_t) <= _Alignof(slc_hash64), "alignment of a state");

void slc_hash64_init(slc_hash64 *h) {
    XXH3_64bits_reset((XXH3_state_t *)(void *)h->state);
}

void slc_hash64_update(slc_hash64 *h, const void *p, size_t n) {
    XXH3_64bits_update((XXH3_state_t *)(void *)h->state, p, n);
}

uint64_t slc_hash64_get(const slc_hash64 *h) {
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)h->state);
}

uint64_t slc_hash64_of(const void *p, size_t n) {
    return XXH3_64bits(p, n);
}
