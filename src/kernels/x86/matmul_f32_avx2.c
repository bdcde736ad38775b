/* Any weight encoding times f32 activations, AVX2; and the embedding row.
 *
 * Four rows go together. A chunk of each is converted to f32 in a 16 KiB scratch (or used in place
 * if it is f32 already), then every token of a tile is multiplied with it: 4 rows x 16 lanes are
 * eight accumulators, enough to hide the latency of the additions. Between chunks the lanes of the
 * whole tile wait in memory. The lanes of one (row, token) see the same operations in the same
 * order whatever the tile.
 *
 * One token's product with 8-bit weights and bf16 scales, which is the router's in published
 * checkpoints, needs no scratch: it is converted and multiplied in registers. */
#if defined(__x86_64__)

#include <stdbool.h>

#include "kernels/x86/avx2.h"
#include "kernels/x86/unpack_avx2.h"

enum {
    ROWS = 4,
    CHUNK = 1024, /* elements: a multiple of 16 and of every group */
    TILE = 16,    /* tokens */
};

SLC_ALWAYS_INLINE __m256 broadcast_as_f32(slc_dtype type, const uint8_t *p, uint64_t i) {
    uint16_t half;

    if (type == SLC_DTYPE_F32) {
        float x;

        memcpy(&x, p + i * sizeof(x), sizeof(x));
        return _mm256_set1_ps(x);
    }
    memcpy(&half, p + i * sizeof(half), sizeof(half));
    if (type == SLC_DTYPE_F16) return _mm256_cvtph_ps(_mm_set1_epi16((short)half));
    return _mm256_castsi256_ps(_mm256_set1_epi32((int)((uint32_t)half << 16)));
}

/* 32 codes, exactly. */
SLC_ALWAYS_INLINE void codes_as_f32(uint32_t bits, const uint8_t *p, __m256 out[4]) {
    if (bits == 8) {
        for (int i = 0; i < 4; i++) {
            out[i] = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_8_bytes(p + 8 * i)));
        }
        return;
    }

    codes32 c = unpack32(bits, p);
    __m128i part[4] = {_mm256_castsi256_si128(c.lo), _mm256_extracti128_si256(c.lo, 1),
                       _mm256_castsi256_si128(c.hi), _mm256_extracti128_si256(c.hi, 1)};

    for (int i = 0; i < 4; i++) out[i] = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(part[i]));
}

/* `n` affine elements of a row from element j, both multiples of the group. */
SLC_ALWAYS_INLINE void dequant_affine(uint32_t bits, const slc_matrix *w, uint32_t row, uint32_t j,
                                      uint32_t n, float *out) {
    const slc_matrix_type *t = &w->type;
    const uint8_t *codes =
        w->part[SLC_PART_W] + row * slc_matrix_row_bytes(t, SLC_PART_W) + (uint64_t)j * bits / 8;
    uint64_t g = (uint64_t)row * (t->cols / t->group) + j / t->group;

    for (uint32_t i = 0; i < n; i += t->group, g++) {
        __m256 scale = broadcast_as_f32(t->scale_dtype, w->part[SLC_PART_SCALES], g);
        __m256 bias = broadcast_as_f32(t->scale_dtype, w->part[SLC_PART_BIASES], g);

        for (uint32_t u = 0; u < t->group; u += 32, codes += 4 * bits, out += 32) {
            __m256 code[4];

            codes_as_f32(bits, codes, code);
            for (int p = 0; p < 4; p++) {
                _mm256_storeu_ps(out + 8 * p, _mm256_fmadd_ps(scale, code[p], bias));
            }
        }
    }
}

static void dequant_float(slc_dtype type, const uint8_t *p, uint32_t n, float *out) {
    for (uint32_t i = 0; i < n; i += 8) {
        const uint8_t *at = p + (size_t)i * slc_dtype_bytes(type);

        store_first(out + i, load_first_as_f32(type, at, n - i), n - i);
    }
}

