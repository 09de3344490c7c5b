/* Exports: see exports.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "exports.h"

#include "hooks.h"
#include "md.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHY 256 /* room for the reasons why something cannot be exported */

/* For one call of zr_rcache_get. */
struct exporting {
    bool exact; /* nothing beside what is asked for */
    char why[WHY];
};

/* Guarded by the lock below: next, share. The rest is constant. */
struct export {
    struct export  *next; /* of all that have a region */
    struct zr_share share;
    uint64_t        base, size, id;
    uint8_t         secret[64];    /* what the key's handle holds */
    uint8_t         kind;          /* enum zr_share_kind */
    uint64_t        allocation_id; /* of the only allocation behind it */
};

/* Used by a registration, so that it stays until a peer has opened it. */
struct zr_held {
    struct zr_held          *next;
    struct zr_rcache_region *region;
};

static struct {
    pthread_mutex_t           lock;
    struct export            *all;
    struct zr_registration   *registrations; /* and region and held of each */
    _Atomic(struct zr_rcache *) cache;
    _Atomic uint64_t          max_extent;
    _Atomic uint64_t          next_id;
    _Atomic uint64_t          link; /* where we listen */
    const struct zr_link_ops *link_ops;
} zr_exports = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_id = 1};

static int errno_of(ze_result_t result)
{
    ucs_status_t status = zr_status_of(result);

    return status == UCS_OK ? 0 : status == UCS_ERR_NO_MEMORY ? -ENOMEM : -EIO;
}

/* ---- one export ---- */

static int export_open(void *owner, const struct zr_rcache_request *request,
                       struct zr_rcache_region *region, uint64_t *start_p, uint64_t *end_p)
{
    const struct zr_ze *ze        = zr_ze_get();
    struct exporting   *exporting = (struct exporting *)request->arg;
    struct export      *export    = calloc(1, sizeof(*export));
    ze_result_t         result;

    if (export == NULL) {
        return -ENOMEM;
    }
    atomic_store(&zr_exports.link, zr_link_start(zr_exports.link_ops));
    (void)zr_ze_memory_type(ze, (void *)(uintptr_t)request->start, &export->allocation_id);
    result = zr_share_export(ze, request->start, request->size,
                             exporting->exact ? 0 : zr_exports.max_extent, &export->share,
                             exporting->why, WHY);
    if (result != ZE_RESULT_SUCCESS) {
        free(export);
        return errno_of(result);
    }
    export->id   = atomic_fetch_add(&zr_exports.next_id, 1);
    export->kind = (uint8_t)export->share.kind;
    export->base = export->share.base;
    export->size = export->share.size;
    memcpy(export->secret, export->share.handle.data, sizeof(export->secret));
    pthread_mutex_lock(&zr_exports.lock);
    export->next   = zr_exports.all;
    zr_exports.all = export;
    pthread_mutex_unlock(&zr_exports.lock);
    region->data     = export;
    region->identity = (struct zr_rcache_identity){.id = export->id};
    *start_p         = export->base;
    *end_p           = ucs_max(*end_p, export->base + export->size);
    zr_ucs_debug("exported 0x%lx..0x%lx as %lu", (unsigned long)*start_p, (unsigned long)*end_p,
                 (unsigned long)export->id);
    return 0;
}

/* Nothing keeps the memory but what importers have open, and they are told. */
static void export_end(struct export *export)
{
    struct zr_share share;

    pthread_mutex_lock(&zr_exports.lock);
    share         = export->share;
    export->share = (struct zr_share){0};
    pthread_mutex_unlock(&zr_exports.lock);
    if (share.kind != ZR_SHARE_NONE) {
        zr_share_release(zr_ze_get(), &share);
        zr_link_let_go(export->id, export->base, export->size);
    }
}

static void export_close(void *owner, struct zr_rcache_region *region)
{
    struct export  *export = region->data;
    struct export **link;

    export_end(export);
    pthread_mutex_lock(&zr_exports.lock);
    for (link = &zr_exports.all; *link != export; link = &(*link)->next) {
    }
    *link = export->next;
    pthread_mutex_unlock(&zr_exports.lock);
    free(export);
}

static void export_stale(void *owner, struct zr_rcache_region *region)
{
    export_end(region->data);
}

/* Without events, only an allocation that is still the same one may be hit; a range of several
 * has no such number. */
static bool export_valid(void *owner, const struct zr_rcache_region *region)
{
    const struct export *export = region->data;
    uint64_t             id     = 0;

    if (zr_hooks_active()) {
        return true;
    }
    return export->kind == ZR_SHARE_PLAIN &&
           zr_ze_memory_type(zr_ze_get(), (void *)(uintptr_t)region->node.start, &id) !=
               ZE_MEMORY_TYPE_UNKNOWN &&
           id == export->allocation_id;
}

static const struct zr_rcache_ops export_ops = {export_open, export_close, export_stale,
                                                export_valid};

