/* Contexts: which devices, which policy. Every context may use every pointer of the process. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

#define ZR_CONTEXT_OPTIMIZE_MEMORY      ZE_BIT(0) /* ZE_CONTEXT_FLAG_* of specification 1.20 */
#define ZR_CONTEXT_OPTIMIZE_PERFORMANCE ZE_BIT(1)

ze_result_t zr_context_create(enum zr_policy policy, uint32_t devices,
                              struct zr_context **context_p)
{
    struct zr_context *context = zr_object_create();

    if (context == NULL) {
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    context->policy  = policy;
    context->devices = devices;
    zr_object_publish(context, ZR_KIND_CONTEXT);
    *context_p = context;
    return ZE_RESULT_SUCCESS;
}

struct zr_device *zr_context_device(const struct zr_context *context)
{
    return zr_driver->device[__builtin_ctz(context->devices)];
}

ze_result_t zr_context_check_device(const struct zr_context *context,
                                    const struct zr_device  *device)
{
    if (!(context->devices & (UINT32_C(1) << device->index))) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "the context was created without device %u", device->index);
    }
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeContextCreateEx(ze_driver_handle_t hDriver, const ze_context_desc_t *desc,
                                 uint32_t numDevices, ze_device_handle_t *phDevices,
                                 ze_context_handle_t *phContext)
{
    struct zr_context *context;
    enum zr_policy     policy;
    uint32_t           devices = 0;
    ze_result_t        result;

    ZR_CHECK_HANDLE(hDriver, ZR_KIND_DRIVER);
    ZR_CHECK_POINTER(desc);
    ZR_CHECK_POINTER(phContext);
    if (desc->flags & ~(ZR_CONTEXT_OPTIMIZE_MEMORY | ZR_CONTEXT_OPTIMIZE_PERFORMANCE)) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "zeContextCreate: flags 0x%x",
                       desc->flags);
    }
    if ((desc->flags & ZR_CONTEXT_OPTIMIZE_MEMORY) &&
        (desc->flags & ZR_CONTEXT_OPTIMIZE_PERFORMANCE)) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "zeContextCreate: OPTIMIZE_MEMORY and OPTIMIZE_PERFORMANCE exclude each "
                       "other");
    }
    if (numDevices > 0 && phDevices == NULL) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_SIZE, "zeContextCreateEx: %u devices but no array",
                       numDevices);
    }
    for (uint32_t i = 0; i < numDevices; i++) {
        ZR_CHECK_HANDLE(phDevices[i], ZR_KIND_DEVICE);
        devices |= UINT32_C(1) << ((struct zr_device *)phDevices[i])->index;
    }
    if (numDevices == 0) {
        devices = (UINT32_C(1) << zr_driver->num_devices) - 1;
    }
    policy = zr_driver_policy();
    if (desc->flags & ZR_CONTEXT_OPTIMIZE_MEMORY) {
        policy = ZR_POLICY_MEMORY;
    } else if (desc->flags & ZR_CONTEXT_OPTIMIZE_PERFORMANCE) {
        policy = ZR_POLICY_PERFORMANCE;
    }
    result = zr_context_create(policy, devices, &context);
    if (result == ZE_RESULT_SUCCESS) {
        *phContext = (ze_context_handle_t)context;
    }
    return result;
}

ze_result_t zr_zeContextCreate(ze_driver_handle_t hDriver, const ze_context_desc_t *desc,
                               ze_context_handle_t *phContext)
{
    return zr_zeContextCreateEx(hDriver, desc, 0, NULL, phContext);
}

ze_result_t zr_zeContextDestroy(ze_context_handle_t hContext)
{
    struct zr_context *context = (struct zr_context *)hContext;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    if (context == zr_driver->default_context) {
        return ZE_RESULT_SUCCESS; /* the driver's own: it lives as long as the driver */
    }
    zr_ipc_owner_gone(context);
    zr_object_destroy(context);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeContextGetStatus(ze_context_handle_t hContext)
{
    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeContextSystemBarrier(ze_context_handle_t hContext, ze_device_handle_t hDevice)
{
    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    atomic_thread_fence(memory_order_seq_cst);
    return ZE_RESULT_SUCCESS;
}

/* Every submission names what it touches, so that residency is the kernel's: only check. */
static ze_result_t zr_context_check_memory(ze_context_handle_t hContext,
                                           ze_device_handle_t hDevice, void *ptr, size_t size)
{
    struct zr_range range;
    unsigned        kinds;
    ze_result_t     result;

    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(ptr);
    if (size == 0) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_SIZE, "residency of 0 bytes at %p", ptr);
    }
    zr_range_init(&range);
    result = zr_range_walk(ptr, size, &range, &kinds, NULL);
    zr_range_clear(&range);
    return (result == ZE_RESULT_ERROR_ADDRESS_NOT_FOUND) ? ZE_RESULT_ERROR_INVALID_ARGUMENT
                                                         : result;
}

ze_result_t zr_zeContextMakeMemoryResident(ze_context_handle_t hContext, ze_device_handle_t hDevice,
                                           void *ptr, size_t size)
{
    return zr_context_check_memory(hContext, hDevice, ptr, size);
}

ze_result_t zr_zeContextEvictMemory(ze_context_handle_t hContext, ze_device_handle_t hDevice,
                                    void *ptr, size_t size)
{
    return zr_context_check_memory(hContext, hDevice, ptr, size);
}
