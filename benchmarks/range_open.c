/* Export, open, first touch, close, by number of objects. The exporter is this process; the
 * importer a child with a driver of its own. Beside it the least that any way must do: as many
 * memfds received over a socket, mapped side by side and touched. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "range.h"

#include "zerange/zerange.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FDS_PER_MESSAGE 253
#define AGAIN           64 /* exports of the same range in a row */

/* ---- what both processes share ---- */

enum what { WHAT_OPEN, WHAT_MEMFDS, WHAT_GROWN, WHAT_END };

struct order {
    enum what           what;
    unsigned            objects;
    uint64_t            size; /* of an object */
    ze_ipc_mem_handle_t handle;
};

struct answer {
    double      open, touch, close; /* seconds */
    ze_result_t result;
    char        error[200];
};

struct gpu {
    ze_driver_handle_t  driver;
    ze_device_handle_t  device;
    ze_context_handle_t context;
    ze_command_queue_handle_t queue;
    ze_command_list_handle_t  list;
    uint32_t            ordinal;
    void               *word; /* device memory to copy into */
};

static void die(const char *what, ze_result_t result)
{
    fprintf(stderr, ZR_RANGE_PROGRAM ": %s: 0x%x\n", what, (unsigned)result);
    exit(1);
}

#define NEED(call)                                                                                \
    do {                                                                                          \
        ze_result_t result_ = (call);                                                             \
        if (result_ != ZE_RESULT_SUCCESS) {                                                       \
            die(#call, result_);                                                                  \
        }                                                                                         \
    } while (0)

static void gpu_open(struct gpu *gpu)
{
    ze_command_queue_group_properties_t groups[16];
    ze_context_desc_t          context = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_command_queue_desc_t    queue   = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                          .mode  = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS};
    ze_command_list_desc_t     list    = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC,
                                          .flags = ZE_COMMAND_LIST_FLAG_RELAXED_ORDERING};
    ze_device_mem_alloc_desc_t memory  = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    uint32_t                   n = 1, k;

    NEED(zeInit(0));
    NEED(zeDriverGet(&n, &gpu->driver));
    n = 1;
    NEED(zeDeviceGet(gpu->driver, &n, &gpu->device));
    NEED(zeContextCreate(gpu->driver, &context, &gpu->context));
    n = 16;
    memset(groups, 0, sizeof(groups));
    NEED(zeDeviceGetCommandQueueGroupProperties(gpu->device, &n, groups));
    for (k = 0; k < n; k++) {
        if (groups[k].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY) {
            gpu->ordinal = k;
        }
    }
    queue.ordinal = list.commandQueueGroupOrdinal = gpu->ordinal;
    NEED(zeCommandQueueCreate(gpu->context, gpu->device, &queue, &gpu->queue));
    NEED(zeCommandListCreate(gpu->context, gpu->device, &list, &gpu->list));
    NEED(zeMemAllocDevice(gpu->context, &memory, 65536, 64, gpu->device, &gpu->word));
}

/* A word of each object copied by the engine, in one submission. */
static void gpu_touch(struct gpu *gpu, const char *base, unsigned objects, uint64_t size)
{
    unsigned i;

    NEED(zeCommandListReset(gpu->list));
    for (i = 0; i < objects; i++) {
        NEED(zeCommandListAppendMemoryCopy(gpu->list, (char *)gpu->word + i % 8192 * 8,
                                           base + i * size, 8, NULL, 0, NULL));
    }
    NEED(zeCommandListClose(gpu->list));
    NEED(zeCommandQueueExecuteCommandLists(gpu->queue, 1, &gpu->list, NULL));
    NEED(zeCommandQueueSynchronize(gpu->queue, UINT64_MAX));
}

static void transfer(int sock, void *data, size_t size, bool out)
{
    ssize_t n = out ? send(sock, data, size, MSG_NOSIGNAL) : recv(sock, data, size, MSG_WAITALL);

    if (n != (ssize_t)size) {
        fprintf(stderr, ZR_RANGE_PROGRAM ": the other process is gone\n");
        exit(1);
    }
}

