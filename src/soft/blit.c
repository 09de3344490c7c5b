/* The 2D commands of the copy engine: their fields, their limits, and the bytes they move. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <string.h>

#define ZR_SOFT_FILL_BLOCK 4096

/* ---- moving bytes ---- */

static void zr_soft_fill(uint8_t *to, uint64_t length, const struct zr_soft_op *op)
{
    unsigned size = op->pattern_size, phase = op->column % size;
    uint64_t done, step;

    if (size == 1) {
        memset(to, op->pattern[0], length);
        return;
    }
    done = 0;
    if (phase == 0 && length >= size) {
        memcpy(to, op->pattern, size);
        done = size;
    }
    for (; done < length && done < size; done++) {
        to[done] = op->pattern[(phase + done) % size];
    }
    /* Twice as much each time, up to a block that stays in the cache. */
    while (done < length) {
        step = ZR_MIN(length - done, ZR_MIN(done, (uint64_t)ZR_SOFT_FILL_BLOCK / size * size));
        memcpy(to + done, to, step);
        done += step;
    }
}

static void zr_soft_op_charge(struct zr_soft_batch *batch, uint64_t bytes)
{
    uint64_t mbps = batch->engine->mbps;

    batch->bytes += bytes;
    if (mbps != 0) {
        batch->free_ns += bytes * 1000 / mbps;
    }
}

/* Where the next byte is; *length_p becomes at most what follows it there. */
static uint64_t zr_soft_op_at(const struct zr_soft_op *op, const struct zr_soft_tiling *tiling,
                              uint64_t base, uint64_t pitch, uint64_t *length_p)
{
    if (tiling->kind == ZR_SOFT_LINEAR) {
        return base + op->row * pitch + op->column;
    }
    return base + zr_soft_tile_offset(tiling, pitch, op->column, op->row, length_p);
}

/* Where a copy reads: *length_p becomes at most what is there. NULL: nothing is bound. */
static const uint8_t *zr_soft_op_source(struct zr_soft_batch *batch, uint64_t address,
                                        uint8_t *few, uint64_t *length_p)
{
    uint64_t       available;
    const uint8_t *from;

    if (*length_p <= ZR_SOFT_GLANCE && zr_soft_glance(batch, address, few, *length_p)) {
        return few;
    }
    from = zr_soft_resolve(batch, ZR_SOFT_PORT_SRC, address, &available);
    if (from != NULL) {
        *length_p = ZR_MIN(*length_p, available);
    }
    return from;
}

enum zr_soft_step zr_soft_op_run(struct zr_soft_batch *batch, uint64_t *budget)
{
    struct zr_soft_op *op = &batch->op;
    uint64_t           to_left, length, address, source = 0;
    uint8_t           *to, few[ZR_SOFT_GLANCE];
    const uint8_t     *from;

    while (op->row < op->rows) {
        if (*budget == 0) {
            return ZR_SOFT_MORE;
        }
        length  = ZR_MIN(op->width - op->column, *budget);
        address = zr_soft_op_at(op, &op->dst_tiling, op->dst, op->dst_pitch, &length);
        if (op->kind == ZR_SOFT_OP_COPY) {
            source = zr_soft_op_at(op, &op->src_tiling, op->src, op->src_pitch, &length);
        }
        to      = zr_soft_resolve(batch, ZR_SOFT_PORT_DST, address, &to_left);
        if (to == NULL) {
            return zr_soft_hang(batch, "writes to 0x%lx, where nothing is bound",
                                (unsigned long)address);
        }
        length = ZR_MIN(length, to_left);
        if (op->kind == ZR_SOFT_OP_COPY) {
            from = zr_soft_op_source(batch, source, few, &length);
            if (from == NULL) {
                return zr_soft_hang(batch, "reads from 0x%lx, where nothing is bound",
                                    (unsigned long)source);
            }
            zr_soft_copy(to, from, length, batch->req->stream);
        } else {
            zr_soft_fill(to, length, op);
        }
        if (!zr_soft_written(batch, to, length)) {
            return ZR_SOFT_HANG;
        }
        zr_soft_op_charge(batch, length);
        *budget -= length;
        op->column += length;
        if (op->column == op->width) {
            op->column = 0;
            op->row++;
        }
    }
    return ZR_SOFT_DONE;
}

