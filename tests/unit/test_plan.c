/* Cutting a copy over engines: no byte lost, none twice, and all engines end together. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "blt/plan.h"

#include <stdio.h>
#include <stdlib.h>

static unsigned bad;

#define CHECK(cond, ...)                                                                      \
    do {                                                                                      \
        if (!(cond)) {                                                                        \
            printf("%s:%d: not true: %s; ", __func__, __LINE__, #cond);                       \
            printf(__VA_ARGS__);                                                              \
            printf("\n");                                                                     \
            bad++;                                                                            \
        }                                                                                     \
    } while (0)

#define MAX_SEGS 512

/* Segments of random lengths between low and high until they cover length. */
static unsigned make_segs(struct zr_seg *segs, struct zr_bo *bos, uint64_t length, uint64_t low,
                          uint64_t high)
{
    unsigned count = 0;
    uint64_t done  = 0;

    while (done < length && count < MAX_SEGS) {
        segs[count] = (struct zr_seg){.bo     = &bos[count],
                                      .offset = (uint64_t)rand() % 100000,
                                      .length = low + (uint64_t)rand() % (high - low + 1)};
        if (count == MAX_SEGS - 1) {
            segs[count].length = length - done;
        }
        done += segs[count++].length;
    }
    return count;
}

/* Every piece must continue where the last one ended, on both sides. */
static void check_piece(const struct zr_seg *segs, unsigned count, uint64_t position,
                        const struct zr_bo *bo, uint64_t offset, uint64_t length)
{
    unsigned i;

    for (i = 0; i < count && position >= segs[i].length; i++) {
        position -= segs[i].length;
    }
    CHECK(i < count && segs[i].bo == bo && segs[i].offset + position == offset &&
              position + length <= segs[i].length,
          "position %llu", (unsigned long long)position);
}

static const struct {
    unsigned rows;
    uint64_t length, dst_low, dst_high, src_low, src_high;
    bool     balanced; /* long enough that the slowest may take at most 5 % more than the mean */
} cases[] = {
    {1, 12345, 1, 1000, 1, 3000, true},
    {9, 1, 1, 1, 1, 1, false},
    {9, 300, 1, 100, 1, 70, false},
    {4, 65536, 100, 9000, 4096, 4096, false},
    {2, 4 << 20, 1 << 20, 1 << 20, 64 << 10, 3 << 20, true},
    {4, 4 << 20, 4 << 10, 1 << 20, 64 << 10, 64 << 10, true},
    {8, 4 << 20, 8 << 20, 8 << 20, 64 << 10, 2 << 20, true},
    {9, 4 << 20, 8 << 20, 8 << 20, 8 << 20, 8 << 20, true},
    {9, 4 << 20, 64 << 10, 700 << 10, 64 << 10, 2 << 20, true},
    {9, (4 << 20) + 13, 64 << 10, 500001, 33, 2 << 20, true},
    {9, 64 << 20, 256 << 10, 32 << 20, 1 << 20, 16 << 20, true},
    {9, 64 << 20, 1 << 20, 8 << 20, 64 << 20, 64 << 20, true},
    {16, 16 << 20, 64 << 10, 64 << 10, 1 << 20, 3 << 20, true},
};

static void test_case(unsigned c, const uint32_t *rate, uint64_t row_cost)
{
    static struct zr_bo  dst_bos[MAX_SEGS], src_bos[MAX_SEGS];
    static struct zr_seg dst[MAX_SEGS], src[MAX_SEGS];
    uint64_t             cost[ZR_MAX_ENGINES] = {0}, position = 0, rates = 0, total = 0;
    unsigned             nd, ns, row, last = 0, i;
    double               worst = 0, mean;
    struct zr_walk       walk;
    struct zr_plan       plan;
    struct zr_piece      piece;

    nd = make_segs(dst, dst_bos, cases[c].length, cases[c].dst_low, cases[c].dst_high);
    ns = make_segs(src, src_bos, cases[c].length, cases[c].src_low, cases[c].src_high);
    zr_walk_init(&walk, dst, nd, src, ns, cases[c].length);
    CHECK(zr_plan_init(&plan, &walk, cases[c].rows, rate, row_cost), "case %u", c);
    while (zr_plan_next(&plan, &piece, &row)) {
        CHECK(piece.position == position && piece.length > 0, "case %u", c);
        CHECK(row >= last && row < cases[c].rows, "case %u: row %u after %u", c, row, last);
        check_piece(dst, nd, position, piece.dst, piece.dst_offset, piece.length);
        check_piece(src, ns, position, piece.src, piece.src_offset, piece.length);
        position += piece.length;
        cost[row] += piece.length + ZR_PIECE_COST;
        last = row;
    }
    CHECK(position == cases[c].length, "case %u: %llu bytes", c, (unsigned long long)position);
    for (i = 0; i < cases[c].rows; i++) {
        cost[i] += row_cost;
        rates += rate != NULL ? rate[i] : 1;
        total += cost[i];
    }
    mean = (double)total / (double)rates;
    for (i = 0; i < cases[c].rows; i++) {
        worst = ZR_MAX(worst, (double)cost[i] / (rate != NULL ? rate[i] : 1) / mean);
    }
    CHECK(!cases[c].balanced || worst <= 1.05, "case %u: slowest/mean %.4f", c, worst);
}

static void test_short_lists(void)
{
    struct zr_bo    bo  = {0};
    struct zr_seg   ten = {&bo, 0, 10}, eleven = {&bo, 0, 11};
    struct zr_walk  walk;
    struct zr_plan  plan;
    struct zr_piece piece;

    zr_walk_init(&walk, &ten, 1, &eleven, 1, 11);
    CHECK(!zr_plan_init(&plan, &walk, 2, NULL, 0), "destination");
    zr_walk_init(&walk, &eleven, 1, &ten, 1, 11);
    CHECK(!zr_plan_init(&plan, &walk, 2, NULL, 0), "source");
    zr_walk_init(&walk, &eleven, 1, NULL, 0, 11);
    CHECK(zr_walk_next(&walk, 4, &piece) == 1 && piece.length == 4 && piece.src == NULL, "fill");
    CHECK(zr_walk_next(&walk, UINT64_MAX, &piece) == 1 && piece.length == 7, "rest");
    CHECK(zr_walk_next(&walk, UINT64_MAX, &piece) == 0, "end");
}

int main(void)
{
    static const uint32_t uneven[ZR_MAX_ENGINES] = {4, 1, 2, 2, 3, 1, 1, 2, 4, 1, 1, 2, 2, 1, 3, 1};
    unsigned              c, seed;

    for (c = 0; c < ZR_ARRAY_SIZE(cases); c++) {
        for (seed = 0; seed < 50; seed++) {
            srand(seed);
            test_case(c, NULL, seed % 2 * 32768);
        }
    }
    srand(7);
    test_case(10, uneven, 0);
    test_case(11, uneven, 0);
    test_case(10, uneven, 32768);
    test_case(11, uneven, 32768);
    test_short_lists();
    printf("%zu cases, %u wrong\n", ZR_ARRAY_SIZE(cases), bad);
    return bad != 0;
}
