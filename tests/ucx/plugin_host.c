/* Loads a UCX plugin (each argument a path) beside the libuct that the loader finds, and the libucp
 * if FAKE_MINOR is set, and says how many components ze_range libuct has then. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "abi/uct_abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *load(const char *path)
{
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);

    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return handle;
}

int main(int argc, char **argv)
{
    struct zr_uct_component *component;
    ucs_list_link_t         *list;
    unsigned                 count = 0;
    int                      k;

    if (getenv("FAKE_MINOR") != NULL) {
        load("libucp.so.0");
    }
    for (k = 1; k < argc; k++) {
        load(argv[k]);
    }
    list = dlsym(load("libuct.so.0"), "uct_components_list");
    ucs_list_for_each(component, list, link) {
        count += strcmp(component->name, "ze_range") == 0;
    }
    printf("registered: %u\n", count);
    return 0;
}
