/* The kernel interface over real render nodes, through libdrm. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "kif.h"
#include "util/util.h"

#include <errno.h>
#include <fcntl.h>
#include <i915_drm.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xf86drm.h>

#define ZR_PCI_VENDOR_INTEL 0x8086

struct zr_kfile {
    int fd;
};

/* A signal may come at any time: nothing here gives up for one. O_NONBLOCK: an execbuf that finds its
 * ring full comes back, however long that ring is; otherwise it would block, for good where what is
 * in the ring waits for this thread. */
static int zr_drm_open_node(const char *path)
{
    int fd;

    do {
        fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

/* Nodes of other kernel drivers are not ours; one that cannot be opened is kept, so that the
 * caller can say why. */
static bool zr_drm_is_i915(const char *path)
{
    int           fd = zr_drm_open_node(path);
    drmVersionPtr version;
    bool          is_i915;

    if (fd < 0) {
        return errno != ENOENT && errno != ENXIO;
    }
    version = drmGetVersion(fd);
    is_i915 = version != NULL && strcmp(version->name, "i915") == 0;
    if (!is_i915) {
        zr_info("%s is driven by '%s', zerange speaks to i915", path,
                version != NULL ? version->name : "?");
    }
    drmFreeVersion(version);
    close(fd);
    return is_i915;
}

static int zr_drm_enumerate(struct zr_kif_node *nodes, unsigned max)
{
    drmDevicePtr devices[64];
    unsigned     filled = 0;
    int          count, i;

    count = drmGetDevices2(0, devices, ZR_ARRAY_SIZE(devices));
    if (count == -ENOENT || count == -ENODEV) {
        return 0; /* no /dev/dri at all */
    }
    if (count < 0) {
        return count;
    }
    for (i = 0; i < count && filled < max; i++) {
        const drmDevice    *device = devices[i];
        struct zr_kif_node *node   = &nodes[filled];

        if ((device->available_nodes & (1 << DRM_NODE_RENDER)) == 0 ||
            device->bustype != DRM_BUS_PCI ||
            device->deviceinfo.pci->vendor_id != ZR_PCI_VENDOR_INTEL ||
            !zr_drm_is_i915(device->nodes[DRM_NODE_RENDER])) {
            continue;
        }
        snprintf(node->path, sizeof(node->path), "%s", device->nodes[DRM_NODE_RENDER]);
        node->pci_domain   = device->businfo.pci->domain;
        node->pci_bus      = device->businfo.pci->bus;
        node->pci_device   = device->businfo.pci->dev;
        node->pci_function = device->businfo.pci->func;
        node->index        = filled++;
    }
    drmFreeDevices(devices, count);
    return (int)filled;
}

static int zr_drm_open(const struct zr_kif_node *node, struct zr_kfile **file_p)
{
    struct zr_kfile *file = malloc(sizeof(*file));

    if (file == NULL) {
        return -ENOMEM;
    }
    file->fd = zr_drm_open_node(node->path);
    if (file->fd < 0) {
        int error = -errno;

        free(file);
        return error;
    }
    *file_p = file;
    return 0;
}

static int zr_drm_ioctl(struct zr_kfile *file, unsigned long request, void *arg)
{
    int ret;

    if (request != DRM_IOCTL_I915_GEM_EXECBUFFER2) {
        return drmIoctl(file->fd, request, arg) == 0 ? 0 : -errno;
    }
    do {
        ret = ioctl(file->fd, request, arg);
    } while (ret != 0 && errno == EINTR);
    return ret == 0 ? 0 : -errno;
}

static void *zr_drm_mmap(struct zr_kfile *file, void *addr, size_t length, int prot, int flags,
                         uint64_t offset)
{
    return mmap(addr, length, prot, flags, file->fd, (off_t)offset);
}

static int zr_drm_munmap(struct zr_kfile *file, void *addr, size_t length)
{
    (void)file;
    return munmap(addr, length) == 0 ? 0 : -errno;
}

/* What is left of a time limit when a signal has interrupted the wait. */
static int zr_drm_poll(int fd, int timeout_ms)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    uint64_t      start = zr_time_ns(), waited;
    int           ret, left = timeout_ms;

    for (;;) {
        ret = poll(&entry, 1, left);
        if (ret >= 0 || (errno != EINTR && errno != EAGAIN)) {
            break;
        }
        if (timeout_ms > 0) {
            waited = (zr_time_ns() - start) / 1000000;
            left   = waited < (uint64_t)timeout_ms ? timeout_ms - (int)waited : 0;
        }
    }
    if (ret < 0) {
        return -errno;
    }
    return ret > 0 && (entry.revents & POLLNVAL) ? -EBADF : ret;
}

static void zr_drm_close(struct zr_kfile *file)
{
    close(file->fd);
    free(file);
}

static int zr_drm_completed_batches(struct zr_kfile *file, unsigned engine_class,
                                    uint64_t *counts, unsigned max)
{
    (void)file, (void)engine_class, (void)counts, (void)max;
    return -EOPNOTSUPP;
}

const struct zr_kif *zr_drm_kif(void)
{
    static const struct zr_kif kif = {
        .name              = "drm",
        .enumerate         = zr_drm_enumerate,
        .open              = zr_drm_open,
        .ioctl             = zr_drm_ioctl,
        .mmap              = zr_drm_mmap,
        .munmap            = zr_drm_munmap,
        .poll              = zr_drm_poll,
        .close             = zr_drm_close,
        .completed_batches = zr_drm_completed_batches,
    };

    return &kif;
}
