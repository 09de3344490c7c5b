/* Which UCX is this? Picks a layout by a symbol, then confirms it: libuct's exported functions
 * are called on objects whose tables hold recorders, and the slot that fired must be the one the
 * layout names. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "layout.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Oldest first: each has the probe symbols of those before it or lacks its own. */
static const struct zr_uct_layout *const layouts[] = {
    &zr_uct_layout_1_18, &zr_uct_layout_1_19, &zr_uct_layout_1_20,
    &zr_uct_layout_1_21, &zr_uct_layout_1_22, &zr_uct_layout_1_23};
#define LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

/* ---- recorders ---- */

static int fired;
#define RECORDER(n)                                                                           \
    static long record_##n(void)                                                              \
    {                                                                                         \
        fired = n;                                                                            \
        return UCS_ERR_UNSUPPORTED;                                                           \
    }
#define EACH_SLOT(m)                                                                          \
    m(0) m(1) m(2) m(3) m(4) m(5) m(6) m(7) m(8) m(9) m(10) m(11) m(12) m(13) m(14) m(15)
EACH_SLOT(RECORDER)
#define RECORDER_ENTRY(n) (zr_uct_fn_t)record_##n,
static zr_uct_fn_t recorders[] = {EACH_SLOT(RECORDER_ENTRY)};
#define RECORDERS (sizeof(recorders) / sizeof(recorders[0]))

