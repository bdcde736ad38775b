/* The 16 virtual lanes of a float sum (kernels/table.h), scalar. */
#ifndef SLC_KERNELS_REF_LANES_H
#define SLC_KERNELS_REF_LANES_H

#include <math.h>
#include <stdint.h>

/* The fixed tree. Destroys lane[]. */
static inline float lanes_total(float lane[16]) {
    for (uint32_t width = 8; width > 0; width /= 2) {
        for (uint32_t i = 0; i < width; i++) lane[i] += lane[i + width];
    }
    return lane[0];
}

static inline float lanes_dot(const float *a, const float *b, uint32_t n) {
    float lane[16] = {0};

    for (uint32_t j = 0; j < n; j++) lane[j % 16] = fmaf(a[j], b[j], lane[j % 16]);
    return lanes_total(lane);
}

static inline float lanes_sum(const float *x, uint32_t n) {
    float lane[16] = {0};

    for (uint32_t j = 0; j < n; j++) lane[j % 16] += x[j];
    return lanes_total(lane);
}

#endif
