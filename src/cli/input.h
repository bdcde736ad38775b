/* What a command is given to read: a text, or lists of token ids in JSON.
 *
 * Accepted lists: [1, 2, 3]; {"token_ids": [1, 2, 3], ...} as --json prints it; and, where the
 * command takes several, [[1, 2], [3, 4, 5]]. */
#ifndef SLC_CLI_INPUT_H
#define SLC_CLI_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/status.h"

/* All bytes of a file, "-" being standard input; *text is malloc'd and NUL-terminated. */
slc_status slc_input_text(const char *path, char **text, size_t *n, slc_err *err) SLC_MUST_CHECK;

typedef struct slc_id_lists {
    int32_t *ids; /* all lists, one after another */
    size_t n_ids;
    size_t *ends; /* [n_lists] where each list ends in ids */
    size_t n_lists;
    bool nested; /* written as an array of arrays */
} slc_id_lists;

/* Reads and checks a file of ids (each from 0 to 2^31 - 1). `many`: arrays of arrays are accepted.
 * Free with slc_id_lists_deinit, also after a failure. */
slc_status slc_input_ids(const char *path, bool many, slc_id_lists *out,
                         slc_err *err) SLC_MUST_CHECK;
/* Makes one list of malloc'd ids, which it takes. */
slc_status slc_id_lists_take(slc_id_lists *out, int32_t *ids, size_t n,
                             slc_err *err) SLC_MUST_CHECK;
/* SLC_E_INVALID when an id is not below n_vocab. `name` is for the message. */
slc_status slc_id_lists_check(const slc_id_lists *l, uint32_t n_vocab, const char *name,
                              slc_err *err) SLC_MUST_CHECK;
void slc_id_lists_deinit(slc_id_lists *l);

#endif
