/* A software device and its open files: creation, teardown, and the ioctl door. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"
#include "uapi.h"
#include "uapi_prelim.h"
#include "util/config.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- ids ---- */

int zr_soft_ids_add(struct zr_soft_ids *ids, unsigned first, void *object, uint32_t *id_p)
{
    unsigned i = ZR_MAX(first, ids->hint);
    void   **grown;
    unsigned size;

    while (i < ids->size && ids->slot[i] != NULL) {
        i++;
    }
    if (i >= ids->size) {
        size  = ZR_MAX(16u, ids->size * 2);
        grown = realloc(ids->slot, size * sizeof(*grown));
        if (grown == NULL) {
            return -ENOMEM;
        }
        memset(grown + ids->size, 0, (size - ids->size) * sizeof(*grown));
        ids->slot = grown;
        ids->size = size;
    }
    ids->slot[i] = object;
    ids->hint    = i + 1;
    *id_p        = i;
    return 0;
}

void *zr_soft_ids_get(const struct zr_soft_ids *ids, uint64_t id)
{
    return id < ids->size ? ids->slot[id] : NULL;
}

void *zr_soft_ids_remove(struct zr_soft_ids *ids, uint64_t id)
{
    void *object = zr_soft_ids_get(ids, id);

    if (object != NULL) {
        ids->slot[id] = NULL;
        ids->hint     = ZR_MIN(ids->hint, (unsigned)id);
    }
    return object;
}

/* ---- device ---- */

void zr_soft_options_config(struct zr_soft_options *options)
{
    *options = (struct zr_soft_options){
        .mbps    = zr_config()->soft_engine_mbps,
        .threads = zr_config()->soft_threads,
        .dirty   = zr_config()->soft_dirty,
        .faults  = zr_config()->soft_faults,
    };
}

int zr_soft_dev_create(const struct zr_soft_profile *profile,
                       const struct zr_soft_options *options, struct zr_soft_dev **dev_p)
{
    struct zr_soft_dev *dev = calloc(1, sizeof(*dev));
    pthread_condattr_t  attr;
    unsigned            i;
    int                 ret;

    if (dev == NULL) {
        return -ENOMEM;
    }
    dev->profile     = *profile;
    dev->options     = *options;
    dev->max_threads = options->threads != 0 ? options->threads : (unsigned)ZR_MAX(1, sysconf(_SC_NPROCESSORS_ONLN));
    dev->max_threads = ZR_MIN(dev->max_threads, 256u);
    dev->stream_bytes = zr_soft_stream_bytes();
    dev->thread      = calloc(dev->max_threads, sizeof(*dev->thread));
    if (dev->thread == NULL) {
        free(dev);
        return -ENOMEM;
    }
    pthread_mutex_init(&dev->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&dev->work, &attr);
    pthread_cond_init(&dev->signal, &attr);
    pthread_condattr_destroy(&attr);
    TAILQ_INIT(&dev->pending);
    TAILQ_INIT(&dev->runnable);
    TAILQ_INIT(&dev->waiting);
    LIST_INIT(&dev->composites);
    LIST_INIT(&dev->eventfds);
    for (i = 0; i < profile->num_engines; i++) {
        dev->engine[i].id   = profile->engine[i];
        dev->engine[i].mbps = options->mbps;
        if (profile->engine[i].class == I915_ENGINE_CLASS_COPY) {
            dev->engine[i].mbps = options->mbps * profile->copy_rate[profile->engine[i].instance] /
                                  100;
        }
    }
    ret = zr_soft_faults_parse(dev, options->faults);
    if (ret == 0) {
        ret = zr_soft_dirty_parse(dev, options->dirty);
    }
    if (ret != 0) {
        zr_soft_dev_destroy(dev);
        return ret;
    }
    *dev_p = dev;
    return 0;
}

void zr_soft_dev_destroy(struct zr_soft_dev *dev)
{
    zr_soft_threads_stop(dev);
    zr_soft_tokens_free(dev);
    zr_soft_eventfds_forget(dev, NULL);
    zr_soft_arenas_free(dev);
    pthread_cond_destroy(&dev->signal);
    pthread_cond_destroy(&dev->work);
    pthread_mutex_destroy(&dev->lock);
    free(dev->cookies.slot);
    free(dev->names.slot);
    free(dev->magics.slot);
    if (dev->hole > 0) {
        close(dev->hole - 1);
    }
    free(dev->fault);
    free(dev->thread);
    free(dev);
}

