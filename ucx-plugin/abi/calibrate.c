/* Which UCX is this? Picks a layout by a symbol, then confirms it: libuct's exported functions
 * are called on objects whose tables hold recorders, and the slot that fired must be the one the
 * layout names. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "layout.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Oldest first. */
static const struct zr_uct_layout *const layouts[] = {&zr_uct_layout_1_18,
                                                      &zr_uct_layout_1_23};
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

/* The slot that libuct calls for this dispatcher, -1 none, ZR_UCT_ABSENT no such function. */
static int probe_slot(void *libuct, const struct zr_uct_slot *slot)
{
    static uint64_t                 zeros[1024];
    static struct zr_uct_base_iface iface;
    static struct zr_uct_md         md;
    static struct zr_uct_component  component;
    static uct_ep_t                 ep;
    void                           *object = NULL;
    long (*call)(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *);

    call = dlsym(libuct, slot->dispatcher);
    if (call == NULL) {
        return ZR_UCT_ABSENT;
    }
    memset(zeros, 0, sizeof(zeros));
    iface.internal_ops = recorders;
    md.ops             = recorders;
    ep.iface           = &iface.super;
    memcpy(&component.query_md_resources, recorders, 7 * sizeof(recorders[0]));
    switch (slot->table) {
    case ZR_UCT_COMPONENT: object = &component; break;
    case ZR_UCT_MD_OPS: object = &md; break;
    case ZR_UCT_IFACE_OPS: object = &iface; break;
    case ZR_UCT_EP_OPS: object = &ep; break;
    }
    fired = -1;
    call(object, zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros, zeros);
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
                 "base interface of %zu bytes and base endpoint of %zu, expected %d and %zu (is "
                 "this a build with statistics?)",
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

static int slots_fit(void *libuct, const struct zr_uct_layout *layout, char *why, size_t max)
{
    const struct zr_uct_slot *slot;
    int                       found;

    for (slot = layout->slots; slot->dispatcher != NULL; slot++) {
        found = probe_slot(libuct, slot);
        if (found != slot->slot) {
            snprintf(why, max, "%s calls slot %d, expected %d", slot->dispatcher, found,
                     slot->slot);
            return 0;
        }
    }
    return 1;
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

static const struct zr_uct_layout *choose(void *libuct, char *why, size_t max)
{
    const struct zr_uct_layout *layout = NULL;
    const char                 *forced = getenv("ZERANGE_UCX_ABI");
    int                         minor  = ucp_minor();
    unsigned                    k;

    for (k = 0; k < LAYOUTS; k++) {
        if (forced != NULL ? strtoul(forced[0] == '1' && forced[1] == '.' ? forced + 2 : forced,
                                     NULL, 10) == layouts[k]->minor
                           : dlsym(libuct, layouts[k]->probe) != NULL) {
            layout = layouts[k];
        }
    }
    if (layout == NULL) {
        char version[32] = "this libuct";

        if (minor >= 0) {
            snprintf(version, sizeof(version), "UCX 1.%d", minor);
        }
        snprintf(why, max, "no layout for %s%s, known are UCX 1.%u to 1.%u",
                 forced != NULL ? "ZERANGE_UCX_ABI=" : version, forced != NULL ? forced : "",
                 layouts[0]->minor, layouts[LAYOUTS - 1]->minor);
    } else if (forced == NULL && minor >= 0 && (unsigned)minor != layout->minor) {
        snprintf(why, max,
                 "UCX is 1.%d and the nearest known layout 1.%u; ZERANGE_UCX_ABI=1.%u tries it",
                 minor, layout->minor, layout->minor);
        layout = NULL;
    }
    return layout;
}

const struct zr_uct_layout *zr_uct_layout_find(void)
{
    const struct zr_uct_layout *layout = NULL;
    void                       *libuct = libuct_handle();
    char                        why[256] = "libuct was not found";

    if (libuct != NULL && sizes_fit(why, sizeof(why)) && self_found(why, sizeof(why))) {
        layout = choose(libuct, why, sizeof(why));
        if (layout != NULL && !slots_fit(libuct, layout, why, sizeof(why))) {
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