/* ---- fields ---- */

/* Rows that follow each other without a gap are one long row. */
static enum zr_soft_step zr_soft_op_set(struct zr_soft_batch *batch, struct zr_soft_op op)
{
    if (op.rows > 1 && op.dst_tiling.kind == ZR_SOFT_LINEAR &&
        op.src_tiling.kind == ZR_SOFT_LINEAR && op.dst_pitch == op.width &&
        (op.kind == ZR_SOFT_OP_FILL || op.src_pitch == op.width) &&
        op.width % ZR_MAX(op.pattern_size, 1u) == 0) {
        op.width *= op.rows;
        op.rows = 1;
    }
    batch->op = op;
    return ZR_SOFT_MORE;
}

static enum zr_soft_step zr_soft_bad_address(struct zr_soft_batch *batch, const char *name,
                                             const uint32_t *dw)
{
    return zr_soft_hang(batch, "%s: address 0x%08x%08x is not canonical", name, dw[1], dw[0]);
}

/* MEM_COPY: linear, or rows with a pitch each. */
static enum zr_soft_step zr_soft_mem_copy(struct zr_soft_batch *batch, const uint32_t *dw,
                                          const struct zr_soft_command *command)
{
    const struct zr_soft_dev *dev    = batch->req->ctx->dev;
    bool                      matrix = dw[0] & (1u << 17);
    struct zr_soft_op         op     = {.kind = ZR_SOFT_OP_COPY};

    op.width     = (uint64_t)dw[1] + 1;
    op.rows      = matrix ? (uint64_t)dw[2] + 1 : 1;
    op.src_pitch = (uint64_t)dw[3] + 1;
    op.dst_pitch = (uint64_t)dw[4] + 1;
    if (matrix && (op.width > op.src_pitch || op.width > op.dst_pitch)) {
        return zr_soft_hang(batch, "%s: width %lu above pitch %lu (source), %lu (destination)",
                            command->name, (unsigned long)op.width, (unsigned long)op.src_pitch,
                            (unsigned long)op.dst_pitch);
    }
    if (!zr_soft_address(dev, dw[5], dw[6], &op.src)) {
        return zr_soft_bad_address(batch, command->name, dw + 5);
    }
    if (!zr_soft_address(dev, dw[7], dw[8], &op.dst)) {
        return zr_soft_bad_address(batch, command->name, dw + 7);
    }
    return zr_soft_op_set(batch, op);
}

static enum zr_soft_step zr_soft_mem_set(struct zr_soft_batch *batch, const uint32_t *dw,
                                         const struct zr_soft_command *command)
{
    bool              matrix = dw[0] & (1u << 17);
    struct zr_soft_op op     = {.kind = ZR_SOFT_OP_FILL, .pattern_size = 1};

    op.width      = (uint64_t)dw[1] + 1;
    op.rows       = matrix ? (uint64_t)dw[2] + 1 : 1;
    op.dst_pitch  = (uint64_t)dw[3] + 1;
    op.pattern[0] = dw[6] >> 24;
    if (matrix && op.width > op.dst_pitch) {
        return zr_soft_hang(batch, "%s: width %lu above pitch %lu", command->name,
                            (unsigned long)op.width, (unsigned long)op.dst_pitch);
    }
    if (!zr_soft_address(batch->req->ctx->dev, dw[4], dw[5], &op.dst)) {
        return zr_soft_bad_address(batch, command->name, dw + 4);
    }
    return zr_soft_op_set(batch, op);
}

/* A surface of an XY command with a rectangle in it. */
struct zr_soft_surface {
    const char *name;
    uint64_t    base, pitch;            /* bytes */
    uint32_t    x, y;                   /* of the rectangle */
    uint32_t    surface_w, surface_h;   /* pixels, 0: the command does not say */
    unsigned    tiling;                 /* ZR_SOFT_LINEAR ... */
};

