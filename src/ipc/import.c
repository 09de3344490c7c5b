/* Imports: a handle becomes one contiguous range of this process; objects that came from a peer
 * before are kept once and not fetched again. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* What an object is known by. The process id is what the peer says of itself, so the pid by which
 * the kernel knows who gave the fd stands beside it: nobody can pass off an object as another's. */
struct zr_import_key {
    uint64_t        process_id, object_id;
    struct zr_i915 *dev;
    uint32_t        peer;
    uint32_t        once; /* not 0: of a table that nobody vouches for, and for that alone */
};

/* An object of a peer on a device of ours. */
struct zr_imported {
    struct zr_hnode node;
    struct zr_import_key key;
    struct zr_phys *phys;
    unsigned        uses; /* entries of open imports; guarded by zr_imports.lock */
};

/* What an open handle holds; the tag of its region. */
struct zr_import {
    struct zr_hnode     node;
    unsigned            count;
    uint32_t            once; /* see struct zr_import_key */
    struct zr_imported *objects[]; /* by table entry; NULL: not there yet */
};

static struct {
    pthread_mutex_t lock; /* guards the maps */
    struct zr_hmap  objects;
    struct zr_hmap  open; /* by address: other parts adopt ranges too, with tags of their own */
} zr_imports = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t zr_imported_hash(const struct zr_import_key *key)
{
    uint64_t hash = zr_hash_mix(zr_hash_mix(key->process_id, key->object_id), (uintptr_t)key->dev);

    return zr_hash_mix(hash, (uint64_t)key->once << 32 | key->peer);
}

/* One more use of a known object, or NULL; the lock is held. */
static struct zr_imported *zr_imported_use(const struct zr_import_key *key)
{
    uint64_t         hash = zr_imported_hash(key);
    struct zr_hnode *node;

    for (node = zr_hmap_first(&zr_imports.objects, hash); node != NULL;
         node = zr_hmap_next(node->next, hash)) {
        struct zr_imported *object = ZR_CONTAINER_OF(node, struct zr_imported, node);

        if (object->key.process_id == key->process_id && object->key.object_id == key->object_id &&
            object->key.dev == key->dev && object->key.peer == key->peer &&
            object->key.once == key->once) {
            object->uses++;
            return object;
        }
    }
    return NULL;
}

static void zr_import_free(struct zr_import *import)
{
    struct zr_imported *object;
    unsigned            i, last;

    for (i = 0; i < import->count; ++i) {
        object = import->objects[i];
        if (object == NULL) {
            continue;
        }
        pthread_mutex_lock(&zr_imports.lock);
        last = (--object->uses == 0);
        if (last) {
            zr_hmap_remove(&zr_imports.objects, &object->node);
        }
        pthread_mutex_unlock(&zr_imports.lock);
        if (last) {
            zr_phys_unref(object->phys);
            free(object);
        }
    }
    free(import);
}

static struct zr_import *zr_import_new(unsigned count)
{
    struct zr_import *import = calloc(1, sizeof(*import) + count * sizeof(import->objects[0]));

    if (import != NULL) {
        import->count = count;
    }
    return import;
}

/* ---- objects of a table ---- */

static atomic_uint zr_import_once;

static struct zr_import_key zr_imported_key(const struct zr_import *import,
                                            const struct zr_exchange *x,
                                            const struct zr_table_entry *entry, struct zr_i915 *dev)
{
    return (struct zr_import_key){
        .process_id = x->table.header->process_id,
        .object_id  = entry->object_id,
        .dev        = dev,
        .peer       = x->peer,
        .once       = import->once,
    };
}

