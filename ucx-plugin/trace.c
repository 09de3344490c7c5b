/* The loader's tracing layer: see trace.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace.h"

#include "abi/uct_abi.h"
#include "spans.h"

#include <level_zero/layers/zel_tracing_api.h>
#include <level_zero/layers/zel_tracing_register_cb.h>
#include <loader/ze_loader.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* An older loader lacks these. */
#pragma weak zelEnableTracingLayer
#pragma weak zelTracerCreate
#pragma weak zelTracerSetEnabled
#pragma weak zelTracerVirtualMemMapRegisterCallback
#pragma weak zelTracerVirtualMemUnmapRegisterCallback
#pragma weak zelTracerVirtualMemReserveRegisterCallback
#pragma weak zelTracerVirtualMemFreeRegisterCallback
#pragma weak zelTracerMemAllocDeviceRegisterCallback
#pragma weak zelTracerMemAllocHostRegisterCallback
#pragma weak zelTracerMemAllocSharedRegisterCallback
#pragma weak zelTracerMemFreeRegisterCallback
#pragma weak zelTracerMemFreeExtRegisterCallback

enum { MAPPINGS, RESERVATIONS }; /* spaces of the tree */

static pthread_rwlock_t       lock = PTHREAD_RWLOCK_INITIALIZER; /* guards the tree */
static struct zr_itree        tree;
static const struct zr_ze    *the_ze;
static zr_mapping_callback_t  tell;

/* ---- what was seen ---- */

/* The value is what to add to an address for its offset. */
static void note(uint64_t space, const void *ptr, size_t size, uint64_t offset, bool there)
{
    uint64_t start = (uintptr_t)ptr;

    pthread_rwlock_wrlock(&lock);
    if (there) {
        zr_span_set(&tree, space, start, start + size, offset - start);
    } else {
        zr_span_cut(&tree, space, start, start + size);
    }
    pthread_rwlock_unlock(&lock);
}

static bool look_up(uint64_t space, uint64_t ptr, uint64_t *start_p, uint64_t *end_p,
                    uint64_t *offset_p)
{
    const struct zr_span *span;

    pthread_rwlock_rdlock(&lock);
    span = zr_span_find(&tree, space, ptr);
    if (span != NULL) {
        *start_p  = span->node.start;
        *end_p    = span->node.end;
        *offset_p = span->node.start + span->value;
    }
    pthread_rwlock_unlock(&lock);
    return span != NULL;
}

bool zr_trace_mapping(uint64_t ptr, uint64_t *start_p, uint64_t *end_p, uint64_t *offset_p)
{
    return look_up(MAPPINGS, ptr, start_p, end_p, offset_p);
}

bool zr_trace_reservation(uint64_t ptr, uint64_t *start_p, uint64_t *end_p)
{
    uint64_t offset;

    return look_up(RESERVATIONS, ptr, start_p, end_p, &offset);
}

/* ---- callbacks ---- */

static void appeared(const void *ptr, size_t size)
{
    ze_memory_type_t type = zr_ze_memory_type(the_ze, ptr, NULL);

    tell(NULL, 1, (void *)ptr, size, type != ZE_MEMORY_TYPE_UNKNOWN ? type : ZE_MEMORY_TYPE_DEVICE);
}

static void going(const void *ptr, size_t size)
{
    tell(NULL, 0, (void *)ptr, size, zr_ze_memory_type(the_ze, ptr, NULL));
}

static void mapped(ze_virtual_mem_map_params_t *params, ze_result_t result, void *user,
                   void **instance)
{
    if (result == ZE_RESULT_SUCCESS) {
        note(MAPPINGS, *params->pptr, *params->psize, *params->poffset, true);
        appeared(*params->pptr, *params->psize);
    }
}

static void unmapping(ze_virtual_mem_unmap_params_t *params, ze_result_t result, void *user,
                      void **instance)
{
    going(*params->pptr, *params->psize);
}

/* What the driver refused to unmap is still there. */
static void unmapped(ze_virtual_mem_unmap_params_t *params, ze_result_t result, void *user,
                     void **instance)
{
    if (result == ZE_RESULT_SUCCESS) {
        note(MAPPINGS, *params->pptr, *params->psize, 0, false);
        /* Another thread may have exported it since the call began. */
        tell(NULL, 0, (void *)*params->pptr, *params->psize, ZE_MEMORY_TYPE_DEVICE);
    } else if (zr_ze_memory_type(the_ze, *params->pptr, NULL) != ZE_MEMORY_TYPE_UNKNOWN) {
        appeared(*params->pptr, *params->psize);
    }
}

