/* Preloaded: the Level Zero loader says that it is 1.20.6, as Debian 13's. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdbool.h>
#include <level_zero/ze_api.h>
#include <loader/ze_loader.h>
#include <string.h>

__attribute__((visibility("default"))) ze_result_t ZE_APICALL
zelLoaderGetVersions(size_t *count, zel_component_version_t *versions)
{
    *count = 1;
    if (versions != NULL) {
        memset(versions, 0, sizeof(*versions));
        strcpy(versions->component_name, "loader");
        versions->component_lib_version = (zel_version_t){1, 20, 6};
    }
    return ZE_RESULT_SUCCESS;
}
