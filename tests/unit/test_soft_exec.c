/* What the engines of the software i915 do: every command, sets that wait for each other, loops
 * ended by the CPU, hangs and what follows, buffers between processes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft_client.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>

static struct client pvc, dg2, execlists;

static void fill_pattern(struct object *o, unsigned seed)
{
    uint8_t *p = o->cpu;
    uint64_t i;

    for (i = 0; i < o->size; i++) {
        p[i] = (uint8_t)(i * 7 + i / 251 + seed);
    }
}

/* ---- every command, once: source and destination are 256 KiB of device memory ---- */

#define AREA (256u << 10)

struct rig {
    struct client *c;
    uint32_t       ctx;
    struct object  src, dst, batch;
    uint8_t       *want; /* what dst should hold */
};

static void rig_open(struct rig *r, struct client *c)
{
    r->c = c;
    assert_int_equal(context_create(c, 0, 1, true, &r->ctx), 0);
    object_create(c, AREA, I915_MEMORY_CLASS_DEVICE, &r->src);
    object_create(c, AREA, I915_MEMORY_CLASS_SYSTEM, &r->dst);
    object_create(c, 64 << 10, I915_MEMORY_CLASS_SYSTEM, &r->batch);
    fill_pattern(&r->src, 1);
    memset(r->dst.cpu, 0xee, AREA);
    r->want = malloc(AREA);
    memset(r->want, 0xee, AREA);
}

static void rig_close(struct rig *r)
{
    struct drm_i915_gem_context_destroy destroy = {.ctx_id = r->ctx};

    assert_int_equal(client_ioctl(r->c, DRM_IOCTL_I915_GEM_CONTEXT_DESTROY, &destroy), 0);
    object_destroy(r->c, &r->src);
    object_destroy(r->c, &r->dst);
    object_destroy(r->c, &r->batch);
    free(r->want);
}

static int rig_run(struct rig *r)
{
    struct object *const list[] = {&r->src, &r->dst, &r->batch};
    int ret = client_exec(r->c, r->ctx, list, 3, 1, EXEC_OBJECT_WRITE);

    return ret != 0 ? ret : object_wait(r->c, &r->dst, SECONDS(20));
}

static unsigned rig_guilty(struct rig *r)
{
    struct drm_i915_reset_stats stats = {.ctx_id = r->ctx};

    assert_int_equal(client_ioctl(r->c, DRM_IOCTL_I915_GET_RESET_STATS, &stats), 0);
    return stats.batch_active;
}

static void want_rect(struct rig *r, unsigned dst_pitch, unsigned dst_at, unsigned src_pitch,
                      unsigned src_at, unsigned width, unsigned rows)
{
    unsigned y;

    for (y = 0; y < rows; y++) {
        memcpy(r->want + dst_at + y * dst_pitch, (uint8_t *)r->src.cpu + src_at + y * src_pitch,
               width);
    }
}

static void emit_block_copy22(struct batch *b, struct rig *r, unsigned depth, unsigned cpp)
{
    EMIT(b, 0x50400014 | depth << 19, 2048 - 1, 3 | 2 << 16, 13 | 9 << 16, LO(r->dst.va),
         HI(r->dst.va), 0, 5 | 1 << 16, 4096 - 1, LO(r->src.va), HI(r->src.va), 0, 0, 0, 0, 0,
         63 | 127 << 14 | 1u << 29, 0, 0, 31 | 127 << 14 | 1u << 29, 0, 0);
    want_rect(r, 2048, 2 * 2048 + 3 * cpp, 4096, 4096 + 5 * cpp, 10 * cpp, 7);
}

static void emit_fast_color16(struct batch *b, struct rig *r, unsigned depth, unsigned cpp)
{
    static const uint32_t color[4] = {0x04030201, 0x08070605, 0x0c0b0a09, 0x100f0e0d};
    unsigned              x, y;

    EMIT(b, 0x5100000e | depth << 19, 4096 - 1, 1 | 1 << 16, 200 | 5 << 16, LO(r->dst.va),
         HI(r->dst.va), 0, color[0], color[1], color[2], color[3], 0, 0,
         63 | 255 << 14 | 1u << 29, 0, 0);
    for (y = 1; y < 5; y++) {
        for (x = 1; x < 200; x++) {
            memcpy(r->want + y * 4096 + x * cpp, color, cpp);
        }
    }
}

static void emit_xy_all(struct batch *b, struct rig *r, unsigned step)
{
    static const unsigned depth_bytes[] = {1, 2, 4, 8, 12, 16};

    if (step < 6) {
        emit_block_copy22(b, r, step, depth_bytes[step]);
    } else if (step < 12) {
        emit_fast_color16(b, r, step - 6, depth_bytes[step - 6]);
    } else { /* XY_FAST_COPY_BLT, 32 bits, tile4 bits as IGT sets them */
        EMIT(b, 0x50800008, 1024 | 3u << 24 | 3u << 30, 2 | 1 << 16, 100 | 20 << 16,
             LO(r->dst.va), HI(r->dst.va), 4 | 3 << 16, 2048, LO(r->src.va), HI(r->src.va));
        want_rect(r, 1024, 1024 + 2 * 4, 2048, 3 * 2048 + 4 * 4, 98 * 4, 19);
    }
}

