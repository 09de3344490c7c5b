/* Physical memory objects: each rule of the model (DXGKARGCB_CREATE_PHYSICAL_MEMORY_OBJECT) as far
 * as Linux has it; include/zerange/zerange.h says where it has not. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static zr_pfnPhysicalMemGetProperties_t get_properties;
static zr_pfnPhysicalMemOpen_t          open_on;
static zr_pfnDeviceMemClose_t           close_on;
static zr_pfnDeviceMemGetAddressList_t  address_list;
static zr_pfnRangeGetAddressList_t      range_address_list;
static zr_pfnGetCounts_t                count_all;

/* The loader's own validation refuses a NULL device, whatever the chain says. */
static bool null_device_passes(void)
{
    return getenv("ZE_ENABLE_PARAMETER_VALIDATION") == NULL;
}

static unsigned char want[512 << 10], got[512 << 10];

static void find_functions(void)
{
    static const struct {
        const char *name;
        void       *function;
    } functions[] = {
        {"zrPhysicalMemGetProperties", &get_properties}, {"zrPhysicalMemOpen", &open_on},
        {"zrDeviceMemClose", &close_on},                 {"zrDeviceMemGetAddressList", &address_list},
        {"zrRangeGetAddressList", &range_address_list},  {"zrGetCounts", &count_all},
    };

    for (size_t i = 0; i < COUNT(functions); i++) {
        NEED(zeDriverGetExtensionFunctionAddress(driver, functions[i].name,
                                                 functions[i].function));
    }
}

static ze_result_t create(ze_device_handle_t on, zr_phys_mem_desc_t own, size_t size,
                          ze_physical_mem_handle_t *object)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                   .pNext = &own,
                                   .size  = size};

    own.stype = ZR_STRUCTURE_TYPE_PHYS_MEM_DESC;
    return zePhysicalMemCreate(context, on, &desc, object);
}

static zr_phys_mem_properties_t properties_of(ze_physical_mem_handle_t object)
{
    zr_phys_mem_properties_t properties = {.stype = ZR_STRUCTURE_TYPE_PHYS_MEM_PROPERTIES};

    NEED(get_properties(object, &properties));
    return properties;
}

static bool is_discrete(void)
{
    ze_device_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};

    NEED(zeDeviceGetProperties(device, &properties));
    return !(properties.flags & ZE_DEVICE_PROPERTY_FLAG_INTEGRATED);
}

