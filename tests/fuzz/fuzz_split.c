/* Normalising and splitting text. The last byte chooses the expression: bit 0 Qwen2 instead of
 * Qwen3.5, bit 1 PCRE2 instead of the scanner. Of the rest, each run of whole characters is a text.
 */
#include "fuzz/fuzz.h"
#include "text/nfc.h"
#include "text/split.h"
#include "text/utf8.h"

/* Pieces follow one another and leave nothing out. */
static slc_status next_piece(void *user, const char *piece, size_t n, slc_err *err) {
    const char **at = user;

    fuzz_check(piece == *at && n > 0);
    *at += n;
    return SLC_OK;
}

static size_t valid_prefix(const char *s, size_t n) {
    size_t valid = 0;

    for (uint32_t len; (len = slc_utf8_valid(s + valid, n - valid)); valid += len) {
    }
    return valid;
}

static void check_text(const slc_splitter *split, const char *s, size_t n) {
    const char *at = s;
    char *normal, *again;
    size_t n_normal, n_again;

    fuzz_check(slc_splitter_run(split, s, n, next_piece, &at, NULL) == SLC_OK && at == s + n);
    fuzz_check(slc_nfc(s, n, &normal, &n_normal, NULL) == SLC_OK);
    if (!normal) return;
    fuzz_check(valid_prefix(normal, n_normal) == n_normal);
    fuzz_check(slc_nfc(normal, n_normal, &again, &n_again, NULL) == SLC_OK);
    fuzz_check(!again || (n_again == n_normal && memcmp(again, normal, n_normal) == 0));
    free(again);
    free(normal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t option = size ? data[--size] : 0;
    char *text = fuzz_copy(data, size);
    slc_splitter *split;

    fuzz_check(slc_splitter_create(option & 1 ? slc_split_qwen2 : slc_split_qwen3_5, option & 2,
                                   &split, NULL) == SLC_OK);
    for (size_t at = 0, n; at < size; at += n + 1) {
        n = valid_prefix(text + at, size - at);
        if (n) check_text(split, text + at, n);
    }
    slc_splitter_destroy(split);
    free(text);
    return 0;
}
