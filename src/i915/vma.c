/* First fit over an ordered array of holes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "vma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int zr_vma_init(struct zr_vma *vma, uint64_t start, uint64_t size)
{
    *vma       = (struct zr_vma){.count = 1, .capacity = 64};
    vma->holes = malloc(vma->capacity * sizeof(*vma->holes));
    if (vma->holes == NULL) {
        return -ENOMEM;
    }
    vma->holes[0] = (struct zr_vma_hole){start, size};
    return 0;
}

void zr_vma_fini(struct zr_vma *vma)
{
    free(vma->holes);
    vma->holes = NULL;
}

/* Room for the most holes there can be with one more allocation. */
static int zr_vma_reserve(struct zr_vma *vma)
{
    unsigned            capacity = vma->capacity;
    struct zr_vma_hole *holes;

    if (vma->live + 2 < capacity) {
        return 0;
    }
    capacity *= 2;
    holes = realloc(vma->holes, capacity * sizeof(*holes));
    if (holes == NULL) {
        return -ENOMEM;
    }
    vma->holes    = holes;
    vma->capacity = capacity;
    return 0;
}

static void zr_vma_insert(struct zr_vma *vma, unsigned at, uint64_t start, uint64_t size)
{
    memmove(&vma->holes[at + 1], &vma->holes[at], (vma->count - at) * sizeof(*vma->holes));
    vma->holes[at] = (struct zr_vma_hole){start, size};
    vma->count++;
}

static void zr_vma_remove(struct zr_vma *vma, unsigned at)
{
    vma->count--;
    memmove(&vma->holes[at], &vma->holes[at + 1], (vma->count - at) * sizeof(*vma->holes));
}

int zr_vma_alloc(struct zr_vma *vma, uint64_t size, uint64_t align, uint64_t *start_p)
{
    struct zr_vma_hole *hole;
    uint64_t            start, lead, tail;
    unsigned            i;

    if (size == 0) {
        return -EINVAL;
    }
    if (zr_vma_reserve(vma) != 0) {
        return -ENOMEM;
    }
    for (i = 0; i < vma->count; i++) {
        hole  = &vma->holes[i];
        start = ZR_ALIGN_UP(hole->start, align);
        lead  = start - hole->start;
        if (lead > hole->size || hole->size - lead < size) {
            continue;
        }
        tail = hole->size - lead - size;
        if (lead > 0) {
            hole->size = lead;
            if (tail > 0) {
                zr_vma_insert(vma, i + 1, start + size, tail);
            }
        } else if (tail > 0) {
            *hole = (struct zr_vma_hole){start + size, tail};
        } else {
            zr_vma_remove(vma, i);
        }
        vma->live++;
        *start_p = start;
        return 0;
    }
    return -ENOSPC;
}

void zr_vma_free(struct zr_vma *vma, uint64_t start, uint64_t size)
{
    unsigned low = 0, high = vma->count, mid;
    bool     joins_before, joins_after;

    while (low < high) {
        mid = low + (high - low) / 2;
        if (vma->holes[mid].start < start) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    joins_before = low > 0 && vma->holes[low - 1].start + vma->holes[low - 1].size == start;
    joins_after  = low < vma->count && start + size == vma->holes[low].start;
    if (joins_before) {
        vma->holes[low - 1].size += size;
        if (joins_after) {
            vma->holes[low - 1].size += vma->holes[low].size;
            zr_vma_remove(vma, low);
        }
    } else if (joins_after) {
        vma->holes[low].start = start;
        vma->holes[low].size += size;
    } else {
        zr_vma_insert(vma, low, start, size);
    }
    vma->live--;
}
