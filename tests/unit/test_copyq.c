/* Copy queues on software devices: every byte copied and filled, nothing else touched, in order,
 * on all engines and on one, and what happens when a context is lost. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "blt/queue.h"
#include "util/config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned bad;

#define CHECK(cond, ...)                                                                      \
    do {                                                                                      \
        if (!(cond) && bad++ < 20) {                                                          \
            printf("%s:%d: not true: %s; ", __func__, __LINE__, #cond);                       \
            printf(__VA_ARGS__);                                                              \
            printf(" (%s)\n", zr_last_error());                                               \
        }                                                                                     \
    } while (0)
#define OK(call) CHECK((call) == ZE_RESULT_SUCCESS, "failed")

#define SIZE    (8u << 20)
#define FOREVER UINT64_C(60000000000)

static struct zr_i915  *dev;
static struct zr_copyq *q;

/* An object and what it must hold. System objects are mapped; device objects are read back. */
struct mem {
    struct zr_bo *bo;
    uint8_t      *map; /* NULL of device memory */
    uint8_t      *want;
};

static struct mem sys_a, sys_b, dev_a, dev_b, back;

static struct mem mem_new(enum zr_placement placement, uint64_t size)
{
    struct mem mem = {0};
    void      *map = NULL;

    OK(zr_bo_create(dev, size, placement,
                    placement == ZR_PLACE_SYSTEM ? ZR_CACHE_CACHED : ZR_CACHE_WRITE_COMBINED,
                    &mem.bo));
    if (placement == ZR_PLACE_SYSTEM) {
        OK(zr_bo_map(mem.bo, NULL, 0, size, PROT_READ | PROT_WRITE, &map));
        mem.map = map;
    }
    mem.want = calloc(1, size);
    return mem;
}

static void mem_free(struct mem *mem)
{
    if (mem->map != NULL) {
        zr_bo_unmap(mem->bo, mem->map, mem->bo->size);
    }
    CHECK(atomic_load(&mem->bo->refs) == 1, "%u references left", mem->bo->refs);
    zr_bo_unref(mem->bo);
    free(mem->want);
}

static void finish(void)
{
    uint64_t seqno = 0;

    OK(zr_copyq_submit(q, &seqno));
    OK(zr_copyq_wait(q, seqno, FOREVER));
}

static void copy(struct mem *dst, uint64_t to, struct mem *src, uint64_t from, uint64_t length)
{
    struct zr_seg d = {dst->bo, to, length}, s = {src->bo, from, length};

    OK(zr_copyq_copy(q, &d, 1, &s, 1, length));
    memmove(dst->want + to, src->want + from, length);
}

static void check(struct mem *mem, const char *what, uint64_t detail)
{
    const uint8_t *have = mem->map;
    struct zr_seg  d = {back.bo, 0, SIZE}, s = {mem->bo, 0, SIZE};
    uint64_t       i;

    if (have == NULL) {
        memset(back.map, 0x11, SIZE);
        zr_copyq_begin(q);
        OK(zr_copyq_copy(q, &d, 1, &s, 1, SIZE));
        finish();
        have = back.map;
    }
    if (memcmp(have, mem->want, SIZE) != 0) {
        for (i = 0; have[i] == mem->want[i]; i++) {
        }
        CHECK(false, "%s %llu: byte %llu is 0x%02x instead of 0x%02x", what,
              (unsigned long long)detail, (unsigned long long)i, have[i], mem->want[i]);
        memcpy(mem->want, have, SIZE);
    }
}

/* Fresh contents everywhere, by way of the engines for device memory. */
static void reset(void)
{
    struct mem *all[] = {&sys_a, &sys_b};
    unsigned    k, i;

    for (k = 0; k < 2; k++) {
        for (i = 0; i < SIZE; i++) {
            all[k]->want[i] = (uint8_t)((i + k * 77777) * 2654435761u >> 21);
        }
        memcpy(all[k]->map, all[k]->want, SIZE);
    }
    zr_copyq_begin(q);
    copy(&dev_a, 0, &sys_a, 0, SIZE);
    copy(&dev_b, 0, &sys_b, 0, SIZE);
    finish();
    check(&dev_a, "reset", 0);
    check(&dev_b, "reset", 1);
}

