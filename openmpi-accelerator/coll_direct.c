/* Large reductions among the processes of one node without a host copy of the whole: each rank
 * reduces a part, piece by piece, and reads the others' pieces from their device memory.
 *
 *     vector   | part of 0 | part of 1 | part of 2 |      piece k of each part is one round:
 *     rank 1   ........... [p0][p1][p2] ...........         in:  p of part 1 from every rank
 *                                                           out: the result to whoever gets it */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "coll.h"

#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/proc/proc.h"
#include "opal/mca/hwloc/hwloc-internal.h"
#include "opal/mca/pmix/pmix-internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN_TAG MCA_COLL_BASE_TAG_ALLREDUCE
#define OUT_TAG MCA_COLL_BASE_TAG_ALLGATHER
#define MEMORY ((size_t)8 << 20) /* of all pieces of a round, unless they get shorter than */
#define LEAST ((size_t)64 << 10)

/* ---- who can ---- */

/* That this process has the component is told to the others: the ways below need all of them. */
#define KEY "zerange.coll"

void zr_direct_publish(void)
{
    uint8_t one = 1;
    int     rc;

    OPAL_MODEX_SEND_STRING(rc, PMIX_LOCAL, KEY, &one, sizeof(one));
    (void)rc; /* then the others do not find it and all go the other way */
}

static bool has_component(const ompi_proc_t *proc)
{
    uint8_t *value = NULL;
    size_t   size  = 0;
    int      rc;

    OPAL_MODEX_RECV_STRING(rc, KEY, &proc->super.proc_name, (void **)&value, &size);
    free(value);
    return rc == OPAL_SUCCESS && size == 1;
}

/* All ranks come to the same answer: what it is made of is the same for all of them. */
static bool find_near(const ompi_communicator_t *comm)
{
    ompi_proc_t *me = ompi_proc_local(), *proc;
    int          k;

    for (k = 0; k < ompi_comm_size(comm); k++) {
        proc = ompi_comm_peer_lookup(comm, k);
        if (proc == me) {
            continue;
        }
        if (proc->super.proc_name.jobid != me->super.proc_name.jobid ||
            !OPAL_PROC_ON_LOCAL_NODE(proc->super.proc_flags) || !has_component(proc)) {
            return false;
        }
    }
    return true;
}

bool zr_near(zr_coll_module_t *m, ompi_communicator_t *comm)
{
    if (m->near == ZR_NOT_ASKED) {
        m->near = !OMPI_COMM_IS_INTER(comm) && ompi_comm_size(comm) > 1 && find_near(comm) ?
                      ZR_NEAR :
                      ZR_FAR;
        if (m->near == ZR_NEAR && zr_coll_verbose > 0) {
            fprintf(stderr, "zerange: coll: %s, %d ranks: long collectives go from buffer to buffer\n",
                    comm->c_name, ompi_comm_size(comm));
        }
    }
    return m->near == ZR_NEAR;
}

static size_t bytes_of(const struct zr_call *call)
{
    int    k;
    size_t count = call->count;

    switch (call->kind) {
    case ZR_reduce_scatter:
        for (k = 0, count = 0; k < ompi_comm_size(call->comm); k++) {
            count += ZR_COUNT_AT(call->counts, k);
        }
        break;
    case ZR_reduce_scatter_block:
        count *= (size_t)ompi_comm_size(call->comm);
        break;
    default:
        break;
    }
    return count * call->dtype->super.size;
}

bool zr_direct_fits(zr_coll_module_t *m, const struct zr_call *call)
{
    const ompi_datatype_t *type = call->dtype;

    /* Scans have an order of their own. */
    if (call->kind == ZR_scan || call->kind == ZR_exscan || zr_direct_bytes == 0 ||
        !ompi_op_is_commute(call->op) || !ompi_datatype_is_predefined(type) ||
        type->super.lb != 0 || (size_t)(type->super.ub - type->super.lb) != type->super.size ||
        bytes_of(call) < zr_direct_bytes) {
        return false;
    }
    return zr_near(m, call->comm);
}

/* ---- one call ---- */

enum { IN, SENT, RESULT, GIVEN, KINDS }; /* requests of a round, each with every other rank */

