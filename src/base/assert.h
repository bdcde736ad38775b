/* Programmer errors only: never reachable from input. Stays on in release builds. */
#ifndef SLC_BASE_ASSERT_H
#define SLC_BASE_ASSERT_H

#include <stdio.h>
#include <stdlib.h>

#define slc_assert(cond)                                                                           \
    ((cond)                                                                                        \
         ? (void)0                                                                                 \
         : (fprintf(stderr, "%s:%d: assertion failed: %s\n", __FILE__, __LINE__, #cond), abort()))

#endif