struct zr_soft_rect {
    uint32_t width, height; /* pixels */
    unsigned cpp;           /* bytes per pixel */
};

static enum zr_soft_step zr_soft_surface_check(struct zr_soft_batch *batch, const char *command,
                                               const struct zr_soft_surface *s,
                                               const struct zr_soft_rect *rect)
{
    uint64_t right = (uint64_t)s->x + rect->width, bottom = (uint64_t)s->y + rect->height;

    if (!zr_soft_tile_valid(&(struct zr_soft_tiling){s->tiling, rect->cpp, 0, 0}, s->base,
                            s->pitch)) {
        return zr_soft_hang(batch, "%s: %s is tiled, and its base or pitch is not a tile's",
                            command, s->name);
    }
    if (right * rect->cpp > s->pitch) {
        return zr_soft_hang(batch, "%s: %s row ends at byte %lu, above its pitch %lu", command,
                            s->name, (unsigned long)(right * rect->cpp), (unsigned long)s->pitch);
    }
    if (s->surface_w != 0 && (right > s->surface_w || bottom > s->surface_h)) {
        return zr_soft_hang(batch, "%s: %s rectangle ends at (%lu, %lu), surface is %u x %u",
                            command, s->name, (unsigned long)right, (unsigned long)bottom,
                            s->surface_w, s->surface_h);
    }
    return ZR_SOFT_MORE;
}

/* Destination rectangle from dwords 2 and 3. Coordinates are signed, 16 bits, below 16 Ki. */
static enum zr_soft_step zr_soft_rect_read(struct zr_soft_batch *batch, const char *command,
                                           const uint32_t *dw, struct zr_soft_surface *dst,
                                           struct zr_soft_rect *rect, uint32_t limit)
{
    uint32_t x1 = dw[2] & 0xffff, y1 = dw[2] >> 16, x2 = dw[3] & 0xffff, y2 = dw[3] >> 16;

    if (x2 <= x1 || y2 <= y1 || x2 > limit || y2 > limit) {
        return zr_soft_hang(batch, "%s: rectangle (%u, %u)-(%u, %u) is empty or too large",
                            command, x1, y1, x2, y2);
    }
    dst->x       = x1;
    dst->y       = y1;
    rect->width  = x2 - x1;
    rect->height = y2 - y1;
    return ZR_SOFT_MORE;
}

static uint64_t zr_soft_surface_start(const struct zr_soft_surface *s, unsigned cpp)
{
    if (s->tiling != ZR_SOFT_LINEAR) {
        return s->base;
    }
    return s->base + s->y * s->pitch + (uint64_t)s->x * cpp;
}

static struct zr_soft_tiling zr_soft_surface_tiling(const struct zr_soft_surface *s, unsigned cpp)
{
    return (struct zr_soft_tiling){s->tiling, cpp, s->x * cpp, s->y};
}

/* The tiling of a command's two bits; the pitch of what is tiled is in dwords. */
static enum zr_soft_step zr_soft_surface_tile(struct zr_soft_batch *batch, const char *command,
                                              struct zr_soft_surface *s, unsigned code, bool block)
{
    if (!zr_soft_tile_kind(batch->req->ctx->dev->profile.gen, code, block, &s->tiling)) {
        return zr_soft_hang(batch, "%s: %s has tiling %u, which this part has not", command,
                            s->name, code);
    }
    if (s->tiling != ZR_SOFT_LINEAR) {
        s->pitch *= 4;
    }
    return ZR_SOFT_MORE;
}

