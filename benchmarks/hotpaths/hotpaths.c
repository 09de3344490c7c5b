/* The hot paths, one at a time, for counting their instructions: hotpaths PATH COUNT runs PATH
 * COUNT times inside zr_hot_path, which valgrind --tool=callgrind --toggle-collect=zr_hot_path
 * counts. Calls the driver without the loader: its instructions are not ours. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "rcache/rcache.h"
#include "zerange/zerange.h"

#include <dlfcn.h>
#include <level_zero/ze_ddi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECTS 64
#define PAGE    65536
#define WARM    32

static struct {
    ze_global_dditable_t         global;
    ze_driver_dditable_t         driver;
    ze_device_dditable_t         device;
    ze_context_dditable_t        context;
    ze_mem_dditable_t            mem;
    ze_physical_mem_dditable_t   physical;
    ze_virtual_mem_dditable_t    virtual;
    ze_command_list_dditable_t   list;
    ze_event_dditable_t          event;
    ze_event_pool_dditable_t     pool;
} api;

static ze_driver_handle_t       driver;
static ze_device_handle_t       device;
static ze_context_handle_t      context;
static ze_command_list_handle_t list;
static ze_event_handle_t        done, never;
static char                    *base; /* OBJECTS objects side by side */
static struct zr_rcache        *cache;
static unsigned                 failures;

