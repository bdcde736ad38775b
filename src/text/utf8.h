/* UTF-8, byte by byte: what may begin a character and what may go on with it (Unicode 3.9, table
 * 3-7: no surrogates, nothing above U+10FFFF, no overlong forms). */
#ifndef SLC_TEXT_UTF8_H
#define SLC_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character that `lead` begins, 0 if none begins so. */
static inline uint32_t slc_utf8_length(uint8_t lead) {
    if (lead < 0x80) return 1;
    if (lead < 0xc2 || lead > 0xf4) return 0;
    return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/* May `byte` be the second byte of a character that begins with `lead`? */
static inline bool slc_utf8_second(uint8_t lead, uint8_t byte) {
    switch (lead) {
    case 0xe0: return byte >= 0xa0 && byte <= 0xbf;
    case 0xed: return byte >= 0x80 && byte <= 0x9f;
    case 0xf0: return byte >= 0x90 && byte <= 0xbf;
    case 0xf4: return byte >= 0x80 && byte <= 0x8f;
    default: return (byte & 0xc0) == 0x80;
    }
}

/* Length of the whole character at s (n bytes follow), 0 if there is none. */
static inline uint32_t slc_utf8_valid(const char *s, size_t n) {
    uint32_t len = n ? slc_utf8_length((uint8_t)s[0]) : 0;

    if (len > n) return 0;
    if (len > 1 && !slc_utf8_second((uint8_t)s[0], (uint8_t)s[1])) return 0;
    for (uint32_t i = 2; i < len; i++)
        if (((uint8_t)s[i] & 0xc0) != 0x80) return 0;
    return len;
}

/* The character at s, which is well formed; *len gets its length. */
static inline uint32_t slc_utf8_decode(const char *s, uint32_t *len) {
    uint32_t lead = (uint8_t)s[0], c;

    *len = slc_utf8_length((uint8_t)lead);
    if (*len <= 1) return lead;
    c = lead & (0x7fu >> *len);
    for (uint32_t i = 1; i < *len; i++) c = c << 6 | ((uint8_t)s[i] & 0x3fu);
    return c;
}

#endif
