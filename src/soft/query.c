/* GETPARAM and QUERY: what the device says of itself. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <errno.h>
#include <string.h>

static int zr_soft_param(const struct zr_soft_file *file, int param, int *value_p)
{
    const struct zr_soft_profile *profile = &file->dev->profile;

    switch (param) {
    case I915_PARAM_IRQ_ACTIVE:
    case I915_PARAM_ALLOW_BATCHBUFFER:
    case I915_PARAM_LAST_DISPATCH:
    case I915_PARAM_HAS_EXEC_CONSTANTS:
        return -ENODEV;
    case I915_PARAM_CHIPSET_ID:
        *value_p = profile->device_id;
        return 0;
    case I915_PARAM_REVISION:
        *value_p = profile->revision;
        return 0;
    case I915_PARAM_HAS_BLT:
        *value_p = zr_soft_engine_find(file->dev, I915_ENGINE_CLASS_COPY, 0) != NULL;
        return 0;
    case I915_PARAM_HAS_LLC:
        *value_p = profile->llc;
        return 0;
    case I915_PARAM_HAS_ALIASING_PPGTT:
        *value_p = 3; /* full PPGTT, 48 bits or more */
        return 0;
    case I915_PARAM_MMAP_GTT_VERSION:
        *value_p = 5;
        return 0;
    case I915_PARAM_MMAP_VERSION:
        *value_p = 1;
        return 0;
    case I915_PARAM_HAS_SCHEDULER:
        *value_p = I915_SCHEDULER_CAP_ENABLED | I915_SCHEDULER_CAP_PRIORITY |
                   I915_SCHEDULER_CAP_PREEMPTION;
        return 0;
    case I915_PARAM_HAS_GPU_RESET:
        *value_p = 2;
        return 0;
    case I915_PARAM_CS_TIMESTAMP_FREQUENCY:
        *value_p = profile->timestamp_hz;
        return 0;
    case I915_PARAM_HAS_BSD:
    case I915_PARAM_HAS_BSD2:
    case I915_PARAM_HAS_VEBOX:
    case I915_PARAM_HAS_OVERLAY:
    case I915_PARAM_HAS_SECURE_BATCHES:
    case I915_PARAM_HAS_RESOURCE_STREAMER:
    case I915_PARAM_HAS_POOLED_EU:
    case I915_PARAM_MIN_EU_IN_POOL:
    case I915_PARAM_NUM_FENCES_AVAIL:
        *value_p = 0;
        return 0;
    case I915_PARAM_HAS_GEM:
    case I915_PARAM_HAS_PAGEFLIPPING:
    case I915_PARAM_HAS_EXECBUF2:
    case I915_PARAM_HAS_RELAXED_FENCING:
    case I915_PARAM_HAS_COHERENT_RINGS:
    case I915_PARAM_HAS_RELAXED_DELTA:
    case I915_PARAM_HAS_GEN7_SOL_RESET:
    case I915_PARAM_HAS_WAIT_TIMEOUT:
    case I915_PARAM_HAS_PRIME_VMAP_FLUSH:
    case I915_PARAM_HAS_PINNED_BATCHES:
    case I915_PARAM_HAS_EXEC_NO_RELOC:
    case I915_PARAM_HAS_EXEC_HANDLE_LUT:
    case I915_PARAM_HAS_COHERENT_PHYS_GTT:
    case I915_PARAM_HAS_EXEC_SOFTPIN:
    case I915_PARAM_HAS_EXEC_ASYNC:
    case I915_PARAM_HAS_EXEC_FENCE:
    case I915_PARAM_HAS_EXEC_CAPTURE:
    case I915_PARAM_HAS_EXEC_BATCH_FIRST:
    case I915_PARAM_HAS_EXEC_FENCE_ARRAY:
    case I915_PARAM_HAS_EXEC_TIMELINE_FENCES:
    case I915_PARAM_HAS_EXEC_SUBMIT_FENCE:
    case I915_PARAM_HAS_USERPTR_PROBE:
    case I915_PARAM_MMAP_GTT_COHERENT:
        *value_p = 1;
        return 0;
    default:
        return -EINVAL;
    }
}

int zr_soft_getparam(struct zr_soft_file *file, void *data)
{
    struct drm_i915_getparam *param = data;
    int                       value, ret;

    ret = zr_soft_param(file, param->param, &value);
    if (ret != 0) {
        return ret;
    }
    return zr_soft_copy_out((uintptr_t)param->value, &value, sizeof(value));
}

/* The kernel's copy_query_item: 0 when the caller's buffer is right and its header zero, else
 * what goes into item.length (a size or a negative errno). */