/* Elements [j, j + n) of a row as f32. */
static void dequant(const slc_matrix *w, uint32_t row, uint32_t j, uint32_t n, float *out) {
    const slc_matrix_type *t = &w->type;
    const uint8_t *p = w->part[SLC_PART_W] + row * slc_matrix_row_bytes(t, SLC_PART_W);

    switch (t->bits) {
    case 2: dequant_affine(2, w, row, j, n, out); break;
    case 3: dequant_affine(3, w, row, j, n, out); break;
    case 4: dequant_affine(4, w, row, j, n, out); break;
    case 5: dequant_affine(5, w, row, j, n, out); break;
    case 6: dequant_affine(6, w, row, j, n, out); break;
    case 8: dequant_affine(8, w, row, j, n, out); break;
    default: dequant_float(t->dtype, p + (size_t)j * slc_dtype_bytes(t->dtype), n, out); break;
    }
}

void slc_dequant_row_avx2(const slc_matrix *w, uint32_t row, float *out) {
    dequant(w, row, 0, w->type.cols, out);
}

/* Adds n products of each row with x to the lanes of one token. `type` is a constant where this is
 * inlined. */
SLC_ALWAYS_INLINE void add_products(slc_dtype type, const uint8_t *const w[ROWS], const float *x,
                                    uint32_t n, lanes sum[ROWS]) {
    const uint32_t size = slc_dtype_bytes(type);
    lanes s[ROWS] = {sum[0], sum[1], sum[2], sum[3]};
    uint32_t j = 0;

    for (; j + 16 <= n; j += 16) {
        __m256 x_lo = _mm256_loadu_ps(x + j), x_hi = _mm256_loadu_ps(x + j + 8);

        for (int r = 0; r < ROWS; r++) {
            const uint8_t *p = w[r] + (size_t)j * size;

            s[r] = lanes_fma(s[r], load8_as_f32(type, p), load8_as_f32(type, p + 8 * size), x_lo,
                             x_hi);
        }
    }
    if (j < n) {
        uint32_t lo = n - j, hi = lo > 8 ? lo - 8 : 0;
        __m256 x_lo = load_first(x + j, lo), x_hi = load_first(x + j + 8, hi);

        for (int r = 0; r < ROWS; r++) {
            const uint8_t *p = w[r] + (size_t)j * size;

            s[r] = lanes_fma_first(s[r], load_first_as_f32(type, p, lo),
                                   load_first_as_f32(type, p + (hi ? 8 * size : 0), hi), x_lo, x_hi,
                                   lo);
        }
    }
    for (int r = 0; r < ROWS; r++) sum[r] = s[r];
}

static void add_products_as(slc_dtype type, const uint8_t *const w[ROWS], const float *x,
                            uint32_t n, lanes sum[ROWS]) {
    switch (type) {
    case SLC_DTYPE_F16: add_products(SLC_DTYPE_F16, w, x, n, sum); break;
    case SLC_DTYPE_BF16: add_products(SLC_DTYPE_BF16, w, x, n, sum); break;
    default: add_products(SLC_DTYPE_F32, w, x, n, sum); break;
    }
}

/* Points p at elements [j, j + n) of rows, in place or converted in `scratch`. Returns their type.
 */
static slc_dtype take_chunk(const slc_matrix *w, uint32_t row, uint32_t n_rows, uint32_t j,
                            uint32_t n, bool in_place, float scratch[ROWS][CHUNK],
                            const uint8_t *p[ROWS]) {
    const slc_matrix_type *t = &w->type;

    for (uint32_t r = 0; r < ROWS; r++) {
        uint32_t i = r < n_rows ? r : n_rows - 1;

        if (in_place) {
            p[r] = w->part[SLC_PART_W] + (row + i) * slc_matrix_row_bytes(t, SLC_PART_W) +
                   (size_t)j * slc_dtype_bytes(t->dtype);
        } else {
            if (i == r) dequant(w, row + i, j, n, scratch[i]);
            p[r] = (const uint8_t *)scratch[i];
        }
    }
    return in_place ? t->dtype : SLC_DTYPE_F32;
}

