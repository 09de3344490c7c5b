/* Two devices: copies and fills between memory local to each, on lists of either, in any shape, in
 * order with events; objects that may move; handles opened on the device that does not have the
 * memory; and what the devices say of each other. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPACE ((size_t)6 << 20) /* more than the buffer between the devices holds */

static ze_device_handle_t       devices[2];
static ze_command_list_handle_t immediate[2], regular[2];
static ze_command_queue_handle_t queues[2];
static ze_event_pool_handle_t   pool;

enum { ONE, TWO, MIXED, HOST, PLAIN, KINDS }; /* local to a device, of both, system, malloc */
static unsigned char *memory[KINDS], *model[KINDS], *seen;
static ze_physical_mem_handle_t parts[3];

static ze_physical_mem_handle_t object_on(ze_device_handle_t owner, size_t size, uint32_t flags)
{
    ze_physical_mem_desc_t   desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                     .flags = flags, .size = size};
    ze_physical_mem_handle_t object;

    NEED(zePhysicalMemCreate(context, owner, &desc, &object));
    return object;
}

static void *device_memory(ze_device_handle_t owner, size_t size)
{
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    void                      *p;

    NEED(zeMemAllocDevice(context, &desc, size, 0, owner, &p));
    return p;
}

/* Read with the device that has it. */
static void look(unsigned kind, size_t from, size_t length)
{
    NEED(zeCommandListAppendMemoryCopy(immediate[kind == TWO], seen + from, memory[kind] + from,
                                       length, NULL, 0, NULL));
    NEED(zeCommandListHostSynchronize(immediate[kind == TWO], UINT64_MAX));
}

static bool check_memory(unsigned kind)
{
    size_t i = SPACE;

    look(kind, 0, SPACE);
    if (memcmp(seen, model[kind], SPACE) != 0) {
        for (i = 0; seen[i] == model[kind][i]; i++) {
        }
    }
    return CHECK_EQ(i, SPACE);
}

static void make_lists(void)
{
    ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                    .mode  = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_command_list_desc_t  list_desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC};

    for (unsigned i = 0; i < 2; i++) {
        NEED(zeCommandListCreateImmediate(context, devices[i], &desc, &immediate[i]));
        NEED(zeCommandListCreate(context, devices[i], &list_desc, &regular[i]));
        NEED(zeCommandQueueCreate(context, devices[i], &desc, &queues[i]));
    }
}

static void set_up(void)
{
    ze_event_pool_desc_t pool_desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                      .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE |
                                               ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP,
                                      .count = 8};
    const size_t         third     = 2 << 20;

    NEED(zeEventPoolCreate(context, &pool_desc, 0, NULL, &pool));
    memory[ONE]   = device_memory(devices[0], SPACE);
    memory[TWO]   = device_memory(devices[1], SPACE);
    memory[HOST]  = alloc_host(SPACE);
    memory[PLAIN] = malloc(SPACE);
    memory[MIXED] = reserve(SPACE);
    for (unsigned i = 0; i < 3; i++) { /* device 1, device 2, system */
        parts[i] = object_on(devices[i == 1], third,
                             i == 2 ? ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_HOST :
                                      ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE);
        map_object(memory[MIXED] + i * third, third, parts[i], 0);
    }
    seen = malloc(SPACE);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        model[kind] = malloc(SPACE);
        fill_pattern(model[kind], SPACE, 40 + kind);
        NEED(zeCommandListAppendMemoryCopy(immediate[kind == TWO], memory[kind], model[kind],
                                           SPACE, NULL, 0, NULL));
        NEED(zeCommandListHostSynchronize(immediate[kind == TWO], UINT64_MAX));
        check_memory(kind);
    }
}

/* ---- the same operation on an immediate and on a regular list ---- */

static void finish_regular(unsigned on)
{
    CHECK_OK(zeCommandListClose(regular[on]));
    CHECK_OK(zeCommandQueueExecuteCommandLists(queues[on], 1, &regular[on], NULL));
    CHECK_OK(zeCommandQueueSynchronize(queues[on], UINT64_MAX));
    CHECK_OK(zeCommandListReset(regular[on]));
}

