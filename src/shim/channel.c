/* A channel: the requests of one client thread, each carried out as that thread. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ZR_SHIM_MAX_ARGUMENT 256
#define ZR_SHIM_PMU_OTHER    (UINT64_C(1) << 20) /* events that are no engine's */

struct zr_shim_call {
    struct zr_shim_server  *server;
    struct zr_shim_channel *channel;
    struct zr_shim_message *m;
    int                     fds[ZR_SHIM_MAX_FDS]; /* that came, -1: none */
    int                     out;                  /* fd to give, -1: none; ours until sent */
};

/* Interrupts find the device of the request here; one that came early counts. */
static void zr_shim_begin(struct zr_shim_call *c, struct zr_soft_dev *dev)
{
    pthread_mutex_lock(&c->server->lock);
    c->channel->dev = dev;
    c->channel->seq = c->m->seq;
    atomic_store(&c->channel->task.interrupted, c->channel->stopped == c->m->seq);
    pthread_mutex_unlock(&c->server->lock);
    zr_soft_task_enter(&c->channel->task);
}

static void zr_shim_end(struct zr_shim_call *c)
{
    zr_soft_task_enter(NULL);
    pthread_mutex_lock(&c->server->lock);
    c->channel->dev = NULL;
    pthread_mutex_unlock(&c->server->lock);
}

/* The argument is copied in and out as the kernel does; fds in it become ours on the way in. */
static int zr_shim_ioctl_argument(struct zr_shim_call *c, struct zr_shim_file *file)
{
    unsigned long          request = c->m->a[0];
    uint64_t               data[ZR_SHIM_MAX_ARGUMENT / 8] = {0};
    size_t                 known = file->timeline != NULL ? zr_shim_timeline_size(request)
                                                          : zr_soft_ioctl_size(request);
    size_t                 size     = ZR_MIN((size_t)_IOC_SIZE(request), known);
    uint64_t               argument = c->m->a[1];
    struct zr_shim_fd_rule rule;
    int                    ret = 0, out, in = -1;

    if (size != 0 && (_IOC_DIR(request) & _IOC_WRITE)) {
        ret = zr_soft_copy_in(data, argument, size);
    }
    if (ret != 0) {
        return ret;
    }
    rule = (struct zr_shim_fd_rule){-1, zr_shim_timeline_out(request), true};
    if (file->timeline == NULL) {
        rule = zr_shim_fd_rule(request, data);
    }
    if (rule.in >= 0) {
        memcpy(&in, (char *)data + rule.in, sizeof(in));
        memcpy((char *)data + rule.in, &c->fds[0], sizeof(int));
    }
    ret = file->timeline != NULL ? zr_shim_timeline_call(file->timeline, request, data)
                                 : zr_soft_file_call(file->file, request, data);
    if (rule.in >= 0) {
        memcpy((char *)data + rule.in, &in, sizeof(in)); /* what the caller knows it as */
    }
    if (ret == 0 && rule.out >= 0) {
        memcpy(&out, (char *)data + rule.out, sizeof(out));
        if (out >= 0) {
            c->out     = out;
            c->m->a[0] = rule.out;
            c->m->a[1] = rule.cloexec;
        }
    }
    if (size != 0 && (_IOC_DIR(request) & _IOC_READ) &&
        zr_soft_copy_out(argument, data, size) != 0 && ret == 0) {
        ret = -EFAULT;
    }
    return ret;
}

static int zr_shim_do_ioctl(struct zr_shim_call *c, struct zr_shim_file *file)
{
    uint64_t request = c->m->a[0];
    int      ret;

    c->channel->task.capabilities = c->m->a[2];
    zr_shim_begin(c, file->timeline != NULL ? NULL : file->file->dev);
    ret = zr_shim_ioctl_argument(c, file);
    zr_shim_end(c);
    zr_debug("process %d: ioctl 0x%02lx of %lu bytes: %d", (int)c->channel->task.mm->pid,
             _IOC_NR(request), (unsigned long)_IOC_SIZE(request), ret);
    return ret;
}

static int zr_shim_do_mmap(struct zr_shim_call *c, struct zr_shim_file *file)
{
    uint64_t inside;
    int      ret;

    if (file->timeline != NULL) {
        return -ENODEV;
    }
    ret = zr_soft_file_mmap_fd(file->file, c->m->a[1], c->m->a[3], c->m->a[0], &c->out, &inside);
    c->m->a[0] = inside;
    return ret;
}

/* The engines' busy time; the other events of the PMU read as nothing. */
static int zr_shim_do_counter(struct zr_shim_call *c)
{
    struct zr_soft_dev    *dev;
    struct zr_soft_engine *engine;
    uint64_t               config = c->m->a[1];
    int                    ret    = zr_shim_device(c->server, c->m->a[0], &dev);

    if (ret != 0) {
        return ret;
    }
    c->m->a[0] = 0;
    if (config >= ZR_SHIM_PMU_OTHER) {
        return config < ZR_SHIM_PMU_OTHER + 4 ? 0 : -ENOENT;
    }
    if ((config & 0xf) > 2) {
        return -ENOENT;
    }
    engine = zr_soft_engine_find(dev, config >> 12, config >> 4 & 0xff);
    if (engine == NULL) {
        return -ENODEV;
    }
    pthread_mutex_lock(&dev->lock);
    if ((config & 0xf) == 0) {
        c->m->a[0] = engine->busy_ns;
        if (engine->running != NULL) {
            c->m->a[0] += zr_time_ns() - engine->running->started_ns;
        }
    }
    pthread_mutex_unlock(&dev->lock);
    return 0;
}

