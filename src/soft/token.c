/* File descriptors that stand for something of the device: sync_files, syncobjs, and the ioctls of
 * sync_files and dma-bufs.
 *
 * One end of a pair of sockets is given out; its inode names what it stands for. A sync_file becomes
 * readable in every process that holds it when two bytes are sent (its status, and how many fences
 * it is of), and stays so when the fence is gone. Not a pipe: where nobody holds the end any more,
 * writing would be a SIGPIPE. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/sync_file.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct zr_soft_token {
    struct zr_soft_token   *next;
    int                     end; /* ours */
    ino_t                   inode;
    struct zr_soft_fence   *fence;   /* either */
    struct zr_soft_syncobj *syncobj; /* or */
};

static void zr_soft_token_free(struct zr_soft_token *token)
{
    close(token->end);
    zr_soft_fence_put(token->fence);
    if (token->syncobj != NULL) {
        zr_soft_syncobj_put(token->syncobj);
    }
    free(token);
}

/* Nobody holds the other end any more. */
static bool zr_soft_token_orphan(const struct zr_soft_token *token)
{
    struct pollfd p = {.fd = token->end};

    return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

static void zr_soft_tokens_reap(struct zr_soft_dev *dev)
{
    struct zr_soft_token **link = &dev->tokens, *token;

    while ((token = *link) != NULL) {
        if (!zr_soft_token_orphan(token)) {
            link = &token->next;
            continue;
        }
        *link = token->next;
        zr_soft_token_free(token);
        dev->num_tokens--;
    }
}

static void zr_soft_token_tell(int end, const struct zr_soft_fence *fence)
{
    uint8_t bytes[2] = {fence->status < 0 ? -fence->status : 0, fence->width};

    if (send(end, bytes, sizeof(bytes), MSG_NOSIGNAL) != sizeof(bytes)) {
        zr_debug("sync_file has no reader any more");
    }
}

void zr_soft_token_signal(struct zr_soft_dev *dev, struct zr_soft_fence *fence)
{
    struct zr_soft_token **link = &dev->tokens, *token;

    fence->exported = false;
    while ((token = *link) != NULL) {
        if (token->fence != fence) {
            link = &token->next;
            continue;
        }
        zr_soft_token_tell(token->end, fence);
        *link = token->next;
        zr_soft_token_free(token);
        dev->num_tokens--;
    }
}

void zr_soft_tokens_free(struct zr_soft_dev *dev)
{
    struct zr_soft_token *token;

    while ((token = dev->tokens) != NULL) {
        dev->tokens = token->next;
        zr_soft_token_free(token);
    }
}

/* Two ends; *fd_p is the one to give out. */
static int zr_soft_token_pair(int *end_p, int *fd_p)
{
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
        return -errno;
    }
    *fd_p  = fds[0];
    *end_p = zr_soft_fd_move_up(fds[1]);
    return 0;
}

static int zr_soft_token_new(struct zr_soft_dev *dev, struct zr_soft_fence *fence,
                             struct zr_soft_syncobj *syncobj, int *fd_p)
{
    struct zr_soft_token *token;
    struct stat           st;
    int                   ret, fd = -1;

    if (dev->num_tokens >= dev->reap_tokens) {
        zr_soft_tokens_reap(dev);
        dev->reap_tokens = 2 * dev->num_tokens + 64;
    }
    token = calloc(1, sizeof(*token));
    if (token == NULL) {
        return -ENOMEM;
    }
    ret = zr_soft_token_pair(&token->end, &fd);
    if (ret != 0) {
        free(token);
        return ret;
    }
    if (fstat(fd, &st) != 0) {
        close(fd);
        close(token->end);
        free(token);
        return -EINVAL;
    }
    token->inode   = st.st_ino;
    token->fence   = zr_soft_fence_get(fence);
    token->syncobj = syncobj;
    if (syncobj != NULL) {
        syncobj->refs++;
    }
    token->next = dev->tokens;
    dev->tokens = token;
    dev->num_tokens++;
    *fd_p = fd;
    return 0;
}

