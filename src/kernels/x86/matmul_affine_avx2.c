/* Affine weights times int16 activations, AVX2.
 *
 * Eight rows go together, group after group. For one group of one row the codes are unpacked to
 * int16 and multiplied in pairs (pmaddwd, exact in int32), which leaves eight partial sums; a tree
 * over the eight rows turns them into one vector with rows in lanes. From there on it is the
 * arithmetic of kernels/table.h, a row in each lane:
 *
 *     term = fmaf(sw, (float)sum_wx, bw * (float)sum_x);  acc = fmaf(dx, term, acc)
 *
 * Scales and biases of 8 rows x 8 groups are converted and transposed at once.
 *
 * One token unpacks and multiplies in registers, 4-bit codes by a shorter way. Several tokens share
 * each unpacked group, kept as int16 in a scratch of at most 2 KiB. The sums are exact and the
 * float operations are the same, so both give the same bits. Where fewer than eight rows are left,
 * the last one fills the lanes. */
#if defined(__x86_64__)

#include "kernels/x86/avx2.h"
#include "kernels/x86/unpack_avx2.h"

enum {
    ROWS = 8,
    BLOCK = 8,       /* groups whose scales are prepared at once */
    TILE = 16,       /* tokens that share an unpacked group */
    MAX_GROUP = 128, /* elements */
    LINE = 64,
    AHEAD = 8, /* groups between prefetch and use */
};

/* ---- exact sums ---- */

/* Products of 32 unpacked codes with x, added to sum. */
SLC_ALWAYS_INLINE __m256i add_products(__m256i sum, codes32 c, const int16_t *x) {
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(c.lo, load_32_bytes(x)));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(c.hi, load_32_bytes(x + 16)));
}

/* One group of one row: eight partial sums. `unit` = group / 32. */
SLC_ALWAYS_INLINE __m256i group_products(uint32_t bits, uint32_t unit, const uint8_t *w,
                                         const int16_t *x) {
    __m256i sum = _mm256_setzero_si256();

    for (uint32_t u = 0; u < unit; u++) {
        codes32 c = bits == 4 ? nibbles32(w + u * 16) : unpack32(bits, w + u * 4 * bits);

        sum = add_products(sum, c, x + u * 32);
    }
    return bits == 4 ? nibble_sums(sum) : sum;
}

/* Halves the partial sums of two rows: a0+a2 a1+a3 b0+b2 b1+b3, in each half. */
SLC_ALWAYS_INLINE __m256i fold_pair(__m256i a, __m256i b) {
    __m256 outer = _mm256_blend_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0xcc);
    __m256 inner = _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x4e);

    return _mm256_add_epi32(_mm256_castps_si256(outer), _mm256_castps_si256(inner));
}

/* Of two folded pairs: a b c d, in each half. */
SLC_ALWAYS_INLINE __m256i fold_quad(__m256i ab, __m256i cd) {
    __m256 even = _mm256_shuffle_ps(_mm256_castsi256_ps(ab), _mm256_castsi256_ps(cd), 0x88);
    __m256 odd = _mm256_shuffle_ps(_mm256_castsi256_ps(ab), _mm256_castsi256_ps(cd), 0xdd);

    return _mm256_add_epi32(_mm256_castps_si256(even), _mm256_castps_si256(odd));
}

/* The sums of `unit` * 32 elements of eight rows, row r at w[r] + at in lane r. */
SLC_ALWAYS_INLINE __m256i row_sums_of(uint32_t bits, uint32_t unit, const uint8_t *const w[ROWS],
                                      size_t at, const int16_t *x) {
    __m256i quad[2];

    for (int i = 0; i < 2; i++) {
        const uint8_t *const *r = w + 4 * i;
        __m256i ab = fold_pair(group_products(bits, unit, r[0] + at, x),
                               group_products(bits, unit, r[1] + at, x));
        __m256i cd = fold_pair(group_products(bits, unit, r[2] + at, x),
                               group_products(bits, unit, r[3] + at, x));

        quad[i] = fold_quad(ab, cd);
    }
    return _mm256_add_epi32(_mm256_permute2x128_si256(quad[0], quad[1], 0x20),
                            _mm256_permute2x128_si256(quad[0], quad[1], 0x31));
}

