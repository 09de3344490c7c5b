/* Whether UCX can start with our memory domain there: it needs a transport that copies between
 * memory types for each one that some memory domain gives access to. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_COPYTLS_H
#define ZR_PLUGIN_COPYTLS_H

#include <stdbool.h>

/**
 * Reads UCX_TLS and UCX_ACC_DEVICES as UCX does (environment and configuration files, also behind
 * an application's prefix) and asks UCX's ze module for its memory domains.
 * @param range_p whether ze_range may have a memory domain. False: no list selects it; or one
 *                selects it and no transport that copies device memory, so that UCP would refuse
 *                to create any worker (if it names ze_range, the user is told what to add, once).
 * @param copy_p  whether some list selects UCX's ze_copy and that has a device: the application
 *                may use device memory, so UCX must be told of it even where ze_range is left
 *                out. False for both: Level Zero need not be touched.
 */
void zr_transports_selected(bool *range_p, bool *copy_p);

/**
 * For lists that select neither: UCX does not recognise device memory then and crashes on it. Says
 * so, once, if the application has started Level Zero by now; one that has not hears nothing.
 */
void zr_transports_tell_unrecognised(void);

#endif