static void xy_commands(void **state)
{
    struct client *clients[] = {&pvc, &dg2};
    struct rig     r;
    struct batch   b;
    unsigned       i, step;

    for (i = 0; i < 2; i++) {
        for (step = 0; step < 13; step++) {
            rig_open(&r, clients[i]);
            b = batch_of(&r.batch);
            emit_xy_all(&b, &r, step);
            emit_end(&b);
            assert_int_equal(rig_run(&r), 0);
            if (rig_guilty(&r) != 0 || memcmp(r.dst.cpu, r.want, AREA) != 0) {
                fail_msg("device %u, step %u: wrong bytes or a hang", i, step);
            }
            rig_close(&r);
        }
    }
}

static void mem_commands(void **state)
{
    struct rig   r;
    struct batch b;

    rig_open(&r, &pvc);
    b = batch_of(&r.batch);
    emit_mem_copy(&b, r.dst.va + 5, r.src.va + 4097, 70001);
    memcpy(r.want + 5, (uint8_t *)r.src.cpu + 4097, 70001);
    EMIT(&b, 0x56800008 | 1 << 17, 99, 9, 199, 299, LO(r.src.va), HI(r.src.va),
         LO(r.dst.va + 100000), HI(r.dst.va + 100000), 0);
    want_rect(&r, 300, 100000, 200, 0, 100, 10);
    EMIT(&b, 0x56c00005, 4999, 0, 0, LO(r.dst.va + 200001), HI(r.dst.va + 200001), 0x5au << 24);
    memset(r.want + 200001, 0x5a, 5000);
    emit_end(&b);
    assert_int_equal(rig_run(&r), 0);
    assert_int_equal(rig_guilty(&r), 0);
    assert_memory_equal(r.dst.cpu, r.want, AREA);
    rig_close(&r);
}

static void mi_commands(void **state)
{
    struct rig   r;
    struct batch b;
    uint32_t    *dst;
    uint64_t     value;

    rig_open(&r, &pvc);
    dst    = r.dst.cpu;
    dst[8] = 41;
    dst[9] = 41;
    dst[10] = 41;
    b = batch_of(&r.batch);
    emit_store(&b, r.dst.va, 0x11223344);
    EMIT(&b, 0x10200003, LO(r.dst.va + 8), HI(r.dst.va + 8), 0x55667788, 0x99aabbcc);
    emit_flush_qword(&b, r.dst.va + 16, UINT64_C(0x123456789abcdef0));
    EMIT(&b, 0x13000003 | 3 << 14, LO(r.dst.va + 24), HI(r.dst.va + 24), 0, 0);
    EMIT(&b, 0x17800001 | 5 << 8, LO(r.dst.va + 32), HI(r.dst.va + 32));
    EMIT(&b, 0x17800001 | 6 << 8, LO(r.dst.va + 36), HI(r.dst.va + 36));
    EMIT(&b, 0x17800009 | 7 << 8 | 1 << 18, LO(r.dst.va + 40), HI(r.dst.va + 40), 100, 0, 0, 0, 0,
         0, 0, 0);
    EMIT(&b, 0x02800000, 0x04800000, 0);
    emit_end(&b);
    assert_int_equal(rig_run(&r), 0);
    assert_int_equal(rig_guilty(&r), 0);
    assert_int_equal(dst[0], 0x11223344);
    assert_int_equal(dst[2], 0x55667788);
    assert_int_equal(dst[3], 0x99aabbcc);
    memcpy(&value, dst + 4, 8);
    assert_true(value == UINT64_C(0x123456789abcdef0));
    memcpy(&value, dst + 6, 8);
    assert_true(value != UINT64_C(0xeeeeeeeeeeeeeeee) && value != 0);
    assert_int_equal(dst[8], 42);
    assert_int_equal(dst[9], 40);
    assert_int_equal(dst[10], 141);
    rig_close(&r);
}

/* ---- sets ---- */

/* Two batches of one set: each waits for the other's word. They end only if both run. */
static void set_rendezvous(void **state)
{
    struct object words, batch[2];
    struct object *list[] = {&words, &batch[0], &batch[1]};
    struct batch  b;
    uint32_t      ctx, round;
    unsigned      i;

    assert_int_equal(context_create(&pvc, 0, 2, true, &ctx), 0);
    object_create(&pvc, 64 << 10, I915_MEMORY_CLASS_SYSTEM, &words);
    for (i = 0; i < 2; i++) {
        object_create(&pvc, 64 << 10, I915_MEMORY_CLASS_SYSTEM, &batch[i]);
    }
    for (round = 1; round <= 50; round++) {
        for (i = 0; i < 2; i++) {
            b = batch_of(&batch[i]);
            emit_store(&b, words.va + i * 64, round);
            emit_wait_equal(&b, words.va + !i * 64, round);
            emit_store(&b, words.va + 128 + i * 64, round);
            emit_wait_equal(&b, words.va + 128 + !i * 64, round);
            emit_end(&b);
        }
        assert_int_equal(client_exec(&pvc, ctx, list, 3, 2, EXEC_OBJECT_WRITE), 0);
        assert_int_equal(object_wait(&pvc, &words, SECONDS(20)), 0);
        assert_int_equal(((uint32_t *)words.cpu)[32], round);
        assert_int_equal(((uint32_t *)words.cpu)[48], round);
    }
    for (i = 0; i < 3; i++) {
        object_destroy(&pvc, list[i]);
    }
}

