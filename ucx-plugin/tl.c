/* Transport: see tl.h. An interface has one asynchronous immediate command list. Each copy
 * signals an event of its own; progress looks at them in the order of submission. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "tl.h"

#include "bounce.h"
#include "md.h"
#include "settings.h"
#include "wake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_PER_POOL  64
#define CLOSE_TIMEOUT_NS UINT64_C(10000000000)

struct tl_config {
    char   ucx[ZR_UCT_CONFIG_RESERVE];
    double bandwidth, get_bandwidth, put_bandwidth, latency, overhead;
};

ucs_config_field_t zr_tl_config_table[] = {
    {"", "", NULL, 0, UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)},
    {"BW", "50000MBs", "Effective bandwidth of a copy between two processes",
     offsetof(struct tl_config, bandwidth), ZR_SETTING_BANDWIDTH("BW")},
    {"GET_BW", "auto",
     "The same of a copy that reads from the peer; auto: as BW. benchmarks/choice.sh prints "
     "values of this and PUT_BW for the machine it runs on",
     offsetof(struct tl_config, get_bandwidth), ZR_SETTING_BANDWIDTH_AUTO("GET_BW")},
    {"PUT_BW", "auto", "The same of a copy that writes to the peer; auto: as BW",
     offsetof(struct tl_config, put_bandwidth), ZR_SETTING_BANDWIDTH_AUTO("PUT_BW")},
    {"LAT", "1.8us", "Estimated latency", offsetof(struct tl_config, latency),
     ZR_SETTING_TIME("LAT")},
    {"OVERHEAD", "4.0us", "Estimated CPU overhead of starting a copy",
     offsetof(struct tl_config, overhead), ZR_SETTING_TIME("OVERHEAD")},
    {NULL},
};
const size_t zr_tl_config_size = sizeof(struct tl_config);

/* One copy on its way, or (without event) a flush that waits for those before it. */
struct op {
    struct op               *next;
    ze_event_handle_t        event;
    struct zr_rcache_region *region;
    uct_completion_t        *comp;
};

struct event_pool {
    struct event_pool     *next;
    ze_event_pool_handle_t handle;
    struct op              ops[EVENTS_PER_POOL];
};

typedef struct zr_iface {
    struct zr_uct_base_iface super;
    struct zr_tl_perf        perf;
    ze_command_list_handle_t list;
    struct op               *first, **last; /* submitted, oldest first */
    struct op               *idle;          /* with an event that is not signalled */
    struct op               *kept;          /* ended, but its event is still waited for */
    struct event_pool       *pools;
    struct zr_wake           wake;
    bool                     armed; /* the next copy must wake who sleeps */
    unsigned long            copies, bytes;
} zr_iface_t;

typedef struct zr_ep {
    struct zr_uct_base_ep super;
    struct zr_peer        peer;
} zr_ep_t;

/* The addresses peers exchange. */
struct iface_address {
    uint64_t start_time, pid_ns;
    uint32_t pid, user;
    uint32_t version; /* of the keys */
    uint32_t driver;  /* a digest of the Level Zero driver's identity */
};

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- events ---- */

static void pool_destroy(struct event_pool *pool)
{
    unsigned k;

    for (k = 0; k < EVENTS_PER_POOL; k++) {
        if (pool->ops[k].event != NULL) {
            zeEventDestroy(pool->ops[k].event);
        }
    }
    if (pool->handle != NULL) {
        zeEventPoolDestroy(pool->handle);
    }
    free(pool);
}

/* More copies than ever are on their way. */
static ze_result_t grow(zr_iface_t *iface)
{
    const struct zr_ze  *ze   = zr_ze_get();
    ze_event_pool_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                 .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE,
                                 .count = EVENTS_PER_POOL};
    ze_device_handle_t   device = ze->device;
    struct event_pool   *pool   = calloc(1, sizeof(*pool));
    ze_result_t          result;
    unsigned             k;

    if (pool == NULL) {
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    result = zeEventPoolCreate(ze->context, &desc, 1, &device, &pool->handle);
    for (k = 0; result == ZE_RESULT_SUCCESS && k < EVENTS_PER_POOL; k++) {
        ze_event_desc_t event = {.stype  = ZE_STRUCTURE_TYPE_EVENT_DESC,
                                 .index  = k,
                                 .signal = ZE_EVENT_SCOPE_FLAG_HOST,
                                 .wait   = ZE_EVENT_SCOPE_FLAG_HOST};

        result = zeEventCreate(pool->handle, &event, &pool->ops[k].event);
    }
    if (result != ZE_RESULT_SUCCESS) {
        pool_destroy(pool);
        return result;
    }
    for (k = 0; k < EVENTS_PER_POOL; k++) {
        pool->ops[k].next = iface->idle;
        iface->idle       = &pool->ops[k];
    }
    pool->next   = iface->pools;
    iface->pools = pool;
    return ZE_RESULT_SUCCESS;
}

