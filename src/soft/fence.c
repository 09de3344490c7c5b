/* Fences: of requests, of several fences together, and the links of a timeline's chain. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <errno.h>
#include <stdlib.h>

struct zr_soft_fence *zr_soft_fence_create(uint64_t timeline, uint16_t class)
{
    struct zr_soft_fence *fence = calloc(1, sizeof(*fence));

    if (fence != NULL) {
        fence->refs     = 1;
        fence->timeline = timeline;
        fence->class    = class;
    }
    return fence;
}

struct zr_soft_fence *zr_soft_fence_get(struct zr_soft_fence *fence)
{
    if (fence != NULL) {
        fence->refs++;
    }
    return fence;
}

static void zr_soft_fence_drop_parts(struct zr_soft_fence *fence)
{
    struct zr_soft_fence **part  = fence->part;
    unsigned               count = fence->num_parts, i;

    fence->part      = NULL;
    fence->num_parts = 0;
    for (i = 0; i < count; i++) {
        zr_soft_fence_put(part[i]);
    }
    free(part);
}

void zr_soft_fence_put(struct zr_soft_fence *fence)
{
    struct zr_soft_fence *previous;

    while (fence != NULL && --fence->refs == 0) {
        if (fence->composite) {
            LIST_REMOVE(fence, link);
        }
        previous        = fence->previous; /* a loop: chains are long */
        fence->previous = NULL;
        zr_soft_fence_drop_parts(fence);
        zr_soft_fence_put(fence->own);
        free(fence);
        fence = previous;
    }
}

/* ---- of several ---- */

static int zr_soft_fence_look(const struct zr_soft_fence *fence)
{
    unsigned i;
    int      status = 1;

    for (i = 0; i < fence->num_parts; i++) {
        if (fence->part[i]->status == 0) {
            return 0;
        }
        if (fence->part[i]->status < 0) {
            status = fence->part[i]->status;
        }
    }
    return status;
}

/* Take it off the list of those that wait for their parts. */
static void zr_soft_fence_unwatch(struct zr_soft_fence *fence)
{
    LIST_REMOVE(fence, link);
    fence->composite = false;
    zr_soft_fence_drop_parts(fence);
}

static void zr_soft_fence_watch(struct zr_soft_dev *dev, struct zr_soft_fence *fence)
{
    fence->status = zr_soft_fence_look(fence);
    if (fence->status != 0) {
        zr_soft_fence_drop_parts(fence);
        return;
    }
    fence->composite = true;
    LIST_INSERT_HEAD(&dev->composites, fence, link);
}

struct zr_soft_fence *zr_soft_fence_all(struct zr_soft_dev *dev,
                                        struct zr_soft_fence *const *fences, unsigned count)
{
    struct zr_soft_fence *fence = zr_soft_fence_create(++dev->timelines, UINT16_MAX);
    unsigned              i;

    if (fence == NULL) {
        return NULL;
    }
    fence->part = calloc(ZR_MAX(count, 1u), sizeof(*fence->part));
    if (fence->part == NULL) {
        zr_soft_fence_put(fence);
        return NULL;
    }
    for (i = 0; i < count; i++) {
        if (fences[i] != NULL && fences[i]->status <= 0) {
            fence->part[fence->num_parts++] = zr_soft_fence_get(fences[i]);
        }
    }
    fence->width = ZR_MAX(fence->num_parts, 1u);
    zr_soft_fence_watch(dev, fence);
    return fence;
}

struct zr_soft_fence *zr_soft_fence_chain(struct zr_soft_dev *dev, struct zr_soft_fence *previous,
                                          struct zr_soft_fence *fence, uint64_t point)
{
    struct zr_soft_fence *link = zr_soft_fence_create(0, UINT16_MAX);

