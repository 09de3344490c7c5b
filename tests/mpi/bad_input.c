/* Memory that is not there, given to MPI: each call returns an error of a class that fits, with a text
 * that names the address and what is mapped, and afterwards MPI works as before. One case a run, as an
 * error may leave its communicator unusable: bad_input N, or bad_input for the number of cases. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "devmem.h"

#define SIZE (192 * 1024) /* three objects */

/* What is wrong with the memory. */
enum wrong {
    FREED_DEVICE,  /* zeMemFree */
    FREED_RANGE,   /* all objects unmapped, the reservation freed */
    UNMAPPED,      /* all objects unmapped, the reservation kept */
    NEVER_MAPPED,  /* reserved only */
    HOLE,          /* the second of three objects unmapped */
    SHORT_RANGE,   /* the last object unmapped */
    SHORT_DEVICE,  /* an allocation of a third of the size */
    WRONGS
};

static const char *const wrong_names[WRONGS] = {
    "freed allocation",      "freed range",           "unmapped range",   "reserved range",
    "range with a hole",     "range that ends early", "allocation that ends early"};

/* What the text must say beside the address. */
static const char *const wrong_texts[WRONGS] = {
    "was freed or unmapped", "was freed or unmapped", "was freed or unmapped",
    "nothing is mapped",     "unmapped from",         "unmapped from", "from"};

static int      rank, ranks, peer;
static char    *fine; /* a range of SIZE bytes */
static MPI_Comm comm;
static MPI_Win  window;

static char *make(enum wrong wrong)
{
    ze_device_mem_alloc_desc_t alloc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_physical_mem_desc_t     desc  = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                        .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE,
                                        .size  = SIZE / 3};
    ze_physical_mem_handle_t   object[3];
    size_t                     part = SIZE / 3;
    void                      *ptr;
    int                        k;

    if (wrong == FREED_DEVICE || wrong == SHORT_DEVICE) {
        ZE(zeMemAllocDevice(devmem.context, &alloc, wrong == FREED_DEVICE ? SIZE : part, 64,
                            devmem.device, &ptr));
        if (wrong == FREED_DEVICE) {
            ZE(zeMemFree(devmem.context, ptr));
        }
        return ptr;
    }
    ZE(zeVirtualMemReserve(devmem.context, NULL, SIZE, &ptr));
    for (k = 0; k < 3 && wrong != NEVER_MAPPED; k++) {
        ZE(zePhysicalMemCreate(devmem.context, devmem.device, &desc, &object[k]));
        ZE(zeVirtualMemMap(devmem.context, (char *)ptr + k * part, part, object[k], 0,
                           ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE));
    }
    for (k = 0; k < 3; k++) {
        if (wrong == FREED_RANGE || wrong == UNMAPPED || (wrong == HOLE && k == 1) ||
            (wrong == SHORT_RANGE && k == 2)) {
            ZE(zeVirtualMemUnmap(devmem.context, (char *)ptr + k * part, part));
        }
    }
    if (wrong == FREED_RANGE) {
        ZE(zeVirtualMemFree(devmem.context, ptr, SIZE));
    }
    return ptr;
}

/* ---- calls ---- */

static MPI_Request request;

