/* Level Zero: first use, memory queries, queue group. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

#include "abi/uct_abi.h"
#include "trace.h"

#include <stdbool.h>
#include <loader/ze_loader.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first loader that has what we call; an older one lacks symbols, which must not end the
 * application: they are weak. */
#define OLDEST_LOADER_MAJOR 1
#define OLDEST_LOADER_MINOR 27
#pragma weak zeMemGetIpcHandleWithProperties
#pragma weak zelLoaderGetVersions

static struct zr_ze   the_ze;
static bool           ready;
static char           missing[160];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool find_device(ze_driver_handle_t driver, ze_device_handle_t *device_p)
{
    ze_device_handle_t     devices[32];
    ze_device_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    uint32_t               count      = 32, k;

    if (zeDeviceGet(driver, &count, devices) != ZE_RESULT_SUCCESS) {
        return false;
    }
    for (k = 0; k < count && k < 32; k++) {
        if (zeDeviceGetProperties(devices[k], &properties) == ZE_RESULT_SUCCESS &&
            properties.type == ZE_DEVICE_TYPE_GPU) {
            *device_p = devices[k];
            return true;
        }
    }
    return false;
}

/* The same order as UCX's ze_copy, so that both use the same device. */
static bool find_driver(struct zr_ze *ze)
{
    ze_driver_handle_t drivers[16];
    uint32_t           count = 16, k;
    ze_result_t        result;

    result = zeInit(ZE_INIT_FLAG_GPU_ONLY);
    if (result != ZE_RESULT_SUCCESS) {
        snprintf(missing, sizeof(missing), "zeInit returned 0x%x", (unsigned)result);
        return false;
    }
    result = zeDriverGet(&count, drivers);
    if (result != ZE_RESULT_SUCCESS) {
        snprintf(missing, sizeof(missing), "zeDriverGet returned 0x%x", (unsigned)result);
        return false;
    }
    for (k = 0; k < count && k < 16; k++) {
        if (find_device(drivers[k], &ze->device)) {
            ze->driver = drivers[k];
            return true;
        }
    }
    snprintf(missing, sizeof(missing), "none of %u Level Zero drivers has a GPU", count);
    return false;
}

static bool loader_is_new_enough(void)
{
    zel_component_version_t parts[32];
    size_t                  count = 0, k;
    zel_version_t           found = {0, 0, 0};

    if (zelLoaderGetVersions != NULL &&
        zelLoaderGetVersions(&count, NULL) == ZE_RESULT_SUCCESS && count <= 32 &&
        zelLoaderGetVersions(&count, parts) == ZE_RESULT_SUCCESS) {
        for (k = 0; k < count; k++) {
            if (strcmp(parts[k].component_name, "loader") == 0) {
                found = parts[k].component_lib_version;
            }
        }
    }
    if (found.major > OLDEST_LOADER_MAJOR ||
        (found.major == OLDEST_LOADER_MAJOR && found.minor >= OLDEST_LOADER_MINOR &&
         zeMemGetIpcHandleWithProperties != NULL)) {
        return true;
    }
    snprintf(missing, sizeof(missing), "Level Zero loader %d.%d.%d is too old, it needs %d.%d",
             found.major, found.minor, found.patch, OLDEST_LOADER_MAJOR, OLDEST_LOADER_MINOR);
    zr_ucs_warn("ze_range is not used: %s", missing);
    return false;
}

static bool lists_range_extension(ze_driver_handle_t driver)
{
    ze_driver_extension_properties_t *list;
    uint32_t                          count = 0, k;
    bool                              found = false;

    if (zeDriverGetExtensionProperties(driver, &count, NULL) != ZE_RESULT_SUCCESS || count == 0) {
        return false;
    }
    list = calloc(count, sizeof(*list));
    if (list != NULL && zeDriverGetExtensionProperties(driver, &count, list) == ZE_RESULT_SUCCESS) {
        for (k = 0; k < count; k++) {
            found |= strcmp(list[k].name, ZE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_NAME) == 0;
        }
    }
    free(list);
    return found;
}

/* A group that only copies leaves the compute engines to the application. */
static bool find_copy_group(struct zr_ze *ze)
{
    ze_command_queue_group_properties_t groups[16];
    uint32_t                            count = 16, k;
    bool                                found = false;

    memset(groups, 0, sizeof(groups));
    for (k = 0; k < 16; k++) {
        groups[k].stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES;
    }
    if (zeDeviceGetCommandQueueGroupProperties(ze->device, &count, groups) != ZE_RESULT_SUCCESS) {
        return false;
    }
    for (k = 0; k < count && k < 16; k++) {
        bool copies   = groups[k].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY;
        bool computes = groups[k].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE;

        if (copies && (!found || !computes)) {
            ze->copy_group = k;
            found          = true;
            if (!computes) {
                break;
            }
        }
    }
    return found;
}