/* The sums of a group. One of 128 is taken in halves, whose activations fit the registers. */
SLC_ALWAYS_INLINE __m256i row_sums(uint32_t bits, uint32_t unit, const uint8_t *const w[ROWS],
                                   size_t at, const int16_t *x) {
    if (unit < 4) return row_sums_of(bits, unit, w, at, x);

    __m256i half = row_sums_of(bits, 2, w, at, x);

    return _mm256_add_epi32(half, row_sums_of(bits, 2, w, at + 2 * 4 * bits, x + 2 * 32));
}

/* ---- eight rows ---- */

/* The rows in hand, and scales and biases of a block of their groups, rows in lanes. */
typedef struct rows8 {
    const uint8_t *codes[ROWS], *scales[ROWS], *biases[ROWS];
    size_t codes_row, scales_row; /* bytes */
    slc_dtype scale_dtype;
    uint32_t n_groups;
    __m256 sw[BLOCK], bw[BLOCK];
} rows8;

static void take_rows(rows8 *s, const slc_matrix *w, uint32_t row, uint32_t n_rows) {
    const slc_matrix_type *type = &w->type;

    s->codes_row = slc_matrix_row_bytes(type, SLC_PART_W);
    s->scales_row = slc_matrix_row_bytes(type, SLC_PART_SCALES);
    s->scale_dtype = type->scale_dtype;
    s->n_groups = type->cols / type->group;
    for (uint32_t r = 0; r < ROWS; r++) {
        uint64_t idx = row + (r < n_rows ? r : n_rows - 1);

        s->codes[r] = w->part[SLC_PART_W] + idx * s->codes_row;
        s->scales[r] = w->part[SLC_PART_SCALES] + idx * s->scales_row;
        s->biases[r] = w->part[SLC_PART_BIASES] + idx * s->scales_row;
    }
}

/* out[j] lane i = in[i] lane j */
SLC_ALWAYS_INLINE void transpose8(const __m256 in[8], __m256 out[8]) {
    __m256 a[8];

    for (int i = 0; i < 4; i++) { // rows i and i + 4 share a register, halves of 4 columns
        a[i] = _mm256_permute2f128_ps(in[i], in[i + 4], 0x20);
        a[i + 4] = _mm256_permute2f128_ps(in[i], in[i + 4], 0x31);
    }
    for (int i = 0; i < 8; i += 4) { // 4 x 4 in each half
        __m256 t0 = _mm256_unpacklo_ps(a[i], a[i + 1]), t1 = _mm256_unpackhi_ps(a[i], a[i + 1]);
        __m256 t2 = _mm256_unpacklo_ps(a[i + 2], a[i + 3]);
        __m256 t3 = _mm256_unpackhi_ps(a[i + 2], a[i + 3]);

        out[i] = _mm256_shuffle_ps(t0, t2, 0x44);
        out[i + 1] = _mm256_shuffle_ps(t0, t2, 0xee);
        out[i + 2] = _mm256_shuffle_ps(t1, t3, 0x44);
        out[i + 3] = _mm256_shuffle_ps(t1, t3, 0xee);
    }
}

/* Prepares scales and biases of groups [g, g + n), and asks for those of the next eight rows. */
static void take_scales(rows8 *s, uint32_t g, uint32_t n) {
    size_t at = (size_t)g * slc_dtype_bytes(s->scale_dtype);
    size_t next = at + ROWS * s->scales_row;
    __m256 sw[ROWS], bw[ROWS];

    for (int r = 0; r < ROWS; r++) {
        sw[r] = load_first_as_f32(s->scale_dtype, s->scales[r] + at, n);
        bw[r] = load_first_as_f32(s->scale_dtype, s->biases[r] + at, n);
        _mm_prefetch((const char *)s->scales[r] + next, _MM_HINT_T0);
        _mm_prefetch((const char *)s->biases[r] + next, _MM_HINT_T0);
    }
    transpose8(sw, s->sw);
    transpose8(bw, s->bw);
}

