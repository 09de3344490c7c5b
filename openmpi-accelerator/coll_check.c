/* Open MPI coll component in front of all others: the buffers of a collective are checked before anybody
 * touches them, in all three forms. Intercommunicators go through as they are: point-to-point checks
 * what they send. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"
#include "component.h"

#include "ompi/communicator/communicator.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/op/op.h"
#include "ompi/request/request.h"

#include <mpi.h>
#include <string.h>

#define PRIORITY 80 /* above coll/zerange (79) */

#if OMPI_MAJOR_VERSION >= 6
typedef ompi_count_array_t counts_t;
typedef ompi_disp_array_t  disps_t;
#define COUNT(counts, k) ompi_count_array_get(counts, k)
#define DISP(disps, k)   ompi_disp_array_get(disps, k)
#else
typedef const int *counts_t;
typedef const int *disps_t;
#define COUNT(counts, k) ((size_t)(counts)[k])
#define DISP(disps, k)   ((ptrdiff_t)(disps)[k])
#endif

typedef ompi_datatype_t *const *types_t;

/* ---- what a rank's buffers are ---- */

#define WHERE const char *what, ompi_communicator_t *comm

static int one(const char *what, const void *buffer, size_t count, ompi_datatype_t *dtype)
{
    return buffer == MPI_IN_PLACE ? MPI_SUCCESS : zr_check_buffer(what, buffer, count, dtype);
}

/* A block for each rank, as far apart as disps says in elements. */
static int blocks(WHERE, const void *buffer, counts_t counts, disps_t disps, ompi_datatype_t *dtype)
{
    ptrdiff_t extent = dtype->super.ub - dtype->super.lb;
    int       ranks  = ompi_comm_size(comm), k, rc = MPI_SUCCESS;

    for (k = 0; k < ranks && rc == MPI_SUCCESS && buffer != MPI_IN_PLACE; k++) {
        rc = zr_check_buffer(what, (const char *)buffer + DISP(disps, k) * extent,
                             COUNT(counts, k), dtype);
    }
    return rc;
}

/* The same with a type for each, disps in bytes. */
static int typed_blocks(WHERE, const void *buffer, counts_t counts, disps_t disps, types_t types)
{
    int ranks = ompi_comm_size(comm), k, rc = MPI_SUCCESS;

    for (k = 0; k < ranks && rc == MPI_SUCCESS && buffer != MPI_IN_PLACE; k++) {
        rc = zr_check_buffer(what, (const char *)buffer + DISP(disps, k), COUNT(counts, k),
                             types[k]);
    }
    return rc;
}

static size_t sum(ompi_communicator_t *comm, counts_t counts)
{
    size_t all = 0;
    int    k;

    for (k = 0; k < ompi_comm_size(comm); k++) {
        all += COUNT(counts, k);
    }
    return all;
}

/* ---- the collectives ---- */

#define WHAT "collective"

#define UNPACK(...) __VA_ARGS__
#define SEND        const void *sbuf, zr_count_t scount, ompi_datatype_t *sdtype
#define RECV        void *rbuf, zr_count_t rcount, ompi_datatype_t *rdtype
#define SENDS       const void *sbuf, counts_t scounts, disps_t sdisps
#define RECVS       void *rbuf, counts_t rcounts, disps_t rdisps
#define COMM        ompi_communicator_t *comm
#define REDUCED     const void *sbuf, void *rbuf, zr_count_t count, ompi_datatype_t *dtype, ompi_op_t *op

#define S(n)  TRY(one(WHAT ", send buffer", sbuf, (size_t)(n), sdtype))
#define R(n)  TRY(one(WHAT ", receive buffer", rbuf, (size_t)(n), rdtype))
#define SR(n) TRY(one(WHAT ", send buffer", sbuf, (size_t)(n), dtype))
#define RR(n) TRY(one(WHAT ", receive buffer", rbuf, (size_t)(n), dtype))
#define SV    TRY(blocks(WHAT ", send buffer", comm, sbuf, scounts, sdisps, sdtype))
#define RV    TRY(blocks(WHAT ", receive buffer", comm, rbuf, rcounts, rdisps, rdtype))
#define TRY(call)                                                                                  \
    do {                                                                                           \
        int try_rc = (call);                                                                       \
        if (try_rc != MPI_SUCCESS) {                                                               \
            return try_rc;                                                                         \
        }                                                                                          \
    } while (0)

#define RANKS  (size_t)ompi_comm_size(comm)
#define AT(r)  if (ompi_comm_rank(comm) == (r))

