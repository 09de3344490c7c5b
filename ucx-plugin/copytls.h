/* Whether UCX can start with our memory domain there: it needs a transport that copies between
 * memory types for each one that some memory domain gives access to. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_COPYTLS_H
#define ZR_PLUGIN_COPYTLS_H

#include <stdbool.h>

/**
 * Reads UCX_TLS and UCX_ACC_DEVICES as UCX does (environment and configuration files, also
 * behind an application's prefix) and asks UCX's ze module for its memory domains.
 * If ze_range is to be used and no transport copies device memory, UCP would refuse to create any
 * worker; the answer is then false, and when ze_range was asked for by name the user is told what
 * to add, once.
 */
bool zr_copy_transport_selected(void);

#endif
