/* A buffer of one device in another: system memory is shared, memory that only the first has is
 * refused with the reason, and nothing is left of the attempt. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "blt/copyq.h"
#include "util/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned bad;

#define CHECK(cond, ...)                                                                      \
    do {                                                                                      \
        if (!(cond)) {                                                                        \
            printf("%s:%d: not true: %s; ", __func__, __LINE__, #cond);                       \
            printf(__VA_ARGS__);                                                              \
            printf(" (%s)\n", zr_last_error());                                               \
            bad++;                                                                            \
        }                                                                                     \
    } while (0)
#define OK(call) CHECK((call) == ZE_RESULT_SUCCESS, "failed")

#define SIZE    (256u << 10)
#define FOREVER UINT64_C(60000000000)

static struct zr_i915 *devs[2];

static void test_refused(void)
{
    struct zr_bo *bo = NULL, *other = (struct zr_bo *)&bad, *again = NULL;
    int           fd = -1;

    OK(zr_bo_create(devs[0], SIZE, ZR_PLACE_DEVICE, ZR_CACHE_WRITE_COMBINED, &bo));
    OK(zr_bo_export(bo, &fd));
    CHECK(zr_bo_import(devs[1], fd, &other) == ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, "imported");
    CHECK(other == (struct zr_bo *)&bad, "output written");
    CHECK(strstr(zr_last_error(), "importing fd") != NULL, "text");
    OK(zr_bo_import(devs[0], fd, &again));
    CHECK(again == bo, "another object");
    zr_bo_unref(again);
    zr_bo_unref(bo);
    close(fd);
}

/* The second device writes into memory of the first. */
static void test_shared(void)
{
    struct zr_bo    *bo = NULL, *mine = NULL, *source = NULL;
    struct zr_copyq *q  = NULL;
    void            *map = NULL, *from = NULL;
    struct zr_seg    d, s;
    uint64_t         seqno = 0;
    int              fd    = -1;

    OK(zr_bo_create(devs[0], SIZE, ZR_PLACE_SYSTEM, ZR_CACHE_CACHED, &bo));
    OK(zr_bo_map(bo, NULL, 0, SIZE, PROT_READ | PROT_WRITE, &map));
    OK(zr_bo_export(bo, &fd));
    OK(zr_bo_import(devs[1], fd, &mine));
    close(fd);
    if (bad != 0) {
        return;
    }
    OK(zr_bo_create(devs[1], SIZE, ZR_PLACE_SYSTEM, ZR_CACHE_CACHED, &source));
    OK(zr_bo_map(source, NULL, 0, SIZE, PROT_READ | PROT_WRITE, &from));
    memset(from, 0x39, SIZE);
    OK(zr_copyq_create(devs[1], 0, &q));
    d = (struct zr_seg){mine, 0, SIZE};
    s = (struct zr_seg){source, 0, SIZE};
    zr_copyq_begin(q);
    OK(zr_copyq_copy(q, &d, 1, &s, 1, SIZE));
    OK(zr_copyq_submit(q, &seqno));
    OK(zr_copyq_wait(q, seqno, FOREVER));
    CHECK(memcmp(map, from, SIZE) == 0, "bytes differ");
    d.bo = bo; /* of the other device: not for this queue */
    zr_copyq_begin(q);
    CHECK(zr_copyq_copy(q, &d, 1, &s, 1, SIZE) == ZE_RESULT_ERROR_INVALID_ARGUMENT, "taken");
    zr_copyq_abort(q);
    zr_copyq_destroy(q);
    zr_bo_unmap(source, from, SIZE);
    zr_bo_unmap(bo, map, SIZE);
    zr_bo_unref(source);
    zr_bo_unref(mine);
    zr_bo_unref(bo);
}

int main(void)
{
    unsigned count = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    setenv("ZERANGE_SOFT", "pvc,dg2", 1);
    OK(zr_config_load());
    OK(zr_i915_enumerate(zr_soft_kif(), devs, 2, &count));
    if (count != 2) {
        return 1;
    }
    test_refused();
    test_shared();
    zr_i915_close(devs[0]);
    zr_i915_close(devs[1]);
    printf("%u wrong\n", bad);
    return bad != 0;
}
