/* zerange-tune: from which length on a copy over all engines is done before one over a single engine.
 * Measures both in turn on each device and prints what ZERANGE_SPLIT_THRESHOLD should be there. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "blt/copyq.h"
#include "util/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST (UINT64_C(16) << 10)
#define LARGEST  (UINT64_C(16) << 20)
#define ROUNDS   21
#define FOREVER  UINT64_MAX

struct pair {
    struct zr_bo *dst, *src;
};

static ze_result_t copy_once(struct zr_copyq *q, const struct pair *pair, uint64_t length,
                             uint64_t *ns_p)
{
    struct zr_seg dst = {pair->dst, 0, length}, src = {pair->src, 0, length};
    uint64_t      start = zr_time_ns(), seqno;
    ze_result_t   result;

    zr_copyq_begin(q);
    result = zr_copyq_copy(q, &dst, 1, &src, 1, length);
    if (result != ZE_RESULT_SUCCESS) {
        zr_copyq_abort(q);
        return result;
    }
    result = zr_copyq_submit(q, &seqno);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_copyq_wait(q, seqno, FOREVER);
    }
    *ns_p = zr_time_ns() - start;
    return result;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Medians, the two measured in turn; the first round is not counted. */
static ze_result_t measure(struct zr_copyq *const q[2], const struct pair *pair, uint64_t length,
                           uint64_t median[2])
{
    uint64_t    ns[2][ROUNDS + 1];
    ze_result_t result;
    unsigned    round, which;

    for (round = 0; round <= ROUNDS; round++) {
        for (which = 0; which < 2; which++) {
            result = copy_once(q[which], pair, length, &ns[which][round]);
            if (result != ZE_RESULT_SUCCESS) {
                return result;
            }
        }
    }
    for (which = 0; which < 2; which++) {
        qsort(&ns[which][1], ROUNDS, sizeof(ns[which][0]), compare);
        median[which] = ns[which][1 + ROUNDS / 2];
    }
    return ZE_RESULT_SUCCESS;
}

static ze_result_t tune(struct zr_copyq *const q[2], const struct pair *pair)
{
    uint64_t    length, median[2], threshold = 0;
    ze_result_t result;

    printf("  %10s %14s %14s\n", "bytes", "one engine us", "all us");
    for (length = SMALLEST; length <= LARGEST; length *= 2) {
        result = measure(q, pair, length, median);
        if (result != ZE_RESULT_SUCCESS) {
            return result;
        }
        printf("  %10llu %14.1f %14.1f\n", (unsigned long long)length, median[0] / 1e3,
               median[1] / 1e3);
        /* The shortest from which on it stays so. */
        if (median[1] >= median[0]) {
            threshold = 0;
        } else if (threshold == 0) {
            threshold = length;
        }
    }
    if (threshold == 0) {
        printf("  one engine is as fast: ZERANGE_ENGINES=1\n");
    } else {
        printf("  ZERANGE_SPLIT_THRESHOLD=%lluK\n", (unsigned long long)(threshold >> 10));
    }
    return ZE_RESULT_SUCCESS;
}

static ze_result_t tune_device(struct zr_i915 *dev)
{
    struct zr_copyq *q[2] = {NULL, NULL};
    struct pair      pair = {NULL, NULL};
    ze_result_t      result;

    printf("%s: %s\n", zr_i915_info(dev)->node.path, zr_i915_info(dev)->name);
    if ((result = zr_copyq_create(dev, 1, &q[0])) == ZE_RESULT_SUCCESS &&
        (result = zr_copyq_create(dev, 0, &q[1])) == ZE_RESULT_SUCCESS &&
        (result = zr_bo_create(dev, LARGEST, ZR_PLACE_DEVICE, ZR_CACHE_WRITE_COMBINED,
                               &pair.dst)) == ZE_RESULT_SUCCESS &&
        (result = zr_bo_create(dev, LARGEST, ZR_PLACE_DEVICE, ZR_CACHE_WRITE_COMBINED,
                               &pair.src)) == ZE_RESULT_SUCCESS) {
        if (zr_copyq_width(q[1]) == 1) {
            printf("  one copy engine: nothing to choose\n");
        } else {
            result = tune(q, &pair);
        }
    }
    if (q[0] != NULL) {
        zr_copyq_destroy(q[0]);
    }
    if (q[1] != NULL) {
        zr_copyq_destroy(q[1]);
    }
    if (pair.dst != NULL) {
        zr_bo_unref(pair.dst);
    }
    if (pair.src != NULL) {
        zr_bo_unref(pair.src);
    }
    return result;
}

int main(int argc, char **argv)
{
    struct zr_i915 *devs[16];
    ze_result_t     result;
    unsigned        count = 0, i;

    if (argc > 1) {
        printf("usage: %s\nMeasures from which length on a copy is worth cutting over all copy"
               " engines of a device;\nZERANGE_SOFT=NAME measures a software device.\n", argv[0]);
        return strcmp(argv[1], "--help") != 0;
    }
    unsetenv("ZERANGE_ENGINES");
    setenv("ZERANGE_SPLIT_THRESHOLD", "0", 1);
    result = zr_config_load();
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_i915_enumerate(zr_config()->soft != NULL ? zr_soft_kif() : zr_drm_kif(), devs,
                                   ZR_ARRAY_SIZE(devs), &count);
    }
    for (i = 0; i < count && result == ZE_RESULT_SUCCESS; i++) {
        result = tune_device(devs[i]);
    }
    if (result != ZE_RESULT_SUCCESS) {
        fprintf(stderr, "zerange-tune: %s\n", zr_last_error());
    } else if (count == 0) {
        fprintf(stderr, "zerange-tune: no device\n");
    }
    for (i = 0; i < count; i++) {
        zr_i915_close(devs[i]);
    }
    return result != ZE_RESULT_SUCCESS || count == 0;
}