/* Make an object of a received fd; the fd stays the caller's. */
static ze_result_t zr_imported_new(const struct zr_import_key *key, uint32_t pid,
                                   const struct zr_table_entry *entry, int fd,
                                   struct zr_imported **object_p)
{
    struct zr_imported *object;
    struct zr_bo       *bo;
    ze_result_t         result = zr_bo_import_near(key->dev, fd, &bo);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    if (bo->size < entry->size) {
        result = zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                         "object %llu of pid %u: the buffer has 0x%llx bytes, the table says "
                         "0x%llx", (unsigned long long)entry->object_id, pid,
                         (unsigned long long)bo->size, (unsigned long long)entry->size);
        zr_bo_unref(bo);
        return result;
    }
    object = calloc(1, sizeof(*object));
    if (object == NULL) {
        zr_bo_unref(bo);
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "import: no memory");
    }
    result = zr_phys_wrap(bo, ZR_BACKING_IO_SPACE, &object->phys);
    if (result != ZE_RESULT_SUCCESS) {
        free(object);
        return result;
    }
    object->phys->device_local = (entry->flags & ZR_ENTRY_DEVICE_LOCAL) != 0;
    object->key                = *key;
    object->uses               = 1;
    *object_p                  = object;
    return ZE_RESULT_SUCCESS;
}

/* Keep a new object, unless another thread was first: then that one is used. */
static ze_result_t zr_imported_keep(struct zr_imported *object, struct zr_imported **kept_p)
{
    struct zr_imported *known;
    int                 status = 0;

    pthread_mutex_lock(&zr_imports.lock);
    known = zr_imported_use(&object->key);
    if (known == NULL) {
        status = zr_hmap_insert(&zr_imports.objects, &object->node, zr_imported_hash(&object->key));
    }
    pthread_mutex_unlock(&zr_imports.lock);
    if (known == NULL && status == 0) {
        *kept_p = object;
        return ZE_RESULT_SUCCESS;
    }
    zr_phys_unref(object->phys);
    free(object);
    if (known == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "import: no memory");
    }
    *kept_p = known;
    return ZE_RESULT_SUCCESS;
}

/* What is known already needs no fd. */
static void zr_import_use_known(struct zr_import *import, const struct zr_exchange *x,
                                struct zr_i915 *dev)
{
    unsigned i;

    pthread_mutex_lock(&zr_imports.lock);
    for (i = 0; i < import->count; ++i) {
        if (import->objects[i] == NULL) {
            struct zr_import_key key = zr_imported_key(import, x, &x->table.entries[i], dev);

            import->objects[i] = zr_imported_use(&key);
        }
    }
    pthread_mutex_unlock(&zr_imports.lock);
}

/* Received fds hold a place in this process only until they are objects: a batch takes no more
 * than a part of what the limit allows. */
static unsigned zr_import_batch(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 8 * ZR_BROKER_MAX_FDS) {
        return ZR_BROKER_MAX_FDS;
    }
    return (unsigned)ZR_MAX(limit.rlim_cur / 8, 1u);
}

/* The first batch is short, so that this process begins while the exporter makes the next. */
#define ZR_IMPORT_FIRST 32u
#define ZR_IMPORT_MORE  3u /* times as many in the next one */

/* The next entries from *first_p on that are not known, at most as many as a batch has; 0: none. */
static unsigned zr_import_next(const struct zr_import *import, unsigned batch, unsigned *first_p)
{
    unsigned first = *first_p, count = 0;

    while (first < import->count && import->objects[first] != NULL) {
        first++;
    }
    while (count < batch && first + count < import->count &&
           import->objects[first + count] == NULL) {
        count++;
    }
    *first_p = first;
    return count;
}

