/* Fences: the number of a queue's submission, and whether it is complete. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

ze_result_t zr_zeFenceCreate(ze_command_queue_handle_t hCommandQueue, const ze_fence_desc_t *desc,
                             ze_fence_handle_t *phFence)
{
    struct zr_queue *queue = (struct zr_queue *)hCommandQueue;
    struct zr_fence *fence;

    ZR_CHECK_HANDLE(hCommandQueue, ZR_KIND_QUEUE);
    ZR_CHECK_POINTER(desc);
    ZR_CHECK_POINTER(phFence);
    if (desc->flags & ~ZE_FENCE_FLAG_SIGNALED) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "zeFenceCreate: flags 0x%x",
                       desc->flags);
    }
    fence = zr_object_create();
    if (fence == NULL) {
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    fence->stream = zr_stream_ref(queue->stream);
    fence->state  = (desc->flags & ZE_FENCE_FLAG_SIGNALED) ? ZR_FENCE_SIGNALED : ZR_FENCE_UNUSED;
    zr_object_publish(fence, ZR_KIND_FENCE);
    *phFence = (ze_fence_handle_t)fence;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeFenceDestroy(ze_fence_handle_t hFence)
{
    struct zr_fence  *fence = (struct zr_fence *)hFence;
    struct zr_stream *stream;

    ZR_CHECK_HANDLE(hFence, ZR_KIND_FENCE);
    stream = fence->stream;
    zr_object_destroy(fence);
    zr_stream_unref(stream);
    return ZE_RESULT_SUCCESS;
}

static ze_result_t zr_fence_query(struct zr_fence *fence, uint64_t timeout_ns)
{
    int         expected = ZR_FENCE_SUBMITTED;
    uint64_t    seqno;
    ze_result_t result;

    switch (atomic_load(&fence->state)) {
    case ZR_FENCE_SIGNALED:
        return ZE_RESULT_SUCCESS;
    case ZR_FENCE_UNUSED:
        return ZE_RESULT_NOT_READY;
    default:
        break;
    }
    seqno  = atomic_load(&fence->seqno);
    result = timeout_ns ? zr_stream_wait(fence->stream, seqno, timeout_ns)
                        : zr_stream_query(fence->stream, seqno);
    if (result == ZE_RESULT_SUCCESS && atomic_load(&fence->seqno) == seqno) {
        atomic_compare_exchange_strong(&fence->state, &expected, ZR_FENCE_SIGNALED);
    }
    return result;
}

ze_result_t zr_zeFenceQueryStatus(ze_fence_handle_t hFence)
{
    ZR_CHECK_HANDLE(hFence, ZR_KIND_FENCE);
    return zr_fence_query((struct zr_fence *)hFence, 0);
}

ze_result_t zr_zeFenceHostSynchronize(ze_fence_handle_t hFence, uint64_t timeout)
{
    struct zr_fence *fence    = (struct zr_fence *)hFence;
    uint64_t         deadline = zr_deadline(timeout);
    uint64_t         seen, now;
    ze_result_t      result;

    ZR_CHECK_HANDLE(hFence, ZR_KIND_FENCE);
    for (;;) {
        seen   = zr_activity_count();
        now    = zr_time_ns();
        result = zr_fence_query(fence, (now < deadline) ? deadline - now : 0);
        if (result != ZE_RESULT_NOT_READY || now >= deadline) {
            return result;
        }
        if (atomic_load(&fence->state) == ZR_FENCE_UNUSED) {
            zr_activity_wait(seen, deadline); /* another thread may submit it */
        }
    }
}

ze_result_t zr_zeFenceReset(ze_fence_handle_t hFence)
{
    struct zr_fence *fence = (struct zr_fence *)hFence;

    ZR_CHECK_HANDLE(hFence, ZR_KIND_FENCE);
    atomic_store(&fence->state, ZR_FENCE_UNUSED);
    return ZE_RESULT_SUCCESS;
}
