/* What the environment says: every ZERANGE_* variable, and those of Level Zero, checked once, in
 * one table. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_CONFIG_H
#define ZR_CONFIG_H

#include "util.h"

enum zr_fd_exchange { ZR_FD_EXCHANGE_AUTO, ZR_FD_EXCHANGE_PIDFD, ZR_FD_EXCHANGE_SOCKET };

/* What the specification leaves to one implementation and another does otherwise. */
enum zr_compat { ZR_COMPAT_SPEC, ZR_COMPAT_INTEL };
/* Whose faults are imitated. */
enum zr_quirks { ZR_QUIRKS_NONE, ZR_QUIRKS_INTEL };

/* What a driver may lack that this one has: bits. */
enum zr_hide { ZR_HIDE_NONE = 0, ZR_HIDE_RANGE = 1, ZR_HIDE_FUNCTIONS = 2, ZR_HIDE_ALL = 3 };

/* How devices of several tiles are shown. */
enum zr_hierarchy { ZR_HIERARCHY_COMPOSITE, ZR_HIERARCHY_FLAT, ZR_HIERARCHY_COMBINED };

struct zr_config {
    enum zr_log_level   log;               /* ZERANGE_LOG=error|warn|info|debug (warn) */
    const char         *soft;              /* ZERANGE_SOFT=PROFILE[,PROFILE...]: software devices
                                              instead of real ones; NULL: real nodes */
    const char         *profiles;          /* ZERANGE_PROFILES=DIR with NAME.profile files */
    unsigned            soft_threads;      /* ZERANGE_SOFT_THREADS=0..256, 0: one per CPU */
    uint64_t            soft_engine_mbps;  /* ZERANGE_SOFT_ENGINE_MBPS=0..1000000, MB/s; 0: free */
    const char         *soft_dirty;        /* ZERANGE_SOFT_DIRTY=MODE[,MODE...][:SEED], see
                                              docs/software-i915.md; NULL: none */
    const char         *soft_faults;       /* ZERANGE_SOFT_FAULTS=RULE[,RULE...], see there */
    bool                device_cpu_access; /* ZERANGE_DEVICE_CPU_ACCESS=0|1 (0) */
    enum zr_fd_exchange fd_exchange;       /* ZERANGE_FD_EXCHANGE=auto|pidfd|socket (auto) */
    unsigned            engines;           /* ZERANGE_ENGINES=0..16: most copy engines of one copy,
                                              0: all */
    uint64_t            split_threshold;   /* ZERANGE_SPLIT_THRESHOLD=BYTES (K, M, G suffix; 4M):
                                              a shorter copy uses one engine */
    unsigned            num_rates;         /* ZERANGE_ENGINE_RATES=RATE[,RATE...]: relative speed */
    uint32_t            engine_rate[16];   /* of copy engine 0, 1, ... of a device (all alike) */
    enum zr_compat      compat;            /* ZERANGE_COMPAT=spec|intel (spec) */
    enum zr_quirks      quirks;            /* ZERANGE_QUIRKS=none|intel (none) */
    enum zr_hide        hide;              /* ZERANGE_HIDE=none|range|functions|all (none): the range
                                              extension, the functions of zerange.h */
    enum zr_hierarchy   hierarchy;         /* ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE|FLAT|COMBINED:
                                              checked only; one tile of a device is used, so that
                                              all three show the same */
    uint64_t            affinity_mask;     /* ZE_AFFINITY_MASK=DEVICE[.0][,DEVICE[.0]...]: bit i:
                                              device i is shown (all) */
};

/**
 * Read and check the environment; the first call decides, later ones return its result.
 * A wrong value is refused with one line that names the variable, the value and what is allowed.
 * @return ZE_RESULT_SUCCESS or ZE_RESULT_ERROR_INVALID_ARGUMENT.
 */
ze_result_t zr_config_load(void);

/* The variable number @a i and what it may be; false: there are no more. For listings. */
bool zr_config_variable(unsigned i, const char **name_p, const char **allowed_p);

/* The values; the defaults if zr_config_load has not been called or failed. */
const struct zr_config *zr_config(void);

#endif
