/* IPC that goes wrong: damaged handles and tables, exporters that die, stop or leave a child behind,
 * hostile clients of the broker. The other side gets an error, and holds what it held before. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "play.h"

/* ---- damaged handles ---- */

static const struct {
    const char *name;
    size_t      offset;
    uint8_t     flip;
    ze_result_t result; /* by the socket */
} damages[] = {
    {"kind", offsetof(struct zr_handle, kind), 1, ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"kind plain", offsetof(struct zr_handle, kind), 'P' ^ 'R', ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"version", offsetof(struct zr_handle, version), 1, ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"type", offsetof(struct zr_handle, memory_type), 1, ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"zero", offsetof(struct zr_handle, zero), 1, ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"size", offsetof(struct zr_handle, size), 1, ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"inode", offsetof(struct zr_handle, inode), 1, ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"process", offsetof(struct zr_handle, process_id), 1, ZE_RESULT_ERROR_UNKNOWN},
    {"export", offsetof(struct zr_handle, export_id), 1, ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"secret, first bit", offsetof(struct zr_handle, secret), 1, ZE_RESULT_ERROR_INVALID_ARGUMENT},
    {"secret, last bit", offsetof(struct zr_handle, secret) + 15, 0x80,
     ZE_RESULT_ERROR_INVALID_ARGUMENT},
};

static void damage_exporter(int sock, const void *arg)
{
    ze_ipc_mem_handle_t handle;
    size_t              size;
    char               *base = make_range(3, &size);

    export_range(base, size, &handle);
    say(sock, &handle, sizeof(handle));
    meet(sock);
}

static void damage_importer(int sock, const void *arg)
{
    struct holdings     before = hold();
    ze_ipc_mem_handle_t handle, damaged;
    void               *ptr = &handle;
    unsigned            i;

    hear(sock, &handle, sizeof(handle));
    for (i = 0; i < ZR_ARRAY_SIZE(damages); ++i) {
        ze_result_t result;

        damaged = handle;
        damaged.data[damages[i].offset] ^= (char)damages[i].flip;
        result = zr_ipc_open(test_device(), &damaged, &ptr);
        if (result != damages[i].result) {
            printf("damaged %s: 0x%x\n", damages[i].name, result);
        }
        CHECK(result == damages[i].result);
        CHECK(ptr == &handle); /* written only on success */
    }
    OK(zr_ipc_open(test_device(), &handle, &ptr)); /* the exporter is none the worse */
    OK(zr_ipc_close(ptr));
    meet(sock);
    check_holdings(before);
}

/* ---- exporters that die, stop, or leave a child behind ---- */

enum death { DEATH_KILL, DEATH_STOP, DEATH_CHILD, DEATH_EXIT };

static void death_exporter(int sock, const void *arg)
{
    enum death          death = *(const enum death *)arg;
    ze_ipc_mem_handle_t handle;
    size_t              size;
    char               *base = make_range(4, &size);
    pid_t               self = getpid();

    export_range(base, size, &handle);
    say(sock, &handle, sizeof(handle));
    say(sock, &self, sizeof(self));
    if (death == DEATH_CHILD && fork() == 0) {
        /* Holds whatever a fork leaves open for longer than the test waits. */
        close(sock);
        poll(NULL, 0, 3000);
        _exit(0);
    }
    meet(sock);
    if (death == DEATH_STOP) {
        kill(self, SIGSTOP);
    }
    if (death == DEATH_EXIT) {
        exit(0);
    }
    kill(self, SIGKILL);
}

static void death_importer(int sock, const void *arg)
{
    enum death          death  = *(const enum death *)arg;
    struct holdings     before = hold();
    ze_ipc_mem_handle_t handle;
    uint64_t            start;
    pid_t               exporter;
    void               *ptr = &handle;
    ze_result_t         result;

    hear(sock, &handle, sizeof(handle));
    hear(sock, &exporter, sizeof(exporter));
    meet(sock);
    if (death == DEATH_STOP) {
        poll(NULL, 0, 100); /* the stop is under way */
    } else {
        wait_for_death(sock);
    }
    start  = zr_time_ns();
    result = zr_ipc_open(test_device(), &handle, &ptr);
    kill(exporter, SIGKILL);
    CHECK(result == ZE_RESULT_ERROR_UNKNOWN && ptr == &handle);
    CHECK(zr_time_ns() - start < UINT64_C(1000000) * (death == DEATH_STOP ? 8000 : 2000));
    CHECK(strstr(zr_last_error(), "pidfd: ") != NULL && strstr(zr_last_error(), "socket: ") != NULL);
    check_holdings(before);
}

