/* A software device of a test's own, with any profile and options, and calls on it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_TEST_SOFT_DEVICE_H
#define ZR_TEST_SOFT_DEVICE_H

#include "soft/soft.h"
#include "soft_client.h"

struct rig {
    struct zr_soft_dev  *dev;
    struct zr_soft_file *file;
    uint64_t             next_va;
};

struct page {
    uint32_t           handle;
    uint64_t           va, size;
    volatile uint32_t *cpu;
};

static inline int rig_try(struct rig *r, const char *name, const struct zr_soft_options *options)
{
    struct zr_soft_options given = *options;
    struct zr_soft_profile profile;
    int                    ret;

    given.threads = given.threads != 0 ? given.threads : 2;
    assert_int_equal(zr_soft_profile_load(zr_config()->profiles, name, &profile), 0);
    r->next_va = UINT64_C(1) << 33;
    ret        = zr_soft_dev_create(&profile, &given, &r->dev);
    if (ret == 0) {
        assert_int_equal(zr_soft_file_open(r->dev, &r->file), 0);
    }
    return ret;
}

static inline void rig_open(struct rig *r, const char *name, const char *dirty)
{
    assert_int_equal(rig_try(r, name, &(struct zr_soft_options){.dirty = dirty}), 0);
}

static inline void rig_close(struct rig *r)
{
    zr_soft_file_close(r->file);
    zr_soft_dev_destroy(r->dev);
}

/* As drmIoctl: again after EINTR and EAGAIN. */
static inline int call(struct rig *r, unsigned long request, void *arg)
{
    int ret;

    do {
        ret = zr_soft_file_ioctl(r->file, request, (uintptr_t)arg);
    } while (ret == -EINTR || (ret == -EAGAIN && !r->file->nonblock));
    return ret;
}

static inline void *page_map(struct rig *r, uint32_t handle, uint64_t size, uint64_t type)
{
    struct drm_i915_gem_mmap_offset offset = {.handle = handle, .flags = type};
    void                           *cpu;

    assert_int_equal(call(r, DRM_IOCTL_I915_GEM_MMAP_OFFSET, &offset), 0);
    cpu = zr_soft_file_mmap(r->file, NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
                            offset.offset);
    assert_ptr_not_equal(cpu, MAP_FAILED);
    return cpu;
}

static inline uint64_t rig_map_type(const struct rig *r)
{
    return r->dev->profile.lmem != 0 && !r->dev->profile.backports ? I915_MMAP_OFFSET_FIXED
                                                                   : I915_MMAP_OFFSET_WC;
}

/* System memory with a mapping and an address. */
static inline void page_new(struct rig *r, uint64_t size, struct page *p)
{
    struct drm_i915_gem_create create = {.size = size};

    assert_int_equal(call(r, DRM_IOCTL_I915_GEM_CREATE, &create), 0);
    p->handle = create.handle;
    p->size   = create.size;
    p->va     = r->next_va;
    r->next_va += (create.size + 0x1fffff) & ~UINT64_C(0x1fffff);
    p->cpu = page_map(r, p->handle, p->size, rig_map_type(r));
}

static inline void page_free(struct rig *r, struct page *p)
{
    struct drm_gem_close close = {.handle = p->handle};

    munmap((void *)p->cpu, p->size);
    assert_int_equal(call(r, DRM_IOCTL_GEM_CLOSE, &close), 0);
}

/* The last is the batch; on the copy ring, or @a flags' slot of @a ctx. */
static inline int submit(struct rig *r, uint32_t ctx, uint64_t flags, struct page *const *pages,
                         unsigned count)
{
    struct drm_i915_gem_exec_object2 list[8] = {0};
    struct drm_i915_gem_execbuffer2  exec    = {.buffers_ptr  = (uintptr_t)list,
                                                .buffer_count = count,
                                                .rsvd1        = ctx,
                                                .flags        = flags | I915_EXEC_NO_RELOC};
    unsigned i;

    for (i = 0; i < count; i++) {
        list[i].handle = pages[i]->handle;
        list[i].offset = pages[i]->va;
        list[i].flags  = NEW_OBJECT_FLAGS | (i + 1 < count ? EXEC_OBJECT_WRITE : 0);
    }
    return call(r, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec);
}

static inline int page_wait(struct rig *r, const struct page *p, int64_t ns)
{
    struct drm_i915_gem_wait wait = {.bo_handle = p->handle, .timeout_ns = ns};

    return call(r, DRM_IOCTL_I915_GEM_WAIT, &wait);
}

static inline struct batch batch_in(struct page *p)
{
    return (struct batch){(uint32_t *)p->cpu};
}

static inline void guilty_is(struct rig *r, uint32_t ctx, unsigned wanted)
{
    struct drm_i915_reset_stats stats = {.ctx_id = ctx};

    assert_int_equal(call(r, DRM_IOCTL_I915_GET_RESET_STATS, &stats), 0);
    assert_int_equal(stats.batch_active, wanted);
}

/* Wait until the device has written a word; a test that waits for ever is ended by its driver. */
static inline void word_is(volatile uint32_t *word, uint32_t value)
{
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) {
        sched_yield();
    }
}

#endif
