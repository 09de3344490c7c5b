/* Fences, their sync_files, and binary syncobjs. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct zr_soft_fence *zr_soft_fence_create(uint64_t timeline, uint16_t class)
{
    struct zr_soft_fence *fence = calloc(1, sizeof(*fence));

    if (fence != NULL) {
        fence->refs     = 1;
        fence->timeline = timeline;
        fence->class    = class;
        fence->sync     = -1;
    }
    return fence;
}

struct zr_soft_fence *zr_soft_fence_get(struct zr_soft_fence *fence)
{
    fence->refs++;
    return fence;
}

void zr_soft_fence_put(struct zr_soft_fence *fence)
{
    if (fence != NULL && --fence->refs == 0) {
        free(fence);
    }
}

/* A pair of sockets stands for a sync_file: the inode of the end given out names the fence, a byte
 * makes it readable in every process that holds it, and it stays readable when the fence is gone.
 * Not a pipe: where nobody holds the end any more, that would be a SIGPIPE. */
static void zr_soft_fence_flush(struct zr_soft_dev *dev, struct zr_soft_fence *fence)
{
    struct zr_soft_fence **link;

    if (fence->sync < 0) {
        return;
    }
    for (link = &dev->exported; *link != NULL; link = &(*link)->next) {
        if (*link == fence) {
            *link = fence->next;
            break;
        }
    }
    if (send(fence->sync, "", 1, MSG_NOSIGNAL) != 1) {
        zr_debug("sync_file has no reader any more");
    }
    close(fence->sync);
    fence->sync = -1;
    zr_soft_fence_put(fence);
}

void zr_soft_fence_signal(struct zr_soft_dev *dev, struct zr_soft_fence *fence, int status)
{
    fence->status = status;
    zr_soft_fence_flush(dev, fence);
    pthread_cond_broadcast(&dev->signal);
}

int zr_soft_fence_export(struct zr_soft_dev *dev, struct zr_soft_fence *fence, int *fd_p)
{
    struct stat st;
    int         fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
        return -errno;
    }
    if (fstat(fds[0], &st) != 0) {
        close(fds[0]);
        close(fds[1]);
        return -EINVAL;
    }
    fence->sync   = fds[1];
    fence->inode  = st.st_ino;
    fence->next   = dev->exported;
    dev->exported = zr_soft_fence_get(fence);
    if (fence->status != 0) {
        zr_soft_fence_flush(dev, fence);
    }
    *fd_p = fds[0];
    return 0;
}

