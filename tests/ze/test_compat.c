/* ZERANGE_COMPAT, ZERANGE_QUIRKS and ZE_AFFINITY_MASK: each in a process of its own. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <sys/wait.h>
#include <unistd.h>

static unsigned char want[1 << 20], got[1 << 20];

static ze_result_t export_range(const void *ptr, size_t size, ze_ipc_mem_handle_t *handle)
{
    ze_ipc_phys_mem_handle_range_ext_desc_t range = {
        ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC, NULL, size};

    return zeMemGetIpcHandleWithProperties(context, ptr, &range, handle);
}

/* An allocation that fits gives the handle it gives without a range; the queues are there
 * once with COMPUTE and once without. */
static int compat_intel(void)
{
    ze_command_queue_group_properties_t group[3] = {
        {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES},
        {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES}};
    ze_command_queue_desc_t   queue_desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC};
    ze_command_queue_handle_t queue;
    uint32_t            groups = 3;
    size_t              size, i;
    unsigned char      *memory[3];
    ze_ipc_mem_handle_t handle, plain;
    struct peer_import  import;

    test_start();
    peer_start();
    NEED(zeDeviceGetCommandQueueGroupProperties(device, &groups, group));
    CHECK_EQ(groups, 2);
    CHECK_EQ(group[0].flags, ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY |
                                 ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE |
                                 ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COOPERATIVE_KERNELS);
    CHECK_EQ(group[1].flags, ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY);
    CHECK_TRUE(group[0].numQueues > 0 && group[1].numQueues == group[0].numQueues);
    for (; queue_desc.ordinal < groups; queue_desc.ordinal++) {
        NEED(zeCommandQueueCreate(context, device, &queue_desc, &queue));
        CHECK_OK(zeCommandQueueDestroy(queue));
    }
    CHECK(zeCommandQueueCreate(context, device, &queue_desc, &queue),
          ZE_RESULT_ERROR_INVALID_ARGUMENT);
    size      = 3 * page;
    memory[0] = alloc_device(size);
    memory[1] = alloc_host(size);
    memory[2] = alloc_shared(size);
    for (i = 0; i < COUNT(memory); i++) {
        fill_pattern(want, size, (unsigned)i);
        write_memory(memory[i], want, size);
        NEED(export_range(memory[i], size, &handle));
        NEED(zeMemGetIpcHandle(context, memory[i], &plain));
        CHECK_EQ(memcmp(&handle, &plain, sizeof(plain)), 0);
        import = peer_open(0, handle);
        CHECK_OK(import.opened);
        CHECK_EQ(import.size, size);
        peer_read(0, 0, got, size);
        CHECK_EQ(memcmp(got, want, size), 0);
        CHECK_OK(peer_close(0));
        CHECK_OK(zeMemPutIpcHandle(context, plain));
        CHECK_OK(zeMemPutIpcHandle(context, handle));
        CHECK_OK(export_range(memory[i], size / 2, &handle));
        CHECK_OK(zeMemPutIpcHandle(context, handle));
        CHECK(export_range(memory[i], size + 1, &handle), ZE_RESULT_ERROR_INVALID_ARGUMENT);
        CHECK(export_range(memory[i], 2 * size, &handle), ZE_RESULT_ERROR_INVALID_ARGUMENT);
        CHECK(export_range(memory[i] + page, page, &handle), ZE_RESULT_ERROR_INVALID_ARGUMENT);
        CHECK(export_range(memory[i], 0, &handle), ZE_RESULT_ERROR_INVALID_SIZE);
        CHECK_OK(zeMemFree(context, memory[i]));
    }
    peer_stop();
    return test_end();
}

/* The faults: lengths lost, one reservation, merged extent, head of the chain, no
 * mixture. What is whole and simple works. */
