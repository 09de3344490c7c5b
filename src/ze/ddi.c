/* The loader's door: the exported table getters, and the tables behind each object's ddi header.
 * An entry is written only if the loader that asks knows it: its tables are as long as its own
 * version's. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

#include <level_zero/zer_ddi.h>
#include <level_zero/zet_ddi.h>

#define ZR_EXPORT __attribute__((visibility("default")))

/* Stands for every function with no parameters worth looking at: the C calling conventions of
 * Linux leave arguments to the caller. */
static ze_result_t zr_unsupported(void)
{
    return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, "zerange devices have copy engines only");
}

#define ZR_ENTRY(prefix, name, major, minor) .pfn##name = zr_ze##prefix##name,
#define ZR_ENTRY_UNSUPPORTED(prefix, name, major, minor)                                          \
    .pfn##name = (__typeof__((ze_pfn##prefix##name##_t)0))zr_unsupported,
#define ZR_DEFINE_TABLE(name, type, entries)                                                      \
    static type zr_table_##name = {entries(ZR_ENTRY, ZR_ENTRY_UNSUPPORTED)};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-function-type"
ZR_TABLES(ZR_DEFINE_TABLE)
#pragma GCC diagnostic pop

#define ZR_FILL_ENTRY(prefix, name, major, minor)                                                 \
    if (version >= ZE_MAKE_VERSION(major, minor)) {                                               \
        pDdiTable->pfn##name = table->pfn##name;                                                  \
    }
#define ZR_DEFINE_GETTER(name, type, entries)                                                     \
    ZR_EXPORT ze_result_t ZE_APICALL zeGet##name##ProcAddrTable(ze_api_version_t version,         \
                                                                type *pDdiTable)                  \
    {                                                                                             \
        const type *table  = &zr_table_##name;                                                    \
        ze_result_t result = zr_check_version(version, pDdiTable);                                \
                                                                                                  \
        if (result == ZE_RESULT_SUCCESS) {                                                        \
            entries(ZR_FILL_ENTRY, ZR_FILL_ENTRY)                                                 \
        }                                                                                         \
        return result;                                                                            \
    }
ZR_TABLES(ZR_DEFINE_GETTER)

/* ---- runtime API ---- */

static ze_result_t ZE_APICALL zr_zerGetLastErrorDescription(const char **ppString)
{
    ZR_CHECK_POINTER(ppString);
    *ppString = zr_last_error();
    return ZE_RESULT_SUCCESS;
}

static uint32_t ZE_APICALL zr_zerTranslateDeviceHandleToIdentifier(ze_device_handle_t hDevice)
{
    return zr_object_is(hDevice, ZR_KIND_DEVICE) ? ((struct zr_device *)hDevice)->index
                                                 : UINT32_MAX;
}

static ze_device_handle_t ZE_APICALL zr_zerTranslateIdentifierToDeviceHandle(uint32_t identifier)
{
    return (zr_driver != NULL && identifier < zr_driver->num_devices)
               ? (ze_device_handle_t)zr_driver->device[identifier]
               : NULL;
}

static ze_context_handle_t ZE_APICALL zr_zerGetDefaultContext(void)
{
    return zr_zeDriverGetDefaultContext((ze_driver_handle_t)zr_driver);
}

static zer_global_dditable_t zr_table_runtime = {
    .pfnGetLastErrorDescription           = zr_zerGetLastErrorDescription,
    .pfnTranslateDeviceHandleToIdentifier = zr_zerTranslateDeviceHandleToIdentifier,
    .pfnTranslateIdentifierToDeviceHandle = zr_zerTranslateIdentifierToDeviceHandle,
    .pfnGetDefaultContext                 = zr_zerGetDefaultContext,
};

ZR_EXPORT ze_result_t ZE_APICALL zerGetGlobalProcAddrTable(ze_api_version_t       version,
                                                           zer_global_dditable_t *pDdiTable)
{
    ze_result_t result = zr_check_version(version, pDdiTable);

    if (result == ZE_RESULT_SUCCESS) {
        *pDdiTable = zr_table_runtime; /* all four came with 1.14, the first version of it */
    }
    return result;
}

/* ---- tools and the rest of Sysman: nothing, but loader 1.20 drops a driver without these ---- */

#define ZR_DEFINE_EMPTY_GETTER(getter, type)                                                      \
    ZR_EXPORT ze_result_t ZE_APICALL getter(ze_api_version_t version, type *pDdiTable)            \
    {                                                                                             \
        return zr_check_version(version, pDdiTable);                                              \
    }
ZR_DEFINE_EMPTY_GETTER(zetGetDeviceProcAddrTable, zet_device_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zetGetContextProcAddrTable, zet_context_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zetGetCommandListProcAddrTable, zet_command_list_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zetGetKernelProcAddrTable, zet_kernel_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zetGetModuleProcAddrTable, zet_module_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zetGetDebugProcAddrTable, zet_debug_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zetGetMetricProcAddrTable, zet_metric_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zetGetMetricGroupProcAddrTable, zet_metric_group_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zetGetMetricQueryProcAddrTable, zet_metric_query_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zetGetMetricQueryPoolProcAddrTable, zet_metric_query_pool_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zetGetMetricStreamerProcAddrTable, zet_metric_streamer_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zetGetTracerExpProcAddrTable, zet_tracer_exp_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zesGetDiagnosticsProcAddrTable, zes_diagnostics_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zesGetEngineProcAddrTable, zes_engine_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zesGetFabricPortProcAddrTable, zes_fabric_port_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zesGetFanProcAddrTable, zes_fan_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zesGetFirmwareProcAddrTable, zes_firmware_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zesGetFrequencyProcAddrTable, zes_frequency_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zesGetLedProcAddrTable, zes_led_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zesGetOverclockProcAddrTable, zes_overclock_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zesGetPerformanceFactorProcAddrTable, zes_performance_factor_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zesGetPowerProcAddrTable, zes_power_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zesGetPsuProcAddrTable, zes_psu_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zesGetRasProcAddrTable, zes_ras_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zesGetSchedulerProcAddrTable, zes_scheduler_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zesGetStandbyProcAddrTable, zes_standby_dditable_t)
ZR_DEFINE_EMPTY_GETTER(zesGetTemperatureProcAddrTable, zes_temperature_dditable_t)

/* ---- what objects carry ---- */

#define ZR_POINT_TO(name, type, entries) .name = &zr_table_##name,
static ze_dditable_driver_t zr_core = {
    .version     = ZE_API_VERSION_CURRENT,
    .isValidFlag = 1,
    ZR_TABLES(ZR_POINT_TO)};
static zet_dditable_driver_t zr_tools   = {.version = ZE_API_VERSION_CURRENT, .isValidFlag = 1};
static zer_dditable_driver_t zr_runtime = {
    .version = ZE_API_VERSION_CURRENT, .isValidFlag = 1, .Global = &zr_table_runtime};

const ze_handle_t zr_ddi_header = {&zr_core, &zr_tools, &zr_sysman_tables, &zr_runtime};