static int zr_shim_do_control(struct zr_shim_call *c)
{
    struct zr_soft_dev *dev;
    int                 ret = zr_shim_device(c->server, c->m->a[0], &dev);

    if (ret == 0) {
        zr_shim_begin(c, dev);
        if (c->m->a[1] == ZR_SHIM_WEDGED) {
            zr_soft_dev_unwedge(dev);
        } else if (c->m->a[1] == ZR_SHIM_OBJECTS) {
            ret = zr_shim_tree_objects(c->server->tree, c->m->a[0], dev);
        } else {
            ret = zr_soft_dev_drop_caches(dev, c->m->a[2]);
        }
        zr_shim_end(c);
    }
    return ret;
}

/* Of which device a buffer or fence is is not written on it. */
static int zr_shim_do_buffer(struct zr_shim_call *c)
{
    unsigned long          request  = c->m->a[0];
    uint64_t               argument = c->m->a[1];
    uint64_t               data[ZR_SHIM_MAX_ARGUMENT / 8] = {0};
    size_t                 size = ZR_MIN((size_t)_IOC_SIZE(request), sizeof(data));
    struct zr_shim_fd_rule rule = zr_shim_buffer_rule(request);
    struct zr_soft_dev    *dev;
    unsigned               unit;
    int                    ret = -ENOTTY;

    for (unit = 0; unit < c->server->units && ret == -ENOTTY; unit++) {
        if (zr_shim_device(c->server, unit, &dev) != 0) {
            continue;
        }
        zr_shim_begin(c, dev);
        ret = (_IOC_DIR(request) & _IOC_WRITE) ? zr_soft_copy_in(data, argument, size) : 0;
        if (ret == 0 && rule.in >= 0) {
            memcpy((char *)data + rule.in, &c->fds[1], sizeof(int));
        }
        if (ret == 0) {
            ret = zr_soft_fd_call(dev, c->fds[0], request, data);
        }
        if (ret == 0 && rule.out >= 0) {
            memcpy(&c->out, (char *)data + rule.out, sizeof(c->out));
            c->m->a[0] = rule.out;
        }
        if (ret == 0 && (_IOC_DIR(request) & _IOC_READ)) {
            ret = zr_soft_copy_out(argument, data, size);
        }
        zr_shim_end(c);
    }
    return ret;
}

static int zr_shim_dispatch(struct zr_shim_call *c)
{
    struct zr_shim_file *file;
    int                  ret;

    switch (c->m->op) {
    case ZR_SHIM_COUNTER:
        return zr_shim_do_counter(c);
    case ZR_SHIM_CONTROL:
        return zr_shim_do_control(c);
    case ZR_SHIM_BUFFER:
        return zr_shim_do_buffer(c);
    default:
        break;
    }
    file = zr_shim_file_get(c->server, c->m->file);
    if (file == NULL) {
        return -ENOENT;
    }
    switch (c->m->op) {
    case ZR_SHIM_IOCTL:
        ret = zr_shim_do_ioctl(c, file);
        break;
    case ZR_SHIM_MMAP:
        ret = zr_shim_do_mmap(c, file);
        break;
    default:
        c->m->a[0] = file->minor;
        ret        = 0;
    }
    zr_shim_file_put(c->server, file);
    return ret;
}

static void zr_shim_serve_one(struct zr_shim_call *c)
{
    unsigned i;

    for (i = c->m->num_fds; i < ZR_SHIM_MAX_FDS; i++) {
        c->fds[i] = -1;
    }
    c->out = -1;
    zr_shim_ends_wait(c->server);
    c->m->ret = zr_shim_dispatch(c);
    for (i = 0; i < c->m->num_fds; i++) {
        close(c->fds[i]);
    }
    c->m->num_fds = c->out >= 0;
    if (zr_shim_send(c->channel->socket, c->m, &c->out, c->m->num_fds) != 0) {
        zr_debug("channel %lu: its thread is gone", (unsigned long)c->channel->id);
    }
    if (c->out >= 0) {
        close(c->out);
    }
}

void *zr_shim_channel_thread(void *arg)
{
    struct zr_shim_channel_start *start   = arg;
    struct zr_shim_server        *server  = start->server;
    struct zr_shim_channel       *channel = start->channel, **link;
    struct zr_shim_message        m       = {.op = ZR_SHIM_CHANNEL};
    struct zr_shim_call           c       = {.server = server, .channel = channel, .m = &m};
    int                           ret;

    free(start);
    m.a[0] = channel->id;
    ret    = zr_shim_send(channel->socket, &m, NULL, 0);
    while (ret == 0) {
        ret = zr_shim_receive(channel->socket, &m, c.fds, true);
        if (ret == 0) {
            zr_shim_serve_one(&c);
        } else if (ret == -EINTR || ret == -EMFILE) {
            m.ret = ret;
            ret   = ret == -EMFILE ? zr_shim_send(channel->socket, &m, NULL, 0) : 0;
        }
    }
    pthread_mutex_lock(&server->lock);
    for (link = &server->channels; *link != channel; link = &(*link)->next) {
    }
    *link = channel->next;
    pthread_mutex_unlock(&server->lock);
    close(channel->socket);
    zr_shim_process_put(server, channel->process);
    free(channel);
    zr_shim_client_gone(server);
    return NULL;
}
