/* The system device that UCX's cache knows of mapped memory is the one that UCX's own ze_copy names
 * for it: UCX asserts that a process and its peers agree on it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zebuf.h"

#include <uct/api/uct.h>
#include <ucp/api/ucp.h>
#include <ucs/memory/memtype_cache.h>

#define UCS(call)                                                                             \
    do {                                                                                      \
        ucs_status_t status_ = (call);                                                        \
        if (status_ != UCS_OK) {                                                              \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                     \
                    ucs_status_string(status_));                                              \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

/* UCX's own memory domain of Level Zero, NULL: this UCX has none, or ours has its place. */
static uct_md_h open_md(const char *name)
{
    uct_component_h     *components;
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME};
    uct_md_config_t     *config;
    uct_md_h             md = NULL;
    unsigned             count, k;

    UCS(uct_query_components(&components, &count));
    for (k = 0; k < count; k++) {
        UCS(uct_component_query(components[k], &attr));
        if (strcmp(attr.name, name) == 0) {
            UCS(uct_md_config_read(components[k], NULL, NULL, &config));
            UCS(uct_md_open(components[k], "ze", config, &md));
            uct_config_release(config);
        }
    }
    uct_release_component_list(components);
    return md;
}

static int compare(uct_md_h md, const void *ptr, size_t size, const char *what)
{
    uct_md_mem_attr_t attr = {.field_mask = UCT_MD_MEM_ATTR_FIELD_SYS_DEV};
    ucs_memory_info_t info = {.sys_dev = 77};

    UCS(ucs_memtype_cache_lookup(ptr, size, &info)); /* first: the query puts its answer there */
    UCS(uct_md_mem_query(md, ptr, size, &attr));
    printf("%s: type %d, device %u, ze_copy says %u\n", what, info.type, info.sys_dev,
           attr.sys_dev);
    if (info.type != UCS_MEMORY_TYPE_ZE_DEVICE || info.sys_dev != attr.sys_dev) {
        fprintf(stderr, "%s: the cache has type %d of device %u, ze_copy says type %d, %u\n", what,
                info.type, info.sys_dev, UCS_MEMORY_TYPE_ZE_DEVICE, attr.sys_dev);
        return 1;
    }
    return 0;
}

int main(void)
{
    ucp_params_t  params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    struct zebuf  before, after;
    ucp_config_t *config;
    ucp_context_h context;
    uct_md_h      md;
    int           wrong;

    if (!zebuf_start()) {
        fprintf(stderr, "no Level Zero device\n");
        return 1;
    }
    zebuf_map(&before, 3, 1 << 20, NULL);
    UCS(ucp_config_read(NULL, NULL, &config));
    UCS(ucp_init(&params, config, &context));
    ucp_config_release(config);
    md = open_md("ze_cpy");
    if (md == NULL) {
        fprintf(stderr, "this UCX has no ze_copy of its own\n");
        return 77;
    }
    zebuf_map(&after, 3, 1 << 20, NULL);
    wrong = compare(md, before.ptr, before.size, "mapped before UCX started");
    wrong |= compare(md, after.ptr, after.size, "mapped after UCX started");
    uct_md_close(md);
    ucp_cleanup(context);
    zebuf_unmap(&after);
    zebuf_unmap(&before);
    return wrong;
}
