/* One client through every way the loader has: straight, intercepting, with tracing, with the
 * validation layer and each of its checks, with several drivers; the client is the same and must
 * find the same. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <level_zero/layers/zel_tracing_api.h>
#include <level_zero/layers/zel_tracing_register_cb.h>
#include <stdbool.h>

#include <level_zero/loader/ze_loader.h>

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH ((size_t)3 * 65536)

/* ---- the client ---- */

static unsigned traced;

static void count_map(ze_virtual_mem_map_params_t *params, ze_result_t result, void *user,
                      void **instance)
{
    traced += result == ZE_RESULT_SUCCESS;
}

static zel_tracer_handle_t start_tracer(void)
{
    zel_tracer_desc_t   desc = {.stype = ZEL_STRUCTURE_TYPE_TRACER_DESC};
    zel_tracer_handle_t tracer;

    NEED(zelTracerCreate(&desc, &tracer));
    NEED(zelTracerVirtualMemMapRegisterCallback(tracer, ZEL_REGISTER_EPILOGUE, count_map));
    NEED(zelTracerSetEnabled(tracer, 1));
    return tracer;
}

/* The layer that follows handles takes an immediate list for a closed one, the end of a physical
 * memory object for that of its context, and does not know the default context, whatever the
 * driver: there the client executes what it recorded, on USM, in a context of its own. */
static bool followed;
static ze_command_queue_handle_t queue;
static ze_command_list_handle_t  commands;

static void make_list(ze_context_handle_t with)
{
    ze_command_queue_desc_t queue_desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                          .mode  = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_command_list_desc_t  list_desc  = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC};

    if (followed) {
        NEED(zeCommandQueueCreate(with, device, &queue_desc, &queue));
        NEED(zeCommandListCreate(with, device, &list_desc, &commands));
    } else {
        NEED(zeCommandListCreateImmediate(with, device, &queue_desc, &commands));
    }
}

static void copy(void *to, const void *from, size_t size, ze_event_handle_t event)
{
    const char *why = "";

    if (!CHECK_OK(zeCommandListAppendMemoryCopy(commands, to, from, size, event, 0, NULL))) {
        zeDriverGetLastErrorDescription(driver, &why);
        printf("%s\n", why);
        exit(100);
    }
    if (followed) {
        CHECK_OK(zeCommandListClose(commands));
        CHECK_OK(zeCommandQueueExecuteCommandLists(queue, 1, &commands, NULL));
        CHECK_OK(zeCommandQueueSynchronize(queue, UINT64_MAX));
        CHECK_OK(zeCommandListReset(commands));
    }
}

/* A range of two objects, exported, opened again, filled through one address, read through the
 * other, the end seen by an event. */