static enum zr_soft_step zr_soft_xy_copy(struct zr_soft_batch *batch, const char *command,
                                         const struct zr_soft_surface *dst,
                                         const struct zr_soft_surface *src,
                                         const struct zr_soft_rect *rect)
{
    if (zr_soft_surface_check(batch, command, dst, rect) == ZR_SOFT_HANG ||
        zr_soft_surface_check(batch, command, src, rect) == ZR_SOFT_HANG) {
        return ZR_SOFT_HANG;
    }
    return zr_soft_op_set(batch, (struct zr_soft_op){
                                     .kind      = ZR_SOFT_OP_COPY,
                                     .dst       = zr_soft_surface_start(dst, rect->cpp),
                                     .src       = zr_soft_surface_start(src, rect->cpp),
                                     .dst_pitch = dst->pitch,
                                     .src_pitch = src->pitch,
                                     .width     = (uint64_t)rect->width * rect->cpp,
                                     .rows      = rect->height,
                                     .dst_tiling = zr_soft_surface_tiling(dst, rect->cpp),
                                     .src_tiling = zr_soft_surface_tiling(src, rect->cpp),
                                 });
}

/* Bytes per pixel of bits 21:19; 0: reserved. */
static unsigned zr_soft_depth(uint32_t dw0)
{
    static const uint8_t bytes[8] = {1, 2, 4, 8, 12, 16};

    return bytes[dw0 >> 19 & 7];
}

static void zr_soft_surface_size(struct zr_soft_surface *s, uint32_t dw)
{
    s->surface_h = (dw & 0x3fff) + 1;
    s->surface_w = (dw >> 14 & 0x3fff) + 1;
}

static enum zr_soft_step zr_soft_block_copy(struct zr_soft_batch *batch, const uint32_t *dw,
                                            const struct zr_soft_command *command)
{
    const struct zr_soft_dev *dev = batch->req->ctx->dev;
    struct zr_soft_surface    dst = {.name = "destination"}, src = {.name = "source"};
    struct zr_soft_rect       rect = {.cpp = zr_soft_depth(dw[0])};

    if (rect.cpp == 0) {
        return zr_soft_hang(batch, "%s: colour depth %u is reserved", command->name,
                            dw[0] >> 19 & 7);
    }
    if (zr_soft_rect_read(batch, command->name, dw, &dst, &rect, 16384) == ZR_SOFT_HANG) {
        return ZR_SOFT_HANG;
    }
    dst.pitch = (dw[1] & 0x3ffff) + 1;
    src.pitch = (dw[8] & 0x3ffff) + 1;
    src.x     = dw[7] & 0xffff;
    src.y     = dw[7] >> 16;
    if (!zr_soft_address(dev, dw[4], dw[5], &dst.base)) {
        return zr_soft_bad_address(batch, command->name, dw + 4);
    }
    if (!zr_soft_address(dev, dw[9], dw[10], &src.base)) {
        return zr_soft_bad_address(batch, command->name, dw + 9);
    }
    if (zr_soft_surface_tile(batch, command->name, &dst, dw[1] >> 30, true) == ZR_SOFT_HANG ||
        zr_soft_surface_tile(batch, command->name, &src, dw[8] >> 30, true) == ZR_SOFT_HANG) {
        return ZR_SOFT_HANG;
    }
    if (command->dwords == 22) {
        zr_soft_surface_size(&dst, dw[16]);
        zr_soft_surface_size(&src, dw[19]);
    }
    return zr_soft_xy_copy(batch, command->name, &dst, &src, &rect);
}

