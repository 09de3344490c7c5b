/* A wrong ZERANGE_* value is refused when the loader starts the driver: a line with its name, the
 * value and what is allowed, and no driver; the program itself goes on. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *name, *value;
    const char *allowed; /* part of the line; NULL: the value is good */
} cases[] = {
    {"ZERANGE_LOG", "warn", NULL},
    {"ZERANGE_LOG", "loud", "error, warn, info, debug"},
    {"ZERANGE_SOFT", "pvc", NULL},
    {"ZERANGE_SOFT", "dg2", NULL},
    {"ZERANGE_SOFT", "nosuch", "pvc"},
    {"ZERANGE_SOFT_THREADS", "2", NULL},
    {"ZERANGE_SOFT_THREADS", "many", "0 to 256"},
    {"ZERANGE_SOFT_ENGINE_MBPS", "-5", "0 to 1000000"},
    {"ZERANGE_DEVICE_CPU_ACCESS", "2", "0, 1"},
    {"ZERANGE_FD_EXCHANGE", "mail", "auto, pidfd, socket"},
    {"ZERANGE_ENGINES", "17", "0 to 16"},
    {"ZERANGE_SPLIT_THRESHOLD", "64Q", "0 to 1T"},
};

/* Number of devices, as exit status: 99 for no driver. */
static int count_devices(void)
{
    ze_driver_handle_t one;
    uint32_t           n = 1;

    if (zeInit(0) != ZE_RESULT_SUCCESS || zeDriverGet(&n, &one) != ZE_RESULT_SUCCESS || n == 0) {
        return 99;
    }
    n = 0;
    return zeDeviceGet(one, &n, NULL) == ZE_RESULT_SUCCESS ? (int)n : 99;
}

static int run_case(size_t i, char *said, size_t size)
{
    ssize_t n, used = 0;
    pid_t   pid;
    int     ends[2], status;

    if (pipe(ends) != 0 || (pid = fork()) < 0) {
        perror("fork");
        exit(1);
    }
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv(cases[i].name, cases[i].value, 1);
        execl("/proc/self/exe", "count", "count", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    while ((n = read(ends[0], said + used, size - 1 - used)) > 0) {
        used += n;
    }
    said[used] = '\0';
    close(ends[0]);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    char     said[4096], named[128];
    unsigned bad = 0;
    size_t   i;
    int      status;
    bool     ok;
    char    *end;

    if (argc > 1 && strcmp(argv[1], "count") == 0) {
        return count_devices();
    }
    if (getenv("ZERANGE_SOFT") == NULL) {
        printf("for a software device only\n");
        return 77;
    }
    for (i = 0; i < COUNT(cases); i++) {
        status = run_case(i, said, sizeof(said));
        snprintf(named, sizeof(named), "%s=%s", cases[i].name, cases[i].value);
        if (cases[i].allowed == NULL) {
            ok = status == 1 && said[0] == '\0';
        } else {
            end = strchr(said, '\n');
            if (end != NULL) {
                *end = '\0'; /* all of it in the first line */
            }
            ok = status == 99 && strstr(said, named) != NULL &&
                 strstr(said, cases[i].allowed) != NULL;
        }
        if (!ok) {
            printf("%s: %d devices (99: no driver), said: %s\n", named, status, said);
            bad++;
        }
    }
    printf("%zu values, %u wrong\n", COUNT(cases), bad);
    return bad != 0;
}
