/* Device ids that are known, with the command set of their copy engines: those of the kernel's
 * lists (Linux 6.16, backports), and no others. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"

static const struct zr_i915_model models[] = {
    {0x0b69, 0x0b69, ZR_BLT_PVC, "Intel(R) Data Center GPU Max 1100C"},
    {0x0b6e, 0x0b6e, ZR_BLT_PVC, "Intel(R) Data Center GPU Max 1100C"},
    {0x0bd0, 0x0bd0, ZR_BLT_PVC, "Intel(R) Data Center GPU Max"},
    {0x0bd4, 0x0bd4, ZR_BLT_PVC, "Intel(R) Data Center GPU Max"},
    {0x0bd5, 0x0bd8, ZR_BLT_PVC, "Intel(R) Data Center GPU Max 1550"},
    {0x0bd9, 0x0bdb, ZR_BLT_PVC, "Intel(R) Data Center GPU Max 1100"},
    {0x0be0, 0x0be1, ZR_BLT_PVC, "Intel(R) Data Center GPU Max 1550"},
    {0x0be5, 0x0be5, ZR_BLT_PVC, "Intel(R) Data Center GPU Max 1550"},
    {0x4626, 0x4626, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Alder Lake-P)"},
    {0x4628, 0x4628, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Alder Lake-P)"},
    {0x462a, 0x462a, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Alder Lake-P)"},
    {0x4680, 0x4680, ZR_BLT_GEN12, "Intel(R) UHD Graphics 770 (Alder Lake-S)"},
    {0x4682, 0x4682, ZR_BLT_GEN12, "Intel(R) UHD Graphics 770 (Alder Lake-S)"},
    {0x4688, 0x4688, ZR_BLT_GEN12, "Intel(R) UHD Graphics 770 (Alder Lake-S)"},
    {0x468a, 0x468b, ZR_BLT_GEN12, "Intel(R) UHD Graphics 770 (Alder Lake-S)"},
    {0x4690, 0x4690, ZR_BLT_GEN12, "Intel(R) UHD Graphics 770 (Alder Lake-S)"},
    {0x4692, 0x4693, ZR_BLT_GEN12, "Intel(R) UHD Graphics 770 (Alder Lake-S)"},
    {0x46a0, 0x46a3, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Alder Lake-P)"},
    {0x46a6, 0x46a6, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Alder Lake-P)"},
    {0x46a8, 0x46a8, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Alder Lake-P)"},
    {0x46aa, 0x46aa, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Alder Lake-P)"},
    {0x46b0, 0x46b3, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Alder Lake-P)"},
    {0x46c0, 0x46c3, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Alder Lake-P)"},
    {0x46d0, 0x46d4, ZR_BLT_GEN12, "Intel(R) UHD Graphics (Alder Lake-N)"},
    {0x4905, 0x4909, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe MAX Graphics (DG1)"},
    {0x4c80, 0x4c80, ZR_BLT_GEN12, "Intel(R) UHD Graphics 750 (Rocket Lake)"},
    {0x4c8a, 0x4c8c, ZR_BLT_GEN12, "Intel(R) UHD Graphics 750 (Rocket Lake)"},
    {0x4c90, 0x4c90, ZR_BLT_GEN12, "Intel(R) UHD Graphics 750 (Rocket Lake)"},
    {0x4c9a, 0x4c9a, ZR_BLT_GEN12, "Intel(R) UHD Graphics 750 (Rocket Lake)"},
    {0x5690, 0x5697, ZR_BLT_GEN125, "Intel(R) Arc(TM) A-series Mobile Graphics"},
    {0x56a0, 0x56a0, ZR_BLT_GEN125, "Intel(R) Arc(TM) A770 Graphics"},
    {0x56a1, 0x56a1, ZR_BLT_GEN125, "Intel(R) Arc(TM) A750 Graphics"},
    {0x56a2, 0x56a2, ZR_BLT_GEN125, "Intel(R) Arc(TM) A580 Graphics"},
    {0x56a3, 0x56a6, ZR_BLT_GEN125, "Intel(R) Arc(TM) A380 Graphics"},
    {0x56b0, 0x56b3, ZR_BLT_GEN125, "Intel(R) Arc(TM) Pro A-series Graphics"},
    {0x56ba, 0x56bd, ZR_BLT_GEN125, "Intel(R) Arc(TM) Pro A-series Graphics"},
    {0x56be, 0x56bf, ZR_BLT_GEN125, "Intel(R) Arc(TM) A-series Graphics (embedded)"},
    {0x56c0, 0x56c2, ZR_BLT_GEN125, "Intel(R) Data Center GPU Flex"},
    {0x7d40, 0x7d40, ZR_BLT_GEN125, "Intel(R) Arc(TM) Graphics (Meteor Lake)"},
    {0x7d41, 0x7d41, ZR_BLT_GEN125, "Intel(R) Graphics (Arrow Lake-U)"},
    {0x7d45, 0x7d45, ZR_BLT_GEN125, "Intel(R) Arc(TM) Graphics (Meteor Lake)"},
    {0x7d51, 0x7d51, ZR_BLT_GEN125, "Intel(R) Graphics (Arrow Lake-H)"},
    {0x7d55, 0x7d55, ZR_BLT_GEN125, "Intel(R) Arc(TM) Graphics (Meteor Lake)"},
    {0x7d60, 0x7d60, ZR_BLT_GEN125, "Intel(R) Arc(TM) Graphics (Meteor Lake)"},
    {0x7d67, 0x7d67, ZR_BLT_GEN125, "Intel(R) Graphics (Arrow Lake-S)"},
    {0x7dd1, 0x7dd1, ZR_BLT_GEN125, "Intel(R) Graphics (Arrow Lake-H)"},
    {0x7dd5, 0x7dd5, ZR_BLT_GEN125, "Intel(R) Graphics (Meteor Lake)"},
    {0x9a40, 0x9a40, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Tiger Lake)"},
    {0x9a49, 0x9a49, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Tiger Lake)"},
    {0x9a59, 0x9a59, ZR_BLT_GEN12, "Intel(R) UHD Graphics (Tiger Lake)"},
    {0x9a60, 0x9a60, ZR_BLT_GEN12, "Intel(R) UHD Graphics (Tiger Lake)"},
    {0x9a68, 0x9a68, ZR_BLT_GEN12, "Intel(R) UHD Graphics (Tiger Lake)"},
    {0x9a70, 0x9a70, ZR_BLT_GEN12, "Intel(R) UHD Graphics (Tiger Lake)"},
    {0x9a78, 0x9a78, ZR_BLT_GEN12, "Intel(R) UHD Graphics (Tiger Lake)"},
    {0x9ac0, 0x9ac0, ZR_BLT_GEN12, "Intel(R) UHD Graphics (Tiger Lake)"},
    {0x9ac9, 0x9ac9, ZR_BLT_GEN12, "Intel(R) UHD Graphics (Tiger Lake)"},
    {0x9ad9, 0x9ad9, ZR_BLT_GEN12, "Intel(R) UHD Graphics (Tiger Lake)"},
    {0x9af8, 0x9af8, ZR_BLT_GEN12, "Intel(R) UHD Graphics (Tiger Lake)"},
    {0xa720, 0xa721, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Raptor Lake-P)"},
    {0xa780, 0xa783, ZR_BLT_GEN12, "Intel(R) UHD Graphics 770 (Raptor Lake-S)"},
    {0xa788, 0xa78b, ZR_BLT_GEN12, "Intel(R) UHD Graphics 770 (Raptor Lake-S)"},
    {0xa7a0, 0xa7a1, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Raptor Lake-P)"},
    {0xa7a8, 0xa7ad, ZR_BLT_GEN12, "Intel(R) Iris(R) Xe Graphics (Raptor Lake-P)"},
    {0xb640, 0xb640, ZR_BLT_GEN125, "Intel(R) Graphics (Arrow Lake-S)"},
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
