/* Command lists: a regular one records operations until a queue carries them out, an immediate one
 * has a stream of its own and carries out each append. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

#include <stdlib.h>
#include <string.h>

/* queue.c */
ze_result_t zr_queue_check(ze_context_handle_t hContext, ze_device_handle_t hDevice,
                           const ze_command_queue_desc_t *desc);

/* ---- life ---- */

ze_result_t zr_zeCommandListCreate(ze_context_handle_t hContext, ze_device_handle_t hDevice,
                                   const ze_command_list_desc_t *desc,
                                   ze_command_list_handle_t     *phCommandList)
{
    const uint32_t flags =
        ZE_COMMAND_LIST_FLAG_RELAXED_ORDERING | ZE_COMMAND_LIST_FLAG_MAXIMIZE_THROUGHPUT |
        ZE_COMMAND_LIST_FLAG_EXPLICIT_ONLY | ZE_COMMAND_LIST_FLAG_IN_ORDER |
        ZE_COMMAND_LIST_FLAG_EXP_CLONEABLE | ZE_COMMAND_LIST_FLAG_COPY_OFFLOAD_HINT;
    ze_command_queue_desc_t queue_desc = {0};
    struct zr_list         *list;
    ze_result_t             result;

    ZR_CHECK_POINTER(desc);
    ZR_CHECK_POINTER(phCommandList);
    queue_desc.ordinal = desc->commandQueueGroupOrdinal;
    result             = zr_queue_check(hContext, hDevice, &queue_desc);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    if (desc->flags & ~flags) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "zeCommandListCreate: flags 0x%x",
                       desc->flags);
    }
    list = zr_object_create();
    if (list == NULL) {
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    list->context = (struct zr_context *)hContext;
    list->device  = (struct zr_device *)hDevice;
    list->flags   = desc->flags;
    list->desc    = queue_desc;
    zr_object_publish(list, ZR_KIND_LIST);
    *phCommandList = (ze_command_list_handle_t)list;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeCommandListCreateImmediate(ze_context_handle_t            hContext,
                                            ze_device_handle_t             hDevice,
                                            const ze_command_queue_desc_t *altdesc,
                                            ze_command_list_handle_t      *phCommandList)
{
    struct zr_context *context = (struct zr_context *)hContext;
    struct zr_list    *list;
    ze_result_t        result = zr_queue_check(hContext, hDevice, altdesc);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    ZR_CHECK_POINTER(phCommandList);
    list = zr_object_create();
    if (list == NULL) {
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    list->context    = context;
    list->device     = (struct zr_device *)hDevice;
    list->desc       = *altdesc;
    list->desc.pNext = NULL;
    result           = zr_stream_create(list->device, context->policy, &list->stream);
    if (result != ZE_RESULT_SUCCESS) {
        zr_object_destroy(list);
        return result;
    }
    zr_object_publish(list, ZR_KIND_LIST);
    *phCommandList = (ze_command_list_handle_t)list;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeCommandListDestroy(ze_command_list_handle_t hCommandList)
{
    struct zr_list   *list = (struct zr_list *)hCommandList;
    struct zr_stream *stream;
    struct zr_op     *ops;

    ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);
    stream = list->stream;
    ops    = list->ops;
    zr_object_destroy(list);
    if (stream != NULL) {
        zr_stream_close(stream);
        zr_stream_unref(stream);
    }
    free(ops);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeCommandListClose(ze_command_list_handle_t hCommandList)
{
    ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);
    ((struct zr_list *)hCommandList)->closed = true;
    return ZE_RESULT_SUCCESS;
}

/* An immediate list has nothing recorded; ucx_perftest resets one after every append. */
ze_result_t zr_zeCommandListReset(ze_command_list_handle_t hCommandList)
{
    struct zr_list *list = (struct zr_list *)hCommandList;

    ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);
    list->count  = 0;
    list->closed = false;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeCommandListHostSynchronize(ze_command_list_handle_t hCommandList, uint64_t timeout)
{
    struct zr_list *list = (struct zr_list *)hCommandList;

    ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);
    if (list->stream == NULL) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "zeCommandListHostSynchronize: the command list is not immediate");
    }
    return zr_stream_drain(list->stream, timeout);
}

/* ---- recording ---- */

ze_result_t zr_list_push(struct zr_list *list, const struct zr_op *op)
{
    if (list->count == list->capacity) {
        unsigned      capacity = list->capacity ? 2 * list->capacity : 8;
        struct zr_op *ops      = realloc(list->ops, capacity * sizeof(*ops));

        if (ops == NULL) {
            return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY,
                           "a command list of %u operations cannot grow", list->count);
        }
        list->ops      = ops;
        list->capacity = capacity;
    }
    list->ops[list->count++] = *op;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t zr_list_push_event(struct zr_list *list, enum zr_op_type type,
                                      ze_event_handle_t hEvent)
{
    struct zr_op op = {.type = type, .event = (struct zr_event *)hEvent};

    ZR_CHECK_HANDLE(hEvent, ZR_KIND_EVENT);
    return zr_list_push(list, &op);
}

