/* Memory domain: see md.h. One cache of exports and one of imports serve the whole process. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "md.h"

#include "copytls.h"
#include "hooks.h"
#include "settings.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
     "Registering a buffer exports what is mapped around it as well, up to this size, so that "
     "its neighbours need no export of their own; not beyond its reservation",
     offsetof(struct md_config, max_extent), ZR_SETTING_SIZE("MAX_EXTENT")},
    {NULL},
};
const size_t zr_md_config_size = sizeof(struct md_config);

struct zr_uct_tables zr_uct_tables;

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

/* ---- resources ---- */

ucs_status_t zr_md_query_resources(struct zr_uct_component *component,
                                   uct_md_resource_desc_t **resources_p, unsigned *count_p)
{
    const struct zr_ze *ze;
    bool                range, copy;

    zr_transports_selected(&range, &copy);
    if (!range && !copy) {
        zr_transports_tell_unrecognised();
        return uct_md_query_empty_md_resource(resources_p, count_p);
    }
    ze = zr_ze_get();
    if (ze == NULL) {
        zr_ucs_debug("ze_range is not used: %s", zr_ze_missing());
        return uct_md_query_empty_md_resource(resources_p, count_p);
    }
    /* Here and not with the domain: ze_copy alone needs UCX to know of mapped memory too. */
    zr_hooks_start(ze, zr_uct_tables.mem_type_unknown, zr_exports_forget);
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

static void answer(const struct zr_link_message *request, struct zr_link_message *message,
                   int *fds)
{
    if (request->what != ZR_LINK_STATS) {
        zr_exports_answer(request, message, fds);
        return;
    }
    zr_md_stats(&message->u.stats);
}

static const struct zr_link_ops link_ops = {answer, zr_imports_let_go};

static ucs_status_t start_caches(const struct zr_ze *ze, const struct md_config *config)
{
    static pthread_mutex_t  lock   = PTHREAD_MUTEX_INITIALIZER; /* guards the making of them */
    struct zr_rcache_limits limits = {
        limit_of(config->max_regions, UINT64_MAX),
        limit_of(config->max_size, ze->memory_size / 4), false};
    int ret;

    pthread_mutex_lock(&lock);
    ret = zr_exports_start(&limits, limit_of(config->max_extent, UINT64_MAX), &link_ops);
    if (ret == 0) {
        limits.supersede = true;
        ret              = zr_imports_start(&limits, &link_ops);
    }
    pthread_mutex_unlock(&lock);
    return ret == 0 ? UCS_OK : UCS_ERR_NO_MEMORY;
}

void zr_md_stats(struct zr_link_stats *stats)
{
    memset(stats, 0, sizeof(*stats));
    stats->pid = (uint64_t)getpid();
    snprintf(stats->program, sizeof(stats->program), "%s", program_invocation_short_name);
    zr_exports_stats(&stats->exports);
    zr_imports_stats(&stats->imports);
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
    /* The near end of a copy may be the host's: between a device and a host without a stop. As memory
     * of the host has no key of this domain, it changes nothing between two hosts. */
    attr->access_mem_types = device | UCS_BIT(UCS_MEMORY_TYPE_HOST);
    /* UCP asserts that a domain caches whatever it registers; see zr_md_mkey_pack. */
    attr->cache_mem_types  = device;
    attr->rkey_packed_size = sizeof(struct zr_key);
    return UCS_OK;
}

/* ---- registration ---- */

ucs_status_t zr_md_mem_reg(struct zr_uct_md *md, void *address, size_t length, const void *params,
                           uct_mem_h *memh_p)
{
    return zr_registration_create(address, length, (struct zr_registration **)memh_p);
}

ucs_status_t zr_md_mem_dereg(struct zr_uct_md *md, const struct zr_uct_dereg_params *params)
{
    unsigned flags      = params->field_mask & ZR_UCT_DEREG_FIELD_FLAGS ? params->flags : 0;
    bool     invalidate = flags & ZR_UCT_DEREG_FLAG_INVALIDATE;

    if (!(params->field_mask & ZR_UCT_DEREG_FIELD_MEMH) || params->memh == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    zr_registration_destroy(params->memh, invalidate);
    if (invalidate && (params->field_mask & ZR_UCT_DEREG_FIELD_COMP) && params->comp != NULL &&
        --params->comp->count == 0) {
        params->comp->func(params->comp);
    }
    return UCS_OK;
}

ucs_status_t zr_md_mkey_pack(struct zr_uct_md *md, uct_mem_h memh, void *address, size_t length,
                             const void *params, void *buffer)
{
    struct zr_key key;

    zr_registration_key(memh, &key);
    memcpy(buffer, &key, sizeof(key));
    return UCS_OK;
}

ucs_status_t zr_rkey_unpack(const void *buffer, uct_rkey_t *rkey_p)
{
    struct zr_rkey *rkey;
    struct zr_key   key;
    ucs_status_t    status;

    memcpy(&key, buffer, sizeof(key));
    if (key.version != ZR_KEY_VERSION) {
        zr_ucs_diag("a peer's key has version %u, this zerange knows %u", key.version,
                    ZR_KEY_VERSION);
        return UCS_ERR_UNREACHABLE;
    }
    if (key.kind == ZR_SHARE_NONE) {
        return UCS_ERR_UNREACHABLE; /* UCP takes another way */
    }
    status = zr_rkey_create(&key, &rkey);
    if (status == UCS_OK) {
        *rkey_p = (uintptr_t)rkey;
    }
    return status;
}

ucs_status_t zr_rkey_release(struct zr_uct_component *component, uct_rkey_t rkey, void *handle)
{
    zr_rkey_destroy((struct zr_rkey *)rkey);
    return UCS_OK;
}
