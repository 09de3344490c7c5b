/* Relocations: addresses in an object's memory that the kernel writes. Tiger Lake is the last part
 * that has them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "exec.h"

#include <errno.h>
#include <string.h>

#define ZR_SOFT_MAX_RELOCS (INT32_MAX / sizeof(struct drm_i915_gem_relocation_entry))

/* Index of the object that a relocation names; -1: none */
static int zr_soft_reloc_target(const struct zr_soft_exec *x, uint32_t handle)
{
    unsigned i;

    if (x->args->flags & I915_EXEC_HANDLE_LUT) {
        return handle < x->count ? (int)handle : -1;
    }
    for (i = 0; i < x->count; i++) {
        if (x->object[i].handle == handle) {
            return (int)i;
        }
    }
    return -1;
}

static int zr_soft_relocate_one(struct zr_soft_exec *x, unsigned index,
                                struct drm_i915_gem_relocation_entry *reloc)
{
    const uint32_t     gpu = I915_GEM_DOMAIN_RENDER | I915_GEM_DOMAIN_SAMPLER |
                         I915_GEM_DOMAIN_COMMAND | I915_GEM_DOMAIN_INSTRUCTION |
                         I915_GEM_DOMAIN_VERTEX;
    struct zr_soft_bo *bo     = x->bo[index];
    int                target = zr_soft_reloc_target(x, reloc->target_handle), ret;
    uint64_t           base, value;
    uint8_t           *cpu;

    if (target < 0) {
        return -ENOENT;
    }
    if ((reloc->write_domain & (reloc->write_domain - 1)) ||
        ((reloc->write_domain | reloc->read_domains) & ~gpu)) {
        return -EINVAL;
    }
    if (reloc->write_domain != 0) {
        x->object[target].flags |= EXEC_OBJECT_WRITE;
    }
    base = x->object[target].offset;
    if (base == reloc->presumed_offset) {
        return 0;
    }
    if (reloc->offset > bo->size - sizeof(value) || (reloc->offset & 3)) {
        return -EINVAL;
    }
    cpu = zr_soft_bo_cpu(bo);
    if (cpu == NULL) {
        return -ENOMEM;
    }
    ret = zr_soft_bo_wait(bo, true, INT64_MAX);
    if (ret != 0) {
        return ret;
    }
    x->object[index].flags &= ~(uint64_t)EXEC_OBJECT_ASYNC;
    value = zr_soft_canonical(x->file->dev, base + (int64_t)(int32_t)reloc->delta);
    memcpy(cpu + reloc->offset, &value, sizeof(value));
    reloc->presumed_offset = base;
    return 1;
}

static int zr_soft_relocate_object(struct zr_soft_exec *x, unsigned index)
{
    const struct drm_i915_gem_exec_object2 *object = &x->object[index];
    struct drm_i915_gem_relocation_entry    reloc;
    uint64_t                                at = object->relocs_ptr;
    uint32_t                                i;
    int                                     ret;

    if (object->relocation_count > ZR_SOFT_MAX_RELOCS) {
        return -EINVAL;
    }
    for (i = 0; i < object->relocation_count; i++, at += sizeof(reloc)) {
        ret = zr_soft_copy_in(&reloc, at, sizeof(reloc));
        if (ret != 0) {
            return ret;
        }
        ret = zr_soft_relocate_one(x, index, &reloc);
        if (ret < 0) {
            return ret;
        }
        if (ret > 0) { /* where it cannot be written the caller loses the value */
            zr_soft_copy_out(at + offsetof(struct drm_i915_gem_relocation_entry, presumed_offset),
                             &reloc.presumed_offset, sizeof(reloc.presumed_offset));
        }
    }
    return 0;
}

int zr_soft_exec_relocate(struct zr_soft_exec *x)
{
    unsigned i;
    int      ret = 0;

    for (i = 0; ret == 0 && x->relocate && i < x->count; i++) {
        if (x->object[i].relocation_count != 0) {
            ret = zr_soft_relocate_object(x, i);
        }
    }
    return ret;
}
