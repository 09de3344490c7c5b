/* The rules of the range extension that need more than one window: what is met first decides, all
 * places in a chain, several reservations, objects of both kinds, counted handles, contexts, and
 * nothing left behind. docs/range-extension.md says which sentence each function shows. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

static unsigned char *expected, *seen;

static ze_result_t export_range(ze_context_handle_t from, const void *ptr, size_t size,
                                ze_ipc_mem_handle_t *handle)
{
    ze_ipc_phys_mem_handle_range_ext_desc_t range = {
        ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC, NULL, size};

    return zeMemGetIpcHandleWithProperties(from, ptr, &range, handle);
}

static ze_physical_mem_handle_t make_host_object(size_t size)
{
    ze_physical_mem_desc_t   desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                     .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_HOST,
                                     .size  = size};
    ze_physical_mem_handle_t object;

    NEED(zePhysicalMemCreate(context, device, &desc, &object));
    return object;
}

static zr_counts_t get_counts(void)
{
    zr_pfnGetCounts_t get;
    zr_counts_t       counts = {0};

    NEED(zeDriverGetExtensionFunctionAddress(driver, "zrGetCounts", (void **)&get));
    NEED(get(&counts));
    return counts;
}

static unsigned open_fds(void)
{
    DIR     *dir = opendir("/proc/self/fd");
    unsigned n   = 0;

    while (readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n;
}

static void *reserve_at(char *at, size_t size)
{
    void *p = NULL;

    if (zeVirtualMemReserve(context, at, size, &p) != ZE_RESULT_SUCCESS) {
        return NULL;
    }
    if (p != at) {
        CHECK_OK(zeVirtualMemFree(context, p, size));
        return NULL;
    }
    return p;
}

/*  pages  0      1      2     3      The first byte that is no mapped object decides: a byte of
 *        |A     | hole |USM  | hole |  USM gives INVALID_ARGUMENT, a hole ADDRESS_NOT_FOUND.
 */
static void test_first_met(void)
{
    static const struct {
        unsigned    start, size;
        ze_result_t result;
    } windows[] = {
        {0, 1, ZE_RESULT_SUCCESS},
        {0, 2, ZE_RESULT_ERROR_ADDRESS_NOT_FOUND},
        {0, 3, ZE_RESULT_ERROR_ADDRESS_NOT_FOUND},
        {1, 2, ZE_RESULT_ERROR_ADDRESS_NOT_FOUND},
        {1, 3, ZE_RESULT_ERROR_ADDRESS_NOT_FOUND},
        {2, 1, ZE_RESULT_ERROR_INVALID_ARGUMENT},
        {2, 2, ZE_RESULT_ERROR_INVALID_ARGUMENT},
        {3, 1, ZE_RESULT_ERROR_ADDRESS_NOT_FOUND},
    };
    enum { TRIES = 64 };
    char                    *usm[TRIES], *before = NULL, *behind = NULL;
    ze_physical_mem_handle_t object = make_object(page);
    ze_ipc_mem_handle_t      handle;
    unsigned                 i, n = 0;

    while (n < TRIES && behind == NULL) {
        usm[n] = alloc_device(page);
        before = reserve_at(usm[n] - 2 * page, 2 * page);
        if (before != NULL) {
            behind = reserve_at(usm[n] + page, page);
        }
        if (before != NULL && behind == NULL) {
            CHECK_OK(zeVirtualMemFree(context, before, 2 * page));
        }
        n++;
    }
    if (behind == NULL) {
        printf("note: no reservations could be placed around an allocation\n");
    } else {
        map_object(before, page, object, 0);
        for (i = 0; i < COUNT(windows); i++) {
            if (!CHECK(export_range(context, before + windows[i].start * page,
                                    windows[i].size * page, &handle),
                       windows[i].result)) {
                printf("   window %u\n", i);
            } else if (windows[i].result == ZE_RESULT_SUCCESS) {
                CHECK_OK(zeMemPutIpcHandle(context, handle));
            }
        }
        /* The hole closed: now USM is what is met. */
        CHECK_OK(zeVirtualMemUnmap(context, before, page));
        map_object(before + page, page, object, 0);
        CHECK(export_range(context, before + page, 3 * page, &handle),
              ZE_RESULT_ERROR_INVALID_ARGUMENT);
        CHECK_OK(zeVirtualMemFree(context, before, 2 * page));
        CHECK_OK(zeVirtualMemFree(context, behind, page));
    }
    for (i = 0; i < n; i++) {
        CHECK_OK(zeMemFree(context, usm[i]));
    }
    CHECK_OK(zePhysicalMemDestroy(context, object));
}

