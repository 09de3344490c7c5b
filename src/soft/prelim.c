/* What Intel's out-of-tree driver adds for clients that bind themselves: VM_BIND, fences in memory,
 * objects of one VM, and its queries. Profiles with `rules = backports` have it, and say so in sysfs
 * (prelim_uapi_version), by which Intel's user-mode driver knows the kernel.
 *
 * Not carried out: the debugger and the UUIDs it reads, chunks and pairs of objects, cache
 * reservations; those requests are refused as unknown. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "exec.h"
#include "uapi_prelim.h"

#include <errno.h>
#include <string.h>

/* ---- address spaces ---- */

static int zr_soft_prelim_vm_region(void *arg, uint64_t ext)
{
    const struct zr_soft_file  *file = arg;
    struct zr_prelim_region_ext region;
    int                         ret = zr_soft_copy_in(&region, ext, sizeof(region));

    if (ret != 0) {
        return ret;
    }
    return region.region.memory_class == I915_MEMORY_CLASS_DEVICE &&
                   region.region.memory_instance == 0 && file->dev->profile.lmem != 0
               ? 0
               : -EINVAL;
}

int zr_soft_prelim_vm_check(struct zr_soft_file *file, const struct drm_i915_gem_vm_control *args)
{
    static const zr_soft_ext_fn fns[] = {zr_soft_prelim_vm_region};

    if (!file->dev->profile.backports) {
        return args->flags != 0 ? -EINVAL : zr_soft_extensions(args->extensions, NULL, 0, NULL);
    }
    if ((args->flags & ~ZR_PRELIM_VM_FLAGS) ||
        ((args->flags & ZR_PRELIM_VM_PAGE_FAULT) && file->dev->profile.gen != ZR_SOFT_PVC)) {
        return -EINVAL;
    }
    return zr_soft_prelim_extensions(args->extensions, fns, ZR_ARRAY_SIZE(fns), file);
}

struct zr_soft_binding {
    bool     fenced;
    uint64_t address, value;
};

static int zr_soft_prelim_bind_fence(void *arg, uint64_t ext)
{
    struct zr_soft_binding     *binding = arg;
    struct zr_prelim_bind_fence fence;
    uint64_t                    now;
    int                         ret = zr_soft_copy_in(&fence, ext, sizeof(fence));

    if (ret != 0) {
        return ret;
    }
    if (binding->fenced || fence.address % sizeof(fence.value) != 0) {
        return -EINVAL;
    }
    *binding = (struct zr_soft_binding){true, fence.address, fence.value};
    return zr_soft_copy_in(&now, fence.address, sizeof(now));
}

static int zr_soft_prelim_bind_pat(void *arg, uint64_t ext)
{
    struct zr_prelim_bind_pat pat;
    int                       ret = zr_soft_copy_in(&pat, ext, sizeof(pat));

    return ret != 0 ? ret : pat.index > 7 ? -EINVAL : 0; /* Ponte Vecchio has eight */
}

static int zr_soft_prelim_bind_check(const struct zr_soft_dev *dev, const struct zr_soft_bo *bo,
                                     const struct zr_prelim_bind *args, uint64_t start)
{
    uint64_t page = bo->lmem ? 64 * ZR_KIB : ZR_SOFT_PAGE;
    uint64_t top  = UINT64_C(1) << dev->profile.gtt_bits;

    if (args->length == 0 || (args->offset | args->length | start) % page != 0 ||
        args->offset > bo->size || args->length > bo->size - args->offset) {
        return -EINVAL;
    }
    return start > top || args->length > top - start ? -EINVAL : 0;
}

