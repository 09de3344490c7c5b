/* Handles, tables, answers and objects from an exporter that lies: refused with the reason, nothing
 * left behind, and no object passed off as another exporter's. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "faults.h"

#include <sys/stat.h>

#define OBJECTS 4
#define EXPORT  7

static uint64_t enemy_process; /* random, as two of this test may run at once */

enum table_lie {
    TABLE_RIGHT, TABLE_UNSEALED, TABLE_SHORT, TABLE_LONG, TABLE_OTHER_EXPORT, TABLE_OTHER_PROCESS,
    TABLE_OTHER_SECRET, TABLE_OTHER_MACHINE, TABLE_COUNT, TABLE_BEYOND, TABLE_WRAPS, TABLE_PIPE,
    TABLE_EMPTY,
};

enum object_lie {
    OBJECTS_RIGHT, OBJECTS_ONE_BY_ONE, OBJECTS_ALL_ONE, OBJECTS_TRUNCATED, OBJECTS_SWAPPED,
    OBJECTS_PIPE, OBJECTS_FILE, OBJECTS_MEMFD, OBJECTS_NULL, OBJECTS_SOCKET, OBJECTS_NONE,
    OBJECTS_MORE, OBJECTS_ANSWER_SHORT, OBJECTS_ANSWER_LONG, OBJECTS_MAGIC, OBJECTS_POSITIVE,
    OBJECTS_EIO, OBJECTS_LOWEST, OBJECTS_SILENT, OBJECTS_CLOSE, OBJECTS_SLOW,
};

struct enemy {
    const char     *name;
    enum table_lie  table;
    enum object_lie objects;
    ze_result_t     result;
    const char     *says; /* in the error */
};

#define INVALID ZE_RESULT_ERROR_INVALID_ARGUMENT
#define UNKNOWN ZE_RESULT_ERROR_UNKNOWN

static const struct enemy enemies[] = {
    {"honest", TABLE_RIGHT, OBJECTS_RIGHT, ZE_RESULT_SUCCESS, NULL},
    {"objects one by one", TABLE_RIGHT, OBJECTS_ONE_BY_ONE, ZE_RESULT_SUCCESS, NULL},
    {"one object for all", TABLE_RIGHT, OBJECTS_ALL_ONE, ZE_RESULT_SUCCESS, NULL},
    {"table not sealed", TABLE_UNSEALED, OBJECTS_RIGHT, UNKNOWN, "not a sealed memfd"},
    {"table one byte short", TABLE_SHORT, OBJECTS_RIGHT, UNKNOWN, "does not fit its number"},
    {"table one byte long", TABLE_LONG, OBJECTS_RIGHT, UNKNOWN, "does not fit its number"},
    {"empty table", TABLE_EMPTY, OBJECTS_RIGHT, UNKNOWN, "not of a table's size"},
    {"pipe for a table", TABLE_PIPE, OBJECTS_RIGHT, UNKNOWN, "not a sealed memfd"},
    {"table of another export", TABLE_OTHER_EXPORT, OBJECTS_RIGHT, UNKNOWN, "another export"},
    {"table of another process", TABLE_OTHER_PROCESS, OBJECTS_RIGHT, UNKNOWN, "another export"},
    {"table with another secret", TABLE_OTHER_SECRET, OBJECTS_RIGHT, INVALID, "secret is wrong"},
    {"table of another machine", TABLE_OTHER_MACHINE, OBJECTS_RIGHT, INVALID, "another machine"},
    {"table with more entries than bytes", TABLE_COUNT, OBJECTS_RIGHT, UNKNOWN, "does not fit"},
    {"entry beyond its object", TABLE_BEYOND, OBJECTS_RIGHT, UNKNOWN, "outside its object"},
    {"entry whose end wraps to its object's start", TABLE_WRAPS, OBJECTS_RIGHT, UNKNOWN,
     "outside its object"},
    {"truncated object", TABLE_RIGHT, OBJECTS_TRUNCATED, INVALID, "bytes, the table says"},
    {"swapped objects of two sizes", TABLE_RIGHT, OBJECTS_SWAPPED, INVALID, "the table says"},
    {"pipe for an object", TABLE_RIGHT, OBJECTS_PIPE, INVALID, ""},
    {"file for an object", TABLE_RIGHT, OBJECTS_FILE, INVALID, ""},
    {"memfd that can shrink for an object", TABLE_RIGHT, OBJECTS_MEMFD, INVALID, ""},
    {"/dev/null for an object", TABLE_RIGHT, OBJECTS_NULL, INVALID, ""},
    {"socket for an object", TABLE_RIGHT, OBJECTS_SOCKET, INVALID, ""},
    {"answer without fds", TABLE_RIGHT, OBJECTS_NONE, ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "no fd"},
    {"253 fds where 4 are asked for", TABLE_RIGHT, OBJECTS_MORE, ZE_RESULT_SUCCESS, NULL},
    {"answer cut", TABLE_RIGHT, OBJECTS_ANSWER_SHORT, UNKNOWN, "not a broker's"},
    {"answer too long", TABLE_RIGHT, OBJECTS_ANSWER_LONG, UNKNOWN, "not a broker's"},
    {"answer of something else", TABLE_RIGHT, OBJECTS_MAGIC, UNKNOWN, "not a broker's"},
    {"answer with a positive status", TABLE_RIGHT, OBJECTS_POSITIVE, UNKNOWN, "not a broker's"},
    {"answer with the lowest status", TABLE_RIGHT, OBJECTS_LOWEST, UNKNOWN, "not a broker's"},
    {"answer with an error", TABLE_RIGHT, OBJECTS_EIO, UNKNOWN, "Input/output error"},
    {"no answer", TABLE_RIGHT, OBJECTS_SILENT, UNKNOWN, "no answer in time"},
    {"connection ended instead of an answer", TABLE_RIGHT, OBJECTS_CLOSE, UNKNOWN, "socket: "},
    {"an object every two seconds", TABLE_RIGHT, OBJECTS_SLOW, UNKNOWN, "too slow"},
};

