/* System management (zes) as far as a copy-only device has something to say: what it is, where it
 * is on the bus, its memory. Enough for hwloc's levelzero backend; of sensors, fans, power and
 * fabric ports there are none. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

#include <level_zero/zes_ddi.h>
#include <stdio.h>
#include <string.h>

#define ZR_EXPORT __attribute__((visibility("default")))

/* The Level Zero and the Sysman handle of a device are one. */
static ze_result_t ZE_APICALL zr_zesInit(zes_init_flags_t flags)
{
    if (flags > ZES_INIT_FLAG_PLACEHOLDER) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "zesInit: flags 0x%x", flags);
    }
    return zr_init();
}

static ze_result_t ZE_APICALL zr_zesDriverGet(uint32_t *pCount, zes_driver_handle_t *phDrivers)
{
    return zr_zeDriverGet(pCount, phDrivers);
}

static ze_result_t ZE_APICALL
zr_zesDriverGetExtensionProperties(zes_driver_handle_t hDriver, uint32_t *pCount,
                                   zes_driver_extension_properties_t *properties)
{
    ZR_CHECK_HANDLE(hDriver, ZR_KIND_DRIVER);
    ZR_CHECK_POINTER(pCount);
    *pCount = 0;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t ZE_APICALL zr_zesDeviceGet(zes_driver_handle_t hDriver, uint32_t *pCount,
                                              zes_device_handle_t *phDevices)
{
    return zr_zeDeviceGet(hDriver, pCount, phDevices);
}

static ze_result_t ZE_APICALL zr_zesDriverGetDeviceByUuidExp(zes_driver_handle_t hDriver,
                                                             zes_uuid_t           uuid,
                                                             zes_device_handle_t *phDevice,
                                                             ze_bool_t *onSubdevice,
                                                             uint32_t  *subdeviceId)
{
    ze_device_uuid_t own;

    ZR_CHECK_HANDLE(hDriver, ZR_KIND_DRIVER);
    ZR_CHECK_POINTER(phDevice);
    ZR_CHECK_POINTER(onSubdevice);
    ZR_CHECK_POINTER(subdeviceId);
    for (unsigned i = 0; i < zr_driver->num_devices; i++) {
        zr_device_uuid(zr_driver->device[i], &own);
        if (memcmp(own.id, uuid.id, sizeof(own.id)) == 0) {
            *phDevice    = (zes_device_handle_t)zr_driver->device[i];
            *onSubdevice = false;
            *subdeviceId = 0;
            return ZE_RESULT_SUCCESS;
        }
    }
    return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "no device of zerange has this UUID");
}

/* hwloc passes structures whose first two members it has not set: the chain is followed only
 * where the structure says what it is. */
