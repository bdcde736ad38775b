/* Affine matrices: packing, sizes and values, with vectors that mlx's own quantiser produced. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "quant/matrix.h"

/* w[i] = ((7 i) mod 32 - 12) / 8 quantised as one group of 32; bias 2.375 in all widths. */
typedef struct vector {
    uint32_t bits;
    float scale;
    uint16_t scale_bf16;
    uint32_t words[8];
    uint8_t codes[32];
} vector;

static const vector vectors[] = {
    {2, -1.1875f, 0xbf98, {0xb1b16c6f, 0x5b1ad6c6}, {3, 3, 2, 1, 0, 3, 2, 1, 1, 0, 3,
                                                     2, 1, 0, 3, 2, 2, 1, 0, 3, 2, 1,
                                                     1, 3, 2, 2, 1, 0, 3, 2, 1, 1}},
    {3, -0.59375f, 0xbf18, {0x4173152f, 0xca13b8a9, 0x2e609dc5}, {7, 5, 4, 2, 1, 6, 4, 3, 1, 0, 5,
                                                                  4, 2, 1, 6, 5, 3, 2, 0, 5, 4, 3,
                                                                  1, 6, 5, 3, 2, 0, 6, 4, 3, 1}},
    {4,
     -0.263888896f,
     0xbe87,
     {0x7ad158bf, 0xae259c03, 0xe269c047, 0x369d148b},
     {15, 11, 8, 5,  1, 13, 10, 7,  3,  0, 12, 9, 5,  2, 14, 10,
      7,  4,  0, 12, 9, 6,  2,  14, 11, 8, 4,  1, 13, 9, 6,  3}},
    {5,
     -0.125f,
     0xbe00,
     {0x7835471f, 0xb9640775, 0x050fb748, 0x17f1593d, 0x3369b126},
     {31, 24, 17, 10, 3,  28, 21, 14, 7,  0,  25, 18, 11, 4,  29, 22,
      15, 8,  1,  26, 19, 12, 5,  30, 23, 16, 9,  2,  27, 20, 13, 6}},
    {6,
     -0.060897436f,
     0xbd79,
     {0x46563c7f, 0x300e76be, 0xb7c21797, 0x67d4241f, 0x286ff8a6, 0x31ba7711},
     {63, 49, 35, 21, 6,  57, 43, 29, 14, 0,  51, 37, 23, 8,  60, 45,
      31, 16, 2,  53, 39, 25, 10, 62, 47, 33, 18, 4,  55, 41, 27, 12}},
    {8,
     -0.015224359f,
     0xbc79,
     {0x528cc5ff, 0x73ace619, 0x94cd0039, 0xb5ee215a, 0xd508427b, 0xf629639c, 0x104a83bd,
      0x316ba4de},
     {255, 197, 140, 82,  25,  230, 172, 115, 57,  0,   205, 148, 90,  33,  238, 181,
      123, 66,  8,   213, 156, 99,  41,  246, 189, 131, 74,  16,  222, 164, 107, 49}},
};
enum { N_VECTORS = sizeof(vectors) / sizeof(*vectors) };

/* A one-row matrix of the vector, its parts at odd addresses in `store`. */
static slc_matrix place(const vector *v, slc_dtype scale_dtype, uint8_t store[64]) {
    const slc_matrix_type type = {.dtype = SLC_DTYPE_U32,
                                  .scale_dtype = scale_dtype,
                                  .bits = (uint8_t)v->bits,
                                  .group = 32,
                                  .rows = 1,
                                  .cols = 32};
    const float bias = 2.375f;
    const uint16_t bias_bf16 = 0x4018;
    bool narrow = scale_dtype == SLC_DTYPE_BF16;

    memcpy(store + 1, v->words, 4 * v->bits);
    memcpy(store + 35, narrow ? (const void *)&v->scale_bf16 : &v->scale, narrow ? 2 : 4);
    memcpy(store + 41, narrow ? (const void *)&bias_bf16 : &bias, narrow ? 2 : 4);
    return (slc_matrix){type, {store + 1, store + 35, store + 41}};
}

static void codes_of_every_width_unpack(void **state) {
    for (int i = 0; i < N_VECTORS; i++) {
        uint8_t store[64] = {0};
        slc_matrix m = place(&vectors[i], SLC_DTYPE_F32, store);

        for (uint32_t j = 0; j < 32; j++) {
            assert_int_equal(slc_affine_code(m.part[SLC_PART_W], vectors[i].bits, j),
                             vectors[i].codes[j]);
        }
    }
}