static uint64_t memory_size(ze_device_handle_t device)
{
    ze_device_memory_properties_t memories[16];
    uint32_t                      count = 16, k;
    uint64_t                      sum   = 0;

    memset(memories, 0, sizeof(memories));
    for (k = 0; k < 16; k++) {
        memories[k].stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES;
    }
    if (zeDeviceGetMemoryProperties(device, &count, memories) == ZE_RESULT_SUCCESS) {
        for (k = 0; k < count && k < 16; k++) {
            sum += memories[k].totalSize;
        }
    }
    return sum != 0 ? sum : UINT64_MAX;
}

static void *find_function(const struct zr_ze *ze, const char *name)
{
    void *function = NULL;

    return zeDriverGetExtensionFunctionAddress(ze->driver, name, &function) == ZE_RESULT_SUCCESS
               ? function
               : NULL;
}

static uint32_t mix(uint32_t sum, const void *bytes, size_t size)
{
    const uint8_t *byte = bytes;

    for (; size > 0; size--, byte++) {
        sum = (sum ^ *byte) * 16777619u;
    }
    return sum;
}

/* What two processes of one driver agree on: its version and its extensions. Not its UUID: that of
 * Intel's driver is of the time when it started, to 4.3 s. */
static uint32_t digest(ze_driver_handle_t driver)
{
    ze_driver_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES};
    ze_driver_extension_properties_t *list = NULL;
    uint32_t                          sum  = 2166136261u, count = 0, k;

    if (zeDriverGetProperties(driver, &properties) == ZE_RESULT_SUCCESS) {
        sum = mix(sum, &properties.driverVersion, sizeof(properties.driverVersion));
    }
    if (zeDriverGetExtensionProperties(driver, &count, NULL) == ZE_RESULT_SUCCESS) {
        list = calloc(count, sizeof(*list));
    }
    if (list != NULL && zeDriverGetExtensionProperties(driver, &count, list) == ZE_RESULT_SUCCESS) {
        for (k = 0; k < count; k++) {
            sum = mix(sum, list[k].name, strlen(list[k].name));
            sum = mix(sum, &list[k].version, sizeof(list[k].version));
        }
    }
    free(list);
    return sum;
}

static void start(void)
{
    ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    struct zr_ze     *ze   = &the_ze;
    ze_result_t       result;

    if (!find_driver(ze) || !loader_is_new_enough()) {
        return;
    }
    if (!find_copy_group(ze)) {
        snprintf(missing, sizeof(missing), "the device has no queue group that copies");
        return;
    }
    result = zeContextCreate(ze->driver, &desc, &ze->context);
    if (result != ZE_RESULT_SUCCESS) {
        snprintf(missing, sizeof(missing), "zeContextCreate returned 0x%x", (unsigned)result);
        return;
    }
    ze->memory_size = memory_size(ze->device);
    ze->range_ext   = lists_range_extension(ze->driver);
    ze->driver_digest = digest(ze->driver);
    ze->ours        = find_function(ze, "zrGetCounts") != NULL;
    ze->subscribe   = (zr_pfnSubscribeMappings_t)find_function(ze, "zrSubscribeMappings");
    ze->reservation = (zr_pfnMemGetReservation_t)find_function(ze, "zrMemGetReservation");
    ready = true;
}

const struct zr_ze *zr_ze_get(void)
{
    pthread_once(&once, start);
    return ready ? &the_ze : NULL;
}

const char *zr_ze_missing(void)
{
    return missing;
}

ze_memory_type_t zr_ze_memory_type(const struct zr_ze *ze, const void *ptr, uint64_t *id_p)
{
    ze_memory_allocation_properties_t properties = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};

    if (zeMemGetAllocProperties(ze->context, ptr, &properties, NULL) != ZE_RESULT_SUCCESS) {
        return ZE_MEMORY_TYPE_UNKNOWN;
    }
    if (id_p != NULL) {
        *id_p = properties.id;
    }
    return properties.type;
}

bool zr_ze_reservation(const struct zr_ze *ze, uint64_t ptr, uint64_t *start_p, uint64_t *end_p)
{
    void  *base;
    size_t size;

    if (ze->reservation == NULL) {
        return zr_trace_reservation(ptr, start_p, end_p);
    }
    if (ze->reservation((void *)(uintptr_t)ptr, &base, &size) != ZE_RESULT_SUCCESS) {
        return false;
    }
    *start_p = (uintptr_t)base;
    *end_p   = *start_p + size;
    return true;
}

const char *zr_ze_last_error(const struct zr_ze *ze)
{
    const char *text = NULL;

    if (zeDriverGetLastErrorDescription(ze->driver, &text) != ZE_RESULT_SUCCESS || text == NULL) {
        return "";
    }
    return text;
}