int zr_soft_fence_import(struct zr_soft_dev *dev, int fd, struct zr_soft_fence **fence_p)
{
    struct pollfd         p = {.fd = fd, .events = POLLIN};
    struct zr_soft_fence *fence;
    struct stat           st;

    if (fstat(fd, &st) != 0 || !S_ISSOCK(st.st_mode)) {
        return -EINVAL;
    }
    for (fence = dev->exported; fence != NULL; fence = fence->next) {
        if (fence->inode == st.st_ino) {
            *fence_p = zr_soft_fence_get(fence);
            return 0;
        }
    }
    *fence_p = NULL;
    return poll(&p, 1, 0) == 1 ? 0 : -EINVAL;
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

/* ---- syncobjs ---- */

void zr_soft_syncobj_set(struct zr_soft_dev *dev, struct zr_soft_syncobj *syncobj,
                         struct zr_soft_fence *fence)
{
    struct zr_soft_fence *old = syncobj->fence;

    syncobj->fence = fence != NULL ? zr_soft_fence_get(fence) : NULL;
    zr_soft_fence_put(old);
    pthread_cond_broadcast(&dev->signal);
}

void zr_soft_syncobj_put(struct zr_soft_syncobj *syncobj)
{
    if (--syncobj->refs == 0) {
        zr_soft_fence_put(syncobj->fence);
        free(syncobj);
    }
}

/* Give it a fence that has signalled. */
static int zr_soft_syncobj_set_signaled(struct zr_soft_dev *dev, struct zr_soft_syncobj *syncobj)
{
    struct zr_soft_fence *fence = zr_soft_fence_create(0, 0);

    if (fence == NULL) {
        return -ENOMEM;
    }
    fence->status = 1;
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

/* How the set of syncobjs stands: 1 done (*first: the one that is), 0 not yet, negative errno. The
 * fence seen first is the one waited for, whatever becomes of the syncobj. */
static int zr_soft_syncobj_scan(const struct drm_syncobj_wait *args,
                                struct zr_soft_syncobj **objects, struct zr_soft_fence **fences,
                                uint32_t *first)
{
    bool     all = args->flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL;
    uint32_t i, signalled = 0;

    for (i = 0; i < args->count_handles; i++) {
        if (fences[i] == NULL && objects[i]->fence != NULL) {
            fences[i] = zr_soft_fence_get(objects[i]->fence);
        }
        if (fences[i] == NULL) {
            if (!(args->flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT)) {
                return -EINVAL;
            }
        } else if (fences[i]->status != 0) {
            if (signalled++ == 0) {
                *first = i;
            }
        }
    }
    return all ? signalled == args->count_handles : signalled != 0;
}

static void zr_soft_syncobj_array_put(struct zr_soft_syncobj **objects, uint32_t count)
{
    while (count > 0) {
        zr_soft_syncobj_put(objects[--count]);
    }
    free(objects);
}

static int zr_soft_syncobj_array(struct zr_soft_file *file, uint64_t handles, uint32_t count,
                                 struct zr_soft_syncobj ***objects_p)
{
    struct zr_soft_syncobj **objects = calloc(count, sizeof(*objects));
    uint32_t                 i, handle;
    int                      ret;

    if (objects == NULL) {
        return -ENOMEM;
    }
    for (i = 0; i < count; i++) {
        ret = zr_soft_copy_in(&handle, handles + i * sizeof(handle), sizeof(handle));
        if (ret == 0) {
            objects[i] = zr_soft_ids_get(&file->syncobjs, handle);
            ret        = objects[i] != NULL ? 0 : -ENOENT;
        }
        if (ret != 0) {
            zr_soft_syncobj_array_put(objects, i);
            return ret;
        }
        objects[i]->refs++;
    }
    *objects_p = objects;
    return 0;
}

int zr_soft_syncobj_wait(struct zr_soft_file *file, void *data)
{
    struct drm_syncobj_wait *args = data;
    struct zr_soft_syncobj **objects;
    struct zr_soft_fence   **fences;
    int64_t                  deadline = args->timeout_nsec;
    uint32_t                 i, first = 0;
    int                      ret;

    if (args->flags & ~(DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT |
                        DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE)) {
        return -EINVAL;
    }
    if (args->count_handles == 0) {
        return 0;
    }
    ret = zr_soft_syncobj_array(file, args->handles, args->count_handles, &objects);
    if (ret != 0) {
        return ret;
    }
    fences = calloc(args->count_handles, sizeof(*fences));
    if (fences == NULL) {
        zr_soft_syncobj_array_put(objects, args->count_handles);
        return -ENOMEM;
    }
    do {
        ret = zr_soft_syncobj_scan(args, objects, fences, &first);
        if (ret == 0) {
            ret = zr_soft_wait_signal(file->dev, deadline);
        }
    } while (ret == 0);
    if (ret > 0) {
        ret                  = 0;
        args->first_signaled = first;
    }
    for (i = 0; i < args->count_handles; i++) {
        zr_soft_fence_put(fences[i]);
    }
    free(fences);
    zr_soft_syncobj_array_put(objects, args->count_handles);
    return ret;
}

static int zr_soft_syncobj_each(struct zr_soft_file *file, struct drm_syncobj_array *args,
                                bool signal)
{
    struct zr_soft_syncobj **objects;
    uint32_t                 i;
    int                      ret;

    if (args->pad != 0 || args->count_handles == 0) {
        return -EINVAL;
    }
    ret = zr_soft_syncobj_array(file, args->handles, args->count_handles, &objects);
    if (ret != 0) {
        return ret;
    }
    for (i = 0; ret == 0 && i < args->count_handles; i++) {
        if (signal) {
            ret = zr_soft_syncobj_set_signaled(file->dev, objects[i]);
        } else {
            zr_soft_syncobj_set(file->dev, objects[i], NULL);
        }
    }
    zr_soft_syncobj_array_put(objects, args->count_handles);
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