static void use_device(ze_context_handle_t with)
{
    ze_event_pool_desc_t     pool_desc  = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                           .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE,
                                           .count = 1};
    ze_event_desc_t          event_desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC};
    ze_physical_mem_desc_t   mem_desc   = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                           .size  = LENGTH};
    ze_ipc_phys_mem_handle_range_ext_desc_t range_desc = {
        .stype = ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC, .size = LENGTH + 65536};
    ze_device_mem_alloc_desc_t usm_desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_physical_mem_handle_t objects[2];
    ze_event_pool_handle_t   pool;
    ze_event_handle_t        event;
    ze_ipc_mem_handle_t      handle;
    unsigned char           *p, *imported, *want, *got;
    void                    *base;
    size_t                   size, start = 65536;

    if (followed) {
        NEED(zeMemAllocDevice(with, &usm_desc, LENGTH + 65536, 0, device, (void **)&p));
        start = 0;
    } else {
        NEED(zeVirtualMemReserve(with, NULL, 2 * LENGTH, (void **)&p));
    }
    for (unsigned i = 0; i < 2 && !followed; i++) {
        NEED(zePhysicalMemCreate(with, device, &mem_desc, &objects[i]));
        NEED(zeVirtualMemMap(with, p + i * LENGTH, LENGTH, objects[i], 0,
                             ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
    }
    make_list(with);
    NEED(zeEventPoolCreate(with, &pool_desc, 1, &device, &pool));
    NEED(zeEventCreate(pool, &event_desc, &event));
    want = malloc(2 * LENGTH);
    got  = calloc(1, 2 * LENGTH);
    fill_pattern(want, 2 * LENGTH, 11);
    copy(p + start, want + start, LENGTH + 65536, NULL);
    NEED(zeMemGetIpcHandleWithProperties(with, p + start, followed ? NULL : &range_desc,
                                         &handle));
    NEED(zeMemOpenIpcHandle(with, device, handle, 0, (void **)&imported));
    CHECK_OK(zeMemGetAddressRange(with, imported, &base, &size));
    CHECK_EQ(size, LENGTH + 65536);
    CHECK_TRUE(base == imported);
    copy(got, imported, size, event);
    CHECK_OK(zeEventHostSynchronize(event, UINT64_MAX));
    CHECK_EQ(memcmp(got, want + start, size), 0);
    CHECK_OK(zeMemCloseIpcHandle(with, imported));
    CHECK_OK(zeMemPutIpcHandle(with, handle));
    CHECK_OK(zeEventDestroy(event));
    CHECK_OK(zeEventPoolDestroy(pool));
    CHECK_OK(zeCommandListDestroy(commands));
    if (followed) {
        CHECK_OK(zeCommandQueueDestroy(queue));
    }
    for (unsigned i = 0; i < 2 && !followed; i++) {
        CHECK_OK(zeVirtualMemUnmap(with, p + i * LENGTH, LENGTH));
        CHECK_OK(zePhysicalMemDestroy(with, objects[i]));
    }
    CHECK_OK(followed ? zeMemFree(with, p) : zeVirtualMemFree(with, p, 2 * LENGTH));
    free(want);
    free(got);
}

/* @return the number of drivers, 100 on a failure; with @a trace each mapping is seen once */
static int client(bool trace)
{
    /* Where the loader does not use the driver's tables it wraps handles, but not this one. */
    bool no_default = getenv("ZE_ENABLE_LOADER_DRIVER_DDI_PATH") != NULL;
    ze_init_driver_type_desc_t type = {.stype = ZE_STRUCTURE_TYPE_INIT_DRIVER_TYPE_DESC,
                                       .flags = ZE_INIT_DRIVER_TYPE_FLAG_GPU};
    ze_context_desc_t          desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_driver_handle_t         drivers[8];
    uint32_t                   n = COUNT(drivers), one;
    zel_tracer_handle_t        tracer = NULL;
    unsigned                   mapped = 0;

    followed = getenv("ZE_ENABLE_HANDLE_LIFETIME") != NULL;
    no_default |= followed;
    NEED(zeInitDrivers(&n, drivers, &type));
    if (getenv("TEST_TRACE") != NULL) {
        NEED(zelEnableTracingLayer());
    }
    if (trace) {
        tracer = start_tracer();
    }
    for (uint32_t i = 0; i < n; i++) {
        driver = drivers[i];
        one    = 1;
        NEED(zeDeviceGet(driver, &one, &device));
        NEED(zeContextCreate(driver, &desc, &context));
        use_device(context);
        mapped += followed ? 0 : 2;
        if (!no_default) {
            use_device(zeDriverGetDefaultContext(driver));
            mapped += 2;
        }
        CHECK_OK(zeContextDestroy(context));
    }
    if (trace) {
        CHECK_EQ(traced, mapped);
        CHECK_OK(zelTracerSetEnabled(tracer, 0));
        CHECK_OK(zelTracerDestroy(tracer));
    }
    return failures != 0 ? 100 : (int)n;
}

/* ---- the ways ---- */

static char driver_path[PATH_MAX], copy_path[PATH_MAX];

struct way {
    const char *name;
    const char *variables[8]; /* NAME=VALUE */
    const char *drivers;      /* o: the driver, c: a copy of it, i: Intel's, n: one that is none */
    int         want;         /* drivers that work; 100: that many or more */
    bool        trace;
};

static const struct way ways[] = {
    {"straight", {NULL}, "o", 1, false},
    {"intercept", {"ZE_ENABLE_LOADER_INTERCEPT=1", NULL}, "o", 1, false},
    {"no driver tables behind handles",
     {"ZE_ENABLE_LOADER_INTERCEPT=1", "ZE_ENABLE_LOADER_DRIVER_DDI_PATH=0", NULL}, "o", 1, false},
    {"tracing layer", {"ZE_ENABLE_TRACING_LAYER=1", NULL}, "o", 1, true},
    {"tracing layer, two drivers", {"ZE_ENABLE_TRACING_LAYER=1", NULL}, "oc", 2, true},
    {"tracing switched on by the program", {"TEST_TRACE=1", NULL}, "o", 1, true},
    {"validation layer", {"ZE_ENABLE_VALIDATION_LAYER=1", NULL}, "o", 1, false},
    {"validation of parameters",
     {"ZE_ENABLE_VALIDATION_LAYER=1", "ZE_ENABLE_PARAMETER_VALIDATION=1", NULL}, "o", 1, false},
    {"validation of handles",
     {"ZE_ENABLE_VALIDATION_LAYER=1", "ZE_ENABLE_PARAMETER_VALIDATION=1",
      "ZE_ENABLE_HANDLE_LIFETIME=1", NULL},
     "o", 1, false},
    {"validation of threading",
     {"ZE_ENABLE_VALIDATION_LAYER=1", "ZE_ENABLE_THREADING_VALIDATION=1", NULL}, "o", 1, false},
    {"leak checker",
     {"ZE_ENABLE_VALIDATION_LAYER=1", "ZEL_ENABLE_BASIC_LEAK_CHECKER=1", NULL}, "o", 1, false},
    {"events checker",
     {"ZE_ENABLE_VALIDATION_LAYER=1", "ZEL_ENABLE_EVENTS_CHECKER=1", NULL}, "o", 1, false},
    {"certification checker",
     {"ZE_ENABLE_VALIDATION_LAYER=1", "ZEL_ENABLE_CERTIFICATION_CHECKER=1", NULL}, "o", 1, false},
    {"validation of parameters with tracing, two drivers",
     {"ZE_ENABLE_VALIDATION_LAYER=1", "ZE_ENABLE_PARAMETER_VALIDATION=1",
      "ZE_ENABLE_THREADING_VALIDATION=1", "ZEL_ENABLE_BASIC_LEAK_CHECKER=1",
      "ZE_ENABLE_TRACING_LAYER=1", NULL},
     "oc", 2, true},
    {"validation of handles, two drivers",
     {"ZE_ENABLE_VALIDATION_LAYER=1", "ZE_ENABLE_PARAMETER_VALIDATION=1",
      "ZE_ENABLE_HANDLE_LIFETIME=1", NULL},
     "oc", 2, false},
    {"two drivers", {NULL}, "oc", 2, false},
    {"two drivers, another order", {"ZEL_DRIVERS_ORDER=1,0", NULL}, "co", 2, false},
    {"devices by PCI address", {"ZE_ENABLE_PCI_ID_DEVICE_ORDER=1", NULL}, "oc", 2, false},
    {"beside Intel's, which finds no device", {NULL}, "io", 1, false},
    {"beside one that is none", {NULL}, "no", 1, false},
};

static bool copy_file(const char *from, const char *to)
{
    char    buffer[65536];
    int     in  = open(from, O_RDONLY | O_CLOEXEC);
    int     out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    ssize_t n   = -1;

    while (in >= 0 && out >= 0 && (n = read(in, buffer, sizeof(buffer))) > 0) {
        if (write(out, buffer, (size_t)n) != n) {
            n = -1;
            break;
        }
    }
    close(in);
    close(out);
    return n == 0;
}

static void set_way(const struct way *way)
{
    char   list[3 * PATH_MAX] = "";
    size_t length = 0;

    for (unsigned i = 0; way->variables[i] != NULL; i++) {
        putenv((char *)way->variables[i]);
    }
    for (const char *d = way->drivers; *d != '\0'; d++) {
        const char *path = *d == 'o' ? driver_path :
                           *d == 'c' ? copy_path :
                           *d == 'i' ? "libze_intel_gpu.so.1" :
                                       "libzerange_none.so.1";

        length += (size_t)snprintf(list + length, sizeof(list) - length, "%s%s",
                                   length > 0 ? "," : "", path);
    }
    setenv("ZE_ENABLE_ALT_DRIVERS", list, 1);
}

/* @return what the client found, 128 and more if it did not end by itself */
static int run(const char *self, const struct way *way, char *text, size_t room)
{
    int     fds[2], status;
    size_t  length = 0;
    ssize_t n;
    pid_t   pid;

    NEED(pipe(fds) == 0 ? ZE_RESULT_SUCCESS : 1);
    pid = fork();
    if (pid == 0) {
        set_way(way);
        dup2(fds[1], 1);
        dup2(fds[1], 2);
        close(fds[0]);
        close(fds[1]);
        execl("/proc/self/exe", self, way->trace ? "trace" : "plain", (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    while ((n = read(fds[0], text + length, room - 1 - length)) > 0) {
        length += (size_t)n;
    }
    close(fds[0]);
    text[length] = '\0';
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    static char text[1 << 18];
    char        directory[] = "/tmp/zerange-test-XXXXXX";
    const char *path        = getenv("ZE_ENABLE_ALT_DRIVERS");

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1) {
        return client(strcmp(argv[1], "trace") == 0);
    }
    if (path == NULL || strchr(path, ',') != NULL || getenv("ZERANGE_SOFT") == NULL) {
        printf("needs the path of the driver in ZE_ENABLE_ALT_DRIVERS and a software device\n");
        return 77;
    }
    snprintf(driver_path, sizeof(driver_path), "%s", path);
    NEED(mkdtemp(directory) != NULL ? ZE_RESULT_SUCCESS : 1);
    snprintf(copy_path, sizeof(copy_path), "%s/libze_copy.so.1", directory);
    NEED(copy_file(driver_path, copy_path) ? ZE_RESULT_SUCCESS : 1);
    for (size_t i = 0; i < COUNT(ways); i++) {
        int got = run(argv[0], &ways[i], text, sizeof(text));

        if (!CHECK_EQ(got, ways[i].want)) {
            printf("... %s:\n%s\n", ways[i].name, text);
        }
    }
    unlink(copy_path);
    rmdir(directory);
    printf("%zu ways, %u failed\n", COUNT(ways), failures);
    return failures != 0;
}