/* ---- for the memory domain ---- */

int zr_exports_start(const struct zr_rcache_limits *limits, uint64_t max_extent,
                     const struct zr_link_ops *link)
{
    struct zr_rcache *cache = atomic_load(&zr_exports.cache);

    atomic_store(&zr_exports.max_extent, max_extent);
    if (cache == NULL) {
        zr_exports.link_ops = link;
        if (zr_rcache_create(&export_ops, NULL, limits, &cache) != 0) {
            return -ENOMEM;
        }
        atomic_store(&zr_exports.cache, cache);
    }
    zr_rcache_set_limits(cache, limits);
    return 0;
}

static struct zr_rcache_region *get(uint64_t start, uint64_t size, struct exporting *exporting)
{
    struct zr_rcache_request request = {0, start, size, NULL, exporting};
    struct zr_rcache_region *region;

    return zr_rcache_get(atomic_load(&zr_exports.cache), &request, &region) == 0 ? region : NULL;
}

static struct zr_rcache_region *get_or_say(const void *address, size_t length)
{
    static atomic_flag       said      = ATOMIC_FLAG_INIT;
    struct exporting         exporting = {.exact = false};
    struct zr_rcache_region *region    = get((uintptr_t)address, length, &exporting);

    if (region == NULL && !atomic_flag_test_and_set(&said)) {
        zr_ucs_warn("%p..%p cannot be exported (%s): peers reach such memory through host memory",
                    address, (const char *)address + length, exporting.why);
    }
    return region;
}

ucs_status_t zr_registration_create(void *address, size_t length,
                                    struct zr_registration **registration_p)
{
    struct zr_registration *registration = calloc(1, sizeof(*registration));

    if (registration == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    registration->id      = ucs_generate_uuid((uintptr_t)registration);
    registration->address = address;
    registration->length  = length;
    registration->region  = get_or_say(address, length);
    pthread_mutex_lock(&zr_exports.lock);
    registration->next       = zr_exports.registrations;
    zr_exports.registrations = registration;
    pthread_mutex_unlock(&zr_exports.lock);
    *registration_p = registration;
    return UCS_OK;
}

static void put_held(struct zr_held *held)
{
    struct zr_held *next;

    for (; held != NULL; held = next) {
        next = held->next;
        zr_rcache_put(atomic_load(&zr_exports.cache), held->region);
        free(held);
    }
}

void zr_registration_destroy(struct zr_registration *registration, bool invalidate)
{
    struct zr_rcache        *cache = atomic_load(&zr_exports.cache);
    struct zr_registration **link;

    pthread_mutex_lock(&zr_exports.lock);
    for (link = &zr_exports.registrations; *link != registration; link = &(*link)->next) {
    }
    *link = registration->next;
    pthread_mutex_unlock(&zr_exports.lock);
    if (registration->region != NULL) {
        if (invalidate) {
            zr_rcache_invalidate_region(cache, registration->region);
        }
        zr_rcache_put(cache, registration->region);
    }
    put_held(registration->held);
    free(registration);
}

static void fill_key(const struct zr_registration *registration,
                     const struct zr_rcache_region *region, struct zr_key *key)
{
    const struct export *export = region->data;

    key->kind         = export->kind;
    key->export_id    = export->id;
    key->base         = export->base;
    key->size         = export->size;
    key->registration = registration->id;
    key->registered_base = (uintptr_t)registration->address;
    key->registered_size = registration->length;
    key->link         = atomic_load(&zr_exports.link);
    memcpy(key->handle, export->secret, sizeof(key->handle));
}

void zr_registration_key(struct zr_registration *registration, struct zr_key *key)
{
    struct zr_rcache_region *old = NULL, *fresh;

    memset(key, 0, sizeof(*key));
    key->version = ZR_KEY_VERSION;
    key->kind    = ZR_SHARE_NONE;
    key->peer    = zr_peer_self();
    /* UCP keeps registrations. What lies beside this one may be another memory by now; and without
     * events its own as well, which neither UCP nor we are told of. */
    if (registration->region == NULL && zr_hooks_active()) {
        return;
    }
    fresh = get_or_say(registration->address, registration->length);
    pthread_mutex_lock(&zr_exports.lock);
    if (fresh != registration->region) {
        old                  = registration->region;
        registration->region = fresh;
    } else {
        old = fresh; /* one use of it is enough */
    }
    if (fresh != NULL) {
        fill_key(registration, fresh, key);
    }
    pthread_mutex_unlock(&zr_exports.lock);
    if (old != NULL) {
        zr_rcache_put(atomic_load(&zr_exports.cache), old);
    }
}

void zr_exports_forget(void *ptr, size_t size)
{
    struct zr_rcache *cache = atomic_load(&zr_exports.cache);

    if (cache != NULL) {
        zr_rcache_invalidate(cache, 0, (uintptr_t)ptr, size);
    }
}

void zr_exports_stats(struct zr_rcache_stats *stats)
{
    struct zr_rcache *cache = atomic_load(&zr_exports.cache);

    memset(stats, 0, sizeof(*stats));
    if (cache != NULL) {
        zr_rcache_get_stats(cache, stats);
    }
}

/* ---- for the link ---- */

/* In a time that does not depend on where they differ. */
static bool same_secret(const uint8_t *a, const uint8_t *b, size_t size)
{
    volatile uint8_t difference = 0;
    size_t           k;

    for (k = 0; k < size; k++) {
        difference |= a[k] ^ b[k];
    }
    return difference == 0;
}

/* Lock held. The export that a peer was given the key of. */
static struct export *find(const struct zr_link_message *request)
{
    struct export *export = zr_exports.all;

