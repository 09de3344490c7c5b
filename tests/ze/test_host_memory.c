/* Copies between the device and plain host memory: at every kind of place, memory that was
 * unmapped and mapped again at the same address, memory that cannot be written, and memory that
 * is gone. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <sys/mman.h>
#include <unistd.h>

#define SIZE ((size_t)256 << 10)

static unsigned char *memory; /* of the device */
static unsigned char  want[SIZE], got[SIZE];

static void *map_pages(void *at, int prot)
{
    void *p = mmap(at, SIZE, prot, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return p;
}

static void check_round_trip(unsigned char *host, size_t length, unsigned seed)
{
    size_t k;

    fill_pattern(want, length, seed);
    memcpy(host, want, length);
    CHECK_OK(zeCommandListAppendMemoryCopy(list, memory, host, length, NULL, 0, NULL));
    memset(host, 0, length);
    CHECK_OK(zeCommandListAppendMemoryCopy(list, host, memory, length, NULL, 0, NULL));
    for (k = 0; k < length && host[k] == want[k]; k++) {
    }
    CHECK_EQ(k, length);
}

static void check_places(void)
{
    static unsigned char fixed[SIZE];
    unsigned char        stack[300], *heap = malloc(SIZE), *pages = map_pages(NULL, 3);
    const struct {
        unsigned char *at;
        size_t         length;
    } cases[] = {{stack, 1},           {stack + 7, 290},      {heap, 64},
                 {heap + 1, 65537},    {heap + 4095, 100000}, {fixed, SIZE},
                 {fixed + 3, 4096},    {pages, SIZE},         {pages + SIZE - 5, 5},
                 {pages + 4090, 12},   {heap + 17, 65536}};

    for (size_t i = 0; i < COUNT(cases); i++) {
        check_round_trip(cases[i].at, cases[i].length, (unsigned)i);
    }
    free(heap);
    munmap(pages, SIZE);
}

/* The driver may keep what it knows of host memory, the bytes must be the new ones. */
static void check_mapped_again(void)
{
    unsigned char *pages = map_pages(NULL, PROT_READ | PROT_WRITE);

    for (unsigned round = 0; round < 8; round++) {
        check_round_trip(pages, SIZE, 50 + round);
        munmap(pages, SIZE);
        map_pages(pages, PROT_READ | PROT_WRITE);
    }
    munmap(pages, SIZE);
}

/* A source of any length may be read-only, also one that was written through before; as a
 * destination it is refused. */
static void check_read_only(void)
{
    static const size_t lengths[] = {1, 4097, 65536, 65537, SIZE};
    unsigned char      *pages     = map_pages(NULL, PROT_READ | PROT_WRITE);

    check_round_trip(pages, SIZE, 90);
    memcpy(pages, want, SIZE);
    mprotect(pages, SIZE, PROT_READ);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        memset(got, 0, SIZE);
        CHECK_OK(zeCommandListAppendMemoryFill(list, memory, "", 1, SIZE, NULL, 0, NULL));
        CHECK_OK(zeCommandListAppendMemoryCopy(list, memory, pages, lengths[i], NULL, 0, NULL));
        CHECK_OK(zeCommandListAppendMemoryCopy(list, got, memory, SIZE, NULL, 0, NULL));
        CHECK_EQ(memcmp(got, pages, lengths[i]), 0);
        CHECK_EQ(lengths[i] == SIZE || got[lengths[i]] == 0, 1);
    }
    CHECK(zeCommandListAppendMemoryCopy(list, pages, memory, SIZE, NULL, 0, NULL),
          ZE_RESULT_ERROR_INVALID_ARGUMENT);
    munmap(pages, SIZE);
}

/* Half of a known buffer goes: the rest still works, the whole is refused. */
static void check_gone(void)
{
    unsigned char *pages = map_pages(NULL, PROT_READ | PROT_WRITE);

    check_round_trip(pages, SIZE, 70);
    munmap(pages + SIZE / 2, SIZE / 2);
    check_round_trip(pages, SIZE / 2, 71);
    CHECK(zeCommandListAppendMemoryCopy(list, pages, memory, SIZE, NULL, 0, NULL),
          ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(zeCommandListAppendMemoryCopy(list, memory, pages, SIZE, NULL, 0, NULL),
          ZE_RESULT_ERROR_INVALID_ARGUMENT);
    check_round_trip(pages, SIZE / 2, 72);
    munmap(pages, SIZE / 2);
}

/* Many short sources one after the other, more than any ring holds, none waited for. */
static void check_many(void)
{
    ze_command_queue_desc_t  desc = {.stype   = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                     .ordinal = ordinal,
                                     .mode    = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    const size_t             one = 1000;
    ze_command_list_handle_t async;
    size_t                   i, k;

    NEED(zeCommandListCreateImmediate(context, device, &desc, &async));
    fill_pattern(want, SIZE, 90);
    for (i = 0; i + one <= SIZE; i += one) {
        CHECK_OK(zeCommandListAppendMemoryCopy(async, memory + i, want + i, one, NULL, 0, NULL));
    }
    CHECK_OK(zeCommandListHostSynchronize(async, UINT64_MAX));
    read_memory(got, memory, i);
    for (k = 0; k < i && got[k] == want[k]; k++) {
    }
    CHECK_EQ(k, i);
    CHECK_OK(zeCommandListDestroy(async));
}

/* A range of which a part is the driver's and a part is not names a mistake. */
static void check_partly_ours(void)
{
    unsigned char *area = map_pages(NULL, PROT_READ | PROT_WRITE), *aligned;
    void          *p;

    aligned = area + (page - (uintptr_t)area % page) % page;
    munmap(aligned + page, page);
    if (zeVirtualMemReserve(context, aligned + page, page, &p) == ZE_RESULT_SUCCESS) {
        if (p == aligned + page) { /* else the place was taken */
            CHECK(zeCommandListAppendMemoryCopy(list, memory, aligned + page - 64, 128, NULL, 0,
                                                NULL),
                  ZE_RESULT_ERROR_INVALID_ARGUMENT);
        }
        CHECK_OK(zeVirtualMemFree(context, p, page));
    }
}

int main(void)
{
    test_start();
    memory = alloc_device(SIZE);
    check_places();
    check_mapped_again();
    check_read_only();
    check_gone();
    check_many();
    check_partly_ours();
    CHECK_OK(zeMemFree(context, memory));
    return test_end();
}
