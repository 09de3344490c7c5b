/* Backing of freed allocations, kept for the next allocation of its size: where an application asked
 * for performance rather than for little memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "vaspace.h"

#define ZR_POOL_ENTRIES 32
#define ZR_POOL_BYTES   (64 * ZR_MIB)

static struct {
    pthread_mutex_t lock; /* guards what follows; nothing is locked inside it */
    struct zr_bo   *bo[ZR_POOL_ENTRIES]; /* oldest first */
    unsigned        count;
    uint64_t        bytes;
} zr_pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The lock is held. */
static struct zr_bo *zr_pool_remove(unsigned i)
{
    struct zr_bo *bo = zr_pool.bo[i];

    zr_pool.bytes -= bo->size;
    for (zr_pool.count--; i < zr_pool.count; i++) {
        zr_pool.bo[i] = zr_pool.bo[i + 1];
    }
    return bo;
}

struct zr_bo *zr_pool_take(const struct zr_i915 *dev, uint64_t size, enum zr_placement placement)
{
    struct zr_bo *bo = NULL;
    unsigned      i;

    pthread_mutex_lock(&zr_pool.lock);
    for (i = zr_pool.count; i-- > 0 && bo == NULL;) { /* the youngest is the warmest */
        if (zr_pool.bo[i]->dev == dev && zr_pool.bo[i]->size == size &&
            zr_pool.bo[i]->placement == placement) {
            bo = zr_pool_remove(i);
        }
    }
    pthread_mutex_unlock(&zr_pool.lock);
    return bo;
}

bool zr_pool_put(struct zr_bo *bo)
{
    struct zr_bo *dropped[ZR_POOL_ENTRIES];
    unsigned      n = 0;

    /* What somebody else can still reach, or an engine still works on, is not free. */
    if (bo->size > ZR_POOL_BYTES || atomic_load(&bo->shared) || atomic_load(&bo->refs) != 1) {
        return false;
    }
    pthread_mutex_lock(&zr_pool.lock);
    while (zr_pool.count == ZR_POOL_ENTRIES || zr_pool.bytes + bo->size > ZR_POOL_BYTES) {
        dropped[n++] = zr_pool_remove(0);
    }
    zr_pool.bo[zr_pool.count++] = bo;
    zr_pool.bytes += bo->size;
    pthread_mutex_unlock(&zr_pool.lock);
    while (n > 0) {
        zr_bo_unref(dropped[--n]);
    }
    return true;
}

bool zr_pool_drop(void)
{
    struct zr_bo *dropped[ZR_POOL_ENTRIES];
    unsigned      n = 0;
    bool          any;

    pthread_mutex_lock(&zr_pool.lock);
    while (zr_pool.count > 0) {
        dropped[n++] = zr_pool_remove(zr_pool.count - 1);
    }
    pthread_mutex_unlock(&zr_pool.lock);
    any = n > 0;
    while (n > 0) {
        zr_bo_unref(dropped[--n]);
    }
    return any;
}

uint64_t zr_pool_bytes(void)
{
    uint64_t bytes;

    pthread_mutex_lock(&zr_pool.lock);
    bytes = zr_pool.bytes;
    pthread_mutex_unlock(&zr_pool.lock);
    return bytes;
}
