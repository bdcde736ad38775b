/* Element types of stored tensors, and exact conversions of single values to f32. */
#ifndef SLC_QUANT_DTYPE_H
#define SLC_QUANT_DTYPE_H

#include <stdint.h>
#include <string.h>

typedef enum slc_dtype {
    SLC_DTYPE_NONE = 0,
    SLC_DTYPE_F32,
    SLC_DTYPE_F16,
    SLC_DTYPE_BF16,
    SLC_DTYPE_U32,   /* packed quantised weights */
    SLC_DTYPE_OTHER, /* a known safetensors type that weights never have (I64, F8_E4M3, ...) */
} slc_dtype;

/* "F32", "BF16", ...; a static string. */
const char *slc_dtype_name(slc_dtype t);

/* Bytes per element of F32, F16, BF16, U32; 0 for the rest. */
static inline uint32_t slc_dtype_bytes(slc_dtype t) {
    switch (t) {
    case SLC_DTYPE_F32:
    case SLC_DTYPE_U32: return 4;
    case SLC_DTYPE_F16:
    case SLC_DTYPE_BF16: return 2;
    default: return 0;
    }
}

static inline float slc_f32_from_bits(uint32_t u) {
    float f;

    memcpy(&f, &u, sizeof(f));
    return f;
}

static inline uint32_t slc_f32_bits(float f) {
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return u;
}

static inline float slc_f32_from_bf16(uint16_t h) {
    return slc_f32_from_bits((uint32_t)h << 16);
}

/* IEEE half to single, exact, subnormals and NaN included. */
float slc_f32_from_f16(uint16_t h);
/* Single to half, round to nearest even, overflow to infinity, NaN stays NaN: what F16C does. */
uint16_t slc_f16_from_f32(float f);

/* Element i of an array of F32, F16 or BF16 at any byte address. */
float slc_load_f32(slc_dtype t, const void *p, uint64_t i);

#endif
