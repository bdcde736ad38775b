/* Hands each call to the store or to the original's way; see the header. */
#include "engine/source.h"

#include <string.h>

#include "base/fail.h"

slc_status slc_stream_mode_parse(const char *name, slc_stream_mode *mode, slc_err *err) {
    if (!name || !strcmp(name, "full"))
        *mode = SLC_MODE_FULL;
    else if (!strcmp(name, "seed"))
        *mode = SLC_MODE_SEED;
    else if (!strcmp(name, "serial"))
        *mode = SLC_MODE_SERIAL;
    else
        return slc_fail(err, SLC_E_INVALID,
                        "unknown stream mode \"%s\", expected full, seed or serial", name);
    return SLC_OK;
}

void slc_source_predict(slc_source *s, uint32_t layer) {
    if (s->original) slc_original_predict(s->original, layer);
}

void slc_source_begin(slc_source *s, uint32_t layer, const uint32_t *experts, const float *scores,
                      uint32_t n, bool decode) {
    if (s->original)
        slc_original_begin(s->original, layer, experts, n);
    else
        slc_fetch_begin(s->store, layer, experts, scores, n, decode);
}

uint32_t slc_source_next(slc_source *s, slc_fetched *ready, uint32_t max) {
    return s->original ? slc_original_next(s->original, ready, max)
                       : slc_fetch_next(s->store, ready, max);
}

void slc_source_release(slc_source *s, const slc_fetched *ready, uint32_t n) {
    if (s->original)
        slc_original_release(s->original, ready, n);
    else
        slc_fetch_release(s->store, ready, n);
}

slc_status slc_source_error(const slc_source *s, uint32_t idx, slc_err *err) {
    return s->original ? slc_original_error(s->original, idx, err)
                       : slc_fetch_error(s->store, idx, err);
}

void slc_source_end(slc_source *s) {
    if (s->original)
        slc_original_end(s->original);
    else
        slc_fetch_end(s->store);
}

slc_store_stats slc_source_stats(const slc_source *s) {
    if (s->original) return slc_original_get_stats(s->original);
    return s->store ? slc_store_get_stats(s->store) : (slc_store_stats){0};
}
