/* Inside src/i915: what a device holds. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_I915_DEVICE_H
#define ZR_I915_DEVICE_H

#include "i915.h"
#include "vma.h"

#include <drm.h>
#include <i915_drm.h>
#include <pthread.h>

/* Does the kernel choose the engine of a slot of one? */
enum zr_balance { ZR_BALANCE_UNKNOWN, ZR_BALANCE_YES, ZR_BALANCE_NO };

struct zr_i915 {
    const struct zr_kif *kif;
    struct zr_kfile     *file;
    struct zr_i915_info  info;
    uint32_t             vm_id;
    bool                 userptr_probe;
    bool                 small_bar; /* part of the device memory is out of the CPU's reach */
    _Atomic uint64_t     said_refused; /* bits of zr_ctx_say_refused */
    atomic_int           balance;      /* enum zr_balance */
    unsigned             opens;      /* guarded by the registry lock of device.c */
    struct zr_i915      *next;       /* ditto */

    pthread_mutex_t lock;       /* guards what follows; lock-order.md level 5 */
    struct zr_vma   vma_device; /* 2 MiB pages: device-local and imported objects */
    struct zr_vma   vma_system; /* 64 KiB */
    struct zr_bo  **table;      /* by handle; NULL where the handle is not ours */
    unsigned        table_size;
};

static inline bool zr_i915_is_discrete(const struct zr_i915 *dev)
{
    return dev->info.lmem_size > 0;
}

static inline int zr_i915_ioctl(struct zr_i915 *dev, unsigned long request, void *arg)
{
    return dev->kif->ioctl(dev->file, request, arg);
}

struct zr_i915_model {
    uint16_t        first, last; /* device ids */
    enum zr_blt_gen gen;
    const char     *name;
};

/* The model of a device id, NULL if it is not known (src/i915/model.c). */
const struct zr_i915_model *zr_i915_model(uint32_t device_id);

#endif
