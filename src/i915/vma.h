/* GPU addresses of one zone of a VM: first fit, holes coalesce. Pure arithmetic, no kernel. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_VMA_H
#define ZR_VMA_H

#include "util/util.h"

struct zr_vma_hole {
    uint64_t start, size;
};

/* Guarded by the lock of the device. Holes are ordered by address and never touch. */
struct zr_vma {
    struct zr_vma_hole *holes;
    unsigned            count, capacity;
    unsigned            live; /* allocations; count <= live + 1, so that free needs no memory */
};

/** @return 0 or -ENOMEM */
int zr_vma_init(struct zr_vma *vma, uint64_t start, uint64_t size);
void zr_vma_fini(struct zr_vma *vma);
/** @param align power of two. @return 0, -ENOSPC or -ENOMEM */
int zr_vma_alloc(struct zr_vma *vma, uint64_t size, uint64_t align, uint64_t *start_p);
/* Exactly what one zr_vma_alloc gave. */
void zr_vma_free(struct zr_vma *vma, uint64_t start, uint64_t size);

/* Bit 47 repeated upwards: the form in which i915 takes a 48-bit address. */
static inline uint64_t zr_vma_canonical(uint64_t address)
{
    return (uint64_t)((int64_t)(address << 16) >> 16);
}

static inline uint64_t zr_vma_from_canonical(uint64_t address)
{
    return address & ((UINT64_C(1) << 48) - 1);
}

#endif
