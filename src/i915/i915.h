/* An i915 device as this process uses it: one DRM file, one VM, buffer objects soft-pinned in it,
 * contexts with a parallel slot over the copy engines, and submission. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_I915_H
#define ZR_I915_H

#include "kif.h"
#include "util/util.h"

#define ZR_MAX_ENGINES 16

/* Generation of the copy engine's command set; src/blt has one table per value. */
enum zr_blt_gen {
    ZR_BLT_GEN12,  /* TGL, RKL, ADL: XY_BLOCK_COPY 12 dwords, XY_FAST_COLOR 11 dwords */
    ZR_BLT_GEN125, /* DG2, MTL: XY_BLOCK_COPY 22 dwords, XY_FAST_COLOR 16 dwords */
    ZR_BLT_PVC,    /* Ponte Vecchio: MEM_COPY, MEM_SET */
};

struct zr_engine {
    uint16_t instance;         /* uAPI instance of class COPY */
    uint16_t logical_instance; /* valid where the kernel reports it, else equal to instance */
};

struct zr_i915_info {
    char               name[64]; /* marketing name by device id */
    uint32_t           device_id, revision;
    struct zr_kif_node node;
    enum zr_blt_gen    gen;
    uint64_t           smem_size;  /* bytes of system memory the kernel reports */
    uint64_t           lmem_size;  /* bytes of device-local memory, 0 on integrated parts */
    uint64_t           gtt_size;   /* bytes of GPU address space of a VM */
    uint64_t           timestamp_hz;
    bool               has_llc;
    unsigned           num_engines; /* copy engines, ordered by logical instance */
    struct zr_engine   engine[ZR_MAX_ENGINES];
};

struct zr_i915;

/**
 * Find devices; each is opened at most once per process and lives until zr_i915_release_all.
 * @param kif     which kernel
 * @param devs    filled with at most @a max devices
 * @return ZE_RESULT_SUCCESS with *count (may be 0), or the failure of the first node that exists
 *         but cannot be used (the reason is in zr_last_error).
 */
ze_result_t zr_i915_enumerate(const struct zr_kif *kif, struct zr_i915 **devs, unsigned max,
                              unsigned *count);
void zr_i915_close(struct zr_i915 *dev);
const struct zr_i915_info *zr_i915_info(const struct zr_i915 *dev);
/* Free bytes of device-local memory as the kernel tells this process; 0 if it does not. */
uint64_t zr_i915_lmem_free(struct zr_i915 *dev);
/* See struct zr_kif::completed_batches; class COPY. */
int zr_i915_completed_batches(struct zr_i915 *dev, uint64_t *counts, unsigned max);

/* ---- buffer objects ---- */

enum zr_placement {
    ZR_PLACE_DEVICE, /* device-local; system memory on parts without it */
    ZR_PLACE_SYSTEM,
    ZR_PLACE_EITHER, /* device-local preferred, may move to system memory */
};

enum zr_cache { ZR_CACHE_CACHED, ZR_CACHE_WRITE_COMBINED, ZR_CACHE_UNCACHED };

/* A GEM object of this process, reference counted. Fields are constant after creation. */
struct zr_bo {
    struct zr_i915   *dev;
    atomic_uint       refs;
    uint32_t          handle;
    uint64_t          size;   /* bytes, as rounded by the kernel */
    uint64_t          gpu_va; /* canonical soft-pin address of its first byte in the VM */
    enum zr_placement placement;
    enum zr_cache     cache;
    bool              userptr;
    atomic_bool       shared; /* a dma-buf of it exists or existed; set, never cleared */
    void             *priv;   /* of src/i915 */
};

/** @return SUCCESS; OUT_OF_DEVICE_MEMORY, OUT_OF_HOST_MEMORY, UNSUPPORTED_SIZE,
 * UNSUPPORTED_FEATURE (a cache type the placement cannot have). */
ze_result_t zr_bo_create(struct zr_i915 *dev, uint64_t size, enum zr_placement placement,
                         enum zr_cache cache, struct zr_bo **bo_p);
/** The caller's own pages; @a ptr and @a size are page aligned (INVALID_ARGUMENT else). */
ze_result_t zr_bo_create_userptr(struct zr_i915 *dev, void *ptr, size_t size, struct zr_bo **bo_p);
/** Import a dma-buf; @a fd stays the caller's. One object per buffer: importing a buffer that
 * is known gives another reference to the same zr_bo. */
