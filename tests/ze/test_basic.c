/* The driver through the stock loader: what it says about itself, a buffer of eight objects filled
 * and copied, and handles and pointers that must be refused. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <fcntl.h>
#include <unistd.h>

#define OBJECTS 8

static void check_extensions(void)
{
    static const struct {
        const char *name;
        uint32_t    version;
    } wanted[] = {
        {ZE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_NAME, ZE_MAKE_VERSION(1, 0)},
        {ZE_IPC_MEM_HANDLE_TYPE_EXT_NAME, ZE_MAKE_VERSION(1, 0)},
        {ZE_DRIVER_DDI_HANDLES_EXT_NAME, ZE_MAKE_VERSION(1, 1)},
        {ZE_INIT_DRIVER_PROPERTIES_EXT_NAME, ZE_MAKE_VERSION(1, 0)},
    };
    ze_driver_extension_properties_t found[32];
    uint32_t                         n = COUNT(found), i, k;

    NEED(zeDriverGetExtensionProperties(driver, &n, found));
    for (i = 0; i < COUNT(wanted); i++) {
        for (k = 0; k < n && strcmp(found[k].name, wanted[i].name) != 0; k++) {
        }
        if (CHECK_TRUE(k < n)) {
            CHECK_EQ(found[k].version, wanted[i].version);
        }
    }
}

static void check_device(void)
{
    ze_device_properties_t a = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    ze_device_properties_t b = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2};
    ze_device_memory_properties_t memory = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES};
    uint64_t host[2], time[2];
    uint32_t n = 1;

    CHECK_OK(zeDeviceGetProperties(device, &a));
    CHECK_OK(zeDeviceGetProperties(device, &b));
    CHECK_EQ(a.type, ZE_DEVICE_TYPE_GPU);
    CHECK_EQ(memcmp(&a.uuid, &b.uuid, sizeof(a.uuid)), 0);
    CHECK_EQ(a.timerResolution, 1000000000 / b.timerResolution);
    CHECK_OK(zeDeviceGetMemoryProperties(device, &n, &memory));
    CHECK_EQ(n, 1);
    CHECK_TRUE(memory.totalSize > 0);
    CHECK_OK(zeDeviceGetGlobalTimestamps(device, &host[0], &time[0]));
    CHECK_OK(zeDeviceGetGlobalTimestamps(device, &host[1], &time[1]));
    CHECK_TRUE(host[1] > host[0]);
    CHECK_TRUE(time[1] > time[0]);
    CHECK_TRUE(zeDriverGetDefaultContext(driver) != NULL);
}

/* Eight objects of one page and more, filled, then read to memory of malloc at an odd place. */
static void check_objects(void)
{
    size_t                   size = 0, at = 0, i, k;
    ze_physical_mem_handle_t objects[OBJECTS];
    unsigned char           *base, *plain, *want;

    for (i = 0; i < OBJECTS; i++) {
        size += (1 + i % 3) * page;
    }
    base = reserve(size);
    for (i = 0; i < OBJECTS; i++) {
        objects[i] = make_object((1 + i % 3) * page);
        map_object(base + at, (1 + i % 3) * page, objects[i], 0);
        at += (1 + i % 3) * page;
    }
    plain = malloc(size + 64);
    want  = malloc(size);
    memset(want, 0x5A, size);
    memset(plain, 0xEE, size + 64);
    CHECK_OK(zeCommandListAppendMemoryFill(list, base, "\x5A", 1, size, NULL, 0, NULL));
    for (i = 1; i < OBJECTS; i++) { /* a mark across every edge */
        at = i * page + (i > 1) * page + (i > 2) * (page / 2) - 3;
        fill_pattern(want + at, 7, i);
        write_memory(base + at, want + at, 7);
    }
    CHECK_OK(zeCommandListAppendMemoryCopy(list, plain + 33, base, size, NULL, 0, NULL));
    for (k = 0; k < size && plain[33 + k] == want[k]; k++) {
    }
    CHECK_EQ(k, size);
    for (i = 0; i < 33; i++) {
        CHECK_EQ(plain[i], 0xEE);
    }
    for (i = size + 33; i < size + 64; i++) {
        CHECK_EQ(plain[i], 0xEE);
    }
    CHECK_OK(zeVirtualMemUnmap(context, base, size));
    CHECK(zeCommandListAppendMemoryCopy(list, plain, base, 16, NULL, 0, NULL),
          ZE_RESULT_ERROR_INVALID_ARGUMENT); /* reserved, not mapped */
    for (i = 0; i < OBJECTS; i++) {
        CHECK_OK(zePhysicalMemDestroy(context, objects[i]));
    }
    CHECK_OK(zeVirtualMemFree(context, base, size));
    free(plain);
    free(want);
}