static void submitted(zr_iface_t *iface, struct op *op)
{
    op->next     = NULL;
    *iface->last = op;
    iface->last  = &op->next;
}

static void make_idle(zr_iface_t *iface, struct op *op)
{
    zeEventHostReset(op->event);
    op->next    = iface->idle;
    iface->idle = op;
}

static void recycle(zr_iface_t *iface, struct op *op)
{
    if (op->event == NULL) {
        free(op);
        return;
    }
    if (op->region != NULL) {
        zr_import_put(op->region);
        op->region = NULL;
    }
    if (zr_wake_uses(&iface->wake, op->event)) {
        iface->kept = op; /* at most one is waited for */
        return;
    }
    make_idle(iface, op);
}

/* Complete what is done, oldest first. An error ends its copy, it is not polled again. */
static unsigned reap(zr_iface_t *iface, int complete)
{
    unsigned          count = 0;
    uct_completion_t *comp;
    struct op        *op;
    ze_result_t       result;
    ucs_status_t      status;

    while ((op = iface->first) != NULL) {
        result = op->event != NULL ? zeEventQueryStatus(op->event) : ZE_RESULT_SUCCESS;
        if (result == ZE_RESULT_NOT_READY) {
            break;
        }
        status = result == ZE_RESULT_SUCCESS ? UCS_OK : UCS_ERR_IO_ERROR;
        if (status != UCS_OK) {
            zr_ucs_diag("a copy failed: 0x%x %s", (unsigned)result,
                        zr_ze_last_error(zr_ze_get()));
        }
        iface->first = op->next;
        if (iface->first == NULL) {
            iface->last = &iface->first;
        }
        comp = op->comp;
        recycle(iface, op);
        count++;
        if (complete && comp != NULL) {
            uct_completion_update_status(comp, status);
            if (--comp->count == 0) {
                comp->func(comp);
            }
        }
    }
    return count;
}

static unsigned iface_progress(uct_iface_h tl_iface)
{
    return reap((zr_iface_t *)tl_iface, 1);
}

/* ---- waking who sleeps ---- */

/* The oldest copy on its way wakes. */
static ucs_status_t watch(zr_iface_t *iface)
{
    if (iface->kept != NULL && !zr_wake_uses(&iface->wake, iface->kept->event)) {
        make_idle(iface, iface->kept);
        iface->kept = NULL;
    }
    iface->armed = false;
    return zr_wake_watch(&iface->wake, iface->first->event);
}

static ucs_status_t iface_event_fd_get(uct_iface_h tl_iface, int *fd_p)
{
    return zr_wake_fd(&((zr_iface_t *)tl_iface)->wake, fd_p);
}

/* Nothing is ever received here: a peer's copy needs nothing of this process. */
static ucs_status_t iface_event_arm(uct_iface_h tl_iface, unsigned events)
{
    zr_iface_t *iface = (zr_iface_t *)tl_iface;
    struct op  *op    = iface->first;

    zr_wake_drain(&iface->wake);
    if (op == NULL) {
        iface->armed = true;
        return UCS_OK;
    }
    if (op->event == NULL || zeEventQueryStatus(op->event) != ZE_RESULT_NOT_READY) {
        return UCS_ERR_BUSY; /* progress has something to do */
    }
    return watch(iface);
}

/* ---- copies ---- */

/* What is open in one piece is one copy; of several, each signals nothing, and a barrier behind
 * them does. */
