/* Copies and fills between all kinds of memory, across the edges of objects, on immediate and
 * regular lists, ordered by events, waited for by fence, event and queue. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#define SPACE ((size_t)1 << 20) /* bytes of each memory, a few more pages than any case uses */

enum { DEVICE, SPREAD, HOST, SHARED, PLAIN, KINDS };
static const char *const kind_names[] = {"device", "objects", "host", "shared", "malloc"};

static unsigned char *memory[KINDS];
static unsigned char *model[KINDS], *seen;
static struct spread  spread;
static size_t         sizes[KINDS];

static void set_up(void)
{
    unsigned kind;

    spread_make(&spread, 0);
    memory[DEVICE] = alloc_device(SPACE);
    memory[SPREAD] = spread.base;
    memory[HOST]   = alloc_host(SPACE);
    memory[SHARED] = alloc_shared(SPACE);
    memory[PLAIN]  = malloc(SPACE);
    seen           = malloc(SPACE);
    for (kind = 0; kind < KINDS; kind++) {
        sizes[kind] = kind == SPREAD ? spread.size : SPACE;
        model[kind] = malloc(sizes[kind]);
        fill_pattern(model[kind], sizes[kind], 20 + kind);
        write_memory(memory[kind], model[kind], sizes[kind]);
    }
}

static bool check_memory(unsigned kind)
{
    size_t i;

    read_memory(seen, memory[kind], sizes[kind]);
    for (i = 0; i < sizes[kind] && seen[i] == model[kind][i]; i++) {
    }
    return CHECK_EQ(i, sizes[kind]);
}

/* How a copy reaches the device. */
enum { IMMEDIATE, IMMEDIATE_ASYNC, REGULAR_FENCE, REGULAR_QUEUE, WAYS };

static ze_command_list_handle_t  lists[WAYS];
static ze_command_queue_handle_t queue;
static ze_fence_handle_t         fence;

static void make_ways(void)
{
    ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                    .mode  = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_command_list_desc_t  list_desc  = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC};
    ze_fence_desc_t         fence_desc = {.stype = ZE_STRUCTURE_TYPE_FENCE_DESC};

    desc.ordinal = list_desc.commandQueueGroupOrdinal = ordinal;
    lists[IMMEDIATE] = list;
    NEED(zeCommandListCreateImmediate(context, device, &desc, &lists[IMMEDIATE_ASYNC]));
    NEED(zeCommandListCreate(context, device, &list_desc, &lists[REGULAR_FENCE]));
    lists[REGULAR_QUEUE] = lists[REGULAR_FENCE];
    NEED(zeCommandQueueCreate(context, device, &desc, &queue));
    NEED(zeFenceCreate(queue, &fence_desc, &fence));
}

static void complete(unsigned way)
{
    if (way == IMMEDIATE_ASYNC) {
        CHECK_OK(zeCommandListHostSynchronize(lists[way], UINT64_MAX));
    } else if (way >= REGULAR_FENCE) {
        CHECK_OK(zeCommandListClose(lists[way]));
        NEED(zeCommandQueueExecuteCommandLists(queue, 1, &lists[way],
                                               way == REGULAR_FENCE ? fence : NULL));
        if (way == REGULAR_FENCE) {
            CHECK_OK(zeFenceHostSynchronize(fence, UINT64_MAX));
            CHECK_OK(zeFenceQueryStatus(fence));
            CHECK_OK(zeFenceReset(fence));
        } else {
            CHECK_OK(zeCommandQueueSynchronize(queue, UINT64_MAX));
        }
        CHECK_OK(zeCommandListReset(lists[way]));
    }
}

/* Offsets in bytes, pages are 64 KiB; edges of the objects are at pages 2, 3 and 4. */
static const struct {
    size_t to, from, length;
} places[] = {
    {0, 0, 1},
    {3, 5, 7},
    {131071, 131071, 2},
    {131000, 64, 200},
    {64, 196600, 70000},
    {100, 131007, 196608},
    {65536, 0, 262144},
    {1, 2, 393000},
    {0, 0, 393216},
};

