/* Devices: what a copy-only GPU has to say about itself, and its clock. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define ZR_PCI_VENDOR_INTEL 0x8086

ze_result_t zr_device_create(struct zr_i915 *i915, unsigned index, struct zr_device **device_p)
{
    struct zr_device *device = zr_object_create();
    ze_result_t       result;

    if (device == NULL) {
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    result = zr_hostmem_create(i915, &device->hostmem);
    if (result != ZE_RESULT_SUCCESS) {
        zr_object_destroy(device);
        return result;
    }
    device->memory = zr_object_create();
    if (device->memory == NULL) {
        zr_hostmem_destroy(device->hostmem);
        zr_object_destroy(device);
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    device->memory->device = device;
    zr_object_publish(device->memory, ZR_KIND_MEMORY);
    device->i915  = i915;
    device->info  = zr_i915_info(i915);
    device->index = index;
    pthread_mutex_init(&device->clock_lock, NULL);
    zr_object_publish(device, ZR_KIND_DEVICE);
    *device_p = device;
    return ZE_RESULT_SUCCESS;
}

void zr_device_destroy(struct zr_device *device)
{
    if (device->clock != NULL) {
        zr_copyq_destroy(device->clock);
        zr_phys_unref(device->clock_phys);
    }
    zr_object_destroy(device->memory);
    zr_hostmem_destroy(device->hostmem);
    pthread_mutex_destroy(&device->clock_lock);
    zr_object_destroy(device);
}

ze_result_t zr_zeDeviceGet(ze_driver_handle_t hDriver, uint32_t *pCount,
                           ze_device_handle_t *phDevices)
{
    ZR_CHECK_HANDLE(hDriver, ZR_KIND_DRIVER);
    ZR_CHECK_POINTER(pCount);
    ZR_COUNTED(pCount, zr_driver->num_devices, phDevices,
               (ze_device_handle_t)zr_driver->device[i_]);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeDeviceGetSubDevices(ze_device_handle_t hDevice, uint32_t *pCount,
                                     ze_device_handle_t *phSubdevices)
{
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(pCount);
    *pCount = 0;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeDeviceGetRootDevice(ze_device_handle_t hDevice, ze_device_handle_t *phRootDevice)
{
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(phRootDevice);
    *phRootDevice = NULL;
    return ZE_RESULT_SUCCESS;
}

uint64_t zr_device_free(const struct zr_device *device)
{
    uint64_t bytes = zr_i915_lmem_free(device->i915);

    if (bytes != 0) {
        return bytes;
    }
    return device->info->lmem_size ? device->info->lmem_size : device->info->smem_size;
}

void zr_device_uuid(const struct zr_device *device, ze_device_uuid_t *uuid)
{
    const struct zr_i915_info *info = device->info;
    const struct zr_kif_node  *node = &info->node;
    uint16_t                   ids[] = {ZR_PCI_VENDOR_INTEL, info->device_id, info->revision,
                                       node->pci_domain};

    memset(uuid, 0, sizeof(*uuid));
    memcpy(uuid->id, ids, sizeof(ids));
    uuid->id[8]  = node->pci_bus;
    uuid->id[9]  = node->pci_device;
    uuid->id[10] = node->pci_function;
}

ze_result_t zr_zeDeviceGetProperties(ze_device_handle_t hDevice, ze_device_properties_t *properties)
{
    struct zr_device          *device = (struct zr_device *)hDevice;
    const struct zr_i915_info *info;

    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(properties);
    info = device->info;

    properties->type                    = ZE_DEVICE_TYPE_GPU;
    properties->vendorId                = ZR_PCI_VENDOR_INTEL;
    properties->deviceId                = info->device_id;
    properties->flags                   = info->lmem_size ? 0 : ZE_DEVICE_PROPERTY_FLAG_INTEGRATED;
    properties->subdeviceId             = 0;
    properties->coreClockRate           = 0;
    properties->maxMemAllocSize         = info->lmem_size ? info->lmem_size : info->smem_size;
    properties->maxHardwareContexts     = 65536;
    properties->maxCommandQueuePriority = 0;
    properties->numThreadsPerEU         = 0; /* nothing runs on the execution units */
    properties->physicalEUSimdWidth     = 0;
    properties->numEUsPerSubslice       = 0;
    properties->numSubslicesPerSlice    = 0;
    properties->numSlices               = 0;
    /* Nanoseconds per tick before 1.2 of the structure, ticks per second since. */
    properties->timerResolution = (properties->stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2)
                                      ? info->timestamp_hz
                                      : 1000000000 / ZR_MAX(info->timestamp_hz, 1u);
    properties->timestampValidBits       = 64;
    properties->kernelTimestampValidBits = 64;
    zr_device_uuid(device, &properties->uuid);
    snprintf(properties->name, sizeof(properties->name), "%s", info->name);
    if (properties->stype != ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES &&
        properties->stype != ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2) {
        return ZE_RESULT_SUCCESS; /* hwloc's is not initialised: its chain leads nowhere */
    }
    for (ze_base_properties_t *next = properties->pNext; next != NULL; next = next->pNext) {
        if (next->stype == ZE_STRUCTURE_TYPE_DEVICE_USABLEMEM_SIZE_EXT_PROPERTIES) {
            ((ze_device_usablemem_size_ext_properties_t *)next)->currUsableMemSize =
                zr_device_free(device);
        }
    }
    return ZE_RESULT_SUCCESS;
}

