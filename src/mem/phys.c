/* Physical memory objects: a reference counted buffer object with its backing, cache type and an
 * identity that is never reused, and its counterparts on further devices. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem.h"
#include "vaspace.h"

#include "util/config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The object as another device of this process sees it. */
struct zr_peer {
    struct zr_i915 *dev;
    struct zr_bo   *bo; /* NULL: the kernel does not let this device reach the object */
    struct zr_peer *next;
};

static atomic_uint_fast64_t zr_phys_next_id = 1;
static atomic_uint_fast64_t zr_phys_live;

static void (*zr_phys_ended)(uint64_t id);

/* Guards the lists of peers of all objects. Nothing is locked inside it but the device's own. */
static pthread_mutex_t zr_peer_lock = PTHREAD_MUTEX_INITIALIZER;

void zr_phys_watch_end(void (*ended)(uint64_t id))
{
    zr_phys_ended = ended;
}

uint64_t zr_phys_count(void)
{
    return atomic_load(&zr_phys_live);
}

bool zr_phys_cpu_visible(const struct zr_phys *phys)
{
    return phys->backing != ZR_BACKING_PAGES &&
           (!phys->device_local || zr_config()->device_cpu_access);
}

static struct zr_phys *zr_phys_new(enum zr_backing backing, uint64_t size)
{
    struct zr_phys *phys = calloc(1, sizeof(*phys));

    if (phys == NULL) {
        zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "physical memory object: no memory");
        return NULL;
    }
    atomic_init(&phys->refs, 1);
    phys->id      = atomic_fetch_add(&zr_phys_next_id, 1);
    phys->size    = size;
    phys->backing = backing;
    phys->fd      = -1;
    atomic_fetch_add(&zr_phys_live, 1);
    return phys;
}

static void zr_phys_set_bo(struct zr_phys *phys, struct zr_bo *bo)
{
    phys->cache        = bo->cache;
    phys->device_local = (bo->placement != ZR_PLACE_SYSTEM) && !bo->userptr;
    phys->bo           = bo;
}

static const char *zr_cache_name(enum zr_cache cache)
{
    static const char *const names[] = {"cached", "write-combined", "uncached"};

    return names[cache];
}

/* Numbers an object must have, whatever the device. */
static ze_result_t zr_phys_check(const struct zr_phys_spec *spec)
{
    if (spec->size == 0 || spec->size % ZR_PAGE_SMALL != 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
                       "physical memory object: size %llu is not a multiple of the page size %llu",
                       (unsigned long long)spec->size, (unsigned long long)ZR_PAGE_SMALL);
    }
    if (spec->backing == ZR_BACKING_SECTION && spec->cache == ZR_CACHE_UNCACHED) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "physical memory object: a section is cached or write-combined");
    }
    if (spec->backing == ZR_BACKING_PAGES) {
        if (spec->pages == NULL || (uintptr_t)spec->pages > UINTPTR_MAX - spec->size) {
            return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                           "physical memory object: %llu bytes of the caller's pages at %p",
                           (unsigned long long)spec->size, spec->pages);
        }
        if ((uintptr_t)spec->pages % ZR_CPU_PAGE != 0) {
            return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT,
                           "physical memory object: the caller's pages at %p do not begin with a "
                           "page", spec->pages);
        }
    }
    return ZE_RESULT_SUCCESS;
}

/* The backing of an object that has none yet. zr_peer_lock is held. */
static ze_result_t zr_phys_back(struct zr_phys *phys, struct zr_i915 *dev, bool any_cache,
                                struct zr_bo **bo_p)
{
    const bool    system = phys->backing == ZR_BACKING_SECTION;
    struct zr_bo *bo;
    ze_result_t   result;

