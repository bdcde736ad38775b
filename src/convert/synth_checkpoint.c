/* The order of things: what can fail early fails before gigabytes are written, and the folder is
 * opened like any other checkpoint before it is renamed, so that a result that the readers would
 * refuse is never left behind. */
#include "convert/synth_checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "convert/synth_routing.h"

/* Config, index, headers and tokenizer beside the weights, with room to spare. */
#define SIDE_BYTES ((uint64_t)64 << 20)

slc_synth_options slc_synth_options_default(void) {
    return (slc_synth_options){.shard_bytes = UINT64_C(5) << 30};
}

/* ---- config.json ---- */

slc_status slc_synth_put_json(const slc_synth_folder *folder, const char *name, json_t *json,
                              slc_err *err) {
    char *text = json ? json_dumps(json, JSON_INDENT(4)) : NULL;
    slc_status rc = text ? slc_synth_folder_put(folder, name, text, strlen(text), err)
                         : slc_fail(err, SLC_E_NOMEM, "%s/%s: no memory", folder->path, name);

    free(text);
    json_decref(json);
    return rc;
}

/* The encoding that most matrices have: what the block states once. */
static slc_matrix_type common_type(const slc_synth_plan *plan) {
    slc_matrix_type best = {0};
    uint32_t most = 0;

    for (uint32_t i = 0; i < plan->n; i++) {
        const slc_matrix_type *t = &plan->weights[i].type;
        uint32_t count = 0;

        if (!slc_matrix_is_affine(t) || (t->bits == best.bits && t->group == best.group)) continue;
        for (uint32_t k = 0; k < plan->n; k++)
            count +=
                plan->weights[k].type.bits == t->bits && plan->weights[k].type.group == t->group;
        if (count > most) {
            most = count;
            best = *t;
        }
    }
    return best;
}

/* The block that MLX writes: the common encoding, then every module that departs from it. */
static json_t *quantization(const slc_synth_plan *plan) {
    slc_matrix_type common = common_type(plan);
    json_t *block = json_pack("{si, si, ss}", "group_size", common.group, "bits", common.bits,
                              "mode", "affine");

    for (uint32_t i = 0; i < plan->n; i++) {
        const slc_synth_weight *w = &plan->weights[i];
        json_t *departure;

        if (w->form != SLC_FORM_MATRIX) continue;
        if (w->type.bits == common.bits && w->type.group == common.group) continue;
        departure = slc_matrix_is_affine(&w->type)
                        ? json_pack("{si, si}", "group_size", w->type.group, "bits", w->type.bits)
                        : json_false();
        if (json_object_set_new(block, w->module, departure)) {
            json_decref(block);
            return NULL;
        }
    }
    return block;
}

static slc_status put_config(const slc_synth_job *job, const slc_synth_folder *folder,
                             slc_err *err) {
    json_t *block = quantization(job->plan);

    if (json_object_set(job->config, "quantization", block) ||
        json_object_set(job->config, "quantization_config", block)) {
        json_decref(block);
        return slc_fail(err, SLC_E_NOMEM, "%s: no memory for config.json", job->out);
    }
    json_decref(block);
    return slc_synth_put_json(folder, "config.json", json_incref(job->config), err);
}

/* ---- the folder ---- */

static slc_status look(const slc_synth_job *job, const slc_synth_folder *folder,
                       slc_synth_result *result, slc_err *err) {
    slc_checkpoint *c;
    slc_status rc = slc_checkpoint_open(folder->partial, NULL, &c, err);

    if (rc) return rc;
    if (job->measure_routing)
        rc = slc_synth_measure_routing(c, 0, job->opt->seed, &result->routing, err);
    slc_checkpoint_close(c);
    return rc;
}

static slc_status fill_folder(const slc_synth_job *job, slc_synth_folder *folder,
                              slc_synth_result *result, slc_err *err) {
    uint64_t start = slc_now_ns();
    slc_status rc;

    if ((rc = put_config(job, folder, err))) return rc;
    if (job->put_files && (rc = job->put_files(job->ctx, folder, err))) return rc;
    if ((rc = slc_synth_write_shards(folder, job->plan, job->fill, job->ctx, job->opt,
                                     &result->n_files, err)))
        return rc;
    result->write_ns = slc_now_ns() - start;
    if ((rc = look(job, folder, result, err))) return rc;
    return slc_synth_folder_finish(folder, err);
}

slc_status slc_synth_checkpoint(const slc_synth_job *job, slc_synth_result *result, slc_err *err) {
    slc_synth_folder folder;
    slc_status rc;

    *result = (slc_synth_result){.bytes = slc_synth_plan_bytes(job->plan)};
    if ((rc = slc_synth_folder_open(&folder, job->out, result->bytes + SIDE_BYTES, err))) return rc;
    rc = fill_folder(job, &folder, result, err);
    slc_synth_folder_close(&folder);
    return rc;
}
