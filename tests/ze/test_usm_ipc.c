/* Handles of plain allocations between processes: contents both ways, address range, put, and the
 * memory living as long as somebody has it open. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <sys/syscall.h>
#include <unistd.h>

static void test_allocation(const char *name, unsigned char *p, size_t size, uint32_t type,
                            int faults)
{
    unsigned char      *expected = malloc(size), *seen = malloc(size), mark = 0x99;
    ze_ipc_mem_handle_t handle, again;
    struct peer_import  import;
    unsigned            before = failures;

    fill_pattern(expected, size, 3);
    write_memory(p, expected, size);
    NEED(zeMemGetIpcHandle(context, p, &handle));
    NEED(zeMemGetIpcHandle(context, p, &again));
    CHECK_EQ(memcmp(&handle, &again, sizeof(handle)), 0);
    import = peer_open(0, handle);
    if (CHECK_OK(import.opened)) {
        CHECK_EQ(import.base, 0);
        CHECK_TRUE(import.size >= size);
        CHECK_EQ(import.size_in, import.size);
        CHECK_EQ(import.type, type);
        CHECK_EQ(import.faults, faults);
        peer_read(0, 0, seen, size);
        CHECK_EQ(memcmp(seen, expected, size), 0);
        expected[size - 1] = mark;
        peer_write(0, size - 1, &mark, 1);
        read_memory(seen, p, size);
        CHECK_EQ(memcmp(seen, expected, size), 0);

        /* One put for each get; then freed here, and still there. */
        CHECK_OK(zeMemPutIpcHandle(context, again));
        CHECK_OK(peer_open(1, handle).opened);
        CHECK_OK(peer_close(1));
        CHECK_OK(zeMemPutIpcHandle(context, handle));
        CHECK_OK(zeMemFree(context, p));
        peer_read(0, 0, seen, size);
        CHECK_EQ(memcmp(seen, expected, size), 0);
        CHECK_OK(peer_close(0));
    }
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    if (failures != before) {
        printf("   allocation: %s of %zu bytes\n", name, size);
    }
    free(expected);
    free(seen);
}

/* What MPICH and others do: the fd of the handle is moved to the importer by other means. */
static void test_replaced_fd(void)
{
    unsigned char      *p = alloc_device(2 * page), *expected = malloc(2 * page);
    unsigned char      *seen = malloc(2 * page);
    ze_ipc_mem_handle_t handle;
    void               *opened;
    int                 fd, own;

    fill_pattern(expected, 2 * page, 4);
    write_memory(p, expected, 2 * page);
    NEED(zeMemGetIpcHandle(context, p, &handle));
    memcpy(&fd, handle.data, sizeof(fd));
    own = dup(fd);
    CHECK_TRUE(own >= 0);
    memcpy(handle.data, &own, sizeof(own));
    if (CHECK_OK(zeMemOpenIpcHandle(context, device, handle, 0, &opened))) {
        read_memory(seen, opened, 2 * page);
        CHECK_EQ(memcmp(seen, expected, 2 * page), 0);
        CHECK_OK(zeMemCloseIpcHandle(context, opened));
    }
    close(own);
    memcpy(handle.data, &fd, sizeof(fd));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    CHECK_OK(zeMemFree(context, p));
    free(expected);
    free(seen);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {1, 4096, 65536, 100000, 3 << 20};
    size_t              i;
    ze_ipc_mem_handle_t handle;
    char                local[64];

    peer_main(argc, argv);
    test_start();
    peer_start();
    for (i = 0; i < COUNT(sizes); i++) {
        test_allocation("device", alloc_device(sizes[i]), sizes[i], ZE_MEMORY_TYPE_DEVICE, 2);
        test_allocation("host", alloc_host(sizes[i]), sizes[i], ZE_MEMORY_TYPE_HOST, 0);
    }
    test_replaced_fd();
    CHECK_TRUE(zeMemGetIpcHandle(context, local, &handle) != ZE_RESULT_SUCCESS);
    CHECK(zeMemGetIpcHandle(context, NULL, &handle), ZE_RESULT_ERROR_INVALID_NULL_POINTER);
    peer_stop();
    return test_end();
}
