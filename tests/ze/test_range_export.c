/* Export of a range: every result the specification lists, whatever the place of the descriptor in
 * the chain; and what a second process sees of a window that was accepted. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

/*  pages  0    1    2    3    4    5    6    7    8    9    10   11
 *        |A0   A1 |B1  |C1  |C2   C3 |    |D0  |    |E0   E1 |    |
 *        |<-- reservation -->|<----->|<------ reservation ------->|
 * The spread of common.h, a hole, an object of one page, a hole, an object of two, a free end.
 */
static unsigned char           *base;
static struct spread            spread;
static ze_physical_mem_handle_t d, e;
static void                    *third;
static unsigned char           *expected; /* what each mapped byte holds */

static void make_layout(void)
{
    spread_make(&spread, 6);
    NEED(zeVirtualMemReserve(context, spread.base + 6 * page, 6 * page, &third));
    if (!CHECK_TRUE(third == spread.base + 6 * page)) {
        exit(1);
    }
    base = spread.base;
    d    = make_object(page);
    e    = make_object(2 * page);
    map_object(base + 7 * page, page, d, 0);
    map_object(base + 9 * page, 2 * page, e, 0);
    expected = malloc(12 * page);
    fill_pattern(expected, 12 * page, 1);
    write_memory(base, expected, 6 * page);
    write_memory(base + 7 * page, expected + 7 * page, page);
    write_memory(base + 9 * page, expected + 9 * page, 2 * page);
}

/* In pages and bytes: size_t start = start_pages * page + start_bytes. */
static const struct window {
    const char *name;
    int         start_pages, start_bytes, size_pages, size_bytes;
    ze_result_t result;
} windows[] = {
    {"one object", 0, 0, 2, 0, ZE_RESULT_SUCCESS},
    {"part of one object", 1, 0, 1, 0, ZE_RESULT_SUCCESS},
    {"two objects", 0, 0, 3, 0, ZE_RESULT_SUCCESS},
    {"an object mapped at an offset and shorter", 2, 0, 1, 0, ZE_RESULT_SUCCESS},
    {"objects on both sides of a shorter one", 0, 0, 4, 0, ZE_RESULT_SUCCESS},
    {"two reservations", 3, 0, 3, 0, ZE_RESULT_SUCCESS},
    {"all of it", 0, 0, 6, 0, ZE_RESULT_SUCCESS},
    {"one byte", 2, 17, 0, 1, ZE_RESULT_SUCCESS},
    {"two bytes across an edge", 1, 65535, 0, 2, ZE_RESULT_SUCCESS},
    {"bytes at both ends", 0, 4097, 5, 1000, ZE_RESULT_SUCCESS},
    {"to the last byte", 5, 1, 1, -1, ZE_RESULT_SUCCESS},
    {"between holes", 7, 0, 1, 0, ZE_RESULT_SUCCESS},
    {"a hole in the middle", 0, 0, 8, 0, ZE_RESULT_ERROR_ADDRESS_NOT_FOUND},
    {"a hole of one page between two objects", 7, 100, 3, 0, ZE_RESULT_ERROR_ADDRESS_NOT_FOUND},
    {"starts in a hole", 6, 0, 2, 0, ZE_RESULT_ERROR_ADDRESS_NOT_FOUND},
    {"starts on the last byte of a hole", 6, 65535, 0, 2, ZE_RESULT_ERROR_ADDRESS_NOT_FOUND},
    {"ends with the first byte of a hole", 0, 0, 6, 1, ZE_RESULT_ERROR_ADDRESS_NOT_FOUND},
    {"ends behind what is mapped", 9, 0, 3, 0, ZE_RESULT_ERROR_ADDRESS_NOT_FOUND},
    {"nothing but a hole", 6, 0, 1, 0, ZE_RESULT_ERROR_ADDRESS_NOT_FOUND},
    {"size 0", 0, 0, 0, 0, ZE_RESULT_ERROR_INVALID_SIZE},
    {"size 0 in a hole", 6, 0, 0, 0, ZE_RESULT_ERROR_INVALID_SIZE},
};