struct zr_soft_engine *zr_soft_engine_find(struct zr_soft_dev *dev, unsigned class,
                                           unsigned instance)
{
    unsigned i;

    for (i = 0; i < dev->profile.num_engines; i++) {
        if (dev->engine[i].id.class == class && dev->engine[i].id.instance == instance) {
            return &dev->engine[i];
        }
    }
    return NULL;
}

uint64_t zr_soft_timestamp(const struct zr_soft_dev *dev)
{
    return (uint64_t)((unsigned __int128)zr_time_ns() * dev->profile.timestamp_hz / 1000000000u);
}

/* ---- file ---- */

int zr_soft_file_open(struct zr_soft_dev *dev, struct zr_soft_file **file_p)
{
    struct zr_soft_file *file = calloc(1, sizeof(*file));
    struct zr_soft_ctx  *ctx;
    uint64_t             caps = zr_soft_task_capabilities();
    uint32_t             id;
    int                  ret = -ENOMEM;

    if (file == NULL) {
        return -ENOMEM;
    }
    file->dev     = dev;
    file->admin   = caps >> CAP_SYS_ADMIN & 1;
    file->nice    = caps >> CAP_SYS_NICE & 1;
    file->perfmon = file->admin || (caps >> CAP_PERFMON & 1);
    pthread_mutex_lock(&dev->lock);
    file->vm = zr_soft_vm_new(file);
    if (file->vm == NULL) {
        goto err_file;
    }
    ctx = zr_soft_ctx_new(file);
    if (ctx == NULL) {
        goto err_vm;
    }
    ret = zr_soft_ids_add(&file->contexts, 0, ctx, &id);
    if (ret != 0) {
        goto err_ctx;
    }
    dev->files++;
    pthread_mutex_unlock(&dev->lock);
    *file_p = file;
    return 0;

err_ctx:
    zr_soft_ctx_put(ctx);
err_vm:
    zr_soft_vm_put(file->vm);
err_file:
    pthread_mutex_unlock(&dev->lock);
    free(file);
    return ret;
}

void zr_soft_file_close(struct zr_soft_file *file)
{
    struct zr_soft_dev *dev = file->dev;
    unsigned            i;

    pthread_mutex_lock(&dev->lock);
    zr_soft_file_leave(file);
    for (i = 0; i < file->contexts.size; i++) {
        if (file->contexts.slot[i] != NULL) {
            zr_soft_ctx_close(file->contexts.slot[i]);
        }
    }
    /* Objects let go of their bindings through the VMs, so handles go first. */
    for (i = 0; i < file->handles.size; i++) {
        if (file->handles.slot[i] != NULL) {
            zr_soft_bo_close_handle(file, file->handles.slot[i], i);
        }
    }
    for (i = 0; i < file->vms.size; i++) {
        if (file->vms.slot[i] != NULL) {
            zr_soft_vm_put(file->vms.slot[i]);
        }
    }
    zr_soft_vm_put(file->vm);
    for (i = 0; i < file->syncobjs.size; i++) {
        if (file->syncobjs.slot[i] != NULL) {
            zr_soft_syncobj_put(file->syncobjs.slot[i]);
        }
    }
    dev->files--;
    pthread_mutex_unlock(&dev->lock);
    free(file->handles.slot);
    free(file->contexts.slot);
    free(file->vms.slot);
    free(file->syncobjs.slot);
    free(file);
}

/* @param mask: of a name's bits that are looked at */
static int zr_soft_extensions_walk(uint64_t ext, const zr_soft_ext_fn *fns, unsigned count, void *arg,
                                   uint32_t mask)
{
    struct i915_user_extension head;
    unsigned                   links = 0, i, name;
    int                        ret;

    while (ext != 0) {
        if (links++ > 512) {
            return -E2BIG;
        }
        ret = zr_soft_copy_in(&head, ext, sizeof(head));
        if (ret != 0) {
            return ret;
        }
        if (head.flags != 0) {
            return -EINVAL;
        }
        for (i = 0; i < ZR_ARRAY_SIZE(head.rsvd); i++) {
            if (head.rsvd[i] != 0) {
                return -EINVAL;
            }
        }
        name = head.name & mask;
        if (name >= count || fns[name] == NULL) {
            return -EINVAL;
        }
        ret = fns[name](arg, ext);
        if (ret != 0) {
            return ret;
        }
        ext = head.next_extension;
    }
    return 0;
}

