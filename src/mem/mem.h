/* Physical memory objects, the process's VA space of reservations and mappings, and ranges: the
 * ordered segments of objects behind a piece of VA.
 *
 *   reservation   |<------------------------ zr_va_reserve ------------------------>|
 *   mappings      |== object A @0 ==|== object B @64K ==|      (hole)     |== C @0 =|
 *   walk                    [~~~~~~~~~~~~~~~~~~~)   range = {A, 24K, 40K} {B, 64K, 24K}
 */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_MEM_H
#define ZR_MEM_H

#include "i915/i915.h"

/* ---- physical memory objects ---- */

enum zr_backing {
    ZR_BACKING_SECTION,    /* pageable shared memory: system-memory BO */
    ZR_BACKING_CONTIGUOUS, /* device-local memory */
    ZR_BACKING_PAGES,      /* the caller's own pages: userptr BO */
    ZR_BACKING_IO_SPACE,   /* memory of another device or process: imported dma-buf */
};

/* Reference counted. Fields are constant after creation; of an object created without a device
 * those that its first open sets are constant from then on. */
struct zr_phys {
    atomic_uint     refs;
    uint64_t        id;   /* unique in this process, never reused */
    uint64_t        size; /* bytes, page aligned */
    enum zr_backing backing;
    enum zr_cache   cache;
    uint64_t        context_word; /* the caller's, for debugging only */
    bool            device_local; /* of an import: as its exporter says */
    bool            movable; /* may go to system memory, where every device reaches it */
    bool            keep; /* its BO goes to the pool of kept backing when it is dropped */
    void           *pages; /* of ZR_BACKING_PAGES */
    int             fd;    /* of ZR_BACKING_IO_SPACE before it is open anywhere; else -1 */
    struct zr_bo   *bo;   /* on the device it was first opened on; NULL before */
    void           *priv; /* of phys.c: the object on further devices */
};

/* True if the CPU may touch it where it is mapped: everything but device-local memory (rule 5 of
 * DESIGN.md), and that too with ZERANGE_DEVICE_CPU_ACCESS=1; and but the caller's own pages, which
 * the CPU sees where they are and no kernel maps a second time. */
bool zr_phys_cpu_visible(const struct zr_phys *phys);

/* What an object is made of. */
struct zr_phys_spec {
    enum zr_backing backing;
    enum zr_cache   cache;
    bool            any_cache;    /* of a dma-buf: whatever its memory has */
    uint64_t        size;         /* bytes, multiple of the small page */
    uint64_t        context_word;
    void           *pages;        /* ZR_BACKING_PAGES: the caller's memory, on a CPU page */
    int             fd;           /* ZR_BACKING_IO_SPACE: a dma-buf; stays the caller's */
    bool            movable;      /* ZR_BACKING_CONTIGUOUS: may go to system memory when another
                                     device needs it */
};
/** Create an object, on @a dev or, NULL, on none yet.
 * @return UNSUPPORTED_SIZE, UNSUPPORTED_ALIGNMENT; INVALID_ARGUMENT: section with uncached, no
 *         pages, no such fd; INVALID_SIZE: longer than the dma-buf; UNSUPPORTED_FEATURE: a cache
 *         type the memory cannot have; OUT_OF_*. */
ze_result_t zr_phys_make(struct zr_i915 *dev, const struct zr_phys_spec *spec,
                         struct zr_phys **phys_p);
/** Make it reachable from @a dev: the first device to open an object gives it its backing.
 * @return as zr_phys_make; UNSUPPORTED_FEATURE where it cannot be reached from @a dev. */
ze_result_t zr_phys_open(struct zr_phys *phys, struct zr_i915 *dev);
/** Create a section or contiguous memory of @a size bytes on @a dev.
 * @return as zr_phys_make; INVALID_ARGUMENT for any other backing. */
ze_result_t zr_phys_create(struct zr_i915 *dev, enum zr_backing backing, enum zr_cache cache,
                           uint64_t size, uint64_t context_word, struct zr_phys **phys_p);
/** Wrap an object that exists (import, userptr); takes over the caller's reference on @a bo, on
 * failure too. @return OUT_OF_HOST_MEMORY */
