/* No limit on the number of objects that an application sees: 10,000 in one range under a soft fd
 * limit of 1024; and where the fds cannot be had, UNSUPPORTED_SIZE instead of a short handle. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static ze_result_t export_range(const void *ptr, size_t size, ze_ipc_mem_handle_t *handle)
{
    ze_ipc_phys_mem_handle_range_ext_desc_t range = {
        ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC, NULL, size};

    return zeMemGetIpcHandleWithProperties(context, ptr, &range, handle);
}

static int many_objects(void)
{
    enum { OBJECTS = 10000, MARK = 16 };
    ze_physical_mem_handle_t *objects = calloc(OBJECTS, sizeof(*objects));
    unsigned char             mark[MARK], seen[MARK];
    char                     *base;
    ze_ipc_mem_handle_t       handle;
    struct peer_import        import;
    unsigned                  i;

    test_start();
    peer_start();
    base = reserve(OBJECTS * page);
    for (i = 0; i < OBJECTS; i++) {
        objects[i] = make_object(page);
        map_object(base + i * page, page, objects[i], 0);
    }
    for (i = 0; i < OBJECTS; i += 97) {
        fill_pattern(mark, MARK, i);
        write_memory(base + i * page + 100, mark, MARK);
    }
    NEED(export_range(base, OBJECTS * page, &handle));
    import = peer_open(0, handle);
    if (CHECK_OK(import.opened)) {
        CHECK_EQ(import.size, OBJECTS * page);
        for (i = 0; i < OBJECTS; i += 97) {
            fill_pattern(mark, MARK, i);
            peer_read(0, i * page + 100, seen, MARK);
            CHECK_EQ(memcmp(seen, mark, MARK), 0);
        }
        CHECK_OK(peer_close(0));
    }
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    CHECK_OK(zeVirtualMemFree(context, base, OBJECTS * page));
    for (i = 0; i < OBJECTS; i++) {
        CHECK_OK(zePhysicalMemDestroy(context, objects[i]));
    }
    free(objects);
    peer_stop();
    return test_end();
}

/* With fds kept open by the exporter (ZERANGE_FD_EXCHANGE=pidfd) there are as many as segments. */
static int few_fds(void)
{
    enum { PIECES = 600 };
    ze_physical_mem_handle_t object;
    ze_ipc_mem_handle_t      handle, untouched;
    const char              *why = "";
    char                    *base;
    unsigned                 i;

    test_start();
    object = make_object(page);
    base   = reserve(PIECES * page);
    for (i = 0; i < PIECES; i++) { /* nothing to merge: none continues the one before */
        map_object(base + i * page, page, object, 0);
    }
    memset(&untouched, 0xEE, sizeof(untouched));
    handle = untouched;
    CHECK(export_range(base, PIECES * page, &handle), ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
    CHECK_EQ(memcmp(&handle, &untouched, sizeof(handle)), 0);
    CHECK_OK(zeDriverGetLastErrorDescription(driver, &why));
    if (!CHECK_TRUE(strstr(why, "600 objects") != NULL)) {
        printf("   said: %s\n", why);
    }
    CHECK_OK(export_range(base, 10 * page, &handle));
    CHECK_OK(zeMemPutIpcHandle(context, handle));
    CHECK_OK(zeVirtualMemFree(context, base, PIECES * page));
    CHECK_OK(zePhysicalMemDestroy(context, object));
    return test_end();
}

static int run_limited(const char *name, rlim_t soft, rlim_t hard, const char *exchange)
{
    struct rlimit limit;
    int           status;
    pid_t         pid = fork();

    if (pid == 0) {
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = soft;
        limit.rlim_max = hard < limit.rlim_max ? hard : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        setenv("ZERANGE_FD_EXCHANGE", exchange, 1);
        execl("/proc/self/exe", name, name, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int main(int argc, char **argv)
{
    struct rlimit limit;
    int           status;

    peer_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], "many") == 0) {
        return many_objects();
    }
    if (argc > 1 && strcmp(argv[1], "few") == 0) {
        return few_fds();
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    status = run_limited("few", 512, 512, "pidfd");
    if (status != 0) {
        return status;
    }
    getrlimit(RLIMIT_NOFILE, &limit);
    if (getenv("ZERANGE_SOFT") != NULL && limit.rlim_max < 12000) {
        printf("the software device needs an fd per object: hard limit %llu is too low\n",
               (unsigned long long)limit.rlim_max);
        return 77;
    }
    return run_limited("many", 1024, RLIM_INFINITY, "auto");
}
