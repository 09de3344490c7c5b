/* Device ids that are known, with the command set of their copy engines. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"

static const struct zr_i915_model models[] = {
    {0x9a40, 0x9a40, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Tiger Lake)"},
    {0x9a49, 0x9a49, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Tiger Lake)"},
    {0x9a59, 0x9a78, ZR_BLT_GEN12, "Intel(R) UHD Graphics (Tiger Lake)"},
    {0x9ac0, 0x9af8, ZR_BLT_GEN12, "Intel(R) UHD Graphics (Tiger Lake)"},
    {0x4c80, 0x4c9a, ZR_BLT_GEN12, "Intel(R) UHD Graphics 750 (Rocket Lake)"},
    {0x4680, 0x4693, ZR_BLT_GEN12, "Intel(R) UHD Graphics 770 (Alder Lake-S)"},
    {0x4626, 0x462a, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Alder Lake-P)"},
    {0x46a0, 0x46c3, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Alder Lake-P)"},
    {0x46d0, 0x46d4, ZR_BLT_GEN12, "Intel(R) UHD Graphics (Alder Lake-N)"},
    {0xa780, 0xa78b, ZR_BLT_GEN12, "Intel(R) UHD Graphics 770 (Raptor Lake-S)"},
    {0xa720, 0xa721, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Raptor Lake-P)"},
    {0xa7a0, 0xa7ad, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Raptor Lake-P)"},
    {0x4905, 0x4909, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe MAX Graphics (DG1)"},
    {0x5690, 0x5698, ZR_BLT_GEN125, "Intel(R) Arc(TM) A-series Mobile Graphics"},
    {0x56a0, 0x56a0, ZR_BLT_GEN125, "Intel(R) Arc(TM) A770 Graphics"},
    {0x56a1, 0x56a1, ZR_BLT_GEN125, "Intel(R) Arc(TM) A750 Graphics"},
    {0x56a2, 0x56a2, ZR_BLT_GEN125, "Intel(R) Arc(TM) A580 Graphics"},
    {0x56a3, 0x56a6, ZR_BLT_GEN125, "Intel(R) Arc(TM) A380 Graphics"},
    {0x56b0, 0x56bd, ZR_BLT_GEN125, "Intel(R) Arc(TM) Pro A-series Graphics"},
    {0x56c0, 0x56c2, ZR_BLT_GEN125, "Intel(R) Data Center GPU Flex"},
    {0x7d40, 0x7d60, ZR_BLT_GEN125, "Intel(R) Arc(TM) Graphics (Meteor Lake)"},
    {0x7dd5, 0x7dd5, ZR_BLT_GEN125, "Intel(R) Graphics (Meteor Lake)"},
    {0x7d67, 0x7d67, ZR_BLT_GEN125, "Intel(R) Graphics (Arrow Lake-S)"},
    {0x7dd1, 0x7dd1, ZR_BLT_GEN125, "Intel(R) Graphics (Arrow Lake-H)"},
    {0x0b69, 0x0b6e, ZR_BLT_PVC, "Intel(R) Data Center GPU Max 1100C"},
    {0x0bd0, 0x0bd4, ZR_BLT_PVC, "Intel(R) Data Center GPU Max"},
    {0x0bd5, 0x0bd8, ZR_BLT_PVC, "Intel(R) Data Center GPU Max 1550"},
    {0x0bd9, 0x0bdb, ZR_BLT_PVC, "Intel(R) Data Center GPU Max 1100"},
    {0x0be0, 0x0be5, ZR_BLT_PVC, "Intel(R) Data Center GPU Max 1550"},
};

const struct zr_i915_model *zr_i915_model(uint32_t device_id)
{
    unsigned i;

    for (i = 0; i < ZR_ARRAY_SIZE(models); i++) {
        if (device_id >= models[i].first && device_id <= models[i].last) {
            return &models[i];
        }
    }
    return NULL;
}
