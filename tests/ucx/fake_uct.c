/* A libuct for test_calibrate.sh that only dispatches: the tables of UCX 1.23, or what FAKE_UCT
 * asks for: stats (sizes of a build with statistics), self (its built-in component is elsewhere),
 * slot (one function at another slot), transport (a transport is elsewhere). It is libucp as well,
 * of UCX 1.FAKE_MINOR. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "abi/uct_abi.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef long (*fn_t)(void);

static int asked_for(const char *what)
{
    const char *text = getenv("FAKE_UCT");

    return text != NULL && strcmp(text, what) == 0;
}

/* ---- what a plugin registers with ---- */

EXPORT ucs_list_link_t    uct_components_list;
EXPORT ucs_config_field_t uct_md_config_table[]    = {{NULL}};
EXPORT ucs_config_field_t uct_iface_config_table[] = {{NULL}};
EXPORT ucs_class_t        uct_base_iface_t_class   = {.name = "fake"};
EXPORT ucs_class_t        uct_base_ep_t_class      = {.name = "fake"};

static struct zr_uct_component self_component = {.name = "self"};
static struct zr_uct_tl        self_tl        = {.name = "self"};

EXPORT void uct_component_register(struct zr_uct_component *component)
{
    ucs_list_add_tail(&uct_components_list, &component->link);
}

EXPORT void uct_component_unregister(struct zr_uct_component *component)
{
    ucs_list_del(&component->link);
}

EXPORT void uct_tl_register(struct zr_uct_component *component, struct zr_uct_tl *tl)
{
    ucs_list_add_tail(&component->transports, &tl->link);
}

EXPORT void uct_tl_unregister(struct zr_uct_tl *tl)
{
    ucs_list_del(&tl->link);
}

__attribute__((constructor)) static void start(void)
{
    uct_base_iface_t_class.size = asked_for("stats") ? 1344 : ZR_UCT_BASE_IFACE_SIZE;
    uct_base_ep_t_class.size    = asked_for("stats") ? 16 : sizeof(struct zr_uct_base_ep);
    ucs_list_head_init(&uct_components_list);
    ucs_list_head_init(&self_component.transports);
    if (asked_for("self")) {
        memmove(self_component.name, "\0self", 6);
    }
    uct_component_register(&self_component);
    uct_tl_register(&self_component, &self_tl);
}

EXPORT void ucp_get_version(unsigned *major, unsigned *minor, unsigned *release)
{
    *major   = 1;
    *minor   = (unsigned)atoi(getenv("FAKE_MINOR"));
    *release = 0;
}

/* ---- dispatchers, as thin as libuct's ---- */

static long call(const zr_uct_fn_t *table, int slot)
{
    return ((fn_t)table[slot])();
}

/* The installed header declares some of these otherwise, so that they have other names in C. */
#define DISPATCHER(name, type, table, slot)                                                   \
    EXPORT long fake_##name(type *object) __asm__("uct_" #name);                              \
    long        fake_##name(type *object)                                                     \
    {                                                                                         \
        return call(table, slot);                                                             \
    }
#define COMPONENT(name, slot)                                                                 \
    DISPATCHER(name, struct zr_uct_component, &object->query_md_resources, slot)
#define MD(name, slot) DISPATCHER(name, struct zr_uct_md, object->ops, slot)
#define IFACE(name, slot)                                                                     \
    DISPATCHER(name, struct zr_uct_base_iface, object->internal_ops, slot)
#define EP(name, slot)                                                                        \
    DISPATCHER(name, uct_ep_t, ((struct zr_uct_base_iface *)object->iface)->internal_ops, slot)

COMPONENT(component_query, 0)
COMPONENT(md_open, 1)
COMPONENT(rkey_unpack, 3)
COMPONENT(rkey_unpack_v2, 3)
COMPONENT(rkey_ptr, 4)
COMPONENT(rkey_release, 5)
COMPONENT(rkey_compare, 6)
MD(md_close, 0)
MD(md_query_v2, 1)
MD(md_mem_alloc, 2)
MD(md_mem_free, 3)
MD(md_mem_advise, 4)
MD(md_mem_reg_v2, 5)
MD(md_mem_dereg_v2, asked_for("slot") ? 7 : 6)
MD(md_mem_query, 7)
MD(md_mem_query_v2, 7)
MD(md_mkey_pack_v2, 8)
MD(md_mem_attach, 9)
MD(md_detect_memory_type, 10)
MD(md_mem_elem_pack, 11)
MD(md_mem_elem_release, 12)
IFACE(iface_query_v2, 0)
IFACE(iface_estimate_perf, 1)
EP(ep_query, 3)
EP(ep_invalidate, 4)
EP(ep_connect_to_ep_v2, 5)
IFACE(iface_is_reachable_v2, 6)
EP(ep_is_connected, 7)
EP(ep_get_device_ep, 8)
EP(ep_put_sgl_zcopy, 9)
EP(ep_get_sgl_zcopy, 10)
EP(ep_outstanding_purge, 11)

/* ---- what finds a transport ---- */

static struct zr_uct_tl *first_tl(const struct zr_uct_md *md)
{
    return ucs_list_head(&md->component->transports, struct zr_uct_tl, link);
}

EXPORT ucs_status_t uct_md_query_tl_resources(uct_md_h md, uct_tl_resource_desc_t **resources_p,
                                              unsigned *count_p)
{
    if (!asked_for("transport")) {
        ((fn_t)first_tl((struct zr_uct_md *)md)->query_devices)();
    }
    *resources_p = NULL;
    *count_p     = 0;
    return UCS_OK;
}

EXPORT void uct_release_tl_resource_list(uct_tl_resource_desc_t *resources)
{
}

EXPORT ucs_status_t uct_iface_open(uct_md_h md, uct_worker_h worker,
                                   const uct_iface_params_t *params,
                                   const uct_iface_config_t *config, uct_iface_h *iface_p)
{
    return (ucs_status_t)((fn_t)first_tl((struct zr_uct_md *)md)->iface_open)();
}

/* Whose addresses go into tables that are not called here. */
#define STUB(name)                                                                            \
    EXPORT long stub_##name(void) __asm__("uct_" #name);                                      \
    long        stub_##name(void)                                                             \
    {                                                                                         \
        return UCS_ERR_UNSUPPORTED;                                                           \
    }
STUB(base_rkey_compare)
STUB(base_ep_is_connected)
STUB(base_ep_flush)
STUB(base_ep_fence)
STUB(base_iface_flush)
STUB(base_iface_fence)
STUB(base_iface_is_reachable)
STUB(base_iface_estimate_perf)
STUB(base_iface_progress_enable)
STUB(base_iface_progress_disable)
