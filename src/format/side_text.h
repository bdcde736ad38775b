/* The texts that go with a checkpoint's weights: files beside them in a folder, ranges inside a
 * pack. Whoever reads one gets an open file and a range, and need not know which it is. */
#ifndef SLC_FORMAT_SIDE_TEXT_H
#define SLC_FORMAT_SIDE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "io/file.h"
#include "sluice/status.h"

struct slc_checkpoint;

/* The values are part of the pack format (docs/formats/pack.md): new ones go to the end. */
typedef enum slc_text_kind {
    SLC_TEXT_CONFIG = 0,
    SLC_TEXT_GENERATION_CONFIG = 1,
    SLC_TEXT_TOKENIZER = 2,
    SLC_TEXT_TOKENIZER_CONFIG = 3,
    SLC_TEXT_CHAT_TEMPLATE = 4,
    SLC_N_TEXTS
} slc_text_kind;

/* "config.json", "tokenizer.json", ...: its name in a folder. */
extern const char *const slc_text_names[SLC_N_TEXTS];

/* Where an open text lies. Do not copy: `file` may point at `own`. */
typedef struct slc_side_text {
    slc_file own;         /* a folder's file; a pack's texts lie in the checkpoint's own file */
    const slc_file *file; /* NULL: the checkpoint has no such text */
    uint64_t off, bytes;
} slc_side_text;

/* A text that is not there is no error. Close it in any case, before the checkpoint. */
slc_status slc_side_text_open(const struct slc_checkpoint *c, slc_text_kind kind,
                              slc_side_text *out, slc_err *err) SLC_MUST_CHECK;
/* Any whole file as such a text. */
slc_status slc_side_text_open_file(const char *path, slc_side_text *out,
                                   slc_err *err) SLC_MUST_CHECK;
void slc_side_text_close(slc_side_text *t);

/* The whole text, malloc'd and NUL-terminated, refused beyond max_bytes; NULL if it is not there.
 */
slc_status slc_side_text_read(const struct slc_checkpoint *c, slc_text_kind kind,
                              uint64_t max_bytes, char **text, size_t *n,
                              slc_err *err) SLC_MUST_CHECK;

#endif