static ze_result_t append(zr_iface_t *iface, struct op *op, char *local, uint64_t remote,
                          size_t size, int put)
{
    ze_event_handle_t event = op->event;
    size_t            done, n;
    uint64_t          length;
    void             *mapped;
    ze_result_t       result = ZE_RESULT_SUCCESS;

    for (done = 0; done < size && result == ZE_RESULT_SUCCESS; done += n) {
        mapped = zr_import_at(op->region, remote + done, &length);
        n      = length < size - done ? length : size - done;
        event  = n == size ? op->event : NULL;
        result = zeCommandListAppendMemoryCopy(iface->list, put ? mapped : local + done,
                                               put ? local + done : mapped, n, event, 0, NULL);
    }
    if (event != NULL || (result != ZE_RESULT_SUCCESS && done == n)) {
        return result;
    }
    /* Pieces are on their way, even if one more was refused: they end before this returns then. */
    if (result == ZE_RESULT_SUCCESS) {
        result = zeCommandListAppendBarrier(iface->list, op->event, 0, NULL);
    }
    if (result != ZE_RESULT_SUCCESS) {
        zeCommandListHostSynchronize(iface->list, CLOSE_TIMEOUT_NS);
    }
    return result;
}

static ucs_status_t copy(uct_ep_h tl_ep, const uct_iov_t *iov, size_t iov_count, uint64_t remote,
                         uct_rkey_t rkey, uct_completion_t *comp, int put)
{
    zr_iface_t  *iface = (zr_iface_t *)tl_ep->iface;
    size_t       size  = iov_count == 0 ? 0 : iov->length * iov->count;
    struct op   *op;
    ze_result_t  result;
    ucs_status_t status;

    if (size == 0) {
        return UCS_OK;
    }
    if (iov_count > 1 || iov->count > 1) {
        return UCS_ERR_INVALID_PARAM; /* max_iov is 1 */
    }
    if (iface->idle == NULL) {
        result = grow(iface);
        if (result != ZE_RESULT_SUCCESS) {
            zr_ucs_diag("no events for more copies: 0x%x", (unsigned)result);
            return zr_status_of(result);
        }
    }
    op     = iface->idle;
    status = zr_import_get((struct zr_rkey *)rkey, remote, size, &op->region);
    if (status != UCS_OK) {
        op->region = NULL;
        return status;
    }
    result = append(iface, op, iov->buffer, remote, size, put);
    if (result != ZE_RESULT_SUCCESS && zr_bounce_helps(iov->buffer, size, put, result)) {
        result = zr_bounce(iface->list, op->region, iov->buffer, remote, size, put);
        if (result == ZE_RESULT_SUCCESS) {
            zr_import_put(op->region);
            op->region = NULL;
            return UCS_OK;
        }
    }
    if (result != ZE_RESULT_SUCCESS) {
        zr_ucs_diag("copy of %zu bytes between %p and 0x%lx of a peer: 0x%x %s", size, iov->buffer,
                    (unsigned long)remote, (unsigned)result, zr_ze_last_error(zr_ze_get()));
        zr_import_put(op->region);
        op->region = NULL;
        return zr_status_of(result);
    }
    iface->idle = op->next;
    op->comp    = comp;
    submitted(iface, op);
    if (iface->armed) {
        watch(iface);
    }
    iface->copies++;
    iface->bytes += size;
    return UCS_INPROGRESS;
}

static ucs_status_t ep_put_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t iov_count,
                                 uint64_t remote, uct_rkey_t rkey, uct_completion_t *comp)
{
    return copy(ep, iov, iov_count, remote, rkey, comp, 1);
}

static ucs_status_t ep_get_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t iov_count,
                                 uint64_t remote, uct_rkey_t rkey, uct_completion_t *comp)
{
    return copy(ep, iov, iov_count, remote, rkey, comp, 0);
}

/* ---- order ---- */

static ucs_status_t flush(zr_iface_t *iface, uct_completion_t *comp)
{
    struct op *op;

    if (iface->first == NULL) {
        return UCS_OK;
    }
    if (comp != NULL) {
        op = calloc(1, sizeof(*op));
        if (op == NULL) {
            return UCS_ERR_NO_MEMORY;
        }
        op->comp = comp;
        submitted(iface, op);
    }
    return UCS_INPROGRESS;
}

static ucs_status_t iface_flush(uct_iface_h iface, unsigned flags, uct_completion_t *comp)
{
    return flush((zr_iface_t *)iface, comp);
}

static ucs_status_t ep_flush(uct_ep_h ep, unsigned flags, uct_completion_t *comp)
{
    return flush((zr_iface_t *)ep->iface, comp);
}

/* Copies of one list may overtake each other but not a barrier. */
static ucs_status_t iface_fence(uct_iface_h tl_iface, unsigned flags)
{
    zr_iface_t *iface = (zr_iface_t *)tl_iface;

    if (iface->first == NULL) {
        return UCS_OK;
    }
    return zr_status_of(zeCommandListAppendBarrier(iface->list, NULL, 0, NULL));
}