/* Set k+1 may not start on the free engine while the other still runs set k (GuC's barrier). */
static void set_barrier(void **state)
{
    struct object words, batch[4];
    struct object *first[] = {&words, &batch[0], &batch[1]}, *second[] = {&words, &batch[2],
                                                                         &batch[3]};
    volatile uint32_t *word;
    struct batch  b;
    uint32_t      ctx;
    unsigned      i;

    assert_int_equal(context_create(&pvc, 2, 2, true, &ctx), 0);
    object_create(&pvc, 64 << 10, I915_MEMORY_CLASS_SYSTEM, &words);
    word = words.cpu;
    for (i = 0; i < 4; i++) {
        object_create(&pvc, 64 << 10, I915_MEMORY_CLASS_SYSTEM, &batch[i]);
        b = batch_of(&batch[i]);
        if (i == 1) {
            emit_wait_equal(&b, words.va, 1);
        }
        emit_store(&b, words.va + 64 + 4 * i, 1);
        emit_end(&b);
    }
    assert_int_equal(client_exec(&pvc, ctx, first, 3, 2, EXEC_OBJECT_ASYNC), 0);
    assert_int_equal(client_exec(&pvc, ctx, second, 3, 2, EXEC_OBJECT_ASYNC), 0);
    assert_int_equal(object_wait(&pvc, &batch[0], 20 * 1000 * 1000), -ETIME);
    assert_int_equal(word[16], 1); /* batch 0 has run, its set is not over */
    assert_int_equal(word[18], 0);
    assert_int_equal(word[19], 0);
    __atomic_store_n((uint32_t *)words.cpu, 1, __ATOMIC_SEQ_CST);
    assert_int_equal(object_wait(&pvc, &batch[2], SECONDS(20)), 0);
    assert_int_equal(word[17], 1);
    assert_int_equal(word[18], 1);
    assert_int_equal(word[19], 1);
    for (i = 0; i < 4; i++) {
        object_destroy(&pvc, &batch[i]);
    }
    object_destroy(&pvc, &words);
}

/* Execlists has no barrier: an engine that is done starts its batch of the next set. */
static void set_no_barrier(void **state)
{
    struct object      words, batch[4];
    struct object     *first[]  = {&words, &batch[0], &batch[1]};
    struct object     *second[] = {&words, &batch[2], &batch[3]};
    volatile uint32_t *word;
    struct batch       b;
    uint32_t           ctx;
    unsigned           i;

    assert_int_equal(context_create(&execlists, 0, 2, true, &ctx), 0);
    object_create(&execlists, 64 << 10, I915_MEMORY_CLASS_SYSTEM, &words);
    word = words.cpu;
    for (i = 0; i < 4; i++) {
        object_create(&execlists, 64 << 10, I915_MEMORY_CLASS_SYSTEM, &batch[i]);
        b = batch_of(&batch[i]);
        if (i == 1) { /* ends when row 0 of the next set has run */
            emit_wait_equal(&b, words.va + 64 + 4 * 2, 1);
        }
        emit_store(&b, words.va + 64 + 4 * i, 1);
        emit_end(&b);
    }
    assert_int_equal(client_exec(&execlists, ctx, first, 3, 2, EXEC_OBJECT_ASYNC), 0);
    assert_int_equal(client_exec(&execlists, ctx, second, 3, 2, EXEC_OBJECT_ASYNC), 0);
    assert_int_equal(object_wait(&execlists, &batch[3], SECONDS(20)), 0);
    for (i = 0; i < 4; i++) {
        assert_int_equal(word[16 + i], 1);
        object_destroy(&execlists, &batch[i]);
    }
    object_destroy(&execlists, &words);
}

static void spinner(void **state)
{
    struct rig      r;
    struct batch    b;
    struct object  *list[] = {&r.src, &r.dst, &r.batch};
    clock_t         cpu;

    rig_open(&r, &pvc);
    b = batch_of(&r.batch);
    EMIT(&b, 0x02800000, 0x18800101, LO(r.batch.va), HI(r.batch.va));
    cpu = clock();
    assert_int_equal(client_exec(&pvc, r.ctx, list, 3, 1, EXEC_OBJECT_WRITE), 0);
    assert_int_equal(object_wait(&pvc, &r.batch, SECONDS(1)), -ETIME);
    cpu = clock() - cpu;
    assert_true(cpu < CLOCKS_PER_SEC / 2); /* a loop that waits does not burn a CPU */
    __atomic_store_n((uint32_t *)r.batch.cpu, 0x05000000, __ATOMIC_SEQ_CST);
    assert_int_equal(object_wait(&pvc, &r.batch, SECONDS(20)), 0);
    assert_int_equal(rig_guilty(&r), 0);
    rig_close(&r);
}

/* A single batch that waits for a word gives its engine to the batch that writes the word. */
static void semaphore_yields(void **state)
{
    struct object  words, batch[2];
    struct object *waits[] = {&words, &batch[0]}, *writes[] = {&words, &batch[1]};
    struct batch   b;
    uint32_t       ctx[2];
    unsigned       i;

    object_create(&pvc, 64 << 10, I915_MEMORY_CLASS_SYSTEM, &words);
    for (i = 0; i < 2; i++) {
        assert_int_equal(context_create(&pvc, 4, 1, true, &ctx[i]), 0);
        object_create(&pvc, 64 << 10, I915_MEMORY_CLASS_SYSTEM, &batch[i]);
        b = batch_of(&batch[i]);
        if (i == 0) {
            emit_wait_equal(&b, words.va, 7);
        } else {
            emit_store(&b, words.va, 7);
        }
        emit_end(&b);
    }
    assert_int_equal(client_exec(&pvc, ctx[0], waits, 2, 1, EXEC_OBJECT_ASYNC), 0);
    assert_int_equal(client_exec(&pvc, ctx[1], writes, 2, 1, EXEC_OBJECT_ASYNC), 0);
    for (i = 0; i < 2; i++) {
        assert_int_equal(object_wait(&pvc, &batch[i], SECONDS(20)), 0);
        object_destroy(&pvc, &batch[i]);
    }
    object_destroy(&pvc, &words);
}

