/* An export is a snapshot: what is unmapped, destroyed or mapped afterwards does not change it, and
 * it ends with put, or with the reservation that begins at the exported address. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

static unsigned char *expected, *seen;

static ze_result_t export_range(const void *ptr, size_t size, ze_ipc_mem_handle_t *handle)
{
    ze_ipc_phys_mem_handle_range_ext_desc_t range = {
        ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC, NULL, size};

    return zeMemGetIpcHandleWithProperties(context, ptr, &range, handle);
}

static void check_import(unsigned slot, size_t size)
{
    peer_read(slot, 0, seen, size);
    CHECK_EQ(memcmp(seen, expected, size), 0);
}

/* Opened before and after everything behind the handle is unmapped and destroyed. */
static void test_unmapped(void)
{
    struct spread       s;
    ze_ipc_mem_handle_t handle;
    struct peer_import  import;

    spread_make(&s, 0);
    fill_pattern(expected, s.size, 7);
    write_memory(s.base, expected, s.size);
    NEED(export_range(s.base, s.size, &handle));
    CHECK_OK(peer_open(0, handle).opened);
    spread_drop(&s, false);
    import = peer_open(1, handle);
    CHECK_OK(import.opened);
    CHECK_EQ(import.size, s.size);
    check_import(0, s.size);
    check_import(1, s.size);

    /* Both imports are the same memory. */
    expected[3 * page] ^= 0xFF;
    peer_write(0, 3 * page, expected + 3 * page, 1);
    check_import(1, s.size);

    CHECK_OK(zeMemPutIpcHandle(context, handle));
    CHECK_TRUE(peer_open(2, handle).opened != ZE_RESULT_SUCCESS);
    check_import(0, s.size);
    CHECK_OK(peer_close(0));
    check_import(1, s.size);
    CHECK_OK(peer_close(1));
    CHECK_OK(zeVirtualMemFree(context, s.reservations[0], s.reserved[0]));
    CHECK_OK(zeVirtualMemFree(context, s.reservations[1], s.reserved[1]));
}

/* Growth behind the exported window, and other memory at its address, are not part of it. */
static void test_growth(void)
{
    unsigned char           *base = reserve(4 * page);
    ze_physical_mem_handle_t first = make_object(2 * page), second = make_object(2 * page);
    ze_ipc_mem_handle_t      handle, grown;
    struct peer_import       import;

    map_object(base, 2 * page, first, 0);
    fill_pattern(expected, 4 * page, 8);
    write_memory(base, expected, 2 * page);
    NEED(export_range(base, 2 * page, &handle));
    CHECK(export_range(base, 4 * page, &grown), ZE_RESULT_ERROR_ADDRESS_NOT_FOUND);
    map_object(base + 2 * page, 2 * page, second, 0);
    write_memory(base + 2 * page, expected + 2 * page, 2 * page);
    import = peer_open(0, handle);
    CHECK_OK(import.opened);
    CHECK_EQ(import.size, 2 * page);
    NEED(export_range(base, 4 * page, &grown));
    import = peer_open(1, grown);
    CHECK_OK(import.opened);
    CHECK_EQ(import.size, 4 * page);
    check_import(0, 2 * page);
    check_import(1, 4 * page);

    /* The second object at the place of the first: the old export still means the first. */
    CHECK_OK(zeVirtualMemUnmap(context, base, 2 * page));
    CHECK_OK(zeVirtualMemUnmap(context, base + 2 * page, 2 * page));
    map_object(base, 2 * page, second, 0);
    import = peer_open(2, handle);
    CHECK_OK(import.opened);
    check_import(2, 2 * page);
    CHECK_OK(zeMemPutIpcHandle(context, grown));
    NEED(export_range(base, 2 * page, &grown));
    CHECK_OK(peer_open(3, grown).opened);
    peer_read(3, 0, seen, 2 * page);
    CHECK_EQ(memcmp(seen, expected + 2 * page, 2 * page), 0);

    CHECK_OK(peer_close(0));
    CHECK_OK(peer_close(1));
    CHECK_OK(peer_close(2));
    CHECK_OK(peer_close(3));
    CHECK_OK(zeMemPutIpcHandle(context, grown));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    CHECK_OK(zeVirtualMemUnmap(context, base, 2 * page));
    CHECK_OK(zePhysicalMemDestroy(context, first));
    CHECK_OK(zePhysicalMemDestroy(context, second));
    CHECK_OK(zeVirtualMemFree(context, base, 4 * page));
}

/* Free of the reservation at the exported address gives the export back. */
static void test_reservation_freed(void)
{
    unsigned char           *base   = reserve(2 * page);
    ze_physical_mem_handle_t object = make_object(2 * page);
    ze_ipc_mem_handle_t      handle;

    map_object(base, 2 * page, object, 0);
    fill_pattern(expected, 2 * page, 9);
    write_memory(base, expected, 2 * page);
    NEED(export_range(base, 2 * page, &handle));
    CHECK_OK(peer_open(0, handle).opened);
    CHECK_OK(zeVirtualMemUnmap(context, base, 2 * page));
    CHECK_OK(zePhysicalMemDestroy(context, object));
    CHECK_OK(zeVirtualMemFree(context, base, 2 * page));
    CHECK_TRUE(peer_open(1, handle).opened != ZE_RESULT_SUCCESS);
    check_import(0, 2 * page);
    CHECK_OK(peer_close(0));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
}

