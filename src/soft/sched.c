/* Requests on engines: who may start, on which engine, on which thread, and what follows.
 *
 * A request is a set of batches. With GuC submission it starts when every engine of a placement is
 * free and the set before it is over, and it gives its engines back together (barriers at both
 * ends); with execlists each batch only waits for its row of the set before. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "exec.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* What the submitter does itself: a hand-over costs more than a short copy. With two threads or
 * fewer the other CPU is the peer's, who polls: a thread that takes a part of a long copy over
 * shares its CPU with a loop that gives nothing away, and ends later than the submitter would. */
#define ZR_SOFT_INLINE_BUDGET     ZR_MIB
#define ZR_SOFT_INLINE_BUDGET_FEW (256 * ZR_MIB)
#define ZR_SOFT_INLINE_TURNS      256 /* of batches that wait for each other, or jump back */
#define ZR_SOFT_SLICE_BUDGET      ZR_MIB /* of a thread before another batch has its turn */
#define ZR_SOFT_SLICE_DIRTY       (64 * ZR_KIB)
#define ZR_SOFT_PREEMPT_NS        UINT64_C(640000000) /* the kernel's preempt_timeout_ms */

/* ---- requests ---- */

struct zr_soft_req *zr_soft_req_new(struct zr_soft_ctx *ctx, struct zr_soft_slot *slot)
{
    struct zr_soft_req *req;
    unsigned            i;

    req = calloc(1, sizeof(*req) + slot->width * sizeof(req->batch[0]));
    if (req == NULL) {
        return NULL;
    }
    req->fence = zr_soft_fence_create(slot->timeline, slot->class);
    if (req->fence == NULL) {
        free(req);
        return NULL;
    }
    req->ctx   = ctx;
    req->slot  = slot;
    req->table = zr_soft_table_get(ctx->vm->table);
    req->generation = atomic_load(&ctx->vm->generation);
    req->width = slot->width;
    req->fence->width = slot->width;
    ctx->refs++;
    for (i = 0; i < req->width; i++) {
        req->batch[i].req = req;
        req->batch[i].row = i;
    }
    return req;
}

void zr_soft_req_free(struct zr_soft_req *req)
{
    unsigned i, port;

    for (i = 0; i < req->num_deps; i++) {
        zr_soft_fence_put(req->deps[i]);
    }
    for (i = 0; i < req->width; i++) {
        free(req->batch[i].held);
        for (port = 0; port < ZR_ARRAY_SIZE(req->batch[i].window); port++) {
            free(req->batch[i].window[port]);
        }
    }
    free(req->deps);
    if (req->start != NULL) {
        zr_soft_fence_put(req->start);
        req->ctx->dev->start_waits--;
    }
    zr_soft_fence_put(req->fence);
    zr_soft_table_put(req->table);
    zr_soft_ctx_put(req->ctx);
    free(req);
}

void zr_soft_req_rebind(struct zr_soft_req *req)
{
    struct zr_soft_vm *vm = req->ctx->vm;

    zr_soft_table_put(req->table);
    req->table      = zr_soft_table_get(vm->table);
    req->generation = atomic_load(&vm->generation);
}

int zr_soft_req_await(struct zr_soft_req *req, struct zr_soft_fence *fence)
{
    struct zr_soft_fence **grown;
    unsigned               i, look = ZR_MIN(req->num_deps, 16u), max;

    /* A slot is in order by itself; with execlists only row by row. */
    if (fence->status != 0 || (fence->timeline == req->fence->timeline &&
                               (req->ctx->dev->profile.guc || req->width == 1))) {
        return 0;
    }
    for (i = req->num_deps - look; i < req->num_deps; i++) {
        if (req->deps[i] == fence) {
            return 0;
        }
    }
    if (req->num_deps == req->max_deps) {
        max   = ZR_MAX(8u, req->max_deps * 2);
        grown = realloc(req->deps, max * sizeof(*grown));
        if (grown == NULL) {
            return -ENOMEM;
        }
        req->deps     = grown;
        req->max_deps = max;
    }
    req->deps[req->num_deps++] = zr_soft_fence_get(fence);
    return 0;
}

void zr_soft_req_await_start(struct zr_soft_req *req, struct zr_soft_fence *fence)
{
    req->start = zr_soft_fence_get(fence);
    req->ctx->dev->start_waits++;
}

