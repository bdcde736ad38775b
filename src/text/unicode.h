/* What the tokenizer must know about a character. The data is ours (Unicode 16.0), not a library's,
 * so that the same text gives the same ids on every machine. */
#ifndef SLC_TEXT_UNICODE_H
#define SLC_TEXT_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum slc_char_class {
    SLC_CHAR_OTHER = 0,
    SLC_CHAR_LETTER, /* \p{L} */
    SLC_CHAR_MARK,   /* \p{M} */
    SLC_CHAR_NUMBER, /* \p{N} */
    SLC_CHAR_SPACE,  /* \s: White_Space */
} slc_char_class;

slc_char_class slc_char_class_of(uint32_t c);

/* False: the character stays as it is under NFC, has combining class 0 and never joins what stands
 * before it. A text may be cut in front of such a character and its parts normalised separately. */
bool slc_char_nfc_unsafe(uint32_t c);

#endif