ze_result_t zr_bo_import(struct zr_i915 *dev, int fd, struct zr_bo **bo_p);
/** The same, on @a dev or, where the memory may only be local to another device, on the first other
 * device of this process that takes it: bo->dev tells which. */
ze_result_t zr_bo_import_near(struct zr_i915 *dev, int fd, struct zr_bo **bo_p);
/** Export as dma-buf; the new fd (CLOEXEC) is the caller's. */
ze_result_t zr_bo_export(struct zr_bo *bo, int *fd_p);
/** Map [offset, offset+length) for the CPU; at @a fixed (replacing what is there) unless NULL.
 * @param prot PROT_* */
ze_result_t zr_bo_map(struct zr_bo *bo, void *fixed, uint64_t offset, size_t length, int prot,
                      void **addr_p);
void zr_bo_unmap(struct zr_bo *bo, void *addr, size_t length);
static inline struct zr_bo *zr_bo_ref(struct zr_bo *bo)
{
    atomic_fetch_add_explicit(&bo->refs, 1, memory_order_relaxed);
    return bo;
}
/* Drop a reference; the last one closes the handle and gives the address back. The caller has
 * seen to it that no batch in flight uses the object (the copy queue holds references). */
void zr_bo_unref(struct zr_bo *bo);

/* ---- contexts and submission ---- */

/* A kernel context: slot 0 is the parallel slot of width() engines, slot 1 one engine, which the
 * kernel chooses where it can and all are alike. With width 1 there is only slot 0. Not thread safe: its queue's lock guards it; zr_ctx_wait and
 * zr_ctx_check alone may run beside any call but zr_ctx_destroy. */
struct zr_ctx;

/** Create a context with the widest parallel slot that the kernel accepts, at most
 * @a max_width (0: no limit) engines, in as many places as there are; each thing refused is said
 * once with the reason (spec/i915-parallel-submit.txt).
 * @return SUCCESS; DEVICE_LOST, OUT_OF_*: what the kernel says of a single engine */
ze_result_t zr_ctx_create(struct zr_i915 *dev, unsigned max_width, struct zr_ctx **ctx_p);
void zr_ctx_destroy(struct zr_ctx *ctx);
unsigned zr_ctx_width(const struct zr_ctx *ctx);
/* Places for a set; the kernel chooses one for each. */
unsigned zr_ctx_siblings(const struct zr_ctx *ctx);
/* uAPI instance of the engine of the slot of one, -1: the kernel chooses. */
int zr_ctx_single(const struct zr_ctx *ctx);
/* uAPI instance of the copy engine of a row in a place. */
unsigned zr_ctx_engine_at(const struct zr_ctx *ctx, unsigned row, unsigned place);

struct zr_exec_object {
    struct zr_bo *bo;
    bool          write;
};

/**
 * One execbuf2.
 * @param wide       true: width() batches on the parallel slot, batch j on engine row j;
 *                   false: batches[0] on the single-engine slot
 * @param objects    every object the batches touch, each once, batches excluded
 * @param wait_prev  start only when everything this context submitted before is complete
 * @return SUCCESS; DEVICE_LOST (EIO: banned or wedged), OUT_OF_*; nothing runs on failure.
 */
ze_result_t zr_ctx_exec(struct zr_ctx *ctx, bool wide, struct zr_bo *const *batches,
                        const struct zr_exec_object *objects, unsigned count, bool wait_prev);
/** Wait for everything submitted so far, at most @a timeout_ns (UINT64_MAX: forever).
 * @return SUCCESS or NOT_READY; DEVICE_LOST. */
ze_result_t zr_ctx_wait(struct zr_ctx *ctx, uint64_t timeout_ns);
/** Ask the kernel for reset statistics. @return SUCCESS, or DEVICE_LOST when a batch of this
 * context hung: the context is banned. */
ze_result_t zr_ctx_check(struct zr_ctx *ctx);
/** Put a fresh kernel context of the same width in the place of one that was lost; what it had
 * queued is dropped. @return SUCCESS; DEVICE_LOST when the kernel gives no context any more. */
ze_result_t zr_ctx_reset(struct zr_ctx *ctx);

#endif