static enum zr_soft_step zr_soft_fast_copy(struct zr_soft_batch *batch, const uint32_t *dw,
                                           const struct zr_soft_command *command)
{
    static const uint8_t      bytes[8] = {1, 2, 0, 4, 8, 16};
    const struct zr_soft_dev *dev      = batch->req->ctx->dev;
    struct zr_soft_surface    dst      = {.name = "destination"}, src = {.name = "source"};
    struct zr_soft_rect       rect     = {.cpp = bytes[dw[1] >> 24 & 7]};

    if (rect.cpp == 0) {
        return zr_soft_hang(batch, "%s: colour depth %u is reserved", command->name,
                            dw[1] >> 24 & 7);
    }
    if (zr_soft_rect_read(batch, command->name, dw, &dst, &rect, 32767) == ZR_SOFT_HANG) {
        return ZR_SOFT_HANG;
    }
    dst.pitch = dw[1] & 0xffff;
    src.pitch = dw[7] & 0xffff;
    src.x     = dw[6] & 0xffff;
    src.y     = dw[6] >> 16;
    if (zr_soft_surface_tile(batch, command->name, &dst, dw[0] >> 13 & 3, false) == ZR_SOFT_HANG ||
        zr_soft_surface_tile(batch, command->name, &src, dw[0] >> 20 & 3, false) == ZR_SOFT_HANG) {
        return ZR_SOFT_HANG;
    }
    if (((dw[1] | dw[7]) & 0x8000) || src.x > 32767 || src.y > 32767) {
        return zr_soft_hang(batch, "%s: pitch or coordinate is negative", command->name);
    }
    if (!zr_soft_address(dev, dw[4], dw[5], &dst.base)) {
        return zr_soft_bad_address(batch, command->name, dw + 4);
    }
    if (!zr_soft_address(dev, dw[8], dw[9], &src.base)) {
        return zr_soft_bad_address(batch, command->name, dw + 8);
    }
    /* Linear surfaces: bases on a cache line, pitches in 16 byte units. */
    if ((dst.base | src.base) % 64 != 0 || (dst.pitch | src.pitch) % 16 != 0) {
        return zr_soft_hang(batch, "%s: base not 64-byte or pitch not 16-byte aligned",
                            command->name);
    }
    return zr_soft_xy_copy(batch, command->name, &dst, &src, &rect);
}

static enum zr_soft_step zr_soft_fast_color(struct zr_soft_batch *batch, const uint32_t *dw,
                                            const struct zr_soft_command *command)
{
    struct zr_soft_surface dst  = {.name = "destination"};
    struct zr_soft_rect    rect = {.cpp = zr_soft_depth(dw[0])};
    struct zr_soft_op      op   = {.kind = ZR_SOFT_OP_FILL};

    if (rect.cpp == 0) {
        return zr_soft_hang(batch, "%s: colour depth %u is reserved", command->name,
                            dw[0] >> 19 & 7);
    }
    if (zr_soft_rect_read(batch, command->name, dw, &dst, &rect, 16384) == ZR_SOFT_HANG) {
        return ZR_SOFT_HANG;
    }
    dst.pitch = (dw[1] & 0x3ffff) + 1;
    if (!zr_soft_address(batch->req->ctx->dev, dw[4], dw[5], &dst.base)) {
        return zr_soft_bad_address(batch, command->name, dw + 4);
    }
    /* Of a linear surface it is not looked at: Intel's own driver leaves it zero. */
    if (command->dwords == 16 && dw[1] >> 30 != 0) {
        zr_soft_surface_size(&dst, dw[13]);
    }
    if (zr_soft_surface_tile(batch, command->name, &dst, dw[1] >> 30, true) == ZR_SOFT_HANG ||
        zr_soft_surface_check(batch, command->name, &dst, &rect) == ZR_SOFT_HANG) {
        return ZR_SOFT_HANG;
    }
    op.dst_tiling   = zr_soft_surface_tiling(&dst, rect.cpp);
    op.dst          = zr_soft_surface_start(&dst, rect.cpp);
    op.dst_pitch    = dst.pitch;
    op.width        = (uint64_t)rect.width * rect.cpp;
    op.rows         = rect.height;
    op.pattern_size = rect.cpp;
    memcpy(op.pattern, dw + 7, sizeof(op.pattern));
    return zr_soft_op_set(batch, op);
}

/* Tiles of a surface of the older commands: X, or what a bit of BCS_SWCTRL makes of them. */
static unsigned zr_soft_old_tiling(const struct zr_soft_batch *batch, uint32_t bit)
{
    const struct zr_soft_registers *regs = batch->req->slot->registers;

    if (regs == NULL || !(regs->swctrl & bit)) {
        return ZR_SOFT_TILE_X;
    }
    return batch->req->ctx->dev->profile.gen == ZR_SOFT_GEN12 ? ZR_SOFT_TILE_Y : ZR_SOFT_TILE_4;
}