static const struct zr_soft_token *zr_soft_token_find(const struct zr_soft_dev *dev, int fd)
{
    const struct zr_soft_token *token = NULL;
    struct stat                 st;

    if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode)) {
        for (token = dev->tokens; token != NULL && token->inode != st.st_ino;
             token = token->next) {
        }
    }
    return token;
}

/* ---- sync_files ---- */

int zr_soft_fence_export(struct zr_soft_dev *dev, struct zr_soft_fence *fence, int *fd_p)
{
    int end = -1, ret;

    if (fence->status == 0) {
        ret = zr_soft_token_new(dev, fence, NULL, fd_p);
        fence->exported |= ret == 0;
        return ret;
    }
    ret = zr_soft_token_pair(&end, fd_p);
    if (ret == 0) {
        zr_soft_token_tell(end, fence);
        close(end);
    }
    return ret;
}

/* What a sync_file that has signalled says. false: it is none. */
static bool zr_soft_sync_told(int fd, uint8_t bytes[2])
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) &&
           recv(fd, bytes, 2, MSG_PEEK | MSG_DONTWAIT) == 2;
}

int zr_soft_fence_import(struct zr_soft_dev *dev, int fd, struct zr_soft_fence **fence_p)
{
    const struct zr_soft_token *token = zr_soft_token_find(dev, fd);
    uint8_t                     told[2];

    if (token != NULL) {
        *fence_p = zr_soft_fence_get(token->fence);
        return token->fence != NULL ? 0 : -EINVAL;
    }
    *fence_p = NULL;
    return zr_soft_sync_told(fd, told) ? 0 : -EINVAL;
}

static int zr_soft_sync_merge(struct zr_soft_dev *dev, int fd, struct sync_merge_data *args)
{
    struct zr_soft_fence *fences[2] = {NULL, NULL}, *merged;
    int                   ret, out;

    if (args->flags != 0 || args->pad != 0) {
        return -EINVAL;
    }
    ret = zr_soft_fence_import(dev, args->fd2, &fences[1]);
    if (ret != 0) {
        return -ENOENT;
    }
    ret = zr_soft_fence_import(dev, fd, &fences[0]);
    if (ret == 0) {
        merged = zr_soft_fence_all(dev, fences, fences[0] == fences[1] ? 1 : 2);
        ret    = merged != NULL ? zr_soft_fence_export(dev, merged, &out) : -ENOMEM;
        zr_soft_fence_put(merged);
    }
    if (ret == 0) {
        args->fence = out;
    }
    zr_soft_fence_put(fences[0]);
    zr_soft_fence_put(fences[1]);
    return ret;
}

static int zr_soft_sync_info(struct zr_soft_dev *dev, int fd, struct sync_file_info *args)
{
    const struct zr_soft_token *token = zr_soft_token_find(dev, fd);
    struct sync_fence_info      info  = {.obj_name = "i915", .driver_name = "i915"};
    uint8_t                     told[2] = {0, 1};
    uint32_t                    i, count, room = args->num_fences;

    if (args->flags != 0 || args->pad != 0) {
        return -EINVAL;
    }
    if (token != NULL) {
        count = token->fence->width;
    } else if (zr_soft_sync_told(fd, told)) {
        count       = told[1];
        info.status = told[0] != 0 ? -told[0] : 1;
    } else {
        return -EINVAL;
    }
    snprintf(args->name, sizeof(args->name), "i915");
    args->status     = info.status;
    args->num_fences = count;
    if (room == 0) {
        return 0;
    }
    if (room < count) {
        return -EINVAL;
    }
    info.timestamp_ns = info.status != 0 ? zr_time_ns() : 0;
    for (i = 0; i < count; i++) {
        if (zr_soft_copy_out(args->sync_fence_info + i * sizeof(info), &info, sizeof(info)) != 0) {
            return -EFAULT;
        }
    }
    return 0;
}

/* ---- dma-bufs ---- */

/* All that a reader (or a writer) must wait for. */
static struct zr_soft_fence *zr_soft_bo_fences(struct zr_soft_bo *bo, bool write)
{
    struct zr_soft_fence **fences = calloc(bo->num_reads + 1, sizeof(*fences)), *all;
    unsigned               count = 0, i;

