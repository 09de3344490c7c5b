/* The kernel interface over software devices hosted in this process. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "i915/kif.h"
#include "soft.h"
#include "util/config.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define ZR_SOFT_MAX_DEVICES 16

struct zr_kfile {
    struct zr_soft_file *file;
    unsigned             index;
};

/* Devices with an open file, by position in ZERANGE_SOFT. */
static struct {
    pthread_mutex_t     lock;
    struct zr_soft_dev *dev[ZR_SOFT_MAX_DEVICES];
    unsigned            files[ZR_SOFT_MAX_DEVICES];
} host = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A device has no engines in a forked child (its threads are the parent's): it is gone there. */
static atomic_bool    forked;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void zr_soft_in_child(void)
{
    atomic_store(&forked, true);
}

static void zr_soft_watch_fork(void)
{
    pthread_atfork(NULL, NULL, zr_soft_in_child);
}

/* The name at position @a index of the list. false: there is none */
static bool zr_soft_name(unsigned index, char *name, size_t size)
{
    const char *list = zr_config()->soft;
    size_t      length;

    if (list == NULL) {
        return false;
    }
    for (;; list++) {
        length = strcspn(list, ",");
        if (index-- == 0) {
            snprintf(name, size, "%.*s", (int)length, list);
            return true;
        }
        list += length;
        if (*list == '\0') {
            return false;
        }
    }
}

static int zr_soft_enumerate(struct zr_kif_node *nodes, unsigned max)
{
    struct zr_soft_profile profile;
    char                   name[64];
    unsigned               i;
    int                    ret;

    for (i = 0; i < max && i < ZR_SOFT_MAX_DEVICES && zr_soft_name(i, name, sizeof(name)); i++) {
        ret = zr_soft_profile_load(zr_config()->profiles, name, &profile);
        if (ret != 0) {
            return ret;
        }
        memset(&nodes[i], 0, sizeof(nodes[i]));
        snprintf(nodes[i].path, sizeof(nodes[i].path), "/dev/dri/renderD%u", 128 + i);
        nodes[i].pci_bus = 3 + i;
        nodes[i].index   = i;
    }
    return i;
}

/* Every object has an fd here, which on a real kernel it has not. */
static void zr_soft_raise_fd_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int zr_soft_host_device(unsigned index)
{
    struct zr_soft_options options;
    struct zr_soft_profile profile;
    char                   name[64];
    int                    ret;

    if (host.dev[index] != NULL) {
        return 0;
    }
    if (!zr_soft_name(index, name, sizeof(name))) {
        return -ENOENT;
    }
    ret = zr_soft_profile_load(zr_config()->profiles, name, &profile);
    if (ret != 0) {
        return ret;
    }
    zr_soft_raise_fd_limit();
    zr_soft_options_config(&options);
    options.unit = index;
    return zr_soft_dev_create(&profile, &options, &host.dev[index]);
}

static void zr_soft_host_drop(unsigned index)
{
    if (host.files[index] == 0 && host.dev[index] != NULL) {
        zr_soft_dev_destroy(host.dev[index]);
        host.dev[index] = NULL;
    }
}

static int zr_soft_open(const struct zr_kif_node *node, struct zr_kfile **file_p)
{
    struct zr_kfile *kfile;
    int              ret;

    pthread_once(&fork_once, zr_soft_watch_fork);
    if (atomic_load(&forked)) {
        return -ENODEV;
    }
    if (node->index >= ZR_SOFT_MAX_DEVICES) {
        return -ENOENT;
    }
    kfile = malloc(sizeof(*kfile));
    if (kfile == NULL) {
        return -ENOMEM;
    }
    kfile->index = node->index;
    pthread_mutex_lock(&host.lock);
    ret = zr_soft_host_device(node->index);
    if (ret == 0) {
        ret = zr_soft_file_open(host.dev[node->index], &kfile->file);
        if (ret == 0) {
            kfile->file->nonblock = true;
            host.files[node->index]++;
        }
        zr_soft_host_drop(node->index);
    }
    pthread_mutex_unlock(&host.lock);
    if (ret != 0) {
        free(kfile);
        return ret;
    }
    *file_p = kfile;
    return 0;
}

static void zr_soft_close(struct zr_kfile *kfile)
{
    if (!atomic_load(&forked)) {
        pthread_mutex_lock(&host.lock);
        zr_soft_file_close(kfile->file);
        host.files[kfile->index]--;
        zr_soft_host_drop(kfile->index);
        pthread_mutex_unlock(&host.lock);
    }
    free(kfile);
}

static int zr_soft_ioctl(struct zr_kfile *kfile, unsigned long request, void *arg)
{
    int ret;

    if (atomic_load_explicit(&forked, memory_order_relaxed)) {
        return -ENODEV;
    }
    do {
        ret = zr_soft_file_ioctl(kfile->file, request, (uintptr_t)arg);
    } while (ret == -EINTR || (ret == -EAGAIN && request != DRM_IOCTL_I915_GEM_EXECBUFFER2));
    return ret;
}

static void *zr_soft_mmap(struct zr_kfile *kfile, void *addr, size_t length, int prot, int flags,
                          uint64_t offset)
{
    if (atomic_load_explicit(&forked, memory_order_relaxed)) {
        errno = ENODEV;
        return MAP_FAILED;
    }
    return zr_soft_file_mmap(kfile->file, addr, length, prot, flags, offset);
}

static int zr_soft_munmap(struct zr_kfile *kfile, void *addr, size_t length)
{
    return munmap(addr, length) == 0 ? 0 : -errno;
}

static int zr_soft_poll(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int           ret;

    do {
        ret = poll(&p, 1, timeout_ms);
    } while (ret < 0 && errno == EINTR);
    if (ret < 0) {
        return -errno;
    }
    return ret > 0 && (p.revents & POLLNVAL) ? -EBADF : ret;
}

static int zr_soft_completed(struct zr_kfile *kfile, unsigned engine_class, uint64_t *counts,
                             unsigned max)
{
    struct zr_soft_dev *dev = kfile->file->dev;
    unsigned            i, found = 0;

    if (atomic_load_explicit(&forked, memory_order_relaxed)) {
        return -ENODEV;
    }
    pthread_mutex_lock(&dev->lock);
    for (i = 0; i < dev->profile.num_engines; i++) {
        const struct zr_soft_engine *engine = &dev->engine[i];

        if (engine->id.class == engine_class) {
            if (engine->id.instance < max) {
                counts[engine->id.instance] = engine->completed;
            }
            found++;
        }
    }
    pthread_mutex_unlock(&dev->lock);
    return found;
}

const struct zr_kif *zr_soft_kif(void)
{
    static const struct zr_kif kif = {
        .name              = "soft",
        .enumerate         = zr_soft_enumerate,
        .open              = zr_soft_open,
        .ioctl             = zr_soft_ioctl,
        .mmap              = zr_soft_mmap,
        .munmap            = zr_soft_munmap,
        .poll              = zr_soft_poll,
        .close             = zr_soft_close,
        .completed_batches = zr_soft_completed,
    };

    return &kif;
}
