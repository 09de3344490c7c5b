/* Which processes ze_range reaches, and what it says of those it does not: its own addresses, with
 * one thing changed at a time. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uct/api/uct.h>

/* As in tl.c, and of libuct, whose development package leaves it out. */
struct iface_address {
    uint64_t start_time, pid_ns;
    uint32_t pid, user, version, driver;
};
struct reachable_params {
    uint64_t    field_mask;
    const void *device_addr, *iface_addr;
    char       *info_string;
    size_t      info_string_length;
};
int uct_iface_is_reachable_v2(uct_iface_h iface, const struct reachable_params *params);

static const struct {
    const char *reason; /* NULL: reachable */
    size_t      at;     /* what differs: a byte of the interface's address, */
    int         device; /* or of the device's */
    unsigned    size;   /* 0: nothing */
} cases[] = {
    {"same process", 0, 0, 0},
    {NULL, offsetof(struct iface_address, start_time), 0, 1},
    {NULL, offsetof(struct iface_address, pid), 0, 1},
    {"different pid namespace", offsetof(struct iface_address, pid_ns), 0, 1},
    {"different machine", 0, 1, 1},
};

/* These are about a process that is another one. */
static const struct {
    const char *reason;
    size_t      at;
} of_another[] = {
    {"different user: no permission to share memory", offsetof(struct iface_address, user)},
    {"different version of zerange", offsetof(struct iface_address, version)},
    {"different Level Zero driver", offsetof(struct iface_address, driver)},
};

static uct_iface_h          iface;
static uint64_t             device_address;
static struct iface_address address;
static int                  failed;

static void check(const uint64_t *device, const struct iface_address *other, const char *reason)
{
    char                    info[128] = "";
    struct reachable_params params    = {15, device, other, info, sizeof(info)};
    int                     reachable = uct_iface_is_reachable_v2(iface, &params);

    if (reachable != (reason == NULL) || strcmp(info, reason == NULL ? "" : reason) != 0) {
        fprintf(stderr, "reachable %d, \"%s\", expected \"%s\"\n", reachable, info,
                reason == NULL ? "reachable" : reason);
        failed = 1;
    }
}

static int open_iface(void)
{
    uct_component_h    *components;
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME |
                                               UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};
    uct_iface_params_t  params = {
         .field_mask  = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE,
         .open_mode   = UCT_IFACE_OPEN_MODE_DEVICE,
         .mode.device = {.tl_name = "ze_range", .dev_name = "ze0"}};
    ucs_async_context_t *async;
    uct_md_config_t     *md_config;
    uct_iface_config_t  *config;
    uct_worker_h         worker;
    uct_md_h             md;
    unsigned             count, k;

    if (ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &async) != UCS_OK ||
        uct_worker_create(async, UCS_THREAD_MODE_SINGLE, &worker) != UCS_OK ||
        uct_query_components(&components, &count) != UCS_OK) {
        return 0;
    }
    for (k = 0; k < count; k++) {
        if (uct_component_query(components[k], &attr) == UCS_OK &&
            strcmp(attr.name, "ze_range") == 0 && attr.md_resource_count == 1) {
            return uct_md_config_read(components[k], NULL, NULL, &md_config) == UCS_OK &&
                   uct_md_open(components[k], "ze_range", md_config, &md) == UCS_OK &&
                   uct_md_iface_config_read(md, "ze_range", NULL, NULL, &config) == UCS_OK &&
                   uct_iface_open(md, worker, &params, config, &iface) == UCS_OK;
        }
    }
    return 0;
}

int main(void)
{
    unsigned k;

    if (!open_iface()) {
        fprintf(stderr, "no ze_range\n");
        return getenv("ZERANGE_SOFT") != NULL ? 1 : 77; /* asked for, it must be there */
    }
    if (uct_iface_get_device_address(iface, (uct_device_addr_t *)&device_address) != UCS_OK ||
        uct_iface_get_address(iface, (uct_iface_addr_t *)&address) != UCS_OK) {
        fprintf(stderr, "no address\n");
        return 1;
    }
    for (k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        struct iface_address other  = address;
        uint64_t             device = device_address;

        if (cases[k].size != 0) {
            ((uint8_t *)(cases[k].device ? (void *)&device : (void *)&other))[cases[k].at] ^= 1;
        }
        check(&device, &other, cases[k].reason);
    }
    for (k = 0; k < sizeof(of_another) / sizeof(of_another[0]); k++) {
        struct iface_address other = address;

        other.pid ^= 1;
        ((uint8_t *)&other)[of_another[k].at] ^= 1;
        check(&device_address, &other, of_another[k].reason);
    }
    uct_iface_close(iface);
    return failed;
}
