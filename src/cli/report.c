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

json_t *slc_report_json(const slc_stats *s) {
    return json_pack("{sI, sf, sf, sI, sf, sf, sI, sI, sf, sI, sI, sf, sI}", //
                     "prefill_tokens", (json_int_t)s->prefill_tokens,        //
                     "prefill_s", (double)s->prefill_ns / 1e9,               //
                     "prefill_tokens_per_s", per_second(s->prefill_tokens, s->prefill_ns),
                     "decode_tokens", (json_int_t)s->decode_tokens,                     //
                     "decode_s", (double)s->decode_ns / 1e9,                            //
                     "decode_tokens_per_s", per_second(s->decode_tokens, s->decode_ns), //
                     "hits", (json_int_t)s->hits,                                       //
                     "misses", (json_int_t)s->misses,                                   //
                     "hit_rate", hit_rate(s),                                           //
                     "reads", (json_int_t)s->reads,                                     //
                     "bytes_read", (json_int_t)s->bytes_read,                           //
                     "stall_s", (double)s->stall_ns / 1e9,                              //
                     "peak_rss_bytes", (json_int_t)s->peak_rss_bytes);
}

void slc_report_print(slc_console *con, const slc_stats *s) {
    char read[24], peak[24];
    double busy_s = (double)(s->prefill_ns + s->decode_ns) / 1e9;

    slc_console_progress_end(con);
    fprintf(stderr,
            "prompt   %llu tokens, %.2f s, %.1f tokens/s\n"
            "decode   %llu tokens, %.2f s, %.1f tokens/s\n"
            "experts  %llu hits, %llu misses (%.1f %% hits)\n"
            "disk     %s in %llu reads, %.2f s waiting (%.1f %% of the time)\n"
            "memory   %s at most\n",
            (unsigned long long)s->prefill_tokens, (double)s->prefill_ns / 1e9,
            per_second(s->prefill_tokens, s->prefill_ns), (unsigned long long)s->decode_tokens,
            (double)s->decode_ns / 1e9, per_second(s->decode_tokens, s->decode_ns),
            (unsigned long long)s->hits, (unsigned long long)s->misses, 100 * hit_rate(s),
            slc_console_bytes(s->bytes_read, read), (unsigned long long)s->reads,
            (double)s->stall_ns / 1e9, busy_s > 0 ? (double)s->stall_ns / 1e7 / busy_s : 0,
            slc_console_bytes(s->peak_rss_bytes, peak));
}
