/* The table of generations, and one emitter per command. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "encode.h"

#include <string.h>

#define MI_BATCH_BUFFER_END  0x05000000u
#define MI_FLUSH_DW          0x13000003u /* 5 dwords */
#define MI_FLUSH_WRITE       (1u << 14)
#define MI_FLUSH_TIMESTAMP   (3u << 14)
#define MI_SEMAPHORE_WAIT    0x0e000002u /* 4 dwords */
#define MI_SEMAPHORE_POLL    (1u << 15)
#define MI_MEM_FENCE_RELEASE 0x04800000u
#define XY_BLOCK_COPY_BLT    0x50400000u
#define XY_FAST_COPY_BLT     0x50800008u
#define XY_FAST_COPY_32BPP   (3u << 24)
#define XY_FAST_COPY_DST_SYS (1u << 28)
#define XY_FAST_COPY_SRC_SYS (1u << 29)
#define XY_FAST_COLOR_BLT    0x51000000u
#define MEM_COPY             0x56800008u
#define MEM_SET              0x56c00005u
#define MEM_MATRIX           (1u << 17)
#define XY_SYSTEM_MEMORY     (1u << 31)
#define XY_SURFACE_2D        (1u << 29)

#define MEM_COPY_DWORDS  10
#define MEM_SET_DWORDS   7
#define FAST_COPY_DWORDS 10

/* Bytes of a long pattern fill that are made step by step; the rest is copied from them. */
#define ZR_SETTLED 262144

/* Widths of an XY rectangle are 14-bit fields of a 22-dword block copy; NEO keeps the same limits
 * for MEM_COPY, whose fields have 18 bits, and 512 rows where Ponte Vecchio touches system
 * memory.
 *
 * MOCS: the index that reads and writes memory itself. On parts with a shared cache that is
 * coherent with the CPU as well: there every GPU access snoops. Meteor Lake has two such entries;
 * 5, which IGT uses, also looks for lines that other engines left in L3.
 *
 * Rocket Lake, Alder Lake and Raptor Lake are Tiger Lake here, Arrow Lake is Meteor Lake. */
static const struct zr_blt_caps all_caps[] = {
    {"Gen12", ZR_BLT_GEN12, 0, false, false, ZR_BLT_DRAIN_NONE, 12, 11, 64, 3, 16384, 16384,
     16384},
    {"DG1", ZR_BLT_GEN12, 1, false, false, ZR_BLT_DRAIN_NONE, 12, 11, 64, 1, 16384, 16384,
     16384},
    {"DG2", ZR_BLT_GEN125, 1, false, false, ZR_BLT_DRAIN_COLOR, 22, 16, 64, 1, 16384, 16384,
     16384},
    {"Meteor Lake", ZR_BLT_GEN125, 0, false, false, ZR_BLT_DRAIN_COLOR, 22, 16, 64, 5, 16384,
     16384, 16384},
    {"Ponte Vecchio", ZR_BLT_PVC, -1, true, true, ZR_BLT_DRAIN_SET, 0, 16, 0, 1, 256 * 1024,
     16384, 512},
};

const struct zr_blt_caps *zr_blt_caps(enum zr_blt_gen gen, bool discrete)
{
    unsigned i;

    for (i = 0; i < ZR_ARRAY_SIZE(all_caps); i++) {
        if (all_caps[i].gen == gen &&
            (all_caps[i].discrete < 0 || all_caps[i].discrete == (int)discrete)) {
            break;
        }
    }
    return &all_caps[i];
}

static uint32_t *zr_blt_take(struct zr_blt_out *out, unsigned count)
{
    uint32_t *dw = out->dw + out->used;

    if (out->size - out->used < count) {
        return NULL;
    }
    out->used += count;
    return dw;
}

static void zr_blt_put_address(uint32_t *dw, uint64_t address)
{
    dw[0] = (uint32_t)address;
    dw[1] = (uint32_t)(address >> 32);
}

/* ---- rectangles: rows of width elements, pitch bytes from row to row ---- */

