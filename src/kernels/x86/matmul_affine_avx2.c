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
 * One token unpacks and multiplies in registers, 4-bit codes by a shorter way of their own. Several
 * tokens share each unpacked group, kept as int16 in a scratch of at most 2 KiB. The sums are exact
 * and the float operations are the same, so all ways give the same bits. Where a matrix has fewer
 * than eight rows left, they go one by one, each in all lanes. */
#if defined(__x86_64__)

#include "kernels/x86/avx2.h"
#include "kernels/x86/unpack_avx2.h"

enum {
    ROWS = 8,
    BLOCK = 8,       /* groups whose scales are prepared at once */
    TILE = 16,       /* tokens that share an unpacked group */
    MAX_GROUP = 128, /* elements */
    LINE = 64,
    AHEAD = 16384, /* bytes between prefetch and use */
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

/* The rows in hand, and scales and biases of a block of their groups, rows in lanes. */
typedef struct rows8 {
    const uint8_t *codes, *scales, *biases; /* of the first one */
    size_t codes_row, scales_row;           /* bytes from one to the next */
    size_t rest;                            /* bytes of scales from those of the last row on */
    slc_dtype scale_dtype;
    uint32_t n_groups;
    __m256 sw[BLOCK], bw[BLOCK];
} rows8;

/* Takes eight rows from `row` on; where fewer are left in the matrix, that one in every lane.
 * Returns how many rows that are. */
SLC_ALWAYS_INLINE uint32_t take_rows(rows8 *s, const slc_matrix *w, uint32_t row) {
    const slc_matrix_type *type = &w->type;
    size_t codes_row = slc_matrix_row_bytes(type, SLC_PART_W);
    size_t scales_row = slc_matrix_row_bytes(type, SLC_PART_SCALES);
    bool all = type->rows - row >= ROWS;

    s->codes = w->part[SLC_PART_W] + row * codes_row;
    s->scales = w->part[SLC_PART_SCALES] + row * scales_row;
    s->biases = w->part[SLC_PART_BIASES] + row * scales_row;
    s->codes_row = all ? codes_row : 0;
    s->scales_row = all ? scales_row : 0;
    s->rest = (type->rows - row - (all ? ROWS - 1 : 0)) * scales_row;
    s->scale_dtype = type->scale_dtype;
    s->n_groups = type->cols / type->group;
    return all ? ROWS : 1;
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

/* Scales and biases of the first n groups of a block, `at` bytes into each row. `type` and n are
 * constants where this is inlined for a whole block. */
SLC_ALWAYS_INLINE void take_block(rows8 *s, slc_dtype type, size_t at, uint32_t n) {
    __m256 sw[ROWS], bw[ROWS];

    for (int r = 0; r < ROWS; r++) {
        sw[r] = load_first_as_f32(type, s->scales + (size_t)r * s->scales_row + at, n);
        bw[r] = load_first_as_f32(type, s->biases + (size_t)r * s->scales_row + at, n);
    }
    transpose8(sw, s->sw);
    transpose8(bw, s->bw);
}

/* The same of bf16, moved as words: a float is a word above 16 zero bits. Without `whole` only the
 * first four groups. */
SLC_ALWAYS_INLINE void take_block_bf16(rows8 *s, size_t at, bool whole) {
    const __m256i zero = _mm256_setzero_si256();

    for (int part = 0; part < 2; part++) {
        const uint8_t *rows = (part ? s->biases : s->scales) + at;
        __m256 *out = part ? s->bw : s->sw;
        __m256i v[4];

        for (size_t r = 0; r < 4; r++) { // row r in the lower half, row r + 4 in the upper
            v[r] = _mm256_inserti128_si256(
                _mm256_castsi128_si256(load_16_bytes(rows + r * s->scales_row)),
                load_16_bytes(rows + (r + 4) * s->scales_row), 1);
        }
        for (int i = 0; i < (whole ? 8 : 4); i += 4) { // four groups
            __m256i r01 = i ? _mm256_unpackhi_epi16(v[0], v[1]) : _mm256_unpacklo_epi16(v[0], v[1]);
            __m256i r23 = i ? _mm256_unpackhi_epi16(v[2], v[3]) : _mm256_unpacklo_epi16(v[2], v[3]);
            __m256i g01 = _mm256_unpacklo_epi32(r01, r23), g23 = _mm256_unpackhi_epi32(r01, r23);

            out[i] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, g01));
            out[i + 1] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, g01));
            out[i + 2] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, g23));
            out[i + 3] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, g23));
        }
    }
}

static __attribute__((noinline)) void take_last_block(rows8 *s, size_t at, uint32_t n) {
    take_block(s, s->scale_dtype, at, n);
}