/* ---- the enemy ---- */

struct table {
    struct zr_table_header header;
    struct zr_table_entry  entries[OBJECTS];
    char                   more;
};

static const uint8_t secret[ZR_SECRET_LENGTH] = "one of our own.";

static size_t size_of_object(unsigned i)
{
    return (i == 1) ? 2 * PAGE : PAGE;
}

/* A buffer filled with its number and @a seed. */
static int make_buffer(size_t size, unsigned char fill)
{
    struct zr_bo *bo;
    void         *map;
    int           fd;

    OK(zr_bo_create(test_device(), size, ZR_PLACE_SYSTEM, ZR_CACHE_CACHED, &bo));
    OK(zr_bo_map(bo, NULL, 0, size, PROT_READ | PROT_WRITE, &map));
    memset(map, fill, size);
    OK(zr_bo_export(bo, &fd));
    return fd; /* the rest stays until the process ends */
}

static void table_fill(struct table *table, enum table_lie lie)
{
    struct zr_identity own = zr_identity();
    unsigned           i;

    memset(table, 0, sizeof(*table));
    table->header = (struct zr_table_header){
        .magic         = ZR_TABLE_MAGIC,
        .version       = ZR_WIRE_VERSION,
        .count         = OBJECTS + (lie == TABLE_COUNT),
        .entry_size    = sizeof(struct zr_table_entry),
        .length        = OBJECTS * PAGE,
        .pid           = own.pid,
        .process_id    = enemy_process + (lie == TABLE_OTHER_PROCESS),
        .export_id     = EXPORT + (lie == TABLE_OTHER_EXPORT),
        .start_time    = own.start_time,
        .pid_namespace = own.pid_namespace,
    };
    memcpy(table->header.system_id, own.system_id, sizeof(own.system_id));
    memcpy(table->header.secret, secret, sizeof(secret));
    table->header.system_id[0] ^= (lie == TABLE_OTHER_MACHINE);
    table->header.secret[15] ^= (lie == TABLE_OTHER_SECRET);
    for (i = 0; i < OBJECTS; i++) {
        table->entries[i] = (struct zr_table_entry){
            .object_id = i + 1, .size = size_of_object(i), .length = PAGE, .fd = -1};
    }
    table->entries[2].offset = (lie == TABLE_BEYOND) ? 4096 : 0;
    if (lie == TABLE_WRAPS) { /* the object is known by then: entry 0 has it */
        table->entries[3].object_id = table->entries[0].object_id;
        table->entries[3].size      = UINT64_MAX;
        table->entries[3].offset    = UINT64_MAX - 4095;
    }
}