/* ---- memfds ---- */

static void send_fds(int sock, const int *fds, unsigned count)
{
    union {
        struct cmsghdr header;
        char           bytes[CMSG_SPACE(FDS_PER_MESSAGE * sizeof(int))];
    } control;
    char          byte = 0;
    struct iovec  iov  = {&byte, 1};
    unsigned      n;

    for (; count > 0; count -= n, fds += n) {
        struct msghdr   msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control};
        struct cmsghdr *cmsg;

        n                  = count < FDS_PER_MESSAGE ? count : FDS_PER_MESSAGE;
        msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
        cmsg               = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level   = SOL_SOCKET;
        cmsg->cmsg_type    = SCM_RIGHTS;
        cmsg->cmsg_len     = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(cmsg), fds, n * sizeof(int));
        if (sendmsg(sock, &msg, 0) != 1) {
            perror(ZR_RANGE_PROGRAM ": sendmsg");
            exit(1);
        }
    }
}

static unsigned receive_fds(int sock, int *fds)
{
    union {
        struct cmsghdr header;
        char           bytes[CMSG_SPACE(FDS_PER_MESSAGE * sizeof(int))];
    } control;
    char            byte;
    struct iovec    iov = {&byte, 1};
    struct msghdr   msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
                           .msg_controllen = sizeof(control)};
    struct cmsghdr *cmsg;
    unsigned        count;

    if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != 1 || (cmsg = CMSG_FIRSTHDR(&msg)) == NULL) {
        perror(ZR_RANGE_PROGRAM ": recvmsg");
        exit(1);
    }
    count = (unsigned)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(fds, CMSG_DATA(cmsg), count * sizeof(int));
    return count;
}

static void import_memfds(int sock, const struct order *order, struct answer *answer)
{
    size_t        all   = order->objects * order->size;
    double        start = zr_now();
    const volatile char *touched;
    char         *base;
    int           fds[FDS_PER_MESSAGE];
    unsigned      done = 0, n, i;

    base = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    transfer(sock, &done, sizeof(done), true); /* asks for them, as an importer does */
    for (; done < order->objects; done += n) {
        n = receive_fds(sock, fds);
        for (i = 0; i < n; i++) {
            if (mmap(base + (done + i) * order->size, order->size, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED, fds[i], 0) == MAP_FAILED) {
                perror(ZR_RANGE_PROGRAM ": mmap");
                exit(1);
            }
            close(fds[i]);
        }
    }
    answer->open = zr_now() - start;
    for (i = 0; i < order->objects; i++) {
        touched = base + i * order->size;
        (void)*touched;
    }
    answer->touch = zr_now() - start - answer->open;
    munmap(base, all);
    answer->close  = zr_now() - start - answer->open - answer->touch;
    answer->result = ZE_RESULT_SUCCESS;
}

/* ---- the importer ---- */

static void note_error(struct gpu *gpu, struct answer *answer)
{
    const char *text = "";

    zeDriverGetLastErrorDescription(gpu->driver, &text);
    snprintf(answer->error, sizeof(answer->error), "%s", text);
}

/* A grown range is opened while the one before it is: @a before is closed after. */
static void import_range(struct gpu *gpu, const struct order *order, struct answer *answer,
                         void **before)
{
    bool   keep  = order->what == WHAT_GROWN;
    double start = zr_now(), opened, touched;
    void  *base;

    answer->result = zeMemOpenIpcHandle(gpu->context, gpu->device, order->handle, 0, &base);
    opened         = zr_now();
    if (answer->result != ZE_RESULT_SUCCESS) {
        note_error(gpu, answer);
        return;
    }
    answer->open = opened - start;
    if (keep && *before == NULL) {
        *before = base;
        return;
    }
    if (!keep) {
        gpu_touch(gpu, base, order->objects, order->size);
    }
    touched       = zr_now();
    answer->touch = touched - opened;
    zeMemCloseIpcHandle(gpu->context, base);
    answer->close = zr_now() - touched;
    if (*before != NULL) {
        zeMemCloseIpcHandle(gpu->context, *before);
        *before = NULL;
    }
}