/* ---- hangs ---- */

static void emit_bad(struct batch *b, struct rig *r, unsigned index)
{
    switch (index) {
    case 0: /* not a command */
        EMIT(b, 0x07800000, 0);
        break;
    case 1: /* width field above 18 bits */
        EMIT(b, 0x56800008, 1 << 18, 0, 0, 0, LO(r->src.va), HI(r->src.va), LO(r->dst.va),
             HI(r->dst.va), 0);
        break;
    case 2: /* page mode */
        EMIT(b, 0x56800008 | 1 << 19, 63, 0, 0, 0, LO(r->src.va), HI(r->src.va), LO(r->dst.va),
             HI(r->dst.va), 0);
        break;
    case 3: /* nothing bound there */
        emit_mem_copy(b, r->dst.va + (UINT64_C(1) << 40), r->src.va, 64);
        break;
    case 4: /* runs over the end of the object */
        emit_mem_copy(b, r->dst.va + AREA - 32, r->src.va, 64);
        break;
    case 5: /* wrong length */
        EMIT(b, 0x56800009, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        break;
    case 6: /* global GTT */
        EMIT(b, 0x10000002 | 1 << 22, LO(r->dst.va), HI(r->dst.va), 1);
        break;
    case 7: /* block copy: row longer than the pitch */
        EMIT(b, 0x50400014, 63, 0, 65 | 1 << 16, LO(r->dst.va), HI(r->dst.va), 0, 0, 127,
             LO(r->src.va), HI(r->src.va), 0, 0, 0, 0, 0, 127 << 14, 0, 0, 127 << 14, 0, 0);
        break;
    case 8: /* block copy: surface size not filled in */
        EMIT(b, 0x50400014, 127, 0, 64 | 1 << 16, LO(r->dst.va), HI(r->dst.va), 0, 0, 127,
             LO(r->src.va), HI(r->src.va), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        break;
    case 9: /* the form of the generation before */
        EMIT(b, 0x5040000a, 127, 0, 64 | 1 << 16, LO(r->dst.va), HI(r->dst.va), 0, 0, 127,
             LO(r->src.va), HI(r->src.va), 0);
        break;
    case 10: /* address neither canonical nor plain */
        emit_mem_copy(b, r->dst.va | UINT64_C(5) << 58, r->src.va, 64);
        break;
    case 11: /* qword store not aligned */
        EMIT(b, 0x10200003, LO(r->dst.va + 4), HI(r->dst.va), 1, 2);
        break;
    case 12: /* jump out of the batch */
        EMIT(b, 0x18800101, LO(r->dst.va), HI(r->dst.va + (UINT64_C(1) << 40)));
        break;
    case 13: /* register wait form */
        EMIT(b, 0x0e000002 | 1 << 15 | 1 << 16 | 4 << 12, 0, LO(r->dst.va), HI(r->dst.va));
        break;
    }
    if (index != 5) {
        emit_end(b);
    }
}

/* A hanging client is banned in the end, so each case has its own. */
static void hangs_are_guilty(void **state)
{
    struct client c;
    struct rig    r;
    struct batch  b;
    unsigned      i;

    for (i = 0; i < 14; i++) {
        client_open(&c, 0);
        rig_open(&r, &c);
        b = batch_of(&r.batch);
        emit_bad(&b, &r, i);
        assert_int_equal(rig_run(&r), 0); /* GEM_WAIT does not tell */
        if (rig_guilty(&r) != 1) {
            fail_msg("case %u did not hang", i);
        }
        rig_close(&r);
        client_close(&c);
    }
}

static void mem_copy_hangs_dg2(void **state)
{
    struct rig   r;
    struct batch b;

    rig_open(&r, &dg2);
    b = batch_of(&r.batch);
    emit_mem_copy(&b, r.dst.va, r.src.va, 64);
    emit_end(&b);
    assert_int_equal(rig_run(&r), 0);
    assert_int_equal(rig_guilty(&r), 1);
    assert_memory_equal(r.dst.cpu, r.want, AREA);
    rig_close(&r);
}

static void unterminated_batch(void **state)
{
    struct rig r;

    rig_open(&r, &pvc); /* the batch object is all MI_NOOP */
    assert_int_equal(rig_run(&r), 0);
    assert_int_equal(rig_guilty(&r), 1);
    rig_close(&r);
}

/* A context that cannot recover is banned at once, another at its third hang in a short time. */
static void bans(void **state)
{
    static const struct {
        bool     recoverable;
        unsigned hangs;
    } cases[] = {{false, 1}, {true, 3}};
    struct client c;
    struct rig    r;
    struct batch  b;
    unsigned      i, j;

    for (i = 0; i < 2; i++) {
        client_open(&c, 0);
        rig_open(&r, &c);
        assert_int_equal(context_create(&c, 0, 1, cases[i].recoverable, &r.ctx), 0);
        b = batch_of(&r.batch);
        emit_bad(&b, &r, 0);
        for (j = 0; j < cases[i].hangs; j++) {
            assert_int_equal(rig_run(&r), 0);
        }
        assert_int_equal(rig_guilty(&r), cases[i].hangs);
        assert_int_equal(rig_run(&r), -EIO);
        rig_close(&r);
        client_close(&c);
    }
}

static void client_ban(void **state)
{
    struct client c;
    struct rig    r;
    struct batch  b;
    uint32_t      ctx;
    unsigned      i;

    client_open(&c, 0);
    rig_open(&r, &c);
    b = batch_of(&r.batch);
    emit_bad(&b, &r, 0);
    for (i = 0; i < 3; i++) { /* 3, 7, 11: nine are enough */
        assert_int_equal(context_create(&c, 0, 1, false, &r.ctx), 0);
        assert_int_equal(rig_run(&r), 0);
    }
    assert_int_equal(context_create(&c, 0, 1, false, &ctx), -EIO);
    rig_close(&r);
    client_close(&c);
}

/* The fence of a set is in error when one batch of it hangs; the others are stopped. */
static void set_hang(void **state)
{
    struct rig     r;
    struct object  second;
    struct object *list[] = {&r.dst, &r.batch, &second};
    struct batch   b;

    rig_open(&r, &pvc);
    assert_int_equal(context_create(&pvc, 0, 2, false, &r.ctx), 0);
    object_create(&pvc, 64 << 10, I915_MEMORY_CLASS_SYSTEM, &second);
    b = batch_of(&r.batch);
    emit_wait_equal(&b, r.dst.va, 12345); /* for ever */
    emit_end(&b);
    b = batch_of(&second);
    emit_bad(&b, &r, 0);
    assert_int_equal(client_exec(&pvc, r.ctx, list, 3, 2, EXEC_OBJECT_WRITE), 0);
    assert_int_equal(object_wait(&pvc, &r.dst, SECONDS(20)), 0);
    assert_int_equal(client_exec(&pvc, r.ctx, list, 3, 2, EXEC_OBJECT_WRITE), -EIO);
    object_destroy(&pvc, &second);
    rig_close(&r);
}

/* A set that waits is in the way of other contexts and cannot be preempted: it is reset. */
static void set_in_the_way(void **state)
{
    struct client               c;
    struct rig                  r;
    struct object               second, other;
    struct object              *set[] = {&r.dst, &r.batch, &second}, *single[] = {&other};
    struct drm_i915_reset_stats stats = {0};
    struct batch                b;
    uint32_t                    ctx;

    client_open(&c, 0);
    rig_open(&r, &c);
    assert_int_equal(context_create(&c, 6, 2, true, &r.ctx), 0);
    assert_int_equal(context_create(&c, 7, 1, true, &ctx), 0);
    object_create(&c, 64 << 10, I915_MEMORY_CLASS_SYSTEM, &second);
    object_create(&c, 64 << 10, I915_MEMORY_CLASS_SYSTEM, &other);
    b = batch_of(&r.batch);
    emit_wait_equal(&b, r.dst.va, 12345); /* for ever */
    emit_end(&b);
    b = batch_of(&second);
    emit_end(&b);
    b = batch_of(&other);
    emit_end(&b);
    assert_int_equal(client_exec(&c, r.ctx, set, 3, 2, EXEC_OBJECT_WRITE), 0);
    assert_int_equal(object_wait(&c, &r.dst, SECONDS(1)), -ETIME); /* nobody minds */
    assert_int_equal(client_exec(&c, ctx, single, 1, 1, 0), 0);
    assert_int_equal(object_wait(&c, &other, SECONDS(20)), 0);
    assert_int_equal(rig_guilty(&r), 1);
    stats.ctx_id = ctx;
    assert_int_equal(client_ioctl(&c, DRM_IOCTL_I915_GET_RESET_STATS, &stats), 0);
    assert_int_equal(stats.batch_active, 0);
    object_destroy(&c, &second);
    object_destroy(&c, &other);
    rig_close(&r);
    client_close(&c);
}

/* ---- fences ---- */

static void syncobj_fences(void **state)
{
    struct rig                       r;
    struct batch                     b;
    struct drm_syncobj_create        create = {0};
    struct drm_i915_gem_exec_fence   fence  = {.flags = I915_EXEC_FENCE_SIGNAL};
    struct drm_syncobj_wait          wait   = {.handles       = (uintptr_t)&fence.handle,
                                               .count_handles = 1};
    struct drm_i915_gem_exec_object2 list[2] = {0};
    struct drm_i915_gem_execbuffer2  exec    = {
        .buffers_ptr   = (uintptr_t)list,
        .buffer_count  = 2,
        .cliprects_ptr = (uintptr_t)&fence,
        .num_cliprects = 1,
        .flags         = I915_EXEC_FENCE_ARRAY | I915_EXEC_FENCE_OUT,
    };
    int out;

    rig_open(&r, &pvc);
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_SYNCOBJ_CREATE, &create), 0);
    fence.handle = create.handle;
    b            = batch_of(&r.batch);
    emit_wait_equal(&b, r.dst.va, 3);
    emit_end(&b);
    list[0] = (struct drm_i915_gem_exec_object2){
        .handle = r.dst.handle, .offset = r.dst.va, .flags = NEW_OBJECT_FLAGS};
    list[1] = (struct drm_i915_gem_exec_object2){
        .handle = r.batch.handle, .offset = r.batch.va, .flags = NEW_OBJECT_FLAGS};
    exec.rsvd1 = r.ctx;
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_EXECBUFFER2_WR, &exec), 0);
    out = (int)(exec.rsvd2 >> 32);
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_SYNCOBJ_WAIT, &wait), -ETIME);
    assert_int_equal(pvc.kif->poll(out, 1), 0);
    __atomic_store_n((uint32_t *)r.dst.cpu, 3, __ATOMIC_SEQ_CST);
    wait.timeout_nsec = INT64_MAX;
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_SYNCOBJ_WAIT, &wait), 0);
    assert_int_equal(pvc.kif->poll(out, 1000), 1);
    close(out);
    rig_close(&r);
}