static void rows_dequantise_to_within_two_thirds_of_a_step(void **state) {
    for (int i = 0; i < N_VECTORS; i++) {
        uint8_t store[64] = {0};
        float out[32];
        slc_matrix m = place(&vectors[i], SLC_DTYPE_F32, store);

        slc_matrix_dequant_row(&m, 0, out);
        for (int j = 0; j < 32; j++) {
            float w = (float)((7 * j) % 32 - 12) / 8;
            // half a step of rounding, a little more where the far end is clamped
            float bound = fabsf(vectors[i].scale) * 2 / 3;

            assert_true(fabsf(out[j] - w) <= bound);
            assert_true(out[j] == fmaf(vectors[i].scale, vectors[i].codes[j], 2.375f));
        }
    }
}

static void bf16_scales_give_the_published_values(void **state) {
    static const float want[] = {-1.580078125f, -0.525390625f, 0.265625f,    1.056640625f,
                                 2.111328125f,  -1.052734375f, -0.26171875f, 0.529296875f};
    uint8_t store[64] = {0};
    slc_matrix m = place(&vectors[2], SLC_DTYPE_BF16, store);
    float out[32], dot = 0, worst = 0;

    slc_matrix_dequant_row(&m, 0, out);
    for (int j = 0; j < 8; j++) assert_true(out[j] == want[j]);
    assert_true(out[9] == 2.375f);
    for (int j = 0; j < 32; j++) {
        dot += out[j] * (float)(j % 5 - 2) / 2;
        worst = fmaxf(worst, fabsf(out[j] - (float)((7 * j) % 32 - 12) / 8));
    }
    assert_true(dot == 5.0068359375f);
    assert_true(worst == 0.126953125f);
}

static void float_rows_load_as_they_are(void **state) {
    const uint16_t half[] = {0x3c00, 0xc000, 0x3800, 0x4400};
    const slc_matrix m = {{.dtype = SLC_DTYPE_F16, .rows = 2, .cols = 2}, {(const uint8_t *)half}};
    float out[2];

    slc_matrix_dequant_row(&m, 1, out);
    assert_true(out[0] == 0.5f && out[1] == 4.0f);
}

static void sizes_follow_the_encoding(void **state) {
    const slc_matrix_type affine = {SLC_DTYPE_U32, SLC_DTYPE_BF16, 3, 64, 10, 256};
    const slc_matrix_type plain = {.dtype = SLC_DTYPE_BF16, .rows = 10, .cols = 7};

    assert_int_equal(slc_matrix_row_bytes(&affine, SLC_PART_W), 96);
    assert_int_equal(slc_matrix_part_bytes(&affine, SLC_PART_W), 960);
    assert_int_equal(slc_matrix_part_bytes(&affine, SLC_PART_SCALES), 80);
    assert_int_equal(slc_matrix_part_bytes(&affine, SLC_PART_BIASES), 80);
    assert_int_equal(slc_matrix_row_bytes(&plain, SLC_PART_W), 14);
    assert_int_equal(slc_matrix_part_bytes(&plain, SLC_PART_W), 140);
    assert_int_equal(slc_matrix_part_bytes(&plain, SLC_PART_SCALES), 0);
}

static void sizes_past_64_bits_saturate(void **state) {
    const slc_matrix_type huge = {.dtype = SLC_DTYPE_F32, .rows = UINT32_MAX, .cols = UINT32_MAX};

    assert_true(slc_matrix_part_bytes(&huge, SLC_PART_W) == UINT64_MAX);
    assert_true(slc_matrix_row_bytes(&huge, SLC_PART_W) == 4ull * UINT32_MAX);
}

static void types_have_a_short_description(void **state) {
    const slc_matrix_type affine = {SLC_DTYPE_U32, SLC_DTYPE_BF16, 4, 64, 1, 64};
    const slc_matrix_type plain = {.dtype = SLC_DTYPE_F16, .rows = 1, .cols = 1};
    char buf[32], tiny[4];

    assert_string_equal(slc_matrix_type_str(&affine, buf, sizeof(buf)), "affine 4-bit g64");
    assert_string_equal(slc_matrix_type_str(&plain, buf, sizeof(buf)), "F16");
    assert_string_equal(slc_matrix_type_str(&affine, tiny, sizeof(tiny)), "aff");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_of_every_width_unpack),
        cmocka_unit_test(rows_dequantise_to_within_two_thirds_of_a_step),
        cmocka_unit_test(bf16_scales_give_the_published_values),
        cmocka_unit_test(float_rows_load_as_they_are),
        cmocka_unit_test(sizes_follow_the_encoding),
        cmocka_unit_test(sizes_past_64_bits_saturate),
        cmocka_unit_test(types_have_a_short_description),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