ze_result_t zr_phys_wrap(struct zr_bo *bo, enum zr_backing backing, struct zr_phys **phys_p);
/** Have @a ended called with the id of each object that ends. Before there are any threads. */
void zr_phys_watch_end(void (*ended)(uint64_t id));
/** One more reference; @return @a phys. */
struct zr_phys *zr_phys_ref(struct zr_phys *phys);
/** One reference less, the last one ends the object; NULL: nothing. */
void zr_phys_unref(struct zr_phys *phys);
/** The object's BO on @a dev for a copy; a borrowed pointer that lives as long as the object.
 * @return UNSUPPORTED_FEATURE where the object cannot be reached from @a dev, or is open nowhere;
 *         OUT_OF_*. */
ze_result_t zr_phys_bo(struct zr_phys *phys, struct zr_i915 *dev, struct zr_bo **bo_p);

/* ---- ranges ---- */

struct zr_segment {
    struct zr_phys *object;
    uint64_t        offset, length; /* bytes in the object */
};

/* An ordered list of segments; a value: it holds a reference on each object. */
struct zr_range {
    uint64_t           length; /* sum of the segments' lengths */
    unsigned           count, capacity;
    struct zr_segment *segments; /* inline_segments while count is small */
    struct zr_segment  inline_segments[16];
};

void zr_range_init(struct zr_range *range);
void zr_range_clear(struct zr_range *range); /* drops references, usable again after */
/** Make @a copy, which need not be initialised, hold what @a range holds. OUT_OF_HOST_MEMORY. */
ze_result_t zr_range_copy(struct zr_range *copy, const struct zr_range *range);
/** Append; a segment that continues the last one is merged into it. OUT_OF_HOST_MEMORY. */
ze_result_t zr_range_append(struct zr_range *range, struct zr_phys *object, uint64_t offset,
                            uint64_t length);

/* ---- VA space: one per process ---- */

enum zr_va_kind {
    ZR_VA_NONE    = 0,
    ZR_VA_MAPPING = 1 << 0, /* reservation mapped to physical objects */
    ZR_VA_USM     = 1 << 1, /* device, host or shared allocation */
    ZR_VA_IMPORT  = 1 << 2, /* opened IPC handle */
};

#define ZR_PAGE_SMALL (64 * ZR_KIB) /* page size below 2 MiB */
#define ZR_PAGE_LARGE (2 * ZR_MIB)

/** @param hint wanted start or NULL; another place is given where it is taken or not aligned.
 * @param size multiple of the small page, not 0 (UNSUPPORTED_SIZE). @return OUT_OF_HOST_MEMORY */
ze_result_t zr_va_reserve(const void *hint, size_t size, void **ptr_p);
/** Frees a whole reservation; INVALID_ARGUMENT if [ptr, size) is not one. Mappings in it go. */
ze_result_t zr_va_unreserve(const void *ptr, size_t size);
/** Map [offset, offset+size) of the object at @a ptr; the mapping holds a reference.
 * @return UNSUPPORTED_ALIGNMENT, UNSUPPORTED_SIZE: not whole small pages; INVALID_SIZE: beyond the
 *         object's end; INVALID_ARGUMENT: not inside one reservation, or part is mapped already;
 *         INVALID_ENUMERATION: access; OUT_OF_HOST_MEMORY. */
ze_result_t zr_va_map(const void *ptr, size_t size, struct zr_phys *phys, uint64_t offset,
                      ze_memory_access_attribute_t access);
/** Unmaps whole mappings inside [ptr, size), which lies in one reservation; what is not mapped
 * there stays so. @return UNSUPPORTED_ALIGNMENT, UNSUPPORTED_SIZE: not whole small pages;
 * INVALID_ARGUMENT if a mapping is cut or the window is not inside one; OUT_OF_HOST_MEMORY. */
ze_result_t zr_va_unmap(const void *ptr, size_t size);
/** Access attribute of [ptr, size), mapped or not, inside one reservation: the CPU's where it sees
 * the memory; engines do not ask. @return UNSUPPORTED_ALIGNMENT, UNSUPPORTED_SIZE,
 * INVALID_ENUMERATION; INVALID_ARGUMENT: not inside one reservation; OUT_OF_*. */
ze_result_t zr_va_set_access(const void *ptr, size_t size, ze_memory_access_attribute_t access);
/** @param access_p of the first page; NONE where none was set
 * @param size_p bytes from @a ptr on that have it, at most @a size
 * @return as zr_va_set_access */
