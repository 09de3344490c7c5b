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
    unsigned        first, width; /* engines info.engine[first..first+width) */

    struct drm_i915_gem_exec_object2 *list; /* of the last submission, reused */
    unsigned                          list_size;
};

#endif