/* ---- bytes ---- */

static void test_small(void)
{
    uint64_t length, at = 0;
    unsigned k;

    reset();
    for (length = 1; length <= 300; length++) {
        zr_copyq_begin(q);
        for (k = 0; k < 16; k++) {
            /* All 256 pairs of alignments come up, each with many lengths. */
            copy(&sys_b, at + k, &sys_a, 4096 + ((length + k * k) & 15) + 16 * k, length);
            at += ZR_ALIGN_UP(length + 40, 16);
        }
        finish();
        CHECK(at < SIZE, "too much");
        if (length % 50 == 0) {
            check(&sys_b, "length", length);
        }
    }
    check(&sys_b, "small", 0);
    check(&sys_a, "source", 0);
}

static void test_big(void)
{
    static const uint64_t lengths[] = {16384,      16385,       65537,       262143,
                                       262144,     262145,      300001,      (1 << 20) + 1,
                                       4 << 20,    (4 << 20) + 13, (7 << 20) + 12345};
    struct mem *pairs[][2] = {{&dev_b, &sys_a}, {&sys_b, &dev_a}, {&dev_b, &dev_a},
                              {&sys_b, &sys_a}};
    unsigned    i, p;

    for (p = 0; p < ZR_ARRAY_SIZE(pairs); p++) {
        reset();
        for (i = 0; i < ZR_ARRAY_SIZE(lengths); i++) {
            zr_copyq_begin(q);
            copy(pairs[p][0], 1000 + i * 13, pairs[p][1], 3 + i * 7, lengths[i]);
            finish();
            check(pairs[p][0], "big", lengths[i]);
        }
        check(pairs[p][1], "source of big", p);
    }
}

/* Cut [0, length) of an object into segments in shuffled order; want follows the same order. */
static unsigned shuffle(struct mem *mem, struct zr_seg *segs, unsigned count, uint64_t length)
{
    uint64_t at = 0, share = length / count;
    unsigned i, k;

    for (i = 0; i < count; i++) {
        segs[i] = (struct zr_seg){mem->bo, at, i + 1 == count ? length - at :
                                                                share + (i * 37) % 101 - 50};
        at += segs[i].length;
    }
    for (i = count - 1; i > 0; i--) {
        struct zr_seg swap = segs[i];

        k       = (unsigned)rand() % (i + 1);
        segs[i] = segs[k];
        segs[k] = swap;
    }
    return count;
}

static void want_segments(struct mem *dst, const struct zr_seg *d, struct mem *src,
                          const struct zr_seg *s, uint64_t length)
{
    uint64_t i, dpos = 0, spos = 0;

    for (i = 0; i < length; i++) {
        while (dpos == d->length) {
            d++;
            dpos = 0;
        }
        while (spos == s->length) {
            s++;
            spos = 0;
        }
        dst->want[d->offset + dpos++] = src->want[s->offset + spos++];
    }
}

static void test_segments(void)
{
    static const struct {
        unsigned dst, src;
        uint64_t length;
    } cases[] = {{3, 5, 100000}, {64, 100, 250001}, {200, 7, (3 << 20) + 11},
                 {1, 500, 5 << 20}, {977, 1013, (6 << 20) + 5}};
    static struct zr_seg d[1024], s[1024];
    unsigned             i, nd, ns;

    for (i = 0; i < ZR_ARRAY_SIZE(cases); i++) {
        reset();
        nd = shuffle(&dev_b, d, cases[i].dst, cases[i].length);
        ns = shuffle(&dev_a, s, cases[i].src, cases[i].length);
        want_segments(&dev_b, d, &dev_a, s, cases[i].length);
        zr_copyq_begin(q);
        OK(zr_copyq_copy(q, d, nd, s, ns, cases[i].length));
        finish();
        check(&dev_b, "segments", i);
    }
}

