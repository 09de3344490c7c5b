/* Names in the generated tree that its maker and the shim agree on. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_SHIM_TREE_H
#define ZR_SHIM_TREE_H

#define ZR_TREE_DROP_CACHES "i915_gem_drop_caches"
#define ZR_TREE_WEDGED      "i915_wedged"
#define ZR_TREE_OBJECTS     "i915_gem_objects"
#define ZR_TREE_PMU_TYPE    100 /* perf type of the first device's PMU */

#endif
