/* Where experts come from: the store, or one of the original's two ways (stream/original.h). One
 * place that knows both. */
#ifndef SLC_ENGINE_SOURCE_H
#define SLC_ENGINE_SOURCE_H

#include "stream/original.h"
#include "stream/store.h"

/* Zeroed for a dense model. Exactly one of the pointers is set otherwise. */
typedef struct slc_source {
    slc_store *store;
    slc_original *original;
} slc_source;

/* By name, NULL meaning "full". SLC_E_INVALID for another one. */
slc_status slc_stream_mode_parse(const char *name, slc_stream_mode *mode, slc_err *err);

void slc_source_predict(slc_source *s, uint32_t layer);
void slc_source_begin(slc_source *s, uint32_t layer, const uint32_t *experts, const float *scores,
                      uint32_t n, bool decode);
uint32_t slc_source_next(slc_source *s, slc_fetched *ready, uint32_t max);
void slc_source_release(slc_source *s, const slc_fetched *ready, uint32_t n);
slc_status slc_source_error(const slc_source *s, uint32_t idx, slc_err *err);
void slc_source_end(slc_source *s);
slc_store_stats slc_source_stats(const slc_source *s);

#endif
