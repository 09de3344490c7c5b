/* What the specification's conformance suite expects of a driver and no other test here asks: host
 * memory without a device, dma-bufs as host memory, empty copies and regions that signal, lists
 * made of lists, large reservations, page sizes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#define SIZE ((size_t)1 << 20)

/* The sanitizers keep most of the address space to themselves. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define MOST_SHIFT 36
#else
#define MOST_SHIFT 56
#endif

static ze_event_pool_handle_t pool;

static ze_event_handle_t make_event(uint32_t index)
{
    ze_event_desc_t   desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC, .index = index,
                              .signal = ZE_EVENT_SCOPE_FLAG_HOST};
    ze_event_handle_t event;

    NEED(zeEventCreate(pool, &desc, &event));
    return event;
}

/* Mapped twice, written through one address by the CPU and the device, read through the other. */
static void check_host_object(void)
{
    ze_physical_mem_desc_t   desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                     .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_HOST,
                                     .size  = SIZE};
    ze_physical_mem_handle_t object;
    unsigned char           *first, *second, *want = malloc(SIZE);

    desc.flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE;
    CHECK(zePhysicalMemCreate(context, NULL, &desc, &object), ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
    desc.flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_HOST;
    NEED(zePhysicalMemCreate(context, NULL, &desc, &object));
    first  = reserve(SIZE);
    second = reserve(SIZE);
    map_object(first, SIZE, object, 0);
    map_object(second, SIZE, object, 0);
    memset(first, 1, SIZE);
    second[SIZE / 2] = 99;
    CHECK_EQ(first[SIZE / 2], 99);
    fill_pattern(want, SIZE, 3);
    write_memory(first, want, SIZE);
    CHECK_EQ(memcmp(second, want, SIZE), 0);
    CHECK_OK(zeVirtualMemUnmap(context, first, SIZE));
    CHECK_OK(zeVirtualMemUnmap(context, first, SIZE)); /* nothing is mapped there any more */
    CHECK_OK(zeVirtualMemUnmap(context, second, SIZE));
    CHECK_OK(zeVirtualMemMap(context, first, SIZE, object, 0, ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY));
    CHECK_EQ(memcmp(first, want, SIZE), 0);
    CHECK_OK(zeVirtualMemUnmap(context, first, SIZE));
    CHECK_OK(zeVirtualMemFree(context, first, SIZE));
    CHECK_OK(zeVirtualMemFree(context, second, SIZE));
    CHECK_OK(zePhysicalMemDestroy(context, object));
    free(want);
}

/* The buffer behind a host allocation, taken in as host memory: one memory, two addresses. */
static void check_host_import(void)
{
    ze_external_memory_export_fd_t    export_fd = {
        .stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD,
        .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF, .fd = -1};
    ze_external_memory_import_fd_t    import_fd = {
        .stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD,
        .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    ze_memory_allocation_properties_t props = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES, .pNext = &export_fd};
    ze_host_mem_alloc_desc_t          host = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC,
                                              .pNext = &import_fd};
    ze_device_mem_alloc_desc_t        desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC,
                                              .pNext = &import_fd};
    ze_host_mem_alloc_desc_t          plain = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    unsigned char                    *memory = alloc_host(1024), *same, out[1024];

    memset(memory, 0xab, 1024);
    CHECK_OK(zeMemGetAllocProperties(context, memory, &props, NULL));
    CHECK_TRUE(export_fd.fd > 0);
    import_fd.fd = export_fd.fd;
    NEED(zeMemAllocHost(context, &host, 1024, 1, (void **)&same));
    CHECK_TRUE(same != memory);
    CHECK_EQ(same[1023], 0xab);
    same[1023] = 7;
    CHECK_EQ(memory[1023], 7);
    read_memory(out, same, 1024);
    CHECK_EQ(memcmp(out, memory, 1024), 0);
    props.pNext = NULL;
    CHECK_OK(zeMemGetAllocProperties(context, same, &props, NULL));
    CHECK_EQ(props.type, ZE_MEMORY_TYPE_HOST);
    CHECK_OK(zeMemFree(context, same));
    CHECK(zeMemAllocShared(context, &desc, &plain, 1024, 1, device, (void **)&same),
          ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
    CHECK_OK(zeMemFree(context, memory));
}

