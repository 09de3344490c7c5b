/* Tiled surfaces: where a byte of a row is. Every layout keeps 16 bytes of a row together.
 *
 * X, Y and Tile4 are the hardware's. Of Yf and Tile64 only the size of a tile is: inside, they are
 * made of Tile4's blocks, so that a surface is read as it was written but means nothing to a CPU. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#define ZR_SOFT_BLOCK_WIDTH  128u /* of 4 KiB: Y and Tile4 */
#define ZR_SOFT_BLOCK_HEIGHT 32u
#define ZR_SOFT_BLOCK        4096u

/* Width (bytes) and height of a tile. */
static void zr_soft_tile_size(const struct zr_soft_tiling *t, unsigned *width, unsigned *height)
{
    switch (t->kind) {
    case ZR_SOFT_TILE_X:
        *width  = 512;
        *height = 8;
        break;
    case ZR_SOFT_TILE_64:
        *width  = t->cpp == 1 ? 256 : t->cpp <= 4 ? 512 : 1024;
        *height = 65536 / *width;
        break;
    default:
        *width  = ZR_SOFT_BLOCK_WIDTH;
        *height = ZR_SOFT_BLOCK_HEIGHT;
    }
}

/* Tile4: 64-byte pieces of 16 bytes by 4 rows, two by two by four. */
static unsigned zr_soft_tile4(unsigned x, unsigned y)
{
    unsigned column = x / 16, row = y / 4;
    unsigned piece  = (row / 2) * 16 + (row % 2) * 4 + column % 4 + (column / 4) * 8;

    return piece * 64 + (y % 4) * 16 + x % 16;
}

static unsigned zr_soft_tile_inside(const struct zr_soft_tiling *t, unsigned width, unsigned x,
                                    unsigned y)
{
    unsigned block;

    switch (t->kind) {
    case ZR_SOFT_TILE_X:
        return y * width + x;
    case ZR_SOFT_TILE_Y:
        return (x / 16) * 512 + y * 16 + x % 16;
    default:
        block = y / ZR_SOFT_BLOCK_HEIGHT * (width / ZR_SOFT_BLOCK_WIDTH) + x / ZR_SOFT_BLOCK_WIDTH;
        return block * ZR_SOFT_BLOCK +
               zr_soft_tile4(x % ZR_SOFT_BLOCK_WIDTH, y % ZR_SOFT_BLOCK_HEIGHT);
    }
}

uint64_t zr_soft_tile_offset(const struct zr_soft_tiling *t, uint64_t pitch, uint64_t column,
                             uint64_t row, uint64_t *run_p)
{
    uint64_t x = t->x + column, y = t->y + row;
    unsigned width, height;

    zr_soft_tile_size(t, &width, &height);
    *run_p = ZR_MIN(*run_p, 16 - x % 16);
    return y / height * (pitch * height) + x / width * ((uint64_t)width * height) +
           zr_soft_tile_inside(t, width, x % width, y % height);
}

bool zr_soft_tile_valid(const struct zr_soft_tiling *t, uint64_t base, uint64_t pitch)
{
    unsigned width, height;

    if (t->kind == ZR_SOFT_LINEAR) {
        return true;
    }
    zr_soft_tile_size(t, &width, &height);
    return pitch % width == 0 && base % (t->kind == ZR_SOFT_TILE_64 ? 65536 : 4096) == 0;
}

/* Which the generation knows; the code is a command's two bits. */
bool zr_soft_tile_kind(enum zr_soft_gen gen, unsigned code, bool block_copy, unsigned *kind_p)
{
    static const uint8_t gen12_block[] = {ZR_SOFT_LINEAR, ZR_SOFT_TILE_Y, ZR_SOFT_TILE_4,
                                          ZR_SOFT_TILE_64};
    static const uint8_t gen12_fast[]  = {ZR_SOFT_LINEAR, ZR_SOFT_TILE_X, ZR_SOFT_TILE_Y,
                                          ZR_SOFT_TILE_64};
    static const uint8_t later[]       = {ZR_SOFT_LINEAR, ZR_SOFT_TILE_X, ZR_SOFT_TILE_4,
                                          ZR_SOFT_TILE_64};

    *kind_p = gen != ZR_SOFT_GEN12 ? later[code] : block_copy ? gen12_block[code]
                                                              : gen12_fast[code];
    return gen != ZR_SOFT_PVC || *kind_p != ZR_SOFT_TILE_X;
}
