/* One Level Zero device and buffers of physical objects on it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"

#include <zerange/zerange.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 4096 /* bytes kept free at both ends of a buffer */

static int fail(char *error, size_t size, const char *what, ze_result_t result)
{
    snprintf(error, size, "%s: 0x%x", what, (unsigned)result);
    return -1;
}

static int find_device(struct zr_ze *ze)
{
    ze_driver_handle_t     drivers[16];
    ze_device_handle_t     devices[64];
    ze_device_properties_t properties;
    uint32_t               n_drivers = 16, n_devices, i, j;

    if (zeInit(0) != ZE_RESULT_SUCCESS || zeDriverGet(&n_drivers, drivers) != ZE_RESULT_SUCCESS) {
        return -1;
    }
    for (i = 0; i < n_drivers; i++) {
        n_devices = 64;
        if (zeDeviceGet(drivers[i], &n_devices, devices) != ZE_RESULT_SUCCESS) {
            continue;
        }
        for (j = 0; j < n_devices; j++) {
            properties = (ze_device_properties_t){.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
            if (zeDeviceGetProperties(devices[j], &properties) == ZE_RESULT_SUCCESS &&
                properties.type == ZE_DEVICE_TYPE_GPU) {
                ze->driver = drivers[i];
                ze->device = devices[j];
                return 0;
            }
        }
    }
    return -1;
}

/* A group that only copies if there is one, else any that can. */
static uint32_t copy_group(ze_device_handle_t device)
{
    ze_command_queue_group_properties_t groups[16];
    uint32_t                            count = 16, i, found = 0;

    for (i = 0; i < count; i++) {
        groups[i] = (ze_command_queue_group_properties_t){
            .stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES};
    }
    if (zeDeviceGetCommandQueueGroupProperties(device, &count, groups) != ZE_RESULT_SUCCESS) {
        return 0;
    }
    for (i = count; i-- > 0;) {
        if (groups[i].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY) {
            found = i;
            if (!(groups[i].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE)) {
                break;
            }
        }
    }
    return found;
}

int zr_ze_open(struct zr_ze *ze, char *error, size_t error_size)
{
    ze_context_desc_t        context_desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_command_queue_desc_t  queue_desc   = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                             .mode  = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS};
    ze_host_mem_alloc_desc_t host_desc    = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    ze_result_t              result;

    memset(ze, 0, sizeof(*ze));
    if (find_device(ze) != 0) {
        snprintf(error, error_size, "no Level Zero GPU device; D needs one "
                 "(ZE_ENABLE_ALT_DRIVERS names drivers, ZERANGE_SOFT a software device)");
        return -1;
    }
    result = zeContextCreate(ze->driver, &context_desc, &ze->context);
    if (result != ZE_RESULT_SUCCESS) {
        return fail(error, error_size, "zeContextCreate", result);
    }
    queue_desc.ordinal = copy_group(ze->device);
    result = zeCommandListCreateImmediate(ze->context, ze->device, &queue_desc, &ze->list);
    if (result != ZE_RESULT_SUCCESS) {
        fail(error, error_size, "zeCommandListCreateImmediate", result);
        goto err_context;
    }
    result = zeMemAllocHost(ze->context, &host_desc, ZR_ZE_STAGING, 4096, &ze->staging);
    if (result != ZE_RESULT_SUCCESS) {
        fail(error, error_size, "zeMemAllocHost", result);
        goto err_list;
    }
    if (zeDriverGetExtensionFunctionAddress(ze->driver, "zrDeviceGetCompletedBatches",
                                            &ze->completed_batches) != ZE_RESULT_SUCCESS) {
        ze->completed_batches = NULL;
    }
    return 0;

err_list:
    zeCommandListDestroy(ze->list);
err_context:
    zeContextDestroy(ze->context);
    memset(ze, 0, sizeof(*ze));
    return -1;
}

void zr_ze_close(struct zr_ze *ze)
{
    if (ze->context != NULL) {
        zeMemFree(ze->context, ze->staging);
        zeCommandListDestroy(ze->list);
        zeContextDestroy(ze->context);
        memset(ze, 0, sizeof(*ze));
    }
}

