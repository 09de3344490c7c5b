/* Find i915 devices, ask what they are and what their kernel can do, and hold one VM on each. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ZR_MAX_NODES      64
#define ZR_GPU_VA_FIRST   (UINT64_C(4) << 30) /* nothing of ours looks like a 32-bit address */
#define ZR_GPU_VA_MINIMUM (UINT64_C(16) << 30)

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct zr_i915 *registry;

/* ---- questions ---- */

static int zr_i915_getparam(struct zr_i915 *dev, int param, int *value_p)
{
    int                     value = 0;
    struct drm_i915_getparam query = {.param = param, .value = &value};
    int                     ret   = zr_i915_ioctl(dev, DRM_IOCTL_I915_GETPARAM, &query);

    if (ret == 0) {
        *value_p = value;
    }
    return ret;
}

/* A query item of unknown length; *data_p is the caller's to free. */
static int zr_i915_query(struct zr_i915 *dev, uint64_t id, uint64_t flags, void **data_p)
{
    struct drm_i915_query_item item  = {.query_id = id, .flags = flags};
    struct drm_i915_query      query = {.num_items = 1, .items_ptr = (uintptr_t)&item};
    void                      *data;
    int                        ret;

    ret = zr_i915_ioctl(dev, DRM_IOCTL_I915_QUERY, &query);
    if (ret != 0 || item.length <= 0) {
        return ret != 0 ? ret : (item.length < 0 ? item.length : -ENODATA);
    }
    data = calloc(1, item.length);
    if (data == NULL) {
        return -ENOMEM;
    }
    item.data_ptr = (uintptr_t)data;
    ret           = zr_i915_ioctl(dev, DRM_IOCTL_I915_QUERY, &query);
    if (ret != 0 || item.length <= 0) {
        free(data);
        return ret != 0 ? ret : (item.length < 0 ? item.length : -ENODATA);
    }
    *data_p = data;
    return 0;
}

static ze_result_t zr_i915_read_version(struct zr_i915 *dev)
{
    char               name[32] = {0};
    struct drm_version version  = {.name = name, .name_len = sizeof(name) - 1};
    int                ret      = zr_i915_ioctl(dev, DRM_IOCTL_VERSION, &version);

    if (ret != 0) {
        return zr_fail(zr_result_from_errno(ret), "%s: DRM_IOCTL_VERSION: %s",
                       dev->info.node.path, strerror(-ret));
    }
    if (strcmp(name, "i915") != 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, "%s is driven by '%s', not by i915",
                       dev->info.node.path, name);
    }
    return ZE_RESULT_SUCCESS;
}

static ze_result_t zr_i915_check_params(struct zr_i915 *dev)
{
    static const struct {
        int         param;
        const char *name;
    } required[] = {
        {I915_PARAM_HAS_BLT, "a copy engine (HAS_BLT)"},
        {I915_PARAM_HAS_EXEC_SOFTPIN, "soft-pinned addresses (HAS_EXEC_SOFTPIN)"},
        {I915_PARAM_HAS_EXEC_NO_RELOC, "batches without relocations (HAS_EXEC_NO_RELOC)"},
        {I915_PARAM_HAS_EXEC_ASYNC, "explicit ordering (HAS_EXEC_ASYNC)"},
        {I915_PARAM_HAS_EXEC_FENCE_ARRAY, "syncobj fences (HAS_EXEC_FENCE_ARRAY)"},
    };
    unsigned i;
    int      value, ret;

    for (i = 0; i < ZR_ARRAY_SIZE(required); i++) {
        value = 0;
        ret   = zr_i915_getparam(dev, required[i].param, &value);
        if (ret != 0 || value <= 0) {
            return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE,
                           "%s: the kernel does not offer %s (%s)", dev->info.node.path,
                           required[i].name, ret != 0 ? strerror(-ret) : "value 0");
        }
    }
    return ZE_RESULT_SUCCESS;
}

