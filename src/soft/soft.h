/* The software i915: devices, files and what hangs on them. Explicit objects, no globals, so that
 * a process or a server can host any number of them; soft_kif.c is the host in process.
 *
 * One lock per device, zr_soft_dev::lock, guards every field of these parts but those that say otherwise.
 * A batch's interpreter state belongs to the thread that took it off a queue, without the lock. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_SOFT_H
#define ZR_SOFT_H

#include "device.h"
#include "ioctl.h"
#include "fence.h"
#include "gem.h"
#include "vm.h"
#include "engine.h"

#endif
