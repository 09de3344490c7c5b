/* Lists made of lists: a clone, and regular lists appended to an immediate one. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

#include <stdlib.h>

ze_result_t zr_zeCommandListCreateCloneExp(ze_command_list_handle_t  hCommandList,
                                           ze_command_list_handle_t *phClonedCommandList)
{
    struct zr_list *list = (struct zr_list *)hCommandList, *clone;

    ZR_CHECK_HANDLE(hCommandList, ZR_KIND_LIST);
    ZR_CHECK_POINTER(phClonedCommandList);
    if (list->stream != NULL || !(list->flags & ZE_COMMAND_LIST_FLAG_EXP_CLONEABLE) ||
        !list->closed) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "zeCommandListCreateCloneExp: the command list %s",
                       list->stream   ? "is immediate" :
                       !list->closed ? "is not closed" :
                                       "was created without EXP_CLONEABLE");
    }
    clone = zr_object_create();
    if (clone == NULL) {
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    clone->context = list->context;
    clone->device  = list->device;
    clone->flags   = list->flags;
    clone->desc    = list->desc;
    clone->closed  = true;
    for (unsigned i = 0; i < list->count; i++) {
        ze_result_t result = zr_list_push(clone, &list->ops[i]);

        if (result != ZE_RESULT_SUCCESS) {
            free(clone->ops);
            zr_object_destroy(clone);
            return result;
        }
    }
    zr_object_publish(clone, ZR_KIND_LIST);
    *phClonedCommandList = (ze_command_list_handle_t)clone;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeCommandListImmediateAppendCommandListsExp(
    ze_command_list_handle_t hCommandListImmediate, uint32_t numCommandLists,
    ze_command_list_handle_t *phCommandLists, ze_event_handle_t hSignalEvent,
    uint32_t numWaitEvents, ze_event_handle_t *phWaitEvents)
{
    struct zr_list *list = (struct zr_list *)hCommandListImmediate;
    ze_result_t     result;
    uint64_t        seqno;

    ZR_CHECK_HANDLE(hCommandListImmediate, ZR_KIND_LIST);
    ZR_CHECK_POINTER(phCommandLists);
    if (list->stream == NULL) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE,
                       "command lists are appended to an immediate one");
    }
    if (hSignalEvent != NULL) {
        ZR_CHECK_HANDLE(hSignalEvent, ZR_KIND_EVENT);
    }
    for (uint32_t i = 0; i < numCommandLists; i++) {
        result = zr_list_check_closed(list->device, phCommandLists[i]);
        if (result != ZE_RESULT_SUCCESS) {
            return result;
        }
    }
    result = zr_list_append(list, NULL, NULL, numWaitEvents, phWaitEvents);
    for (uint32_t i = 0; i < numCommandLists && result == ZE_RESULT_SUCCESS; i++) {
        struct zr_list *one = (struct zr_list *)phCommandLists[i];

        result = zr_stream_run(list->stream, one->ops, one->count,
                               one->flags & ZE_COMMAND_LIST_FLAG_RELAXED_ORDERING, &seqno);
    }
    /* A synchronous list waits here for all of it. */
    return (result == ZE_RESULT_SUCCESS) ? zr_list_append(list, NULL, hSignalEvent, 0, NULL)
                                         : result;
}
