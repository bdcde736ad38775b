/* A record of what a store was asked for, as text (docs/formats/trace.md): written while a model
 * runs, read back to be replayed against other policies and sizes (simulate.h). Writer and reader
 * belong to one thread each. */
#ifndef SLC_STREAM_TRACE_H
#define SLC_STREAM_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/status.h"
#include "stream/store.h"

/* ---- writing ---- */

typedef struct slc_trace_writer slc_trace_writer;

/* Creates or replaces the file. `c`: of the store that will be recorded. */
slc_status slc_trace_writer_open(const char *path, const slc_checkpoint *c, slc_trace_writer **out,
                                 slc_err *err) SLC_MUST_CHECK;
/* Appends one line; an slc_fetch_sink whose user is the writer. A failure is kept for close. */
void slc_trace_write(void *writer, const slc_fetch_event *e);
/* Flushes and frees; tells the first failure of any write. NULL is fine. */
slc_status slc_trace_writer_close(slc_trace_writer *w, slc_err *err) SLC_MUST_CHECK;

/* ---- reading ---- */

typedef struct slc_trace_fetch {
    uint64_t pass;
    uint64_t expert_bytes;
    size_t first; /* of n in the arrays below */
    uint32_t layer, n;
    uint32_t n_tokens; /* 0: was not told */
    bool decode;
} slc_trace_fetch;

typedef struct slc_trace {
    uint32_t n_layers, n_experts, n_active;
    size_t n_fetches;
    slc_trace_fetch *fetches;
    size_t n_uses;
    uint32_t *experts; /* [n_uses] */
    float *scores;     /* [n_uses]; negative: was not told */
    uint8_t *outcomes; /* [n_uses] slc_outcome */
} slc_trace;

/* Reads and checks a whole trace. SLC_E_FORMAT names file and line. */
slc_status slc_trace_read(const char *path, slc_trace *out, slc_err *err) SLC_MUST_CHECK;
/* As above from memory; `text` [n] followed by a NUL. `name` is for messages. */
slc_status slc_trace_parse(const char *text, size_t n, const char *name, slc_trace *out,
                           slc_err *err) SLC_MUST_CHECK;
void slc_trace_deinit(slc_trace *t); /* a zeroed one is fine */

#endif
