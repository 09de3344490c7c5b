/* Slots: batches that grow, the list of objects, recycling. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ZR_BATCH_FIRST_BYTES 4096
#define ZR_SPARE_SLOTS       2
#define ZR_USES_WINDOW       256 /* uses of slots that "lately" is */

void zr_slot_push(struct zr_slot_list *list, struct zr_slot *slot)
{
    slot->next = NULL;
    if (list->head == NULL) {
        list->head = slot;
    } else {
        list->tail->next = slot;
    }
    list->tail = slot;
}

struct zr_slot *zr_slot_pop(struct zr_slot_list *list)
{
    struct zr_slot *slot = list->head;

    if (slot != NULL) {
        list->head = slot->next;
    }
    return slot;
}

static void zr_slot_drop_objects(struct zr_slot *slot)
{
    unsigned i;

    for (i = 0; i < slot->count; i++) {
        zr_bo_unref(slot->objects[i].bo);
    }
    slot->count = 0;
}

static void zr_slot_destroy(struct zr_slot *slot)
{
    struct zr_row *row;
    unsigned       i;

    zr_slot_drop_objects(slot);
    for (i = 0; i < ZR_MAX_ENGINES; i++) {
        row = &slot->row[i];
        if (row->bo != NULL) {
            zr_bo_unmap(row->bo, row->out.dw, row->bo->size);
            zr_bo_unref(row->bo);
        }
    }
    free(slot->objects);
    free(slot);
}

/* A slot used lately first: its batches are warm. Of more slots than were lately in use at once
 * another one goes: a burst does not keep its memory for ever. */
static void zr_slot_put_free(struct zr_copyq *q, struct zr_slot *slot)
{
    struct zr_slot *spare = q->free.head;

    if (spare != NULL && q->num_slots > ZR_MAX(q->used_before, q->used_peak) + ZR_SPARE_SLOTS) {
        q->free.head = spare->next;
        q->num_free--;
        q->num_slots--;
        zr_slot_destroy(spare);
    }
    slot->next   = q->free.head;
    q->free.head = slot;
    if (slot->next == NULL) {
        q->free.tail = slot;
    }
    q->num_free++;
}

static struct zr_slot *zr_slot_get_free(struct zr_copyq *q)
{
    struct zr_slot *slot = zr_slot_pop(&q->free);

    if (slot != NULL) {
        q->num_free--;
    }
    return slot;
}

/* How many slots are in use at once, at most, in this window of time and the one before. */
static void zr_slot_count_use(struct zr_copyq *q)
{
    q->used_peak = ZR_MAX(q->used_peak, q->num_slots - q->num_free);
    if (++q->uses == ZR_USES_WINDOW) {
        q->uses        = 0;
        q->used_before = q->used_peak;
        q->used_peak   = 0;
    }
}

void zr_slot_recycle(struct zr_copyq *q, struct zr_slot *slot)
{
    zr_slot_drop_objects(slot);
    zr_slot_put_free(q, slot);
}

void zr_slot_rest(struct zr_copyq *q, struct zr_slot *slot)
{
    struct zr_slot *before = q->resting[slot->wide];

    zr_slot_drop_objects(slot);
    q->resting[slot->wide] = slot;
    if (before != NULL) {
        zr_slot_put_free(q, before);
    }
}

void zr_slot_free_list(struct zr_slot_list *list)
{
    struct zr_slot *slot;

    while ((slot = zr_slot_pop(list)) != NULL) {
        zr_slot_destroy(slot);
    }
}

