/* Memory domain: see md.h. One export cache and one import cache serve the whole process. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "md.h"

#include "copytls.h"
#include "hooks.h"
#include "settings.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct md_config {
    char          ucx[ZR_UCT_CONFIG_RESERVE];
    unsigned long max_regions;
    size_t        max_size, max_extent;
};

ucs_config_field_t zr_md_config_table[] = {
    {"", "", NULL, 0, UCS_CONFIG_TYPE_TABLE(uct_md_config_table)},
    {"CACHE_MAX_REGIONS", "1024",
     "Remote ranges kept open when they are not used, and exports of this process likewise; the "
     "least recently used goes first. inf: no limit",
     offsetof(struct md_config, max_regions), ZR_SETTING_COUNT("CACHE_MAX_REGIONS")},
    {"CACHE_MAX_SIZE", "auto",
     "The same in bytes, since what is kept open cannot be freed by its owner. auto: a quarter of "
     "the device's memory",
     offsetof(struct md_config, max_size), ZR_SETTING_SIZE("CACHE_MAX_SIZE")},
    {"MAX_EXTENT", "1G",
     "Registering a buffer exports what is mapped behind it as well, up to this size, so that "
     "its neighbours need no export of their own. Of these, what is unmapped stays allocated "
     "until the buffer is sent again or unmapped too",
     offsetof(struct md_config, max_extent), ZR_SETTING_SIZE("MAX_EXTENT")},
    {NULL},
};
const size_t zr_md_config_size = sizeof(struct md_config);

struct zr_uct_tables zr_uct_tables;

static struct {
    pthread_mutex_t   lock; /* guards the making of the caches */
    struct zr_rcache *exports, *imports;
    _Atomic uint64_t  max_extent;
    _Atomic uint64_t  next_export_id;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_export_id = 1};

ucs_status_t zr_status_of(ze_result_t result)
{
    switch (result) {
    case ZE_RESULT_SUCCESS: return UCS_OK;
    case ZE_RESULT_NOT_READY: return UCS_INPROGRESS;
    case ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY:
    case ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY: return UCS_ERR_NO_MEMORY;
    case ZE_RESULT_ERROR_UNSUPPORTED_FEATURE:
    case ZE_RESULT_ERROR_UNSUPPORTED_SIZE: return UCS_ERR_UNSUPPORTED;
    case ZE_RESULT_ERROR_INVALID_ARGUMENT:
    case ZE_RESULT_ERROR_INVALID_SIZE:
    case ZE_RESULT_ERROR_INVALID_NULL_POINTER: return UCS_ERR_INVALID_PARAM;
    case ZE_RESULT_ERROR_ADDRESS_NOT_FOUND: return UCS_ERR_INVALID_ADDR;
    default: return UCS_ERR_IO_ERROR;
    }
}

static int errno_of(ze_result_t result)
{
    ucs_status_t status = zr_status_of(result);

    return status == UCS_OK ? 0 : status == UCS_ERR_NO_MEMORY ? -ENOMEM : -EIO;
}

/* ---- export side: what this process shares ---- */

#define EXPORT_WHY 256 /* room for the reasons why something cannot be exported */

struct export_data {
    struct zr_share share;
    uint64_t        id;
    uint64_t        allocation_id; /* of the only allocation behind it */
};

static int export_open(void *owner, const struct zr_rcache_request *request,
                       struct zr_rcache_region *region, uint64_t *start_p, uint64_t *end_p)
{
    const struct zr_ze *ze     = zr_ze_get();
    struct export_data *export = calloc(1, sizeof(*export));
    ze_result_t         result;

    if (export == NULL) {
        return -ENOMEM;
    }
    (void)zr_ze_memory_type(ze, (void *)(uintptr_t)request->start, &export->allocation_id);
    result = zr_share_export(ze, request->start, request->size, state.max_extent, &export->share,
                             (char *)request->arg, EXPORT_WHY);
    if (result != ZE_RESULT_SUCCESS) {
        free(export);
        return errno_of(result);
    }
    export->id       = atomic_fetch_add(&state.next_export_id, 1);
    region->data     = export;
    region->identity = (struct zr_rcache_identity){.id = export->id};
    *start_p         = export->share.base;
    *end_p           = ucs_max(*end_p, export->share.base + export->share.size);
    zr_ucs_debug("exported 0x%lx..0x%lx as %lu", (unsigned long)*start_p, (unsigned long)*end_p,
                 (unsigned long)export->id);
    return 0;
}