static bool zr_soft_req_deps_done(struct zr_soft_req *req)
{
    if (req->start != NULL && (req->start->started || req->start->status != 0)) {
        zr_soft_fence_put(req->start);
        req->start = NULL;
        req->ctx->dev->start_waits--;
    }
    while (req->num_deps > 0 && req->deps[req->num_deps - 1]->status != 0) {
        zr_soft_fence_put(req->deps[--req->num_deps]);
    }
    return req->num_deps == 0 && req->start == NULL;
}

/* ---- queues of batches, and the threads that serve them ---- */

static void *zr_soft_thread(void *arg);

static void zr_soft_thread_add(struct zr_soft_dev *dev)
{
    sigset_t all, old;
    int      ret;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    ret = pthread_create(&dev->thread[dev->threads], NULL, zr_soft_thread, dev);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (ret == 0) {
        dev->threads++;
    } else if (dev->threads == 0) {
        zr_error("soft %s: no thread for its engines: %s", dev->profile.name, strerror(ret));
    }
}

/* Somebody must look at the queues. */
static void zr_soft_kick(struct zr_soft_dev *dev)
{
    if (dev->idle > 0) {
        pthread_cond_signal(&dev->work);
    }
    if (dev->queued + !TAILQ_EMPTY(&dev->waiting) > dev->idle && dev->threads < dev->max_threads &&
        !dev->stop) {
        zr_soft_thread_add(dev);
    }
}

/* Neither of these two wakes a thread: one that calls them looks at the queues next anyway. */
static void zr_soft_make_runnable(struct zr_soft_dev *dev, struct zr_soft_batch *batch)
{
    if (batch->is_waiting) {
        TAILQ_REMOVE(&dev->waiting, batch, link);
        batch->is_waiting = false;
    }
    if (zr_soft_dirty_one_in(dev, ZR_SOFT_DIRTY_DELAY, 2)) {
        TAILQ_INSERT_HEAD(&dev->runnable, batch, link);
    } else {
        TAILQ_INSERT_TAIL(&dev->runnable, batch, link);
    }
    dev->queued++;
}

static void zr_soft_make_waiting(struct zr_soft_dev *dev, struct zr_soft_batch *batch)
{
    batch->is_waiting = true;
    TAILQ_INSERT_TAIL(&dev->waiting, batch, link);
    if (dev->has_timer && batch->wake_ns < dev->timer_ns) {
        pthread_cond_broadcast(&dev->work); /* the watch is set too late */
    }
}

/* Memory that batches of this device may wait for has changed. */
static void zr_soft_wake_pollers(struct zr_soft_dev *dev)
{
    struct zr_soft_batch *batch, *next;

    for (batch = TAILQ_FIRST(&dev->waiting); batch != NULL; batch = next) {
        next = TAILQ_NEXT(batch, link);
        if (batch->polling) {
            zr_soft_make_runnable(dev, batch);
            zr_soft_kick(dev);
        }
    }
}

/* ---- starting ---- */

static void zr_soft_batch_start(struct zr_soft_dev *dev, struct zr_soft_batch *batch,
                                struct zr_soft_engine *engine, uint64_t now)
{
    engine->running = batch;
    batch->engine   = engine;
    batch->state    = ZR_SOFT_RUNNING;
    batch->req->fence->started = true;
    if (!batch->started) {
        batch->started    = true;
        batch->pc         = batch->start;
        batch->started_ns = batch->free_ns = now;
        batch->wake_ns                     = now + zr_soft_dirty_delay(dev);
    }
    if (batch->req->run_inline) {
        return; /* its submitter runs it */
    }
    if (batch->wake_ns > now) {
        zr_soft_make_waiting(dev, batch);
    } else {
        zr_soft_make_runnable(dev, batch);
    }
    zr_soft_kick(dev);
}

static bool zr_soft_req_ordered(const struct zr_soft_req *req)
{
    return req == TAILQ_FIRST(&req->slot->reqs);
}

/* Start the whole set on the first free placement. Engines that an older request waits for are
 * kept free for it: wide sets must not starve. @return true if it started */