/* The dma-buf of an object; it is the driver's. */
static int dmabuf_of(ze_physical_mem_handle_t object)
{
    ze_external_memory_export_fd_t fd = {.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD,
                                         .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    ze_physical_mem_properties_t   properties = {
        .stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_PROPERTIES, .pNext = &fd};

    NEED(zePhysicalMemGetProperties(context, object, &properties));
    return fd.fd;
}

/* Which cache types each backing takes. */
static void test_cache_types(void)
{
#define OK ZE_RESULT_SUCCESS
#define NO ZE_RESULT_ERROR_UNSUPPORTED_FEATURE
    static const ze_result_t results[4][3] = { /* of a discrete device */
        [ZR_PHYS_MEM_SECTION]    = {OK, NO, ZE_RESULT_ERROR_INVALID_ARGUMENT},
        [ZR_PHYS_MEM_CONTIGUOUS] = {NO, OK, NO},
        [ZR_PHYS_MEM_PAGES]      = {OK, NO, NO},
        [ZR_PHYS_MEM_IO_SPACE]   = {NO, OK, NO},
    };
    ze_physical_mem_handle_t source = make_object(page), object;
    void                    *pages = aligned_alloc(4096, page);
    unsigned                 backing, cache;
    int                      fd = dmabuf_of(source);

    for (backing = 0; is_discrete() && backing < 4; backing++) {
        for (cache = 0; cache < 3; cache++) {
            ze_result_t result = create(device, (zr_phys_mem_desc_t){.backing = backing,
                                                                     .cache   = cache,
                                                                     .pages   = pages,
                                                                     .fd      = fd}, page, &object);

            if (!CHECK(result, results[backing][cache])) {
                printf("   backing %u, cache type %u\n", backing, cache);
            }
            if (result == ZE_RESULT_SUCCESS) {
                zr_phys_mem_properties_t properties = properties_of(object);

                CHECK_EQ(properties.backing, backing);
                CHECK_EQ(properties.cache, cache);
                CHECK_EQ(properties.size, page);
                CHECK_EQ(properties.open, 1);
                CHECK_OK(zePhysicalMemDestroy(context, object));
            }
        }
    }
    /* Refused wherever it is created. */
    if (null_device_passes()) {
        CHECK(create(NULL, (zr_phys_mem_desc_t){.cache = ZR_PHYS_MEM_UNCACHED}, page, &object),
              ZE_RESULT_ERROR_INVALID_ARGUMENT);
    }
    CHECK_OK(zePhysicalMemDestroy(context, source));
    free(pages);
}

static void test_refused(void)
{
    static const struct {
        zr_phys_mem_desc_t own;
        size_t             size;
        ze_result_t        result;
    } cases[] = {
        {{.backing = 4}, 65536, ZE_RESULT_ERROR_INVALID_ENUMERATION},
        {{.cache = 3}, 65536, ZE_RESULT_ERROR_INVALID_ENUMERATION},
        {{.backing = ZR_PHYS_MEM_SECTION}, 0, ZE_RESULT_ERROR_UNSUPPORTED_SIZE},
        {{.backing = ZR_PHYS_MEM_SECTION}, 4096, ZE_RESULT_ERROR_UNSUPPORTED_SIZE},
        {{.backing = ZR_PHYS_MEM_PAGES}, 65536, ZE_RESULT_ERROR_INVALID_ARGUMENT},
        {{.backing = ZR_PHYS_MEM_PAGES, .pages = want + 1}, 65536,
         ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT},
        {{.backing = ZR_PHYS_MEM_IO_SPACE, .fd = -1}, 65536, ZE_RESULT_ERROR_INVALID_ARGUMENT},
    };
    ze_physical_mem_desc_t   desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC, .size = page};
    ze_physical_mem_handle_t object, source = make_object(page);
    size_t                   i;
    int                      on;

    for (i = 0; i < COUNT(cases); i++) {
        for (on = !null_device_passes(); on < 2; on++) {
            if (!CHECK(create(on ? device : NULL, cases[i].own, cases[i].size, &object),
                       cases[i].result)) {
                printf("   case %zu, %s a device\n", i, on ? "with" : "without");
            }
        }
    }
    /* A region longer than what was given. */
    CHECK(create(device, (zr_phys_mem_desc_t){.backing = ZR_PHYS_MEM_IO_SPACE,
                                              .cache   = ZR_PHYS_MEM_WRITE_COMBINED,
                                              .fd      = dmabuf_of(source)}, 64 * page, &object),
          ZE_RESULT_ERROR_INVALID_SIZE);
    CHECK(zePhysicalMemCreate(context, NULL, &desc, &object), ZE_RESULT_ERROR_INVALID_NULL_HANDLE);
    CHECK_OK(zePhysicalMemDestroy(context, source));
}

static void round_trip(void *at, size_t size, unsigned seed)
{
    fill_pattern(want, size, seed);
    write_memory(at, want, size);
    read_memory(got, at, size);
    CHECK_EQ(memcmp(got, want, size), 0);
}

