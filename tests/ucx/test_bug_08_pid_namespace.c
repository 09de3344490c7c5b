/* openucx/ucx PR 10968, 11978: two processes with the same pid in two containers were taken for one
 * another. Both are process 1 of a namespace of their own: bytes are right, and the log says why
 * ze_range did not reach the other. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

#include <sched.h>
#include <sys/mount.h>

/* Process 1 of a new pid namespace runs the body. */
static void enter_namespace(void)
{
    int   status;
    pid_t pid;

    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) {
        perror("unshare");
        exit(77);
    }
    pid = fork();
    if (pid == 0) {
        /* In a root of its own "/" is not a mount. */
        if ((mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 &&
             mount(NULL, "/proc", NULL, MS_REC | MS_PRIVATE, NULL) != 0) ||
            mount("proc", "/proc", "proc", 0, NULL) != 0) {
            perror("proc");
            exit(77);
        }
        return;
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        exit(1);
    }
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void body(void)
{
    zp_log_here();
    enter_namespace();
    if (getpid() != 1) {
        FAIL("pid %d", (int)getpid());
    }
    zp_exchange("equal pids");
}

int main(int argc, char **argv)
{
    unsigned which;
    int      result;

    pair_enter(body, &which);
    setenv("UCX_RNDV_THRESH", "64k", 1);
    zp_log_start("debug");
    result = pair_run(argv[0], 0, 60);
    if (result == 0 && zp_log_count("pid namespace", NULL) == 0) {
        fprintf(stderr, "nothing says why ze_range does not reach the peer\n");
        result = 1;
    }
    zp_log_end(result != 0);
    return result;
}
