/* Counter-based random bytes: word i of a block is a hash of i and of two keys that the block's
 * number gives. Blocks keep the counter in 32 bits, so that the loop is 32-bit arithmetic alone,
 * which every compiler turns into SIMD: 5 GB/s on one core with SSE2. */
#include "convert/synth_noise.h"

#include <string.h>

#define BLOCK_WORDS 4096u
#define BLOCK_BYTES (BLOCK_WORDS * 4)

/* The finaliser of splitmix64: every bit of x reaches every bit of the result. */
static uint64_t mix64(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t slc_noise_key(uint64_t seed, const uint32_t *parts, size_t n) {
    uint64_t key = mix64(seed);

    for (size_t i = 0; i < n; i++) key = mix64(key ^ parts[i]);
    return key;
}

/* Words [from, from + n) of one block. */
static void block_words(uint64_t block_key, uint32_t from, uint32_t *restrict out, uint32_t n) {
    uint32_t k0 = (uint32_t)block_key, k1 = (uint32_t)(block_key >> 32);

    for (uint32_t i = 0; i < n; i++) {
        uint32_t x = from + i + k0;

        x = (x ^ x >> 16) * 0x7feb352du;
        x = (x ^ x >> 15 ^ k1) * 0x846ca68bu;
        out[i] = x ^ x >> 16;
    }
}

void slc_noise_fill(uint64_t key, uint64_t off, void *out, size_t n) {
    uint8_t *to = out;
    uint32_t words[BLOCK_WORDS];

    while (n) {
        uint64_t block = off / BLOCK_BYTES;
        uint32_t skip = (uint32_t)(off % BLOCK_BYTES), first = skip / 4;
        size_t some = n < BLOCK_BYTES - skip ? n : BLOCK_BYTES - skip;
        uint32_t last = (skip + (uint32_t)some + 3) / 4;

        block_words(mix64(key ^ mix64(block)), first, words, last - first);
        memcpy(to, (const uint8_t *)words + skip % 4, some);
        to += some;
        off += some;
        n -= some;
    }
}

/* Calls for the next few picks: the bytes that choose them. */
#define PICKS 4096u

void slc_noise_pick16(uint64_t key, uint64_t off, const uint16_t table[256], void *out, size_t n) {
    uint8_t at[PICKS], *to = out;

    while (n) {
        size_t some = n < PICKS ? n : PICKS;

        slc_noise_fill(key, off, at, some);
        for (size_t i = 0; i < some; i++) memcpy(to + 2 * i, &table[at[i]], 2);
        to += 2 * some;
        off += some;
        n -= some;
    }
}

void slc_noise_pick32(uint64_t key, uint64_t off, const uint32_t table[256], void *out, size_t n) {
    uint8_t at[PICKS], *to = out;

    while (n) {
        size_t some = n < PICKS ? n : PICKS;

        slc_noise_fill(key, off, at, some);
        for (size_t i = 0; i < some; i++) memcpy(to + 4 * i, &table[at[i]], 4);
        to += 4 * some;
        off += some;
        n -= some;
    }
}