/* Fetch entries [first, first+count), none of which is known, and make objects of them. */
static ze_result_t zr_import_fetch(struct zr_import *import, struct zr_exchange *x,
                                   struct zr_i915 *dev, unsigned first, unsigned count,
                                   unsigned next_batch, unsigned *got_p)
{
    int                 fds[ZR_BROKER_MAX_FDS];
    struct zr_imported *object = NULL;
    unsigned            i, next, got = 0;
    ze_result_t         result = zr_exchange_objects(x, first, count, fds, &got);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    next  = first + got;
    count = zr_import_next(import, next_batch, &next);
    if (count > 0) {
        zr_exchange_ahead(x, next, count);
    }
    for (i = 0; i < got; ++i) {
        if (result == ZE_RESULT_SUCCESS) {
            const struct zr_table_entry *entry = &x->table.entries[first + i];
            struct zr_import_key         key   = zr_imported_key(import, x, entry, dev);

            result = zr_imported_new(&key, x->table.header->pid, entry, fds[i], &object);
        }
        if (result == ZE_RESULT_SUCCESS) {
            result = zr_imported_keep(object, &import->objects[first + i]);
        }
    }
    zr_local_close(fds, got);
    *got_p = got;
    return result;
}

/* A peer that gives one object now and then must not hold us for ever. */
#define ZR_IMPORT_LIMIT_NS  UINT64_C(5000000000)
#define ZR_IMPORT_OBJECT_NS UINT64_C(20000000) /* and for each object */

static ze_result_t zr_import_late(const struct zr_import *import, const struct zr_exchange *x,
                                  uint64_t start, unsigned done)
{
    if (zr_time_ns() - start <= ZR_IMPORT_LIMIT_NS + import->count * ZR_IMPORT_OBJECT_NS) {
        return ZE_RESULT_SUCCESS;
    }
    return zr_fail(ZE_RESULT_ERROR_UNKNOWN,
                   "export %llu of pid %u: too slow: %u of %u objects came in %.1f s",
                   (unsigned long long)x->handle.export_id, x->handle.pid, done, import->count,
                   (double)(zr_time_ns() - start) / 1e9);
}

static ze_result_t zr_import_objects(struct zr_import *import, struct zr_exchange *x,
                                     struct zr_i915 *dev)
{
    unsigned    most = zr_import_batch(), batch = ZR_MIN(most, ZR_IMPORT_FIRST);
    unsigned    first = 0, got = 0, count;
    uint64_t    start = zr_time_ns();
    ze_result_t result;

    if (x->unproven) {
        import->once = 1 + atomic_fetch_add(&zr_import_once, 1) % UINT32_MAX;
    }
    zr_import_use_known(import, x, dev);
    while ((count = zr_import_next(import, batch, &first)) > 0) {
        batch  = ZR_MIN(most, batch * ZR_IMPORT_MORE);
        result = zr_import_late(import, x, start, first);
        if (result == ZE_RESULT_SUCCESS) {
            result = zr_import_fetch(import, x, dev, first, count, batch, &got);
        }
        if (result != ZE_RESULT_SUCCESS) {
            return result;
        }
        first += got;
    }
    return ZE_RESULT_SUCCESS;
}

/* The same object id twice in a table is one object: every entry must lie in what came for it. */
static ze_result_t zr_import_range(const struct zr_import *import, const struct zr_table *table,
                                   struct zr_range *range)
{
    ze_result_t result = ZE_RESULT_SUCCESS;
    unsigned    i;

    for (i = 0; i < import->count && result == ZE_RESULT_SUCCESS; ++i) {
        const struct zr_table_entry *entry = &table->entries[i];
        struct zr_phys              *phys  = import->objects[i]->phys;

        if (entry->offset + entry->length > phys->size) {
            return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                           "entry %u goes beyond object %llu of pid %u", i,
                           (unsigned long long)entry->object_id, table->header->pid);
        }
        result = zr_range_append(range, phys, entry->offset, entry->length);
    }
    return result;
}

/* ---- open handles ---- */

static ze_result_t zr_import_list(struct zr_import *import)
{
    int status;

    pthread_mutex_lock(&zr_imports.lock);
    status = zr_hmap_insert(&zr_imports.open, &import->node, zr_hash_mix(0, (uintptr_t)import));
    pthread_mutex_unlock(&zr_imports.lock);
    return (status == 0) ? ZE_RESULT_SUCCESS
                         : zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "import: no memory");
}

