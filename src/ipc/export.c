/* Exports: counted handles of ranges and objects, found by (pointer, size, generation, owner) for
 * the application and by id and secret for peers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "parts.h"

#include "util/config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock; /* guards all below and what struct zr_export says */
    struct zr_hmap  by_key, by_id;
    uint64_t        next_id;
} zr_exports = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_id = 1};

/* ---- fork: the child is another process and never answers for its parent ---- */

static void zr_ipc_fork_prepare(void)
{
    pthread_mutex_lock(&zr_exports.lock);
    zr_identity_fork_prepare();
    zr_broker_fork_prepare();
}

static void zr_ipc_fork_parent(void)
{
    zr_broker_fork_done(false);
    zr_identity_fork_done(false);
    pthread_mutex_unlock(&zr_exports.lock);
}

static void zr_export_close_fds(struct zr_export *export)
{
    unsigned i;

    if (export->handle.fd >= 0) {
        close(export->handle.fd);
        export->handle.fd = -1;
    }
    for (i = 0; i < export->fd_count; ++i) {
        close(export->fds[i]);
    }
    export->fd_count = 0;
}

/* The fds go, so that the child keeps no memory of its parent alive; the bookkeeping stays where
 * it is, as freeing it is not safe here. */
static void zr_ipc_fork_child(void)
{
    struct zr_hnode *node;
    size_t           i;

    for (i = 0; i < zr_exports.by_id.capacity; ++i) {
        for (node = zr_exports.by_id.buckets[i]; node != NULL; node = node->next) {
            zr_export_close_fds(ZR_CONTAINER_OF(node, struct zr_export, by_id));
        }
    }
    memset(&zr_exports.by_key, 0, sizeof(zr_exports.by_key));
    memset(&zr_exports.by_id, 0, sizeof(zr_exports.by_id));
    zr_broker_fork_done(true);
    zr_identity_fork_done(true);
    pthread_mutex_unlock(&zr_exports.lock);
}

static void zr_ipc_register_fork(void)
{
    pthread_atfork(zr_ipc_fork_prepare, zr_ipc_fork_parent, zr_ipc_fork_child);
}

/* ---- one export ---- */

void zr_export_unref(struct zr_export *export)
{
    if (atomic_fetch_sub_explicit(&export->refs, 1, memory_order_acq_rel) == 1) {
        zr_export_close_fds(export);
        free(export->fds);
        zr_range_clear(&export->range);
        free(export);
    }
}

/* Peers that may use only pidfd_getfd find the objects' fds open here. */
static ze_result_t zr_export_keep_fds(struct zr_export *export)
{
    struct rlimit limit;
    ze_result_t   result;
    unsigned      i, count = export->range.count;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && count >= limit.rlim_cur) {
        return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
                       "export 0x%zx: %u objects need as many fds, the limit is %llu",
                       (size_t)export->ptr, count, (unsigned long long)limit.rlim_cur);
    }
    export->fds = malloc(count * sizeof(*export->fds));
    if (export->fds == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "export 0x%zx: no memory",
                       (size_t)export->ptr);
    }
    for (i = 0; i < count; ++i) {
        result = zr_bo_export(export->range.segments[i].object->bo, &export->fds[i]);
        if (result == ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY) {
            return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
                           "export 0x%zx: no fd left for object %u of %u", (size_t)export->ptr, i,
                           count);
        }
        if (result != ZE_RESULT_SUCCESS) {
            return result;
        }
        export->fd_count = i + 1;
    }
    return ZE_RESULT_SUCCESS;
}

/* How peers will get the objects: by the broker, or by fds kept open. */
static ze_result_t zr_export_open_exchange(struct zr_export *export)
{
    enum zr_fd_exchange mode   = zr_config()->fd_exchange;
    int                 status = -EOPNOTSUPP;

    if (mode != ZR_FD_EXCHANGE_PIDFD) {
        status = zr_broker_start();
        if (status == 0) {
            return ZE_RESULT_SUCCESS;
        }
        if (mode == ZR_FD_EXCHANGE_SOCKET) {
            return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE,
                           "export 0x%zx: the broker cannot start: %s", (size_t)export->ptr,
                           strerror(-status));
        }
        zr_log_once(ZR_LOG_WARN,
                    "exports keep an fd per object open, as the broker cannot start: %s",
                    strerror(-status));
    }
    return (export->handle.kind == ZR_HANDLE_RANGE) ? zr_export_keep_fds(export)
                                                    : ZE_RESULT_SUCCESS;
}

