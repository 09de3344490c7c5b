/* ZERANGE_QUIRKS=intel: the range extension with the faults that Intel's driver has, so that
 * clients can be tested against them without its hardware. None of this runs otherwise. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ze.h"

bool zr_quirks(void)
{
    return zr_config()->quirks == ZR_QUIRKS_INTEL;
}

/* Only the head of the chain is looked at for the range. */
const void *zr_quirk_range_desc(const void *chain)
{
    const ze_base_desc_t *head = chain;

    return (head != NULL && head->stype == ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC)
               ? head
               : NULL;
}

/* Mapping by mapping, each from its place to the end of its object: the lengths are lost. */
static ze_result_t zr_quirk_append(const void *ptr, size_t size, struct zr_range *range)
{
    const uintptr_t   end = (uintptr_t)ptr + size;
    uintptr_t         at  = (uintptr_t)ptr;
    ze_result_t       result = ZE_RESULT_SUCCESS;
    struct zr_va_info info;
    struct zr_range   byte;
    unsigned          kinds;

    while (at < end && result == ZE_RESULT_SUCCESS) {
        result = zr_range_walk((void *)at, 1, &byte, &kinds, NULL);
        if (result == ZE_RESULT_SUCCESS) {
            struct zr_phys *object = byte.segments[0].object;
            uint64_t        offset = byte.segments[0].offset;

            result = zr_range_append(range, object, offset, object->size - offset);
            if (!zr_va_query((void *)at, &info)) {
                result = ZE_RESULT_ERROR_ADDRESS_NOT_FOUND;
            }
            at = info.base + info.size;
        }
        zr_range_clear(&byte);
    }
    return result;
}

ze_result_t zr_quirk_export(const void *ptr, size_t size, struct zr_range *range)
{
    struct zr_va_info info;
    ze_memory_type_t  type;

    if (!zr_va_query(ptr, &info) || (uintptr_t)ptr + size > info.region_base + info.region_size) {
        return zr_fail(ZE_RESULT_ERROR_ADDRESS_NOT_FOUND,
                       "quirk: range %p + %zu is more than one reservation", ptr, size);
    }
    type = info.type;
    for (uintptr_t at = (uintptr_t)ptr; at < (uintptr_t)ptr + size; at = info.base + info.size) {
        if (!zr_va_query((void *)at, &info)) {
            return zr_fail(ZE_RESULT_ERROR_ADDRESS_NOT_FOUND, "quirk: %p is not mapped",
                           (void *)at);
        }
        if (info.type != type) {
            return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                           "quirk: range %p + %zu mixes objects of device and host", ptr, size);
        }
    }
    zr_range_clear(range);
    return zr_quirk_append(ptr, size, range);
}

/* The extent of what was merged, in whole pages, not the window. */
void zr_quirk_address_range(const struct zr_va_info *info, uintptr_t *base_p, size_t *size_p)
{
    *base_p = ZR_ALIGN_DOWN(info->base, ZR_PAGE_SMALL);
    *size_p = ZR_ALIGN_UP(info->base + info->size, ZR_PAGE_SMALL) - *base_p;
}