static int call_send(void *bad) { return MPI_Send(bad, SIZE, MPI_BYTE, peer, 0, comm); }
static int call_isend(void *bad) { return MPI_Isend(bad, SIZE, MPI_BYTE, peer, 0, comm, &request); }
static int call_ssend(void *bad) { return MPI_Ssend(bad, SIZE, MPI_BYTE, peer, 0, comm); }
static int call_recv(void *bad)
{
    return MPI_Recv(bad, SIZE, MPI_BYTE, peer, 0, comm, MPI_STATUS_IGNORE);
}
static int call_irecv(void *bad) { return MPI_Irecv(bad, SIZE, MPI_BYTE, peer, 0, comm, &request); }
static int call_sendrecv(void *bad)
{
    return MPI_Sendrecv(bad, SIZE, MPI_BYTE, peer, 0, fine, SIZE, MPI_BYTE, peer, 1, comm,
                        MPI_STATUS_IGNORE);
}
static int call_send_init(void *bad)
{
    return MPI_Send_init(bad, SIZE, MPI_BYTE, peer, 0, comm, &request);
}
static int call_recv_init(void *bad)
{
    return MPI_Recv_init(bad, SIZE, MPI_BYTE, peer, 0, comm, &request);
}
static int call_vector(void *bad) /* whose last block alone is past the first third */
{
    MPI_Datatype type;
    int          rc;

    MPI_Type_vector(3, 16, SIZE / 3, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    rc = MPI_Send(bad, 1, type, peer, 0, comm);
    MPI_Type_free(&type);
    return rc;
}
static int call_put(void *bad)
{
    return MPI_Put(bad, SIZE, MPI_BYTE, peer, 0, SIZE, MPI_BYTE, window);
}
static int call_get(void *bad)
{
    return MPI_Get(bad, SIZE, MPI_BYTE, peer, 0, SIZE, MPI_BYTE, window);
}
static int call_rput(void *bad)
{
    return MPI_Rput(bad, SIZE, MPI_BYTE, peer, 0, SIZE, MPI_BYTE, window, &request);
}
static int call_accumulate(void *bad)
{
    return MPI_Accumulate(bad, SIZE / 4, MPI_INT, peer, 0, SIZE / 4, MPI_INT, MPI_SUM, window);
}
static int call_get_accumulate(void *bad)
{
    return MPI_Get_accumulate(fine, SIZE / 4, MPI_INT, bad, SIZE / 4, MPI_INT, peer, 0, SIZE / 4,
                              MPI_INT, MPI_SUM, window);
}
static int call_fetch_and_op(void *bad) /* the last word */
{
    return MPI_Fetch_and_op((char *)bad + SIZE - 4, fine, MPI_INT, peer, 0, MPI_SUM, window);
}
static int call_compare_and_swap(void *bad)
{
    return MPI_Compare_and_swap(fine, (char *)bad + SIZE - 4, fine + 8, MPI_INT, peer, 0, window);
}
static int call_win_create(void *bad)
{
    MPI_Win other;

    /* One rank's bad memory fails the window on all of them. */
    return MPI_Win_create(rank == 0 ? bad : fine, SIZE, 1, MPI_INFO_NULL, comm, &other);
}
static int call_win_attach(void *bad)
{
    MPI_Win other;
    int     rc;

    MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &other);
    MPI_Win_set_errhandler(other, MPI_ERRORS_RETURN);
    rc = MPI_Win_attach(other, bad, SIZE);
    MPI_Win_free(&other);
    return rc;
}

/* Collectives fail on all ranks alike: each has bad memory. Half of SIZE for each of two ranks. */
static char other_fine[SIZE];

static int call_bcast(void *bad) { return MPI_Bcast(bad, SIZE, MPI_BYTE, 0, comm); }
static int call_ibcast(void *bad) { return MPI_Ibcast(bad, SIZE, MPI_BYTE, 0, comm, &request); }
static int call_allreduce(void *bad)
{
    return MPI_Allreduce(bad, other_fine, SIZE / 4, MPI_INT, MPI_SUM, comm);
}
static int call_allreduce_in_place(void *bad)
{
    return MPI_Allreduce(MPI_IN_PLACE, bad, SIZE / 4, MPI_INT, MPI_SUM, comm);
}
static int call_iallreduce(void *bad)
{
    return MPI_Iallreduce(other_fine, bad, SIZE / 4, MPI_INT, MPI_SUM, comm, &request);
}
static int call_reduce_scatter(void *bad)
{
    return MPI_Reduce_scatter_block(bad, other_fine, SIZE / 8, MPI_INT, MPI_SUM, comm);
}
static int call_scan(void *bad) { return MPI_Scan(bad, other_fine, SIZE / 4, MPI_INT, MPI_SUM, comm); }
static int call_allgather(void *bad)
{
    return MPI_Allgather(other_fine, SIZE / 2, MPI_BYTE, bad, SIZE / 2, MPI_BYTE, comm);
}
static int call_allgatherv(void *bad)
{
    int counts[2] = {SIZE / 2, SIZE / 2}, disps[2] = {SIZE / 2, 0};

    return MPI_Allgatherv(other_fine, SIZE / 2, MPI_BYTE, bad, counts, disps, MPI_BYTE, comm);
}
static int call_alltoall(void *bad)
{
    return MPI_Alltoall(bad, SIZE / 2, MPI_BYTE, other_fine, SIZE / 2, MPI_BYTE, comm);
}
static int call_alltoallw(void *bad)
{
    int          counts[2] = {SIZE / 2, SIZE / 2}, disps[2] = {0, SIZE / 2};
    MPI_Datatype types[2] = {MPI_BYTE, MPI_BYTE};

    return MPI_Alltoallw(bad, counts, disps, types, other_fine, counts, disps, types, comm);
}
static int call_gather(void *bad)
{
    return MPI_Gather(bad, SIZE, MPI_BYTE, fine, SIZE / 2, MPI_BYTE, 1, comm);
}
static int call_scatter(void *bad)
{
    return MPI_Scatter(other_fine, SIZE / 2, MPI_BYTE, bad, SIZE, MPI_BYTE, 1, comm);
}

