/* Copy-engine commands as dwords, chosen by a table of what a generation has. Pure: writes into
 * the caller's buffer, never beyond its size. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_BLT_ENCODE_H
#define ZR_BLT_ENCODE_H

#include "copyq.h"

/* What copy engines of one kind can do. Lengths in bytes. */
struct zr_blt_caps {
    const char     *name;
    enum zr_blt_gen gen;
    int             discrete;        /* 1: device memory, 0: none, -1: both alike */
    bool            mem_copy;        /* MEM_COPY and MEM_SET instead of XY_BLOCK_COPY, 8-bit fill */
    uint8_t         block_dwords;    /* of XY_BLOCK_COPY_BLT */
    uint8_t         color_dwords;    /* of XY_FAST_COLOR_BLT */
    uint8_t         uncached_mocs;   /* table index: a copy never reads a line twice */
    uint32_t        max_line;        /* longest single row */
    uint32_t        max_rows;        /* of a rectangle, device memory on both sides */
    uint32_t        max_rows_system; /* ditto with system memory on one side */
};

/* The row of the table for a device; every generation has one. */
const struct zr_blt_caps *zr_blt_caps(enum zr_blt_gen gen, bool discrete);

#define ZR_BLT_PITCH       16384 /* of a rectangle: bytes of each of its rows */
#define ZR_BLT_MAX_PATTERN 128   /* bytes of the longest fill pattern */

struct zr_blt_out {
    uint32_t *dw;
    unsigned  used, size; /* dwords */
};

/* One side of a copy: GPU address of its first byte, and whether it lies in system memory. */
struct zr_blt_side {
    uint64_t address;
    bool     system;
};

/* Dwords that zr_blt_copy and zr_blt_fill write at most. */
uint64_t zr_blt_copy_dwords(const struct zr_blt_caps *caps, uint64_t length, bool system);
uint64_t zr_blt_fill_dwords(const struct zr_blt_caps *caps, uint64_t length, bool system,
                            unsigned pattern_size);

/* All emitters return false, and write nothing that counts, when the buffer is too small. */

/** Copy @a length bytes, any alignment. */
bool zr_blt_copy(const struct zr_blt_caps *caps, struct zr_blt_out *out, struct zr_blt_side dst,
                 struct zr_blt_side src, uint64_t length);
/** Fill @a length bytes, any alignment. @param pattern_size a power of two up to
 * ZR_BLT_MAX_PATTERN; @param phase offset in the pattern of the first byte. */
bool zr_blt_fill(const struct zr_blt_caps *caps, struct zr_blt_out *out, struct zr_blt_side dst,
                 uint64_t length, const uint8_t *pattern, unsigned pattern_size, uint64_t phase);

#define ZR_BLT_FLUSH_DWORDS 5
#define ZR_BLT_WAIT_DWORDS  4
#define ZR_BLT_END_DWORDS   2

/* What was emitted before is complete and visible before what follows. */
bool zr_blt_flush(struct zr_blt_out *out);
/* As zr_blt_flush, then write @a value or the engine's timestamp; address is 8-byte aligned. */
bool zr_blt_flush_write(struct zr_blt_out *out, uint64_t address, uint64_t value);
bool zr_blt_flush_timestamp(struct zr_blt_out *out, uint64_t address);
/* Poll the dword at @a address until it compares true with @a value. */
bool zr_blt_wait(struct zr_blt_out *out, uint64_t address, uint32_t value, enum zr_wait_op op);
/* End of batch, padded to 8 bytes. */
bool zr_blt_end(struct zr_blt_out *out);

#endif
