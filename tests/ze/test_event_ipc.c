/* Event pools shared with another process: signals of the host and of the device cross both ways,
 * and what is no handle of a pool is refused. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

enum { EVENTS = 5 };

static int wire = -1;

static void tell(const void *data, size_t size)
{
    if (send(wire, data, size, MSG_NOSIGNAL) != (ssize_t)size) {
        printf("the other process is gone\n");
        exit(1);
    }
}

static void hear(void *data, size_t size)
{
    if (recv(wire, data, size, MSG_WAITALL) != (ssize_t)size) {
        printf("the other process is gone\n");
        exit(1);
    }
}

static void make_events(ze_event_pool_handle_t pool, ze_event_handle_t *events)
{
    for (uint32_t i = 0; i < EVENTS; i++) {
        ze_event_desc_t desc = {.stype  = ZE_STRUCTURE_TYPE_EVENT_DESC,
                                .index  = i,
                                .signal = ZE_EVENT_SCOPE_FLAG_HOST,
                                .wait   = ZE_EVENT_SCOPE_FLAG_HOST};

        NEED(zeEventCreate(pool, &desc, &events[i]));
    }
}

static void drop_events(ze_event_handle_t *events)
{
    for (uint32_t i = 0; i < EVENTS; i++) {
        CHECK_OK(zeEventDestroy(events[i]));
    }
}

/* The second process: opens the pool, answers each signal with one of its own. */
static int other(int fd)
{
    ze_command_queue_desc_t    desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                       .mode  = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_ipc_event_pool_handle_t handle;
    ze_event_pool_handle_t     pool;
    ze_event_handle_t          events[EVENTS];
    ze_command_list_handle_t   async;
    char                       go;

    wire = fd;
    test_start();
    desc.ordinal = ordinal;
    NEED(zeCommandListCreateImmediate(context, device, &desc, &async));
    hear(&handle, sizeof(handle));
    NEED(zeEventPoolOpenIpcHandle(context, handle, &pool));
    make_events(pool, events);
    CHECK_OK(zeEventQueryStatus(events[0])); /* signaled before, and creating it here kept that */
    CHECK(zeEventQueryStatus(events[1]), ZE_RESULT_NOT_READY);
    tell("o", 1);
    CHECK_OK(zeEventHostSynchronize(events[1], 10 * SECOND)); /* host there, host here */
    CHECK_OK(zeEventHostSignal(events[2]));
    CHECK_OK(zeCommandListAppendWaitOnEvents(async, 1, &events[3])); /* device here */
    CHECK_OK(zeCommandListAppendSignalEvent(async, events[4]));
    tell("q", 1);
    CHECK_OK(zeCommandListHostSynchronize(async, 10 * SECOND));
    hear(&go, 1);
    CHECK(zeEventPoolDestroy(pool), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
    CHECK(zeEventPoolCloseIpcHandle(pool), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
    drop_events(events);
    CHECK(zeEventPoolDestroy(pool), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK_OK(zeEventPoolCloseIpcHandle(pool));
    CHECK(zeEventPoolCloseIpcHandle(pool), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK_OK(zeCommandListDestroy(async));
    return test_end();
}

static void check_refused(void)
{
    ze_event_pool_desc_t       desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                       .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE,
                                       .count = 1};
    ze_ipc_event_pool_handle_t handle;
    ze_ipc_mem_handle_t        memory;
    ze_event_pool_handle_t     pool, opened;
    void                      *p = alloc_host(page);

    NEED(zeEventPoolCreate(context, &desc, 1, &device, &pool));
    CHECK(zeEventPoolGetIpcHandle(pool, &handle), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(zeEventPoolCloseIpcHandle(pool), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK_OK(zeEventPoolDestroy(pool));
    NEED(zeMemGetIpcHandle(context, p, &memory));
    memcpy(&handle, &memory, sizeof(handle));
    CHECK(zeEventPoolOpenIpcHandle(context, handle, &opened), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK_OK(zeMemPutIpcHandle(context, memory));
    CHECK_OK(zeMemFree(context, p));
    memset(&handle, 0x5A, sizeof(handle));
    CHECK(zeEventPoolOpenIpcHandle(context, handle, &opened), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

/* Another process can write what stands in a pool's memory while it is opened here: the number of
 * events that was checked is the one that counts. */
static _Atomic bool busy;

static void *change_count(void *arg)
{
    volatile uint32_t *count = arg;

    while (busy) {
        *count = 1 << 24;
        *count = EVENTS;
    }
    return NULL;
}

static void check_changed_meanwhile(ze_ipc_event_pool_handle_t handle)
{
    const uint64_t         magic = UINT64_C(0x6c6f6f70746e7665); /* first word of the last slot */
    ze_event_desc_t        desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC, .index = 1 << 20};
    ze_ipc_mem_handle_t    as_memory;
    ze_event_pool_handle_t pool;
    ze_event_handle_t      event;
    unsigned               opened = 0, beyond = 0;
    pthread_t              thread;
    size_t                 size;
    void                  *base;
    char                  *note;

    memcpy(&as_memory, &handle, sizeof(as_memory));
    NEED(zeMemOpenIpcHandle(context, device, as_memory, 0, &base));
    NEED(zeMemGetAddressRange(context, base, NULL, &size));
    note = (char *)base + size - 64;
    if (!CHECK_EQ(*(uint64_t *)note, magic)) {
        return;
    }
    busy = true;
    pthread_create(&thread, NULL, change_count, note + sizeof(magic));
    for (unsigned i = 0; i < 20000; i++) {
        if (zeEventPoolOpenIpcHandle(context, handle, &pool) == ZE_RESULT_SUCCESS) {
            opened++;
            beyond += zeEventCreate(pool, &desc, &event) != ZE_RESULT_ERROR_INVALID_ARGUMENT;
            (void)zeEventPoolCloseIpcHandle(pool);
        }
    }
    busy = false;
    pthread_join(thread, NULL);
    CHECK_TRUE(opened > 0);
    CHECK_EQ(beyond, 0);
    CHECK_OK(zeMemCloseIpcHandle(context, base));
}

int main(int argc, char **argv)
{
    ze_event_pool_desc_t       desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                       .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE |
                                                ZE_EVENT_POOL_FLAG_IPC,
                                       .count = EVENTS};
    ze_driver_ipc_properties_t ipc = {.stype = ZE_STRUCTURE_TYPE_DRIVER_IPC_PROPERTIES};
    ze_ipc_event_pool_handle_t handle;
    ze_event_pool_handle_t     pool, own;
    ze_event_handle_t          events[EVENTS];
    char                       text[16], go;
    int                        ends[2], status;
    pid_t                      pid;

    if (argc > 2 && strcmp(argv[1], "other") == 0) {
        return other(atoi(argv[2]));
    }
    test_start();
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || (pid = fork()) < 0) {
        perror("the other process");
        return 1;
    }
    if (pid == 0) {
        close(ends[0]);
        snprintf(text, sizeof(text), "%d", ends[1]);
        execl("/proc/self/exe", "other", "other", text, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    wire = ends[0];
    NEED(zeDriverGetIpcProperties(driver, &ipc));
    CHECK_TRUE(ipc.flags & ZE_IPC_PROPERTY_FLAG_EVENT_POOL);
    check_refused();
    NEED(zeEventPoolCreate(context, &desc, 1, &device, &pool));
    make_events(pool, events);
    NEED(zeEventPoolGetIpcHandle(pool, &handle));
    CHECK_OK(zeEventHostSignal(events[0]));
    tell(&handle, sizeof(handle));
    hear(&go, 1);
    CHECK_OK(zeEventHostSignal(events[1]));
    CHECK_OK(zeEventHostSynchronize(events[2], 10 * SECOND));
    hear(&go, 1);
    CHECK_OK(zeCommandListAppendSignalEvent(list, events[3])); /* device here, device there */
    CHECK_OK(zeEventHostSynchronize(events[4], 10 * SECOND));  /* device there, host here */
    tell("e", 1);
    NEED(zeEventPoolOpenIpcHandle(context, handle, &own)); /* in its own process */
    CHECK_TRUE(own != pool);
    CHECK_OK(zeEventPoolCloseIpcHandle(own));
    waitpid(pid, &status, 0);
    CHECK_EQ(status, 0);
    check_changed_meanwhile(handle);
    CHECK_OK(zeEventPoolPutIpcHandle(context, handle));
    CHECK_TRUE(zeEventPoolOpenIpcHandle(context, handle, &own) != ZE_RESULT_SUCCESS);
    drop_events(events);
    CHECK_OK(zeEventPoolDestroy(pool));
    return test_end();
}
