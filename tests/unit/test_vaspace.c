/* Reservations, mappings, access attributes, adopted ranges, subscribers, and that all of it
 * gives back what it took. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "device.h"
#include "mem/mem.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define PAGE ZR_PAGE_SMALL
#define NONE ZE_MEMORY_ACCESS_ATTRIBUTE_NONE
#define RO   ZE_MEMORY_ACCESS_ATTRIBUTE_READONLY
#define RW   ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE
#define OK(call) assert_int_equal((call), ZE_RESULT_SUCCESS)

static struct zr_phys *object(enum zr_backing backing, uint64_t size)
{
    struct zr_phys *phys;

    OK(zr_phys_create(test_device(), backing,
                      (backing == ZR_BACKING_SECTION) ? ZR_CACHE_CACHED : ZR_CACHE_WRITE_COMBINED,
                      size, 0, &phys));
    return phys;
}

static int counts_before(void **state)
{
    static struct zr_mem_counts counts;

    zr_mem_counts(&counts);
    *state = &counts;
    return 0;
}

static int counts_after(void **state)
{
    struct zr_mem_counts *before = *state, now;

    zr_mem_counts(&now);
    assert_int_equal(now.objects, before->objects);
    assert_int_equal(now.regions, before->regions);
    assert_int_equal(now.mappings, before->mappings);
    return 0;
}

static void test_refusals(void **state)
{
    struct zr_phys *phys = object(ZR_BACKING_SECTION, 4 * PAGE), *bad;
    void           *ptr;
    char           *base;
    unsigned        i;

    OK(zr_va_reserve(NULL, 8 * PAGE, (void **)&base));
    OK(zr_va_map(base + 4 * PAGE, PAGE, phys, 0, RW));
    const struct {
        uint64_t    at, size, offset;
        int         access;
        ze_result_t result;
    } maps[] = {
        {1, PAGE, 0, RW, ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT},
        {0, PAGE, 4096, RW, ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT},
        {0, 0, 0, RW, ZE_RESULT_ERROR_UNSUPPORTED_SIZE},
        {0, PAGE + 4096, 0, RW, ZE_RESULT_ERROR_UNSUPPORTED_SIZE},
        {0, 5 * PAGE, 0, RW, ZE_RESULT_ERROR_INVALID_SIZE},
        {0, PAGE, 4 * PAGE, RW, ZE_RESULT_ERROR_INVALID_SIZE},
        {0, PAGE, UINT64_MAX - PAGE + 1, RW, ZE_RESULT_ERROR_INVALID_SIZE},
        {0, PAGE, 0, 3, ZE_RESULT_ERROR_INVALID_ENUMERATION},
        {7 * PAGE, 2 * PAGE, 0, RW, ZE_RESULT_ERROR_INVALID_ARGUMENT},
        {8 * PAGE, PAGE, 0, RW, ZE_RESULT_ERROR_INVALID_ARGUMENT},
        {3 * PAGE, 2 * PAGE, 0, RW, ZE_RESULT_ERROR_INVALID_ARGUMENT},
        {4 * PAGE, PAGE, 0, RW, ZE_RESULT_ERROR_INVALID_ARGUMENT},
        {3 * PAGE, PAGE, 3 * PAGE, RW, ZE_RESULT_SUCCESS},
        {5 * PAGE, 3 * PAGE, PAGE, RW, ZE_RESULT_SUCCESS},
    };
    for (i = 0; i < ZR_ARRAY_SIZE(maps); ++i) {
        print_message("map +0x%zx, 0x%zx\n", (size_t)maps[i].at, (size_t)maps[i].size);
        assert_int_equal(zr_va_map(base + maps[i].at, maps[i].size, phys, maps[i].offset,
                                   maps[i].access), maps[i].result);
    }
    const struct {
        uint64_t    at, size;
        ze_result_t result;
    } unmaps[] = {
        {5 * PAGE, PAGE, ZE_RESULT_ERROR_INVALID_ARGUMENT},
        {4 * PAGE, 2 * PAGE, ZE_RESULT_ERROR_INVALID_ARGUMENT},
        {7 * PAGE, 2 * PAGE, ZE_RESULT_ERROR_INVALID_ARGUMENT}, /* beyond the reservation */
        {0, PAGE, ZE_RESULT_SUCCESS}, /* nothing is there */
        {1, PAGE, ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT},
        {0, PAGE - 1, ZE_RESULT_ERROR_UNSUPPORTED_SIZE},
        {2 * PAGE, 3 * PAGE, ZE_RESULT_SUCCESS}, /* two whole mappings and a hole */
        {3 * PAGE, PAGE, ZE_RESULT_SUCCESS}, /* nothing is there any more */
        {5 * PAGE, 3 * PAGE, ZE_RESULT_SUCCESS},
    };
    for (i = 0; i < ZR_ARRAY_SIZE(unmaps); ++i) {
        print_message("unmap +0x%zx, 0x%zx\n", (size_t)unmaps[i].at, (size_t)unmaps[i].size);
        assert_int_equal(zr_va_unmap(base + unmaps[i].at, unmaps[i].size), unmaps[i].result);
    }
    assert_int_equal(phys->refs, 1);
    assert_int_equal(zr_va_unreserve(base, 4 * PAGE), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    assert_int_equal(zr_va_unreserve(base + PAGE, PAGE), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    OK(zr_va_unreserve(base, 8 * PAGE));
    assert_int_equal(zr_va_unreserve(base, 8 * PAGE), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    zr_phys_unref(phys);

    assert_int_equal(zr_va_reserve(NULL, 0, &ptr), ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
    assert_int_equal(zr_va_reserve(NULL, PAGE + 1, &ptr), ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
    assert_int_equal(zr_va_reserve(NULL, SIZE_MAX & ~(PAGE - 1), &ptr),
                     ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
    assert_int_equal(zr_usm_alloc(test_device(), ZE_MEMORY_TYPE_HOST, 0, 0, false, &ptr),
                     ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
    assert_int_equal(zr_usm_alloc(test_device(), ZE_MEMORY_TYPE_HOST, 1, 3, false, &ptr),
                     ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT);
    assert_int_equal(zr_phys_create(test_device(), ZR_BACKING_SECTION, ZR_CACHE_UNCACHED, PAGE, 0,
                                    &bad), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    assert_int_equal(zr_phys_create(test_device(), ZR_BACKING_SECTION, ZR_CACHE_CACHED, 4096, 0,
                                    &bad), ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
}

/* Runs in a child: does touching an address end it? */
static bool faults(volatile char *at, bool write)
{
    pid_t pid = fork();
    int   status;

    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        char byte = *at;
        if (write) {
            *at = byte;
        }
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status);
}

/* System objects are CPU memory while mapped; device objects never are; attributes count. */
static void test_cpu(void **state)
{
    struct zr_phys *sys = object(ZR_BACKING_SECTION, 2 * PAGE);
    struct zr_phys *dev = object(ZR_BACKING_CONTIGUOUS, PAGE);
    char           *base, *other;

    OK(zr_va_reserve(NULL, 4 * PAGE, (void **)&base));
    OK(zr_va_reserve(NULL, 2 * PAGE, (void **)&other));
    assert_true(faults(base, false));
    OK(zr_va_map(base + PAGE, PAGE, sys, PAGE, RW));
    OK(zr_va_map(base + 2 * PAGE, PAGE, dev, 0, RW));
    OK(zr_va_map(other, 2 * PAGE, sys, 0, RO));
    memset(base + PAGE, 0x42, PAGE);
    assert_int_equal(other[PAGE + 7], 0x42); /* the same bytes at the object's own offset */
    assert_false(faults(other, false));
    assert_true(faults(other, true));
    assert_int_equal(faults(base + 2 * PAGE, false), !zr_config()->device_cpu_access);
    OK(zr_va_set_access(base + PAGE, PAGE, NONE));
    assert_true(faults(base + PAGE, false));
    OK(zr_va_set_access(base + PAGE, PAGE, RW));
    assert_false(faults(base + PAGE, true));
    OK(zr_va_unmap(base + PAGE, PAGE));
    assert_true(faults(base + PAGE, false));
    OK(zr_va_unreserve(base, 4 * PAGE));
    OK(zr_va_unreserve(other, 2 * PAGE));
    zr_phys_unref(sys);
    zr_phys_unref(dev);
}

static void test_access(void **state)
{
    static const struct {
        uint64_t                     at, size;
        ze_memory_access_attribute_t access;
        const char                  *pages; /* after: '-' none, 'r' read only, 'w' read write */
    } cases[] = {
        {0, 8 * PAGE, RW, "wwwwwwww"},     {2 * PAGE, 2 * PAGE, RO, "wwrrwwww"},
        {3 * PAGE, 3 * PAGE, NONE, "wwr---ww"}, {0, PAGE, RO, "rwr---ww"},
        {PAGE, PAGE, RO, "rrr---ww"},      {7 * PAGE, PAGE, NONE, "rrr---w-"},
        {0, 8 * PAGE, NONE, "--------"},
    };
    static const char            letters[] = "-wr";
    ze_memory_access_attribute_t access;
    unsigned                     i, page;
    size_t                       size;
    char                        *base;

    OK(zr_va_reserve(NULL, 8 * PAGE, (void **)&base));
    OK(zr_va_get_access(base, 8 * PAGE, &access, &size));
    assert_int_equal(access, NONE);
    assert_int_equal(size, 8 * PAGE);
    for (i = 0; i < ZR_ARRAY_SIZE(cases); ++i) {
        OK(zr_va_set_access(base + cases[i].at, cases[i].size, cases[i].access));
        for (page = 0; page < 8; ++page) {
            unsigned run = strspn(cases[i].pages + page, (char[]){cases[i].pages[page], '\0'});

            OK(zr_va_get_access(base + page * PAGE, (8 - page) * PAGE, &access, &size));
            assert_int_equal(letters[access], cases[i].pages[page]);
            assert_int_equal(size, run * PAGE);
        }
    }
    assert_int_equal(zr_va_set_access(base, 9 * PAGE, RW), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    assert_int_equal(zr_va_set_access(base, PAGE, 3), ZE_RESULT_ERROR_INVALID_ENUMERATION);
    assert_int_equal(zr_va_get_access(base + 1, PAGE, &access, &size),
                     ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT);
    OK(zr_va_unreserve(base, 8 * PAGE));
}

/* A range taken in is contiguous, keeps its lead, and shows its window of each object. */
static void test_adopt(void **state)
{
    static size_t leads[] = {0, 1, 4096, 4097, PAGE - 1};
    struct zr_phys     *a = object(ZR_BACKING_SECTION, 2 * PAGE);
    struct zr_phys     *b = object(ZR_BACKING_SECTION, 2 * PAGE);
    struct zr_va_info   info;
    struct zr_range     range, walked;
    unsigned            i, kinds;
    char               *base, *ptr;
    void               *tag;

    OK(zr_va_reserve(NULL, 4 * PAGE, (void **)&base));
    OK(zr_va_map(base, 2 * PAGE, a, 0, RW));
    OK(zr_va_map(base + 2 * PAGE, 2 * PAGE, b, 0, RW));
    for (i = 0; i < 4 * PAGE; ++i) {
        base[i] = (char)(i * 7 + (i >> 12));
    }
    for (i = 0; i < ZR_ARRAY_SIZE(leads); ++i) {
        size_t length = 4 * PAGE - 2 * leads[i];

        OK(zr_range_walk(base + leads[i], length, &range, &kinds, NULL));
        OK(zr_va_adopt(&range, leads[i], test_device(), &leads[i], (void **)&ptr));
        assert_int_equal((uintptr_t)ptr % PAGE, leads[i]);
        assert_true(zr_va_query(ptr + length / 2, &info));
        assert_int_equal(info.kind, ZR_VA_IMPORT);
        assert_int_equal(info.base, (uintptr_t)ptr);
        assert_int_equal(info.size, length);
        assert_ptr_equal(info.tag, &leads[i]);
        assert_memory_equal(ptr, base + leads[i], length);
        OK(zr_range_walk(ptr, length, &walked, &kinds, NULL));
        assert_int_equal(kinds, ZR_VA_IMPORT);
        assert_int_equal(walked.count, range.count);
        assert_memory_equal(walked.segments, range.segments,
                            range.count * sizeof(*range.segments));
        zr_range_clear(&range);
        zr_range_clear(&walked);
        assert_int_equal(zr_va_release(ptr + 1, &tag), ZE_RESULT_ERROR_INVALID_ARGUMENT);
        OK(zr_va_release(ptr, &tag));
        assert_ptr_equal(tag, &leads[i]);
    }
    OK(zr_va_unreserve(base, 4 * PAGE));
    zr_phys_unref(a);
    zr_phys_unref(b);
}

static struct {
    int      mapped;
    void    *ptr;
    size_t   size;
    unsigned calls;
} told;

static void note(void *arg, int mapped, void *ptr, size_t size, ze_memory_type_t type)
{
    struct zr_va_info info;

    /* Told after a map and before an unmap: the address answers both times, without a deadlock. */
    assert_true(zr_va_query(ptr, &info));
    assert_int_equal(info.type, type);
    told.mapped = mapped;
    told.ptr    = ptr;
    told.size   = size;
    told.calls++;
    if (arg != NULL) {
        zr_va_unsubscribe(note, arg);
    }
}

static void test_subscribe(void **state)
{
    struct zr_phys *phys = object(ZR_BACKING_SECTION, PAGE);
    void           *usm;
    char           *base;

    OK(zr_va_subscribe(note, NULL));
    OK(zr_va_reserve(NULL, 4 * PAGE, (void **)&base));
    assert_int_equal(told.calls, 0);
    OK(zr_va_map(base + PAGE, PAGE, phys, 0, RW));
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.mapped, 1);
    assert_ptr_equal(told.ptr, base + PAGE);
    assert_int_equal(told.size, PAGE);
    OK(zr_va_map(base + 3 * PAGE, PAGE, phys, 0, RW));
    OK(zr_va_unmap(base + PAGE, PAGE));
    assert_int_equal(told.calls, 3);
    assert_int_equal(told.mapped, 0);
    assert_ptr_equal(told.ptr, base + PAGE);
    OK(zr_va_unreserve(base, 4 * PAGE));
    assert_int_equal(told.calls, 4);
    assert_ptr_equal(told.ptr, base + 3 * PAGE);
    OK(zr_usm_alloc(test_device(), ZE_MEMORY_TYPE_DEVICE, 100, 0, false, &usm));
    OK(zr_usm_free(usm));
    assert_int_equal(told.calls, 6);
    assert_ptr_equal(told.ptr, usm);
    zr_va_unsubscribe(note, NULL);

    /* One that unsubscribes inside its own call is called once. */
    OK(zr_va_subscribe(note, &told));
    OK(zr_usm_alloc(test_device(), ZE_MEMORY_TYPE_DEVICE, 100, 0, false, &usm));
    OK(zr_usm_free(usm));
    assert_int_equal(told.calls, 7);
    zr_phys_unref(phys);
}

/* Threads map, look up and unmap in one reservation; a window is whole or not there. */
static char *shared_base;

static void *worker(void *arg)
{
    unsigned          slot = (unsigned)(uintptr_t)arg, round, kinds;
    char             *mine = shared_base + 4 * PAGE * slot;
    struct zr_phys   *phys;
    struct zr_va_info info;
    struct zr_range   range;
    uint64_t          bad = 0;

    if (zr_phys_create(test_device(), ZR_BACKING_CONTIGUOUS, ZR_CACHE_WRITE_COMBINED, 4 * PAGE, 0,
                       &phys) != ZE_RESULT_SUCCESS) {
        return (void *)1;
    }
    for (round = 0; round < 300; ++round) {
        bad += zr_va_map(mine, 2 * PAGE, phys, 0, RW) != ZE_RESULT_SUCCESS;
        bad += zr_va_map(mine + 2 * PAGE, 2 * PAGE, phys, 2 * PAGE, RW) != ZE_RESULT_SUCCESS;
        bad += zr_range_walk(mine, 4 * PAGE, &range, &kinds, NULL) != ZE_RESULT_SUCCESS;
        bad += range.count != 1;
        zr_range_clear(&range);
        zr_va_query(shared_base + 4 * PAGE * ((slot + round) % 4), &info);
        bad += info.region_base != (uintptr_t)shared_base;
        bad += zr_va_unmap(mine, 4 * PAGE) != ZE_RESULT_SUCCESS;
    }
    zr_phys_unref(phys);
    return (void *)(uintptr_t)bad;
}

static void test_threads(void **state)
{
    pthread_t threads[4];
    unsigned  i;
    void     *bad;

    OK(zr_va_reserve(NULL, 16 * PAGE, (void **)&shared_base));
    for (i = 0; i < 4; ++i) {
        assert_int_equal(pthread_create(&threads[i], NULL, worker, (void *)(uintptr_t)i), 0);
    }
    for (i = 0; i < 4; ++i) {
        pthread_join(threads[i], &bad);
        assert_ptr_equal(bad, NULL);
    }
    OK(zr_va_unreserve(shared_base, 16 * PAGE));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, counts_before, counts_after)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_refusals),  TEST(test_cpu),       TEST(test_access),
        TEST(test_adopt),     TEST(test_subscribe), TEST(test_threads),
    };

    test_device();
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
