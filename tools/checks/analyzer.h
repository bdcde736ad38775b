/* What clang's analyzer cannot see across files, said in macros. Only tools/checks/tidy includes
 * this, in front of every source but those that define these functions.
 *
 * A failing function returns a failure; without that the analyzer follows paths on which it
 * returned SLC_OK. The checked sum is a sum, of which the analyzer's builtin knows nothing. */
#ifndef SLC_ANALYZER_H
#define SLC_ANALYZER_H

#include "base/alloc.h"
#include "base/fail.h"

#define slc_fail(err, code, ...) ((void)(slc_fail)(err, code, __VA_ARGS__), (code))
#define slc_fail_errno(...)      ((void)(slc_fail_errno)(__VA_ARGS__), SLC_E_IO)
#define slc_add(a, b, out)       (*(out) = (a) + (b), *(out) >= (a))

#endif
