/* Where the bytes of a copy go: two segment lists walked together into pieces, pieces cut over
 * engines so that all should end together. Pure functions over values.
 *
 *   source       |---- A ----|-- B --|---------- C ----------|
 *   destination  |------ X ------|-------- Y --------|-- Z --|
 *   pieces       |---- 1 ----|-2-|-3-|------ 4 ------|-- 5 --|
 *   engine rows  |0          |0|1|1  |1     |2       |2      |
 */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_BLT_PLAN_H
#define ZR_BLT_PLAN_H

#include "copyq.h"

/* A run of bytes inside one object on each side. */
struct zr_piece {
    struct zr_bo *dst, *src; /* src is NULL of a fill */
    uint64_t      dst_offset, src_offset, length;
    uint64_t      position; /* of its first byte in the whole copy */
};

struct zr_walk {
    const struct zr_seg *dst, *src;
    unsigned             dst_count, src_count; /* segments left, the current ones included */
    uint64_t             dst_done, src_done;   /* bytes used of the current ones */
    uint64_t             position, left;
};

/** @param src_count 0 for a fill */
void zr_walk_init(struct zr_walk *walk, const struct zr_seg *dst, unsigned dst_count,
                  const struct zr_seg *src, unsigned src_count, uint64_t length);
/** The next piece, as long as both sides and @a most allow.
 * @return 1; 0 at the end; -1 when a list is shorter than the copy. */
int zr_walk_next(struct zr_walk *walk, uint64_t most, struct zr_piece *piece);

/* A piece costs an engine as much time as this many bytes. */
#define ZR_PIECE_COST 4096
#define ZR_CUT_ALIGN  4096

struct zr_plan {
    struct zr_walk walk;
    unsigned       row, rows;
    uint32_t       rate[ZR_MAX_ENGINES]; /* relative */
    uint64_t       rate_left;            /* sum over the rows from row on */
    uint64_t       cost_left;            /* bytes, pieces and rows not given out yet */
    uint64_t       row_cost;
    uint64_t       budget;               /* of the current row */
};

/** @param rate     relative speed of each row, NULL: all alike
 * @param row_cost what a row costs beside its pieces, in bytes
 * @return false when a list is shorter than the copy */
bool zr_plan_init(struct zr_plan *plan, const struct zr_walk *walk, unsigned rows,
                  const uint32_t *rate, uint64_t row_cost);
/** @return false at the end */
bool zr_plan_next(struct zr_plan *plan, struct zr_piece *piece, unsigned *row_p);

#endif