static ze_result_t zr_i915_read_model(struct zr_i915 *dev)
{
    const struct zr_i915_model *model;
    struct zr_i915_info        *info = &dev->info;
    int                         id = 0, revision = 0, llc = 0, hz = 0, probe = 0, ret;

    ret = zr_i915_getparam(dev, I915_PARAM_CHIPSET_ID, &id);
    if (ret != 0) {
        return zr_fail(zr_result_from_errno(ret), "%s: CHIPSET_ID: %s", info->node.path,
                       strerror(-ret));
    }
    model = zr_i915_model((uint32_t)id);
    if (model == NULL) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE,
                       "%s: device 0x%04x is not known: the commands of its copy engine are not"
                       " (known: Gen12 to Meteor Lake, DG1, DG2, Ponte Vecchio)",
                       info->node.path, (unsigned)id);
    }
    /* These have values of their own where a kernel does not answer. */
    (void)zr_i915_getparam(dev, I915_PARAM_REVISION, &revision);
    (void)zr_i915_getparam(dev, I915_PARAM_HAS_LLC, &llc);
    (void)zr_i915_getparam(dev, I915_PARAM_CS_TIMESTAMP_FREQUENCY, &hz);
    (void)zr_i915_getparam(dev, I915_PARAM_HAS_USERPTR_PROBE, &probe);
    snprintf(info->name, sizeof(info->name), "%s", model->name);
    info->device_id    = (uint32_t)id;
    info->revision     = (uint32_t)revision;
    info->gen          = model->gen;
    info->has_llc      = llc > 0;
    info->timestamp_hz = hz > 0 ? (uint64_t)hz : 19200000;
    dev->userptr_probe = probe > 0;
    return ZE_RESULT_SUCCESS;
}

static int zr_engine_compare_instance(const void *a, const void *b)
{
    const struct zr_engine *x = a, *y = b;

    return (int)x->instance - (int)y->instance;
}

/* Out-of-tree kernels list the engines of all tiles, one tile after the other, each with logical
 * instances of its own. Only the first tile's are next to the memory that is used, and a set of
 * several tiles' engines is none. */
static unsigned zr_engines_of_first_tile(const struct zr_engine *engine, unsigned count)
{
    unsigned i, k;

    for (i = 1; i < count; i++) {
        for (k = 0; k < i; k++) {
            if (engine[k].logical_instance == engine[i].logical_instance) {
                return i;
            }
        }
    }
    return count;
}

static int zr_engine_compare(const void *a, const void *b)
{
    const struct zr_engine *x = a, *y = b;

    return (int)x->logical_instance - (int)y->logical_instance;
}

static ze_result_t zr_i915_read_engines(struct zr_i915 *dev)
{
    struct zr_i915_info                *info = &dev->info;
    struct drm_i915_query_engine_info  *reply;
    const struct drm_i915_engine_info  *engine;
    struct zr_engine                   *mine, all[4 * ZR_MAX_ENGINES];
    unsigned                            i, count = 0;
    int                                 ret;

    ret = zr_i915_query(dev, DRM_I915_QUERY_ENGINE_INFO, 0, (void **)&reply);
    if (ret != 0) {
        return zr_fail(zr_result_from_errno(ret), "%s: query of the engines: %s",
                       info->node.path, strerror(-ret));
    }
    for (i = 0; i < reply->num_engines && count < ZR_ARRAY_SIZE(all); i++) {
        engine = &reply->engines[i];
        if (engine->engine.engine_class != I915_ENGINE_CLASS_COPY) {
            continue;
        }
        mine                   = &all[count++];
        mine->instance         = engine->engine.engine_instance;
        mine->logical_instance = (engine->flags & I915_ENGINE_INFO_HAS_LOGICAL_INSTANCE) ?
                                     engine->logical_instance :
                                     mine->instance;
    }
    free(reply);
    if (count == 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, "%s has no copy engine",
                       info->node.path);
    }
    qsort(all, count, sizeof(all[0]), zr_engine_compare_instance);
    info->num_engines = ZR_MIN(zr_engines_of_first_tile(all, count), (unsigned)ZR_MAX_ENGINES);
    if (info->num_engines < count) {
        zr_info("%s: %u copy engines, %u of them belong to other tiles and are not used",
                info->node.path, count, count - info->num_engines);
    }
    memcpy(info->engine, all, info->num_engines * sizeof(all[0]));
    qsort(info->engine, info->num_engines, sizeof(info->engine[0]), zr_engine_compare);
    return ZE_RESULT_SUCCESS;
}

