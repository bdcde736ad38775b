/* The tokenizer of a checkpoint: tokenizer.json to token ids and back.
 *
 * Byte-level BPE as Qwen defines it: added tokens are cut out by literal match (longest at a
 * position), the rest is NFC-normalised, split by the file's regular expression, mapped to bytes
 * and merged by rank. Immutable after load; any thread may encode and decode. */
#ifndef SLC_TEXT_TOKENIZER_H
#define SLC_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/side_text.h"
#include "sluice/status.h"

typedef struct slc_tokenizer slc_tokenizer;

/* Reads tokenizer.json through a small buffer (SAX): no copy of the file is ever held. */
slc_status slc_tokenizer_open(const char *path, slc_tokenizer **out, slc_err *err) SLC_MUST_CHECK;
/* The same from an open text. */
slc_status slc_tokenizer_open_text(const slc_side_text *text, slc_tokenizer **out,
                                   slc_err *err) SLC_MUST_CHECK;
void slc_tokenizer_close(slc_tokenizer *t);

/* One past the largest id. */
uint32_t slc_tokenizer_n_ids(const slc_tokenizer *t);
/* The id of an added token with this exact text, or -1. */
int32_t slc_tokenizer_added_id(const slc_tokenizer *t, const char *text);

/* Encodes `n` bytes. Any byte string is accepted: a byte at which no whole UTF-8 character begins
 * becomes its byte token, unmerged. SLC_E_INVALID if the vocabulary has no token for a byte.
 * With `special`, added tokens in the text are recognised; without, they are ordinary text.
 * *ids is a malloc'd array of *n_ids, the caller's to free. */
slc_status slc_tokenizer_encode(const slc_tokenizer *t, const char *text, size_t n, bool special,
                                int32_t **ids, size_t *n_ids, slc_err *err) SLC_MUST_CHECK;

/* The bytes of one id, borrowed; *n = 0 for an id without text. Not always whole characters. */
const char *slc_tokenizer_bytes(const slc_tokenizer *t, int32_t id, size_t *n);
/* True for added tokens flagged special: not part of decoded text. */
bool slc_tokenizer_is_special(const slc_tokenizer *t, int32_t id);

/* Streaming detokenizer: holds back an incomplete UTF-8 tail, so that what it gives out is always
 * whole characters. Invalid bytes become U+FFFD as in Python's errors="replace".
 * Caller-owned; zero it to start. No allocation. */
typedef struct slc_detok {
    char tail[4];
    uint8_t n_tail;
} slc_detok;

/* Bytes that slc_detok_push may give out for one id of this tokenizer, at most. */
size_t slc_detok_max_bytes(const slc_tokenizer *t);
/* Appends id's bytes and writes the whole characters that are now complete to out (no terminator).
 * Special tokens give nothing when skip_special. Returns how many bytes were written. */
size_t slc_detok_push(slc_detok *d, const slc_tokenizer *t, int32_t id, bool skip_special,
                      char *out);
/* What is left at the end: U+FFFD for an incomplete character, or nothing. */
size_t slc_detok_finish(slc_detok *d, char out[4]);

#endif