    switch (phys->backing) {
    case ZR_BACKING_PAGES:
        result = zr_bo_create_userptr(dev, phys->pages, phys->size, &bo);
        break;
    case ZR_BACKING_IO_SPACE:
        result = zr_bo_import(dev, phys->fd, &bo);
        break;
    default: /* without a shared last-level cache zr_bo_create gives write-combined for cached */
        any_cache = true;
        result    = zr_bo_create(dev, phys->size,
                                 system          ? ZR_PLACE_SYSTEM :
                                 phys->movable ? ZR_PLACE_EITHER :
                                                 ZR_PLACE_DEVICE,
                                 phys->cache, &bo);
    }
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    if (bo->size < phys->size) {
        result = zr_fail(ZE_RESULT_ERROR_INVALID_SIZE,
                         "physical memory object of %llu bytes: the dma-buf has %llu",
                         (unsigned long long)phys->size, (unsigned long long)bo->size);
    } else if (!any_cache && bo->cache != phys->cache) {
        result = zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE,
                         "physical memory object: its memory is %s here, it cannot be %s",
                         zr_cache_name(bo->cache), zr_cache_name(phys->cache));
    }
    if (result != ZE_RESULT_SUCCESS) {
        zr_bo_unref(bo);
        return result;
    }
    *bo_p = bo;
    return ZE_RESULT_SUCCESS;
}

static void zr_phys_close_fd(struct zr_phys *phys)
{
    if (phys->fd >= 0) {
        close(phys->fd);
        phys->fd = -1;
    }
}

static ze_result_t zr_phys_first_open(struct zr_phys *phys, struct zr_i915 *dev, bool any_cache)
{
    struct zr_bo *bo;
    ze_result_t   result = zr_phys_back(phys, dev, any_cache, &bo);

    if (result == ZE_RESULT_SUCCESS) {
        zr_phys_set_bo(phys, bo);
        zr_phys_close_fd(phys);
    }
    return result;
}

ze_result_t zr_phys_make(struct zr_i915 *dev, const struct zr_phys_spec *spec,
                         struct zr_phys **phys_p)
{
    struct zr_phys *phys;
    ze_result_t     result = zr_phys_check(spec);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    phys = zr_phys_new(spec->backing, spec->size);
    if (phys == NULL) {
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    phys->cache        = spec->cache;
    phys->context_word = spec->context_word;
    phys->pages        = spec->pages;
    phys->movable      = spec->movable;
    if (spec->backing == ZR_BACKING_IO_SPACE) {
        phys->fd = fcntl(spec->fd, F_DUPFD_CLOEXEC, 0);
        if (phys->fd < 0) {
            result = zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                             "physical memory object: dma-buf fd %d: %s", spec->fd,
                             strerror(errno));
            goto err;
        }
    }
    if (dev != NULL) {
        result = zr_phys_first_open(phys, dev, spec->any_cache);
        if (result != ZE_RESULT_SUCCESS) {
            goto err;
        }
    }
    *phys_p = phys;
    return ZE_RESULT_SUCCESS;

err:
    zr_phys_unref(phys);
    return result;
}

ze_result_t zr_phys_create(struct zr_i915 *dev, enum zr_backing backing, enum zr_cache cache,
                           uint64_t size, uint64_t context_word, struct zr_phys **phys_p)
{
    const struct zr_phys_spec spec = {
        .backing = backing, .cache = cache, .size = size, .context_word = context_word};

    if (backing != ZR_BACKING_SECTION && backing != ZR_BACKING_CONTIGUOUS) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "physical memory object: backing %d needs more than a size", backing);
    }
    return zr_phys_make(dev, &spec, phys_p);
}

