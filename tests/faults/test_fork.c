/* fork, and vfork with exec, in a process that uses the device: the child cannot use it and is told
 * so, its end hurts nothing, and the parent's copies stay right meanwhile. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "faults.h"

#include <dirent.h>
#include <pthread.h>
#include <zerange/zerange.h>

#define SIZE   ((size_t)1 << 20)
#define ROUNDS 30

static ze_driver_handle_t       driver;
static ze_device_handle_t       device;
static ze_context_handle_t      context;
static ze_command_list_handle_t list; /* immediate, asynchronous */
static char                    *dev, *in, *out;

static void start(void)
{
    ze_context_desc_t          context_desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_command_queue_desc_t    queue_desc   = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                               .mode  = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_device_mem_alloc_desc_t dev_desc     = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_host_mem_alloc_desc_t   host_desc    = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    uint32_t                   n            = 1;

    OK(zeInit(0));
    OK(zeDriverGet(&n, &driver));
    n = 1;
    OK(zeDeviceGet(driver, &n, &device));
    OK(zeContextCreate(driver, &context_desc, &context));
    OK(zeCommandListCreateImmediate(context, device, &queue_desc, &list));
    OK(zeMemAllocDevice(context, &dev_desc, SIZE, 64, device, (void **)&dev));
    OK(zeMemAllocHost(context, &host_desc, SIZE, 64, (void **)&in));
    OK(zeMemAllocHost(context, &host_desc, SIZE, 64, (void **)&out));
}

/* There and back while @a between runs. */
static void copies(unsigned round, void (*between)(void))
{
    memset(in, (int)round, SIZE);
    in[SIZE - 1] = 'e';
    OK(zeCommandListAppendMemoryCopy(list, dev, in, SIZE, NULL, 0, NULL));
    OK(zeCommandListAppendMemoryCopy(list, out, dev, SIZE, NULL, 0, NULL));
    between();
    OK(zeCommandListHostSynchronize(list, 20 * SECOND));
    CHECK(memcmp(in, out, SIZE) == 0);
}

static void reap(pid_t pid)
{
    int status = -1;

    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (status != 0) {
        fail("the child ended with status 0x%x", status);
    }
}

/* ---- children ---- */

static void child_exits(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        exit(0); /* with every destructor of the driver and its libraries */
    }
    reap(pid);
}

static void child_exits_at_once(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        _exit(0);
    }
    reap(pid);
}

/* Each call is refused or does no harm; none hangs. */
static void child_uses_all(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        ze_context_desc_t          desc     = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
        ze_device_mem_alloc_desc_t dev_desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
        ze_ipc_mem_handle_t        handle;
        ze_context_handle_t        other;
        void                      *p;

        alarm(60);
        (void)zeInit(0);
        CHECK(zeMemAllocDevice(context, &dev_desc, SIZE, 64, device, &p) != ZE_RESULT_SUCCESS);
        CHECK(zeCommandListAppendMemoryCopy(list, dev, in, SIZE, NULL, 0, NULL) !=
              ZE_RESULT_SUCCESS);
        (void)zeCommandListHostSynchronize(list, SECOND);
        (void)zeContextCreate(driver, &desc, &other);
        CHECK(zeMemGetIpcHandle(context, dev, &handle) != ZE_RESULT_SUCCESS);
        (void)zeMemFree(context, dev);
        (void)zeCommandListDestroy(list);
        (void)zeContextDestroy(context);
        exit(0);
    }
    reap(pid);
}

static void child_runs_program(void)
{
    pid_t pid = vfork();

    if (pid == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    reap(pid);
}

/* What an executed program inherits: nothing of ours. */
static void child_lists_fds(void)
{
    pid_t pid = vfork();

    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "for f in /proc/self/fd/*; do n=${f##*/}; case $n in "
              "0|1|2|255) ;; *) l=$(readlink $f) && case $l in *memfd*|socket:*zerange*|*dmabuf*|"
              "*dri*) exit 9 ;; esac ;; esac; done; exit 0", (char *)NULL);
        _exit(127);
    }
    reap(pid);
}

/* A child that becomes a program that uses the device itself. */
static void child_is_a_rank(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        execl("/proc/self/exe", "test_fork", "rank", (char *)NULL);
        _exit(127);
    }
    reap(pid);
}

static const struct child {
    const char *name;
    void (*run)(void);
    unsigned rounds;
} children[] = {
    {"fork, the child exits", child_exits, ROUNDS},
    {"fork, the child exits at once", child_exits_at_once, ROUNDS},
    {"fork, the child tries to use everything", child_uses_all, ROUNDS},
    {"vfork and exec", child_runs_program, ROUNDS},
    {"vfork and exec: fds", child_lists_fds, 3},
    {"fork and exec of another rank", child_is_a_rank, 3},
};

static void one_thread(const void *arg)
{
    const struct child *child = arg;
    unsigned            i;

    start();
    for (i = 0; i < child->rounds; i++) {
        copies(i, child->run);
    }
    outcome("%u times, with copies under way", child->rounds);
}

/* ---- the same while other threads allocate, copy, export and free ---- */

static atomic_bool over;

static void *busy(void *arg)
{
    ze_command_queue_desc_t    queue_desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                             .mode  = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS};
    ze_device_mem_alloc_desc_t dev_desc   = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_command_list_handle_t   own;
    ze_ipc_mem_handle_t        handle;
    char                       bytes[4096], back[4096];
    void                      *p;

    OK(zeCommandListCreateImmediate(context, device, &queue_desc, &own));
    while (!atomic_load(&over)) {
        memset(bytes, (int)(uintptr_t)arg, sizeof(bytes));
        OK(zeMemAllocDevice(context, &dev_desc, 65536, 64, device, &p));
        OK(zeCommandListAppendMemoryCopy(own, p, bytes, sizeof(bytes), NULL, 0, NULL));
        OK(zeMemGetIpcHandle(context, p, &handle));
        OK(zeCommandListAppendMemoryCopy(own, back, p, sizeof(back), NULL, 0, NULL));
        CHECK(memcmp(bytes, back, sizeof(bytes)) == 0);
        OK(zeMemPutIpcHandle(context, handle));
        OK(zeMemFree(context, p));
    }
    OK(zeCommandListDestroy(own));
    return NULL;
}

static void many_threads(const void *arg)
{
    const struct child *child = arg;
    pthread_t           threads[4];
    unsigned            i;

    start();
    for (i = 0; i < ZR_ARRAY_SIZE(threads); i++) {
        CHECK(pthread_create(&threads[i], NULL, busy, (void *)(uintptr_t)(i + 1)) == 0);
    }
    for (i = 0; i < child->rounds; i++) {
        copies(i, child->run);
    }
    atomic_store(&over, true);
    for (i = 0; i < ZR_ARRAY_SIZE(threads); i++) {
        pthread_join(threads[i], NULL);
    }
    outcome("%u times, with copies under way and four threads at work", child->rounds);
}

static void nothing(void)
{
}

int main(int argc, char **argv)
{
    char     name[100];
    unsigned i;

    fault_start();
    if (argc > 1) {
        start();
        copies(1, nothing);
        return 0;
    }
    for (i = 0; i < ZR_ARRAY_SIZE(children); i++) {
        fault_case(children[i].name, one_thread, &children[i], 120);
        snprintf(name, sizeof(name), "%s, threads at work", children[i].name);
        fault_case(name, many_threads, &children[i], 120);
    }
    return fault_end("fork");
}