/* ---- many bytes on threads ---- */

#define LARGE (24u << 20)

static void large_copy_on_all_engines(void **state)
{
    struct object  src, dst, batch[9];
    struct object *list[11] = {&src, &dst};
    uint64_t       before[16] = {0}, after[16] = {0}, done, step = LARGE / 9 / 64 * 64;
    struct batch   b;
    uint32_t       ctx;
    unsigned       i;

    assert_int_equal(context_create(&pvc, 0, 9, true, &ctx), 0);
    object_create(&pvc, LARGE, I915_MEMORY_CLASS_DEVICE, &src);
    object_create(&pvc, LARGE, I915_MEMORY_CLASS_DEVICE, &dst);
    fill_pattern(&src, 3);
    for (i = 0; i < 9; i++) {
        uint64_t end = i == 8 ? LARGE : (i + 1) * step;

        object_create(&pvc, 64 << 10, I915_MEMORY_CLASS_SYSTEM, &batch[i]);
        list[2 + i] = &batch[i];
        b           = batch_of(&batch[i]);
        for (done = i * step; done < end; done += 256 << 10) {
            emit_mem_copy(&b, dst.va + done, src.va + done,
                          end - done < 256 << 10 ? end - done : 256 << 10);
        }
        emit_end(&b);
    }
    assert_int_equal(pvc.kif->completed_batches(pvc.file, I915_ENGINE_CLASS_COPY, before, 16), 9);
    assert_int_equal(client_exec(&pvc, ctx, list, 11, 9, EXEC_OBJECT_WRITE), 0);
    assert_int_equal(object_wait(&pvc, &dst, SECONDS(60)), 0);
    assert_int_equal(pvc.kif->completed_batches(pvc.file, I915_ENGINE_CLASS_COPY, after, 16), 9);
    assert_memory_equal(src.cpu, dst.cpu, LARGE);
    for (i = 0; i < 9; i++) {
        assert_int_equal(after[i] - before[i], 1);
        object_destroy(&pvc, &batch[i]);
    }
    object_destroy(&pvc, &src);
    object_destroy(&pvc, &dst);
}

