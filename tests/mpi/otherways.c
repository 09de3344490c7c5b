/* Point-to-point communication in its less common forms, between host memory, one device allocation and
 * ranges of many objects: partitioned, matched probe, Sendrecv_replace, persistent, and several threads
 * of a rank at once. Every byte is compared. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "devmem.h"

#define PARTS   8
#define THREADS 4
#define ROUNDS  6

static const size_t sizes[] = {8, 4096, 65536 + 8, 512 * 1024 + 24}; /* the last: nine objects */
#define LARGEST (512 * 1024 + 24)

static int  rank, ranks, to, from;
static long cases, wrong;

struct lane { /* what a thread uses */
    MPI_Comm                 comm;
    ze_command_list_handle_t list;
    char                    *send, *recv, *host;
    bool                     bad;
};

static void copy(const struct lane *lane, void *dst, const void *src, size_t size)
{
    ZE(zeCommandListAppendMemoryCopy(lane->list, dst, src, size, NULL, 0, NULL));
}

static char byte(size_t k, int of, int salt)
{
    return (char)(k * 131 + (k >> 8) + (size_t)of * 17 + (size_t)salt * 5);
}

static void fill(const struct lane *lane, char *memory, size_t size, int of, int salt)
{
    size_t k;

    for (k = 0; k < size; k++) {
        lane->host[k] = byte(k, of, salt);
    }
    copy(lane, memory, lane->host, size);
}

static bool holds(const struct lane *lane, const char *memory, size_t size, int of, int salt)
{
    size_t k;

    copy(lane, lane->host, memory, size);
    for (k = 0; k < size && lane->host[k] == byte(k, of, salt); k++) {
    }
    return k == size;
}

/* ---- forms ---- */

static void sendrecv_replace(struct lane *lane, size_t size)
{
    fill(lane, lane->recv, size, rank, 1);
    MPI_Sendrecv_replace(lane->recv, (int)size, MPI_BYTE, to, 1, from, 1, lane->comm,
                         MPI_STATUS_IGNORE);
    lane->bad |= !holds(lane, lane->recv, size, from, 1);
}

