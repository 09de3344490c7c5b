/* Level Zero for the benchmarks: one device, buffers made of physical objects, copies to and from
 * them. The CPU never touches device memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_BENCH_DEVICE_H
#define ZR_BENCH_DEVICE_H

#include "options.h"

#include <level_zero/ze_api.h>
#include <stdint.h>

#define ZR_ZE_STAGING ((size_t)4 << 20)
#define ZR_ZE_MAX_ENGINES 64

struct zr_ze {
    ze_driver_handle_t       driver;
    ze_device_handle_t       device;
    ze_context_handle_t      context;
    ze_command_list_handle_t list;    /* immediate, synchronous, of a copy group */
    void                    *staging; /* ZR_ZE_STAGING bytes of host memory */
    void                    *completed_batches; /* zrDeviceGetCompletedBatches or NULL */
};

/* The first GPU. @return 0, or -1 with the reason in @a error. */
int  zr_ze_open(struct zr_ze *ze, char *error, size_t error_size);
void zr_ze_close(struct zr_ze *ze);
/* Batches each copy engine completed so far. @return number of engines, 0 if nobody counts. */
unsigned zr_ze_completed(struct zr_ze *ze, uint64_t batches[ZR_ZE_MAX_ENGINES]);

struct zr_object {
    ze_physical_mem_handle_t memory;
    size_t                   start, length; /* the part of the buffer it backs */
    size_t                   offset;        /* where in the object that part begins */
};

/*   base                                                             base + size
 *   |== object 0 ==|=== object 1 ===|== object 2 ==|== object 3 ==|
 *        guard . . . . [~~~~~~~ message ~~~~~~~) . . . guard
 */
struct zr_buffer {
    struct zr_ze     *ze; /* NULL: host memory */
    unsigned char    *base;
    size_t            size;
    size_t            page;
    unsigned          count; /* of objects; 0: one allocation */
    struct zr_object *objects;
    bool              offset_set;
    size_t            offset; /* of a message in a page */
};

/**
 * A buffer for messages up to options->max_size as @a rank is to have it.
 * @param ze  NULL for host memory.
 * @return 0, or -1 with the reason in @a error.
 */
int  zr_buffer_create(struct zr_ze *ze, const struct zr_bench_options *options, int rank,
                      struct zr_buffer *buffer, char *error, size_t error_size);
void zr_buffer_destroy(struct zr_buffer *buffer);

/* Where a message of @a length bytes begins, in bytes from the base: across an edge between
 * objects where there is one and the message has two bytes, never in the first or last 4 KiB. */
size_t zr_buffer_place(const struct zr_buffer *buffer, size_t length);
/* Index of the object behind a byte of the buffer. */
unsigned zr_buffer_object_at(const struct zr_buffer *buffer, size_t start);

/* Copy between the staging memory or any host memory and the buffer. @return 0 or -1, said. */
int zr_buffer_write(struct zr_buffer *buffer, size_t start, const void *from, size_t length);
int zr_buffer_read(struct zr_buffer *buffer, size_t start, void *to, size_t length);

#endif
