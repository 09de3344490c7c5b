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
} pair;

static void pair_write(const void *data, size_t size)
{
    if (write(pair.fd, data, size) != (ssize_t)size) {
        fprintf(stderr, "rank %d: the other process is gone\n", pair.rank);
        exit(1);
    }
}

static void pair_read(void *data, size_t size)
{
    size_t  done;
    ssize_t n;

    for (done = 0; done < size; done += n) {
        n = read(pair.fd, (char *)data + done, size - done);
        if (n <= 0) {
            fprintf(stderr, "rank %d: the other process is gone\n", pair.rank);
            exit(1);
        }
    }
}

/* Both have come here; UCX makes progress meanwhile. */
static void pair_meet(void)
{
    char    c = 1;
    ssize_t n;

    pair_write(&c, 1);
    while ((n = recv(pair.fd, &c, 1, MSG_DONTWAIT)) != 1) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            fprintf(stderr, "rank %d: the other process is gone\n", pair.rank);
            exit(1);
        }
        if (pair.worker != NULL) {
            ucp_worker_progress(pair.worker);
        }
    }
}

static ucs_status_t pair_wait(void *request)
{
    ucs_status_t status;

    if (request == NULL) {
        return UCS_OK;
    }
    if (UCS_PTR_IS_ERR(request)) {
        return UCS_PTR_STATUS(request);
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        ucp_worker_progress(pair.worker);
    }
    ucp_request_free(request);
    return status;
}

static void pair_start_ucx(void)
{
    ucp_params_t        params  = {.field_mask = UCP_PARAM_FIELD_FEATURES |
                                                 UCP_PARAM_FIELD_MT_WORKERS_SHARED,
                                   .mt_workers_shared = pair.multi_thread,
                                   .features   = UCP_FEATURE_TAG | UCP_FEATURE_RMA};
    ucp_worker_params_t wparams = {0};
    ucp_config_t       *config;

    UCS(ucp_config_read(NULL, NULL, &config));
    UCS(ucp_init(&params, config, &pair.context));
    ucp_config_release(config);
    UCS(ucp_worker_create(pair.context, &wparams, &pair.worker));
}

/* Requests end with the error; nothing else needs to be done. */
static void pair_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
}

static void pair_connect(ucp_err_handling_mode_t mode)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .err_mode   = mode,
                              .err_handler.cb = pair_error};
    ucp_address_t  *mine, *other;
    size_t          size;

    UCS(ucp_worker_get_address(pair.worker, &mine, &size));
    pair_write(&size, sizeof(size));
    pair_write(mine, size);
    ucp_worker_release_address(pair.worker, mine);
    pair_read(&size, sizeof(size));
    other = malloc(size);
    pair_read(other, size);
    params.address = other;
    UCS(ucp_ep_create(pair.worker, &params, &pair.ep));
    free(other);
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
static void pair_enter(void (*body)(void), unsigned *which)
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
static int pair_run(const char *self, unsigned which, unsigned timeout)
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