static bool zr_soft_start_set(struct zr_soft_dev *dev, struct zr_soft_req *req, uint32_t *wanted)
{
    const struct zr_soft_slot *slot = req->slot;
    unsigned                   row, column;
    uint32_t                   mask = 0;
    uint64_t                   now;

    for (column = 0; column < slot->siblings; column++) {
        for (row = 0; row < slot->width; row++) {
            unsigned engine = slot->engine[row * slot->siblings + column];

            if (column == 0) {
                mask |= 1u << engine;
            }
            if (dev->engine[engine].running != NULL || (*wanted & (1u << engine))) {
                break;
            }
        }
        if (row == slot->width) {
            break;
        }
    }
    if (column == slot->siblings) {
        for (row = 0; row < slot->width; row++) {
            mask |= 1u << slot->engine[row * slot->siblings];
        }
        *wanted |= mask;
        return false;
    }
    now = zr_time_ns(); /* one for all: the barrier lets them go together */
    for (row = 0; row < slot->width; row++) {
        zr_soft_batch_start(dev, &req->batch[row],
                            &dev->engine[slot->engine[row * slot->siblings + column]], now);
    }
    return true;
}

/* Execlists: each batch by itself. @return true if all have started */
static bool zr_soft_start_rows(struct zr_soft_dev *dev, struct zr_soft_req *req, uint32_t *wanted)
{
    const struct zr_soft_slot *slot   = req->slot;
    const struct zr_soft_req  *before = TAILQ_PREV(req, zr_soft_req_list, slot_link);
    unsigned                   row, column;
    bool                       all = true;

    for (row = 0; row < slot->width; row++) {
        struct zr_soft_batch *batch = &req->batch[row];

        if (batch->state != ZR_SOFT_PENDING) {
            continue;
        }
        if (before != NULL && before->batch[row].state != ZR_SOFT_FINISHED) {
            all = false;
            continue;
        }
        for (column = 0; column < slot->siblings; column++) {
            unsigned engine = slot->engine[row * slot->siblings + column];

            if (dev->engine[engine].running == NULL && !(*wanted & (1u << engine))) {
                zr_soft_batch_start(dev, batch, &dev->engine[engine], zr_time_ns());
                break;
            }
        }
        if (column == slot->siblings) {
            *wanted |= 1u << slot->engine[row * slot->siblings];
            all = false;
        }
    }
    return all;
}

static void zr_soft_req_leave_pending(struct zr_soft_dev *dev, struct zr_soft_req *req)
{
    if (req->in_pending) {
        TAILQ_REMOVE(&dev->pending, req, link);
        req->in_pending = false;
    }
}

/* How the rows of a set ran. */
static void zr_soft_set_record(struct zr_soft_dev *dev, const struct zr_soft_req *req)
{
    struct zr_soft_set_stats *set   = &dev->set;
    uint64_t                  began = 0, ended = UINT64_MAX;
    unsigned                  row;

    if (req->width < 2 || req->width > ZR_ARRAY_SIZE(set->began_ns)) {
        return;
    }
    set->count++;
    set->width = req->width;
    for (row = 0; row < req->width; row++) {
        set->began_ns[row] = req->batch[row].started_ns;
        set->ended_ns[row] = req->batch[row].ended_ns;
        set->due_ns[row]   = req->batch[row].free_ns;
        set->bytes[row]    = req->batch[row].bytes;
        began              = ZR_MAX(began, set->began_ns[row]);
        ended              = ZR_MIN(ended, set->ended_ns[row]);
    }
    set->overlap_ns = ended > began ? ended - began : 0;
}

static void zr_soft_req_finish(struct zr_soft_dev *dev, struct zr_soft_req *req)
{
    int      error = atomic_load(&req->error);
    unsigned row;

    zr_soft_set_record(dev, req);
    zr_soft_req_leave_pending(dev, req);
    TAILQ_REMOVE(&req->slot->reqs, req, slot_link);
    req->slot->num_reqs--;
    for (row = 0; row < req->width; row++) {
        if (req->batch[row].engine != NULL &&
            req->batch[row].engine->running == &req->batch[row]) {
            req->batch[row].engine->running = NULL;
        }
    }
    zr_soft_fence_signal(dev, req->fence, error != 0 ? error : 1);
    zr_soft_req_free(req);
}