/* ---- hostile clients of the broker ---- */

static void hostile_exporter(int sock, const void *arg)
{
    struct holdings     before = hold();
    ze_ipc_mem_handle_t handle;
    size_t              size;
    char               *base = make_range(300, &size);

    export_range(base, size, &handle);
    say(sock, &handle, sizeof(handle));
    meet(sock);
    OK(zr_ipc_put(&handle));
    free_range(base, size);
    check_holdings(before);
}

static void hostile_importer(int sock, const void *arg)
{
    struct zr_broker_request request = {
        .magic = ZR_BROKER_MAGIC, .version = ZR_WIRE_VERSION, .what = ZR_BROKER_OBJECTS};
    struct sockaddr_un       address;
    ze_ipc_mem_handle_t      handle;
    struct zr_handle         h;
    socklen_t                length;
    char                     big[4096] = {0};
    unsigned                 i;
    void                    *ptr;
    int                      fds[100];

    hear(sock, &handle, sizeof(handle));
    memcpy(&h, &handle, sizeof(h));
    length = zr_broker_address(h.process_id, &address);
    /* More silent, babbling and never reading peers than there are places. */
    for (i = 0; i < ZR_ARRAY_SIZE(fds); ++i) {
        fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        CHECK(connect(fds[i], (struct sockaddr *)&address, length) == 0);
        request.export_id = h.export_id;
        request.first     = i;
        request.count     = (i % 5 == 1) ? 0x40000000 : 100;
        memcpy(request.secret, h.secret, sizeof(h.secret));
        if (i % 3 == 1) {
            send(fds[i], big, i * 40, MSG_NOSIGNAL);
        }
        if (i % 3 == 2) {
            unsigned k;

            for (k = 0; k < 50; ++k) {
                send(fds[i], &request, sizeof(request), MSG_NOSIGNAL | MSG_DONTWAIT);
            }
        }
    }
    OK(zr_ipc_open(test_device(), &handle, &ptr));
    OK(zr_ipc_close(ptr));
    for (i = 0; i < ZR_ARRAY_SIZE(fds); ++i) {
        close(fds[i]);
    }
    meet(sock);
}

/* ---- tables ---- */

#define FIELD(f)  offsetof(struct zr_table_header, f), sizeof(((struct zr_table_header *)0)->f)
#define ENTRY(f)                                                                              \
    sizeof(struct zr_table_header) + sizeof(struct zr_table_entry) +                          \
        offsetof(struct zr_table_entry, f), sizeof(((struct zr_table_entry *)0)->f)

