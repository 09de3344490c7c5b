/* Syncobjs, binary and timeline: drm_syncobj.c's checks in its order. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

void zr_soft_syncobj_set(struct zr_soft_dev *dev, struct zr_soft_syncobj *syncobj,
                         struct zr_soft_fence *fence)
{
    struct zr_soft_fence *old = syncobj->fence;

    syncobj->fence = zr_soft_fence_get(fence);
    zr_soft_fence_put(old);
    pthread_cond_broadcast(&dev->signal);
    zr_soft_eventfds_look(dev);
}

int zr_soft_syncobj_add_point(struct zr_soft_dev *dev, struct zr_soft_syncobj *syncobj,
                              struct zr_soft_fence *fence, uint64_t point)
{
    struct zr_soft_fence *link = zr_soft_fence_chain(dev, syncobj->fence, fence, point);

    if (link == NULL) {
        return -ENOMEM;
    }
    zr_soft_syncobj_set(dev, syncobj, link);
    zr_soft_fence_put(link);
    return 0;
}

void zr_soft_syncobj_put(struct zr_soft_syncobj *syncobj)
{
    if (--syncobj->refs == 0) {
        zr_soft_eventfds_forget(syncobj->dev, syncobj);
        zr_soft_fence_put(syncobj->fence);
        free(syncobj);
    }
}

/* A fence that has signalled. */
static struct zr_soft_fence *zr_soft_fence_over(void)
{
    struct zr_soft_fence *fence = zr_soft_fence_create(0, UINT16_MAX);

    if (fence != NULL) {
        fence->status = 1;
    }
    return fence;
}

static int zr_soft_syncobj_set_signaled(struct zr_soft_dev *dev, struct zr_soft_syncobj *syncobj)
{
    struct zr_soft_fence *fence = zr_soft_fence_over();

    if (fence == NULL) {
        return -ENOMEM;
    }
    zr_soft_syncobj_set(dev, syncobj, fence);
    zr_soft_fence_put(fence);
    return 0;
}

int zr_soft_syncobj_create(struct zr_soft_file *file, void *data)
{
    struct drm_syncobj_create *args = data;
    struct zr_soft_syncobj    *syncobj;
    int                        ret = 0;

    if (args->flags & ~DRM_SYNCOBJ_CREATE_SIGNALED) {
        return -EINVAL;
    }
    syncobj = calloc(1, sizeof(*syncobj));
    if (syncobj == NULL) {
        return -ENOMEM;
    }
    syncobj->dev  = file->dev;
    syncobj->refs = 1;
    if (args->flags & DRM_SYNCOBJ_CREATE_SIGNALED) {
        ret = zr_soft_syncobj_set_signaled(file->dev, syncobj);
    }
    if (ret == 0) {
        ret = zr_soft_ids_add(&file->syncobjs, 1, syncobj, &args->handle);
    }
    if (ret != 0) {
        zr_soft_syncobj_put(syncobj);
    }
    return ret;
}

int zr_soft_syncobj_destroy(struct zr_soft_file *file, void *data)
{
    struct drm_syncobj_destroy *args = data;
    struct zr_soft_syncobj     *syncobj;

    if (args->pad != 0) {
        return -EINVAL;
    }
    syncobj = zr_soft_ids_remove(&file->syncobjs, args->handle);
    if (syncobj == NULL) {
        return -EINVAL;
    }
    zr_soft_syncobj_put(syncobj);
    return 0;
}

/* ---- between files ---- */

/* The fence of a point, a reference; *fence_p NULL: it is over. With WAIT_FOR_SUBMIT the point is
 * waited for, 5 s at most. */
