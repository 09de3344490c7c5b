/* Level Zero as the Open MPI components use it: detection, copies, errors. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_OMPI_ZE_H
#define ZR_OMPI_ZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <level_zero/ze_api.h>

struct zr_acc_device {
    ze_device_handle_t       handle;
    uint32_t                 group; /* queue group that copies */
    ze_command_list_handle_t list;  /* immediate, in order; under lock */
    pthread_mutex_t          lock;
};

struct zr_acc {
    ze_driver_handle_t    driver;
    ze_context_handle_t   context;
    uint32_t              count;
    struct zr_acc_device *device;
    bool                  shares; /* the driver's handles open in another process by themselves */
};

/* What a pointer is. */
struct zr_acc_memory {
    ze_memory_type_t type; /* ZE_MEMORY_TYPE_UNKNOWN: the host's own */
    int              device;
    uint64_t         id;
    bool             reserved; /* no memory, but an address range set aside for it; our driver
                                  alone says so */
};

/**
 * The driver and its devices, started on first use.
 *
 * @return NULL where there is no Level Zero device; zr_acc_missing() says why
 */
const struct zr_acc *zr_acc_get(void);
const char          *zr_acc_missing(void);

/** Is ptr memory that the CPU cannot be sure to reach? Costs one look-up in the driver. */
bool zr_acc_query(const void *ptr, struct zr_acc_memory *memory);
static inline bool zr_acc_is_device(const void *ptr)
{
    struct zr_acc_memory memory;

    return zr_acc_query(ptr, &memory) && memory.type == ZE_MEMORY_TYPE_DEVICE;
}

/**
 * Copies and waits. Either side may be host memory; both sides being host memory is memcpy.
 *
 * @param size bytes
 * @return false after a message that names the copy and the driver's reason
 */
bool zr_acc_copy(void *dst, const void *src, size_t size);
/** The same where the two may overlap. */
bool zr_acc_move(void *dst, const void *src, size_t size);

/**
 * Host memory for copies to and from devices, kept for the next caller when it is given back: pages
 * that are there, and that the driver may still know.
 *
 * @return NULL: there is none
 */
void *zr_acc_host_get(size_t size);
void  zr_acc_host_put(void *ptr);
/** What is kept goes. */
void zr_acc_host_end(void);

/** An immediate in-order list on the copy group of a device. */
ze_result_t zr_acc_list_create(int device, ze_command_list_handle_t *list_p);

#endif
