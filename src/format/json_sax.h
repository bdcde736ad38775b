/* Strict streaming JSON: one callback per event, nothing kept. For files whose text is large and
 * whose shape is known (safetensors headers, shard indexes); small files use json_object.h. */
#ifndef SLC_FORMAT_JSON_SAX_H
#define SLC_FORMAT_JSON_SAX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/status.h"

typedef enum slc_json_kind {
    SLC_JSON_KEY,
    SLC_JSON_STRING,
    SLC_JSON_NUMBER, /* text as written */
    SLC_JSON_OTHER,  /* null, true, false */
    SLC_JSON_OBJECT,
    SLC_JSON_OBJECT_END,
    SLC_JSON_ARRAY,
    SLC_JSON_ARRAY_END,
} slc_json_kind;

typedef struct slc_json_event {
    slc_json_kind kind;
    uint32_t depth;   /* containers around the event; a container's begin and end have the same */
    const char *text; /* key, string (unescaped UTF-8 without NUL bytes) or number; [n], not
                         terminated, borrowed for the call */
    size_t n;
} slc_json_event;

/* Anything but SLC_OK stops the parse and is returned by slc_json_sax. */
typedef slc_status slc_json_fn(void *user, const slc_json_event *ev, slc_err *err);

/* Parses exactly one JSON value and white space around it. `name` is for messages; `fn` may be NULL
 * to check syntax and depth alone. Memory use does not grow with the text beyond one string. */
slc_status slc_json_sax(const char *json, size_t n, const char *name, uint32_t max_depth,
                        slc_json_fn *fn, void *user, slc_err *err) SLC_MUST_CHECK;

/* True if the event's text is exactly `s`. */
bool slc_json_is(const slc_json_event *ev, const char *s);
/* A number that is a plain non-negative integer: no sign, fraction or exponent, below 2^64. */
bool slc_json_u64(const slc_json_event *ev, uint64_t *out);

/* Terminated copies of strings of one JSON text, in one block that never moves. A block as long as
 * the text is always enough: unescaping never lengthens and every string had two quotes. */
typedef struct slc_json_pool {
    char *base;
    size_t used, cap;
} slc_json_pool;

slc_status slc_json_pool_init(slc_json_pool *p, size_t text_bytes, const char *name,
                              slc_err *err) SLC_MUST_CHECK;
/* NULL if the text is empty or holds control characters: such names are never meant. */
const char *slc_json_pool_put(slc_json_pool *p, const slc_json_event *ev);

#endif
