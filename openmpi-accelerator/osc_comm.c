/* One-sided communication: what is given is checked. Memory of one kind goes to memory of the same kind
 * by itself; where origin and target differ, the origin's data passes through memory of the target's
 * kind, so that neither the CPU of the component below nor that of the target is needed. Accumulates on
 * device memory are zr_device_accumulate's. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "osc.h"

#include "opal/runtime/opal_progress.h"
#include "ompi/request/request.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- checks ---- */

static bool target_is_device(const struct zr_window *window, int target)
{
    return window->parts != NULL && target >= 0 && target < window->ranks &&
           window->parts[target].device;
}

static bool is_device(const void *buffer, size_t count, const ompi_datatype_t *dtype)
{
    ptrdiff_t first;

    return zr_span(count, dtype, &first) > 0 && zr_acc_is_device((const char *)buffer + first);
}

/* Does the data have to change its kind of memory here? What a target of a dynamic window is, is not
 * known here. */
static bool differs(const struct zr_window *window, const void *buffer, size_t count,
                    const ompi_datatype_t *dtype, int target)
{
    return window->parts != NULL && dtype->super.size * count <= INT_MAX &&
           is_device(buffer, count, dtype) != target_is_device(window, target);
}

static int check_target(const struct zr_window *window, const char *call, int target,
                        ptrdiff_t disp, size_t count, const ompi_datatype_t *dtype)
{
    const struct zr_part *part;
    ptrdiff_t             first;
    size_t                size = zr_span(count, dtype, &first);
    __int128              from;

    if (size == 0 || window->parts == NULL || target < 0 || target >= window->ranks) {
        return OMPI_SUCCESS;
    }
    part = &window->parts[target];
    from = (__int128)disp * part->unit + first;
    if (from >= 0 && from + (__int128)size <= (__int128)part->size) {
        return OMPI_SUCCESS;
    }
    return zr_error(MPI_ERR_RMA_RANGE,
                    "%s: %zu bytes at displacement %td, byte %lld: the window of rank %d is %llu "
                    "bytes at 0x%llx",
                    call, size, disp, (long long)from, target, (unsigned long long)part->size,
                    (unsigned long long)part->base);
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        int try_rc = (call);                                                                       \
        if (try_rc != OMPI_SUCCESS) {                                                              \
            return try_rc;                                                                         \
        }                                                                                          \
    } while (0)

/* ---- put, get, accumulate ---- */

#define ORIGIN(type) type *origin, zr_count_t origin_count, ompi_datatype_t *origin_dt
#define TARGET                                                                                     \
    int target, ptrdiff_t disp, zr_count_t target_count, ompi_datatype_t *target_dt
#define RESULT void *result, zr_count_t result_count, ompi_datatype_t *result_dt

#define PASS_ORIGIN origin, origin_count, origin_dt
#define PASS_TARGET target, disp, target_count, target_dt
#define PASS_RESULT result, result_count, result_dt

#define CHECK_BOTH(call)                                                                           \
    struct zr_window *window = zr_window_find(win);                                                \
                                                                                                   \
    TRY(zr_check_buffer(call ", origin", PASS_ORIGIN));                                            \
    TRY(check_target(window, call, PASS_TARGET))

/* The origin's bytes in memory of the target's kind, kept until the window is synchronised. */
static int stage_out(struct zr_window *window, const void *origin, size_t count,
                     ompi_datatype_t *dtype, int target, const void **bytes)
{
    bool               device = target_is_device(window, target);
    struct zr_pending *pending;
    int                rc = OMPI_SUCCESS;

    pending = zr_pending_new(target, count * dtype->super.size, device, &rc);
    if (pending == NULL) {
        return rc;
    }
    rc = zr_pack(pending->host, origin, count, dtype);
    if (rc == OMPI_SUCCESS && device &&
        !zr_acc_copy(pending->device, pending->host, pending->bytes)) {
        rc = zr_error(MPI_ERR_OTHER, "one-sided: %zu bytes of %p cannot be copied", pending->bytes,
                      origin);
    }
    if (rc != OMPI_SUCCESS) {
        zr_pending_free(pending);
        return rc;
    }
    *bytes = device ? pending->device : pending->host;
    zr_pending_keep(window, pending);
    return OMPI_SUCCESS;
}

