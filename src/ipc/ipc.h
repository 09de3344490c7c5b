/* IPC handles: exports of ranges and of single objects, the exchange of object fds between
 * processes of one user, and imports. docs/ipc.md draws the handle and the table. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_IPC_H
#define ZR_IPC_H

#include "mem/mem.h"

/**
 * Export [ptr, ptr+range->length). The same ptr, length and generation give the same handle,
 * counted. Holds references on the objects until the last put or zr_ipc_forget.
 * @param generation from zr_range_walk
 * @param owner      the context: zr_ipc_owner_gone drops what it still holds
 * @return UNSUPPORTED_SIZE: more objects than the fd limits can carry; INVALID_SIZE: empty range;
 *         UNSUPPORTED_FEATURE: an object no dma-buf can carry, or no exchange; OUT_OF_HOST_MEMORY.
 */
ze_result_t zr_ipc_export_range(const void *ptr, const struct zr_range *range,
                                uint64_t generation, void *owner, ze_ipc_mem_handle_t *handle_p);
/** Export one object whole (USM or a physical memory handle): the handle's fd is the buffer
 * itself. @param ptr the key under which the same handle is given again
 * @param size bytes of it, from its first (INVALID_SIZE: 0, or more than it has)
 * @return UNSUPPORTED_FEATURE: no dma-buf can carry it; OUT_OF_HOST_MEMORY. */
ze_result_t zr_ipc_export_plain(const void *ptr, struct zr_phys *phys, uint64_t size,
                                ze_memory_type_t type, void *owner,
                                ze_ipc_mem_handle_t *handle_p);
/** Count down; an unknown handle succeeds. */
ze_result_t zr_ipc_put(const ze_ipc_mem_handle_t *handle);
/** Exports whose range starts at @a ptr are dropped (zeVirtualMemFree, zeMemFree). */
void zr_ipc_forget(const void *ptr);
void zr_ipc_owner_gone(void *owner);

/**
 * Open a handle on @a dev: fetch what is not known yet, give it one contiguous VA.
 * The first four bytes of a handle are an fd a client may have replaced by its own copy.
 * @return INVALID_ARGUMENT: not a handle, or a damaged one; OUT_OF_DEVICE_MEMORY,
 *         OUT_OF_HOST_MEMORY; DEVICE_LOST/UNKNOWN: the exporter is gone (zr_last_error says which
 *         methods were tried and why each failed).
 */
ze_result_t zr_ipc_open(struct zr_i915 *dev, const ze_ipc_mem_handle_t *handle, void **ptr_p);
/** @return INVALID_ARGUMENT: @a ptr is not what zr_ipc_open gave, or was closed */
ze_result_t zr_ipc_close(const void *ptr);

/* zeMemGetIpcHandleFromFileDescriptorExp and its reverse. The fd stays whose it is;
 * INVALID_ARGUMENT where it is neither a table nor a dma-buf, or not the handle's. */
ze_result_t zr_ipc_handle_from_fd(uint64_t fd, ze_ipc_mem_handle_t *handle_p);
ze_result_t zr_ipc_fd_from_handle(const ze_ipc_mem_handle_t *handle, uint64_t *fd_p);

struct zr_ipc_counts {
    uint64_t exports, imports, imported_objects;
};
void zr_ipc_counts(struct zr_ipc_counts *counts);
/* Stop the broker thread; called when the driver is unloaded. */
void zr_ipc_shutdown(void);

#endif
