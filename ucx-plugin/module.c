/* Loading and unloading. The constructor registers the component and its transport if the libuct
 * in this process is one we know; it does not touch Level Zero, so that an application without
 * device memory pays nothing. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "abi/layout.h"
#include "copy.h"
#include "hooks.h"
#include "md.h"
#include "tl.h"

#include <string.h>

static bool registered;

__attribute__((constructor)) static void load(void)
{
    struct zr_uct_component    *component = &zr_uct_tables.component;
    struct zr_uct_tl           *tl        = &zr_uct_tables.tl;
    const struct zr_uct_layout *layout    = zr_uct_layout_find();

    /* Preloaded and found in a plugin directory at once: the first one serves. */
    if (layout == NULL || zr_component_find(ZR_COMPONENT_NAME) != NULL) {
        return;
    }
    zr_uct_fill(layout, &zr_uct_tables);

    strcpy(component->name, ZR_COMPONENT_NAME);
    component->query_md_resources = (zr_uct_fn_t)zr_md_query_resources;
    component->md_open            = (zr_uct_fn_t)zr_md_open;
    component->cm_open            = (zr_uct_fn_t)ucs_empty_function_return_unsupported;
    component->md_vfs_init        = (zr_uct_fn_t)zr_md_vfs_init;
    component->md_config          = (ucs_config_global_list_entry_t){
                 .name   = "ze_range memory domain",
                 .prefix = "ZE_RANGE_",
                 .table  = zr_md_config_table,
                 .size   = zr_md_config_size};
    component->cm_config = (ucs_config_global_list_entry_t){.name = "", .prefix = ""};
    ucs_list_head_init(&component->transports);

    strcpy(tl->name, ZR_TL_NAME);
    tl->query_devices = (zr_uct_fn_t)zr_tl_query_devices;
    tl->iface_open    = zr_tl_iface_open();
    tl->config        = (ucs_config_global_list_entry_t){.name   = "ze_range transport",
                                                         .prefix = "ZE_RANGE_",
                                                         .table  = zr_tl_config_table,
                                                         .size   = zr_tl_config_size};
    uct_component_register(component);
    uct_tl_register(component, tl);
    registered = true;
    zr_copy_register(layout);
}

__attribute__((destructor)) static void unload(void)
{
    zr_hooks_stop();
    zr_link_stop();
    zr_copy_unregister();
    if (registered) {
        uct_tl_unregister(&zr_uct_tables.tl);
        uct_component_unregister(&zr_uct_tables.component);
    }
}