static void reserved(ze_virtual_mem_reserve_params_t *params, ze_result_t result, void *user,
                     void **instance)
{
    if (result == ZE_RESULT_SUCCESS) {
        note(RESERVATIONS, **params->ppptr, *params->psize, 0, true);
    }
}

static void reservation_freed(ze_virtual_mem_free_params_t *params, ze_result_t result, void *user,
                              void **instance)
{
    if (result == ZE_RESULT_SUCCESS) {
        note(RESERVATIONS, *params->pptr, *params->psize, 0, false);
    }
}

static void device_allocated(ze_mem_alloc_device_params_t *params, ze_result_t result, void *user,
                             void **instance)
{
    if (result == ZE_RESULT_SUCCESS) {
        appeared(**params->ppptr, *params->psize);
    }
}

static void host_allocated(ze_mem_alloc_host_params_t *params, ze_result_t result, void *user,
                           void **instance)
{
    if (result == ZE_RESULT_SUCCESS) {
        appeared(**params->ppptr, *params->psize);
    }
}

static void shared_allocated(ze_mem_alloc_shared_params_t *params, ze_result_t result, void *user,
                             void **instance)
{
    if (result == ZE_RESULT_SUCCESS) {
        appeared(**params->ppptr, *params->psize);
    }
}

static void freeing_at(void *ptr)
{
    void  *base;
    size_t size;

    if (ptr != NULL && zeMemGetAddressRange(the_ze->context, ptr, &base, &size) ==
                           ZE_RESULT_SUCCESS) {
        going(base, size);
    }
}

static void freeing(ze_mem_free_params_t *params, ze_result_t result, void *user, void **instance)
{
    freeing_at(*params->pptr);
}

static void freeing_ext(ze_mem_free_ext_params_t *params, ze_result_t result, void *user,
                        void **instance)
{
    freeing_at(*params->pptr);
}

/* ---- start ---- */

static bool enable(void)
{
    zel_tracer_desc_t   desc = {.stype = ZEL_STRUCTURE_TYPE_TRACER_DESC};
    zel_tracer_handle_t tracer;

    return zelEnableTracingLayer() == ZE_RESULT_SUCCESS &&
           zelTracerCreate(&desc, &tracer) == ZE_RESULT_SUCCESS &&
           zelTracerVirtualMemMapRegisterCallback(tracer, ZEL_REGISTER_EPILOGUE, mapped) ==
               ZE_RESULT_SUCCESS &&
           zelTracerVirtualMemUnmapRegisterCallback(tracer, ZEL_REGISTER_PROLOGUE, unmapping) ==
               ZE_RESULT_SUCCESS &&
           zelTracerVirtualMemUnmapRegisterCallback(tracer, ZEL_REGISTER_EPILOGUE, unmapped) ==
               ZE_RESULT_SUCCESS &&
           zelTracerVirtualMemReserveRegisterCallback(tracer, ZEL_REGISTER_EPILOGUE, reserved) ==
               ZE_RESULT_SUCCESS &&
           zelTracerVirtualMemFreeRegisterCallback(tracer, ZEL_REGISTER_EPILOGUE,
                                                   reservation_freed) == ZE_RESULT_SUCCESS &&
           zelTracerMemAllocDeviceRegisterCallback(tracer, ZEL_REGISTER_EPILOGUE,
                                                   device_allocated) == ZE_RESULT_SUCCESS &&
           zelTracerMemAllocHostRegisterCallback(tracer, ZEL_REGISTER_EPILOGUE, host_allocated) ==
               ZE_RESULT_SUCCESS &&
           zelTracerMemAllocSharedRegisterCallback(tracer, ZEL_REGISTER_EPILOGUE,
                                                   shared_allocated) == ZE_RESULT_SUCCESS &&
           zelTracerMemFreeRegisterCallback(tracer, ZEL_REGISTER_PROLOGUE, freeing) ==
               ZE_RESULT_SUCCESS &&
           zelTracerMemFreeExtRegisterCallback(tracer, ZEL_REGISTER_PROLOGUE, freeing_ext) ==
               ZE_RESULT_SUCCESS &&
           zelTracerSetEnabled(tracer, 1) == ZE_RESULT_SUCCESS;
}

bool zr_trace_start(const struct zr_ze *ze, zr_mapping_callback_t callback, const char **why_p)
{
    if (zelEnableTracingLayer == NULL || zelTracerCreate == NULL ||
        zelTracerVirtualMemMapRegisterCallback == NULL ||
        zelTracerMemFreeExtRegisterCallback == NULL) {
        *why_p = "the Level Zero loader has no tracing layer";
        return false;
    }
    the_ze = ze;
    tell   = callback;
    if (!enable()) {
        *why_p = "the Level Zero loader's tracing layer cannot be enabled";
        return false;
    }
    return true;
}