/* The older XY commands: dword 1 has pitch, raster operation and depth. */
static enum zr_soft_step zr_soft_xy_old(struct zr_soft_batch *batch, const uint32_t *dw,
                                        const struct zr_soft_command *command, unsigned raster,
                                        struct zr_soft_surface *dst, struct zr_soft_rect *rect)
{
    static const uint8_t bytes[4] = {1, 2, 2, 4};

    rect->cpp = bytes[dw[1] >> 24 & 3];
    if ((dw[1] >> 16 & 0xff) != raster) {
        return zr_soft_hang(batch, "%s: raster operation 0x%02x is not modelled", command->name,
                            dw[1] >> 16 & 0xff);
    }
    if (rect->cpp == 4 && (dw[0] >> 20 & 3) != 3) {
        return zr_soft_hang(batch, "%s: writes to some of the channels are not modelled",
                            command->name);
    }
    if (zr_soft_rect_read(batch, command->name, dw, dst, rect, 32767) == ZR_SOFT_HANG) {
        return ZR_SOFT_HANG;
    }
    dst->pitch = dw[1] & 0xffff;
    if (dst->pitch > 32767) {
        return zr_soft_hang(batch, "%s: pitch is negative", command->name);
    }
    if (!zr_soft_address(batch->req->ctx->dev, dw[4], dw[5], &dst->base)) {
        return zr_soft_bad_address(batch, command->name, dw + 4);
    }
    if (dw[0] & (1u << 11)) {
        dst->tiling = zr_soft_old_tiling(batch, ZR_SOFT_SWCTRL_DST_Y);
        dst->pitch *= 4;
    }
    return ZR_SOFT_MORE;
}

static enum zr_soft_step zr_soft_src_copy(struct zr_soft_batch *batch, const uint32_t *dw,
                                          const struct zr_soft_command *command)
{
    struct zr_soft_surface dst = {.name = "destination"}, src = {.name = "source"};
    struct zr_soft_rect    rect;

    if (zr_soft_xy_old(batch, dw, command, 0xcc, &dst, &rect) == ZR_SOFT_HANG) {
        return ZR_SOFT_HANG;
    }
    src.x     = dw[6] & 0xffff;
    src.y     = dw[6] >> 16;
    src.pitch = dw[7] & 0xffff;
    if (src.x > 32767 || src.y > 32767 || src.pitch > 32767) {
        return zr_soft_hang(batch, "%s: pitch or coordinate is negative", command->name);
    }
    if (!zr_soft_address(batch->req->ctx->dev, dw[8], dw[9], &src.base)) {
        return zr_soft_bad_address(batch, command->name, dw + 8);
    }
    if (dw[0] & (1u << 15)) {
        src.tiling = zr_soft_old_tiling(batch, ZR_SOFT_SWCTRL_SRC_Y);
        src.pitch *= 4;
    }
    return zr_soft_xy_copy(batch, command->name, &dst, &src, &rect);
}

static enum zr_soft_step zr_soft_color(struct zr_soft_batch *batch, const uint32_t *dw,
                                       const struct zr_soft_command *command)
{
    struct zr_soft_surface dst = {.name = "destination"};
    struct zr_soft_op      op  = {.kind = ZR_SOFT_OP_FILL};
    struct zr_soft_rect    rect;

    if (zr_soft_xy_old(batch, dw, command, 0xf0, &dst, &rect) == ZR_SOFT_HANG ||
        zr_soft_surface_check(batch, command->name, &dst, &rect) == ZR_SOFT_HANG) {
        return ZR_SOFT_HANG;
    }
    op.dst          = zr_soft_surface_start(&dst, rect.cpp);
    op.dst_tiling   = zr_soft_surface_tiling(&dst, rect.cpp);
    op.dst_pitch    = dst.pitch;
    op.width        = (uint64_t)rect.width * rect.cpp;
    op.rows         = rect.height;
    op.pattern_size = rect.cpp;
    memcpy(op.pattern, dw + 6, 4);
    return zr_soft_op_set(batch, op);
}