static ze_result_t export_chain(const void *ptr, size_t size, unsigned form,
                                ze_ipc_mem_handle_t *handle)
{
    ze_ipc_mem_handle_type_ext_desc_t types[2] = {
        {ZE_STRUCTURE_TYPE_IPC_MEM_HANDLE_TYPE_EXT_DESC, NULL, ZE_IPC_MEM_HANDLE_TYPE_FLAG_DEFAULT},
        {ZE_STRUCTURE_TYPE_IPC_MEM_HANDLE_TYPE_EXT_DESC, NULL,
         ZE_IPC_MEM_HANDLE_TYPE_FLAG_DEFAULT}};
    ze_ipc_phys_mem_handle_range_ext_desc_t range = {
        ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC, NULL, size};
    void *chain = &range;

    if (form & 1) { /* a type behind it */
        range.pNext = &types[0];
    }
    if (form & 2) { /* a type before it */
        types[1].pNext = &range;
        chain          = &types[1];
    }
    return zeMemGetIpcHandleWithProperties(context, ptr, chain, handle);
}

static void import_window(const struct window *w, ze_ipc_mem_handle_t handle, size_t start,
                          size_t size)
{
    unsigned char     *seen   = malloc(size + 1), mark[2] = {0xC5, 0x3A};
    struct peer_import import = peer_open(0, handle);
    size_t             i, last = size > 1 ? size - 1 : 0;

    if (!CHECK_OK(import.opened)) {
        printf("   window: %s\n", w->name);
        free(seen);
        return;
    }
    CHECK_OK(import.range);
    CHECK_EQ(import.base, 0);
    CHECK_EQ(import.size, size);
    CHECK_OK(import.range_in);
    CHECK_EQ(import.base_in, 0);
    CHECK_EQ(import.size_in, size);
    CHECK_EQ(import.type, ZE_MEMORY_TYPE_DEVICE);
    CHECK_EQ(import.faults, 2);
    peer_read(0, 0, seen, size);
    for (i = 0; i < size && seen[i] == expected[start + i]; i++) {
    }
    if (!CHECK_EQ(i, size)) {
        printf("   window: %s, first wrong byte above\n", w->name);
    }
    /* What the importer writes is seen here, at the same place and nowhere else. */
    peer_write(0, 0, &mark[0], 1);
    peer_write(0, last, &mark[1], 1);
    expected[start]        = mark[0];
    expected[start + last] = mark[1];
    free(seen);
    seen = malloc(6 * page);
    read_memory(seen, base, 6 * page);
    CHECK_EQ(memcmp(seen, expected, 6 * page), 0);
    read_memory(seen, base + 7 * page, page);
    CHECK_EQ(memcmp(seen, expected + 7 * page, page), 0);
    free(seen);
    CHECK_OK(peer_close(0));
}

static void test_windows(void)
{
    ze_ipc_mem_handle_t handle, untouched;
    const struct window *w;
    unsigned             form;
    ze_result_t          result;

    memset(&untouched, 0xEE, sizeof(untouched));
    for (w = windows; w < windows + COUNT(windows); w++) {
        size_t start = w->start_pages * page + w->start_bytes;
        size_t size  = w->size_pages * page + w->size_bytes;

        for (form = 0; form < 4; form++) {
            handle = untouched;
            result = export_chain(base + start, size, form, &handle);
            if (!CHECK(result, w->result)) {
                printf("   window: %s, chain %u\n", w->name, form);
            }
            if (result != ZE_RESULT_SUCCESS) {
                CHECK_EQ(memcmp(&handle, &untouched, sizeof(handle)), 0);
                continue;
            }
            import_window(w, handle, start, size);
            CHECK_OK(zeMemPutIpcHandle(context, handle));
        }
    }
}

