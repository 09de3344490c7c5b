/* The lock-free view of the open regions: see view.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "view.h"

#include "look.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK         64 /* entries of a chunk, at most */
#define SLAB          63 /* regions of a piece of memory */
#define REGION_BYTES  192 /* lines of its own */
#define RETIRED_BYTES ((size_t)1 << 16) /* as much may wait for readers to leave */
#define HINTS_LEAST   11 /* binary logarithm of their number */
#define HINTS_MOST    21
#define HINTS_EACH    1 /* binary logarithm of how many there are for a region, at least */

struct entry {
    uint64_t space, start, end;
    uint64_t max_end; /* of this entry and those before it in the same space and chunk */
    _Atomic(struct zr_rcache_region *) region; /* NULL: taken out */
};

struct chunk {
    struct zr_retired retired;
    unsigned          count, live; /* entries, and those that are not taken out: of writers */
    struct entry      entries[];
};

/* A chunk has what begins at its slot's key or behind it, up to the next slot's key; the first one
 * also what begins before its key. */
struct slot {
    uint64_t                space, start;
    _Atomic uint64_t        before_max; /* largest end in the key's space in the slots before, or
                                           more: it shrinks only with the array */
    _Atomic(struct chunk *) chunk;
};

struct zr_view_array {
    struct zr_retired retired;
    size_t            count;
    struct slot       slots[];
};

struct zr_view_slab {
    _Alignas(64) struct zr_view_slab *next;
    union {
        struct zr_rcache_region region;
        _Alignas(64) char bytes[REGION_BYTES];
    } regions[SLAB];
};
_Static_assert(sizeof(struct zr_rcache_region) <= REGION_BYTES, "a region has its room");

/* ---- readers ---- */

/* Does a key come before a place, or is it there? */
static bool reaches(uint64_t space, uint64_t start, uint64_t at_space, uint64_t at_start)
{
    return space < at_space || (space == at_space && start <= at_start);
}

