/* Ranges as values and the walk over reservations, mappings and USM. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "device.h"
#include "mem/mem.h"

#include <string.h>

#define PAGE ZR_PAGE_SMALL
#define RW   ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE
#define OK(call) assert_int_equal((call), ZE_RESULT_SUCCESS)

static struct zr_phys *object(uint64_t size)
{
    struct zr_phys *phys;

    OK(zr_phys_create(test_device(), ZR_BACKING_SECTION, ZR_CACHE_CACHED, size, 0, &phys));
    return phys;
}

/* A segment that continues the last one joins it; references follow the segments. */
static void test_append(void **state)
{
    static const struct {
        unsigned object;
        uint64_t offset, length;
        unsigned count; /* segments after */
    } cases[] = {
        {0, 0, 100, 1},     {0, 100, 50, 1},  {0, 151, 9, 2},  {1, 160, 10, 3}, {1, 170, 10, 3},
        {0, 160, 10, 4},    {1, 0, 1, 5},     {0, 0, 1, 6},    {1, 1, 1, 7},    {1, 2, 1, 7},
        {0, 1, 65535, 8},   {1, 0, 65536, 9},
    };
    struct zr_phys  *phys[2] = {object(PAGE), object(PAGE)};
    struct zr_range  range, copy;
    uint64_t         length = 0;
    unsigned         i;

    zr_range_init(&range);
    for (i = 0; i < ZR_ARRAY_SIZE(cases); ++i) {
        OK(zr_range_append(&range, phys[cases[i].object], cases[i].offset, cases[i].length));
        length += cases[i].length;
        assert_int_equal(range.count, cases[i].count);
        assert_int_equal(range.length, length);
    }
    OK(zr_range_copy(&copy, &range));
    assert_int_equal(phys[0]->refs + phys[1]->refs, 2 + 2 * range.count);
    assert_int_equal(copy.length, range.length);
    assert_memory_equal(copy.segments, range.segments, range.count * sizeof(*range.segments));
    zr_range_clear(&range);
    assert_int_equal(range.length, 0);
    zr_range_clear(&copy);
    for (i = 0; i < 2; ++i) {
        assert_int_equal(phys[i]->refs, 1);
        zr_phys_unref(phys[i]);
    }
}