static int zr_soft_syncobj_fence(struct zr_soft_file *file, uint32_t handle, uint64_t point,
                                 uint64_t flags, struct zr_soft_fence **fence_p)
{
    struct zr_soft_syncobj *syncobj  = zr_soft_ids_get(&file->syncobjs, handle);
    int64_t                 deadline = (int64_t)zr_time_ns() + INT64_C(5000000000);
    struct zr_soft_fence   *fence;
    int                     ret;

    if (syncobj == NULL) {
        return -ENOENT;
    }
    if (flags & ~(uint64_t)DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT) {
        return -EINVAL;
    }
    syncobj->refs++;
    for (;;) {
        fence = syncobj->fence;
        ret   = fence != NULL ? zr_soft_fence_find_point(&fence, point) : -EINVAL;
        if (ret == 0 || flags == 0) {
            break;
        }
        ret = zr_soft_wait_signal(file->dev, deadline);
        if (ret != 0) {
            break;
        }
    }
    if (ret == 0) {
        *fence_p = fence != NULL ? zr_soft_fence_get(fence) : zr_soft_fence_over();
        ret      = *fence_p != NULL ? 0 : -ENOMEM;
    }
    zr_soft_syncobj_put(syncobj);
    return ret;
}

static int zr_soft_syncobj_export_sync(struct zr_soft_file *file, struct drm_syncobj_handle *args)
{
    struct zr_soft_fence *fence;
    int                   ret, fd;

    ret = zr_soft_syncobj_fence(file, args->handle, 0, 0, &fence);
    if (ret == 0) {
        ret = zr_soft_fence_export(file->dev, fence, &fd);
        zr_soft_fence_put(fence);
    }
    if (ret == 0) {
        args->fd = fd;
    }
    return ret;
}

int zr_soft_syncobj_to_fd(struct zr_soft_file *file, void *data)
{
    struct drm_syncobj_handle *args = data;
    struct zr_soft_syncobj    *syncobj;
    int                        ret, fd;

    if (args->pad != 0 ||
        (args->flags != 0 && args->flags != DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE)) {
        return -EINVAL;
    }
    if (args->flags != 0) {
        return zr_soft_syncobj_export_sync(file, args);
    }
    syncobj = zr_soft_ids_get(&file->syncobjs, args->handle);
    if (syncobj == NULL) {
        return -EINVAL;
    }
    ret = zr_soft_syncobj_export(file->dev, syncobj, &fd);
    if (ret == 0) {
        args->fd = fd;
    }
    return ret;
}

static int zr_soft_syncobj_import_sync(struct zr_soft_file *file, int fd, uint32_t handle)
{
    struct zr_soft_syncobj *syncobj;
    struct zr_soft_fence   *fence;
    int                     ret = zr_soft_fence_import(file->dev, fd, &fence);

    if (ret != 0) {
        return ret;
    }
    syncobj = zr_soft_ids_get(&file->syncobjs, handle);
    if (syncobj == NULL) {
        ret = -ENOENT;
    } else if (fence != NULL) {
        zr_soft_syncobj_set(file->dev, syncobj, fence);
    } else {
        ret = zr_soft_syncobj_set_signaled(file->dev, syncobj);
    }
    zr_soft_fence_put(fence);
    return ret;
}

int zr_soft_syncobj_to_handle(struct zr_soft_file *file, void *data)
{
    struct drm_syncobj_handle *args = data;
    struct zr_soft_syncobj    *syncobj;
    int                        ret;

    if (args->pad != 0 ||
        (args->flags != 0 && args->flags != DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE)) {
        return -EINVAL;
    }
    if (args->flags != 0) {
        return zr_soft_syncobj_import_sync(file, args->fd, args->handle);
    }
    syncobj = zr_soft_syncobj_import(file->dev, args->fd);
    if (syncobj == NULL) {
        return -EINVAL;
    }
    ret = zr_soft_ids_add(&file->syncobjs, 1, syncobj, &args->handle);
    if (ret == 0) {
        syncobj->refs++;
    }
    return ret;
}

int zr_soft_syncobj_transfer(struct zr_soft_file *file, void *data)
{
    struct drm_syncobj_transfer *args = data;
    struct zr_soft_syncobj      *to;
    struct zr_soft_fence        *fence;
    int                          ret;

    if (args->pad != 0) {
        return -EINVAL;
    }
    to = zr_soft_ids_get(&file->syncobjs, args->dst_handle);
    if (to == NULL) {
        return -ENOENT;
    }
    to->refs++;
    ret = zr_soft_syncobj_fence(file, args->src_handle, args->src_point, args->flags, &fence);
    if (ret == 0) {
        if (args->dst_point != 0) {
            ret = zr_soft_syncobj_add_point(file->dev, to, fence, args->dst_point);
        } else {
            zr_soft_syncobj_set(file->dev, to, fence);
        }
        zr_soft_fence_put(fence);
    }
    zr_soft_syncobj_put(to);
    return ret;
}

