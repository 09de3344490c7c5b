/* Accumulates of every kind on device memory: see osc.h. osc/ucx would have its own atomic operations
 * and reductions reach that memory by CPU, or by messages of which UCX's flush does not wait for all. So
 * the data is got into device memory here, computed by the host, and put back, under a lock word of the
 * target that lies in host memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "osc.h"

#include "ompi/mca/osc/base/osc_base_obj_convert.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- the windows behind a window ---- */

int zr_device_open(struct zr_window *window, void *base, size_t size, zr_unit_t unit,
                   ompi_communicator_t *comm)
{
    MPI_Info info;
    void    *word = NULL;
    int      rc;

    rc = PMPI_Win_create(base, (MPI_Aint)size, (int)unit, MPI_INFO_NULL, comm, &window->data);
    if (rc != MPI_SUCCESS) {
        window->data = MPI_WIN_NULL;
        return rc;
    }
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "acc_single_intrinsic", "true");
    rc = PMPI_Win_allocate(sizeof(uint64_t), 1, info, comm, &word, &window->locks);
    PMPI_Info_free(&info);
    if (rc != MPI_SUCCESS) {
        PMPI_Win_free(&window->data);
        window->data = window->locks = MPI_WIN_NULL;
        return rc;
    }
    memset(word, 0, sizeof(uint64_t));
    rc = comm->c_coll->coll_barrier(comm, comm->c_coll->coll_barrier_module);
    if (rc == MPI_SUCCESS) {
        rc = PMPI_Win_lock_all(MPI_MODE_NOCHECK, window->data);
    }
    return rc == MPI_SUCCESS ? PMPI_Win_lock_all(MPI_MODE_NOCHECK, window->locks) : rc;
}

void zr_device_close(struct zr_window *window)
{
    if (window->locks != MPI_WIN_NULL) {
        PMPI_Win_unlock_all(window->locks);
        PMPI_Win_free(&window->locks);
        PMPI_Win_unlock_all(window->data);
        PMPI_Win_free(&window->data);
    }
}

/* ---- the lock of a target ---- */

static int change_lock(struct zr_window *window, int target, uint64_t from, uint64_t to)
{
    ompi_win_t             *win    = window->locks;
    ompi_osc_base_module_t *module = win->w_osc_module;
    uint64_t                seen;
    int                     rc;

    do {
        seen = from;
        rc   = module->osc_compare_and_swap(&to, &from, &seen, MPI_UINT64_T, target, 0, win);
        if (rc == OMPI_SUCCESS) {
            rc = module->osc_flush(target, win);
        }
    } while (rc == OMPI_SUCCESS && seen != from);
    return rc;
}

/* ---- the computation ---- */

/* The target's elements: n of one predefined type, also as their bytes alone. */
struct work {
    ompi_datatype_t   *dtype;
    size_t             n, bytes;
    char              *old, *new;
    struct zr_pending *stage; /* bytes, in host and in device memory */
};

static void *elements(const struct work *work)
{
    ptrdiff_t first;
    size_t    size = zr_span(work->n, work->dtype, &first);

    return calloc(1, size > 0 ? size : 1); /* a predefined type begins at its pointer */
}

static int work_open(struct work *work, const struct zr_accumulate *acc)
{
    uint32_t n  = 1;
    int      rc = OMPI_SUCCESS;

    *work = (struct work){.dtype = acc->target_dt};
    if (!ompi_datatype_is_predefined(acc->target_dt)) {
        rc = ompi_osc_base_get_primitive_type_info(acc->target_dt, &work->dtype, &n);
    }
    if (rc != OMPI_SUCCESS) {
        return zr_error(MPI_ERR_TYPE, "%s: the target's type is not made of one predefined type",
                        acc->call);
    }
    work->n     = n * acc->target_count;
    work->bytes = work->n * work->dtype->super.size;
    if (work->bytes > INT_MAX) {
        return zr_error(MPI_ERR_COUNT, "%s: %zu bytes at once are too many", acc->call, work->bytes);
    }
    work->stage = zr_pending_new(acc->target, work->bytes, true, &rc);
    if (work->stage == NULL) {
        return rc;
    }
    work->old = elements(work);
    work->new = elements(work);
    return work->old != NULL && work->new != NULL ? OMPI_SUCCESS : OMPI_ERR_OUT_OF_RESOURCE;
}

static void work_close(struct work *work)
{
    if (work->stage != NULL) {
        zr_pending_free(work->stage);
    }
    free(work->old);
    free(work->new);
}

