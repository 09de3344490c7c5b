/* Fuzz target: a handle from an enemy, through every call that takes one. Byte 0 of the input picks
 * a valid handle, the next 64 change it. What opens must be what was exported. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"

#define OBJECTS 4

static struct zr_handle valid[3];
static char            *base, *usm;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    ze_ipc_mem_handle_t plain;
    struct zr_range     range;
    unsigned            kinds;

    fuzz_start();
    base = fuzz_range(OBJECTS);
    memset(base, 0x31, OBJECTS * PAGE);
    fuzz_export(base, OBJECTS * PAGE, &valid[0]);
    NEED(zr_usm_alloc(test_device(), ZE_MEMORY_TYPE_SHARED, PAGE, 0, false, (void **)&usm) ==
         ZE_RESULT_SUCCESS);
    memset(usm, 0x32, PAGE);
    NEED(zr_range_walk(usm, PAGE, &range, &kinds, NULL) == ZE_RESULT_SUCCESS);
    NEED(zr_ipc_export_plain(usm, range.segments[0].object, PAGE, ZE_MEMORY_TYPE_SHARED, NULL,
                             &plain) == ZE_RESULT_SUCCESS);
    zr_range_clear(&range);
    memcpy(&valid[1], &plain, sizeof(plain));
    /* As another process would see it: found by its fd. */
    valid[2]            = valid[1];
    valid[2].process_id = 0;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zr_ipc_counts before, after;
    ze_ipc_mem_handle_t  handle;
    struct zr_handle     h;
    uint8_t              which = 0;
    uint64_t             fd;
    char                *ptr = NULL;

    fuzz_take(&data, &size, &which, 1);
    h = valid[which % 3];
    fuzz_mask(&data, &size, &h, sizeof(h));
    /* Not the fds of other processes of this machine. */
    h.pid = (h.pid % 2 != 0) ? (uint32_t)getpid() : 0;
    memcpy(&handle, &h, sizeof(h));
    zr_ipc_counts(&before);
    if (zr_ipc_open(test_device(), &handle, (void **)&ptr) == ZE_RESULT_SUCCESS) {
        NEED(ptr[0] == (h.kind == ZR_HANDLE_RANGE ? 0x31 : 0x32));
        NEED(zr_ipc_close(ptr) == ZE_RESULT_SUCCESS);
    } else {
        NEED(ptr == NULL);
    }
    (void)zr_ipc_fd_from_handle(&handle, &fd);
    if (memcmp(h.secret, valid[which % 3].secret, sizeof(h.secret)) != 0) {
        NEED(zr_ipc_put(&handle) == ZE_RESULT_SUCCESS);
    }
    zr_ipc_counts(&after);
    NEED(memcmp(&before, &after, sizeof(before)) == 0);
    return 0;
}