static int table_fd(const struct table *table, enum table_lie lie)
{
    size_t size = offsetof(struct table, more);
    int    fd, pipes[2];

    if (lie == TABLE_PIPE) {
        CHECK(pipe2(pipes, O_CLOEXEC) == 0);
        return pipes[0];
    }
    size = (lie == TABLE_EMPTY) ? 0 : size - (lie == TABLE_SHORT) + (lie == TABLE_LONG);
    fd   = memfd_create("enemy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && write(fd, table, size) == (ssize_t)size);
    if (lie != TABLE_UNSEALED) {
        CHECK(fcntl(fd, F_ADD_SEALS,
                    F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    }
    return fd;
}

static void answer(int peer, const void *data, size_t size, const int *fds, unsigned count)
{
    struct iovec  iov = {(void *)data, size};
    char          control[CMSG_SPACE(ZR_BROKER_MAX_FDS * sizeof(int))] = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (count > 0) {
        msg.msg_control                  = control;
        msg.msg_controllen               = CMSG_SPACE(count * sizeof(int));
        CMSG_FIRSTHDR(&msg)->cmsg_level = SOL_SOCKET;
        CMSG_FIRSTHDR(&msg)->cmsg_type  = SCM_RIGHTS;
        CMSG_FIRSTHDR(&msg)->cmsg_len   = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), fds, count * sizeof(int));
    }
    (void)sendmsg(peer, &msg, MSG_NOSIGNAL);
}

/* The fd for object @a i, by the lie. */
static int object_fd(enum object_lie lie, unsigned i)
{
    int fd, pipes[2];

    if (i != 1 && lie != OBJECTS_ALL_ONE && lie != OBJECTS_SWAPPED) {
        return make_buffer(size_of_object(i), (unsigned char)(10 + i));
    }
    switch (lie) {
    case OBJECTS_PIPE:
        CHECK(pipe2(pipes, O_CLOEXEC) == 0);
        return pipes[0];
    case OBJECTS_FILE:
        fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        break;
    case OBJECTS_MEMFD:
        fd = memfd_create("i915-0-smem", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        CHECK(ftruncate(fd, (off_t)size_of_object(i)) == 0);
        break;
    case OBJECTS_NULL:
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        break;
    case OBJECTS_SOCKET:
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        break;
    case OBJECTS_TRUNCATED:
        fd = make_buffer(4096, 11);
        break;
    case OBJECTS_ALL_ONE:
        fd = make_buffer(2 * PAGE, 10);
        break;
    case OBJECTS_SWAPPED:
        fd = make_buffer(size_of_object(i < 2 ? 1 - i : i), (unsigned char)(10 + i));
        break;
    default:
        fd = make_buffer(size_of_object(i), (unsigned char)(10 + i));
    }
    CHECK(fd >= 0);
    return fd;
}

static void answer_objects(int peer, enum object_lie lie, const struct zr_broker_request *request)
{
    struct zr_broker_answer a = {ZR_BROKER_MAGIC, 0, request->count, 0};
    int                     fds[ZR_BROKER_MAX_FDS], first;
    char                    large[sizeof(a) + 8] = {0};
    unsigned                i, count = request->count;

    CHECK(request->first < OBJECTS && count <= OBJECTS - request->first);
    if (lie == OBJECTS_SLOW) {
        poll(NULL, 0, 2000);
    }
    if (lie == OBJECTS_ONE_BY_ONE || lie == OBJECTS_SLOW) {
        a.count = count = 1;
    }
    for (i = 0; i < count; i++) {
        fds[i] = object_fd(lie, request->first + i);
    }
    switch (lie) {
    case OBJECTS_NONE:
        answer(peer, &a, sizeof(a), NULL, 0);
        return;
    case OBJECTS_MORE:
        first = fds[count - 1];
        for (; i < ZR_BROKER_MAX_FDS; i++) {
            fds[i] = first;
        }
        answer(peer, &a, sizeof(a), fds, ZR_BROKER_MAX_FDS);
        return;
    case OBJECTS_ANSWER_SHORT:
        answer(peer, &a, sizeof(a) - 1, fds, count);
        return;
    case OBJECTS_ANSWER_LONG:
        memcpy(large, &a, sizeof(a));
        answer(peer, large, sizeof(large), fds, count);
        return;
    case OBJECTS_MAGIC:
        a.magic ^= 1;
        break;
    case OBJECTS_POSITIVE:
        a.status = 1;
        break;
    case OBJECTS_LOWEST:
        a.status = INT32_MIN;
        break;
    case OBJECTS_EIO:
        a.status = -EIO;
        break;
    case OBJECTS_SILENT:
        return;
    case OBJECTS_CLOSE:
        shutdown(peer, SHUT_RDWR);
        return;
    default:
        break;
    }
    answer(peer, &a, sizeof(a), fds, count);
}

static void serve(int listener, const struct enemy *enemy, int table)
{
    const struct zr_broker_answer lead = {ZR_BROKER_MAGIC, 0, 1, 0};
    struct zr_broker_request      request;
    int                           peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    while (peer >= 0) {
        ssize_t n = recv(peer, &request, sizeof(request), 0);

        if (n <= 0) {
            close(peer);
            peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            continue;
        }
        CHECK(n == sizeof(request));
        if (request.what == ZR_BROKER_LEAD) {
            answer(peer, &lead, sizeof(lead), &table, 1);
        } else {
            answer_objects(peer, enemy->objects, &request);
        }
    }
}

static void enemy_main(int sock, const void *arg)
{
    const struct enemy *enemy = arg;
    struct sockaddr_un  address;
    struct table        table;
    socklen_t           length = zr_broker_address(enemy_process, &address);
    int                 fd     = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    test_device();
    table_fill(&table, enemy->table);
    CHECK(bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, 8) == 0);
    say(sock, "r", 1);
    serve(fd, enemy, table_fd(&table, enemy->table));
}

static void importer(const void *arg)
{
    const struct enemy *enemy = arg;
    struct zr_handle    h     = {.fd = -1, .kind = ZR_HANDLE_RANGE, .version = ZR_WIRE_VERSION,
                                 .process_id = enemy_process, .export_id = EXPORT};
    ze_ipc_mem_handle_t handle;
    struct holdings     before;
    ze_result_t         result;
    uint64_t            start;
    unsigned            i;
    pid_t               pid;
    char                byte, *ptr = &byte;
    int                 sock;

    setenv("ZERANGE_FD_EXCHANGE", "socket", 1);
    pid    = fault_spawn(enemy_main, enemy, &sock);
    before = hold();
    memcpy(h.secret, secret, sizeof(secret));
    memcpy(&handle, &h, sizeof(h));
    hear(sock, &byte, 1);
    start  = zr_time_ns();
    result = zr_ipc_open(test_device(), &handle, (void **)&ptr);
    if (result != enemy->result) {
        fail("0x%x instead of 0x%x: %s", result, enemy->result, zr_last_error());
    }
    if (result == ZE_RESULT_SUCCESS) {
        for (i = 0; i < OBJECTS; i++) {
            CHECK(ptr[i * PAGE] == (enemy->objects == OBJECTS_ALL_ONE ? 10 : 10 + (int)i));
        }
        OK(zr_ipc_close(ptr));
        outcome("opened, right bytes");
    } else {
        CHECK(ptr == &byte && strstr(zr_last_error(), enemy->says) != NULL);
        CHECK(zr_time_ns() - start < 25 * SECOND);
        outcome("refused: %s", zr_last_error());
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    check_holdings(before);
    atomic_fetch_add(&fault_page->injected, 1);
}

/* ---- an object passed off as another exporter's ---- */

static void victim(int sock, const void *arg)
{
    ze_ipc_mem_handle_t handle;
    char               *base = fault_range(OBJECTS, 1);

    memset(base, 0x11, OBJECTS * PAGE);
    fault_export(base, OBJECTS * PAGE, &handle);
    say(sock, &handle, sizeof(handle));
    meet(sock);
}

/* Its own buffers under the victim's process id and object ids, open for pidfd_getfd. */
static void impostor(int sock, const void *arg)
{
    struct zr_handle h;
    struct table     table;
    struct stat      st;
    unsigned         i;

    test_device();
    table_fill(&table, TABLE_RIGHT);
    hear(sock, &table.header.process_id, sizeof(table.header.process_id));
    for (i = 0; i < OBJECTS; i++) {
        struct zr_table_entry *entry = &table.entries[i];

        hear(sock, &entry->object_id, sizeof(entry->object_id));
        entry->size = PAGE;
        entry->fd   = make_buffer(PAGE, 0x66);
        CHECK(fstat(entry->fd, &st) == 0);
        entry->inode  = st.st_ino;
        entry->device = zr_device_number(st.st_dev);
    }
    h = (struct zr_handle){.fd         = table_fd(&table, TABLE_RIGHT),
                           .kind       = ZR_HANDLE_RANGE,
                           .version    = ZR_WIRE_VERSION,
                           .process_id = table.header.process_id,
                           .pid        = (uint32_t)getpid(),
                           .export_id  = EXPORT};
    memcpy(h.secret, secret, sizeof(secret));
    say(sock, &h, sizeof(h));
    meet(sock);
}

static void impostor_case(const void *arg)
{
    const bool          first = *(const bool *)arg; /* the impostor's handle is opened first */
    ze_ipc_mem_handle_t handles[2];
    struct zr_exchange  x;
    struct zr_handle    h;
    unsigned            i, k;
    pid_t               pids[2];
    char               *ptr[2];
    int                 socks[2], fd;

    pids[0] = fault_spawn(victim, NULL, &socks[0]);
    pids[1] = fault_spawn(impostor, NULL, &socks[1]);
    hear(socks[0], &handles[0], sizeof(handles[0]));
    memcpy(&h, &handles[0], sizeof(h));
    zr_exchange_init(&x, &h);
    OK(zr_exchange_lead(&x, &fd));
    say(socks[1], &h.process_id, sizeof(h.process_id));
    for (i = 0; i < OBJECTS; i++) {
        say(socks[1], &x.table.entries[i].object_id, sizeof(uint64_t));
    }
    zr_exchange_fini(&x);
    close(fd);
    hear(socks[1], &handles[1], sizeof(handles[1]));
    for (k = 0; k < 2; k++) {
        unsigned who = k ^ first;

        if (zr_ipc_open(test_device(), &handles[who], (void **)&ptr[who]) != ZE_RESULT_SUCCESS) {
            fail("%s: %s", who ? "impostor" : "victim", zr_last_error());
        }
    }
    for (i = 0; i < OBJECTS * PAGE; i += 4096) {
        CHECK(ptr[0][i] == 0x11);
        CHECK(ptr[1][i] == 0x66);
    }
    outcome("each handle shows its own exporter's bytes");
    for (k = 0; k < 2; k++) {
        OK(zr_ipc_close(ptr[k]));
        meet(socks[k]);
        fault_join(pids[k]);
    }
    atomic_fetch_add(&fault_page->injected, 1);
}

/* ---- a handle with one bit wrong ---- */

static void bits_exporter(int sock, const void *arg)
{
    ze_ipc_mem_handle_t handle;
    char               *base = fault_range(OBJECTS, 21);

    fault_export(base, OBJECTS * PAGE, &handle);
    say(sock, &handle, sizeof(handle));
    meet(sock);
}

static void bits(const void *arg)
{
    ze_ipc_mem_handle_t handle, damaged;
    struct holdings     before;
    unsigned            i, opened = 0;
    pid_t               pid;
    void               *ptr = &handle;
    int                 sock;

    setenv("ZERANGE_FD_EXCHANGE", (const char *)arg, 1);
    pid    = fault_spawn(bits_exporter, NULL, &sock);
    before = hold();
    hear(sock, &handle, sizeof(handle));
    for (i = 0; i < 8 * sizeof(handle); i++) {
        damaged = handle;
        damaged.data[i / 8] ^= (char)(1 << i % 8);
        if (zr_ipc_open(test_device(), &damaged, &ptr) == ZE_RESULT_SUCCESS) {
            /* fd and pid are hints. */
            CHECK(i < 32 || (i >= 8 * offsetof(struct zr_handle, pid) &&
                             i < 8 * (offsetof(struct zr_handle, pid) + 4)));
            CHECK(fault_range_is(ptr, OBJECTS * PAGE, 21));
            OK(zr_ipc_close(ptr));
            ptr = &handle;
            opened++;
        }
        CHECK(ptr == &handle);
        atomic_fetch_add(&fault_page->injected, 1);
    }
    check_holdings(before);
    OK(zr_ipc_open(test_device(), &handle, &ptr));
    OK(zr_ipc_close(ptr));
    meet(sock);
    fault_join(pid);
    outcome("512 handles, %u opened (a wrong hint), %u refused", opened, 512 - opened);
}

int main(void)
{
    static const bool both[] = {false, true};
    unsigned          i;

    fault_start();
    enemy_process = zr_random_u64();
    setenv("ZERANGE_DEVICE_CPU_ACCESS", "1", 1);
    for (i = 0; i < ZR_ARRAY_SIZE(enemies); i++) {
        fault_case(enemies[i].name, importer, &enemies[i], 60);
    }
    fault_case("impostor, opened after its victim", impostor_case, &both[0], 60);
    fault_case("impostor, opened before its victim", impostor_case, &both[1], 60);
    fault_case("each bit of a handle wrong, by socket", bits, "socket", 60);
    fault_case("each bit of a handle wrong, by every method", bits, "auto", 60);
    fault_case("each bit of a handle wrong, by pidfd", bits, "pidfd", 60);
    return fault_end("enemies");
}
