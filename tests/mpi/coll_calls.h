/* The collectives of MPI-3 in their three forms, as a table over the arguments of a run. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_TEST_COLL_CALLS_H
#define ZR_TEST_COLL_CALLS_H

#include <mpi.h>
#include <stdbool.h>

#define MAX_RANKS 8

enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };

static const char *const form_names[FORMS] = {"blocking", "non-blocking", "persistent"};

struct run {
    enum form    form;
    MPI_Comm     comm;
    int          rank, ranks, others; /* others: ranks on the other side, or ranks */
    bool         inter, in_place;
    MPI_Datatype type;
    MPI_Op       op;
    int          count; /* elements of a part */
    char        *send, *recv;
    MPI_Aint     extent;
    MPI_Aint     step; /* bytes from part to part */
    int          mine; /* elements of this rank's part where parts differ */
    int          counts[MAX_RANKS];       /* of the part of each rank */
    int          from[MAX_RANKS], to[MAX_RANKS]; /* between it and each of the others */
    int          displs[MAX_RANKS], byte_displs[MAX_RANKS];
    MPI_Aint     address_displs[MAX_RANKS];
    MPI_Datatype types[MAX_RANKS];
    int          sources, targets;        /* neighbours */
};

static void finish(struct run *run, MPI_Request *request)
{
    int k;

    if (run->form == PERSISTENT) {
        for (k = 0; k < 2; k++) { /* in place, the second one finds other operands */
            MPI_Start(request);
            MPI_Wait(request, MPI_STATUS_IGNORE);
        }
        MPI_Request_free(request);
    } else if (run->form == NONBLOCKING) {
        MPI_Wait(request, MPI_STATUS_IGNORE);
    }
}

/* The three forms of one collective; its arguments before the communicator. */
#define FORMS_OF(name, ...)                                                                        \
    do {                                                                                           \
        MPI_Request request;                                                                       \
        switch (r->form) {                                                                         \
        case BLOCKING:                                                                             \
            MPI_##name(__VA_ARGS__, r->comm);                                                      \
            break;                                                                                 \
        case NONBLOCKING:                                                                          \
            MPI_I##name##_(__VA_ARGS__, r->comm, &request);                                        \
            break;                                                                                 \
        default:                                                                                   \
            MPI_##name##_init(__VA_ARGS__, r->comm, MPI_INFO_NULL, &request);                      \
        }                                                                                          \
        finish(r, &request);                                                                       \
    } while (0)

#define MPI_INeighbor_allgather_ MPI_Ineighbor_allgather
#define MPI_INeighbor_allgatherv_ MPI_Ineighbor_allgatherv
#define MPI_INeighbor_alltoall_ MPI_Ineighbor_alltoall
#define MPI_INeighbor_alltoallv_ MPI_Ineighbor_alltoallv
#define MPI_INeighbor_alltoallw_ MPI_Ineighbor_alltoallw
#define MPI_IAllgather_ MPI_Iallgather
#define MPI_IAllgatherv_ MPI_Iallgatherv
#define MPI_IAllreduce_ MPI_Iallreduce
#define MPI_IAlltoall_ MPI_Ialltoall
#define MPI_IAlltoallv_ MPI_Ialltoallv
#define MPI_IAlltoallw_ MPI_Ialltoallw
#define MPI_IBcast_ MPI_Ibcast
#define MPI_IExscan_ MPI_Iexscan
#define MPI_IGather_ MPI_Igather
#define MPI_IGatherv_ MPI_Igatherv
#define MPI_IReduce_ MPI_Ireduce
#define MPI_IReduce_scatter_ MPI_Ireduce_scatter
#define MPI_IReduce_scatter_block_ MPI_Ireduce_scatter_block
#define MPI_IScan_ MPI_Iscan
#define MPI_IScatter_ MPI_Iscatter
#define MPI_IScatterv_ MPI_Iscatterv

static const void *sendbuf(const struct run *r)
{
    return r->in_place ? MPI_IN_PLACE : r->send;
}

/* The root is rank 0, or rank 0 of the first group of an intercommunicator. */
static int root_of(const struct run *r, bool first)
{
    if (!r->inter) {
        return 0;
    }
    return !first ? 0 : r->rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
}

static bool first_group; /* of the intercommunicator */