static void mprobe(struct lane *lane, size_t size)
{
    MPI_Request request;
    MPI_Message message;
    MPI_Status  status;
    int         count;

    MPI_Isend(lane->send, (int)size, MPI_BYTE, to, 2, lane->comm, &request);
    MPI_Mprobe(from, 2, lane->comm, &message, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    lane->bad |= (size_t)count != size;
    MPI_Mrecv(lane->recv, (int)size, MPI_BYTE, &message, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void improbe(struct lane *lane, size_t size)
{
    MPI_Request requests[2];
    MPI_Message message;
    int         flag = 0;

    MPI_Isend(lane->send, (int)size, MPI_BYTE, to, 3, lane->comm, &requests[0]);
    while (!flag) {
        MPI_Improbe(MPI_ANY_SOURCE, 3, lane->comm, &flag, &message, MPI_STATUS_IGNORE);
    }
    MPI_Imrecv(lane->recv, (int)size, MPI_BYTE, &message, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void persistent(struct lane *lane, size_t size)
{
    MPI_Request requests[2];
    int         k;

    MPI_Send_init(lane->send, (int)size, MPI_BYTE, to, 4, lane->comm, &requests[0]);
    MPI_Recv_init(lane->recv, (int)size, MPI_BYTE, from, 4, lane->comm, &requests[1]);
    for (k = 0; k < 3; k++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* The parts are made ready out of order. */
static void partitioned(struct lane *lane, size_t size)
{
    MPI_Request requests[2];
    MPI_Count   part = (MPI_Count)(size / PARTS);
    int         round, k;

    MPI_Psend_init(lane->send, PARTS, part, MPI_BYTE, to, 5, lane->comm, MPI_INFO_NULL,
                   &requests[0]);
    MPI_Precv_init(lane->recv, PARTS, part, MPI_BYTE, from, 5, lane->comm, MPI_INFO_NULL,
                   &requests[1]);
    for (round = 0; round < 2; round++) {
        MPI_Startall(2, requests);
        for (k = 0; k < PARTS; k++) {
            MPI_Pready((k * 3 + 1) % PARTS, requests[0]);
        }
        for (k = 0; k < PARTS; k++) {
            int flag = 0;

            while (!flag) {
                MPI_Parrived(requests[1], k, &flag);
            }
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static const struct form {
    const char *name;
    void (*run)(struct lane *lane, size_t size);
    bool replaces; /* checks by itself */
    bool parts;    /* sends whole parts */
    bool threads;  /* several threads at once may use it */
} forms[] = {
    {"Sendrecv_replace", sendrecv_replace, true, false, true},
    {"Mprobe and Mrecv", mprobe, false, false, true},
    {"Improbe and Imrecv", improbe, false, false, true},
    {"persistent", persistent, false, false, true},
    {"partitioned", partitioned, false, true, false},
};
#define FORMS (sizeof(forms) / sizeof(forms[0]))

static void once(struct lane *lane, const struct form *form, size_t size)
{
    size_t sent = form->parts ? size / PARTS * PARTS : size;

    fill(lane, lane->send, sent, rank, 1);
    if (!form->replaces) {
        fill(lane, lane->recv, sent, rank, 2);
    }
    form->run(lane, size);
    if (!form->replaces) {
        lane->bad |= !holds(lane, lane->recv, sent, from, 1);
    }
}

static void verdict(const char *form, const char *kind, size_t size, bool bad)
{
    int mine = bad, any;

    MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    cases++;
    wrong += any != 0;
    if (rank == 0) {
        printf("case: %s, %s, %zu bytes: %s\n", form, kind, size, any == 0 ? "right" : "WRONG");
        fflush(stdout);
    }
}

/* ---- threads ---- */

static void *thread(void *arg)
{
    struct lane *lane = arg;
    size_t       k, s;
    int          round;

    for (round = 0; round < ROUNDS; round++) {
        for (k = 0; k < FORMS; k++) {
            for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
                if (forms[k].threads) {
                    once(lane, &forms[k], sizes[s]);
                }
            }
        }
    }
    return NULL;
}

static void lane_open(struct lane *lane, enum place sent, enum place received)
{
    ze_command_queue_desc_t queue = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                     .mode  = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS};

    MPI_Comm_dup(MPI_COMM_WORLD, &lane->comm);
    ZE(zeCommandListCreateImmediate(devmem.context, devmem.device, &queue, &lane->list));
    lane->send = devmem_alloc(sent, LARGEST);
    lane->recv = devmem_alloc(received, LARGEST);
    lane->host = malloc(LARGEST);
    lane->bad  = false;
}

static void lane_close(struct lane *lane)
{
    MPI_Comm_free(&lane->comm);
    zeCommandListDestroy(lane->list);
    free(lane->host);
}

int main(int argc, char **argv)
{
    static const struct {
        enum place sent, received;
    } kinds[] = {{RANGE, RANGE}, {DEVICE, RANGE}, {HOST, RANGE}, {RANGE, HOST}};
    struct lane lanes[THREADS];
    pthread_t   threads[THREADS];
    char        kind[40];
    size_t      k, f, s;
    bool        bad = false;
    int         provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    to   = (rank + 1) % ranks;
    from = (rank + ranks - 1) % ranks;
    devmem_open();
    for (k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        lane_open(&lanes[0], kinds[k].sent, kinds[k].received);
        snprintf(kind, sizeof(kind), "%s to %s", place_names[kinds[k].sent],
                 place_names[kinds[k].received]);
        for (f = 0; f < FORMS; f++) {
            for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
                lanes[0].bad = false;
                once(&lanes[0], &forms[f], sizes[s]);
                verdict(forms[f].name, kind, sizes[s], lanes[0].bad);
            }
        }
        lane_close(&lanes[0]);
    }
    verdict("MPI_THREAD_MULTIPLE", "is provided", 0, provided != MPI_THREAD_MULTIPLE);
    for (k = 0; k < THREADS && provided == MPI_THREAD_MULTIPLE; k++) {
        lane_open(&lanes[k], k % 2 == 0 ? RANGE : DEVICE, RANGE);
    }
    for (k = 0; k < THREADS && provided == MPI_THREAD_MULTIPLE; k++) {
        pthread_create(&threads[k], NULL, thread, &lanes[k]);
    }
    for (k = 0; k < THREADS && provided == MPI_THREAD_MULTIPLE; k++) {
        pthread_join(threads[k], NULL);
        bad |= lanes[k].bad;
        lane_close(&lanes[k]);
    }
    snprintf(kind, sizeof(kind), "%d threads a rank", THREADS);
    verdict("all but partitioned at once", kind, LARGEST, bad);
    if (rank == 0) {
        printf("case: other ways, %d ranks: %ld cases, %ld wrong\n", ranks, cases, wrong);
    }
    MPI_Finalize();
    return wrong != 0;
}
