/* What the Level Zero client tests share. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

ze_driver_handle_t       driver;
ze_device_handle_t       device;
ze_context_handle_t      context;
ze_command_list_handle_t list;
size_t                   page;
uint32_t                 ordinal;
unsigned                 failures;

static unsigned checks;
static void    *staging;
static size_t   staging_size = (size_t)1 << 20;

bool check_result(const char *file, int line, const char *what, ze_result_t got, ze_result_t want)
{
    checks++;
    if (got != want) {
        printf("%s:%d: %s: 0x%x, expected 0x%x\n", file, line, what, (unsigned)got,
               (unsigned)want);
        failures++;
    }
    return got == want;
}

bool check_value(const char *file, int line, const char *what, uint64_t got, uint64_t want)
{
    checks++;
    if (got != want) {
        printf("%s:%d: %s: %llu (0x%llx), expected %llu (0x%llx)\n", file, line, what,
               (unsigned long long)got, (unsigned long long)got, (unsigned long long)want,
               (unsigned long long)want);
        failures++;
    }
    return got == want;
}

static uint32_t copy_ordinal(void)
{
    ze_command_queue_group_properties_t groups[16];
    uint32_t                            n = COUNT(groups), i;

    memset(groups, 0, sizeof(groups));
    for (i = 0; i < n; i++) {
        groups[i].stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES;
    }
    NEED(zeDeviceGetCommandQueueGroupProperties(device, &n, groups));
    for (i = 0; i < n; i++) {
        if (groups[i].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY) {
            return i;
        }
    }
    printf("no command queue group copies\n");
    exit(1);
}

/* A missing device is a skip only where nobody asked for one. */
static void no_device(const char *what)
{
    const char *soft = getenv("ZERANGE_SOFT");

    printf("no Level Zero %s%s%s\n", what, soft != NULL ? ", though ZERANGE_SOFT=" : "",
           soft != NULL ? soft : "");
    exit(soft != NULL ? 1 : 77);
}

void test_start(void)
{
    ze_context_desc_t       context_desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_command_queue_desc_t queue_desc   = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                            .mode  = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS};
    uint32_t                n = 1;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (zeInit(0) != ZE_RESULT_SUCCESS || zeDriverGet(&n, &driver) != ZE_RESULT_SUCCESS ||
        n == 0) {
        no_device("driver");
    }
    n = 1;
    if (zeDeviceGet(driver, &n, &device) != ZE_RESULT_SUCCESS || n == 0) {
        no_device("device");
    }
    NEED(zeContextCreate(driver, &context_desc, &context));
    ordinal = queue_desc.ordinal = copy_ordinal();
    NEED(zeCommandListCreateImmediate(context, device, &queue_desc, &list));
    NEED(zeVirtualMemQueryPageSize(context, device, 1, &page));
    staging = alloc_host(staging_size);
}

int test_end(void)
{
    zeMemFree(context, staging);
    zeCommandListDestroy(list);
    CHECK_OK(zeContextDestroy(context));
    printf("%u checks, %u failed\n", checks, failures);
    return failures != 0;
}

/* ---- memory ---- */

ze_physical_mem_handle_t make_object(size_t size)
{
    ze_physical_mem_desc_t   desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                     .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE,
                                     .size  = size};
    ze_physical_mem_handle_t object;

    NEED(zePhysicalMemCreate(context, device, &desc, &object));
    return object;
}