static ze_result_t zr_export_lead_range(struct zr_export *export)
{
    int status = zr_table_create(export, &export->handle.fd);

    if (status == 0) {
        return ZE_RESULT_SUCCESS;
    }
    return zr_fail((status == -ENOMEM) ? ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY
                                       : ZE_RESULT_ERROR_UNSUPPORTED_SIZE,
                   "export 0x%zx: no table for %u objects: %s", (size_t)export->ptr,
                   export->range.count, strerror(-status));
}

static ze_result_t zr_export_lead_plain(struct zr_export *export)
{
    struct stat st;
    int         fd;
    ze_result_t result = zr_bo_export(export->range.segments[0].object->bo, &fd);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    export->handle.fd = fd;
    if (fstat(fd, &st) != 0) {
        return zr_fail(ZE_RESULT_ERROR_UNKNOWN, "export 0x%zx: fstat: %s", (size_t)export->ptr,
                       strerror(errno));
    }
    export->handle.size   = export->size;
    export->handle.inode  = zr_inode_here(st.st_ino);
    export->handle.device = zr_device_number(st.st_dev);
    return ZE_RESULT_SUCCESS;
}

/* Something the kernel will not give a peer is refused now, not when the peer asks. */
static ze_result_t zr_export_check(const struct zr_export *export)
{
    unsigned i;

    for (i = 0; i < export->range.count; ++i) {
        const struct zr_phys *object = export->range.segments[i].object;

        if (object->bo == NULL || object->bo->userptr) {
            return zr_fail(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE,
                           "export 0x%zx: object %u is made of the application's own pages, which "
                           "no dma-buf can carry", (size_t)export->ptr, i);
        }
    }
    return ZE_RESULT_SUCCESS;
}

/* Fill an export that knows what it exports and make its fds. */
static ze_result_t zr_export_setup(struct zr_export *export, enum zr_handle_kind kind)
{
    static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
    struct zr_identity    own;
    ze_result_t           result = zr_export_check(export);
    int                   status;

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    pthread_once(&fork_once, zr_ipc_register_fork);
    own                       = zr_identity();
    export->handle.kind       = (uint8_t)kind;
    export->handle.version    = ZR_WIRE_VERSION;
    export->handle.process_id = own.process_id;
    export->handle.pid        = own.pid;
    status = zr_random_bytes(export->handle.secret, sizeof(export->handle.secret));
    if (status != 0) {
        return zr_fail(ZE_RESULT_ERROR_UNKNOWN, "export 0x%zx: no random numbers: %s",
                       (size_t)export->ptr, strerror(-status));
    }
    pthread_mutex_lock(&zr_exports.lock);
    export->handle.export_id = zr_exports.next_id++;
    pthread_mutex_unlock(&zr_exports.lock);
    result = zr_export_open_exchange(export);
    if (result == ZE_RESULT_SUCCESS) {
        result = (kind == ZR_HANDLE_RANGE) ? zr_export_lead_range(export)
                                           : zr_export_lead_plain(export);
    }
    return result;
}

/* ---- the tables ---- */

/* By pointer alone, so that zr_ipc_forget finds what starts there. */
static uint64_t zr_export_hash(const void *ptr)
{
    return zr_hash_mix(0, (uintptr_t)ptr);
}

/* The lock is held. */
static struct zr_export *zr_export_by_key(const struct zr_export *key)
{
    uint64_t         hash = zr_export_hash(key->ptr);
    struct zr_hnode *node;

    for (node = zr_hmap_first(&zr_exports.by_key, hash); node != NULL;
         node = zr_hmap_next(node->next, hash)) {
        struct zr_export *export = ZR_CONTAINER_OF(node, struct zr_export, by_key);

        if (export->ptr == key->ptr && export->size == key->size &&
            export->generation == key->generation && export->owner == key->owner &&
            export->handle.kind == key->handle.kind) {
            return export;
        }
    }
    return NULL;
}

/* The lock is held. */
static struct zr_export *zr_export_by_id(uint64_t id, const uint8_t *secret)
{
    uint64_t         hash = zr_hash_mix(0, id);
    struct zr_hnode *node;

