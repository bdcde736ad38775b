/* The text of one generation: collects it, cuts it at a stop string, and passes it on as soon as it
 * can no longer turn out to begin a stop string.
 *
 *     bytes:    ...already passed on... | held back | (reserve)
 *               0                    n_out       n_text     cap
 *
 * Held back is exactly the longest tail that is a proper beginning of a stop string, so a match
 * always starts at or after n_out. What comes out does not depend on how the text was cut into
 * pieces: the text ends before the stop string that is complete first, the longest of those that
 * are complete at the same byte. Pieces must be whole UTF-8 characters. */
#ifndef SLC_ENGINE_EMIT_H
#define SLC_ENGINE_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/status.h"

typedef struct slc_emit {
    char *text; /* malloc'd, not terminated; see slc_emit_take */
    size_t n_text, n_out, cap;
    const char *const *stop; /* [n_stop], borrowed */
    uint32_t n_stop;
    bool stopped; /* a stop string was found; text ends before it */
    /* Receives the text; NULL: nobody. False: no more wanted. */
    bool (*on_text)(void *user, const char *text, size_t n);
    void *user;
} slc_emit;

/* Checks the stop strings (not empty, starting with a whole character): SLC_E_INVALID. The rest of
 * *e is zeroed; the caller sets on_text and user. */
slc_status slc_emit_init(slc_emit *e, const char *const *stop, uint32_t n_stop,
                         slc_err *err) SLC_MUST_CHECK;
void slc_emit_deinit(slc_emit *e);

/* Room for a piece of up to n bytes: written by the caller, then counted with slc_emit_advance.
 * NULL and SLC_E_NOMEM in err when there is none. */
char *slc_emit_reserve(slc_emit *e, size_t n, slc_err *err);
/* Accounts for n new bytes: looks for stop strings and passes on what is safe. False when on_text
 * wants no more. Does nothing once stopped. */
bool slc_emit_advance(slc_emit *e, size_t n);
/* The end: passes on what was held back. False as above. */
bool slc_emit_flush(slc_emit *e);
/* Hands over the NUL-terminated text (free() it); NULL if there is no memory for it. */
char *slc_emit_take(slc_emit *e, size_t *n_text);

#endif