ze_result_t zr_phys_wrap(struct zr_bo *bo, enum zr_backing backing, struct zr_phys **phys_p)
{
    struct zr_phys *phys = zr_phys_new(backing, bo->size);

    if (phys == NULL) {
        zr_bo_unref(bo);
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    zr_phys_set_bo(phys, bo);
    *phys_p = phys;
    return ZE_RESULT_SUCCESS;
}

struct zr_phys *zr_phys_ref(struct zr_phys *phys)
{
    atomic_fetch_add_explicit(&phys->refs, 1, memory_order_relaxed);
    return phys;
}

void zr_phys_unref(struct zr_phys *phys)
{
    struct zr_peer *peer, *next;

    if (phys == NULL || atomic_fetch_sub_explicit(&phys->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (zr_phys_ended != NULL) {
        zr_phys_ended(phys->id);
    }
    for (peer = phys->priv; peer != NULL; peer = next) {
        next = peer->next;
        if (peer->bo != NULL) {
            zr_bo_unref(peer->bo);
        }
        free(peer);
    }
    if (phys->bo != NULL && !(phys->keep && zr_pool_put(phys->bo))) {
        zr_bo_unref(phys->bo);
    }
    zr_phys_close_fd(phys);
    free(phys);
    atomic_fetch_sub(&zr_phys_live, 1);
}

/* Takes the object to @a dev; called with zr_peer_lock held. That the kernel does not let the
 * device reach it is kept too: the memory an object may live in is fixed when it is made. */
static ze_result_t zr_phys_add_peer(struct zr_phys *phys, struct zr_i915 *dev,
                                    struct zr_peer **peer_p)
{
    struct zr_peer *peer = calloc(1, sizeof(*peer));
    ze_result_t     result;
    int             fd;

    if (peer == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "object %llu: no memory",
                       (unsigned long long)phys->id);
    }
    if (phys->backing == ZR_BACKING_PAGES) { /* no dma-buf carries them, but any device takes them */
        result = zr_bo_create_userptr(dev, phys->pages, phys->size, &peer->bo);
    } else {
        result = zr_bo_export(phys->bo, &fd);
        if (result == ZE_RESULT_SUCCESS) {
            result = zr_bo_import(dev, fd, &peer->bo);
            close(fd);
        }
    }
    if (result != ZE_RESULT_SUCCESS && result != ZE_RESULT_ERROR_UNSUPPORTED_FEATURE) {
        free(peer);
        return result;
    }
    if (result == ZE_RESULT_SUCCESS && phys->bo->placement == ZR_PLACE_EITHER) {
        zr_log_once(ZR_LOG_INFO, "object %llu moves to system memory, where another device "
                    "reaches it (said once)", (unsigned long long)phys->id);
    }
    peer->dev  = dev;
    peer->next = phys->priv;
    phys->priv = peer;
    *peer_p    = peer;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_phys_bo(struct zr_phys *phys, struct zr_i915 *dev, struct zr_bo **bo_p)
{
    ze_result_t     result = ZE_RESULT_SUCCESS;
    struct zr_peer *peer;

    if (phys->bo == NULL) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, "object %llu is open on no device",
                       (unsigned long long)phys->id);
    }
    if (phys->bo->dev == dev) {
        *bo_p = phys->bo;
        return ZE_RESULT_SUCCESS;
    }
    pthread_mutex_lock(&zr_peer_lock);
    for (peer = phys->priv; peer != NULL && peer->dev != dev; peer = peer->next) {
    }
    if (peer == NULL) {
        result = zr_phys_add_peer(phys, dev, &peer);
    }
    pthread_mutex_unlock(&zr_peer_lock);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    if (peer->bo == NULL) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE,
                       "object %llu lives in memory that %s does not reach",
                       (unsigned long long)phys->id, zr_i915_info(dev)->node.path);
    }
    *bo_p = peer->bo;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_phys_open(struct zr_phys *phys, struct zr_i915 *dev)
{
    struct zr_bo *bo;
    ze_result_t   result = ZE_RESULT_SUCCESS;

    pthread_mutex_lock(&zr_peer_lock);
    if (phys->bo == NULL) {
        result = zr_phys_first_open(phys, dev, false);
    }
    pthread_mutex_unlock(&zr_peer_lock);
    return (result == ZE_RESULT_SUCCESS) ? zr_phys_bo(phys, dev, &bo) : result;
}
