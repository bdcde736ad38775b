/* Time this thread has computed, in nanoseconds: unlike a clock, it does not count the others. */
#ifndef SLC_TESTS_CPU_TIME_H
#define SLC_TESTS_CPU_TIME_H

#include <stdint.h>
#include <time.h>

static inline uint64_t cpu_ns(void) {
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
