/* Writing a trace: one line a fetch, numbers only, through stdio's buffer. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "stream/trace.h"

struct slc_trace_writer {
    FILE *file;
    char *path;
    int sys_errno; /* of the first failure */
};

slc_status slc_trace_writer_open(const char *path, const slc_checkpoint *c, slc_trace_writer **out,
                                 slc_err *err) {
    slc_trace_writer *w = slc_calloc(1, sizeof(*w));

    *out = NULL;
    if (!w || !(w->path = strdup(path))) {
        free(w);
        return slc_fail(err, SLC_E_NOMEM, "%s: no memory to write a trace", path);
    }
    if (!(w->file = fopen(path, "we"))) {
        slc_fail_errno(err, errno, "%s: cannot create the trace", path);
        free(w->path);
        free(w);
        return SLC_E_IO;
    }
    fprintf(w->file, "sluice-trace 1 %u %u %u\n", c->cfg.n_layers, c->cfg.n_experts,
            c->cfg.n_experts_per_tok);
    *out = w;
    return SLC_OK;
}

static void write_use(FILE *f, const slc_fetch_event *e, uint32_t i) {
    static const char outcome[] = {[SLC_OUT_HIT] = 'h', [SLC_OUT_LATE] = 'l', [SLC_OUT_MISS] = 'm'};

    fprintf(f, " %u%c", e->experts[i], outcome[e->outcomes[i]]);
    if (e->scores && e->scores[i] >= 0 && e->scores[i] <= 1) {
        fprintf(f, "%ld", lrint((double)e->scores[i] * 1e6));
    }
}

void slc_trace_write(void *writer, const slc_fetch_event *e) {
    slc_trace_writer *w = writer;

    errno = 0;
    fprintf(w->file, "%" PRIu64 " %u %u %c %" PRIu64, e->pass, e->n_tokens, e->layer,
            e->decode ? 'd' : 'p', e->expert_bytes);
    for (uint32_t i = 0; i < e->n; i++) write_use(w->file, e, i);
    putc('\n', w->file);
    if (ferror(w->file) && !w->sys_errno) w->sys_errno = errno ? errno : EIO;
}

slc_status slc_trace_writer_close(slc_trace_writer *w, slc_err *err) {
    slc_status rc = SLC_OK;

    if (!w) return SLC_OK;
    if (w->file && fclose(w->file) && !w->sys_errno) w->sys_errno = errno;
    if (w->sys_errno) {
        rc = slc_fail_errno(err, w->sys_errno, "%s: the trace is not complete: cannot write",
                            w->path);
    }
    free(w->path);
    free(w);
    return rc;
}
