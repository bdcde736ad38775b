/* Affine weights times the int16 activations of one token, AVX2.
 *
 * Eight rows go together, group after group. For one group of one row the codes are unpacked to
 * int16 and multiplied in pairs (pmaddwd, exact in int32), which leaves eight partial sums; a tree
 * over the eight rows turns them into one vector with rows in lanes. From there on it is the
 * arithmetic of kernels/table.h, a row in each lane:
 *
 *     term = fmaf(sw, (float)sum_wx, bw * (float)sum_x);  acc = fmaf(dx, term, acc)
 *
 * 4-bit codes go a shorter way of their own to the same sums. */
#if defined(__x86_64__)

#include "kernels/x86/affine_avx2.h"
#include "kernels/x86/avx2.h"

enum {
    ROWS = 8,
    NIBBLES = 64,  /* 4-bit codes of a 32-byte load */
    SPREAD = 4096, /* activations put in nibble order at once */
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
        sum = add_products(sum, unpack32(bits, w + u * 4 * bits), x + u * 32);
    }
    return sum;
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

/* Of two folded quads: the sums of the lower halves in .lo, of the upper ones in .hi, rows in
 * lanes.
 */
typedef struct halves {
    __m256i lo, hi;
} halves;

SLC_ALWAYS_INLINE halves fold_halves(__m256i abcd, __m256i efgh) {
    return (halves){_mm256_permute2x128_si256(abcd, efgh, 0x20),
                    _mm256_permute2x128_si256(abcd, efgh, 0x31)};
}

/* The sums of `unit` * 32 elements of eight rows, row r at w + r * row in lane r. */
SLC_ALWAYS_INLINE __m256i row_sums_of(uint32_t bits, uint32_t unit, const uint8_t *w, size_t row,
                                      const int16_t *x) {
    __m256i quad[2];
    halves sums;

    for (int i = 0; i < 2; i++) {
        const uint8_t *r = w + (size_t)(4 * i) * row;
        __m256i ab =
            fold_pair(group_products(bits, unit, r, x), group_products(bits, unit, r + row, x));
        __m256i cd = fold_pair(group_products(bits, unit, r + 2 * row, x),
                               group_products(bits, unit, r + 3 * row, x));

        quad[i] = fold_quad(ab, cd);
    }
    sums = fold_halves(quad[0], quad[1]);
    return _mm256_add_epi32(sums.lo, sums.hi);
}

/* The sums of a group. One of 128 is taken in halves, whose activations fit the registers. */
SLC_ALWAYS_INLINE __m256i row_sums(uint32_t bits, uint32_t unit, const uint8_t *w, size_t row,
                                   const int16_t *x) {
    if (unit < 4) return row_sums_of(bits, unit, w, row, x);

    __m256i half = row_sums_of(bits, 2, w, row, x);

    return _mm256_add_epi32(half, row_sums_of(bits, 2, w + 2 * 4 * bits, row, x + 2 * 32));
}

/* ---- eight rows ---- */

/* The rows in hand, and scales and biases of a block of their groups. */
typedef struct rows8 {
    strip at;
    _Alignas(32) float sw[BLOCK][ROWS], bw[BLOCK][ROWS];
} rows8;

/* acc + group i of the block, given its sums. */
SLC_ALWAYS_INLINE __m256 add_group(__m256 acc, const rows8 *s, uint32_t i, __m256i sum_wx,
                                   const int32_t *sum_x, const float *dx) {
    __m256 x = _mm256_cvtepi32_ps(_mm256_set1_epi32(*sum_x));
    __m256 term = _mm256_mul_ps(_mm256_load_ps(s->bw[i]), x);

    term = _mm256_fmadd_ps(_mm256_load_ps(s->sw[i]), _mm256_cvtepi32_ps(sum_wx), term);
    return _mm256_fmadd_ps(_mm256_broadcast_ss(dx), term, acc);
}

/* Results of the new rows, of which `left` are wanted. y points to the first of these. */
SLC_ALWAYS_INLINE void store_rows(float *y, __m256 acc, const strip *at, uint32_t left) {
    float rows[ROWS];

    if (at->n_new == ROWS && left >= ROWS) {
        _mm256_storeu_ps(y, acc);
        return;
    }
    _mm256_storeu_ps(rows, acc);
    memcpy(y, rows + at->place, (at->n_new < left ? at->n_new : left) * sizeof(float));
}

SLC_ALWAYS_INLINE __m256 load_rows(const float *y, const strip *at, uint32_t left) {
    float rows[ROWS] = {0};

    if (at->n_new == ROWS && left >= ROWS) return _mm256_loadu_ps(y);
    memcpy(rows + at->place, y, (at->n_new < left ? at->n_new : left) * sizeof(float));
    return _mm256_loadu_ps(rows);
}

