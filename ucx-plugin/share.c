/* The ways to share memory between processes: one handle for a range of mapped objects where the
 * driver has the extension, one handle for a plain allocation. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

#include <stdio.h>
#include <string.h>

/* UCP registers up to this multiple, which may lie behind the end of an allocation. */
#define UCP_ALIGNMENT 16

#define MAX_NEIGHBOURS 64 /* looked at; each costs two cheap queries */

static bool address_range(const struct zr_ze *ze, uint64_t ptr, uint64_t *base_p, uint64_t *end_p)
{
    void  *base;
    size_t size;

    if (zeMemGetAddressRange(ze->context, (void *)(uintptr_t)ptr, &base, &size) !=
            ZE_RESULT_SUCCESS ||
        size == 0) {
        return false;
    }
    *base_p = (uintptr_t)base;
    *end_p  = *base_p + size;
    return true;
}

static bool device_memory(const struct zr_ze *ze, uint64_t ptr)
{
    return zr_ze_memory_type(ze, (void *)(uintptr_t)ptr, NULL) == ZE_MEMORY_TYPE_DEVICE;
}

/* Widen [*start_p, *end_p) to whole mappings and over device memory that follows. Not over what is
 * in front: that may be another reservation, and an export ends when its first address is freed. */
static void widen(const struct zr_ze *ze, uint64_t limit, uint64_t *start_p, uint64_t *end_p)
{
    uint64_t start = *start_p, end = *end_p, base, top;
    unsigned steps;

    if (!address_range(ze, start, &base, &top) || *end_p - base > limit) {
        return;
    }
    start = base;
    if (!address_range(ze, end - 1, &base, &top) || top - start > limit) {
        return;
    }
    end = top;
    for (steps = 0; steps < MAX_NEIGHBOURS && address_range(ze, end, &base, &top) &&
                    base == end && top - start <= limit && device_memory(ze, end);
         steps++) {
        end = top;
    }
    *start_p = start;
    *end_p   = end;
}

static ze_result_t open_handle(const struct zr_ze *ze, const struct zr_share *share, void **ptr_p)
{
    uint64_t    base = 0, end = 0;
    void       *ptr;
    ze_result_t result;

    result = zeMemOpenIpcHandle(ze->context, ze->device, share->handle, 0, &ptr);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    /* A driver that opens less than was exported would give wrong bytes beyond. */
    if (!address_range(ze, (uintptr_t)ptr, &base, &end) ||
        end - (uintptr_t)ptr < share->size) {
        zeMemCloseIpcHandle(ze->context, ptr);
        return ZE_RESULT_ERROR_INVALID_SIZE;
    }
    *ptr_p = ptr;
    return ZE_RESULT_SUCCESS;
}

/* ---- the range extension ---- */

static bool range_usable(const struct zr_ze *ze)
{
    return ze->range_ext;
}

static ze_result_t range_export_exactly(const struct zr_ze *ze, uint64_t start, uint64_t end,
                                        struct zr_share *share)
{
    ze_ipc_phys_mem_handle_range_ext_desc_t desc = {
        .stype = ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC, .size = end - start};
    ze_ipc_mem_handle_t handle;
    ze_result_t         result;

    result = zeMemGetIpcHandleWithProperties(ze->context, (void *)(uintptr_t)start, &desc,
                                             &handle);
    if (result == ZE_RESULT_SUCCESS) {
        share->base   = start;
        share->size   = end - start;
        share->handle = handle;
    }
    return result;
}

static ze_result_t range_export(const struct zr_ze *ze, uint64_t ptr, uint64_t size,
                                uint64_t limit, struct zr_share *share)
{
    uint64_t start = ptr, end = ptr + size;

    widen(ze, limit, &start, &end);
    /* What lies beside may not be a mapping, or more objects than the driver can carry. */
    if ((start != ptr || end != ptr + size) &&
        range_export_exactly(ze, start, end, share) == ZE_RESULT_SUCCESS) {
        return ZE_RESULT_SUCCESS;
    }
    return range_export_exactly(ze, ptr, ptr + size, share);
}

/* ---- a plain allocation ---- */

static bool plain_usable(const struct zr_ze *ze)
{
    return true;
}

static ze_result_t plain_export(const struct zr_ze *ze, uint64_t ptr, uint64_t size,
                                uint64_t limit, struct zr_share *share)
{
    uint64_t            base, end;
    ze_ipc_mem_handle_t handle;
    ze_result_t         result;

    if (!address_range(ze, ptr, &base, &end)) {
        return ZE_RESULT_ERROR_ADDRESS_NOT_FOUND;
    }
    if (size > end - ptr && size - (end - ptr) >= UCP_ALIGNMENT) {
        return ZE_RESULT_ERROR_INVALID_SIZE;
    }
    result = zeMemGetIpcHandle(ze->context, (void *)(uintptr_t)base, &handle);
    if (result == ZE_RESULT_SUCCESS) {
        share->base   = base;
        share->size   = end - base;
        share->handle = handle;
    }
    return result;
}

static const struct zr_share_ops ways[] = {
    {"range", ZR_SHARE_RANGE, range_usable, range_export, open_handle},
    {"plain", ZR_SHARE_PLAIN, plain_usable, plain_export, open_handle},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

ze_result_t zr_share_export(const struct zr_ze *ze, uint64_t ptr, uint64_t size, uint64_t limit,
                            struct zr_share *share, char *why, size_t why_size)
{
    ze_result_t result = ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    size_t      used   = 0;
    unsigned    k;

    memset(share, 0, sizeof(*share));
    for (k = 0; k < WAYS; k++) {
        if (!ways[k].usable(ze)) {
            continue;
        }
        result = ways[k].export(ze, ptr, size, limit, share);
        if (result == ZE_RESULT_SUCCESS) {
            share->kind = ways[k].kind;
            break;
        }
        if (used < why_size) {
            used += snprintf(why + used, why_size - used, "%s%s: 0x%x %s", k > 0 ? "; " : "",
                             ways[k].name, (unsigned)result,
                             result == ZE_RESULT_ERROR_INVALID_SIZE ? "more than one allocation"
                                                                    : zr_ze_last_error(ze));
        }
    }
    return result;
}

void zr_share_release(const struct zr_ze *ze, const struct zr_share *share)
{
    if (share->kind != ZR_SHARE_NONE) {
        zeMemPutIpcHandle(ze->context, share->handle);
    }
}

ze_result_t zr_share_open(const struct zr_ze *ze, const struct zr_share *share, void **ptr_p)
{
    unsigned k;

    for (k = 0; k < WAYS; k++) {
        if (ways[k].kind == share->kind) {
            return ways[k].open(ze, share, ptr_p);
        }
    }
    return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
}

void zr_share_close(const struct zr_ze *ze, void *ptr)
{
    zeMemCloseIpcHandle(ze->context, ptr);
}
