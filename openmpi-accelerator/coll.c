/* Open MPI coll component: a reduction with a buffer in device memory runs below on a host copy, so
 * that predefined and user operations, which are CPU code, never touch device memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "coll.h"
#include "component.h"

#include "ompi/mca/coll/base/coll_tags.h"
#include "opal/mca/base/mca_base_var.h"

#include <stdlib.h>
#include <string.h>

size_t zr_direct_bytes = (size_t)256 << 10, zr_direct_piece = (size_t)512 << 10;
int    zr_coll_verbose;

#define PRIORITY 79 /* above those that compute (tuned 30, han 35) and accelerator (78) */

static void module_construct(zr_coll_module_t *module)
{
    /* what follows the base is ours */
    memset((char *)module + sizeof(module->super), 0, sizeof(*module) - sizeof(module->super));
}

static OBJ_CLASS_INSTANCE(zr_coll_module_t, mca_coll_base_module_t, module_construct, NULL);

/* ---- what lies below ---- */

#define PLAIN(name) call->sbuf, call->rbuf, call->count, call->dtype, call->op, call->comm

int zr_below(zr_coll_module_t *m, const struct zr_call *call)
{
    switch (call->kind) {
    case ZR_allreduce:
        return m->allreduce(PLAIN(), m->allreduce_module);
    case ZR_reduce:
        return m->reduce(call->sbuf, call->rbuf, call->count, call->dtype, call->op, call->root,
                         call->comm, m->reduce_module);
    case ZR_reduce_scatter:
        return m->reduce_scatter(call->sbuf, call->rbuf, call->counts, call->dtype, call->op,
                                 call->comm, m->reduce_scatter_module);
    case ZR_reduce_scatter_block:
        return m->reduce_scatter_block(PLAIN(), m->reduce_scatter_block_module);
    case ZR_scan:
        return m->scan(PLAIN(), m->scan_module);
    case ZR_exscan:
        return m->exscan(PLAIN(), m->exscan_module);
    }
    return OMPI_ERR_BAD_PARAM;
}

int zr_below_begin(zr_coll_module_t *m, const struct zr_call *call, ompi_request_t **request)
{
    switch (call->kind) {
    case ZR_allreduce:
        return m->iallreduce(PLAIN(), request, m->iallreduce_module);
    case ZR_reduce:
        return m->ireduce(call->sbuf, call->rbuf, call->count, call->dtype, call->op, call->root,
                          call->comm, request, m->ireduce_module);
    case ZR_reduce_scatter:
        return m->ireduce_scatter(call->sbuf, call->rbuf, call->counts, call->dtype, call->op,
                                  call->comm, request, m->ireduce_scatter_module);
    case ZR_reduce_scatter_block:
        return m->ireduce_scatter_block(PLAIN(), request, m->ireduce_scatter_block_module);
    case ZR_scan:
        return m->iscan(PLAIN(), request, m->iscan_module);
    case ZR_exscan:
        return m->iexscan(PLAIN(), request, m->iexscan_module);
    }
    return OMPI_ERR_BAD_PARAM;
}

int zr_below_init(zr_coll_module_t *m, const struct zr_call *call, ompi_request_t **request)
{
    switch (call->kind) {
    case ZR_allreduce:
        return m->allreduce_init(PLAIN(), call->info, request, m->allreduce_init_module);
    case ZR_reduce:
        return m->reduce_init(call->sbuf, call->rbuf, call->count, call->dtype, call->op,
                              call->root, call->comm, call->info, request, m->reduce_init_module);
    case ZR_reduce_scatter:
        return m->reduce_scatter_init(call->sbuf, call->rbuf, call->counts, call->dtype, call->op,
                                      call->comm, call->info, request,
                                      m->reduce_scatter_init_module);
    case ZR_reduce_scatter_block:
        return m->reduce_scatter_block_init(PLAIN(), call->info, request,
                                            m->reduce_scatter_block_init_module);
    case ZR_scan:
        return m->scan_init(PLAIN(), call->info, request, m->scan_init_module);
    case ZR_exscan:
        return m->exscan_init(PLAIN(), call->info, request, m->exscan_init_module);
    }
    return OMPI_ERR_BAD_PARAM;
}

/* ---- the three forms ---- */