/* Memory that is no mapping of a physical object. */
static void test_other_memory(void)
{
    struct {
        const char *name;
        char       *p;
    } memory[] = {{"device", alloc_device(4 * page)},
                  {"host", alloc_host(4 * page)},
                  {"shared", alloc_shared(4 * page)}};
    ze_ipc_mem_handle_t handle;
    size_t              i;
    unsigned            form;
    bool                ok;

    for (i = 0; i < COUNT(memory); i++) {
        for (form = 0; form < 4; form++) {
            ok = CHECK(export_chain(memory[i].p, 4 * page, form, &handle),
                       ZE_RESULT_ERROR_INVALID_ARGUMENT);
            ok &= CHECK(export_chain(memory[i].p, page, form, &handle),
                        ZE_RESULT_ERROR_INVALID_ARGUMENT);
            ok &= CHECK(export_chain(memory[i].p + 1000, page, form, &handle),
                        ZE_RESULT_ERROR_INVALID_ARGUMENT);
            if (!ok) {
                printf("   memory: %s, chain %u\n", memory[i].name, form);
            }
        }
        CHECK_OK(zeMemFree(context, memory[i].p));
    }
    for (form = 0; form < 4; form++) {
        CHECK(export_chain(NULL, page, form, &handle), ZE_RESULT_ERROR_INVALID_NULL_POINTER);
        CHECK(export_chain(base, page, form, NULL), ZE_RESULT_ERROR_INVALID_NULL_POINTER);
        CHECK_TRUE(export_chain(base, SIZE_MAX, form, &handle) != ZE_RESULT_SUCCESS);
        CHECK_TRUE(export_chain(base, SIZE_MAX - (size_t)base + 1, form, &handle) !=
                   ZE_RESULT_SUCCESS);
    }
}

/* A mapping directly followed by USM: where the driver happens to place one there. */
static void test_usm_behind_mapping(void)
{
    enum { TRIES = 64 };
    ze_ipc_mem_handle_t handle;
    char               *blocks[TRIES], *reservation = NULL;
    void               *p;
    unsigned            i, found = TRIES;

    for (i = 0; i < TRIES; i++) {
        blocks[i] = alloc_device(page);
        if (found == TRIES &&
            zeVirtualMemReserve(context, blocks[i] - page, page, &p) == ZE_RESULT_SUCCESS) {
            if (p == blocks[i] - page) {
                reservation = p;
                found       = i;
            } else {
                zeVirtualMemFree(context, p, page);
            }
        }
    }
    if (found < TRIES) {
        ze_physical_mem_handle_t object = make_object(page);

        map_object(reservation, page, object, 0);
        CHECK_OK(export_chain(reservation, page, 0, &handle));
        CHECK_OK(zeMemPutIpcHandle(context, handle));
        CHECK(export_chain(reservation, 2 * page, 0, &handle), ZE_RESULT_ERROR_INVALID_ARGUMENT);
        CHECK_OK(zeVirtualMemUnmap(context, reservation, page));
        CHECK_OK(zePhysicalMemDestroy(context, object));
        CHECK_OK(zeVirtualMemFree(context, reservation, page));
    } else {
        printf("note: no reservation could be placed before an allocation\n");
    }
    for (i = 0; i < TRIES; i++) {
        CHECK_OK(zeMemFree(context, blocks[i]));
    }
}

static void test_advertised(void)
{
    ze_driver_extension_properties_t all[64];
    uint32_t                         n = COUNT(all), i, found = 0;

    CHECK_OK(zeDriverGetExtensionProperties(driver, &n, all));
    for (i = 0; i < n; i++) {
        found += strcmp(all[i].name, ZE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_NAME) == 0;
    }
    CHECK_EQ(found, 1);
}

int main(int argc, char **argv)
{
    peer_main(argc, argv);
    test_start();
    test_advertised();
    make_layout();
    peer_start();
    test_windows();
    test_other_memory();
    test_usm_behind_mapping();
    peer_stop();
    CHECK_OK(zeVirtualMemUnmap(context, base + 7 * page, page));
    CHECK_OK(zeVirtualMemUnmap(context, base + 9 * page, 2 * page));
    CHECK_OK(zePhysicalMemDestroy(context, d));
    CHECK_OK(zePhysicalMemDestroy(context, e));
    CHECK_OK(zeVirtualMemFree(context, third, 6 * page));
    spread_drop(&spread, true);
    free(expected);
    return test_end();
}