/* Memory of the target's kind whose bytes become the origin when they are brought. */
static int stage_in(struct zr_window *window, void *origin, size_t count, ompi_datatype_t *dtype,
                    int target, struct zr_pending **pending_p, void **bytes)
{
    bool               device = target_is_device(window, target);
    struct zr_pending *pending;
    int                rc = OMPI_SUCCESS;

    pending = zr_pending_new(target, count * dtype->super.size, device, &rc);
    if (pending == NULL) {
        return rc;
    }
    OBJ_RETAIN(dtype);
    pending->to    = origin;
    pending->count = count;
    pending->dtype = dtype;
    *bytes         = device ? pending->device : pending->host;
    *pending_p     = pending;
    return OMPI_SUCCESS;
}

#define BYTES_OF_ORIGIN (zr_count_t)(origin_count * origin_dt->super.size), MPI_BYTE

static int put(ORIGIN(const void), TARGET, ompi_win_t *win)
{
    CHECK_BOTH("MPI_Put");
    if (differs(window, PASS_ORIGIN, target)) {
        TRY(stage_out(window, PASS_ORIGIN, target, &origin));
        return window->below.osc_put(origin, BYTES_OF_ORIGIN, PASS_TARGET, win);
    }
    return window->below.osc_put(PASS_ORIGIN, PASS_TARGET, win);
}

static int rput(ORIGIN(const void), TARGET, ompi_win_t *win, ompi_request_t **request)
{
    CHECK_BOTH("MPI_Rput");
    if (differs(window, PASS_ORIGIN, target)) {
        TRY(stage_out(window, PASS_ORIGIN, target, &origin));
        return window->below.osc_rput(origin, BYTES_OF_ORIGIN, PASS_TARGET, win, request);
    }
    return window->below.osc_rput(PASS_ORIGIN, PASS_TARGET, win, request);
}

static int get(ORIGIN(void), TARGET, ompi_win_t *win)
{
    struct zr_pending *pending;
    void              *bytes;
    int                rc;

    CHECK_BOTH("MPI_Get");
    if (!differs(window, PASS_ORIGIN, target)) {
        return window->below.osc_get(PASS_ORIGIN, PASS_TARGET, win);
    }
    TRY(stage_in(window, PASS_ORIGIN, target, &pending, &bytes));
    rc = window->below.osc_get(bytes, BYTES_OF_ORIGIN, PASS_TARGET, win);
    if (rc == OMPI_SUCCESS) {
        zr_pending_keep(window, pending);
    } else {
        zr_pending_free(pending);
    }
    return rc;
}

/* The request must not end before the data is where it belongs: it is waited for here. */
static int rget(ORIGIN(void), TARGET, ompi_win_t *win, ompi_request_t **request)
{
    struct zr_pending *pending;
    void              *bytes;
    int                rc;

    CHECK_BOTH("MPI_Rget");
    if (!differs(window, PASS_ORIGIN, target)) {
        return window->below.osc_rget(PASS_ORIGIN, PASS_TARGET, win, request);
    }
    TRY(stage_in(window, PASS_ORIGIN, target, &pending, &bytes));
    rc = window->below.osc_rget(bytes, BYTES_OF_ORIGIN, PASS_TARGET, win, request);
    if (rc == OMPI_SUCCESS) {
        while (!REQUEST_COMPLETE(*request)) {
            opal_progress();
        }
        rc = zr_pending_bring(pending);
    }
    zr_pending_free(pending);
    return rc;
}

/* ---- accumulates ---- */

/* What the component below gets in place of device memory; result is NULL where it is not. */
struct stage {
    struct zr_pending *origin, *result;
};

/* On memory of the host everything is done by the component below, with operands that its CPU can
 * touch. */
static int stage_open(struct stage *stage, struct zr_accumulate *acc)
{
    void *copy;
    int   rc = OMPI_SUCCESS;

    *stage = (struct stage){NULL, NULL};
    if (acc->op != &ompi_mpi_op_no_op.op &&
        is_device(acc->origin, acc->origin_count, acc->origin_dt)) {
        stage->origin = zr_pending_like(acc->target, acc->origin_count, acc->origin_dt, &copy, &rc);
        if (stage->origin != NULL) {
            rc = zr_copy_elements(copy, acc->origin, acc->origin_count, acc->origin_dt);
            acc->origin = copy;
        }
    }
    if (rc == OMPI_SUCCESS && acc->result != NULL &&
        is_device(acc->result, acc->result_count, acc->result_dt)) {
        stage->result = zr_pending_like(acc->target, acc->result_count, acc->result_dt, &copy, &rc);
        if (stage->result != NULL) {
            stage->result->to = acc->result;
            acc->result       = copy;
        }
    }
    return rc;
}