static void test_fill(void)
{
    static const uint64_t lengths[] = {1, 17, 300, 16385, 200003, (2 << 20) + 5};
    uint8_t               pattern[ZR_BLT_MAX_PATTERN];
    unsigned              size, i;
    uint64_t              k;

    reset();
    for (size = 1; size <= ZR_BLT_MAX_PATTERN; size *= 2) {
        for (i = 0; i < ZR_ARRAY_SIZE(lengths); i++) {
            struct mem   *mem  = i & 1 ? &sys_b : &dev_b;
            uint64_t      cut  = lengths[i] / 3;
            struct zr_seg d[2] = {{mem->bo, 70001 + size, cut},
                                  {mem->bo, (3 << 20) + i, lengths[i] - cut}};

            for (k = 0; k < size; k++) {
                pattern[k] = (uint8_t)(k * 31 + size + i);
            }
            zr_copyq_begin(q);
            OK(zr_copyq_fill(q, d, 2, lengths[i], pattern, size));
            finish();
            for (k = 0; k < lengths[i]; k++) {
                mem->want[k < cut ? d[0].offset + k : d[1].offset + k - cut] = pattern[k % size];
            }
            check(mem, "fill", size);
        }
    }
}

/* ---- order ---- */

static void test_wait_write(void)
{
    struct mem         page  = mem_new(ZR_PLACE_SYSTEM, 4096);
    volatile uint32_t *gate  = (uint32_t *)page.map;
    volatile uint64_t *words = (uint64_t *)page.map;
    uint64_t           seqno = 0, start;
    unsigned           round;

    reset();
    for (round = 0; round < 20; round++) {
        uint64_t length = round & 1 ? 4 << 20 : 5000;

        gate[0]  = round;
        words[8] = words[9] = words[10] = 0;
        zr_copyq_begin(q);
        OK(zr_copyq_write_timestamp(q, page.bo, 72));
        OK(zr_copyq_wait_word(q, page.bo, 0, round + 1,
                              round % 3 == 0 ? ZR_WAIT_EQUAL : ZR_WAIT_GREATER_EQUAL));
        copy(&sys_b, round, &sys_a, 100 * round, length);
        OK(zr_copyq_barrier(q));
        /* Halves change places: each engine reads what another has written. */
        copy(&dev_b, round, &sys_b, round + length / 2, length / 2);
        copy(&dev_b, round + length / 2, &sys_b, round, length / 2);
        OK(zr_copyq_write_timestamp(q, page.bo, 80));
        OK(zr_copyq_write_qword(q, page.bo, 64, UINT64_C(0x1234567800000000) + round));
        OK(zr_copyq_submit(q, &seqno));
        CHECK(zr_copyq_query(q, seqno) == ZE_RESULT_NOT_READY, "round %u ran early", round);
        CHECK(zr_copyq_wait(q, seqno, 1000000) == ZE_RESULT_NOT_READY, "round %u", round);
        CHECK(words[8] == 0, "round %u: written early", round);
        /* The bytes come only now: whoever did not wait has copied others. */
        memset(sys_a.map + 100 * round, (int)(round + 1), length);
        memset(sys_a.want + 100 * round, (int)(round + 1), length);
        memset(sys_b.want + round, (int)(round + 1), length);
        memset(dev_b.want + round, (int)(round + 1), length);
        gate[0] = round + 1;
        start   = zr_time_ns();
        while (words[8] == 0 && zr_time_ns() - start < FOREVER) {
        }
        CHECK(words[8] == UINT64_C(0x1234567800000000) + round, "round %u", round);
        CHECK(memcmp(sys_b.map + round, sys_b.want + round, length) == 0,
              "round %u: the word came before the bytes", round);
        OK(zr_copyq_wait(q, seqno, FOREVER));
        CHECK(words[9] != 0 && words[10] >= words[9], "round %u: time %llu to %llu", round,
              (unsigned long long)words[9], (unsigned long long)words[10]);
    }
    check(&sys_b, "wait", 0);
    check(&dev_b, "wait", 1);
    gate[0] = 5;
    zr_copyq_begin(q);
    OK(zr_copyq_wait_word(q, page.bo, 0, 4, ZR_WAIT_NOT_EQUAL));
    finish();
    zr_copyq_begin(q);
    CHECK(zr_copyq_wait_word(q, page.bo, 2, 4, ZR_WAIT_EQUAL) ==
              ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT, "alignment");
    zr_copyq_abort(q);
    mem_free(&page);
}