struct direct {
    const struct zr_call *call;
    int                   ranks, rank;
    size_t                size;  /* bytes of an element */
    size_t                piece; /* elements */
    size_t               *first, *count; /* elements of each rank's part */
    const char           *from;
    char                 *to;
    char                 *staging;       /* a piece of each rank, for two rounds */
    char                 *kept; /* results that have to wait: others still read their place */
    ompi_request_t      **requests;
    int                   rc; /* the first failure; the others wait for us all the same */
};

static bool gets(const struct direct *d, int rank)
{
    return d->call->kind == ZR_allreduce || (d->call->kind == ZR_reduce && rank == d->call->root);
}

static ompi_request_t **request_of(const struct direct *d, size_t round, int kind, int rank)
{
    return &d->requests[((round % 2) * KINDS + (size_t)kind) * (size_t)d->ranks + (size_t)rank];
}

static char *staged(const struct direct *d, size_t round, int rank)
{
    return d->staging + ((round % 2) * (size_t)d->ranks + (size_t)rank) * d->piece * d->size;
}

/* Elements of a rank's part in a round. */
static size_t elements(const struct direct *d, int rank, size_t round)
{
    size_t begin = round * d->piece;

    return d->count[rank] <= begin           ? 0 :
           d->count[rank] - begin < d->piece ? d->count[rank] - begin :
                                               d->piece;
}

static size_t place(const struct direct *d, int rank, size_t round)
{
    return (d->first[rank] + round * d->piece) * d->size;
}

static void note(struct direct *d, int rc)
{
    if (d->rc == OMPI_SUCCESS) {
        d->rc = rc;
    }
}

static void send_to(struct direct *d, const char *from, size_t count, int rank, int tag,
                    ompi_request_t **request)
{
    note(d, MCA_PML_CALL(isend((void *)from, count, d->call->dtype, rank, tag,
                               MCA_PML_BASE_SEND_STANDARD, d->call->comm, request)));
}

static void receive(struct direct *d, char *to, size_t count, int rank, int tag,
                    ompi_request_t **request)
{
    note(d, MCA_PML_CALL(irecv(to, count, d->call->dtype, rank, tag, d->call->comm, request)));
}

static void wait_for(struct direct *d, ompi_request_t **request)
{
    if (*request != MPI_REQUEST_NULL) {
        note(d, ompi_request_wait(request, MPI_STATUS_IGNORE));
    }
}

/* What a round waits for; before that, that the one with its memory is over. */
static void drain(struct direct *d, size_t round)
{
    int kind, rank;

    for (kind = 0; kind < KINDS; kind++) {
        for (rank = 0; rank < d->ranks; rank++) {
            wait_for(d, request_of(d, round, kind, rank));
        }
    }
}

static void begin_round(struct direct *d, size_t round)
{
    size_t mine = elements(d, d->rank, round), count;
    int    k, other;

    drain(d, round);
    for (k = 1; k < d->ranks; k++) {
        other = (d->rank + k) % d->ranks;
        if (mine > 0) {
            receive(d, staged(d, round, other), mine, other, IN_TAG,
                    request_of(d, round, IN, other));
        }
    }
    for (k = 1; k < d->ranks; k++) {
        other = (d->rank + k) % d->ranks;
        count = elements(d, other, round);
        if (count == 0) {
            continue;
        }
        send_to(d, d->from + place(d, other, round), count, other, IN_TAG,
                request_of(d, round, SENT, other));
        /* In place, this is where the piece just offered lies: the answer to it comes after it
         * was read. */
        if (gets(d, d->rank)) {
            receive(d, d->to + place(d, other, round), count, other, OUT_TAG,
                    request_of(d, round, RESULT, other));
        }
    }
    if (mine > 0 && !zr_acc_copy(staged(d, round, d->rank), d->from + place(d, d->rank, round),
                                 mine * d->size)) {
        note(d, OMPI_ERROR);
    }
}

/* In the order of ranks, so that a result depends on the operands only. */
static void reduce_round(struct direct *d, size_t round)
{
    size_t count = elements(d, d->rank, round);
    int    k;

    for (k = 0; count > 0 && k < d->ranks; k++) {
        wait_for(d, request_of(d, round, IN, k));
        if (k > 0) {
            ompi_op_reduce(d->call->op, staged(d, round, k), staged(d, round, 0), count,
                           d->call->dtype);
        }
    }
}