/* Not before the last registration leaves it: a peer may have a key and not have opened it yet,
 * and what was unmapped may be no more than a neighbour of what that key is for. */
static void export_close(void *owner, struct zr_rcache_region *region)
{
    struct export_data *export = region->data;

    zr_share_release(zr_ze_get(), &export->share);
    free(export);
}

/* Without events, only an allocation that is still the same one may be hit; a range of several
 * has no such number. */
static bool export_valid(void *owner, const struct zr_rcache_region *region)
{
    const struct export_data *export = region->data;
    uint64_t                  id     = 0;

    if (zr_hooks_active()) {
        return true;
    }
    return export->share.kind == ZR_SHARE_PLAIN &&
           zr_ze_memory_type(zr_ze_get(), (void *)(uintptr_t)region->node.start, &id) !=
               ZE_MEMORY_TYPE_UNKNOWN &&
           id == export->allocation_id;
}

static const struct zr_rcache_ops export_ops = {export_open, export_close, export_valid};

/* ---- import side: what peers share ---- */

struct import_request {
    const struct zr_rkey *rkey;
    ze_result_t           result;
};

static int import_open(void *owner, const struct zr_rcache_request *request,
                       struct zr_rcache_region *region, uint64_t *start_p, uint64_t *end_p)
{
    struct import_request *import = (struct import_request *)request->arg;
    const struct zr_key   *key    = &import->rkey->key;
    struct zr_share        share  = {.kind = key->kind, .base = key->base, .size = key->size};

    memcpy(share.handle.data, key->handle, sizeof(key->handle));
    import->result = zr_share_open(zr_ze_get(), &share, &region->data);
    if (import->result != ZE_RESULT_SUCCESS) {
        return errno_of(import->result);
    }
    zr_ucs_debug("opened 0x%lx..0x%lx of process %u at %p", (unsigned long)key->base,
                 (unsigned long)(key->base + key->size), key->peer.pid, region->data);
    return 0;
}

static void import_close(void *owner, struct zr_rcache_region *region)
{
    zr_share_close(zr_ze_get(), region->data);
}

static const struct zr_rcache_ops import_ops = {import_open, import_close, NULL};

/* The same process may be alive under this pid, or another one, or none. */
static bool peer_is_gone(const struct zr_peer *peer)
{
    return kill((pid_t)peer->pid, 0) != 0 && errno == ESRCH;
}

ucs_status_t zr_import_get(const struct zr_rkey *rkey, uint64_t remote, size_t size,
                           struct zr_rcache_region **region_p, void **ptr_p)
{
    const struct zr_key     *key    = &rkey->key;
    struct import_request    import = {.rkey = rkey};
    struct zr_rcache_request request;
    int                      ret;

    if (remote < key->base || remote - key->base > key->size ||
        size > key->size - (remote - key->base)) {
        zr_ucs_error("remote 0x%lx..0x%lx is not inside the key's 0x%lx..0x%lx",
                     (unsigned long)remote, (unsigned long)(remote + size),
                     (unsigned long)key->base, (unsigned long)(key->base + key->size));
        return UCS_ERR_INVALID_ADDR;
    }
    request = (struct zr_rcache_request){rkey->space, key->base, key->size, &rkey->identity,
                                         &import};
    ret     = zr_rcache_get(state.imports, &request, region_p);
    if (ret == 0) {
        *ptr_p = (char *)(*region_p)->data + (remote - key->base);
        return UCS_OK;
    }
    zr_ucs_diag("range 0x%lx..0x%lx of process %u cannot be opened: 0x%x %s",
                (unsigned long)key->base, (unsigned long)(key->base + key->size), key->peer.pid,
                (unsigned)import.result, zr_ze_last_error(zr_ze_get()));
    if (peer_is_gone(&key->peer)) {
        return UCS_ERR_CONNECTION_RESET;
    }
    return ret == -ENOMEM ? UCS_ERR_NO_MEMORY : UCS_ERR_UNREACHABLE;
}

void zr_import_put(struct zr_rcache_region *region)
{
    zr_rcache_put(state.imports, region);
}

/* ---- resources ---- */

static void forget(void *ptr, size_t size)
{
    struct zr_rcache *exports = __atomic_load_n(&state.exports, __ATOMIC_ACQUIRE);

    if (exports != NULL) {
        zr_rcache_invalidate(exports, 0, (uintptr_t)ptr, size);
    }
}

