/* The table of ZERANGE_* variables and its one parser. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ZR_PKGDATADIR
#define ZR_PKGDATADIR "/usr/share/zerange"
#endif

extern char **environ;

enum zr_var_kind {
    ZR_VAR_CHOICE,
    ZR_VAR_BOOL,
    ZR_VAR_UINT,
    ZR_VAR_U64,
    ZR_VAR_STRING,
    ZR_VAR_DEVICES, /* bits of a uint64_t */
    ZR_VAR_RATES,   /* num_rates and engine_rate */
};

struct zr_var {
    const char       *name;
    enum zr_var_kind  kind;
    size_t            offset;     /* of the field in struct zr_config */
    const char *const *choices;   /* of a choice, NULL terminated, in the order of the enum */
    uint64_t          max;        /* of a number */
    const char       *allowed;    /* for the message */
};

static const char *const log_choices[]      = {"error", "warn", "info", "debug", NULL};
static const char *const exchange_choices[] = {"auto", "pidfd", "socket", NULL};
static const char *const compat_choices[]   = {"spec", "intel", NULL};
static const char *const quirks_choices[]   = {"none", "intel", NULL};
static const char *const hierarchies[]      = {"COMPOSITE", "FLAT", "COMBINED", NULL};
static const char *const hide_choices[]     = {"none", "range", "functions", "all", NULL};

#define FIELD(name) offsetof(struct zr_config, name)

static const struct zr_var vars[] = {
    {"ZERANGE_LOG", ZR_VAR_CHOICE, FIELD(log), log_choices, 0, "error, warn, info, debug"},
    {"ZERANGE_SOFT", ZR_VAR_STRING, FIELD(soft), NULL, 0, "profile names separated by commas"},
    {"ZERANGE_PROFILES", ZR_VAR_STRING, FIELD(profiles), NULL, 0, "a directory"},
    {"ZERANGE_SOFT_THREADS", ZR_VAR_UINT, FIELD(soft_threads), NULL, 256, "0 to 256"},
    {"ZERANGE_SOFT_ENGINE_MBPS", ZR_VAR_U64, FIELD(soft_engine_mbps), NULL, 1000000,
     "0 to 1000000 (MB/s, 0: no limit)"},
    {"ZERANGE_SOFT_DIRTY", ZR_VAR_STRING, FIELD(soft_dirty), NULL, 0, "MODE[,MODE...][:SEED]"},
    {"ZERANGE_SOFT_FAULTS", ZR_VAR_STRING, FIELD(soft_faults), NULL, 0, "RULE[,RULE...]"},
    {"ZERANGE_DEVICE_CPU_ACCESS", ZR_VAR_BOOL, FIELD(device_cpu_access), NULL, 0, "0, 1"},
    {"ZERANGE_FD_EXCHANGE", ZR_VAR_CHOICE, FIELD(fd_exchange), exchange_choices, 0,
     "auto, pidfd, socket"},
    {"ZERANGE_ENGINES", ZR_VAR_UINT, FIELD(engines), NULL, 16, "0 to 16 (0: all)"},
    {"ZERANGE_SPLIT_THRESHOLD", ZR_VAR_U64, FIELD(split_threshold), NULL, UINT64_C(1) << 40,
     "0 to 1T (bytes; suffix K, M, G)"},
    {"ZERANGE_ENGINE_RATES", ZR_VAR_RATES, FIELD(num_rates), NULL, 1000000,
     "1 to 16 numbers from 1 to 1000000 separated by commas"},
    {"ZERANGE_COMPAT", ZR_VAR_CHOICE, FIELD(compat), compat_choices, 0, "spec, intel"},
    {"ZERANGE_QUIRKS", ZR_VAR_CHOICE, FIELD(quirks), quirks_choices, 0, "none, intel"},
    {"ZERANGE_HIDE", ZR_VAR_CHOICE, FIELD(hide), hide_choices, 0, "none, range, functions, all"},
    {"ZE_FLAT_DEVICE_HIERARCHY", ZR_VAR_CHOICE, FIELD(hierarchy), hierarchies, 0,
     "COMPOSITE, FLAT, COMBINED"},
    {"ZE_AFFINITY_MASK", ZR_VAR_DEVICES, FIELD(affinity_mask), NULL, 63,
     "device numbers 0 to 63 separated by commas (a device has no sub-devices but .0, itself)"},
};

/* Read by ./run, by the tests it runs and by the UCX transport, not by the driver. */
static const char *const foreign[] = {
    "ZERANGE_BUILD",   "ZERANGE_CACHE", "ZERANGE_CONFIGURE", "ZERANGE_INTEL_DRIVER",
    "ZERANGE_NIGHTLY", "ZERANGE_SHIM",  "ZERANGE_SHIM_LOG",  "ZERANGE_SHIM_NAME",
    "ZERANGE_TEST_TIMEOUT", "ZERANGE_UCX_ABI", NULL};

static struct zr_config config = {
    .log             = ZR_LOG_WARN,
    .profiles        = ZR_PKGDATADIR "/profiles",
    .split_threshold = 4 * ZR_MIB,
    .affinity_mask   = UINT64_MAX,
};
static ze_result_t    config_result;
static pthread_once_t config_once = PTHREAD_ONCE_INIT;