struct zr_blt_rect {
    uint32_t width, rows, pitch;
};

/* The next rectangle of a run of bytes: a single row where that is enough, else full rows of
 * ZR_BLT_PITCH; the rest is for the next step. */
static struct zr_blt_rect zr_blt_step(const struct zr_blt_caps *caps, uint64_t length, bool system)
{
    uint64_t most = system ? caps->max_rows_system : caps->max_rows;

    if (length <= caps->max_line) {
        return (struct zr_blt_rect){(uint32_t)length, 1, (uint32_t)length};
    }
    return (struct zr_blt_rect){ZR_BLT_PITCH, (uint32_t)ZR_MIN(length / ZR_BLT_PITCH, most),
                                ZR_BLT_PITCH};
}

static uint64_t zr_blt_steps(const struct zr_blt_caps *caps, uint64_t length, bool system)
{
    uint64_t most = (uint64_t)ZR_BLT_PITCH * (system ? caps->max_rows_system : caps->max_rows);

    return length / most + 2; /* whole rectangles, the rows that are left, the tail */
}

static bool zr_emit_mem_copy(const struct zr_blt_caps *caps, struct zr_blt_out *out,
                             struct zr_blt_side dst, struct zr_blt_side src,
                             struct zr_blt_rect rect)
{
    uint32_t *dw = zr_blt_take(out, MEM_COPY_DWORDS);

    if (dw == NULL) {
        return false;
    }
    dw[0] = MEM_COPY | (rect.rows > 1 ? MEM_MATRIX : 0);
    dw[1] = rect.width - 1;
    dw[2] = rect.rows - 1;
    dw[3] = rect.pitch - 1;
    dw[4] = rect.pitch - 1;
    zr_blt_put_address(&dw[5], src.address);
    zr_blt_put_address(&dw[7], dst.address);
    dw[9] = (uint32_t)caps->uncached_mocs << 1 | (uint32_t)caps->uncached_mocs << 26;
    return true;
}

static bool zr_emit_block_copy(const struct zr_blt_caps *caps, struct zr_blt_out *out,
                               struct zr_blt_side dst, struct zr_blt_side src,
                               struct zr_blt_rect rect)
{
    uint32_t *dw = zr_blt_take(out, caps->block_dwords);
    uint32_t  surface;

    if (dw == NULL) {
        return false;
    }
    memset(dw, 0, caps->block_dwords * sizeof(*dw));
    dw[0] = XY_BLOCK_COPY_BLT | (caps->block_dwords - 2); /* colour depth 0: 8 bits */
    dw[1] = (rect.pitch - 1) | (uint32_t)caps->uncached_mocs << 22;
    dw[3] = rect.rows << 16 | rect.width;
    zr_blt_put_address(&dw[4], dst.address);
    dw[6] = dst.system ? XY_SYSTEM_MEMORY : 0;
    dw[8] = (rect.pitch - 1) | (uint32_t)caps->uncached_mocs << 22;
    zr_blt_put_address(&dw[9], src.address);
    dw[11] = src.system ? XY_SYSTEM_MEMORY : 0;
    if (caps->block_dwords == 22) {
        surface = XY_SURFACE_2D | (rect.width - 1) << 14 | (rect.rows - 1);
        dw[16] = surface;
        dw[19] = surface;
    }
    return true;
}

/* Whole rows of ZR_BLT_FAST_PITCH bytes, 32 bits a pixel; the pitch is not minus one here. */
static bool zr_emit_fast_copy(struct zr_blt_out *out, struct zr_blt_side dst,
                              struct zr_blt_side src, uint32_t rows)
{
    uint32_t *dw = zr_blt_take(out, FAST_COPY_DWORDS);

