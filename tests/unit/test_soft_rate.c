/* The engine rate model: a copy over N engines takes 1/N of the time on each of them, all at once,
 * and markers that a batch writes are as late as its bytes. Judged by what the device records, so
 * that a busy machine changes nothing. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft/soft.h"
#include "soft_client.h"

#define BYTES (16u << 20)
#define MBPS  200

/* A device of the test's own, to look into. */
struct zr_kfile {
    struct zr_soft_file *file;
};

static struct zr_soft_dev *device;
static struct zr_kfile     opened;
static struct client       pvc;

static int own_ioctl(struct zr_kfile *file, unsigned long request, void *arg)
{
    return zr_soft_file_ioctl(file->file, request, (uintptr_t)arg);
}

static void *own_mmap(struct zr_kfile *file, void *addr, size_t length, int prot, int flags,
                      uint64_t offset)
{
    return zr_soft_file_mmap(file->file, addr, length, prot, flags, offset);
}

static int own_munmap(struct zr_kfile *file, void *addr, size_t length)
{
    return munmap(addr, length);
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
        emit_flush_timestamp(&b, c->word.va + 64 * i);
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

static void copy_run(struct copy *c)
{
    struct object *list[11] = {&c->src, &c->dst, &c->word};
    unsigned       i;

    for (i = 0; i < c->width; i++) {
        list[3 + i] = &c->batch[i];
    }
    assert_int_equal(client_exec(&pvc, c->ctx, list, 3 + c->width, c->width, EXEC_OBJECT_WRITE),
                     0);
    assert_int_equal(object_wait(&pvc, &c->dst, FOREVER), 0);
    assert_memory_equal(c->dst.cpu, c->src.cpu, BYTES);
}

static void scaling(void **state)
{
    struct zr_soft_engine  before[8];
    const uint64_t        *stamp;
    struct copy            c;
    unsigned               width, i;
    uint64_t               ideal, began, due, marked;

    for (width = 1; width <= 8; width *= 2) {
        copy_prepare(&c, width);
        for (i = 0; i < width; i++) {
            before[i] = *zr_soft_engine_find(device, I915_ENGINE_CLASS_COPY, i);
        }
        copy_run(&c);
        ideal = UINT64_C(1000) * BYTES / width / MBPS;
        began = 0;
        due   = UINT64_MAX;
        stamp = c.word.cpu;
        for (i = 0; i < width; i++) {
            const struct zr_soft_engine *e =
                zr_soft_engine_find(device, I915_ENGINE_CLASS_COPY, i);

            assert_int_equal(e->completed, before[i].completed + 1);
            assert_int_equal(e->due_ns - e->began_ns, ideal);
            assert_true(e->ended_ns >= e->due_ns); /* never faster than the engine */
            assert_int_equal(e->busy_ns - before[i].busy_ns, e->ended_ns - e->began_ns);
            marked = (uint64_t)((unsigned __int128)(stamp[8 * i] + 1) * 1000000000 /
                                device->profile.timestamp_hz);
            assert_true(marked >= e->due_ns);
            began = ZR_MAX(began, e->began_ns);
            due   = ZR_MIN(due, e->due_ns);
        }
        assert_true(began < due); /* all at once */
        copy_destroy(&c);
    }
}

/* Engines with rates of their own; the set's statistics say when each may have ended. */
static void uneven(void **state)
{
    static const unsigned rate[] = {200, 100, 100, 100, 100, 50, 50, 50};
    struct zr_kfile       other_file, saved = opened;
    struct zr_soft_options options = {.mbps = MBPS, .threads = 2};
    struct zr_soft_profile profile;
    struct zr_soft_dev    *other, *before = device;
    struct client          client = pvc;
    const struct zr_soft_set_stats *set;
    struct copy            c;
    unsigned               i;

    assert_int_equal(zr_soft_profile_load(zr_config()->profiles, "pvc-uneven", &profile), 0);
    assert_int_equal(zr_soft_dev_create(&profile, &options, &other), 0);
    assert_int_equal(zr_soft_file_open(other, &other_file.file), 0);
    opened = other_file;
    device = other;
    copy_prepare(&c, 8);
    copy_run(&c);
    set = &other->set;
    assert_int_equal(set->count, 1);
    assert_int_equal(set->width, 8);
    assert_true(set->overlap_ns > 0);
    for (i = 0; i < 8; i++) {
        assert_int_equal(set->bytes[i], BYTES / 8);
        assert_int_equal(set->due_ns[i] - set->began_ns[i],
                         UINT64_C(1000) * (BYTES / 8) / (MBPS * rate[i] / 100));
        assert_true(set->ended_ns[i] >= set->due_ns[i]);
        assert_int_equal(zr_soft_engine_find(other, I915_ENGINE_CLASS_COPY, i)->bytes, BYTES / 8);
    }
    copy_destroy(&c);
    opened = saved;
    device = before;
    pvc    = client;
    zr_soft_file_close(other_file.file);
    zr_soft_dev_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(scaling), cmocka_unit_test(uneven)};
    struct zr_kif           table   = {
        .name = "soft", .ioctl = own_ioctl, .mmap = own_mmap, .munmap = own_munmap};
    struct zr_soft_options options = {.mbps = MBPS, .threads = 2};
    struct zr_soft_profile profile;
    int                    ret;

    client_profiles("pvc");
    assert_int_equal(zr_soft_profile_load(zr_config()->profiles, "pvc", &profile), 0);
    assert_int_equal(zr_soft_dev_create(&profile, &options, &device), 0);
    assert_int_equal(zr_soft_file_open(device, &opened.file), 0);
    pvc = (struct client){&table, &opened, UINT64_C(1) << 33};
    ret = cmocka_run_group_tests(tests, NULL, NULL);
    zr_soft_file_close(opened.file);
    zr_soft_dev_destroy(device);
    return ret != 0;
}