/* A request that was cancelled: batches not on an engine end here. @return true if it is over */
static bool zr_soft_req_cancel(struct zr_soft_dev *dev, struct zr_soft_req *req)
{
    unsigned row;

    zr_soft_req_leave_pending(dev, req);
    for (row = 0; row < req->width; row++) {
        if (req->batch[row].state == ZR_SOFT_PENDING) {
            req->batch[row].state = ZR_SOFT_FINISHED;
            req->finished++;
        }
    }
    if (req->finished < req->width) {
        return false;
    }
    zr_soft_req_finish(dev, req);
    return true;
}

void zr_soft_dispatch(struct zr_soft_dev *dev)
{
    struct zr_soft_req *req, *next;
    uint32_t            wanted;
    bool                again, started;

    do {
        again  = false;
        wanted = 0;
        for (req = TAILQ_FIRST(&dev->pending); req != NULL; req = next) {
            next = TAILQ_NEXT(req, link);
            if (atomic_load(&req->error) != 0) {
                again |= zr_soft_req_cancel(dev, req); /* its fence may free others */
                continue;
            }
            if ((dev->profile.guc && !zr_soft_req_ordered(req)) || !zr_soft_req_deps_done(req)) {
                continue;
            }
            started = dev->profile.guc ? zr_soft_start_set(dev, req, &wanted)
                                       : zr_soft_start_rows(dev, req, &wanted);
            if (started) {
                zr_soft_req_leave_pending(dev, req);
                again |= dev->start_waits != 0;
            }
        }
    } while (again);
}

/* ---- ending ---- */

static void zr_soft_req_stop(struct zr_soft_dev *dev, struct zr_soft_req *req)
{
    unsigned row;

    atomic_store(&req->error, -EIO);
    for (row = 0; row < req->width; row++) {
        if (req->batch[row].is_waiting) {
            zr_soft_make_runnable(dev, &req->batch[row]);
            zr_soft_kick(dev);
        }
    }
}

static void zr_soft_req_reset(struct zr_soft_dev *dev, struct zr_soft_req *req, bool lost)
{
    unsigned row;

    if (atomic_load(&req->error) != 0) {
        return;
    }
    req->ctx->innocent++;
    if (lost) {
        zr_soft_req_stop(dev, req);
        return;
    }
    for (row = 0; row < req->width; row++) {
        if (req->batch[row].state == ZR_SOFT_RUNNING) {
            atomic_store(&req->batch[row].replay, true);
        }
    }
}

void zr_soft_dev_reset(struct zr_soft_dev *dev, bool lost)
{
    struct zr_soft_req *req;
    unsigned            i;

    dev->resets++;
    dev->wedged |= lost;
    for (i = 0; i < dev->profile.num_engines; i++) {
        if (dev->engine[i].running != NULL && dev->engine[i].running->row == 0) {
            zr_soft_req_reset(dev, dev->engine[i].running->req, lost);
        }
    }
    if (lost) {
        TAILQ_FOREACH (req, &dev->pending, link) {
            zr_soft_req_reset(dev, req, true);
        }
    }
    zr_soft_dispatch(dev);
}

void zr_soft_ctx_kill(struct zr_soft_ctx *ctx)
{
    struct zr_soft_req *req;
    unsigned            i;

    for (i = 0; i < ctx->num_slots; i++) {
        if (!ctx->slot[i].valid) {
            continue;
        }
        TAILQ_FOREACH (req, &ctx->slot[i].reqs, slot_link) {
            zr_soft_req_stop(ctx->dev, req);
        }
    }
    ctx->refs++; /* the last request may hold the last reference */
    zr_soft_dispatch(ctx->dev);
    zr_soft_ctx_put(ctx);
}

void zr_soft_dev_reset_active(struct zr_soft_dev *dev)
{
    struct zr_soft_req *req;
    unsigned            i;

    for (i = 0; i < dev->profile.num_engines; i++) {
        req = dev->engine[i].running != NULL ? dev->engine[i].running->req : NULL;
        if (req == NULL || atomic_load(&req->error) != 0) {
            continue; /* none, or the set was met on another engine */
        }
        zr_soft_ctx_blame(req->ctx);
        zr_soft_req_stop(dev, req);
        if (req->ctx->banned) {
            zr_soft_ctx_kill(req->ctx);
        }
    }
    zr_soft_dispatch(dev);
}