/* ---- many at once ---- */

/* Some of a file's, with a point each. */
struct zr_soft_syncobjs {
    uint32_t                 count;
    struct zr_soft_syncobj **object;
    uint64_t                *point;
    struct zr_soft_fence   **fence; /* found so far */
    bool                    *found; /* fence is, or is over */
};

static void zr_soft_set_free(struct zr_soft_syncobjs *set)
{
    uint32_t i;

    for (i = 0; i < set->count; i++) {
        if (set->object != NULL && set->object[i] != NULL) {
            zr_soft_syncobj_put(set->object[i]);
        }
        if (set->fence != NULL) {
            zr_soft_fence_put(set->fence[i]);
        }
    }
    free(set->object);
    free(set->point);
    free(set->fence);
    free(set->found);
}

static int zr_soft_set_handles(struct zr_soft_file *file, struct zr_soft_syncobjs *set,
                               uint64_t handles)
{
    uint32_t i, *handle = calloc(set->count, sizeof(*handle));
    int      ret;

    if (handle == NULL) {
        return -ENOMEM;
    }
    ret = zr_soft_copy_in(handle, handles, set->count * sizeof(*handle));
    for (i = 0; ret == 0 && i < set->count; i++) {
        set->object[i] = zr_soft_ids_get(&file->syncobjs, handle[i]);
        if (set->object[i] == NULL) {
            ret = -ENOENT;
        } else {
            set->object[i]->refs++;
        }
    }
    free(handle);
    return ret;
}

/* @param points: of the caller, 0: all are 0. After an error there is nothing to free. */
static int zr_soft_set_read(struct zr_soft_file *file, struct zr_soft_syncobjs *set,
                            uint64_t handles, uint32_t count, uint64_t points)
{
    int ret;

    *set = (struct zr_soft_syncobjs){
        .count  = count,
        .object = calloc(count, sizeof(*set->object)),
        .point  = calloc(count, sizeof(*set->point)),
        .fence  = calloc(count, sizeof(*set->fence)),
        .found  = calloc(count, sizeof(*set->found)),
    };
    if (set->object == NULL || set->point == NULL || set->fence == NULL || set->found == NULL) {
        ret = -ENOMEM;
    } else {
        ret = zr_soft_set_handles(file, set, handles);
    }
    if (ret == 0 && points != 0) {
        ret = zr_soft_copy_in(set->point, points, count * sizeof(*set->point));
    }
    if (ret != 0) {
        zr_soft_set_free(set);
    }
    return ret;
}

/* How the set stands: 1 done (*first: the one that is), 0 not yet, negative errno. The fence seen
 * first is the one waited for, whatever becomes of the syncobj. */
static int zr_soft_set_scan(struct zr_soft_syncobjs *set, uint32_t flags, uint32_t *first)
{
    bool wait_for = flags & (DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT |
                             DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE);
    uint32_t i, over = 0;

    for (i = 0; i < set->count; i++) {
        struct zr_soft_fence *fence = set->object[i]->fence;

        if (!set->found[i] && fence != NULL &&
            zr_soft_fence_find_point(&fence, set->point[i]) == 0) {
            set->found[i] = true;
            set->fence[i] = zr_soft_fence_get(fence);
        }
        if (!set->found[i]) {
            if (!wait_for) {
                return -EINVAL;
            }
        } else if ((flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE) || set->fence[i] == NULL ||
                   set->fence[i]->status != 0) {
            if (over++ == 0) {
                *first = i;
            }
        }
    }
    return (flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL) ? over == set->count : over != 0;
}

