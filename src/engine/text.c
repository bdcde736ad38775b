/* Text to ids and back, for callers that step a model themselves. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "engine/model_internal.h"

static slc_status no_tokenizer(const slc_model *m, slc_err *err) {
    return slc_fail(err, SLC_E_UNSUPPORTED, "%s has no tokenizer.json: only token ids can be used",
                    m->ckpt->dir);
}

slc_status slc_tokenize(const slc_model *m, const char *text, size_t n, bool special, int32_t **ids,
                        size_t *n_ids, slc_err *err) {
    if (!m->tok) return no_tokenizer(m, err);
    return slc_tokenizer_encode(m->tok, text, n, special, ids, n_ids, err);
}

slc_status slc_detokenize(const slc_model *m, const int32_t *ids, size_t n, char **text,
                          size_t *n_text, slc_err *err) {
    slc_detok d = {0};
    size_t bytes = 0, used = 0;

    if (!m->tok) return no_tokenizer(m, err);
    for (size_t i = 0; i < n; i++) {
        size_t len;

        slc_tokenizer_bytes(m->tok, ids[i], &len);
        bytes += len;
    }
    /* Each byte becomes at most one U+FFFD of three bytes. */
    if (!(*text = slc_calloc(bytes + 2, 3)))
        return slc_fail(err, SLC_E_NOMEM, "no memory for the text of %zu tokens", n);
    for (size_t i = 0; i < n; i++) used += slc_detok_push(&d, m->tok, ids[i], true, *text + used);
    used += slc_detok_finish(&d, *text + used);
    (*text)[used] = 0;
    *n_text = used;
    return SLC_OK;
}