static void do_allgather(struct run *r)
{
    FORMS_OF(Allgather, sendbuf(r), r->count, r->type, r->recv, r->count, r->type);
}
static void do_allgatherv(struct run *r)
{
    FORMS_OF(Allgatherv, sendbuf(r), r->mine, r->type, r->recv, r->counts, r->displs, r->type);
}
static void do_allreduce(struct run *r)
{
    FORMS_OF(Allreduce, sendbuf(r), r->recv, r->count, r->type, r->op);
}
static void do_alltoall(struct run *r)
{
    FORMS_OF(Alltoall, sendbuf(r), r->count, r->type, r->recv, r->count, r->type);
}
static void do_alltoallv(struct run *r)
{
    FORMS_OF(Alltoallv, sendbuf(r), r->to, r->displs, r->type, r->recv, r->from, r->displs,
             r->type);
}
static void do_alltoallw(struct run *r)
{
    FORMS_OF(Alltoallw, sendbuf(r), r->to, r->byte_displs, r->types, r->recv, r->from,
             r->byte_displs, r->types);
}
static void do_bcast(struct run *r)
{
    FORMS_OF(Bcast, r->recv, r->count, r->type, root_of(r, first_group));
}
static void do_exscan(struct run *r)
{
    FORMS_OF(Exscan, sendbuf(r), r->recv, r->count, r->type, r->op);
}
static void do_gather(struct run *r)
{
    FORMS_OF(Gather, r->rank == 0 ? sendbuf(r) : r->send, r->count, r->type, r->recv, r->count,
             r->type, root_of(r, first_group));
}
static void do_gatherv(struct run *r)
{
    FORMS_OF(Gatherv, r->rank == 0 ? sendbuf(r) : r->send, r->mine, r->type, r->recv, r->counts,
             r->displs, r->type, root_of(r, first_group));
}
static void do_reduce(struct run *r)
{
    FORMS_OF(Reduce, r->rank == 0 ? sendbuf(r) : r->send, r->recv, r->count, r->type, r->op,
             root_of(r, first_group));
}
static void do_reduce_scatter(struct run *r)
{
    FORMS_OF(Reduce_scatter, sendbuf(r), r->recv, r->counts, r->type, r->op);
}
static void do_reduce_scatter_block(struct run *r)
{
    FORMS_OF(Reduce_scatter_block, sendbuf(r), r->recv, r->count, r->type, r->op);
}
static void do_scan(struct run *r)
{
    FORMS_OF(Scan, sendbuf(r), r->recv, r->count, r->type, r->op);
}
static void do_scatter(struct run *r)
{
    FORMS_OF(Scatter, r->send, r->count, r->type, r->rank == 0 && r->in_place ? MPI_IN_PLACE : r->recv,
             r->count, r->type, root_of(r, first_group));
}
static void do_scatterv(struct run *r)
{
    FORMS_OF(Scatterv, r->send, r->counts, r->displs, r->type,
             r->rank == 0 && r->in_place ? MPI_IN_PLACE : r->recv, r->mine, r->type,
             root_of(r, first_group));
}
static void do_neighbor_allgather(struct run *r)
{
    FORMS_OF(Neighbor_allgather, r->send, r->count, r->type, r->recv, r->count, r->type);
}
static void do_neighbor_allgatherv(struct run *r)
{
    FORMS_OF(Neighbor_allgatherv, r->send, r->mine, r->type, r->recv, r->counts, r->displs,
             r->type);
}
static void do_neighbor_alltoall(struct run *r)
{
    FORMS_OF(Neighbor_alltoall, r->send, r->count, r->type, r->recv, r->count, r->type);
}
static void do_neighbor_alltoallv(struct run *r)
{
    FORMS_OF(Neighbor_alltoallv, r->send, r->to, r->displs, r->type, r->recv, r->from, r->displs,
             r->type);
}
static void do_neighbor_alltoallw(struct run *r)
{
    FORMS_OF(Neighbor_alltoallw, r->send, r->to, r->address_displs, r->types, r->recv, r->from,
             r->address_displs, r->types);
}

enum { REDUCES = 1, INTER = 2, IN_PLACE = 4, NEIGHBOR = 8, SCATTERS = 16 };

static const struct collective {
    const char *name;
    void (*run)(struct run *);
    unsigned flags;
} collectives[] = {
    {"allgather", do_allgather, INTER | IN_PLACE},
    {"allgatherv", do_allgatherv, INTER | IN_PLACE},
    {"allreduce", do_allreduce, REDUCES | INTER | IN_PLACE},
    {"alltoall", do_alltoall, INTER | IN_PLACE},
    {"alltoallv", do_alltoallv, INTER | IN_PLACE},
    {"alltoallw", do_alltoallw, INTER | IN_PLACE},
    {"bcast", do_bcast, INTER},
    {"exscan", do_exscan, REDUCES | IN_PLACE},
    {"gather", do_gather, INTER | IN_PLACE},
    {"gatherv", do_gatherv, INTER | IN_PLACE},
    {"reduce", do_reduce, REDUCES | INTER | IN_PLACE},
    {"reduce_scatter", do_reduce_scatter, REDUCES | SCATTERS | INTER | IN_PLACE},
    {"reduce_scatter_block", do_reduce_scatter_block, REDUCES | SCATTERS | INTER | IN_PLACE},
    {"scan", do_scan, REDUCES | IN_PLACE},
    {"scatter", do_scatter, INTER | IN_PLACE},
    {"scatterv", do_scatterv, INTER | IN_PLACE},
    {"neighbor_allgather", do_neighbor_allgather, NEIGHBOR},
    {"neighbor_allgatherv", do_neighbor_allgatherv, NEIGHBOR},
    {"neighbor_alltoall", do_neighbor_alltoall, NEIGHBOR},
    {"neighbor_alltoallv", do_neighbor_alltoallv, NEIGHBOR},
    {"neighbor_alltoallw", do_neighbor_alltoallw, NEIGHBOR},
};

#endif