    if (dw == NULL) {
        return false;
    }
    dw[0] = XY_FAST_COPY_BLT;
    dw[1] = ZR_BLT_FAST_PITCH | XY_FAST_COPY_32BPP | (dst.system ? XY_FAST_COPY_DST_SYS : 0) |
            (src.system ? XY_FAST_COPY_SRC_SYS : 0);
    dw[2] = 0;
    dw[3] = rows << 16 | ZR_BLT_FAST_PITCH / 4;
    zr_blt_put_address(&dw[4], dst.address);
    dw[6] = 0;
    dw[7] = ZR_BLT_FAST_PITCH;
    zr_blt_put_address(&dw[8], src.address);
    return true;
}

/* Can the next rows be a fast copy? It has no field for memory attributes and takes what the
 * kernel set the engine to; its addresses are aligned. */
static bool zr_blt_is_fast(const struct zr_blt_caps *caps, struct zr_blt_side dst,
                           struct zr_blt_side src, uint64_t length)
{
    return caps->fast_align != 0 && length >= ZR_BLT_FAST_PITCH &&
           ((dst.address | src.address) & (caps->fast_align - 1u)) == 0;
}

bool zr_blt_copy(const struct zr_blt_caps *caps, struct zr_blt_out *out, struct zr_blt_side dst,
                 struct zr_blt_side src, uint64_t length)
{
    struct zr_blt_out  before = *out;
    struct zr_blt_rect rect;
    uint64_t           bytes;
    bool               done;

    for (; length > 0; length -= bytes) {
        if (zr_blt_is_fast(caps, dst, src, length)) {
            rect.rows  = (uint32_t)ZR_MIN(length / ZR_BLT_FAST_PITCH, (uint64_t)caps->max_rows);
            rect.width = ZR_BLT_FAST_PITCH;
            done       = zr_emit_fast_copy(out, dst, src, rect.rows);
        } else {
            rect = zr_blt_step(caps, length, dst.system || src.system);
            done = caps->mem_copy ? zr_emit_mem_copy(caps, out, dst, src, rect) :
                                    zr_emit_block_copy(caps, out, dst, src, rect);
        }
        if (!done) {
            *out = before;
            return false;
        }
        out->dirty = true;
        bytes      = (uint64_t)rect.width * rect.rows;
        dst.address += bytes;
        src.address += bytes;
    }
    return true;
}

uint64_t zr_blt_copy_dwords(const struct zr_blt_caps *caps, uint64_t length, bool system)
{
    if (caps->mem_copy) {
        return zr_blt_steps(caps, length, system) * MEM_COPY_DWORDS;
    }
    /* All rows fast and a rest that is not, or none fast. */
    return zr_blt_steps(caps, length, system) * caps->block_dwords +
           (length / (ZR_BLT_FAST_PITCH * (uint64_t)caps->max_rows) + 1) * FAST_COPY_DWORDS;
}

/* ---- fills ---- */

static bool zr_emit_mem_set(const struct zr_blt_caps *caps, struct zr_blt_out *out,
                            struct zr_blt_side dst, struct zr_blt_rect rect, uint8_t byte)
{
    uint32_t *dw = zr_blt_take(out, MEM_SET_DWORDS);

    if (dw == NULL) {
        return false;
    }
    dw[0] = MEM_SET | (rect.rows > 1 ? MEM_MATRIX : 0);
    dw[1] = rect.width - 1;
    dw[2] = rect.rows - 1;
    dw[3] = rect.pitch - 1;
    zr_blt_put_address(&dw[4], dst.address);
    dw[6] = (uint32_t)caps->uncached_mocs << 1 | (uint32_t)byte << 24;
    return true;
}

/* Colour depth codes skip one: 4 is 96 bits. */
static uint32_t zr_color_depth(unsigned unit)
{
    return unit == 16 ? 5 : (uint32_t)__builtin_ctz(unit);
}

