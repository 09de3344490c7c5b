/* The driver as clients see it: properties, extensions, and functions found by name. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

#include <errno.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t    version;
} zr_extensions[] = {
    {ZE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_NAME, ZE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_VERSION_1_0},
    {ZE_IPC_MEM_HANDLE_TYPE_EXT_NAME, ZE_IPC_MEM_HANDLE_TYPE_EXT_VERSION_1_0},
    {ZE_DRIVER_DDI_HANDLES_EXT_NAME, ZE_DRIVER_DDI_HANDLES_EXT_VERSION_1_1},
    {ZE_INIT_DRIVER_PROPERTIES_EXT_NAME, ZE_MAKE_VERSION(1, 0)},
    {ZE_MEMORY_FREE_POLICIES_EXT_NAME, ZE_MEMORY_FREE_POLICIES_EXT_VERSION_1_0},
    {ZE_COMMAND_LIST_CLONE_EXP_NAME, ZE_COMMAND_LIST_CLONE_EXP_VERSION_1_0},
    {ZE_IMMEDIATE_COMMAND_LIST_APPEND_EXP_NAME, ZE_IMMEDIATE_COMMAND_LIST_APPEND_EXP_VERSION_1_0},
    {ZE_EVENT_QUERY_TIMESTAMPS_EXP_NAME, ZE_EVENT_QUERY_TIMESTAMPS_EXP_VERSION_1_0},
    {ZE_PCI_PROPERTIES_EXT_NAME, ZE_PCI_PROPERTIES_EXT_VERSION_1_0},
    {ZE_DEVICE_USABLEMEM_SIZE_PROPERTIES_EXT_NAME,
     ZE_DEVICE_USABLEMEM_SIZE_PROPERTIES_EXT_VERSION_1_0},
};

ze_result_t zr_zeDriverGetApiVersion(ze_driver_handle_t hDriver, ze_api_version_t *version)
{
    ZR_CHECK_HANDLE(hDriver, ZR_KIND_DRIVER);
    ZR_CHECK_POINTER(version);
    *version = ZE_API_VERSION_CURRENT;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeDriverGetProperties(ze_driver_handle_t hDriver, ze_driver_properties_t *properties)
{
    static const uint8_t uuid[ZE_MAX_UUID_SIZE] = {'z', 'e', 'r', 'a', 'n', 'g', 'e'};

    ZR_CHECK_HANDLE(hDriver, ZR_KIND_DRIVER);
    ZR_CHECK_POINTER(properties);
    memcpy(properties->uuid.id, uuid, sizeof(uuid));
    memcpy(properties->uuid.id + 8, &(uint32_t){ZR_DRIVER_VERSION}, 4);
    properties->driverVersion = ZR_DRIVER_VERSION;
    for (ze_base_properties_t *next = properties->pNext; next != NULL; next = next->pNext) {
        switch (next->stype) {
        case ZE_STRUCTURE_TYPE_DRIVER_DDI_HANDLES_EXT_PROPERTIES:
            ((ze_driver_ddi_handles_ext_properties_t *)next)->flags =
                ZE_DRIVER_DDI_HANDLE_EXT_FLAG_DDI_HANDLE_EXT_SUPPORTED;
            break;
        case ZE_STRUCTURE_TYPE_DRIVER_MEMORY_FREE_EXT_PROPERTIES:
            ((ze_driver_memory_free_ext_properties_t *)next)->freePolicies =
                ZE_DRIVER_MEMORY_FREE_POLICY_EXT_FLAG_BLOCKING_FREE |
                ZE_DRIVER_MEMORY_FREE_POLICY_EXT_FLAG_DEFER_FREE;
            break;
        default:
            break;
        }
    }
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeDriverGetIpcProperties(ze_driver_handle_t hDriver,
                                        ze_driver_ipc_properties_t *properties)
{
    ZR_CHECK_HANDLE(hDriver, ZR_KIND_DRIVER);
    ZR_CHECK_POINTER(properties);
    properties->flags = ZE_IPC_PROPERTY_FLAG_MEMORY | ZE_IPC_PROPERTY_FLAG_EVENT_POOL;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeDriverGetExtensionProperties(ze_driver_handle_t hDriver, uint32_t *pCount,
                                              ze_driver_extension_properties_t *properties)
{
    uint32_t hidden, count;

    ZR_CHECK_HANDLE(hDriver, ZR_KIND_DRIVER);
    ZR_CHECK_POINTER(pCount);
    hidden = (zr_config()->hide & ZR_HIDE_RANGE) ? 1 : 0; /* it is the first */
    count  = ZR_ARRAY_SIZE(zr_extensions) - hidden;
    if (*pCount == 0 || *pCount > count) {
        *pCount = count;
    }
    for (uint32_t i = 0; properties != NULL && i < *pCount; i++) {
        memset(properties[i].name, 0, sizeof(properties[i].name));
        memcpy(properties[i].name, zr_extensions[hidden + i].name,
               strlen(zr_extensions[hidden + i].name));
        properties[i].version = zr_extensions[hidden + i].version;
    }
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeDriverGetLastErrorDescription(ze_driver_handle_t hDriver, const char **ppString)
{
    ZR_CHECK_HANDLE(hDriver, ZR_KIND_DRIVER);
    ZR_CHECK_POINTER(ppString);
    *ppString = zr_last_error();
    return ZE_RESULT_SUCCESS;
}

