/* Character classes by binary search in a table of runs, ASCII by comparison. */
#include "text/unicode.h"

static const uint32_t runs[] = {
#include "text/unicode_table.inc"
};

#define N_RUNS (uint32_t)(sizeof(runs) / sizeof(runs[0]))

/* The four flag bits of the run that holds c: unsafe << 3 | class. */
static uint32_t flags_of(uint32_t c) {
    uint32_t key = c << 4 | 15, at = 0;

    for (uint32_t n = N_RUNS; n > 1;) { /* runs[at] <= key; the last such is in [at, at + n) */
        uint32_t half = n / 2;

        if (runs[at + half] <= key) at += half;
        n -= half;
    }
    return runs[at] & 15;
}

slc_char_class slc_char_class_of(uint32_t c) {
    if (c >= 0x80) return (slc_char_class)(flags_of(c) & 7);
    if ((c | 0x20) - 'a' < 26) return SLC_CHAR_LETTER;
    if (c - '0' < 10) return SLC_CHAR_NUMBER;
    return c == ' ' || c - '\t' < 5 ? SLC_CHAR_SPACE : SLC_CHAR_OTHER;
}

bool slc_char_nfc_unsafe(uint32_t c) {
    return c >= 0x300 && (flags_of(c) & 8) != 0;
}
