/* The transport ze_range: get and put between this process's device memory and a peer's, by the
 * device's copy engines. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_TL_H
#define ZR_PLUGIN_TL_H

#include "abi/layout.h"

#define ZR_TL_NAME     "ze_range"
#define ZR_DEVICE_NAME "ze0"

/* Without slots: the signatures of these are the same in all versions. */
ucs_status_t zr_tl_query_devices(struct zr_uct_md *md, struct zr_uct_tl_device **devices_p,
                                 unsigned *count_p);
/* Also a slot of the transport; made by UCX's class macros. */
zr_uct_fn_t               zr_tl_iface_open(void);
extern ucs_config_field_t zr_tl_config_table[];
extern const size_t       zr_tl_config_size;

/* For the slots of a layout. */
struct zr_tl_perf {
    double bandwidth, get_bandwidth, put_bandwidth; /* bytes/s */
    double latency, overhead;                       /* s */
};
struct zr_tl_perf zr_tl_perf(uct_iface_h iface);
/** @param operation of enum uct_ep_operation; what is neither get nor put: the general one */
double zr_tl_bandwidth(const struct zr_tl_perf *perf, int operation);
int zr_tl_is_reachable(const uct_iface_h iface, const struct zr_uct_reachable_params *params);
int zr_tl_ep_is_connected(const uct_ep_h ep, const struct zr_uct_connected_params *params);

#endif