/* From a handle to its fd and back: the fd that zeMemGetAllocProperties tells, the same memory. */
static void check_descriptors(void)
{
    ze_external_memory_export_fd_t    export_fd = {
        .stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD,
        .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF, .fd = -1};
    ze_memory_allocation_properties_t props = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES, .pNext = &export_fd};
    ze_ipc_phys_mem_handle_range_ext_desc_t range = {
        .stype = ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC, .size = SIZE - 4096};
    ze_ipc_mem_handle_t      handle, again;
    ze_physical_mem_handle_t object = make_object(SIZE);
    unsigned char           *memory = alloc_device(SIZE), *mapped = reserve(SIZE), *same;
    unsigned char           *want = malloc(SIZE), *got = malloc(SIZE);
    uint64_t                 fd = 0;
    void                    *base;
    size_t                   size = 0;

    map_object(mapped, SIZE, object, 0);
    fill_pattern(want, SIZE, 8);
    write_memory(memory, want, SIZE);
    CHECK_OK(zeMemGetAllocProperties(context, memory, &props, NULL));
    NEED(zeMemGetIpcHandle(context, memory, &handle));
    CHECK_OK(zeMemGetFileDescriptorFromIpcHandleExp(context, handle, &fd));
    CHECK_EQ(fd, (uint64_t)export_fd.fd);
    CHECK_OK(zeMemGetIpcHandleFromFileDescriptorExp(context, fd, &again));
    NEED(zeMemOpenIpcHandle(context, device, again, 0, (void **)&same));
    read_memory(got, same, SIZE);
    CHECK_EQ(memcmp(got, want, SIZE), 0);
    CHECK_OK(zeMemCloseIpcHandle(context, same));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    /* A range's fd leads to the range. */
    write_memory(mapped, want, SIZE);
    NEED(zeMemGetIpcHandleWithProperties(context, mapped + 4096, &range, &handle));
    CHECK_OK(zeMemGetFileDescriptorFromIpcHandleExp(context, handle, &fd));
    CHECK_OK(zeMemGetIpcHandleFromFileDescriptorExp(context, fd, &again));
    NEED(zeMemOpenIpcHandle(context, device, again, 0, (void **)&same));
    CHECK_OK(zeMemGetAddressRange(context, same, &base, &size));
    CHECK_EQ(size, SIZE - 4096);
    read_memory(got, same, size);
    CHECK_EQ(memcmp(got, want + 4096, size), 0);
    CHECK_OK(zeMemCloseIpcHandle(context, same));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    /* No fd, no handle. */
    CHECK(zeMemGetIpcHandleFromFileDescriptorExp(context, 100000, &again),
          ZE_RESULT_ERROR_INVALID_ARGUMENT);
    memset(&again, 0x55, sizeof(again));
    CHECK(zeMemGetFileDescriptorFromIpcHandleExp(context, again, &fd),
          ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK_OK(zeVirtualMemUnmap(context, mapped, SIZE));
    CHECK_OK(zeVirtualMemFree(context, mapped, SIZE));
    CHECK_OK(zePhysicalMemDestroy(context, object));
    CHECK_OK(zeMemFree(context, memory));
    free(want);
    free(got);
}

/* Nothing to move is moved, and said. */
static void check_empty(void)
{
    const ze_copy_region_t nothing = {0, 0, 0, 0, 0, 0}, row = {0, 0, 0, 512, 1, 1};
    unsigned char         *from = alloc_shared(512), *to = alloc_shared(512);
    const uint32_t         pattern = 8;
    ze_event_handle_t      first = make_event(0), second = make_event(1);
    ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                    .mode  = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_command_list_handle_t async;

    desc.ordinal = ordinal;
    NEED(zeCommandListCreateImmediate(context, device, &desc, &async));
    for (unsigned what = 0; what < 3; what++) {
        fill_pattern(from, 512, what);
        memset(to, 0, 512);
        if (what == 0) {
            CHECK_OK(zeCommandListAppendMemoryCopy(async, to, from, 0, first, 0, NULL));
            CHECK_OK(zeCommandListAppendMemoryCopy(async, to, from, 512, second, 1, &first));
        } else if (what == 1) {
            CHECK_OK(zeCommandListAppendMemoryCopyRegion(async, to, &nothing, 0, 0, from, &nothing,
                                                         0, 0, first, 0, NULL));
            CHECK_OK(zeCommandListAppendMemoryCopyRegion(async, to, &row, 512, 0, from, &row, 512,
                                                         0, second, 1, &first));
        } else {
            CHECK_OK(zeCommandListAppendMemoryFill(async, to, &pattern, 4, 0, first, 0, NULL));
            CHECK_OK(zeCommandListAppendMemoryFill(async, to, &pattern, 4, 512, second, 1, &first));
        }
        CHECK_OK(zeEventHostSynchronize(second, UINT64_MAX));
        for (unsigned i = 0; i < 512; i++) {
            if (!CHECK_EQ(to[i], what < 2 ? from[i] : (i % 4 == 0 ? 8 : 0))) {
                break;
            }
        }
        CHECK_OK(zeEventHostReset(first));
        CHECK_OK(zeEventHostReset(second));
    }
    CHECK_OK(zeCommandListDestroy(async));
    CHECK_OK(zeEventDestroy(first));
    CHECK_OK(zeEventDestroy(second));
    CHECK_OK(zeMemFree(context, from));
    CHECK_OK(zeMemFree(context, to));
}

/* A clone does what its source did, also when the source records something else; lists go to an
 * immediate list between what they wait for and what they signal. */
