/* Host memory that the copy engines refuse: what is read-only, or mapped from a device, cannot be
 * pinned for them. The engine copies to or from memory of the driver, the CPU does the rest. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_PLUGIN_BOUNCE_H
#define ZR_PLUGIN_BOUNCE_H

#include "imports.h"

/** Whether the error @a result of a copy of @a size bytes to or (@a put) from @a local may be the
 * engines' refusal of host memory that the CPU can access. */
bool zr_bounce_helps(const char *local, size_t size, int put, ze_result_t result);

/**
 * Copy between host memory and a peer's, and wait for the end of it: also of all that @a list was
 * given before.
 * @param remote  in the peer's addresses, with @a size bytes inside @a region
 * @param put     from @a local to the peer
 */
ze_result_t zr_bounce(ze_command_list_handle_t list, const struct zr_rcache_region *region,
                      char *local, uint64_t remote, size_t size, int put);

#endif