/* What must come after a wide copy is in a batch of its own, behind it. */
static void test_parts(void)
{
    struct zr_slot *first;

    zr_copyq_begin(q);
    copy(&dev_b, 0, &dev_a, 0, 4 << 20);
    first = q->building.head;
    CHECK(first->wide == (q->width > 1) && first == q->building.tail, "one part");
    copy(&dev_b, 5 << 20, &dev_a, 5 << 20, 100);
    CHECK(first == q->building.tail, "a short copy goes beside a long one");
    OK(zr_copyq_write_qword(q, sys_b.bo, 0, 1));
    CHECK((first != q->building.tail) == (q->width > 1) && !q->building.tail->wide, "after it");
    copy(&dev_b, 6 << 20, &dev_a, 6 << 20, 100);
    CHECK(!q->building.tail->wide, "a short copy goes behind a word");
    zr_copyq_abort(q);
    CHECK(q->building.head == NULL, "aborted");
}

/* Each submission copies what the one before it wrote; all wait behind a gate first. */
static void test_chain(void)
{
    struct mem         page = mem_new(ZR_PLACE_SYSTEM, 4096);
    volatile uint32_t *gate = (uint32_t *)page.map;
    uint64_t           first = 0, seqno = 0;
    unsigned           i;

    reset();
    zr_copyq_begin(q);
    OK(zr_copyq_wait_word(q, page.bo, 0, 1, ZR_WAIT_EQUAL));
    OK(zr_copyq_submit(q, &first));
    for (i = 0; i < 1000; i++) {
        zr_copyq_begin(q);
        copy(&dev_a, (i + 1) * 512, &dev_a, i * 512, 511);
        OK(zr_copyq_submit(q, &seqno));
        CHECK(seqno == first + 1 + i, "number %llu", (unsigned long long)seqno);
    }
    CHECK(zr_copyq_last(q) == seqno, "last");
    CHECK(zr_copyq_query(q, first + 1) == ZE_RESULT_NOT_READY, "ran before the gate");
    *gate = 1;
    OK(zr_copyq_wait(q, seqno, FOREVER));
    OK(zr_copyq_query(q, first));
    check(&dev_a, "chain", 0);
    /* Wide and single ones in turn. */
    for (i = 0; i < 30; i++) {
        uint64_t length = i % 3 == 1 ? 9999 : (2 << 20) + 17 * i;

        zr_copyq_begin(q);
        copy(i & 1 ? &dev_b : &sys_b, 64 * i, i & 1 ? &sys_b : &dev_b, 64 * i + 64, length);
        OK(zr_copyq_submit(q, &seqno));
    }
    OK(zr_copyq_wait(q, seqno, FOREVER));
    check(&dev_b, "turns", 0);
    check(&sys_b, "turns", 1);
    mem_free(&page);
}

static void *thread_main(void *arg)
{
    unsigned id = (unsigned)(uintptr_t)arg, i;
    uint64_t seqno = 0;

    for (i = 0; i < 200; i++) {
        uint64_t      at = (1 << 20) * (uint64_t)id + 1000 * i, length = i % 40 == 7 ? 600000 : 800;
        struct zr_seg d = {dev_b.bo, at, length}, s = {dev_a.bo, at, length};

        zr_copyq_begin(q);
        OK(zr_copyq_copy(q, &d, 1, &s, 1, length));
        OK(zr_copyq_submit(q, &seqno));
        if (i % 16 == 0) {
            OK(zr_copyq_wait(q, seqno, FOREVER));
        }
    }
    OK(zr_copyq_wait(q, seqno, FOREVER));
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[4];
    unsigned  id, i;

    reset();
    for (id = 0; id < 4; id++) {
        pthread_create(&threads[id], NULL, thread_main, (void *)(uintptr_t)id);
    }
    for (id = 0; id < 4; id++) {
        pthread_join(threads[id], NULL);
        for (i = 0; i < 200; i++) {
            uint64_t at = (1 << 20) * (uint64_t)id + 1000 * i;

            memcpy(dev_b.want + at, dev_a.want + at, i % 40 == 7 ? 600000 : 800);
        }
    }
    check(&dev_b, "threads", 0);
}

/* ---- refusals ---- */