static int zr_soft_query_begin(const struct drm_i915_query_item *item, void *header,
                               size_t header_size, int total)
{
    const unsigned char *bytes = header;
    size_t               i;

    if (item->length == 0) {
        return total;
    }
    if (item->length < total) {
        return -EINVAL;
    }
    if (zr_soft_copy_in(header, item->data_ptr, header_size) != 0) {
        return -EFAULT;
    }
    for (i = 0; i < header_size; i++) {
        if (bytes[i] != 0) {
            return -EINVAL;
        }
    }
    return 0;
}

static int zr_soft_query_engines(struct zr_soft_file *file, const struct drm_i915_query_item *item)
{
    const struct zr_soft_profile      *profile = &file->dev->profile;
    struct drm_i915_query_engine_info  header;
    struct drm_i915_engine_info        info;
    unsigned                           i;
    int total = sizeof(header) + profile->num_engines * sizeof(info), ret;

    if (item->flags != 0) {
        return -EINVAL;
    }
    ret = zr_soft_query_begin(item, &header, sizeof(header), total);
    if (ret != 0) {
        return ret;
    }
    for (i = 0; i < profile->num_engines; i++) {
        memset(&info, 0, sizeof(info));
        info.engine.engine_class    = profile->engine[i].class;
        info.engine.engine_instance = profile->engine[i].instance;
        info.flags                  = I915_ENGINE_INFO_HAS_LOGICAL_INSTANCE;
        info.logical_instance       = profile->engine[i].logical;
        zr_soft_copy_out(item->data_ptr + sizeof(header) + i * sizeof(info), &info, sizeof(info));
    }
    header.num_engines = profile->num_engines;
    zr_soft_copy_out(item->data_ptr, &header, sizeof(header));
    return total;
}

static void zr_soft_region(const struct zr_soft_file *file, unsigned class,
                           struct drm_i915_memory_region_info *info)
{
    const struct zr_soft_dev *dev  = file->dev;
    uint64_t size = class == I915_MEMORY_CLASS_DEVICE ? dev->profile.lmem : dev->profile.smem;
    uint64_t used = class == I915_MEMORY_CLASS_DEVICE ? dev->lmem_used : dev->smem_used;

    memset(info, 0, sizeof(*info));
    info->region.memory_class = class;
    info->probed_size         = size;
    /* What others use is told to who may know it. */
    info->unallocated_size = file->perfmon ? size - ZR_MIN(size, used) : size;
    if (class == I915_MEMORY_CLASS_DEVICE) {
        info->probed_cpu_visible_size      = info->probed_size;
        info->unallocated_cpu_visible_size = info->unallocated_size;
    }
}

static int zr_soft_query_regions(struct zr_soft_file *file, const struct drm_i915_query_item *item)
{
    unsigned                             count = file->dev->profile.lmem != 0 ? 2 : 1, i;
    struct drm_i915_query_memory_regions header;
    struct drm_i915_memory_region_info   info;
    int                                  total = sizeof(header) + count * sizeof(info), ret;

    if (item->flags != 0) {
        return -EINVAL;
    }
    ret = zr_soft_query_begin(item, &header, sizeof(header), total);
    if (ret != 0) {
        return ret;
    }
    for (i = 0; i < count; i++) {
        zr_soft_region(file, i == 0 ? I915_MEMORY_CLASS_SYSTEM : I915_MEMORY_CLASS_DEVICE, &info);
        zr_soft_copy_out(item->data_ptr + sizeof(header) + i * sizeof(info), &info, sizeof(info));
    }
    header.num_regions = count;
    zr_soft_copy_out(item->data_ptr, &header, sizeof(header));
    return total;
}

int zr_soft_query(struct zr_soft_file *file, void *data)
{
    struct drm_i915_query     *query = data;
    struct drm_i915_query_item item;
    uint64_t                   at = query->items_ptr;
    uint32_t                   i;
    int                        ret;

    if (query->flags != 0) {
        return -EINVAL;
    }
    for (i = 0; i < query->num_items; i++, at += sizeof(item)) {
        ret = zr_soft_copy_in(&item, at, sizeof(item));
        if (ret != 0) {
            return ret;
        }
        switch (item.query_id) {
        case 0:
            return -EINVAL;
        case DRM_I915_QUERY_ENGINE_INFO:
            item.length = zr_soft_query_engines(file, &item);
            break;
        case DRM_I915_QUERY_MEMORY_REGIONS:
            item.length = zr_soft_query_regions(file, &item);
            break;
        case DRM_I915_QUERY_TOPOLOGY_INFO:
        case DRM_I915_QUERY_PERF_CONFIG:
        case DRM_I915_QUERY_HWCONFIG_BLOB:
        case DRM_I915_QUERY_GEOMETRY_SUBSLICES:
            item.length = -ENODEV;
            break;
        default:
            item.length = -EINVAL;
        }
        zr_soft_copy_out(at, &item, sizeof(item));
    }
    return 0;
}
