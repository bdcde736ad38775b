/* Reference: softmax attention of one query head, online over fixed blocks of positions. The cache
 * type is a parameter; the two entry points fix it. */
#include <math.h>

#include "kernels/ref/lanes.h"
#include "kernels/ref/ref.h"
#include "kernels/scalar_math.h"

static float score(const float *q, slc_dtype type, const void *k, size_t at, uint32_t hd,
                   float scale) {
    float lane[16] = {0};

    for (uint32_t d = 0; d < hd; d++) {
        lane[d % 16] = fmaf(q[d], slc_load_f32(type, k, at + d), lane[d % 16]);
    }
    return scale * lanes_total(lane);
}

static void attend(float *o, const float *q, slc_dtype type, const void *k, const void *v,
                   uint32_t n_pos, uint32_t hd, float scale) {
    float m = -INFINITY, l = 0, p[SLC_KV_BLOCK];

    for (uint32_t d = 0; d < hd; d++) o[d] = 0;
    for (uint32_t pos = 0; pos < n_pos; pos += SLC_KV_BLOCK) {
        uint32_t n = n_pos - pos < SLC_KV_BLOCK ? n_pos - pos : SLC_KV_BLOCK;
        float max = m;

        for (uint32_t t = 0; t < n; t++) {
            p[t] = score(q, type, k, (size_t)(pos + t) * hd, hd, scale);
            max = p[t] > max ? p[t] : max;
        }
        for (uint32_t t = 0; t < n; t++) p[t] = slc_expf(p[t] - max);

        float c = pos == 0 ? 0 : slc_expf(m - max);

        m = max;
        l = fmaf(l, c, lanes_sum(p, n));
        for (uint32_t d = 0; d < hd; d++) {
            float sum = o[d] * c;

            for (uint32_t t = 0; t < n; t++) {
                sum = fmaf(p[t], slc_load_f32(type, v, (size_t)(pos + t) * hd + d), sum);
            }
            o[d] = sum;
        }
    }
    for (uint32_t d = 0; d < hd; d++) o[d] = o[d] / l;
}

void slc_attend_f16_ref(float *o, const float *q, const uint16_t *k, const uint16_t *v,
                        uint32_t n_pos, uint32_t hd, float scale) {
    attend(o, q, SLC_DTYPE_F16, k, v, n_pos, hd, scale);
}

void slc_attend_f32_ref(float *o, const float *q, const float *k, const float *v, uint32_t n_pos,
                        uint32_t hd, float scale) {
    attend(o, q, SLC_DTYPE_F32, k, v, n_pos, hd, scale);
}
