/* Two processes with a UCP worker each and a socket between them for the order of things. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef UCPPAIR_H
#define UCPPAIR_H

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#define UCS(call)                                                                             \
    do {                                                                                      \
        ucs_status_t status_ = (call);                                                        \
        if (status_ != UCS_OK) {                                                              \
            fprintf(stderr, "%s:%d: rank %d: %s: %s\n", __FILE__, __LINE__, pair.rank, #call, \
                    ucs_status_string(status_));                                              \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

static struct {
    int           rank, fd;
    int           multi_thread; /* set before pair_start_ucx: workers of several threads */
    ucp_context_h context;
    ucp_worker_h  worker;
    ucp_ep_h      ep;
    int           sleeps; /* pair_wait sleeps on the worker's descriptor, UCP_FEATURE_WAKEUP */
    unsigned      slept;  /* how often it did */
    void        (*armed)(void); /* called right before it does, NULL */
    int           gone;   /* how to exit when the other process has, 0: as a failure */
} pair;

static inline void pair_other_gone(void)
{
    if (pair.gone == 0) {
        fprintf(stderr, "rank %d: the other process is gone\n", pair.rank);
    }
    exit(pair.gone == 0 ? 1 : pair.gone);
}

static inline void pair_write(const void *data, size_t size)
{
    if (write(pair.fd, data, size) != (ssize_t)size) {
        pair_other_gone();
    }
}

static inline void pair_read(void *data, size_t size)
{
    size_t  done;
    ssize_t n;

    for (done = 0; done < size; done += n) {
        n = read(pair.fd, (char *)data + done, size - done);
        if (n <= 0) {
            pair_other_gone();
        }
    }
}

/* Both have come here; UCX makes progress meanwhile. */
static inline void pair_meet(void)
{
    char    c = 1;
    ssize_t n;

    pair_write(&c, 1);
    while ((n = recv(pair.fd, &c, 1, MSG_DONTWAIT)) != 1) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            pair_other_gone();
        }
        if (pair.worker != NULL) {
            ucp_worker_progress(pair.worker);
        }
    }
}

/* Until something may have happened to the worker: it has an event descriptor of its own. */
static inline void pair_sleep(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    static int         epoll = -1;
    ucs_status_t       status;
    int                fd;

    if (epoll < 0) {
        epoll = epoll_create1(EPOLL_CLOEXEC);
        UCS(ucp_worker_get_efd(pair.worker, &fd));
        if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
            perror("epoll");
            exit(1);
        }
    }
    status = ucp_worker_arm(pair.worker);
    if (status == UCS_ERR_BUSY) {
        return;
    }
    UCS(status);
    pair.slept++;
    if (pair.armed != NULL) {
        pair.armed();
    }
    /* A lost wake-up ends here, by the alarm of pair_run at the latest. */
    if (epoll_wait(epoll, &event, 1, 20000) != 1) {
        fprintf(stderr, "rank %d: not woken in 20 s\n", pair.rank);
        exit(1);
    }
}

static inline ucs_status_t pair_wait(void *request)
{
    ucs_status_t status;

    if (request == NULL) {
        return UCS_OK;
    }
    if (UCS_PTR_IS_ERR(request)) {
        return UCS_PTR_STATUS(request);
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        if (ucp_worker_progress(pair.worker) == 0 && pair.sleeps) {
            pair_sleep();
        }
    }
    ucp_request_free(request);
    return status;
}

static void pair_start_ucx_with(uint64_t features, ucs_thread_mode_t threads)
{
    ucp_params_t        params  = {.field_mask = UCP_PARAM_FIELD_FEATURES |
                                                 UCP_PARAM_FIELD_MT_WORKERS_SHARED,
                                   .mt_workers_shared = pair.multi_thread,
                                   .features          = features};
    ucp_worker_params_t wparams = {.field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                   .thread_mode = threads};
    ucp_config_t       *config;

    UCS(ucp_config_read(NULL, NULL, &config));
    UCS(ucp_init(&params, config, &pair.context));
    ucp_config_release(config);
    UCS(ucp_worker_create(pair.context, &wparams, &pair.worker));
}

static inline void pair_start_ucx(void)
{
    pair_start_ucx_with(UCP_FEATURE_TAG | UCP_FEATURE_RMA, UCS_THREAD_MODE_SINGLE);
}

/* Requests end with the error; nothing else needs to be done. */
static void pair_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
}