/* ---- the table ---- */

#define G12   ZR_SOFT_GENS(ZR_SOFT_GEN12), ZR_SOFT_CLASS_COPY
#define G125                                                                                  \
    (ZR_SOFT_GENS(ZR_SOFT_GEN125) | ZR_SOFT_GENS(ZR_SOFT_PVC) | ZR_SOFT_GENS(ZR_SOFT_MTL)),   \
        ZR_SOFT_CLASS_COPY
#define GOLD  (ZR_SOFT_GENS(ZR_SOFT_GEN12) | ZR_SOFT_GENS(ZR_SOFT_GEN125)), ZR_SOFT_CLASS_COPY
#define GPVC  ZR_SOFT_GENS(ZR_SOFT_PVC), ZR_SOFT_CLASS_COPY
#define GALL  ZR_SOFT_GENS_ALL, ZR_SOFT_CLASS_COPY

/* Surface dword 1 / 8: compression 29:28 and auxiliary mode 20:18 must be off, and
 * bit 21, the MOCS index's encryption bit. */
#define SURFACE 0x303c0000u
/* Dwords with an offset in the surface (used by tiled surfaces only); bit 31 is the memory type. */
#define OFFSETS 0x7fffffffu
/* Surface type 31:29: 1D or 2D; 28 reserved. */
#define SIZE 0xd0000000u

const struct zr_soft_command zr_soft_blits[] = {
    {"MEM_COPY", 0xffc000ff, 0x56800008, 10, GPVC, zr_soft_mem_copy,
     {0x003dff00, 0xfffc0000, 0xfffc0000, 0xfffc0000, 0xfffc0000, 0, 0, 0, 0, 0x01ffff80}},
    {"MEM_SET", 0xffc000ff, 0x56c00005, 7, GPVC, zr_soft_mem_set,
     {0x003dff00, 0xfffc0000, 0xfffc0000, 0xfffc0000, 0, 0, 0x00ffff80}},
    {"XY_BLOCK_COPY_BLT", 0xffc000ff, 0x5040000a, 12, G12, zr_soft_block_copy,
     {0x0007ff00, SURFACE, 0, 0, 0, 0, OFFSETS, 0, SURFACE, 0, 0, OFFSETS}},
    {"XY_BLOCK_COPY_BLT", 0xffc000ff, 0x50400014, 22, G125, zr_soft_block_copy,
     {0x0007ff00, SURFACE, 0, 0, 0, 0, OFFSETS, 0, SURFACE, 0, 0, OFFSETS,
      0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, SIZE, 0, 0, SIZE, 0, 0}},
    {"XY_FAST_COPY_BLT", 0xffc000ff, 0x50800008, 10, GALL, zr_soft_fast_copy,
     {0x000f9f00, 0x08ff0000, 0, 0, 0, 0, 0, 0xffff0000}},
    {"XY_SRC_COPY_BLT", 0xffc000ff, 0x54c00008, 10, GOLD, zr_soft_src_copy,
     {0x000f7700, 0xfc000000, 0, 0, 0, 0, 0, 0xffff0000}},
    {"XY_COLOR_BLT", 0xffc000ff, 0x54000005, 7, GOLD, zr_soft_color, {0x000ff700, 0xfc000000}},
    {"XY_FAST_COLOR_BLT", 0xffc000ff, 0x51000009, 11, G12, zr_soft_fast_color,
     {0x0007ff00, SURFACE, 0, 0, 0, 0, OFFSETS}},
    {"XY_FAST_COLOR_BLT", 0xffc000ff, 0x5100000e, 16, G125, zr_soft_fast_color,
     {0x0007ff00, SURFACE, 0, 0, 0, 0, OFFSETS, 0, 0, 0, 0, 0xffffffff, 0xffffffff, SIZE, 0, 0}},
};
const unsigned zr_soft_num_blits = ZR_ARRAY_SIZE(zr_soft_blits);