    if (link == NULL) {
        return NULL;
    }
    link->part = calloc(2, sizeof(*link->part));
    if (link->part == NULL) {
        zr_soft_fence_put(link);
        return NULL;
    }
    link->is_link = true;
    if (previous != NULL && previous->is_link && point > previous->point) {
        link->timeline       = previous->timeline;
        link->previous_point = previous->point;
    } else {
        link->timeline = ++dev->timelines;
        if (previous != NULL && previous->is_link) {
            point = ZR_MAX(point, previous->point); /* out of order, which the kernel allows */
        }
    }
    link->point = point;
    link->own   = zr_soft_fence_get(fence);
    link->part[link->num_parts++] = zr_soft_fence_get(fence);
    if (previous != NULL) {
        link->previous                = zr_soft_fence_get(previous);
        link->part[link->num_parts++] = zr_soft_fence_get(previous);
    }
    zr_soft_fence_watch(dev, link);
    return link;
}

/* The link before, but for those whose own fence is over: these are forgotten. */
static struct zr_soft_fence *zr_soft_fence_walk(struct zr_soft_fence *link)
{
    struct zr_soft_fence *previous = link->previous;

    while (previous != NULL && (previous->is_link ? previous->own : previous)->status != 0) {
        previous = previous->is_link ? previous->previous : NULL;
    }
    if (previous != link->previous) {
        zr_soft_fence_get(previous);
        zr_soft_fence_put(link->previous);
        link->previous = previous;
    }
    return previous;
}

int zr_soft_fence_find_point(struct zr_soft_fence **fence_p, uint64_t point)
{
    struct zr_soft_fence *head = *fence_p, *at = head;

    if (point == 0) {
        return 0;
    }
    if (!head->is_link || head->point < point) {
        return -EINVAL;
    }
    while (at != NULL && at->is_link && at->timeline == head->timeline &&
           at->previous_point >= point) {
        at = zr_soft_fence_walk(at);
    }
    *fence_p = at;
    return 0;
}

uint64_t zr_soft_fence_point(struct zr_soft_fence *fence, bool submitted)
{
    struct zr_soft_fence *at, *last = fence;

    if (!fence->is_link) {
        return 0;
    }
    if (submitted) {
        return fence->point;
    }
    for (at = fence; at != NULL && at->is_link && at->timeline == fence->timeline;
         at = zr_soft_fence_walk(at)) {
        last = at;
    }
    return last->status != 0 ? last->point : last->previous_point;
}

/* ---- the end ---- */

static void zr_soft_fence_set(struct zr_soft_dev *dev, struct zr_soft_fence *fence, int status)
{
    fence->status = status;
    if (fence->exported) {
        zr_soft_token_signal(dev, fence);
    }
    zr_soft_eventfds_look(dev);
}

void zr_soft_fence_signal(struct zr_soft_dev *dev, struct zr_soft_fence *fence, int status)
{
    zr_soft_fence_set(dev, fence, status);
    pthread_cond_broadcast(&dev->signal);
    fence = LIST_FIRST(&dev->composites);
    while (fence != NULL) {
        status = zr_soft_fence_look(fence);
        if (status == 0) {
            fence = LIST_NEXT(fence, link);
            continue;
        }
        zr_soft_fence_get(fence);
        zr_soft_fence_unwatch(fence);
        zr_soft_fence_set(dev, fence, status);
        zr_soft_fence_put(fence);
        fence = LIST_FIRST(&dev->composites); /* others may have it as a part */
    }
}

int zr_soft_wait_signal(struct zr_soft_dev *dev, int64_t deadline_ns)
{
    struct zr_soft_task *task = zr_soft_task_current();
    struct timespec      ts;

    if (task != NULL && atomic_load(&task->interrupted)) {
        return -EINTR;
    }
    if (deadline_ns == INT64_MAX) {
        pthread_cond_wait(&dev->signal, &dev->lock);
        return 0;
    }
    if (deadline_ns <= 0 || (uint64_t)deadline_ns <= zr_time_ns()) {
        return -ETIME;
    }
    ts.tv_sec  = deadline_ns / 1000000000;
    ts.tv_nsec = deadline_ns % 1000000000;
    pthread_cond_timedwait(&dev->signal, &dev->lock, &ts);
    return 0;
}
