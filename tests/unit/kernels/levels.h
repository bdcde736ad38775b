/* Runs a test body once for every CPU level this machine has. */
#ifndef SLC_TESTS_UNIT_KERNELS_LEVELS_H
#define SLC_TESTS_UNIT_KERNELS_LEVELS_H

#include <stdbool.h>

#include "kernels/table.h"

#define FOR_EACH_LEVEL(k)                                                                          \
    for (struct {                                                                                  \
             int level;                                                                            \
             slc_kernels table;                                                                    \
         } it = {0};                                                                               \
         it.level <= (int)slc_cpu_level_best() &&                                                  \
         (slc_kernels_init(&it.table, (slc_cpu_level)it.level), (k) = &it.table, 1);               \
         it.level++)

#endif
