/* SYNCOBJ_EVENTFD: an eventfd that is written when a syncobj's point is signalled, or has a fence. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"
#include "uapi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct zr_soft_eventfd {
    LIST_ENTRY(zr_soft_eventfd) link;
    int                           fd;
    bool                          available; /* a fence is enough */
    uint64_t                      point;
    const struct zr_soft_syncobj *syncobj; /* NULL: its fence is found */
    struct zr_soft_fence         *fence;   /* what is waited for then */
};

/* Until there is something to wait for it is the syncobj's, then it is the fence's.
 * @return is it over? */
static bool zr_soft_eventfd_ready(struct zr_soft_eventfd *event)
{
    struct zr_soft_fence *fence;

    if (event->syncobj != NULL) {
        fence = event->syncobj->fence;
        if (fence == NULL || zr_soft_fence_find_point(&fence, event->point) != 0) {
            return false;
        }
        event->syncobj = NULL;
        event->fence   = fence != NULL ? zr_soft_fence_get(fence) : NULL;
    }
    return event->available || event->fence == NULL || event->fence->status != 0;
}

static void zr_soft_eventfd_free(struct zr_soft_eventfd *event)
{
    zr_soft_fence_put(event->fence);
    close(event->fd);
    free(event);
}

void zr_soft_eventfds_look(struct zr_soft_dev *dev)
{
    struct zr_soft_eventfd *event = LIST_FIRST(&dev->eventfds), *next;

    for (; event != NULL; event = next) {
        next = LIST_NEXT(event, link);
        if (zr_soft_eventfd_ready(event)) {
            LIST_REMOVE(event, link);
            (void)eventfd_write(event->fd, 1);
            zr_soft_eventfd_free(event);
        }
    }
}

void zr_soft_eventfds_forget(struct zr_soft_dev *dev, const struct zr_soft_syncobj *syncobj)
{
    struct zr_soft_eventfd *event = LIST_FIRST(&dev->eventfds), *next;

    for (; event != NULL; event = next) {
        next = LIST_NEXT(event, link);
        if (syncobj == NULL || event->syncobj == syncobj) {
            LIST_REMOVE(event, link);
            zr_soft_eventfd_free(event);
        }
    }
}

/* An eventfd says so in /proc; nothing else takes a write of 8 bytes as one. */
static int zr_soft_eventfd_get(int fd)
{
    char    path[64], name[32] = "";
    ssize_t length;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    length = readlink(path, name, sizeof(name) - 1);
    if (length < 0) {
        return -EBADF;
    }
    return strcmp(name, "anon_inode:[eventfd]") == 0 ? zr_soft_fd_copy_up(fd) : -EINVAL;
}

int zr_soft_syncobj_eventfd(struct zr_soft_file *file, void *data)
{
    const struct zr_syncobj_eventfd *args    = data;
    const struct zr_soft_syncobj    *syncobj = zr_soft_ids_get(&file->syncobjs, args->handle);
    struct zr_soft_eventfd          *event;
    int                              fd;

    if ((args->flags & ~DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE) || args->pad != 0) {
        return -EINVAL;
    }
    if (syncobj == NULL) {
        return -ENOENT;
    }
    fd = zr_soft_eventfd_get(args->fd);
    if (fd < 0) {
        return fd;
    }
    event = calloc(1, sizeof(*event));
    if (event == NULL) {
        close(fd);
        return -ENOMEM;
    }
    event->fd        = fd;
    event->available = args->flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE;
    event->point     = args->point;
    event->syncobj   = syncobj;
    LIST_INSERT_HEAD(&file->dev->eventfds, event, link);
    zr_soft_eventfds_look(file->dev);
    return 0;
}