    for (node = zr_hmap_first(&zr_exports.by_id, hash); node != NULL;
         node = zr_hmap_next(node->next, hash)) {
        struct zr_export *export = ZR_CONTAINER_OF(node, struct zr_export, by_id);

        if (export->handle.export_id == id) {
            return zr_secret_equal(export->handle.secret, secret) ? export : NULL;
        }
    }
    return NULL;
}

struct zr_export *zr_export_find(uint64_t export_id, const uint8_t *secret)
{
    struct zr_export *export;

    pthread_mutex_lock(&zr_exports.lock);
    export = zr_export_by_id(export_id, secret);
    if (export != NULL) {
        atomic_fetch_add_explicit(&export->refs, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&zr_exports.lock);
    return export;
}

int zr_export_lead_fd(struct zr_export *export)
{
    int fd = -ESTALE;

    pthread_mutex_lock(&zr_exports.lock);
    if (export->handle.fd >= 0) {
        fd = fcntl(export->handle.fd, F_DUPFD_CLOEXEC, 0);
        fd = (fd < 0) ? -errno : fd;
    }
    pthread_mutex_unlock(&zr_exports.lock);
    return fd;
}

/* Out of the tables; the lock is held, the caller drops the tables' reference after it. The fds
 * close here and not with the last reference: a peer could still take them from this process. */
static void zr_export_unlist(struct zr_export *export)
{
    zr_hmap_remove(&zr_exports.by_key, &export->by_key);
    zr_hmap_remove(&zr_exports.by_id, &export->by_id);
    zr_export_close_fds(export);
}

/* The lock is held. */
static int zr_export_list(struct zr_export *export)
{
    if (zr_hmap_insert(&zr_exports.by_key, &export->by_key, zr_export_hash(export->ptr)) != 0) {
        return -ENOMEM;
    }
    if (zr_hmap_insert(&zr_exports.by_id, &export->by_id,
                       zr_hash_mix(0, export->handle.export_id)) != 0) {
        zr_hmap_remove(&zr_exports.by_key, &export->by_key);
        return -ENOMEM;
    }
    return 0;
}

/* One more handle of an export that exists. */
static bool zr_export_again(const struct zr_export *key, ze_ipc_mem_handle_t *handle_p)
{
    struct zr_export *export;

    pthread_mutex_lock(&zr_exports.lock);
    export = zr_export_by_key(key);
    if (export != NULL) {
        export->handles++;
        memcpy(handle_p, &export->handle, sizeof(export->handle));
    }
    pthread_mutex_unlock(&zr_exports.lock);
    return export != NULL;
}

/* @a key: kind, ptr, size, generation, owner, memory type and lead. */
static ze_result_t zr_export_get(const struct zr_export *key, const struct zr_range *range,
                                 ze_ipc_mem_handle_t *handle_p)
{
    struct zr_export *export, *other;
    ze_result_t       result;

    if (zr_export_again(key, handle_p)) {
        return ZE_RESULT_SUCCESS;
    }
    export = malloc(sizeof(*export));
    if (export == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "export 0x%zx: no memory",
                       (size_t)key->ptr);
    }
    memcpy(export, key, sizeof(*export));
    atomic_init(&export->refs, 1);
    export->handle.fd = -1;
    export->handles   = 1;
    result            = zr_range_copy(&export->range, range);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_export_setup(export, key->handle.kind);
    }
    if (result != ZE_RESULT_SUCCESS) {
        zr_export_unref(export);
        return result;
    }
    pthread_mutex_lock(&zr_exports.lock);
    other = zr_export_by_key(key);
    if (other != NULL) { /* another thread was first */
        other->handles++;
        memcpy(handle_p, &other->handle, sizeof(other->handle));
    } else if (zr_export_list(export) == 0) {
        memcpy(handle_p, &export->handle, sizeof(export->handle));
        export = NULL;
    } else {
        result = zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "export 0x%zx: no memory",
                         (size_t)key->ptr);
    }
    pthread_mutex_unlock(&zr_exports.lock);
    if (export != NULL) {
        zr_export_unref(export);
    }
    return result;
}