    while (export != NULL && export->id != request->export_id) {
        export = export->next;
    }
    return export != NULL &&
                   same_secret(export->secret, request->secret, sizeof(export->secret))
               ? export
               : NULL;
}

/* Lock held. The registration with @a id, if it has all of [base, base+size). */
static struct zr_registration *find_registration(uint64_t id, uint64_t base, uint64_t size)
{
    struct zr_registration *r;

    for (r = zr_exports.registrations; r != NULL; r = r->next) {
        if (r->id == id) {
            return base >= (uintptr_t)r->address && size <= r->length &&
                           base - (uintptr_t)r->address <= r->length - size
                       ? r
                       : NULL;
        }
    }
    return NULL;
}

/* Lock held. What is stale serves no key any more. @return a list to be put */
static struct zr_held *prune(struct zr_registration *registration)
{
    struct zr_held **link = &registration->held, *stale = NULL, *held;

    while ((held = *link) != NULL) {
        if (atomic_load(&held->region->state) & ZR_RCACHE_STALE) {
            *link      = held->next;
            held->next = stale;
            stale      = held;
        } else {
            link = &held->next;
        }
    }
    return stale;
}

/* What is registered may lie in another export than when its key was given out, and a part of it may be
 * there no more: the export is of what is wanted. And of no more: this thread runs beside those of
 * the application, which may be about to unmap a neighbour. */
static int renew(const struct zr_link_message *request, struct zr_key *key)
{
    struct exporting        exporting = {.exact = true};
    struct zr_held         *stale     = NULL, *held;
    struct zr_registration *registration;
    bool                    known;

    pthread_mutex_lock(&zr_exports.lock);
    known = find_registration(request->export_id, request->base, request->size) != NULL;
    pthread_mutex_unlock(&zr_exports.lock);
    if (!known || request->size == 0) {
        return -ENOENT;
    }
    held = calloc(1, sizeof(*held));
    if (held == NULL) {
        return -ENOMEM;
    }
    held->region = get(request->base, request->size, &exporting);
    if (held->region == NULL) {
        free(held);
        zr_ucs_debug("0x%lx+0x%lx has no new key: %s", (unsigned long)request->base,
                     (unsigned long)request->size, exporting.why);
        return -EFAULT;
    }
    memset(key, 0, sizeof(*key));
    key->version = ZR_KEY_VERSION;
    key->peer    = zr_peer_self();
    pthread_mutex_lock(&zr_exports.lock);
    registration = find_registration(request->export_id, request->base, request->size);
    if (registration != NULL) {
        stale      = prune(registration);
        held->next = registration->held;
        fill_key(registration, held->region, key);
        registration->held = held;
    } else {
        stale = held; /* it was deregistered meanwhile */
    }
    pthread_mutex_unlock(&zr_exports.lock);
    put_held(stale);
    return registration != NULL ? 0 : -ENOENT;
}

static int give_pieces(const struct zr_link_message *request, struct zr_link_message *answer,
                       int *fds)
{
    struct export *export;
    unsigned       k;
    int            ret = -ENOENT;

    pthread_mutex_lock(&zr_exports.lock);
    export = find(request);
    if (export != NULL && export->share.kind == ZR_SHARE_PIECES &&
        request->first < export->share.count) {
        answer->count = ucs_min(export->share.count - request->first,
                                (unsigned)ZR_LINK_PIECES_MAX);
        for (k = 0; k < answer->count; k++) {
            answer->u.pieces[k] = export->share.pieces[request->first + k];
            fds[k]              = zr_share_fd(answer->u.pieces[k].handle);
        }
        ret = 0;
    }
    pthread_mutex_unlock(&zr_exports.lock);
    return ret;
}

void zr_exports_answer(const struct zr_link_message *request, struct zr_link_message *answer,
                       int *fds)
{
    switch (request->what) {
    case ZR_LINK_RENEW:
        answer->status = renew(request, &answer->u.key);
        break;
    case ZR_LINK_PIECES:
        answer->status = give_pieces(request, answer, fds);
        break;
    default:
        answer->status = -EINVAL;
    }
}