/* Two adjacent reservations of 4 pages:  | A0 A1 .. B2 | B3 .. C0 C1 |  (".." a hole) */
static void test_walk(void **state)
{
    struct {
        uint64_t    at, size; /* from the first page */
        ze_result_t result;
        unsigned    count;
        uint64_t    offset, last_length; /* of the first and the last segment */
    } cases[] = {
        {0, 2 * PAGE, ZE_RESULT_SUCCESS, 1, 0, 2 * PAGE},
        {100, 200, ZE_RESULT_SUCCESS, 1, 100, 200},
        {PAGE - 1, 2, ZE_RESULT_SUCCESS, 1, PAGE - 1, 2},
        {3 * PAGE, 2 * PAGE, ZE_RESULT_SUCCESS, 1, 2 * PAGE, 2 * PAGE},
        {3 * PAGE + 5, 2 * PAGE - 10, ZE_RESULT_SUCCESS, 1, 2 * PAGE + 5, 2 * PAGE - 10},
        {6 * PAGE, 2 * PAGE, ZE_RESULT_SUCCESS, 1, 0, 2 * PAGE},
        {0, 3 * PAGE, ZE_RESULT_ERROR_ADDRESS_NOT_FOUND, 0, 0, 0},
        {2 * PAGE - 1, 2, ZE_RESULT_ERROR_ADDRESS_NOT_FOUND, 0, 0, 0},
        {2 * PAGE, 1, ZE_RESULT_ERROR_ADDRESS_NOT_FOUND, 0, 0, 0},
        {4 * PAGE, 2 * PAGE, ZE_RESULT_ERROR_ADDRESS_NOT_FOUND, 0, 0, 0},
        {7 * PAGE, PAGE + 1, ZE_RESULT_ERROR_ADDRESS_NOT_FOUND, 0, 0, 0},
        {0, 0, ZE_RESULT_ERROR_INVALID_SIZE, 0, 0, 0},
        {0, SIZE_MAX, ZE_RESULT_ERROR_INVALID_ARGUMENT, 0, 0, 0},
    };
    struct zr_phys *a = object(2 * PAGE), *b = object(4 * PAGE), *c = object(2 * PAGE);
    struct zr_range range;
    unsigned        i, kinds;
    char           *base;
    void           *second;

    OK(zr_va_reserve(NULL, 8 * PAGE, (void **)&base));
    OK(zr_va_unreserve(base, 8 * PAGE));
    OK(zr_va_reserve(base, 4 * PAGE, (void **)&second));
    assert_ptr_equal(base, second);
    OK(zr_va_reserve(base + 4 * PAGE, 4 * PAGE, &second));
    assert_ptr_equal(base + 4 * PAGE, second);
    OK(zr_va_map(base, PAGE, a, 0, RW));
    OK(zr_va_map(base + PAGE, PAGE, a, PAGE, RW));
    OK(zr_va_map(base + 3 * PAGE, PAGE, b, 2 * PAGE, RW));
    OK(zr_va_map(base + 4 * PAGE, PAGE, b, 3 * PAGE, RW));
    OK(zr_va_map(base + 6 * PAGE, 2 * PAGE, c, 0, RW));

    for (i = 0; i < ZR_ARRAY_SIZE(cases); ++i) {
        print_message("walk +0x%zx, 0x%zx\n", (size_t)cases[i].at, (size_t)cases[i].size);
        assert_int_equal(zr_range_walk(base + cases[i].at, cases[i].size, &range, &kinds, NULL),
                         cases[i].result);
        assert_int_equal(range.count, cases[i].count);
        if (cases[i].result == ZE_RESULT_SUCCESS) {
            assert_int_equal(kinds, ZR_VA_MAPPING);
            assert_int_equal(range.length, cases[i].size);
            assert_int_equal(range.segments[0].offset, cases[i].offset);
            assert_int_equal(range.segments[range.count - 1].length, cases[i].last_length);
        }
        zr_range_clear(&range);
    }
    OK(zr_va_unreserve(base, 4 * PAGE));
    OK(zr_va_unreserve(base + 4 * PAGE, 4 * PAGE));
    assert_int_equal(a->refs + b->refs + c->refs, 3);
    zr_phys_unref(a);
    zr_phys_unref(b);
    zr_phys_unref(c);
}

/* The error names the object before the hole and the hole. */
static void test_hole_text(void **state)
{
    struct zr_phys *a = object(PAGE), *b = object(PAGE);
    struct zr_range range;
    char           *base, expected[200];
    unsigned        kinds;

    OK(zr_va_reserve(NULL, 8 * PAGE, (void **)&base));
    OK(zr_va_map(base, PAGE, a, 0, RW));
    OK(zr_va_map(base + PAGE, PAGE, b, 0, RW));
    OK(zr_va_map(base + 5 * PAGE, PAGE, b, 0, RW));
    assert_int_equal(zr_range_walk(base, 8 * PAGE, &range, &kinds, NULL),
                     ZE_RESULT_ERROR_ADDRESS_NOT_FOUND);
    snprintf(expected, sizeof(expected),
             "range 0x%zx..0x%zx (2 objects): object 1 ends at 0x%zx, 0x%zx..0x%zx is not mapped",
             (size_t)base, (size_t)(base + 8 * PAGE), (size_t)(base + 2 * PAGE),
             (size_t)(base + 2 * PAGE), (size_t)(base + 5 * PAGE));
    assert_string_equal(zr_last_error(), expected);
    assert_int_equal(kinds, ZR_VA_MAPPING);
    OK(zr_va_unreserve(base, 8 * PAGE));
    zr_phys_unref(a);
    zr_phys_unref(b);
}