static int check_tables(void)
{
    static const struct {
        const char *name;
        size_t      offset, width;
        uint64_t    value;
        bool        good;
        uint64_t    size; /* of the entry's object, if not 0 */
    } cases[] = {
        {"as made", 0, 0, 0, true},
        {"magic", FIELD(magic), 0, false},
        {"version", FIELD(version), 2, false},
        {"no entries", FIELD(count), 0, false},
        {"fewer entries", FIELD(count), 2, false},
        {"more entries", FIELD(count), 4, false},
        {"very many entries", FIELD(count), UINT32_MAX, false},
        {"entry size", FIELD(entry_size), 8, false},
        {"shorter", FIELD(length), 3 * PAGE - 1, false},
        {"longer", FIELD(length), 3 * PAGE + 1, false},
        {"lead in the page", FIELD(lead), PAGE - 1, true},
        {"lead beyond", FIELD(lead), PAGE, false},
        {"object cut", ENTRY(size), 2 * PAGE - 1, false},
        {"offset beyond", ENTRY(offset), PAGE + 1, false},
        {"offset wraps", ENTRY(offset), UINT64_MAX, false},
        {"offset and length wrap", ENTRY(offset), UINT64_MAX - 4095, false, UINT64_MAX},
        {"empty entry", ENTRY(length), 0, false},
        {"length wraps", ENTRY(length), UINT64_MAX - PAGE + 1, false},
        {"flags", ENTRY(flags), 2, false},
        {"fd", ENTRY(fd), (uint32_t)-2, false},
        {"zero", ENTRY(zero), 1, false},
    };
    struct {
        struct zr_table_header header;
        struct zr_table_entry  entries[3];
    } table;
    unsigned i;
    int      failed = 0;

    for (i = 0; i < ZR_ARRAY_SIZE(cases); ++i) {
        unsigned    k;
        const char *wrong;

        memset(&table, 0, sizeof(table));
        table.header = (struct zr_table_header){.magic      = ZR_TABLE_MAGIC,
                                                .version    = ZR_WIRE_VERSION,
                                                .count      = 3,
                                                .entry_size = sizeof(struct zr_table_entry),
                                                .length     = 3 * PAGE};
        for (k = 0; k < 3; ++k) {
            table.entries[k] = (struct zr_table_entry){
                .object_id = k + 1, .size = 2 * PAGE, .offset = PAGE, .length = PAGE, .fd = -1};
        }
        if (cases[i].size != 0) {
            table.entries[1].size = cases[i].size;
        }
        memcpy((char *)&table + cases[i].offset, &cases[i].value, cases[i].width);
        wrong = zr_table_check(&table, sizeof(table));
        if ((wrong == NULL) != cases[i].good) {
            printf("FAIL table, %s: %s\n", cases[i].name, (wrong == NULL) ? "accepted" : wrong);
            failed = 1;
        }
    }
    for (i = 0; i < sizeof(table); ++i) {
        if (zr_table_check(&table, i) == NULL) {
            printf("FAIL table of %u bytes accepted\n", i);
            failed = 1;
        }
    }
    return failed;
}

/* Only a memfd that nobody can change any more is a table. */
static int check_seals(void)
{
    static const int seals[] = {0, F_SEAL_WRITE, F_SEAL_WRITE | F_SEAL_SHRINK,
                                F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW};
    struct zr_table_header header = {0};
    struct zr_table        table;
    unsigned               i;
    int                    failed = 0, fd;

    for (i = 0; i < ZR_ARRAY_SIZE(seals); ++i) {
        const char *wrong;

        fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (write(fd, &header, sizeof(header)) < 0 || fcntl(fd, F_ADD_SEALS, seals[i]) != 0) {
            return 1;
        }
        wrong = zr_table_open(fd, &table);
        if (wrong == NULL || strcmp(wrong, "not a sealed memfd") != 0) {
            printf("FAIL table with seals %d: %s\n", seals[i], wrong == NULL ? "opened" : wrong);
            failed = 1;
        }
        close(fd);
    }
    return failed;
}

int main(void)
{
    static const enum death  deaths[]      = {DEATH_KILL, DEATH_STOP, DEATH_CHILD, DEATH_EXIT};
    static const char *const death_names[] = {"killed", "stopped", "killed, a child lives",
                                              "exited"};
    unsigned i;
    char     name[100];
    int      failed = check_tables() | check_seals();

    setenv("ZERANGE_DEVICE_CPU_ACCESS", "1", 1);
    limit_fds();
    failed |= run_scenario(&(struct scenario){"damaged handles", damage_exporter, damage_importer,
                                              NULL, "socket"});
    for (i = 0; i < ZR_ARRAY_SIZE(deaths); ++i) {
        snprintf(name, sizeof(name), "exporter %s", death_names[i]);
        failed |= run_scenario(&(struct scenario){name, death_exporter, death_importer, &deaths[i],
                                                  (deaths[i] == DEATH_STOP) ? "socket" : "auto"});
    }
    failed |= run_scenario(&(struct scenario){"hostile clients", hostile_exporter,
                                              hostile_importer, NULL, "socket"});
    return failed;
}
