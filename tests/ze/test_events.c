/* Events: signaled by the host and by engines, waited for by both, with times; fences; and host
 * memory that changes between the append of a copy and its start. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

static ze_command_queue_handle_t queue;
static ze_command_list_handle_t  async;   /* immediate, asynchronous */
static ze_command_list_handle_t  regular;
static ze_event_pool_handle_t    pool;    /* with times */
static ze_event_handle_t         events[4];
static unsigned char            *memory;  /* of the device */

static void set_up(void)
{
    ze_command_queue_desc_t desc = {.stype   = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                    .ordinal = ordinal,
                                    .mode    = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_command_list_desc_t  list_desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC,
                                         .commandQueueGroupOrdinal = ordinal};
    ze_event_pool_desc_t    pool_desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                         .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE |
                                                  ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP,
                                         .count = COUNT(events)};
    ze_event_desc_t         event_desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC,
                                          .signal = ZE_EVENT_SCOPE_FLAG_HOST};

    NEED(zeCommandQueueCreate(context, device, &desc, &queue));
    NEED(zeCommandListCreateImmediate(context, device, &desc, &async));
    NEED(zeCommandListCreate(context, device, &list_desc, &regular));
    NEED(zeEventPoolCreate(context, &pool_desc, 1, &device, &pool));
    for (event_desc.index = 0; event_desc.index < COUNT(events); event_desc.index++) {
        NEED(zeEventCreate(pool, &event_desc, &events[event_desc.index]));
    }
    memory = alloc_device(4 * page);
}