int zr_soft_prelim_bind(struct zr_soft_file *file, void *data)
{
    static const zr_soft_ext_fn fns[] = {
        [ZR_PRELIM_BIND_SYNC_FENCE] = zr_soft_prelim_bind_fence,
        [ZR_PRELIM_BIND_SET_PAT]    = zr_soft_prelim_bind_pat,
        [ZR_PRELIM_BIND_USER_FENCE] = zr_soft_prelim_bind_fence,
    };
    const struct zr_prelim_bind *args    = data;
    struct zr_soft_vm           *vm      = zr_soft_ids_get(&file->vms, args->vm);
    struct zr_soft_binding       binding = {0};
    struct zr_soft_bo           *bo;
    uint64_t                     start = zr_soft_plain(file->dev, args->start);
    int                          ret;

    if (vm == NULL) {
        return -ENOENT;
    }
    if (args->flags & ZR_PRELIM_BIND_FD) {
        return -EINVAL;
    }
    bo = zr_soft_bo_find(file, args->handle);
    if (bo == NULL) {
        return -ENOENT;
    }
    ret = zr_soft_prelim_bind_check(file->dev, bo, args, start);
    if (ret == 0 && bo->vm != 0 && bo->vm != vm->serial) {
        ret = -EPERM;
    }
    if (ret == 0) {
        ret = zr_soft_prelim_extensions(args->extensions, fns, ZR_ARRAY_SIZE(fns), &binding);
    }
    if (ret == 0 && binding.fenced && !(args->flags & ZR_PRELIM_BIND_IMMEDIATE)) {
        ret = -EINVAL; /* who binds at the next execbuf has no fence */
    }
    if (ret == 0 && bo->user != NULL) {
        ret = zr_soft_bo_check_user(bo);
    }
    if (ret == 0) {
        ret = zr_soft_vm_bind_range(vm, bo, start, args->offset, args->length);
    }
    if (ret == 0 && binding.fenced) {
        /* The kernel's worker finds the page gone in silence, too. */
        (void)zr_soft_copy_out(binding.address, &binding.value, sizeof(binding.value));
        pthread_cond_broadcast(&file->dev->signal);
    }
    return ret;
}

int zr_soft_prelim_unbind(struct zr_soft_file *file, void *data)
{
    const struct zr_prelim_bind *args = data;
    struct zr_soft_vm           *vm   = zr_soft_ids_get(&file->vms, args->vm);

    if (vm == NULL) {
        return -ENOENT;
    }
    if ((args->flags & ZR_PRELIM_BIND_FD) || args->handle != 0) {
        return -EINVAL;
    }
    return zr_soft_vm_unbind_range(vm, zr_soft_plain(file->dev, args->start), args->length);
}

/* Where memory should be and what is to be there soon: hints. */
int zr_soft_prelim_advise(struct zr_soft_file *file, void *data)
{
    const struct zr_prelim_advise *args = data;

    if (args->attribute < ZR_PRELIM || args->attribute > (ZR_PRELIM | 3)) {
        return -EINVAL;
    }
    return args->handle != 0 && zr_soft_bo_find(file, args->handle) == NULL ? -ENOENT : 0;
}

int zr_soft_prelim_prefetch(struct zr_soft_file *file, void *data)
{
    const struct zr_prelim_prefetch *args = data;

    return zr_soft_ids_get(&file->vms, args->vm) == NULL ? -ENOENT : 0;
}

/* ---- objects ---- */

static int zr_soft_prelim_create_param(void *arg, uint64_t ext)
{
    struct zr_prelim_create_param param;
    int                           ret = zr_soft_copy_in(&param, ext, sizeof(param));

    if (ret != 0) {
        return ret;
    }
    if (param.param != ZR_PRELIM_OBJECT_REGIONS || param.handle != 0 || param.size == 0) {
        return -EINVAL;
    }
    return zr_soft_placements_add(arg, param.data, param.size);
}

static int zr_soft_prelim_create_private(void *arg, uint64_t ext)
{
    struct zr_soft_placements      *placements = arg;
    const struct zr_soft_vm        *vm;
    struct zr_prelim_create_private private;
    int                             ret = zr_soft_copy_in(&private, ext, sizeof(private));

    if (ret != 0) {
        return ret;
    }
    vm = zr_soft_ids_get(&placements->file->vms, private.vm);
    if (vm == NULL) {
        return -ENOENT;
    }
    placements->vm = vm->serial;
    return 0;
}

int zr_soft_prelim_create(struct zr_soft_file *file, uint64_t extensions,
                          struct zr_soft_placements *placements)
{
    static const zr_soft_ext_fn fns[] = {
        [ZR_PRELIM_CREATE_SETPARAM]   = zr_soft_prelim_create_param,
        [ZR_PRELIM_CREATE_VM_PRIVATE] = zr_soft_prelim_create_private,
    };

    return zr_soft_prelim_extensions(extensions, fns, ZR_ARRAY_SIZE(fns), placements);
}

