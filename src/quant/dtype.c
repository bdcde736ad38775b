/* Element types: names and the conversions that need more than a shift.
 *
 * Both half conversions follow the F16C instructions to the bit, NaN payloads included, so that a
 * level that uses the instructions agrees with one that uses this code. */
#include "quant/dtype.h"

const char *slc_dtype_name(slc_dtype t) {
    switch (t) {
    case SLC_DTYPE_NONE: return "none";
    case SLC_DTYPE_F32: return "F32";
    case SLC_DTYPE_F16: return "F16";
    case SLC_DTYPE_BF16: return "BF16";
    case SLC_DTYPE_U32: return "U32";
    case SLC_DTYPE_OTHER: return "other";
    }
    return "invalid";
}

float slc_f32_from_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;

    if (exponent == 31) {
        uint32_t quiet = fraction ? 0x400000 : 0;

        return slc_f32_from_bits(sign | 0x7f800000 | fraction << 13 | quiet);
    }
    if (exponent == 0) {
        uint32_t magnitude = slc_f32_bits((float)fraction * 0x1p-24f);

        return slc_f32_from_bits(sign | magnitude);
    }
    return slc_f32_from_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

uint16_t slc_f16_from_f32(float f) {
    uint32_t u = slc_f32_bits(f), a = u & 0x7fffffff;
    uint32_t sign = u >> 16 & 0x8000, half;

    if (a > 0x7f800000) {
        half = 0x7e00 | (a >> 13 & 0x3ff);
    } else if (a >= 0x477ff000) { // 65520, half way past the largest half
        half = 0x7c00;
    } else if (a < 0x38800000) { // 2^-14: below, halves step by 2^-24, as floats do at 0.5
        half = slc_f32_bits(slc_f32_from_bits(a) + 0.5f) - slc_f32_bits(0.5f);
    } else { // rebias, add just under half a step (half a step if odd), drop 13 bits
        half = (a - ((127u - 15) << 23) + 0xfff + (a >> 13 & 1)) >> 13;
    }
    return (uint16_t)(sign | half);
}

float slc_load_f32(slc_dtype t, const void *p, uint64_t i) {
    const uint8_t *at = (const uint8_t *)p + i * slc_dtype_bytes(t);
    uint16_t half;
    float f;

    if (t == SLC_DTYPE_F32) {
        memcpy(&f, at, sizeof(f));
        return f;
    }
    memcpy(&half, at, sizeof(half));
    return t == SLC_DTYPE_F16 ? slc_f32_from_f16(half) : slc_f32_from_bf16(half);
}
