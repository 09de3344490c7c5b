/* Memory for the MPI tests: host, one device allocation, or a range of many objects. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_TEST_DEVMEM_H
#define ZR_TEST_DEVMEM_H

#include <level_zero/ze_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum place { HOST, DEVICE, RANGE };

static const char *const place_names[] = {"host", "device", "range"};

static struct {
    ze_context_handle_t      context;
    ze_device_handle_t       device;
    ze_command_list_handle_t list;
} devmem;

#define ZE(call)                                                                                   \
    do {                                                                                           \
        ze_result_t ze_result = (call);                                                            \
        if (ze_result != ZE_RESULT_SUCCESS) {                                                      \
            printf("%s:%d: %s returned 0x%x\n", __FILE__, __LINE__, #call, (unsigned)ze_result);   \
            fflush(stdout);                                                                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void devmem_open(void)
{
    ze_context_desc_t       context = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_command_queue_desc_t queue   = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                       .mode  = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS};
    ze_driver_handle_t      driver;
    uint32_t                one = 1;

    ZE(zeInit(ZE_INIT_FLAG_GPU_ONLY));
    ZE(zeDriverGet(&one, &driver));
    one = 1;
    ZE(zeDeviceGet(driver, &one, &devmem.device));
    ZE(zeContextCreate(driver, &context, &devmem.context));
    ZE(zeCommandListCreateImmediate(devmem.context, devmem.device, &queue, &devmem.list));
}

/* size bytes; a range is made of pages so that any message of some size crosses objects. It stays
 * until the process ends. */
static void *devmem_alloc(enum place place, size_t size)
{
    ze_device_mem_alloc_desc_t alloc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_physical_mem_desc_t     desc  = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                        .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE};
    ze_physical_mem_handle_t   object;
    size_t                     page, at;
    void                      *ptr = NULL;

    switch (place) {
    case HOST:
        ptr = malloc(size);
        break;
    case DEVICE:
        ZE(zeMemAllocDevice(devmem.context, &alloc, size, 64, devmem.device, &ptr));
        break;
    case RANGE:
        ZE(zeVirtualMemQueryPageSize(devmem.context, devmem.device, 1, &page));
        size = (size + page - 1) / page * page;
        ZE(zeVirtualMemReserve(devmem.context, NULL, size, &ptr));
        for (at = 0; at < size; at += page) {
            desc.size = page;
            ZE(zePhysicalMemCreate(devmem.context, devmem.device, &desc, &object));
            ZE(zeVirtualMemMap(devmem.context, (char *)ptr + at, page, object, 0,
                               ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
        }
        break;
    }
    if (ptr == NULL) {
        printf("no memory for %zu bytes\n", size);
        _exit(1);
    }
    return ptr;
}

static void devmem_copy(void *to, const void *from, size_t size)
{
    if (size > 0) {
        ZE(zeCommandListAppendMemoryCopy(devmem.list, to, from, size, NULL, 0, NULL));
    }
}

#endif