void map_object(void *at, size_t length, ze_physical_mem_handle_t object, size_t offset)
{
    NEED(zeVirtualMemMap(context, at, length, object, offset,
                         ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
}

void *reserve(size_t size)
{
    void *p;

    NEED(zeVirtualMemReserve(context, NULL, size, &p));
    return p;
}

void *alloc_device(size_t size)
{
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    void                      *p;

    NEED(zeMemAllocDevice(context, &desc, size, 64, device, &p));
    return p;
}

void *alloc_host(size_t size)
{
    ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void                    *p;

    NEED(zeMemAllocHost(context, &desc, size, 64, &p));
    return p;
}

void *alloc_shared(size_t size)
{
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_host_mem_alloc_desc_t   host = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void                      *p;

    NEED(zeMemAllocShared(context, &desc, &host, size, 64, device, &p));
    return p;
}

void write_memory(void *to, const void *from, size_t length)
{
    size_t done, n;

    for (done = 0; done < length; done += n) {
        n = length - done < staging_size ? length - done : staging_size;
        memcpy(staging, (const char *)from + done, n);
        NEED(zeCommandListAppendMemoryCopy(list, (char *)to + done, staging, n, NULL, 0, NULL));
    }
}

void read_memory(void *to, const void *from, size_t length)
{
    size_t done, n;

    for (done = 0; done < length; done += n) {
        n = length - done < staging_size ? length - done : staging_size;
        memset(staging, 0xDB, n);
        NEED(zeCommandListAppendMemoryCopy(list, staging, (const char *)from + done, n, NULL, 0,
                                           NULL));
        memcpy((char *)to + done, staging, n);
    }
}

unsigned char pattern_byte(unsigned seed, size_t place)
{
    uint64_t x = (place / 8 + 1 + seed * UINT64_C(1000003)) * UINT64_C(0x9e3779b97f4a7c15);

    return (unsigned char)((x ^ (x >> 29)) >> (place % 8 * 8));
}

void fill_pattern(unsigned char *to, size_t length, unsigned seed)
{
    size_t i;

    for (i = 0; i < length; i++) {
        to[i] = pattern_byte(seed, i);
    }
}

void spread_make(struct spread *s, size_t spare)
{
    char *base;
    void *second;

    /* A place where two reservations touch: where one of their size had room. */
    base = reserve((6 + spare) * page);
    NEED(zeVirtualMemFree(context, base, (6 + spare) * page));
    NEED(zeVirtualMemReserve(context, base, 4 * page, &s->reservations[0]));
    NEED(zeVirtualMemReserve(context, base + 4 * page, 2 * page, &second));
    s->reservations[1] = second;
    s->reserved[0]     = 4 * page;
    s->reserved[1]     = 2 * page;
    if (!CHECK_TRUE((char *)s->reservations[0] + 4 * page == (char *)second)) {
        exit(1);
    }
    s->base       = s->reservations[0];
    s->size       = 6 * page;
    s->objects[0] = make_object(2 * page);
    s->objects[1] = make_object(3 * page);
    s->objects[2] = make_object(5 * page);
    map_object(s->base, 2 * page, s->objects[0], 0);
    map_object(s->base + 2 * page, page, s->objects[1], page);
    map_object(s->base + 3 * page, page, s->objects[2], page);
    map_object(s->base + 4 * page, 2 * page, s->objects[2], 2 * page);
}

void spread_drop(struct spread *s, bool reservations)
{
    static const unsigned char pages[] = {0, 2, 2, 1, 3, 1, 4, 2}; /* first and count */
    size_t                     i;

    for (i = 0; i < COUNT(pages); i += 2) {
        CHECK_OK(zeVirtualMemUnmap(context, s->base + pages[i] * page, pages[i + 1] * page));
    }
    for (i = 0; i < 3; i++) {
        CHECK_OK(zePhysicalMemDestroy(context, s->objects[i]));
    }
    for (i = 0; reservations && i < 2; i++) {
        CHECK_OK(zeVirtualMemFree(context, s->reservations[i], s->reserved[i]));
    }
}

/* ---- CPU access ---- */

static sigjmp_buf fault_jump;

static void on_fault(int signal_number)
{
    (void)signal_number;
    siglongjmp(fault_jump, 1);
}

int cpu_faults(void *at)
{
    struct sigaction action = {.sa_handler = on_fault}, old_segv, old_bus;
    volatile int     faults = 0;
    volatile char   *p      = at;

    sigaction(SIGSEGV, &action, &old_segv);
    sigaction(SIGBUS, &action, &old_bus);
    if (sigsetjmp(fault_jump, 1) == 0) {
        (void)*p;
    } else {
        faults++;
    }
    if (sigsetjmp(fault_jump, 1) == 0) {
        *p = *p;
    } else {
        faults++;
    }
    sigaction(SIGSEGV, &old_segv, NULL);
    sigaction(SIGBUS, &old_bus, NULL);
    return faults;
}

/* ---- the second process ---- */

enum { PEER_OPEN, PEER_READ, PEER_WRITE, PEER_CLOSE, PEER_STOP };

struct request {
    uint32_t            what, slot;
    uint64_t            offset, length;
    ze_ipc_mem_handle_t handle;
};

static int   peer_socket = -1;
static pid_t peer_pid;

static void transfer(bool out, void *data, size_t length)
{
    char   *p = data;
    ssize_t n;

    while (length > 0) {
        n = out ? send(peer_socket, p, length, MSG_NOSIGNAL) : recv(peer_socket, p, length, 0);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            printf("process %d: the other process is gone\n", (int)getpid());
            exit(1);
        }
        p += n;
        length -= (size_t)n;
    }
}

static void answer_open(const struct request *r, void **slot)
{
    struct peer_import              reply = {0};
    ze_memory_allocation_properties_t properties = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
    void *p = NULL, *base;

    reply.opened = zeMemOpenIpcHandle(context, device, r->handle, 0, &p);
    if (reply.opened == ZE_RESULT_SUCCESS) {
        *slot       = p;
        reply.range = zeMemGetAddressRange(context, p, &base, &reply.size);
        reply.base  = (char *)base - (char *)p;
        reply.range_in = zeMemGetAddressRange(context, (char *)p + reply.size - 1, &base,
                                              &reply.size_in);
        reply.base_in  = (char *)base - (char *)p;
        if (zeMemGetAllocProperties(context, p, &properties, NULL) == ZE_RESULT_SUCCESS) {
            reply.type = (uint32_t)properties.type;
            reply.id   = properties.id;
        }
        reply.faults = cpu_faults(p);
    }
    transfer(true, &reply, sizeof(reply));
}

void peer_main(int argc, char **argv)
{
    struct request r;
    void          *slots[16] = {NULL}, *bytes;
    ze_result_t    result;

    if (argc < 3 || strcmp(argv[1], "peer") != 0) {
        return;
    }
    peer_socket = atoi(argv[2]);
    test_start();
    for (;;) {
        transfer(false, &r, sizeof(r));
        switch (r.what) {
        case PEER_OPEN:
            answer_open(&r, &slots[r.slot]);
            break;
        case PEER_READ:
        case PEER_WRITE:
            bytes = malloc(r.length);
            if (r.what == PEER_READ) {
                read_memory(bytes, (char *)slots[r.slot] + r.offset, r.length);
                transfer(true, bytes, r.length);
            } else {
                transfer(false, bytes, r.length);
                write_memory((char *)slots[r.slot] + r.offset, bytes, r.length);
                transfer(true, &r.what, sizeof(r.what));
            }
            free(bytes);
            break;
        case PEER_CLOSE:
            result = zeMemCloseIpcHandle(context, slots[r.slot]);
            transfer(true, &result, sizeof(result));
            break;
        case PEER_STOP:
            exit(test_end());
        }
    }
}

void peer_start(void)
{
    char text[16];
    int  ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || (peer_pid = fork()) < 0) {
        perror("peer");
        exit(1);
    }
    if (peer_pid == 0) {
        close(ends[0]);
        snprintf(text, sizeof(text), "%d", ends[1]);
        execl("/proc/self/exe", "peer", "peer", text, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    peer_socket = ends[0];
}

void peer_stop(void)
{
    struct request r = {.what = PEER_STOP};
    int            status;

    transfer(true, &r, sizeof(r));
    waitpid(peer_pid, &status, 0);
    CHECK_EQ(status, 0);
    close(peer_socket);
}

struct peer_import peer_open(unsigned slot, ze_ipc_mem_handle_t handle)
{
    struct request     r = {.what = PEER_OPEN, .slot = slot, .handle = handle};
    struct peer_import reply;

    transfer(true, &r, sizeof(r));
    transfer(false, &reply, sizeof(reply));
    return reply;
}

void peer_read(unsigned slot, size_t offset, void *to, size_t length)
{
    struct request r = {.what = PEER_READ, .slot = slot, .offset = offset, .length = length};

    transfer(true, &r, sizeof(r));
    transfer(false, to, length);
}

void peer_write(unsigned slot, size_t offset, const void *from, size_t length)
{
    struct request r = {.what = PEER_WRITE, .slot = slot, .offset = offset, .length = length};
    uint32_t       done;

    transfer(true, &r, sizeof(r));
    transfer(true, (void *)(uintptr_t)from, length);
    transfer(false, &done, sizeof(done));
}

ze_result_t peer_close(unsigned slot)
{
    struct request r = {.what = PEER_CLOSE, .slot = slot};
    ze_result_t    result;

    transfer(true, &r, sizeof(r));
    transfer(false, &result, sizeof(result));
    return result;
}
