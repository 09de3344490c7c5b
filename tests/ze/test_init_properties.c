/* The init driver properties extension: each rule in a process of its own, as only the first
 * initialisation counts; what a context got is seen in what the driver holds for it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NONE = 0, MEMORY = 1, PERFORMANCE = 2, BOTH = 3, ABSENT = 4 }; /* flags; no structure */

/* ThreadSanitizer's memory beside ours faults too. */
#if defined(__SANITIZE_THREAD__)
static const bool own_faults = true;
#else
static const bool own_faults = false;
#endif

static const char *const policy_names[] = {"standard", "memory", "performance"};

static zr_counts_t get_counts(void)
{
    zr_pfnGetCounts_t get;
    zr_counts_t       counts = {0};

    NEED(zeDriverGetExtensionFunctionAddress(driver, "zrGetCounts", (void **)&get));
    NEED(get(&counts));
    return counts;
}

/* zeInitDrivers; the structure stands behind one that nobody knows. */
static ze_result_t init_drivers(unsigned flags, uint32_t types)
{
    ze_init_driver_properties_ext_desc_t properties = {
        ZE_STRUCTURE_TYPE_INIT_DRIVER_PROPERTIES_EXT_DESC, NULL, flags};
    ze_base_desc_t             unknown = {(ze_structure_type_t)0x000ffff0, &properties};
    ze_init_driver_type_desc_t desc    = {ZE_STRUCTURE_TYPE_INIT_DRIVER_TYPE_DESC,
                                          flags == ABSENT ? NULL : &unknown, types};
    uint32_t                   count   = 0;
    ze_result_t                result  = zeInitDrivers(&count, NULL, &desc);

    if (result == ZE_RESULT_SUCCESS) {
        CHECK_TRUE(count >= 1);
        count  = 1;
        result = zeInitDrivers(&count, &driver, &desc);
    }
    return result;
}

static void get_device(void)
{
    uint32_t n = 1;

    NEED(zeDeviceGet(driver, &n, &device));
}

static long minor_faults(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

/* Which of the three a context has: by its staging ring; the other signs must agree. */
static unsigned policy_of(ze_context_handle_t c)
{
    const size_t               size = 8 << 20;
    ze_command_queue_desc_t    queue_desc  = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                              .mode  = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS};
    ze_device_mem_alloc_desc_t device_desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_host_mem_alloc_desc_t   host_desc   = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    zr_counts_t                before = get_counts(), with, after;
    unsigned                   policy = NONE;
    char                       bytes[64] = "short";
    void                      *p, *host;
    long                       faults;

    NEED(zeCommandListCreateImmediate(c, device, &queue_desc, &list));
    NEED(zeMemAllocDevice(c, &device_desc, size, 0, device, &p));
    NEED(zeCommandListAppendMemoryCopy(list, p, bytes, sizeof(bytes), NULL, 0, NULL));
    with = get_counts();
    NEED(zeCommandListDestroy(list));
    NEED(zeMemFree(c, p));
    NEED(zeMemAllocHost(c, &host_desc, size, 0, &host));
    faults = minor_faults();
    memset(host, 1, size);
    faults = minor_faults() - faults;
    NEED(zeMemFree(c, host));
    after = get_counts();

    if (with.staging_bytes - before.staging_bytes < (128 << 10)) {
        policy = MEMORY;
    } else if (with.staging_bytes - before.staging_bytes > (512 << 10)) {
        policy = PERFORMANCE;
    }
    CHECK_EQ(after.staging_bytes, before.staging_bytes);
    if (policy == PERFORMANCE) {
        CHECK_TRUE(after.kept_bytes >= size); /* kept, */
        NEED(zeMemAllocDevice(c, &device_desc, size, 0, device, &p));
        CHECK_EQ(get_counts().kept_bytes, after.kept_bytes - size); /* and used again */
        NEED(zeMemFree(c, p));
        if (!own_faults) {
            CHECK_TRUE(faults < 16);
        }
    } else {
        CHECK_TRUE(after.kept_bytes <= before.kept_bytes); /* it may use what others left */
        CHECK_TRUE(faults >= 4);
    }
    return policy;
}

static void check_context(const char *what, ze_context_handle_t c, unsigned want)
{
    unsigned got = policy_of(c);

    if (!CHECK_EQ(got, want)) {
        printf("   %s context: %s, expected %s\n", what, policy_names[got], policy_names[want]);
    }
}

/* Contexts of all kinds inherit @a want; a context's own flags come first. */
static void check_contexts(unsigned want)
{
    static const unsigned own[] = {NONE, MEMORY, PERFORMANCE};
    ze_context_handle_t   c;
    unsigned              i;

    get_device();
    for (i = 0; i < COUNT(own); i++) {
        ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC, .flags = own[i]};

        NEED(zeContextCreate(driver, &desc, &c));
        check_context("created", c, own[i] ? own[i] : want);
        CHECK_OK(zeContextDestroy(c));
        NEED(zeContextCreateEx(driver, &desc, 1, &device, &c));
        check_context("created with a device list", c, own[i] ? own[i] : want);
        CHECK_OK(zeContextDestroy(c));
    }
    check_context("default", zeDriverGetDefaultContext(driver), want);
}