/* Several threads submit small and large work on contexts of their own. */
static void *submitter(void *arg)
{
    struct rig  *r = arg;
    struct batch b;
    unsigned     i;
    uint32_t     length;

    for (i = 0; i < 60; i++) {
        length = (i % 3 == 0) ? AREA : 4000 + i;
        b      = batch_of(&r->batch);
        memset(r->dst.cpu, i, AREA);
        emit_mem_copy(&b, r->dst.va, r->src.va, length);
        emit_end(&b);
        if (rig_run(r) != 0 || memcmp(r->dst.cpu, r->src.cpu, length) != 0) {
            return r;
        }
    }
    return NULL;
}

static void concurrent_submitters(void **state)
{
    struct rig rigs[4];
    pthread_t  thread[4];
    void      *bad[4];
    unsigned   i;

    for (i = 0; i < 4; i++) {
        rig_open(&rigs[i], &pvc);
    }
    for (i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, submitter, &rigs[i]), 0);
    }
    for (i = 0; i < 4; i++) {
        pthread_join(thread[i], &bad[i]);
    }
    for (i = 0; i < 4; i++) {
        assert_null(bad[i]);
        rig_close(&rigs[i]);
    }
}

/* ---- userptr ---- */

static void userptr_copy(void **state)
{
    struct rig                  r;
    struct batch                b;
    struct object               user = {.size = 16384};
    struct object              *list[] = {&r.src, &user, &r.batch};
    struct drm_i915_gem_userptr args = {.user_size = user.size};

    rig_open(&r, &pvc);
    user.cpu      = mmap(NULL, user.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                         0);
    args.user_ptr = (uintptr_t)user.cpu;
    assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_USERPTR, &args), 0);
    user.handle = args.handle;
    user.va     = client_va(&pvc, user.size);
    b           = batch_of(&r.batch);
    emit_mem_copy(&b, user.va + 3, r.src.va, 9000);
    emit_end(&b);
    assert_int_equal(client_exec(&pvc, r.ctx, list, 3, 1, EXEC_OBJECT_WRITE), 0);
    assert_int_equal(object_wait(&pvc, &user, SECONDS(20)), 0);
    assert_memory_equal((char *)user.cpu + 3, r.src.cpu, 9000);
    munmap(user.cpu, user.size);
    assert_int_equal(client_exec(&pvc, r.ctx, list, 3, 1, EXEC_OBJECT_WRITE), -EFAULT);
    rig_close(&r);
}