/* ---- any bits ---- */

SLC_ALWAYS_INLINE void gemv(uint32_t bits, uint32_t unit, const slc_matrix *w, uint32_t row0,
                            uint32_t row1, const slc_acts *a, float *y) {
    const uint32_t group = unit * 32, group_bytes = unit * 4 * bits;
    rows8 s;

    for (uint32_t row = row0; row < row1; row += s.at.n_new) {
        __m256 acc = _mm256_setzero_ps();

        s.at = take_strip(w, row, ROWS);
        for (uint32_t g = 0; g < s.at.n_groups; g++) {
            const uint8_t *codes = s.at.codes + (size_t)g * group_bytes;

            if (g % BLOCK == 0) take_scales_ahead(&s.at, g, ROWS, s.sw[0], s.bw[0]);
            prefetch(s.at.codes + (size_t)g * ROWS * group_bytes, ROWS * group_bytes);
            acc = add_group(acc, &s, g % BLOCK,
                            row_sums(bits, unit, codes, s.at.codes_row, a->q + (size_t)g * group),
                            a->sum + g, a->scale + g);
        }
        store_rows(y + row, acc, &s.at, row1 - row);
    }
}

/* ---- 4 bits ----
 *
 * A 32-byte load holds 16 words of four codes. Masks alone give one code of each word, two of the
 * four 16 times too large; the products of those are added up apart and divided by 16, exactly. The
 * activations must come in the same order, every fourth one: they are put so once, SPREAD at a
 * time, for all rows. */

/* Activations of 64 codes: x[4 j + i] in word j of vector i. */
typedef struct spread64 {
    __m256i x[4];
} spread64;

static spread64 spread_nibbles(const int16_t *x) {
    /* In each half, words 0 4 1 5 2 6 3 7: the pairs that one int32 of a product takes. */
    const __m256i pairs = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
    __m256i v[4], half[4];

    for (int i = 0; i < 4; i++) v[i] = _mm256_shuffle_epi8(load_32_bytes(x + 16 * i), pairs);
    half[0] = _mm256_permute2x128_si256(v[0], v[2], 0x20);
    half[1] = _mm256_permute2x128_si256(v[0], v[2], 0x31);
    half[2] = _mm256_permute2x128_si256(v[1], v[3], 0x20);
    half[3] = _mm256_permute2x128_si256(v[1], v[3], 0x31);

    __m256i lo01 = _mm256_unpacklo_epi32(half[0], half[1]);
    __m256i hi01 = _mm256_unpackhi_epi32(half[0], half[1]);
    __m256i lo23 = _mm256_unpacklo_epi32(half[2], half[3]);
    __m256i hi23 = _mm256_unpackhi_epi32(half[2], half[3]);

    return (spread64){{_mm256_unpacklo_epi64(lo01, lo23), _mm256_unpackhi_epi64(lo01, lo23),
                       _mm256_unpacklo_epi64(hi01, hi23), _mm256_unpackhi_epi64(hi01, hi23)}};
}

/* n activations; of the last 64, 32 may be missing. */
static void spread_all(const int16_t *x, uint32_t n, spread64 *out) {
    int16_t rest[NIBBLES] = {0};

    for (; n >= NIBBLES; n -= NIBBLES, x += NIBBLES) *out++ = spread_nibbles(x);
    if (n == 0) return;
    memcpy(rest, x, n * sizeof(*x));
    *out = spread_nibbles(rest);
}

/* Eight partial sums of 64 codes: 0-31 in the lower half, 32-63 in the upper. */
SLC_ALWAYS_INLINE __m256i nibble_products(__m256i w, const __m256i x[4]) {
    const __m256i low = _mm256_set1_epi16(0x000f), high = _mm256_set1_epi16(0x00f0);
    __m256i w8 = _mm256_srli_epi16(w, 8);
    __m256i c0 = _mm256_madd_epi16(_mm256_and_si256(w, low), x[0]);
    __m256i c1 = _mm256_madd_epi16(_mm256_and_si256(w, high), x[1]);
    __m256i c2 = _mm256_madd_epi16(_mm256_and_si256(w8, low), x[2]);
    __m256i c3 = _mm256_madd_epi16(_mm256_and_si256(w8, high), x[3]);
    __m256i c13 = _mm256_srai_epi32(_mm256_add_epi32(c1, c3), 4);

    return _mm256_add_epi32(_mm256_add_epi32(c0, c2), c13);
}

/* The sums of 64 codes of eight rows, `at` bytes into each, by halves. Without `whole` there are
 * only 32 codes, and the upper half is nothing. */
