/* The ways to share memory between processes: one handle for a range of mapped objects where the
 * driver's extension is right, one handle for a plain allocation, one for each mapping elsewhere. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

#include "trace.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* UCP registers up to this multiple, which may lie behind the end of an allocation. */
#define UCP_ALIGNMENT 16

#define MAX_NEIGHBOURS 1024  /* looked at; each costs two cheap queries */
#define MAX_PIECES     65536 /* of one export */

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

/* Only reserved addresses have an access attribute of their own. */
static bool is_mapping(const struct zr_ze *ze, uint64_t base, uint64_t end)
{
    ze_memory_access_attribute_t access;
    size_t                       size;

    return zeVirtualMemGetAccessAttribute(ze->context, (void *)(uintptr_t)base, end - base,
                                          &access, &size) == ZE_RESULT_SUCCESS;
}

/* ---- how far an export goes ---- */

/* An extent does not cross these: the edges of the reservations, and every @a limit bytes inside
 * one, so that a new object somewhere renews a bounded part only. Where no edge is known nothing
 * in front is taken, as an export ends when its first address is freed. */
static void edges(const struct zr_ze *ze, uint64_t limit, uint64_t start, uint64_t end,
                  uint64_t *low_p, uint64_t *high_p)
{
    uint64_t low, top, last_low, last_top;

    if (!zr_ze_reservation(ze, start, &low, &top) ||
        !zr_ze_reservation(ze, end - 1, &last_low, &last_top)) {
        *low_p  = start;
        *high_p = limit < UINT64_MAX - start ? start + limit : UINT64_MAX;
        return;
    }
    *low_p  = low + (start - low) / limit * limit;
    *high_p = last_top;
    if (limit < last_top - last_low) {
        uint64_t blocks = (end - 1 - last_low) / limit + 1;

        *high_p = blocks < (last_top - last_low) / limit + 1 ? last_low + blocks * limit : last_top;
        *high_p = *high_p < last_top ? *high_p : last_top;
    }
}

/* Widen [*start_p, *end_p) to whole mappings, and over the device memory around them that lies
 * wholly between the edges. */
static void widen(const struct zr_ze *ze, uint64_t limit, uint64_t *start_p, uint64_t *end_p)
{
    uint64_t start, end, base, top, low, high;
    unsigned steps;

    if (limit == 0 || !address_range(ze, *start_p, &start, &top) ||
        !address_range(ze, *end_p - 1, &base, &end) || end - start > limit) {
        return;
    }
    edges(ze, limit, start, end, &low, &high);
    for (steps = 0; steps < MAX_NEIGHBOURS && start > low &&
                    address_range(ze, start - 1, &base, &top) && top == start && base >= low &&
                    device_memory(ze, base);
         steps++) {
        start = base;
    }
    for (steps = 0; steps < MAX_NEIGHBOURS && end < high && address_range(ze, end, &base, &top) &&
                    base == end && top <= high && device_memory(ze, end);
         steps++) {
        end = top;
    }
    *start_p = start;
    *end_p   = end;
}

/* ---- handles that travel by themselves, and those that need their fd beside them ---- */