static void copy(unsigned on, bool record, void *to, const void *from, size_t length)
{
    ze_command_list_handle_t l = record ? regular[on] : immediate[on];

    CHECK_OK(zeCommandListAppendMemoryCopy(l, to, from, length, NULL, 0, NULL));
    if (record) {
        finish_regular(on);
    } else {
        CHECK_OK(zeCommandListHostSynchronize(l, UINT64_MAX));
    }
}

static void check_copies(void)
{
    static const struct {
        size_t to, from, length;
    } places[] = {
        {0, 0, 1},           {3, 4093, 5},           {65535, 1, 65537},
        {1 << 20, 7, 3 << 20}, {11, 2097149, 2097160}, {0, 0, SPACE},
    };

    for (unsigned to = 0; to < KINDS; to++) {
        for (unsigned from = 0; from < KINDS; from++) {
            for (unsigned i = 0; i < COUNT(places) * 2; i++) {
                unsigned place = i / 2, on = (i + to + from + place) & 1;

                if (to == from) {
                    continue;
                }
                copy(on, (i ^ place) & 1, memory[to] + places[place].to,
                     memory[from] + places[place].from, places[place].length);
                memcpy(model[to] + places[place].to, model[from] + places[place].from,
                       places[place].length);
                if (!check_memory(to)) {
                    printf("... copy %u of kind %u to kind %u on device %u\n", place, from, to,
                           on);
                }
            }
            fill_pattern(model[to], SPACE, 100 + to * KINDS + from);
            copy(to == TWO, false, memory[to], model[to], SPACE);
        }
    }
}

static void check_fills(void)
{
    static const size_t sizes[] = {1, 2, 4, 8, 16, 32, 64, 128};
    unsigned char       pattern[128];
    const size_t        at = (2 << 20) - 24, length = (2 << 20) + 48; /* of each object a part */

    fill_pattern(pattern, sizeof(pattern), 77);
    for (unsigned i = 0; i < COUNT(sizes); i++) {
        for (unsigned kind = ONE; kind <= MIXED; kind++) {
            unsigned on = i & 1;

            CHECK_OK(zeCommandListAppendMemoryFill(immediate[on], memory[kind] + at, pattern,
                                                   sizes[i], length, NULL, 0, NULL));
            CHECK_OK(zeCommandListHostSynchronize(immediate[on], UINT64_MAX));
            for (size_t k = 0; k < length; k++) {
                model[kind][at + k] = pattern[k % sizes[i]];
            }
            check_memory(kind);
        }
    }
}

static void check_regions(void)
{
    const ze_copy_region_t to = {5, 3, 1, 100, 20, 3}, from = {17, 0, 0, 100, 20, 3};

    for (unsigned on = 0; on < 2; on++) {
        for (unsigned kind = ONE; kind <= MIXED; kind++) {
            unsigned other = (kind + 1) % 3;

            CHECK_OK(zeCommandListAppendMemoryCopyRegion(
                immediate[on], memory[kind] + 2097000, &to, 256, 8192, memory[other] + 2096000,
                &from, 300, 6000, NULL, 0, NULL));
            CHECK_OK(zeCommandListHostSynchronize(immediate[on], UINT64_MAX));
            for (unsigned z = 0; z < 3; z++) {
                for (unsigned y = 0; y < 20; y++) {
                    memcpy(model[kind] + 2097000 + (z + 1) * 8192 + (y + 3) * 256 + 5,
                           model[other] + 2096000 + z * 6000 + y * 300 + 17, 100);
                }
            }
            check_memory(kind);
        }
    }
}

