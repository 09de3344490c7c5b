/* GETPARAM and QUERY: what the device says of itself. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"
#include "uapi.h"
#include "uapi_prelim.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>

static bool zr_soft_has(const struct zr_soft_file *file, unsigned class, unsigned instance)
{
    return zr_soft_engine_find(file->dev, class, instance) != NULL;
}

static int zr_soft_scheduler(const struct zr_soft_profile *profile)
{
    int caps = I915_SCHEDULER_CAP_ENABLED | I915_SCHEDULER_CAP_PRIORITY |
               I915_SCHEDULER_CAP_PREEMPTION | I915_SCHEDULER_CAP_ENGINE_BUSY_STATS;

    /* The GuC's firmware knows three priorities and does its own semaphores. */
    return caps | (profile->guc ? I915_SCHEDULER_CAP_STATIC_PRIORITY_MAP
                                : I915_SCHEDULER_CAP_SEMAPHORES);
}

/* Classes whose contexts start from an image of their own: all there are. */
static int zr_soft_isolation(const struct zr_soft_profile *profile)
{
    unsigned i, classes = 0;

    for (i = 0; i < profile->num_engines; i++) {
        classes |= 1u << profile->engine[i].class;
    }
    return classes;
}

/* What is 0 or 1 on every part here. @return -1: none of them */
static int zr_soft_param_fixed(int param)
{
    switch (param) {
    case I915_PARAM_HAS_OVERLAY:
    case I915_PARAM_HAS_SECURE_BATCHES:
    case I915_PARAM_HAS_RESOURCE_STREAMER:
    case I915_PARAM_HAS_POOLED_EU:
    case I915_PARAM_MIN_EU_IN_POOL:
    case I915_PARAM_HAS_WT:
    case I915_PARAM_CMD_PARSER_VERSION:
    case I915_PARAM_MMAP_GTT_COHERENT:
        return 0;
    case I915_PARAM_MMAP_VERSION:
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
        return 1;
    default:
        return -1;
    }
}

