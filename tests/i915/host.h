/* Tests of the driver's i915 side: a software device of the test's own, with a profile of its own,
 * behind a kernel interface whose calls the test sees and can answer itself. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_TEST_I915_HOST_H
#define ZR_TEST_I915_HOST_H

#include "blt/queue.h"
#include "i915/ctx.h"
#include "soft/soft.h"
#include "util/config.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FOREVER UINT64_C(60000000000)

static unsigned bad;

#define CHECK(cond, ...)                                                                      \
    do {                                                                                      \
        if (!(cond) && bad++ < 30) {                                                          \
            printf("%s:%d: not true: %s; ", __func__, __LINE__, #cond);                       \
            printf(__VA_ARGS__);                                                              \
            printf(" (%s)\n", zr_last_error());                                               \
        }                                                                                     \
    } while (0)
#define OK(call) CHECK((call) == ZE_RESULT_SUCCESS, "failed")

struct zr_kfile {
    struct zr_soft_file *file;
};

/* What a test sets. */
static struct {
    struct zr_soft_dev *soft;
    /* Asked first: a negative errno is the answer, 0: the device answers. */
    int (*before)(struct zr_kfile *file, unsigned long request, void *arg);
    /* May change the device's answer. */
    void (*after)(unsigned long request, void *arg, int ret);
    /* NULL: the device maps. */
    void *(*map)(struct zr_kfile *file, void *addr, size_t length, int prot, int flags,
                 uint64_t offset);
} host;

static int host_enumerate(struct zr_kif_node *nodes, unsigned max)
{
    memset(&nodes[0], 0, sizeof(nodes[0]));
    snprintf(nodes[0].path, sizeof(nodes[0].path), "/dev/dri/renderD128");
    return max > 0;
}

static int host_open(const struct zr_kif_node *node, struct zr_kfile **file_p)
{
    struct zr_kfile *file = malloc(sizeof(*file));
    int              ret  = zr_soft_file_open(host.soft, &file->file);

    (void)node;
    if (ret != 0) {
        free(file);
        return ret;
    }
    file->file->nonblock = true;
    *file_p = file;
    return 0;
}

static int host_ioctl(struct zr_kfile *file, unsigned long request, void *arg)
{
    int ret = host.before != NULL ? host.before(file, request, arg) : 0;

    if (ret != 0) {
        return ret;
    }
    do {
        ret = zr_soft_file_ioctl(file->file, request, (uintptr_t)arg);
    } while (ret == -EINTR || (ret == -EAGAIN && request != DRM_IOCTL_I915_GEM_EXECBUFFER2));
    if (host.after != NULL) {
        host.after(request, arg, ret);
    }
    return ret;
}

static void *host_mmap(struct zr_kfile *file, void *addr, size_t length, int prot, int flags,
                       uint64_t offset)
{
    if (host.map != NULL) {
        return host.map(file, addr, length, prot, flags, offset);
    }
    return zr_soft_file_mmap(file->file, addr, length, prot, flags, offset);
}

static int host_munmap(struct zr_kfile *file, void *addr, size_t length)
{
    (void)file;
    return munmap(addr, length) == 0 ? 0 : -errno;
}

static int host_poll(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, timeout_ms);
}

static void host_close(struct zr_kfile *file)
{
    zr_soft_file_close(file->file);
    free(file);
}

static int host_completed(struct zr_kfile *file, unsigned engine_class, uint64_t *counts,
                          unsigned max)
{
    (void)file, (void)engine_class, (void)counts, (void)max;
    return -EOPNOTSUPP;
}

static const struct zr_kif host_kif = {
    .name              = "test",
    .enumerate         = host_enumerate,
    .open              = host_open,
    .ioctl             = host_ioctl,
    .mmap              = host_mmap,
    .munmap            = host_munmap,
    .poll              = host_poll,
    .close             = host_close,
    .completed_batches = host_completed,
};