static void tear_down(void)
{
    CHECK(zeEventPoolDestroy(pool), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
    for (size_t i = 0; i < COUNT(events); i++) {
        CHECK_OK(zeEventDestroy(events[i]));
    }
    CHECK_OK(zeEventPoolDestroy(pool));
    CHECK_OK(zeCommandListDestroy(regular));
    CHECK_OK(zeCommandListDestroy(async));
    CHECK_OK(zeCommandQueueDestroy(queue));
    CHECK_OK(zeMemFree(context, memory));
}

static void reset_events(void)
{
    for (size_t i = 0; i < COUNT(events); i++) {
        CHECK_OK(zeEventHostReset(events[i]));
        CHECK(zeEventQueryStatus(events[i]), ZE_RESULT_NOT_READY);
    }
}

/* A copy from host memory that waits for an event reads what is there when the event comes, of
 * whatever length, and not what was there when it was appended. */
static void check_late_source(void)
{
    static const size_t sizes[] = {1, 64, 4096, 65536, 200000};
    unsigned char      *source = malloc(200000), *got = malloc(200000), *want = malloc(200000);
    size_t              i, k;

    for (i = 0; i < COUNT(sizes); i++) {
        reset_events();
        memset(source, 0x11, sizes[i]);
        CHECK_OK(zeCommandListAppendMemoryCopy(async, memory, source, sizes[i], events[1], 1,
                                               &events[0]));
        CHECK(zeEventHostSynchronize(events[1], 2000000), ZE_RESULT_NOT_READY);
        fill_pattern(source, sizes[i], 40 + i);
        fill_pattern(want, sizes[i], 40 + i);
        CHECK_OK(zeEventHostSignal(events[0]));
        CHECK_OK(zeEventHostSynchronize(events[1], 10 * SECOND));
        CHECK_OK(zeEventQueryStatus(events[1]));
        CHECK_OK(zeCommandListHostSynchronize(async, 10 * SECOND));
        read_memory(got, memory, sizes[i]);
        for (k = 0; k < sizes[i] && got[k] == want[k]; k++) {
        }
        CHECK_EQ(k, sizes[i]);
    }
    free(source);
    free(got);
    free(want);
}

/* Host memory as the link between two copies of one stream: the second sees the first's bytes. The
 * first is held back until both were appended. */
static void check_host_between(void)
{
    unsigned char *host = malloc(4096), want[512], got[512];
    unsigned       round;

    for (round = 0; round < 20; round++) {
        fill_pattern(want, sizeof(want), round);
        write_memory(memory, want, sizeof(want));
        memset(host, 0, 4096);
        CHECK_OK(zeEventHostReset(events[0]));
        CHECK_OK(zeCommandListAppendMemoryCopy(async, host + 100, memory, sizeof(want), NULL, 1,
                                               &events[0]));
        CHECK_OK(zeCommandListAppendMemoryCopy(async, memory + page, host + 100, sizeof(want),
                                               NULL, 0, NULL));
        CHECK_OK(zeEventHostSignal(events[0]));
        CHECK_OK(zeCommandListHostSynchronize(async, UINT64_MAX));
        read_memory(got, memory + page, sizeof(got));
        CHECK_EQ(memcmp(got, want, sizeof(got)), 0);
    }
    free(host);
}

/* A list with a wait in it, executed before and after the signal; a fence tells the end. */
static void check_regular(void)
{
    ze_fence_desc_t   fence_desc = {.stype = ZE_STRUCTURE_TYPE_FENCE_DESC};
    ze_fence_handle_t fence;
    unsigned char     want[1000], got[1000];

    reset_events();
    NEED(zeFenceCreate(queue, &fence_desc, &fence));
    CHECK(zeFenceQueryStatus(fence), ZE_RESULT_NOT_READY);
    CHECK_OK(zeCommandListAppendWaitOnEvents(regular, 1, &events[0]));
    CHECK_OK(zeCommandListAppendMemoryFill(regular, memory, "abcd", 4, 1000, events[2], 0, NULL));
    CHECK_OK(zeCommandListAppendEventReset(regular, events[0]));
    CHECK_OK(zeCommandListAppendSignalEvent(regular, events[1]));
    CHECK(zeCommandQueueExecuteCommandLists(queue, 1, &regular, fence),
          ZE_RESULT_ERROR_INVALID_ARGUMENT); /* not closed */
    CHECK_OK(zeCommandListClose(regular));
    CHECK_OK(zeCommandQueueExecuteCommandLists(queue, 1, &regular, fence));
    CHECK(zeFenceHostSynchronize(fence, 2000000), ZE_RESULT_NOT_READY);
    CHECK(zeCommandQueueSynchronize(queue, 1000000), ZE_RESULT_NOT_READY);
    CHECK_OK(zeEventHostSignal(events[0]));
    CHECK_OK(zeFenceHostSynchronize(fence, 10 * SECOND));
    CHECK_OK(zeFenceQueryStatus(fence));
    CHECK(zeEventQueryStatus(events[0]), ZE_RESULT_NOT_READY); /* the list reset it */
    CHECK_OK(zeEventQueryStatus(events[1]));
    CHECK_OK(zeEventQueryStatus(events[2]));
    CHECK_OK(zeFenceReset(fence));
    CHECK(zeFenceQueryStatus(fence), ZE_RESULT_NOT_READY);
    for (size_t i = 0; i < sizeof(want); i++) {
        want[i] = "abcd"[i % 4];
    }
    read_memory(got, memory, sizeof(got));
    CHECK_EQ(memcmp(got, want, sizeof(got)), 0);

    CHECK_OK(zeEventHostSignal(events[0])); /* the same list again */
    CHECK_OK(zeCommandQueueExecuteCommandLists(queue, 1, &regular, fence));
    CHECK_OK(zeCommandQueueSynchronize(queue, 10 * SECOND));
    CHECK_OK(zeFenceQueryStatus(fence));
    CHECK_OK(zeFenceDestroy(fence));
    CHECK_OK(zeCommandListReset(regular));
}

/* Engines of two streams wait for each other: the one that waits was submitted first. */
static void check_streams(void)
{
    unsigned char want[4096], got[4096];

    reset_events();
    fill_pattern(want, sizeof(want), 77);
    CHECK_OK(zeCommandListAppendMemoryCopy(async, memory + page, memory, sizeof(want), events[1],
                                           1, &events[0]));
    CHECK_OK(zeCommandListAppendMemoryCopy(regular, memory, want, sizeof(want), events[0], 0,
                                           NULL));
    CHECK_OK(zeCommandListClose(regular));
    CHECK_OK(zeCommandQueueExecuteCommandLists(queue, 1, &regular, NULL));
    CHECK_OK(zeEventHostSynchronize(events[1], 10 * SECOND));
    CHECK_OK(zeCommandQueueSynchronize(queue, 10 * SECOND));
    read_memory(got, memory + page, sizeof(got));
    CHECK_EQ(memcmp(got, want, sizeof(got)), 0);
    CHECK_OK(zeCommandListReset(regular));
}

static void check_times(void)
{
    ze_kernel_timestamp_result_t  a, b, *copied = alloc_host(2 * sizeof(*copied));
    ze_device_properties_t        p = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2};
    uint64_t                     *stamp = alloc_host(sizeof(*stamp));

    reset_events();
    CHECK_OK(zeDeviceGetProperties(device, &p));
    CHECK(zeEventQueryKernelTimestamp(events[0], &a), ZE_RESULT_NOT_READY);
    CHECK_OK(zeCommandListAppendMemoryCopy(list, memory, memory + page, page, events[0], 0, NULL));
    CHECK_OK(zeCommandListAppendMemoryCopy(list, memory, memory + page, page, events[1], 0, NULL));
    CHECK_OK(zeEventQueryKernelTimestamp(events[0], &a));
    CHECK_OK(zeEventQueryKernelTimestamp(events[1], &b));
    CHECK_TRUE(a.global.kernelStart > 0 && a.global.kernelEnd >= a.global.kernelStart);
    CHECK_TRUE(b.global.kernelStart >= a.global.kernelEnd);
    CHECK_TRUE(b.global.kernelEnd - a.global.kernelStart < 10 * p.timerResolution);
    CHECK_OK(zeCommandListAppendQueryKernelTimestamps(list, 2, events, copied, NULL, NULL, 0,
                                                      NULL));
    CHECK_EQ(memcmp(&copied[0], &a, sizeof(a)), 0);
    CHECK_EQ(memcmp(&copied[1], &b, sizeof(b)), 0);
    CHECK_OK(zeCommandListAppendWriteGlobalTimestamp(list, stamp, NULL, 0, NULL));
    CHECK_TRUE(*stamp >= b.global.kernelEnd);
    CHECK_OK(zeMemFree(context, copied));
    CHECK_OK(zeMemFree(context, stamp));
}