static void check_refused(void)
{
    CHECK(init_drivers(BOTH, ZE_INIT_DRIVER_TYPE_FLAG_GPU), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

/* Named by how the process initialises: first call, then second. */
static void in_case(const char *name)
{
    const uint32_t      gpu = ZE_INIT_DRIVER_TYPE_FLAG_GPU;
    uint32_t            n = 1;
    ze_context_handle_t first;

    if (strcmp(name, "memory") == 0) {
        NEED(init_drivers(MEMORY, gpu));
        check_contexts(MEMORY);
    } else if (strcmp(name, "performance") == 0) {
        NEED(init_drivers(PERFORMANCE, gpu));
        check_contexts(PERFORMANCE);
    } else if (strcmp(name, "a flag of the future") == 0) {
        NEED(init_drivers(MEMORY | 1u << 7, gpu));
        check_contexts(MEMORY);
    } else if (strcmp(name, "neither") == 0) {
        NEED(init_drivers(NONE, gpu));
        check_contexts(NONE);
    } else if (strcmp(name, "absent") == 0) {
        NEED(init_drivers(ABSENT, gpu));
        check_contexts(NONE);
    } else if (strcmp(name, "zeInit") == 0) {
        NEED(zeInit(0));
        NEED(zeDriverGet(&n, &driver));
        check_contexts(NONE);
    } else if (strcmp(name, "both") == 0) { /* refused, and nothing decided by it */
        check_refused();
        NEED(init_drivers(MEMORY, gpu));
        check_refused();
        check_contexts(MEMORY);
    } else if (strcmp(name, "memory, performance") == 0) {
        NEED(init_drivers(MEMORY, gpu));
        NEED(init_drivers(PERFORMANCE, gpu));
        check_contexts(MEMORY);
    } else if (strcmp(name, "neither, performance") == 0) {
        NEED(init_drivers(NONE, gpu));
        NEED(init_drivers(PERFORMANCE, gpu));
        check_contexts(NONE);
    } else if (strcmp(name, "absent, performance") == 0) {
        NEED(init_drivers(ABSENT, gpu));
        NEED(init_drivers(PERFORMANCE, gpu));
        check_contexts(NONE);
    } else if (strcmp(name, "zeInit, memory") == 0) {
        NEED(zeInit(0));
        NEED(init_drivers(MEMORY, gpu));
        check_contexts(NONE);
    } else if (strcmp(name, "all types, memory") == 0) { /* the loader's own shape of call */
        NEED(init_drivers(ABSENT, UINT32_MAX));
        NEED(init_drivers(MEMORY, gpu));
        check_contexts(MEMORY);
    } else if (strcmp(name, "default context, memory") == 0) { /* in use before: it is too late */
        NEED(init_drivers(ABSENT, UINT32_MAX));
        first = zeDriverGetDefaultContext(driver);
        NEED(init_drivers(MEMORY, gpu));
        CHECK_TRUE(zeDriverGetDefaultContext(driver) == first);
        check_contexts(NONE);
    }
}

/* The process that a row of the table stands for. */
static int run_case(const char *name, const char *variable)
{
    int   status;
    pid_t pid = fork();

    if (pid == 0) {
        if (variable != NULL) {
            setenv(variable, "1", 1);
        }
        execl("/proc/self/exe", name, "case", name, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        printf("   case: %s%s%s\n", name, variable ? " with " : "", variable ? variable : "");
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {
        "memory", "performance", "neither", "absent", "zeInit", "both", "memory, performance",
        "neither, performance", "absent, performance", "zeInit, memory", "all types, memory",
        "default context, memory", "a flag of the future"};
    static const char *const loader[] = {"memory", "performance", "absent", "both",
                                         "memory, performance"};
    ze_driver_extension_properties_t all[64];
    uint32_t                         n = COUNT(all), i, found = 0;
    size_t                           k;
    int                              bad = 0;

    if (argc > 2 && strcmp(argv[1], "case") == 0) {
        in_case(argv[2]);
        return failures != 0;
    }
    test_start();
    NEED(zeDriverGetExtensionProperties(driver, &n, all));
    for (i = 0; i < n; i++) {
        found += strcmp(all[i].name, ZE_INIT_DRIVER_PROPERTIES_EXT_NAME) == 0;
    }
    CHECK_EQ(found, 1);
    for (k = 0; k < COUNT(names); k++) {
        bad += run_case(names[k], NULL);
    }
    /* Here the loader initialises the drivers by itself before it passes on the application's. */
    for (k = 0; k < COUNT(loader); k++) {
        bad += run_case(loader[k], "ZE_ENABLE_LOADER_INTERCEPT");
    }
    CHECK_EQ(bad, 0);
    return test_end();
}