static ze_result_t zr_i915_read_regions(struct zr_i915 *dev, uint64_t *lmem_free_p)
{
    struct drm_i915_query_memory_regions     *reply;
    const struct drm_i915_memory_region_info *region;
    uint64_t                                  smem = 0, lmem = 0, lmem_free = 0;
    bool                                      small = false;
    unsigned                                  i;
    int                                       ret;

    ret = zr_i915_query(dev, DRM_I915_QUERY_MEMORY_REGIONS, 0, (void **)&reply);
    if (ret != 0) {
        return zr_fail(zr_result_from_errno(ret), "%s: query of the memory regions: %s",
                       dev->info.node.path, strerror(-ret));
    }
    for (i = 0; i < reply->num_regions; i++) {
        region = &reply->regions[i];
        if (region->region.memory_class == I915_MEMORY_CLASS_SYSTEM) {
            smem += region->probed_size;
        } else if (region->region.memory_class == I915_MEMORY_CLASS_DEVICE &&
                   region->region.memory_instance == 0) {
            lmem      = region->probed_size;
            lmem_free = region->unallocated_size;
            small     = region->probed_cpu_visible_size != 0 &&
                    region->probed_cpu_visible_size < region->probed_size;
        }
    }
    free(reply);
    if (lmem_free_p != NULL) {
        /* A kernel that does not tell an unprivileged process answers with the whole size. */
        *lmem_free_p = lmem_free < lmem ? lmem_free : 0;
        return ZE_RESULT_SUCCESS;
    }
    dev->info.smem_size = smem;
    dev->info.lmem_size = lmem;
    dev->small_bar      = small;
    return ZE_RESULT_SUCCESS;
}

/* One VM for all contexts of the process, so that a pointer is valid in each of them. */
static ze_result_t zr_i915_create_vm(struct zr_i915 *dev)
{
    struct drm_i915_gem_context_param param = {.param = I915_CONTEXT_PARAM_GTT_SIZE};
    struct drm_i915_gem_vm_control    vm    = {0};
    uint64_t                          limit, middle;
    int                               ret;

    ret = zr_i915_ioctl(dev, DRM_IOCTL_I915_GEM_CONTEXT_GETPARAM, &param);
    if (ret != 0) {
        return zr_fail(zr_result_from_errno(ret), "%s: GTT_SIZE: %s", dev->info.node.path,
                       strerror(-ret));
    }
    dev->info.gtt_size = param.value;
    if (param.value < ZR_GPU_VA_MINIMUM) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE,
                       "%s: a GPU address space of %llu bytes is too small, needed: %llu",
                       dev->info.node.path, (unsigned long long)param.value,
                       (unsigned long long)ZR_GPU_VA_MINIMUM);
    }
    ret = zr_i915_ioctl(dev, DRM_IOCTL_I915_GEM_VM_CREATE, &vm);
    if (ret != 0) {
        return zr_fail(zr_result_from_errno(ret), "%s: creating a GPU address space: %s",
                       dev->info.node.path, strerror(-ret));
    }
    dev->vm_id = vm.vm_id;
    /* Below bit 47 the canonical form of a 48-bit and of a 57-bit VM is the same. */
    limit  = param.value > (UINT64_C(1) << 48) ? UINT64_C(1) << 47 : param.value;
    limit  = ZR_ALIGN_DOWN(limit - 2 * ZR_MIB, 2 * ZR_MIB);
    middle = ZR_ALIGN_UP(limit / 2, 2 * ZR_MIB); /* bit 47 itself: no object lies across it */
    if (zr_vma_init(&dev->vma_device, ZR_GPU_VA_FIRST, middle - ZR_GPU_VA_FIRST) != 0 ||
        zr_vma_init(&dev->vma_system, middle, limit - middle) != 0) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory",
                       dev->info.node.path);
    }
    return ZE_RESULT_SUCCESS;
}

/* ---- life ---- */

static void zr_i915_free(struct zr_i915 *dev)
{
    struct drm_i915_gem_vm_control vm = {.vm_id = dev->vm_id};

    if (dev->vm_id != 0) {
        (void)zr_i915_ioctl(dev, DRM_IOCTL_I915_GEM_VM_DESTROY, &vm);
    }
    if (dev->file != NULL) {
        dev->kif->close(dev->file);
    }
    zr_vma_fini(&dev->vma_device);
    zr_vma_fini(&dev->vma_system);
    pthread_mutex_destroy(&dev->lock);
    free(dev->table);
    free(dev);
}

static ze_result_t zr_i915_open(const struct zr_kif *kif, const struct zr_kif_node *node,
                                struct zr_i915 **dev_p)
{
    struct zr_i915 *dev = calloc(1, sizeof(*dev));
    ze_result_t     result;
    int             ret;

