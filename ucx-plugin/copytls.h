/* Whether UCX can start with our memory domain there: it needs a transport that copies between
 * memory types for each one that some memory domain gives access to. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_COPYTLS_H
#define ZR_PLUGIN_COPYTLS_H

#include <stdbool.h>

/**
 * Whether ze_range may have a memory domain. Reads UCX_TLS and UCX_ACC_DEVICES as UCX does
 * (environment and configuration files, also behind an application's prefix) and asks UCX's ze
 * module for its memory domains.
 * @return false: no list selects ze_range, and Level Zero need not be touched; or one selects it
 *         and no transport that copies device memory, so that UCP would refuse to create any
 *         worker. In that case, if it names ze_range, the user is told what to add, once.
 */
bool zr_copy_transport_selected(void);

#endif
