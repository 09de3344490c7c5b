/* A small client of the kernel interface for tests: objects, contexts and batches by hand. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_TEST_SOFT_CLIENT_H
#define ZR_TEST_SOFT_CLIENT_H

#include <errno.h>
#include <fcntl.h>
#include <i915_drm.h>
#include <drm.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "i915/kif.h"
#include "util/config.h"

#define NEW_OBJECT_FLAGS (EXEC_OBJECT_PINNED | EXEC_OBJECT_SUPPORTS_48B_ADDRESS)

struct client {
    const struct zr_kif *kif;
    struct zr_kfile     *file;
    uint64_t             next_va;
};

struct object {
    uint32_t handle;
    uint64_t size, va;
    void    *cpu;
};

/* Select profiles; before the first client of the process. */
static inline void client_profiles(const char *names)
{
    setenv("ZERANGE_SOFT", names, 1);
    assert_int_equal(zr_config_load(), ZE_RESULT_SUCCESS);
}

static inline void client_open(struct client *c, unsigned index)
{
    struct zr_kif_node nodes[8];

    c->kif = zr_soft_kif();
    assert_true(c->kif->enumerate(nodes, 8) > (int)index);
    assert_int_equal(c->kif->open(&nodes[index], &c->file), 0);
    c->next_va = UINT64_C(1) << 33;
}

static inline void client_close(struct client *c)
{
    c->kif->close(c->file);
}

static inline int client_ioctl(struct client *c, unsigned long request, void *arg)
{
    int ret;

    do { /* as drmIoctl */
        ret = c->kif->ioctl(c->file, request, arg);
    } while (ret == -EAGAIN);
    return ret;
}

static inline void *client_map(struct client *c, uint32_t handle, uint64_t size)
{
    struct drm_i915_gem_mmap_offset offset = {.handle = handle, .flags = I915_MMAP_OFFSET_FIXED};
    void                           *cpu;

    if (client_ioctl(c, DRM_IOCTL_I915_GEM_MMAP_OFFSET, &offset) != 0) {
        offset.flags = I915_MMAP_OFFSET_WC; /* backports */
        assert_int_equal(client_ioctl(c, DRM_IOCTL_I915_GEM_MMAP_OFFSET, &offset), 0);
    }
    cpu = c->kif->mmap(c->file, NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, offset.offset);
    assert_ptr_not_equal(cpu, MAP_FAILED);
    return cpu;
}

static inline uint64_t client_va(struct client *c, uint64_t size)
{
    uint64_t va = c->next_va;

    c->next_va += (size + 0x1fffff) & ~UINT64_C(0x1fffff);
    return va;
}

static inline int client_create_in(struct client *c, uint64_t size, unsigned class,
                                   uint32_t *handle_p, uint64_t *size_p)
{
    struct drm_i915_gem_memory_class_instance     region = {.memory_class = class};
    struct drm_i915_gem_create_ext_memory_regions ext    = {
        .base        = {.name = I915_GEM_CREATE_EXT_MEMORY_REGIONS},
        .num_regions = 1,
        .regions     = (uintptr_t)&region,
    };
    struct drm_i915_gem_create_ext create = {.size = size, .extensions = (uintptr_t)&ext};
    int ret = client_ioctl(c, DRM_IOCTL_I915_GEM_CREATE_EXT, &create);

    *handle_p = create.handle;
    *size_p   = create.size;
    return ret;
}

static inline void object_create(struct client *c, uint64_t size, unsigned class,
                                 struct object *o)
{
    assert_int_equal(client_create_in(c, size, class, &o->handle, &o->size), 0);
    o->va  = client_va(c, o->size);
    o->cpu = client_map(c, o->handle, o->size);
}

static inline void object_destroy(struct client *c, struct object *o)
{
    struct drm_gem_close close = {.handle = o->handle};

    c->kif->munmap(c->file, o->cpu, o->size);
    assert_int_equal(client_ioctl(c, DRM_IOCTL_GEM_CLOSE, &close), 0);
}

