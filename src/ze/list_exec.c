/* From an operation with pointers to the copy queue's objects and offsets: each pointer is walked
 * once, in the thread that submits. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "far.h"

#include <stdlib.h>
#include <string.h>

enum zr_side { ZR_DST, ZR_SRC, ZR_DST_ROW, ZR_SRC_ROW };

/* Memory of one side of an operation. */
struct zr_operand {
    const struct zr_seg *segs; /* scratch of the stream, or &one */
    unsigned             count;
    struct zr_seg        one;
    struct zr_bo        *host; /* a reference on the userptr object of plain host memory */
    bool                 far;  /* a part of it is out of the device's reach: of its own device */
};

/* The copy queue has its own references by the time an operand is let go. */
static void zr_operand_release(struct zr_build *build, enum zr_side side,
                               struct zr_operand *operand)
{
    zr_range_clear(&build->stream->range[side]);
    if (operand->host != NULL) {
        zr_bo_unref(operand->host);
    }
}

/* Segments of BOs from the segments of objects in the side's range. */
static ze_result_t zr_operand_objects(struct zr_build *build, enum zr_side side,
                                      struct zr_operand *operand)
{
    struct zr_stream      *stream = build->stream;
    const struct zr_range *range  = &stream->range[side];
    struct zr_seg         *segs;
    ze_result_t            result = zr_stream_reserve(stream, side, range->count);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    segs = stream->segs[side];
    for (unsigned i = 0; i < range->count; i++) {
        const struct zr_segment *segment = &range->segments[i];

        result = zr_phys_bo(segment->object, stream->device->i915, &segs[i].bo);
        if (result == ZE_RESULT_ERROR_UNSUPPORTED_FEATURE && segment->object->bo != NULL) {
            segs[i].bo   = segment->object->bo;
            operand->far = true;
            result       = ZE_RESULT_SUCCESS;
        }
        if (result != ZE_RESULT_SUCCESS) {
            return result;
        }
        segs[i].offset = segment->offset;
        segs[i].length = segment->length;
    }
    operand->segs  = segs;
    operand->count = range->count;
    return ZE_RESULT_SUCCESS;
}

/* Plain host memory must not be ours at either end: a range of which a part is memory of the
 * driver and a part is not is a mistake, and the engine would see other bytes than the host. */
static ze_result_t zr_host_check(const void *ptr, size_t size, unsigned kinds)
{
    const char       *last = (const char *)ptr + size - 1;
    struct zr_va_info info;

    if (kinds != ZR_VA_NONE) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "%zu bytes at %p begin in memory of the driver and end outside", size, ptr);
    }
    if (zr_va_query(ptr, &info) || info.region_base != 0) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%p is reserved but not mapped", ptr);
    }
    if (zr_va_query(last, &info) || info.region_base != 0) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "%zu bytes at %p begin outside and reach into memory of the driver at %p",
                       size, ptr, (void *)info.region_base);
    }
    return ZE_RESULT_SUCCESS;
}

static ze_result_t zr_operand_host(struct zr_build *build, enum zr_side side, const void *ptr,
                                   size_t size, bool stage, struct zr_operand *operand)
{
    struct zr_hostmem *hostmem = build->stream->device->hostmem;
    bool               source  = side == ZR_SRC || side == ZR_SRC_ROW;
    char              *room;
    ze_result_t        result;

    operand->segs  = &operand->one;
    operand->count = 1;
    if (stage && (room = zr_build_stage(build, size, &operand->one)) != NULL) {
        memcpy(room, ptr, size);
        return ZE_RESULT_SUCCESS;
    }
    result = zr_hostmem_get(hostmem, ptr, size, build->fresh, &operand->host,
                            &operand->one.offset);
    if (result == ZE_RESULT_ERROR_INVALID_ARGUMENT && source && build->may_stage) {
        result = zr_hostmem_bounce(hostmem, ptr, size, &operand->host);
        operand->one.offset = 0;
    }
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    operand->one.bo     = operand->host;
    operand->one.length = size;
    build->hosted       = true;
    return ZE_RESULT_SUCCESS;
}