SLC_ALWAYS_INLINE halves nibble_sums(const rows8 *s, size_t at, bool whole, spread64 x) {
    __m256i quad[2];

    for (int i = 0; i < 2; i++) {
        __m256i p[4];

        for (int r = 0; r < 4; r++) {
            const uint8_t *codes = s->at.codes + (size_t)(4 * i + r) * s->at.codes_row + at;
            __m256i w = whole ? load_32_bytes(codes) : _mm256_zextsi128_si256(load_16_bytes(codes));

            p[r] = nibble_products(w, x.x);
        }
        quad[i] = fold_quad(fold_pair(p[0], p[1]), fold_pair(p[2], p[3]));
    }
    return fold_halves(quad[0], quad[1]);
}

/* Adds the n groups of a block, from group g, to acc. */
SLC_ALWAYS_INLINE __m256 add_nibble_block(__m256 acc, uint32_t unit, const rows8 *s, uint32_t g,
                                          uint32_t n, const spread64 *x, const slc_acts *a) {
    const uint32_t at_once = unit == 1 ? 2 : 1; /* groups that share a load */

    for (uint32_t i = 0; i < n; i += at_once) {
        size_t at = (size_t)(g + i) * unit * 16;
        bool whole = unit > 1 || i + 1 < n;
        halves h = nibble_sums(s, at, whole, *x++);

        prefetch(s->at.codes + at * ROWS, ROWS * NIBBLES / 2);
        if (unit == 1) {
            acc = add_group(acc, s, i, h.lo, a->sum + g + i, a->scale + g + i);
            if (whole)
                acc = add_group(acc, s, i + 1, h.hi, a->sum + g + i + 1, a->scale + g + i + 1);
            continue;
        }

        __m256i sums = _mm256_add_epi32(h.lo, h.hi);

        if (unit == 4) {
            h = nibble_sums(s, at + NIBBLES / 2, true, *x++);
            prefetch(s->at.codes + (at + NIBBLES / 2) * ROWS, ROWS * NIBBLES / 2);
            sums = _mm256_add_epi32(sums, _mm256_add_epi32(h.lo, h.hi));
        }
        acc = add_group(acc, s, i, sums, a->sum + g + i, a->scale + g + i);
    }
    return acc;
}

SLC_ALWAYS_INLINE void gemv_4(uint32_t unit, const slc_matrix *w, uint32_t row0, uint32_t row1,
                              const slc_acts *a, float *y) {
    const uint32_t group = unit * 32, n_groups = a->k / group;
    spread64 spread[SPREAD / NIBBLES];
    rows8 s;

    for (uint32_t first = 0; first < n_groups; first += SPREAD / group) {
        uint32_t last = n_groups - first < SPREAD / group ? n_groups : first + SPREAD / group;

        spread_all(a->q + (size_t)first * group, (last - first) * group, spread);
        for (uint32_t row = row0; row < row1; row += s.at.n_new) {
            __m256 acc;

            s.at = take_strip(w, row, ROWS);
            acc = first ? load_rows(y + row, &s.at, row1 - row) : _mm256_setzero_ps();
            for (uint32_t g = first; g < last; g += BLOCK) {
                uint32_t n = last - g < BLOCK ? last - g : BLOCK;

                take_scales_ahead(&s.at, g, ROWS, s.sw[0], s.bw[0]);
                acc = add_nibble_block(acc, unit, &s, g, n, spread + (g - first) * unit / 2, a);
            }
            store_rows(y + row, acc, &s.at, row1 - row);
        }
    }
}

/* ---- every kind ---- */

#define DEFINE_GEMV(bits, group)                                                                   \
    static void gemv##bits##_##group(const slc_matrix *w, uint32_t row0, uint32_t row1,            \
                                     const slc_acts *a, float *y) {                                \
        if (bits == 4)                                                                             \
            gemv_4(group / 32, w, row0, row1, a, y);                                               \
        else                                                                                       \
            gemv(bits, group / 32, w, row0, row1, a, y);                                           \
    }
#define DEFINE_GEMVS(bits) DEFINE_GEMV(bits, 32) DEFINE_GEMV(bits, 64) DEFINE_GEMV(bits, 128)

DEFINE_GEMVS(2)
DEFINE_GEMVS(3)
DEFINE_GEMVS(4)
DEFINE_GEMVS(5)
DEFINE_GEMVS(6)
DEFINE_GEMVS(8)

#define GEMVS(bits)                                                                                \
    { gemv##bits##_32, gemv##bits##_64, gemv##bits##_128 }

void slc_gemv_affine_avx2(const slc_matrix *w, uint32_t row0, uint32_t row1, const slc_acts *a,
                          float *y) {
    static slc_gemv_fn *const gemvs[9][3] = {[2] = GEMVS(2), [3] = GEMVS(3), [4] = GEMVS(4),
                                             [5] = GEMVS(5), [6] = GEMVS(6), [8] = GEMVS(8)};

    gemvs[w->type.bits][w->type.group / 64](w, row0, row1, a, y);
}

#endif
