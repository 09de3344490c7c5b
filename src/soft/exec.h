/* An execbuf on its way through the parts of its handler. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_SOFT_EXEC_H
#define ZR_SOFT_EXEC_H

#include "soft.h"

struct zr_soft_exec_fence {
    struct zr_soft_syncobj *syncobj; /* a reference */
    struct zr_soft_fence   *wait;
    bool                    signal;
    uint64_t                point; /* to signal; 0: binary */
};

struct zr_soft_exec {
    struct zr_soft_file              *file;
    struct drm_i915_gem_execbuffer2  *args;
    struct zr_soft_ctx               *ctx;
    struct zr_soft_slot              *slot;
    unsigned                          width, count;
    uint64_t                          bytes; /* of all objects */
    struct drm_i915_gem_exec_object2 *object;
    struct zr_soft_bo               **bo; /* borrowed from the handles: the lock is held */
    struct zr_soft_exec_fence        *fence;
    unsigned                          num_fences;
    struct zr_soft_fence             *in_fence;
    bool                             *moved;    /* objects not where the caller thought */
    bool                             *lasting;  /* objects that VM_BIND has bound there */
    bool                              tells;    /* the user fence of backports rules */
    uint64_t                          tell_at, tell_value;
    bool                              relocate; /* NO_RELOC was not given, or an object moved */
};

uint64_t zr_soft_canonical(const struct zr_soft_dev *dev, uint64_t address);
uint64_t zr_soft_plain(const struct zr_soft_dev *dev, uint64_t address);

/* ---- exec_fence.c ---- */
int  zr_soft_exec_read_fences(struct zr_soft_exec *x);
int  zr_soft_exec_read_in_fence(struct zr_soft_exec *x);
int  zr_soft_exec_await_fences(const struct zr_soft_exec *x, struct zr_soft_req *req);
int  zr_soft_exec_signal_fences(const struct zr_soft_exec *x, struct zr_soft_fence *fence);
void zr_soft_exec_drop_fences(struct zr_soft_exec *x);

/* ---- reloc.c: the objects are bound ---- */
int zr_soft_exec_relocate(struct zr_soft_exec *x);

#endif