ze_result_t zr_va_get_access(const void *ptr, size_t size, ze_memory_access_attribute_t *access_p,
                             size_t *size_p);

/** Allocate USM: an object of its own behind its own VA. @param type ZE_MEMORY_TYPE_DEVICE
 * (PROT_NONE for the CPU), _HOST or _SHARED (CPU mapped). @param alignment 0 or a power of two.
 * @param eager  spend memory for speed: its pages are there at once, its backing is kept for the
 *               next allocation of the same size when it is freed
 * @return UNSUPPORTED_SIZE: 0 bytes or too many for an address; UNSUPPORTED_ALIGNMENT; OUT_OF_* */
ze_result_t zr_usm_alloc(struct zr_i915 *dev, ze_memory_type_t type, size_t size,
                         size_t alignment, bool eager, void **ptr_p);
/** Give all kept backing back. @return false: there was none. */
bool zr_pool_drop(void);
/** @return INVALID_ARGUMENT if @a ptr is not the base of an allocation */
ze_result_t zr_usm_free(void *ptr);

/** Give a range a fresh VA (import): the first byte at an address congruent to @a lead modulo
 * the small page. CPU-visible segments are CPU mapped where page alignment allows.
 * The region takes its own references. @param tag kept with it, found by zr_va_query.
 * @return INVALID_ARGUMENT: an empty range; OUT_OF_*: no address space or no mapping left. */
ze_result_t zr_va_adopt(const struct zr_range *range, size_t lead, struct zr_i915 *dev,
                        void *tag, void **ptr_p);
/** @return INVALID_ARGUMENT if @a ptr is not an adopted base; *tag_p else. */
ze_result_t zr_va_release(const void *ptr, void **tag_p);

struct zr_va_info {
    enum zr_va_kind  kind;
    ze_memory_type_t type;       /* DEVICE, HOST, SHARED; of a mapping: of its object */
    uintptr_t        base;       /* of the USM allocation, the import, or the one mapping */
    size_t           size;
    uintptr_t        region_base; /* of the whole reservation; else as base */
    size_t           region_size;
    uint64_t         id;         /* allocation id: never reused in this process */
    uint64_t         generation; /* bumped by each map or unmap in the region */
    size_t           page_size;
    struct zr_i915  *dev;
    void            *tag; /* of an import */
};

/** What is at @a ptr: a hot path, takes no exclusive lock. @return false (kind NONE): nothing of
 * ours; a reserved address without mapping has kind NONE but region_base set. */
bool zr_va_query(const void *ptr, struct zr_va_info *info);

/**
 * The objects behind [ptr, ptr+size): walked once.
 * @param kinds_p  bits of every zr_va_kind met, also on failure
 * @param gen_p    number of the youngest mapping in the window: another one, never seen before,
 *                 after any mapping in the window was replaced; may be NULL
 * @param range    need not be initialised; empty on failure
 * @return SUCCESS with @a range filled (the caller clears it); ADDRESS_NOT_FOUND with the first
 *         unmapped address in zr_last_error; INVALID_ARGUMENT: ptr+size overflows; INVALID_SIZE:
 *         size is 0; OUT_OF_HOST_MEMORY.
 */
ze_result_t zr_range_walk(const void *ptr, size_t size, struct zr_range *range,
                          unsigned *kinds_p, uint64_t *gen_p);

/* Called with no lock of the driver held: after a map, before an unmap or free. */
typedef void (*zr_mapping_cb)(void *arg, int mapped, void *ptr, size_t size,
                              ze_memory_type_t type);
/** Have @a cb called with @a arg from now on. @return INVALID_NULL_POINTER, OUT_OF_HOST_MEMORY */
ze_result_t zr_va_subscribe(zr_mapping_cb cb, void *arg);
/** Waits for calls of it in other threads; a callback may remove itself. Unknown: nothing. */
void zr_va_unsubscribe(zr_mapping_cb cb, void *arg);

/* Live objects, mappings and bytes, for tests that count. */
struct zr_mem_counts {
    uint64_t objects, regions, mappings;
    uint64_t kept_bytes; /* freed backing that waits to be used again */
};
void zr_mem_counts(struct zr_mem_counts *counts);

#endif