/* @param rect width in elements of unit bytes */
static bool zr_emit_fast_color(const struct zr_blt_caps *caps, struct zr_blt_out *out,
                               struct zr_blt_side dst, struct zr_blt_rect rect,
                               const uint8_t *color, unsigned unit)
{
    uint32_t *dw = zr_blt_take(out, caps->color_dwords);

    if (dw == NULL) {
        return false;
    }
    memset(dw, 0, caps->color_dwords * sizeof(*dw));
    dw[0] = XY_FAST_COLOR_BLT | zr_color_depth(unit) << 19 | (caps->color_dwords - 2);
    dw[1] = (rect.pitch - 1) | (uint32_t)caps->uncached_mocs << 22;
    dw[3] = rect.rows << 16 | rect.width;
    zr_blt_put_address(&dw[4], dst.address);
    dw[6] = dst.system ? XY_SYSTEM_MEMORY : 0;
    memcpy(&dw[7], color, unit);
    if (caps->color_dwords == 16) {
        dw[13] = XY_SURFACE_2D | (rect.width - 1) << 14 | (rect.rows - 1);
    }
    return true;
}

static bool zr_fill_bytes(const struct zr_blt_caps *caps, struct zr_blt_out *out,
                          struct zr_blt_side dst, uint64_t length, uint8_t byte)
{
    struct zr_blt_rect rect;

    for (; length > 0; length -= (uint64_t)rect.width * rect.rows) {
        rect = zr_blt_step(caps, length, dst.system);
        if (!(caps->mem_copy ? zr_emit_mem_set(caps, out, dst, rect, byte) :
                               zr_emit_fast_color(caps, out, dst, rect, &byte, 1))) {
            return false;
        }
        dst.address += (uint64_t)rect.width * rect.rows;
    }
    return true;
}

/* length is a multiple of unit, the address aligned to it. */
static bool zr_fill_units(const struct zr_blt_caps *caps, struct zr_blt_out *out,
                          struct zr_blt_side dst, uint64_t length, const uint8_t *color,
                          unsigned unit)
{
    uint64_t           most = dst.system ? caps->max_rows_system : caps->max_rows, bytes;
    struct zr_blt_rect rect;

    for (; length > 0; length -= bytes) {
        if (length <= ZR_BLT_PITCH) {
            rect = (struct zr_blt_rect){(uint32_t)length / unit, 1, ZR_BLT_PITCH};
        } else {
            rect = (struct zr_blt_rect){ZR_BLT_PITCH / unit,
                                        (uint32_t)ZR_MIN(length / ZR_BLT_PITCH, most),
                                        ZR_BLT_PITCH};
        }
        if (!zr_emit_fast_color(caps, out, dst, rect, color, unit)) {
            return false;
        }
        bytes = (uint64_t)rect.width * rect.rows * unit;
        dst.address += bytes;
    }
    return true;
}

/* A pattern longer than an element: one rectangle per 16-byte column, a pattern from row to row.
 * length is a multiple of the pattern. */
static bool zr_fill_columns(const struct zr_blt_caps *caps, struct zr_blt_out *out,
                            struct zr_blt_side dst, uint64_t length, const uint8_t *pattern,
                            unsigned size)
{
    uint64_t most = dst.system ? caps->max_rows_system : caps->max_rows, rows = length / size, n;
    struct zr_blt_side side;
    unsigned           column;

    for (; rows > 0; rows -= n) {
        n = ZR_MIN(rows, most);
        for (column = 0; column < size; column += 16) {
            side = (struct zr_blt_side){dst.address + column, dst.system};
            if (!zr_emit_fast_color(caps, out, side, (struct zr_blt_rect){1, (uint32_t)n, size},
                                    pattern + column, 16)) {
                return false;
            }
        }
        dst.address += n * size;
    }
    return true;
}

/* The shortest period of a pattern. */
static unsigned zr_pattern_period(const uint8_t *pattern, unsigned size)
{
    while (size > 1 && memcmp(pattern, pattern + size / 2, size / 2) == 0) {
        size /= 2;
    }
    return size;
}

static bool zr_fill_edge(const struct zr_blt_caps *caps, struct zr_blt_out *out,
                         struct zr_blt_side dst, uint64_t length, const uint8_t *pattern)
{
    uint64_t i;