ze_result_t zr_ipc_export_range(const void *ptr, const struct zr_range *range,
                                uint64_t generation, void *owner, ze_ipc_mem_handle_t *handle_p)
{
    const struct zr_export key = {
        .ptr        = ptr,
        .size       = range->length,
        .generation = generation,
        .owner      = owner,
        .lead       = (uint32_t)((uintptr_t)ptr % ZR_PAGE_SMALL),
        .handle     = {.kind = ZR_HANDLE_RANGE},
    };

    if (range->count == 0) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_SIZE, "export 0x%zx: empty range", (size_t)ptr);
    }
    return zr_export_get(&key, range, handle_p);
}

ze_result_t zr_ipc_export_plain(const void *ptr, struct zr_phys *phys, uint64_t size,
                                ze_memory_type_t type, void *owner, ze_ipc_mem_handle_t *handle_p)
{
    const struct zr_export key = {
        .ptr        = ptr,
        .size       = size,
        .generation = phys->id,
        .owner      = owner,
        .handle     = {.kind = ZR_HANDLE_PLAIN, .memory_type = (uint8_t)type},
    };
    struct zr_range range;
    ze_result_t     result;

    if (size == 0 || phys->bo == NULL || size > phys->bo->size) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_SIZE, "export 0x%zx: %llu bytes of object %llu",
                       (size_t)ptr, (unsigned long long)size, (unsigned long long)phys->id);
    }
    zr_range_init(&range);
    result = zr_range_append(&range, phys, 0, size);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_export_get(&key, &range, handle_p);
    }
    zr_range_clear(&range);
    return result;
}

ze_result_t zr_ipc_put(const ze_ipc_mem_handle_t *handle)
{
    struct zr_export *export = NULL;
    struct zr_handle  h;

    memcpy(&h, handle, sizeof(h));
    if (h.process_id != zr_identity().process_id) {
        return ZE_RESULT_SUCCESS;
    }
    pthread_mutex_lock(&zr_exports.lock);
    export = zr_export_by_id(h.export_id, h.secret);
    if (export != NULL && --export->handles == 0) {
        zr_export_unlist(export);
    } else {
        export = NULL;
    }
    pthread_mutex_unlock(&zr_exports.lock);
    if (export != NULL) {
        zr_export_unref(export);
    }
    return ZE_RESULT_SUCCESS;
}

/* Drop a chain that zr_export_unlist took out and that is linked by by_id. */
static void zr_exports_unref(struct zr_hnode *node)
{
    struct zr_hnode *next;

    for (; node != NULL; node = next) {
        next = node->next;
        zr_export_unref(ZR_CONTAINER_OF(node, struct zr_export, by_id));
    }
}

static void zr_export_drop(struct zr_export *export, struct zr_hnode **dropped)
{
    zr_export_unlist(export);
    export->by_id.next = *dropped;
    *dropped           = &export->by_id;
}

void zr_ipc_forget(const void *ptr)
{
    uint64_t         hash = zr_export_hash(ptr);
    struct zr_hnode *node, *next, *dropped = NULL;

    pthread_mutex_lock(&zr_exports.lock);
    for (node = zr_hmap_first(&zr_exports.by_key, hash); node != NULL; node = next) {
        struct zr_export *export = ZR_CONTAINER_OF(node, struct zr_export, by_key);

        next = zr_hmap_next(node->next, hash);
        if (export->ptr == ptr) {
            zr_export_drop(export, &dropped);
        }
    }
    pthread_mutex_unlock(&zr_exports.lock);
    zr_exports_unref(dropped);
}

void zr_ipc_owner_gone(void *owner)
{
    struct zr_hnode *node, *next, *dropped = NULL;
    size_t           i;

    pthread_mutex_lock(&zr_exports.lock);
    for (i = 0; i < zr_exports.by_id.capacity; ++i) {
        for (node = zr_exports.by_id.buckets[i]; node != NULL; node = next) {
            struct zr_export *export = ZR_CONTAINER_OF(node, struct zr_export, by_id);

            next = node->next;
            if (export->owner == owner) {
                zr_export_drop(export, &dropped);
            }
        }
    }
    pthread_mutex_unlock(&zr_exports.lock);
    zr_exports_unref(dropped);
}

uint64_t zr_export_count(void)
{
    uint64_t count;

    pthread_mutex_lock(&zr_exports.lock);
    count = zr_exports.by_id.count;
    pthread_mutex_unlock(&zr_exports.lock);
    return count;
}

void zr_ipc_shutdown(void)
{
    zr_broker_stop();
}