/* @param stage  a host source may be copied by the CPU now */
static ze_result_t zr_operand_resolve(struct zr_build *build, enum zr_side side, const void *ptr,
                                      size_t size, bool stage, struct zr_operand *operand)
{
    struct zr_range *range = &build->stream->range[side];
    unsigned         kinds = ZR_VA_NONE;
    ze_result_t      result;

    memset(operand, 0, sizeof(*operand));
    result = zr_range_walk(ptr, size, range, &kinds, NULL);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_operand_objects(build, side, operand);
    } else if (result == ZE_RESULT_ERROR_ADDRESS_NOT_FOUND) {
        result = zr_host_check(ptr, size, kinds);
        if (result == ZE_RESULT_SUCCESS) {
            result = zr_operand_host(build, side, ptr, size, stage, operand);
        }
    }
    if (result != ZE_RESULT_SUCCESS) {
        zr_operand_release(build, side, operand);
    }
    return result;
}

static ze_result_t zr_build_move(struct zr_build *build, const struct zr_operand *dst,
                                 const struct zr_operand *src, uint64_t size)
{
    if (dst->far || src->far) {
        return zr_far_copy(build, dst->segs, dst->count, src->segs, src->count, size);
    }
    return zr_copyq_copy(build->stream->q, dst->segs, dst->count, src->segs, src->count, size);
}

/* A write to plain host memory: what is staged after it could be read too early. */
static void zr_build_wrote(struct zr_build *build, const struct zr_operand *dst)
{
    if (dst->host != NULL) {
        build->changes_host = true;
        build->may_stage    = false;
    }
}

/* Copies and fills of a list see each other's results unless the application waived it. */
static ze_result_t zr_build_order(struct zr_build *build)
{
    ze_result_t result = ZE_RESULT_SUCCESS;

    if (build->unordered && !build->relaxed) {
        result = zr_copyq_barrier(build->stream->q);
    }
    build->unordered = true;
    build->added++;
    return result;
}

static ze_result_t zr_build_copy(struct zr_build *build, void *dst_ptr, const void *src_ptr,
                                 size_t size)
{
    struct zr_operand dst, src;
    ze_result_t       result;

    if (size == 0) {
        return ZE_RESULT_SUCCESS;
    }
    result = zr_build_order(build);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    result = zr_operand_resolve(build, ZR_DST, dst_ptr, size, false, &dst);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    result = zr_operand_resolve(build, ZR_SRC, src_ptr, size, size <= ZR_STAGE_MAX, &src);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_build_move(build, &dst, &src, size);
        zr_operand_release(build, ZR_SRC, &src);
    }
    zr_build_wrote(build, &dst);
    zr_operand_release(build, ZR_DST, &dst);
    return result;
}

static ze_result_t zr_build_fill(struct zr_build *build, const struct zr_op *op)
{
    struct zr_operand dst;
    ze_result_t       result;

    if (op->fill.size == 0) {
        return ZE_RESULT_SUCCESS;
    }
    result = zr_build_order(build);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    result = zr_operand_resolve(build, ZR_DST, op->fill.dst, op->fill.size, false, &dst);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    result = dst.far ? zr_far_fill(build, dst.segs, dst.count, op->fill.size, op->fill.pattern,
                                   op->fill.pattern_size)
                     : zr_copyq_fill(build->stream->q, dst.segs, dst.count, op->fill.size,
                                     op->fill.pattern, op->fill.pattern_size);
    zr_build_wrote(build, &dst);
    zr_operand_release(build, ZR_DST, &dst);
    return result;
}

