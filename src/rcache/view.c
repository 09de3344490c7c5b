/* The lock-free view of the open regions: see view.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "view.h"

#include "rcache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 64 /* entries of a chunk, at most */

struct entry {
    uint64_t space, start, end;
    uint64_t max_end; /* of this entry and those before it in the same space and chunk */
    _Atomic(struct zr_rcache_region *) region; /* NULL: taken out */
};

struct chunk {
    struct zr_retired retired;
    unsigned          count;
    struct entry      entries[];
};

/* A chunk has what begins at its slot's key or behind it, up to the next slot's key; the first one
 * also what begins before its key. */
struct slot {
    uint64_t                space, start;
    _Atomic uint64_t        before_max; /* largest end in the key's space in the slots before, or
                                           more: it does not shrink */
    _Atomic(struct chunk *) chunk;
};

struct zr_view_array {
    struct zr_retired retired;
    size_t            count;
    struct slot       slots[];
};

/* ---- readers ---- */

/* Where the calling thread counts itself. */
static unsigned stripe(void)
{
    uintptr_t self = (uintptr_t)pthread_self();

    return (unsigned)((self >> 12 ^ self >> 20) % ZR_VIEW_STRIPES);
}

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

static bool same(const struct zr_rcache_identity *a, const struct zr_rcache_identity *b)
{
    return a->id == b->id && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
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
        if (region != NULL &&
            (request->identity == NULL || same(&region->identity, request->identity)) &&
            zr_rcache_region_acquire(region)) {
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

static bool answers(const struct zr_rcache_region *region, const struct zr_rcache_request *request)
{
    return region->node.space == request->space && region->node.start <= request->start &&
           region->node.end >= request->start + request->size &&
           (request->identity == NULL || same(&region->identity, request->identity));
}

static unsigned hint_of(const struct zr_rcache_request *request)
{
    uint64_t key = (request->start >> 12 ^ request->space << 40) * UINT64_C(0x9e3779b97f4a7c15);

    return (unsigned)(key >> 32) % ZR_VIEW_HINTS;
}

/* Either zr_view_forget, which comes after the region was made stale, sees the hint, or this sees
 * that the region is stale. */
static void hint_set(_Atomic(struct zr_rcache_region *) *hint, struct zr_rcache_region *region)
{
    atomic_store(hint, region);
    if (atomic_load(&region->state) & ZR_RCACHE_STALE) {
        atomic_store(hint, NULL);
    }
}

struct zr_rcache_region *zr_view_acquire(struct zr_view *view,
                                         const struct zr_rcache_request *request)
{
    unsigned          mine    = stripe();
    _Atomic uint64_t *readers = &view->stripes[mine].readers[atomic_load(&view->epoch) & 1];
    _Atomic(struct zr_rcache_region *) *hint = &view->stripes[mine].hints[hint_of(request)];
    struct zr_rcache_region *region;
    struct zr_view_array    *array;

    atomic_fetch_add(readers, ZR_VIEW_INSIDE + 2); /* one inside, and one more so far */
    region = atomic_load_explicit(hint, memory_order_acquire);
    if (region == NULL || !answers(region, request) || !zr_rcache_region_acquire(region)) {
        array  = atomic_load(&view->array);
        region = array != NULL ? search(array, request) : NULL;
        if (region != NULL) {
            hint_set(hint, region);
        }
    }
    atomic_fetch_sub_explicit(readers, 1, memory_order_release);
    return region;
}

uint64_t zr_view_lookups(const struct zr_view *view)
{
    uint64_t sum = 0;
    unsigned k;

    for (k = 0; k < ZR_VIEW_STRIPES; k++) {
        sum += atomic_load(&view->stripes[k].readers[0]) / (ZR_VIEW_INSIDE + 1);
        sum += atomic_load(&view->stripes[k].readers[1]) / (ZR_VIEW_INSIDE + 1);
    }
    return sum;
}

/* ---- writers: what was taken out ---- */

static bool epoch_is_empty(const struct zr_view *view, unsigned parity)
{
    unsigned k;

    for (k = 0; k < ZR_VIEW_STRIPES; k++) {
        if ((atomic_load(&view->stripes[k].readers[parity & 1]) & ZR_VIEW_INSIDE) != 0) {
            return false;
        }
    }
    return true;
}

/* A reader that saw an item when it was retired in epoch E counts in E or before. Going on to E+1
 * needs the other parity empty, going on to E+2 needs that of E empty: then it has left. */
static void advance(struct zr_view *view)
{
    struct zr_retired **link = &view->retired, *item, *next;
    unsigned            now  = atomic_load(&view->epoch);

    if (epoch_is_empty(view, now + 1)) {
        atomic_store(&view->epoch, ++now);
    }
    while (*link != NULL && now - (*link)->epoch < 3) {
        link = &(*link)->next;
    }
    item  = *link;
    *link = NULL;
    for (; item != NULL; item = next) {
        next = item->next;
        free(item);
    }
}

void zr_view_forget(struct zr_view *view, const struct zr_rcache_region *region)
{
    unsigned k, i;

    for (k = 0; k < ZR_VIEW_STRIPES; k++) {
        for (i = 0; i < ZR_VIEW_HINTS; i++) {
            if (atomic_load(&view->stripes[k].hints[i]) == region) {
                atomic_store(&view->stripes[k].hints[i], NULL);
            }
        }
    }
}

void zr_view_retire(struct zr_view *view, struct zr_retired *item)
{
    item->epoch   = atomic_load(&view->epoch);
    item->next    = view->retired;
    view->retired = item;
    advance(view);
}

/* ---- writers: chunks ---- */

static struct chunk *chunk_new(unsigned room)
{
    struct chunk *chunk = malloc(sizeof(*chunk) + room * sizeof(chunk->entries[0]));

    if (chunk != NULL) {
        chunk->count = 0;
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
        zr_view_retire(view, &old->retired);
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
    if (array == NULL) {
        array = array_first(chunk);
        if (array == NULL) {
            free(chunk);
            return;
        }
        publish(view, array);
        return;
    }
    raise_max(array, at, region->node.space, region->node.end);
    if (chunk->count <= CHUNK) {
        atomic_store(&array->slots[at].chunk, chunk);
        zr_view_retire(view, &old->retired);
        return;
    }
    grown = array_split(array, at, chunk);
    free(chunk);
    if (grown != NULL) {
        publish(view, grown);
        zr_view_retire(view, &old->retired);
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
    struct zr_retired    *item, *next;
    size_t                k;

    for (item = view->retired; item != NULL; item = next) {
        next = item->next;
        free(item);
    }
    for (k = 0; array != NULL && k < array->count; k++) {
        free(atomic_load(&array->slots[k].chunk));
    }
    free(array);
}