static void zr_import_unlist(struct zr_import *import)
{
    pthread_mutex_lock(&zr_imports.lock);
    zr_hmap_remove(&zr_imports.open, &import->node);
    pthread_mutex_unlock(&zr_imports.lock);
}

/* Compares addresses only: @a tag may be anything. */
static bool zr_import_listed(const void *tag)
{
    uint64_t         hash = zr_hash_mix(0, (uintptr_t)tag);
    struct zr_hnode *node;

    pthread_mutex_lock(&zr_imports.lock);
    node = zr_hmap_first(&zr_imports.open, hash);
    while (node != NULL && (const void *)ZR_CONTAINER_OF(node, struct zr_import, node) != tag) {
        node = zr_hmap_next(node->next, hash);
    }
    pthread_mutex_unlock(&zr_imports.lock);
    return node != NULL;
}

/* ---- opening ---- */

static ze_result_t zr_open_range(struct zr_exchange *x, struct zr_i915 *dev, struct zr_range *range,
                                 size_t *lead_p, struct zr_import **import_p)
{
    struct zr_identity own = zr_identity();
    ze_result_t        result;

    if (memcmp(x->table.header->system_id, own.system_id, sizeof(own.system_id)) != 0) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "export %llu comes from another machine or another boot",
                       (unsigned long long)x->handle.export_id);
    }
    *import_p = zr_import_new(x->table.header->count);
    if (*import_p == NULL) {
        return zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "import: no memory");
    }
    result = zr_import_objects(*import_p, x, dev);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_import_range(*import_p, &x->table, range);
    }
    *lead_p = x->table.header->lead;
    return result;
}

static ze_result_t zr_open_plain(struct zr_exchange *x, struct zr_i915 *dev, int fd,
                                 struct zr_range *range, struct zr_import **import_p)
{
    struct zr_phys *phys;
    struct zr_bo   *bo;
    ze_result_t     result = zr_bo_import_near(dev, fd, &bo);

    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    if (bo->size < x->handle.size) {
        zr_bo_unref(bo);
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "export %llu: the handle says 0x%llx bytes, the buffer has fewer",
                       (unsigned long long)x->handle.export_id,
                       (unsigned long long)x->handle.size);
    }
    result = zr_phys_wrap(bo, ZR_BACKING_IO_SPACE, &phys);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    if (x->handle.memory_type != ZE_MEMORY_TYPE_UNKNOWN) {
        phys->device_local = (x->handle.memory_type == ZE_MEMORY_TYPE_DEVICE);
    }
    result = zr_range_append(range, phys, 0, x->handle.size);
    zr_phys_unref(phys);
    if (result == ZE_RESULT_SUCCESS) {
        *import_p = zr_import_new(0);
    }
    return result;
}

/* By fds of another process. */
static ze_result_t zr_open_foreign(struct zr_exchange *x, struct zr_i915 *dev,
                                   struct zr_range *range, size_t *lead_p,
                                   struct zr_import **import_p)
{
    ze_result_t result;
    int         fd;

    result = zr_exchange_lead(x, &fd);
    if (result == ZE_RESULT_SUCCESS) {
        if (x->handle.kind == ZR_HANDLE_RANGE) {
            result = zr_open_range(x, dev, range, lead_p, import_p);
        } else {
            result = zr_open_plain(x, dev, fd, range, import_p);
        }
        close(fd);
    }
    return result;
}