/* The part [offset, offset+length) of an operand, in the scratch of @a side. */
static ze_result_t zr_operand_slice(struct zr_build *build, enum zr_side side,
                                    const struct zr_operand *operand, uint64_t offset,
                                    uint64_t length, unsigned *count_p)
{
    struct zr_stream *stream = build->stream;
    unsigned          i = 0, n = 0;
    ze_result_t       result = zr_stream_reserve(stream, side, operand->count);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    while (offset >= operand->segs[i].length) {
        offset -= operand->segs[i++].length;
    }
    for (; length > 0; i++, n++) {
        struct zr_seg *seg = &stream->segs[side][n];

        seg->bo     = operand->segs[i].bo;
        seg->offset = operand->segs[i].offset + offset;
        seg->length = ZR_MIN(operand->segs[i].length - offset, length);
        length -= seg->length;
        offset = 0;
    }
    *count_p = n;
    return ZE_RESULT_SUCCESS;
}

/* One side of a region: where it begins, how far rows and slices are apart, how long it is. */
struct zr_grid {
    uint64_t first, pitch, slice, length;
};

/* False where the sum is more than an address can be. */
static bool zr_add_product(uint64_t *sum, uint64_t a, uint64_t b)
{
    uint64_t product;

    return !__builtin_mul_overflow(a, b, &product) &&
           !__builtin_add_overflow(*sum, product, sum) && *sum <= INT64_MAX;
}

static ze_result_t zr_grid_make(const ze_copy_region_t *region, uint32_t height, uint32_t depth,
                                uint32_t pitch, uint32_t slice, struct zr_grid *grid)
{
    grid->pitch  = pitch ? pitch : (uint64_t)region->originX + region->width;
    grid->slice  = slice;
    grid->first  = region->originX;
    grid->length = region->width;
    if (slice == 0 && !zr_add_product(&grid->slice, grid->pitch,
                                      (uint64_t)region->originY + height)) {
        grid->slice = UINT64_MAX; /* of no consequence to a single first slice */
    }
    if (!zr_add_product(&grid->first, region->originZ, grid->slice) ||
        !zr_add_product(&grid->first, region->originY, grid->pitch) ||
        !zr_add_product(&grid->length, depth - 1, grid->slice) ||
        !zr_add_product(&grid->length, height - 1, grid->pitch)) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "copy region of %ux%ux%u at %u,%u,%u goes beyond the address space",
                       region->width, height, depth, region->originX, region->originY,
                       region->originZ);
    }
    return ZE_RESULT_SUCCESS;
}

static ze_result_t zr_build_rows(struct zr_build *build, const struct zr_operand *dst,
                                 const struct zr_grid *dst_grid, const struct zr_operand *src,
                                 const struct zr_grid *src_grid, uint64_t width, uint32_t height,
                                 uint32_t depth)
{
    struct zr_stream *stream = build->stream;
    ze_result_t       result = ZE_RESULT_SUCCESS;
    unsigned          dst_count, src_count;

    for (uint64_t row = 0; row < (uint64_t)height * depth; row++) {
        uint64_t y = row % height, z = row / height;

        result = zr_operand_slice(build, ZR_DST_ROW, dst,
                                  z * dst_grid->slice + y * dst_grid->pitch, width, &dst_count);
        if (result == ZE_RESULT_SUCCESS) {
            result =
                zr_operand_slice(build, ZR_SRC_ROW, src,
                                 z * src_grid->slice + y * src_grid->pitch, width, &src_count);
        }
        if (result == ZE_RESULT_SUCCESS) {
            result = zr_copyq_copy(stream->q, stream->segs[ZR_DST_ROW], dst_count,
                                   stream->segs[ZR_SRC_ROW], src_count, width);
        }
        if (result != ZE_RESULT_SUCCESS) {
            break;
        }
    }
    return result;
}

