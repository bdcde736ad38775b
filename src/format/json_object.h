/* Small JSON files as jansson trees, with getters that check types and ranges and name the field
 * in their messages. A field that is absent or null leaves the output as it was. */
#ifndef SLC_FORMAT_JSON_OBJECT_H
#define SLC_FORMAT_JSON_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "sluice/status.h"

/* A JSON object and where it stands. Borrows everything. */
typedef struct slc_object {
    const json_t *json; /* NULL: absent; every field of it is absent */
    const char *file;   /* "config.json" */
    char path[64];      /* "" or "text_config." */
} slc_object;

/* Parses a JSON object; keys given twice, nesting beyond 32 levels and numbers out of range are
 * refused. Free with json_decref(*root). */
slc_status slc_object_load(const char *json, size_t n, const char *file, json_t **root,
                           slc_object *out, slc_err *err) SLC_MUST_CHECK;
/* NULL if absent or null. */
const json_t *slc_object_get(const slc_object *o, const char *key);
slc_status slc_object_child(const slc_object *o, const char *key, slc_object *out,
                            slc_err *err) SLC_MUST_CHECK;

slc_status slc_object_u32(const slc_object *o, const char *key, uint32_t min, uint32_t max,
                          uint32_t *out, slc_err *err) SLC_MUST_CHECK;
/* min <= value <= max, both finite. */
slc_status slc_object_double(const slc_object *o, const char *key, double min, double max,
                             double *out, slc_err *err) SLC_MUST_CHECK;
slc_status slc_object_bool(const slc_object *o, const char *key, bool *out,
                           slc_err *err) SLC_MUST_CHECK;
/* Borrowed from the tree. */
slc_status slc_object_string(const slc_object *o, const char *key, const char **out,
                             slc_err *err) SLC_MUST_CHECK;

/* The compact JSON text of a value, cut to fit; returned. */
const char *slc_json_text(const json_t *v, char *buf, size_t cap);
/* "FILE: PATH.KEY is VALUE, expected EXPECTED". Returns code. */
slc_status slc_object_bad(const slc_object *o, const char *key, slc_status code,
                          const char *expected, slc_err *err);

#endif
