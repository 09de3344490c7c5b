/* What a copy asks of the kernel, counted at the interface table: one execbuf2 to submit it,
 * nothing to ask whether it is done. Also prints the counts for ./run bench. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"

#include "blt/copyq.h"

#include <string.h>
#include <sys/mman.h>

#include <drm.h>
#include <i915_drm.h>

static const struct zr_kif *soft;
static unsigned             execs, others, failures;

static int count_ioctl(struct zr_kfile *file, unsigned long request, void *arg)
{
    if (request == DRM_IOCTL_I915_GEM_EXECBUFFER2 ||
        request == DRM_IOCTL_I915_GEM_EXECBUFFER2_WR) {
        execs++;
    } else {
        others++;
    }
    return soft->ioctl(file, request, arg);
}

static void *count_mmap(struct zr_kfile *file, void *addr, size_t length, int prot, int flags,
                        uint64_t offset)
{
    others++;
    return soft->mmap(file, addr, length, prot, flags, offset);
}

static int count_munmap(struct zr_kfile *file, void *addr, size_t length)
{
    others++;
    return soft->munmap(file, addr, length);
}

static int count_poll(int fd, int timeout_ms)
{
    others++;
    return soft->poll(fd, timeout_ms);
}

#define NEED(call)                                                                                \
    do {                                                                                          \
        if ((call) != ZE_RESULT_SUCCESS) {                                                        \
            printf("%s: %s\n", #call, zr_last_error());                                           \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

static void expect(const char *what, unsigned got, unsigned want)
{
    if (got != want) {
        printf("%s: %u kernel calls, expected %u\n", what, got, want);
        failures++;
    }
}

/* @a objects segments each side, @a size bytes together. */
static void copy_once(struct zr_copyq *q, const struct zr_seg *to, const struct zr_seg *from,
                      unsigned objects, uint64_t size, bool count)
{
    uint64_t    seqno;
    unsigned    polls = 0;
    ze_result_t result;

    execs = others = 0;
    zr_copyq_begin(q);
    NEED(zr_copyq_copy(q, to, objects, from, objects, size));
    NEED(zr_copyq_submit(q, &seqno));
    if (count) {
        expect("execbuf2 of a copy", execs, 1);
        expect("other calls of a copy", others, 0);
    }
    execs = others = 0;
    while ((result = zr_copyq_query(q, seqno)) == ZE_RESULT_NOT_READY && polls < 1000000000) {
        polls++;
    }
    NEED(result);
    NEED(zr_copyq_query(q, seqno));
    if (count) {
        expect("calls of polling", execs + others, 0);
    }
}

int main(void)
{
    static const struct {
        unsigned objects;
        uint64_t size;
    } cases[] = {{1, 8}, {1, 65536}, {8, 512 << 10}, {64, 4 << 20}};
    struct zr_kif    kif;
    struct zr_i915  *devs[8];
    struct zr_copyq *q;
    struct zr_seg    to[64], from[64];
    unsigned         count = 0, i, k;

    soft        = zr_soft_kif();
    kif         = *soft;
    kif.ioctl   = count_ioctl;
    kif.mmap    = count_mmap;
    kif.munmap  = count_munmap;
    kif.poll    = count_poll;
    if (zr_config_load() != ZE_RESULT_SUCCESS ||
        zr_i915_enumerate(&kif, devs, 8, &count) != ZE_RESULT_SUCCESS || count == 0) {
        printf("no software device: %s\n", zr_last_error());
        return 77;
    }
    NEED(zr_copyq_create(devs[0], 0, &q));
    for (k = 0; k < 64; k++) {
        NEED(zr_bo_create(devs[0], 65536, ZR_PLACE_DEVICE, ZR_CACHE_WRITE_COMBINED, &to[k].bo));
        NEED(zr_bo_create(devs[0], 65536, ZR_PLACE_DEVICE, ZR_CACHE_WRITE_COMBINED, &from[k].bo));
        to[k].offset = from[k].offset = 0;
        to[k].length = from[k].length = 65536;
    }
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        /* The first two make room for their batches, which rest in turn. */
        copy_once(q, to, from, cases[i].objects, cases[i].size, false);
        copy_once(q, to, from, cases[i].objects, cases[i].size, false);
        for (k = 0; k < 3; k++) {
            copy_once(q, to, from, cases[i].objects, cases[i].size, true);
        }
    }
    if (failures == 0) {
        printf("kernel calls of a copy: 1, of polling: 0\n");
    }
    for (k = 0; k < 64; k++) {
        zr_bo_unref(to[k].bo);
        zr_bo_unref(from[k].bo);
    }
    zr_copyq_destroy(q);
    return failures != 0;
}