void zr_soft_dev_cancel(struct zr_soft_dev *dev)
{
    struct zr_soft_req *req;
    unsigned            i;

    TAILQ_FOREACH (req, &dev->pending, link) {
        zr_soft_req_stop(dev, req);
    }
    for (i = 0; i < dev->profile.num_engines; i++) {
        if (dev->engine[i].running != NULL) {
            zr_soft_req_stop(dev, dev->engine[i].running->req);
        }
    }
    zr_soft_dispatch(dev);
}

/* The user fence of backports rules. Where nothing is bound any more nobody is told. */
static void zr_soft_req_tell(struct zr_soft_req *req)
{
    uint64_t available = 0, at = zr_soft_plain(req->ctx->dev, req->tell_at);
    uint8_t *cpu;

    zr_soft_req_rebind(req);
    cpu = zr_soft_resolve(&req->batch[0], ZR_SOFT_PORT_DST, at, &available);

    if (cpu != NULL && available >= sizeof(req->tell_value)) {
        __atomic_store_n((uint64_t *)cpu, req->tell_value, __ATOMIC_RELEASE);
        zr_soft_written(&req->batch[0], cpu, sizeof(req->tell_value));
    }
}

static void zr_soft_batch_done(struct zr_soft_dev *dev, struct zr_soft_batch *batch)
{
    struct zr_soft_req    *req    = batch->req;
    struct zr_soft_engine *engine = batch->engine;

    engine->completed++;
    engine->began_ns = batch->started_ns;
    engine->due_ns   = batch->free_ns;
    engine->ended_ns = zr_time_ns();
    engine->busy_ns += engine->ended_ns - engine->began_ns;
    engine->bytes += batch->bytes;
    batch->ended_ns = engine->ended_ns;
    batch->state = ZR_SOFT_FINISHED;
    if (!dev->profile.guc) {
        engine->running = NULL;
    }
    if (++req->finished == req->width) {
        if (req->tells && atomic_load(&req->error) == 0) {
            zr_soft_req_tell(req);
        }
        zr_soft_req_finish(dev, req);
    }
    zr_soft_dispatch(dev);
}

static void zr_soft_batch_hung(struct zr_soft_dev *dev, struct zr_soft_batch *batch)
{
    static const char *const        names[] = {"rcs", "bcs", "vcs", "vecs", "ccs"};
    const struct zr_soft_engine_id *id      = &batch->engine->id;
    struct zr_soft_ctx             *ctx     = batch->req->ctx;

    zr_soft_ctx_blame(ctx);
    zr_info("soft %s: %s%u hangs at byte 0x%lx of batch %u of %u: %s; context is %s",
            dev->profile.name, id->class < ZR_ARRAY_SIZE(names) ? names[id->class] : "engine",
            id->instance, (unsigned long)(batch->at - batch->start), batch->row,
            batch->req->width, batch->reason, ctx->banned ? "banned" : "guilty");
    zr_soft_req_stop(dev, batch->req);
    if (ctx->banned) {
        zr_soft_ctx_kill(ctx);
    }
    zr_soft_batch_done(dev, batch);
}

/* Time until a blocked batch is looked at again: short while the wait is young, and never a busy
 * loop, since the word may be written by a CPU that we do not see. */
static uint64_t zr_soft_poll_ns(uint64_t blocked_ns)
{
    if (blocked_ns < 500 * 1000) {
        return 10 * 1000;
    }
    return blocked_ns < 20 * 1000 * 1000 ? 50 * 1000 : 400 * 1000;
}

static bool zr_soft_wants(const struct zr_soft_req *req, const struct zr_soft_engine *engine)
{
    unsigned i;

    for (i = 0; i < req->width * req->slot->siblings; i++) {
        if (&req->ctx->dev->engine[req->slot->engine[i]] == engine) {
            return true;
        }
    }
    return false;
}

/* Could a pending request start if this one, which holds engines, were not there? */
static bool zr_soft_in_the_way(struct zr_soft_dev *dev, const struct zr_soft_req *holder)
{
    struct zr_soft_req *req;
    unsigned            row;

    TAILQ_FOREACH (req, &dev->pending, link) {
        if (req == holder || !zr_soft_req_ordered(req) || !zr_soft_req_deps_done(req)) {
            continue;
        }
        for (row = 0; row < holder->width; row++) {
            if (holder->batch[row].engine != NULL &&
                holder->batch[row].engine->running == &holder->batch[row] &&
                zr_soft_wants(req, holder->batch[row].engine)) {
                return true;
            }
        }
    }
    return false;
}

