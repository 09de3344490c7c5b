/* The engine rate model: a copy over N engines takes 1/N of the time, and markers that a batch
 * writes are as late as its bytes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft_client.h"

#define BYTES (16u << 20)
#define MBPS  100
#define TRIES 10 /* until one is good: the machine may be busy */

static struct client pvc;

static double seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec + ts.tv_nsec * 1e-9;
}

struct copy {
    struct object src, dst, word, batch[8];
    uint32_t      ctx;
    unsigned      width;
};

static void copy_prepare(struct copy *c, unsigned width)
{
    uint64_t     share = BYTES / width, done;
    struct batch b;
    unsigned     i;

    c->width = width;
    assert_int_equal(context_create(&pvc, 0, width, true, &c->ctx), 0);
    object_create(&pvc, BYTES, I915_MEMORY_CLASS_DEVICE, &c->src);
    object_create(&pvc, BYTES, I915_MEMORY_CLASS_DEVICE, &c->dst);
    object_create(&pvc, 64 << 10, I915_MEMORY_CLASS_SYSTEM, &c->word);
    memset(c->src.cpu, 0x77, BYTES);
    memset(c->dst.cpu, 0, BYTES);
    for (i = 0; i < width; i++) {
        object_create(&pvc, 64 << 10, I915_MEMORY_CLASS_SYSTEM, &c->batch[i]);
        b = batch_of(&c->batch[i]);
        for (done = 0; done < share; done += 256 << 10) {
            emit_mem_copy(&b, c->dst.va + i * share + done, c->src.va + i * share + done,
                          256 << 10);
        }
        emit_flush_qword(&b, c->word.va + 64 * i, 1);
        emit_end(&b);
    }
}

static void copy_destroy(struct copy *c)
{
    unsigned i;

    for (i = 0; i < c->width; i++) {
        object_destroy(&pvc, &c->batch[i]);
    }
    object_destroy(&pvc, &c->src);
    object_destroy(&pvc, &c->dst);
    object_destroy(&pvc, &c->word);
}

/* Seconds until the last marker. */
static double copy_run(struct copy *c)
{
    struct object     *list[11] = {&c->src, &c->dst, &c->word};
    volatile uint64_t *word     = c->word.cpu;
    double             start, end;
    unsigned           i;

    for (i = 0; i < c->width; i++) {
        list[3 + i] = &c->batch[i];
        word[8 * i] = 0;
    }
    start = seconds();
    assert_int_equal(client_exec(&pvc, c->ctx, list, 3 + c->width, c->width, EXEC_OBJECT_WRITE),
                     0);
    for (i = 0; i < c->width; i++) {
        while (word[8 * i] == 0) {
            usleep(200);
        }
    }
    end = seconds();
    assert_int_equal(object_wait(&pvc, &c->dst, FOREVER), 0);
    assert_memory_equal(c->dst.cpu, c->src.cpu, BYTES);
    return end - start;
}

static void scaling(void **state)
{
    double      ideal = (double)BYTES / MBPS / 1e6, best, took;
    struct copy c;
    unsigned    width, i;

    for (width = 1; width <= 8; width *= 2) {
        copy_prepare(&c, width);
        best = 1e9;
        for (i = 0; i < TRIES && ideal / best < 0.9 * width; i++) {
            took = copy_run(&c);
            assert_true(took >= ideal / width); /* never faster than the engines */
            best = took < best ? took : best;
        }
        copy_destroy(&c);
        print_message("%u engines: %.1f ms, ideal %.1f ms\n", width, best * 1e3,
                      ideal / width * 1e3);
        assert_true(ideal / best >= 0.9 * width);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(scaling)};
    int                     ret;

    setenv("ZERANGE_SOFT_ENGINE_MBPS", "100", 1);
    client_profiles("pvc");
    client_open(&pvc, 0);
    ret = cmocka_run_group_tests(tests, NULL, NULL);
    client_close(&pvc);
    return ret != 0;
}