    if (fences == NULL) {
        return NULL;
    }
    fences[count++] = bo->write;
    for (i = 0; write && i < bo->num_reads; i++) {
        fences[count++] = bo->reads[i];
    }
    all = zr_soft_fence_all(bo->dev, fences, count);
    free(fences);
    return all;
}

static int zr_soft_buf_export(struct zr_soft_bo *bo, struct dma_buf_export_sync_file *args)
{
    struct zr_soft_fence *fence;
    int                   ret, fd = -1;

    if (args->flags == 0 || (args->flags & ~DMA_BUF_SYNC_RW)) {
        return -EINVAL;
    }
    fence = zr_soft_bo_fences(bo, args->flags & DMA_BUF_SYNC_WRITE);
    ret   = fence != NULL ? zr_soft_fence_export(bo->dev, fence, &fd) : -ENOMEM;
    zr_soft_fence_put(fence);
    if (ret == 0) {
        args->fd = fd;
    }
    return ret;
}

static int zr_soft_buf_import(struct zr_soft_bo *bo, const struct dma_buf_import_sync_file *args)
{
    struct zr_soft_fence *fence;
    int                   ret;

    if (args->flags == 0 || (args->flags & ~DMA_BUF_SYNC_RW)) {
        return -EINVAL;
    }
    ret = zr_soft_fence_import(bo->dev, args->fd, &fence);
    if (ret == 0 && fence != NULL) {
        zr_soft_bo_add_fence(bo, fence, args->flags & DMA_BUF_SYNC_WRITE);
        zr_soft_fence_put(fence);
    }
    return ret;
}

static int zr_soft_buf_sync(struct zr_soft_bo *bo, const struct dma_buf_sync *args)
{
    uint64_t direction = args->flags & DMA_BUF_SYNC_RW;

    if ((args->flags & ~(uint64_t)DMA_BUF_SYNC_VALID_FLAGS_MASK) || direction == 0) {
        return -EINVAL;
    }
    if (args->flags & DMA_BUF_SYNC_END) {
        return 0;
    }
    return zr_soft_bo_wait(bo, direction & DMA_BUF_SYNC_WRITE, INT64_MAX);
}

static int zr_soft_buf_call(struct zr_soft_bo *bo, unsigned long request, void *data)
{
    switch (request) {
    case DMA_BUF_IOCTL_SYNC:
        return zr_soft_buf_sync(bo, data);
    case DMA_BUF_IOCTL_EXPORT_SYNC_FILE:
        return zr_soft_buf_export(bo, data);
    case DMA_BUF_IOCTL_IMPORT_SYNC_FILE:
        return zr_soft_buf_import(bo, data);
    case DMA_BUF_SET_NAME_A:
    case DMA_BUF_SET_NAME_B:
        return 0;
    default:
        return -ENOTTY;
    }
}

int zr_soft_fd_call(struct zr_soft_dev *dev, int fd, unsigned long request, void *data)
{
    struct zr_soft_bo *bo;
    int                ret = -ENOTTY;

    pthread_mutex_lock(&dev->lock);
    bo = zr_soft_bo_by_fd(dev, fd);
    if (bo != NULL) {
        zr_soft_bo_get(bo);
        ret = zr_soft_buf_call(bo, request, data);
        zr_soft_bo_put(bo);
    } else if (request == SYNC_IOC_MERGE) {
        ret = zr_soft_sync_merge(dev, fd, data);
    } else if (request == SYNC_IOC_FILE_INFO) {
        ret = zr_soft_sync_info(dev, fd, data);
    }
    pthread_mutex_unlock(&dev->lock);
    return ret;
}

/* ---- syncobjs ---- */

int zr_soft_syncobj_export(struct zr_soft_dev *dev, struct zr_soft_syncobj *syncobj, int *fd_p)
{
    return zr_soft_token_new(dev, NULL, syncobj, fd_p);
}

struct zr_soft_syncobj *zr_soft_syncobj_import(struct zr_soft_dev *dev, int fd)
{
    const struct zr_soft_token *token = zr_soft_token_find(dev, fd);

    return token != NULL ? token->syncobj : NULL;
}
