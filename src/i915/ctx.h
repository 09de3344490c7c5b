/* Inside src/i915: what a context holds. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_I915_CTX_H
#define ZR_I915_CTX_H

#include "device.h"

struct zr_ctx {
    struct zr_i915 *dev;
    atomic_uint     id;        /* of the kernel context; changes in zr_ctx_reset */
    atomic_bool     submitted; /* the syncobj carries a fence of this kernel context */
    uint32_t        syncobj;   /* signalled by the newest submission */
    unsigned        width;    /* rows of the parallel slot, 1: there is none */
    unsigned        siblings; /* places where the kernel may put the set */
    uint8_t         engine[ZR_MAX_ENGINES]; /* row * siblings + place: index in info.engine */
    unsigned        single;   /* index in info.engine of the slot of one engine */
    bool            balanced; /* the kernel chooses it */

    struct drm_i915_gem_exec_object2 *list; /* of the last submission, reused */
    unsigned                          list_size;
};

#endif