/* A context with copy engines [first, first + width) as its one slot; parallel if width > 1. */
static inline int context_create(struct client *c, unsigned first, unsigned width,
                                 bool recoverable, uint32_t *id_p)
{
    I915_DEFINE_CONTEXT_PARAM_ENGINES(map, 1) = {0};
    I915_DEFINE_CONTEXT_ENGINES_PARALLEL_SUBMIT(parallel, 16) = {
        .base         = {.name = I915_CONTEXT_ENGINES_EXT_PARALLEL_SUBMIT},
        .width        = width,
        .num_siblings = 1,
    };
    struct drm_i915_gem_context_create_ext_setparam set_recoverable = {
        .base  = {.name = I915_CONTEXT_CREATE_EXT_SETPARAM},
        .param = {.param = I915_CONTEXT_PARAM_RECOVERABLE, .value = recoverable},
    };
    struct drm_i915_gem_context_create_ext_setparam set_engines = {
        .base  = {.name           = I915_CONTEXT_CREATE_EXT_SETPARAM,
                  .next_extension = (uintptr_t)&set_recoverable},
        .param = {.param = I915_CONTEXT_PARAM_ENGINES,
                  .size  = sizeof(map),
                  .value = (uintptr_t)&map},
    };
    struct drm_i915_gem_context_create_ext create = {
        .flags      = I915_CONTEXT_CREATE_FLAGS_USE_EXTENSIONS,
        .extensions = (uintptr_t)&set_engines,
    };
    unsigned i;
    int      ret;

    if (width == 1) {
        map.engines[0].engine_class    = I915_ENGINE_CLASS_COPY;
        map.engines[0].engine_instance = first;
    } else {
        map.extensions                 = (uintptr_t)&parallel;
        map.engines[0].engine_class    = I915_ENGINE_CLASS_INVALID;
        map.engines[0].engine_instance = I915_ENGINE_CLASS_INVALID_NONE;
        for (i = 0; i < width; i++) {
            parallel.engines[i].engine_class    = I915_ENGINE_CLASS_COPY;
            parallel.engines[i].engine_instance = first + i;
        }
    }
    ret   = client_ioctl(c, DRM_IOCTL_I915_GEM_CONTEXT_CREATE_EXT, &create);
    *id_p = create.ctx_id;
    return ret;
}

static inline uint64_t canonical(uint64_t va, unsigned bits)
{
    return (uint64_t)((int64_t)(va << (64 - bits)) >> (64 - bits));
}

/* Submit: objects first, the batches last. @param flags of each object besides pinning */
static inline int client_exec(struct client *c, uint32_t ctx, struct object *const *objects,
                              unsigned count, unsigned width, uint64_t flags)
{
    struct drm_i915_gem_exec_object2 list[32] = {0};
    struct drm_i915_gem_execbuffer2  exec     = {
        .buffers_ptr  = (uintptr_t)list,
        .buffer_count = count,
        .rsvd1        = ctx,
    };
    unsigned i;

    for (i = 0; i < count; i++) {
        list[i].handle = objects[i]->handle;
        list[i].offset = objects[i]->va;
        list[i].flags  = NEW_OBJECT_FLAGS | (i < count - width ? flags : 0);
    }
    return client_ioctl(c, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec);
}

static inline int object_wait(struct client *c, const struct object *o, int64_t timeout_ns)
{
    struct drm_i915_gem_wait wait = {.bo_handle = o->handle, .timeout_ns = timeout_ns};

    return client_ioctl(c, DRM_IOCTL_I915_GEM_WAIT, &wait);
}

#define FOREVER  ((int64_t)-1)
#define SECONDS(n) ((int64_t)(n) * 1000000000)

/* ---- batches by hand ---- */

struct batch {
    uint32_t *at;
};

static inline struct batch batch_of(struct object *o)
{
    return (struct batch){o->cpu};
}

#define EMIT(b, ...)                                                                          \
    do {                                                                                      \
        const uint32_t dw_[] = {__VA_ARGS__};                                                 \
        memcpy((b)->at, dw_, sizeof(dw_));                                                    \
        (b)->at += sizeof(dw_) / sizeof(dw_[0]);                                              \
    } while (0)
#define LO(va) ((uint32_t)(va))
#define HI(va) ((uint32_t)((va) >> 32))

static inline void emit_end(struct batch *b)
{
    EMIT(b, 0x05000000, 0);
}

static inline void emit_store(struct batch *b, uint64_t va, uint32_t value)
{
    EMIT(b, 0x10000002, LO(va), HI(va), value);
}

static inline void emit_wait_equal(struct batch *b, uint64_t va, uint32_t value)
{
    EMIT(b, 0x0e000002 | 1 << 15 | 4 << 12, value, LO(va), HI(va));
}

static inline void emit_flush_qword(struct batch *b, uint64_t va, uint64_t value)
{
    EMIT(b, 0x13000003 | 1 << 14, LO(va), HI(va), LO(value), HI(value));
}

static inline void emit_flush_timestamp(struct batch *b, uint64_t va)
{
    EMIT(b, 0x13000003 | 3 << 14, LO(va), HI(va), 0, 0);
}

static inline void emit_mem_copy(struct batch *b, uint64_t dst, uint64_t src, uint32_t length)
{
    EMIT(b, 0x56800008, length - 1, 0, 0, 0, LO(src), HI(src), LO(dst), HI(dst), 0);
}

#endif