static void test_refused(void)
{
    struct zr_seg d = {dev_b.bo, 0, 100}, s = {dev_a.bo, 0, 99}, out = {dev_a.bo, SIZE - 50, 100};
    uint64_t      seqno, before;

    reset();
    before = zr_copyq_last(q);
    zr_copyq_begin(q);
    copy(&dev_b, 0, &dev_b, 0, 0);
    CHECK(zr_copyq_copy(q, &d, 1, &s, 1, 100) == ZE_RESULT_ERROR_INVALID_ARGUMENT, "short source");
    CHECK(zr_copyq_copy(q, &d, 1, &out, 1, 100) == ZE_RESULT_ERROR_INVALID_ARGUMENT, "outside");
    CHECK(zr_copyq_copy(q, &d, 1, NULL, 0, 100) == ZE_RESULT_ERROR_INVALID_ARGUMENT, "no source");
    CHECK(zr_copyq_fill(q, &d, 1, 101, "x", 1) == ZE_RESULT_ERROR_INVALID_ARGUMENT, "short fill");
    CHECK(zr_copyq_fill(q, &d, 1, 100, "xyz", 3) == ZE_RESULT_ERROR_INVALID_SIZE, "pattern");
    zr_copyq_abort(q);
    CHECK(zr_copyq_last(q) == before, "a number was used");
    CHECK(zr_copyq_wait(q, before + 1, 0) == ZE_RESULT_ERROR_INVALID_ARGUMENT, "not made yet");
    zr_copyq_begin(q); /* nothing at all is a submission too */
    OK(zr_copyq_submit(q, &seqno));
    CHECK(seqno == before + 1, "number");
    OK(zr_copyq_wait(q, seqno, FOREVER));
    check(&dev_b, "refused", 0);
}

/* A batch that no engine can decode, on the queue's own context. */
static void hang(void)
{
    struct mem   batch = mem_new(ZR_PLACE_SYSTEM, 4096);
    struct zr_bo *bos[] = {batch.bo};

    memset(batch.map, 0xff, 4096);
    pthread_mutex_lock(&q->lock);
    OK(zr_ctx_exec(q->ctx, false, bos, NULL, 0, false));
    pthread_mutex_unlock(&q->lock);
    mem_free(&batch);
}

/* An engine reads the end of a batch after it has written that it is done: the next submission is
 * in another one. */
static void test_resting(void)
{
    static const uint64_t lengths[] = {1000, 3 << 20};
    struct zr_bo         *batch, *last;
    unsigned              i, k, slots = q->num_slots;

    for (i = 0; i < 2; i++) {
        for (k = 0, last = NULL; k < 5; k++, last = batch) {
            zr_copyq_begin(q);
            copy(&dev_b, 0, &dev_a, 0, lengths[i]);
            batch = q->building.tail->row[0].bo;
            finish();
            CHECK(batch != last, "%llu bytes, round %u: the batch before is written over",
                  (unsigned long long)lengths[i], k);
        }
        CHECK(q->num_slots <= slots + 4, "%u slots, %u before", q->num_slots, slots);
    }
}

/* What a burst needed at once is given back once the queue has long needed less. */
static void test_burst(void)
{
    enum { BURST = 100, LATER = 1000 };
    struct mem page = mem_new(ZR_PLACE_SYSTEM, 4096);
    uint64_t   seqno = 0;
    unsigned   k, most;

    zr_copyq_begin(q);
    OK(zr_copyq_wait_word(q, page.bo, 0, 1, ZR_WAIT_EQUAL));
    OK(zr_copyq_submit(q, &seqno));
    for (k = 0; k < BURST; k++) {
        zr_copyq_begin(q);
        copy(&dev_b, 0, &dev_a, 0, 1000);
        OK(zr_copyq_submit(q, &seqno));
    }
    most                             = q->num_slots;
    *(volatile uint32_t *)page.map = 1;
    OK(zr_copyq_wait(q, seqno, FOREVER));
    CHECK(most >= BURST, "%u slots for %u submissions that wait", most, (unsigned)BURST);
    for (k = 0; k < LATER; k++) {
        zr_copyq_begin(q);
        copy(&dev_b, 0, &dev_a, 0, 1000);
        finish();
    }
    CHECK(q->num_slots < 10, "%u slots, %u at most before", q->num_slots, most);
    mem_free(&page);
}