/* ---- fences in memory ---- */

static bool zr_soft_prelim_holds(uint64_t now, const struct zr_prelim_wait *args)
{
    uint64_t a = now & args->mask, b = args->value & args->mask;

    switch (args->op) {
    case ZR_PRELIM_EQ: return a == b;
    case ZR_PRELIM_NEQ: return a != b;
    case ZR_PRELIM_GT: return a > b;
    case ZR_PRELIM_GTE: return a >= b;
    case ZR_PRELIM_LT: return a < b;
    case ZR_PRELIM_LTE: return a <= b;
    case ZR_PRELIM_BEFORE: return (int64_t)(a - b) < 0;
    default: return (int64_t)(a - b) > 0;
    }
}

/* Bytes of the word that is waited for, 0: no such request. */
static unsigned zr_soft_prelim_wait_width(const struct zr_prelim_wait *args)
{
    unsigned width = 1;

    if ((args->flags & ~(ZR_PRELIM_WAIT_SOFT | ZR_PRELIM_WAIT_ABSTIME)) ||
        args->op < ZR_PRELIM_EQ || args->op > ZR_PRELIM_AFTER || args->mask == 0) {
        return 0;
    }
    while (width < 8 && args->mask >> (8 * width) != 0) {
        width *= 2;
    }
    return args->address % width == 0 ? width : 0;
}

static int zr_soft_prelim_wait_until(struct zr_soft_dev *dev, const struct zr_soft_ctx *ctx,
                                     const struct zr_prelim_wait *args, unsigned width,
                                     uint64_t deadline)
{
    uint64_t now, tick;
    int      ret;

    for (;;) {
        now = 0;
        ret = zr_soft_copy_in(&now, args->address, width);
        if (ret != 0 || zr_soft_prelim_holds(now, args)) {
            return ret;
        }
        if (ctx != NULL && (ctx->banned || ctx->closed)) {
            return ctx->banned ? -EIO : -ENOENT;
        }
        /* A batch that runs on may write the word at any time: look again each millisecond. */
        tick = zr_time_ns();
        if (tick >= deadline) {
            return -ETIME;
        }
        ret = zr_soft_wait_signal(dev, ZR_MIN(deadline, tick + 1000000));
        if (ret == -EINTR) {
            return ret;
        }
    }
}

int zr_soft_prelim_wait(struct zr_soft_file *file, void *data)
{
    struct zr_prelim_wait *args  = data;
    struct zr_soft_ctx    *ctx   = NULL;
    unsigned               width = zr_soft_prelim_wait_width(args);
    uint64_t               now = 0, start = zr_time_ns(), deadline = INT64_MAX;
    int                    ret;

    if (width == 0) {
        return -EINVAL;
    }
    ret = zr_soft_copy_in(&now, args->address, width);
    if (ret != 0 || zr_soft_prelim_holds(now, args)) {
        return ret;
    }
    if (!(args->flags & ZR_PRELIM_WAIT_SOFT)) {
        ctx = zr_soft_ctx_find(file, args->context);
        if (ctx == NULL) {
            return -ENOENT;
        }
    }
    ret = zr_soft_prelim_extensions(args->extensions, NULL, 0, NULL);
    if (ret != 0) {
        return ret;
    }
    if (args->timeout >= 0) {
        deadline = args->flags & ZR_PRELIM_WAIT_ABSTIME
                       ? (uint64_t)args->timeout
                       : start + ZR_MIN((uint64_t)args->timeout, INT64_MAX - start);
    }
    if (ctx != NULL) {
        ctx->refs++;
    }
    ret = zr_soft_prelim_wait_until(file->dev, ctx, args, width, deadline);
    if (ctx != NULL) {
        zr_soft_ctx_put(ctx);
    }
    if (!(args->flags & ZR_PRELIM_WAIT_ABSTIME) && args->timeout > 0) {
        now           = zr_time_ns() - start;
        args->timeout = now < (uint64_t)args->timeout ? args->timeout - (int64_t)now : 0;
    }
    return ret;
}

