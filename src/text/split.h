/* The pre-tokenizer's split: text to pieces, by the regular expression of tokenizer.json.
 *
 * The matches of the expression are pieces, and so is what lies between two matches. The two
 * expressions of the Qwen family are recognised and done by a scanner that takes linear time and no
 * stack; others run on PCRE2. Immutable after creation; any thread may run it. */
#ifndef SLC_TEXT_SPLIT_H
#define SLC_TEXT_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "sluice/status.h"

extern const char slc_split_qwen3_5[]; /* marks belong to words */
extern const char slc_split_qwen2[];   /* marks are like punctuation; Qwen2, Qwen3, Qwen3-Next */

typedef struct slc_splitter slc_splitter;

/* `regex` NULL: the whole text is one piece. With `no_scanner` PCRE2 runs known expressions too,
 * which is what the scanner is tested against. Expressions that PCRE2 does not take, or that can
 * match nothing at all, are SLC_E_UNSUPPORTED. */
slc_status slc_splitter_create(const char *regex, bool no_scanner, slc_splitter **out,
                               slc_err *err) SLC_MUST_CHECK;
void slc_splitter_destroy(slc_splitter *s);

/* Gets the pieces in order; none is empty. Anything but SLC_OK stops the run and is returned. */
typedef slc_status slc_piece_fn(void *user, const char *piece, size_t n, slc_err *err);

/* Splits n bytes of well-formed UTF-8. With PCRE2, a text on which the expression backtracks
 * without end is SLC_E_UNSUPPORTED (match limit). */
slc_status slc_splitter_run(const slc_splitter *s, const char *text, size_t n, slc_piece_fn *fn,
                            void *user, slc_err *err) SLC_MUST_CHECK;

/* The scanner: end of the piece that begins at p (p < end). */
const char *slc_qwen_piece_end(const char *p, const char *end, bool marks_are_letters);

#endif
