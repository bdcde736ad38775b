/* A warm start: which experts a store held when a program ended, kept in a small file (a bit per
 * expert of the model) and read again, in disk order, as hints when it starts. The file is tied to
 * the checkpoint by the sizes and modification times of its files. It says nothing that matters for
 * results, so a file that is missing, damaged or of another checkpoint costs a log line at most.
 * Called by the store's owner thread. */
#ifndef SLC_STREAM_HOT_H
#define SLC_STREAM_HOT_H

#include "sluice/status.h"
#include "stream/store.h"

/* Writes a temporary file beside `path`, then renames it: what was there is replaced whole or not
 * at all. */
slc_status slc_hot_save(const slc_store *s, const char *path, slc_err *err) SLC_MUST_CHECK;

/* Hints at every expert of the file (SLC_GUESS_HOT), as many as there are slots; *n, which may be
 * NULL, says how many. SLC_E_IO: cannot be read; SLC_E_FORMAT: damaged, or of another checkpoint.
 */
slc_status slc_hot_load(slc_store *s, const char *path, uint32_t *n, slc_err *err) SLC_MUST_CHECK;

#endif
