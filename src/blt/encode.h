/* Copy-engine commands as dwords, chosen by a table of what a generation has. Pure: writes into
 * the caller's buffer, never beyond its size. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_BLT_ENCODE_H
#define ZR_BLT_ENCODE_H

#include "copyq.h"

#define ZR_BLT_PITCH       16384 /* of a rectangle: bytes of each of its rows */
#define ZR_BLT_FAST_PITCH  4096  /* ditto of XY_FAST_COPY_BLT: what the kernel itself uses */
#define ZR_BLT_MAX_PATTERN 128   /* bytes of the longest fill pattern */
#define ZR_BLT_SCRATCH     32768 /* bytes that an engine may overwrite */

/* A marker written by MI_FLUSH_DW may be ahead of the bytes that copies before it wrote; a small
 * fill of scratch memory in front of it drains them (Wa_16018031267, Wa_16018063123). */
enum zr_blt_drain {
    ZR_BLT_DRAIN_NONE,
    ZR_BLT_DRAIN_COLOR, /* XY_FAST_COLOR_BLT of one pixel in four rows */
    ZR_BLT_DRAIN_SET,   /* MEM_SET of ZR_BLT_SCRATCH bytes; as above on the first engine */
};

/* What copy engines of one kind can do. Lengths in bytes. */
struct zr_blt_caps {
    const char       *name;
    enum zr_blt_gen   gen;
    int               discrete;        /* 1: device memory, 0: none, -1: both alike */
    bool              mem_copy;        /* MEM_COPY and MEM_SET; what each engine has, while XY
                                          commands are for the first engine only */
    bool              mem_fence;       /* writes to system memory are ordered by MI_MEM_FENCE */
    enum zr_blt_drain drain;
    uint8_t           block_dwords;    /* of XY_BLOCK_COPY_BLT */
    uint8_t           color_dwords;    /* of XY_FAST_COLOR_BLT */
    uint8_t           fast_align;      /* of both addresses of XY_FAST_COPY_BLT, 0: not used */
    uint8_t           uncached_mocs;   /* table index: a copy never reads a line twice */
    uint32_t          max_line;        /* longest single row */
    uint32_t          max_rows;        /* of a rectangle, device memory on both sides */
    uint32_t          max_rows_system; /* ditto with system memory on one side */
};

/* Bytes that a drain writes: about what it costs. */
static inline uint64_t zr_blt_drain_bytes(const struct zr_blt_caps *caps)
{
    return caps->drain == ZR_BLT_DRAIN_SET ? ZR_BLT_SCRATCH : 0;
}

/* The row of the table for a device; every generation has one. */
const struct zr_blt_caps *zr_blt_caps(enum zr_blt_gen gen, bool discrete);

struct zr_blt_out {
    uint32_t *dw;
    unsigned  used, size; /* dwords */
    uint64_t  scratch;    /* GPU address of ZR_BLT_SCRATCH bytes in system memory, page aligned */
    bool      dirty;      /* copies or fills since the last flush */
    bool      first;      /* it is the first copy engine that runs it, and no other */
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

#define ZR_BLT_FLUSH_DWORDS 22 /* drain, fence and flush */
#define ZR_BLT_WAIT_DWORDS  4
#define ZR_BLT_END_DWORDS   2

/* What was emitted before is complete and visible before what follows. */
bool zr_blt_flush(const struct zr_blt_caps *caps, struct zr_blt_out *out);
/* As zr_blt_flush, then write @a value or the engine's timestamp; address is 8-byte aligned. */
bool zr_blt_flush_write(const struct zr_blt_caps *caps, struct zr_blt_out *out, uint64_t address,
                        uint64_t value);
bool zr_blt_flush_timestamp(const struct zr_blt_caps *caps, struct zr_blt_out *out,
                            uint64_t address);
/* Poll the dword at @a address until it compares true with @a value. */
bool zr_blt_wait(struct zr_blt_out *out, uint64_t address, uint32_t value, enum zr_wait_op op);
/* End of batch, padded to 8 bytes. */
bool zr_blt_end(struct zr_blt_out *out);

#endif