static void test_lost(void)
{
    struct mem  page = mem_new(ZR_PLACE_SYSTEM, 4096);
    uint64_t    before = 0, pending = 0, later = 0;
    ze_result_t result;

    reset();
    zr_copyq_begin(q);
    copy(&dev_b, 0, &dev_a, 0, 1000);
    OK(zr_copyq_submit(q, &before));
    OK(zr_copyq_wait(q, before, FOREVER));
    zr_copyq_begin(q);
    OK(zr_copyq_wait_word(q, page.bo, 0, 1, ZR_WAIT_EQUAL));
    copy(&dev_b, 0, &dev_b, 0, 4321);
    OK(zr_copyq_submit(q, &pending));
    *(volatile uint32_t *)page.map = 1;
    hang();
    zr_copyq_begin(q);
    copy(&dev_b, 5000, &dev_b, 5000, 4321);
    result = zr_copyq_submit(q, &later);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_copyq_wait(q, later, FOREVER);
        CHECK(strstr(zr_last_error(), "4321 bytes") != NULL, "the text does not name the copy");
    }
    CHECK(result == ZE_RESULT_ERROR_DEVICE_LOST, "0x%x", (unsigned)result);
    result = zr_copyq_query(q, pending);
    CHECK(result == ZE_RESULT_SUCCESS || result == ZE_RESULT_ERROR_DEVICE_LOST, "pending");
    OK(zr_copyq_query(q, before));
    zr_copyq_begin(q);
    copy(&dev_b, 1 << 20, &dev_a, 77, 3 << 20);
    finish();
    check(&dev_b, "after a loss", 0);
    mem_free(&page);
}

/* Pages of the caller, and a buffer imported again: the same object. */
static void test_objects(void)
{
    uint8_t      *pages = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct zr_bo *bo = NULL, *again = NULL;
    struct zr_seg d, s = {dev_a.bo, 11, 1000000};
    int           fd = -1;

    reset();
    OK(zr_bo_create_userptr(dev, pages, 1 << 20, &bo));
    d = (struct zr_seg){bo, 5, 1000000};
    zr_copyq_begin(q);
    OK(zr_copyq_copy(q, &d, 1, &s, 1, 1000000));
    finish();
    CHECK(pages[4] == 0 && memcmp(pages + 5, dev_a.want + 11, 1000000) == 0, "user pages");
    zr_bo_unref(bo);
    munmap(pages, 1 << 20);
    CHECK(zr_bo_create_userptr(dev, (char *)NULL + 1, 4096, &bo) ==
              ZE_RESULT_ERROR_INVALID_ARGUMENT, "alignment");
    OK(zr_bo_export(dev_a.bo, &fd));
    OK(zr_bo_import(dev, fd, &again));
    CHECK(again == dev_a.bo, "imported as another object");
    zr_bo_unref(again);
    close(fd);
    CHECK(zr_bo_import(dev, 0, &again) != ZE_RESULT_SUCCESS, "stdin is not a buffer");
}

static int run(const char *profile, unsigned most, unsigned width)
{
    unsigned count = 0;

    setenv("ZERANGE_SOFT", profile, 1);
    OK(zr_config_load());
    OK(zr_i915_enumerate(zr_soft_kif(), &dev, 1, &count));
    if (count != 1) {
        printf("%s: no device\n", profile);
        return 1;
    }
    OK(zr_copyq_create(dev, most, &q));
    CHECK(bad == 0 && zr_copyq_width(q) == width, "width");
    if (bad != 0) {
        return 1;
    }
    sys_a = mem_new(ZR_PLACE_SYSTEM, SIZE);
    sys_b = mem_new(ZR_PLACE_SYSTEM, SIZE);
    dev_a = mem_new(ZR_PLACE_DEVICE, SIZE);
    dev_b = mem_new(ZR_PLACE_DEVICE, SIZE);
    back  = mem_new(ZR_PLACE_SYSTEM, SIZE);
    test_small();
    test_big();
    test_segments();
    test_fill();
    test_wait_write();
    test_parts();
    test_chain();
    test_threads();
    test_refused();
    test_objects();
    test_resting();
    test_burst();
    test_lost();
    printf("%s: %s, width %u: %u wrong\n", profile, zr_i915_info(dev)->name, zr_copyq_width(q),
           bad);
    zr_copyq_destroy(q);
    mem_free(&sys_a);
    mem_free(&sys_b);
    mem_free(&dev_a);
    mem_free(&dev_b);
    mem_free(&back);
    zr_i915_close(dev);
    return bad != 0;
}