/* VA that the driver never reserved. */
static void test_not_reserved(void)
{
    unsigned char           *plain = malloc(4 * page), *base = reserve(page);
    ze_physical_mem_handle_t object = make_object(page);
    ze_ipc_mem_handle_t      handle;
    void                    *opened;

    CHECK(export_range(context, plain, page, &handle), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(export_range(context, object, page, &handle), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    map_object(base, page, object, 0);
    CHECK(export_range(context, base, SIZE_MAX, &handle), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(export_range(context, base, SIZE_MAX - (uintptr_t)base + 2, &handle),
          ZE_RESULT_ERROR_INVALID_ARGUMENT);
    NEED(export_range(context, base, page, &handle));
    NEED(zeMemOpenIpcHandle(context, device, handle, 0, &opened));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    CHECK(export_range(context, opened, page, &handle), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK_OK(zeMemCloseIpcHandle(context, opened));
    CHECK_OK(zeVirtualMemUnmap(context, base, page));
    CHECK_OK(zePhysicalMemDestroy(context, object));
    CHECK_OK(zeVirtualMemFree(context, base, page));
    CHECK(export_range(context, base, page, &handle), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    free(plain);
}

/* The descriptor is found behind structures the driver does not know, and before them. */
static void test_chain(void)
{
    ze_base_desc_t unknown[2] = {{(ze_structure_type_t)0x7ffffff0, NULL},
                                 {(ze_structure_type_t)0x00fffff1, NULL}};
    ze_ipc_mem_handle_type_ext_desc_t type = {ZE_STRUCTURE_TYPE_IPC_MEM_HANDLE_TYPE_EXT_DESC, NULL,
                                              ZE_IPC_MEM_HANDLE_TYPE_FLAG_DEFAULT};
    ze_ipc_phys_mem_handle_range_ext_desc_t range = {
        ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC, NULL, 0};
    struct spread       s;
    ze_ipc_mem_handle_t handle;
    struct peer_import  import;

    spread_make(&s, 0);
    range.size       = s.size - page;
    unknown[0].pNext = &type; /* unknown, type, unknown, range */
    type.pNext       = &unknown[1];
    unknown[1].pNext = &range;
    NEED(zeMemGetIpcHandleWithProperties(context, s.base, &unknown[0], &handle));
    import = peer_open(0, handle);
    CHECK_OK(import.opened);
    CHECK_EQ(import.size, s.size - page);
    CHECK_OK(peer_close(0));
    CHECK_OK(zeMemPutIpcHandle(context, handle));

    range.pNext      = &unknown[0]; /* range, unknown, type, unknown */
    unknown[1].pNext = NULL;
    range.size       = page;
    NEED(zeMemGetIpcHandleWithProperties(context, s.base + page, &range, &handle));
    import = peer_open(0, handle);
    CHECK_OK(import.opened);
    CHECK_EQ(import.size, page);
    CHECK_OK(peer_close(0));
    CHECK_OK(zeMemPutIpcHandle(context, handle));

    /* The type still counts beside the range. */
    type.typeFlags = 0x10;
    CHECK(zeMemGetIpcHandleWithProperties(context, s.base, &range, &handle),
          ZE_RESULT_ERROR_INVALID_ENUMERATION);
    type.typeFlags = ZE_IPC_MEM_HANDLE_TYPE_FLAG_FABRIC_ACCESSIBLE;
    CHECK(zeMemGetIpcHandleWithProperties(context, s.base, &range, &handle),
          ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
    spread_drop(&s, true);
}

/* Six reservations side by side, device and host objects in turn, one object shown twice, and
 * each mapping shorter than its object. */
static void test_mixed(void)
{
    enum { N = 6 };
    ze_physical_mem_handle_t objects[N];
    char                    *base = reserve(N * page);
    ze_ipc_mem_handle_t      handle;
    struct peer_import       import;
    unsigned                 i;
    void                    *opened;

    NEED(zeVirtualMemFree(context, base, N * page));
    for (i = 0; i < N; i++) {
        if (!CHECK_TRUE(reserve_at(base + i * page, page) != NULL)) {
            exit(1);
        }
        objects[i] = (i & 1) ? make_host_object(3 * page) : make_object(3 * page);
    }
    for (i = 0; i + 1 < N; i++) {
        map_object(base + i * page, page, objects[i], (i % 3) * page);
    }
    map_object(base + i * page, page, objects[2], page); /* mapped at 2 pages before */
    fill_pattern(expected, N * page, 20);
    write_memory(base, expected, N * page);
    NEED(export_range(context, base + 5, N * page - 10, &handle));
    import = peer_open(0, handle);
    CHECK_OK(import.opened);
    CHECK_EQ(import.size, N * page - 10);
    peer_read(0, 0, seen, N * page - 10);
    CHECK_EQ(memcmp(seen, expected + 5, N * page - 10), 0);
    CHECK_OK(peer_close(0));

    /* Nothing outside the window is reached through the pointer. */
    NEED(zeMemOpenIpcHandle(context, device, handle, 0, &opened));
    CHECK(zeCommandListAppendMemoryCopy(list, seen, (char *)opened + N * page - 20, 11, NULL, 0,
                                        NULL), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK_OK(zeCommandListAppendMemoryCopy(list, seen, (char *)opened + N * page - 20, 10, NULL, 0,
                                           NULL));
    CHECK_OK(zeMemCloseIpcHandle(context, opened));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    for (i = 0; i < N; i++) {
        CHECK_OK(zeVirtualMemUnmap(context, base + i * page, page));
        CHECK_OK(zeVirtualMemFree(context, base + i * page, page));
        CHECK_OK(zePhysicalMemDestroy(context, objects[i]));
    }
}

/* The same pointer and size give the same handle, counted, until the mapping is another. */
static void test_counted(void)
{
    unsigned char           *base   = reserve(2 * page);
    ze_physical_mem_handle_t object = make_object(2 * page);
    ze_ipc_mem_handle_t      first, second, third;
    ze_context_desc_t        desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_context_handle_t      other;
    int                      fd, own;
    void                    *opened;

    map_object(base, 2 * page, object, 0);
    NEED(export_range(context, base, 2 * page, &first));
    NEED(export_range(context, base, 2 * page, &second));
    CHECK_EQ(memcmp(&first, &second, sizeof(first)), 0);
    NEED(export_range(context, base, page, &third));
    CHECK_TRUE(memcmp(&first, &third, sizeof(first)) != 0);
    CHECK_OK(zeMemPutIpcHandle(context, third));
    CHECK_OK(zeMemPutIpcHandle(context, first));
    CHECK_OK(peer_open(0, second).opened);
    CHECK_OK(peer_close(0));
    CHECK_OK(zeVirtualMemUnmap(context, base, 2 * page));
    map_object(base, 2 * page, object, 0);
    NEED(export_range(context, base, 2 * page, &third));
    CHECK_TRUE(memcmp(&second, &third, sizeof(first)) != 0);
    CHECK_OK(zeMemPutIpcHandle(context, second));

    /* A client's own copy of the leading fd. */
    memcpy(&fd, third.data, sizeof(fd));
    own = dup(fd);
    memcpy(third.data, &own, sizeof(own));
    CHECK_OK(zeMemOpenIpcHandle(context, device, third, 0, &opened));
    CHECK_OK(zeMemCloseIpcHandle(context, opened));
    CHECK_OK(peer_open(0, third).opened);
    CHECK_OK(peer_close(0));
    close(own);
    CHECK_OK(zeMemPutIpcHandle(context, third));

    /* Open in another context; the export ends with its own. */
    NEED(zeContextCreate(driver, &desc, &other));
    NEED(export_range(other, base, 2 * page, &first));
    NEED(zeMemOpenIpcHandle(context, device, first, 0, &opened));
    CHECK_OK(zeContextDestroy(other));
    CHECK_TRUE(peer_open(0, first).opened != ZE_RESULT_SUCCESS);
    write_memory(opened, "still", 5);
    CHECK_OK(zeMemCloseIpcHandle(context, opened));
    CHECK_OK(zeVirtualMemUnmap(context, base, 2 * page));
    CHECK_OK(zePhysicalMemDestroy(context, object));
    CHECK_OK(zeVirtualMemFree(context, base, 2 * page));
}

/* Whatever the order of close, put, unmap and destroy, nothing stays. */
static void test_nothing_left(void)
{
    static const char *const orders[] = {"CPU", "PCU", "UCP", "UPC", "PUC", "CUP"};
    zr_counts_t              before = get_counts(), after;
    unsigned                 fds = open_fds(), i;
    struct spread            s;
    ze_ipc_mem_handle_t      handle;
    const char              *step;
    void                    *opened[2], *base;
    size_t                   size;

    for (i = 0; i < COUNT(orders); i++) {
        spread_make(&s, 0);
        NEED(export_range(context, s.base + 1, s.size - 1, &handle));
        NEED(zeMemOpenIpcHandle(context, device, handle, 0, &opened[0]));
        NEED(zeMemOpenIpcHandle(context, device, handle, 0, &opened[1]));
        CHECK_TRUE(opened[0] != opened[1]);
        CHECK_OK(zeMemGetAddressRange(context, opened[1], &base, &size));
        CHECK_TRUE(base == opened[1]);
        CHECK_EQ(size, s.size - 1);
        CHECK_OK(peer_open(0, handle).opened);
        CHECK_OK(peer_open(1, handle).opened);
        for (step = orders[i]; *step != '\0'; step++) {
            switch (*step) {
            case 'C':
                CHECK_OK(zeMemCloseIpcHandle(context, opened[0]));
                CHECK_OK(zeMemCloseIpcHandle(context, opened[1]));
                break;
            case 'P':
                CHECK_OK(zeMemPutIpcHandle(context, handle));
                break;
            default:
                spread_drop(&s, true);
            }
        }
        CHECK_OK(peer_close(1));
        CHECK_OK(peer_close(0));
        after = get_counts();
        CHECK_EQ(memcmp(&before, &after, sizeof(before)), 0);
    }
    CHECK_TRUE(open_fds() <= fds + 1); /* the peer's connection may be kept */
}

/* An import that finds no contiguous VA fails with the specified error and works later. */
static void test_no_address_space(void)
{
    enum { TIMES = 512 };
    const size_t             large = (size_t)2 << 20;
    ze_physical_mem_handle_t object = make_object(large);
    char                    *base   = reserve(TIMES * large);
    struct rlimit            old, tight;
    ze_ipc_mem_handle_t      handle;
    unsigned long            pages = 0;
    FILE                    *statm;
    ze_result_t              result;
    void                    *opened = NULL;
    unsigned                 i;

    for (i = 0; i < TIMES; i++) {
        map_object(base + i * large, large, object, 0);
    }
    NEED(export_range(context, base, TIMES * large, &handle));
    statm = fopen("/proc/self/statm", "r");
    if (statm == NULL || fscanf(statm, "%lu", &pages) != 1 || getrlimit(RLIMIT_AS, &old) != 0) {
        printf("note: the size of the address space is not known\n");
        exit(77);
    }
    fclose(statm);
    tight          = old;
    tight.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + TIMES / 2 * large;
    setrlimit(RLIMIT_AS, &tight);
    result = zeMemOpenIpcHandle(context, device, handle, 0, &opened);
    setrlimit(RLIMIT_AS, &old);
    CHECK(result, ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
    CHECK_TRUE(opened == NULL);
    CHECK_OK(zeMemOpenIpcHandle(context, device, handle, 0, &opened));
    CHECK_OK(zeMemCloseIpcHandle(context, opened));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    CHECK_OK(zeVirtualMemFree(context, base, TIMES * large));
    CHECK_OK(zePhysicalMemDestroy(context, object));
}

/* An importer whose device cannot take the second object: the specified error, and it works later.
 * The software device only can be told to refuse. */
static void test_no_device_memory(void)
{
    struct spread       s;
    ze_ipc_mem_handle_t handle;
    struct peer_import  import;

    if (getenv("ZERANGE_SOFT") == NULL) {
        return;
    }
    peer_stop();
    setenv("ZERANGE_SOFT_FAULTS", "PRIME_FD_TO_HANDLE@2=ENOSPC", 1);
    peer_start();
    unsetenv("ZERANGE_SOFT_FAULTS");
    spread_make(&s, 0);
    fill_pattern(expected, s.size, 17);
    write_memory(s.base, expected, s.size);
    NEED(export_range(context, s.base, s.size, &handle));
    import = peer_open(0, handle);
    CHECK_EQ(import.opened, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
    import = peer_open(0, handle);
    if (CHECK_OK(import.opened)) {
        CHECK_EQ(import.size, s.size);
        peer_read(0, 0, seen, s.size);
        CHECK_EQ(memcmp(seen, expected, s.size), 0);
        CHECK_OK(peer_close(0));
    }
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    spread_drop(&s, true);
    peer_stop();
    peer_start();
}

/* Without the descriptor: a physical memory handle as the pointer, and handles from fds. */
static void test_plain(void)
{
    ze_physical_mem_handle_t object = make_object(2 * page);
    char                    *base   = reserve(2 * page);
    ze_ipc_mem_handle_t      handle;
    struct peer_import       import;

    map_object(base, 2 * page, object, 0);
    fill_pattern(expected, 2 * page, 21);
    write_memory(base, expected, 2 * page);
    NEED(zeMemGetIpcHandle(context, object, &handle));
    import = peer_open(0, handle);
    CHECK_OK(import.opened);
    CHECK_EQ(import.size, 2 * page);
    peer_read(0, 0, seen, 2 * page);
    CHECK_EQ(memcmp(seen, expected, 2 * page), 0);
    CHECK_OK(peer_close(0));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    CHECK_OK(zeVirtualMemFree(context, base, 2 * page));
    CHECK_OK(zePhysicalMemDestroy(context, object));
}

/* A pointer without the descriptor means the mapping it is in, from the place in the object that
 * the mapping begins at. */
static void test_plain_mapping(void)
{
    static const struct {
        unsigned offset, pages, at; /* in pages; the pointer's in half pages */
    } cases[] = {{0, 4, 0}, {0, 2, 0}, {1, 1, 0}, {1, 3, 0}, {2, 2, 3}, {0, 3, 1}};
    ze_physical_mem_handle_t object = make_object(4 * page);
    char                    *whole = reserve(4 * page), *base = reserve(4 * page);
    ze_ipc_mem_handle_t      handle, again;
    struct peer_import       import;

    map_object(whole, 4 * page, object, 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const size_t size = cases[i].pages * page;

        fill_pattern(expected, 4 * page, 30 + (unsigned)i);
        write_memory(whole, expected, 4 * page);
        map_object(base, size, object, cases[i].offset * page);
        NEED(zeMemGetIpcHandle(context, base + cases[i].at * page / 2, &handle));
        NEED(zeMemGetIpcHandle(context, base, &again));
        CHECK_EQ(memcmp(&handle, &again, sizeof(handle)), 0);
        import = peer_open(0, handle);
        if (!CHECK_OK(import.opened) || !CHECK_EQ(import.size, size)) {
            printf("   case %zu\n", i);
        }
        CHECK_EQ(import.base, 0);
        peer_read(0, 0, seen, size);
        CHECK_EQ(memcmp(seen, expected + cases[i].offset * page, size), 0);
        CHECK_OK(peer_close(0));
        CHECK_OK(zeMemPutIpcHandle(context, handle));
        CHECK_OK(zeMemPutIpcHandle(context, again));
        CHECK_OK(zeVirtualMemUnmap(context, base, size));
    }
    CHECK_OK(zeVirtualMemFree(context, base, 4 * page));
    CHECK_OK(zeVirtualMemFree(context, whole, 4 * page));
    CHECK_OK(zePhysicalMemDestroy(context, object));
}

int main(int argc, char **argv)
{
    peer_main(argc, argv);
    test_start();
    expected = malloc(8 * page);
    seen     = malloc(8 * page);
    peer_start();
    test_first_met();
    test_not_reserved();
    test_chain();
    test_mixed();
    test_counted();
    test_nothing_left();
    test_no_address_space();
    test_no_device_memory();
    test_plain();
    test_plain_mapping();
    peer_stop();
    free(expected);
    free(seen);
    return test_end();
}
