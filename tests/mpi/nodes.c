/* Every pair of ranks of several hosts exchanges device buffers of many objects, every byte is
 * checked; a handle opens on its own host only; collectives of all of them.
 *
 * usage: nodes HOSTS RANKS-A-HOST [WORD...]
 *   device  messages between device buffers and nothing else, so that UCX reports no other lanes
 *   reduce  reductions too; with Open MPI they need the components
 *   only    the collectives that are named, nothing else */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "devmem.h"

#include "zerange/zerange.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#define ROOM  ((size_t)2 << 20)
#define GUARD 0xa5

static int   rank, ranks, hosts, each;
static char (*names)[MPI_MAX_PROCESSOR_NAME];
static long  wrong;
static void *memory[2][3]; /* to send, to receive; of each place */

static bool near(int peer)
{
    return strcmp(names[rank], names[peer]) == 0;
}

static uint8_t byte_at(int from, int to, size_t size, size_t k)
{
    uint32_t x = (uint32_t)k * 2654435761u + (uint32_t)(from * 131 + to * 17) + (uint32_t)size;

    return (uint8_t)(x >> 24 ^ x >> 11);
}

static void complain(const char *what, int peer, size_t size)
{
    printf("rank %d (%s): %s, rank %d (%s), %zu bytes\n", rank, names[rank], what, peer,
           names[peer], size);
    fflush(stdout);
    wrong++;
}

static bool asked(char **words, const char *word)
{
    while (*words != NULL && strcmp(*words, word) != 0) {
        words++;
    }
    return *words != NULL;
}

/* ---- messages ---- */

static const struct {
    enum place from, to;
    size_t     size, from_offset, to_offset;
} messages[] = {
    {RANGE, RANGE, 1, 0, 1},
    {RANGE, RANGE, 4099, 65530, 3},
    {RANGE, RANGE, 65541, 7, 65533},
    {RANGE, RANGE, 1048579, 131, 65535},
    {RANGE, RANGE, 2000000, 4096, 77},
    {DEVICE, DEVICE, 1 << 20, 0, 0},
    {RANGE, HOST, 700001, 5, 0},
    {HOST, RANGE, 700001, 0, 5},
};

