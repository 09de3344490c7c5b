/* GPU addresses: aligned, never overlapping, never lost, coalesced again, canonical. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "i915/vma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned bad;

#define CHECK(cond)                                                                           \
    do {                                                                                      \
        if (!(cond)) {                                                                        \
            printf("%s:%d: not true: %s\n", __func__, __LINE__, #cond);                       \
            bad++;                                                                            \
        }                                                                                     \
    } while (0)

#define START (UINT64_C(4) << 30)
#define SIZE  (UINT64_C(1) << 40)
#define LIVE  2000

static void test_canonical(void)
{
    static const struct {
        uint64_t plain, canonical;
    } cases[] = {
        {0x1000, 0x1000},
        {UINT64_C(0x7fffffffffff), UINT64_C(0x7fffffffffff)},
        {UINT64_C(0x800000000000), UINT64_C(0xffff800000000000)},
        {UINT64_C(0xfffffffff000), UINT64_C(0xfffffffffffff000)},
    };
    unsigned i;

    for (i = 0; i < ZR_ARRAY_SIZE(cases); i++) {
        CHECK(zr_vma_canonical(cases[i].plain) == cases[i].canonical);
        CHECK(zr_vma_from_canonical(cases[i].canonical) == cases[i].plain);
    }
}

static void test_full(void)
{
    struct zr_vma vma;
    uint64_t      a, b;

    CHECK(zr_vma_init(&vma, START, 8 * ZR_MIB) == 0);
    CHECK(zr_vma_alloc(&vma, 0, 4096, &a) == -EINVAL);
    CHECK(zr_vma_alloc(&vma, 6 * ZR_MIB, 2 * ZR_MIB, &a) == 0 && a == START);
    CHECK(zr_vma_alloc(&vma, 4 * ZR_MIB, 2 * ZR_MIB, &b) == -ENOSPC);
    CHECK(zr_vma_alloc(&vma, UINT64_MAX - 4096, 4096, &b) == -ENOSPC);
    CHECK(zr_vma_alloc(&vma, 2 * ZR_MIB, 2 * ZR_MIB, &b) == 0 && b == START + 6 * ZR_MIB);
    CHECK(vma.count == 0);
    zr_vma_free(&vma, a, 6 * ZR_MIB);
    zr_vma_free(&vma, b, 2 * ZR_MIB);
    CHECK(vma.count == 1 && vma.holes[0].start == START && vma.holes[0].size == 8 * ZR_MIB);
    zr_vma_fini(&vma);
}

static void test_random(void)
{
    static struct {
        uint64_t start, size;
    } live[LIVE];
    struct zr_vma vma;
    uint64_t      used = 0, size, align, start, holes = 0;
    unsigned      i, j, step, count = 0;

    srand(1);
    CHECK(zr_vma_init(&vma, START, SIZE) == 0);
    for (step = 0; step < 40000; step++) {
        if (count < LIVE && (rand() & 1)) {
            align = UINT64_C(4096) << (rand() % 10);
            size  = 4096 * (uint64_t)(1 + rand() % 5000);
            CHECK(zr_vma_alloc(&vma, size, align, &start) == 0);
            CHECK(start % align == 0 && start >= START && start + size <= START + SIZE);
            live[count].start  = start;
            live[count++].size = size;
            used += size;
        } else if (count > 0) {
            i = (unsigned)rand() % count;
            zr_vma_free(&vma, live[i].start, live[i].size);
            used -= live[i].size;
            live[i] = live[--count];
        }
        CHECK(vma.live == count && vma.count <= count + 1);
    }
    for (i = 0; i < vma.count; i++) {
        holes += vma.holes[i].size;
        CHECK(i == 0 || vma.holes[i - 1].start + vma.holes[i - 1].size < vma.holes[i].start);
    }
    CHECK(holes + used == SIZE);
    for (i = 0; i < count; i++) {
        for (j = 0; j < i; j++) {
            CHECK(live[i].start + live[i].size <= live[j].start ||
                  live[j].start + live[j].size <= live[i].start);
        }
    }
    while (count > 0) {
        count--;
        zr_vma_free(&vma, live[count].start, live[count].size);
    }
    CHECK(vma.count == 1 && vma.holes[0].start == START && vma.holes[0].size == SIZE);
    zr_vma_fini(&vma);
}

int main(void)
{
    test_canonical();
    test_full();
    test_random();
    printf("%u wrong\n", bad);
    return bad != 0;
}
