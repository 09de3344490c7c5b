/* Slots for the objects behind handles: reserved once, reused in the order they were freed, never
 * unmapped, so that a handle can be checked before it is followed. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define ZR_SLOTS_RESERVED (UINT64_C(1) << 29) /* bytes of VA: two million objects */
#define ZR_SLOTS_STEP     (64 * ZR_KIB)       /* made usable at a time */

_Static_assert(sizeof(struct zr_driver) <= ZR_SLOT_SIZE, "slot");
_Static_assert(sizeof(struct zr_device) <= ZR_SLOT_SIZE, "slot");
_Static_assert(sizeof(struct zr_context) <= ZR_SLOT_SIZE, "slot");
_Static_assert(sizeof(struct zr_queue) <= ZR_SLOT_SIZE, "slot");
_Static_assert(sizeof(struct zr_list) <= ZR_SLOT_SIZE, "slot");
_Static_assert(sizeof(struct zr_event_pool) <= ZR_SLOT_SIZE, "slot");
_Static_assert(sizeof(struct zr_event) <= ZR_SLOT_SIZE, "slot");
_Static_assert(sizeof(struct zr_fence) <= ZR_SLOT_SIZE, "slot");
_Static_assert(sizeof(struct zr_physical) <= ZR_SLOT_SIZE, "slot");
_Static_assert(sizeof(struct zr_memory) <= ZR_SLOT_SIZE, "slot");
_Static_assert(sizeof(struct zr_device_mem) <= ZR_SLOT_SIZE, "slot");

char          *zr_slots;
_Atomic size_t zr_slots_size;

/* A free slot is linked behind its kind, so that the kind stays readable. */
struct zr_free_slot {
    struct zr_object     object;
    struct zr_free_slot *next;
};

static pthread_mutex_t      slots_lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct zr_free_slot *free_first, *free_last;
static size_t               slots_usable, slots_used;
static bool                 slots_ended;

static const char *zr_kind_name(enum zr_kind kind)
{
    static const char *const names[] = {
        "object",       "driver", "device",     "context", "command queue",
        "command list", "event pool", "event", "fence",   "physical memory object",
        "memory module", "device memory object"};

    return names[kind];
}

ze_result_t zr_object_refuse(const void *handle, enum zr_kind kind)
{
    if (handle == NULL) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_NULL_HANDLE, "the %s handle is NULL",
                       zr_kind_name(kind));
    }
    if (zr_driver == NULL) {
        return zr_no_driver();
    }
    return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                   "%p is not a %s of zerange, or it was destroyed", handle, zr_kind_name(kind));
}

/* With the lock held. */
static void *zr_slot_new(void)
{
    void *slot;

    if (zr_slots == NULL) {
        slot = mmap(NULL, ZR_SLOTS_RESERVED, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (slot == MAP_FAILED) {
            zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "address space for handles: %s",
                    strerror(errno));
            return NULL;
        }
        zr_slots = slot;
    }
    if (slots_used == ZR_SLOTS_RESERVED) {
        zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "more than %llu live handles",
                (unsigned long long)(ZR_SLOTS_RESERVED / ZR_SLOT_SIZE));
        return NULL;
    }
    if (slots_used == slots_usable) {
        if (mprotect(zr_slots + slots_usable, ZR_SLOTS_STEP, PROT_READ | PROT_WRITE) < 0) {
            zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "memory for handles: %s",
                    strerror(errno));
            return NULL;
        }
        slots_usable += ZR_SLOTS_STEP;
    }
    slot = zr_slots + slots_used;
    slots_used += ZR_SLOT_SIZE;
    atomic_store_explicit(&zr_slots_size, slots_used, memory_order_release);
    return slot;
}

void *zr_object_create(void)
{
    struct zr_object *object = NULL;

    pthread_mutex_lock(&slots_lock);
    if (slots_ended) {
        zr_fail(ZE_RESULT_ERROR_UNINITIALIZED, "the driver has ended");
    } else if (free_first != NULL) {
        object     = &free_first->object;
        free_first = free_first->next;
    } else {
        object = zr_slot_new();
    }
    pthread_mutex_unlock(&slots_lock);
    if (object != NULL) {
        memset((char *)object + sizeof(*object), 0, ZR_SLOT_SIZE - sizeof(*object));
        object->ddi = zr_ddi_header;
    }
    return object;
}

void zr_object_publish(void *object, enum zr_kind kind)
{
    atomic_store_explicit(&((struct zr_object *)object)->kind, kind, memory_order_release);
}

void zr_object_destroy(void *object)
{
    struct zr_free_slot *slot = object;

    atomic_store_explicit(&slot->object.kind, ZR_KIND_NONE, memory_order_release);
    pthread_mutex_lock(&slots_lock);
    slot->next = NULL;
    if (free_first == NULL) {
        free_first = slot;
    } else {
        free_last->next = slot;
    }
    free_last = slot;
    pthread_mutex_unlock(&slots_lock);
}

void zr_objects_end(void)
{
    pthread_mutex_lock(&slots_lock);
    slots_ended = true;
    atomic_store_explicit(&zr_slots_size, 0, memory_order_release);
    pthread_mutex_unlock(&slots_lock);
}

const void *zr_chain_find(const void *chain, ze_structure_type_t stype)
{
    const ze_base_desc_t *desc;

    for (desc = chain; desc != NULL; desc = desc->pNext) {
        if (desc->stype == stype) {
            return desc;
        }
    }
    return NULL;
}
