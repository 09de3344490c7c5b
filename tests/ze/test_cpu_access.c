/* Device memory is not CPU memory: a load and a store fault on allocations, mappings and imports.
 * Host and shared memory is CPU memory. Reservations with nothing mapped fault too. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

int main(int argc, char **argv)
{
    ze_ipc_phys_mem_handle_range_ext_desc_t range = {
        ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC};
    ze_physical_mem_desc_t   desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                     .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_HOST};
    ze_physical_mem_handle_t on_host;
    ze_ipc_mem_handle_t      handle;
    unsigned char           *device_memory, *host, *shared, *empty;
    struct spread            s;
    size_t                   i;
    void                    *imported;

    peer_main(argc, argv);
    test_start();
    if (getenv("ZERANGE_DEVICE_CPU_ACCESS") != NULL &&
        strcmp(getenv("ZERANGE_DEVICE_CPU_ACCESS"), "0") != 0) {
        printf("ZERANGE_DEVICE_CPU_ACCESS opens device memory\n");
        return 77;
    }
    device_memory = alloc_device(3 * page);
    host          = alloc_host(3 * page);
    shared        = alloc_shared(3 * page);
    empty         = reserve(3 * page);
    spread_make(&s, 0);
    for (i = 0; i < 3 * page; i += page / 2 + 1) {
        CHECK_EQ(cpu_faults(device_memory + i), 2);
        CHECK_EQ(cpu_faults(host + i), 0);
        CHECK_EQ(cpu_faults(shared + i), 0);
        CHECK_EQ(cpu_faults(empty + i), 2);
    }
    for (i = 0; i < s.size; i += page / 2) {
        CHECK_EQ(cpu_faults(s.base + i), 2);
    }

    NEED(zeMemGetIpcHandle(context, device_memory, &handle));
    NEED(zeMemOpenIpcHandle(context, device, handle, 0, &imported));
    CHECK_EQ(cpu_faults(imported), 2);
    CHECK_OK(zeMemCloseIpcHandle(context, imported));
    CHECK_OK(zeMemPutIpcHandle(context, handle));

    range.size = s.size;
    NEED(zeMemGetIpcHandleWithProperties(context, s.base, &range, &handle));
    NEED(zeMemOpenIpcHandle(context, device, handle, 0, &imported));
    for (i = 0; i < s.size; i += page) {
        CHECK_EQ(cpu_faults((char *)imported + i), 2);
    }
    CHECK_OK(zeMemCloseIpcHandle(context, imported));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    spread_drop(&s, true);

    desc.size = page;
    NEED(zePhysicalMemCreate(context, device, &desc, &on_host));
    map_object(empty + page, page, on_host, 0);
    CHECK_EQ(cpu_faults(empty), 2);
    CHECK_EQ(cpu_faults(empty + page), 0);
    CHECK_OK(zeVirtualMemUnmap(context, empty + page, page));
    CHECK_EQ(cpu_faults(empty + page), 2);
    CHECK_OK(zePhysicalMemDestroy(context, on_host));
    CHECK_OK(zeVirtualMemFree(context, empty, 3 * page));
    CHECK_OK(zeMemFree(context, device_memory));
    CHECK_OK(zeMemFree(context, host));
    CHECK_OK(zeMemFree(context, shared));
    return test_end();
}