static int run(mca_coll_base_module_t *module, const struct zr_call *call)
{
    zr_coll_module_t *m = (zr_coll_module_t *)module;
    struct zr_stage   stage;
    struct zr_call    inner;
    int               rc;

    if (zr_direct_fits(m, call)) {
        return zr_direct(call);
    }
    if (!zr_stage_needed(call)) {
        return zr_below(m, call);
    }
    rc = zr_stage_open(&stage, call, &inner);
    if (rc != OMPI_SUCCESS) {
        return rc;
    }
    rc = zr_stage_in(&stage, call, &inner);
    if (rc == OMPI_SUCCESS) {
        rc = zr_below(m, &inner);
    }
    if (rc == OMPI_SUCCESS) {
        rc = zr_stage_out(&stage, call, &inner);
    }
    zr_stage_close(&stage);
    return rc;
}

static int begin(mca_coll_base_module_t *module, const struct zr_call *call,
                 ompi_request_t **request)
{
    return zr_stage_needed(call) ?
               zr_staged_begin((zr_coll_module_t *)module, call, false, request) :
               zr_below_begin((zr_coll_module_t *)module, call, request);
}

static int init(mca_coll_base_module_t *module, const struct zr_call *call,
                ompi_request_t **request)
{
    return zr_stage_needed(call) ?
               zr_staged_begin((zr_coll_module_t *)module, call, true, request) :
               zr_below_init((zr_coll_module_t *)module, call, request);
}

/* ---- Open MPI's doors ---- */

#define CALL(name, ...)                                                                            \
    (struct zr_call)                                                                               \
    {                                                                                              \
        .kind = ZR_##name, .sbuf = sbuf, .rbuf = rbuf, .dtype = dtype, .op = op, .comm = comm,     \
        __VA_ARGS__                                                                                \
    }

#define DOORS(name)                                                                                \
    static int name(const void *sbuf, void *rbuf, zr_count_t count, ompi_datatype_t *dtype,        \
                    ompi_op_t *op, ompi_communicator_t *comm, mca_coll_base_module_t *module)      \
    {                                                                                              \
        return run(module, &CALL(name, .count = count));                                           \
    }                                                                                              \
    static int i##name(const void *sbuf, void *rbuf, zr_count_t count, ompi_datatype_t *dtype,     \
                       ompi_op_t *op, ompi_communicator_t *comm, ompi_request_t **request,         \
                       mca_coll_base_module_t *module)                                             \
    {                                                                                              \
        return begin(module, &CALL(name, .count = count), request);                                \
    }                                                                                              \
    static int name##_init(const void *sbuf, void *rbuf, zr_count_t count, ompi_datatype_t *dtype, \
                           ompi_op_t *op, ompi_communicator_t *comm, struct ompi_info_t *info,     \
                           ompi_request_t **request, mca_coll_base_module_t *module)               \
    {                                                                                              \
        return init(module, &CALL(name, .count = count, .info = info), request);                   \
    }

DOORS(allreduce)
DOORS(reduce_scatter_block)
DOORS(scan)
DOORS(exscan)

static int reduce(const void *sbuf, void *rbuf, zr_count_t count, ompi_datatype_t *dtype,
                  ompi_op_t *op, int root, ompi_communicator_t *comm,
                  mca_coll_base_module_t *module)
{
    return run(module, &CALL(reduce, .count = count, .root = root));
}

static int ireduce(const void *sbuf, void *rbuf, zr_count_t count, ompi_datatype_t *dtype,
                   ompi_op_t *op, int root, ompi_communicator_t *comm, ompi_request_t **request,
                   mca_coll_base_module_t *module)
{
    return begin(module, &CALL(reduce, .count = count, .root = root), request);
}

static int reduce_init(const void *sbuf, void *rbuf, zr_count_t count, ompi_datatype_t *dtype,
                       ompi_op_t *op, int root, ompi_communicator_t *comm,
                       struct ompi_info_t *info, ompi_request_t **request,
                       mca_coll_base_module_t *module)
{
    return init(module, &CALL(reduce, .count = count, .root = root, .info = info), request);
}

static int reduce_scatter(const void *sbuf, void *rbuf, zr_counts_t counts, ompi_datatype_t *dtype,
                          ompi_op_t *op, ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    return run(module, &CALL(reduce_scatter, .counts = counts));
}

static int ireduce_scatter(const void *sbuf, void *rbuf, zr_counts_t counts,
                           ompi_datatype_t *dtype, ompi_op_t *op, ompi_communicator_t *comm,
                           ompi_request_t **request, mca_coll_base_module_t *module)
{
    return begin(module, &CALL(reduce_scatter, .counts = counts), request);
}

static int reduce_scatter_init(const void *sbuf, void *rbuf, zr_counts_t counts,
                               ompi_datatype_t *dtype, ompi_op_t *op, ompi_communicator_t *comm,
                               struct ompi_info_t *info, ompi_request_t **request,
                               mca_coll_base_module_t *module)
{
    return init(module, &CALL(reduce_scatter, .counts = counts, .info = info), request);
}

