/* generation_config.json: stop ids and sampling defaults. Everything else in it is for other
 * programs. */
#include "format/config_parts.h"

#include <float.h>
#include <stddef.h>

#include "base/fail.h"

static slc_status add_stop_id(slc_config *cfg, const slc_object *o, const json_t *v, slc_err *err) {
    char text[80];
    json_int_t id;

    if (!json_is_integer(v) || json_integer_value(v) < 0 ||
        json_integer_value(v) >= cfg->vocab_size)
        return slc_fail(err, SLC_E_FORMAT,
                        "%s: %seos_token_id holds %s, expected token ids below %u", o->file,
                        o->path, slc_json_text(v, text, sizeof(text)), cfg->vocab_size);
    id = json_integer_value(v);
    for (uint32_t i = 0; i < cfg->n_stop_ids; i++)
        if (cfg->stop_ids[i] == id) return SLC_OK;
    if (cfg->n_stop_ids == SLC_MAX_STOP_IDS)
        return slc_fail(err, SLC_E_UNSUPPORTED, "%s: more than %u different eos_token_id", o->file,
                        SLC_MAX_STOP_IDS);
    cfg->stop_ids[cfg->n_stop_ids++] = (int32_t)id;
    return SLC_OK;
}

slc_status slc_config_add_stop_ids(slc_config *cfg, const slc_object *o, slc_err *err) {
    const json_t *v = slc_object_get(o, "eos_token_id");
    slc_status rc;

    if (!v) return SLC_OK;
    if (!json_is_array(v)) return add_stop_id(cfg, o, v, err);
    for (size_t i = 0; i < json_array_size(v); i++)
        if ((rc = add_stop_id(cfg, o, json_array_get(v, i), err))) return rc;
    return SLC_OK;
}

static const struct sampling_field {
    const char *key;
    size_t at;
    double min, max;
} sampling_fields[] = {
    {"temperature", offsetof(slc_config, temperature), 0, 100},
    {"top_p", offsetof(slc_config, top_p), 0, 1},
    {"min_p", offsetof(slc_config, min_p), 0, 1},
    {"repetition_penalty", offsetof(slc_config, repeat_penalty), FLT_MIN, 100},
    {"presence_penalty", offsetof(slc_config, presence_penalty), 0, 2},
};

slc_status slc_config_parse_generation(const char *json, size_t n, const char *name,
                                       slc_config *cfg, slc_err *err) {
    json_t *root;
    slc_object o;
    slc_status rc;
    uint32_t top_k = 0;
    bool do_sample = false;

    if ((rc = slc_object_load(json, n, name, &root, &o, err))) return rc;
    if ((rc = slc_config_add_stop_ids(cfg, &o, err))) goto out;
    for (size_t i = 0; i < sizeof(sampling_fields) / sizeof(*sampling_fields); i++) {
        const struct sampling_field *f = &sampling_fields[i];
        double value;

        if (!slc_object_get(&o, f->key)) continue;
        if ((rc = slc_object_double(&o, f->key, f->min, f->max, &value, err))) goto out;
        *(float *)(void *)((char *)cfg + f->at) = (float)value;
    }
    if ((rc = slc_object_u32(&o, "top_k", 0, INT32_MAX, &top_k, err))) goto out;
    if (slc_object_get(&o, "top_k")) cfg->top_k = (int32_t)top_k;
    if ((rc = slc_object_bool(&o, "do_sample", &do_sample, err))) goto out;
    if (slc_object_get(&o, "do_sample")) cfg->do_sample = do_sample;
out:
    json_decref(root);
    return rc;
}