/* name, parameters, arguments, checks */
#define COLLECTIVES(X)                                                                             \
    X(allgather, (SEND, RECV, COMM), (sbuf, scount, sdtype, rbuf, rcount, rdtype, comm),           \
      S(scount); R(rcount * RANKS))                                                                \
    X(allgatherv, (SEND, RECVS, ompi_datatype_t *rdtype, COMM),                                    \
      (sbuf, scount, sdtype, rbuf, rcounts, rdisps, rdtype, comm), S(scount); RV)                  \
    X(allreduce, (REDUCED, COMM), (sbuf, rbuf, count, dtype, op, comm), SR(count); RR(count))      \
    X(alltoall, (SEND, RECV, COMM), (sbuf, scount, sdtype, rbuf, rcount, rdtype, comm),            \
      S(scount * RANKS); R(rcount * RANKS))                                                        \
    X(alltoallv, (SENDS, ompi_datatype_t *sdtype, RECVS, ompi_datatype_t *rdtype, COMM),           \
      (sbuf, scounts, sdisps, sdtype, rbuf, rcounts, rdisps, rdtype, comm),                        \
      if (sbuf != MPI_IN_PLACE) SV; RV)                                                            \
    X(alltoallw, (SENDS, types_t sdtypes, RECVS, types_t rdtypes, COMM),                           \
      (sbuf, scounts, sdisps, sdtypes, rbuf, rcounts, rdisps, rdtypes, comm),                      \
      TRY(typed_blocks(WHAT ", send buffer", comm, sbuf, scounts, sdisps, sdtypes));               \
      TRY(typed_blocks(WHAT ", receive buffer", comm, rbuf, rcounts, rdisps, rdtypes)))            \
    X(bcast, (void *rbuf, zr_count_t rcount, ompi_datatype_t *rdtype, int root, COMM),             \
      (rbuf, rcount, rdtype, root, comm), TRY(one(WHAT, rbuf, (size_t)rcount, rdtype)))            \
    X(exscan, (REDUCED, COMM), (sbuf, rbuf, count, dtype, op, comm), SR(count); RR(count))         \
    X(gather, (SEND, RECV, int root, COMM),                                                        \
      (sbuf, scount, sdtype, rbuf, rcount, rdtype, root, comm),                                    \
      if (sbuf != MPI_IN_PLACE) S(scount); AT(root) R(rcount * RANKS))                             \
    X(gatherv, (SEND, RECVS, ompi_datatype_t *rdtype, int root, COMM),                             \
      (sbuf, scount, sdtype, rbuf, rcounts, rdisps, rdtype, root, comm),                           \
      if (sbuf != MPI_IN_PLACE) S(scount); AT(root) RV)                                            \
    X(reduce, (REDUCED, int root, COMM), (sbuf, rbuf, count, dtype, op, root, comm),               \
      SR(count); AT(root) RR(count))                                                               \
    X(reduce_scatter,                                                                              \
      (const void *sbuf, void *rbuf, counts_t rcounts, ompi_datatype_t *dtype, ompi_op_t *op, COMM), \
      (sbuf, rbuf, rcounts, dtype, op, comm), SR(sum(comm, rcounts));                              \
      RR(sbuf == MPI_IN_PLACE ? sum(comm, rcounts) : COUNT(rcounts, ompi_comm_rank(comm))))        \
    X(reduce_scatter_block, (REDUCED, COMM), (sbuf, rbuf, count, dtype, op, comm),                 \
      SR(count * RANKS); RR(sbuf == MPI_IN_PLACE ? count * RANKS : (size_t)count))                 \
    X(scan, (REDUCED, COMM), (sbuf, rbuf, count, dtype, op, comm), SR(count); RR(count))           \
    X(scatter, (SEND, RECV, int root, COMM),                                                       \
      (sbuf, scount, sdtype, rbuf, rcount, rdtype, root, comm), AT(root) S(scount * RANKS);        \
      if (rbuf != MPI_IN_PLACE) R(rcount))                                                         \
    X(scatterv, (SENDS, ompi_datatype_t *sdtype, RECV, int root, COMM),                            \
      (sbuf, scounts, sdisps, sdtype, rbuf, rcount, rdtype, root, comm), AT(root) SV;              \
      if (rbuf != MPI_IN_PLACE) R(rcount))

/* ---- what lies below, and our doors ---- */

#define BELOW(name)                                                                                \
    mca_coll_base_module_##name##_fn_t name;                                                       \
    mca_coll_base_module_t            *name##_module;

typedef struct {
    mca_coll_base_module_t super;
#define X(name, params, args, checks) BELOW(name) BELOW(i##name) BELOW(name##_init)
    COLLECTIVES(X)
#undef X
} module_t;

static void module_construct(module_t *module)
{
    /* what follows the base is ours */
    memset((char *)module + sizeof(module->super), 0, sizeof(*module) - sizeof(module->super));
}

static OBJ_CLASS_INSTANCE(module_t, mca_coll_base_module_t, module_construct, NULL);

