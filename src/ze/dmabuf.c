/* dma-buf fds given to clients through ze_external_memory_export_fd_t: one per object, kept by the
 * driver. UCX duplicates it and does not close it, others close it: the inode tells whether the
 * number still means what was given. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct zr_dmabuf {
    struct zr_dmabuf *next;
    uint64_t          id; /* of the physical memory object */
    int               fd;
    dev_t             dev;
    ino_t             ino;
};

static pthread_mutex_t   dmabuf_lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct zr_dmabuf *dmabufs;
static _Atomic unsigned  dmabuf_count;

static bool zr_dmabuf_any(void)
{
    return atomic_load_explicit(&dmabuf_count, memory_order_relaxed) > 0;
}

static bool zr_dmabuf_valid(const struct zr_dmabuf *dmabuf)
{
    struct stat st;

    return fstat(dmabuf->fd, &st) == 0 && st.st_dev == dmabuf->dev && st.st_ino == dmabuf->ino;
}

static int zr_dmabuf_export(struct zr_dmabuf *dmabuf, struct zr_bo *bo)
{
    struct stat st;

    if (zr_bo_export(bo, &dmabuf->fd) != ZE_RESULT_SUCCESS) {
        return -1;
    }
    if (fstat(dmabuf->fd, &st) < 0) {
        close(dmabuf->fd);
        return -1;
    }
    dmabuf->dev = st.st_dev;
    dmabuf->ino = st.st_ino;
    return 0;
}

int zr_dmabuf_fd(struct zr_phys *phys, struct zr_bo *bo)
{
    struct zr_dmabuf *dmabuf;
    int               fd = -1;

    pthread_mutex_lock(&dmabuf_lock);
    for (dmabuf = dmabufs; dmabuf != NULL && dmabuf->id != phys->id; dmabuf = dmabuf->next) {
    }
    if (dmabuf != NULL) {
        fd = (zr_dmabuf_valid(dmabuf) || zr_dmabuf_export(dmabuf, bo) == 0) ? dmabuf->fd : -1;
    } else if ((dmabuf = calloc(1, sizeof(*dmabuf))) != NULL) {
        if (zr_dmabuf_export(dmabuf, bo) == 0) {
            dmabuf->id   = phys->id;
            dmabuf->next = dmabufs;
            dmabufs      = dmabuf;
            dmabuf_count++;
            fd = dmabuf->fd;
        } else {
            free(dmabuf);
        }
    }
    pthread_mutex_unlock(&dmabuf_lock);
    return fd;
}

void zr_dmabuf_forget(uint64_t phys_id)
{
    struct zr_dmabuf **link, *dmabuf;

    if (!zr_dmabuf_any()) {
        return;
    }
    pthread_mutex_lock(&dmabuf_lock);
    for (link = &dmabufs; (dmabuf = *link) != NULL; link = &dmabuf->next) {
        if (dmabuf->id == phys_id) {
            *link = dmabuf->next;
            if (zr_dmabuf_valid(dmabuf)) {
                close(dmabuf->fd);
            }
            free(dmabuf);
            dmabuf_count--;
            break;
        }
    }
    pthread_mutex_unlock(&dmabuf_lock);
}

int zr_dmabuf_same(int fd)
{
    struct zr_dmabuf *dmabuf;
    struct stat       st;

    if (!zr_dmabuf_any() || fstat(fd, &st) != 0) {
        return fd;
    }
    pthread_mutex_lock(&dmabuf_lock);
    for (dmabuf = dmabufs; dmabuf != NULL; dmabuf = dmabuf->next) {
        if (dmabuf->dev == st.st_dev && dmabuf->ino == st.st_ino && zr_dmabuf_valid(dmabuf)) {
            fd = dmabuf->fd;
            break;
        }
    }
    pthread_mutex_unlock(&dmabuf_lock);
    return fd;
}