/* A chain over both devices that the host starts last: each step reads what the one before wrote. */
static void check_order(void)
{
    ze_event_desc_t   desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC,
                              .signal = ZE_EVENT_SCOPE_FLAG_HOST};
    ze_event_handle_t events[8];

    for (desc.index = 0; desc.index < COUNT(events); desc.index++) {
        NEED(zeEventCreate(pool, &desc, &events[desc.index]));
    }
    for (unsigned round = 0; round < 20; round++) {
        const size_t length = 4097 + round * 70000, at = round * 13;
        ze_kernel_timestamp_result_t times;

        fill_pattern(model[PLAIN], length, 900 + round);
        memcpy(memory[PLAIN], model[PLAIN], length);
        for (unsigned i = 0; i < COUNT(events); i++) {
            CHECK_OK(zeEventHostReset(events[i]));
        }
        /* plain -> 1 -> 2 -> 1 (elsewhere) -> plain (elsewhere); the lists take turns */
        CHECK_OK(zeCommandListAppendMemoryCopy(immediate[1], memory[ONE] + at, memory[PLAIN],
                                               length, events[1], 1, &events[0]));
        CHECK_OK(zeCommandListAppendMemoryCopy(immediate[0], memory[TWO] + at, memory[ONE] + at,
                                               length, events[2], 1, &events[1]));
        CHECK_OK(zeCommandListAppendMemoryCopy(immediate[1], memory[ONE] + SPACE / 2 + at,
                                               memory[TWO] + at, length, events[3], 1,
                                               &events[2]));
        CHECK_OK(zeCommandListAppendMemoryCopy(immediate[1], memory[PLAIN] + SPACE / 2,
                                               memory[ONE] + SPACE / 2 + at, length, events[4], 0,
                                               NULL));
        CHECK(zeEventQueryStatus(events[1]), ZE_RESULT_NOT_READY);
        CHECK_OK(zeEventHostSignal(events[0]));
        CHECK_OK(zeEventHostSynchronize(events[4], UINT64_MAX));
        CHECK_EQ(memcmp(memory[PLAIN] + SPACE / 2, model[PLAIN], length), 0);
        CHECK_OK(zeEventQueryKernelTimestamp(events[4], &times));
        CHECK_TRUE(times.global.kernelStart <= times.global.kernelEnd);
        memcpy(model[ONE] + at, model[PLAIN], length);
        memcpy(model[TWO] + at, model[PLAIN], length);
        memcpy(model[ONE] + SPACE / 2 + at, model[PLAIN], length);
        memcpy(model[PLAIN] + SPACE / 2, model[PLAIN], length);
    }
    check_memory(ONE);
    check_memory(TWO);
    for (unsigned i = 0; i < COUNT(events); i++) {
        CHECK_OK(zeEventDestroy(events[i]));
    }
}

/* A time written to where the device does not reach. */
static void check_timestamp(void)
{
    uint64_t *at = (uint64_t *)(memory[TWO] + 4096), now = 0, later = 0;

    CHECK_OK(zeCommandListAppendWriteGlobalTimestamp(immediate[0], at, NULL, 0, NULL));
    CHECK_OK(zeCommandListAppendWriteGlobalTimestamp(immediate[0], at + 1, NULL, 0, NULL));
    CHECK_OK(zeCommandListAppendMemoryCopy(immediate[0], &now, at, 8, NULL, 0, NULL));
    CHECK_OK(zeCommandListAppendMemoryCopy(immediate[0], &later, at + 1, 8, NULL, 0, NULL));
    CHECK_OK(zeCommandListHostSynchronize(immediate[0], UINT64_MAX));
    CHECK_TRUE(now != 0 && later >= now);
    copy(1, false, memory[TWO], model[TWO], SPACE);
}

/* ---- memory that may move, and handles ---- */

/* Allowed in both memories: the other device reaches it, and the first still does. */
static void check_movable(void)
{
    const size_t             size   = 1 << 20;
    ze_physical_mem_handle_t object = object_on(devices[0], size,
                                                ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE |
                                                    ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_HOST);
    unsigned char           *p = reserve(size);
    ze_memory_allocation_properties_t props = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};

    map_object(p, size, object, 0);
    copy(0, false, p, model[ONE], size);
    copy(1, false, memory[TWO] + 12345, p, size);
    memcpy(model[TWO] + 12345, model[ONE], size);
    check_memory(TWO);
    copy(1, false, p, model[MIXED], size);
    copy(0, false, seen, p, size);
    CHECK_EQ(memcmp(seen, model[MIXED], size), 0);
    CHECK_OK(zeMemGetAllocProperties(context, p, &props, NULL));
    CHECK_EQ(props.type, ZE_MEMORY_TYPE_DEVICE);
    CHECK_OK(zeVirtualMemUnmap(context, p, size));
    CHECK_OK(zeVirtualMemFree(context, p, size));
    CHECK_OK(zePhysicalMemDestroy(context, object));
}

