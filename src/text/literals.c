/* Literal search in a sorted list.
 *
 * At a position whose byte begins some text, the range of texts that agree with the input so far is
 * narrowed byte by byte, two binary searches each. A text that is used up stands first in its range
 * and is the longest match until a longer one turns up. */
#include "text/literals.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

static int by_text(const void *x, const void *y) {
    const slc_literal *a = x, *b = y;
    int order = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);

    return order ? order : (a->len > b->len) - (a->len < b->len);
}

slc_status slc_literals_init(slc_literals *s, slc_literal *list, uint32_t n, slc_err *err) {
    *s = (slc_literals){.list = list, .n = n};
    if (n) qsort(list, n, sizeof(*list), by_text);
    for (uint32_t i = 0; i < n; i++) {
        s->begins[(uint8_t)list[i].text[0]] = true;
        if (i && by_text(&list[i - 1], &list[i]) == 0)
            return slc_fail(err, SLC_E_FORMAT, "added token \"%.*s\" is given twice",
                            list[i].len < 100 ? (int)list[i].len : 100, list[i].text);
    }
    return SLC_OK;
}

void slc_literals_deinit(slc_literals *s) {
    free(s->list);
    *s = (slc_literals){0};
}

/* The first index in [lo, hi) whose byte at `k` is `byte` or more; all texts there are longer. */
static uint32_t lower_bound(const slc_literals *s, uint32_t lo, uint32_t hi, size_t k,
                            unsigned byte) {
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if ((uint8_t)s->list[mid].text[k] < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static const slc_literal *longest_at(const slc_literals *s, const char *p, size_t left) {
    const slc_literal *best = NULL;
    uint32_t lo = 0, hi = s->n;

    for (size_t k = 0; lo < hi; k++) {
        unsigned byte;

        if (s->list[lo].len == k) best = &s->list[lo++];
        if (k == left) break;
        byte = (uint8_t)p[k];
        lo = lower_bound(s, lo, hi, k, byte);
        hi = lower_bound(s, lo, hi, k, byte + 1);
    }
    return best;
}

const char *slc_literals_find(const slc_literals *s, const char *p, const char *end,
                              const slc_literal **found) {
    *found = NULL;
    if (!s->n) return end;
    for (; p < end; p++)
        if (s->begins[(uint8_t)*p] && (*found = longest_at(s, p, (size_t)(end - p)))) return p;
    return end;
}

const slc_literal *slc_literals_get(const slc_literals *s, const char *text, size_t n) {
    const slc_literal *found = longest_at(s, text, n);

    return found && found->len == n ? found : NULL;
}