/* @param count as many endpoints to the other worker, at @a eps */
static inline void pair_connect_many(ucp_err_handling_mode_t mode, unsigned count, ucp_ep_h *eps)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .err_mode   = mode,
                              .err_handler.cb = pair_error};
    ucp_address_t  *mine, *other;
    size_t          size;
    unsigned        k;

    UCS(ucp_worker_get_address(pair.worker, &mine, &size));
    pair_write(&size, sizeof(size));
    pair_write(mine, size);
    ucp_worker_release_address(pair.worker, mine);
    pair_read(&size, sizeof(size));
    other = malloc(size);
    pair_read(other, size);
    params.address = other;
    for (k = 0; k < count; k++) {
        UCS(ucp_ep_create(pair.worker, &params, &eps[k]));
    }
    free(other);
}

static inline void pair_connect(ucp_err_handling_mode_t mode)
{
    pair_connect_many(mode, 1, &pair.ep);
}

/* Both share their [ptr, ptr+size). @return the other's key, *remote_p its address */
static inline ucp_rkey_h pair_exchange_keys(void *ptr, size_t size, ucp_mem_h *memh_p,
                                            uint64_t *remote_p)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                 UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address    = ptr,
                                   .length     = size};
    uint64_t             mine   = (uintptr_t)ptr;
    ucp_rkey_h           rkey;
    void                *packed;

    UCS(ucp_mem_map(pair.context, &params, memh_p));
    UCS(ucp_rkey_pack(pair.context, *memh_p, &packed, &size));
    pair_write(&mine, sizeof(mine));
    pair_write(&size, sizeof(size));
    pair_write(packed, size);
    ucp_rkey_buffer_release(packed);
    pair_read(remote_p, sizeof(*remote_p));
    pair_read(&size, sizeof(size));
    packed = malloc(size);
    pair_read(packed, size);
    UCS(ucp_ep_rkey_unpack(pair.ep, packed, &rkey));
    free(packed);
    return rkey;
}

static inline void pair_stop_ucx(void)
{
    ucp_request_param_t param = {0};

    pair_wait(ucp_ep_close_nbx(pair.ep, &param));
    pair_meet();
    ucp_worker_destroy(pair.worker);
    ucp_cleanup(pair.context);
    pair.worker = NULL;
}

/* Call first in main: one of the processes that pair_run starts runs @a body and ends here.
 * *which is what pair_run was given. */
static inline void pair_enter(void (*body)(void), unsigned *which)
{
    const char *text = getenv("UCPPAIR");

    if (text == NULL) {
        return;
    }
    if (sscanf(text, "%d %d %u", &pair.rank, &pair.fd, which) != 3) {
        fprintf(stderr, "UCPPAIR=%s is not mine\n", text);
        exit(1);
    }
    body();
    fflush(NULL);
    exit(0);
}

static int pair_victim = 1; /* the rank that may be killed with SIGKILL */

/* Start two processes. They load UCX themselves: it has a thread of its own from the start, and a
 * fork may copy the locks that thread holds. @return 0; 1 if either failed or took longer than
 * @a timeout seconds; 77 if they skipped. */
static inline int pair_run(const char *self, unsigned which, unsigned timeout)
{
    pid_t pids[2], pid;
    char  text[64];
    int   fds[2], status, result = 0, k;

    fflush(NULL);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) {
        perror("socketpair");
        return 1;
    }
    for (k = 0; k < 2; k++) {
        pids[k] = fork();
        if (pids[k] == 0) {
            close(fds[!k]);
            snprintf(text, sizeof(text), "%d %d %u", k, fds[k], which);
            setenv("UCPPAIR", text, 1);
            alarm(timeout);
            execl("/proc/self/exe", self, NULL);
            perror("/proc/self/exe");
            _exit(1);
        }
    }
    close(fds[0]);
    close(fds[1]);
    for (k = 0; k < 2; k++) {
        pid = wait(&status);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
            result = result ? result : 77;
        } else if (pid == pids[pair_victim] && WIFSIGNALED(status) &&
                   WTERMSIG(status) == SIGKILL) {
            continue; /* by its own test */
        } else if (status != 0) {
            fprintf(stderr, "rank %d: %s %d\n", pid == pids[1],
                    WIFSIGNALED(status) ? "killed by signal" : "exit",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            kill(pids[pid == pids[0]], SIGTERM);
            result = 1;
        }
    }
    return result;
}

#endif