static int zr_soft_set_wait(struct zr_soft_file *file, uint64_t handles, uint32_t count,
                            uint64_t points, uint32_t flags, int64_t deadline, uint32_t *first_p)
{
    struct zr_soft_syncobjs set;
    uint32_t                   first = UINT32_MAX;
    int                        ret   = zr_soft_set_read(file, &set, handles, count, points);

    if (ret != 0) {
        return ret;
    }
    do {
        ret = zr_soft_set_scan(&set, flags, &first);
        if (ret == 0) {
            ret = zr_soft_wait_signal(file->dev, deadline);
        }
    } while (ret == 0);
    if (ret > 0) {
        ret      = 0;
        *first_p = first;
    }
    zr_soft_set_free(&set);
    return ret;
}

int zr_soft_syncobj_wait(struct zr_soft_file *file, void *data)
{
    struct drm_syncobj_wait *args = data;

    if (args->flags & ~(DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT |
                        DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE)) {
        return -EINVAL;
    }
    return args->count_handles == 0
               ? 0
               : zr_soft_set_wait(file, args->handles, args->count_handles, 0, args->flags,
                                  args->timeout_nsec, &args->first_signaled);
}

int zr_soft_syncobj_timeline_wait(struct zr_soft_file *file, void *data)
{
    struct drm_syncobj_timeline_wait *args = data;

    if (args->flags & ~(DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT |
                        DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE |
                        DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE)) {
        return -EINVAL;
    }
    return args->count_handles == 0
               ? 0
               : zr_soft_set_wait(file, args->handles, args->count_handles, args->points,
                                  args->flags, args->timeout_nsec, &args->first_signaled);
}

static int zr_soft_syncobj_each(struct zr_soft_file *file, struct drm_syncobj_array *args,
                                bool signal)
{
    struct zr_soft_syncobjs set;
    uint32_t                   i;
    int                        ret;

    if (args->pad != 0 || args->count_handles == 0) {
        return -EINVAL;
    }
    ret = zr_soft_set_read(file, &set, args->handles, args->count_handles, 0);
    if (ret != 0) {
        return ret;
    }
    for (i = 0; ret == 0 && i < set.count; i++) {
        if (signal) {
            ret = zr_soft_syncobj_set_signaled(file->dev, set.object[i]);
        } else {
            zr_soft_syncobj_set(file->dev, set.object[i], NULL);
        }
    }
    zr_soft_set_free(&set);
    return ret;
}

int zr_soft_syncobj_reset(struct zr_soft_file *file, void *data)
{
    return zr_soft_syncobj_each(file, data, false);
}

int zr_soft_syncobj_signal(struct zr_soft_file *file, void *data)
{
    return zr_soft_syncobj_each(file, data, true);
}

int zr_soft_syncobj_timeline_signal(struct zr_soft_file *file, void *data)
{
    struct drm_syncobj_timeline_array *args = data;
    struct zr_soft_syncobjs         set;
    struct zr_soft_fence              *over;
    uint32_t                           i;
    int                                ret;

    if (args->flags != 0 || args->count_handles == 0) {
        return -EINVAL;
    }
    ret = zr_soft_set_read(file, &set, args->handles, args->count_handles, args->points);
    if (ret != 0) {
        return ret;
    }
    over = zr_soft_fence_over();
    ret  = over != NULL ? 0 : -ENOMEM;
    for (i = 0; ret == 0 && i < set.count; i++) {
        ret = zr_soft_syncobj_add_point(file->dev, set.object[i], over, set.point[i]);
    }
    zr_soft_fence_put(over);
    zr_soft_set_free(&set);
    return ret;
}

int zr_soft_syncobj_query(struct zr_soft_file *file, void *data)
{
    struct drm_syncobj_timeline_array *args = data;
    struct zr_soft_syncobjs         set;
    struct zr_soft_fence              *fence;
    uint64_t                           point;
    uint32_t                           i;
    int                                ret;

    if ((args->flags & ~DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED) || args->count_handles == 0) {
        return -EINVAL;
    }
    ret = zr_soft_set_read(file, &set, args->handles, args->count_handles, 0);
    if (ret != 0) {
        return ret;
    }
    for (i = 0; ret == 0 && i < set.count; i++) {
        fence = set.object[i]->fence;
        point = fence != NULL ? zr_soft_fence_point(fence, args->flags != 0) : 0;
        ret   = zr_soft_copy_out(args->points + i * sizeof(point), &point, sizeof(point));
    }
    zr_soft_set_free(&set);
    return ret;
}