/* Opened on device @a on: read and written there. */
static void check_opened(unsigned on, ze_ipc_mem_handle_t handle, unsigned kind, size_t size)
{
    unsigned char *p;
    void          *base;
    size_t         length;

    if (!CHECK_OK(zeMemOpenIpcHandle(context, devices[on], handle, 0, (void **)&p))) {
        return;
    }
    CHECK_OK(zeMemGetAddressRange(context, p, &base, &length));
    CHECK_TRUE(base == p && length == size);
    copy(on, false, seen, p, size);
    CHECK_EQ(memcmp(seen, model[kind], size), 0);
    fill_pattern(model[kind], size, 500 + kind + on);
    copy(on, true, p, model[kind], size);
    CHECK_OK(zeMemCloseIpcHandle(context, p));
}

static void export_one(unsigned kind, ze_ipc_mem_handle_t *handle, uint64_t *size)
{
    ze_ipc_phys_mem_handle_range_ext_desc_t desc = {
        .stype = ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC, .size = SPACE - 3};

    *size = kind == MIXED ? SPACE - 3 : SPACE;
    NEED(zeMemGetIpcHandleWithProperties(context, memory[kind], kind == MIXED ? &desc : NULL,
                                         handle));
}

static void check_handles(void)
{
    ze_ipc_mem_handle_t handle;
    uint64_t            size;

    for (unsigned kind = ONE; kind <= MIXED; kind++) {
        export_one(kind, &handle, &size);
        for (unsigned on = 0; on < 2; on++) {
            check_opened(on, handle, kind, size);
            check_memory(kind);
        }
        CHECK_OK(zeMemPutIpcHandle(context, handle));
    }
}

static int finish(void)
{
    unsigned on;

    for (on = 0; on < 2; on++) {
        CHECK_OK(zeCommandListDestroy(regular[on]));
        CHECK_OK(zeCommandListDestroy(immediate[on]));
        CHECK_OK(zeCommandQueueDestroy(queues[on]));
    }
    if (pool != NULL) {
        CHECK_OK(zeEventPoolDestroy(pool));
    }
    return test_end();
}

struct order {
    ze_ipc_mem_handle_t handle;
    uint64_t            kind, size;
};

/* The same in another process, which is this program again. */
static int importer(int fd)
{
    struct order order;

    seen = malloc(SPACE);
    while (read(fd, &order, sizeof(order)) == sizeof(order)) {
        model[order.kind] = malloc(SPACE);
        for (unsigned on = 0; on < 2; on++) {
            fill_pattern(model[order.kind], order.size, (on == 0 ? 300 : 500) + order.kind);
            check_opened(on, order.handle, order.kind, order.size);
        }
        free(model[order.kind]);
        if (write(fd, &failures, sizeof(failures)) != sizeof(failures)) {
            return 1;
        }
    }
    free(seen);
    return finish();
}

static void check_peer(const char *self)
{
    int          fds[2], status = 0;
    char         number[16];
    unsigned     failed;
    struct order order;
    pid_t        pid;

    NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0 ? ZE_RESULT_SUCCESS : 1);
    pid = fork();
    if (pid == 0) {
        close(fds[0]);
        snprintf(number, sizeof(number), "%d", fds[1]);
        execl("/proc/self/exe", self, "importer", number, NULL);
        _exit(1);
    }
    close(fds[1]);
    for (unsigned kind = ONE; kind <= MIXED; kind++) {
        export_one(kind, &order.handle, &order.size);
        order.kind = kind;
        fill_pattern(model[kind], order.size, 300 + kind);
        copy(kind == TWO, false, memory[kind], model[kind], SPACE);
        failed = 1;
        CHECK_TRUE(write(fds[0], &order, sizeof(order)) == sizeof(order));
        CHECK_TRUE(read(fds[0], &failed, sizeof(failed)) == sizeof(failed));
        CHECK_EQ(failed, 0);
        fill_pattern(model[kind], order.size, 501 + kind);
        check_memory(kind);
        CHECK_OK(zeMemPutIpcHandle(context, order.handle));
    }
    close(fds[0]);
    waitpid(pid, &status, 0);
    CHECK_EQ(status, 0);
}

