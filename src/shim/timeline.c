/* The timelines of debugfs sync/sw_sync: fences that a program signals itself. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "server.h"

#include <errno.h>
#include <stdlib.h>

/* linux/drivers/dma-buf/sw_sync.c has these; no installed header does. */
struct zr_sw_sync_create {
    uint32_t value;
    char     name[32];
    int32_t  fence;
};
#define ZR_SW_SYNC_CREATE _IOWR('W', 0, struct zr_sw_sync_create)
#define ZR_SW_SYNC_INC    _IOW('W', 1, uint32_t)

struct zr_shim_point {
    struct zr_shim_point *next;
    struct zr_soft_fence *fence;
    uint32_t              value;
};

struct zr_shim_timeline {
    struct zr_soft_dev   *dev; /* whose lock guards it */
    uint64_t              id;
    uint32_t              value;
    struct zr_shim_point *points; /* not signalled, the lowest first */
};

struct zr_shim_timeline *zr_shim_timeline_create(struct zr_soft_dev *dev)
{
    struct zr_shim_timeline *timeline = calloc(1, sizeof(*timeline));

    if (timeline != NULL) {
        timeline->dev = dev;
        pthread_mutex_lock(&dev->lock);
        timeline->id = ++dev->timelines;
        pthread_mutex_unlock(&dev->lock);
    }
    return timeline;
}

static void zr_shim_point_signal(struct zr_shim_timeline *timeline, int status)
{
    struct zr_shim_point *point = timeline->points;

    timeline->points = point->next;
    zr_soft_fence_signal(timeline->dev, point->fence, status);
    zr_soft_fence_put(point->fence);
    free(point);
}

/* What waits for a timeline that goes is let go, with an error. */
void zr_shim_timeline_destroy(struct zr_shim_timeline *timeline)
{
    pthread_mutex_lock(&timeline->dev->lock);
    while (timeline->points != NULL) {
        zr_shim_point_signal(timeline, -ENOENT);
    }
    zr_soft_dispatch(timeline->dev);
    pthread_mutex_unlock(&timeline->dev->lock);
    free(timeline);
}

static int zr_shim_timeline_fence(struct zr_shim_timeline *timeline, struct zr_sw_sync_create *args)
{
    struct zr_shim_point **link, *point;
    struct zr_soft_fence  *fence = zr_soft_fence_create(timeline->id, 0);
    int                    ret   = fence != NULL ? 0 : -ENOMEM, fd;

    if (ret == 0 && (int32_t)(args->value - timeline->value) <= 0) {
        fence->status = 1;
    }
    if (ret == 0) {
        ret = zr_soft_fence_export(timeline->dev, fence, &fd);
    }
    if (ret != 0 || fence->status != 0) {
        zr_soft_fence_put(fence);
        args->fence = ret == 0 ? fd : -1;
        return ret;
    }
    point = malloc(sizeof(*point));
    if (point == NULL) {
        zr_soft_fence_put(fence);
        return -ENOMEM; /* the fd goes with the reply that is not sent */
    }
    for (link = &timeline->points;
         *link != NULL && (int32_t)((*link)->value - args->value) <= 0; link = &(*link)->next) {
    }
    *point      = (struct zr_shim_point){*link, fence, args->value};
    *link       = point;
    args->fence = fd;
    return 0;
}

static int zr_shim_timeline_advance(struct zr_shim_timeline *timeline, uint32_t count)
{
    timeline->value += count;
    while (timeline->points != NULL &&
           (int32_t)(timeline->points->value - timeline->value) <= 0) {
        zr_shim_point_signal(timeline, 1);
    }
    zr_soft_dispatch(timeline->dev);
    return 0;
}

int zr_shim_timeline_call(struct zr_shim_timeline *timeline, unsigned long request, void *data)
{
    int ret = -ENOTTY;

    pthread_mutex_lock(&timeline->dev->lock);
    if (request == ZR_SW_SYNC_CREATE) {
        ret = zr_shim_timeline_fence(timeline, data);
    } else if (request == ZR_SW_SYNC_INC) {
        ret = zr_shim_timeline_advance(timeline, *(uint32_t *)data);
    }
    pthread_mutex_unlock(&timeline->dev->lock);
    return ret;
}

size_t zr_shim_timeline_size(unsigned long request)
{
    return request == ZR_SW_SYNC_CREATE ? sizeof(struct zr_sw_sync_create)
           : request == ZR_SW_SYNC_INC  ? sizeof(uint32_t)
                                        : 0;
}

int zr_shim_timeline_out(unsigned long request)
{
    return request == ZR_SW_SYNC_CREATE ? (int)offsetof(struct zr_sw_sync_create, fence) : -1;
}