#define NEED(call)                                                                                \
    do {                                                                                          \
        ze_result_t result_ = (call);                                                             \
        if (result_ != ZE_RESULT_SUCCESS) {                                                       \
            fprintf(stderr, "hotpaths: %s: 0x%x\n", #call, (unsigned)result_);                    \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

/* ---- the paths ---- */

static void path_detect(unsigned i)
{
    ze_memory_allocation_properties_t p = {.stype =
                                               ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
    ze_device_handle_t d;
    void              *start;
    size_t             size;
    const char        *at = base + i % OBJECTS * PAGE + 4096;

    failures += api.mem.pfnGetAllocProperties(context, at, &p, &d) != ZE_RESULT_SUCCESS;
    failures += api.mem.pfnGetAddressRange(context, at, &start, &size) != ZE_RESULT_SUCCESS;
}

static const struct zr_rcache_identity identity = {.id = 1};

static struct zr_rcache_request request_of(unsigned i)
{
    return (struct zr_rcache_request){7, UINT64_C(0x100000000) + i % 1000 * (uint64_t)(2 * PAGE),
                                      PAGE / 2, &identity, NULL};
}

static void look_up(unsigned i)
{
    struct zr_rcache_request request = request_of(i);
    struct zr_rcache_region *region;

    failures += zr_rcache_get(cache, &request, &region) != 0;
    zr_rcache_put(cache, region);
}

/* One of a few. */
static void path_hit(unsigned i)
{
    look_up(i % WARM * 7);
}

/* One that was not asked for yet. */
static void path_hit_any(unsigned i)
{
    look_up(500 + i);
}

/* With the software engine's work on it, which is on this thread. */
static void path_submit(unsigned i)
{
    failures += api.list.pfnAppendMemoryCopy(list, base, base + (OBJECTS - 1) * PAGE, 8, done, 0,
                                             NULL) != ZE_RESULT_SUCCESS;
    failures += api.event.pfnQueryStatus(done) != ZE_RESULT_SUCCESS;
    failures += api.event.pfnHostReset(done) != ZE_RESULT_SUCCESS;
}

static void path_poll(unsigned i)
{
    failures += api.event.pfnQueryStatus(never) != ZE_RESULT_NOT_READY;
}

static void path_export_again(unsigned i)
{
    ze_ipc_phys_mem_handle_range_ext_desc_t desc = {
        .stype = ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC, .size = OBJECTS * PAGE};
    ze_ipc_mem_handle_t handle;

    failures += api.mem.pfnGetIpcHandleWithProperties(context, base, &desc, &handle) !=
                ZE_RESULT_SUCCESS;
}

static const struct {
    const char *name;
    void (*run)(unsigned i);
} paths[] = {{"detect", path_detect},
             {"hit", path_hit},
             {"hit-any", path_hit_any},
             {"submit", path_submit},
             {"poll", path_poll},
             {"export-again", path_export_again}};

__attribute__((noinline)) void zr_hot_path(unsigned path, unsigned count);
__attribute__((noinline)) void zr_hot_path(unsigned path, unsigned count)
{
    unsigned i;

    for (i = 0; i < count; i++) {
        paths[path].run(i);
    }
}

/* ---- what they need ---- */

static void load(void)
{
    const char *file = getenv("ZE_ENABLE_ALT_DRIVERS");
    void       *lib  = file != NULL ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
    uint32_t    n    = 1;

    if (lib == NULL) {
        fprintf(stderr, "hotpaths: no driver: %s\n", file != NULL ? dlerror()
                                                                  : "ZE_ENABLE_ALT_DRIVERS");
        exit(1);
    }
#define TABLE(Name, table)                                                                        \
    do {                                                                                          \
        ze_result_t (*get)(ze_api_version_t, void *);                                             \
        void *symbol = dlsym(lib, "zeGet" #Name "ProcAddrTable");                                 \
        memcpy(&get, &symbol, sizeof(get));                                                       \
        NEED(symbol == NULL ? ZE_RESULT_ERROR_UNSUPPORTED_FEATURE                                 \
                            : get(ZE_API_VERSION_CURRENT, &api.table));                           \
    } while (0)
    TABLE(Global, global);
    TABLE(Driver, driver);
    TABLE(Device, device);
    TABLE(Context, context);
    TABLE(Mem, mem);
    TABLE(PhysicalMem, physical);
    TABLE(VirtualMem, virtual);
    TABLE(CommandList, list);
    TABLE(Event, event);
    TABLE(EventPool, pool);
    NEED(api.global.pfnInit(0));
    NEED(api.driver.pfnGet(&n, &driver));
    n = 1;
    NEED(api.device.pfnGet(driver, &n, &device));
}

static void make_range(void)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                   .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE,
                                   .size  = PAGE};
    ze_physical_mem_handle_t object;
    unsigned                 i;

    NEED(api.virtual.pfnReserve(context, NULL, OBJECTS * PAGE, (void **)&base));
    for (i = 0; i < OBJECTS; i++) {
        NEED(api.physical.pfnCreate(context, device, &desc, &object));
        NEED(api.virtual.pfnMap(context, base + i * PAGE, PAGE, object, 0,
                                ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
    }
}

static void make_list(void)
{
    ze_command_queue_group_properties_t groups[16];
    ze_command_queue_desc_t queue = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                     .mode  = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_event_pool_desc_t    pool  = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                     .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE, .count = 2};
    ze_event_desc_t         event = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC};
    ze_event_pool_handle_t  handle;
    uint32_t                n = 16, k;

    memset(groups, 0, sizeof(groups));
    NEED(api.device.pfnGetCommandQueueGroupProperties(device, &n, groups));
    for (k = 0; k < n; k++) {
        if (groups[k].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY) {
            queue.ordinal = k;
        }
    }
    NEED(api.list.pfnCreateImmediate(context, device, &queue, &list));
    NEED(api.pool.pfnCreate(context, &pool, 1, &device, &handle));
    NEED(api.event.pfnCreate(handle, &event, &done));
    event.index = 1;
    NEED(api.event.pfnCreate(handle, &event, &never));
}

static int open_any(void *owner, const struct zr_rcache_request *request,
                    struct zr_rcache_region *region, uint64_t *start_p, uint64_t *end_p)
{
    return 0;
}

static void close_any(void *owner, struct zr_rcache_region *region)
{
}

static void make_cache(void)
{
    static const struct zr_rcache_ops ops    = {.open = open_any, .close = close_any};
    struct zr_rcache_limits           limits = {.regions = UINT64_MAX, .bytes = UINT64_MAX};
    struct zr_rcache_region          *region;
    unsigned                          i;

    NEED(zr_rcache_create(&ops, NULL, &limits, &cache) != 0 ? ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY
                                                            : ZE_RESULT_SUCCESS);
    for (i = 0; i < 1000; i++) {
        struct zr_rcache_request request = request_of(i);

        failures += zr_rcache_get(cache, &request, &region) != 0;
        zr_rcache_put(cache, region);
    }
}

int main(int argc, char **argv)
{
    ze_context_desc_t desc  = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    unsigned          count = argc == 3 ? (unsigned)atoi(argv[2]) : 0, k;

    for (k = 0; k < sizeof(paths) / sizeof(paths[0]); k++) {
        if (count > 0 && strcmp(argv[1], paths[k].name) == 0) {
            break;
        }
    }
    if (k == sizeof(paths) / sizeof(paths[0])) {
        fprintf(stderr, "usage: hotpaths detect|hit|hit-any|submit|poll|export-again COUNT\n");
        return 2;
    }
    load();
    NEED(api.context.pfnCreate(driver, &desc, &context));
    make_range();
    make_list();
    make_cache();
    for (unsigned i = 0; i < WARM; i++) {
        paths[k].run(i); /* what is done once is not hot */
    }
    zr_hot_path(k, count);
    if (failures > 0) {
        fprintf(stderr, "hotpaths: %u calls failed\n", failures);
    }
    _Exit(failures > 0);
}