#define X(name, params, args, checks)                                                              \
    static int check_##name(UNPACK params)                                                         \
    {                                                                                              \
        if (!OMPI_COMM_IS_INTER(comm)) {                                                           \
            checks;                                                                                \
        }                                                                                          \
        return MPI_SUCCESS;                                                                        \
    }                                                                                              \
    static int name(UNPACK params, mca_coll_base_module_t *module)                                 \
    {                                                                                              \
        module_t *m = (module_t *)module;                                                          \
                                                                                                   \
        TRY(check_##name args);                                                                    \
        return m->name(UNPACK args, m->name##_module);                                             \
    }                                                                                              \
    static int i##name(UNPACK params, ompi_request_t **request, mca_coll_base_module_t *module)    \
    {                                                                                              \
        module_t *m = (module_t *)module;                                                          \
                                                                                                   \
        TRY(check_##name args);                                                                    \
        return m->i##name(UNPACK args, request, m->i##name##_module);                              \
    }                                                                                              \
    static int name##_init(UNPACK params, struct ompi_info_t *info, ompi_request_t **request,      \
                           mca_coll_base_module_t *module)                                         \
    {                                                                                              \
        module_t *m = (module_t *)module;                                                          \
                                                                                                   \
        TRY(check_##name args);                                                                    \
        return m->name##_init(UNPACK args, info, request, m->name##_init_module);                  \
    }
COLLECTIVES(X)
#undef X

/* ---- a communicator ---- */

/* Open MPI 5 puts our functions in by itself, 6 leaves it to us. */
#if OMPI_MAJOR_VERSION >= 6
#define INSTALL(name, function, its_module)                                                        \
    MCA_COLL_INSTALL_API(comm, name, function, its_module, "zerangecheck")
#else
#define INSTALL(name, function, its_module) ((void)0)
#endif

#define KEEP(name)                                                                                 \
    do {                                                                                           \
        m->name          = comm->c_coll->coll_##name;                                              \
        m->name##_module = comm->c_coll->coll_##name##_module;                                     \
        if (m->name == NULL) {                                                                     \
            module->coll_##name = NULL;                                                            \
            break;                                                                                 \
        }                                                                                          \
        if (m->name##_module != NULL) {                                                            \
            OBJ_RETAIN(m->name##_module);                                                          \
        }                                                                                          \
        INSTALL(name, name, module);                                                               \
    } while (0)

static int module_enable(mca_coll_base_module_t *module, ompi_communicator_t *comm)
{
    module_t *m = (module_t *)module;

#define X(name, params, args, checks)                                                              \
    KEEP(name);                                                                                    \
    KEEP(i##name);                                                                                 \
    KEEP(name##_init);
    COLLECTIVES(X)
#undef X
    return OMPI_SUCCESS;
}

#define GIVE_BACK(name)                                                                            \
    do {                                                                                           \
        if (comm->c_coll->coll_##name##_module == module) {                                        \
            INSTALL(name, m->name, m->name##_module);                                              \
        }                                                                                          \
        if (m->name##_module != NULL) {                                                            \
            OBJ_RELEASE(m->name##_module);                                                         \
        }                                                                                          \
        m->name##_module = NULL;                                                                   \
        m->name          = NULL;                                                                   \
    } while (0)

static int module_disable(mca_coll_base_module_t *module, ompi_communicator_t *comm)
{
    module_t *m = (module_t *)module;

#define X(name, params, args, checks)                                                              \
    GIVE_BACK(name);                                                                               \
    GIVE_BACK(i##name);                                                                            \
    GIVE_BACK(name##_init);
    COLLECTIVES(X)
#undef X
    return OMPI_SUCCESS;
}

/* ---- the component ---- */

static int init_query(bool enable_progress_threads, bool enable_mpi_threads)
{
    zr_check_start();
    return OMPI_SUCCESS;
}

static mca_coll_base_module_t *comm_query(ompi_communicator_t *comm, int *priority)
{
    module_t *module;

    if (zr_acc_get() == NULL) {
        return NULL; /* no device: nothing to check */
    }
    module = OBJ_NEW(module_t);
    if (module == NULL) {
        return NULL;
    }
    module->super.coll_module_enable  = module_enable;
    module->super.coll_module_disable = module_disable;
#define X(name, params, args, checks)                                                              \
    module->super.coll_##name        = name;                                                       \
    module->super.coll_i##name       = i##name;                                                    \
    module->super.coll_##name##_init = name##_init;
    COLLECTIVES(X)
#undef X
    *priority = PRIORITY;
    return &module->super;
}

static int component_close(void)
{
    zr_check_stop();
    return OMPI_SUCCESS;
}

extern __attribute__((visibility("default")))
mca_coll_base_component_t mca_coll_zerangecheck_component;
mca_coll_base_component_t mca_coll_zerangecheck_component = {
    .collm_version = {
#if OMPI_MAJOR_VERSION >= 6
        MCA_COLL_BASE_VERSION_3_0_0,
#else
        MCA_COLL_BASE_VERSION_2_4_0,
#endif
        .mca_component_name = "zerangecheck",
        MCA_BASE_MAKE_VERSION(component, 0, 1, 0),
        .mca_close_component = component_close,
    },
    .collm_init_query = init_query,
    .collm_comm_query = comm_query,
};

ZR_COMPONENT_POINTER(mca_coll_zerangecheck_component, collm_version);
