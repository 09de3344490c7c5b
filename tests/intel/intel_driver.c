/* A client of Intel's own Level Zero driver on the shim: memory, virtual memory, sharing between
 * processes, copies and fills on the copy-only queue group, fences, events; every byte checked.
 *   intel_driver            all of it
 *   intel_driver walker     a copy on the compute group is a kernel: it must not succeed in silence
 *   intel_driver extensions the names of the driver's extensions */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <level_zero/ze_api.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call)                                                                           \
    do {                                                                                      \
        ze_result_t result_ = (call);                                                         \
        if (result_ != ZE_RESULT_SUCCESS) {                                                   \
            fprintf(stderr, "%s:%d: %s: 0x%x\n", __FILE__, __LINE__, #call, result_);         \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)
#define REQUIRE(what)                                                                         \
    do {                                                                                      \
        if (!(what)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

#define TIMEOUT_NS UINT64_C(20000000000)

static ze_driver_handle_t  driver;
static ze_device_handle_t  device;
static ze_context_handle_t context;
static uint32_t            copy_group, compute_group;
static size_t              most_pattern; /* bytes, of a fill on the copy group */

static void find_groups(void)
{
    ze_command_queue_group_properties_t props[8];
    uint32_t                            count = 8, i;

    memset(props, 0, sizeof(props));
    for (i = 0; i < count; i++) {
        props[i].stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES;
    }
    CHECK(zeDeviceGetCommandQueueGroupProperties(device, &count, props));
    copy_group = compute_group = UINT32_MAX;
    for (i = 0; i < count; i++) {
        bool compute = props[i].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE;
        bool copy    = props[i].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY;

        if (compute && compute_group == UINT32_MAX) {
            compute_group = i;
        }
        if (copy && !compute && copy_group == UINT32_MAX) {
            copy_group   = i;
            most_pattern = props[i].maxMemoryFillPatternSize;
        }
        printf("group %u: flags 0x%x, %u queues\n", i, props[i].flags, props[i].numQueues);
    }
    REQUIRE(copy_group != UINT32_MAX);
}

static void start(void)
{
    ze_context_desc_t      desc  = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_device_properties_t props = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    uint32_t               count = 1;

    CHECK(zeInit(ZE_INIT_FLAG_GPU_ONLY));
    CHECK(zeDriverGet(&count, &driver));
    REQUIRE(count == 1);
    CHECK(zeDeviceGet(driver, &count, &device));
    REQUIRE(count == 1);
    CHECK(zeDeviceGetProperties(device, &props));
    printf("device: %s, 0x%x\n", props.name, props.deviceId);
    CHECK(zeContextCreate(driver, &desc, &context));
    find_groups();
}

static ze_command_list_handle_t immediate(uint32_t group)
{
    ze_command_queue_desc_t desc = {.stype   = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                    .ordinal = group,
                                    .mode    = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS};
    ze_command_list_handle_t list;

    CHECK(zeCommandListCreateImmediate(context, device, &desc, &list));
    return list;
}

static void fill_host(uint8_t *bytes, size_t size, uint32_t seed)
{
    size_t i;

    for (i = 0; i < size; i++) {
        seed     = seed * 1664525u + 1013904223u;
        bytes[i] = seed >> 24;
    }
}

static void *device_memory(size_t size)
{
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    void                      *pointer;

    CHECK(zeMemAllocDevice(context, &desc, size, 0, device, &pointer));
    return pointer;
}

static uint8_t *host_memory(size_t size)
{
    ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void                    *pointer;

    CHECK(zeMemAllocHost(context, &desc, size, 0, &pointer));
    return pointer;
}

/* Host to device to device to host, at odd offsets too, from allocated and from plain memory. */
static void copies(void)
{
    static const size_t sizes[]   = {1, 4095, 65536, 1048577, 8 << 20};
    static const size_t offsets[] = {0, 3};
    ze_command_list_handle_t list = immediate(copy_group);
    size_t                   most = (8 << 20) + 64;
    uint8_t                 *in = host_memory(most), *out = host_memory(most), *plain = malloc(most);
    char                    *a = device_memory(most), *b = device_memory(most);
    unsigned                 i, j;

    REQUIRE(plain != NULL);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (j = 0; j < 2; j++) {
            uint8_t *from = j == 0 ? in : plain;
            size_t   at   = offsets[j];

            fill_host(from, sizes[i], i * 7 + j);
            memset(out, 0, most);
            CHECK(zeCommandListAppendMemoryCopy(list, a + at, from, sizes[i], NULL, 0, NULL));
            CHECK(zeCommandListAppendMemoryCopy(list, b + 2 * at, a + at, sizes[i], NULL, 0, NULL));
            CHECK(zeCommandListAppendMemoryCopy(list, out, b + 2 * at, sizes[i], NULL, 0, NULL));
            REQUIRE(memcmp(from, out, sizes[i]) == 0);
            REQUIRE(out[sizes[i]] == 0);
        }
    }
    CHECK(zeMemFree(context, a));
    CHECK(zeMemFree(context, b));
    CHECK(zeMemFree(context, in));
    CHECK(zeMemFree(context, out));
    free(plain);
    CHECK(zeCommandListDestroy(list));
    printf("copies: ok\n");
}

static void fills(void)
{
    ze_command_list_handle_t list = immediate(copy_group);
    size_t                   size = 1 << 20, i;
    uint8_t                 *out  = host_memory(size);
    char                    *a    = device_memory(size);
    uint8_t                  byte = 0x5a;
    uint8_t                  word[4] = {0x78, 0x56, 0x34, 0x12};
    size_t                   width   = most_pattern < sizeof(word) ? 1 : sizeof(word);

    CHECK(zeCommandListAppendMemoryFill(list, a, &byte, 1, size, NULL, 0, NULL));
    CHECK(zeCommandListAppendMemoryFill(list, a + 4096, word, width, 65536, NULL, 0, NULL));
    CHECK(zeCommandListAppendMemoryCopy(list, out, a, size, NULL, 0, NULL));
    for (i = 0; i < size; i++) {
        uint8_t expect = i >= 4096 && i < 4096 + 65536 ? word[i % width] : byte;

        REQUIRE(out[i] == expect);
    }
    CHECK(zeMemFree(context, a));
    CHECK(zeMemFree(context, out));
    CHECK(zeCommandListDestroy(list));
    printf("fills: ok\n");
}

/* A regular list on a queue: fence, queue synchronisation, an event signalled by a copy. */
static void fences_and_events(void)
{
    ze_command_queue_desc_t queue_desc = {.stype   = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                          .ordinal = copy_group,
                                          .mode    = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_command_list_desc_t list_desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC,
                                        .commandQueueGroupOrdinal = copy_group};
    ze_event_pool_desc_t   pool_desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                        .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE,
                                        .count = 2};
    ze_event_desc_t event_desc = {.stype  = ZE_STRUCTURE_TYPE_EVENT_DESC,
                                  .signal = ZE_EVENT_SCOPE_FLAG_HOST,
                                  .wait   = ZE_EVENT_SCOPE_FLAG_HOST};
    ze_fence_desc_t          fence_desc = {.stype = ZE_STRUCTURE_TYPE_FENCE_DESC};
    ze_command_queue_handle_t queue;
    ze_command_list_handle_t  list;
    ze_event_pool_handle_t    pool;
    ze_event_handle_t         first, second;
    ze_fence_handle_t         fence;
    size_t                    size = 4 << 20;
    uint8_t                  *in = host_memory(size), *out = host_memory(size);
    char                     *a = device_memory(size);

    CHECK(zeCommandQueueCreate(context, device, &queue_desc, &queue));
    CHECK(zeCommandListCreate(context, device, &list_desc, &list));
    CHECK(zeEventPoolCreate(context, &pool_desc, 1, &device, &pool));
    CHECK(zeEventCreate(pool, &event_desc, &first));
    event_desc.index = 1;
    CHECK(zeEventCreate(pool, &event_desc, &second));
    CHECK(zeFenceCreate(queue, &fence_desc, &fence));
    fill_host(in, size, 99);
    memset(out, 0, size);
    CHECK(zeCommandListAppendMemoryCopy(list, a, in, size, first, 0, NULL));
    CHECK(zeCommandListAppendMemoryCopy(list, out, a, size, second, 1, &first));
    CHECK(zeCommandListClose(list));
    CHECK(zeCommandQueueExecuteCommandLists(queue, 1, &list, fence));
    CHECK(zeFenceHostSynchronize(fence, TIMEOUT_NS));
    CHECK(zeEventHostSynchronize(second, TIMEOUT_NS));
    CHECK(zeEventQueryStatus(first));
    CHECK(zeCommandQueueSynchronize(queue, TIMEOUT_NS));
    REQUIRE(memcmp(in, out, size) == 0);
    CHECK(zeFenceDestroy(fence));
    CHECK(zeEventDestroy(first));
    CHECK(zeEventDestroy(second));
    CHECK(zeEventPoolDestroy(pool));
    CHECK(zeCommandListDestroy(list));
    CHECK(zeCommandQueueDestroy(queue));
    CHECK(zeMemFree(context, a));
    CHECK(zeMemFree(context, in));
    CHECK(zeMemFree(context, out));
    printf("fences and events: ok\n");
}

/* One range over two physical objects; a copy spans both. */
static void virtual_memory(void)
{
    ze_command_list_handle_t list = immediate(copy_group);
    ze_physical_mem_handle_t object[2];
    ze_physical_mem_desc_t   desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC};
    size_t                   page, size;
    uint8_t                 *in, *out;
    void                    *range;
    unsigned                 i;

    CHECK(zeVirtualMemQueryPageSize(context, device, 4 << 20, &page));
    size = (4 << 20) / page * page;
    CHECK(zeVirtualMemReserve(context, NULL, 2 * size, &range));
    desc.size = size;
    for (i = 0; i < 2; i++) {
        CHECK(zePhysicalMemCreate(context, device, &desc, &object[i]));
        CHECK(zeVirtualMemMap(context, (char *)range + i * size, size, object[i], 0,
                              ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
    }
    in  = host_memory(2 * size);
    out = host_memory(2 * size);
    fill_host(in, 2 * size, 5);
    memset(out, 0, 2 * size);
    CHECK(zeCommandListAppendMemoryCopy(list, range, in, 2 * size, NULL, 0, NULL));
    CHECK(zeCommandListAppendMemoryCopy(list, out, (char *)range + 17, 2 * size - 17, NULL, 0, NULL));
    REQUIRE(memcmp(in + 17, out, 2 * size - 17) == 0);
    for (i = 0; i < 2; i++) {
        CHECK(zeVirtualMemUnmap(context, (char *)range + i * size, size));
        CHECK(zePhysicalMemDestroy(context, object[i]));
    }
    CHECK(zeVirtualMemFree(context, range, 2 * size));
    CHECK(zeMemFree(context, in));
    CHECK(zeMemFree(context, out));
    CHECK(zeCommandListDestroy(list));
    printf("virtual memory: ok\n");
}

/* ---- sharing: a second process reads what the first wrote, and answers ---- */

#define SHARED_SIZE ((size_t)1 << 20)

static void send_fd(int socket, int fd)
{
    char            space[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec    iov = {&byte, 1};
    struct msghdr   msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space,
                           .msg_controllen = sizeof(space)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type  = SCM_RIGHTS;
    head->cmsg_len   = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    REQUIRE(sendmsg(socket, &msg, 0) == 1);
}

static int receive_fd(int socket)
{
    char          space[CMSG_SPACE(sizeof(int))], byte;
    struct iovec  iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space,
                         .msg_controllen = sizeof(space)};
    int           fd;

    REQUIRE(recvmsg(socket, &msg, 0) == 1 && CMSG_FIRSTHDR(&msg) != NULL);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
    return fd;
}

static void importer(int socket)
{
    ze_external_memory_import_fd_t external = {.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMPORT_FD,
                                               .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC,
                                       .pNext = &external};
    ze_command_list_handle_t list;
    uint8_t                 *expect, *out;
    void                    *pointer;
    char                     byte = 1;

    external.fd = receive_fd(socket);
    start();
    list = immediate(copy_group);
    CHECK(zeMemAllocDevice(context, &desc, SHARED_SIZE, 0, device, &pointer));
    expect = host_memory(SHARED_SIZE);
    out    = host_memory(SHARED_SIZE);
    fill_host(expect, SHARED_SIZE, 77);
    CHECK(zeCommandListAppendMemoryCopy(list, out, pointer, SHARED_SIZE, NULL, 0, NULL));
    REQUIRE(memcmp(expect, out, SHARED_SIZE) == 0);
    fill_host(expect, SHARED_SIZE, 78);
    CHECK(zeCommandListAppendMemoryCopy(list, pointer, expect, SHARED_SIZE, NULL, 0, NULL));
    REQUIRE(write(socket, &byte, 1) == 1);
    exit(0);
}

static void exporter(int socket, pid_t child)
{
    ze_external_memory_export_desc_t wanted = {
        .stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC,
        .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC,
                                       .pNext = &wanted};
    ze_external_memory_export_fd_t external = {.stype = ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_FD,
                                               .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    ze_memory_allocation_properties_t props = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES, .pNext = &external};
    ze_command_list_handle_t list = immediate(copy_group);
    uint8_t                 *in = host_memory(SHARED_SIZE), *out = host_memory(SHARED_SIZE);
    void                    *pointer;
    char                     byte;
    int                      status;

    CHECK(zeMemAllocDevice(context, &desc, SHARED_SIZE, 0, device, &pointer));
    fill_host(in, SHARED_SIZE, 77);
    CHECK(zeCommandListAppendMemoryCopy(list, pointer, in, SHARED_SIZE, NULL, 0, NULL));
    CHECK(zeMemGetAllocProperties(context, pointer, &props, NULL));
    send_fd(socket, external.fd);
    REQUIRE(read(socket, &byte, 1) == 1);
    fill_host(in, SHARED_SIZE, 78);
    CHECK(zeCommandListAppendMemoryCopy(list, out, pointer, SHARED_SIZE, NULL, 0, NULL));
    REQUIRE(memcmp(in, out, SHARED_SIZE) == 0);
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    CHECK(zeMemFree(context, pointer));
    printf("sharing between processes: ok\n");
}

/* The driver's copies on the compute group are kernels, and no kernel runs here: the device must be
 * lost or the wait must end without success. */
static int walker(void)
{
    ze_command_queue_desc_t desc = {.stype   = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                    .ordinal = compute_group,
                                    .mode    = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_command_list_handle_t list;
    size_t                   size = 1 << 20;
    char                    *a = device_memory(size), *b = device_memory(size);
    ze_result_t              result;

    REQUIRE(compute_group != UINT32_MAX);
    CHECK(zeCommandListCreateImmediate(context, device, &desc, &list));
    result = zeCommandListAppendMemoryCopy(list, b, a, size, NULL, 0, NULL);
    if (result == ZE_RESULT_SUCCESS) {
        result = zeCommandListHostSynchronize(list, UINT64_C(3000000000));
    }
    printf("a copy on the compute group: 0x%x\n", result);
    fflush(stdout);
    _exit(result == ZE_RESULT_SUCCESS); /* its teardown may wait for what never ends */
}

static int extensions(void)
{
    static ze_driver_extension_properties_t list[256];
    uint32_t                                count = 256, k;

    CHECK(zeDriverGetExtensionProperties(driver, &count, list));
    for (k = 0; k < count; k++) {
        printf("%s\n", list[k].name);
    }
    return 0;
}

int main(int argc, char **argv)
{
    int   sockets[2];
    pid_t child;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1) {
        start();
        return strcmp(argv[1], "extensions") == 0 ? extensions() : walker();
    }
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    child = fork(); /* before the driver is there: it does not survive a fork */
    REQUIRE(child >= 0);
    if (child == 0) {
        close(sockets[0]);
        importer(sockets[1]);
    }
    close(sockets[1]);
    start();
    if (compute_group != UINT32_MAX) {
        /* Its default context must be there before host memory is pinned for it. */
        CHECK(zeCommandListDestroy(immediate(compute_group)));
    }
    copies();
    fills();
    fences_and_events();
    virtual_memory();
    exporter(sockets[0], child);
    return 0;
}