int zr_share_fd(const uint8_t *handle)
{
    char    path[40], name[64];
    ssize_t n;
    int     fd;

    memcpy(&fd, handle, sizeof(fd));
    if (fd < 0) {
        return -1;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    n = readlink(path, name, sizeof(name) - 1);
    if (n <= 0) {
        return -1;
    }
    name[n] = '\0';
    /* Another number that happens to be open stays here. */
    return strncmp(name, "/dmabuf", 7) == 0 || strncmp(name, "/memfd:", 7) == 0 ||
                   strncmp(name, "anon_inode:dmabuf", 17) == 0
               ? fd
               : -1;
}

static ze_result_t new_pieces(struct zr_share *share)
{
    share->kind = ZR_SHARE_PIECES;
    if (getrandom(share->handle.data, sizeof(share->handle.data), 0) !=
        (ssize_t)sizeof(share->handle.data)) {
        return ZE_RESULT_ERROR_UNKNOWN;
    }
    return ZE_RESULT_SUCCESS;
}

static ze_result_t add_piece(struct zr_share *share, uint64_t start, uint64_t length,
                             uint64_t offset, const ze_ipc_mem_handle_t *handle)
{
    struct zr_piece *piece;

    if ((share->count & (share->count - 1)) == 0) {
        size_t room = share->count == 0 ? 1 : 2 * (size_t)share->count;

        piece = realloc(share->pieces, room * sizeof(*piece));
        if (piece == NULL) {
            return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
        }
        share->pieces = piece;
    }
    piece  = &share->pieces[share->count++];
    *piece = (struct zr_piece){.start = start, .length = length, .offset = offset};
    memcpy(piece->handle, handle->data, sizeof(piece->handle));
    return ZE_RESULT_SUCCESS;
}

/* One handle of a driver that sends no fd along by itself: as a share of one piece. */
static ze_result_t give_fd_along(const struct zr_ze *ze, struct zr_share *share)
{
    ze_ipc_mem_handle_t handle = share->handle;
    ze_result_t         result;

    if (ze->ours || zr_share_fd((const uint8_t *)handle.data) < 0) {
        return ZE_RESULT_SUCCESS;
    }
    result = add_piece(share, share->base, share->size, 0, &handle);
    return result == ZE_RESULT_SUCCESS ? new_pieces(share) : result;
}

/* ---- the range extension ---- */

static ze_result_t range_export_exactly(const struct zr_ze *ze, uint64_t start, uint64_t end,
                                        struct zr_share *share)
{
    ze_ipc_phys_mem_handle_range_ext_desc_t desc = {
        .stype = ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC, .size = end - start};
    ze_result_t result;

    result = zeMemGetIpcHandleWithProperties(ze->context, (void *)(uintptr_t)start, &desc,
                                             &share->handle);
    if (result == ZE_RESULT_SUCCESS) {
        share->base = start;
        share->size = end - start;
    }
    return result;
}

static ze_result_t range_export(const struct zr_ze *ze, uint64_t ptr, uint64_t size,
                                uint64_t limit, struct zr_share *share)
{
    uint64_t start = ptr, end = ptr + size;

    if (!zr_probe(ze)->range) {
        return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    }
    widen(ze, limit, &start, &end);
    /* What lies beside may not be a mapping, or more objects than the driver can carry. */
    if ((start != ptr || end != ptr + size) &&
        range_export_exactly(ze, start, end, share) == ZE_RESULT_SUCCESS) {
        return ZE_RESULT_SUCCESS;
    }
    return range_export_exactly(ze, ptr, ptr + size, share);
}

/* ---- a plain allocation ---- */

static ze_result_t plain_export(const struct zr_ze *ze, uint64_t ptr, uint64_t size,
                                uint64_t limit, struct zr_share *share)
{
    uint64_t    base, end;
    ze_result_t result;

    if (!address_range(ze, ptr, &base, &end)) {
        return ZE_RESULT_ERROR_ADDRESS_NOT_FOUND;
    }
    if (is_mapping(ze, base, end)) {
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    if (size > end - ptr && size - (end - ptr) >= UCP_ALIGNMENT) {
        return ZE_RESULT_ERROR_INVALID_SIZE;
    }
    result = zeMemGetIpcHandle(ze->context, (void *)(uintptr_t)base, &share->handle);
    if (result == ZE_RESULT_SUCCESS) {
        share->base = base;
        share->size = end - base;
    }
    return result;
}

/* ---- one handle for each mapping ---- */

/* How far behind what opening gives the mapping begins. */
static uint64_t piece_offset(const struct zr_ze *ze, uint64_t base, uint64_t end)
{
    uint64_t start, top, offset;

    switch (zr_probe(ze)->piece) {
    case ZR_PIECE_MAPPING:
        return 0;
    case ZR_PIECE_OBJECT:
        if (zr_trace_mapping(base, &start, &top, &offset) && start == base && top == end) {
            return offset;
        }
        return ZR_OFFSET_UNKNOWN;
    default:
        return ZR_OFFSET_UNKNOWN;
    }
}

static ze_result_t pieces_export(const struct zr_ze *ze, uint64_t ptr, uint64_t size,
                                 uint64_t limit, struct zr_share *share)
{
    uint64_t            start = ptr, end = ptr + size, base, top;
    ze_ipc_mem_handle_t handle;
    ze_result_t         result = ZE_RESULT_SUCCESS;

    widen(ze, limit, &start, &end);
    if (!address_range(ze, start, &base, &top)) {
        return ZE_RESULT_ERROR_ADDRESS_NOT_FOUND;
    }
    share->base = base;
    while (base < end && result == ZE_RESULT_SUCCESS) {
        if (share->count == MAX_PIECES) {
            return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
        }
        result = zeMemGetIpcHandle(ze->context, (void *)(uintptr_t)base, &handle);
        if (result == ZE_RESULT_SUCCESS) {
            result = add_piece(share, base, top - base,
                               is_mapping(ze, base, top) ? piece_offset(ze, base, top) : 0,
                               &handle);
            if (result != ZE_RESULT_SUCCESS) {
                zeMemPutIpcHandle(ze->context, handle);
            }
        }
        share->size = top - share->base;
        if (top >= end) {
            break;
        }
        start = top;
        if (!address_range(ze, start, &base, &top) || base != start) {
            result = end - start < UCP_ALIGNMENT ? result : ZE_RESULT_ERROR_ADDRESS_NOT_FOUND;
            break;
        }
    }
    return result == ZE_RESULT_SUCCESS ? new_pieces(share) : result;
}

/* Tried in order. */
static const struct {
    const char        *name;
    enum zr_share_kind kind;
    ze_result_t (*export)(const struct zr_ze *ze, uint64_t ptr, uint64_t size, uint64_t limit,
                          struct zr_share *share);
} ways[] = {
    {"range", ZR_SHARE_RANGE, range_export},
    {"plain", ZR_SHARE_PLAIN, plain_export},
    {"pieces", ZR_SHARE_PIECES, pieces_export},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static const char *reason(const struct zr_ze *ze, unsigned way, ze_result_t result)
{
    if (ways[way].kind == ZR_SHARE_RANGE && !zr_probe(ze)->range) {
        return zr_probe(ze)->why;
    }
    if (ways[way].kind == ZR_SHARE_PLAIN && result == ZE_RESULT_ERROR_INVALID_ARGUMENT) {
        return "not one allocation";
    }
    return zr_ze_last_error(ze);
}

ze_result_t zr_share_export(const struct zr_ze *ze, uint64_t ptr, uint64_t size, uint64_t limit,
                            struct zr_share *share, char *why, size_t why_size)
{
    ze_result_t result = ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    size_t      used   = 0;
    unsigned    k;

    for (k = 0; k < WAYS; k++) {
        memset(share, 0, sizeof(*share));
        share->kind = ways[k].kind;
        result      = ways[k].export(ze, ptr, size, limit, share);
        if (result == ZE_RESULT_SUCCESS && share->kind != ZR_SHARE_PIECES) {
            result = give_fd_along(ze, share);
        }
        if (result == ZE_RESULT_SUCCESS) {
            return result;
        }
        zr_share_release(ze, share);
        if (used < why_size) {
            used += snprintf(why + used, why_size - used, "%s%s: 0x%x %s", k > 0 ? "; " : "",
                             ways[k].name, (unsigned)result, reason(ze, k, result));
        }
    }
    return result;
}

void zr_share_release(const struct zr_ze *ze, struct zr_share *share)
{
    ze_ipc_mem_handle_t handle;
    unsigned            k;

    if ((share->kind == ZR_SHARE_RANGE || share->kind == ZR_SHARE_PLAIN) && share->size != 0) {
        zeMemPutIpcHandle(ze->context, share->handle);
    }
    for (k = 0; k < share->count; k++) {
        memcpy(handle.data, share->pieces[k].handle, sizeof(share->pieces[k].handle));
        zeMemPutIpcHandle(ze->context, handle);
    }
    free(share->pieces);
    memset(share, 0, sizeof(*share));
}

/* ---- opening ---- */

/* Drivers differ in who closes the fd of a handle: close it if it still is what it was. */
static void close_if_same(int fd, const struct stat *was)
{
    struct stat now;

    if (fstat(fd, &now) == 0 && now.st_ino == was->st_ino && now.st_dev == was->st_dev) {
        close(fd);
    }
}

/* @a fd takes the place of the handle's first four bytes and is gone afterwards. */
static ze_result_t open_handle(const struct zr_ze *ze, const uint8_t *bytes, int fd, void **ptr_p)
{
    ze_ipc_mem_handle_t handle;
    struct stat         was;
    ze_result_t         result;

    memcpy(handle.data, bytes, sizeof(handle.data));
    if (fd >= 0) {
        memcpy(handle.data, &fd, sizeof(fd));
        if (fstat(fd, &was) != 0) {
            return ZE_RESULT_ERROR_INVALID_ARGUMENT;
        }
    }
    result = zeMemOpenIpcHandle(ze->context, ze->device, handle, 0, ptr_p);
    if (fd >= 0) {
        close_if_same(fd, &was);
    }
    return result;
}

/* A driver that opens less than was exported would give wrong bytes beyond; one that opens more
 * may have begun elsewhere. */
static bool piece_fits(const struct zr_ze *ze, const struct zr_piece *piece, void *opened)
{
    uint64_t base, end;

    if (!address_range(ze, (uintptr_t)opened, &base, &end)) {
        return false;
    }
    if (piece->offset == ZR_OFFSET_UNKNOWN) {
        return base == (uintptr_t)opened && end - base == piece->length;
    }
    return end - (uintptr_t)opened >= piece->length &&
           piece->offset <= end - (uintptr_t)opened - piece->length;
}

static ze_result_t open_piece(const struct zr_ze *ze, const struct zr_piece *piece, int fd,
                              struct zr_opened *opened)
{
    unsigned    k = opened->count;
    void       *ptr;
    ze_result_t result = open_handle(ze, piece->handle, fd, &ptr);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    if (!piece_fits(ze, piece, ptr)) {
        zeMemCloseIpcHandle(ze->context, ptr);
        return ZE_RESULT_ERROR_INVALID_SIZE;
    }
    opened->pieces[k].start  = piece->start;
    opened->pieces[k].end    = piece->start + piece->length;
    opened->pieces[k].opened = ptr;
    opened->pieces[k].at =
        (char *)ptr + (piece->offset != ZR_OFFSET_UNKNOWN ? piece->offset : 0);
    opened->count++;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_share_open(const struct zr_ze *ze, const struct zr_share *share, const int *fds,
                          struct zr_opened **opened_p)
{
    struct zr_piece        single = {.start = share->base, .length = share->size};
    const struct zr_piece *pieces = share->pieces;
    unsigned               count  = share->kind == ZR_SHARE_PIECES ? share->count : 1, k;
    struct zr_opened      *opened;
    ze_result_t            result = ZE_RESULT_SUCCESS;

    if (share->kind != ZR_SHARE_PIECES) {
        memcpy(single.handle, share->handle.data, sizeof(single.handle));
        pieces = &single;
    }
    opened = calloc(1, sizeof(*opened) + count * sizeof(opened->pieces[0]));
    if (opened == NULL) {
        result = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    for (k = 0; k < count; k++) {
        int fd = share->kind == ZR_SHARE_PIECES && fds != NULL ? fds[k] : -1;

        if (result == ZE_RESULT_SUCCESS) {
            result = open_piece(ze, &pieces[k], fd, opened);
        } else if (fd >= 0) {
            close(fd);
        }
    }
    if (result != ZE_RESULT_SUCCESS) {
        if (opened != NULL) {
            zr_share_close(ze, opened);
        }
        return result;
    }
    *opened_p = opened;
    return ZE_RESULT_SUCCESS;
}

void zr_share_close(const struct zr_ze *ze, struct zr_opened *opened)
{
    unsigned k;

    for (k = 0; k < opened->count; k++) {
        zeMemCloseIpcHandle(ze->context, opened->pieces[k].opened);
    }
    free(opened);
}

char *zr_opened_at(const struct zr_opened *opened, uint64_t remote, uint64_t *length_p)
{
    unsigned low = 0, high = opened->count - 1, middle;

    while (low < high) {
        middle = low + (high - low) / 2;
        if (opened->pieces[middle].end <= remote) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *length_p = opened->pieces[low].end - remote;
    return opened->pieces[low].at + (remote - opened->pieces[low].start);
}