/* The rows of one side as one list of segments: stream->rows[side]. */
static ze_result_t zr_far_rows(struct zr_build *build, enum zr_side side,
                               const struct zr_operand *operand, const struct zr_grid *grid,
                               uint64_t width, uint64_t rows, uint32_t height, unsigned *count_p)
{
    struct zr_stream *stream = build->stream;
    unsigned          total = 0, room = 0, count;
    ze_result_t       result = ZE_RESULT_SUCCESS;

    for (uint64_t row = 0; row < rows && result == ZE_RESULT_SUCCESS; row++) {
        result = zr_operand_slice(build, side + ZR_DST_ROW, operand,
                                  row / height * grid->slice + row % height * grid->pitch, width,
                                  &count);
        if (result == ZE_RESULT_SUCCESS && total + count > room) {
            struct zr_seg *more;

            room = ZR_MAX(2 * room, total + count);
            more = realloc(stream->rows[side], room * sizeof(*more));
            if (more == NULL) {
                return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "a region of %llu rows",
                               (unsigned long long)rows);
            }
            stream->rows[side] = more;
        }
        if (result == ZE_RESULT_SUCCESS) {
            memcpy(stream->rows[side] + total, stream->segs[side + ZR_DST_ROW],
                   count * sizeof(struct zr_seg));
            total += count;
        }
    }
    *count_p = total;
    return result;
}

/* A region across devices is one copy of all its rows, one after the other. */
static ze_result_t zr_build_far_rows(struct zr_build *build, const struct zr_operand *dst,
                                     const struct zr_grid *dst_grid, const struct zr_operand *src,
                                     const struct zr_grid *src_grid, uint64_t width,
                                     uint32_t height, uint32_t depth)
{
    struct zr_stream *stream = build->stream;
    const uint64_t    rows   = (uint64_t)height * depth;
    unsigned          dst_count, src_count;
    ze_result_t       result;

    result = zr_far_rows(build, ZR_DST, dst, dst_grid, width, rows, height, &dst_count);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_far_rows(build, ZR_SRC, src, src_grid, width, rows, height, &src_count);
    }
    return (result == ZE_RESULT_SUCCESS)
               ? zr_far_copy(build, stream->rows[ZR_DST], dst_count, stream->rows[ZR_SRC],
                             src_count, width * rows)
               : result;
}

static ze_result_t zr_build_region(struct zr_build *build, const struct zr_region *region)
{
    uint64_t          width  = region->dst_region.width;
    uint32_t          height = ZR_MAX(region->dst_region.height, 1u);
    uint32_t          depth  = ZR_MAX(region->dst_region.depth, 1u);
    struct zr_grid    dst_grid, src_grid;
    struct zr_operand dst, src;
    ze_result_t       result;

    if (width == 0) {
        return ZE_RESULT_SUCCESS;
    }
    result = zr_grid_make(&region->dst_region, height, depth, region->dst_pitch,
                          region->dst_slice_pitch, &dst_grid);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_grid_make(&region->src_region, height, depth, region->src_pitch,
                              region->src_slice_pitch, &src_grid);
    }
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_build_order(build);
    }
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    result = zr_operand_resolve(build, ZR_DST, (char *)region->dst + dst_grid.first,
                                dst_grid.length, false, &dst);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    result = zr_operand_resolve(build, ZR_SRC, (const char *)region->src + src_grid.first,
                                src_grid.length, false, &src);
    if (result == ZE_RESULT_SUCCESS) {
        if (dst_grid.pitch == width && src_grid.pitch == width &&
            (depth == 1 || dst_grid.slice == src_grid.slice)) {
            width *= height; /* the rows of a slice touch on both sides */
            height = 1;
        }
        result = (dst.far || src.far)
                     ? zr_build_far_rows(build, &dst, &dst_grid, &src, &src_grid, width, height,
                                         depth)
                     : zr_build_rows(build, &dst, &dst_grid, &src, &src_grid, width, height,
                                     depth);
        zr_operand_release(build, ZR_SRC, &src);
    }
    zr_build_wrote(build, &dst);
    zr_operand_release(build, ZR_DST, &dst);
    return result;
}

static ze_result_t zr_build_timestamp(struct zr_build *build, uint64_t *ptr)
{
    struct zr_operand dst;
    ze_result_t       result;

    if ((uintptr_t)ptr % sizeof(*ptr) != 0) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT,
                       "timestamp at %p: not aligned to 8 bytes", (void *)ptr);
    }
    result = zr_operand_resolve(build, ZR_DST, ptr, sizeof(*ptr), false, &dst);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    build->added++;
    result = dst.far ? zr_far_timestamp(build, dst.segs, dst.count)
                     : zr_copyq_write_timestamp(build->stream->q, dst.segs[0].bo,
                                                dst.segs[0].offset);
    zr_build_wrote(build, &dst);
    zr_operand_release(build, ZR_DST, &dst);
    return result;
}

