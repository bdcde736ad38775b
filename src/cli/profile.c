/* The first run's stages give the rows; other runs add to the rows of the same name. */
#include "cli/profile.h"

json_t *slc_profile_json(const slc_model *m) {
    slc_stage_stats stages[SLC_MAX_STAGES];
    uint32_t n = slc_model_get_stages(m, stages);
    json_t *all = json_array();

    for (uint32_t i = 0; i < n; i++) {
        const slc_stage_stats *s = &stages[i];
        json_t *one = json_pack("{ss, ss, sI, sI, sI, sI}",                    //
                                "block", s->block, "name", s->name,            //
                                "prefill_ns", (json_int_t)s->prefill_ns,       //
                                "decode_ns", (json_int_t)s->decode_ns,         //
                                "prefill_bytes", (json_int_t)s->prefill_bytes, //
                                "decode_bytes", (json_int_t)s->decode_bytes);

        if (json_array_append_new(all, one)) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

static bool same(const json_t *a, const json_t *b, const char *key) {
    return json_equal(json_object_get(a, key), json_object_get(b, key));
}

/* A number of one stage in all runs together; of all stages where row is NULL. */
static double total(json_t *const *stages, uint32_t n, const json_t *row, const char *key) {
    double sum = 0;

    for (uint32_t r = 0; r < n; r++) {
        size_t i;
        json_t *stage;

        json_array_foreach(stages[r], i, stage) {
            if (!row || (same(stage, row, "block") && same(stage, row, "name")))
                sum += json_number_value(json_object_get(stage, key));
        }
    }
    return sum;
}

static double tokens(json_t *const *stats, uint32_t n, const char *key) {
    double sum = 0;

    for (uint32_t r = 0; r < n; r++) sum += json_number_value(json_object_get(stats[r], key));
    return sum;
}

static void print_row(FILE *out, json_t *const *stages, uint32_t n, const json_t *row,
                      double prompt, double made) {
    double prefill_ns = total(stages, n, row, "prefill_ns");
    double decode_ns = total(stages, n, row, "decode_ns");
    double all_prefill_ns = total(stages, n, NULL, "prefill_ns");
    double all_decode_ns = total(stages, n, NULL, "decode_ns");
    double bytes = total(stages, n, row, "decode_bytes");

    fprintf(out, " %.3f | %.1f %% |", prompt > 0 ? prefill_ns / prompt / 1e6 : 0,
            all_prefill_ns > 0 ? 100 * prefill_ns / all_prefill_ns : 0);
    fprintf(out, " %.3f | %.1f %% |", made > 0 ? decode_ns / made / 1e6 : 0,
            all_decode_ns > 0 ? 100 * decode_ns / all_decode_ns : 0);
    if (bytes > 0)
        fprintf(out, " %.2f | %.1f |\n", made > 0 ? bytes / made / 1e6 : 0, bytes / decode_ns);
    else
        fputs(" | |\n", out);
}

void slc_profile_print(FILE *out, json_t *const *stages, json_t *const *stats, uint32_t n) {
    double prompt = tokens(stats, n, "prefill_tokens"), made = tokens(stats, n, "decode_tokens");
    size_t i;
    json_t *stage;

    fputs("| stage | prompt ms/token | share | decode ms/token | share | MB/token | GB/s |\n"
          "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
          out);
    json_array_foreach(stages[0], i, stage) {
        const char *block = json_string_value(json_object_get(stage, "block"));

        fprintf(out, "| %s%s%s |", block, *block ? ": " : "",
                json_string_value(json_object_get(stage, "name")));
        print_row(out, stages, n, stage, prompt, made);
    }
    fputs("| all |", out);
    print_row(out, stages, n, NULL, prompt, made);
}
