/* Inside src/mem: the VA space as a sorted array of regions, each with its sorted extents.
 *
 *   slots     | reservation |   | USM | | import  |     sorted by base, never overlapping
 *   extents   | A | B | | C |   |  D  | | E |  F  |     of one region, sorted by base
 *
 * Lock order: zr_va.change, then zr_va.lock; nothing else is locked inside them. Both are free
 * while subscribers are called and while objects are dropped.
 */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_VASPACE_H
#define ZR_VASPACE_H

#include "mem.h"

#include <pthread.h>

#define ZR_CPU_PAGE 4096u

/* A piece of VA with one object behind it. */
struct zr_extent {
    uintptr_t       base;
    size_t          size;
    struct zr_phys *phys; /* holds a reference */
    uint64_t        offset;
    uint64_t        stamp; /* number of this mapping, never reused */
};

/* Access attribute from start to the next span's start or the region's end. */
struct zr_span {
    uintptr_t                    start;
    ze_memory_access_attribute_t access;
};

struct zr_region {
    uintptr_t         base; /* what the caller sees */
    size_t            size;
    uintptr_t         vm_base; /* what was reserved from the kernel */
    size_t            vm_size;
    enum zr_va_kind   kind; /* ZR_VA_NONE: a reservation */
    ze_memory_type_t  type;
    uint64_t          id;
    uint64_t          generation;
    struct zr_i915   *dev;
    void             *tag;
    struct zr_extent *extents;
    unsigned          count, capacity;
    struct zr_span   *spans; /* of a reservation only */
    unsigned          span_count;
};

struct zr_slot {
    uintptr_t         base, end;
    struct zr_region *region;
};

struct zr_va_space {
    pthread_mutex_t  change; /* one change at a time: find, map for the CPU, insert */
    pthread_rwlock_t lock;   /* guards all below; a writer holds change too, so that who holds
                                change may read without it */
    struct zr_slot  *slots;
    unsigned         count, capacity;
};
extern struct zr_va_space zr_va;

/* What subscribers are to be told. */
struct zr_notice {
    uintptr_t        base;
    size_t           size;
    ze_memory_type_t type;
};

/* Number for an id, a stamp or a generation. */
uint64_t zr_va_stamp(void);
/* Live objects. */
uint64_t zr_phys_count(void);

/* ---- kept backing (pool.c) ---- */

/* A buffer object of exactly this size and placement, its reference is the caller's; NULL: none. */
struct zr_bo *zr_pool_take(const struct zr_i915 *dev, uint64_t size, enum zr_placement placement);
/* Takes the caller's reference over; false: not fit for it, the reference stays the caller's. */
bool zr_pool_put(struct zr_bo *bo);
uint64_t zr_pool_bytes(void);

/* Reserve @a size bytes of VA without access: at @a hint if that is free and on a small page, else
 * aligned to a power of two; NULL: none left. */
void *zr_vm_reserve(const void *hint, size_t size, size_t alignment);
/* Alignment a region of this size gets. */
size_t zr_va_page_size(size_t size);
/* The type the specification gives memory of this object. */
ze_memory_type_t zr_phys_type(const struct zr_phys *phys);
int zr_access_prot(ze_memory_access_attribute_t access);

/* Index of the last slot that starts at or before @a at, or -1. A lock is held. */
int zr_slot_find(uintptr_t at);
/* The region around @a at or NULL. A lock is held. */
struct zr_region *zr_region_at(uintptr_t at);
/* Index of the first extent that ends after @a at; region->count if none. A lock is held. */
unsigned zr_extent_find(const struct zr_region *region, uintptr_t at);
/* Make room for @a count extents more. zr_va.change is held, zr_va.lock is not. */
ze_result_t zr_region_make_room(struct zr_region *region, unsigned count);

/* A region over [vm_base, vm_base+vm_size) with room for @a extents; NULL: no memory, and the VA
 * is still the caller's. */
struct zr_region *zr_region_new(enum zr_va_kind kind, void *vm_base, size_t vm_size,
                                unsigned extents);
/* Give the VA back, drop the objects. The region is not in the VA space. */
void zr_region_free(struct zr_region *region);
/* Put a region in the VA space, which owns it then. */
ze_result_t zr_region_insert(struct zr_region *region);
/* Take the region of @a kind that starts at @a base (and has @a size, unless 0) out, after telling
 * the subscribers. INVALID_ARGUMENT: there is none. */
ze_result_t zr_region_take(uintptr_t base, size_t size, enum zr_va_kind kind,
                           struct zr_region **region_p);

/* Set [base, end) of a reservation. zr_va.change is held, zr_va.lock is not. */
ze_result_t zr_spans_set(struct zr_region *region, uintptr_t base, uintptr_t end,
                         ze_memory_access_attribute_t access);

/* True if anybody subscribed. */
bool zr_subscribers_any(void);
void zr_subscribers_call(int mapped, const struct zr_notice *notices, unsigned count);

#endif
