/* Threads that allocate, map, copy, wait and destroy at the same time: with lists of their own,
 * with one queue between them, and with one event between two. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <pthread.h>

#define THREADS 6
#define ROUNDS  60
#define LENGTH  ((size_t)3 * 65536)

static ze_command_queue_handle_t queue; /* of all threads */
static ze_event_pool_handle_t    pool;
static pthread_mutex_t           count_lock = PTHREAD_MUTEX_INITIALIZER;

/* CHECK counts without a lock; threads come through here. */
#define TCHECK(call, want)                                                                    \
    do {                                                                                      \
        ze_result_t result_ = (call);                                                         \
        pthread_mutex_lock(&count_lock);                                                      \
        check_result(__FILE__, __LINE__, #call, result_, want);                               \
        pthread_mutex_unlock(&count_lock);                                                    \
    } while (0)
#define TCHECK_OK(call) TCHECK(call, ZE_RESULT_SUCCESS)

struct worker {
    unsigned                 number;
    ze_command_list_handle_t immediate, regular;
    ze_event_handle_t        event;
    unsigned char           *host, *back;
};

static void make_worker(struct worker *w, unsigned number)
{
    ze_command_queue_desc_t desc = {.stype   = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                    .ordinal = ordinal,
                                    .mode    = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_command_list_desc_t  list_desc  = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC,
                                          .commandQueueGroupOrdinal = ordinal};
    ze_event_desc_t         event_desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC, .index = number};

    w->number = number;
    TCHECK_OK(zeCommandListCreateImmediate(context, device, &desc, &w->immediate));
    TCHECK_OK(zeCommandListCreate(context, device, &list_desc, &w->regular));
    TCHECK_OK(zeEventCreate(pool, &event_desc, &w->event));
    w->host = malloc(LENGTH);
    w->back = malloc(LENGTH);
}

static void drop_worker(struct worker *w)
{
    TCHECK_OK(zeEventDestroy(w->event));
    TCHECK_OK(zeCommandListDestroy(w->regular));
    TCHECK_OK(zeCommandListDestroy(w->immediate));
    free(w->host);
    free(w->back);
}

/* Host to two mapped objects on the own list, from there back on the queue of all. */
static void one_round(struct worker *w, unsigned round)
{
    ze_physical_mem_desc_t   desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC, .size = LENGTH};
    ze_physical_mem_handle_t object;
    size_t                   k;
    void                    *p;

    TCHECK_OK(zeContextGetStatus(zeDriverGetDefaultContext(driver)));
    TCHECK_OK(zeVirtualMemReserve(context, NULL, LENGTH, &p));
    TCHECK_OK(zePhysicalMemCreate(context, device, &desc, &object));
    TCHECK_OK(zeVirtualMemMap(context, p, 65536, object, 131072,
                              ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
    TCHECK_OK(zeVirtualMemMap(context, (char *)p + 65536, 131072, object, 0,
                              ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
    fill_pattern(w->host, LENGTH, w->number * 1000 + round);
    memset(w->back, 0, LENGTH);
    TCHECK_OK(zeEventHostReset(w->event));
    TCHECK_OK(zeCommandListAppendMemoryCopy(w->immediate, p, w->host, LENGTH, w->event, 0, NULL));
    TCHECK_OK(zeCommandListAppendMemoryCopy(w->regular, w->back, p, LENGTH, NULL, 1, &w->event));
    TCHECK_OK(zeCommandListClose(w->regular));
    TCHECK_OK(zeCommandQueueExecuteCommandLists(queue, 1, &w->regular, NULL));
    TCHECK_OK(zeCommandQueueSynchronize(queue, UINT64_MAX));
    TCHECK_OK(zeEventQueryStatus(w->event));
    TCHECK_OK(zeCommandListReset(w->regular));
    for (k = 0; k < LENGTH && w->back[k] == w->host[k]; k++) {
    }
    pthread_mutex_lock(&count_lock);
    CHECK_EQ(k, LENGTH);
    pthread_mutex_unlock(&count_lock);
    TCHECK_OK(zePhysicalMemDestroy(context, object));
    TCHECK_OK(zeVirtualMemUnmap(context, p, LENGTH));
    TCHECK_OK(zeVirtualMemFree(context, p, LENGTH));
}

static void *work(void *arg)
{
    struct worker w;
    unsigned      round;

    make_worker(&w, (unsigned)(uintptr_t)arg);
    for (round = 0; round < ROUNDS; round++) {
        one_round(&w, round);
    }
    drop_worker(&w);
    return NULL;
}

/* Waits for an event that the other end of the exchange signals, and answers. */
static ze_event_handle_t ping, pong;

static void *answer(void *unused)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        TCHECK_OK(zeEventHostSynchronize(ping, UINT64_MAX));
        TCHECK_OK(zeEventHostReset(ping));
        TCHECK_OK(zeEventHostSignal(pong));
    }
    return unused;
}

static void check_ping_pong(void)
{
    ze_event_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC, .index = THREADS};
    pthread_t       thread;

    NEED(zeEventCreate(pool, &desc, &ping));
    desc.index++;
    NEED(zeEventCreate(pool, &desc, &pong));
    pthread_create(&thread, NULL, answer, NULL);
    for (unsigned i = 0; i < ROUNDS; i++) {
        TCHECK_OK(zeCommandListAppendSignalEvent(list, ping)); /* by an engine */
        TCHECK_OK(zeEventHostSynchronize(pong, UINT64_MAX));
        TCHECK_OK(zeEventHostReset(pong));
    }
    pthread_join(thread, NULL);
    CHECK_OK(zeEventDestroy(ping));
    CHECK_OK(zeEventDestroy(pong));
}

int main(void)
{
    ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                    .mode  = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_event_pool_desc_t    pool_desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                         .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE,
                                         .count = THREADS + 2};
    pthread_t               threads[THREADS];

    test_start();
    desc.ordinal = ordinal;
    NEED(zeCommandQueueCreate(context, device, &desc, &queue));
    NEED(zeEventPoolCreate(context, &pool_desc, 0, NULL, &pool));
    for (size_t i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, work, (void *)i);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    check_ping_pong();
    CHECK_OK(zeEventPoolDestroy(pool));
    CHECK_OK(zeCommandQueueDestroy(queue));
    return test_end();
}