int zr_soft_extensions(uint64_t ext, const zr_soft_ext_fn *fns, unsigned count, void *arg)
{
    return zr_soft_extensions_walk(ext, fns, count, arg, UINT32_MAX);
}

int zr_soft_prelim_extensions(uint64_t ext, const zr_soft_ext_fn *fns, unsigned count, void *arg)
{
    return zr_soft_extensions_walk(ext, fns, count, arg, ~ZR_PRELIM);
}

/* ---- ioctls of the DRM core that are too small for a file of their own ---- */

static int zr_soft_string(char *to, __kernel_size_t *length, const char *text)
{
    size_t size = strlen(text);
    int    ret  = 0;

    if (to != NULL && *length != 0) {
        ret = zr_soft_copy_out((uintptr_t)to, text, ZR_MIN(size, *length));
    }
    *length = size;
    return ret;
}

static int zr_soft_version(struct zr_soft_file *file, void *data)
{
    struct drm_version *v = data;

    v->version_major      = 1;
    v->version_minor      = 6;
    v->version_patchlevel = 0;
    if (zr_soft_string(v->name, &v->name_len, "i915") != 0 ||
        zr_soft_string(v->date, &v->date_len, "20230929") != 0) {
        return -EFAULT;
    }
    return zr_soft_string(v->desc, &v->desc_len, "Intel Graphics");
}

static int zr_soft_get_cap(struct zr_soft_file *file, void *data)
{
    struct drm_get_cap *cap = data;

    cap->value = 0;
    switch (cap->capability) {
    case DRM_CAP_TIMESTAMP_MONOTONIC:
    case DRM_CAP_SYNCOBJ:
    case DRM_CAP_SYNCOBJ_TIMELINE:
        cap->value = 1;
        return 0;
    case DRM_CAP_PRIME:
        cap->value = DRM_PRIME_CAP_IMPORT | DRM_PRIME_CAP_EXPORT;
        return 0;
    default:
        return -EOPNOTSUPP; /* a render-only device has no mode setting capabilities */
    }
}

static int zr_soft_unsupported(struct zr_soft_file *file, void *data)
{
    return -EOPNOTSUPP;
}

/* What a request without an argument has. */
struct zr_soft_no_argument {
    char none;
};

struct zr_soft_ioctl {
    const char *name;
    unsigned size; /* of the kernel's argument; 0: no such request */
    int (*handler)(struct zr_soft_file *file, void *data);
    unsigned flags; /* ZR_SOFT_PRIMARY and others: who may call */
};