static ze_result_t ZE_APICALL zr_zesDeviceGetProperties(zes_device_handle_t      hDevice,
                                                        zes_device_properties_t *properties)
{
    struct zr_device *device = (struct zr_device *)hDevice;

    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(properties);
    properties->core       = (ze_device_properties_t){.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    properties->numSubdevices = 0;
    (void)zr_zeDeviceGetProperties(hDevice, &properties->core);
    snprintf(properties->serialNumber, sizeof(properties->serialNumber), "unknown");
    snprintf(properties->boardNumber, sizeof(properties->boardNumber), "unknown");
    snprintf(properties->brandName, sizeof(properties->brandName), "unknown");
    snprintf(properties->modelName, sizeof(properties->modelName), "%s", device->info->name);
    snprintf(properties->vendorName, sizeof(properties->vendorName), "Intel(R) Corporation");
    snprintf(properties->driverVersion, sizeof(properties->driverVersion), "zerange %u.%u",
             ZE_MAJOR_VERSION(ZR_DRIVER_VERSION), ZE_MINOR_VERSION(ZR_DRIVER_VERSION));
    if (properties->stype == ZES_STRUCTURE_TYPE_DEVICE_PROPERTIES) {
        zes_device_ext_properties_t *ext = (void *)zr_chain_find(
            properties->pNext, (ze_structure_type_t)ZES_STRUCTURE_TYPE_DEVICE_EXT_PROPERTIES);

        if (ext != NULL) {
            ext->type  = ZES_DEVICE_TYPE_GPU;
            ext->flags = device->info->lmem_size ? 0 : ZES_DEVICE_PROPERTY_FLAG_INTEGRATED;
            memcpy(ext->uuid.id, properties->core.uuid.id, sizeof(ext->uuid.id));
        }
    }
    return ZE_RESULT_SUCCESS;
}

static ze_result_t ZE_APICALL zr_zesDevicePciGetProperties(zes_device_handle_t   hDevice,
                                                           zes_pci_properties_t *properties)
{
    const struct zr_kif_node *node;

    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(properties);
    node                = &((struct zr_device *)hDevice)->info->node;
    properties->address = (zes_pci_address_t){
        .domain   = node->pci_domain,
        .bus      = node->pci_bus,
        .device   = node->pci_device,
        .function = node->pci_function,
    };
    properties->maxSpeed              = (zes_pci_speed_t){-1, -1, -1};
    properties->haveBandwidthCounters = false;
    properties->havePacketCounters    = false;
    properties->haveReplayCounters    = false;
    return ZE_RESULT_SUCCESS;
}

/* zesDeviceEnum...: of all these a device has none. They share their shape. */
static ze_result_t ZE_APICALL zr_zes_enum_none(zes_device_handle_t hDevice, uint32_t *pCount,
                                               void *handles)
{
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(pCount);
    *pCount = 0;
    return ZE_RESULT_SUCCESS;
}

/* ---- memory: one module, the memory that allocations of the device come from ---- */

static ze_result_t ZE_APICALL zr_zesDeviceEnumMemoryModules(zes_device_handle_t hDevice,
                                                            uint32_t           *pCount,
                                                            zes_mem_handle_t   *phMemory)
{
    ZR_CHECK_HANDLE(hDevice, ZR_KIND_DEVICE);
    ZR_CHECK_POINTER(pCount);
    ZR_COUNTED(pCount, 1, phMemory, (zes_mem_handle_t)((struct zr_device *)hDevice)->memory);
    return ZE_RESULT_SUCCESS;
}

/* The kernel does not tell what the chips are; the generation does. */
static zes_mem_type_t zr_memory_type(const struct zr_i915_info *info)
{
    if (info->lmem_size == 0) {
        return ZES_MEM_TYPE_DDR;
    }
    return (info->gen == ZR_BLT_PVC) ? ZES_MEM_TYPE_HBM : ZES_MEM_TYPE_GDDR6;
}

static ze_result_t ZE_APICALL zr_zesMemoryGetProperties(zes_mem_handle_t      hMemory,
                                                        zes_mem_properties_t *properties)
{
    const struct zr_i915_info *info;

    ZR_CHECK_HANDLE(hMemory, ZR_KIND_MEMORY);
    ZR_CHECK_POINTER(properties);
    info                     = ((struct zr_memory *)hMemory)->device->info;
    properties->type         = zr_memory_type(info);
    properties->onSubdevice  = false;
    properties->subdeviceId  = 0;
    properties->location     = info->lmem_size ? ZES_MEM_LOC_DEVICE : ZES_MEM_LOC_SYSTEM;
    properties->physicalSize = info->lmem_size ? info->lmem_size : info->smem_size;
    properties->busWidth     = -1;
    properties->numChannels  = -1;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t ZE_APICALL zr_zesMemoryGetState(zes_mem_handle_t hMemory, zes_mem_state_t *state)
{
    struct zr_device *device;

    ZR_CHECK_HANDLE(hMemory, ZR_KIND_MEMORY);
    ZR_CHECK_POINTER(state);
    device        = ((struct zr_memory *)hMemory)->device;
    state->health = ZES_MEM_HEALTH_UNKNOWN;
    state->size   = device->info->lmem_size ? device->info->lmem_size : device->info->smem_size;
    state->free   = zr_device_free(device);
    return ZE_RESULT_SUCCESS;
}

/* ---- tables: an entry is written only if the loader that asks knows it ---- */

#define ZR_NONE(name) .pfn##name = (zes_pfnDevice##name##_t)zr_zes_enum_none

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-function-type"
static zes_device_dditable_t zr_zes_device = {
    .pfnGetProperties      = zr_zesDeviceGetProperties,
    .pfnPciGetProperties   = zr_zesDevicePciGetProperties,
    .pfnEnumMemoryModules  = zr_zesDeviceEnumMemoryModules,
    .pfnGet                = zr_zesDeviceGet,
    ZR_NONE(EnumDiagnosticTestSuites),
    ZR_NONE(EnumEngineGroups),
    ZR_NONE(EnumFabricPorts),
    ZR_NONE(EnumFans),
    ZR_NONE(EnumFirmwares),
    ZR_NONE(EnumFrequencyDomains),
    ZR_NONE(EnumLeds),
    ZR_NONE(EnumPerformanceFactorDomains),
    ZR_NONE(EnumPowerDomains),
    ZR_NONE(EnumPsus),
    ZR_NONE(EnumRasErrorSets),
    ZR_NONE(EnumSchedulers),
    ZR_NONE(EnumStandbyDomains),
    ZR_NONE(EnumTemperatureSensors),
};
#pragma GCC diagnostic pop
static zes_global_dditable_t zr_zes_global = {.pfnInit = zr_zesInit};
static zes_driver_dditable_t zr_zes_driver = {
    .pfnGet                    = zr_zesDriverGet,
    .pfnGetExtensionProperties = zr_zesDriverGetExtensionProperties,
};
static zes_driver_exp_dditable_t zr_zes_driver_exp = {
    .pfnGetDeviceByUuidExp = zr_zesDriverGetDeviceByUuidExp,
};
static zes_memory_dditable_t zr_zes_memory = {
    .pfnGetProperties = zr_zesMemoryGetProperties,
    .pfnGetState      = zr_zesMemoryGetState,
};

zes_dditable_driver_t zr_sysman_tables = {
    .version     = ZE_API_VERSION_CURRENT,
    .isValidFlag = 1,
    .Global      = &zr_zes_global,
    .Device      = &zr_zes_device,
    .Driver      = &zr_zes_driver,
    .DriverExp   = &zr_zes_driver_exp,
    .Memory      = &zr_zes_memory,
};

#define ZR_PUT(since_minor, name)                                                                 \
    if (version >= ZE_MAKE_VERSION(1, since_minor)) {                                             \
        pDdiTable->pfn##name = table->pfn##name;                                                  \
    }
#define ZR_GETTER(name, type, source, entries)                                                    \
    ZR_EXPORT ze_result_t ZE_APICALL zesGet##name##ProcAddrTable(ze_api_version_t version,        \
                                                                 type *pDdiTable)                 \
    {                                                                                             \
        const type *table  = &(source);                                                           \
        ze_result_t result = zr_check_version(version, pDdiTable);                                \
                                                                                                  \
        if (result == ZE_RESULT_SUCCESS) {                                                        \
            entries                                                                               \
        }                                                                                         \
        return result;                                                                            \
    }

ZR_GETTER(Global, zes_global_dditable_t, zr_zes_global, ZR_PUT(5, Init))
ZR_GETTER(Driver, zes_driver_dditable_t, zr_zes_driver,
          ZR_PUT(5, Get) ZR_PUT(8, GetExtensionProperties))
ZR_GETTER(DriverExp, zes_driver_exp_dditable_t, zr_zes_driver_exp,
          ZR_PUT(9, GetDeviceByUuidExp))
ZR_GETTER(Memory, zes_memory_dditable_t, zr_zes_memory, ZR_PUT(0, GetProperties) ZR_PUT(0, GetState))
ZR_GETTER(Device, zes_device_dditable_t, zr_zes_device,
          ZR_PUT(0, GetProperties) ZR_PUT(0, PciGetProperties) ZR_PUT(0, EnumMemoryModules)
          ZR_PUT(0, EnumDiagnosticTestSuites) ZR_PUT(0, EnumEngineGroups)
          ZR_PUT(0, EnumFabricPorts) ZR_PUT(0, EnumFans) ZR_PUT(0, EnumFirmwares)
          ZR_PUT(0, EnumFrequencyDomains) ZR_PUT(0, EnumLeds)
          ZR_PUT(0, EnumPerformanceFactorDomains) ZR_PUT(0, EnumPowerDomains)
          ZR_PUT(0, EnumPsus) ZR_PUT(0, EnumRasErrorSets) ZR_PUT(0, EnumSchedulers)
          ZR_PUT(0, EnumStandbyDomains) ZR_PUT(0, EnumTemperatureSensors) ZR_PUT(5, Get))