static void test_copies(void)
{
    unsigned to, from, way;
    size_t   i;

    for (to = 0; to < KINDS; to++) {
        for (from = 0; from < KINDS; from++) {
            for (i = 0; i < COUNT(places) && to != from; i++) {
                way = (to + from * 3 + (unsigned)i) % WAYS;
                memcpy(model[to] + places[i].to, model[from] + places[i].from, places[i].length);
                NEED(zeCommandListAppendMemoryCopy(lists[way], memory[to] + places[i].to,
                                                   memory[from] + places[i].from,
                                                   places[i].length, NULL, 0, NULL));
                complete(way);
                if (!check_memory(to)) {
                    printf("   %s +%zu from %s +%zu, %zu bytes, way %u\n", kind_names[to],
                           places[i].to, kind_names[from], places[i].from, places[i].length, way);
                    write_memory(memory[to], model[to], sizes[to]);
                }
            }
            /* The next source differs from what was copied to it. */
            fill_pattern(model[to], sizes[to], 40 + to * KINDS + from);
            write_memory(memory[to], model[to], sizes[to]);
        }
    }
}

static const struct {
    size_t pattern, to, length;
} fills[] = {
    {1, 0, 1}, {1, 131070, 5}, {1, 17, 262144}, {2, 131070, 6}, {2, 0, 65536},
    {4, 131068, 8}, {4, 65536, 196608}, {8, 131064, 64}, {16, 131056, 4096}, {16, 0, 393216},
};

static void test_fills(void)
{
    static const unsigned kinds[] = {DEVICE, SPREAD, HOST, SHARED};
    unsigned char         pattern[16];
    size_t                i, k, b;
    unsigned              way = 0, kind;

    for (k = 0; k < COUNT(kinds); k++) {
        kind = kinds[k];
        for (i = 0; i < COUNT(fills); i++, way = (way + 1) % WAYS) {
            fill_pattern(pattern, sizeof(pattern), 100 + (unsigned)i);
            for (b = 0; b < fills[i].length; b++) {
                model[kind][fills[i].to + b] = pattern[b % fills[i].pattern];
            }
            if (!CHECK_OK(zeCommandListAppendMemoryFill(lists[way], memory[kind] + fills[i].to,
                                                        pattern, fills[i].pattern,
                                                        fills[i].length, NULL, 0, NULL))) {
                printf("   fill: %s +%zu, pattern of %zu, %zu bytes\n", kind_names[kind],
                       fills[i].to, fills[i].pattern, fills[i].length);
                write_memory(memory[kind], model[kind], sizes[kind]);
                continue;
            }
            complete(way);
            if (!check_memory(kind)) {
                printf("   fill: %s +%zu, pattern of %zu, %zu bytes, way %u\n", kind_names[kind],
                       fills[i].to, fills[i].pattern, fills[i].length, way);
                write_memory(memory[kind], model[kind], sizes[kind]);
            }
        }
    }
}

/* Several copies in one list run in order where they touch the same bytes behind a barrier. */
static void test_order_in_list(void)
{
    ze_command_list_handle_t regular = lists[REGULAR_FENCE];

    memcpy(model[SPREAD], model[HOST], 300000);
    memcpy(model[DEVICE] + 7, model[SPREAD] + 3, 290000);
    NEED(zeCommandListAppendMemoryCopy(regular, memory[SPREAD], memory[HOST], 300000, NULL, 0,
                                       NULL));
    NEED(zeCommandListAppendBarrier(regular, NULL, 0, NULL));
    NEED(zeCommandListAppendMemoryCopy(regular, memory[DEVICE] + 7, memory[SPREAD] + 3, 290000,
                                       NULL, 0, NULL));
    complete(REGULAR_FENCE);
    check_memory(SPREAD);
    check_memory(DEVICE);
}