static void importer(int sock)
{
    struct gpu    gpu    = {0};
    void         *before = NULL;
    struct order  order;
    struct answer answer;

    gpu_open(&gpu);
    for (;;) {
        transfer(sock, &order, sizeof(order), false);
        memset(&answer, 0, sizeof(answer));
        if (order.what == WHAT_END) {
            _exit(0);
        }
        if (order.what == WHAT_MEMFDS) {
            import_memfds(sock, &order, &answer);
        } else {
            import_range(&gpu, &order, &answer, &before);
        }
        transfer(sock, &answer, sizeof(answer), true);
    }
}

/* ---- the exporter ---- */

struct range {
    char                     *base;
    ze_physical_mem_handle_t *objects;
    unsigned                  count, room;
    uint64_t                  size;
};

static ze_result_t range_add(struct gpu *gpu, struct range *range)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                   .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE,
                                   .size  = range->size};
    ze_result_t result = zePhysicalMemCreate(gpu->context, gpu->device, &desc,
                                             &range->objects[range->count]);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    NEED(zeVirtualMemMap(gpu->context, range->base + range->count * range->size, range->size,
                         range->objects[range->count], 0,
                         ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
    range->count++;
    return ZE_RESULT_SUCCESS;
}

static void range_drop(struct gpu *gpu, struct range *range)
{
    unsigned i;

    if (range->count > 0) {
        NEED(zeVirtualMemUnmap(gpu->context, range->base, range->count * range->size));
    }
    for (i = 0; i < range->count; i++) {
        NEED(zePhysicalMemDestroy(gpu->context, range->objects[i]));
    }
    NEED(zeVirtualMemFree(gpu->context, range->base, range->room * range->size));
    free(range->objects);
}

/* Room for one more object than @a count. */
static ze_result_t range_make(struct gpu *gpu, struct range *range, unsigned count, uint64_t size)
{
    ze_result_t result = ZE_RESULT_SUCCESS;
    unsigned    i;

    *range = (struct range){.objects = calloc(count + 1, sizeof(*range->objects)),
                            .room = count + 1, .size = size};
    NEED(zeVirtualMemReserve(gpu->context, NULL, range->room * size, (void **)&range->base));
    for (i = 0; i < count && result == ZE_RESULT_SUCCESS; i++) {
        result = range_add(gpu, range);
    }
    if (result != ZE_RESULT_SUCCESS) {
        range_drop(gpu, range);
    } else {
        gpu_touch(gpu, range->base, count, size);
    }
    return result;
}

static ze_result_t range_export(struct gpu *gpu, const struct range *range,
                                ze_ipc_mem_handle_t *handle)
{
    ze_ipc_phys_mem_handle_range_ext_desc_t desc = {
        .stype = ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC,
        .size  = range->count * range->size};

    return zeMemGetIpcHandleWithProperties(gpu->context, range->base, &desc, handle);
}

static struct answer ask(int sock, enum what what, const struct range *range,
                         const ze_ipc_mem_handle_t *handle, const int *fds)
{
    struct order  order = {.what = what, .objects = range->count, .size = range->size};
    struct answer answer;
    unsigned      go;

    if (handle != NULL) {
        order.handle = *handle;
    }
    transfer(sock, &order, sizeof(order), true);
    if (what == WHAT_MEMFDS) {
        transfer(sock, &go, sizeof(go), false);
        send_fds(sock, fds, range->count);
    }
    transfer(sock, &answer, sizeof(answer), false);
    return answer;
}

/* All their pages are there, as those of the objects are. */
static bool make_memfds(int *fds, unsigned count, uint64_t size)
{
    unsigned i;

    for (i = 0; i < count; i++) {
        fds[i] = memfd_create("beside", MFD_CLOEXEC);
        if (fds[i] < 0 || ftruncate(fds[i], (off_t)size) != 0 ||
            fallocate(fds[i], 0, 0, (off_t)size) != 0) {
            while (i-- > 0) {
                close(fds[i]);
            }
            return false;
        }
    }
    return true;
}

enum { OBJECTS, EXPORT, AGAIN_NS, OPEN, TOUCH, CLOSE, MEMFD_OPEN, MEMFD_TOUCH, OPEN_RATIO,
       TOUCH_RATIO, VALUES };

static const struct zr_column open_columns[VALUES] = {
    {"Objects", "objects", 0},           {"export us/obj", "export_us", 3},
    {"again ns/obj", "again_ns", 2},     {"open us/obj", "open_us", 3},
    {"touch us/obj", "touch_us", 3},     {"close us/obj", "close_us", 3},
    {"memfd open", "memfd_open_us", 3},  {"memfd touch", "memfd_touch_us", 3},
    {"open/memfd", "open_ratio", 3},     {"both/memfd", "open_touch_ratio", 3}};

/* One round of everything; values[k][round] of each column. */
static ze_result_t open_round(struct gpu *gpu, int sock, const struct range *range, const int *fds,
                              double values[VALUES][ZR_RANGE_MAX_ROUNDS], unsigned round)
{
    double              per = 1e6 / range->count, start = zr_now();
    ze_ipc_mem_handle_t handle, again;
    struct answer       answer, beside;
    ze_result_t         result = range_export(gpu, range, &handle);
    unsigned            i;

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    values[EXPORT][round] = (zr_now() - start) * per;
    start                 = zr_now();
    for (i = 0; i < AGAIN; i++) {
        NEED(range_export(gpu, range, &again));
    }
    values[AGAIN_NS][round] = (zr_now() - start) * per * 1000 / AGAIN;
    answer = ask(sock, WHAT_OPEN, range, &handle, NULL);
    for (i = 0; i <= AGAIN; i++) {
        NEED(zeMemPutIpcHandle(gpu->context, handle));
    }
    if (answer.result != ZE_RESULT_SUCCESS) {
        fprintf(stderr, ZR_RANGE_PROGRAM ": open of %u objects: 0x%x %s\n", range->count,
                (unsigned)answer.result, answer.error);
        return answer.result;
    }
    values[OPEN][round]  = answer.open * per;
    values[TOUCH][round] = answer.touch * per;
    values[CLOSE][round] = answer.close * per;
    values[MEMFD_OPEN][round] = values[MEMFD_TOUCH][round] = NAN;
    if (fds != NULL) {
        beside = ask(sock, WHAT_MEMFDS, range, NULL, fds);
        values[MEMFD_OPEN][round]  = beside.open * per;
        values[MEMFD_TOUCH][round] = beside.touch * per;
    }
    values[OPEN_RATIO][round]  = values[OPEN][round] / values[MEMFD_OPEN][round];
    values[TOUCH_RATIO][round] = (values[OPEN][round] + values[TOUCH][round]) /
                                 (values[MEMFD_OPEN][round] + values[MEMFD_TOUCH][round]);
    return ZE_RESULT_SUCCESS;
}

/* What a device says of more objects than it can share is part of the result. */
static void say_refused(struct gpu *gpu, unsigned count, ze_result_t result)
{
    const char *text = "";

    zeDriverGetLastErrorDescription(gpu->driver, &text);
    fprintf(stderr, ZR_RANGE_PROGRAM ": %u objects: 0x%x %s\n", count, (unsigned)result, text);
}

static bool run_count(const struct zr_range_options *o, struct gpu *gpu, int sock, unsigned count,
                      struct zr_table *table)
{
    static double values[VALUES][ZR_RANGE_MAX_ROUNDS];
    int          *fds = !o->no_memfd ? malloc(count * sizeof(*fds)) : NULL;
    double        row[VALUES] = {count};
    struct range  range;
    ze_result_t   result = range_make(gpu, &range, count, o->size);
    unsigned      i, k;

    if (result != ZE_RESULT_SUCCESS) {
        say_refused(gpu, count, result);
        free(fds);
        return false;
    }
    if (fds != NULL && !make_memfds(fds, count, o->size)) {
        free(fds);
        fds = NULL;
    }
    for (i = 0; i < o->rounds && result == ZE_RESULT_SUCCESS; i++) {
        zr_progress(ZR_RANGE_PROGRAM, "%u objects, round %u ...", count, i + 1);
        result = open_round(gpu, sock, &range, fds, values, i);
    }
    if (result == ZE_RESULT_SUCCESS) {
        for (k = 1; k < VALUES; k++) {
            row[k] = zr_median(values[k], (unsigned)o->rounds);
        }
        zr_table_row(table, row);
    } else {
        say_refused(gpu, count, result);
    }
    for (i = 0; fds != NULL && i < count; i++) {
        close(fds[i]);
    }
    free(fds);
    range_drop(gpu, &range);
    return result == ZE_RESULT_SUCCESS;
}

/* Export and open a range of @a count objects, add one, export and open again. */
static int run_grow(const struct zr_range_options *o, struct gpu *gpu, int sock, unsigned count)
{
    static const struct zr_column columns[] = {{"Objects", "objects", 0},
                                               {"first us", "first_us", 1},
                                               {"grown us", "grown_us", 1},
                                               {"ratio", "ratio", 4}};
    struct zr_table table = {ZR_RANGE_PROGRAM, "Growth of a Range", o->format, columns, 4, 0};
    double          times[3][ZR_RANGE_MAX_ROUNDS], start;
    ze_ipc_mem_handle_t handles[2];
    struct answer   answer;
    struct range    range;
    unsigned        i, k;

    zr_table_begin(&table);
    for (i = 0; i < o->rounds; i++) {
        zr_progress(ZR_RANGE_PROGRAM, "%u objects, round %u ...", count, i + 1);
        NEED(range_make(gpu, &range, count, o->size));
        for (k = 0; k < 2; k++) {
            if (k == 1) {
                NEED(range_add(gpu, &range));
            }
            start = zr_now();
            NEED(range_export(gpu, &range, &handles[k]));
            times[k][i] = (zr_now() - start) * 1e6;
            answer      = ask(sock, WHAT_GROWN, &range, &handles[k], NULL);
            NEED(answer.result);
            times[k][i] += answer.open * 1e6;
        }
        times[2][i] = times[1][i] / times[0][i];
        NEED(zeMemPutIpcHandle(gpu->context, handles[0]));
        NEED(zeMemPutIpcHandle(gpu->context, handles[1]));
        range_drop(gpu, &range);
    }
    zr_table_row(&table, (double[]){count, zr_median(times[0], (unsigned)o->rounds),
                                    zr_median(times[1], (unsigned)o->rounds),
                                    zr_median(times[2], (unsigned)o->rounds)});
    zr_table_end(&table);
    return 0;
}

int zr_range_open(const struct zr_range_options *o, bool grow)
{
    struct zr_table table = {ZR_RANGE_PROGRAM, "Range Export and Open", o->format, open_columns,
                             VALUES, 0};
    struct rlimit   limit;
    struct gpu      gpu = {0};
    uint64_t        count, next;
    int             socks[2], status = 0;
    pid_t           child;

    /* Memfds need a descriptor each; on their account and not for the driver. */
    if (!o->no_memfd && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks) != 0 || (child = fork()) < 0) {
        perror(ZR_RANGE_PROGRAM);
        return 1;
    }
    if (child == 0) {
        close(socks[0]);
        importer(socks[1]);
    }
    close(socks[1]);
    gpu_open(&gpu);
    if (grow) {
        status = run_grow(o, &gpu, socks[0], (unsigned)o->last_objects);
    } else {
        zr_table_begin(&table);
        for (count = o->first_objects; count <= o->last_objects; count = next) {
            if (!run_count(o, &gpu, socks[0], (unsigned)count, &table)) {
                break;
            }
            next = count == o->last_objects ? count + 1 : count * 4;
            next = count < o->last_objects && next > o->last_objects ? o->last_objects : next;
        }
        zr_table_end(&table);
        status = table.rows == 0;
    }
    transfer(socks[0], &(struct order){.what = WHAT_END}, sizeof(struct order), true);
    waitpid(child, NULL, 0);
    return status;
}
