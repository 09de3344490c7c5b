/* ofiwg/libfabric PR 8592, pmodels/mpich PR 7065 and PR 7821: nobody had said who closes the fd of a
 * handle: closing it crashed, not closing it leaked. Got twice and put twice; opened by a process that
 * put its own copy of the fd into the handle, which stays its own; put before what is open is used. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

#include <fcntl.h>
#include <sys/syscall.h>

#define ROUNDS 50

static void exporter(struct zebuf *buf)
{
    ze_ipc_phys_mem_handle_range_ext_desc_t desc = {
        .stype = ZE_STRUCTURE_TYPE_IPC_PHYS_MEM_HANDLE_RANGE_EXT_DESC, .size = buf->size};
    ze_ipc_mem_handle_t handle, again;
    unsigned            fds = zp_fds(), k;
    zr_counts_t         counts;

    for (k = 0; k < ROUNDS; k++) {
        ZE(zeMemGetIpcHandleWithProperties(zebuf_ze.context, buf->ptr, &desc, &handle));
        ZE(zeMemGetIpcHandleWithProperties(zebuf_ze.context, buf->ptr, &desc, &again));
        pair_write(&handle, sizeof(handle));
        pair_meet(); /* it is open there */
        ZE(zeMemPutIpcHandle(zebuf_ze.context, handle));
        ZE(zeMemPutIpcHandle(zebuf_ze.context, again));
        ZE(zeMemPutIpcHandle(zebuf_ze.context, again)); /* once too often */
        pair_meet();
        pair_meet();
        if (k == 0) {
            fds = zp_fds(); /* the broker's are there */
        }
    }
    if (zp_fds() > fds || (zp_counts(&counts) && counts.exports != 0)) {
        FAIL("%u fds, %u at the start", zp_fds(), fds);
    }
}

static void importer(struct zebuf *mine)
{
    ze_ipc_mem_handle_t handle;
    unsigned            fds = 0, k;
    void               *first, *second;
    int                 fd, copy;

    for (k = 0; k < ROUNDS; k++) {
        pair_read(&handle, sizeof(handle));
        ZE(zeMemOpenIpcHandle(zebuf_ze.context, zebuf_ze.device, handle, 0, &first));
        ZE(zeMemOpenIpcHandle(zebuf_ze.context, zebuf_ze.device, handle, 0, &second));
        pair_meet();
        pair_meet(); /* it is put there */
        ZE(zeMemCloseIpcHandle(zebuf_ze.context, first));
        zebuf_fill(mine, 9);
        ZE(zeCommandListAppendMemoryCopy(zebuf_ze.list, mine->ptr, second, mine->size, NULL, 0,
                                         NULL));
        if (zebuf_check(mine, 0, mine->size, 0, 1, 9) != 0) {
            FAIL("round %u: wrong bytes through what is still open", k);
        }
        ZE(zeMemCloseIpcHandle(zebuf_ze.context, second));
        if (zeMemCloseIpcHandle(zebuf_ze.context, second) == ZE_RESULT_SUCCESS) {
            FAIL("closed twice");
        }
        /* A number of this process in the handle that is something else stays what it is. */
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        memcpy(&handle, &fd, sizeof(fd));
        if (zeMemOpenIpcHandle(zebuf_ze.context, zebuf_ze.device, handle, 0, &first) ==
            ZE_RESULT_SUCCESS) {
            FAIL("a handle that was put opens");
        }
        copy = fcntl(fd, F_GETFD);
        if (copy < 0 || close(fd) != 0) {
            FAIL("the client's fd was closed by the driver");
        }
        pair_meet();
        fds = k == 0 ? zp_fds() : fds;
    }
    if (zp_fds() > fds) {
        FAIL("%u fds, %u after the first round", zp_fds(), fds);
    }
}

static void body(void)
{
    struct zebuf buf;

    zp_device();
    zebuf_map(&buf, 3, 65536, NULL);
    zebuf_fill(&buf, 1);
    if (pair.rank == 0) {
        exporter(&buf);
    } else {
        importer(&buf);
    }
    zebuf_unmap(&buf);
}

int main(int argc, char **argv)
{
    unsigned which;

    pair_enter(body, &which);
    return pair_run(argv[0], 0, 60);
}
