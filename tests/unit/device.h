/* Unit tests of src/mem and src/ipc: the software device, and counting what a process holds. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_TEST_DEVICE_H
#define ZR_TEST_DEVICE_H

#include "i915/i915.h"
#include "util/config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The first device; ends the process with 77 where there is none. */
static inline struct zr_i915 *test_device(void)
{
    static struct zr_i915 *devs[8];
    static unsigned        count;

    if (count == 0 && (zr_config_load() != ZE_RESULT_SUCCESS ||
                       zr_i915_enumerate(zr_soft_kif(), devs, 8, &count) != ZE_RESULT_SUCCESS ||
                       count == 0)) {
        printf("no software device: %s\n", zr_last_error());
        fflush(stdout);
        _exit(77);
    }
    return devs[0];
}

/* Open fds of this process. */
static inline unsigned test_fds(void)
{
    DIR     *dir   = opendir("/proc/self/fd");
    unsigned count = 0;

    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

#endif