ze_result_t zr_ipc_open(struct zr_i915 *dev, const ze_ipc_mem_handle_t *handle, void **ptr_p)
{
    struct zr_import  *import = NULL;
    size_t             lead   = 0;
    struct zr_exchange x;
    struct zr_handle   h;
    struct zr_range    range;
    const char        *wrong;
    ze_result_t        result;

    memcpy(&h, handle, sizeof(h));
    wrong = zr_handle_check(&h);
    if (wrong != NULL) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "open: %s", wrong);
    }
    zr_range_init(&range);
    zr_exchange_init(&x, &h);
    if (!zr_exchange_range(&x, &range, &lead, &result)) {
        result = zr_open_foreign(&x, dev, &range, &lead, &import);
    } else if (result == ZE_RESULT_SUCCESS) {
        import = zr_import_new(0); /* the objects are nobody else's */
    }
    zr_exchange_fini(&x);
    if (result == ZE_RESULT_SUCCESS && import == NULL) {
        result = zr_fail(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "import: no memory");
    }
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_import_list(import);
    }
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_va_adopt(&range, lead, dev, import, ptr_p);
        if (result != ZE_RESULT_SUCCESS) {
            zr_import_unlist(import);
        }
    }
    zr_range_clear(&range);
    if (result != ZE_RESULT_SUCCESS && import != NULL) {
        zr_import_free(import);
    }
    return result;
}

ze_result_t zr_ipc_close(const void *ptr)
{
    struct zr_va_info info;
    void             *tag;
    ze_result_t       result;

    if (!zr_va_query(ptr, &info) || info.kind != ZR_VA_IMPORT || !zr_import_listed(info.tag)) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "close: 0x%zx is not an opened handle",
                       (size_t)ptr);
    }
    result = zr_va_release(ptr, &tag);
    if (result == ZE_RESULT_SUCCESS) {
        zr_import_unlist(tag);
        zr_import_free(tag);
    }
    return result;
}

/* ---- handles and fds ---- */

ze_result_t zr_ipc_handle_from_fd(uint64_t fd, ze_ipc_mem_handle_t *handle_p)
{
    struct zr_handle h     = {.version = ZR_WIRE_VERSION};
    struct zr_table  table = {0};
    struct stat      st;
    off_t            size;

    if (fd > INT32_MAX || fstat((int)fd, &st) != 0) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "fd %llu is not open here",
                       (unsigned long long)fd);
    }
    h.fd = (int32_t)fd;
    if (zr_table_open((int)fd, &table) == NULL) {
        h.kind       = ZR_HANDLE_RANGE;
        h.process_id = table.header->process_id;
        h.pid        = table.header->pid;
        h.export_id  = table.header->export_id;
        memcpy(h.secret, table.header->secret, sizeof(h.secret));
        zr_table_close(&table);
    } else {
        size = lseek((int)fd, 0, SEEK_END); /* all that a dma-buf knows of seeking */
        if (size <= 0) {
            return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "fd %llu is not a dma-buf",
                           (unsigned long long)fd);
        }
        h.kind   = ZR_HANDLE_PLAIN;
        h.size   = (uint64_t)size;
        h.inode  = zr_inode_here(st.st_ino);
        h.device = zr_device_number(st.st_dev);
    }
    memset(handle_p, 0, sizeof(*handle_p));
    memcpy(handle_p, &h, sizeof(h));
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_ipc_fd_from_handle(const ze_ipc_mem_handle_t *handle, uint64_t *fd_p)
{
    struct zr_exchange x;
    struct zr_handle   h;
    const char        *wrong;
    bool               here;

    memcpy(&h, handle, sizeof(h));
    wrong = zr_handle_check(&h);
    if (wrong != NULL) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT, "fd of a handle: %s", wrong);
    }
    zr_exchange_init(&x, &h);
    here = h.fd >= 0 && zr_exchange_accept(&x, "own copy", h.fd);
    zr_exchange_fini(&x);
    if (!here) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "fd %d here is not the handle's: it was made in another process", h.fd);
    }
    *fd_p = (uint64_t)h.fd;
    return ZE_RESULT_SUCCESS;
}

void zr_ipc_counts(struct zr_ipc_counts *counts)
{
    counts->exports = zr_export_count();
    pthread_mutex_lock(&zr_imports.lock);
    counts->imports          = zr_imports.open.count;
    counts->imported_objects = zr_imports.objects.count;
    pthread_mutex_unlock(&zr_imports.lock);
}