/* Asks for the next n bytes of an ascending stream, AHEAD of p. */
SLC_ALWAYS_INLINE void prefetch(const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i += LINE) _mm_prefetch((const char *)p + AHEAD + i, _MM_HINT_T1);
}

/* Prepares scales and biases of the block that starts with group g. Rows follow each other in
 * memory: while eight rows are computed, the same share of rows to come is asked for. Of a block
 * that its row ends early, what follows in memory is taken along and not used; where nothing may
 * follow, it is not. */
SLC_ALWAYS_INLINE void take_scales(rows8 *s, uint32_t g) {
    size_t size = slc_dtype_bytes(s->scale_dtype), at = g * size;

    if (at + BLOCK * size > s->rest) {
        take_last_block(s, at, s->n_groups - g);
        return;
    }
    prefetch(s->scales + ROWS * at, ROWS * BLOCK * size);
    prefetch(s->biases + ROWS * at, ROWS * BLOCK * size);
    if (s->scale_dtype == SLC_DTYPE_BF16)
        take_block_bf16(s, at, s->n_groups - g > BLOCK / 2);
    else if (s->scale_dtype == SLC_DTYPE_F16)
        take_block(s, SLC_DTYPE_F16, at, BLOCK);
    else
        take_block(s, SLC_DTYPE_F32, at, BLOCK);
}

/* acc + group i of the block, given its sums. */
SLC_ALWAYS_INLINE __m256 add_group(__m256 acc, const rows8 *s, uint32_t i, __m256i sum_wx,
                                   const int32_t *sum_x, const float *dx) {
    __m256 x = _mm256_cvtepi32_ps(_mm256_set1_epi32(*sum_x));
    __m256 term = _mm256_mul_ps(s->bw[i], x);

    term = _mm256_fmadd_ps(s->sw[i], _mm256_cvtepi32_ps(sum_wx), term);
    return _mm256_fmadd_ps(_mm256_broadcast_ss(dx), term, acc);
}

/* The first n lanes, but of rows past the last one nothing. */
SLC_ALWAYS_INLINE void store_rows(float *y, __m256 v, uint32_t n, uint32_t left) {
    store_first(y, v, n < left ? n : left);
}

/* ---- one token ---- */

SLC_ALWAYS_INLINE void one_token(uint32_t bits, uint32_t unit, const slc_matrix *w, uint32_t row0,
                                 uint32_t row1, const slc_acts *a, float *y) {
    const uint32_t group = unit * 32, group_bytes = unit * 4 * bits;
    rows8 s;

    for (uint32_t row = row0, n; row < row1; row += n) {
        __m256 acc = _mm256_setzero_ps();

        n = take_rows(&s, w, row);
        for (uint32_t g = 0; g < s.n_groups; g++) {
            __m256i sums;

            if (g % BLOCK == 0) take_scales(&s, g);
            prefetch(s.codes + (size_t)g * ROWS * group_bytes, ROWS * group_bytes);
            sums = row_sums(bits, unit, s.codes + (size_t)g * group_bytes, s.codes_row,
                            a->q + (size_t)g * group);
            acc = add_group(acc, &s, g % BLOCK, sums, a->sum + g, a->scale + g);
        }
        store_rows(y + row, acc, n, row1 - row);
    }
}

/* ---- one token, 4 bits ----
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
            const uint8_t *codes = s->codes + (size_t)(4 * i + r) * s->codes_row + at;
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

        prefetch(s->codes + at * ROWS, ROWS * NIBBLES / 2);
        if (unit == 1) {
            acc = add_group(acc, s, i, h.lo, a->sum + g + i, a->scale + g + i);
            if (whole)
                acc = add_group(acc, s, i + 1, h.hi, a->sum + g + i + 1, a->scale + g + i + 1);
            continue;
        }

        __m256i sums = _mm256_add_epi32(h.lo, h.hi);

        if (unit == 4) {
            h = nibble_sums(s, at + NIBBLES / 2, true, *x++);
            prefetch(s->codes + (at + NIBBLES / 2) * ROWS, ROWS * NIBBLES / 2);
            sums = _mm256_add_epi32(sums, _mm256_add_epi32(h.lo, h.hi));
        }
        acc = add_group(acc, s, i, sums, a->sum + g + i, a->scale + g + i);
    }
    return acc;
}

SLC_ALWAYS_INLINE void one_token_4(uint32_t unit, const slc_matrix *w, uint32_t row0, uint32_t row1,
                                   const slc_acts *a, float *y) {
    const uint32_t group = unit * 32, n_groups = a->k / group;
    spread64 spread[SPREAD / NIBBLES];
    rows8 s;

    for (uint32_t first = 0; first < n_groups; first += SPREAD / group) {
        uint32_t last = n_groups - first < SPREAD / group ? n_groups : first + SPREAD / group;

        spread_all(a->q + (size_t)first * group, (last - first) * group, spread);
        for (uint32_t row = row0, n; row < row1; row += n) {
            __m256 acc = first ? load_first(y + row, row1 - row) : _mm256_setzero_ps();

            n = take_rows(&s, w, row);
            for (uint32_t g = first; g < last; g += BLOCK) {
                uint32_t n_groups = last - g < BLOCK ? last - g : BLOCK;

                take_scales(&s, g);
                acc = add_nibble_block(acc, unit, &s, g, n_groups, spread + (g - first) * unit / 2,
                                       a);
            }
            store_rows(y + row, acc, n, row1 - row);
        }
    }
}

/* ---- several tokens ---- */

