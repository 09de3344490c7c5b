/* Reservations and mappings of the process's address space. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

static ze_result_t zr_virtual_check(ze_context_handle_t hContext, const void *ptr, size_t size)
{
    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_POINTER(ptr);
    if (size == 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE, "virtual memory at %p: size 0", ptr);
    }
    return ZE_RESULT_SUCCESS;
}

static ze_result_t zr_access_check(ze_memory_access_attribute_t access)
{
    if ((unsigned)access > ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "memory access attribute %d", access);
    }
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeVirtualMemReserve(ze_context_handle_t hContext, const void *pStart, size_t size,
                                   void **pptr)
{
    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_POINTER(pptr);
    if (size == 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE, "reservation of 0 bytes");
    }
    return zr_va_reserve(pStart, size, pptr);
}

ze_result_t zr_zeVirtualMemFree(ze_context_handle_t hContext, const void *ptr, size_t size)
{
    ze_result_t       result = zr_virtual_check(hContext, ptr, size);
    struct zr_va_info info;

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    /* Before the addresses are free: another thread may get and export them at once. */
    zr_va_query(ptr, &info);
    if (info.region_base == (uintptr_t)ptr && info.region_size == size) {
        zr_ipc_forget(ptr);
    }
    return zr_va_unreserve(ptr, size);
}

ze_result_t zr_zeVirtualMemQueryPageSize(ze_context_handle_t hContext, ze_device_handle_t hDevice,
                                         size_t size, size_t *pagesize)
{
    ZR_CHECK_HANDLE(hContext, ZR_KIND_CONTEXT);
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(pagesize);
    /* 0 asks for the smallest: the specification's conformance tests do, though it calls that an
     * unsupported size. */
    *pagesize = (size >= ZR_PAGE_LARGE) ? ZR_PAGE_LARGE : ZR_PAGE_SMALL;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeVirtualMemMap(ze_context_handle_t hContext, const void *ptr, size_t size,
                               ze_physical_mem_handle_t hPhysicalMemory, size_t offset,
                               ze_memory_access_attribute_t access)
{
    ze_result_t result = zr_virtual_check(hContext, ptr, size);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    ZR_CHECK_HANDLE(hPhysicalMemory, ZR_KIND_PHYSICAL);
    result = zr_access_check(access);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    return zr_va_map(ptr, size, ((struct zr_physical *)hPhysicalMemory)->phys, offset, access);
}

ze_result_t zr_zeVirtualMemUnmap(ze_context_handle_t hContext, const void *ptr, size_t size)
{
    ze_result_t result = zr_virtual_check(hContext, ptr, size);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    return zr_va_unmap(ptr, size);
}

ze_result_t zr_zeVirtualMemSetAccessAttribute(ze_context_handle_t hContext, const void *ptr,
                                              size_t size, ze_memory_access_attribute_t access)
{
    ze_result_t result = zr_virtual_check(hContext, ptr, size);

    if (result == ZE_RESULT_SUCCESS) {
        result = zr_access_check(access);
    }
    return (result == ZE_RESULT_SUCCESS) ? zr_va_set_access(ptr, size, access) : result;
}

ze_result_t zr_zeVirtualMemGetAccessAttribute(ze_context_handle_t hContext, const void *ptr,
                                              size_t size, ze_memory_access_attribute_t *access,
                                              size_t *outSize)
{
    ze_result_t result = zr_virtual_check(hContext, ptr, size);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    ZR_CHECK_POINTER(access);
    ZR_CHECK_POINTER(outSize);
    return zr_va_get_access(ptr, size, access, outSize);
}