static int reduce_local(const void *sbuf, void *rbuf, zr_count_t count, ompi_datatype_t *dtype,
                        ompi_op_t *op, mca_coll_base_module_t *module)
{
    zr_coll_module_t *m     = (zr_coll_module_t *)module;
    struct zr_call    call  = {.kind  = ZR_exscan, /* rbuf goes in and comes back */
                               .sbuf  = sbuf,
                               .rbuf  = rbuf,
                               .count = count,
                               .dtype = dtype,
                               .op    = op,
                               .comm  = &ompi_mpi_comm_self.comm};
    struct zr_call    inner = call;
    struct zr_stage   stage;
    int               rc;

    if (!zr_stage_needed(&call)) {
        return m->reduce_local(sbuf, rbuf, count, dtype, op, m->reduce_local_module);
    }
    rc = zr_stage_open(&stage, &call, &inner);
    if (rc != OMPI_SUCCESS) {
        return rc;
    }
    rc = zr_stage_in(&stage, &call, &inner);
    if (rc == OMPI_SUCCESS) {
        rc = m->reduce_local(inner.sbuf, inner.rbuf, count, dtype, op, m->reduce_local_module);
    }
    if (rc == OMPI_SUCCESS) {
        rc = zr_stage_out(&stage, &call, &inner);
    }
    zr_stage_close(&stage);
    return rc;
}

static int alltoall(const void *sbuf, zr_count_t scount, ompi_datatype_t *stype, void *rbuf,
                    zr_count_t rcount, ompi_datatype_t *rtype, ompi_communicator_t *comm,
                    mca_coll_base_module_t *module)
{
    zr_coll_module_t *m = (zr_coll_module_t *)module;
    struct zr_blocks  blocks = {sbuf,          (size_t)scount, stype, rbuf,
                                (size_t)rcount, rtype,          comm,  true,
                                MCA_COLL_BASE_TAG_ALLTOALL};

    return zr_blocks_fit(m, &blocks) ?
               zr_blocks(&blocks) :
               m->alltoall(sbuf, scount, stype, rbuf, rcount, rtype, comm, m->alltoall_module);
}

static int allgather(const void *sbuf, zr_count_t scount, ompi_datatype_t *stype, void *rbuf,
                     zr_count_t rcount, ompi_datatype_t *rtype, ompi_communicator_t *comm,
                     mca_coll_base_module_t *module)
{
    zr_coll_module_t *m = (zr_coll_module_t *)module;
    struct zr_blocks  blocks = {sbuf,          (size_t)scount, stype, rbuf,
                                (size_t)rcount, rtype,          comm,  false,
                                MCA_COLL_BASE_TAG_ALLGATHER};

    return zr_blocks_fit(m, &blocks) ? zr_blocks(&blocks) :
                                       m->allgather(sbuf, scount, stype, rbuf, rcount, rtype, comm,
                                                    m->allgather_module);
}

/* ---- a communicator ---- */

