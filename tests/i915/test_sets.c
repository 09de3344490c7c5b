/* Sets of batches one after another, and beside those of another queue: what a set reads is what
 * the set before it wrote, in both orders of submission, and a queue waits for nobody else's. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "host.h"

#define SIZE (3u << 20)
#define TAIL (96u << 10) /* what the fast engines' rows get, about */

/* The first row takes nearly all of a copy and long: 20 MB/s. The others are done at once, and go
 * on with the next set where nothing holds them. The end of that set reads what the first row
 * writes last. */
static void test_order(const char *what, const char *profile)
{
    struct zr_i915  *dev = host_start(profile, 20);
    struct host_bo   a = host_bo(dev, SIZE, ZR_PLACE_SYSTEM), b = host_bo(dev, SIZE, ZR_PLACE_SYSTEM);
    struct host_bo   c = host_bo(dev, SIZE, ZR_PLACE_SYSTEM);
    struct zr_copyq *q = NULL;
    struct zr_seg    from[2], to;
    uint64_t         seqno = 0, late = SIZE - 2 * TAIL;

    memset(a.map, 0x5a, SIZE);
    memset(b.map, 0x11, SIZE);
    OK(zr_copyq_create(dev, 0, &q));
    CHECK(zr_copyq_width(q) == 4, "%s: width %u", what, zr_copyq_width(q));
    (void)host_copy(q, &b, 0, &a, 0, SIZE);
    from[0] = (struct zr_seg){a.bo, 0, late};
    from[1] = (struct zr_seg){b.bo, late - 2 * TAIL, 2 * TAIL};
    to      = (struct zr_seg){c.bo, 0, SIZE};
    zr_copyq_begin(q);
    OK(zr_copyq_copy(q, &to, 1, from, 2, SIZE));
    OK(zr_copyq_submit(q, &seqno));
    OK(zr_copyq_wait(q, seqno, FOREVER));
    CHECK(memcmp(c.map, a.map, SIZE) == 0, "%s: a set read what the one before had not written",
          what);
    zr_copyq_destroy(q);
    host_bo_free(&a);
    host_bo_free(&b);
    host_bo_free(&c);
    host_stop(dev);
}

/* Two queues and one object: the order between them is the application's, the kernel is not asked
 * for any. */
static void test_beside(void)
{
    struct zr_i915  *dev  = host_start(HOST_BACKPORTS_PVC "submission = guc\ncopy_engines = 9\n", 0);
    struct host_bo   page = host_bo(dev, 65536, ZR_PLACE_SYSTEM);
    struct host_bo   x = host_bo(dev, SIZE, ZR_PLACE_DEVICE), y = host_bo(dev, SIZE, ZR_PLACE_DEVICE);
    struct zr_copyq *one = NULL, *two = NULL;
    struct zr_seg    d = {x.bo, 0, 1000}, s = {y.bo, 0, 1000};
    uint64_t         first = 0, second;

    OK(zr_copyq_create(dev, 1, &one));
    OK(zr_copyq_create(dev, 4, &two));
    zr_copyq_begin(one);
    OK(zr_copyq_wait_word(one, page.bo, 0, 1, ZR_WAIT_EQUAL));
    OK(zr_copyq_copy(one, &d, 1, &s, 1, 1000));
    OK(zr_copyq_submit(one, &first));
    second = host_copy(two, &x, 4096, &y, 4096, SIZE - 4096);
    CHECK(zr_copyq_wait(two, second, FOREVER / 3) == ZE_RESULT_SUCCESS,
          "a queue waits for the other, which shares an object");
    CHECK(zr_copyq_query(one, first) == ZE_RESULT_NOT_READY, "the gate is open");
    *(volatile uint32_t *)page.map = 1;
    OK(zr_copyq_wait(one, first, FOREVER));
    zr_copyq_destroy(one);
    zr_copyq_destroy(two);
    host_bo_free(&page);
    host_bo_free(&x);
    host_bo_free(&y);
    host_stop(dev);
}

int main(void)
{
    setenv("ZERANGE_ENGINE_RATES", "90,1,1,1", 1);
    setenv("ZERANGE_SPLIT_THRESHOLD", "64K", 1);
    test_order("guc", HOST_UPSTREAM_DG2 "submission = guc\ncopy_engines = 4\n");
    test_order("execlists", HOST_UPSTREAM_DG2 "submission = execlists\ncopy_engines = 4\n");
    test_order("execlists, permuted", HOST_UPSTREAM_DG2
               "submission = execlists\ncopy_engines = 4\ncopy_logical = 0 2 1 3\n");
    test_beside();
    printf("%u wrong\n", bad);
    return bad != 0;
}