/* What get_user_pages finds at each use of a userptr object: -EFAULT, and not a signal. */
static void userptr_pages(void **state)
{
    static const struct {
        const char *what;
        size_t      size, start, length; /* of the object; the pages that change after a use */
        int         prot;                /* -1: unmapped */
        bool        before;              /* they change before the first use */
    } cases[] = {
        {"hole in the middle, new", 1 << 20, 512 << 10, 4096, -1, true},
        {"closed page in the middle, new", 1 << 20, 512 << 10, 4096, PROT_NONE, true},
        {"read-only page in the middle, new", 1 << 20, 512 << 10, 4096, PROT_READ, true},
        {"hole in the middle, used", 1 << 20, 512 << 10, 4096, -1, false},
        {"closed page, short and used", 64 << 10, 4096, 4096, PROT_NONE, false},
        {"closed page at the end, used", 1 << 20, (1 << 20) - 4096, 4096, PROT_NONE, false},
        {"closed 2 MiB, used", 8 << 20, 4100 << 10, 2 << 20, PROT_NONE, false},
        {"read-only 2 MiB, used", 8 << 20, 4 << 20, 2 << 20, PROT_READ, false},
    };
    struct rig r;
    unsigned   i, uses;

    rig_open(&r, &pvc);
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct object               user   = {.size = cases[i].size};
        struct object              *list[] = {&r.src, &user, &r.batch};
        struct drm_i915_gem_userptr args   = {.user_size = user.size};
        struct drm_gem_close        close  = {0};
        struct batch                b      = batch_of(&r.batch);
        char                       *changed;

        user.cpu = mmap(NULL, user.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                        0);
        args.user_ptr = (uintptr_t)user.cpu;
        assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_I915_GEM_USERPTR, &args), 0);
        user.handle = close.handle = args.handle;
        user.va     = client_va(&pvc, user.size);
        emit_mem_copy(&b, user.va, r.src.va, 4096);
        emit_end(&b);
        for (uses = 0; uses < 2 && !cases[i].before; uses++) {
            assert_int_equal(client_exec(&pvc, r.ctx, list, 3, 1, EXEC_OBJECT_WRITE), 0);
            assert_int_equal(object_wait(&pvc, &user, SECONDS(20)), 0);
        }
        changed = (char *)user.cpu + cases[i].start;
        if (cases[i].prot < 0) {
            munmap(changed, cases[i].length);
        } else {
            mprotect(changed, cases[i].length, cases[i].prot);
        }
        print_message("%s\n", cases[i].what);
        assert_int_equal(client_exec(&pvc, r.ctx, list, 3, 1, EXEC_OBJECT_WRITE), -EFAULT);
        assert_int_equal(client_ioctl(&pvc, DRM_IOCTL_GEM_CLOSE, &close), 0);
        munmap(user.cpu, user.size);
    }
    rig_close(&r);
}

/* ---- PRIME ---- */

static int prime_import(struct client *c, int fd, uint32_t *handle_p)
{
    struct drm_prime_handle args = {.fd = fd};
    int                     ret  = client_ioctl(c, DRM_IOCTL_PRIME_FD_TO_HANDLE, &args);

    *handle_p = args.handle;
    return ret;
}

static int prime_export(struct client *c, uint32_t handle)
{
    struct drm_prime_handle args = {.handle = handle, .flags = DRM_CLOEXEC | DRM_RDWR};

    assert_int_equal(client_ioctl(c, DRM_IOCTL_PRIME_HANDLE_TO_FD, &args), 0);
    return args.fd;
}

static void prime_self_import(void **state)
{
    struct client other;
    struct object o;
    uint32_t      handle;
    int           fd, again, foreign, sealed;

    client_open(&other, 0);
    object_create(&pvc, 64 << 10, I915_MEMORY_CLASS_DEVICE, &o);
    fd    = prime_export(&pvc, o.handle);
    again = prime_export(&pvc, o.handle);
    assert_int_equal(prime_import(&pvc, fd, &handle), 0);
    assert_int_equal(handle, o.handle);
    assert_int_equal(prime_import(&pvc, again, &handle), 0);
    assert_int_equal(handle, o.handle);
    assert_int_equal(prime_import(&other, fd, &handle), 0);
    strcpy(o.cpu, "one object");
    assert_string_equal(client_map(&other, handle, 64 << 10), "one object");
    foreign = memfd_create("not sealed", MFD_CLOEXEC);
    assert_int_equal(ftruncate(foreign, 4096), 0);
    assert_int_equal(prime_import(&pvc, foreign, &handle), -EINVAL);
    sealed = memfd_create("sealed otherwise", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(sealed, 4096), 0);
    assert_int_equal(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW |
                                                    F_SEAL_SEAL), 0);
    assert_int_equal(prime_import(&pvc, sealed, &handle), -EINVAL);
    close(sealed);
    assert_int_equal(prime_import(&pvc, 99999, &handle), -EBADF);
    assert_int_equal(ftruncate(fd, 4096), -1); /* nobody cuts an object */
    close(foreign);
    close(fd);
    close(again);
    client_close(&other);
    object_destroy(&pvc, &o);
}

static void send_fd(int sock, int fd)
{
    char           byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec   io  = {&byte, 1};
    struct msghdr  msg = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control,
                          .msg_controllen = sizeof(control)};
    struct cmsghdr *c  = CMSG_FIRSTHDR(&msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type  = SCM_RIGHTS;
    c->cmsg_len   = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(int));
    assert_int_equal(sendmsg(sock, &msg, 0), 1);
}

static int recv_fd(int sock)
{
    char          byte, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec  io  = {&byte, 1};
    struct msghdr msg = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control,
                         .msg_controllen = sizeof(control)};
    int           fd = -1;

    if (recvmsg(sock, &msg, 0) == 1 && CMSG_FIRSTHDR(&msg) != NULL) {
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
    }
    return fd;
}