ucs_status_t zr_md_query_resources(struct zr_uct_component *component,
                                   uct_md_resource_desc_t **resources_p, unsigned *count_p)
{
    const struct zr_ze *ze;
    bool                range, copy;

    zr_transports_selected(&range, &copy);
    if (!range && !copy) {
        return uct_md_query_empty_md_resource(resources_p, count_p);
    }
    ze = zr_ze_get();
    if (ze == NULL) {
        zr_ucs_debug("ze_range is not used: %s", zr_ze_missing());
        return uct_md_query_empty_md_resource(resources_p, count_p);
    }
    /* Here and not with the domain: ze_copy alone needs UCX to know of mapped memory too. */
    zr_hooks_start(ze, zr_uct_tables.mem_type_unknown, forget);
    if (!range) {
        return uct_md_query_empty_md_resource(resources_p, count_p);
    }
    return uct_md_query_single_md_resource(component, resources_p, count_p);
}

/* UCX writes "inf" and "auto" as its two largest numbers. */
static uint64_t limit_of(size_t units, uint64_t automatic)
{
    return units == SIZE_MAX ? UINT64_MAX : units == SIZE_MAX - 1 ? automatic : units;
}

static ucs_status_t start_caches(const struct zr_ze *ze, const struct md_config *config)
{
    struct zr_rcache_limits limits = {
        limit_of(config->max_regions, UINT64_MAX),
        limit_of(config->max_size, ze->memory_size / 4), false};
    ucs_status_t status = UCS_ERR_NO_MEMORY;

    pthread_mutex_lock(&state.lock);
    state.max_extent = limit_of(config->max_extent, UINT64_MAX);
    if (state.exports == NULL) {
        struct zr_rcache *exports;

        if (zr_rcache_create(&export_ops, NULL, &limits, &exports) != 0) {
            goto out;
        }
        __atomic_store_n(&state.exports, exports, __ATOMIC_RELEASE);
    }
    zr_rcache_set_limits(state.exports, &limits);
    limits.supersede = true;
    if (state.imports == NULL &&
        zr_rcache_create(&import_ops, NULL, &limits, &state.imports) != 0) {
        goto out;
    }
    zr_rcache_set_limits(state.imports, &limits);
    status = UCS_OK;
out:
    pthread_mutex_unlock(&state.lock);
    return status;
}