#define HOST_UPSTREAM_DG2                                                                     \
    "device_id = 0x56a0\ngeneration = gen125\nrules = upstream\nlmem = 4G\nsmem = 4G\n"          \
    "gtt_bits = 48\ntimestamp_hz = 19200000\n"
#define HOST_BACKPORTS_PVC                                                                    \
    "device_id = 0x0bd5\ngeneration = pvc\nrules = backports\nlmem = 4G\nsmem = 4G\n"            \
    "gtt_bits = 57\ntimestamp_hz = 19200000\n"
#define HOST_TGL                                                                              \
    "device_id = 0x9a49\ngeneration = gen12\nrules = upstream\nllc = yes\nsmem = 4G\n"           \
    "gtt_bits = 48\ntimestamp_hz = 19200000\n"
#define HOST_MTL                                                                              \
    "device_id = 0x7d55\ngeneration = gen125\nrules = upstream\nllc = no\nsmem = 4G\n"           \
    "gtt_bits = 48\ntimestamp_hz = 19200000\n"

/* Make the device that @a text describes and open it. */
static struct zr_i915 *host_start(const char *text, uint64_t mbps)
{
    char                   directory[] = "/tmp/zerange-test-XXXXXX", path[128];
    struct zr_soft_options options     = {.mbps = mbps};
    struct zr_soft_profile profile;
    struct zr_i915        *dev   = NULL;
    unsigned               count = 0;
    FILE                  *file;
    int                    ret;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (zr_config_load() != ZE_RESULT_SUCCESS || mkdtemp(directory) == NULL) {
        exit(1);
    }
    snprintf(path, sizeof(path), "%s/own.profile", directory);
    file = fopen(path, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    ret = zr_soft_profile_load(directory, "own", &profile);
    unlink(path);
    rmdir(directory);
    if (ret != 0 || zr_soft_dev_create(&profile, &options, &host.soft) != 0) {
        printf("no device: %s\n", zr_last_error());
        exit(1);
    }
    if (zr_i915_enumerate(&host_kif, &dev, 1, &count) != ZE_RESULT_SUCCESS || count != 1) {
        printf("not opened: %s\n", zr_last_error());
        exit(1);
    }
    return dev;
}

static void host_stop(struct zr_i915 *dev)
{
    zr_i915_close(dev);
    zr_soft_dev_destroy(host.soft);
    memset(&host, 0, sizeof(host));
}

/* An object, mapped for the CPU where it is system memory. */
struct host_bo {
    struct zr_bo *bo;
    uint8_t      *map;
    uint64_t      size;
};

static inline struct host_bo host_bo(struct zr_i915 *dev, uint64_t size,
                                     enum zr_placement placement)
{
    struct host_bo o = {.size = size};
    void          *map;

    OK(zr_bo_create(dev, size, placement,
                    placement == ZR_PLACE_SYSTEM ? ZR_CACHE_CACHED : ZR_CACHE_WRITE_COMBINED,
                    &o.bo));
    if (placement == ZR_PLACE_SYSTEM) {
        OK(zr_bo_map(o.bo, NULL, 0, o.bo->size, PROT_READ | PROT_WRITE, &map));
        o.map = map;
    }
    return o;
}

static inline void host_bo_free(struct host_bo *o)
{
    if (o->map != NULL) {
        zr_bo_unmap(o->bo, o->map, o->bo->size);
    }
    zr_bo_unref(o->bo);
}

/* One submission that copies; the caller waits. */
static inline uint64_t host_copy(struct zr_copyq *q, struct host_bo *dst, uint64_t to,
                                 struct host_bo *src, uint64_t from, uint64_t length)
{
    struct zr_seg d = {dst->bo, to, length}, s = {src->bo, from, length};
    uint64_t      seqno = 0;

    zr_copyq_begin(q);
    OK(zr_copyq_copy(q, &d, 1, &s, 1, length));
    OK(zr_copyq_submit(q, &seqno));
    return seqno;
}

#endif
