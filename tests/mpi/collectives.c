/* Every collective of MPI-3, in its three forms, over buffers on the host, in one device allocation
 * and in a range of many objects: the bytes are those of the same call on host buffers, and what lies
 * between and around the elements is untouched.
 *
 * One line a collective and form with the number of combinations (type x placement x in place x
 * communicator); exit 1 if any differs. With "all" the long messages go through every type and
 * placement too, not only through int and ranges.
 *
 * usage: collectives [all | COLLECTIVE] */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "devmem.h"

#define ELEMENTS 90   /* of one rank's part; below the eager limits */
#define MANY     9000 /* above them */
#define MAX_RANKS 8
#define MAX_EXTENT 64
#define BYTES ((size_t)MANY * MAX_RANKS * MAX_EXTENT / 8)

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
    int          counts[MAX_RANKS], displs[MAX_RANKS];
    MPI_Aint     step; /* bytes from part to part */
    int          byte_displs[MAX_RANKS];
    MPI_Datatype types[MAX_RANKS];
};

static void finish(struct run *run, MPI_Request *request)
{
    if (run->form == PERSISTENT) {
        MPI_Start(request);
        MPI_Wait(request, MPI_STATUS_IGNORE);
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
    FORMS_OF(Allgatherv, sendbuf(r), r->count, r->type, r->recv, r->counts, r->displs, r->type);
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
    FORMS_OF(Alltoallv, sendbuf(r), r->counts, r->displs, r->type, r->recv, r->counts, r->displs,
             r->type);
}
static void do_alltoallw(struct run *r)
{
    FORMS_OF(Alltoallw, sendbuf(r), r->counts, r->byte_displs, r->types, r->recv, r->counts,
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
    FORMS_OF(Gatherv, r->rank == 0 ? sendbuf(r) : r->send, r->count, r->type, r->recv, r->counts,
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
             r->rank == 0 && r->in_place ? MPI_IN_PLACE : r->recv, r->count, r->type,
             root_of(r, first_group));
}

enum { REDUCES = 1, INTER = 2, IN_PLACE = 4 };

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
    {"reduce_scatter", do_reduce_scatter, REDUCES | INTER | IN_PLACE},
    {"reduce_scatter_block", do_reduce_scatter_block, REDUCES | INTER | IN_PLACE},
    {"scan", do_scan, REDUCES | IN_PLACE},
    {"scatter", do_scatter, INTER | IN_PLACE},
    {"scatterv", do_scatterv, INTER | IN_PLACE},
};

/* ---- types and operations ---- */

/* (a, b) -> a * 3 + b over the ints of an element, whatever lies between them: not commutative, and
 * not associative either, so that another order shows. */
static int type_ints, type_step; /* of the derived type in use: ints, and ints from one to the next */

static void op_user(void *in, void *inout, int *count, MPI_Datatype *type)
{
    uint32_t *a = in, *b = inout;
    MPI_Aint  lb, extent;
    int       i, k;

    MPI_Type_get_extent(*type, &lb, &extent);
    for (i = 0; i < *count; i++) {
        for (k = 0; k < type_ints; k++) {
            b[k * type_step] = a[k * type_step] * 3 + b[k * type_step];
        }
        a += extent / 4;
        b += extent / 4;
    }
}

static MPI_Datatype types[8];
static MPI_Op       user_op;

enum { T_INT, T_DOUBLE, T_FLOAT, T_VECTOR, T_INDEXED, T_STRUCT, T_SUBARRAY, T_COUNT };

static const char *const type_names[T_COUNT] = {"int",     "double", "float",   "vector",
                                                "indexed", "struct", "subarray"};

static void make_types(void)
{
    int          lengths[] = {2, 1}, places[] = {1, 5}, sizes[] = {4, 4}, part[] = {2, 2}, at[] = {1, 1};
    MPI_Aint     where[]  = {0, 12};
    MPI_Datatype inside[] = {MPI_INT, MPI_FLOAT};

    types[T_INT]    = MPI_INT;
    types[T_DOUBLE] = MPI_DOUBLE;
    types[T_FLOAT]  = MPI_FLOAT;
    MPI_Type_vector(3, 1, 2, MPI_INT, &types[T_VECTOR]);
    MPI_Type_indexed(2, lengths, places, MPI_INT, &types[T_INDEXED]);
    MPI_Type_create_struct(2, lengths, where, inside, &types[T_STRUCT]);
    MPI_Type_create_subarray(2, sizes, part, at, MPI_ORDER_C, MPI_INT, &types[T_SUBARRAY]);
    for (int t = T_VECTOR; t < T_COUNT; t++) {
        MPI_Type_commit(&types[t]);
    }
    MPI_Op_create(op_user, 0, &user_op);
}

/* ---- comparing ---- */

static char *host[2], *expected[2], *memory[3][2]; /* by place; send and receive */
static char *seen;
static int   world_rank;
static long  combinations, wrong;

/* Values that add exactly in float, so that host and device agree whatever the order. */
static void fill(char *buffer, size_t size, bool floats, bool doubles, unsigned salt)
{
    size_t k;

    if (doubles) {
        for (k = 0; k < size / 8; k++) {
            ((double *)(void *)buffer)[k] = (double)((k * 7 + salt * 3 + (unsigned)world_rank) % 64);
        }
    } else {
        for (k = 0; k < size / 4; k++) {
            uint32_t value = (uint32_t)((k * 7 + salt * 3 + (unsigned)world_rank) % 64);

            if (floats) {
                ((float *)(void *)buffer)[k] = (float)value;
            } else {
                ((uint32_t *)(void *)buffer)[k] = value * 2654435761u;
            }
        }
    }
}

static void one(const struct collective *c, struct run *run, int t, enum place send,
                enum place recv, const char *op_name)
{
    size_t      size = (size_t)run->step * (size_t)(run->others > run->ranks ? run->others : run->ranks);
    bool        floats = t == T_FLOAT, doubles = t == T_DOUBLE;
    enum place  at[2]  = {send, recv};
    int         k, bad = 0, sum;

    size = size + 64 > BYTES ? BYTES : size + 64;
    for (k = 0; k < 2; k++) {
        fill(host[k], size, floats, doubles, (unsigned)k);
        memcpy(expected[k], host[k], size);
        devmem_copy(memory[at[k]][k], host[k], size);
    }
    run->send = expected[0];
    run->recv = expected[1];
    c->run(run);
    run->send = memory[send][0];
    run->recv = memory[recv][1];
    c->run(run);
    for (k = 0; k < 2; k++) {
        /* In place, MPI says nothing of the input that lies behind a rank's own part. */
        size_t defined = k == 1 && run->in_place && strncmp(c->name, "reduce_scatter", 14) == 0 ?
                             (size_t)run->extent * (size_t)run->count :
                             size;

        devmem_copy(seen, memory[at[k]][k], size);
        bad |= memcmp(seen, expected[k], defined) != 0;
    }
    MPI_Allreduce(&bad, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    combinations++;
    if (sum != 0) {
        wrong++;
        if (world_rank == 0) {
            printf("WRONG on %d ranks: %s %s, %s%s%s, %d elements, %s to %s%s\n", sum, c->name,
                   form_names[run->form], type_names[t], op_name[0] ? " " : "", op_name, run->count,
                   place_names[send], place_names[recv],
                   run->inter ? ", intercommunicator" : run->in_place ? ", in place" : "");
        }
    }
}

static void prepare(struct run *run, int t, int count)
{
    MPI_Aint lb;
    int      k, most = run->others > run->ranks ? run->others : run->ranks;

    run->type  = types[t];
    run->count = count;
    MPI_Type_get_extent(run->type, &lb, &run->extent);
    run->step = run->extent * (count + 1); /* a hole of one element after each part */
    for (k = 0; k < most; k++) {
        run->counts[k]      = count;
        run->displs[k]      = k * (count + 1);
        run->byte_displs[k] = (int)(run->step * k);
        run->types[k]       = run->type;
    }
    type_ints = t == T_VECTOR ? 3 : 1;
    type_step = t == T_VECTOR ? 2 : 1;
}

static const struct {
    enum place send, recv;
} placements[] = {{RANGE, RANGE}, {DEVICE, DEVICE}, {RANGE, HOST}, {HOST, RANGE}};

static bool everything;

static void all_of(const struct collective *c, struct run *run, int t, int count, MPI_Op op,
                   const char *op_name)
{
    size_t p, most = sizeof(placements) / sizeof(placements[0]);

    prepare(run, t, count);
    run->op = op;
    if (count == MANY && !everything) {
        most = 1;
    }
    for (p = 0; p < most; p++) {
        run->in_place = false;
        one(c, run, t, placements[p].send, placements[p].recv, op_name);
        if ((c->flags & IN_PLACE) && !run->inter && placements[p].send != HOST) {
            run->in_place = true;
            one(c, run, t, placements[p].send, placements[p].recv, op_name);
            run->in_place = false;
        }
    }
}

static void of_collective(const struct collective *c, struct run *run)
{
    static const int counts[] = {ELEMENTS, MANY};
    int              t, k;

    for (k = 0; k < 2; k++) {
        if (c->flags & REDUCES) {
            all_of(c, run, T_DOUBLE, counts[k], MPI_SUM, "sum");
            if (k == 0 || everything) {
                all_of(c, run, T_INT, counts[k], MPI_BXOR, "bxor");
                all_of(c, run, T_FLOAT, counts[k], MPI_MAX, "max");
                all_of(c, run, T_INT, counts[k], user_op, "user");
            }
            if (k == 0) {
                all_of(c, run, T_VECTOR, counts[k], user_op, "user");
            }
        } else {
            for (t = 0; t < T_COUNT; t++) {
                if (k == 0 || t == T_INT || (everything && t == T_VECTOR)) {
                    all_of(c, run, t, counts[k], MPI_OP_NULL, "");
                }
            }
        }
    }
}

static struct run intra(enum form form)
{
    struct run run = {.form = form, .comm = MPI_COMM_WORLD};

    MPI_Comm_rank(run.comm, &run.rank);
    MPI_Comm_size(run.comm, &run.ranks);
    run.others = run.ranks;
    return run;
}

/* Two groups, even and odd; one has to have a rank more where the number is odd. */
static struct run inter(enum form form)
{
    static MPI_Comm half, both;
    struct run      run = {.form = form, .inter = true};
    int             odd = world_rank % 2;

    if (both == MPI_COMM_NULL || half == MPI_COMM_NULL || both == (MPI_Comm)0) {
        MPI_Comm_split(MPI_COMM_WORLD, odd, world_rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, odd ? 0 : 1, 7, &both);
    }
    first_group = odd == 0;
    run.comm    = both;
    MPI_Comm_rank(run.comm, &run.rank);
    MPI_Comm_size(run.comm, &run.ranks);
    MPI_Comm_remote_size(run.comm, &run.others);
    return run;
}

int main(int argc, char **argv)
{
    size_t c;
    int    form, k, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks > MAX_RANKS) {
        printf("at most %d ranks\n", MAX_RANKS);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    everything = argc > 1 && strcmp(argv[1], "all") == 0;
    devmem_open();
    make_types();
    for (k = 0; k < 2; k++) {
        host[k]     = malloc(BYTES);
        expected[k] = malloc(BYTES);
        for (int p = HOST; p <= RANGE; p++) {
            memory[p][k] = devmem_alloc((enum place)p, BYTES);
        }
    }
    seen = malloc(BYTES);
    for (c = 0; c < sizeof(collectives) / sizeof(collectives[0]); c++) {
        if (argc > 1 && !everything && strcmp(argv[1], collectives[c].name) != 0) {
            continue;
        }
        for (form = 0; form < FORMS; form++) {
            long       before = combinations, before_wrong = wrong;
            struct run run = intra((enum form)form);

            of_collective(&collectives[c], &run);
            /* Open MPI has no persistent form over intercommunicators. */
            if ((collectives[c].flags & INTER) && ranks > 1 && form != PERSISTENT) {
                run = inter((enum form)form);
                /* The vectors that two groups reduce and scatter have to be equally long. */
                if (run.ranks == run.others ||
                    strncmp(collectives[c].name, "reduce_scatter", 14) != 0) {
                    of_collective(&collectives[c], &run);
                }
            }
            if (world_rank == 0) {
                printf("case: %s, %s, %d ranks: %ld combinations, %ld wrong\n", collectives[c].name,
                       form_names[form], ranks, combinations - before, wrong - before_wrong);
                fflush(stdout);
            }
        }
    }
    if (world_rank == 0) {
        printf("case: %d ranks: %ld combinations, %ld wrong\n", ranks, combinations, wrong);
    }
    MPI_Finalize();
    return wrong != 0;
}