static void exchange(unsigned m, int to, int from, uint8_t *host)
{
    size_t   size = messages[m].size, at = messages[m].to_offset, k;
    uint8_t *send = (uint8_t *)memory[0][messages[m].from] + messages[m].from_offset;
    uint8_t *recv = memory[1][messages[m].to];

    for (k = 0; k < size; k++) {
        host[k] = byte_at(rank, to, size, k);
    }
    devmem_copy(send, host, size);
    memset(host, GUARD, ROOM);
    devmem_copy(recv, host, ROOM);
    MPI_Sendrecv(send, (int)size, MPI_BYTE, to, (int)m, recv + at, (int)size, MPI_BYTE, from,
                 (int)m, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    devmem_copy(host, recv, ROOM);
    for (k = 0; k < ROOM; k++) {
        uint8_t want = k < at || k >= at + size ? GUARD : byte_at(from, rank, size, k - at);

        if (host[k] != want) {
            complain("a wrong byte from", from, size);
            return;
        }
    }
}

/* ---- handles ---- */

/* Handles of a rank: of an allocation and of a range. */
struct handles {
    ze_ipc_mem_handle_t of[2];
};

static struct handles export_handles(uint8_t *host)
{
    ze_ipc_phys_mem_handle_range_ext_desc_t range = {
        .stype = ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC, .size = ROOM};
    struct handles own;

    memset(host, rank, ROOM);
    devmem_copy(memory[0][DEVICE], host, ROOM);
    devmem_copy(memory[0][RANGE], host, ROOM);
    ZE(zeMemGetIpcHandle(devmem.context, memory[0][DEVICE], &own.of[0]));
    ZE(zeMemGetIpcHandleWithProperties(devmem.context, memory[0][RANGE], &range, &own.of[1]));
    return own;
}

static void open_handle(ze_driver_handle_t driver, ze_ipc_mem_handle_t handle, bool of_range,
                        int owner, uint8_t *host)
{
    void       *ptr  = NULL;
    const char *text = "";
    ze_result_t result;

    result = zeMemOpenIpcHandle(devmem.context, devmem.device, handle, 0, &ptr);
    if (result != ZE_RESULT_SUCCESS) {
        zeDriverGetLastErrorDescription(driver, &text);
    }
    if (!near(owner)) {
        if (result == ZE_RESULT_SUCCESS || (of_range && strstr(text, "another machine") == NULL)) {
            printf("0x%x \"%s\"\n", (unsigned)result, text);
            complain("a handle of another host was not refused as such", owner, 0);
        }
        return;
    }
    if (result != ZE_RESULT_SUCCESS) {
        printf("0x%x \"%s\"\n", (unsigned)result, text);
        complain("a handle of this host does not open", owner, 0);
        return;
    }
    devmem_copy(host, ptr, ROOM);
    if (host[0] != (uint8_t)owner || memcmp(host, host + 1, ROOM - 1) != 0) {
        complain("a handle shows other bytes", owner, ROOM);
    }
    ZE(zeMemCloseIpcHandle(devmem.context, ptr));
}

static void handles(uint8_t *host)
{
    struct handles     *all = calloc((size_t)ranks, sizeof(*all)), own = export_handles(host);
    ze_driver_handle_t  driver;
    uint32_t            one = 1;
    int                 k, of;

    ZE(zeDriverGet(&one, &driver));
    MPI_Allgather(&own, sizeof(own), MPI_BYTE, all, sizeof(own), MPI_BYTE, MPI_COMM_WORLD);
    for (k = 0; k < ranks; k++) {
        for (of = 0; of < 2 && k != rank; of++) {
            open_handle(driver, all[k].of[of], of == 1, k, host);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (of = 0; of < 2; of++) {
        ZE(zeMemPutIpcHandle(devmem.context, own.of[of]));
    }
    free(all);
}

/* ---- collectives ---- */

enum { BCAST, ALLGATHER, ALLTOALL, GATHER, SCATTER, ALLREDUCE, REDUCE_SCATTER, SCAN };

static const struct {
    const char *name;
    bool        reduces; /* which Open MPI needs our components for */
    bool        sends_all, receives_all; /* a block for, or from, each rank */
} collectives[] = {
    [BCAST]          = {"bcast", false, false, false},
    [ALLGATHER]      = {"allgather", false, false, true},
    [ALLTOALL]       = {"alltoall", false, true, true},
    [GATHER]         = {"gather", false, false, true},
    [SCATTER]        = {"scatter", false, true, false},
    [ALLREDUCE]      = {"allreduce", true, false, false},
    [REDUCE_SCATTER] = {"reduce_scatter_block", true, true, false},
    [SCAN]           = {"scan", true, false, false},
};

#define BLOCK 30001 /* elements; a block for each of 16 ranks fits */

static int sent(int from, int block, int k)
{
    return from * 7 + block * 1001 + k % 97;
}

static int expected(int c, int block, int k)
{
    int last = c == SCAN ? rank : ranks - 1, mine = c == REDUCE_SCATTER ? rank : 0, sum = 0, from;

    switch (c) {
    case BCAST:
        return sent(1, 0, k);
    case ALLGATHER:
    case GATHER:
        return sent(block, 0, k);
    case ALLTOALL:
        return sent(block, rank, k);
    case SCATTER:
        return sent(1, rank, k);
    default:
        for (from = 0; from <= last; from++) {
            sum += sent(from, mine, k);
        }
        return sum;
    }
}

static void call(int c, int *send, int *recv)
{
    MPI_Comm w = MPI_COMM_WORLD;

    switch (c) {
    case BCAST:
        devmem_copy(recv, send, BLOCK * sizeof(int));
        MPI_Bcast(recv, BLOCK, MPI_INT, 1, w);
        break;
    case ALLGATHER:
        MPI_Allgather(send, BLOCK, MPI_INT, recv, BLOCK, MPI_INT, w);
        break;
    case ALLTOALL:
        MPI_Alltoall(send, BLOCK, MPI_INT, recv, BLOCK, MPI_INT, w);
        break;
    case GATHER:
        MPI_Gather(send, BLOCK, MPI_INT, recv, BLOCK, MPI_INT, 1, w);
        break;
    case SCATTER:
        MPI_Scatter(send, BLOCK, MPI_INT, recv, BLOCK, MPI_INT, 1, w);
        break;
    case ALLREDUCE:
        MPI_Allreduce(send, recv, BLOCK, MPI_INT, MPI_SUM, w);
        break;
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(send, recv, BLOCK, MPI_INT, MPI_SUM, w);
        break;
    case SCAN:
        MPI_Scan(send, recv, BLOCK, MPI_INT, MPI_SUM, w);
        break;
    }
}

/* Over ranges; root is 1. @return how many were run */
static int run_collectives(char **words, int *host)
{
    bool reduction = asked(words, "reduce"), only = asked(words, "only");
    int  c, k, done = 0;

    for (c = 0; c < (int)(sizeof(collectives) / sizeof(collectives[0])); c++) {
        int sends    = collectives[c].sends_all ? ranks : 1;
        int receives = collectives[c].receives_all ? ranks : 1;

        if ((only && !asked(words, collectives[c].name)) ||
            (!only && collectives[c].reduces && !reduction)) {
            continue;
        }
        for (k = 0; k < sends * BLOCK; k++) {
            host[k] = sent(rank, k / BLOCK, k % BLOCK);
        }
        devmem_copy(memory[0][RANGE], host, (size_t)sends * BLOCK * sizeof(int));
        call(c, memory[0][RANGE], memory[1][RANGE]);
        devmem_copy(host, memory[1][RANGE], (size_t)receives * BLOCK * sizeof(int));
        for (k = 0; k < receives * BLOCK && (c != GATHER || rank == 1); k++) {
            if (host[k] != expected(c, k / BLOCK, k % BLOCK)) {
                complain(collectives[c].name, rank, (size_t)k * sizeof(int));
                break;
            }
        }
        done++;
    }
    return done;
}

/* Ranks are where they were asked for; else nothing below means anything. */
static void places(void)
{
    int length, k, close = 0;

    names = calloc((size_t)ranks, sizeof(*names));
    MPI_Get_processor_name(names[rank], &length);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, names, sizeof(*names), MPI_BYTE,
                  MPI_COMM_WORLD);
    for (k = 0; k < ranks; k++) {
        close += near(k);
    }
    if (ranks != hosts * each || close != each) {
        printf("rank %d: %d ranks, %d of them on %s; asked for %d hosts of %d\n", rank, ranks,
               close, names[rank], hosts, each);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    bool     device;
    long     count[2] = {0, 0}, all[2], all_wrong;
    uint8_t *host;
    unsigned m;
    int      place, step, done;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    hosts = argc > 1 ? atoi(argv[1]) : 1;
    each  = argc > 2 ? atoi(argv[2]) : ranks;
    device = asked(argv, "device");
    places();
    devmem_open();
    for (place = HOST; place <= RANGE; place++) {
        memory[0][place] = devmem_alloc((enum place)place, ROOM);
        memory[1][place] = devmem_alloc((enum place)place, ROOM);
    }
    host = malloc(ROOM);
    for (m = 0; m < sizeof(messages) / sizeof(messages[0]); m++) {
        if (asked(argv, "only") ||
            (device && (messages[m].from == HOST || messages[m].to == HOST))) {
            continue;
        }
        for (step = 1; step < ranks; step++) {
            int from = (rank + ranks - step) % ranks;

            exchange(m, (rank + step) % ranks, from, host);
            count[near(from)]++;
        }
    }
    if (!asked(argv, "only")) {
        handles(host);
    }
    done = device ? 0 : run_collectives(argv, (int *)host);
    MPI_Reduce(count, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("case: %d hosts of %d ranks: %ld messages within a host, %ld between hosts, "
               "%d collectives, %ld wrong\n", hosts, each, all[1], all[0], done, all_wrong);
    }
    MPI_Finalize();
    return all_wrong != 0;
}
