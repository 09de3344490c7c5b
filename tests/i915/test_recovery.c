/* What comes after the kernel says no: memory that comes free when work in flight is over, work
 * that was lost, any number of times, work that was only beside it, and a context made anew. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "host.h"

#define SIZE (1u << 20)

static struct {
    int      refuse;      /* errno of the next execbuf while the gate is closed; it opens then */
    int      drop;        /* the next batches end without running */
    unsigned innocent;    /* of the context, as RESET_STATS tells */
    unsigned execs, stats, contexts;
    unsigned most;        /* submissions that the ring has room for while the gate is closed, 0: as
                             many as the device's */
    int      script[4];   /* of the next execbufs, 0: its end */
    volatile uint32_t *gate;
} kernel;

static struct zr_i915 *dev;

/* Let the batch end at its first dword. */
static void empty_batch(struct zr_kfile *file, struct drm_i915_gem_execbuffer2 *eb)
{
    struct drm_i915_gem_exec_object2 *list = (void *)(uintptr_t)eb->buffers_ptr;
    struct drm_i915_gem_mmap_offset   arg  = {.handle = list[eb->buffer_count - 1].handle,
                                              .flags  = I915_MMAP_OFFSET_WB};
    uint32_t                         *batch;

    if (zr_soft_file_ioctl(file->file, DRM_IOCTL_I915_GEM_MMAP_OFFSET, (uintptr_t)&arg) == 0) {
        batch    = zr_soft_file_mmap(file->file, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
                                     arg.offset);
        batch[0] = 0x05000000;
        munmap(batch, 4096);
    }
}

static int before(struct zr_kfile *file, unsigned long request, void *arg)
{
    int error;

    switch (request) {
    case DRM_IOCTL_I915_GEM_EXECBUFFER2:
        kernel.execs++;
        if (kernel.script[0] != 0) {
            error = kernel.script[0];
            memmove(&kernel.script[0], &kernel.script[1], 3 * sizeof(int));
            kernel.script[3] = 0;
            return error;
        }
        if (kernel.refuse != 0) {
            error         = kernel.refuse;
            kernel.refuse = 0;
            *kernel.gate  = 1; /* what flies can end now */
            return error;
        }
        if (kernel.most != 0 && *kernel.gate == 0 && kernel.most-- == 1) {
            kernel.most = 1;
            return -EAGAIN;
        }
        if (kernel.drop > 0) {
            kernel.drop--;
            empty_batch(file, arg);
        }
        break;
    case DRM_IOCTL_I915_GEM_CONTEXT_CREATE_EXT:
        kernel.contexts++;
        break;
    }
    return 0;
}

static void after(unsigned long request, void *arg, int ret)
{
    struct drm_i915_reset_stats *stats = arg;

    if (request == DRM_IOCTL_I915_GET_RESET_STATS && ret == 0) {
        kernel.stats++;
        stats->batch_pending = kernel.innocent;
    }
}

/* A submission that waits for the word at the start of page. */
static uint64_t closed(struct zr_copyq *q, struct host_bo *page)
{
    uint64_t seqno = 0;

    kernel.gate  = (volatile uint32_t *)page->map;
    *kernel.gate = 0;
    zr_copyq_begin(q);
    OK(zr_copyq_wait_word(q, page->bo, 0, 1, ZR_WAIT_EQUAL));
    OK(zr_copyq_submit(q, &seqno));
    return seqno;
}

/* No room while something flies: wait for it, try again. */
static void test_room(struct zr_copyq *q, struct host_bo *src, struct host_bo *dst,
                      struct host_bo *page)
{
    static const int errors[] = {-ENOSPC, -ENOMEM};
    uint64_t         first, second;
    unsigned         i, execs;

    for (i = 0; i < ZR_ARRAY_SIZE(errors); i++) {
        memset(dst->map, 0, SIZE);
        memset(src->map, (int)(0x41 + i), SIZE);
        first         = closed(q, page);
        kernel.refuse = errors[i];
        execs         = kernel.execs;
        second        = host_copy(q, dst, 0, src, 0, SIZE);
        CHECK(kernel.execs - execs == 2, "%u submissions", kernel.execs - execs);
        OK(zr_copyq_query(q, first));
        OK(zr_copyq_wait(q, second, FOREVER));
        CHECK(memcmp(dst->map, src->map, SIZE) == 0, "%s: bytes differ", strerror(-errors[i]));
    }
}

