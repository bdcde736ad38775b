/* A set of literal texts and the search for them: the longest one that begins at a position. */
#ifndef SLC_TEXT_LITERALS_H
#define SLC_TEXT_LITERALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/status.h"

typedef struct slc_literal {
    const char *text; /* borrowed */
    uint32_t len;     /* not 0 */
    int32_t id;
} slc_literal;

typedef struct slc_literals {
    slc_literal *list; /* [n], in byte order of their texts */
    uint32_t n;
    bool begins[256]; /* some text begins with this byte */
} slc_literals;

/* Takes the malloc'd list over and sorts it. SLC_E_FORMAT if two texts are equal; the list is taken
 * then too. */
slc_status slc_literals_init(slc_literals *s, slc_literal *list, uint32_t n,
                             slc_err *err) SLC_MUST_CHECK;
void slc_literals_deinit(slc_literals *s);

/* The first position at or after p where a literal begins, with the longest one that does; `end`
 * and NULL if there is none. */
const char *slc_literals_find(const slc_literals *s, const char *p, const char *end,
                              const slc_literal **found);
/* The literal that is exactly this text, or NULL. */
const slc_literal *slc_literals_get(const slc_literals *s, const char *text, size_t n);

#endif
