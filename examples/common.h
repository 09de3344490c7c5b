/* What both examples need of Level Zero: one device, one list of copies, growing ranges. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_EXAMPLES_COMMON_H
#define ZR_EXAMPLES_COMMON_H

#include <level_zero/ze_api.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ZE(call)                                                                                   \
    do {                                                                                           \
        ze_result_t ze_result_ = (call);                                                           \
        if (ze_result_ != ZE_RESULT_SUCCESS) {                                                     \
            fprintf(stderr, "%s:%d: %s: 0x%x\n", __FILE__, __LINE__, #call, (unsigned)ze_result_); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

static ze_context_handle_t      context;
static ze_device_handle_t       device;
static ze_command_list_handle_t copies;

static inline void open_device(void)
{
    ze_context_desc_t       desc  = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_command_queue_desc_t queue = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                     .mode  = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS};
    ze_driver_handle_t      driver;
    uint32_t                one = 1;

    ZE(zeInit(ZE_INIT_FLAG_GPU_ONLY));
    ZE(zeDriverGet(&one, &driver));
    one = 1;
    ZE(zeDeviceGet(driver, &one, &device));
    ZE(zeContextCreate(driver, &desc, &context));
    ZE(zeCommandListCreateImmediate(context, device, &queue, &copies));
}

static inline void close_device(void)
{
    ZE(zeCommandListDestroy(copies));
    ZE(zeContextDestroy(context));
}

static inline void copy(void *to, const void *from, size_t size)
{
    ZE(zeCommandListAppendMemoryCopy(copies, to, from, size, NULL, 0, NULL));
}

/* One virtual range, reserved once and backed object by object as it is needed. */
struct range {
    char                     *base;
    size_t                    reserved, used, page;
    ze_physical_mem_handle_t *objects;
    unsigned                  count, room;
};

/* reserve: all that it can ever be; object: the least size of one object. */
static inline void range_open(struct range *range, size_t reserve, size_t object)
{
    *range = (struct range){0};
    ZE(zeVirtualMemQueryPageSize(context, device, object, &range->page));
    range->reserved = (reserve + range->page - 1) / range->page * range->page;
    ZE(zeVirtualMemReserve(context, NULL, range->reserved, (void **)&range->base));
}

/* Maps one more object of at least size bytes behind the others. */
static inline void range_grow(struct range *range, size_t size)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                   .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE,
                                   .size = (size + range->page - 1) / range->page * range->page};

    if (range->used + desc.size > range->reserved) {
        fprintf(stderr, "the range of %zu bytes cannot grow by %zu: %zu are used\n",
                range->reserved, desc.size, range->used);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (range->count == range->room) {
        range->room    = range->room * 2 + 8;
        range->objects = realloc(range->objects, range->room * sizeof(*range->objects));
        if (range->objects == NULL) {
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    ZE(zePhysicalMemCreate(context, device, &desc, &range->objects[range->count]));
    ZE(zeVirtualMemMap(context, range->base + range->used, desc.size, range->objects[range->count],
                       0, ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
    range->count++;
    range->used += desc.size;
}

static inline void range_close(struct range *range)
{
    unsigned k;

    ZE(zeVirtualMemUnmap(context, range->base, range->used));
    for (k = 0; k < range->count; k++) {
        ZE(zePhysicalMemDestroy(context, range->objects[k]));
    }
    ZE(zeVirtualMemFree(context, range->base, range->reserved));
    free(range->objects);
}

#endif