static void end_round(struct direct *d, size_t round)
{
    size_t count = elements(d, d->rank, round);
    char  *result = staged(d, round, 0), *target = NULL;
    int    k, other;

    if (count == 0) {
        return;
    }
    if (gets(d, d->rank)) {
        target = d->to + place(d, d->rank, round);
    } else if (d->call->kind != ZR_reduce) {
        target = (d->kept != NULL ? d->kept : d->to) + round * d->piece * d->size;
    }
    if (target != NULL && !zr_acc_copy(target, result, count * d->size)) {
        note(d, OMPI_ERROR);
    }
    for (k = 1; k < d->ranks; k++) {
        other = (d->rank + k) % d->ranks;
        if (gets(d, other)) {
            send_to(d, target != NULL ? target : result, count, other, OUT_TAG,
                    request_of(d, round, GIVEN, other));
        }
    }
}

/* ---- the parts ---- */

static void divide(struct direct *d)
{
    const struct zr_call *call = d->call;
    size_t                at = 0, rest;
    int                   k;

    for (k = 0; k < d->ranks; k++) {
        d->first[k] = at;
        switch (call->kind) {
        case ZR_reduce_scatter:
            d->count[k] = ZR_COUNT_AT(call->counts, k);
            break;
        case ZR_reduce_scatter_block:
            d->count[k] = call->count;
            break;
        default:
            rest        = (size_t)call->count - at;
            d->count[k] = rest / (size_t)(d->ranks - k);
        }
        at += d->count[k];
    }
}

static size_t rounds_of(const struct direct *d)
{
    size_t most = 0;
    int    k;

    for (k = 0; k < d->ranks; k++) {
        most = d->count[k] > most ? d->count[k] : most;
    }
    return (most + d->piece - 1) / d->piece;
}

static int open_direct(struct direct *d, const struct zr_call *call)
{
    size_t most, bytes, k, n;

    *d = (struct direct){.call  = call,
                         .ranks = ompi_comm_size(call->comm),
                         .rank  = ompi_comm_rank(call->comm),
                         .size  = call->dtype->super.size,
                         .from  = call->sbuf == MPI_IN_PLACE ? call->rbuf : call->sbuf,
                         .to    = call->rbuf,
                         .rc    = OMPI_SUCCESS};
    most     = MEMORY / (size_t)d->ranks > LEAST ? MEMORY / (size_t)d->ranks : LEAST;
    bytes    = zr_direct_piece < most ? zr_direct_piece : most;
    d->piece = bytes < d->size ? 1 : bytes / d->size;
    n        = (size_t)d->ranks;
    d->first    = calloc(2 * n, sizeof(*d->first));
    d->requests = calloc(2 * KINDS * n, sizeof(*d->requests));
    if (d->first == NULL || d->requests == NULL) {
        goto err;
    }
    d->count = d->first + n;
    divide(d);
    d->staging = zr_acc_host_get(2 * n * d->piece * d->size);
    if (d->staging == NULL) {
        goto err;
    }
    if (call->sbuf == MPI_IN_PLACE && call->kind != ZR_allreduce && call->kind != ZR_reduce) {
        d->kept = zr_acc_host_get(d->count[d->rank] * d->size);
        if (d->kept == NULL) {
            zr_acc_host_put(d->staging);
            goto err;
        }
    }
    for (k = 0; k < 2 * KINDS * n; k++) {
        d->requests[k] = MPI_REQUEST_NULL;
    }
    return OMPI_SUCCESS;
err:
    free(d->first);
    free(d->requests);
    fprintf(stderr, "zerange: reduction of %zu bytes over %p: no memory for its pieces\n",
            bytes_of(call), call->rbuf);
    return OMPI_ERR_OUT_OF_RESOURCE;
}

int zr_direct(const struct zr_call *call)
{
    struct direct d;
    size_t        round, rounds;
    int           rc = open_direct(&d, call);

    if (rc != OMPI_SUCCESS) {
        return rc;
    }
    rounds = rounds_of(&d);
    begin_round(&d, 0);
    for (round = 0; round < rounds; round++) {
        if (round + 1 < rounds) {
            begin_round(&d, round + 1);
        }
        reduce_round(&d, round);
        end_round(&d, round);
    }
    drain(&d, 0);
    drain(&d, 1);
    if (d.kept != NULL && !zr_acc_copy(d.to, d.kept, d.count[d.rank] * d.size)) {
        note(&d, OMPI_ERROR);
    }
    zr_acc_host_put(d.kept);
    zr_acc_host_put(d.staging);
    free(d.first);
    free(d.requests);
    return d.rc;
}
