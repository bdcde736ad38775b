/* Random bytes by position: any stretch of a stream can be made by itself, in any order, and is the
 * same bytes on every machine. For weights that nothing should compress, predict or find twice; no
 * cryptography. Pure functions; any thread. */
#ifndef SLC_CONVERT_SYNTH_NOISE_H
#define SLC_CONVERT_SYNTH_NOISE_H

#include <stddef.h>
#include <stdint.h>

/* The key of a stream: different `parts` give unrelated streams. */
uint64_t slc_noise_key(uint64_t seed, const uint32_t *parts, size_t n);

/* Bytes [off, off + n) of the stream. */
void slc_noise_fill(uint64_t key, uint64_t off, void *out, size_t n);

/* out[i] = table[byte off + i of the stream], for values of 2 and 4 bytes. `out` may be unaligned.
 */
void slc_noise_pick16(uint64_t key, uint64_t off, const uint16_t table[256], void *out, size_t n);
void slc_noise_pick32(uint64_t key, uint64_t off, const uint32_t table[256], void *out, size_t n);

#endif