/* Why a batch that waits, and cannot be preempted, is reset; NULL: it is not. Where another context
 * wants its engine the preemption timeout counts; alone it fails the engine's heartbeats, of which
 * the fourth resets. */
static const char *zr_soft_overdue(struct zr_soft_dev *dev, const struct zr_soft_req *req,
                                   uint64_t waits_ns)
{
    if (waits_ns >= ZR_SOFT_PREEMPT_NS && zr_soft_in_the_way(dev, req)) {
        return req->width > 1 ? "a set cannot be preempted, and this one waits while another "
                                "context wants an engine of it"
                              : "loops without a point where it could be preempted, and another "
                                "context wants the engine";
    }
    if (dev->profile.heartbeat_ms != 0 &&
        waits_ns / 1000000 >= UINT64_C(4) * dev->profile.heartbeat_ms) {
        return "cannot be preempted and misses the heartbeats of the engine";
    }
    return NULL;
}

/* A single batch that waits at a semaphore, or loops over a point of arbitration, gives the engine
 * to who wants it. */
static void zr_soft_batch_blocked(struct zr_soft_dev *dev, struct zr_soft_batch *batch)
{
    struct zr_soft_req *req = batch->req;
    uint64_t            now = zr_time_ns(), since;
    const char         *why;

    if (batch->blocked_ns == 0) {
        batch->blocked_ns = now;
    }
    batch->wake_ns = now + zr_soft_poll_ns(now - batch->blocked_ns);
    batch->polling = true;
    since          = ZR_MAX(batch->blocked_ns, req->progress_ns);
    if (req->width > 1 || !batch->preemptible) {
        why = zr_soft_overdue(dev, req, now - since);
        if (why != NULL) {
            zr_soft_hang(batch, "%s", why);
            zr_soft_batch_hung(dev, batch);
        } else {
            zr_soft_make_waiting(dev, batch);
        }
        return;
    }
    if (!zr_soft_in_the_way(dev, req)) {
        zr_soft_make_waiting(dev, batch);
        return;
    }
    batch->engine->running = NULL;
    batch->engine          = NULL;
    batch->state           = ZR_SOFT_PENDING;
    TAILQ_INSERT_TAIL(&dev->pending, req, link);
    req->in_pending = true;
    zr_soft_dispatch(dev);
}

/* What becomes of a batch after a slice. */
static void zr_soft_settle(struct zr_soft_dev *dev, struct zr_soft_batch *batch,
                           enum zr_soft_step step)
{
    if (atomic_load(&batch->req->error) != 0) {
        zr_soft_batch_done(dev, batch);
        return;
    }
    batch->polling = false;
    if (step != ZR_SOFT_BLOCKED) {
        batch->req->progress_ns = zr_time_ns();
    }
    switch (step) {
    case ZR_SOFT_DONE:
        zr_soft_batch_done(dev, batch);
        break;
    case ZR_SOFT_MORE:
        batch->wake_ns = zr_time_ns() + zr_soft_dirty_delay(dev);
        if (batch->wake_ns > batch->req->progress_ns && dev->dirty != 0) {
            zr_soft_make_waiting(dev, batch);
        } else {
            zr_soft_make_runnable(dev, batch);
        }
        break;
    case ZR_SOFT_BLOCKED:
        zr_soft_batch_blocked(dev, batch);
        break;
    case ZR_SOFT_BUSY:
        batch->wake_ns = batch->free_ns;
        zr_soft_make_waiting(dev, batch);
        break;
    case ZR_SOFT_HANG:
        zr_soft_batch_hung(dev, batch);
        break;
    }
}

/* ---- threads ---- */

/* The next batch to run; NULL, and when a waiting one is due (UINT64_MAX: none waits). Those that
 * are due come first: long copies must not keep them from looking. */
static struct zr_soft_batch *zr_soft_take(struct zr_soft_dev *dev, uint64_t *due_p)
{
    struct zr_soft_batch *batch;
    uint64_t              now = TAILQ_EMPTY(&dev->waiting) ? 0 : zr_time_ns();

