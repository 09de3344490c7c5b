/* Keeping UCX's memory-type cache, UCP's registration cache and ours true to what is mapped. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_HOOKS_H
#define ZR_PLUGIN_HOOKS_H

#include "ze.h"

/**
 * From now on every map, allocation, unmap and free of Level Zero memory reaches UCX, and what
 * is mapped already is made known. Told by the driver where it can, else by the loader's tracing
 * layer; where neither works UCX's memory-type cache is turned off, which is said once. Only the first call does anything.
 * @param unknown   UCX's number for a type that must be asked for
 * @param forget    called before [ptr, ptr+size) goes away
 */
void zr_hooks_start(const struct zr_ze *ze, int unknown, void (*forget)(void *ptr, size_t size));
/** Whether unmaps are told, so that a registration may be kept. */
bool zr_hooks_active(void);
/** UCX is being unloaded: events reach it no more. */
void zr_hooks_stop(void);

#endif