/* Rows of a pitched picture, in two and three dimensions. */
static void check_regions(void)
{
    static const struct {
        ze_copy_region_t dst, src;
        uint32_t         dst_pitch, dst_slice, src_pitch, src_slice;
    } cases[] = {
        {{0, 0, 0, 64, 8, 1}, {0, 0, 0, 64, 8, 1}, 64, 0, 64, 0},
        {{3, 2, 0, 50, 7, 1}, {10, 1, 0, 50, 7, 1}, 128, 0, 96, 0},
        {{0, 0, 0, 17, 1, 0}, {5, 0, 0, 17, 1, 0}, 0, 0, 0, 0},
        {{1, 1, 1, 30, 4, 3}, {2, 0, 1, 30, 4, 3}, 40, 40 * 6, 64, 64 * 5},
    };
    const size_t   size = 4096;
    unsigned char *device_side = alloc_device(size), *src = malloc(size), *got = malloc(size);
    unsigned char *want = malloc(size);
    size_t         i, k;
    uint32_t       x, y, z;

    fill_pattern(src, size, 3);
    for (i = 0; i < COUNT(cases); i++) {
        const ze_copy_region_t *d = &cases[i].dst, *s = &cases[i].src;

        memset(want, 0, size);
        write_memory(device_side, want, size);
        for (z = 0; z < (d->depth ? d->depth : 1); z++) {
            for (y = 0; y < d->height; y++) {
                for (x = 0; x < d->width; x++) {
                    want[(z + d->originZ) * cases[i].dst_slice +
                         (y + d->originY) * cases[i].dst_pitch + d->originX + x] =
                        src[(z + s->originZ) * cases[i].src_slice +
                            (y + s->originY) * cases[i].src_pitch + s->originX + x];
                }
            }
        }
        CHECK_OK(zeCommandListAppendMemoryCopyRegion(list, device_side, d, cases[i].dst_pitch,
                                                     cases[i].dst_slice, src, s,
                                                     cases[i].src_pitch, cases[i].src_slice, NULL,
                                                     0, NULL));
        read_memory(got, device_side, size);
        for (k = 0; k < size && got[k] == want[k]; k++) {
        }
        CHECK_EQ(k, size);
    }
    CHECK_OK(zeMemFree(context, device_side));
    free(src);
    free(got);
    free(want);
}

/* The loader's thunks follow a handle before the driver is asked. */
static bool loader_has_thunks(void)
{
    const char *drivers = getenv("ZE_ENABLE_ALT_DRIVERS");

    return getenv("ZE_ENABLE_LOADER_INTERCEPT") != NULL ||
           getenv("ZE_ENABLE_VALIDATION_LAYER") != NULL ||
           getenv("ZE_ENABLE_TRACING_LAYER") != NULL ||
           (drivers != NULL && strchr(drivers, ',') != NULL);
}

