/* What the Level Zero client tests share: a device through the stock loader, memory made of
 * objects, copies through staging memory, a second process with a few commands. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_TEST_ZE_COMMON_H
#define ZR_TEST_ZE_COMMON_H

#include <level_zero/ze_api.h>
#include <zerange/zerange.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

extern ze_driver_handle_t       driver;
extern ze_device_handle_t       device;
extern ze_context_handle_t      context;
extern ze_command_list_handle_t list;    /* immediate, synchronous */
extern size_t                   page;    /* smallest of the device */
extern uint32_t                 ordinal; /* of the command queue group used */
extern unsigned                 failures;

/* Sets the above; the test is skipped (77) where there is no device. */
void test_start(void);
/* 0 or 1, with a line that counts. */
int test_end(void);

/* Count and print a difference; true if there is none. */
bool check_result(const char *file, int line, const char *what, ze_result_t got, ze_result_t want);
bool check_value(const char *file, int line, const char *what, uint64_t got, uint64_t want);
#define CHECK(call, want) check_result(__FILE__, __LINE__, #call, call, want)
#define CHECK_OK(call) CHECK(call, ZE_RESULT_SUCCESS)
#define CHECK_EQ(got, want) check_value(__FILE__, __LINE__, #got, (uint64_t)(got), (uint64_t)(want))
#define CHECK_TRUE(x) check_value(__FILE__, __LINE__, #x, !!(x), 1)
/* The test cannot go on without. */
#define NEED(call)                                                                            \
    do {                                                                                      \
        if (!CHECK_OK(call)) {                                                                \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

/* ---- memory ---- */

ze_physical_mem_handle_t make_object(size_t size);
void map_object(void *at, size_t length, ze_physical_mem_handle_t object, size_t offset);
void *reserve(size_t size);
void *alloc_device(size_t size);
void *alloc_host(size_t size);
void *alloc_shared(size_t size);

/* Copy through the device; host memory on the other side may be any. */
void write_memory(void *to, const void *from, size_t length);
void read_memory(void *to, const void *from, size_t length);
/* Byte number @a place of the pattern of @a seed, and many of them. */
unsigned char pattern_byte(unsigned seed, size_t place);
void fill_pattern(unsigned char *to, size_t length, unsigned seed);

/* A buffer of three objects in two reservations that touch:
 *   pages  0    1    2    3    4    5
 *        |A0   A1 |B1  |C1  |C2   C3 |      A of 2 pages, B of 3, C of 5 mapped in two pieces
 *        |<-- reservation -->|<------>|
 */
struct spread {
    unsigned char           *base;
    size_t                   size; /* 6 pages */
    ze_physical_mem_handle_t objects[3];
    void                    *reservations[2];
    size_t                   reserved[2];
};
/* @a spare pages behind it are left unreserved. */
void spread_make(struct spread *s, size_t spare);
/* Unmap and destroy; the reservations go only with @a reservations. */
void spread_drop(struct spread *s, bool reservations);

/* ---- the second process: this program again, with "peer" as its argument ---- */

struct peer_import {
    ze_result_t opened;    /* of zeMemOpenIpcHandle */
    ze_result_t range;     /* of zeMemGetAddressRange on the pointer */
    ze_result_t range_in;  /* the same from its last byte */
    int64_t     base, base_in; /* what they said, relative to the pointer */
    uint64_t    size, size_in;
    uint32_t    type;      /* of zeMemGetAllocProperties */
    uint64_t    id;
    int32_t     faults;    /* CPU accesses that raised SIGSEGV, of two */
};

/* Call first in main: does not return in the second process. */
void peer_main(int argc, char **argv);
void peer_start(void);
void peer_stop(void);
/* Open a handle and keep it open as number @a slot (0 to 15). */
struct peer_import peer_open(unsigned slot, ze_ipc_mem_handle_t handle);
/* Copy from the imported memory, or to it, in the second process. */
void peer_read(unsigned slot, size_t offset, void *to, size_t length);
void peer_write(unsigned slot, size_t offset, const void *from, size_t length);
ze_result_t peer_close(unsigned slot);

/* Number of SIGSEGV raised by reading and by writing the byte at @a at: 0 to 2. */
int cpu_faults(void *at);

#endif