    if (dev == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "%s: out of memory", node->path);
    }
    dev->kif       = kif;
    dev->info.node = *node;
    dev->opens     = 1;
    pthread_mutex_init(&dev->lock, NULL);
    ret = kif->open(node, &dev->file);
    if (ret != 0) {
        result = zr_fail(zr_result_from_errno(ret), "%s: open: %s", node->path, strerror(-ret));
        goto err;
    }
    if ((result = zr_i915_read_version(dev)) != ZE_RESULT_SUCCESS ||
        (result = zr_i915_read_model(dev)) != ZE_RESULT_SUCCESS ||
        (result = zr_i915_check_params(dev)) != ZE_RESULT_SUCCESS ||
        (result = zr_i915_read_engines(dev)) != ZE_RESULT_SUCCESS ||
        (result = zr_i915_read_regions(dev, NULL)) != ZE_RESULT_SUCCESS ||
        (result = zr_i915_create_vm(dev)) != ZE_RESULT_SUCCESS) {
        goto err;
    }
    zr_info("%s: %s (0x%04x rev 0x%x), %u copy engine%s, %llu MiB device memory", node->path,
            dev->info.name, dev->info.device_id, dev->info.revision, dev->info.num_engines,
            dev->info.num_engines == 1 ? "" : "s",
            (unsigned long long)(dev->info.lmem_size >> 20));
    *dev_p = dev;
    return ZE_RESULT_SUCCESS;

err:
    zr_i915_free(dev);
    return result;
}

/* Called with the registry lock held. */
static struct zr_i915 *zr_i915_find_open(const struct zr_kif *kif, const struct zr_kif_node *node)
{
    struct zr_i915 *dev;

    for (dev = registry; dev != NULL; dev = dev->next) {
        if (dev->kif == kif && strcmp(dev->info.node.path, node->path) == 0) {
            return dev;
        }
    }
    return NULL;
}

ze_result_t zr_i915_enumerate(const struct zr_kif *kif, struct zr_i915 **devs, unsigned max,
                              unsigned *count)
{
    struct zr_kif_node nodes[ZR_MAX_NODES];
    ze_result_t        result, first_failure = ZE_RESULT_SUCCESS;
    unsigned           found = 0;
    struct zr_i915    *dev;
    int                num_nodes, i;

    num_nodes = kif->enumerate(nodes, ZR_MAX_NODES);
    if (num_nodes < 0) {
        return zr_fail(zr_result_from_errno(num_nodes), "enumeration of %s devices: %s",
                       kif->name, strerror(-num_nodes));
    }
    pthread_mutex_lock(&registry_lock);
    for (i = 0; i < num_nodes && found < max; i++) {
        dev = zr_i915_find_open(kif, &nodes[i]);
        if (dev != NULL) {
            dev->opens++;
        } else {
            result = zr_i915_open(kif, &nodes[i], &dev);
            if (result != ZE_RESULT_SUCCESS) {
                zr_warn("not used: %s", zr_last_error());
                first_failure = first_failure ? first_failure : result;
                continue;
            }
            dev->next = registry;
            registry  = dev;
        }
        devs[found++] = dev;
    }
    pthread_mutex_unlock(&registry_lock);
    if (found == 0 && first_failure != ZE_RESULT_SUCCESS) {
        return first_failure;
    }
    *count = found;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_bo_import_near(struct zr_i915 *dev, int fd, struct zr_bo **bo_p)
{
    ze_result_t     result = zr_bo_import(dev, fd, bo_p);
    struct zr_i915 *other;

    if (result != ZE_RESULT_ERROR_UNSUPPORTED_FEATURE) {
        return result;
    }
    pthread_mutex_lock(&registry_lock);
    for (other = registry; other != NULL && result == ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
         other = other->next) {
        if (other != dev) {
            result = zr_bo_import(other, fd, bo_p);
        }
    }
    pthread_mutex_unlock(&registry_lock);
    return result;
}

void zr_i915_close(struct zr_i915 *dev)
{
    struct zr_i915 **link;

    pthread_mutex_lock(&registry_lock);
    if (--dev->opens == 0) {
        for (link = &registry; *link != dev; link = &(*link)->next) {
        }
        *link = dev->next;
        zr_i915_free(dev);
    }
    pthread_mutex_unlock(&registry_lock);
}

const struct zr_i915_info *zr_i915_info(const struct zr_i915 *dev)
{
    return &dev->info;
}

uint64_t zr_i915_lmem_free(struct zr_i915 *dev)
{
    uint64_t bytes = 0;

    if (zr_i915_is_discrete(dev)) {
        (void)zr_i915_read_regions(dev, &bytes);
    }
    return bytes;
}

int zr_i915_completed_batches(struct zr_i915 *dev, uint64_t *counts, unsigned max)
{
    return dev->kif->completed_batches(dev->file, I915_ENGINE_CLASS_COPY, counts, max);
}