/* Losses between copies that arrive: each number is remembered. */
static void test_losses(struct zr_copyq *q, struct host_bo *src, struct host_bo *dst)
{
    enum { ROUNDS = 50 };
    uint64_t    lost[ROUNDS], good[ROUNDS];
    unsigned    i, contexts = kernel.contexts;
    ze_result_t result;

    zr_log_threshold = ZR_LOG_ERROR - 1; /* each of them is an error, and meant to be */
    for (i = 0; i < ROUNDS; i++) {
        kernel.drop = 1;
        lost[i]     = host_copy(q, dst, 0, src, 0, 1000 + i);
        result      = zr_copyq_wait(q, lost[i], FOREVER);
        CHECK(result == ZE_RESULT_ERROR_DEVICE_LOST, "round %u: 0x%x", i, (unsigned)result);
        memset(src->map, (int)i + 1, 4096);
        good[i] = host_copy(q, dst, 0, src, 0, 4096);
        OK(zr_copyq_wait(q, good[i], FOREVER));
        CHECK(memcmp(dst->map, src->map, 4096) == 0, "round %u: bytes differ", i);
    }
    zr_log_threshold = ZR_LOG_ERROR;
    CHECK(kernel.contexts - contexts >= ROUNDS, "%u contexts for %u losses",
          kernel.contexts - contexts, ROUNDS);
    for (i = 0; i < ROUNDS; i++) {
        char text[32];

        snprintf(text, sizeof(text), "copy of %u bytes", 1000 + i);
        result = zr_copyq_query(q, lost[i]);
        CHECK(result == ZE_RESULT_ERROR_DEVICE_LOST, "number %u is forgotten", i);
        CHECK(strstr(zr_last_error(), text) != NULL, "number %u", i);
        OK(zr_copyq_query(q, good[i]));
    }
}

/* Many more submissions than a ring has room for, all behind a gate that opens only afterwards: no
 * call blocks, they run in order, and without anybody asking. */
static void test_ring(struct zr_copyq *q, struct host_bo *src, struct host_bo *dst,
                      struct host_bo *page)
{
    static const struct {
        uint64_t length;
        unsigned count, most;
    } cases[] = {{64, 1000, 0}, {64 << 10, 200, 0}, {64, 100, 30},
                 {64, 100, 2}, {64 << 10, 50, 1}, {64, 1, 1}};
    volatile uint64_t *word = (volatile uint64_t *)(page->map + 64);
    uint64_t           first, seqno = 0, i;
    unsigned           c;

    for (c = 0; c < ZR_ARRAY_SIZE(cases); c++) {
        memset(dst->map, 0, SIZE);
        first       = closed(q, page);
        kernel.most = cases[c].most;
        *word       = 0;
        memset(src->map, 0x11, cases[c].length);
        for (i = 0; i < cases[c].count; i++) { /* each copies on what the one before it copied */
            seqno = host_copy(q, i & 1 ? src : dst, 0, i & 1 ? dst : src, 0, cases[c].length);
            CHECK(seqno == first + 1 + i, "number %llu", (unsigned long long)seqno);
        }
        zr_copyq_begin(q);
        OK(zr_copyq_write_qword(q, page->bo, 64, 77));
        OK(zr_copyq_submit(q, &seqno));
        CHECK(zr_copyq_query(q, first + 1) == ZE_RESULT_NOT_READY && *word == 0, "ran early");
        memset(src->map, 0x77, cases[c].length);
        kernel.most  = 0;
        *kernel.gate = 1;
        while (*word != 77 && bad == 0) { /* nobody asks the queue */
        }
        CHECK(memcmp(dst->map, src->map, cases[c].length) == 0 && dst->map[0] == 0x77,
              "%llu bytes differ", (unsigned long long)cases[c].length);
        OK(zr_copyq_wait(q, seqno, FOREVER));
    }
}

/* EAGAIN with nothing in the ring is no full ring: the call is made again, and its error is the
 * caller's, who may have an answer to it. */