static void check_lists_of_lists(void)
{
    ze_command_list_desc_t   desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC,
                                     .commandQueueGroupOrdinal = ordinal};
    ze_command_queue_desc_t  queue_desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                           .ordinal = ordinal,
                                           .mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_command_list_handle_t lists[2], clone, async;
    ze_event_handle_t        go = make_event(2), done = make_event(3);
    unsigned char           *a = alloc_host(4096), *b = alloc_device(4096), *c = alloc_host(4096);
    uint32_t                 count = 0;
    ze_kernel_timestamp_result_t times[2];

    NEED(zeCommandListCreateImmediate(context, device, &queue_desc, &async));
    NEED(zeCommandListCreate(context, device, &desc, &lists[1]));
    CHECK_OK(zeCommandListClose(lists[1]));
    CHECK(zeCommandListCreateCloneExp(lists[1], &clone), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK_OK(zeCommandListReset(lists[1]));
    desc.flags = ZE_COMMAND_LIST_FLAG_EXP_CLONEABLE;
    NEED(zeCommandListCreate(context, device, &desc, &lists[0]));
    CHECK_OK(zeCommandListAppendMemoryCopy(lists[0], b, a, 4096, NULL, 0, NULL));
    CHECK(zeCommandListCreateCloneExp(lists[0], &clone), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(zeCommandListImmediateAppendCommandListsExp(async, 1, &lists[0], NULL, 0, NULL),
          ZE_RESULT_ERROR_INVALID_ARGUMENT); /* not closed */
    CHECK_OK(zeCommandListClose(lists[0]));
    NEED(zeCommandListCreateCloneExp(lists[0], &clone));
    CHECK_OK(zeCommandListReset(lists[0]));
    CHECK_OK(zeCommandListAppendMemoryCopy(lists[0], c, b, 4096, NULL, 0, NULL));
    CHECK_OK(zeCommandListClose(lists[0]));
    lists[1] = (zeCommandListDestroy(lists[1]), lists[0]);
    lists[0] = clone;
    for (unsigned round = 0; round < 3; round++) {
        memset(c, 0, 4096);
        CHECK_OK(zeCommandListImmediateAppendCommandListsExp(async, 2, lists, done, 1, &go));
        fill_pattern(a, 4096, 50 + round);
        CHECK(zeEventQueryStatus(done), ZE_RESULT_NOT_READY);
        CHECK_OK(zeEventHostSignal(go));
        CHECK_OK(zeEventHostSynchronize(done, UINT64_MAX));
        CHECK_EQ(memcmp(a, c, 4096), 0);
        CHECK_OK(zeEventQueryTimestampsExp(done, device, &count, NULL));
        CHECK_EQ(count, 1);
        count = 2;
        CHECK_OK(zeEventQueryTimestampsExp(done, device, &count, times));
        CHECK_EQ(count, 1);
        CHECK_TRUE(times[0].global.kernelEnd >= times[0].global.kernelStart);
        count = 0;
        CHECK_OK(zeEventHostReset(go));
        CHECK_OK(zeEventHostReset(done));
    }
    CHECK(zeCommandListImmediateAppendCommandListsExp(lists[0], 1, &lists[1], NULL, 0, NULL),
          ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE);
    CHECK(zeCommandListImmediateAppendCommandListsExp(async, 1, &async, NULL, 0, NULL),
          ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE);
    CHECK_OK(zeCommandListDestroy(lists[0]));
    CHECK_OK(zeCommandListDestroy(lists[1]));
    CHECK_OK(zeCommandListDestroy(async));
    CHECK_OK(zeEventDestroy(go));
    CHECK_OK(zeEventDestroy(done));
    CHECK_OK(zeMemFree(context, a));
    CHECK_OK(zeMemFree(context, b));
    CHECK_OK(zeMemFree(context, c));
}

/* 64 TB and less are there; more is refused as having no room. */
static void check_reservations(void)
{
    size_t size_at;
    void  *p;

    CHECK_OK(zeVirtualMemQueryPageSize(context, device, 0, &size_at));
    CHECK_EQ(size_at, page);
    for (unsigned shift = 30; shift <= MOST_SHIFT; shift++) {
        size_t      size   = (size_t)1 << shift;
        ze_result_t result = zeVirtualMemReserve(context, (void *)0x7fff0000, size, &p);

        if (shift <= 45) {
            CHECK_EQ(result, ZE_RESULT_SUCCESS);
        }
        if (result == ZE_RESULT_SUCCESS) {
            CHECK_OK(zeVirtualMemFree(context, p, size));
        } else {
            CHECK_EQ(result, ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
        }
    }
}

int main(void)
{
    ze_event_pool_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                 .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE |
                                          ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP,
                                 .count = 4};

    test_start();
    NEED(zeEventPoolCreate(context, &desc, 1, &device, &pool));
    check_host_object();
    check_host_import();
    check_descriptors();
    check_empty();
    check_lists_of_lists();
    check_reservations();
    CHECK_OK(zeEventPoolDestroy(pool));
    return test_end();
}
