/* zexDriverImportExternalPointer and its two companions, which MPICH requires of a driver: what is
 * declared is answered for, what is not is refused, and copies are right either way. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

typedef ze_result_t (*import_fn)(ze_driver_handle_t, void *, size_t);
typedef ze_result_t (*release_fn)(ze_driver_handle_t, void *);
typedef ze_result_t (*base_fn)(ze_driver_handle_t, void *, void **);

#define SIZE 300000
static unsigned char host[SIZE], want[SIZE];

static import_fn  import;
static release_fn release;
static base_fn    base_of;

/* One after another. */
static const struct {
    char        what; /* import, release, ask */
    size_t      at, size;
    ze_result_t result;
    size_t      base;
} steps[] = {
    {'a', 0, 0, ZE_RESULT_ERROR_INVALID_ARGUMENT, 0},
    {'i', 1000, 0, ZE_RESULT_ERROR_INVALID_SIZE, 0},
    {'i', 1000, SIZE_MAX - 10, ZE_RESULT_ERROR_INVALID_SIZE, 0},
    {'i', 1000, 5000, ZE_RESULT_SUCCESS, 0},
    {'a', 999, 0, ZE_RESULT_ERROR_INVALID_ARGUMENT, 0},
    {'a', 1000, 0, ZE_RESULT_SUCCESS, 1000},
    {'a', 5999, 0, ZE_RESULT_SUCCESS, 1000},
    {'a', 6000, 0, ZE_RESULT_ERROR_INVALID_ARGUMENT, 0},
    {'i', 2000, 100, ZE_RESULT_SUCCESS, 0}, /* inside */
    {'a', 2000, 0, ZE_RESULT_SUCCESS, 1000},
    {'i', 5000, 5000, ZE_RESULT_ERROR_OVERLAPPING_REGIONS, 0},
    {'i', 6000, 5000, ZE_RESULT_SUCCESS, 0},
    {'a', 6000, 0, ZE_RESULT_SUCCESS, 6000},
    {'r', 2000, 0, ZE_RESULT_ERROR_INVALID_ARGUMENT, 0}, /* not a start */
    {'r', 1000, 0, ZE_RESULT_SUCCESS, 0},
    {'r', 1000, 0, ZE_RESULT_ERROR_INVALID_ARGUMENT, 0},
    {'a', 1000, 0, ZE_RESULT_ERROR_INVALID_ARGUMENT, 0},
    {'a', 6000, 0, ZE_RESULT_SUCCESS, 6000},
};

int main(void)
{
    unsigned char *memory;
    void          *base;
    size_t         k;

    test_start();
    NEED(zeDriverGetExtensionFunctionAddress(driver, "zexDriverImportExternalPointer",
                                             (void **)&import));
    NEED(zeDriverGetExtensionFunctionAddress(driver, "zexDriverReleaseImportedPointer",
                                             (void **)&release));
    NEED(zeDriverGetExtensionFunctionAddress(driver, "zexDriverGetHostPointerBaseAddress",
                                             (void **)&base_of));
    CHECK(import(driver, NULL, 1), ZE_RESULT_ERROR_INVALID_NULL_POINTER);
    for (k = 0; k < COUNT(steps); k++) {
        base = NULL;
        switch (steps[k].what) {
        case 'i':
            CHECK(import(driver, host + steps[k].at, steps[k].size), steps[k].result);
            break;
        case 'r':
            CHECK(release(driver, host + steps[k].at), steps[k].result);
            break;
        default:
            CHECK(base_of(driver, host + steps[k].at, &base), steps[k].result);
            CHECK_TRUE(base == (steps[k].result == ZE_RESULT_SUCCESS ? host + steps[k].base :
                                                                       NULL));
        }
    }
    CHECK_OK(base_of(driver, host + 7000, NULL));

    /* Across what is declared and what is not. */
    memory = alloc_device(SIZE);
    fill_pattern(want, SIZE, 3);
    memcpy(host, want, SIZE);
    write_memory(memory, host, SIZE);
    memset(host, 0, SIZE);
    read_memory(host, memory, SIZE);
    CHECK_EQ(memcmp(host, want, SIZE), 0);
    CHECK_OK(release(driver, host + 6000));
    return test_end();
}