/* acc + group i of the block, given its sums. */
SLC_ALWAYS_INLINE __m256 add_group(__m256 acc, const rows8 *s, uint32_t i, __m256i sum_wx,
                                   const int32_t *sum_x, const float *dx) {
    __m256 x = _mm256_cvtepi32_ps(_mm256_set1_epi32(*sum_x));
    __m256 term = _mm256_mul_ps(s->bw[i], x);

    term = _mm256_fmadd_ps(s->sw[i], _mm256_cvtepi32_ps(sum_wx), term);
    return _mm256_fmadd_ps(_mm256_broadcast_ss(dx), term, acc);
}

/* ---- one token ---- */

/* Rows follow each other in memory: while group g of eight rows is computed, the same share of the
 * next eight is asked for, as one ascending stream. */
SLC_ALWAYS_INLINE void prefetch_next_rows(const rows8 *s, uint32_t g, size_t group_bytes) {
    const uint8_t *p = s->codes[0] + ROWS * s->codes_row + g * ROWS * group_bytes;

    for (size_t i = 0; i < ROWS * group_bytes; i += LINE) {
        _mm_prefetch((const char *)p + i, _MM_HINT_T1);
    }
}

SLC_ALWAYS_INLINE void one_token(uint32_t bits, uint32_t unit, const slc_matrix *w, uint32_t row0,
                                 uint32_t row1, const slc_acts *a, float *y) {
    const uint32_t group = unit * 32, group_bytes = unit * 4 * bits;
    rows8 s;

    for (uint32_t row = row0; row < row1; row += ROWS) {
        __m256 acc = _mm256_setzero_ps();

        take_rows(&s, w, row, row1 - row < ROWS ? row1 - row : ROWS);
        for (uint32_t g = 0; g < s.n_groups; g++) {
            const int16_t *x = a->q + (size_t)g * group;
            _Alignas(32) int16_t swapped[MAX_GROUP];

            if (g % BLOCK == 0) {
                take_scales(&s, g, s.n_groups - g < BLOCK ? s.n_groups - g : BLOCK);
            }
            if (bits == 4) {
                nibble_order(x, group, swapped);
                x = swapped;
            }
            if (row1 - row > ROWS) prefetch_next_rows(&s, g, group_bytes);

            __m256i sums = row_sums(bits, unit, s.codes, (size_t)g * group_bytes, x);

            acc = add_group(acc, &s, g % BLOCK, sums, a->sum + g, a->scale + g);
        }
        store_first(y + row, acc, row1 - row);
    }
}

/* ---- several tokens ---- */

/* Unpacks a group of each row. */
SLC_ALWAYS_INLINE void unpack_rows(uint32_t bits, uint32_t unit, const uint8_t *const w[ROWS],
                                   size_t at, int16_t codes[ROWS][MAX_GROUP]) {
    for (int r = 0; r < ROWS; r++) {
        for (uint32_t u = 0; u < unit; u++) {
            codes32 c = unpack32(bits, w[r] + at + u * 4 * bits);

            _mm256_store_si256((__m256i *)(codes[r] + u * 32), c.lo);
            _mm256_store_si256((__m256i *)(codes[r] + u * 32 + 16), c.hi);
        }
    }
}

/* Adds group g to the sums of n_tok tokens, from token t. */
SLC_ALWAYS_INLINE void add_group_of_tokens(uint32_t unit, const rows8 *s, uint32_t g,
                                           int16_t codes[ROWS][MAX_GROUP], const slc_acts *a,
                                           uint32_t t, uint32_t n_tok, __m256 acc[TILE]) {
    const uint8_t *rows[ROWS];
    const int16_t *x = a->q + (size_t)t * a->k + (size_t)g * unit * 32;
    const int32_t *sum_x = a->sum + (size_t)t * s->n_groups + g;
    const float *dx = a->scale + (size_t)t * s->n_groups + g;

    for (int r = 0; r < ROWS; r++) rows[r] = (const uint8_t *)codes[r];
    for (uint32_t i = 0; i < n_tok; i++) {
        acc[i] = add_group(acc[i], s, g % BLOCK, row_sums(16, unit, rows, 0, x), sum_x, dx);
        x += a->k;
        sum_x += s->n_groups;
        dx += s->n_groups;
    }
}