/* The generation of a window is the same until a mapping in it is replaced, then a new one. */
static void test_generation(void **state)
{
    struct zr_phys *a = object(4 * PAGE), *b = object(PAGE);
    struct zr_range range;
    uint64_t        whole, again, first, last;
    unsigned        kinds;
    char           *base;

    OK(zr_va_reserve(NULL, 4 * PAGE, (void **)&base));
    OK(zr_va_map(base, 2 * PAGE, a, 0, RW));
    OK(zr_va_map(base + 2 * PAGE, PAGE, b, 0, RW));
    OK(zr_range_walk(base, 3 * PAGE, &range, &kinds, &whole));
    zr_range_clear(&range);
    OK(zr_range_walk(base, 2 * PAGE, &range, &kinds, &first));
    zr_range_clear(&range);
    OK(zr_va_map(base + 3 * PAGE, PAGE, a, 0, RW));
    OK(zr_range_walk(base, 3 * PAGE, &range, &kinds, &again));
    zr_range_clear(&range);
    assert_int_equal(whole, again);

    OK(zr_va_unmap(base + 2 * PAGE, PAGE));
    OK(zr_va_map(base + 2 * PAGE, PAGE, b, 0, RW));
    OK(zr_range_walk(base, 3 * PAGE, &range, &kinds, &again));
    zr_range_clear(&range);
    assert_int_not_equal(whole, again);
    OK(zr_range_walk(base, 2 * PAGE, &range, &kinds, &last));
    zr_range_clear(&range);
    assert_int_equal(first, last);
    OK(zr_va_unreserve(base, 4 * PAGE));
    zr_phys_unref(a);
    zr_phys_unref(b);
}

static void test_walk_usm(void **state)
{
    static const struct {
        ze_memory_type_t type;
        size_t           size, alignment;
    } cases[] = {
        {ZE_MEMORY_TYPE_DEVICE, 1, 0},
        {ZE_MEMORY_TYPE_HOST, 5000, 4096},
        {ZE_MEMORY_TYPE_SHARED, PAGE, 4 * PAGE},
        {ZE_MEMORY_TYPE_DEVICE, 3 * ZR_MIB + 1, 8 * ZR_MIB},
    };
    struct zr_va_info info;
    struct zr_range   range;
    unsigned          i, kinds;
    char             *ptr;

    for (i = 0; i < ZR_ARRAY_SIZE(cases); ++i) {
        size_t size = cases[i].size;

        OK(zr_usm_alloc(test_device(), cases[i].type, size, cases[i].alignment, false, (void **)&ptr));
        assert_int_equal((uintptr_t)ptr % ZR_MAX(cases[i].alignment, 1u), 0);
        assert_true(zr_va_query(ptr + size - 1, &info));
        assert_int_equal(info.kind, ZR_VA_USM);
        assert_int_equal(info.type, cases[i].type);
        assert_int_equal(info.base, (uintptr_t)ptr);
        assert_int_equal(info.size, size);
        assert_false(zr_va_query(ptr + size, &info));
        OK(zr_range_walk(ptr, size, &range, &kinds, NULL));
        assert_int_equal(kinds, ZR_VA_USM);
        assert_int_equal(range.length, size);
        zr_range_clear(&range);
        assert_int_equal(zr_range_walk(ptr, size + 1, &range, &kinds, NULL),
                         ZE_RESULT_ERROR_ADDRESS_NOT_FOUND);
        assert_int_equal(kinds, ZR_VA_USM);
        if (cases[i].type != ZE_MEMORY_TYPE_DEVICE) {
            memset(ptr, 0x5a, size);
        }
        assert_int_equal(zr_usm_free(ptr + 1), ZE_RESULT_ERROR_INVALID_ARGUMENT);
        OK(zr_usm_free(ptr));
        assert_false(zr_va_query(ptr, &info));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append),     cmocka_unit_test(test_walk),
        cmocka_unit_test(test_hole_text),  cmocka_unit_test(test_generation),
        cmocka_unit_test(test_walk_usm),
    };

    test_device();
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