/* The other process: imports what it is sent and copies the source over it with an engine. */
static int peer_main(int sock)
{
    struct rig     r;
    struct batch   b;
    struct object  shared = {.size = AREA};
    struct object *list[] = {&r.src, &shared, &r.batch};
    char           byte   = 1;

    client_profiles("pvc,dg2,execlists2");
    client_open(&pvc, 0);
    rig_open(&r, &pvc);
    assert_int_equal(prime_import(&pvc, recv_fd(sock), &shared.handle), 0);
    shared.va = client_va(&pvc, AREA);
    b         = batch_of(&r.batch);
    emit_mem_copy(&b, shared.va, r.src.va, AREA);
    emit_end(&b);
    assert_int_equal(client_exec(&pvc, r.ctx, list, 3, 1, EXEC_OBJECT_WRITE), 0);
    assert_int_equal(object_wait(&pvc, &shared, SECONDS(20)), 0);
    assert_int_equal(write(sock, &byte, 1), 1);
    rig_close(&r);
    client_close(&pvc);
    return 0;
}

static void prime_between_processes(void **state)
{
    struct object o, same;
    char          fd_text[16], byte;
    int           pair[2], status, fd;
    pid_t         pid;

    object_create(&pvc, AREA, I915_MEMORY_CLASS_DEVICE, &o);
    object_create(&pvc, AREA, I915_MEMORY_CLASS_DEVICE, &same);
    fill_pattern(&same, 1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    snprintf(fd_text, sizeof(fd_text), "%d", pair[1]);
    pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "test_soft_exec", "--peer", fd_text, (char *)NULL);
        _exit(127);
    }
    close(pair[1]);
    fd = prime_export(&pvc, o.handle);
    send_fd(pair[0], fd);
    assert_int_equal(read(pair[0], &byte, 1), 1);
    assert_memory_equal(o.cpu, same.cpu, AREA);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(fd);
    close(pair[0]);
    object_destroy(&pvc, &o);
    object_destroy(&pvc, &same);
}

/* In a forked child the device is gone, and nothing hangs. */
static void fork_is_enodev(void **state)
{
    struct drm_i915_gem_vm_control vm = {0};
    int                            status;
    pid_t                          pid = fork();

    if (pid == 0) {
        status = client_ioctl(&pvc, DRM_IOCTL_I915_GEM_VM_CREATE, &vm);
        client_close(&pvc);
        _exit(status == -ENODEV ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* A file that closes while its batch waits for ever does not hang the process. */
/* The last submission's fence is closed first: nobody is told then, also not by a signal. */
static void close_while_running(void **state)
{
    struct drm_i915_gem_exec_object2 pinned[2] = {0};
    struct drm_i915_gem_execbuffer2  exec      = {.buffers_ptr  = (uintptr_t)pinned,
                                                  .buffer_count = 2,
                                                  .flags        = I915_EXEC_FENCE_OUT};
    struct client                    c;
    struct object                    o, batch;
    struct object                   *list[] = {&o, &batch};
    struct batch                     b;
    uint32_t                         ctx;
    unsigned                         i;

    client_open(&c, 1); /* dg2: its only file once the group's own is closed */
    client_close(&dg2);
    assert_int_equal(context_create(&c, 0, 1, true, &ctx), 0);
    object_create(&c, 64 << 10, I915_MEMORY_CLASS_SYSTEM, &o);
    object_create(&c, 64 << 10, I915_MEMORY_CLASS_SYSTEM, &batch);
    b = batch_of(&batch);
    emit_wait_equal(&b, o.va, 1);
    emit_end(&b);
    assert_int_equal(client_exec(&c, ctx, list, 2, 1, EXEC_OBJECT_WRITE), 0);
    for (i = 0; i < 2; i++) {
        pinned[i].handle = list[i]->handle;
        pinned[i].offset = list[i]->va;
        pinned[i].flags  = NEW_OBJECT_FLAGS;
    }
    exec.rsvd1 = ctx;
    assert_int_equal(client_ioctl(&c, DRM_IOCTL_I915_GEM_EXECBUFFER2_WR, &exec), 0);
    assert_int_equal(close((int)(exec.rsvd2 >> 32)), 0);
    client_close(&c);
    client_open(&dg2, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mem_commands),
        cmocka_unit_test(xy_commands),
        cmocka_unit_test(mi_commands),
        cmocka_unit_test(set_rendezvous),
        cmocka_unit_test(set_barrier),
        cmocka_unit_test(set_no_barrier),
        cmocka_unit_test(semaphore_yields),
        cmocka_unit_test(syncobj_fences),
        cmocka_unit_test(large_copy_on_all_engines),
        cmocka_unit_test(concurrent_submitters),
        cmocka_unit_test(userptr_copy),
        cmocka_unit_test(userptr_pages),
        cmocka_unit_test(prime_self_import),
        cmocka_unit_test(prime_between_processes),
        cmocka_unit_test(fork_is_enodev),
        cmocka_unit_test(close_while_running),
        cmocka_unit_test(hangs_are_guilty),
        cmocka_unit_test(mem_copy_hangs_dg2),
        cmocka_unit_test(unterminated_batch),
        cmocka_unit_test(set_hang),
        cmocka_unit_test(set_in_the_way),
        cmocka_unit_test(bans),
        cmocka_unit_test(client_ban),
        cmocka_unit_test(spinner),
    };
    int ret;

    if (argc == 3 && strcmp(argv[1], "--peer") == 0) {
        return peer_main(atoi(argv[2]));
    }
    client_profiles("pvc,dg2,execlists2");
    client_open(&pvc, 0);
    client_open(&dg2, 1);
    client_open(&execlists, 2);
    ret = cmocka_run_group_tests(tests, NULL, NULL);
    client_close(&execlists);
    client_close(&dg2);
    client_close(&pvc);
    return ret != 0;
}