/* Elements between two memories whose types need not be the same. */
static int move(struct work *work, const void *from, size_t from_count, ompi_datatype_t *from_dt,
                void *to, size_t to_count, ompi_datatype_t *to_dt)
{
    size_t size = from_count * from_dt->super.size;
    int    rc;

    if (size > work->bytes || to_count * to_dt->super.size != size) {
        return zr_error(MPI_ERR_TRUNCATE, "accumulate: %zu bytes for %zu of the target", size,
                        work->bytes);
    }
    rc = zr_pack(work->stage->host, from, from_count, from_dt);
    return rc == OMPI_SUCCESS ? zr_unpack(work->stage->host, to, to_count, to_dt) : rc;
}

static int target_get(struct zr_window *window, const struct zr_accumulate *acc, struct work *work)
{
    ompi_win_t             *win    = window->data;
    ompi_osc_base_module_t *module = win->w_osc_module;
    int                     rc;

    rc = module->osc_get(work->stage->device, (zr_count_t)work->bytes, MPI_BYTE, acc->target,
                         acc->disp, (zr_count_t)acc->target_count, acc->target_dt, win);
    if (rc == OMPI_SUCCESS) {
        rc = module->osc_flush(acc->target, win);
    }
    return rc == OMPI_SUCCESS ? zr_unpack(work->stage->device, work->old, work->n, work->dtype) :
                                rc;
}

static int target_put(struct zr_window *window, const struct zr_accumulate *acc, struct work *work)
{
    ompi_win_t             *win    = window->data;
    ompi_osc_base_module_t *module = win->w_osc_module;
    int                     rc;

    rc = zr_pack(work->stage->host, work->old, work->n, work->dtype);
    if (rc == OMPI_SUCCESS &&
        !zr_acc_copy(work->stage->device, work->stage->host, work->bytes)) {
        rc = OMPI_ERROR;
    }
    if (rc == OMPI_SUCCESS) {
        rc = module->osc_put(work->stage->device, (zr_count_t)work->bytes, MPI_BYTE, acc->target,
                             acc->disp, (zr_count_t)acc->target_count, acc->target_dt, win);
    }
    return rc == OMPI_SUCCESS ? module->osc_flush(acc->target, win) : rc;
}

/* old becomes what the target shall hold; false: it stays as it is. */
static bool compute(const struct zr_accumulate *acc, struct work *work, const void *compare)
{
    if (compare != NULL) {
        if (memcmp(work->old, compare, work->bytes) != 0) {
            return false;
        }
        memcpy(work->old, work->new, work->bytes);
    } else if (acc->op == &ompi_mpi_op_no_op.op) {
        return false;
    } else if (acc->op == &ompi_mpi_op_replace.op) {
        ptrdiff_t first;

        memcpy(work->old, work->new, zr_span(work->n, work->dtype, &first));
    } else {
        ompi_op_reduce(acc->op, work->new, work->old, (zr_count_t)work->n, work->dtype);
    }
    return true;
}

static int under_lock(struct zr_window *window, const struct zr_accumulate *acc, struct work *work,
                      const void *compare)
{
    int rc = target_get(window, acc, work);

    if (rc == OMPI_SUCCESS && acc->result != NULL) {
        rc = move(work, work->old, work->n, work->dtype, acc->result, acc->result_count,
                  acc->result_dt);
    }
    if (rc == OMPI_SUCCESS && compute(acc, work, compare)) {
        rc = target_put(window, acc, work);
    }
    return rc;
}

int zr_device_accumulate(struct zr_window *window, const struct zr_accumulate *acc)
{
    struct work work;
    char        compare[64];
    bool        reads = acc->compare != NULL || acc->op != &ompi_mpi_op_no_op.op;
    int         rc, unlocked;

    rc = work_open(&work, acc);
    if (rc == OMPI_SUCCESS && reads) {
        rc = move(&work, acc->origin, acc->origin_count, acc->origin_dt, work.new, work.n,
                  work.dtype);
    }
    if (rc == OMPI_SUCCESS && acc->compare != NULL) {
        rc = work.bytes <= sizeof(compare) ? zr_pack(compare, acc->compare, 1, acc->target_dt) :
                                             OMPI_ERR_BAD_PARAM;
    }
    if (rc == OMPI_SUCCESS && work.bytes > 0) {
        pthread_mutex_lock(&window->lock);
        rc = change_lock(window, acc->target, 0, 1);
        if (rc == OMPI_SUCCESS) {
            rc       = under_lock(window, acc, &work, acc->compare != NULL ? compare : NULL);
            unlocked = change_lock(window, acc->target, 1, 0);
            rc       = rc == OMPI_SUCCESS ? unlocked : rc;
        }
        pthread_mutex_unlock(&window->lock);
    }
    work_close(&work);
    return rc;
}
