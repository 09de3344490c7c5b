/* Host memory that the engines refuse: see bounce.h. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "bounce.h"

#include "md.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOM ((size_t)1 << 20)

/* By the kernel, which says so where a plain access would end the application. */
static bool accessible(const char *at, bool write_too)
{
    int  ends[2];
    bool ok;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    ok = write(ends[1], at, 1) == 1 && (!write_too || read(ends[0], (char *)at, 1) == 1);
    close(ends[0]);
    close(ends[1]);
    return ok;
}

static bool is_host(const void *ptr)
{
    return zr_ze_memory_type(zr_ze_get(), ptr, NULL) == ZE_MEMORY_TYPE_UNKNOWN;
}

bool zr_bounce_helps(const char *local, size_t size, int put, ze_result_t result)
{
    const char *last = local + size - 1;
    uintptr_t   page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)local & ~(page - 1);

    return result != ZE_RESULT_ERROR_DEVICE_LOST && result != ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY &&
           result != ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY && is_host(local) && is_host(last) &&
           msync((void *)start, (uintptr_t)last - start, MS_ASYNC) == 0 && /* no holes */
           accessible(local, !put) && accessible(last, !put);
}

/* What is in @a room, on its way or back. */
static ze_result_t engine(ze_command_list_handle_t list, void *mapped, void *room, size_t size,
                          int put)
{
    ze_result_t result = zeCommandListAppendMemoryCopy(list, put ? mapped : room,
                                                       put ? room : mapped, size, NULL, 0, NULL);

    return result == ZE_RESULT_SUCCESS ? zeCommandListHostSynchronize(list, UINT64_MAX) : result;
}

ze_result_t zr_bounce(ze_command_list_handle_t list, const struct zr_rcache_region *region,
                      char *local, uint64_t remote, size_t size, int put)
{
    const struct zr_ze      *ze   = zr_ze_get();
    ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    size_t                   done, n;
    uint64_t                 length;
    void                    *room, *mapped;
    ze_result_t              result;

    result = zeMemAllocHost(ze->context, &desc, size < ROOM ? size : ROOM, 0, &room);
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    for (done = 0; done < size && result == ZE_RESULT_SUCCESS; done += n) {
        mapped = zr_import_at(region, remote + done, &length);
        n      = ucs_min(ucs_min(length, size - done), ROOM);
        if (put) {
            memcpy(room, local + done, n);
        }
        result = engine(list, mapped, room, n, put);
        if (result == ZE_RESULT_SUCCESS && !put) {
            memcpy(local + done, room, n);
        }
    }
    zeMemFree(ze->context, room);
    return result;
}
