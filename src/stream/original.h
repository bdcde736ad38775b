/* How the program whose streaming Sluice rebuilds did it, before and after its own improvement.
 * Kept for comparison only (--stream-mode), so that every claim is a ratio of runs of one program
 * on one machine.
 *
 *   serial  before: scales and biases of all experts resident; an expert's projections read one
 *           after another, each blocking, through the page cache; nothing kept, nothing overlapped.
 *   seed    after: scales resident; K buffers per layer that persist from token to token. While the
 *           router runs, all of the previous token's experts are read again into them (the page
 *           cache makes that cheap); those that the router then names are hits, the others are read
 *           concurrently into buffers that hold no needed expert, and all are waited for together.
 *           A prompt reads a buffer per distinct expert, all at once.
 *
 * Delivers experts through the same types as the store, under the same rules: one owner thread, one
 * fetch at a time, results the same bits. The files must not have direct reads enabled. */
#ifndef SLC_STREAM_ORIGINAL_H
#define SLC_STREAM_ORIGINAL_H

#include "stream/store.h"

typedef struct slc_original slc_original;

/* FULL is the store's own way; the functions here take the other two. */
typedef enum slc_stream_mode { SLC_MODE_FULL = 0, SLC_MODE_SEED, SLC_MODE_SERIAL } slc_stream_mode;

/* Memory that a mode takes, all of it: resident scales and buffers. */
uint64_t slc_original_bytes(const slc_checkpoint *c, slc_stream_mode mode);

/* Reads the scales. `io` is borrowed and used by this object alone; serial needs none (NULL). */
slc_status slc_original_create(const slc_checkpoint *c, slc_stream_mode mode, slc_io *io,
                               slc_original **out, slc_err *err) SLC_MUST_CHECK;
void slc_original_destroy(slc_original *o);
slc_store_stats slc_original_get_stats(const slc_original *o);

/* Before the router's result is known: starts reading what the previous token used. */
void slc_original_predict(slc_original *o, uint32_t layer);

/* As slc_fetch_begin and so on. */
void slc_original_begin(slc_original *o, uint32_t layer, const uint32_t *experts, uint32_t n);
uint32_t slc_original_next(slc_original *o, slc_fetched *ready, uint32_t max);
void slc_original_release(slc_original *o, const slc_fetched *ready, uint32_t n);
slc_status slc_original_error(const slc_original *o, uint32_t idx, slc_err *err);
void slc_original_end(slc_original *o);

#endif
