/* Reference: the Gated DeltaNet recurrence, as kernels/table.h writes it. */
#include <math.h>

#include "kernels/ref/lanes.h"
#include "kernels/ref/ref.h"

void slc_gdn_ref(float *S, uint32_t n_rows, uint32_t dk, uint32_t n_tok, const float *q,
                 const float *k, size_t ld_qk, const float *v, size_t ld_v, const float *g,
                 const float *beta, size_t ld_g, float *o, size_t ld_o) {
    for (uint32_t t = 0; t < n_tok; t++) {
        const float *kt = k + t * ld_qk, *qt = q + t * ld_qk;

        for (uint32_t i = 0; i < n_rows; i++) {
            float *s = S + (size_t)i * dk;

            for (uint32_t j = 0; j < dk; j++) s[j] = g[t * ld_g] * s[j];

            float d = beta[t * ld_g] * (v[t * ld_v + i] - lanes_dot(s, kt, dk));

            for (uint32_t j = 0; j < dk; j++) s[j] = fmaf(d, kt[j], s[j]);
            o[t * ld_o + i] = lanes_dot(s, qt, dk);
        }
    }
}