static ucs_status_t ep_fence(uct_ep_h ep, unsigned flags)
{
    return iface_fence(ep->iface, flags);
}

/* ---- addresses ---- */

static ucs_status_t iface_get_device_address(uct_iface_h iface, uct_device_addr_t *address)
{
    struct zr_peer self = zr_peer_self();

    memcpy(address, &self.system_id, sizeof(self.system_id));
    return UCS_OK;
}

static ucs_status_t iface_get_address(uct_iface_h iface, uct_iface_addr_t *address)
{
    struct zr_peer       self = zr_peer_self();
    struct iface_address a    = {self.start_time, self.pid_ns, self.pid, geteuid(),
                                 ZR_KEY_VERSION, zr_ze_get()->driver_digest};

    memcpy(address, &a, sizeof(a));
    return UCS_OK;
}

static struct zr_peer peer_at(const void *device_address, const void *iface_address)
{
    struct iface_address a;
    struct zr_peer       peer = {0};

    memcpy(&a, iface_address, sizeof(a));
    memcpy(&peer.system_id, device_address, sizeof(peer.system_id));
    peer.start_time = a.start_time;
    peer.pid_ns     = a.pid_ns;
    peer.pid        = a.pid;
    return peer;
}

/* Why this process cannot open the memory of the one at these addresses. NULL: it can. */
static const char *unreachable(const void *device_address, const void *iface_address)
{
    struct zr_peer       self = zr_peer_self(), peer = peer_at(device_address, iface_address);
    struct iface_address a;

    memcpy(&a, iface_address, sizeof(a));
    if (peer.system_id != self.system_id) {
        return "different machine";
    }
    if (peer.pid_ns != self.pid_ns) {
        return "different pid namespace";
    }
    if (zr_peer_equal(&peer, &self)) {
        return "same process";
    }
    if (a.user != geteuid()) {
        return "different user: no permission to share memory";
    }
    if (a.version != ZR_KEY_VERSION) {
        return "different version of zerange";
    }
    if (a.driver != zr_ze_get()->driver_digest) {
        return "different Level Zero driver";
    }
    return NULL;
}

int zr_tl_is_reachable(const uct_iface_h iface, const struct zr_uct_reachable_params *params)
{
    const uint64_t needed = ZR_UCT_REACHABLE_FIELD_DEVICE_ADDR | ZR_UCT_REACHABLE_FIELD_IFACE_ADDR;
    const char    *why;

    if ((params->field_mask & needed) != needed || params->device_addr == NULL ||
        params->iface_addr == NULL) {
        return 0;
    }
    why = unreachable(params->device_addr, params->iface_addr);
    if (why != NULL && (params->field_mask & ZR_UCT_REACHABLE_FIELD_INFO_STRING) &&
        (params->field_mask & ZR_UCT_REACHABLE_FIELD_INFO_STRING_LENGTH) &&
        params->info_string_length > 0) {
        snprintf(params->info_string, params->info_string_length, "%s", why);
    }
    if (why != NULL) { /* not every UCX prints what it was told */
        zr_ucs_debug("ze_range does not reach a peer: %s", why);
    }
    return why == NULL;
}

int zr_tl_ep_is_connected(const uct_ep_h tl_ep, const struct zr_uct_connected_params *params)
{
    const zr_ep_t *ep     = (const zr_ep_t *)tl_ep;
    const uint64_t needed = ZR_UCT_REACHABLE_FIELD_DEVICE_ADDR | ZR_UCT_REACHABLE_FIELD_IFACE_ADDR;
    struct zr_peer peer;

    if ((params->field_mask & needed) != needed) {
        return 0;
    }
    peer = peer_at(params->device_addr, params->iface_addr);
    return zr_peer_equal(&peer, &ep->peer);
}

/* ---- attributes ---- */

struct zr_tl_perf zr_tl_perf(uct_iface_h iface)
{
    return ((zr_iface_t *)iface)->perf;
}

double zr_tl_bandwidth(const struct zr_tl_perf *perf, int operation)
{
    switch (operation) {
    case ZR_UCT_EP_OP_GET_ZCOPY: return perf->get_bandwidth;
    case ZR_UCT_EP_OP_PUT_ZCOPY: return perf->put_bandwidth;
    default: return perf->bandwidth;
    }
}

static struct zr_tl_perf perf_of(const struct tl_config *config)
{
    struct zr_tl_perf perf = {config->bandwidth, config->get_bandwidth, config->put_bandwidth,
                              config->latency, config->overhead};