/* The dma-buf of memory that may live on one device only, taken as an object of the other. */
static void check_foreign_dmabuf(void)
{
    const uint32_t either = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE |
                            ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_HOST;
    ze_external_memory_import_fd_t import = {.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD,
                                             .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    ze_external_memory_export_fd_t fd = {.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD,
                                         .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    ze_physical_mem_properties_t properties = {
        .stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_PROPERTIES, .pNext = &fd};
    ze_physical_mem_desc_t   desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                     .pNext = &import, .size = page};
    ze_physical_mem_handle_t object, other = NULL;
    const char              *why = NULL;

    object = object_on(devices[0], page, ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE);
    NEED(zePhysicalMemGetProperties(context, object, &properties));
    import.fd = fd.fd;
    CHECK(zePhysicalMemCreate(context, devices[1], &desc, &other),
          ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
    CHECK_OK(zeDriverGetLastErrorDescription(driver, &why));
    CHECK_TRUE(why != NULL && strstr(why, "memory of another device only") != NULL);
    CHECK_EQ((uintptr_t)other, 0);
    CHECK_OK(zePhysicalMemDestroy(context, object));

    object = object_on(devices[0], page, either);
    NEED(zePhysicalMemGetProperties(context, object, &properties));
    import.fd = fd.fd;
    if (CHECK_OK(zePhysicalMemCreate(context, devices[1], &desc, &other))) {
        CHECK_OK(zePhysicalMemDestroy(context, other));
    }
    CHECK_OK(zePhysicalMemDestroy(context, object));
}

/* What the devices say of each other is what they can do by themselves. */
static void check_answers(void)
{
    ze_device_p2p_properties_t p2p = {.stype = ZE_STRUCTURE_TYPE_DEVICE_P2P_PROPERTIES};
    ze_bool_t                  can = 2;

    for (unsigned i = 0; i < 4; i++) {
        CHECK_OK(zeDeviceCanAccessPeer(devices[i & 1], devices[i >> 1], &can));
        CHECK_EQ(can, (i & 1) == (i >> 1));
        CHECK_OK(zeDeviceGetP2PProperties(devices[i & 1], devices[i >> 1], &p2p));
        CHECK_EQ(p2p.flags & ZE_DEVICE_P2P_PROPERTY_FLAG_ACCESS, 0);
    }
}

/* This program again with a few copies: one line about the way they take. */
static void check_said_once(const char *self)
{
    char     text[8192];
    int      fds[2], status;
    ssize_t  n;
    size_t   length = 0;
    unsigned lines  = 0;
    pid_t    pid;

    NEED(pipe(fds) == 0 ? ZE_RESULT_SUCCESS : 1);
    pid = fork();
    if (pid == 0) {
        dup2(fds[1], 2);
        close(fds[0]);
        close(fds[1]);
        execl("/proc/self/exe", self, "copies", NULL);
        _exit(1);
    }
    close(fds[1]);
    while ((n = read(fds[0], text + length, sizeof(text) - 1 - length)) > 0) {
        length += (size_t)n;
    }
    close(fds[0]);
    text[length] = '\0';
    waitpid(pid, &status, 0);
    CHECK_EQ(status, 0);
    for (const char *s = text; (s = strstr(s, "through system memory")) != NULL; s++) {
        lines++;
    }
    CHECK_EQ(lines, 1);
}

int main(int argc, char **argv)
{
    uint32_t n = 2;

    if (getenv("ZERANGE_SOFT") != NULL) {
        setenv("ZERANGE_SOFT", "pvc,pvc", 1);
    }
    test_start();
    if (zeDeviceGet(driver, &n, devices) != ZE_RESULT_SUCCESS || n < 2) {
        printf("one device\n");
        return 77;
    }
    make_lists();
    if (argc > 2) {
        return importer(atoi(argv[2]));
    }
    set_up();
    if (argc > 1) {
        copy(0, false, memory[TWO], memory[ONE], SPACE);
        copy(1, true, memory[ONE], memory[TWO], SPACE);
        return finish();
    }
    check_answers();
    check_foreign_dmabuf();
    check_copies();
    check_fills();
    check_regions();
    check_order();
    check_timestamp();
    check_movable();
    check_handles();
    check_peer(argv[0]);
    check_said_once(argv[0]);
    return finish();
}