/* Who has the bad memory: rank 0, or all. */
static const struct call {
    const char *name;
    int (*run)(void *bad);
    bool word; /* looks at the last word alone */
    bool vector; /* three blocks, a third of the size apart */
    bool all;  /* every rank calls, and every one fails */
} calls[] = {
    {"MPI_Send", call_send, false, false, false},
    {"MPI_Isend", call_isend, false, false, false},
    {"MPI_Ssend", call_ssend, false, false, false},
    {"MPI_Recv", call_recv, false, false, false},
    {"MPI_Irecv", call_irecv, false, false, false},
    {"MPI_Sendrecv", call_sendrecv, false, false, false},
    {"MPI_Send_init", call_send_init, false, false, false},
    {"MPI_Recv_init", call_recv_init, false, false, false},
    {"MPI_Send of a vector", call_vector, false, true, false},
    {"MPI_Put", call_put, false, false, false},
    {"MPI_Get", call_get, false, false, false},
    {"MPI_Rput", call_rput, false, false, false},
    {"MPI_Accumulate", call_accumulate, false, false, false},
    {"MPI_Get_accumulate", call_get_accumulate, false, false, false},
    {"MPI_Fetch_and_op", call_fetch_and_op, true, false, false},
    {"MPI_Compare_and_swap", call_compare_and_swap, true, false, false},
    {"MPI_Win_attach", call_win_attach, false, false, true},
    {"MPI_Bcast", call_bcast, false, false, true},
    {"MPI_Ibcast", call_ibcast, false, false, true},
    {"MPI_Allreduce", call_allreduce, false, false, true},
    {"MPI_Allreduce in place", call_allreduce_in_place, false, false, true},
    {"MPI_Iallreduce", call_iallreduce, false, false, true},
    {"MPI_Reduce_scatter_block", call_reduce_scatter, false, false, true},
    {"MPI_Scan", call_scan, false, false, true},
    {"MPI_Allgather", call_allgather, false, false, true},
    {"MPI_Allgatherv", call_allgatherv, false, false, true},
    {"MPI_Alltoall", call_alltoall, false, false, true},
    {"MPI_Alltoallw", call_alltoallw, false, false, true},
    {"MPI_Gather", call_gather, false, false, true},
    {"MPI_Scatter", call_scatter, false, false, true},
    {"MPI_Win_create", call_win_create, false, false, true},
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static long cases, wrong_cases;

static void verdict(bool right, const char *call, const char *what, int class, const char *text)
{
    cases++;
    wrong_cases += !right;
    if (rank == 0) {
        printf("case: %s, %s: class %d, %s: %s\n", call, what, class, text,
               right ? "right" : "WRONG");
        fflush(stdout);
    }
}

static void check(const char *call, const char *what, int rc, int want, const char *must,
                  const void *address)
{
    char text[MPI_MAX_ERROR_STRING] = "", hex[32] = "";
    int  class                      = MPI_SUCCESS, length;

    MPI_Error_class(rc, &class);
    MPI_Error_string(rc, text, &length);
    if (address != NULL) {
        snprintf(hex, sizeof(hex), "%p", address);
    }
    verdict(class == want && strstr(text, must) != NULL && strstr(text, hex) != NULL, call, what,
            class, text);
}

/* MPI still works: a round in good memory, and the window. */
static void works(const char *after)
{
    static char to[SIZE], from[SIZE];
    int         rc;
    size_t      k;

    for (k = 0; k < SIZE; k++) {
        to[k] = (char)(k * 7 + (size_t)rank);
    }
    devmem_copy(fine, to, SIZE);
    rc = MPI_Sendrecv_replace(fine, SIZE, MPI_BYTE, peer, 9, peer, 9, comm, MPI_STATUS_IGNORE);
    devmem_copy(from, fine, SIZE);
    for (k = 0; k < SIZE && rc == MPI_SUCCESS; k++) {
        rc = from[k] == (char)(k * 7 + (size_t)peer) ? MPI_SUCCESS : MPI_ERR_OTHER;
    }
    if (rc != MPI_SUCCESS) {
        verdict(false, after, "MPI afterwards", rc, "does not work");
    }
}

/* The address that the text must have. */
static const char *first_bad(const struct call *call, enum wrong wrong, const char *bad)
{
    if (call->word) {
        return bad + SIZE - 4;
    }
    /* The first block in the order of ranks that is known not to be there. */
    if ((call->run == call_allgatherv && wrong != SHORT_DEVICE) ||
        (call->run == call_alltoallw && wrong == SHORT_RANGE)) {
        return bad + SIZE / 2;
    }
    if (call->vector && wrong >= HOLE) {
        return bad + SIZE / 3 * (wrong == SHORT_RANGE ? 2 : 1);
    }
    return bad;
}

static void all_calls(void)
{
    char  *bad;
    size_t k;
    int    wrong, rc;

    for (wrong = 0; wrong < WRONGS; wrong++) {
        for (k = 0; k < CALLS; k++) {
            /* The last word is outside of a hole, and behind a short allocation it is nobody's: no
             * one can tell it from memory of the host without asking the kernel each time. */
            if (calls[k].word && (wrong == HOLE || wrong == SHORT_DEVICE)) {
                continue;
            }
            MPI_Barrier(comm);
            if (rank == 0 || calls[k].all) {
                bad = make((enum wrong)wrong);
                rc  = calls[k].run(bad);
                if (rank == 0) {
                    /* For a new window MPI has no other class; the text is in the log. */
                    bool win = calls[k].run == call_win_create;

                    check(calls[k].name, wrong_names[wrong], rc, win ? MPI_ERR_WIN : MPI_ERR_BUFFER,
                          win ? "" :
                          (calls[k].word || calls[k].vector ||
                           calls[k].run == call_allgatherv) && wrong >= HOLE ?
                              "mapped" : wrong_texts[wrong],
                          win ? NULL : first_bad(&calls[k], (enum wrong)wrong, bad));
                } else if (rc == MPI_SUCCESS) {
                    verdict(false, calls[k].name, wrong_names[wrong], rc, "on another rank");
                }
            }
            works(calls[k].name);
        }
    }
}

/* ---- other ways to go wrong ---- */

static void past_the_window(void)
{
    static const struct {
        const char *name;
        MPI_Aint    disp;
        int         count;
    } past[] = {{"one byte past", 1, SIZE},
                {"far past", (MPI_Aint)1 << 40, 1},
                {"before", -1, 16},
                {"begins at the end", SIZE, 1}};
    char   text[64];
    size_t k;
    int    count;

    for (k = 0; k < sizeof(past) / sizeof(past[0]) && rank == 0; k++) {
        count = past[k].count;
        snprintf(text, sizeof(text), "the window of rank %d is %d bytes at", peer, SIZE);
        if (past[k].disp >= 0) { /* MPI itself refuses the other */
            check("MPI_Put", past[k].name,
                  MPI_Put(fine, count, MPI_BYTE, peer, past[k].disp, count, MPI_BYTE, window),
                  MPI_ERR_RMA_RANGE, text, NULL);
            check("MPI_Get", past[k].name,
                  MPI_Get(fine, count, MPI_BYTE, peer, past[k].disp, count, MPI_BYTE, window),
                  MPI_ERR_RMA_RANGE, text, NULL);
        }
    }
    if (rank == 0) {
        check("MPI_Fetch_and_op", "past the window",
              MPI_Fetch_and_op(fine, fine, MPI_INT, peer, SIZE - 2, MPI_SUM, window),
              MPI_ERR_RMA_RANGE, text, NULL);
    }
}

/* Persistent and partitioned requests over memory that goes away between starts. */
static void freed_between_starts(void)
{
    ze_device_mem_alloc_desc_t alloc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    MPI_Request                persistent;
    void                      *ptr;

    if (rank == 0) {
        ZE(zeMemAllocDevice(devmem.context, &alloc, SIZE, 64, devmem.device, &ptr));
        MPI_Send_init(ptr, SIZE, MPI_BYTE, peer, 3, comm, &persistent);
        MPI_Start(&persistent);
        MPI_Wait(&persistent, MPI_STATUS_IGNORE);
        ZE(zeMemFree(devmem.context, ptr));
        check("MPI_Start", "freed between two starts", MPI_Start(&persistent), MPI_ERR_BUFFER,
              "was freed or unmapped", ptr);
        MPI_Request_free(&persistent);
    } else if (rank == 1) {
        MPI_Recv(fine, SIZE, MPI_BYTE, peer, 3, comm, MPI_STATUS_IGNORE);
    }
}

/* What is legal must not be refused: a type with gaps over a range with a hole, memory of the host where
 * device memory was, host pointers where the others have device memory. */
static void what_is_fine(void)
{
    static char  host[SIZE];
    MPI_Datatype type;
    char        *hole = make(HOLE);

    MPI_Type_vector(2, SIZE / 3, SIZE / 3 * 2, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    if (rank == 0) {
        check("MPI_Send", "a type that steps over a hole", MPI_Send(hole, 1, type, peer, 4, comm),
              MPI_SUCCESS, "", NULL);
        check("MPI_Put", "a type that steps over a hole",
              MPI_Put(hole, 1, type, peer, 0, SIZE / 3 * 2, MPI_BYTE, window), MPI_SUCCESS, "",
              NULL);
        check("MPI_Win_flush", "after it", MPI_Win_flush(peer, window), MPI_SUCCESS, "", NULL);
        check("MPI_Send", "host memory to a range", MPI_Send(host, SIZE, MPI_BYTE, peer, 4, comm),
              MPI_SUCCESS, "", NULL);
        check("MPI_Put", "host memory to a range",
              MPI_Put(host, SIZE, MPI_BYTE, peer, 0, SIZE, MPI_BYTE, window), MPI_SUCCESS, "",
              NULL);
        check("MPI_Win_flush", "after it", MPI_Win_flush(peer, window), MPI_SUCCESS, "", NULL);
    } else if (rank == 1) {
        MPI_Recv(hole, 1, type, peer, 4, comm, MPI_STATUS_IGNORE);
        MPI_Recv(fine, SIZE, MPI_BYTE, peer, 4, comm, MPI_STATUS_IGNORE);
    }
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    int sum;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    peer = 1 - rank;
    devmem_open();
    fine = devmem_alloc(RANGE, SIZE);
    if (argc > 1 && strcmp(argv[1], "fatal") == 0) { /* the handler that MPI starts with */
        comm = MPI_COMM_WORLD;
        if (rank == 0) {
            call_send(make(FREED_RANGE));
        }
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Win_create(fine, SIZE, 1, MPI_INFO_NULL, comm, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, window);
    all_calls();
    past_the_window();
    freed_between_starts();
    what_is_fine();
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    works("everything");
    MPI_Allreduce(MPI_IN_PLACE, &wrong_cases, 1, MPI_LONG, MPI_SUM, comm);
    sum = wrong_cases != 0;
    if (rank == 0) {
        printf("case: bad input: %ld cases, %ld wrong\n", cases, wrong_cases);
    }
    MPI_Finalize();
    return sum;
}