/* 1000 objects in one range; the order is that of the addresses. */
static void test_many_objects(void)
{
    enum { OBJECTS = 1000 };
    ze_physical_mem_handle_t *objects = calloc(OBJECTS, sizeof(*objects));
    unsigned char            *base    = reserve(OBJECTS * page), tag[8];
    ze_ipc_mem_handle_t       handle;
    struct peer_import        import;
    unsigned                  i;

    for (i = 0; i < OBJECTS; i++) {
        objects[i] = make_object(page);
    }
    for (i = 0; i < OBJECTS; i++) { /* neither in the order of creation nor of mapping */
        unsigned place = i * 7 % OBJECTS;

        map_object(base + place * page, page, objects[i], 0);
        fill_pattern(tag, sizeof(tag), place);
        write_memory(base + place * page + page - sizeof(tag), tag, sizeof(tag));
    }
    NEED(export_range(base, OBJECTS * page, &handle));
    import = peer_open(0, handle);
    CHECK_OK(import.opened);
    CHECK_EQ(import.size, OBJECTS * page);
    for (i = 0; i < OBJECTS; i++) {
        peer_read(0, i * page + page - sizeof(tag), tag, sizeof(tag));
        fill_pattern(seen, sizeof(tag), i);
        if (!CHECK_EQ(memcmp(seen, tag, sizeof(tag)), 0)) {
            printf("   object %u\n", i);
        }
    }
    CHECK_OK(peer_close(0));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    for (i = 0; i < OBJECTS; i++) {
        CHECK_OK(zeVirtualMemUnmap(context, base + i * 7 % OBJECTS * page, page));
        CHECK_OK(zePhysicalMemDestroy(context, objects[i]));
    }
    CHECK_OK(zeVirtualMemFree(context, base, OBJECTS * page));
    free(objects);
}

/* Unknown, already put, and damaged handles. */
static void test_bad_handles(void)
{
    ze_ipc_mem_handle_t      handle, damaged;
    unsigned char           *base   = reserve(2 * page);
    ze_physical_mem_handle_t object = make_object(2 * page);
    unsigned                 i;

    memset(&handle, 0, sizeof(handle));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    CHECK_TRUE(peer_open(0, handle).opened != ZE_RESULT_SUCCESS);
    memset(&handle, 0xA5, sizeof(handle));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    CHECK_TRUE(peer_open(0, handle).opened != ZE_RESULT_SUCCESS);

    map_object(base, 2 * page, object, 0);
    NEED(export_range(base, 2 * page, &handle));
    for (i = 4; i < sizeof(handle); i++) { /* the first four bytes are the caller's */
        damaged = handle;
        damaged.data[i] ^= 0x41;
        if (peer_open(0, damaged).opened == ZE_RESULT_SUCCESS) {
            /* A byte without meaning may change; memory must not be another's. */
            CHECK_OK(peer_close(0));
        }
    }
    CHECK_OK(peer_open(0, handle).opened);
    CHECK_OK(peer_close(0));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    CHECK_OK(zeVirtualMemUnmap(context, base, 2 * page));
    CHECK_OK(zePhysicalMemDestroy(context, object));
    CHECK_OK(zeVirtualMemFree(context, base, 2 * page));
}

/* The exporter opens its own handle. */
static void test_same_process(void)
{
    struct spread       s;
    ze_ipc_mem_handle_t handle;
    void               *p, *base;
    size_t              size;

    spread_make(&s, 0);
    fill_pattern(expected, s.size, 10);
    write_memory(s.base, expected, s.size);
    NEED(export_range(s.base + 100, s.size - 200, &handle));
    NEED(zeMemOpenIpcHandle(context, device, handle, 0, &p));
    CHECK_TRUE(p != s.base + 100);
    CHECK_OK(zeMemGetAddressRange(context, p, &base, &size));
    CHECK_TRUE(base == p);
    CHECK_EQ(size, s.size - 200);
    read_memory(seen, p, s.size - 200);
    CHECK_EQ(memcmp(seen, expected + 100, s.size - 200), 0);
    CHECK_EQ(cpu_faults(p), 2);
    CHECK_OK(zeMemCloseIpcHandle(context, p));
    CHECK_TRUE(zeMemCloseIpcHandle(context, p) != ZE_RESULT_SUCCESS);
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    spread_drop(&s, true);
}

int main(int argc, char **argv)
{
    peer_main(argc, argv);
    test_start();
    expected = malloc(8 * page);
    seen     = malloc(8 * page);
    peer_start();
    test_unmapped();
    test_growth();
    test_reservation_freed();
    test_many_objects();
    test_bad_handles();
    test_same_process();
    peer_stop();
    free(expected);
    free(seen);
    return test_end();
}
