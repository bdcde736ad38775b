/* Unicode normalisation form C. */
#ifndef SLC_TEXT_NFC_H
#define SLC_TEXT_NFC_H

#include <stddef.h>

#include "sluice/status.h"

/* Normalises n bytes of well-formed UTF-8. *out is NULL when the text is in form C already;
 * otherwise it is malloc'd, the caller's, and has *n_out bytes. Linear in n. Any thread. */
slc_status slc_nfc(const char *text, size_t n, char **out, size_t *n_out,
                   slc_err *err) SLC_MUST_CHECK;

#endif