/* Waits, the operation (NULL: none), the signal. */
static ze_result_t zr_list_record(struct zr_list *list, const struct zr_op *op,
                                  ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
                                  ze_event_handle_t *phWaitEvents)
{
    ze_result_t result = ZE_RESULT_SUCCESS;

    for (uint32_t i = 0; i < numWaitEvents && result == ZE_RESULT_SUCCESS; i++) {
        result = zr_list_push_event(list, ZR_OP_WAIT, phWaitEvents[i]);
    }
    if (result == ZE_RESULT_SUCCESS && hSignalEvent != NULL) {
        ZR_CHECK_HANDLE(hSignalEvent, ZR_KIND_EVENT);
        if (zr_event_has_times((struct zr_event *)hSignalEvent)) {
            result = zr_list_push_event(list, ZR_OP_STARTED, hSignalEvent);
        }
    }
    if (result == ZE_RESULT_SUCCESS && op != NULL) {
        result = zr_list_push(list, op);
    }
    if (result == ZE_RESULT_SUCCESS && hSignalEvent != NULL) {
        result = zr_list_push_event(list, ZR_OP_SIGNAL, hSignalEvent);
    }
    return result;
}

ze_result_t zr_list_append(struct zr_list *list, const struct zr_op *op,
                           ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
                           ze_event_handle_t *phWaitEvents)
{
    unsigned    count = list->count;
    uint64_t    seqno;
    ze_result_t result;

    if (numWaitEvents > 0 && phWaitEvents == NULL) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_SIZE, "%u events to wait for but no array",
                       numWaitEvents);
    }
    if (list->closed && list->stream == NULL) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "the command list is closed");
    }
    result = zr_list_record(list, op, hSignalEvent, numWaitEvents, phWaitEvents);
    if (result != ZE_RESULT_SUCCESS) {
        list->count = count;
        return result;
    }
    if (list->stream == NULL) {
        return ZE_RESULT_SUCCESS;
    }
    result      = zr_stream_run(list->stream, list->ops, list->count, false, &seqno);
    list->count = 0;
    if (result == ZE_RESULT_SUCCESS && list->desc.mode == ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS) {
        result = zr_stream_wait(list->stream, seqno, UINT64_MAX);
    }
    return result;
}

#define ZR_APPEND(op)                                                                             \
    zr_list_append((struct zr_list *)hCommandList, (op), hSignalEvent, numWaitEvents, phWaitEvents)

ze_result_t zr_zeCommandListAppendMemoryCopy(ze_command_list_handle_t hCommandList, void *dstptr,
                                             const void *srcptr, size_t size,
                                             ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
                                             ze_event_handle_t *phWaitEvents)
{
    struct zr_op op = {.type = ZR_OP_COPY, .copy = {dstptr, srcptr, size}};

    ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);
    ZR_CHECK_POINTER(dstptr);
    ZR_CHECK_POINTER(srcptr);
    return ZR_APPEND(&op);
}

/* Every context may use every pointer, so that whose the source is makes no difference. */
ze_result_t zr_zeCommandListAppendMemoryCopyFromContext(
    ze_command_list_handle_t hCommandList, void *dstptr, ze_context_handle_t hContextSrc,
    const void *srcptr, size_t size, ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
    ze_event_handle_t *phWaitEvents)
{
    ZR_CHECK_HANDLE(hContextSrc, ZR_KIND_CONTEXT);
    return zr_zeCommandListAppendMemoryCopy(hCommandList, dstptr, srcptr, size, hSignalEvent,
                                            numWaitEvents, phWaitEvents);
}

ze_result_t zr_zeCommandListAppendMemoryFill(ze_command_list_handle_t hCommandList, void *ptr,
                                             const void *pattern, size_t pattern_size, size_t size,
                                             ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
                                             ze_event_handle_t *phWaitEvents)
{
    struct zr_op op = {.type = ZR_OP_FILL,
                       .fill = {.dst = ptr, .size = size, .pattern_size = pattern_size}};

    ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);
    ZR_CHECK_POINTER(ptr);
    ZR_CHECK_POINTER(pattern);
    if (pattern_size == 0 || (pattern_size & (pattern_size - 1)) != 0) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_SIZE,
                       "fill at %p: a pattern of %zu bytes is not a power of two", ptr,
                       pattern_size);
    }
    if (pattern_size > ZR_MAX_PATTERN) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
                       "fill at %p: a pattern of %zu bytes, the longest is %u", ptr, pattern_size,
                       ZR_MAX_PATTERN);
    }
    memcpy(op.fill.pattern, pattern, pattern_size);
    return ZR_APPEND(&op);
}

