/* Every ZERANGE_* variable: the values it takes, and the line a wrong one is refused with. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *name, *value;
    const char *allowed; /* what the refusal lists, NULL: accepted */
} cases[] = {
    {"ZERANGE_LOG", "debug", NULL},
    {"ZERANGE_LOG", "loud", "error, warn, info, debug"},
    {"ZERANGE_LOG", "", "error, warn, info, debug"},
    {"ZERANGE_SOFT", "pvc,dg2", NULL},
    {"ZERANGE_SOFT", "", "profile names"},
    {"ZERANGE_SOFT_THREADS", "256", NULL},
    {"ZERANGE_SOFT_THREADS", "257", "0 to 256"},
    {"ZERANGE_SOFT_THREADS", "-1", "0 to 256"},
    {"ZERANGE_SOFT_ENGINE_MBPS", "200", NULL},
    {"ZERANGE_SOFT_ENGINE_MBPS", "fast", "0 to 1000000"},
    {"ZERANGE_DEVICE_CPU_ACCESS", "1", NULL},
    {"ZERANGE_DEVICE_CPU_ACCESS", "2", "0, 1"},
    {"ZERANGE_DEVICE_CPU_ACCESS", "yes", "0, 1"},
    {"ZERANGE_FD_EXCHANGE", "socket", NULL},
    {"ZERANGE_FD_EXCHANGE", "mail", "auto, pidfd, socket"},
    {"ZERANGE_ENGINES", "16", NULL},
    {"ZERANGE_ENGINES", "17", "0 to 16"},
    {"ZERANGE_SPLIT_THRESHOLD", "64K", NULL},
    {"ZERANGE_SPLIT_THRESHOLD", "1g", NULL},
    {"ZERANGE_SPLIT_THRESHOLD", "64Q", "0 to 1T"},
    {"ZERANGE_SPLIT_THRESHOLD", "64KB", "0 to 1T"},
    {"ZERANGE_SPLIT_THRESHOLD", "99999999999999999999", "0 to 1T"},
    {"ZERANGE_SPLIT_THRESHOLD", "2T", "0 to 1T"},
    {"ZERANGE_COMPAT", "spec", NULL},
    {"ZERANGE_COMPAT", "intel", NULL},
    {"ZERANGE_COMPAT", "Intel", "spec, intel"},
    {"ZERANGE_QUIRKS", "none", NULL},
    {"ZERANGE_QUIRKS", "intel", NULL},
    {"ZERANGE_QUIRKS", "all", "none, intel"},
    {"ZE_AFFINITY_MASK", "0", NULL},
    {"ZE_AFFINITY_MASK", "", NULL},
    {"ZE_AFFINITY_MASK", "1,0,63", NULL},
    {"ZE_AFFINITY_MASK", "0.0,2", NULL},
    {"ZE_AFFINITY_MASK", "0.1", "device numbers 0 to 63"},
    {"ZE_AFFINITY_MASK", "0.00", "device numbers"},
    {"ZE_AFFINITY_MASK", "64", "device numbers 0 to 63"},
    {"ZE_AFFINITY_MASK", "0,,1", "device numbers"},
    {"ZE_AFFINITY_MASK", "0,", "device numbers"},
    {"ZE_AFFINITY_MASK", "-1", "device numbers"},
    {"ZE_AFFINITY_MASK", "gpu", "device numbers"},
    {"ZE_AFFINITY_MASK", "0 1", "device numbers"},
    {"ZE_AFFINITY_MASK", "18446744073709551616", "device numbers"},
};

/* The configuration is read once per process, so each case is a child. */
static int run_case(unsigned i, char *text, size_t size)
{
    int     ends[2], status;
    pid_t   pid;
    ssize_t n, used = 0;

    if (pipe(ends) != 0 || (pid = fork()) < 0) {
        perror("fork");
        exit(1);
    }
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv(cases[i].name, cases[i].value, 1);
        _exit(zr_config_load() == ZE_RESULT_SUCCESS ? 0 : 1);
    }
    close(ends[1]);
    while ((n = read(ends[0], text + used, size - 1 - used)) > 0) {
        used += n;
    }
    text[used] = '\0';
    close(ends[0]);
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

int main(void)
{
    char     text[1024], named[128];
    unsigned i, bad = 0;
    int      status;
    bool     ok;

    for (i = 0; i < ZR_ARRAY_SIZE(cases); i++) {
        status = run_case(i, text, sizeof(text));
        snprintf(named, sizeof(named), "%s=%s", cases[i].name, cases[i].value);
        if (cases[i].allowed == NULL) {
            ok = status == 0 && text[0] == '\0';
        } else {
            ok = status == 1 && strstr(text, named) != NULL &&
                 strstr(text, cases[i].allowed) != NULL;
        }
        if (!ok) {
            printf("%s: exit %d, said: %s\n", named, status, text);
            bad++;
        }
    }
    printf("%zu values, %u wrong\n", ZR_ARRAY_SIZE(cases), bad);
    return bad != 0;
}