int zr_soft_prelim_reset_stats(struct zr_soft_file *file, void *data)
{
    struct zr_prelim_reset_stats *args  = data;
    struct drm_i915_reset_stats   stats = {.ctx_id = args->context, .flags = args->flags};
    int                           ret   = zr_soft_reset_stats(file, &stats);

    if (ret != 0) {
        return ret;
    }
    *args = (struct zr_prelim_reset_stats){.context       = args->context,
                                           .reset_count   = stats.reset_count,
                                           .batch_active  = stats.batch_active,
                                           .batch_pending = stats.batch_pending};
    if (zr_soft_ctx_find(file, args->context)->banned) {
        args->status = ZR_PRELIM_STATUS_BANNED;
    }
    return 0;
}

/* ---- what the device says of itself ---- */

int zr_soft_prelim_param(const struct zr_soft_file *file, unsigned param, int *value_p)
{
    switch (param) {
    case ZR_PRELIM_PARAM_HAS_VM_BIND:
        *value_p = 1;
        return 0;
    case ZR_PRELIM_PARAM_MAX_ENGINE:
        *value_p = 256;
        return 0;
    case ZR_PRELIM_PARAM_OA_TIMESTAMP:
        *value_p = file->dev->profile.timestamp_hz;
        return 0;
    case ZR_PRELIM_PARAM_HAS_PAGE_FAULT:
        *value_p = file->dev->profile.gen == ZR_SOFT_PVC;
        return 0;
    case ZR_PRELIM_PARAM_HAS_SVM:
    case ZR_PRELIM_PARAM_HAS_SET_PAIR:
    case ZR_PRELIM_PARAM_HAS_CHUNK_SIZE:
    case ZR_PRELIM_PARAM_EU_DEBUGGER_VERSION:
        *value_p = 0; /* as a driver built without them */
        return 0;
    default:
        return -EINVAL;
    }
}

/* Ponte Vecchio: all reach the PCI bus's rate, the first one and the first links what they say. */
static uint64_t zr_soft_prelim_copy_caps(unsigned instance)
{
    return instance == 0 ? ZR_PRELIM_COPY_BLOCK | ZR_PRELIM_COPY_SATURATE_LMEM |
                               ZR_PRELIM_COPY_SATURATE_LINK | ZR_PRELIM_COPY_SATURATE_PCIE
                         : ZR_PRELIM_COPY_SATURATE_LINK | ZR_PRELIM_COPY_SATURATE_PCIE;
}

static int zr_soft_prelim_engines(struct zr_soft_file *file, const struct drm_i915_query_item *item)
{
    const struct zr_soft_profile *profile = &file->dev->profile;
    uint32_t                      header[4];
    struct zr_prelim_engine       info;
    unsigned                      i;
    int total = sizeof(header) + profile->num_engines * sizeof(info), ret;

    ret = item->flags != 0 ? -EINVAL
                           : zr_soft_query_begin(item, header, sizeof(header), total, true);
    for (i = 0; ret == 0 && i < profile->num_engines; i++) {
        info = (struct zr_prelim_engine){
            .engine  = {profile->engine[i].class, profile->engine[i].instance},
            .oa_unit = UINT32_MAX,
            .flags   = ZR_PRELIM_ENGINE_FLAGS,
            .logical = profile->engine[i].logical,
        };
        if (profile->engine[i].class == I915_ENGINE_CLASS_COPY) {
            info.known_capabilities = ZR_PRELIM_COPY_BLOCK | ZR_PRELIM_COPY_SATURATE_PCIE |
                                      ZR_PRELIM_COPY_SATURATE_LINK | ZR_PRELIM_COPY_SATURATE_LMEM;
            info.capabilities = zr_soft_prelim_copy_caps(profile->engine[i].instance);
        }
        ret = zr_soft_copy_out(item->data_ptr + sizeof(header) + i * sizeof(info), &info,
                               sizeof(info));
    }
    if (ret != 0) {
        return ret;
    }
    header[0] = profile->num_engines;
    ret       = zr_soft_copy_out(item->data_ptr, header, sizeof(header));
    return ret != 0 ? ret : total;
}

