/* Affine codes to int16, 32 at a time, in order.
 *
 * 32 codes of b bits are 4 b bytes. For a vector of 16 codes, its bytes lie in one 16-byte load
 * that is broadcast to both halves; pshufb gives each word the two bytes that hold its code; a
 * multiply shifts the code to the top of the word (what lies above falls out), a shift brings it
 * down.
 *
 *     word   . . . . . . c c c c c . . . . .   * 2^(16 - b - shift)   >> (16 - b)
 *                        ^ shift + b             ^ shift
 *
 * No byte past the 32 codes is read. */
#ifndef SLC_KERNELS_X86_UNPACK_AVX2_H
#define SLC_KERNELS_X86_UNPACK_AVX2_H

#include "kernels/x86/simd_avx2.h"

/* Word i of a vector, code j = first + i: its byte within the 16 loaded from byte `base`. A second
 * byte past the load belongs to no code and reads as zero. */
#define SLC_CODE_BYTE(b, j, base) ((char)((j) * (b) / 8 - (base)))
#define SLC_CODE_NEXT(b, j, base)                                                                  \
    ((char)((j) * (b) / 8 - (base) < 15 ? (j) * (b) / 8 - (base) + 1 : 0x80))
#define SLC_CODE_PAIR(b, j, base) SLC_CODE_BYTE(b, j, base), SLC_CODE_NEXT(b, j, base)
#define SLC_CODE_LIFT(b, j)       ((short)(1 << (16 - (b) - (j) * (b) % 8)))

#define SLC_CODE_SHUFFLE(b, j, base)                                                               \
    _mm256_setr_epi8(SLC_CODE_PAIR(b, (j) + 0, base), SLC_CODE_PAIR(b, (j) + 1, base),             \
                     SLC_CODE_PAIR(b, (j) + 2, base), SLC_CODE_PAIR(b, (j) + 3, base),             \
                     SLC_CODE_PAIR(b, (j) + 4, base), SLC_CODE_PAIR(b, (j) + 5, base),             \
                     SLC_CODE_PAIR(b, (j) + 6, base), SLC_CODE_PAIR(b, (j) + 7, base),             \
                     SLC_CODE_PAIR(b, (j) + 8, base), SLC_CODE_PAIR(b, (j) + 9, base),             \
                     SLC_CODE_PAIR(b, (j) + 10, base), SLC_CODE_PAIR(b, (j) + 11, base),           \
                     SLC_CODE_PAIR(b, (j) + 12, base), SLC_CODE_PAIR(b, (j) + 13, base),           \
                     SLC_CODE_PAIR(b, (j) + 14, base), SLC_CODE_PAIR(b, (j) + 15, base))

/* The same for 16 codes that start on a byte: shifts repeat every 8 codes. */
#define SLC_CODE_LIFTS(b)                                                                          \
    _mm256_setr_epi16(                                                                             \
        SLC_CODE_LIFT(b, 0), SLC_CODE_LIFT(b, 1), SLC_CODE_LIFT(b, 2), SLC_CODE_LIFT(b, 3),        \
        SLC_CODE_LIFT(b, 4), SLC_CODE_LIFT(b, 5), SLC_CODE_LIFT(b, 6), SLC_CODE_LIFT(b, 7),        \
        SLC_CODE_LIFT(b, 0), SLC_CODE_LIFT(b, 1), SLC_CODE_LIFT(b, 2), SLC_CODE_LIFT(b, 3),        \
        SLC_CODE_LIFT(b, 4), SLC_CODE_LIFT(b, 5), SLC_CODE_LIFT(b, 6), SLC_CODE_LIFT(b, 7))

typedef struct codes32 {
    __m256i lo, hi; /* codes 0-15 and 16-31 as int16 */
} codes32;

#define SLC_DEFINE_UNPACK(b, LOAD_LO, LOAD_HI, base_hi)                                            \
    SLC_ALWAYS_INLINE codes32 unpack32_##b(const uint8_t *p) {                                     \
        __m256i lo = _mm256_broadcastsi128_si256(LOAD_LO);                                         \
        __m256i hi = _mm256_broadcastsi128_si256(LOAD_HI);                                         \
                                                                                                   \
        lo = _mm256_shuffle_epi8(lo, SLC_CODE_SHUFFLE(b, 0, 0));                                   \
        hi = _mm256_shuffle_epi8(hi, SLC_CODE_SHUFFLE(b, 16, base_hi));                            \
        lo = _mm256_mullo_epi16(lo, SLC_CODE_LIFTS(b));                                            \
        hi = _mm256_mullo_epi16(hi, SLC_CODE_LIFTS(b));                                            \
        return (codes32){_mm256_srli_epi16(lo, 16 - (b)), _mm256_srli_epi16(hi, 16 - (b))};        \
    }

SLC_ALWAYS_INLINE __m128i load_8_bytes(const uint8_t *p) {
    return _mm_loadl_epi64((const __m128i_u *)p);
}

SLC_ALWAYS_INLINE __m128i load_12_bytes(const uint8_t *p) {
    int last;

    memcpy(&last, p + 8, sizeof(last));
    return _mm_insert_epi32(load_8_bytes(p), last, 2);
}

SLC_DEFINE_UNPACK(2, load_8_bytes(p), load_8_bytes(p), 0)
SLC_DEFINE_UNPACK(3, load_12_bytes(p), load_12_bytes(p), 0)
SLC_DEFINE_UNPACK(4, load_16_bytes(p), load_16_bytes(p), 0)
SLC_DEFINE_UNPACK(5, load_16_bytes(p), load_16_bytes(p + 4), 4)
SLC_DEFINE_UNPACK(6, load_16_bytes(p), load_16_bytes(p + 8), 8)

SLC_ALWAYS_INLINE codes32 unpack32_8(const uint8_t *p) {
    return (codes32){_mm256_cvtepu8_epi16(load_16_bytes(p)),
                     _mm256_cvtepu8_epi16(load_16_bytes(p + 16))};
}

/* `bits` is a constant where this is inlined. */
SLC_ALWAYS_INLINE codes32 unpack32(uint32_t bits, const uint8_t *p) {
    switch (bits) {
    case 2: return unpack32_2(p);
    case 3: return unpack32_3(p);
    case 4: return unpack32_4(p);
    case 5: return unpack32_5(p);
    case 6: return unpack32_6(p);
    default: return unpack32_8(p);
    }
}

#endif