/* Unpacks a group of each row. */
SLC_ALWAYS_INLINE void unpack_rows(uint32_t bits, uint32_t unit, const uint8_t *w, size_t row,
                                   int16_t codes[ROWS][MAX_GROUP]) {
    for (size_t r = 0; r < ROWS; r++) {
        for (uint32_t u = 0; u < unit; u++) {
            codes32 c = unpack32(bits, w + r * row + u * 4 * bits);

            _mm256_store_si256((__m256i *)(codes[r] + u * 32), c.lo);
            _mm256_store_si256((__m256i *)(codes[r] + u * 32 + 16), c.hi);
        }
    }
}

/* Adds group g to the sums of n_tok tokens, from token t. */
SLC_ALWAYS_INLINE void add_group_of_tokens(uint32_t unit, const rows8 *s, uint32_t g,
                                           int16_t codes[ROWS][MAX_GROUP], const slc_acts *a,
                                           uint32_t t, uint32_t n_tok, __m256 acc[TILE]) {
    const int16_t *x = a->q + (size_t)t * a->k + (size_t)g * unit * 32;
    const int32_t *sum_x = a->sum + (size_t)t * s->n_groups + g;
    const float *dx = a->scale + (size_t)t * s->n_groups + g;

    for (uint32_t i = 0; i < n_tok; i++) {
        __m256i sums = row_sums(16, unit, (const uint8_t *)codes, sizeof(codes[0]), x);

        acc[i] = add_group(acc[i], s, g % BLOCK, sums, sum_x, dx);
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
        if (g % BLOCK == 0) take_scales(s, g);
        unpack_rows(bits, unit, s->codes + (size_t)g * unit * 4 * bits, s->codes_row, codes);
        add(s, g, codes, a, t, n_tok, acc);
    }
}

SLC_ALWAYS_INLINE void many_tokens(uint32_t bits, const slc_matrix *w, uint32_t row0, uint32_t row1,
                                   const slc_acts *a, float *y, size_t ldy) {
    rows8 s;

    for (uint32_t row = row0, n; row < row1; row += n) {
        n = take_rows(&s, w, row);
        for (uint32_t t = 0; t < a->n_tok; t += TILE) {
            uint32_t n_tok = a->n_tok - t < TILE ? a->n_tok - t : TILE;
            __m256 acc[TILE];

            tile(bits, &s, a, t, n_tok, acc);
            for (uint32_t i = 0; i < n_tok; i++) {
                store_rows(y + (t + i) * ldy + row, acc[i], n, row1 - row);
            }
        }
    }
}

SLC_ALWAYS_INLINE void product_of_one(uint32_t bits, uint32_t unit, const slc_matrix *w,
                                      uint32_t row0, uint32_t row1, const slc_acts *a, float *y) {
    if (bits == 4)
        one_token_4(unit, w, row0, row1, a, y);
    else
        one_token(bits, unit, w, row0, row1, a, y);
}

#define DEFINE_MATMUL(bits)                                                                        \
    void slc_matmul_affine##bits##_avx2(const slc_matrix *w, uint32_t row0, uint32_t row1,         \
                                        const slc_acts *a, float *y, size_t ldy) {                 \
        if (a->n_tok > 1)                                                                          \
            many_tokens(bits, w, row0, row1, a, y, ldy);                                           \
        else if (a->n_tok == 0)                                                                    \
            return;                                                                                \
        else if (w->type.group == 32)                                                              \
            product_of_one(bits, 1, w, row0, row1, a, y);                                          \
        else if (w->type.group == 64)                                                              \
            product_of_one(bits, 2, w, row0, row1, a, y);                                          \
        else                                                                                       \
            product_of_one(bits, 4, w, row0, row1, a, y);                                          \
    }

DEFINE_MATMUL(2)
DEFINE_MATMUL(3)
DEFINE_MATMUL(4)
DEFINE_MATMUL(5)
DEFINE_MATMUL(6)
DEFINE_MATMUL(8)

#endif