/* start and end of the event, twice: as global and as context time. */
static ze_result_t zr_build_times(struct zr_build *build, struct zr_bo *bo,
                                  const struct zr_event *event, void *ptr)
{
    const size_t  half = sizeof(ze_kernel_timestamp_data_t);
    struct zr_seg src  = {bo, event->offset + offsetof(struct zr_event_state, start), half};
    struct zr_seg    *half_segs;
    struct zr_operand dst;
    unsigned          count;
    ze_result_t       result = zr_build_order(build);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    result = zr_operand_resolve(build, ZR_DST, ptr, 2 * half, false, &dst);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    for (unsigned i = 0; i < 2 && result == ZE_RESULT_SUCCESS; i++) {
        result = zr_operand_slice(build, ZR_DST_ROW, &dst, i * half, half, &count);
        half_segs = build->stream->segs[ZR_DST_ROW];
        if (result == ZE_RESULT_SUCCESS) {
            result = dst.far ? zr_far_copy(build, half_segs, count, &src, 1, half)
                             : zr_copyq_copy(build->stream->q, half_segs, count, &src, 1, half);
        }
    }
    zr_build_wrote(build, &dst);
    zr_operand_release(build, ZR_DST, &dst);
    return result;
}

/* Waiting and writing the words of an event. */
static ze_result_t zr_build_event(struct zr_build *build, enum zr_op_type type,
                                  struct zr_event *event, void *times)
{
    const uint64_t   start = event->offset + offsetof(struct zr_event_state, start);
    const uint64_t   end   = event->offset + offsetof(struct zr_event_state, end);
    struct zr_copyq *q     = build->stream->q;
    struct zr_bo    *bo;
    ze_result_t      result;

    if (!zr_object_is(event, ZR_KIND_EVENT)) {
        return zr_object_refuse(event, ZR_KIND_EVENT);
    }
    result = zr_phys_bo(event->pool->phys, build->stream->device->i915, &bo);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    build->added++;
    switch (type) {
    case ZR_OP_WAIT:
        /* The host may write memory before it signals: nothing is read ahead of the wait. */
        build->may_stage    = false;
        build->changes_host = true;
        return zr_copyq_wait_word(q, bo, event->offset, 1, ZR_WAIT_EQUAL);
    case ZR_OP_STARTED:
        return zr_copyq_write_timestamp(q, bo, start);
    case ZR_OP_RESET:
        return zr_copyq_write_qword(q, bo, event->offset, 0);
    case ZR_OP_TIMES:
        return zr_build_times(build, bo, event, times);
    default:
        break;
    }
    if (zr_event_has_times(event)) {
        result = zr_copyq_write_timestamp(q, bo, end);
    }
    return (result == ZE_RESULT_SUCCESS) ? zr_copyq_write_qword(q, bo, event->offset, 1) : result;
}

ze_result_t zr_build_add(struct zr_build *build, const struct zr_op *op)
{
    switch (op->type) {
    case ZR_OP_COPY:
        return zr_build_copy(build, op->copy.dst, op->copy.src, op->copy.size);
    case ZR_OP_FILL:
        return zr_build_fill(build, op);
    case ZR_OP_REGION:
        return zr_build_region(build, &op->region);
    case ZR_OP_BARRIER:
        build->unordered = false;
        return zr_copyq_barrier(build->stream->q);
    case ZR_OP_TIMESTAMP:
        return zr_build_timestamp(build, op->timestamp);
    case ZR_OP_TIMES:
        return zr_build_event(build, op->type, op->times.event, op->times.dst);
    default:
        return zr_build_event(build, op->type, op->event, NULL);
    }
}
