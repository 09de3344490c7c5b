/* Ranges: an ordered list of segments of objects, a value that holds its references. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem.h"

#include <stdlib.h>
#include <string.h>

void zr_range_init(struct zr_range *range)
{
    range->length   = 0;
    range->count    = 0;
    range->capacity = ZR_ARRAY_SIZE(range->inline_segments);
    range->segments = range->inline_segments;
}

void zr_range_clear(struct zr_range *range)
{
    unsigned i;

    for (i = 0; i < range->count; ++i) {
        zr_phys_unref(range->segments[i].object);
    }
    if (range->segments != range->inline_segments) {
        free(range->segments);
    }
    zr_range_init(range);
}

static ze_result_t zr_range_grow(struct zr_range *range, unsigned capacity)
{
    struct zr_segment *segments = (range->segments == range->inline_segments) ? NULL
                                                                              : range->segments;

    segments = realloc(segments, capacity * sizeof(*segments));
    if (segments == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "range of %u objects: no memory",
                       range->count + 1);
    }
    if (range->segments == range->inline_segments) {
        memcpy(segments, range->inline_segments, range->count * sizeof(*segments));
    }
    range->segments = segments;
    range->capacity = capacity;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_range_append(struct zr_range *range, struct zr_phys *object, uint64_t offset,
                            uint64_t length)
{
    struct zr_segment *last = (range->count > 0) ? &range->segments[range->count - 1] : NULL;
    ze_result_t        result;

    if (last != NULL && last->object == object && last->offset + last->length == offset) {
        last->length += length;
        range->length += length;
        return ZE_RESULT_SUCCESS;
    }
    if (range->count == range->capacity) {
        result = zr_range_grow(range, 2 * range->capacity);
        if (result != ZE_RESULT_SUCCESS) {
            return result;
        }
    }
    range->segments[range->count++] = (struct zr_segment){zr_phys_ref(object), offset, length};
    range->length += length;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_range_copy(struct zr_range *copy, const struct zr_range *range)
{
    ze_result_t result;
    unsigned    i;

    zr_range_init(copy);
    if (range->count > copy->capacity) {
        result = zr_range_grow(copy, range->count);
        if (result != ZE_RESULT_SUCCESS) {
            return result;
        }
    }
    for (i = 0; i < range->count; ++i) {
        copy->segments[i] = range->segments[i];
        zr_phys_ref(copy->segments[i].object);
    }
    copy->count  = range->count;
    copy->length = range->length;
    return ZE_RESULT_SUCCESS;
}
