/* UCX_ZE_RANGE_* settings. UCX's parsers do the reading; these name the whole variable when they
 * refuse a value, where UCX would name its last part only. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_SETTINGS_H
#define ZR_PLUGIN_SETTINGS_H

#include "abi/uct_abi.h"

struct zr_setting {
    const char *variable, *syntax;
};

int  zr_setting_read_bandwidth(const char *text, void *value, const void *setting);
int  zr_setting_read_bandwidth_auto(const char *text, void *value, const void *setting);
int  zr_setting_read_time(const char *text, void *value, const void *setting);
int  zr_setting_read_count(const char *text, void *value, const void *setting);
int  zr_setting_read_size(const char *text, void *value, const void *setting);
void zr_setting_help(char *buffer, size_t max, const void *setting);

#define ZR_SETTING(read_, write_, clone_, variable_, syntax_)                                 \
    {                                                                                         \
        .read = read_, .write = write_, .clone = clone_, .release = ucs_config_release_nop,   \
        .help = zr_setting_help, .doc = ucs_config_doc_nop,                                   \
        .arg = &(const struct zr_setting){"UCX_ZE_RANGE_" variable_, syntax_}                 \
    }
#define ZR_SETTING_BANDWIDTH(variable)                                                        \
    ZR_SETTING(zr_setting_read_bandwidth, ucs_config_sprintf_bw, ucs_config_clone_double,     \
               variable, "bandwidth more than 0: <number>[T|G|M|K]B|b[[p|/]s]")
#define ZR_SETTING_BANDWIDTH_AUTO(variable)                                                   \
    ZR_SETTING(zr_setting_read_bandwidth_auto, ucs_config_sprintf_bw, ucs_config_clone_double, \
               variable, "bandwidth more than 0: <number>[T|G|M|K]B|b[[p|/]s], or \"auto\"")
#define ZR_SETTING_TIME(variable)                                                             \
    ZR_SETTING(zr_setting_read_time, ucs_config_sprintf_time, ucs_config_clone_double,        \
               variable, "time value: <number>[m|s|ms|us|ns]")
#define ZR_SETTING_COUNT(variable)                                                            \
    ZR_SETTING(zr_setting_read_count, ucs_config_sprintf_ulunits, ucs_config_clone_ulong,     \
               variable, "unsigned long: <number> or \"inf\"")
#define ZR_SETTING_SIZE(variable)                                                             \
    ZR_SETTING(zr_setting_read_size, ucs_config_sprintf_memunits, ucs_config_clone_ulong,     \
               variable, "memory units: <number>[b|kb|mb|gb], \"inf\", or \"auto\"")

#endif
