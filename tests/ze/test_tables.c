/* The exported table getters, called as loaders of every version call them: nothing is written
 * beyond the table that a loader of that version has, nothing it has is left out. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <level_zero/ze_ddi.h>
#include <level_zero/zer_ddi.h>
#include <level_zero/zes_ddi.h>

#include <dlfcn.h>

#define UNTOUCHED ((uintptr_t)UINT64_C(0xa5a5a5a5a5a5a5a5))

typedef ze_result_t (*getter_t)(ze_api_version_t version, void *table);

/* Entries of the tables at three versions, counted in the headers of loaders: a table grows at its
 * end only. 0: not known. @a holes: the driver leaves some of them to the loader. */
static const struct {
    const char *name;
    size_t      now, at_1_0, at_1_12;
    bool        holes;
} tables[] = {
    {"zeGetGlobalProcAddrTable", sizeof(ze_global_dditable_t), 1, 2, false},
    {"zeGetDriverProcAddrTable", sizeof(ze_driver_dditable_t), 5, 7, true},
    {"zeGetDeviceProcAddrTable", sizeof(ze_device_dditable_t), 14, 21, true},
    {"zeGetContextProcAddrTable", sizeof(ze_context_dditable_t), 8, 9, false},
    {"zeGetCommandQueueProcAddrTable", sizeof(ze_command_queue_dditable_t), 4, 6, false},
    {"zeGetCommandListProcAddrTable", sizeof(ze_command_list_dditable_t), 26, 36, true},
    {"zeGetCommandListExpProcAddrTable", sizeof(ze_command_list_exp_dditable_t), 0, 6, true},
    {"zeGetEventExpProcAddrTable", sizeof(ze_event_exp_dditable_t), 0, 1, false},
    {"zeGetEventPoolProcAddrTable", sizeof(ze_event_pool_dditable_t), 5, 8, false},
    {"zeGetEventProcAddrTable", sizeof(ze_event_dditable_t), 7, 11, true},
    {"zeGetFenceProcAddrTable", sizeof(ze_fence_dditable_t), 5, 5, false},
    {"zeGetMemProcAddrTable", sizeof(ze_mem_dditable_t), 9, 12, false},
    {"zeGetMemExpProcAddrTable", sizeof(ze_mem_exp_dditable_t), 0, 4, false},
    {"zeGetPhysicalMemProcAddrTable", sizeof(ze_physical_mem_dditable_t), 2, 2, false},
    {"zeGetVirtualMemProcAddrTable", sizeof(ze_virtual_mem_dditable_t), 7, 7, false},
    {"zeGetModuleProcAddrTable", sizeof(ze_module_dditable_t), 8, 9, false},
    {"zeGetModuleBuildLogProcAddrTable", sizeof(ze_module_build_log_dditable_t), 2, 2, false},
    {"zeGetKernelProcAddrTable", sizeof(ze_kernel_dditable_t), 12, 12, true},
    {"zeGetImageProcAddrTable", sizeof(ze_image_dditable_t), 3, 5, false},
    {"zeGetSamplerProcAddrTable", sizeof(ze_sampler_dditable_t), 2, 2, false},
};

/* Entries written, and the number of the last one plus 1. */
static void ask(getter_t get, unsigned minor, uintptr_t *table, size_t entries, size_t *written,
                size_t *end)
{
    *written = *end = 0;
    for (size_t i = 0; i < entries; i++) {
        table[i] = UNTOUCHED;
    }
    CHECK_OK(get((ze_api_version_t)ZE_MAKE_VERSION(1, minor), table));
    for (size_t i = 0; i < entries; i++) {
        if (table[i] != UNTOUCHED) {
            CHECK_TRUE(table[i] != 0);
            (*written)++;
            *end = i + 1;
        }
    }
}

