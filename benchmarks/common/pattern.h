/* The bytes of a message: every 8-byte word is a function of a seed and its place. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_BENCH_PATTERN_H
#define ZR_BENCH_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t zr_pattern_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Seeds of different messages share no word at the same place. */
static inline uint64_t zr_pattern_seed(uint64_t rank, uint64_t iteration, uint64_t size,
                                       uint64_t buffer)
{
    return zr_pattern_mix(zr_pattern_mix(rank + 1) ^ zr_pattern_mix(iteration + 3) * 5 ^
                          zr_pattern_mix(size) * 3 ^ buffer * UINT64_C(0x9e3779b97f4a7c15));
}

static inline uint64_t zr_pattern_word(uint64_t seed, uint64_t index)
{
    uint64_t x = (seed + index) * UINT64_C(0x9e3779b97f4a7c15);

    return x ^ (x >> 32);
}

static inline unsigned char zr_pattern_byte(uint64_t seed, uint64_t place)
{
    return (unsigned char)(zr_pattern_word(seed, place / 8) >> (place % 8 * 8));
}

/* Write the bytes [place, place + length) of the pattern to @a to. */
static inline void zr_pattern_fill(uint64_t seed, uint64_t place, void *to, size_t length)
{
    unsigned char *p = to;
    uint64_t       word;

    for (; length > 0 && place % 8 != 0; length--) {
        *p++ = zr_pattern_byte(seed, place++);
    }
    for (; length >= 8; length -= 8, place += 8, p += 8) {
        word = zr_pattern_word(seed, place / 8);
        memcpy(p, &word, 8);
    }
    for (; length > 0; length--) {
        *p++ = zr_pattern_byte(seed, place++);
    }
}

#endif
