/* Physical memory objects: a reference counted buffer object with its backing, cache type and an
 * identity that is never reused, and its counterparts on further devices. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem.h"
#include "vaspace.h"

#include "util/config.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* The object as another device of this process sees it. */
struct zr_peer {
    struct zr_bo   *bo;
    struct zr_peer *next;
};

static atomic_uint_fast64_t zr_phys_next_id = 1;
static atomic_uint_fast64_t zr_phys_live;

/* Guards the lists of peers of all objects. Nothing is locked inside it but the device's own. */
static pthread_mutex_t zr_peer_lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t zr_phys_count(void)
{
    return atomic_load(&zr_phys_live);
}

bool zr_phys_cpu_visible(const struct zr_phys *phys)
{
    return !phys->device_local || zr_config()->device_cpu_access;
}

static struct zr_phys *zr_phys_new(struct zr_bo *bo, enum zr_backing backing, uint64_t size)
{
    struct zr_phys *phys = calloc(1, sizeof(*phys));

    if (phys == NULL) {
        return NULL;
    }
    atomic_init(&phys->refs, 1);
    phys->id           = atomic_fetch_add(&zr_phys_next_id, 1);
    phys->size         = size;
    phys->backing      = backing;
    phys->cache        = bo->cache;
    phys->device_local = (bo->placement != ZR_PLACE_SYSTEM) && !bo->userptr;
    phys->bo           = bo;
    atomic_fetch_add(&zr_phys_live, 1);
    return phys;
}

ze_result_t zr_phys_create(struct zr_i915 *dev, enum zr_backing backing, enum zr_cache cache,
                           uint64_t size, uint64_t context_word, struct zr_phys **phys_p)
{
    enum zr_placement placement =
        (backing == ZR_BACKING_SECTION) ? ZR_PLACE_SYSTEM : ZR_PLACE_DEVICE;
    struct zr_phys *phys;
    struct zr_bo   *bo;
    ze_result_t     result;

    if (backing != ZR_BACKING_SECTION && backing != ZR_BACKING_CONTIGUOUS) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "physical memory object: backing %d is wrapped, not created", backing);
    }
    if (backing == ZR_BACKING_SECTION && cache == ZR_CACHE_UNCACHED) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "physical memory object: a section is cached or write-combined");
    }
    if (size == 0 || size % ZR_PAGE_SMALL != 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
                       "physical memory object: size %llu is not a multiple of the page size %llu",
                       (unsigned long long)size, (unsigned long long)ZR_PAGE_SMALL);
    }
    result = zr_bo_create(dev, size, placement, cache, &bo);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    phys = zr_phys_new(bo, backing, size);
    if (phys == NULL) {
        zr_bo_unref(bo);
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "physical memory object: no memory");
    }
    phys->context_word = context_word;
    *phys_p            = phys;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_phys_wrap(struct zr_bo *bo, enum zr_backing backing, struct zr_phys **phys_p)
{
    struct zr_phys *phys = zr_phys_new(bo, backing, bo->size);

    if (phys == NULL) {
        zr_bo_unref(bo);
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "physical memory object: no memory");
    }
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
    for (peer = phys->priv; peer != NULL; peer = next) {
        next = peer->next;
        zr_bo_unref(peer->bo);
        free(peer);
    }
    if (phys->bo != NULL && !(phys->keep && zr_pool_put(phys->bo))) {
        zr_bo_unref(phys->bo);
    }
    free(phys);
    atomic_fetch_sub(&zr_phys_live, 1);
}

/* Takes the object to @a dev through a dma-buf; called with zr_peer_lock held. */
static ze_result_t zr_phys_add_peer(struct zr_phys *phys, struct zr_i915 *dev, struct zr_bo **bo_p)
{
    struct zr_peer *peer = malloc(sizeof(*peer));
    ze_result_t     result;
    int             fd;

    if (peer == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "object %llu: no memory",
                       (unsigned long long)phys->id);
    }
    result = zr_bo_export(phys->bo, &fd);
    if (result != ZE_RESULT_SUCCESS) {
        goto err;
    }
    result = zr_bo_import(dev, fd, &peer->bo);
    close(fd);
    if (result != ZE_RESULT_SUCCESS) {
        goto err;
    }
    peer->next = phys->priv;
    phys->priv = peer;
    *bo_p      = peer->bo;
    return ZE_RESULT_SUCCESS;

err:
    free(peer);
    return result;
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
    for (peer = phys->priv; peer != NULL && peer->bo->dev != dev; peer = peer->next) {
    }
    if (peer != NULL) {
        *bo_p = peer->bo;
    } else {
        result = zr_phys_add_peer(phys, dev, bo_p);
    }
    pthread_mutex_unlock(&zr_peer_lock);
    return result;
}