/* Each backing carries data; who else sees it, sees the same. */
static void test_backings(void)
{
    const size_t             size = 2 * page;
    ze_physical_mem_handle_t section, contiguous, pages, io;
    unsigned char           *memory = aligned_alloc(4096, size + 4096);
    char                    *base = reserve(4 * size);
    ze_ipc_mem_handle_t      handle;
    ze_ipc_phys_mem_handle_range_ext_desc_t range = {
        ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC, NULL, size};

    NEED(create(device, (zr_phys_mem_desc_t){.backing = ZR_PHYS_MEM_SECTION}, size, &section));
    NEED(create(device, (zr_phys_mem_desc_t){.backing = ZR_PHYS_MEM_CONTIGUOUS,
                                             .cache   = ZR_PHYS_MEM_WRITE_COMBINED}, size,
                &contiguous));
    NEED(create(device, (zr_phys_mem_desc_t){.backing = ZR_PHYS_MEM_PAGES,
                                             .pages   = memory + 4096}, size, &pages));
    NEED(create(device, (zr_phys_mem_desc_t){.backing = ZR_PHYS_MEM_IO_SPACE,
                                             .cache   = ZR_PHYS_MEM_WRITE_COMBINED,
                                             .fd      = dmabuf_of(contiguous)}, size, &io));
    map_object(base, size, section, 0);
    map_object(base + size, size, contiguous, 0);
    map_object(base + 2 * size, size, pages, 0);
    map_object(base + 3 * size, size, io, 0);

    /* A section is for the CPU too, with the protection of the mapping. */
    round_trip(base, size, 1);
    CHECK_EQ(memcmp(base, want, size), 0);
    CHECK_EQ(cpu_faults(base), 0);
    NEED(zeVirtualMemSetAccessAttribute(context, base, size, ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY));
    CHECK_EQ(cpu_faults(base), 1);

    /* Contiguous memory is the device's, and io space is the same buffer. */
    round_trip(base + size, size, 2);
    CHECK_EQ(cpu_faults(base + size), 2);
    read_memory(got, base + 3 * size, size);
    CHECK_EQ(memcmp(got, want, size), 0);
    round_trip(base + 3 * size, size, 3);
    read_memory(got, base + size, size);
    CHECK_EQ(memcmp(got, want, size), 0);

    /* The caller's pages stay the caller's. */
    memset(memory, 0xEE, size + 4096);
    round_trip(base + 2 * size, size, 4);
    CHECK_EQ(memcmp(memory + 4096, want, size), 0);
    CHECK_EQ(memory[4095], 0xEE);
    memory[4096 + 77] ^= 0xFF;
    read_memory(got, base + 2 * size, size);
    CHECK_EQ(got[77], memory[4096 + 77]);
    CHECK_EQ(cpu_faults(base + 2 * size), 2);

    /* All but them can be exported. */
    CHECK(zeMemGetIpcHandleWithProperties(context, base + 2 * size, &range, &handle),
          ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
    CHECK_OK(zeMemGetIpcHandleWithProperties(context, base, &range, &handle));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    CHECK_OK(zeVirtualMemFree(context, base, 4 * size));
    CHECK_OK(zePhysicalMemDestroy(context, section));
    CHECK_OK(zePhysicalMemDestroy(context, contiguous));
    CHECK_OK(zePhysicalMemDestroy(context, pages));
    CHECK_OK(zePhysicalMemDestroy(context, io));
    CHECK_EQ(memory[4096 + 77], got[77]);
    free(memory);
}

/* Created without a device: nothing works before it is open, everything after. */
static void test_without_device(void)
{
    static const unsigned    backings[] = {ZR_PHYS_MEM_SECTION, ZR_PHYS_MEM_CONTIGUOUS,
                                           ZR_PHYS_MEM_PAGES, ZR_PHYS_MEM_IO_SPACE};
    static const unsigned    caches[]   = {ZR_PHYS_MEM_CACHED, ZR_PHYS_MEM_WRITE_COMBINED,
                                           ZR_PHYS_MEM_CACHED, ZR_PHYS_MEM_WRITE_COMBINED};
    ze_physical_mem_handle_t source = make_object(page), object;
    void                    *memory = aligned_alloc(4096, page);
    char                    *base   = reserve(page);
    zr_device_mem_handle_t   handle;
    zr_address_run_t         run;
    ze_ipc_mem_handle_t      ipc;
    uint32_t                 count;
    unsigned                 i;
    int                      fd = dup(dmabuf_of(source));

    for (i = 0; is_discrete() && i < COUNT(backings); i++) {
        zr_phys_mem_desc_t own = {.backing = backings[i], .cache = caches[i], .context = 1234 + i,
                                  .pages = memory, .fd = fd};

        NEED(create(NULL, own, page, &object));
        CHECK_TRUE(properties_of(object).created == NULL);
        CHECK_EQ(properties_of(object).open, 0);
        CHECK_EQ(properties_of(object).context, 1234 + i);
        CHECK(zeVirtualMemMap(context, base, page, object, 0, ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE),
              ZE_RESULT_ERROR_INVALID_ARGUMENT);
        CHECK_TRUE(zeMemGetIpcHandle(context, object, &ipc) != ZE_RESULT_SUCCESS);
        NEED(open_on(object, device, &handle));
        CHECK_EQ(properties_of(object).open, 1);
        CHECK_TRUE(properties_of(object).created == NULL);
        count = 1;
        CHECK_OK(address_list(handle, 0, page, &count, &run));
        CHECK_EQ(count, 1);
        CHECK_EQ(run.length, page);
        map_object(base, page, object, 0);
        round_trip(base, page, 30 + i);
        CHECK_OK(zeVirtualMemUnmap(context, base, page));
        CHECK_OK(close_on(handle));
        CHECK(close_on(handle), ZE_RESULT_ERROR_INVALID_ARGUMENT);
        CHECK(address_list(handle, 0, page, &count, &run), ZE_RESULT_ERROR_INVALID_ARGUMENT);
        CHECK_OK(zePhysicalMemDestroy(context, object));
        NEED(create(NULL, own, page, &object)); /* never open at all */
        CHECK_OK(zePhysicalMemDestroy(context, object));
    }
    close(fd);
    free(memory);
    CHECK_OK(zePhysicalMemDestroy(context, source));
    CHECK_OK(zeVirtualMemFree(context, base, page));
}

/* The handle of creation goes with close or with destroy, not with both. */
static void test_close_or_destroy(void)
{
    const zr_phys_mem_desc_t own = {.backing = ZR_PHYS_MEM_SECTION, .context = (uintptr_t)-2};
    ze_physical_mem_handle_t object;
    zr_device_mem_handle_t   created, opened;
    zr_address_run_t         run;
    uint32_t                 count = 1;
    zr_counts_t              before, now;

    NEED(count_all(&before));
    NEED(create(device, own, page, &object));
    created = properties_of(object).created;
    CHECK_TRUE(created != NULL);
    CHECK_EQ(properties_of(object).context, (uintptr_t)-2); /* no pointer, and nobody followed it */
    CHECK_OK(address_list(created, 0, page, &count, &run));
    CHECK_OK(zePhysicalMemDestroy(context, object));
    CHECK(close_on(created), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(address_list(created, 0, page, &count, &run), ZE_RESULT_ERROR_INVALID_ARGUMENT);

    NEED(create(device, own, page, &object));
    created = properties_of(object).created;
    CHECK_OK(close_on(created));
    CHECK_TRUE(properties_of(object).created == NULL);
    CHECK(address_list(created, 0, page, &count, &run), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    NEED(open_on(object, device, &opened));
    CHECK_OK(zePhysicalMemDestroy(context, object));
    CHECK(zePhysicalMemDestroy(context, object), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    NEED(count_all(&now));
    CHECK_EQ(now.objects, before.objects + 1); /* what is open lives */
    CHECK_OK(address_list(opened, 0, page, &count, &run));
    CHECK_OK(close_on(opened));
    NEED(count_all(&now));
    CHECK_EQ(now.objects, before.objects);
}

static void test_address_lists(void)
{
    ze_physical_mem_handle_t objects[3];
    zr_device_mem_handle_t   handle;
    zr_address_run_t         whole[3], runs[8];
    char                    *base = reserve(8 * page), *usm = alloc_device(page);
    uint32_t                 count, i, k;
    uint64_t                 total = 0;

    for (i = 0; i < 3; i++) {
        objects[i] = make_object(3 * page);
        handle     = properties_of(objects[i]).created;
        count      = 1;
        CHECK_OK(address_list(handle, 0, 3 * page, &count, &whole[i]));
        CHECK_EQ(count, 1);
        CHECK_EQ(whole[i].length, 3 * page);
        CHECK_OK(address_list(handle, 1000, 24, &count, runs));
        CHECK_EQ(runs[0].address, whole[i].address + 1000);
        CHECK_EQ(runs[0].length, 24);
        CHECK(address_list(handle, 0, 0, &count, runs), ZE_RESULT_ERROR_INVALID_SIZE);
        CHECK(address_list(handle, page, 3 * page, &count, runs), ZE_RESULT_ERROR_INVALID_SIZE);
        CHECK(address_list(handle, UINT64_MAX, 2, &count, runs), ZE_RESULT_ERROR_INVALID_SIZE);
        for (k = 0; k < i; k++) {
            CHECK_TRUE(whole[i].address >= whole[k].address + whole[k].length ||
                       whole[k].address >= whole[i].address + whole[i].length);
        }
    }
    /*  pages |0A1|0A2|2C0|1B1|1B2|0A0|    |   two mappings that continue are one run */
    map_object(base, page, objects[0], page);
    map_object(base + page, page, objects[0], 2 * page);
    map_object(base + 2 * page, page, objects[2], 0);
    map_object(base + 3 * page, 2 * page, objects[1], page);
    map_object(base + 5 * page, page, objects[0], 0);
    count = 0;
    CHECK_OK(range_address_list(device, base + 8, 6 * page - 16, &count, NULL));
    CHECK_EQ(count, 4);
    count = COUNT(runs);
    CHECK_OK(range_address_list(device, base + 8, 6 * page - 16, &count, runs));
    CHECK_EQ(count, 4);
    CHECK_EQ(runs[0].address, whole[0].address + page + 8);
    CHECK_EQ(runs[0].length, 2 * page - 8);
    CHECK_EQ(runs[1].address, whole[2].address);
    CHECK_EQ(runs[2].address, whole[1].address + page);
    CHECK_EQ(runs[3].address, whole[0].address);
    CHECK_EQ(runs[3].length, page - 8);
    for (i = 0; i < count; i++) {
        total += runs[i].length;
    }
    CHECK_EQ(total, 6 * page - 16);
    count        = 2; /* not room for all: as many as there is, and how many there are */
    runs[2]      = (zr_address_run_t){7, 7};
    CHECK_OK(range_address_list(device, base, 6 * page, &count, runs));
    CHECK_EQ(count, 4);
    CHECK_EQ(runs[2].address, 7);
    CHECK(range_address_list(device, base, 7 * page, &count, runs),
          ZE_RESULT_ERROR_ADDRESS_NOT_FOUND);
    CHECK(range_address_list(device, base, 0, &count, runs), ZE_RESULT_ERROR_INVALID_SIZE);
    CHECK_OK(range_address_list(device, usm, page, &count, runs));
    CHECK_OK(zeMemFree(context, usm));
    CHECK_OK(zeVirtualMemFree(context, base, 8 * page));
    for (i = 0; i < 3; i++) {
        CHECK_OK(zePhysicalMemDestroy(context, objects[i]));
    }
}

/* In a process with two devices of a kind: what another device can know. */
static int two_devices(void)
{
    static const struct {
        zr_phys_mem_desc_t own;
        bool               may_fail; /* on the second device: there the kernel decides */
    } cases[] = {
        {{.backing = ZR_PHYS_MEM_SECTION}, false},
        {{.backing = ZR_PHYS_MEM_CONTIGUOUS, .cache = ZR_PHYS_MEM_WRITE_COMBINED}, true},
        {{.backing = ZR_PHYS_MEM_PAGES, .pages = NULL}, false},
    };
    ze_device_handle_t       devices[2];
    ze_physical_mem_handle_t object;
    zr_device_mem_handle_t   first, second;
    zr_address_run_t         run;
    uint32_t                 n = 2, count, i, created;
    ze_result_t              result;

    test_start();
    find_functions();
    NEED(zeDeviceGet(driver, &n, devices));
    CHECK_EQ(n, 2);
    for (i = 0; i < 2 * COUNT(cases); i++) {
        zr_phys_mem_desc_t own = cases[i / 2].own;

        created = i % 2;
        if (own.backing == ZR_PHYS_MEM_PAGES) {
            own.pages = aligned_alloc(4096, page);
        }
        NEED(create(created ? devices[0] : NULL, own, page, &object));
        NEED(open_on(object, devices[0], &first));
        result = open_on(object, devices[1], &second);
        CHECK_TRUE(result == ZE_RESULT_SUCCESS ||
                   (cases[i / 2].may_fail && result == ZE_RESULT_ERROR_UNSUPPORTED_FEATURE));
        count = 1;
        CHECK_OK(address_list(first, 0, page, &count, &run));
        CHECK_OK(close_on(first));
        if (result == ZE_RESULT_SUCCESS) {
            count = 1;
            CHECK_OK(address_list(second, 0, page, &count, &run));
            CHECK_EQ(run.length, page);
            CHECK_OK(close_on(second));
        }
        CHECK_OK(zePhysicalMemDestroy(context, object));
        free(own.pages);
    }
    return test_end();
}

int main(int argc, char **argv)
{
    int status = 0;

    if (argc > 1 && strcmp(argv[1], "two") == 0) {
        return two_devices();
    }
    test_start();
    find_functions();
    test_cache_types();
    test_refused();
    test_backings();
    if (null_device_passes()) {
        test_without_device();
    }
    test_close_or_destroy();
    test_address_lists();
    if (getenv("ZERANGE_SOFT") != NULL) {
        if (fork() == 0) {
            setenv("ZERANGE_SOFT", "pvc,pvc", 1);
            execl("/proc/self/exe", "two", "two", (char *)NULL);
            _exit(127);
        }
        wait(&status);
        CHECK_EQ(status, 0);
    }
    return test_end();
}