    *due_p = UINT64_MAX;
    if (dev->paused != 0) {
        return NULL;
    }
    TAILQ_FOREACH (batch, &dev->waiting, link) {
        if (batch->wake_ns <= now) {
            TAILQ_REMOVE(&dev->waiting, batch, link);
            batch->is_waiting = false;
            return batch;
        }
        *due_p = ZR_MIN(*due_p, batch->wake_ns);
    }
    batch = TAILQ_FIRST(&dev->runnable);
    if (batch != NULL) {
        TAILQ_REMOVE(&dev->runnable, batch, link);
        dev->queued--;
    }
    return batch;
}

static void zr_soft_slice_over(struct zr_soft_dev *dev)
{
    if (--dev->slices == 0 && dev->paused != 0) {
        pthread_cond_broadcast(&dev->signal);
    }
}

void zr_soft_engines_pause(struct zr_soft_dev *dev)
{
    dev->paused++;
    while (dev->slices != 0) {
        pthread_cond_wait(&dev->signal, &dev->lock);
    }
}

void zr_soft_engines_resume(struct zr_soft_dev *dev)
{
    if (--dev->paused == 0) {
        pthread_cond_broadcast(&dev->work);
    }
}

static void zr_soft_thread_sleep(struct zr_soft_dev *dev, uint64_t due)
{
    struct timespec ts;

    dev->idle++;
    if (due == UINT64_MAX || dev->has_timer) {
        pthread_cond_wait(&dev->work, &dev->lock);
    } else {
        dev->has_timer = true;
        dev->timer_ns  = due;
        ts.tv_sec      = due / 1000000000;
        ts.tv_nsec     = due % 1000000000;
        pthread_cond_timedwait(&dev->work, &dev->lock, &ts);
        dev->has_timer = false;
    }
    dev->idle--;
}

static void *zr_soft_thread(void *arg)
{
    struct zr_soft_dev   *dev = arg;
    struct zr_soft_batch *batch;
    enum zr_soft_step     step;
    unsigned long         stores;
    uint64_t              due, budget;

    prctl(PR_SET_TIMERSLACK, 1000ul); /* else each look at a semaphore is 50 us late */
    pthread_mutex_lock(&dev->lock);
    while (!dev->stop) {
        batch = zr_soft_take(dev, &due); /* none while engines are paused */
        if (batch == NULL) {
            zr_soft_thread_sleep(dev, due);
            continue;
        }
        if (!TAILQ_EMPTY(&dev->waiting) && !dev->has_timer && dev->idle > 0) {
            pthread_cond_signal(&dev->work); /* another takes over the watch */
        }
        stores = atomic_load(&dev->stores);
        dev->slices++;
        pthread_mutex_unlock(&dev->lock);
        budget = dev->dirty & ZR_SOFT_DIRTY_DELAY ? ZR_SOFT_SLICE_DIRTY : ZR_SOFT_SLICE_BUDGET;
        step   = zr_soft_batch_run(batch, &budget);
        pthread_mutex_lock(&dev->lock);
        zr_soft_slice_over(dev);
        zr_soft_settle(dev, batch, step);
        if (atomic_load(&dev->stores) != stores) {
            zr_soft_wake_pollers(dev);
        }
    }
    pthread_mutex_unlock(&dev->lock);
    return NULL;
}

/* Run a set that has just started on this thread, each batch in turn, until all are done, the
 * budget is used up or none gets on; then hand over what is left. */
static void zr_soft_run_inline(struct zr_soft_dev *dev, struct zr_soft_req *req)
{
    struct zr_soft_batch *batch = req->batch;
    unsigned              row, width = req->width, turns = ZR_SOFT_INLINE_TURNS;
    enum zr_soft_step     step[16];
    uint64_t              budget = dev->max_threads > 2 ? ZR_SOFT_INLINE_BUDGET
                                                        : ZR_SOFT_INLINE_BUDGET_FEW;
    unsigned long         stores = atomic_load(&dev->stores), before;
    bool                  progress;

    dev->slices++;
    pthread_mutex_unlock(&dev->lock);
    for (row = 0; row < width; row++) {
        step[row] = ZR_SOFT_MORE;
    }
    do {
        progress = false;
        before   = atomic_load(&dev->stores);
        for (row = 0; row < width; row++) {
            if (step[row] == ZR_SOFT_MORE || step[row] == ZR_SOFT_BLOCKED) {
                step[row] = zr_soft_batch_run(&batch[row], &budget);
            }
        }
        for (row = 0; row < width; row++) {
            progress |= step[row] == ZR_SOFT_BLOCKED && atomic_load(&dev->stores) != before;
        }
    } while (progress && budget > 0 && --turns > 0);
    pthread_mutex_lock(&dev->lock);
    zr_soft_slice_over(dev);
    req->run_inline = false;
    for (row = 0; row < width; row++) {
        zr_soft_settle(dev, &batch[row], step[row]); /* the last one may free the request */
        if (step[row] == ZR_SOFT_MORE || step[row] == ZR_SOFT_BLOCKED) {
            zr_soft_kick(dev); /* one for each: this thread does not look at the queues */
        }
    }
    if (atomic_load(&dev->stores) != stores) {
        zr_soft_wake_pollers(dev);
    }
}