/* libuct may have been loaded where only its users see it, so ask for it by its file. */
static void *libuct_handle(void)
{
    Dl_info info;

    if (dladdr((void *)uct_component_register, &info) == 0) {
        return NULL;
    }
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

enum table { COMPONENT, MD_OPS, IFACE_OPS, EP_OPS };

/* "libuct's exported function `dispatcher` calls this function of this table." */
static const struct dispatcher {
    const char *name;
    enum table  table;
    int         op;
    uint64_t    mask; /* first word of its second argument */
} dispatchers[] = {
    {"uct_component_query", COMPONENT, ZR_C_QUERY_MD_RESOURCES,
     UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT},
    {"uct_md_open", COMPONENT, ZR_C_MD_OPEN, 0},
    {"uct_rkey_unpack", COMPONENT, ZR_C_RKEY_UNPACK, 0},
    {"uct_rkey_unpack_v2", COMPONENT, ZR_C_RKEY_UNPACK, 0},
    {"uct_rkey_ptr", COMPONENT, ZR_C_RKEY_PTR, 0},
    {"uct_rkey_release", COMPONENT, ZR_C_RKEY_RELEASE, 0},
    {"uct_rkey_compare", COMPONENT, ZR_C_RKEY_COMPARE, 0},
    {"uct_md_close", MD_OPS, ZR_MD_CLOSE, 0},
    {"uct_md_query_v2", MD_OPS, ZR_MD_QUERY, 0},
    {"uct_md_mem_alloc", MD_OPS, ZR_MD_MEM_ALLOC, 0},
    {"uct_md_mem_free", MD_OPS, ZR_MD_MEM_FREE, 0},
    {"uct_md_mem_advise", MD_OPS, ZR_MD_MEM_ADVISE, 0},
    {"uct_md_mem_reg_v2", MD_OPS, ZR_MD_MEM_REG, 0},
    {"uct_md_mem_dereg_v2", MD_OPS, ZR_MD_MEM_DEREG, 0},
    {"uct_md_mem_query", MD_OPS, ZR_MD_MEM_QUERY, 0},
    {"uct_md_mem_query_v2", MD_OPS, ZR_MD_MEM_QUERY, 0},
    {"uct_md_mkey_pack_v2", MD_OPS, ZR_MD_MKEY_PACK, 0},
    {"uct_md_mem_attach", MD_OPS, ZR_MD_MEM_ATTACH, 0},
    {"uct_md_detect_memory_type", MD_OPS, ZR_MD_DETECT_MEMORY_TYPE, 0},
    {"uct_md_mem_elem_pack", MD_OPS, ZR_MD_MEM_ELEM_PACK, 0},
    {"uct_md_mem_elem_release", MD_OPS, ZR_MD_MEM_ELEM_RELEASE, 0},
    {"uct_iface_query_v2", IFACE_OPS, ZR_IF_QUERY_V2, 0},
    {"uct_iface_estimate_perf", IFACE_OPS, ZR_IF_ESTIMATE_PERF, 0},
    {"uct_iface_mem_element_pack", IFACE_OPS, ZR_IF_MEM_ELEMENT_PACK, 0},
    {"uct_iface_is_reachable_v2", IFACE_OPS, ZR_IF_IS_REACHABLE_V2, 0},
    {"uct_ep_query", EP_OPS, ZR_IF_EP_QUERY, 0},
    {"uct_ep_invalidate", EP_OPS, ZR_IF_EP_INVALIDATE, 0},
    {"uct_ep_connect_to_ep_v2", EP_OPS, ZR_IF_EP_CONNECT_TO_EP_V2, 0},
    {"uct_ep_is_connected", EP_OPS, ZR_IF_EP_IS_CONNECTED, 0},
    {"uct_ep_get_device_ep", EP_OPS, ZR_IF_EP_GET_DEVICE_EP, 0},
    {"uct_ep_put_sgl_zcopy", EP_OPS, ZR_IF_EP_PUT_SGL_ZCOPY, 0},
    {"uct_ep_get_sgl_zcopy", EP_OPS, ZR_IF_EP_GET_SGL_ZCOPY, 0},
    {"uct_ep_outstanding_purge", EP_OPS, ZR_IF_EP_OUTSTANDING_PURGE, 0},
};
#define DISPATCHERS (sizeof(dispatchers) / sizeof(dispatchers[0]))

/* These came and went with a signature and not with a slot of their own: their absence says
 * nothing that a layout could be wrong about. */
static bool may_be_absent(const struct dispatcher *dispatcher)
{
    return strcmp(dispatcher->name, "uct_rkey_unpack_v2") == 0 ||
           strcmp(dispatcher->name, "uct_md_mem_query_v2") == 0;
}

#define ABSENT (-1) /* no such dispatcher, no such slot */
#define NONE   (-2) /* the dispatcher called none of our slots */

/* The slot at which this layout has what @a dispatcher calls. */
static int expected_slot(const struct zr_uct_layout *layout, const struct dispatcher *dispatcher)
{
    switch (dispatcher->table) {
    case COMPONENT: return dispatcher->op;
    case MD_OPS: return dispatcher->op < (int)layout->mds ? dispatcher->op : ABSENT;
    default: return zr_uct_iface_slot(layout, (enum zr_uct_iface_op)dispatcher->op);
    }
}

/* The slot that libuct calls for this dispatcher. */
static int probe_slot(void *libuct, const struct dispatcher *dispatcher)
{
    static uint64_t                 zeros[1024], query[1024];
    static struct zr_uct_base_iface iface;
    static struct zr_uct_md         md;
    static struct zr_uct_component  component;
    static uct_ep_t                 ep;
    void                           *object = NULL;
    long (*call)(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *);

    call = dlsym(libuct, dispatcher->name);
    if (call == NULL) {
        return ABSENT;
    }
    memset(zeros, 0, sizeof(zeros));
    memset(query, 0, sizeof(query));
    query[0]           = dispatcher->mask;
    iface.internal_ops = recorders;
    md.ops             = recorders;
    ep.iface           = &iface.super;
    memcpy(&component.query_md_resources, recorders, ZR_C_OPS * sizeof(recorders[0]));
    switch (dispatcher->table) {
    case COMPONENT: object = &component; break;
    case MD_OPS: object = &md; break;
    case IFACE_OPS: object = &iface; break;
    case EP_OPS: object = &ep; break;
    }
    fired = NONE;
    call(object, query, zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros);
    return fired;
}

/* ---- checks; each writes why not ---- */

static int sizes_fit(char *why, size_t max)
{
    _Static_assert(offsetof(struct zr_uct_base_iface, internal_ops) == 0x190, "layout");
    _Static_assert(sizeof(struct zr_uct_component) == 232, "layout");
    _Static_assert(sizeof(struct zr_uct_tl) == 104, "layout");

    if (uct_base_iface_t_class.size != ZR_UCT_BASE_IFACE_SIZE ||
        uct_base_ep_t_class.size != sizeof(struct zr_uct_base_ep)) {
        snprintf(why, max,
                 "its base interface has %zu bytes and its base endpoint %zu, expected are %d and "
                 "%zu; it is built with statistics (--enable-stats) or others of its own, use "
                 "one without",
                 (size_t)uct_base_iface_t_class.size, (size_t)uct_base_ep_t_class.size,
                 ZR_UCT_BASE_IFACE_SIZE, sizeof(struct zr_uct_base_ep));
        return 0;
    }
    return 1;
}

/* The built-in component "self" must look at our offsets like itself. */
static int self_found(char *why, size_t max)
{
    struct zr_uct_component *component;
    struct zr_uct_tl        *tl;

    ucs_list_for_each(component, &uct_components_list, link) {
        if (strncmp(component->name, "self", sizeof(component->name)) != 0) {
            continue;
        }
        tl = ucs_list_head(&component->transports, struct zr_uct_tl, link);
        if (!ucs_list_is_empty(&component->transports) && strcmp(tl->name, "self") == 0) {
            return 1;
        }
    }
    snprintf(why, max, "component \"self\" is not where it should be in libuct's list");
    return 0;
}

/* uct_iface_open and uct_md_query_tl_resources find a transport at our offsets and call it. */
static int transport_fits(char *why, size_t max)
{
    static struct zr_uct_component component;
    static struct zr_uct_tl        tl = {.name = "probe"};
    struct zr_uct_md               md = {.ops = recorders, .component = &component};
    uct_iface_params_t             params = {
                    .field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE,
                    .open_mode  = UCT_IFACE_OPEN_MODE_DEVICE,
                    .mode.device = {.tl_name = "probe", .dev_name = "probe"}};
    uct_tl_resource_desc_t *resources = NULL;
    unsigned                count     = 0;
    uct_iface_h             iface     = NULL;
    int                     devices, open;

    strcpy(component.name, "probe");
    tl.query_devices = recorders[0];
    tl.iface_open    = recorders[1];
    ucs_list_head_init(&component.transports);
    ucs_list_add_tail(&component.transports, &tl.link);
    fired = NONE;
    if (uct_md_query_tl_resources((uct_md_h)&md, &resources, &count) == UCS_OK) {
        uct_release_tl_resource_list(resources);
    }
    devices = fired;
    fired   = NONE;
    (void)uct_iface_open((uct_md_h)&md, NULL, &params, NULL, &iface);
    open = fired;
    if (devices == 0 && open == 1) {
        return 1;
    }
    snprintf(why, max, "a transport's functions are not where they should be (%d, %d)", devices,
             open);
    return 0;
}

static int slots_fit(void *libuct, const struct zr_uct_layout *layout, char *why, size_t max)
{
    unsigned k;
    int      found, expected;

    for (k = 0; k < DISPATCHERS; k++) {
        found    = probe_slot(libuct, &dispatchers[k]);
        expected = expected_slot(layout, &dispatchers[k]);
        if (found != expected && !(found == ABSENT && may_be_absent(&dispatchers[k]))) {
            snprintf(why, max, "%s %s %d, the layout of UCX 1.%u has %s %d", dispatchers[k].name,
                     found == ABSENT ? "is missing:" : "calls slot", found, layout->minor,
                     expected == ABSENT ? "none:" : "slot", expected);
            return 0;
        }
    }
    return 1;
}

/* Names a layout that does fit, for whoever wants to try it. */
static void suggest(void *libuct, char *why, size_t max)
{
    size_t   length = strlen(why);
    char     unused[128];
    unsigned k;

    for (k = LAYOUTS; k-- > 0;) {
        if (slots_fit(libuct, layouts[k], unused, sizeof(unused))) {
            snprintf(why + length, max - length, "; ZERANGE_UCX_ABI=1.%u fits and may be tried",
                     layouts[k]->minor);
            return;
        }
    }
    snprintf(why + length, max - length, "; no ZERANGE_UCX_ABI from 1.%u to 1.%u fits",
             layouts[0]->minor, layouts[LAYOUTS - 1]->minor);
}

/* UCP tells its version; it may be loaded privately, or not at all. */
static int ucp_minor(void)
{
    void    *libucp = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
    unsigned major = 0, minor = 0, release = 0;
    void (*get_version)(unsigned *, unsigned *, unsigned *);

    if (libucp == NULL) {
        return -1;
    }
    get_version = dlsym(libucp, "ucp_get_version");
    if (get_version != NULL) {
        get_version(&major, &minor, &release);
    }
    dlclose(libucp);
    return major == 1 ? (int)minor : -1;
}

/* @a text is 1.N. @return NULL: no such layout. */
static const struct zr_uct_layout *layout_named(const char *text)
{
    char     name[16];
    unsigned k;

    for (k = 0; k < LAYOUTS; k++) {
        snprintf(name, sizeof(name), "1.%u", layouts[k]->minor);
        if (strcmp(text, name) == 0) {
            return layouts[k];
        }
    }
    return NULL;
}

static const struct zr_uct_layout *layout_probed(void *libuct)
{
    unsigned k;

    for (k = LAYOUTS; k-- > 0;) {
        if (dlsym(libuct, layouts[k]->probe) != NULL) {
            return layouts[k];
        }
    }
    return NULL;
}

static const struct zr_uct_layout *choose(void *libuct, char *why, size_t max)
{
    const char                 *forced = getenv("ZERANGE_UCX_ABI");
    const unsigned              oldest = layouts[0]->minor, newest = layouts[LAYOUTS - 1]->minor;
    const struct zr_uct_layout *layout = forced != NULL ? layout_named(forced)
                                                        : layout_probed(libuct);
    int                         minor  = ucp_minor();

    if (forced != NULL) {
        if (layout == NULL) {
            snprintf(why, max, "ZERANGE_UCX_ABI=%s is not valid, allowed: 1.%u to 1.%u", forced,
                     oldest, newest);
        }
        return layout;
    }
    if (minor >= 0 && (layout == NULL || (unsigned)minor != layout->minor)) {
        snprintf(why, max, "UCX 1.%d has no layout here, known are UCX 1.%u to 1.%u", minor,
                 oldest, newest);
        suggest(libuct, why, max);
        return NULL;
    }
    if (layout == NULL) {
        snprintf(why, max, "this libuct has no layout here, known are UCX 1.%u to 1.%u", oldest,
                 newest);
        suggest(libuct, why, max);
    }
    return layout;
}

const struct zr_uct_layout *zr_uct_layout_find(void)
{
    const struct zr_uct_layout *layout   = NULL;
    void                       *libuct   = libuct_handle();
    char                        why[384] = "libuct was not found";

    if (libuct != NULL && sizes_fit(why, sizeof(why)) && self_found(why, sizeof(why)) &&
        transport_fits(why, sizeof(why))) {
        layout = choose(libuct, why, sizeof(why));
        if (layout != NULL && !slots_fit(libuct, layout, why, sizeof(why))) {
            suggest(libuct, why, sizeof(why));
            layout = NULL;
        }
    }
    if (layout == NULL) {
        zr_ucs_warn("ze_range is not used with this UCX: %s", why);
    }
    if (libuct != NULL) {
        dlclose(libuct);
    }
    return layout;
}