/* The slot whose chunk has what begins at @a start. The array is not empty. */
static size_t slot_of(const struct zr_view_array *array, uint64_t space, uint64_t start)
{
    const struct slot *slots = array->slots;
    size_t             low = 1, high = array->count, middle;

    while (low < high) {
        middle = low + (high - low) / 2;
        if (reaches(slots[middle].space, slots[middle].start, space, start)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low - 1;
}

/* The number of entries that begin at or before @a start. */
static unsigned upper_bound(const struct chunk *chunk, uint64_t space, uint64_t start)
{
    unsigned low = 0, high = chunk->count, middle;

    while (low < high) {
        middle = low + (high - low) / 2;
        if (reaches(chunk->entries[middle].space, chunk->entries[middle].start, space, start)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct zr_rcache_region *search_chunk(const struct chunk             *chunk,
                                             const struct zr_rcache_request *request)
{
    uint64_t                 end = request->start + request->size;
    unsigned                 k   = upper_bound(chunk, request->space, request->start);
    struct zr_rcache_region *region;

    while (k-- > 0 && chunk->entries[k].space == request->space &&
           chunk->entries[k].max_end >= end) {
        if (chunk->entries[k].end < end) {
            continue;
        }
        region = atomic_load_explicit(&chunk->entries[k].region, memory_order_acquire);
        if (region != NULL && zr_region_usable(region) && zr_region_answers(region, request)) {
            return region;
        }
    }
    return NULL;
}

static struct zr_rcache_region *search(const struct zr_view_array      *array,
                                       const struct zr_rcache_request *request)
{
    uint64_t                 end = request->start + request->size;
    size_t                   k   = slot_of(array, request->space, request->start);
    const struct slot       *slot;
    struct zr_rcache_region *region;

    for (;;) {
        slot   = &array->slots[k];
        region = search_chunk(atomic_load_explicit(&slot->chunk, memory_order_acquire), request);
        if (region != NULL || k == 0 || slot->space != request->space ||
            atomic_load_explicit(&slot->before_max, memory_order_acquire) < end) {
            return region;
        }
        k--;
    }
}

struct zr_rcache_region *zr_view_search(const struct zr_view               *view,
                                        _Atomic(struct zr_rcache_region *) *hint,
                                        const struct zr_rcache_request     *request)
{
    struct zr_view_array    *array  = atomic_load_explicit(&view->array, memory_order_acquire);
    struct zr_rcache_region *region = NULL;

    if (hint != NULL) {
        region = atomic_load_explicit(&hint[1], memory_order_acquire);
        if (region != NULL && zr_region_usable(region) && zr_region_answers(region, request)) {
            return region;
        }
    }
    region = array != NULL ? search(array, request) : NULL;
    if (region != NULL && hint != NULL) {
        atomic_store_explicit(&hint[1], atomic_load_explicit(&hint[0], memory_order_relaxed),
                              memory_order_release);
        atomic_store_explicit(&hint[0], region, memory_order_release);
    }
    return region;
}

/* ---- writers: what was taken out ---- */

static void reclaim(struct zr_view *view)
{
    struct zr_retired       *item;
    struct zr_rcache_region *region;

    zr_desks_sync(&view->desks);
    while ((item = view->retired) != NULL) {
        view->retired = item->next;
        free(item);
    }
    while ((region = view->closed) != NULL) {
        view->closed  = region->chain;
        region->chain = view->spare;
        view->spare   = region;
    }
    view->retired_bytes = 0;
    view->num_closed    = 0;
}

/* Free @a item, whose first member is @a item, when no reader can see it. */
static void retire(struct zr_view *view, struct zr_retired *item, size_t bytes)
{
    item->next    = view->retired;
    view->retired = item;
    view->retired_bytes += bytes;
    if (view->retired_bytes > RETIRED_BYTES) {
        reclaim(view);
    }
}

void zr_view_hide(struct zr_view *view, struct zr_rcache_region *region)
{
    if (!(atomic_fetch_or(&region->state, ZR_RCACHE_HIDDEN) & ZR_RCACHE_HIDDEN)) {
        zr_desks_sync(&view->desks);
        zr_desks_fold(&view->desks, region);
    }
}

void zr_view_hide_all(struct zr_view *view, struct zr_rcache_region *first,
                      const struct zr_rcache_region *end)
{
    struct zr_rcache_region *region;

    for (region = first; region != end; region = region->next) {
        atomic_fetch_or(&region->state, ZR_RCACHE_HIDDEN);
    }
    zr_desks_sync(&view->desks);
    for (region = first; region != end; region = region->next) {
        zr_desks_fold(&view->desks, region);
    }
}

/* ---- writers: memory of regions ---- */

/* Aligned, so that a hit reads two cache lines of a region, and desks find its place. */
static void slab_new(struct zr_view *view)
{
    struct zr_view_slab *slab = aligned_alloc(64, sizeof(*slab));
    unsigned             k;

    if (slab == NULL) {
        return;
    }
    memset(slab, 0, sizeof(*slab));
    slab->next  = view->slabs;
    view->slabs = slab;
    for (k = 0; k < SLAB; k++) {
        slab->regions[k].region.chain = view->spare;
        view->spare                   = &slab->regions[k].region;
    }
}

struct zr_rcache_region *zr_view_region_new(struct zr_view *view)
{
    struct zr_rcache_region *region;

    if (view->spare == NULL && view->num_closed >= SLAB) {
        reclaim(view);
    }
    if (view->spare == NULL) {
        slab_new(view);
    }
    region = view->spare;
    if (region != NULL) {
        view->spare = region->chain;
        /* Before all else: a hint may lead here. */
        atomic_store(&region->state, ZR_RCACHE_HIDDEN | ZR_RCACHE_REF);
    }
    return region;
}

void zr_view_region_free(struct zr_view *view, struct zr_rcache_region *region)
{
    region->chain = view->closed;
    view->closed  = region;
    view->num_closed++;
}

/* ---- writers: chunks ---- */

static struct chunk *chunk_new(unsigned room)
{
    struct chunk *chunk = malloc(sizeof(*chunk) + room * sizeof(chunk->entries[0]));

    if (chunk != NULL) {
        chunk->count = chunk->live = 0;
    }
    return chunk;
}

static void append(struct chunk *chunk, uint64_t space, uint64_t start, uint64_t end,
                   struct zr_rcache_region *region)
{
    struct entry *entry = &chunk->entries[chunk->count];

    entry->space   = space;
    entry->start   = start;
    entry->end     = end;
    entry->max_end = end;
    atomic_init(&entry->region, region);
    if (chunk->count > 0 && entry[-1].space == space && entry[-1].max_end > end) {
        entry->max_end = entry[-1].max_end;
    }
    chunk->count++;
    chunk->live++;
}

static void append_region(struct chunk *chunk, struct zr_rcache_region *region)
{
    append(chunk, region->node.space, region->node.start, region->node.end, region);
}

/* A copy of what lives in @a old, with the region in its place. */
static struct chunk *chunk_with(const struct chunk *old, struct zr_rcache_region *region)
{
    struct chunk *chunk = chunk_new((old != NULL ? old->count : 0) + 1);
    unsigned      k;
    bool          done = false;

    for (k = 0; chunk != NULL && old != NULL && k < old->count; k++) {
        const struct entry      *entry = &old->entries[k];
        struct zr_rcache_region *other = atomic_load(&entry->region);

        if (!done &&
            !reaches(entry->space, entry->start, region->node.space, region->node.start)) {
            append_region(chunk, region);
            done = true;
        }
        if (other != NULL) {
            append(chunk, entry->space, entry->start, entry->end, other);
        }
    }
    if (chunk != NULL && !done) {
        append_region(chunk, region);
    }
    return chunk;
}

/* The entries [first, first + count) of a chunk that no reader has seen. */
static struct chunk *chunk_part(const struct chunk *whole, unsigned first, unsigned count)
{
    struct chunk *part = chunk_new(count);
    unsigned      k;

    for (k = first; part != NULL && k < first + count; k++) {
        append(part, whole->entries[k].space, whole->entries[k].start, whole->entries[k].end,
               atomic_load(&whole->entries[k].region));
    }
    return part;
}

static uint64_t chunk_max(const struct chunk *chunk, uint64_t space)
{
    unsigned k = chunk->count;

    while (k > 0 && chunk->entries[k - 1].space > space) {
        k--;
    }
    return k > 0 && chunk->entries[k - 1].space == space ? chunk->entries[k - 1].max_end : 0;
}

/* ---- writers: the array ---- */

static void slot_set(struct slot *slot, uint64_t before_max, struct chunk *chunk)
{
    slot->space = chunk->entries[0].space;
    slot->start = chunk->entries[0].start;
    atomic_init(&slot->before_max, before_max);
    atomic_init(&slot->chunk, chunk);
}

static void publish(struct zr_view *view, struct zr_view_array *array)
{
    struct zr_view_array *old = atomic_exchange(&view->array, array);

    if (old != NULL) {
        retire(view, &old->retired, sizeof(*old) + old->count * sizeof(old->slots[0]));
    }
}

static void retire_chunk(struct zr_view *view, struct chunk *chunk)
{
    retire(view, &chunk->retired, sizeof(*chunk) + chunk->count * sizeof(chunk->entries[0]));
}

/* What was known is found again. */
static void grow_hints(struct zr_view *view)
{
    struct zr_view_hints *hints = atomic_load(&view->hints);
    unsigned              bits  = hints != NULL ? 64 - hints->shift : HINTS_LEAST - 1;

    if ((hints != NULL && view->regions < UINT64_C(1) << (bits - HINTS_EACH)) ||
        bits >= HINTS_MOST) {
        return;
    }
    bits++;
    hints = calloc(1, sizeof(*hints) + (sizeof(hints->regions[0]) << bits));
    if (hints == NULL) {
        return;
    }
    hints->shift = 64 - bits;
    hints        = atomic_exchange(&view->hints, hints);
    if (hints != NULL) {
        retire(view, &hints->retired, sizeof(hints->regions[0]) << (64 - hints->shift));
    }
}

/* The array with @a chunk, which is too long, as two chunks in slot @a at. */
static struct zr_view_array *array_split(const struct zr_view_array *old, size_t at,
                                         const struct chunk *chunk)
{
    unsigned              half  = chunk->count / 2;
    struct chunk         *left  = chunk_part(chunk, 0, half);
    struct chunk         *right = chunk_part(chunk, half, chunk->count - half);
    struct zr_view_array *array = malloc(sizeof(*array) + (old->count + 1) * sizeof(struct slot));
    uint64_t              max, before_max;

    if (left == NULL || right == NULL || array == NULL) {
        free(left);
        free(right);
        free(array);
        return NULL;
    }
    array->count = old->count + 1;
    memcpy(array->slots, old->slots, at * sizeof(struct slot));
    memcpy(array->slots + at + 2, old->slots + at + 1, (old->count - at - 1) * sizeof(struct slot));
    /* The key stays: what begins between it and the first entry comes here too. */
    before_max = atomic_load(&old->slots[at].before_max);
    slot_set(&array->slots[at], before_max, left);
    array->slots[at].space = old->slots[at].space;
    array->slots[at].start = old->slots[at].start;
    max = chunk_max(left, right->entries[0].space);
    if (old->slots[at].space == right->entries[0].space && before_max > max) {
        max = before_max;
    }
    slot_set(&array->slots[at + 1], max, right);
    return array;
}

/* The array without slot @a at, whose neighbour before it takes what begins there from now on. */
static struct zr_view_array *array_without(const struct zr_view_array *old, size_t at)
{
    const size_t          count = old->count - 1;
    struct zr_view_array *array = malloc(sizeof(*array) + count * sizeof(struct slot));
    struct slot          *slot;
    size_t                k;
    uint64_t              max, before;

    if (array == NULL) {
        return NULL;
    }
    array->count = count;
    memcpy(array->slots, old->slots, at * sizeof(struct slot));
    memcpy(array->slots + at, old->slots + at + 1, (array->count - at) * sizeof(struct slot));
    for (k = at > 0 ? at : 1; k < array->count; k++) {
        slot = &array->slots[k];
        max  = chunk_max(atomic_load(&slot[-1].chunk), slot->space);
        if (slot[-1].space == slot->space) {
            before = atomic_load(&slot[-1].before_max);
            max    = before > max ? before : max;
        }
        atomic_init(&slot->before_max, max);
    }
    return array;
}

static struct zr_view_array *array_first(struct chunk *chunk)
{
    struct zr_view_array *array = malloc(sizeof(*array) + sizeof(struct slot));

    if (array != NULL) {
        array->count = 1;
        slot_set(&array->slots[0], 0, chunk);
    }
    return array;
}

/* Slots behind @a at hear of a longer end; those further behind know of it if one does. */
static void raise_max(struct zr_view_array *array, size_t at, uint64_t space, uint64_t end)
{
    for (at++; at < array->count && array->slots[at].space <= space; at++) {
        if (array->slots[at].space == space) {
            if (atomic_load(&array->slots[at].before_max) >= end) {
                return;
            }
            atomic_store(&array->slots[at].before_max, end);
        }
    }
}

void zr_view_insert(struct zr_view *view, struct zr_rcache_region *region)
{
    struct zr_view_array *array = atomic_load(&view->array), *grown;
    size_t                at    = array != NULL
                                      ? slot_of(array, region->node.space, region->node.start)
                                      : 0;
    struct chunk *old   = array != NULL ? atomic_load(&array->slots[at].chunk) : NULL;
    struct chunk *chunk = chunk_with(old, region);

    if (chunk == NULL) {
        return;
    }
    grow_hints(view);
    if (array == NULL) {
        array = array_first(chunk);
        if (array == NULL) {
            free(chunk);
            return;
        }
        publish(view, array);
        view->regions++;
        return;
    }
    raise_max(array, at, region->node.space, region->node.end);
    if (chunk->count <= CHUNK) {
        atomic_store(&array->slots[at].chunk, chunk);
        retire_chunk(view, old);
        view->regions++;
        return;
    }
    grown = array_split(array, at, chunk);
    free(chunk);
    if (grown != NULL) {
        publish(view, grown);
        retire_chunk(view, old);
        view->regions++;
    }
}

/* Addresses that do not come again must not leave their chunks behind. */
static void drop_dead(struct zr_view *view, const struct zr_view_array *array, size_t at,
                      struct chunk *chunk)
{
    struct zr_view_array *shorter;

    if (chunk->live == 0 && array->count > 1) {
        shorter = array_without(array, at);
        if (shorter != NULL) {
            publish(view, shorter);
            retire_chunk(view, chunk);
        }
    }
}

void zr_view_remove(struct zr_view *view, struct zr_rcache_region *region)
{
    struct zr_view_array *array = atomic_load(&view->array);
    const uint64_t        space = region->node.space, start = region->node.start;
    struct chunk         *chunk;
    size_t                at;
    unsigned              k;

    if (array == NULL) {
        return;
    }
    for (at = slot_of(array, space, start);; at--) {
        chunk = atomic_load(&array->slots[at].chunk);
        k     = upper_bound(chunk, space, start);
        while (k-- > 0 && chunk->entries[k].space == space && chunk->entries[k].start == start) {
            if (atomic_load(&chunk->entries[k].region) == region) {
                atomic_store(&chunk->entries[k].region, NULL);
                view->regions--;
                chunk->live--;
                drop_dead(view, array, at, chunk);
                return;
            }
        }
        /* Equal addresses may be spread over chunks. */
        if (at == 0 || array->slots[at].space != space || array->slots[at].start != start) {
            return;
        }
    }
}

void zr_view_fini(struct zr_view *view)
{
    struct zr_view_array *array = atomic_load(&view->array);
    struct zr_view_slab  *slab;
    size_t                k;

    zr_desks_fini(&view->desks);
    reclaim(view);
    for (k = 0; array != NULL && k < array->count; k++) {
        free(atomic_load(&array->slots[k].chunk));
    }
    free(array);
    free(atomic_load(&view->hints));
    while ((slab = view->slabs) != NULL) {
        view->slabs = slab->next;
        free(slab);
    }
}