static void test_again(struct zr_copyq *q, struct host_bo *src, struct host_bo *dst)
{
    struct zr_seg d = {dst->bo, 0, 64}, s = {src->bo, 0, 64};
    uint64_t      seqno = 0;
    ze_result_t   result;

    memcpy(kernel.script, (const int[4]){-EAGAIN, -EAGAIN, -EFAULT}, sizeof(kernel.script));
    zr_copyq_begin(q);
    OK(zr_copyq_copy(q, &d, 1, &s, 1, 64));
    result = zr_copyq_submit(q, &seqno);
    CHECK(result != ZE_RESULT_SUCCESS && result != ZE_RESULT_ERROR_DEVICE_LOST, "0x%x",
          (unsigned)result);
    OK(zr_copyq_wait(q, host_copy(q, dst, 0, src, 0, 64), FOREVER));
}

/* A context beside which another hung is asked again and again: its work is not lost by that. */
static void test_innocent(struct zr_copyq *q, struct host_bo *page)
{
    uint64_t    seqno = closed(q, page);
    ze_result_t result;
    unsigned    stats = kernel.stats;

    kernel.innocent = 3;
    do {
        result = zr_copyq_wait(q, seqno, UINT64_C(20000000));
    } while (result == ZE_RESULT_NOT_READY && kernel.stats - stats < 2);
    CHECK(result == ZE_RESULT_NOT_READY, "0x%x", (unsigned)result);
    *kernel.gate = 1;
    OK(zr_copyq_wait(q, seqno, FOREVER));
    kernel.innocent = 0;
}

/* What was kept is lost with what is in the ring. */
static void test_ring_lost(struct zr_copyq *q, struct host_bo *src, struct host_bo *dst,
                           struct host_bo *page)
{
    uint64_t first = closed(q, page), seqno = 0;
    unsigned i;

    for (i = 0; i < 100; i++) {
        seqno = host_copy(q, dst, 0, src, 0, 64);
    }
    zr_copyq_fail(q, "it was told so");
    CHECK(zr_copyq_query(q, first) == ZE_RESULT_ERROR_DEVICE_LOST, "first");
    CHECK(zr_copyq_query(q, seqno) == ZE_RESULT_ERROR_DEVICE_LOST, "last");
    *kernel.gate = 1;
    OK(zr_copyq_wait(q, host_copy(q, dst, 0, src, 0, 64), FOREVER));
}

int main(void)
{
    struct host_bo   src, dst, page;
    struct zr_copyq *q = NULL;

    setenv("ZERANGE_LOG", "error", 1);
    setenv("ZERANGE_SPLIT_THRESHOLD", "32K", 1);
    host.before = before;
    host.after  = after;
    dev         = host_start(HOST_BACKPORTS_PVC "submission = guc\ncopy_engines = 3\n", 0);
    src         = host_bo(dev, SIZE, ZR_PLACE_SYSTEM);
    dst         = host_bo(dev, SIZE, ZR_PLACE_SYSTEM);
    page        = host_bo(dev, 4096, ZR_PLACE_SYSTEM);
    OK(zr_copyq_create(dev, 0, &q));
    test_room(q, &src, &dst, &page);
    test_losses(q, &src, &dst);
    test_innocent(q, &page);
    zr_log_threshold = ZR_LOG_ERROR - 1;
    test_again(q, &src, &dst);
    zr_log_threshold = ZR_LOG_ERROR;
    test_ring(q, &src, &dst, &page);
    zr_log_threshold = ZR_LOG_ERROR - 1;
    test_ring_lost(q, &src, &dst, &page);
    zr_log_threshold = ZR_LOG_ERROR;
    test_ring(q, &src, &dst, &page);
    zr_copyq_destroy(q);
    CHECK(atomic_load(&src.bo->refs) == 1 && atomic_load(&dst.bo->refs) == 1, "references left");
    host_bo_free(&src);
    host_bo_free(&dst);
    host_bo_free(&page);
    host_stop(dev);
    printf("%u submissions, %u questions, %u wrong\n", kernel.execs, kernel.stats, bad);
    return bad != 0;
}