    for (i = 0; i < length; i++, dst.address++) {
        if (!zr_fill_bytes(caps, out, dst, 1, pattern[i])) {
            return false;
        }
    }
    return true;
}

static bool zr_fill_pattern(const struct zr_blt_caps *caps, struct zr_blt_out *out,
                            struct zr_blt_side dst, uint64_t length, const uint8_t *pattern,
                            unsigned size, uint64_t phase)
{
    unsigned unit = ZR_MIN(size, 16u), i;
    uint64_t head = ZR_MIN(-dst.address & (unit - 1), length), body;
    uint8_t  turned[2 * ZR_BLT_MAX_PATTERN]; /* twice, so that any start has a whole one */

    for (i = 0; i < 2 * size; i++) {
        turned[i] = pattern[(phase + i) & (size - 1)];
    }
    if (!zr_fill_edge(caps, out, dst, head, turned)) {
        return false;
    }
    dst.address += head;
    length -= head;
    body = ZR_ALIGN_DOWN(length, size);
    if (!(size == unit ? zr_fill_units(caps, out, dst, body, turned + head, unit) :
                         zr_fill_columns(caps, out, dst, body, turned + head, size))) {
        return false;
    }
    dst.address += body;
    return zr_fill_edge(caps, out, dst, length - body, turned + head);
}

/* Where fills have one byte only: the first period byte by byte, then copies of what is there
 * already, twice as much each time. A copy may overtake the one before it, hence the flushes. */
static bool zr_fill_doubling(const struct zr_blt_caps *caps, struct zr_blt_out *out,
                             struct zr_blt_side dst, uint64_t length, const uint8_t *pattern,
                             unsigned size, uint64_t phase)
{
    uint64_t done = ZR_MIN(length, (uint64_t)size), i, next, step;
    struct zr_blt_side to = dst;
    uint8_t            byte;

    for (i = 0; i < done; i = next, to.address = dst.address + i) {
        byte = pattern[(phase + i) & (size - 1)];
        for (next = i + 1; next < done && pattern[(phase + next) & (size - 1)] == byte; next++) {
        }
        if (!zr_fill_bytes(caps, out, to, next - i, byte)) {
            return false;
        }
    }
    for (out->dirty = true; done < length; done += step) {
        if (done <= ZR_SETTLED && !zr_blt_flush(caps, out)) {
            return false;
        }
        step       = ZR_MIN(ZR_MIN(done, (uint64_t)ZR_SETTLED), length - done);
        to.address = dst.address + done;
        if (!zr_blt_copy(caps, out, to, dst, step)) {
            return false;
        }
    }
    return true;
}

bool zr_blt_fill(const struct zr_blt_caps *caps, struct zr_blt_out *out, struct zr_blt_side dst,
                 uint64_t length, const uint8_t *pattern, unsigned pattern_size, uint64_t phase)
{
    unsigned          size   = zr_pattern_period(pattern, pattern_size);
    struct zr_blt_out before = *out;
    bool              done;

    if (size == 1) {
        done = zr_fill_bytes(caps, out, dst, length, pattern[0]);
    } else if (caps->mem_copy) {
        done = zr_fill_doubling(caps, out, dst, length, pattern, size, phase);
    } else {
        done = zr_fill_pattern(caps, out, dst, length, pattern, size, phase);
    }
    if (!done) {
        *out = before;
        return false;
    }
    out->dirty |= length > 0;
    return true;
}

uint64_t zr_blt_fill_dwords(const struct zr_blt_caps *caps, uint64_t length, bool system,
                            unsigned pattern_size)
{
    uint64_t most    = system ? caps->max_rows_system : caps->max_rows;
    uint64_t columns = pattern_size > 16 ? pattern_size / 16 : 1, body;

    if (caps->mem_copy) {
        /* One byte: as a copy. Else a period, some 18 steps with a flush each, and the rest. */
        return pattern_size == 1 ?
                   zr_blt_steps(caps, length, system) * MEM_SET_DWORDS :
                   pattern_size * MEM_SET_DWORDS + 20 * (ZR_BLT_FLUSH_DWORDS + MEM_COPY_DWORDS) +
                       (length / ZR_SETTLED + 1) * MEM_COPY_DWORDS +
                       zr_blt_steps(caps, length, system) * MEM_SET_DWORDS;
    }
    body = pattern_size > 16 ? columns * (length / (pattern_size * most) + 1) :
                               length / (ZR_BLT_PITCH * most) + 2;
    return (body + 15 + pattern_size) * caps->color_dwords;
}