static void check_table(void *library, size_t which)
{
    static uintptr_t table[256], before[256];
    const size_t     entries = tables[which].now / sizeof(uintptr_t);
    getter_t         get     = (getter_t)dlsym(library, tables[which].name);
    const unsigned   newest  = ZE_MINOR_VERSION(ZE_API_VERSION_CURRENT);
    size_t           written, end, last = 0;
    unsigned         failed = failures;

    if (!CHECK_TRUE(get != NULL)) {
        return;
    }
    CHECK(get(ZE_API_VERSION_CURRENT, NULL), ZE_RESULT_ERROR_INVALID_NULL_POINTER);
    table[0] = UNTOUCHED;
    CHECK((int)get((ze_api_version_t)ZE_MAKE_VERSION(2, 0), table),
          ZE_RESULT_ERROR_UNSUPPORTED_VERSION);
    CHECK((int)get((ze_api_version_t)ZE_MAKE_VERSION(0, 91), table),
          ZE_RESULT_ERROR_UNSUPPORTED_VERSION);
    CHECK_EQ(table[0], UNTOUCHED);
    for (unsigned minor = 0; minor <= newest + 3; minor++) {
        ask(get, minor, table, entries, &written, &end);
        CHECK_TRUE(tables[which].holes || written == end);
        CHECK_TRUE(end >= last);
        for (size_t i = 0; i < last; i++) { /* what was there before is the same and there still */
            CHECK_TRUE(before[i] == UNTOUCHED || table[i] == before[i]);
        }
        memcpy(before, table, sizeof(table));
        last = end;
        if (minor == 0 || minor == 12) {
            size_t known = (minor == 0) ? tables[which].at_1_0 : tables[which].at_1_12;

            CHECK_TRUE(tables[which].holes ? end <= known : end == known);
        }
    }
    CHECK_TRUE(tables[which].holes || last == entries);
    if (failures != failed) {
        printf("... %s\n", tables[which].name);
    }
}

/* Sysman's and the runtime's are as old as the driver's own header at least. */
static void check_others(void *library)
{
    static const struct {
        const char *name;
        size_t      size;
    } others[] = {{"zesGetGlobalProcAddrTable", sizeof(zes_global_dditable_t)},
                  {"zesGetDriverProcAddrTable", sizeof(zes_driver_dditable_t)},
                  {"zesGetDeviceProcAddrTable", sizeof(zes_device_dditable_t)},
                  {"zesGetMemoryProcAddrTable", sizeof(zes_memory_dditable_t)},
                  {"zerGetGlobalProcAddrTable", sizeof(zer_global_dditable_t)}};
    static uintptr_t table[512];

    for (size_t i = 0; i < COUNT(others); i++) {
        getter_t get = (getter_t)dlsym(library, others[i].name);
        size_t   written, end;

        if (CHECK_TRUE(get != NULL)) {
            ask(get, ZE_MINOR_VERSION(ZE_API_VERSION_CURRENT), table, COUNT(table), &written,
                &end);
            CHECK_TRUE(written > 0 && end <= others[i].size / sizeof(uintptr_t));
            CHECK(get((ze_api_version_t)ZE_MAKE_VERSION(2, 0), table),
                  ZE_RESULT_ERROR_UNSUPPORTED_VERSION);
        }
    }
}

/* Loader 1.20 drops a driver that has not every getter of tools and Sysman; there is nothing in
 * the tables. */
static void check_empty(void *library)
{
    static const char *const names[] = {
        "zetGetDevice", "zetGetContext", "zetGetCommandList", "zetGetKernel", "zetGetModule",
        "zetGetDebug", "zetGetMetric", "zetGetMetricGroup", "zetGetMetricQuery",
        "zetGetMetricQueryPool", "zetGetMetricStreamer", "zetGetTracerExp", "zesGetDiagnostics",
        "zesGetEngine", "zesGetFabricPort", "zesGetFan", "zesGetFirmware", "zesGetFrequency",
        "zesGetLed", "zesGetOverclock", "zesGetPerformanceFactor", "zesGetPower", "zesGetPsu",
        "zesGetRas", "zesGetScheduler", "zesGetStandby", "zesGetTemperature"};
    static uintptr_t table[512];
    char             name[64];

    for (size_t i = 0; i < COUNT(names); i++) {
        size_t   written, end;
        getter_t get;

        snprintf(name, sizeof(name), "%sProcAddrTable", names[i]);
        get = (getter_t)dlsym(library, name);
        if (!CHECK_TRUE(get != NULL)) {
            printf("... %s\n", name);
            continue;
        }
        ask(get, 12, table, COUNT(table), &written, &end);
        CHECK_EQ(written, 0);
        CHECK(get(ZE_API_VERSION_CURRENT, NULL), ZE_RESULT_ERROR_INVALID_NULL_POINTER);
    }
}

int main(void)
{
    const char *path = getenv("ZE_ENABLE_ALT_DRIVERS");
    void       *library;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (path == NULL || strchr(path, ',') != NULL) {
        printf("needs the path of the driver in ZE_ENABLE_ALT_DRIVERS\n");
        return 77;
    }
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        printf("%s\n", dlerror());
        return 1;
    }
    for (size_t i = 0; i < COUNT(tables); i++) {
        check_table(library, i);
    }
    check_others(library);
    check_empty(library);
    dlclose(library);
    printf("%u failed\n", failures);
    return failures != 0;
}