static int quirks_intel(void)
{
    ze_ipc_mem_handle_type_ext_desc_t type = {ZE_STRUCTURE_TYPE_IPC_MEM_HANDLE_TYPE_EXT_DESC, NULL,
                                              ZE_IPC_MEM_HANDLE_TYPE_FLAG_DEFAULT};
    ze_ipc_phys_mem_handle_range_ext_desc_t range = {
        ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC, NULL, 0};
    ze_physical_mem_desc_t   host_desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                          .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_HOST};
    ze_physical_mem_handle_t a, b, host;
    ze_ipc_mem_handle_t      handle;
    struct peer_import       import;
    struct spread            s;
    unsigned char           *base, *whole;

    test_start();
    host_desc.size = page;
    peer_start();
    a     = make_object(2 * page);
    b     = make_object(page);
    whole = reserve(3 * page);
    base  = reserve(3 * page);
    map_object(whole, 2 * page, a, 0);
    map_object(whole + 2 * page, page, b, 0);
    fill_pattern(want, 3 * page, 5);
    write_memory(whole, want, 3 * page);

    /* Whole objects: right. */
    NEED(export_range(whole, 3 * page, &handle));
    import = peer_open(0, handle);
    CHECK_OK(import.opened);
    CHECK_EQ(import.size, 3 * page);
    peer_read(0, 0, got, 3 * page);
    CHECK_EQ(memcmp(got, want, 3 * page), 0);
    CHECK_OK(peer_close(0));
    CHECK_OK(zeMemPutIpcHandle(context, handle));

    /* A mapping shorter than its object: what follows is displaced, what is behind it shows. */
    map_object(base, page, a, 0);
    map_object(base + page, page, b, 0);
    NEED(export_range(base, 2 * page, &handle));
    import = peer_open(0, handle);
    CHECK_OK(import.opened);
    CHECK_EQ(import.size, 3 * page);
    peer_read(0, 0, got, 3 * page);
    CHECK_EQ(memcmp(got, want, 3 * page), 0);
    CHECK_OK(peer_close(0));
    CHECK_OK(zeMemPutIpcHandle(context, handle));

    /* An interior pointer: the bytes are right, the extent is not the window's. */
    NEED(export_range(whole + page / 2, page, &handle));
    import = peer_open(0, handle);
    CHECK_OK(import.opened);
    peer_read(0, 0, got, page);
    CHECK_EQ(memcmp(got, want + page / 2, page), 0);
    CHECK_EQ(import.base, -(int64_t)(page / 2));
    CHECK_TRUE(import.size > page);
    CHECK_OK(peer_close(0));
    CHECK_OK(zeMemPutIpcHandle(context, handle));

    /* The range behind a type is not seen: a plain handle of the whole object. */
    range.size = page;
    type.pNext = &range;
    NEED(zeMemGetIpcHandleWithProperties(context, whole, &type, &handle));
    import = peer_open(0, handle);
    CHECK_OK(import.opened);
    CHECK_EQ(import.size, 2 * page);
    CHECK_OK(peer_close(0));
    CHECK_OK(zeMemPutIpcHandle(context, handle));

    /* Device and host in one range; two reservations; a hole as ever. */
    NEED(zePhysicalMemCreate(context, device, &host_desc, &host));
    map_object(base + 2 * page, page, host, 0);
    CHECK(export_range(base, 3 * page, &handle), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK_OK(zeVirtualMemUnmap(context, base + 2 * page, page));
    CHECK(export_range(base, 3 * page, &handle), ZE_RESULT_ERROR_ADDRESS_NOT_FOUND);
    spread_make(&s, 0);
    CHECK(export_range(s.base, s.size, &handle), ZE_RESULT_ERROR_ADDRESS_NOT_FOUND);
    CHECK_OK(export_range(s.base, 4 * page, &handle));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    spread_drop(&s, true);
    CHECK_OK(zeVirtualMemFree(context, base, 3 * page));
    CHECK_OK(zeVirtualMemFree(context, whole, 3 * page));
    CHECK_OK(zePhysicalMemDestroy(context, a));
    CHECK_OK(zePhysicalMemDestroy(context, b));
    CHECK_OK(zePhysicalMemDestroy(context, host));
    peer_stop();
    return test_end();
}

/* Exit status: the devices shown, as bits of which are a pvc (first digit) and how many. */
static int show_devices(void)
{
    ze_device_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    ze_device_handle_t     all[8];
    uint32_t               n = 1, i;
    int                    shown = 0;

    if (zeInit(0) != ZE_RESULT_SUCCESS || zeDriverGet(&n, &driver) != ZE_RESULT_SUCCESS) {
        return 99;
    }
    n = COUNT(all);
    if (zeDeviceGet(driver, &n, all) != ZE_RESULT_SUCCESS) {
        return 98;
    }
    for (i = 0; i < n; i++) {
        ze_device_handle_t root = all[i];
        uint32_t           subs = 5;

        if (zeDeviceGetSubDevices(all[i], &subs, NULL) != ZE_RESULT_SUCCESS || subs != 0 ||
            zeDeviceGetRootDevice(all[i], &root) != ZE_RESULT_SUCCESS || root != NULL) {
            return 97;
        }
        zeDeviceGetProperties(all[i], &properties);
        shown |= (properties.deviceId == 0x0bd5) << i;
    }
    return (int)n * 10 + shown;
}

static int run(const char *name, const char *variable, const char *value)
{
    int   status;
    pid_t pid = fork();

    if (pid == 0) {
        if (strncmp(variable, "ZE_", 3) == 0) {
            setenv("ZERANGE_SOFT", "pvc,dg2,pvc", 1);
            setenv("ZERANGE_LOG", "error", 1);
        }
        setenv(variable, value, 1);
        execl("/proc/self/exe", name, name, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *mask;
        int         shown; /* 10 times how many, and a bit for each that is a pvc */
    } masks[] = {{"", 35}, {"0", 11}, {"1", 10}, {"2", 11}, {"2,1", 22}, {"0,2", 23},
                 {"1.0,0.0", 21}, {"0,5", 11}, {"7", 99}, {"0.1", 99}, {"first", 99}};
    static const struct {
        const char *value;
        int         shown;
    } hierarchies[] = {{"COMPOSITE", 35}, {"FLAT", 35}, {"COMBINED", 35}, {"flat", 99}, {"", 99}};
    size_t i;

    peer_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], "compat") == 0) {
        return compat_intel();
    }
    if (argc > 1 && strcmp(argv[1], "quirks") == 0) {
        return quirks_intel();
    }
    if (argc > 1 && strcmp(argv[1], "show") == 0) {
        return show_devices();
    }
    if (getenv("ZERANGE_SOFT") == NULL) {
        printf("for a software device only\n");
        return 77;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK_EQ(run("compat", "ZERANGE_COMPAT", "intel"), 0);
    CHECK_EQ(run("quirks", "ZERANGE_QUIRKS", "intel"), 0);
    for (i = 0; i < COUNT(hierarchies); i++) {
        if (!CHECK_EQ(run("show", "ZE_FLAT_DEVICE_HIERARCHY", hierarchies[i].value),
                      hierarchies[i].shown)) {
            printf("   hierarchy \"%s\"\n", hierarchies[i].value);
        }
    }
    for (i = 0; i < COUNT(masks); i++) {
        if (!CHECK_EQ(run("show", "ZE_AFFINITY_MASK", masks[i].mask), masks[i].shown)) {
            printf("   mask \"%s\"\n", masks[i].mask);
        }
    }
    return failures != 0;
}