/* ---- order ---- */

static bool zr_emit_drain(const struct zr_blt_caps *caps, struct zr_blt_out *out)
{
    static const uint8_t black[8];
    struct zr_blt_side   scratch = {out->scratch, true};

    switch (caps->drain == ZR_BLT_DRAIN_SET && out->first ? ZR_BLT_DRAIN_COLOR : caps->drain) {
    case ZR_BLT_DRAIN_COLOR:
        return zr_emit_fast_color(caps, out, scratch, (struct zr_blt_rect){1, 4, 4096}, black, 8);
    case ZR_BLT_DRAIN_SET:
        return zr_emit_mem_set(caps, out, scratch,
                               (struct zr_blt_rect){ZR_BLT_SCRATCH, 1, ZR_BLT_SCRATCH}, 0);
    default:
        return true;
    }
}

static bool zr_emit_flush(const struct zr_blt_caps *caps, struct zr_blt_out *out, uint32_t flags,
                          uint64_t address, uint64_t value)
{
    unsigned  start = out->used, fence = out->dirty && caps->mem_fence;
    uint32_t *dw;

    if ((out->dirty && !zr_emit_drain(caps, out)) ||
        (dw = zr_blt_take(out, fence + 5)) == NULL) {
        out->used = start;
        return false;
    }
    if (fence) {
        *dw++ = MI_MEM_FENCE_RELEASE;
    }
    dw[0] = MI_FLUSH_DW | flags;
    zr_blt_put_address(&dw[1], address);
    dw[3]      = (uint32_t)value;
    dw[4]      = (uint32_t)(value >> 32);
    out->dirty = false;
    return true;
}

bool zr_blt_flush(const struct zr_blt_caps *caps, struct zr_blt_out *out)
{
    return zr_emit_flush(caps, out, 0, 0, 0);
}

bool zr_blt_flush_write(const struct zr_blt_caps *caps, struct zr_blt_out *out, uint64_t address,
                        uint64_t value)
{
    return zr_emit_flush(caps, out, MI_FLUSH_WRITE, address, value);
}

bool zr_blt_flush_timestamp(const struct zr_blt_caps *caps, struct zr_blt_out *out,
                            uint64_t address)
{
    return zr_emit_flush(caps, out, MI_FLUSH_TIMESTAMP, address, 0);
}

bool zr_blt_wait(struct zr_blt_out *out, uint64_t address, uint32_t value, enum zr_wait_op op)
{
    /* Compare operations of MI_SEMAPHORE_WAIT: memory OP value. */
    static const uint32_t codes[] = {
        [ZR_WAIT_EQUAL] = 4, [ZR_WAIT_NOT_EQUAL] = 5, [ZR_WAIT_GREATER_EQUAL] = 1};
    uint32_t *dw = zr_blt_take(out, ZR_BLT_WAIT_DWORDS);

    if (dw == NULL) {
        return false;
    }
    dw[0] = MI_SEMAPHORE_WAIT | MI_SEMAPHORE_POLL | codes[op] << 12;
    dw[1] = value;
    zr_blt_put_address(&dw[2], address);
    return true;
}

bool zr_blt_end(struct zr_blt_out *out)
{
    unsigned  count = 2 - (out->used & 1);
    uint32_t *dw    = zr_blt_take(out, count);

    if (dw == NULL) {
        return false;
    }
    dw[0] = MI_BATCH_BUFFER_END;
    if (count == 2) {
        dw[1] = 0;
    }
    return true;
}