static ze_result_t zr_slot_take(struct zr_copyq *q, struct zr_slot **slot_p)
{
    struct zr_slot *slot;
    ze_result_t     result;

    zr_copyq_reap(q);
    while ((slot = zr_slot_get_free(q)) == NULL && q->num_slots >= ZR_MAX_SLOTS) {
        if (q->flying.head == NULL && q->backlog.head == NULL) {
            return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY,
                           "copy queue: one submission needs more than %u batches", ZR_MAX_SLOTS);
        }
        result = zr_ctx_wait(q->ctx, UINT64_C(1000000));
        zr_copyq_reap(q);
        zr_copyq_pump(q);
        if (q->free.head == NULL && result != ZE_RESULT_NOT_READY) {
            result = zr_copyq_look_for_loss(q);
            if (result != ZE_RESULT_SUCCESS) {
                return result;
            }
        }
    }
    if (slot == NULL) {
        slot = calloc(1, sizeof(*slot));
        if (slot == NULL) {
            return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "copy queue: out of memory");
        }
        q->num_slots++;
    }
    zr_slot_count_use(q);
    *slot_p = slot;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_slot_open(struct zr_copyq *q, bool wide, struct zr_slot **slot_p)
{
    unsigned        rows = wide ? q->width : 1, i;
    struct zr_slot *slot = NULL;
    ze_result_t     result;

    result = zr_slot_take(q, &slot);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    slot->wide          = wide;
    slot->closed        = false;
    slot->number        = 0;
    slot->sequence      = 0;
    slot->serial        = ++q->serial;
    slot->bytes         = 0;
    slot->first_address = 0;
    for (i = 0; i < rows; i++) {
        slot->row[i].out.used  = 0;
        slot->row[i].out.dirty = false;
        slot->row[i].out.first = wide ? q->first_row == i : q->first_single;
        slot->row[i].load      = 0;
    }
    for (i = 0; i < rows && result == ZE_RESULT_SUCCESS; i++) {
        result = zr_slot_reserve(q, slot, i, 0);
    }
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_slot_add_object(q, slot, q->page, true);
    }
    if (result != ZE_RESULT_SUCCESS) {
        zr_slot_recycle(q, slot);
        return result;
    }
    zr_slot_push(&q->building, slot);
    *slot_p = slot;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_slot_reserve(struct zr_copyq *q, struct zr_slot *slot, unsigned row_index,
                            uint64_t dwords)
{
    struct zr_row *row    = &slot->row[row_index];
    uint64_t       needed = row->out.used + dwords + ZR_ROW_TAIL, size;
    struct zr_bo  *bo;
    ze_result_t    result;
    void          *map;

    if (needed <= row->out.size) {
        return ZE_RESULT_SUCCESS;
    }
    for (size = ZR_BATCH_FIRST_BYTES; size < needed * 4; size *= 2) {
    }
    if (size / 4 > UINT32_MAX) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE, "copy queue: a batch of %llu bytes",
                       (unsigned long long)size);
    }
    result = zr_bo_create(q->dev, size, ZR_PLACE_SYSTEM, ZR_CACHE_CACHED, &bo);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    result = zr_bo_map(bo, NULL, 0, bo->size, PROT_READ | PROT_WRITE, &map);
    if (result != ZE_RESULT_SUCCESS) {
        zr_bo_unref(bo);
        return result;
    }
    if (row->bo != NULL) {
        memcpy(map, row->out.dw, row->out.used * sizeof(uint32_t));
        zr_bo_unmap(row->bo, row->out.dw, row->bo->size);
        zr_bo_unref(row->bo);
    }
    row->bo          = bo;
    row->out.dw      = map;
    row->out.size    = (unsigned)ZR_MIN(bo->size / 4, (uint64_t)UINT32_MAX);
    row->out.scratch = q->page->gpu_va + ZR_LINES_BYTES + (uint64_t)row_index * ZR_BLT_SCRATCH;
    return ZE_RESULT_SUCCESS;
}

static bool zr_copyq_reserve_stamps(struct zr_copyq *q, uint32_t handle)
{
    unsigned         count = ZR_MAX(q->num_stamps, 256u);
    struct zr_stamp *stamps;

    if (handle < q->num_stamps) {
        return true;
    }
    while (count <= handle) {
        count *= 2;
    }
    stamps = realloc(q->stamps, count * sizeof(*stamps));
    if (stamps == NULL) {
        return false;
    }
    memset(stamps + q->num_stamps, 0, (count - q->num_stamps) * sizeof(*stamps));
    q->stamps     = stamps;
    q->num_stamps = count;
    return true;
}

static bool zr_slot_reserve_object(struct zr_slot *slot)
{
    unsigned               capacity = slot->capacity == 0 ? 8 : slot->capacity * 2;
    struct zr_exec_object *objects;

    if (slot->count < slot->capacity) {
        return true;
    }
    objects = realloc(slot->objects, capacity * sizeof(*objects));
    if (objects == NULL) {
        return false;
    }
    slot->objects  = objects;
    slot->capacity = capacity;
    return true;
}

ze_result_t zr_slot_add_object(struct zr_copyq *q, struct zr_slot *slot, struct zr_bo *bo,
                               bool write)
{
    struct zr_stamp *stamp;

    if (!zr_copyq_reserve_stamps(q, bo->handle) || !zr_slot_reserve_object(slot)) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY,
                       "copy queue: out of memory for %u objects", slot->count + 1);
    }
    stamp = &q->stamps[bo->handle];
    if (stamp->serial == slot->serial) {
        slot->objects[stamp->index].write |= write;
        return ZE_RESULT_SUCCESS;
    }
    *stamp = (struct zr_stamp){slot->serial, slot->count};
    slot->objects[slot->count++] = (struct zr_exec_object){zr_bo_ref(bo), write};
    return ZE_RESULT_SUCCESS;
}