static int zr_soft_param(const struct zr_soft_file *file, int param, int *value_p)
{
    const struct zr_soft_profile *profile = &file->dev->profile;

    *value_p = zr_soft_param_fixed(param);
    if (*value_p >= 0) {
        return 0;
    }
    switch (param) {
    case I915_PARAM_IRQ_ACTIVE:
    case I915_PARAM_ALLOW_BATCHBUFFER:
    case I915_PARAM_LAST_DISPATCH:
    case I915_PARAM_HAS_EXEC_CONSTANTS:
    case ZR_PARAM_PXP_STATUS:
        return -ENODEV;
    case I915_PARAM_CHIPSET_ID:
        *value_p = profile->device_id;
        return 0;
    case I915_PARAM_REVISION:
        *value_p = profile->revision;
        return 0;
    case I915_PARAM_NUM_FENCES_AVAIL:
        *value_p = profile->gen == ZR_SOFT_GEN12 ? 32 : 0; /* with the aperture they went */
        return 0;
    case I915_PARAM_HAS_BLT:
        *value_p = zr_soft_has(file, I915_ENGINE_CLASS_COPY, 0);
        return 0;
    case I915_PARAM_HAS_BSD:
        *value_p = zr_soft_has(file, I915_ENGINE_CLASS_VIDEO, 0);
        return 0;
    case I915_PARAM_HAS_BSD2:
        *value_p = zr_soft_has(file, I915_ENGINE_CLASS_VIDEO, 1);
        return 0;
    case I915_PARAM_HAS_VEBOX:
        *value_p = zr_soft_has(file, I915_ENGINE_CLASS_VIDEO_ENHANCE, 0);
        return 0;
    case I915_PARAM_HAS_LLC:
        *value_p = profile->llc;
        return 0;
    case I915_PARAM_HAS_ALIASING_PPGTT:
        *value_p = 2; /* full PPGTT */
        return 0;
    case I915_PARAM_HAS_SEMAPHORES:
        *value_p = (zr_soft_scheduler(profile) & I915_SCHEDULER_CAP_SEMAPHORES) != 0;
        return 0;
    case I915_PARAM_SUBSLICE_TOTAL:
        *value_p = profile->slices * profile->subslices_on;
        return 0;
    case I915_PARAM_EU_TOTAL:
        *value_p = profile->slices * profile->subslices_on * profile->eus;
        return 0;
    case I915_PARAM_HAS_GPU_RESET:
        *value_p = 2; /* of one engine */
        return 0;
    case I915_PARAM_HUC_STATUS:
        *value_p = 1;
        return zr_soft_has(file, I915_ENGINE_CLASS_VIDEO, 0) ? 0 : -ENODEV;
    case I915_PARAM_MMAP_GTT_VERSION:
        *value_p = 5;
        return 0;
    case I915_PARAM_HAS_SCHEDULER:
        *value_p = zr_soft_scheduler(profile);
        return 0;
    case ZR_PARAM_HAS_CONTEXT_FREQ_HINT:
        /* The value is the errno there, and the call succeeds. */
        *value_p = profile->guc ? 1 : -EINVAL;
        return profile->backports ? -EINVAL : 0;
    case I915_PARAM_HAS_CONTEXT_ISOLATION:
        *value_p = zr_soft_isolation(profile);
        return 0;
    case I915_PARAM_SLICE_MASK:
        *value_p = (1 << profile->slices) - 1;
        return profile->gen == ZR_SOFT_GEN12 ? 0 : -EINVAL;
    case I915_PARAM_SUBSLICE_MASK:
        *value_p = (int)((UINT64_C(1) << profile->subslices_on) - 1);
        return profile->gen == ZR_SOFT_GEN12 ? 0 : -EINVAL;
    case I915_PARAM_CS_TIMESTAMP_FREQUENCY:
    case ZR_PARAM_OA_TIMESTAMP_FREQUENCY:
        *value_p = profile->timestamp_hz;
        return 0;
    case I915_PARAM_PERF_REVISION:
        *value_p = 7;
        return 0;
    default:
        return profile->backports ? zr_soft_prelim_param(file, param, value_p) : -EINVAL;
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
 * what goes into item.length (a size or a negative errno). @a zero: it must be. */
int zr_soft_query_begin(const struct drm_i915_query_item *item, void *header, size_t header_size,
                        int total, bool zero)
{
    const unsigned char *bytes = header;
    size_t               i;

    if (item->length == 0) {
        return total;
    }
    if ((uint32_t)item->length < (uint32_t)total) { /* so the kernel compares: an errno is long enough */
        return -EINVAL;
    }
    if (zr_soft_copy_in(header, item->data_ptr, header_size) != 0) {
        return -EFAULT;
    }
    for (i = 0; zero && i < header_size; i++) {
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
    ret = zr_soft_query_begin(item, &header, sizeof(header), total, true);
    if (ret != 0) {
        return ret;
    }
    for (i = 0; i < profile->num_engines; i++) {
        memset(&info, 0, sizeof(info));
        info.engine.engine_class    = profile->engine[i].class;
        info.engine.engine_instance = profile->engine[i].instance;
        info.flags                  = I915_ENGINE_INFO_HAS_LOGICAL_INSTANCE;
        info.logical_instance       = profile->engine[i].logical;
        if (zr_soft_copy_out(item->data_ptr + sizeof(header) + i * sizeof(info), &info, sizeof(info)) != 0) {
            return -EFAULT;
        }
    }
    header.num_engines = profile->num_engines;
    if (zr_soft_copy_out(item->data_ptr, &header, sizeof(header)) != 0) {
        return -EFAULT;
    }
    return total;
}

/* ---- topology ---- */

/* Room for subslices and execution units in the masks: what the generation can have. */
static void zr_soft_topology_room(const struct zr_soft_profile *profile, unsigned *subslices,
                                  unsigned *eus)
{
    *subslices = profile->gen == ZR_SOFT_GEN12 ? 6 : profile->gen == ZR_SOFT_PVC ? 64 : 32;
    *eus       = profile->gen == ZR_SOFT_PVC ? 8 : 16;
}

int zr_soft_query_subslices(const struct zr_soft_profile     *profile,
                            const struct drm_i915_query_item *item)
{
    struct drm_i915_query_topology_info header;
    uint8_t  body[1 + 8 + 64 * 2] = {0};
    unsigned subslices, eus, subslice_bytes, eu_bytes, i;
    int      total, ret;

    zr_soft_topology_room(profile, &subslices, &eus);
    subslice_bytes = (subslices + 7) / 8;
    eu_bytes       = (eus + 7) / 8;
    total          = sizeof(header) + 1 + subslice_bytes + subslices * eu_bytes;
    ret            = zr_soft_query_begin(item, &header, sizeof(header), total, false);
    if (ret != 0) {
        return ret;
    }
    memset(&header, 0, sizeof(header));
    header.max_slices           = 1;
    header.max_subslices        = subslices;
    header.max_eus_per_subslice = eus;
    header.subslice_offset      = 1;
    header.subslice_stride      = subslice_bytes;
    header.eu_offset            = 1 + subslice_bytes;
    header.eu_stride            = eu_bytes;
    body[0]                     = 1;
    for (i = 0; i < ZR_MIN(subslices, profile->subslices_on); i++) {
        body[1 + i / 8] |= 1u << i % 8;
        memset(body + header.eu_offset + i * eu_bytes, 0xff, ZR_MIN(profile->eus, eus) / 8);
    }
    if (zr_soft_copy_out(item->data_ptr, &header, sizeof(header)) != 0 ||
        zr_soft_copy_out(item->data_ptr + sizeof(header), body, total - sizeof(header)) != 0) {
        return -EFAULT;
    }
    return total;
}

static int zr_soft_query_topology(struct zr_soft_file *file, const struct drm_i915_query_item *item)
{
    return item->flags != 0 ? -EINVAL : zr_soft_query_subslices(&file->dev->profile, item);
}

static int zr_soft_query_geometry(struct zr_soft_file *file, const struct drm_i915_query_item *item)
{
    unsigned class = item->flags & 0xff, instance = item->flags >> 16 & 0xff;

    if (file->dev->profile.gen == ZR_SOFT_GEN12) {
        return -ENODEV;
    }
    if (class != I915_ENGINE_CLASS_RENDER || !zr_soft_has(file, class, instance)) {
        return -EINVAL;
    }
    return zr_soft_query_subslices(&file->dev->profile, item);
}

/* What the GuC's firmware tells of the part: {key, number of values, values}. */
int zr_soft_query_hwconfig(struct zr_soft_file *file, const struct drm_i915_query_item *item)
{
    const struct zr_soft_profile *profile = &file->dev->profile;
    const uint32_t                blob[]  = {
        1,  1, profile->slices,       /* slices */
        2,  1, profile->subslices_on, /* dual subslices */
        3,  1, profile->eus,          /* execution units of one */
        15, 1, 8,                     /* threads of an execution unit */
    };

    if (profile->gen == ZR_SOFT_GEN12) {
        return -ENODEV;
    }
    if (item->length == 0) {
        return sizeof(blob);
    }
    if (item->length < (int)sizeof(blob)) {
        return -EINVAL;
    }
    return zr_soft_copy_out(item->data_ptr, blob, sizeof(blob)) == 0 ? (int)sizeof(blob) : -EFAULT;
}

static int zr_soft_query_guc(struct zr_soft_file *file, const struct drm_i915_query_item *item)
{
    struct zr_query_guc_submission_version version;
    int                                          ret;

    if (file->dev->profile.backports) {
        return -EINVAL; /* it does not know this one */
    }
    if (!file->dev->profile.guc) {
        return -ENODEV;
    }
    ret = zr_soft_query_begin(item, &version, sizeof(version), sizeof(version), true);
    if (ret != 0) {
        return ret;
    }
    version.major = 1;
    version.minor = 13;
    ret           = zr_soft_copy_out(item->data_ptr, &version, sizeof(version));
    return ret != 0 ? ret : (int)sizeof(version);
}

static int zr_soft_query_perf(struct zr_soft_file *file, const struct drm_i915_query_item *item)
{
    return item->flags >= DRM_I915_QUERY_PERF_CONFIG_LIST &&
                   item->flags <= DRM_I915_QUERY_PERF_CONFIG_DATA_FOR_ID
               ? -ENODEV /* no observation here */
               : -EINVAL;
}

static void zr_soft_region(const struct zr_soft_file *file, unsigned class,
                           struct drm_i915_memory_region_info *info)
{
    const struct zr_soft_dev *dev   = file->dev;
    bool                      local = class == I915_MEMORY_CLASS_DEVICE;
    uint64_t                  size  = local ? dev->profile.lmem : dev->profile.smem;
    bool                      perfmon = zr_soft_task_capabilities() &
                   (UINT64_C(1) << CAP_PERFMON | UINT64_C(1) << CAP_SYS_ADMIN);

    memset(info, 0, sizeof(*info));
    info->region.memory_class     = class;
    info->probed_size             = size;
    info->probed_cpu_visible_size = size;
    /* What others use of local memory is told to who may know it; of system memory nobody keeps
     * count. */
    info->unallocated_size = local && perfmon ? size - ZR_MIN(size, dev->lmem_used) : size;
    info->unallocated_cpu_visible_size = info->unallocated_size;
    if (local) {
        info->probed_cpu_visible_size = dev->profile.visible;
        info->unallocated_cpu_visible_size =
            perfmon ? dev->profile.visible - ZR_MIN(dev->profile.visible, dev->lmem_used)
                    : dev->profile.visible;
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
    ret = zr_soft_query_begin(item, &header, sizeof(header), total, true);
    if (ret != 0) {
        return ret;
    }
    for (i = 0; i < count; i++) {
        zr_soft_region(file, i == 0 ? I915_MEMORY_CLASS_SYSTEM : I915_MEMORY_CLASS_DEVICE, &info);
        if (zr_soft_copy_out(item->data_ptr + sizeof(header) + i * sizeof(info), &info, sizeof(info)) != 0) {
            return -EFAULT;
        }
    }
    header.num_regions = count;
    if (zr_soft_copy_out(item->data_ptr, &header, sizeof(header)) != 0) {
        return -EFAULT;
    }
    return total;
}

int zr_soft_query(struct zr_soft_file *file, void *data)
{
    static int (*const fns[])(struct zr_soft_file *, const struct drm_i915_query_item *) = {
        [DRM_I915_QUERY_TOPOLOGY_INFO]          = zr_soft_query_topology,
        [DRM_I915_QUERY_ENGINE_INFO]            = zr_soft_query_engines,
        [DRM_I915_QUERY_PERF_CONFIG]            = zr_soft_query_perf,
        [DRM_I915_QUERY_MEMORY_REGIONS]         = zr_soft_query_regions,
        [DRM_I915_QUERY_HWCONFIG_BLOB]          = zr_soft_query_hwconfig,
        [DRM_I915_QUERY_GEOMETRY_SUBSLICES]     = zr_soft_query_geometry,
        [ZR_QUERY_GUC_SUBMISSION_VERSION]   = zr_soft_query_guc,
    };
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
        if (item.query_id == 0) {
            return -EINVAL;
        }
        if (file->dev->profile.backports && (item.query_id & ZR_PRELIM)) {
            ret = zr_soft_prelim_query(file, &item);
        } else {
            ret = item.query_id < ZR_ARRAY_SIZE(fns) ? fns[item.query_id](file, &item) : -EINVAL;
        }
        if (ret != item.length &&
            zr_soft_copy_out(at + offsetof(struct drm_i915_query_item, length), &ret,
                             sizeof(ret)) != 0) {
            return -EFAULT;
        }
    }
    return 0;
}
