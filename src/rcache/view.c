/* The lock-free view of the open regions: see view.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "view.h"

#include "rcache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    uint64_t space, start, end;
    uint64_t max_end; /* of this entry and those before it in the same space */
    _Atomic(struct zr_rcache_region *) region; /* NULL: taken out */
};

struct zr_view_array {
    struct zr_retired retired;
    size_t            count;
    struct entry      entries[];
};

/* ---- readers ---- */

/* Where the calling thread counts itself. */
static unsigned stripe(void)
{
    uintptr_t self = (uintptr_t)pthread_self();

    return (unsigned)((self >> 12 ^ self >> 20) % ZR_VIEW_STRIPES);
}

static bool before(const struct entry *entry, uint64_t space, uint64_t start)
{
    return entry->space < space || (entry->space == space && entry->start <= start);
}

/* The number of entries that begin at or before @a start. */
static size_t upper_bound(const struct zr_view_array *array, uint64_t space, uint64_t start)
{
    size_t low = 0, high = array->count, middle;

    while (low < high) {
        middle = low + (high - low) / 2;
        if (before(&array->entries[middle], space, start)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct zr_rcache_region *search(struct zr_view_array           *array,
                                       const struct zr_rcache_request *request)
{
    uint64_t                 end = request->start + request->size;
    size_t                   k   = upper_bound(array, request->space, request->start);
    struct zr_rcache_region *region;

    while (k-- > 0 && array->entries[k].space == request->space &&
           array->entries[k].max_end >= end) {
        if (array->entries[k].end < end) {
            continue;
        }
        region = atomic_load(&array->entries[k].region);
        if (region != NULL &&
            (request->identity == NULL || memcmp(&region->identity, request->identity,
                                                 sizeof(region->identity)) == 0) &&
            zr_rcache_region_acquire(region)) {
            return region;
        }
    }
    return NULL;
}

struct zr_rcache_region *zr_view_acquire(struct zr_view *view,
                                         const struct zr_rcache_request *request)
{
    atomic_uint             *inside = &view->stripes[stripe()].inside[atomic_load(&view->epoch) & 1];
    struct zr_rcache_region *region = NULL;
    struct zr_view_array    *array;

    atomic_fetch_add(inside, 1);
    array = atomic_load(&view->array);
    if (array != NULL) {
        region = search(array, request);
    }
    atomic_fetch_sub(inside, 1);
    return region;
}

/* ---- writers ---- */

static bool epoch_is_empty(const struct zr_view *view, unsigned parity)
{
    unsigned k;

    for (k = 0; k < ZR_VIEW_STRIPES; k++) {
        if (atomic_load(&view->stripes[k].inside[parity & 1]) != 0) {
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

void zr_view_retire(struct zr_view *view, struct zr_retired *item)
{
    item->epoch   = atomic_load(&view->epoch);
    item->next    = view->retired;
    view->retired = item;
    advance(view);
}

static void publish(struct zr_view *view, struct zr_view_array *array)
{
    struct zr_view_array *old = atomic_exchange(&view->array, array);

    if (old != NULL) {
        zr_view_retire(view, &old->retired);
    }
}

static void append(struct zr_view_array *array, uint64_t space, uint64_t start, uint64_t end,
                   struct zr_rcache_region *region)
{
    struct entry *entry = &array->entries[array->count];

    *entry = (struct entry){.space = space, .start = start, .end = end, .max_end = end};
    atomic_init(&entry->region, region);
    if (array->count > 0 && entry[-1].space == space && entry[-1].max_end > end) {
        entry->max_end = entry[-1].max_end;
    }
    array->count++;
}

void zr_view_insert(struct zr_view *view, struct zr_rcache_region *region)
{
    struct zr_view_array *old = atomic_load(&view->array), *array;
    size_t                count = old != NULL ? old->count : 0, k;
    bool                  done  = false;

    array = malloc(sizeof(*array) + (count + 1) * sizeof(array->entries[0]));
    if (array == NULL) {
        return;
    }
    array->count = 0;
    for (k = 0; k < count; k++) {
        struct entry            *entry = &old->entries[k];
        struct zr_rcache_region *other = atomic_load(&entry->region);

        if (!done && !before(entry, region->node.space, region->node.start)) {
            append(array, region->node.space, region->node.start, region->node.end, region);
            done = true;
        }
        if (other != NULL) {
            append(array, entry->space, entry->start, entry->end, other);
        }
    }
    if (!done) {
        append(array, region->node.space, region->node.start, region->node.end, region);
    }
    publish(view, array);
}

void zr_view_remove(struct zr_view *view, struct zr_rcache_region *region)
{
    struct zr_view_array *array = atomic_load(&view->array);
    size_t                k;

    if (array == NULL) {
        return;
    }
    k = upper_bound(array, region->node.space, region->node.start);
    while (k-- > 0 && array->entries[k].space == region->node.space &&
           array->entries[k].start == region->node.start) {
        if (atomic_load(&array->entries[k].region) == region) {
            atomic_store(&array->entries[k].region, NULL);
            return;
        }
    }
}

void zr_view_fini(struct zr_view *view)
{
    struct zr_retired *item, *next;

    for (item = view->retired; item != NULL; item = next) {
        next = item->next;
        free(item);
    }
    free(atomic_load(&view->array));
}
