/* Rates are formed here, from the library's plain counters. */
#include "cli/report.h"

#include <stdio.h>

static double per_second(uint64_t n, uint64_t ns) {
    return ns ? (double)n * 1e9 / (double)ns : 0;
}

static double hit_rate(const slc_stats *s) {
    uint64_t n = s->hits + s->misses;

    return n ? (double)s->hits / (double)n : 0;
}

static const char *const sources[SLC_N_PREDICTIONS] = {"previous", "next", "ahead2", "prompt",
                                                       "hot"};

static json_t *prediction_json(const slc_prediction_stats *p) {
    return json_pack("{sI, sI, sI, sI, sI, sI, sI, sI, sI, sb}", //
                     "asked", (json_int_t)p->asked,              //
                     "present", (json_int_t)p->present,          //
                     "read", (json_int_t)p->read,                //
                     "used", (json_int_t)p->used,                //
                     "late", (json_int_t)p->late,                //
                     "wasted", (json_int_t)p->wasted,            //
                     "bytes_read", (json_int_t)p->bytes_read,    //
                     "wanted", (json_int_t)p->wanted,            //
                     "foreseen", (json_int_t)p->foreseen,        //
                     "off", p->off);
}

static json_t *predictions_json(const slc_stats *s) {
    json_t *all = json_object();

    for (int i = 0; i < SLC_N_PREDICTIONS; i++)
        if (json_object_set_new(all, sources[i], prediction_json(&s->predict[i]))) {
            json_decref(all);
            return NULL;
        }
    return all;
}

json_t *slc_report_json(const slc_stats *s) {
    return json_pack("{so, sI, sf, sf, sI, sf, sf, sI, sI, sI, sf, sI, sI, sf, sf, sI}", //
                     "predict", predictions_json(s),                                     //
                     "prefill_tokens", (json_int_t)s->prefill_tokens,                    //
                     "prefill_s", (double)s->prefill_ns / 1e9,                           //
                     "prefill_tokens_per_s", per_second(s->prefill_tokens, s->prefill_ns),
                     "decode_tokens", (json_int_t)s->decode_tokens,                     //
                     "decode_s", (double)s->decode_ns / 1e9,                            //
                     "decode_tokens_per_s", per_second(s->decode_tokens, s->decode_ns), //
                     "hits", (json_int_t)s->hits,                                       //
                     "misses", (json_int_t)s->misses,                                   //
                     "late", (json_int_t)s->late,                                       //
                     "hit_rate", hit_rate(s),                                           //
                     "reads", (json_int_t)s->reads,                                     //
                     "bytes_read", (json_int_t)s->bytes_read,                           //
                     "read_bytes_per_s", per_second(s->timed_bytes, s->timed_ns),       //
                     "stall_s", (double)s->stall_ns / 1e9,                              //
                     "peak_rss_bytes", (json_int_t)s->peak_rss_bytes);
}

json_t *slc_report_settings(const slc_model_info *i) {
    return json_pack("{sI, ss, ss, sI, sI, sI, sI, sI, sI}",          //
                     "threads", (json_int_t)i->threads,               //
                     "cpu_level", i->cpu_level,                       //
                     "io", i->io,                                     //
                     "ctx_size", (json_int_t)i->ctx_size,             //
                     "prefill_chunk", (json_int_t)i->prefill_chunk,   //
                     "budget_bytes", (json_int_t)i->budget_bytes,     //
                     "resident_bytes", (json_int_t)i->resident_bytes, //
                     "slab_bytes", (json_int_t)i->slab_bytes,         //
                     "n_slots", (json_int_t)i->n_slots);
}

static void print_prediction(const char *source, const slc_prediction_stats *p) {
    char size[24];

    if (!p->asked) return;
    fprintf(stderr, "  %-9s", source);
    if (p->wanted) fprintf(stderr, "%.0f %% foreseen, ", 100.0 * p->foreseen / p->wanted);
    fprintf(stderr,
            "%llu guesses, %llu there already, %llu read: %llu used, %llu late, %llu wasted "
            "(%s)%s\n",
            (unsigned long long)p->asked, (unsigned long long)p->present,
            (unsigned long long)p->read, (unsigned long long)p->used, (unsigned long long)p->late,
            (unsigned long long)p->wasted, slc_console_bytes(p->bytes_read, size),
            p->off ? ", off: did not pay" : "");
}

void slc_report_print(slc_console *con, const slc_stats *s) {
    char read[24], peak[24];
    double busy_s = (double)(s->prefill_ns + s->decode_ns) / 1e9;

    slc_console_progress_end(con);
    fprintf(stderr,
            "prompt   %llu tokens, %.2f s, %.1f tokens/s\n"
            "decode   %llu tokens, %.2f s, %.1f tokens/s\n"
            "experts  %llu hits, %llu misses (%.1f %% hits), %llu of them on their way\n"
            "disk     %s in %llu reads, %.1f MB/s, %.2f s waiting (%.1f %% of the time)\n"
            "memory   %s at most\n",
            (unsigned long long)s->prefill_tokens, (double)s->prefill_ns / 1e9,
            per_second(s->prefill_tokens, s->prefill_ns), (unsigned long long)s->decode_tokens,
            (double)s->decode_ns / 1e9, per_second(s->decode_tokens, s->decode_ns),
            (unsigned long long)s->hits, (unsigned long long)s->misses, 100 * hit_rate(s),
            (unsigned long long)s->late, slc_console_bytes(s->bytes_read, read),
            (unsigned long long)s->reads, per_second(s->timed_bytes, s->timed_ns) / 1e6,
            (double)s->stall_ns / 1e9, busy_s > 0 ? (double)s->stall_ns / 1e7 / busy_s : 0,
            slc_console_bytes(s->peak_rss_bytes, peak));
    for (int i = 0; i < SLC_N_PREDICTIONS; i++) print_prediction(sources[i], &s->predict[i]);
}