    if (UCS_CONFIG_DBL_IS_AUTO(perf.get_bandwidth)) {
        perf.get_bandwidth = perf.bandwidth;
    }
    if (UCS_CONFIG_DBL_IS_AUTO(perf.put_bandwidth)) {
        perf.put_bandwidth = perf.bandwidth;
    }
    return perf;
}

static ucs_status_t iface_query(uct_iface_h tl_iface, uct_iface_attr_t *attr)
{
    zr_iface_t *iface = (zr_iface_t *)tl_iface;

    uct_base_iface_query(tl_iface, attr);
    attr->iface_addr_len  = sizeof(struct iface_address);
    attr->device_addr_len = sizeof(uint64_t);
    attr->cap.flags       = UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_PENDING |
                      UCT_IFACE_FLAG_GET_ZCOPY | UCT_IFACE_FLAG_PUT_ZCOPY |
                      UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE;
    attr->cap.event_flags =
        UCT_IFACE_FLAG_EVENT_SEND_COMP | UCT_IFACE_FLAG_EVENT_RECV | UCT_IFACE_FLAG_EVENT_FD;
    attr->cap.put.max_zcopy = attr->cap.get.max_zcopy = SIZE_MAX;
    attr->cap.put.max_iov = attr->cap.get.max_iov = attr->cap.am.max_iov = 1;
    attr->cap.put.opt_zcopy_align = attr->cap.put.align_mtu = 1;
    attr->cap.get.opt_zcopy_align = attr->cap.get.align_mtu = 1;
    attr->cap.am.opt_zcopy_align = attr->cap.am.align_mtu = 1;
    /* These two travel in the worker's address, so they do not depend on settings. */
    attr->latency             = ucs_linear_func_make(1e-6, 0);
    attr->overhead            = 7e-6;
    attr->bandwidth.dedicated = 0;
    attr->bandwidth.shared    = iface->perf.bandwidth;
    return UCS_OK;
}

/* ---- life ---- */

static UCS_CLASS_INIT_FUNC(zr_ep_t, const uct_ep_params_t *params)
{
    ucs_status_t status;

    status = uct_base_ep_t_init(&self->super, _myclass->superclass, _init_count, params->iface);
    if (status != UCS_OK) {
        return status;
    }
    ++*_init_count;
    if ((params->field_mask & UCT_EP_PARAM_FIELD_DEV_ADDR) &&
        (params->field_mask & UCT_EP_PARAM_FIELD_IFACE_ADDR)) {
        self->peer = peer_at(params->dev_addr, params->iface_addr);
    }
    return UCS_OK;
}

static UCS_CLASS_CLEANUP_FUNC(zr_ep_t)
{
}

UCS_CLASS_DEFINE(zr_ep_t, uct_base_ep_t)
static UCS_CLASS_DEFINE_NEW_FUNC(zr_ep_t, uct_ep_t, const uct_ep_params_t *);
static UCS_CLASS_DEFINE_DELETE_FUNC(zr_ep_t, uct_ep_t);

/* A copy is never refused for lack of room, so nothing ever waits for some. */
static ucs_status_t ep_pending_add(uct_ep_h ep, uct_pending_req_t *request, unsigned flags)
{
    return UCS_ERR_BUSY;
}

static void ep_pending_purge(uct_ep_h ep, uct_pending_purge_callback_t callback, void *arg)
{
}

static ucs_status_t ep_check(const uct_ep_h ep, unsigned flags, uct_completion_t *comp)
{
    return UCS_ERR_UNSUPPORTED;
}

static UCS_CLASS_DECLARE_DELETE_FUNC(zr_iface_t, uct_iface_t);

static uct_iface_ops_t iface_ops = {
    .ep_put_zcopy             = ep_put_zcopy,
    .ep_get_zcopy             = ep_get_zcopy,
    .ep_pending_add           = ep_pending_add,
    .ep_pending_purge         = ep_pending_purge,
    .ep_flush                 = ep_flush,
    .ep_fence                 = ep_fence,
    .ep_check                 = ep_check,
    .ep_create                = UCS_CLASS_NEW_FUNC_NAME(zr_ep_t),
    .ep_destroy               = UCS_CLASS_DELETE_FUNC_NAME(zr_ep_t),
    .iface_flush              = iface_flush,
    .iface_fence              = iface_fence,
    .iface_progress_enable    = uct_base_iface_progress_enable,
    .iface_progress_disable   = uct_base_iface_progress_disable,
    .iface_progress           = iface_progress,
    .iface_event_fd_get       = iface_event_fd_get,
    .iface_event_arm          = iface_event_arm,
    .iface_close              = UCS_CLASS_DELETE_FUNC_NAME(zr_iface_t),
    .iface_query              = iface_query,
    .iface_get_device_address = iface_get_device_address,
    .iface_get_address        = iface_get_address,
    .iface_is_reachable       = uct_base_iface_is_reachable,
};

