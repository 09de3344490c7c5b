/* The walk over two segment lists, and the cut over engine rows. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan.h"

void zr_walk_init(struct zr_walk *walk, const struct zr_seg *dst, unsigned dst_count,
                  const struct zr_seg *src, unsigned src_count, uint64_t length)
{
    *walk = (struct zr_walk){.dst       = dst,
                             .src       = src_count > 0 ? src : NULL,
                             .dst_count = dst_count,
                             .src_count = src_count,
                             .left      = length};
}

/* Bytes left in the current segment, stepping over the ones that are used up; 0: none left. */
static uint64_t zr_walk_room(const struct zr_seg **seg, unsigned *count, uint64_t *done)
{
    while (*count > 0 && *done == (*seg)->length) {
        (*seg)++;
        (*count)--;
        *done = 0;
    }
    return *count > 0 ? (*seg)->length - *done : 0;
}

int zr_walk_next(struct zr_walk *walk, uint64_t most, struct zr_piece *piece)
{
    uint64_t length = ZR_MIN(walk->left, most), room;

    if (walk->left == 0) {
        return 0;
    }
    room   = zr_walk_room(&walk->dst, &walk->dst_count, &walk->dst_done);
    length = ZR_MIN(length, room);
    if (walk->src != NULL) {
        room   = zr_walk_room(&walk->src, &walk->src_count, &walk->src_done);
        length = ZR_MIN(length, room);
    }
    if (length == 0) {
        return -1;
    }
    *piece = (struct zr_piece){.dst        = walk->dst->bo,
                               .dst_offset = walk->dst->offset + walk->dst_done,
                               .length     = length,
                               .position   = walk->position};
    walk->dst_done += length;
    if (walk->src != NULL) {
        piece->src        = walk->src->bo;
        piece->src_offset = walk->src->offset + walk->src_done;
        walk->src_done += length;
    }
    walk->position += length;
    walk->left -= length;
    return 1;
}

static void zr_plan_start_row(struct zr_plan *plan)
{
    plan->budget = plan->row + 1 == plan->rows ?
                       UINT64_MAX :
                       (uint64_t)((unsigned __int128)plan->cost_left * plan->rate[plan->row] /
                                  plan->rate_left);
    plan->cost_left -= plan->row_cost;
    if (plan->budget != UINT64_MAX) {
        plan->budget -= ZR_MIN(plan->budget, plan->row_cost);
    }
}

bool zr_plan_init(struct zr_plan *plan, const struct zr_walk *walk, unsigned rows,
                  const uint32_t *rate, uint64_t row_cost)
{
    struct zr_walk  count = *walk;
    struct zr_piece piece;
    unsigned        i;
    int             more;

    *plan = (struct zr_plan){
        .walk = *walk, .rows = rows, .row_cost = row_cost, .cost_left = rows * row_cost};
    for (i = 0; i < rows; i++) {
        plan->rate[i] = rate != NULL ? rate[i] : 1;
        plan->rate_left += plan->rate[i];
    }
    while ((more = zr_walk_next(&count, UINT64_MAX, &piece)) > 0) {
        plan->cost_left += piece.length + ZR_PIECE_COST;
    }
    zr_plan_start_row(plan);
    return more == 0;
}

/* How much of a piece the current row takes; 0: nothing, the row is full. */
static uint64_t zr_plan_share(const struct zr_plan *plan, const struct zr_piece *piece)
{
    uint64_t length = piece->length, target, end;

    if (plan->budget >= length + ZR_PIECE_COST - ZR_CUT_ALIGN / 2) {
        return length;
    }
    if (plan->budget < ZR_PIECE_COST + ZR_CUT_ALIGN / 2) {
        return 0;
    }
    target = plan->budget - ZR_PIECE_COST;
    /* To the nearest aligned end at the destination. */
    end = ZR_ALIGN_DOWN(piece->dst_offset + target + ZR_CUT_ALIGN / 2, ZR_CUT_ALIGN);
    if (end <= piece->dst_offset) {
        return 0;
    }
    return ZR_MIN(end - piece->dst_offset, length);
}

bool zr_plan_next(struct zr_plan *plan, struct zr_piece *piece, unsigned *row_p)
{
    struct zr_walk before = plan->walk;
    uint64_t       whole, share, cost;

    if (zr_walk_next(&plan->walk, UINT64_MAX, piece) <= 0) {
        return false;
    }
    whole = piece->length;
    while (plan->budget != UINT64_MAX && (share = zr_plan_share(plan, piece)) < whole) {
        if (share > 0) {
            plan->walk = before;
            zr_walk_next(&plan->walk, share, piece);
            plan->cost_left += ZR_PIECE_COST; /* the rest is one more piece */
            break;
        }
        plan->rate_left -= plan->rate[plan->row++];
        zr_plan_start_row(plan);
    }
    cost = piece->length + ZR_PIECE_COST;
    plan->cost_left -= cost;
    if (plan->budget != UINT64_MAX) {
        plan->budget -= ZR_MIN(plan->budget, cost);
    }
    *row_p = plan->row;
    return true;
}
