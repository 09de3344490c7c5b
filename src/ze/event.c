/* Events: words in memory that engines and the host write, and waiting for them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"
#include "util/order.h"

#include <string.h>
#include <sys/mman.h>

#define ZR_EVENT_SPIN_NS  20000     /* a copy of a few KiB is over by then */
#define ZR_EVENT_SLICE_NS 10000000  /* the host may signal what a stream also would */
#define ZR_EVENT_PEER_NS  200000    /* how often a word is looked at that another process writes */

/* ---- activity ---- */

static pthread_mutex_t  activity_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t   activity_cond;
static pthread_once_t   activity_once = PTHREAD_ONCE_INIT;
static _Atomic uint64_t activity_count;
static _Atomic unsigned activity_waiters;

static void zr_activity_init(void)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&activity_cond, &attr);
    pthread_condattr_destroy(&attr);
}

uint64_t zr_activity_count(void)
{
    return atomic_load(&activity_count);
}

void zr_activity_bump(void)
{
    atomic_fetch_add(&activity_count, 1);
    if (atomic_load(&activity_waiters) > 0) {
        pthread_mutex_lock(&activity_lock);
        pthread_cond_broadcast(&activity_cond);
        pthread_mutex_unlock(&activity_lock);
    }
}

void zr_activity_wait(uint64_t seen, uint64_t deadline_ns)
{
    struct timespec until = {.tv_sec  = ZR_MIN(deadline_ns / 1000000000u, (uint64_t)INT32_MAX),
                             .tv_nsec = deadline_ns % 1000000000u};

    pthread_once(&activity_once, zr_activity_init);
    pthread_mutex_lock(&activity_lock);
    atomic_fetch_add(&activity_waiters, 1);
    while (atomic_load(&activity_count) == seen &&
           pthread_cond_timedwait(&activity_cond, &activity_lock, &until) == 0) {
    }
    atomic_fetch_sub(&activity_waiters, 1);
    pthread_mutex_unlock(&activity_lock);
}

/* ---- pools ---- */

ze_result_t zr_zeEventPoolCreate(ze_context_handle_t hContext, const ze_event_pool_desc_t *desc,
                                 uint32_t numDevices, ze_device_handle_t *phDevices,
                                 ze_event_pool_handle_t *phEventPool)
{
    const uint32_t flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE | ZE_EVENT_POOL_FLAG_IPC |
                           ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP |
                           ZE_EVENT_POOL_FLAG_KERNEL_MAPPED_TIMESTAMP;
    struct zr_context    *context = (struct zr_context *)hContext;
    struct zr_event_pool *pool;
    void                 *cpu;
    ze_result_t           result;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_POINTER(desc);
    ZR_CHECK_POINTER(phEventPool);
    if (desc->flags & ~flags) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "zeEventPoolCreate: flags 0x%x",
                       desc->flags);
    }
    if (desc->count == 0 || (phDevices == NULL && numDevices > 0)) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_SIZE, "zeEventPoolCreate: %u events, %u devices%s",
                       desc->count, numDevices, phDevices ? "" : " but no array");
    }
    for (uint32_t i = 0; i < numDevices; i++) {
        ZR_CHECK_HANDLE(phDevices[i], ZR_KIND_DEVICE);
    }
    pool = zr_object_create();
    if (pool == NULL) {
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    pool->context = context;
    pool->device = numDevices ? (struct zr_device *)phDevices[0] : zr_context_device(context);
    pool->flags  = desc->flags;
    pool->count  = desc->count;
    /* One slot more: event_ipc.c's. */
    pool->size = ZR_ALIGN_UP((desc->count + UINT64_C(1)) * sizeof(struct zr_event_state),
                             ZR_PAGE_SMALL);
    result = zr_phys_create(pool->device->i915, ZR_BACKING_SECTION, ZR_CACHE_CACHED, pool->size, 0,
                            &pool->phys);
    if (result != ZE_RESULT_SUCCESS) {
        goto err_object;
    }
    result = zr_phys_bo(pool->phys, pool->device->i915, &pool->bo);
    if (result != ZE_RESULT_SUCCESS) {
        goto err_phys;
    }
    result = zr_bo_map(pool->bo, NULL, 0, pool->size, PROT_READ | PROT_WRITE, &cpu);
    if (result != ZE_RESULT_SUCCESS) {
        goto err_phys;
    }
    pool->cpu = cpu;
    zr_object_publish(pool, ZR_KIND_EVENT_POOL);
    *phEventPool = (ze_event_pool_handle_t)pool;
    return ZE_RESULT_SUCCESS;

err_phys:
    zr_phys_unref(pool->phys);
err_object:
    zr_object_destroy(pool);
    return result;
}

