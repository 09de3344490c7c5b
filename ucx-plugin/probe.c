/* What a driver's handles are good for is tried, not believed: a small range of three mappings, the
 * first shorter than its object, the last in another reservation, is exported, opened here and
 * read; and the handle of a mapping that begins inside its object shows where opening it leads. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

#include "abi/uct_abi.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct zr_probe the_probe;
static pthread_once_t  once = PTHREAD_ONCE_INIT;
static __thread bool   inside;

bool zr_probing(void)
{
    return inside;
}

/* A reservation of whole pages with objects in it. */
struct range {
    char                    *va, *second_va; /* the second reservation, behind the first */
    size_t                   page;
    ze_physical_mem_handle_t objects[3];
    unsigned                 mapped; /* bits of pages */
};

struct tools {
    const struct zr_ze      *ze;
    ze_command_list_handle_t list;
    uint8_t                 *bytes; /* four pages of host memory */
};

static bool object_create(const struct zr_ze *ze, size_t size, ze_physical_mem_handle_t *object_p)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC,
                                   .flags = ZE_PHYSICAL_MEM_FLAG_ALLOCATE_ON_DEVICE,
                                   .size  = size};

    return zePhysicalMemCreate(ze->context, ze->device, &desc, object_p) == ZE_RESULT_SUCCESS;
}

static bool map_page(const struct tools *t, struct range *range, unsigned page, unsigned object,
                     size_t offset)
{
    if (zeVirtualMemMap(t->ze->context, range->va + page * range->page, range->page,
                        range->objects[object], offset,
                        ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE) != ZE_RESULT_SUCCESS) {
        return false;
    }
    range->mapped |= 1u << page;
    return true;
}

static void unmap_page(const struct tools *t, struct range *range, unsigned page)
{
    if (range->mapped & (1u << page)) {
        zeVirtualMemUnmap(t->ze->context, range->va + page * range->page, range->page);
        range->mapped &= ~(1u << page);
    }
}

static bool fill(const struct tools *t, char *at, uint8_t byte, size_t size)
{
    memset(t->bytes, byte, size);
    return zeCommandListAppendMemoryCopy(t->list, at, t->bytes, size, NULL, 0, NULL) ==
           ZE_RESULT_SUCCESS;
}

/* The device's view of [at, at+size). */
static bool read_back(const struct tools *t, const void *at, size_t size)
{
    memset(t->bytes, 0xEE, size);
    return zeCommandListAppendMemoryCopy(t->list, t->bytes, at, size, NULL, 0, NULL) ==
           ZE_RESULT_SUCCESS;
}

static bool all_are(const uint8_t *bytes, size_t size, uint8_t want)
{
    size_t k;

    for (k = 0; k < size; k++) {
        if (bytes[k] != want) {
            return false;
        }
    }
    return true;
}

/* Two reservations without a gap, one of two pages and one of one; or one of three where the
 * driver gives addresses it likes better. */
static bool reserve(const struct tools *t, struct range *range)
{
    ze_context_handle_t context = t->ze->context;
    void               *whole, *first, *second;

    if (zeVirtualMemQueryPageSize(context, t->ze->device, 65536, &range->page) !=
            ZE_RESULT_SUCCESS ||
        zeVirtualMemReserve(context, NULL, 3 * range->page, &whole) != ZE_RESULT_SUCCESS) {
        return false;
    }
    zeVirtualMemFree(context, whole, 3 * range->page);
    if (zeVirtualMemReserve(context, whole, 2 * range->page, &first) == ZE_RESULT_SUCCESS) {
        if (zeVirtualMemReserve(context, (char *)first + 2 * range->page, range->page, &second) ==
            ZE_RESULT_SUCCESS) {
            if ((char *)second == (char *)first + 2 * range->page) {
                range->va        = first;
                range->second_va = second;
                return true;
            }
            zeVirtualMemFree(context, second, range->page);
        }
        zeVirtualMemFree(context, first, 2 * range->page);
    }
    if (zeVirtualMemReserve(context, NULL, 3 * range->page, &whole) != ZE_RESULT_SUCCESS) {
        return false;
    }
    range->va = whole;
    return true;
}

static void range_clear(const struct tools *t, struct range *range)
{
    unsigned k;

    for (k = 0; k < 3; k++) {
        unmap_page(t, range, k);
    }
    for (k = 0; k < 3; k++) {
        if (range->objects[k] != NULL) {
            zePhysicalMemDestroy(t->ze->context, range->objects[k]);
        }
    }
    if (range->second_va != NULL) {
        zeVirtualMemFree(t->ze->context, range->second_va, range->page);
        zeVirtualMemFree(t->ze->context, range->va, 2 * range->page);
    } else if (range->va != NULL) {
        zeVirtualMemFree(t->ze->context, range->va, 3 * range->page);
    }
}

