/* Event pools shared between processes: the pool's memory is exported as a plain object; what the
 * other side needs to know stands in the last slot of it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

#include <string.h>

_Static_assert(sizeof(ze_ipc_event_pool_handle_t) == sizeof(ze_ipc_mem_handle_t),
               "one handle carries the other");

#define ZR_POOL_MAGIC UINT64_C(0x6c6f6f70746e7665)

struct zr_pool_note {
    uint64_t magic;
    uint32_t count;
    uint32_t flags;
};

static struct zr_pool_note *zr_pool_note(const char *cpu, size_t size)
{
    return (struct zr_pool_note *)(cpu + size - sizeof(struct zr_event_state));
}

ze_result_t zr_zeEventPoolGetIpcHandle(ze_event_pool_handle_t      hEventPool,
                                       ze_ipc_event_pool_handle_t *phIpc)
{
    struct zr_event_pool *pool = (struct zr_event_pool *)hEventPool;
    struct zr_pool_note  *note;
    ze_ipc_mem_handle_t   handle;
    ze_result_t           result;

    ZR_CHECK_HANDLE(hEventPool, ZR_KIND_EVENT_POOL);
    ZR_CHECK_POINTER(phIpc);
    if (!(pool->flags & ZE_EVENT_POOL_FLAG_IPC) || pool->opened) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "zeEventPoolGetIpcHandle: the pool was %s",
                       pool->opened ? "opened here, its creator shares it" :
                                      "created without the IPC flag");
    }
    result = zr_ipc_export_plain(pool, pool->phys, pool->size, ZE_MEMORY_TYPE_HOST, pool->context,
                                 &handle);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    note  = zr_pool_note(pool->cpu, pool->size);
    *note = (struct zr_pool_note){ZR_POOL_MAGIC, pool->count, pool->flags};
    memcpy(phIpc, &handle, sizeof(handle));
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeEventPoolPutIpcHandle(ze_context_handle_t        hContext,
                                       ze_ipc_event_pool_handle_t hIpc)
{
    ze_ipc_mem_handle_t handle;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    memcpy(&handle, &hIpc, sizeof(handle));
    return zr_ipc_put(&handle);
}

/* The pool in memory of another process that is open at @a cpu. */
static ze_result_t zr_pool_attach(struct zr_event_pool *pool, char *cpu)
{
    struct zr_pool_note note = {0};
    struct zr_va_info   info;
    struct zr_range     range;
    unsigned            kinds;
    ze_result_t         result;

    zr_va_query(cpu, &info);
    if (info.type == ZE_MEMORY_TYPE_HOST && info.size >= ZR_PAGE_SMALL &&
        info.size % ZR_PAGE_SMALL == 0) {
        /* Read once: the other process can write it at any time. */
        note = *(volatile const struct zr_pool_note *)zr_pool_note(cpu, info.size);
    }
    if (note.magic != ZR_POOL_MAGIC || note.count == 0 ||
        note.count >= info.size / sizeof(struct zr_event_state)) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "zeEventPoolOpenIpcHandle: the handle is not that of an event pool");
    }
    result = zr_range_walk(cpu, 1, &range, &kinds, NULL);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    pool->cpu   = cpu;
    pool->size  = info.size;
    pool->count = note.count;
    pool->flags = note.flags | ZE_EVENT_POOL_FLAG_IPC; /* whatever it says: others may signal */
    pool->phys  = zr_phys_ref(range.segments[0].object);
    zr_range_clear(&range);
    result = zr_phys_bo(pool->phys, pool->device->i915, &pool->bo);
    if (result != ZE_RESULT_SUCCESS) {
        zr_phys_unref(pool->phys);
    }
    return result;
}

ze_result_t zr_zeEventPoolOpenIpcHandle(ze_context_handle_t        hContext,
                                        ze_ipc_event_pool_handle_t hIpc,
                                        ze_event_pool_handle_t    *phEventPool)
{
    struct zr_event_pool *pool;
    ze_ipc_mem_handle_t   handle;
    void                 *cpu;
    ze_result_t           result;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_POINTER(phEventPool);
    pool = zr_object_create();
    if (pool == NULL) {
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    pool->opened  = true;
    pool->context = (struct zr_context *)hContext;
    pool->device  = zr_context_device(pool->context);
    memcpy(&handle, &hIpc, sizeof(handle));
    result = zr_ipc_open(pool->device->i915, &handle, &cpu);
    if (result != ZE_RESULT_SUCCESS) {
        goto err_object;
    }
    result = zr_pool_attach(pool, cpu);
    if (result != ZE_RESULT_SUCCESS) {
        goto err_open;
    }
    zr_object_publish(pool, ZR_KIND_EVENT_POOL);
    *phEventPool = (ze_event_pool_handle_t)pool;
    return ZE_RESULT_SUCCESS;

err_open:
    zr_ipc_close(cpu);
err_object:
    zr_object_destroy(pool);
    return result;
}

ze_result_t zr_zeEventPoolCloseIpcHandle(ze_event_pool_handle_t hEventPool)
{
    struct zr_event_pool *pool = (struct zr_event_pool *)hEventPool;
    ze_result_t           result;

    ZR_CHECK_HANDLE(hEventPool, ZR_KIND_EVENT_POOL);
    if (!pool->opened) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "zeEventPoolCloseIpcHandle: the pool was created here");
    }
    if (atomic_load(&pool->live) > 0) {
        return zr_fail(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE,
                       "zeEventPoolCloseIpcHandle: %u events of the pool exist", pool->live);
    }
    result = zr_ipc_close(pool->cpu);
    zr_phys_unref(pool->phys);
    zr_object_destroy(pool);
    return result;
}
