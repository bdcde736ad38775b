/* tokenizer.json of a byte-level BPE tokenizer: JSON text to a vocabulary and the few settings that
 * this family of tokenizers varies.
 *
 * What changes ids is honoured or refused by name (SLC_E_UNSUPPORTED): the normalizer is NFC or
 * none, the pre-tokenizer a ByteLevel, alone or after one isolating Split by regular expression,
 * the model BPE without dropout or affixes. `truncation` and `padding` are the caller's business
 * and are ignored, as are unknown keys. */
#ifndef SLC_FORMAT_TOKENIZER_JSON_H
#define SLC_FORMAT_TOKENIZER_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/side_text.h"
#include "format/vocab.h"
#include "sluice/status.h"

#define SLC_TOKENIZER_JSON_MAX_BYTES (256u << 20)

/* A text that is one token wherever it stands. Its text is that of `id` in the vocabulary. */
typedef struct slc_added_token {
    int32_t id;
    bool special;    /* not part of decoded text */
    bool normalized; /* looked for after normalisation, not before */
} slc_added_token;

typedef struct slc_tokenizer_json {
    slc_vocab vocab;
    slc_added_token *added; /* [n_added] */
    uint32_t n_added;
    int32_t byte_id[256]; /* the token of each single byte, -1 if there is none */
    bool nfc;             /* normalise to NFC before splitting */
    bool ignore_merges;   /* a piece that is a token needs no merging; vocab finds texts */
    char *split;          /* regular expression whose matches are pieces; NULL: no splitting */
} slc_tokenizer_json;

/* Reads the text in small chunks; it is never held as a whole. */
slc_status slc_tokenizer_json_read(const slc_side_text *text, slc_tokenizer_json *out,
                                   slc_err *err) SLC_MUST_CHECK;
/* The same from memory; `name` is for messages. */
slc_status slc_tokenizer_json_parse(const char *json, size_t n, const char *name,
                                    slc_tokenizer_json *out, slc_err *err) SLC_MUST_CHECK;
void slc_tokenizer_json_deinit(slc_tokenizer_json *t);

#endif
