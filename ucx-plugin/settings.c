/* Settings: see settings.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "settings.h"

#include <stdio.h>

static int taken(int good, const char *text, const struct zr_setting *setting)
{
    if (!good) {
        zr_ucs_error("%s=%s is refused, expected %s", setting->variable, text, setting->syntax);
    }
    return good;
}

int zr_setting_read_bandwidth(const char *text, void *value, const void *setting)
{
    return taken(ucs_config_sscanf_bw(text, value, NULL) && *(double *)value > 0, text, setting);
}

int zr_setting_read_bandwidth_auto(const char *text, void *value, const void *setting)
{
    return taken(ucs_config_sscanf_bw(text, value, NULL) &&
                     (UCS_CONFIG_DBL_IS_AUTO(*(double *)value) || *(double *)value > 0),
                 text, setting);
}

int zr_setting_read_time(const char *text, void *value, const void *setting)
{
    return taken(ucs_config_sscanf_time(text, value, NULL) && *(double *)value >= 0, text,
                 setting);
}

int zr_setting_read_count(const char *text, void *value, const void *setting)
{
    return taken(ucs_config_sscanf_ulunits(text, value, NULL), text, setting);
}

int zr_setting_read_size(const char *text, void *value, const void *setting)
{
    return taken(ucs_config_sscanf_memunits(text, value, NULL), text, setting);
}

void zr_setting_help(char *buffer, size_t max, const void *setting)
{
    snprintf(buffer, max, "%s", ((const struct zr_setting *)setting)->syntax);
}