/* What was ordered for this submission (faults.c), before an engine sees it. @return RESET or
 * WEDGE when that is to happen while it runs, else NONE */
static enum zr_soft_fault_what zr_soft_submit_fault(struct zr_soft_dev *dev,
                                                    struct zr_soft_req *req)
{
    enum zr_soft_fault_what what = zr_soft_fault_submit(dev);

    switch (what) {
    case ZR_SOFT_FAULT_BAN:
        req->ctx->recoverable = false; /* so that the hang bans it */
        req->fault_hang       = true;
        return ZR_SOFT_FAULT_NONE;
    case ZR_SOFT_FAULT_HANG:
        req->fault_hang = true;
        return ZR_SOFT_FAULT_NONE;
    default:
        return what;
    }
}

void zr_soft_req_submit(struct zr_soft_req *req)
{
    struct zr_soft_dev     *dev  = req->ctx->dev;
    enum zr_soft_fault_what what = ZR_SOFT_FAULT_NONE;
    unsigned                row;

    /* With the rate model the engine would be done too early. */
    if (dev->num_faults != 0) {
        what = zr_soft_submit_fault(dev, req);
    }
    req->run_inline = dev->options.mbps == 0 && what == ZR_SOFT_FAULT_NONE && dev->paused == 0 &&
                      !(dev->dirty & ZR_SOFT_DIRTY_DELAY);
    TAILQ_INSERT_TAIL(&req->slot->reqs, req, slot_link);
    req->slot->num_reqs++;
    TAILQ_INSERT_TAIL(&dev->pending, req, link);
    req->in_pending = true;
    zr_soft_dispatch(dev);
    if (what != ZR_SOFT_FAULT_NONE) {
        zr_soft_dev_reset(dev, what == ZR_SOFT_FAULT_WEDGE);
    }
    if (!req->run_inline) {
        return; /* and may be gone */
    }
    if (!req->in_pending) {
        zr_soft_run_inline(dev, req);
        return;
    }
    req->run_inline = false;
    for (row = 0; row < req->width; row++) {
        if (req->batch[row].state == ZR_SOFT_RUNNING) {
            zr_soft_make_runnable(dev, &req->batch[row]);
            zr_soft_kick(dev);
        }
    }
}

void zr_soft_threads_stop(struct zr_soft_dev *dev)
{
    struct zr_soft_batch *batch;
    struct zr_soft_req   *req;
    unsigned              i;

    pthread_mutex_lock(&dev->lock);
    dev->stop = true;
    pthread_cond_broadcast(&dev->work);
    pthread_mutex_unlock(&dev->lock);
    for (i = 0; i < dev->threads; i++) {
        pthread_join(dev->thread[i], NULL);
    }
    pthread_mutex_lock(&dev->lock);
    dev->idle = 0;
    TAILQ_FOREACH (req, &dev->pending, link) {
        atomic_store(&req->error, -EIO);
    }
    for (i = 0; i < dev->profile.num_engines; i++) {
        if (dev->engine[i].running != NULL) {
            atomic_store(&dev->engine[i].running->req->error, -EIO);
        }
    }
    while ((batch = TAILQ_FIRST(&dev->waiting)) != NULL) {
        zr_soft_make_runnable(dev, batch);
    }
    while ((batch = TAILQ_FIRST(&dev->runnable)) != NULL) {
        TAILQ_REMOVE(&dev->runnable, batch, link);
        dev->queued--;
        zr_soft_batch_done(dev, batch);
    }
    zr_soft_dispatch(dev); /* ends what was pending */
    pthread_mutex_unlock(&dev->lock);
}
