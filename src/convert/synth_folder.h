/* A folder that appears under its name only when it is complete. It is filled as NAME.partial;
 * finish flushes it to disk and renames it, closing it before removes it. A process that is killed
 * leaves the partial folder, which the next open of the same name clears. One thread. */
#ifndef SLC_CONVERT_SYNTH_FOLDER_H
#define SLC_CONVERT_SYNTH_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/status.h"

typedef struct slc_synth_folder {
    char *path;    /* of the finished folder */
    char *partial; /* of the folder while it is filled */
    int fd;        /* of the partial folder, locked; -1: not open */
} slc_synth_folder;

/* `name` must not exist or be an empty folder, its file system must have room for `need_bytes`. */
slc_status slc_synth_folder_open(slc_synth_folder *f, const char *name, uint64_t need_bytes,
                                 slc_err *err) SLC_MUST_CHECK;
slc_status slc_synth_folder_finish(slc_synth_folder *f, slc_err *err) SLC_MUST_CHECK;
/* Removes the partial folder if there is one. A zeroed or closed folder is fine. */
void slc_synth_folder_close(slc_synth_folder *f);

/* One file of the folder, written from start to end. */
typedef struct slc_synth_file {
    const slc_synth_folder *folder; /* borrowed */
    const char *name;               /* borrowed */
    int fd;                         /* -1: not open */
    uint64_t n_bytes;               /* written */
} slc_synth_file;

slc_status slc_synth_file_create(slc_synth_file *f, const slc_synth_folder *folder,
                                 const char *name, slc_err *err) SLC_MUST_CHECK;
/* Also tells the kernel to start writing it to disk, so that disk and generator work together. */
slc_status slc_synth_file_write(slc_synth_file *f, const void *bytes, size_t n,
                                slc_err *err) SLC_MUST_CHECK;
/* Waits until it is on disk. */
slc_status slc_synth_file_finish(slc_synth_file *f, slc_err *err) SLC_MUST_CHECK;
void slc_synth_file_close(slc_synth_file *f);

/* A whole file from memory. */
slc_status slc_synth_folder_put(const slc_synth_folder *folder, const char *name, const void *bytes,
                                size_t n, slc_err *err) SLC_MUST_CHECK;

#endif