static int zr_soft_prelim_regions(struct zr_soft_file *file, const struct drm_i915_query_item *item)
{
    const struct zr_soft_dev *dev   = file->dev;
    unsigned                  count = dev->profile.lmem != 0 ? 2 : 1, i;
    uint32_t                  header[4];
    struct zr_prelim_region   info;
    int                       total = sizeof(header) + count * sizeof(info), ret;

    ret = item->flags != 0 ? -EINVAL
                           : zr_soft_query_begin(item, header, sizeof(header), total, true);
    for (i = 0; ret == 0 && i < count; i++) {
        info = (struct zr_prelim_region){
            .region      = {i == 0 ? I915_MEMORY_CLASS_SYSTEM : I915_MEMORY_CLASS_DEVICE, 0},
            .probed      = i == 0 ? dev->profile.smem : dev->profile.lmem,
            .unallocated = i == 0 ? dev->profile.smem - dev->smem_used
                                  : dev->profile.lmem - dev->lmem_used,
        };
        ret = zr_soft_copy_out(item->data_ptr + sizeof(header) + i * sizeof(info), &info,
                               sizeof(info));
    }
    if (ret != 0) {
        return ret;
    }
    header[0] = count;
    ret       = zr_soft_copy_out(item->data_ptr, header, sizeof(header));
    return ret != 0 ? ret : total;
}

static int zr_soft_prelim_distance(struct zr_soft_file              *file,
                                   const struct drm_i915_query_item *item)
{
    struct zr_prelim_distance query;
    int ret = zr_soft_query_begin(item, &query, sizeof(query), sizeof(query), false);

    if (ret != 0) {
        return ret;
    }
    if (item->flags != 0 || query.distance != 0 || query.region.memory_instance != 0 ||
        query.region.memory_class > I915_MEMORY_CLASS_DEVICE ||
        zr_soft_engine_find(file->dev, query.engine.engine_class, query.engine.engine_instance) ==
            NULL) {
        return -EINVAL;
    }
    /* One tile: the bus is between it and the system's memory. */
    query.distance = query.region.memory_class == I915_MEMORY_CLASS_SYSTEM ? 10000 : 0;
    ret            = zr_soft_copy_out(item->data_ptr, &query, sizeof(query));
    return ret != 0 ? ret : (int)sizeof(query);
}

static int zr_soft_prelim_subslices(struct zr_soft_file              *file,
                                    const struct drm_i915_query_item *item)
{
    unsigned class = item->flags & 0xff, instance = item->flags >> 8 & 0xff;

    return zr_soft_engine_find(file->dev, class, instance) == NULL
               ? -EINVAL
               : zr_soft_query_subslices(&file->dev->profile, item);
}

static int zr_soft_prelim_ip_version(struct zr_soft_file              *file,
                                     const struct drm_i915_query_item *item)
{
    struct zr_prelim_ip_version query;
    int ret = zr_soft_query_begin(item, &query, sizeof(query), sizeof(query), false);

    if (ret != 0) {
        return ret;
    }
    if (query.flags != 0 || item->flags != 0 ||
        zr_soft_engine_find(file->dev, query.engine.engine_class, query.engine.engine_instance) ==
            NULL) {
        return -EINVAL;
    }
    query.architecture = 12;
    query.release      = 60;
    query.stepping     = 7; /* as the revision says: B, its last one */
    ret                = zr_soft_copy_out(item->data_ptr, &query, sizeof(query));
    return ret != 0 ? ret : (int)sizeof(query);
}

int zr_soft_prelim_query(struct zr_soft_file *file, const struct drm_i915_query_item *item)
{
    static int (*const fns[])(struct zr_soft_file *, const struct drm_i915_query_item *) = {
        [ZR_PRELIM_QUERY_MEMORY_REGIONS]     = zr_soft_prelim_regions,
        [ZR_PRELIM_QUERY_DISTANCE]           = zr_soft_prelim_distance,
        [ZR_PRELIM_QUERY_HWCONFIG]           = zr_soft_query_hwconfig,
        [ZR_PRELIM_QUERY_GEOMETRY_SUBSLICES] = zr_soft_prelim_subslices,
        [ZR_PRELIM_QUERY_COMPUTE_SUBSLICES]  = zr_soft_prelim_subslices,
        [ZR_PRELIM_QUERY_HW_IP_VERSION]      = zr_soft_prelim_ip_version,
        [ZR_PRELIM_QUERY_ENGINES]            = zr_soft_prelim_engines,
    };
    uint64_t id = item->query_id & 0xffff;

    return id < ZR_ARRAY_SIZE(fns) && fns[id] != NULL ? fns[id](file, item) : -EINVAL;
}