static void tile_rows(const slc_matrix *w, uint32_t row, uint32_t n_rows, const slc_acts *a,
                      uint32_t t, uint32_t n_tok, float *y, size_t ldy) {
    bool in_place =
        !slc_matrix_is_affine(&w->type) && (n_tok == 1 || w->type.dtype == SLC_DTYPE_F32);
    _Alignas(32) float scratch[ROWS][CHUNK];
    lanes sum[TILE][ROWS];

    for (uint32_t i = 0; i < n_tok; i++) {
        for (int r = 0; r < ROWS; r++) sum[i][r] = lanes_zero();
    }
    for (uint32_t j = 0; j < w->type.cols; j += CHUNK) {
        uint32_t n = w->type.cols - j < CHUNK ? w->type.cols - j : CHUNK;
        const uint8_t *p[ROWS];
        slc_dtype type = take_chunk(w, row, n_rows, j, n, in_place, scratch, p);

        for (uint32_t i = 0; i < n_tok; i++) {
            add_products_as(type, p, a->x + (t + i) * a->ldx + j, n, sum[i]);
        }
    }
    for (uint32_t i = 0; i < n_tok; i++) {
        for (uint32_t r = 0; r < n_rows; r++) y[(t + i) * ldy + row + r] = lanes_total(sum[i][r]);
    }
}

/* ---- affine, one token: converted in registers ---- */

SLC_ALWAYS_INLINE void rows_of_one(uint32_t bits, slc_dtype scale_dtype, const slc_matrix *w,
                                   uint32_t row, uint32_t n_rows, const float *x, float *y) {
    const uint32_t group = w->type.group, n_groups = w->type.cols / group;
    const size_t row_bytes = slc_matrix_row_bytes(&w->type, SLC_PART_W);
    const uint8_t *codes[ROWS];
    lanes sum[ROWS];

    for (uint32_t r = 0; r < ROWS; r++) {
        codes[r] = w->part[SLC_PART_W] + (row + (r < n_rows ? r : n_rows - 1)) * row_bytes;
        sum[r] = lanes_zero();
    }
    for (uint32_t g = 0; g < n_groups; g++) {
        __m256 scale[ROWS], bias[ROWS];

        for (uint32_t r = 0; r < ROWS; r++) {
            uint64_t at = (uint64_t)(row + (r < n_rows ? r : n_rows - 1)) * n_groups + g;

            scale[r] = broadcast_as_f32(scale_dtype, w->part[SLC_PART_SCALES], at);
            bias[r] = broadcast_as_f32(scale_dtype, w->part[SLC_PART_BIASES], at);
        }
        for (uint32_t u = 0; u < group; u += 32, x += 32) {
            for (uint32_t r = 0; r < ROWS; r++) {
                __m256 v[4];

                codes_as_f32(bits, codes[r], v);
                codes[r] += 4 * bits;
                for (int i = 0; i < 4; i++) v[i] = _mm256_fmadd_ps(scale[r], v[i], bias[r]);
                sum[r] = lanes_fma(sum[r], v[0], v[1], _mm256_loadu_ps(x), _mm256_loadu_ps(x + 8));
                sum[r] =
                    lanes_fma(sum[r], v[2], v[3], _mm256_loadu_ps(x + 16), _mm256_loadu_ps(x + 24));
            }
        }
    }
    for (uint32_t r = 0; r < n_rows; r++) y[r] = lanes_total(sum[r]);
}

/* Other kinds take the way of tiles. */
static void bf16_scaled_8_bits_of_one(const slc_matrix *w, uint32_t row0, uint32_t row1,
                                      const float *x, float *y) {
    for (uint32_t r = row0; r < row1; r += ROWS) {
        rows_of_one(8, SLC_DTYPE_BF16, w, r, row1 - r < ROWS ? row1 - r : ROWS, x, y + r);
    }
}

void slc_matmul_f32_avx2(const slc_matrix *w, uint32_t row0, uint32_t row1, const slc_acts *a,
                         float *y, size_t ldy) {
    if (a->n_tok == 1 && w->type.bits == 8 && w->type.scale_dtype == SLC_DTYPE_BF16) {
        bf16_scaled_8_bits_of_one(w, row0, row1, a->x, y);
        return;
    }
    for (uint32_t r = row0; r < row1; r += ROWS) {
        uint32_t n_rows = row1 - r < ROWS ? row1 - r : ROWS;

        for (uint32_t t = 0; t < a->n_tok; t += TILE) {
            uint32_t n_tok = a->n_tok - t < TILE ? a->n_tok - t : TILE;

            tile_rows(w, r, n_rows, a, t, n_tok, y, ldy);
        }
    }
}

#endif