ze_result_t zr_zeCommandListAppendMemoryCopyRegion(
    ze_command_list_handle_t hCommandList, void *dstptr, const ze_copy_region_t *dstRegion,
    uint32_t dstPitch, uint32_t dstSlicePitch, const void *srcptr,
    const ze_copy_region_t *srcRegion, uint32_t srcPitch, uint32_t srcSlicePitch,
    ze_event_handle_t hSignalEvent, uint32_t numWaitEvents, ze_event_handle_t *phWaitEvents)
{
    struct zr_op op = {.type = ZR_OP_REGION};

    ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);
    ZR_CHECK_POINTER(dstptr);
    ZR_CHECK_POINTER(dstRegion);
    ZR_CHECK_POINTER(srcptr);
    ZR_CHECK_POINTER(srcRegion);
    op.region = (struct zr_region){
        .dst             = dstptr,
        .src             = srcptr,
        .dst_region      = *dstRegion,
        .src_region      = *srcRegion,
        .dst_pitch       = dstPitch,
        .dst_slice_pitch = dstSlicePitch,
        .src_pitch       = srcPitch,
        .src_slice_pitch = srcSlicePitch,
    };
    if (dstRegion->width != srcRegion->width || dstRegion->height != srcRegion->height ||
        dstRegion->depth != srcRegion->depth) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "copy region: destination %ux%ux%u, source %ux%ux%u", dstRegion->width,
                       dstRegion->height, dstRegion->depth, srcRegion->width, srcRegion->height,
                       srcRegion->depth);
    }
    return ZR_APPEND(&op);
}

#if ZE_API_VERSION_CURRENT_M >= ZE_MAKE_VERSION(1, 16)
ze_result_t zr_zeCommandListAppendMemoryCopyWithParameters(
    ze_command_list_handle_t hCommandList, void *dstptr, const void *srcptr, size_t size,
    const void *pNext, ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
    ze_event_handle_t *phWaitEvents)
{
    return zr_zeCommandListAppendMemoryCopy(hCommandList, dstptr, srcptr, size, hSignalEvent,
                                            numWaitEvents, phWaitEvents);
}

ze_result_t zr_zeCommandListAppendMemoryFillWithParameters(
    ze_command_list_handle_t hCommandList, void *ptr, const void *pattern, size_t pattern_size,
    size_t size, const void *pNext, ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
    ze_event_handle_t *phWaitEvents)
{
    return zr_zeCommandListAppendMemoryFill(hCommandList, ptr, pattern, pattern_size, size,
                                            hSignalEvent, numWaitEvents, phWaitEvents);
}
#endif

ze_result_t zr_zeCommandListAppendBarrier(ze_command_list_handle_t hCommandList,
                                          ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
                                          ze_event_handle_t *phWaitEvents)
{
    struct zr_op op = {.type = ZR_OP_BARRIER};

    ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);
    return ZR_APPEND(&op);
}

ze_result_t zr_zeCommandListAppendMemoryRangesBarrier(
    ze_command_list_handle_t hCommandList, uint32_t numRanges, const size_t *pRangeSizes,
    const void **pRanges, ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
    ze_event_handle_t *phWaitEvents)
{
    ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);
    ZR_CHECK_POINTER(pRangeSizes);
    ZR_CHECK_POINTER(pRanges);
    return zr_zeCommandListAppendBarrier(hCommandList, hSignalEvent, numWaitEvents, phWaitEvents);
}

ze_result_t zr_zeCommandListAppendWriteGlobalTimestamp(ze_command_list_handle_t hCommandList,
                                                       uint64_t *dstptr,
                                                       ze_event_handle_t hSignalEvent,
                                                       uint32_t numWaitEvents,
                                                       ze_event_handle_t *phWaitEvents)
{
    struct zr_op op = {.type = ZR_OP_TIMESTAMP, .timestamp = dstptr};

    ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);
    ZR_CHECK_POINTER(dstptr);
    return ZR_APPEND(&op);
}

ze_result_t zr_zeCommandListAppendSignalEvent(ze_command_list_handle_t hCommandList,
                                              ze_event_handle_t        hEvent)
{
    ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);
    ZR_CHECK_HANDLE(hEvent, ZR_KIND_EVENT);
    return zr_list_append((struct zr_list *)hCommandList, NULL, hEvent, 0, NULL);
}

ze_result_t zr_zeCommandListAppendWaitOnEvents(ze_command_list_handle_t hCommandList,
                                               uint32_t numEvents, ze_event_handle_t *phEvents)
{
    ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);
    ZR_CHECK_POINTER(phEvents);
    return zr_list_append((struct zr_list *)hCommandList, NULL, NULL, numEvents, phEvents);
}