/* Keeps the copies until the window is synchronised; or with a request, until that has ended. */
static int stage_close(struct stage *stage, struct zr_window *window, int rc,
                       ompi_request_t **request)
{
    if (stage->origin != NULL && rc == OMPI_SUCCESS) {
        zr_pending_keep(window, stage->origin);
    } else if (stage->origin != NULL) {
        zr_pending_free(stage->origin);
    }
    if (stage->result != NULL && rc == OMPI_SUCCESS && request == NULL) {
        zr_pending_keep(window, stage->result);
    } else if (stage->result != NULL) {
        while (rc == OMPI_SUCCESS && !REQUEST_COMPLETE(*request)) {
            opal_progress();
        }
        rc = rc == OMPI_SUCCESS ? zr_pending_bring(stage->result) : rc;
        zr_pending_free(stage->result);
    }
    return rc;
}

/* The component below says whether the window may be accessed now. */
static int may_access(struct zr_window *window, int target, ompi_win_t *win)
{
    return window->below.osc_put(NULL, 0, MPI_BYTE, target, 0, 0, MPI_BYTE, win);
}

static int on_device(struct zr_window *window, const struct zr_accumulate *acc,
                     ompi_request_t **request)
{
    TRY(may_access(window, acc->target, window->win));
    TRY(zr_device_accumulate(window, acc));
    if (request != NULL) {
        *request = &ompi_request_empty;
    }
    return OMPI_SUCCESS;
}

static int check_accumulate(struct zr_window *window, const struct zr_accumulate *acc)
{
    char what[60];

    snprintf(what, sizeof(what), "%s, origin", acc->call);
    if (acc->compare != NULL || acc->op != &ompi_mpi_op_no_op.op) {
        TRY(zr_check_buffer(what, acc->origin, acc->origin_count, acc->origin_dt));
    }
    if (acc->result != NULL) {
        snprintf(what, sizeof(what), "%s, result", acc->call);
        TRY(zr_check_buffer(what, acc->result, acc->result_count, acc->result_dt));
    }
    return check_target(window, acc->call, acc->target, acc->disp, acc->target_count,
                        acc->target_dt);
}

/* below is a call of the component below with acc's operands, or with copies of them. */
#define ACCUMULATE(text, set_result, the_request, below_call)                                          struct zr_window    *window = zr_window_find(win);                                                 struct zr_accumulate acc    = {.call         = text,                                                                              .origin       = origin,                                                                            .origin_count = (size_t)origin_count,                                                              .origin_dt    = origin_dt,                                                                         .target       = target,                                                                            .disp         = disp,                                                                              .target_count = (size_t)target_count,                                                              .target_dt    = target_dt,                                                                         .op           = op};                                                struct stage stage;                                                                                int          rc;                                                                                                                                                                                      set_result;                                                                                        TRY(check_accumulate(window, &acc));                                                               if (target_is_device(window, target)) {                                                                return on_device(window, &acc, the_request);                                                   }                                                                                                  rc = stage_open(&stage, &acc);                                                                     if (rc == OMPI_SUCCESS) {                                                                              rc = window->below.below_call;                                                                 }                                                                                                  return stage_close(&stage, window, rc, the_request)

#define SET_RESULT                                                                                     acc.result = result, acc.result_count = (size_t)result_count, acc.result_dt = result_dt

static int accumulate(ORIGIN(const void), TARGET, ompi_op_t *op, ompi_win_t *win)
{
    ACCUMULATE("MPI_Accumulate", (void)0, NULL,
               osc_accumulate(acc.origin, origin_count, origin_dt, PASS_TARGET, op, win));
}

static int raccumulate(ORIGIN(const void), TARGET, ompi_op_t *op, ompi_win_t *win,
                       ompi_request_t **request)
{
    ACCUMULATE("MPI_Raccumulate", (void)0, request,
               osc_raccumulate(acc.origin, origin_count, origin_dt, PASS_TARGET, op, win, request));
}

static int get_accumulate(ORIGIN(const void), RESULT, TARGET, ompi_op_t *op, ompi_win_t *win)
{
    ACCUMULATE("MPI_Get_accumulate", SET_RESULT, NULL,
               osc_get_accumulate(acc.origin, origin_count, origin_dt, acc.result, result_count,
                                  result_dt, PASS_TARGET, op, win));
}