ucs_status_t zr_md_open(struct zr_uct_component *component, const char *name,
                        const uct_md_config_t *config, struct zr_uct_md **md_p)
{
    const struct zr_ze *ze = zr_ze_get();
    struct zr_uct_md   *md;
    ucs_status_t        status;

    if (ze == NULL) {
        return UCS_ERR_NO_DEVICE;
    }
    status = start_caches(ze, (const struct md_config *)config);
    if (status != UCS_OK) {
        return status;
    }
    md = calloc(1, sizeof(*md));
    if (md == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    md->ops       = zr_uct_tables.md_ops;
    md->component = component;
    *md_p         = md;
    return UCS_OK;
}

void zr_md_close(struct zr_uct_md *md)
{
    free(md);
}

ucs_status_t zr_md_query(struct zr_uct_md *md, struct zr_uct_md_attr *attr)
{
    uint64_t device = UCS_BIT(UCS_MEMORY_TYPE_ZE_DEVICE);

    uct_md_base_md_query(attr);
    attr->flags            = UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_RKEY | zr_uct_tables.md_flags;
    attr->reg_mem_types    = device;
    attr->access_mem_types = device;
    /* UCP asserts that a domain caches whatever it registers; see zr_md_mkey_pack. */
    attr->cache_mem_types  = device;
    attr->rkey_packed_size = sizeof(struct zr_key);
    return UCS_OK;
}

/* ---- registration ---- */

struct memh {
    void                    *address;
    size_t                   length;
    pthread_mutex_t          lock;   /* guards region */
    struct zr_rcache_region *region; /* NULL: cannot be shared, peers are told so */
};

/* @return NULL if the memory cannot be shared, which is said once. */
static struct zr_rcache_region *export_get(void *address, size_t length)
{
    static atomic_flag       said            = ATOMIC_FLAG_INIT;
    char                     why[EXPORT_WHY] = "";
    struct zr_rcache_request request         = {0, (uintptr_t)address, length, NULL, why};
    struct zr_rcache_region *region;

    if (zr_rcache_get(state.exports, &request, &region) == 0) {
        return region;
    }
    if (!atomic_flag_test_and_set(&said)) {
        zr_ucs_warn("%p..%p cannot be exported (%s): peers reach such memory through host memory",
                    address, (char *)address + length, why);
    }
    return NULL;
}

ucs_status_t zr_md_mem_reg(struct zr_uct_md *md, void *address, size_t length, const void *params,
                           uct_mem_h *memh_p)
{
    struct memh *memh = calloc(1, sizeof(*memh));

    if (memh == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    memh->address = address;
    memh->length  = length;
    memh->region  = export_get(address, length);
    pthread_mutex_init(&memh->lock, NULL);
    *memh_p = memh;
    return UCS_OK;
}

ucs_status_t zr_md_mem_dereg(struct zr_uct_md *md, const struct zr_uct_dereg_params *params)
{
    unsigned     flags = params->field_mask & ZR_UCT_DEREG_FIELD_FLAGS ? params->flags : 0;
    struct memh *memh;

    if (!(params->field_mask & ZR_UCT_DEREG_FIELD_MEMH) || params->memh == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    memh = params->memh;
    if (memh->region != NULL) {
        if (flags & ZR_UCT_DEREG_FLAG_INVALIDATE) {
            zr_rcache_invalidate_region(state.exports, memh->region);
        }
        zr_rcache_put(state.exports, memh->region);
    }
    pthread_mutex_destroy(&memh->lock);
    free(memh);
    if ((flags & ZR_UCT_DEREG_FLAG_INVALIDATE) &&
        (params->field_mask & ZR_UCT_DEREG_FIELD_COMP) && params->comp != NULL &&
        --params->comp->count == 0) {
        params->comp->func(params->comp);
    }
    return UCS_OK;
}

ucs_status_t zr_md_mkey_pack(struct zr_uct_md *md, uct_mem_h memh_, void *address, size_t length,
                             const void *params, void *buffer)
{
    struct memh             *memh  = memh_;
    struct zr_rcache_region *stale = NULL;
    struct zr_key            key   = {.version = ZR_KEY_VERSION, .kind = ZR_SHARE_NONE};

    pthread_mutex_lock(&memh->lock);
    if (memh->region != NULL || !zr_hooks_active()) {
        /* UCP keeps registrations. What lies beside this one may be another memory by now; and
         * without events its own as well, which neither UCP nor we are told of. */
        stale        = memh->region;
        memh->region = export_get(memh->address, memh->length);
    }
    if (memh->region != NULL) {
        const struct export_data *export = memh->region->data;

        key.kind      = (uint8_t)export->share.kind;
        key.export_id = export->id;
        key.base      = export->share.base;
        key.size      = export->share.size;
        memcpy(key.handle, export->share.handle.data, sizeof(key.handle));
    }
    pthread_mutex_unlock(&memh->lock);
    if (stale != NULL) {
        zr_rcache_put(state.exports, stale);
    }
    key.peer = zr_peer_self();
    memcpy(buffer, &key, sizeof(key));
    return UCS_OK;
}

ucs_status_t zr_rkey_unpack(const void *buffer, uct_rkey_t *rkey_p)
{
    struct zr_rkey *rkey;
    struct zr_key   key;

    memcpy(&key, buffer, sizeof(key));
    if (key.version != ZR_KEY_VERSION) {
        zr_ucs_diag("a peer's key has version %u, this zerange knows %u", key.version,
                    ZR_KEY_VERSION);
        return UCS_ERR_UNREACHABLE;
    }
    if (key.kind == ZR_SHARE_NONE) {
        return UCS_ERR_UNREACHABLE; /* UCP takes another way */
    }
    rkey = calloc(1, sizeof(*rkey));
    if (rkey == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    rkey->key   = key;
    rkey->space = zr_peer_space(&key.peer);
    if (rkey->space == 0) {
        free(rkey);
        return UCS_ERR_NO_MEMORY;
    }
    rkey->identity.id = key.export_id;
    memcpy(rkey->identity.bytes, key.handle, sizeof(key.handle));
    *rkey_p = (uintptr_t)rkey;
    return UCS_OK;
}

ucs_status_t zr_rkey_release(struct zr_uct_component *component, uct_rkey_t rkey, void *handle)
{
    free((struct zr_rkey *)rkey);
    return UCS_OK;
}
