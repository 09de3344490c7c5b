/* The engines' copy kernels: every alignment and length gives the same bytes, and nothing beside
 * them, whether they go through the cache or past it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft_client.h"
#include "soft/soft.h"

#define ROOM  (3 * 4096)
#define GUARD 0xa5

static uint8_t source[ROOM], target[ROOM], expected[ROOM];

static uint8_t source_byte(unsigned i)
{
    return (uint8_t)(i * 131 + (i >> 8) * 17 + 1);
}

static void test_every_alignment(void **state)
{
    static const unsigned lengths[] = {0, 1, 63, 64, 65, 1023, 1024, 1025, 1087, 4095, 4096, 8193};
    unsigned              to, from, k, stream;

    for (k = 0; k < sizeof(source); k++) {
        source[k] = source_byte(k);
    }
    for (k = 0; k < ZR_ARRAY_SIZE(lengths); k++) {
        for (to = 0; to < 64; to += 1 + to % 5) {
            for (from = 0; from < 64; from += 7) {
                for (stream = 0; stream < 2; stream++) {
                    memset(target, GUARD, sizeof(target));
                    memset(expected, GUARD, sizeof(expected));
                    memcpy(expected + 64 + to, source + from, lengths[k]);
                    zr_soft_copy(target + 64 + to, source + from, lengths[k], stream);
                    assert_memory_equal(target, expected, sizeof(target));
                }
            }
        }
    }
}

/* Of one object, with ranges that overlap either way. */
static void test_overlap(void **state)
{
    static const int shifts[] = {-4096, -1, 1, 64, 2048};
    unsigned         k, i, stream;

    for (k = 0; k < ZR_ARRAY_SIZE(shifts); k++) {
        for (stream = 0; stream < 2; stream++) {
            for (i = 0; i < ROOM; i++) {
                target[i] = expected[i] = source_byte(i);
            }
            memmove(expected + 4096 + shifts[k], expected + 4096, 4096);
            zr_soft_copy(target + 4096 + shifts[k], target + 4096, 4096, stream);
            assert_memory_equal(target, expected, ROOM);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_alignment),
        cmocka_unit_test(test_overlap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