/* A query of which one event is refused leaves nothing of itself in the list. */
static void check_times_refused(void)
{
    ze_event_pool_desc_t         pool_desc  = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                               .count = 1};
    ze_event_desc_t              event_desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC};
    ze_kernel_timestamp_result_t zero = {0}, *copied = alloc_host(2 * sizeof(*copied));
    ze_event_pool_handle_t       timeless;
    ze_event_handle_t            asked[2] = {events[0]};

    reset_events();
    NEED(zeEventPoolCreate(context, &pool_desc, 1, &device, &timeless));
    NEED(zeEventCreate(timeless, &event_desc, &asked[1]));
    CHECK_OK(zeCommandListAppendMemoryCopy(list, memory, memory + page, page, events[0], 0, NULL));
    memset(copied, 0, 2 * sizeof(*copied));
    CHECK(zeCommandListAppendQueryKernelTimestamps(regular, 2, asked, copied, NULL, events[1], 0,
                                                   NULL),
          ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(zeCommandListAppendQueryKernelTimestamps(regular, 1, asked, copied, NULL,
                                                   (ze_event_handle_t)&zero, 0, NULL),
          ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK_OK(zeCommandListClose(regular));
    CHECK_OK(zeCommandQueueExecuteCommandLists(queue, 1, &regular, NULL));
    CHECK_OK(zeCommandQueueSynchronize(queue, 10 * SECOND));
    CHECK_EQ(memcmp(&copied[0], &zero, sizeof(zero)), 0);
    CHECK(zeEventQueryStatus(events[1]), ZE_RESULT_NOT_READY);
    CHECK_OK(zeCommandListReset(regular));
    CHECK_OK(zeEventDestroy(asked[1]));
    CHECK_OK(zeEventPoolDestroy(timeless));
    CHECK_OK(zeMemFree(context, copied));
}

/* A fence whose queue is gone is not one of the queue that has its handle now: it would say that
 * work is done which is not. */
static void check_fence_of_old_queue(void)
{
    ze_command_queue_desc_t   desc = {.stype   = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                      .ordinal = ordinal,
                                      .mode    = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_fence_desc_t           fence_desc = {.stype = ZE_STRUCTURE_TYPE_FENCE_DESC};
    ze_command_queue_handle_t old, now = NULL;
    ze_fence_handle_t         fence;

    reset_events();
    NEED(zeCommandQueueCreate(context, device, &desc, &old));
    NEED(zeFenceCreate(old, &fence_desc, &fence));
    CHECK_OK(zeCommandQueueDestroy(old));
    for (unsigned i = 0; i < 1000 && now != old; i++) { /* handles come again in turn */
        if (now != NULL) {
            CHECK_OK(zeCommandQueueDestroy(now));
        }
        NEED(zeCommandQueueCreate(context, device, &desc, &now));
    }
    CHECK_TRUE(now == old);
    CHECK_OK(zeCommandListAppendWaitOnEvents(regular, 1, &events[0]));
    CHECK_OK(zeCommandListClose(regular));
    CHECK(zeCommandQueueExecuteCommandLists(now, 1, &regular, fence),
          ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT);
    CHECK(zeFenceQueryStatus(fence), ZE_RESULT_NOT_READY);
    CHECK_OK(zeEventHostSignal(events[0]));
    CHECK_OK(zeCommandQueueSynchronize(now, 10 * SECOND));
    CHECK_OK(zeCommandListReset(regular));
    CHECK_OK(zeFenceDestroy(fence));
    CHECK_OK(zeCommandQueueDestroy(now));
}

/* Whether the process's first thread sleeps in the kernel. */
static bool main_sleeps(void)
{
    char  state = '?';
    FILE *file  = NULL;
    char  path[64];

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
    file = fopen(path, "r");
    if (file != NULL) {
        if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) {
            state = '?';
        }
        fclose(file);
    }
    return state == 'S';
}

/* Not before the waiter waits; a waiter that never sleeps is signalled all the same. */
static void *signal_later(void *event)
{
    for (unsigned i = 0; i < 100000 && !main_sleeps(); i++) {
        sched_yield();
    }
    return (void *)(uintptr_t)zeEventHostSignal(event);
}

/* A thread that waits for an event nobody has submitted is woken by another thread. */
static void check_wake(void)
{
    pthread_t thread;
    void     *signaled;

    reset_events();
    pthread_create(&thread, NULL, signal_later, events[3]);
    CHECK_OK(zeEventHostSynchronize(events[3], 10 * SECOND));
    pthread_join(thread, &signaled);
    CHECK_EQ((uintptr_t)signaled, ZE_RESULT_SUCCESS);
}

int main(void)
{
    test_start();
    set_up();
    check_late_source();
    check_host_between();
    check_regular();
    check_streams();
    check_times();
    check_times_refused();
    check_fence_of_old_queue();
    check_wake();
    tear_down();
    return test_end();
}
