/* The queue group that test programs copy on: the first that only copies, since another driver's
 * copies on a compute group are kernels, and no software device runs those. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZEGROUP_H
#define ZEGROUP_H

#include <level_zero/ze_api.h>
#include <string.h>

/* @return its ordinal; 0 if none only copies */
static inline uint32_t zegroup_copy(ze_device_handle_t device)
{
    ze_command_queue_group_properties_t groups[16];
    uint32_t                            count = 16, k;

    memset(groups, 0, sizeof(groups));
    for (k = 0; k < 16; k++) {
        groups[k].stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES;
    }
    if (zeDeviceGetCommandQueueGroupProperties(device, &count, groups) != ZE_RESULT_SUCCESS) {
        return 0;
    }
    for (k = 0; k < count && k < 16; k++) {
        if ((groups[k].flags & (ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY |
                                ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE)) ==
            ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY) {
            return k;
        }
    }
    return 0;
}

#endif