#define CORE(number, name, type, handler) [number] = {#name, sizeof(struct type), handler}
#define NODE(number, name, type, handler, flags)                                              \
    [number] = {#name, sizeof(struct type), handler, ZR_SOFT_PRIMARY | (flags)}
#define I915(name, type, handler)                                                             \
    [DRM_COMMAND_BASE + DRM_I915_##name] = {#name, sizeof(struct type), handler}
#define PRELIM(name, type, handler)                                                           \
    [DRM_COMMAND_BASE + ZR_PRELIM_##name] = {"PRELIM_" #name, sizeof(struct type), handler,   \
                                             ZR_SOFT_BACKPORTS}

static const struct zr_soft_ioctl ioctls[256] = {
    CORE(0x00, VERSION, drm_version, zr_soft_version),
    NODE(0x01, GET_UNIQUE, drm_unique, zr_soft_get_unique, 0),
    NODE(0x02, GET_MAGIC, drm_auth, zr_soft_get_magic, 0),
    NODE(0x05, GET_CLIENT, drm_client, zr_soft_get_client, 0),
    NODE(0x06, GET_STATS, drm_stats, zr_soft_get_stats, 0),
    NODE(0x07, SET_VERSION, drm_set_version, zr_soft_set_version, ZR_SOFT_MASTER),
    NODE(0x0a, GEM_FLINK, drm_gem_flink, zr_soft_flink, ZR_SOFT_AUTH),
    NODE(0x0b, GEM_OPEN, drm_gem_open, zr_soft_open_name, ZR_SOFT_AUTH),
    NODE(0x0d, SET_CLIENT_CAP, drm_set_client_cap, zr_soft_unsupported, 0),
    NODE(0x11, AUTH_MAGIC, drm_auth, zr_soft_auth_magic, ZR_SOFT_MASTER),
    NODE(0x1e, SET_MASTER, zr_soft_no_argument, zr_soft_set_master, 0),
    NODE(0x1f, DROP_MASTER, zr_soft_no_argument, zr_soft_drop_master, 0),
    NODE(0xa0, MODE_GETRESOURCES, drm_mode_card_res, zr_soft_unsupported, 0),
    NODE(0xb5, MODE_GETPLANERESOURCES, drm_mode_get_plane_res, zr_soft_unsupported, 0),
    CORE(0x09, GEM_CLOSE, drm_gem_close, zr_soft_gem_close),
    CORE(0x0c, GET_CAP, drm_get_cap, zr_soft_get_cap),
    CORE(0x2d, PRIME_HANDLE_TO_FD, drm_prime_handle, zr_soft_prime_to_fd),
    CORE(0x2e, PRIME_FD_TO_HANDLE, drm_prime_handle, zr_soft_prime_to_handle),
    CORE(0xbf, SYNCOBJ_CREATE, drm_syncobj_create, zr_soft_syncobj_create),
    CORE(0xc0, SYNCOBJ_DESTROY, drm_syncobj_destroy, zr_soft_syncobj_destroy),
    CORE(0xc1, SYNCOBJ_HANDLE_TO_FD, drm_syncobj_handle, zr_soft_syncobj_to_fd),
    CORE(0xc2, SYNCOBJ_FD_TO_HANDLE, drm_syncobj_handle, zr_soft_syncobj_to_handle),
    CORE(0xc3, SYNCOBJ_WAIT, drm_syncobj_wait, zr_soft_syncobj_wait),
    CORE(0xc4, SYNCOBJ_RESET, drm_syncobj_array, zr_soft_syncobj_reset),
    CORE(0xc5, SYNCOBJ_SIGNAL, drm_syncobj_array, zr_soft_syncobj_signal),
    CORE(0xca, SYNCOBJ_TIMELINE_WAIT, drm_syncobj_timeline_wait, zr_soft_syncobj_timeline_wait),
    CORE(0xcb, SYNCOBJ_QUERY, drm_syncobj_timeline_array, zr_soft_syncobj_query),
    CORE(0xcc, SYNCOBJ_TRANSFER, drm_syncobj_transfer, zr_soft_syncobj_transfer),
    CORE(0xcd, SYNCOBJ_TIMELINE_SIGNAL, drm_syncobj_timeline_array, zr_soft_syncobj_timeline_signal),
    CORE(0xcf, SYNCOBJ_EVENTFD, zr_syncobj_eventfd, zr_soft_syncobj_eventfd),
    I915(GETPARAM, drm_i915_getparam, zr_soft_getparam),
    /* Longer than upstream's: what backports adds is left alone elsewhere. */
    I915(GEM_CREATE, zr_prelim_create, zr_soft_gem_create),
    I915(GEM_CREATE_EXT, drm_i915_gem_create_ext, zr_soft_gem_create_ext),
    I915(GEM_MMAP, drm_i915_gem_mmap, zr_soft_gem_mmap),
    I915(GEM_MMAP_GTT, drm_i915_gem_mmap_offset, zr_soft_gem_mmap_offset),
    I915(GEM_PREAD, drm_i915_gem_pread, zr_soft_pread),
    I915(GEM_PWRITE, drm_i915_gem_pwrite, zr_soft_pwrite),
    I915(GEM_SET_DOMAIN, drm_i915_gem_set_domain, zr_soft_set_domain),
    I915(GEM_SET_CACHING, drm_i915_gem_caching, zr_soft_set_caching),
    I915(GEM_GET_CACHING, drm_i915_gem_caching, zr_soft_get_caching),
    I915(GEM_BUSY, drm_i915_gem_busy, zr_soft_gem_busy),
    I915(GEM_WAIT, drm_i915_gem_wait, zr_soft_gem_wait),
    I915(GEM_USERPTR, drm_i915_gem_userptr, zr_soft_gem_userptr),
    I915(GEM_EXECBUFFER2, drm_i915_gem_execbuffer2, zr_soft_execbuffer2),
    I915(GEM_CONTEXT_CREATE, drm_i915_gem_context_create_ext, zr_soft_context_create),
    I915(GEM_CONTEXT_DESTROY, drm_i915_gem_context_destroy, zr_soft_context_destroy),
    I915(GEM_CONTEXT_GETPARAM, drm_i915_gem_context_param, zr_soft_context_getparam),
    I915(GEM_CONTEXT_SETPARAM, drm_i915_gem_context_param, zr_soft_context_setparam),
    I915(GET_RESET_STATS, drm_i915_reset_stats, zr_soft_reset_stats),
    I915(GEM_VM_CREATE, drm_i915_gem_vm_control, zr_soft_vm_create),
    I915(GEM_VM_DESTROY, drm_i915_gem_vm_control, zr_soft_vm_destroy),
    I915(QUERY, drm_i915_query, zr_soft_query),
    I915(GEM_THROTTLE, zr_soft_no_argument, zr_soft_throttle),
    I915(GEM_SW_FINISH, drm_i915_gem_sw_finish, zr_soft_sw_finish),
    I915(GEM_GET_APERTURE, drm_i915_gem_get_aperture, zr_soft_get_aperture),
    I915(GEM_MADVISE, drm_i915_gem_madvise, zr_soft_madvise),
    I915(GEM_SET_TILING, drm_i915_gem_set_tiling, zr_soft_set_tiling),
    I915(GEM_GET_TILING, drm_i915_gem_get_tiling, zr_soft_get_tiling),
    I915(PERF_OPEN, drm_i915_perf_open_param, zr_soft_unsupported),
    I915(PERF_ADD_CONFIG, drm_i915_perf_oa_config, zr_soft_unsupported),
    I915(PERF_REMOVE_CONFIG, drm_i915_gem_sw_finish, zr_soft_unsupported),
    I915(REG_READ, drm_i915_reg_read, zr_soft_reg_read),
    PRELIM(VM_BIND, zr_prelim_bind, zr_soft_prelim_bind),
    PRELIM(VM_UNBIND, zr_prelim_bind, zr_soft_prelim_unbind),
    PRELIM(VM_ADVISE, zr_prelim_advise, zr_soft_prelim_advise),
    PRELIM(VM_PREFETCH, zr_prelim_prefetch, zr_soft_prelim_prefetch),
    PRELIM(WAIT_USER_FENCE, zr_prelim_wait, zr_soft_prelim_wait),
    PRELIM(GET_RESET_STATS, zr_prelim_reset_stats, zr_soft_prelim_reset_stats),
};

int zr_soft_ioctl_find(const char *name, unsigned *number_p)
{
    unsigned i;

    for (i = 0; i < ZR_ARRAY_SIZE(ioctls); i++) {
        if (ioctls[i].name != NULL && strcmp(ioctls[i].name, name) == 0) {
            *number_p = i;
            return 0;
        }
    }
    return -EINVAL;
}

size_t zr_soft_ioctl_size(unsigned long request)
{
    return ioctls[_IOC_NR(request)].size;
}

int zr_soft_file_call(struct zr_soft_file *file, unsigned long request, void *data)
{
    const struct zr_soft_ioctl *entry = &ioctls[_IOC_NR(request)];
    int                         ret;

    if (_IOC_TYPE(request) != DRM_IOCTL_BASE) {
        return -ENOTTY;
    }
    if (entry->size == 0 ||
        ((entry->flags & ZR_SOFT_BACKPORTS) && !file->dev->profile.backports)) {
        return -EINVAL;
    }
    pthread_mutex_lock(&file->dev->lock);
    ret = zr_soft_permit(file, entry->flags);
    if (ret == 0) {
        ret = zr_soft_fault_call(file->dev, _IOC_NR(request));
    }
    if (ret == 0) {
        ret = zr_soft_dirty_call(file->dev);
    }
    if (ret == 0) {
        ret = entry->handler(file, data);
    }
    pthread_mutex_unlock(&file->dev->lock);
    return ret;
}

int zr_soft_file_ioctl(struct zr_soft_file *file, unsigned long request, uint64_t arg)
{
    uint64_t data[32] = {0};
    size_t   known    = ioctls[_IOC_NR(request)].size;
    /* An older or newer client's struct is cut or filled up with zeros. */
    size_t   size = ZR_MIN((size_t)_IOC_SIZE(request), known);
    int      ret;

    if ((_IOC_DIR(request) & _IOC_WRITE) && zr_soft_copy_in(data, arg, size) != 0) {
        return -EFAULT;
    }
    ret = zr_soft_file_call(file, request, data);
    if ((_IOC_DIR(request) & _IOC_READ) && zr_soft_copy_out(arg, data, size) != 0) {
        return -EFAULT;
    }
    return ret;
}