/* Keeps what is there and, in Open MPI 6, takes its place; 5 does that itself afterwards. */
#define KEEP(name)                                                                                 \
    do {                                                                                           \
        m->name           = comm->c_coll->coll_##name;                                             \
        m->name##_module  = comm->c_coll->coll_##name##_module;                                    \
        if (m->name == NULL) {                                                                     \
            module->coll_##name = NULL;                                                            \
            break;                                                                                 \
        }                                                                                          \
        if (m->name##_module != NULL) {                                                            \
            OBJ_RETAIN(m->name##_module);                                                          \
        }                                                                                          \
        TAKE(name);                                                                                \
    } while (0)

#if OMPI_MAJOR_VERSION >= 6
#define TAKE(name) MCA_COLL_INSTALL_API(comm, name, name, module, "zerange")
#else
#define TAKE(name) ((void)0)
#endif

static int module_enable(mca_coll_base_module_t *module, ompi_communicator_t *comm)
{
    zr_coll_module_t *m = (zr_coll_module_t *)module;

#define X(name)                                                                                    \
    KEEP(name);                                                                                    \
    KEEP(i##name);                                                                                 \
    KEEP(name##_init);
    ZR_REDUCTIONS(X)
#undef X
    KEEP(reduce_local);
    KEEP(alltoall);
    KEEP(allgather);
    return OMPI_SUCCESS;
}

#if OMPI_MAJOR_VERSION >= 6
#define GIVE_BACK(name)                                                                            \
    do {                                                                                           \
        if (comm->c_coll->coll_##name##_module == module) {                                        \
            MCA_COLL_INSTALL_API(comm, name, m->name, m->name##_module, "zerange");                \
        }                                                                                          \
        DROP(name);                                                                                \
    } while (0)
#else
#define GIVE_BACK(name) DROP(name)
#endif
#define DROP(name)                                                                                 \
    do {                                                                                           \
        if (m->name##_module != NULL) {                                                            \
            OBJ_RELEASE(m->name##_module);                                                         \
        }                                                                                          \
        m->name##_module = NULL;                                                                   \
        m->name          = NULL;                                                                   \
    } while (0)

static int module_disable(mca_coll_base_module_t *module, ompi_communicator_t *comm)
{
    zr_coll_module_t *m = (zr_coll_module_t *)module;

#define X(name)                                                                                    \
    GIVE_BACK(name);                                                                               \
    GIVE_BACK(i##name);                                                                            \
    GIVE_BACK(name##_init);
    ZR_REDUCTIONS(X)
#undef X
    GIVE_BACK(reduce_local);
    GIVE_BACK(alltoall);
    GIVE_BACK(allgather);
    return OMPI_SUCCESS;
}

static int init_query(bool enable_progress_threads, bool enable_mpi_threads)
{
    return OMPI_SUCCESS;
}

/* What processes tell each other is exchanged after this and before init_query. */
static int component_open(void)
{
    if (zr_acc_get() != NULL) {
        zr_direct_publish();
    }
    return OMPI_SUCCESS;
}

static mca_coll_base_module_t *comm_query(ompi_communicator_t *comm, int *priority)
{
    zr_coll_module_t *module;

    if (zr_acc_get() == NULL) {
        return NULL; /* no device: nothing of ours is in the way */
    }
    module = OBJ_NEW(zr_coll_module_t);
    if (module == NULL) {
        return NULL;
    }
    module->super.coll_module_enable  = module_enable;
    module->super.coll_module_disable = module_disable;
#define X(name)                                                                                    \
    module->super.coll_##name        = name;                                                       \
    module->super.coll_i##name       = i##name;                                                    \
    module->super.coll_##name##_init = name##_init;
    ZR_REDUCTIONS(X)
#undef X
    module->super.coll_reduce_local = reduce_local;
    module->super.coll_alltoall     = alltoall;
    module->super.coll_allgather    = allgather;
    *priority                       = PRIORITY;
    return &module->super;
}

extern __attribute__((visibility("default"))) mca_coll_base_component_t mca_coll_zerange_component;

static int component_close(void)
{
    zr_requests_end();
    zr_acc_host_end();
    return OMPI_SUCCESS;
}

static int component_register(void)
{
    (void)mca_base_component_var_register(
        &mca_coll_zerange_component.collm_version, "direct_bytes",
        "Bytes from which on allreduce, reduce, reduce_scatter, alltoall and allgather of one "
        "node's processes go from buffer to buffer, reductions piece by piece; 0: never. The same "
        "on all ranks; may be changed between collectives (MPI_T), by all ranks alike",
        MCA_BASE_VAR_TYPE_SIZE_T, NULL, 0, MCA_BASE_VAR_FLAG_SETTABLE, OPAL_INFO_LVL_5,
        MCA_BASE_VAR_SCOPE_ALL_EQ,
        &zr_direct_bytes);
    (void)mca_base_component_var_register(
        &mca_coll_zerange_component.collm_version, "direct_piece",
        "Bytes of the result that a rank makes at a time, less where there are many ranks. The same "
        "on all ranks",
        MCA_BASE_VAR_TYPE_SIZE_T, NULL, 0, 0, OPAL_INFO_LVL_5, MCA_BASE_VAR_SCOPE_ALL_EQ,
        &zr_direct_piece);
    (void)mca_base_component_var_register(
        &mca_coll_zerange_component.collm_version, "verbose",
        "1: a line for each communicator whose long collectives go from buffer to buffer",
        MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_9, MCA_BASE_VAR_SCOPE_LOCAL,
        &zr_coll_verbose);
    return OMPI_SUCCESS;
}

mca_coll_base_component_t mca_coll_zerange_component = {
    .collm_version = {
#if OMPI_MAJOR_VERSION >= 6
        MCA_COLL_BASE_VERSION_3_0_0,
#else
        MCA_COLL_BASE_VERSION_2_4_0,
#endif
        .mca_component_name = "zerange",
        MCA_BASE_MAKE_VERSION(component, 0, 1, 0),
        .mca_open_component  = component_open,
        .mca_close_component = component_close,
        .mca_register_component_params = component_register,
    },
    .collm_init_query = init_query,
    .collm_comm_query = comm_query,
};

ZR_COMPONENT_POINTER(mca_coll_zerange_component, collm_version);