/* Profiles of this test's own: what the installed ones do not have. */
static const struct {
    const char *name, *text;
} profiles[] = {
    /* several engines without GuC's barriers between sets; logical ids in another order */
    {"execlists", "device_id = 0x0bd5\ngeneration = pvc\nrules = upstream\n"
                  "submission = execlists\nlmem = 1G\nsmem = 4G\ngtt_bits = 48\n"
                  "timestamp_hz = 19200000\ncopy_engines = 4\ncopy_logical = 2 0 3 1\n"},
    /* a hole in the logical ids: only the run of three can be one slot */
    {"fused", "device_id = 0x0bd5\ngeneration = pvc\nrules = backports\n"
              "submission = guc\nlmem = 1G\nsmem = 4G\ngtt_bits = 48\n"
              "timestamp_hz = 19200000\ncopy_engines = 5\ncopy_logical = 0 1 4 5 6\n"},
    /* no device memory; with and without a cache shared with the CPU */
    {"tgl", "device_id = 0x9a49\ngeneration = gen12\nrules = upstream\nsubmission = execlists\n"
            "llc = yes\nsmem = 4G\ngtt_bits = 48\ntimestamp_hz = 19200000\ncopy_engines = 1\n"},
    {"mtl", "device_id = 0x7d55\ngeneration = gen125\nrules = upstream\nsubmission = guc\n"
            "llc = no\nsmem = 4G\ngtt_bits = 48\ntimestamp_hz = 19200000\ncopy_engines = 1\n"},
};

static void make_profiles(char *directory)
{
    char     path[128];
    FILE    *file;
    unsigned i;

    if (mkdtemp(directory) == NULL) {
        perror("mkdtemp");
        exit(1);
    }
    for (i = 0; i < ZR_ARRAY_SIZE(profiles); i++) {
        snprintf(path, sizeof(path), "%s/%s.profile", directory, profiles[i].name);
        file = fopen(path, "w");
        if (file == NULL || fputs(profiles[i].text, file) < 0 || fclose(file) != 0) {
            perror(path);
            exit(1);
        }
    }
}

static void remove_profiles(const char *directory)
{
    char     path[128];
    unsigned i;

    for (i = 0; i < ZR_ARRAY_SIZE(profiles); i++) {
        snprintf(path, sizeof(path), "%s/%s.profile", directory, profiles[i].name);
        unlink(path);
    }
    rmdir(directory);
}

int main(void)
{
    static const struct {
        const char *profile;
        unsigned    most, width; /* asked for, to be got */
        bool        own;
    } cases[] = {{"pvc", 0, 9, false}, {"pvc", 2, 2, false}, {"dg2", 0, 1, false},
                 {"execlists", 0, 4, true}, {"fused", 0, 3, true}, {"tgl", 0, 1, true},
                 {"mtl", 0, 1, true}};
    char     directory[] = "/tmp/zerange-test-XXXXXX";
    unsigned i, failed = 0;
    int      status;
    pid_t    pid;

    make_profiles(directory);
    for (i = 0; i < ZR_ARRAY_SIZE(cases); i++) {
#ifdef __SANITIZE_THREAD__
        if (i != 0 && i != 2 && i != 3) {
            continue; /* minutes each there; these are the ways in which threads meet */
        }
#endif
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
            if (cases[i].own) {
                setenv("ZERANGE_PROFILES", directory, 1);
            }
            status = run(cases[i].profile, cases[i].most, cases[i].width);
            fflush(stdout);
            _exit(status);
        }
        waitpid(pid, &status, 0);
        if (status != 0) {
            printf("%s, at most %u: status 0x%x\n", cases[i].profile, cases[i].most,
                   (unsigned)status);
            failed++;
        }
    }
    remove_profiles(directory);
    return failed != 0;
}