/* @return NULL, or what is wrong with what was opened. */
static const char *check_opened(const struct tools *t, void *opened, size_t page)
{
    void    *base;
    size_t   size;
    unsigned k;

    if (zeMemGetAddressRange(t->ze->context, opened, &base, &size) != ZE_RESULT_SUCCESS ||
        base != opened || size != 3 * page) {
        return "the import's address range is not what was exported";
    }
    if (!read_back(t, opened, 3 * page)) {
        return "the import cannot be read";
    }
    for (k = 0; k < 3; k++) {
        if (!all_are(t->bytes + k * page, page, (uint8_t)(0x11 * (k + 1)))) {
            return k == 0 ? "wrong bytes in a mapping"
                          : "wrong bytes behind a mapping shorter than its object";
        }
    }
    return NULL;
}

static const char *try_range(const struct tools *t, struct range *range)
{
    ze_ipc_phys_mem_handle_range_ext_desc_t desc = {
        .stype = ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC, .size = 3 * range->page};
    ze_context_handle_t context = t->ze->context;
    ze_ipc_mem_handle_t handle;
    const char         *wrong;
    void               *opened;

    if (zeMemGetIpcHandleWithProperties(context, range->va, &desc, &handle) !=
        ZE_RESULT_SUCCESS) {
        return range->second_va != NULL ? "a range over two reservations cannot be exported"
                                        : "a range cannot be exported";
    }
    if (zeMemOpenIpcHandle(context, t->ze->device, handle, 0, &opened) != ZE_RESULT_SUCCESS) {
        wrong = "a range cannot be opened";
    } else {
        wrong = check_opened(t, opened, range->page);
        zeMemCloseIpcHandle(context, opened);
    }
    zeMemPutIpcHandle(context, handle);
    return wrong;
}

static const char *probe_range(const struct tools *t, struct range *range)
{
    unsigned k;

    for (k = 0; k < 3; k++) {
        if (!object_create(t->ze, (k == 0 ? 2 : 1) * range->page, &range->objects[k]) ||
            !map_page(t, range, k, k, 0) ||
            !fill(t, range->va + k * range->page, (uint8_t)(0x11 * (k + 1)), range->page)) {
            return "no memory to try it with";
        }
    }
    return try_range(t, range);
}

/* Object 0 has two pages: its second one is shown alone. */
static enum zr_piece_base probe_piece(const struct tools *t, struct range *range)
{
    ze_context_handle_t context = t->ze->context;
    enum zr_piece_base  base    = ZR_PIECE_UNKNOWN;
    ze_ipc_mem_handle_t handle;
    void               *opened;

    unmap_page(t, range, 0);
    if (!map_page(t, range, 0, 0, range->page) || !fill(t, range->va, 0x55, range->page) ||
        zeMemGetIpcHandle(context, range->va, &handle) != ZE_RESULT_SUCCESS) {
        return base;
    }
    if (zeMemOpenIpcHandle(context, t->ze->device, handle, 0, &opened) == ZE_RESULT_SUCCESS) {
        if (read_back(t, opened, range->page)) {
            base = all_are(t->bytes, range->page, 0x11)   ? ZR_PIECE_OBJECT
                   : all_are(t->bytes, range->page, 0x55) ? ZR_PIECE_MAPPING
                                                          : ZR_PIECE_UNKNOWN;
        }
        zeMemCloseIpcHandle(context, opened);
    }
    zeMemPutIpcHandle(context, handle);
    return base;
}

static void run(void)
{
    const struct zr_ze     *ze    = zr_ze_get();
    ze_command_queue_desc_t queue = {.stype   = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                     .ordinal = ze->copy_group,
                                     .mode    = ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS};
    struct tools            t     = {.ze = ze};
    struct range            range = {0};
    const char             *wrong = "no memory to try it with";

    inside = true;
    if (zeCommandListCreateImmediate(ze->context, ze->device, &queue, &t.list) !=
        ZE_RESULT_SUCCESS) {
        goto out;
    }
    if (!reserve(&t, &range)) {
        goto out_list;
    }
    t.bytes = malloc(4 * range.page);
    if (t.bytes == NULL) {
        goto out_range;
    }
    wrong           = probe_range(&t, &range);
    the_probe.piece = probe_piece(&t, &range);
    free(t.bytes);
out_range:
    range_clear(&t, &range);
out_list:
    zeCommandListDestroy(t.list);
out:
    inside = false;
    if (!ze->range_ext) {
        wrong = "the driver has no extension " ZE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_NAME;
    }
    the_probe.range = wrong == NULL;
    if (wrong != NULL) {
        snprintf(the_probe.why, sizeof(the_probe.why), "%s", wrong);
        zr_ucs_warn("ranges of several objects are shared as one handle for each mapping: %s",
                    wrong);
    }
}

const struct zr_probe *zr_probe(const struct zr_ze *ze)
{
    pthread_once(&once, run);
    return &the_probe;
}