/* One function for each group size: inlined side by side, they grow out of all proportion. */
typedef void group_fn(const rows8 *s, uint32_t g, int16_t codes[ROWS][MAX_GROUP], const slc_acts *a,
                      uint32_t t, uint32_t n_tok, __m256 acc[TILE]);

#define DEFINE_GROUP(unit)                                                                         \
    static __attribute__((noinline)) void add_group##unit(                                         \
        const rows8 *s, uint32_t g, int16_t codes[ROWS][MAX_GROUP], const slc_acts *a, uint32_t t, \
        uint32_t n_tok, __m256 acc[TILE]) {                                                        \
        add_group_of_tokens(unit, s, g, codes, a, t, n_tok, acc);                                  \
    }

DEFINE_GROUP(1)
DEFINE_GROUP(2)
DEFINE_GROUP(4)

SLC_ALWAYS_INLINE void tile(uint32_t bits, rows8 *s, const slc_acts *a, uint32_t t, uint32_t n_tok,
                            __m256 acc[TILE]) {
    const uint32_t unit = a->group / 32;
    group_fn *add = unit == 1 ? add_group1 : unit == 2 ? add_group2 : add_group4;
    _Alignas(32) int16_t codes[ROWS][MAX_GROUP];

    for (uint32_t i = 0; i < n_tok; i++) acc[i] = _mm256_setzero_ps();
    for (uint32_t g = 0; g < s->n_groups; g++) {
        if (g % BLOCK == 0) {
            take_scales(s, g, s->n_groups - g < BLOCK ? s->n_groups - g : BLOCK);
        }
        unpack_rows(bits, unit, s->codes, (size_t)g * unit * 4 * bits, codes);
        add(s, g, codes, a, t, n_tok, acc);
    }
}

SLC_ALWAYS_INLINE void many_tokens(uint32_t bits, const slc_matrix *w, uint32_t row0, uint32_t row1,
                                   const slc_acts *a, float *y, size_t ldy) {
    rows8 s;

    for (uint32_t row = row0; row < row1; row += ROWS) {
        take_rows(&s, w, row, row1 - row < ROWS ? row1 - row : ROWS);
        for (uint32_t t = 0; t < a->n_tok; t += TILE) {
            uint32_t n_tok = a->n_tok - t < TILE ? a->n_tok - t : TILE;
            __m256 acc[TILE];

            tile(bits, &s, a, t, n_tok, acc);
            for (uint32_t i = 0; i < n_tok; i++) {
                store_first(y + (t + i) * ldy + row, acc[i], row1 - row);
            }
        }
    }
}

#define DEFINE_MATMUL(bits)                                                                        \
    void slc_matmul_affine##bits##_avx2(const slc_matrix *w, uint32_t row0, uint32_t row1,         \
                                        const slc_acts *a, float *y, size_t ldy) {                 \
        if (a->n_tok > 1)                                                                          \
            many_tokens(bits, w, row0, row1, a, y, ldy);                                           \
        else if (a->n_tok == 0)                                                                    \
            return;                                                                                \
        else if (w->type.group == 32)                                                              \
            one_token(bits, 1, w, row0, row1, a, y);                                               \
        else if (w->type.group == 64)                                                              \
            one_token(bits, 2, w, row0, row1, a, y);                                               \
        else                                                                                       \
            one_token(bits, 4, w, row0, row1, a, y);                                               \
    }

DEFINE_MATMUL(2)
DEFINE_MATMUL(3)
DEFINE_MATMUL(4)
DEFINE_MATMUL(5)
DEFINE_MATMUL(6)
DEFINE_MATMUL(8)

#endif