unsigned zr_ze_completed(struct zr_ze *ze, uint64_t batches[ZR_ZE_MAX_ENGINES])
{
    zr_pfnDeviceGetCompletedBatches_t get;
    uint32_t                          count = ZR_ZE_MAX_ENGINES;

    if (ze->completed_batches == NULL) {
        return 0;
    }
    memcpy(&get, &ze->completed_batches, sizeof(get));
    return get(ze->device, &count, batches) == ZE_RESULT_SUCCESS ? count : 0;
}

/* ---- buffers ---- */

/* Relative sizes of unequal objects: no neighbours are alike. */
static size_t object_weight(const struct zr_bench_options *options, unsigned i)
{
    return options->unequal ? 1 + i * 3 % 5 : 1;
}

/* Divide the buffer's pages among the objects; sets its size. */
static int plan_objects(struct zr_buffer *b, const struct zr_bench_options *options)
{
    size_t   pages = (options->max_size + options->offset + b->page - 1) / b->page + 4;
    size_t   weights = 0, given = 0, weight = 0;
    unsigned i;

    for (i = 0; i < b->count; i++) {
        weights += object_weight(options, i);
    }
    if (pages < weights) {
        pages = weights;
    }
    b->size = pages * b->page;
    if (b->count == 0) {
        return 0;
    }
    b->objects = calloc(b->count, sizeof(*b->objects));
    if (b->objects == NULL) {
        return -1;
    }
    for (i = 0; i < b->count; i++) {
        struct zr_object *o = &b->objects[i];

        weight += object_weight(options, i);
        o->start  = given * b->page;
        o->length = (pages * weight / weights - given) * b->page;
        o->offset = options->map_offset ? (1 + i % 3) * b->page : 0;
        given     = pages * weight / weights;
    }
    return 0;
}

static int map_object(struct zr_buffer *b, struct zr_object *o, bool shorter, char *error,
                      size_t error_size)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                   .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE,
                                   .size  = o->offset + o->length + (shorter ? b->page : 0)};
    ze_result_t            result;

    result = zePhysicalMemCreate(b->ze->context, b->ze->device, &desc, &o->memory);
    if (result != ZE_RESULT_SUCCESS) {
        o->memory = NULL;
        return fail(error, error_size, "zePhysicalMemCreate", result);
    }
    result = zeVirtualMemMap(b->ze->context, b->base + o->start, o->length, o->memory, o->offset,
                             ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE);
    if (result != ZE_RESULT_SUCCESS) {
        zePhysicalMemDestroy(b->ze->context, o->memory);
        o->memory = NULL;
        return fail(error, error_size, "zeVirtualMemMap", result);
    }
    return 0;
}

static int create_on_device(struct zr_buffer *b, const struct zr_bench_options *options,
                            char *error, size_t error_size)
{
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_result_t                result;
    void                      *base;
    unsigned                   i;

    if (b->count == 0) {
        result = zeMemAllocDevice(b->ze->context, &desc, b->size, b->page, b->ze->device, &base);
        if (result != ZE_RESULT_SUCCESS) {
            return fail(error, error_size, "zeMemAllocDevice", result);
        }
        b->base = base;
        return 0;
    }
    result = zeVirtualMemReserve(b->ze->context, NULL, b->size, &base);
    if (result != ZE_RESULT_SUCCESS) {
        return fail(error, error_size, "zeVirtualMemReserve", result);
    }
    b->base = base;
    for (i = 0; i < b->count; i++) {
        if (map_object(b, &b->objects[i], options->map_offset, error, error_size) != 0) {
            return -1;
        }
    }
    return 0;
}

int zr_buffer_create(struct zr_ze *ze, const struct zr_bench_options *options, int rank,
                     struct zr_buffer *buffer, char *error, size_t error_size)
{
    ze_result_t result;
    void       *base;