ze_result_t zr_zeCommandListAppendEventReset(ze_command_list_handle_t hCommandList,
                                             ze_event_handle_t        hEvent)
{
    struct zr_op op = {.type = ZR_OP_RESET, .event = (struct zr_event *)hEvent};

    ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);
    ZR_CHECK_HANDLE(hEvent, ZR_KIND_EVENT);
    return zr_list_append((struct zr_list *)hCommandList, &op, NULL, 0, NULL);
}

ze_result_t zr_zeCommandListAppendQueryKernelTimestamps(
    ze_command_list_handle_t hCommandList, uint32_t numEvents, ze_event_handle_t *phEvents,
    void *dstptr, const size_t *pOffsets, ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
    ze_event_handle_t *phWaitEvents)
{
    struct zr_list *list = (struct zr_list *)hCommandList;
    ze_result_t     result;

    ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);
    ZR_CHECK_POINTER(phEvents);
    ZR_CHECK_POINTER(dstptr);
    if (hSignalEvent != NULL) {
        ZR_CHECK_HANDLE(hSignalEvent, ZR_KIND_EVENT);
    }
    for (uint32_t i = 0; i < numEvents; i++) {
        ZR_CHECK_HANDLE(phEvents[i], ZR_KIND_EVENT);
        if (!zr_event_has_times((struct zr_event *)phEvents[i])) {
            return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                           "event %u: its pool was created without KERNEL_TIMESTAMP", i);
        }
    }
    result = zr_list_append(list, NULL, NULL, numWaitEvents, phWaitEvents);
    for (uint32_t i = 0; i < numEvents && result == ZE_RESULT_SUCCESS; i++) {
        size_t offset = pOffsets ? pOffsets[i] : i * sizeof(ze_kernel_timestamp_result_t);
        struct zr_op op = {.type = ZR_OP_TIMES};

        op.times.event = (struct zr_event *)phEvents[i];
        op.times.dst   = (void *)((char *)dstptr + offset);
        result         = zr_list_append(list, &op, NULL, 0, NULL);
    }
    return (result == ZE_RESULT_SUCCESS && hSignalEvent != NULL)
               ? zr_list_append(list, NULL, hSignalEvent, 0, NULL)
               : result;
}

/* Hints; where memory lives is fixed when it is made. */
ze_result_t zr_zeCommandListAppendMemoryPrefetch(ze_command_list_handle_t hCommandList,
                                                 const void *ptr, size_t size)
{
    ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);
    ZR_CHECK_POINTER(ptr);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeCommandListAppendMemAdvise(ze_command_list_handle_t hCommandList,
                                            ze_device_handle_t hDevice, const void *ptr,
                                            size_t size, ze_memory_advice_t advice)
{
    ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(ptr);
    return ZE_RESULT_SUCCESS;
}

/* ---- what a list was created with ---- */

#define ZR_LIST_GETTER(function, type, value, immediate)                                          \
    ze_result_t function(ze_command_list_handle_t hCommandList, type *value_p)                    \
    {                                                                                             \
        struct zr_list *list = (struct zr_list *)hCommandList;                                    \
                                                                                                  \
        ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);                                              \
        ZR_CHECK_POINTER(value_p);                                                                \
        if ((immediate) && list->stream == NULL) {                                                \
            return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,                                      \
                           "%s: the command list is not immediate", __func__ + 3);                \
        }                                                                                         \
        *value_p = (value);                                                                       \
        return ZE_RESULT_SUCCESS;                                                                 \
    }
ZR_LIST_GETTER(zr_zeCommandListGetDeviceHandle, ze_device_handle_t,
               (ze_device_handle_t)list->device, false)
ZR_LIST_GETTER(zr_zeCommandListGetContextHandle, ze_context_handle_t,
               (ze_context_handle_t)list->context, false)
ZR_LIST_GETTER(zr_zeCommandListGetOrdinal, uint32_t, list->desc.ordinal, false)
ZR_LIST_GETTER(zr_zeCommandListIsImmediate, ze_bool_t, list->stream != NULL, false)
ZR_LIST_GETTER(zr_zeCommandListImmediateGetIndex, uint32_t, list->desc.index, true)
ZR_IF_1_17(ZR_LIST_GETTER(zr_zeCommandListGetFlags, ze_command_list_flags_t, list->flags, false))
ZR_IF_1_17(ZR_LIST_GETTER(zr_zeCommandListImmediateGetFlags, ze_command_queue_flags_t,
                          list->desc.flags, true))
ZR_IF_1_17(ZR_LIST_GETTER(zr_zeCommandListImmediateGetMode, ze_command_queue_mode_t,
                          list->desc.mode, true))
ZR_IF_1_17(ZR_LIST_GETTER(zr_zeCommandListImmediateGetPriority, ze_command_queue_priority_t,
                          list->desc.priority, true))