/* A whole number with an optional K, M, G or T; false if it is not one or above max. */
static bool zr_parse_number(const char *text, uint64_t max, uint64_t *value_p)
{
    static const char suffixes[] = "KMGT";
    const char       *s;
    uint64_t          value;
    char             *end;
    unsigned          shift = 0;

    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0) {
        return false;
    }
    if (*end != '\0') {
        s = strchr(suffixes, *end & ~0x20);
        if (s == NULL || *s == '\0' || end[1] != '\0') {
            return false;
        }
        shift = 10 * (unsigned)(s - suffixes + 1);
    }
    if (value > (max >> shift)) {
        return false;
    }
    *value_p = value << shift;
    return true;
}

/* "0", "0,2", "1.0"; nothing at all means every device. */
static bool zr_parse_devices(const char *text, uint64_t max, uint64_t *mask_p)
{
    uint64_t mask = 0, device;
    char    *end;

    if (*text == '\0') {
        *mask_p = UINT64_MAX;
        return true;
    }
    for (;; text = end + 1) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        errno  = 0;
        device = strtoull(text, &end, 10);
        if (errno != 0 || device > max) {
            return false;
        }
        if (end[0] == '.' && end[1] == '0') {
            end += 2;
        }
        mask |= UINT64_C(1) << device;
        if (*end == '\0') {
            *mask_p = mask;
            return true;
        }
        if (*end != ',') {
            return false;
        }
    }
}

/* "3,1,1": at most as many as there are engines in a device. */
static bool zr_parse_rates(const char *text, uint64_t max, unsigned *count_p)
{
    uint32_t *rate = (uint32_t *)((char *)count_p + FIELD(engine_rate[0]) - FIELD(num_rates));
    unsigned  count;
    char     *end;

    for (count = 0;; text = end + 1) {
        uint64_t value;

        if (*text < '0' || *text > '9' || count == ZR_ARRAY_SIZE(config.engine_rate)) {
            return false;
        }
        errno = 0;
        value = strtoull(text, &end, 10);
        if (errno != 0 || value == 0 || value > max) {
            return false;
        }
        rate[count++] = (uint32_t)value;
        if (*end == '\0') {
            *count_p = count;
            return true;
        }
        if (*end != ',') {
            return false;
        }
    }
}

static bool zr_var_parse(const struct zr_var *var, const char *text, void *field)
{
    uint64_t number;
    unsigned i;

    switch (var->kind) {
    case ZR_VAR_CHOICE:
        for (i = 0; var->choices[i] != NULL; i++) {
            if (strcmp(text, var->choices[i]) == 0) {
                *(unsigned *)field = i;
                return true;
            }
        }
        return false;
    case ZR_VAR_BOOL:
        if (!zr_parse_number(text, 1, &number)) {
            return false;
        }
        *(bool *)field = number;
        return true;
    case ZR_VAR_UINT:
        if (!zr_parse_number(text, var->max, &number)) {
            return false;
        }
        *(unsigned *)field = number;
        return true;
    case ZR_VAR_U64:
        return zr_parse_number(text, var->max, field);
    case ZR_VAR_STRING:
        if (*text == '\0') {
            return false;
        }
        *(const char **)field = text;
        return true;
    case ZR_VAR_DEVICES:
        return zr_parse_devices(text, var->max, field);
    case ZR_VAR_RATES:
        return zr_parse_rates(text, var->max, field);
    }
    return false;
}

static bool zr_var_is_known(const char *assignment)
{
    unsigned i;
    size_t   length = strcspn(assignment, "=");

    for (i = 0; i < ZR_ARRAY_SIZE(vars); i++) {
        if (strlen(vars[i].name) == length && strncmp(assignment, vars[i].name, length) == 0) {
            return true;
        }
    }
    for (i = 0; foreign[i] != NULL; i++) {
        if (strlen(foreign[i]) == length && strncmp(assignment, foreign[i], length) == 0) {
            return true;
        }
    }
    return false;
}

static void zr_config_read(void)
{
    struct zr_config wanted = config;
    const char      *text;
    unsigned         i;

    for (i = 0; i < ZR_ARRAY_SIZE(vars); i++) {
        text = getenv(vars[i].name);
        if (text == NULL) {
            continue;
        }
        if (!zr_var_parse(&vars[i], text, (char *)&wanted + vars[i].offset)) {
            zr_error("%s=%s is not valid, allowed: %s", vars[i].name, text, vars[i].allowed);
            config_result = ZE_RESULT_ERROR_INVALID_ARGUMENT;
        }
    }
    for (i = 0; environ != NULL && environ[i] != NULL; i++) {
        if (strncmp(environ[i], "ZERANGE_", 8) == 0 && !zr_var_is_known(environ[i])) {
            zr_warn("%.*s is not a variable of zerange, it has no effect",
                    (int)strcspn(environ[i], "="), environ[i]);
        }
    }
    if (config_result == ZE_RESULT_SUCCESS) {
        config           = wanted;
        zr_log_threshold = config.log;
    }
}

ze_result_t zr_config_load(void)
{
    pthread_once(&config_once, zr_config_read);
    return config_result;
}

bool zr_config_variable(unsigned i, const char **name_p, const char **allowed_p)
{
    if (i >= ZR_ARRAY_SIZE(vars)) {
        return false;
    }
    *name_p    = vars[i].name;
    *allowed_p = vars[i].allowed;
    return true;
}

const struct zr_config *zr_config(void)
{
    return &config;
}