    *buffer = (struct zr_buffer){.ze = ze, .page = 65536, .offset_set = options->offset_set,
                                 .offset = options->offset};
    if (ze != NULL) {
        buffer->count = options->objects[rank];
        /* Asked for less than a large page, so that a buffer can have many objects. */
        result = zeVirtualMemQueryPageSize(ze->context, ze->device, 1, &buffer->page);
        if (result != ZE_RESULT_SUCCESS) {
            return fail(error, error_size, "zeVirtualMemQueryPageSize", result);
        }
    }
    if (plan_objects(buffer, options) != 0) {
        snprintf(error, error_size, "no memory for %u objects", buffer->count);
        return -1;
    }
    if (ze == NULL) {
        if (posix_memalign(&base, buffer->page, buffer->size) != 0) {
            snprintf(error, error_size, "no host memory for %zu bytes", buffer->size);
            return -1;
        }
        buffer->base = base;
        return 0;
    }
    if (create_on_device(buffer, options, error, error_size) != 0) {
        zr_buffer_destroy(buffer);
        return -1;
    }
    return 0;
}

void zr_buffer_destroy(struct zr_buffer *b)
{
    struct zr_object *o;

    if (b->ze == NULL) {
        free(b->base);
    } else if (b->count == 0) {
        if (b->base != NULL) {
            zeMemFree(b->ze->context, b->base);
        }
    } else {
        for (o = b->objects; o < b->objects + b->count; o++) {
            if (o->memory != NULL) {
                zeVirtualMemUnmap(b->ze->context, b->base + o->start, o->length);
                zePhysicalMemDestroy(b->ze->context, o->memory);
            }
        }
        if (b->base != NULL) {
            zeVirtualMemFree(b->ze->context, b->base, b->size);
        }
    }
    free(b->objects);
    memset(b, 0, sizeof(*b));
}

static bool crosses(size_t start, size_t length, size_t edge)
{
    return start < edge && edge < start + length;
}

static size_t clamp(size_t x, size_t low, size_t high)
{
    return x < low ? low : x > high ? high : x;
}

size_t zr_buffer_place(const struct zr_buffer *b, size_t length)
{
    size_t   middle = b->size / 2, edge = 0, start, half = length / 2;
    unsigned i;

    for (i = 1; i < b->count; i++) {
        size_t here = b->objects[i].start;

        if (edge == 0 || llabs((long long)here - (long long)middle) <
                             llabs((long long)edge - (long long)middle)) {
            edge = here;
        }
    }
    if (edge == 0) {
        return b->page + b->offset;
    }
    if (length < 2) {
        return edge - 1;
    }
    /* The whole pages around it are the better place; a short message goes right to the edge. */
    start = edge > half + b->page ? edge - half : b->page;
    if (b->offset_set) {
        start = start / b->page * b->page + b->offset;
    }
    start = clamp(start, b->page, b->size - b->page - length);
    if (!crosses(start, length, edge)) {
        start = edge - half + (half > 0 ? b->offset % half : 0);
        start = clamp(start, GUARD, b->size - GUARD - length);
    }
    return start;
}

unsigned zr_buffer_object_at(const struct zr_buffer *b, size_t start)
{
    unsigned i = 0;

    while (i + 1 < b->count && b->objects[i + 1].start <= start) {
        i++;
    }
    return i;
}

static int copy(struct zr_ze *ze, void *to, const void *from, size_t length)
{
    ze_result_t result = zeCommandListAppendMemoryCopy(ze->list, to, from, length, NULL, 0, NULL);

    if (result != ZE_RESULT_SUCCESS) {
        fprintf(stderr, "copy of %zu bytes from %p to %p: 0x%x\n", length, from, to,
                (unsigned)result);
        return -1;
    }
    return 0;
}

int zr_buffer_write(struct zr_buffer *b, size_t start, const void *from, size_t length)
{
    if (b->ze == NULL) {
        memcpy(b->base + start, from, length);
        return 0;
    }
    return copy(b->ze, b->base + start, from, length);
}

int zr_buffer_read(struct zr_buffer *b, size_t start, void *to, size_t length)
{
    if (b->ze == NULL) {
        memcpy(to, b->base + start, length);
        return 0;
    }
    return copy(b->ze, to, b->base + start, length);
}
