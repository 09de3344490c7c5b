/* zerange-info: drivers and devices as the Level Zero loader shows them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "info.h"

#include <stdbool.h>

#include <level_zero/ze_api.h>
#include <loader/ze_loader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zerange/zerange.h>

#define MAX 16

static void loader(void)
{
    zel_component_version_t parts[MAX];
    size_t                  count = 0, k;

    /* With room given the loader does not say how much of it it used: ask before. */
    if (zelLoaderGetVersions(&count, NULL) != ZE_RESULT_SUCCESS || count > MAX ||
        zelLoaderGetVersions(&count, parts) != ZE_RESULT_SUCCESS) {
        return;
    }
    for (k = 0; k < count; k++) {
        zel_version_t version = parts[k].component_lib_version;

        info_line(parts[k].component_name, "%d.%d.%d", version.major, version.minor, version.patch);
    }
}

static void extensions(ze_driver_handle_t driver)
{
    ze_driver_extension_properties_t *list;
    uint32_t                          count = 0, k;

    if (zeDriverGetExtensionProperties(driver, &count, NULL) != ZE_RESULT_SUCCESS || count == 0) {
        return;
    }
    list = calloc(count, sizeof(*list));
    if (list != NULL && zeDriverGetExtensionProperties(driver, &count, list) == ZE_RESULT_SUCCESS) {
        for (k = 0; k < count; k++) {
            info_line(k == 0 ? "extensions" : "", "%s %u.%u", list[k].name,
                      ZE_MAJOR_VERSION(list[k].version), ZE_MINOR_VERSION(list[k].version));
        }
    }
    free(list);
}

static void memories(ze_device_handle_t device)
{
    ze_device_memory_properties_t list[MAX];
    uint32_t                      count = MAX, k;

    memset(list, 0, sizeof(list));
    for (k = 0; k < MAX; k++) {
        list[k].stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES;
    }
    if (zeDeviceGetMemoryProperties(device, &count, list) != ZE_RESULT_SUCCESS) {
        return;
    }
    for (k = 0; k < count && k < MAX; k++) {
        info_line("  memory", "%llu MiB %s", (unsigned long long)list[k].totalSize >> 20,
                  list[k].name);
    }
}

/* The engines behind a group as far as Level Zero tells: its queues. */
static void engines(ze_device_handle_t device)
{
    ze_command_queue_group_properties_t list[MAX];
    uint32_t                            count = MAX, k;

    memset(list, 0, sizeof(list));
    for (k = 0; k < MAX; k++) {
        list[k].stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES;
    }
    if (zeDeviceGetCommandQueueGroupProperties(device, &count, list) != ZE_RESULT_SUCCESS) {
        return;
    }
    for (k = 0; k < count && k < MAX; k++) {
        info_line("  queue group", "%u: %u queues%s%s", k, list[k].numQueues,
                  list[k].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE ? ", compute" : "",
                  list[k].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY ? ", copy" : "");
    }
}

static void copy_engines(ze_driver_handle_t driver, ze_device_handle_t device)
{
    zr_pfnDeviceGetCompletedBatches_t completed = NULL;
    uint32_t                          count     = 0;

    if (zeDriverGetExtensionFunctionAddress(driver, "zrDeviceGetCompletedBatches",
                                            (void **)&completed) == ZE_RESULT_SUCCESS &&
        completed(device, &count, NULL) == ZE_RESULT_SUCCESS) {
        info_line("  copy engines", "%u", count);
    }
}

static void show_device(ze_driver_handle_t driver, unsigned index, ze_device_handle_t device)
{
    static const char *const types[] = {"?", "GPU", "CPU", "FPGA", "MCA", "VPU"};
    ze_device_properties_t   p       = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    ze_pci_ext_properties_t  pci     = {.stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES};
    char                     title[32];

    if (zeDeviceGetProperties(device, &p) != ZE_RESULT_SUCCESS) {
        return;
    }
    snprintf(title, sizeof(title), "device %u", index);
    info_line(title, "%s (%s, %04x:%04x)", p.name,
              (unsigned)p.type < sizeof(types) / sizeof(types[0]) ? types[p.type] : "?", p.vendorId,
              p.deviceId);
    if (zeDevicePciGetPropertiesExt(device, &pci) == ZE_RESULT_SUCCESS) {
        info_line("  PCI", "%04x:%02x:%02x.%x", pci.address.domain, pci.address.bus,
                  pci.address.device, pci.address.function);
    }
    memories(device);
    engines(device);
    copy_engines(driver, device);
}

static unsigned show_driver(unsigned index, ze_driver_handle_t driver)
{
    ze_driver_properties_t p       = {.stype = ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES};
    ze_api_version_t       api     = ZE_API_VERSION_1_0;
    void                  *ours    = NULL;
    ze_device_handle_t     devices[64];
    uint32_t               count = 64, k;
    char                   title[32];

    (void)zeDriverGetProperties(driver, &p);
    (void)zeDriverGetApiVersion(driver, &api);
    (void)zeDriverGetExtensionFunctionAddress(driver, "zrGetCounts", &ours);
    snprintf(title, sizeof(title), "driver %u", index);
    info_line(title, "%s, version 0x%x, API %u.%u", ours != NULL ? "zerange" : "another",
              p.driverVersion, ZE_MAJOR_VERSION(api), ZE_MINOR_VERSION(api));
    if (zeDeviceGet(driver, &count, devices) != ZE_RESULT_SUCCESS) {
        count = 0;
    }
    for (k = 0; k < count && k < 64; k++) {
        show_device(driver, k, devices[k]);
    }
    extensions(driver);
    return count;
}

int info_level_zero(void)
{
    ze_driver_handle_t drivers[MAX];
    uint32_t           count = MAX, k;
    unsigned           devices = 0;
    ze_result_t        result  = zeInit(0);

    info_title("Level Zero");
    loader();
    if (result != ZE_RESULT_SUCCESS) {
        info_line("devices", "none: zeInit returned 0x%x", (unsigned)result);
        return 1;
    }
    if (zeDriverGet(&count, drivers) != ZE_RESULT_SUCCESS) {
        count = 0;
    }
    for (k = 0; k < count && k < MAX; k++) {
        devices += show_driver(k, drivers[k]);
    }
    if (devices == 0) {
        info_line("devices", "none in %u drivers", count);
    }
    return devices == 0;
}
