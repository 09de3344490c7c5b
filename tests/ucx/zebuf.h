/* Device buffers for UCX tests: a VA range of several physical objects, filled and read by the
 * device, since the CPU cannot touch it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZEBUF_H
#define ZEBUF_H

#include "zegroup.h"

#include <level_zero/ze_api.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ZEBUF_MAX_OBJECTS 64

#define ZE(call)                                                                              \
    do {                                                                                      \
        ze_result_t result_ = (call);                                                         \
        if (result_ != ZE_RESULT_SUCCESS) {                                                   \
            fprintf(stderr, "%s:%d: %s returned 0x%x\n", __FILE__, __LINE__, #call,           \
                    (unsigned)result_);                                                       \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

static struct {
    ze_driver_handle_t       driver;
    ze_device_handle_t       device;
    ze_context_handle_t      context;
    ze_command_list_handle_t list;
    uint8_t                 *staging; /* host memory the device reaches */
    size_t                   staging_size;
} zebuf_ze;

struct zebuf {
    char                   *ptr;
    size_t                  size, objects, object_size;
    ze_physical_mem_handle_t phys[ZEBUF_MAX_OBJECTS];
};

/* @return 0 without a device */
static int zebuf_start(void)
{
    ze_context_desc_t       context = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_command_queue_desc_t queue   = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                       .mode  = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS};
    uint32_t                count   = 1;

    if (zeInit(ZE_INIT_FLAG_GPU_ONLY) != ZE_RESULT_SUCCESS ||
        zeDriverGet(&count, &zebuf_ze.driver) != ZE_RESULT_SUCCESS || count == 0) {
        return 0;
    }
    count = 1;
    ZE(zeDeviceGet(zebuf_ze.driver, &count, &zebuf_ze.device));
    ZE(zeContextCreate(zebuf_ze.driver, &context, &zebuf_ze.context));
    queue.ordinal = zegroup_copy(zebuf_ze.device);
    ZE(zeCommandListCreateImmediate(zebuf_ze.context, zebuf_ze.device, &queue, &zebuf_ze.list));
    return 1;
}

static void zebuf_need_staging(size_t size)
{
    ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void                    *ptr;

    if (size <= zebuf_ze.staging_size) {
        return;
    }
    if (zebuf_ze.staging != NULL) {
        ZE(zeMemFree(zebuf_ze.context, zebuf_ze.staging));
    }
    ZE(zeMemAllocHost(zebuf_ze.context, &desc, size, 4096, &ptr));
    zebuf_ze.staging      = ptr;
    zebuf_ze.staging_size = size;
}

/* @param hint where it should be, NULL anywhere */
static void zebuf_map(struct zebuf *buf, size_t objects, size_t object_size, const void *hint)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                   .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE,
                                   .size  = object_size};
    void                  *ptr;
    size_t                 k;

    buf->objects     = objects;
    buf->object_size = object_size;
    buf->size        = objects * object_size;
    zebuf_need_staging(buf->size);
    ZE(zeVirtualMemReserve(zebuf_ze.context, hint, buf->size, &ptr));
    buf->ptr = ptr;
    for (k = 0; k < objects; k++) {
        ZE(zePhysicalMemCreate(zebuf_ze.context, zebuf_ze.device, &desc, &buf->phys[k]));
        ZE(zeVirtualMemMap(zebuf_ze.context, buf->ptr + k * object_size, object_size,
                           buf->phys[k], 0, ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
    }
}

/* Another object behind the same addresses. */
static inline void zebuf_replace(struct zebuf *buf, size_t k)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                   .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE,
                                   .size  = buf->object_size};

    ZE(zeVirtualMemUnmap(zebuf_ze.context, buf->ptr + k * buf->object_size, buf->object_size));
    ZE(zePhysicalMemDestroy(zebuf_ze.context, buf->phys[k]));
    ZE(zePhysicalMemCreate(zebuf_ze.context, zebuf_ze.device, &desc, &buf->phys[k]));
    ZE(zeVirtualMemMap(zebuf_ze.context, buf->ptr + k * buf->object_size, buf->object_size,
                       buf->phys[k], 0, ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
}

static void zebuf_unmap(struct zebuf *buf)
{
    size_t k;

    for (k = 0; k < buf->objects; k++) {
        ZE(zeVirtualMemUnmap(zebuf_ze.context, buf->ptr + k * buf->object_size,
                             buf->object_size));
        ZE(zePhysicalMemDestroy(zebuf_ze.context, buf->phys[k]));
    }
    ZE(zeVirtualMemFree(zebuf_ze.context, buf->ptr, buf->size));
}

/* A byte that says whose, which message and which place it is. */
static inline uint8_t zebuf_byte(unsigned seed, size_t offset)
{
    return (uint8_t)((offset * 2654435761u >> 13) + offset + seed * 37u);
}

/* The whole buffer gets the pattern of @a seed. */
static void zebuf_fill(const struct zebuf *buf, unsigned seed)
{
    size_t k;

    for (k = 0; k < buf->size; k++) {
        zebuf_ze.staging[k] = zebuf_byte(seed, k);
    }
    ZE(zeCommandListAppendMemoryCopy(zebuf_ze.list, buf->ptr, zebuf_ze.staging, buf->size, NULL,
                                     0, NULL));
}

/* [offset, offset+size) has the pattern of @a inside as it was at @a from, all else that of
 * @a outside. @return the number of wrong bytes. */
static size_t zebuf_check(const struct zebuf *buf, size_t offset, size_t size, size_t from,
                          unsigned inside, unsigned outside)
{
    size_t k, bad = 0;

    memset(zebuf_ze.staging, 0xA5, buf->size);
    ZE(zeCommandListAppendMemoryCopy(zebuf_ze.list, zebuf_ze.staging, buf->ptr, buf->size, NULL,
                                     0, NULL));
    for (k = 0; k < buf->size; k++) {
        uint8_t want = k >= offset && k < offset + size ? zebuf_byte(inside, k - offset + from)
                                                        : zebuf_byte(outside, k);

        if (zebuf_ze.staging[k] != want && bad++ == 0) {
            fprintf(stderr, "byte %zu of %zu is 0x%02x, expected 0x%02x (message %zu+%zu)\n", k,
                    buf->size, zebuf_ze.staging[k], want, offset, size);
        }
    }
    return bad;
}

#endif