/* An event orders copies of two lists, is seen by the host, and can be reset. */
static void test_events(void)
{
    ze_event_pool_desc_t   pool_desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                        .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE, .count = 3};
    ze_event_desc_t        desc      = {.stype  = ZE_STRUCTURE_TYPE_EVENT_DESC,
                                        .signal = ZE_EVENT_SCOPE_FLAG_HOST,
                                        .wait   = ZE_EVENT_SCOPE_FLAG_HOST};
    ze_event_pool_handle_t pool;
    ze_event_handle_t      events[3];
    unsigned               i, round;

    NEED(zeEventPoolCreate(context, &pool_desc, 1, &device, &pool));
    for (i = 0; i < 3; i++) {
        desc.index = i;
        NEED(zeEventCreate(pool, &desc, &events[i]));
        CHECK(zeEventQueryStatus(events[i]), ZE_RESULT_NOT_READY);
    }
    CHECK(zeEventHostSynchronize(events[0], 0), ZE_RESULT_NOT_READY);
    CHECK(zeEventHostSynchronize(events[0], 1000000), ZE_RESULT_NOT_READY);
    for (round = 0; round < 20; round++) {
        fill_pattern(model[HOST], sizes[HOST], 200 + round);
        memcpy(memory[HOST], model[HOST], sizes[HOST]);
        memcpy(model[SPREAD], model[HOST], 393216);
        memcpy(model[DEVICE], model[SPREAD], 393216);
        NEED(zeCommandListAppendMemoryCopy(lists[IMMEDIATE_ASYNC], memory[SPREAD], memory[HOST],
                                           393216, events[0], 0, NULL));
        NEED(zeCommandListAppendMemoryCopy(lists[REGULAR_FENCE], memory[DEVICE], memory[SPREAD],
                                           393216, events[1], 1, &events[0]));
        NEED(zeCommandListAppendSignalEvent(lists[REGULAR_FENCE], events[2]));
        NEED(zeCommandListClose(lists[REGULAR_FENCE]));
        NEED(zeCommandQueueExecuteCommandLists(queue, 1, &lists[REGULAR_FENCE], NULL));
        for (i = 0; i < 3; i++) {
            CHECK_OK(zeEventHostSynchronize(events[i], UINT64_MAX));
            CHECK_OK(zeEventQueryStatus(events[i]));
        }
        CHECK_OK(zeCommandQueueSynchronize(queue, UINT64_MAX));
        CHECK_OK(zeCommandListReset(lists[REGULAR_FENCE]));
        check_memory(DEVICE);
        for (i = 0; i < 3; i++) {
            CHECK_OK(zeEventHostReset(events[i]));
            CHECK(zeEventQueryStatus(events[i]), ZE_RESULT_NOT_READY);
        }
    }
    CHECK_OK(zeEventHostSignal(events[0]));
    CHECK_OK(zeEventQueryStatus(events[0]));
    for (i = 0; i < 3; i++) {
        CHECK_OK(zeEventDestroy(events[i]));
    }
    CHECK_OK(zeEventPoolDestroy(pool));
}

/* Memory that is not there is refused, and nothing is copied. */
static void test_bad_addresses(void)
{
    unsigned char *empty = reserve(2 * page);

    CHECK_TRUE(zeCommandListAppendMemoryCopy(list, empty, memory[HOST], 100, NULL, 0, NULL) !=
               ZE_RESULT_SUCCESS);
    CHECK_TRUE(zeCommandListAppendMemoryCopy(list, memory[HOST], empty, 100, NULL, 0, NULL) !=
               ZE_RESULT_SUCCESS);
    CHECK_TRUE(zeCommandListAppendMemoryCopy(list, memory[SPREAD] + spread.size - 50,
                                             memory[HOST], 100, NULL, 0, NULL) !=
               ZE_RESULT_SUCCESS);
    CHECK(zeCommandListAppendMemoryCopy(list, NULL, memory[HOST], 100, NULL, 0, NULL),
          ZE_RESULT_ERROR_INVALID_NULL_POINTER);
    CHECK(zeCommandListAppendMemoryCopy(list, memory[HOST], NULL, 100, NULL, 0, NULL),
          ZE_RESULT_ERROR_INVALID_NULL_POINTER);
    check_memory(SPREAD);
    check_memory(HOST);
    CHECK_OK(zeVirtualMemFree(context, empty, 2 * page));
}

int main(void)
{
    unsigned kind;

    test_start();
    set_up();
    make_ways();
    test_copies();
    test_fills();
    test_order_in_list();
    test_events();
    test_bad_addresses();
    CHECK_OK(zeFenceDestroy(fence));
    CHECK_OK(zeCommandQueueDestroy(queue));
    CHECK_OK(zeCommandListDestroy(lists[REGULAR_FENCE]));
    CHECK_OK(zeCommandListDestroy(lists[IMMEDIATE_ASYNC]));
    spread_drop(&spread, true);
    CHECK_OK(zeMemFree(context, memory[DEVICE]));
    CHECK_OK(zeMemFree(context, memory[HOST]));
    CHECK_OK(zeMemFree(context, memory[SHARED]));
    free(memory[PLAIN]);
    free(seen);
    for (kind = 0; kind < KINDS; kind++) {
        free(model[kind]);
    }
    return test_end();
}