/* Old, foreign and wrong handles are refused. */
static void check_handles(void)
{
    ze_command_list_desc_t   desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC};
    ze_command_list_handle_t old;
    int                      mine[64] = {0};
    size_t                   size;
    void                    *base, *p = alloc_device(page);

    NEED(zeCommandListCreate(context, device, &desc, &old));
    CHECK_OK(zeCommandListDestroy(old));
    CHECK(zeCommandListClose(old), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(zeCommandListDestroy(old), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    if (!loader_has_thunks()) {
        CHECK(zeCommandListClose((ze_command_list_handle_t)mine),
              ZE_RESULT_ERROR_INVALID_ARGUMENT);
        CHECK(zeCommandListClose(NULL), ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
    }
    CHECK(zeCommandListClose((ze_command_list_handle_t)context), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(zeVirtualMemMap(context, p, page, (ze_physical_mem_handle_t)device, 0,
                          ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE),
          ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(zeMemFree(context, (char *)p + 1), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(zeMemGetAddressRange(context, mine, &base, &size), ZE_RESULT_ERROR_ADDRESS_NOT_FOUND);
    CHECK_OK(zeMemGetAddressRange(context, (char *)p + 5, NULL, &size));
    CHECK_EQ(size, page);
    CHECK_OK(zeMemGetAddressRange(context, (char *)p + 5, &base, NULL));
    CHECK_EQ((uintptr_t)base, (uintptr_t)p);
    CHECK_OK(zeMemFree(context, p));
    CHECK(zeMemFree(context, p), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

/* Regions whose sizes multiply to what wraps around an address: refused, nothing is copied. */
static void check_huge_regions(void)
{
    static const ze_copy_region_t regions[] = {
        {0, 0, 0, 0x80000000, 0x80000000, 4},
        {0, 0, 4, 0x80000000, 0x80000000, 1},
        {0, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
        {0, 0xffffffff, 0, 0xffffffff, 2, 1},
    };
    unsigned char *p = alloc_host(page), before = p[0];

    for (size_t i = 0; i < COUNT(regions); i++) {
        if (!CHECK(zeCommandListAppendMemoryCopyRegion(list, p, &regions[i], 0, 0, p, &regions[i],
                                                       0, 0, NULL, 0, NULL),
                   ZE_RESULT_ERROR_INVALID_ARGUMENT)) {
            printf("   region %zu\n", i);
        }
    }
    CHECK_EQ(p[0], before);
    CHECK_OK(zeMemFree(context, p));
}

/* Refused sizes, alignments and flags. */
static void check_arguments(void)
{
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_physical_mem_desc_t     physical = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC};
    ze_context_desc_t          both = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC, .flags = 3};
    ze_init_driver_properties_ext_desc_t properties = {
        .stype = ZE_STRUCTURE_TYPE_INIT_DRIVER_PROPERTIES_EXT_DESC,
        .flags = ZE_INIT_DRIVER_PROPERTIES_EXT_FLAG_OPTIMIZE_MEMORY |
                 ZE_INIT_DRIVER_PROPERTIES_EXT_FLAG_OPTIMIZE_PERFORMANCE};
    ze_init_driver_type_desc_t type = {.stype = ZE_STRUCTURE_TYPE_INIT_DRIVER_TYPE_DESC,
                                       .pNext = &properties,
                                       .flags = UINT32_MAX};
    uint32_t                   drivers = 0;
    ze_module_desc_t           module_desc = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC};
    ze_physical_mem_handle_t   object;
    ze_module_handle_t         module;
    ze_context_handle_t        other;
    char                       bytes[8] = {0};
    void                      *p;

    CHECK(zeMemAllocDevice(context, &desc, 0, 64, device, &p), ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
    CHECK(zeMemAllocDevice(context, &desc, page, 3, device, &p),
          ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT);
    physical.size = page + 1;
    CHECK(zePhysicalMemCreate(context, device, &physical, &object),
          ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
    physical.size  = page;
    physical.flags = 4;
    CHECK(zePhysicalMemCreate(context, device, &physical, &object),
          ZE_RESULT_ERROR_INVALID_ENUMERATION);
    CHECK(zeContextCreate(driver, &both, &other), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(zeInitDrivers(&drivers, NULL, &type), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    properties.flags = ZE_INIT_DRIVER_PROPERTIES_EXT_FLAG_OPTIMIZE_MEMORY;
    CHECK_OK(zeInitDrivers(&drivers, NULL, &type));
    CHECK(zeModuleCreate(context, device, &module_desc, &module, NULL),
          ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
    p = alloc_device(page);
    CHECK(zeCommandListAppendMemoryFill(list, p, bytes, 3, 6, NULL, 0, NULL),
          ZE_RESULT_ERROR_INVALID_SIZE);
    CHECK(zeCommandListAppendMemoryCopy(list, (char *)p + page - 8, bytes, 1 << 20, NULL, 0, NULL),
          ZE_RESULT_ERROR_INVALID_ARGUMENT); /* begins in the allocation, ends behind it */
    CHECK_OK(zeCommandListAppendMemoryCopy(list, p, bytes, 0, NULL, 0, NULL));
    CHECK_OK(zeMemFree(context, p));
}

/* The same fd for an allocation each time, a new one if a client closed it, none after the end. */
static void check_dmabuf(void)
{
    ze_external_memory_export_fd_t fd = {.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD,
                                         .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    ze_memory_allocation_properties_t properties = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES, .pNext = &fd};
    ze_external_memory_import_fd_t import = {.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD,
                                             .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC,
                                       .pNext = &import};
    void              *p = alloc_device(page), *q = NULL;
    ze_device_handle_t where;
    unsigned char      want[100], got[100];
    int                first;

    CHECK_OK(zeMemGetAllocProperties(context, p, &properties, &where));
    CHECK_EQ(properties.type, ZE_MEMORY_TYPE_DEVICE);
    CHECK_EQ((uintptr_t)where, (uintptr_t)device);
    first = fd.fd;
    CHECK_TRUE(first >= 0);
    CHECK_OK(zeMemGetAllocProperties(context, p, &properties, NULL));
    CHECK_EQ(fd.fd, first);
    close(first);
    CHECK_OK(zeMemGetAllocProperties(context, p, &properties, NULL));
    CHECK_TRUE(fcntl(fd.fd, F_GETFD) >= 0);

    fill_pattern(want, sizeof(want), 9);
    write_memory(p, want, sizeof(want));
    import.fd = fd.fd;
    if (CHECK_OK(zeMemAllocDevice(context, &desc, page, 0, device, &q))) {
        read_memory(got, q, sizeof(got));
        CHECK_EQ(memcmp(got, want, sizeof(got)), 0);
        CHECK_OK(zeMemFree(context, q));
    }
    CHECK_OK(zeMemFree(context, p));
    CHECK_TRUE(fcntl(fd.fd, F_GETFD) < 0);
}

/* The fd of an object lives as long as the object, however it is mapped. */
static void check_object_dmabuf(void)
{
    ze_external_memory_export_fd_t fd = {.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD,
                                         .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    ze_physical_mem_properties_t properties = {
        .stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_PROPERTIES, .pNext = &fd};
    ze_physical_mem_handle_t object = make_object(2 * page);
    char                    *p      = reserve(2 * page);

    NEED(zePhysicalMemGetProperties(context, object, &properties));
    map_object(p, 2 * page, object, 0);
    CHECK(zeVirtualMemUnmap(context, p, page), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK_TRUE(fcntl(fd.fd, F_GETFD) >= 0);
    CHECK_OK(zeVirtualMemUnmap(context, p, 2 * page));
    CHECK_TRUE(fcntl(fd.fd, F_GETFD) >= 0);
    map_object(p, page, object, page);
    CHECK_OK(zePhysicalMemDestroy(context, object));
    CHECK_TRUE(fcntl(fd.fd, F_GETFD) >= 0);
    CHECK_OK(zeVirtualMemUnmap(context, p, page));
    CHECK_TRUE(fcntl(fd.fd, F_GETFD) < 0);
    CHECK_OK(zeVirtualMemFree(context, p, 2 * page));
}

int main(void)
{
    test_start();
    check_extensions();
    check_device();
    check_objects();
    check_regions();
    check_handles();
    check_arguments();
    check_huge_regions();
    check_dmabuf();
    check_object_dmabuf();
    return test_end();
}