static UCS_CLASS_INIT_FUNC(zr_iface_t, uct_md_h md, uct_worker_h worker,
                           const uct_iface_params_t *params, const uct_iface_config_t *tl_config)
{
    const struct tl_config *config = (const struct tl_config *)tl_config;
    const struct zr_ze     *ze     = zr_ze_get();
    ze_command_queue_desc_t desc   = {.stype    = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                      .ordinal  = ze->copy_group,
                                      .mode     = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
                                      .priority = ZE_COMMAND_QUEUE_PRIORITY_NORMAL};
    ze_result_t             result;
    ucs_status_t            status;

    status = uct_base_iface_t_init(&self->super, _myclass->superclass, _init_count, &iface_ops,
                                   zr_uct_tables.internal_ops, md, worker, params, tl_config);
    if (status != UCS_OK) {
        return status;
    }
    ++*_init_count;
    self->first  = NULL;
    self->last   = &self->first;
    self->idle   = NULL;
    self->kept   = NULL;
    self->pools  = NULL;
    self->armed  = false;
    self->copies = self->bytes = 0;
    self->perf   = perf_of(config);
    zr_wake_init(&self->wake);
    result = zeCommandListCreateImmediate(ze->context, ze->device, &desc, &self->list);
    if (result != ZE_RESULT_SUCCESS) {
        zr_ucs_error("no command list for copies: zeCommandListCreateImmediate returned 0x%x %s",
                     (unsigned)result, zr_ze_last_error(ze));
        zr_wake_stop(&self->wake);
        return UCS_ERR_NO_DEVICE;
    }
    result = grow(self);
    if (result != ZE_RESULT_SUCCESS) {
        zr_ucs_error("no events for copies: 0x%x %s", (unsigned)result, zr_ze_last_error(ze));
        zeCommandListDestroy(self->list);
        zr_wake_stop(&self->wake);
        return UCS_ERR_NO_DEVICE;
    }
    return UCS_OK;
}

/* UCP flushes before it closes; what is left belongs to peers that died. */
static UCS_CLASS_CLEANUP_FUNC(zr_iface_t)
{
    uint64_t           give_up = now_ns() + CLOSE_TIMEOUT_NS;
    struct event_pool *pool;

    uct_base_iface_progress_disable(&self->super.super,
                                    UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    while (self->first != NULL && now_ns() < give_up) {
        if (reap(self, 0) == 0) {
            zeCommandListHostSynchronize(self->list, 1000000);
        }
    }
    zr_wake_stop(&self->wake);
    zr_ucs_debug("ze_range made %lu copies of %lu bytes", self->copies, self->bytes);
    if (self->first != NULL) {
        /* The engine may still write into what would be freed. */
        zr_ucs_error("copies did not end within 10 s, their memory is left to them");
        return;
    }
    zeCommandListDestroy(self->list);
    while ((pool = self->pools) != NULL) {
        self->pools = pool->next;
        pool_destroy(pool);
    }
}

UCS_CLASS_DEFINE(zr_iface_t, uct_base_iface_t)
static UCS_CLASS_DEFINE_NEW_FUNC(zr_iface_t, uct_iface_t, uct_md_h, uct_worker_h,
                                 const uct_iface_params_t *, const uct_iface_config_t *);
static UCS_CLASS_DEFINE_DELETE_FUNC(zr_iface_t, uct_iface_t);

zr_uct_fn_t zr_tl_iface_open(void)
{
    return (zr_uct_fn_t)UCS_CLASS_NEW_FUNC_NAME(zr_iface_t);
}

ucs_status_t zr_tl_query_devices(struct zr_uct_md *md, struct zr_uct_tl_device **devices_p,
                                 unsigned *count_p)
{
    return uct_single_device_resource((uct_md_h)md, ZR_DEVICE_NAME, UCT_DEVICE_TYPE_SHM,
                                      UCS_SYS_DEVICE_ID_UNKNOWN, devices_p, count_p);
}
