/* What UCX_TLS selects: see copytls.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "copytls.h"

#include "copy.h"
#include "ze.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANGE_TL   "ze_range"
#define COPY_TL    ZR_COPY_TL_NAME
#define COPY_ALIAS "ze" /* UCX: ze_copy, ze_ipc, ze_gdr */

struct selection {
    ucs_config_allow_list_t transports, accelerators;
};

static ucs_config_field_t selection_table[] = {
    {"TLS", "all", "", offsetof(struct selection, transports), UCS_CONFIG_TYPE_ALLOW_LIST},
    {"ACC_DEVICES", "all", "", offsetof(struct selection, accelerators),
     UCS_CONFIG_TYPE_ALLOW_LIST},
    {NULL},
};

static bool listed(const ucs_config_allow_list_t *list, const char *name)
{
    unsigned k;

    for (k = 0; k < list->array.count; k++) {
        const char *word = list->array.names[k];

        /* A leading backslash asks for the exact name. */
        if (strcmp(word[0] == '\\' ? word + 1 : word, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool selects(const ucs_config_allow_list_t *list, bool is_listed)
{
    switch (list->mode) {
    case UCS_CONFIG_ALLOW_LIST_ALLOW: return is_listed;
    case UCS_CONFIG_ALLOW_LIST_NEGATE: return !is_listed;
    default: return true;
    }
}

/* UCX's, or ours where it has none. */
static uct_component_h copy_component(void)
{
    struct zr_uct_component *component = zr_component_find(ZR_UCX_COPY_COMPONENT);

    return (uct_component_h)(component != NULL ? component
                                               : zr_component_find(ZR_COPY_COMPONENT));
}

/* Whether the list of devices leaves one of this memory domain. */
static bool md_has_device(uct_component_h component, const char *md_name,
                          const ucs_config_allow_list_t *devices)
{
    uct_md_config_t        *config;
    uct_tl_resource_desc_t *resources = NULL;
    uct_md_h                md;
    unsigned                count = 0, k;
    bool                    found = false;

    if (uct_md_config_read(component, NULL, NULL, &config) != UCS_OK) {
        return false;
    }
    if (uct_md_open(component, md_name, config, &md) == UCS_OK) {
        if (uct_md_query_tl_resources(md, &resources, &count) == UCS_OK) {
            for (k = 0; k < count; k++) {
                found |= selects(devices, listed(devices, resources[k].dev_name));
            }
            uct_release_tl_resource_list(resources);
        }
        uct_md_close(md);
    }
    uct_config_release(config);
    return found;
}

/* A copy transport is there, enabled, and has a memory domain with a device. */
static bool copy_available(const ucs_config_allow_list_t *devices)
{
    uct_component_attr_t   attr      = {.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};
    uct_component_h        component = copy_component();
    uct_md_resource_desc_t names[8];

    if (component == NULL || uct_component_query(component, &attr) != UCS_OK ||
        attr.md_resource_count == 0) {
        return false;
    }
    if (devices->mode == UCS_CONFIG_ALLOW_LIST_ALLOW_ALL || attr.md_resource_count > 8) {
        return true;
    }
    attr.field_mask   = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = names;
    return uct_component_query(component, &attr) == UCS_OK &&
           md_has_device(component, names[0].md_name, devices);
}

static atomic_flag said = ATOMIC_FLAG_INIT; /* why a list cannot work: one line will do */

static void tell(const struct selection *s, const char *variable)
{
    const char *what = selects(&s->transports, listed(&s->transports, COPY_TL) ||
                                                          listed(&s->transports, COPY_ALIAS))
                                  ? "there is no device for it"
                                  : "add ze_copy to it";

    if (s->transports.mode == UCS_CONFIG_ALLOW_LIST_ALLOW && listed(&s->transports, RANGE_TL)) {
        if (!atomic_flag_test_and_set(&said)) {
            zr_ucs_warn("%s lists ze_range but no transport that copies device memory (ze_copy), "
                        "without which UCX cannot start: ze_range is not used; %s",
                        variable, what);
        }
    } else {
        zr_ucs_debug("ze_range is not used: %s selects no ze_copy (%s)", variable, what);
    }
}

void zr_transports_tell_unrecognised(void)
{
    static atomic_flag asked = ATOMIC_FLAG_INIT;
    const char        *list  = getenv("UCX_TLS");
    uint32_t           count = 0;

    /* Later it may be UCX's own module that has started Level Zero. */
    if (!atomic_flag_test_and_set(&asked) && zeDriverGet(&count, NULL) == ZE_RESULT_SUCCESS &&
        count > 0 && !atomic_flag_test_and_set(&said)) {
        zr_ucs_warn("UCX_TLS=%s selects no transport that copies device memory (ze_copy): this "
                    "application uses Level Zero, but UCX will take its memory for the host's",
                    list != NULL ? list : "");
    }
}

struct verdict {
    bool wanted;  /* some list selects ze_range */
    bool harmful; /* some list selects it without what UCX needs beside it */
    bool copies;  /* some list selects ze_copy, and it has a device */
};

/* With the variables PREFIXTLS and PREFIXACC_DEVICES. */
static void judge(const char *prefix, struct verdict *verdict)
{
    ucs_config_global_list_entry_t entry = {
        .name = "ze_range", .prefix = "", .table = selection_table,
        .size = sizeof(struct selection)};
    struct selection s;
    char             variable[256];
    bool             copy;

    if (ucs_config_parser_fill_opts(&s, &entry, prefix, 1) != UCS_OK) {
        verdict->harmful = true;
        return;
    }
    copy = selects(&s.transports,
                   listed(&s.transports, COPY_TL) || listed(&s.transports, COPY_ALIAS)) &&
           copy_available(&s.accelerators);
    verdict->copies |= copy;
    if (selects(&s.transports, listed(&s.transports, RANGE_TL))) {
        verdict->wanted = true;
        if (!copy) {
            verdict->harmful = true;
            snprintf(variable, sizeof(variable), "%sTLS", prefix);
            tell(&s, variable);
        }
    }
    ucs_config_parser_release_opts(&s, selection_table);
}

void zr_transports_selected(bool *range_p, bool *copy_p)
{
    static const char suffix[] = "_UCX_TLS=";
    struct verdict    verdict  = {false, false, false};
    char              prefix[256];
    const char       *end;
    char            **variable;

    judge("UCX_", &verdict);
    /* An application may have a prefix of its own (MPI_UCX_TLS); which one it uses is not known
     * here, so all must work. */
    for (variable = environ; variable != NULL && *variable != NULL; variable++) {
        end = strstr(*variable, suffix);
        if (end == NULL || end == *variable || memchr(*variable, '=', end - *variable) != NULL ||
            (size_t)(end - *variable) + sizeof("_UCX_") > sizeof(prefix)) {
            continue;
        }
        snprintf(prefix, sizeof(prefix), "%.*s_UCX_", (int)(end - *variable), *variable);
        judge(prefix, &verdict);
    }
    *range_p = verdict.wanted && !verdict.harmful;
    *copy_p  = verdict.copies;
}