/* Kernels and images do not exist here: every limit is 0. */
#define ZR_ZERO_PROPERTIES(hDevice, properties)                                                   \
    do {                                                                                          \
        __typeof__(*(properties)) zero_ = {0};                                                    \
        ZR_CHECK_HANDLE((hDevice), ZR_KIND_DEVICE);                                               \
        ZR_CHECK_POINTER(properties);                                                             \
        zero_.stype   = (properties)->stype;                                                      \
        zero_.pNext   = (properties)->pNext;                                                      \
        *(properties) = zero_;                                                                    \
    } while (0)

ze_result_t zr_zeDeviceGetComputeProperties(ze_device_handle_t             hDevice,
                                            ze_device_compute_properties_t *properties)
{
    ZR_ZERO_PROPERTIES(hDevice, properties);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeDeviceGetModuleProperties(ze_device_handle_t            hDevice,
                                           ze_device_module_properties_t *properties)
{
    ZR_ZERO_PROPERTIES(hDevice, properties);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeDeviceGetImageProperties(ze_device_handle_t           hDevice,
                                          ze_device_image_properties_t *properties)
{
    ZR_ZERO_PROPERTIES(hDevice, properties);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeDeviceGetCacheProperties(ze_device_handle_t hDevice, uint32_t *pCount,
                                          ze_device_cache_properties_t *properties)
{
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(pCount);
    *pCount = 0; /* the kernel does not tell */
    return ZE_RESULT_SUCCESS;
}

/* One group, of copy engines. UCX's ze_copy and ucx_perftest take ordinal 0 without asking what it
 * can do and only ever copy and fill, so that COPY alone serves them; a COMPUTE flag would promise
 * kernels. Clients of Intel's driver, its own tests too, look for a group with that flag before
 * they copy: ZERANGE_COMPAT=intel shows the engines once so and once as they are, as Intel's first
 * two groups. */
unsigned zr_device_groups(void)
{
    return zr_config()->compat == ZR_COMPAT_INTEL ? 2 : 1;
}

ze_result_t zr_zeDeviceGetCommandQueueGroupProperties(
    ze_device_handle_t hDevice, uint32_t *pCount, ze_command_queue_group_properties_t *properties)
{
    struct zr_device *device = (struct zr_device *)hDevice;
    const uint32_t    groups = zr_device_groups();

    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(pCount);
    if (*pCount == 0 || *pCount > groups) {
        *pCount = groups;
    }
    for (uint32_t i = 0; properties != NULL && i < *pCount; i++) {
        properties[i].flags = ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY;
        if (i + 1 < groups) {
            properties[i].flags |= ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE |
                                   ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COOPERATIVE_KERNELS;
        }
        properties[i].maxMemoryFillPatternSize = ZR_MAX_PATTERN;
        properties[i].numQueues                = device->info->num_engines;
    }
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeDeviceGetMemoryProperties(ze_device_handle_t hDevice, uint32_t *pCount,
                                           ze_device_memory_properties_t *properties)
{
    struct zr_device          *device = (struct zr_device *)hDevice;
    const struct zr_i915_info *info;

    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(pCount);
    info = device->info;
    if (*pCount > 0 && properties != NULL) {
        properties->flags        = 0;
        properties->maxClockRate = 0; /* the kernel tells neither */
        properties->maxBusWidth  = 0;
        properties->totalSize    = info->lmem_size ? info->lmem_size : info->smem_size;
        snprintf(properties->name, sizeof(properties->name), "%s",
                 info->lmem_size ? "device-local memory" : "system memory");
    }
    *pCount = 1;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeDeviceGetMemoryAccessProperties(ze_device_handle_t hDevice,
                                                 ze_device_memory_access_properties_t *properties)
{
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(properties);
    properties->hostAllocCapabilities               = ZE_MEMORY_ACCESS_CAP_FLAG_RW;
    properties->deviceAllocCapabilities             = ZE_MEMORY_ACCESS_CAP_FLAG_RW;
    properties->sharedSingleDeviceAllocCapabilities = ZE_MEMORY_ACCESS_CAP_FLAG_RW;
    properties->sharedCrossDeviceAllocCapabilities  = 0;
    properties->sharedSystemAllocCapabilities       = 0;
    return ZE_RESULT_SUCCESS;
}

ze_result_t
zr_zeDeviceGetExternalMemoryProperties(ze_device_handle_t                     hDevice,
                                       ze_device_external_memory_properties_t *properties)
{
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(properties);
    properties->memoryAllocationImportTypes = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF;
    properties->memoryAllocationExportTypes = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF;
    properties->imageImportTypes            = 0;
    properties->imageExportTypes            = 0;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeDeviceGetP2PProperties(ze_device_handle_t hDevice, ze_device_handle_t hPeerDevice,
                                        ze_device_p2p_properties_t *properties)
{
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_HANDLE(hPeerDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(properties);
    properties->flags = 0;
    return ZE_RESULT_SUCCESS;
}

/* A device-only buffer of one i915 device cannot be attached to another. */
ze_result_t zr_zeDeviceCanAccessPeer(ze_device_handle_t hDevice, ze_device_handle_t hPeerDevice,
                                     ze_bool_t *value)
{
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_HANDLE(hPeerDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(value);
    *value = hDevice == hPeerDevice;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeDeviceGetStatus(ze_device_handle_t hDevice)
{
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeDevicePciGetPropertiesExt(ze_device_handle_t       hDevice,
                                           ze_pci_ext_properties_t *properties)
{
    struct zr_device         *device = (struct zr_device *)hDevice;
    const struct zr_kif_node *node;

    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(properties);
    node                = &device->info->node;
    properties->address = (ze_pci_address_ext_t){
        .domain   = node->pci_domain,
        .bus      = node->pci_bus,
        .device   = node->pci_device,
        .function = node->pci_function,
    };
    properties->maxSpeed = (ze_pci_speed_ext_t){-1, -1, -1}; /* "unknown" of the specification */
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeDeviceSynchronize(ze_device_handle_t hDevice)
{
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    return zr_streams_drain((struct zr_device *)hDevice);
}

/* With the clock's lock held. */
static ze_result_t zr_clock_start(struct zr_device *device)
{
    ze_result_t result;

    if (device->clock != NULL) {
        return ZE_RESULT_SUCCESS;
    }
    result = zr_phys_create(device->i915, ZR_BACKING_SECTION, ZR_CACHE_CACHED, ZR_PAGE_SMALL, 0,
                            &device->clock_phys);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    result = zr_copyq_create(device->i915, 1, &device->clock);
    if (result != ZE_RESULT_SUCCESS) {
        zr_phys_unref(device->clock_phys);
    }
    return result;
}

/* With the clock's lock held: the device writes its time, the host reads it. */
static ze_result_t zr_clock_read(struct zr_device *device, struct zr_bo *bo, uint64_t *time_p)
{
    struct zr_copyq *q = device->clock;
    void            *cpu;
    uint64_t         seqno;
    ze_result_t      result;

    zr_copyq_begin(q);
    result = zr_copyq_write_timestamp(q, bo, 0);
    if (result != ZE_RESULT_SUCCESS) {
        zr_copyq_abort(q);
        return result;
    }
    result = zr_copyq_submit(q, &seqno);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_copyq_wait(q, seqno, UINT64_MAX);
    }
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_bo_map(bo, NULL, 0, ZR_PAGE_SMALL, PROT_READ | PROT_WRITE, &cpu);
    }
    if (result == ZE_RESULT_SUCCESS) {
        *time_p = *(volatile uint64_t *)cpu;
        zr_bo_unmap(bo, cpu, ZR_PAGE_SMALL);
    }
    return result;
}

ze_result_t zr_zeDeviceGetGlobalTimestamps(ze_device_handle_t hDevice, uint64_t *hostTimestamp,
                                           uint64_t *deviceTimestamp)
{
    struct zr_device *device = (struct zr_device *)hDevice;
    struct zr_bo     *bo;
    uint64_t          time;
    ze_result_t       result;

    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(hostTimestamp);
    ZR_CHECK_POINTER(deviceTimestamp);
    pthread_mutex_lock(&device->clock_lock);
    result = zr_clock_start(device);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_phys_bo(device->clock_phys, device->i915, &bo);
    }
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_clock_read(device, bo, &time);
    }
    if (result == ZE_RESULT_SUCCESS) {
        *hostTimestamp   = zr_time_ns();
        *deviceTimestamp = time;
    }
    pthread_mutex_unlock(&device->clock_lock);
    return result;
}
