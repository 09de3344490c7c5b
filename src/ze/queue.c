/* Command queues: a stream, and the regular lists it is given. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

static ze_result_t zr_queue_check_desc(const struct zr_device         *device,
                                       const ze_command_queue_desc_t *desc)
{
    const uint32_t flags = ZE_COMMAND_QUEUE_FLAG_EXPLICIT_ONLY | ZE_COMMAND_QUEUE_FLAG_IN_ORDER |
                           ZE_COMMAND_QUEUE_FLAG_COPY_OFFLOAD_HINT;

    if ((desc->flags & ~flags) || (unsigned)desc->mode > ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS ||
        (unsigned)desc->priority > ZE_COMMAND_QUEUE_PRIORITY_PRIORITY_HIGH) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION,
                       "command queue: flags 0x%x, mode %d, priority %d", desc->flags, desc->mode,
                       desc->priority);
    }
    if (desc->ordinal >= zr_device_groups()) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "command queue: ordinal %u, device %u has %u groups", desc->ordinal,
                       device->index, zr_device_groups());
    }
    if (desc->index >= device->info->num_engines) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "command queue: index %u, device %u has %u queues", desc->index,
                       device->index, device->info->num_engines);
    }
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_queue_check(ze_context_handle_t hContext, ze_device_handle_t hDevice,
                           const ze_command_queue_desc_t *desc)
{
    ze_result_t result;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(desc);
    result = zr_context_check_device((struct zr_context *)hContext, (struct zr_device *)hDevice);
    return (result == ZE_RESULT_SUCCESS) ? zr_queue_check_desc((struct zr_device *)hDevice, desc)
                                         : result;
}

ze_result_t zr_zeCommandQueueCreate(ze_context_handle_t hContext, ze_device_handle_t hDevice,
                                    const ze_command_queue_desc_t *desc,
                                    ze_command_queue_handle_t     *phCommandQueue)
{
    struct zr_context *context = (struct zr_context *)hContext;
    struct zr_device  *device  = (struct zr_device *)hDevice;
    struct zr_queue   *queue;
    ze_result_t        result = zr_queue_check(hContext, hDevice, desc);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    ZR_CHECK_POINTER(phCommandQueue);
    queue = zr_object_create();
    if (queue == NULL) {
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    result = zr_stream_create(device, context->policy, &queue->stream);
    if (result != ZE_RESULT_SUCCESS) {
        zr_object_destroy(queue);
        return result;
    }
    queue->context    = context;
    queue->device     = device;
    queue->desc       = *desc;
    queue->desc.pNext = NULL;
    zr_object_publish(queue, ZR_KIND_QUEUE);
    *phCommandQueue = (ze_command_queue_handle_t)queue;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeCommandQueueDestroy(ze_command_queue_handle_t hCommandQueue)
{
    struct zr_queue  *queue = (struct zr_queue *)hCommandQueue;
    struct zr_stream *stream;

    ZR_CHECK_HANDLE(hCommandQueue, ZR_KIND_QUEUE);
    stream = queue->stream;
    zr_object_destroy(queue);
    zr_stream_close(stream);
    zr_stream_unref(stream);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_list_check_closed(const struct zr_device *device, ze_command_list_handle_t hList)
{
    const struct zr_list *list = (struct zr_list *)hList;

    ZR_CHECK_HANDLE(hList, ZR_KIND_LIST);
    if (list->stream != NULL) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE,
                       "an immediate command list cannot be executed by a queue");
    }
    if (list->device != device) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE,
                       "the command list is for device %u, the queue for device %u",
                       list->device->index, device->index);
    }
    if (!list->closed) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "the command list is not closed");
    }
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeCommandQueueExecuteCommandLists(ze_command_queue_handle_t hCommandQueue,
                                                 uint32_t                  numCommandLists,
                                                 ze_command_list_handle_t *phCommandLists,
                                                 ze_fence_handle_t         hFence)
{
    struct zr_queue *queue = (struct zr_queue *)hCommandQueue;
    struct zr_fence *fence = (struct zr_fence *)hFence;
    uint64_t         seqno = 0;
    ze_result_t      result;

    ZR_CHECK_HANDLE(hCommandQueue, ZR_KIND_QUEUE);
    ZR_CHECK_POINTER(phCommandLists);
    if (numCommandLists == 0) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_SIZE, "no command lists to execute");
    }
    if (hFence != NULL) {
        ZR_CHECK_HANDLE(hFence, ZR_KIND_FENCE);
        if (fence->stream != queue->stream) {
            return zr_fail(ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT,
                           "the fence belongs to another queue");
        }
    }
    for (uint32_t i = 0; i < numCommandLists; i++) {
        result = zr_list_check_closed(queue->device, phCommandLists[i]);
        if (result != ZE_RESULT_SUCCESS) {
            return result;
        }
    }
    for (uint32_t i = 0; i < numCommandLists; i++) {
        struct zr_list *list = (struct zr_list *)phCommandLists[i];

        result = zr_stream_run(queue->stream, list->ops, list->count,
                               list->flags & ZE_COMMAND_LIST_FLAG_RELAXED_ORDERING, &seqno);
        if (result != ZE_RESULT_SUCCESS) {
            return result;
        }
    }
    if (fence != NULL) {
        atomic_store(&fence->seqno, seqno);
        atomic_store(&fence->state, ZR_FENCE_SUBMITTED);
        zr_activity_bump();
    }
    return (queue->desc.mode == ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS)
               ? zr_stream_wait(queue->stream, seqno, UINT64_MAX)
               : ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeCommandQueueSynchronize(ze_command_queue_handle_t hCommandQueue, uint64_t timeout)
{
    ZR_CHECK_HANDLE(hCommandQueue, ZR_KIND_QUEUE);
    return zr_stream_drain(((struct zr_queue *)hCommandQueue)->stream, timeout);
}

/* The functions that tell what a queue was created with. */
#define ZR_QUEUE_GETTER(function, type, field)                                                    \
    ze_result_t function(ze_command_queue_handle_t hCommandQueue, type *value)                    \
    {                                                                                             \
        ZR_CHECK_HANDLE(hCommandQueue, ZR_KIND_QUEUE);                                            \
        ZR_CHECK_POINTER(value);                                                                  \
        *value = ((struct zr_queue *)hCommandQueue)->desc.field;                                  \
        return ZE_RESULT_SUCCESS;                                                                 \
    }
ZR_QUEUE_GETTER(zr_zeCommandQueueGetOrdinal, uint32_t, ordinal)
ZR_QUEUE_GETTER(zr_zeCommandQueueGetIndex, uint32_t, index)
ZR_IF_1_17(ZR_QUEUE_GETTER(zr_zeCommandQueueGetFlags, ze_command_queue_flags_t, flags))
ZR_IF_1_17(ZR_QUEUE_GETTER(zr_zeCommandQueueGetMode, ze_command_queue_mode_t, mode))
ZR_IF_1_17(ZR_QUEUE_GETTER(zr_zeCommandQueueGetPriority, ze_command_queue_priority_t, priority))