/* It is as old as the driver, but follows the wish of an application that came later. */
static void zr_default_context_settle(void)
{
    zr_driver->default_context->policy = zr_driver_policy();
}

ze_context_handle_t zr_zeDriverGetDefaultContext(ze_driver_handle_t hDriver)
{
    static pthread_once_t settled = PTHREAD_ONCE_INIT;

    if (!zr_object_is(hDriver, ZR_KIND_DRIVER)) {
        return NULL;
    }
    pthread_once(&settled, zr_default_context_settle);
    return (ze_context_handle_t)zr_driver->default_context;
}

/* ---- include/zerange/zerange.h ---- */

#define ZR_CHECK_DRIVER()                                                                     \
    do {                                                                                      \
        if (zr_driver == NULL) {                                                              \
            return zr_no_driver();                                                            \
        }                                                                                     \
    } while (0)

static ze_result_t ZE_APICALL zr_subscribe_mappings(zr_mapping_callback_t callback, void *arg)
{
    ZR_CHECK_DRIVER();
    ZR_CHECK_POINTER(callback);
    return zr_va_subscribe(callback, arg);
}

static ze_result_t ZE_APICALL zr_unsubscribe_mappings(zr_mapping_callback_t callback, void *arg)
{
    ZR_CHECK_DRIVER();
    ZR_CHECK_POINTER(callback);
    zr_va_unsubscribe(callback, arg);
    return ZE_RESULT_SUCCESS;
}

static ze_result_t ZE_APICALL zr_mem_reservation(const void *ptr, void **base, size_t *size)
{
    struct zr_va_info info;

    ZR_CHECK_DRIVER();
    ZR_CHECK_POINTER(ptr);
    ZR_CHECK_POINTER(base);
    ZR_CHECK_POINTER(size);
    memset(&info, 0, sizeof(info));
    zr_va_query(ptr, &info);
    if (info.region_size == 0) {
        return zr_fail(ZE_RESULT_ERROR_ADDRESS_NOT_FOUND, "%p is not in a reservation", ptr);
    }
    *base = (void *)info.region_base;
    *size = info.region_size;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t ZE_APICALL zr_device_completed_batches(ze_device_handle_t hDevice,
                                                          uint32_t *count, uint64_t *batches)
{
    struct zr_device *device = (struct zr_device *)hDevice;
    uint64_t          counts[ZR_MAX_ENGINES];
    int               n;

    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(count);
    n = zr_i915_completed_batches(device->i915, counts, ZR_MAX_ENGINES);
    if (n < 0) {
        return zr_fail(zr_result_from_errno(n), "completed batches of device %u: %s",
                       device->index, strerror(-n));
    }
    if (*count > 0 && batches != NULL) {
        memcpy(batches, counts, ZR_MIN(*count, (uint32_t)n) * sizeof(*batches));
    }
    *count = n;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t ZE_APICALL zr_get_counts(zr_counts_t *counts)
{
    struct zr_mem_counts mem;
    struct zr_ipc_counts ipc;

    ZR_CHECK_DRIVER();
    ZR_CHECK_POINTER(counts);
    zr_mem_counts(&mem);
    zr_ipc_counts(&ipc);
    *counts = (zr_counts_t){.objects          = mem.objects,
                            .regions          = mem.regions,
                            .mappings         = mem.mappings,
                            .kept_bytes       = mem.kept_bytes,
                            .staging_bytes    = zr_staging_bytes(),
                            .exports          = ipc.exports,
                            .imports          = ipc.imports,
                            .imported_objects = ipc.imported_objects};
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeDriverGetExtensionFunctionAddress(ze_driver_handle_t hDriver, const char *name,
                                                   void **ppFunctionAddress)
{
    static const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"zrSubscribeMappings", zr_subscribe_mappings},
        {"zrUnsubscribeMappings", zr_unsubscribe_mappings},
        {"zrMemGetReservation", zr_mem_reservation},
        {"zrDeviceGetCompletedBatches", zr_device_completed_batches},
        {"zrGetCounts", zr_get_counts},
        {"zrPhysicalMemGetProperties", zr_physical_properties},
        {"zrPhysicalMemOpen", zr_physical_open},
        {"zrDeviceMemClose", zr_device_mem_close},
        {"zrDeviceMemGetAddressList", zr_device_mem_address_list},
        {"zrRangeGetAddressList", zr_range_address_list},
        {"zexDriverImportExternalPointer", zr_import_pointer},
        {"zexDriverReleaseImportedPointer", zr_release_pointer},
        {"zexDriverGetHostPointerBaseAddress", zr_imported_base},
    };

    ZR_CHECK_HANDLE(hDriver, ZR_KIND_DRIVER);
    ZR_CHECK_POINTER(name);
    ZR_CHECK_POINTER(ppFunctionAddress);
    if ((zr_config()->hide & ZR_HIDE_FUNCTIONS) && strncmp(name, "zex", 3) != 0) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "\"%s\" is hidden by ZERANGE_HIDE", name);
    }
    for (unsigned i = 0; i < ZR_ARRAY_SIZE(functions); i++) {
        if (strcmp(name, functions[i].name) == 0) {
            *ppFunctionAddress = functions[i].function;
            return ZE_RESULT_SUCCESS;
        }
    }
    return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "zerange has no function \"%s\"", name);
}