static int rget_accumulate(ORIGIN(const void), RESULT, TARGET, ompi_op_t *op, ompi_win_t *win,
                           ompi_request_t **request)
{
    ACCUMULATE("MPI_Rget_accumulate", SET_RESULT, request,
               osc_rget_accumulate(acc.origin, origin_count, origin_dt, acc.result, result_count,
                                   result_dt, PASS_TARGET, op, win, request));
}

static int fetch_and_op(const void *origin, void *result, ompi_datatype_t *dt, int target,
                        ptrdiff_t disp, ompi_op_t *op, ompi_win_t *win)
{
    enum { origin_count = 1, result_count = 1, target_count = 1 };
    ompi_datatype_t *origin_dt = dt, *result_dt = dt, *target_dt = dt;

    /* A dynamic window may have device memory anywhere, where only get and put reach. */
    if (zr_window_find(win)->parts == NULL) {
        ACCUMULATE("MPI_Fetch_and_op", SET_RESULT, NULL,
                   osc_get_accumulate(acc.origin, 1, dt, acc.result, 1, dt, target, disp, 1, dt, op,
                                      win));
    }
    ACCUMULATE("MPI_Fetch_and_op", SET_RESULT, NULL,
               osc_fetch_and_op(acc.origin, acc.result, dt, target, disp, op, win));
}

/* The origin of an accumulate whose operation is zr_swap. */
struct swap {
    char   origin[64], compare[64];
    size_t size;
};

void zr_swap(void *in, void *inout, int *count, MPI_Datatype *dtype)
{
    const struct swap *swap = in;

    if (memcmp(inout, swap->compare, swap->size) == 0) {
        memcpy(inout, swap->origin, swap->size);
    }
}

/* osc/ucx has ended an accumulate in a dynamic window when it returns. */
static int dynamic_swap(struct zr_window *window, const void *origin, const void *compare,
                        void *result, ompi_datatype_t *dt, int target, ptrdiff_t disp)
{
    struct swap swap = {.size = dt->super.size};
    char        old[64];

    if (swap.size > sizeof(old)) {
        return zr_error(MPI_ERR_TYPE, "MPI_Compare_and_swap: %zu bytes are too many", swap.size);
    }
    TRY(zr_check_buffer("MPI_Compare_and_swap, origin", origin, 1, dt));
    TRY(zr_check_buffer("MPI_Compare_and_swap, compare", compare, 1, dt));
    TRY(zr_check_buffer("MPI_Compare_and_swap, result", result, 1, dt));
    TRY(zr_pack(swap.origin, origin, 1, dt));
    TRY(zr_pack(swap.compare, compare, 1, dt));
    TRY(window->below.osc_get_accumulate(swap.origin, 1, dt, old, 1, dt, target, disp, 1, dt,
                                         window->swap, window->win));
    return zr_unpack(old, result, 1, dt);
}

static int compare_and_swap(const void *origin, const void *compare, void *result,
                            ompi_datatype_t *dt, int target, ptrdiff_t disp, ompi_win_t *win)
{
    enum { origin_count = 1, result_count = 1, target_count = 1 };
    ompi_datatype_t   *origin_dt = dt, *result_dt = dt, *target_dt = dt;
    ompi_op_t         *op        = &ompi_mpi_op_replace.op;
    char               word[64]; /* the component below reads it before it returns */

    if (zr_window_find(win)->parts == NULL) {
        return dynamic_swap(zr_window_find(win), origin, compare, result, dt, target, disp);
    }
    TRY(zr_check_buffer("MPI_Compare_and_swap, compare", compare, 1, dt));
    if (dt->super.size <= sizeof(word) && is_device(compare, 1, dt)) {
        TRY(zr_pack(word, compare, 1, dt));
        compare = word;
    }
    ACCUMULATE("MPI_Compare_and_swap", (SET_RESULT, acc.compare = compare), NULL,
               osc_compare_and_swap(acc.origin, compare, acc.result, dt, target, disp, win));
}

void zr_comm_install(ompi_osc_base_module_t *module)
{
    module->osc_put              = put;
    module->osc_get              = get;
    module->osc_rput             = rput;
    module->osc_rget             = rget;
    module->osc_accumulate       = accumulate;
    module->osc_raccumulate      = raccumulate;
    module->osc_get_accumulate   = get_accumulate;
    module->osc_rget_accumulate  = rget_accumulate;
    module->osc_fetch_and_op     = fetch_and_op;
    module->osc_compare_and_swap = compare_and_swap;
}