ze_result_t zr_zeEventPoolDestroy(ze_event_pool_handle_t hEventPool)
{
    struct zr_event_pool *pool = (struct zr_event_pool *)hEventPool;

    ZR_CHECK_HANDLE(hEventPool, ZR_KIND_EVENT_POOL);
    if (pool->opened && atomic_load(&pool->live) == 0) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "zeEventPoolDestroy: the pool was opened from a handle, it is closed");
    }
    if (atomic_load(&pool->live) > 0) {
        return zr_fail(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE,
                       "zeEventPoolDestroy: %u events of the pool exist", pool->live);
    }
    zr_ipc_forget(pool);
    zr_bo_unmap(pool->bo, pool->cpu, pool->size);
    zr_phys_unref(pool->phys);
    zr_object_destroy(pool);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeEventPoolGetContextHandle(ze_event_pool_handle_t hEventPool,
                                           ze_context_handle_t   *phContext)
{
    ZR_CHECK_HANDLE(hEventPool, ZR_KIND_EVENT_POOL);
    ZR_CHECK_POINTER(phContext);
    *phContext = (ze_context_handle_t)((struct zr_event_pool *)hEventPool)->context;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeEventPoolGetFlags(ze_event_pool_handle_t hEventPool, ze_event_pool_flags_t *pFlags)
{
    ZR_CHECK_HANDLE(hEventPool, ZR_KIND_EVENT_POOL);
    ZR_CHECK_POINTER(pFlags);
    *pFlags = ((struct zr_event_pool *)hEventPool)->flags;
    return ZE_RESULT_SUCCESS;
}

/* ---- events ---- */

bool zr_event_has_times(const struct zr_event *event)
{
    return event->pool->flags &
           (ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP | ZE_EVENT_POOL_FLAG_KERNEL_MAPPED_TIMESTAMP);
}

/* Whose submission will signal it from now on; NULL: nobody known. */
static void zr_event_set_source(struct zr_event *event, struct zr_stream *stream, uint64_t seqno)
{
    struct zr_stream *old;

    pthread_mutex_lock(&event->lock);
    old           = event->stream;
    event->stream = stream ? zr_stream_ref(stream) : NULL;
    event->seqno  = seqno;
    pthread_mutex_unlock(&event->lock);
    if (old != NULL) {
        zr_stream_unref(old);
    }
}

void zr_event_arm(struct zr_event *event, struct zr_stream *stream, uint64_t seqno)
{
    zr_event_set_source(event, stream, seqno);
    zr_activity_bump();
}

ze_result_t zr_zeEventCreate(ze_event_pool_handle_t hEventPool, const ze_event_desc_t *desc,
                             ze_event_handle_t *phEvent)
{
    const uint32_t scopes = ZE_EVENT_SCOPE_FLAG_SUBDEVICE | ZE_EVENT_SCOPE_FLAG_DEVICE |
                            ZE_EVENT_SCOPE_FLAG_HOST;
    struct zr_event_pool *pool = (struct zr_event_pool *)hEventPool;
    struct zr_event      *event;

    ZR_CHECK_HANDLE(hEventPool, ZR_KIND_EVENT_POOL);
    ZR_CHECK_POINTER(desc);
    ZR_CHECK_POINTER(phEvent);
    if ((desc->signal & ~scopes) || (desc->wait & ~scopes)) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "zeEventCreate: scopes 0x%x, 0x%x",
                       desc->signal, desc->wait);
    }
    if (desc->index >= pool->count) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "zeEventCreate: index %u in a pool of %u", desc->index, pool->count);
    }
    event = zr_object_create();
    if (event == NULL) {
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    event->pool       = pool;
    event->desc       = *desc;
    event->desc.pNext = NULL;
    event->offset     = (uint64_t)desc->index * sizeof(struct zr_event_state);
    event->state      = (struct zr_event_state *)(pool->cpu + event->offset);
    if (!pool->opened) { /* else it has the state its creator gave it */
        memset(event->state, 0, sizeof(*event->state));
    }
    pthread_mutex_init(&event->lock, NULL);
    atomic_fetch_add(&pool->live, 1);
    zr_object_publish(event, ZR_KIND_EVENT);
    *phEvent = (ze_event_handle_t)event;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeEventDestroy(ze_event_handle_t hEvent)
{
    struct zr_event      *event = (struct zr_event *)hEvent;
    struct zr_event_pool *pool;

    ZR_CHECK_HANDLE(hEvent, ZR_KIND_EVENT);
    pool = event->pool;
    zr_event_set_source(event, NULL, 0);
    pthread_mutex_destroy(&event->lock);
    zr_object_destroy(event);
    atomic_fetch_sub(&pool->live, 1);
    return ZE_RESULT_SUCCESS;
}

static bool zr_event_signaled(const struct zr_event *event)
{
    if (atomic_load_explicit(&event->state->signaled, memory_order_acquire) == 0) {
        return false;
    }
    zr_order_acquire((const void *)&event->state->signaled);
    return true;
}

/* The stream that will signal it, with a reference; NULL if none is known. */
static struct zr_stream *zr_event_source(struct zr_event *event, uint64_t *seqno_p)
{
    struct zr_stream *stream;

    pthread_mutex_lock(&event->lock);
    stream   = event->stream ? zr_stream_ref(event->stream) : NULL;
    *seqno_p = event->seqno;
    pthread_mutex_unlock(&event->lock);
    return stream;
}

/* A submission that is complete will not signal again. */
static void zr_event_drop_source(struct zr_event *event, const struct zr_stream *stream,
                                 uint64_t seqno)
{
    struct zr_stream *old = NULL;

    pthread_mutex_lock(&event->lock);
    if (event->stream == stream && event->seqno == seqno) {
        old           = event->stream;
        event->stream = NULL;
    }
    pthread_mutex_unlock(&event->lock);
    if (old != NULL) {
        zr_stream_unref(old);
    }
}

/* Signaled or not, look at the stream behind it for @a wait_ns at most: there a lost device shows,
 * and what is complete lets go of its objects. */
static ze_result_t zr_event_look(struct zr_event *event, uint64_t wait_ns, bool *source_p)
{
    uint64_t          seqno;
    struct zr_stream *stream = zr_event_source(event, &seqno);
    ze_result_t       result = ZE_RESULT_NOT_READY;

    *source_p = stream != NULL;
    if (stream != NULL) {
        result = wait_ns ? zr_stream_wait(stream, seqno, wait_ns) : zr_stream_query(stream, seqno);
        if (result == ZE_RESULT_SUCCESS) {
            zr_event_drop_source(event, stream, seqno);
        }
        zr_stream_unref(stream);
    }
    if (zr_event_signaled(event)) {
        return ZE_RESULT_SUCCESS;
    }
    return (result == ZE_RESULT_SUCCESS) ? ZE_RESULT_NOT_READY : result;
}

ze_result_t zr_zeEventQueryStatus(ze_event_handle_t hEvent)
{
    bool source;

    ZR_CHECK_HANDLE(hEvent, ZR_KIND_EVENT);
    return zr_event_look((struct zr_event *)hEvent, 0, &source);
}

ze_result_t zr_zeEventHostSynchronize(ze_event_handle_t hEvent, uint64_t timeout)
{
    struct zr_event *event = (struct zr_event *)hEvent;
    uint64_t         start = zr_time_ns(), now = start, deadline, seen;
    bool             source;
    ze_result_t      result;

    ZR_CHECK_HANDLE(hEvent, ZR_KIND_EVENT);
    deadline = zr_deadline(timeout);
    while (!zr_event_signaled(event) && now < deadline && now - start < ZR_EVENT_SPIN_NS) {
        now = zr_time_ns();
    }
    for (;;) {
        uint64_t left;

        seen   = zr_activity_count();
        now    = zr_time_ns();
        left   = (now < deadline) ? deadline - now : 0;
        result = zr_event_look(event, ZR_MIN(left, (uint64_t)ZR_EVENT_SLICE_NS), &source);
        if (result != ZE_RESULT_NOT_READY || left == 0) {
            return result;
        }
        if (!source) {
            /* No signal of another process wakes this one. */
            zr_activity_wait(seen, (event->pool->flags & ZE_EVENT_POOL_FLAG_IPC)
                                       ? ZR_MIN(deadline, now + ZR_EVENT_PEER_NS)
                                       : deadline);
        }
    }
}

ze_result_t zr_zeEventHostSignal(ze_event_handle_t hEvent)
{
    struct zr_event *event = (struct zr_event *)hEvent;

    ZR_CHECK_HANDLE(hEvent, ZR_KIND_EVENT);
    zr_order_release((const void *)&event->state->signaled);
    atomic_store_explicit(&event->state->signaled, 1, memory_order_release);
    zr_activity_bump();
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeEventHostReset(ze_event_handle_t hEvent)
{
    struct zr_event *event = (struct zr_event *)hEvent;

    ZR_CHECK_HANDLE(hEvent, ZR_KIND_EVENT);
    event->state->start = 0;
    event->state->end   = 0;
    atomic_store_explicit(&event->state->signaled, 0, memory_order_release);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeEventQueryKernelTimestamp(ze_event_handle_t             hEvent,
                                           ze_kernel_timestamp_result_t *dstptr)
{
    struct zr_event           *event = (struct zr_event *)hEvent;
    ze_kernel_timestamp_data_t times;

    ZR_CHECK_HANDLE(hEvent, ZR_KIND_EVENT);
    ZR_CHECK_POINTER(dstptr);
    if (!zr_event_has_times(event)) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "the event's pool was created without KERNEL_TIMESTAMP");
    }
    if (!zr_event_signaled(event)) {
        return ZE_RESULT_NOT_READY;
    }
    times.kernelStart = event->state->start;
    times.kernelEnd   = event->state->end;
    dstptr->global    = times; /* one clock: a context does not have its own */
    dstptr->context   = times;
    return ZE_RESULT_SUCCESS;
}

/* One copy engine's times: a device has no more to tell. */
ze_result_t zr_zeEventQueryTimestampsExp(ze_event_handle_t hEvent, ze_device_handle_t hDevice,
                                         uint32_t                     *pCount,
                                         ze_kernel_timestamp_result_t *pTimestamps)
{
    ze_result_t result = ZE_RESULT_SUCCESS;

    ZR_CHECK_HANDLE(hEvent, ZR_KIND_EVENT);
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(pCount);
    if (*pCount > 0 && pTimestamps != NULL) {
        result = zr_zeEventQueryKernelTimestamp(hEvent, pTimestamps);
    }
    if (result == ZE_RESULT_SUCCESS) {
        *pCount = 1;
    }
    return result;
}

ze_result_t zr_zeEventGetEventPool(ze_event_handle_t hEvent, ze_event_pool_handle_t *phEventPool)
{
    ZR_CHECK_HANDLE(hEvent, ZR_KIND_EVENT);
    ZR_CHECK_POINTER(phEventPool);
    *phEventPool = (ze_event_pool_handle_t)((struct zr_event *)hEvent)->pool;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeEventGetSignalScope(ze_event_handle_t hEvent, ze_event_scope_flags_t *pSignalScope)
{
    ZR_CHECK_HANDLE(hEvent, ZR_KIND_EVENT);
    ZR_CHECK_POINTER(pSignalScope);
    *pSignalScope = ((struct zr_event *)hEvent)->desc.signal;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeEventGetWaitScope(ze_event_handle_t hEvent, ze_event_scope_flags_t *pWaitScope)
{
    ZR_CHECK_HANDLE(hEvent, ZR_KIND_EVENT);
    ZR_CHECK_POINTER(pWaitScope);
    *pWaitScope = ((struct zr_event *)hEvent)->desc.wait;
    return ZE_RESULT_SUCCESS;
}
