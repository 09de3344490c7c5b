/* Fuzz target: a packed key of the UCX transport, from an enemy: unpacked, used for a range that the
 * rest of the input names, released. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "imports.h"
#include "exports.h"
#include "md.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEED(cond)                                                                            \
    do {                                                                                      \
        if (!(cond)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond);              \
            abort();                                                                          \
        }                                                                                     \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define SIZE ((size_t)1 << 20)

static struct zr_key valid;

static void answer(const struct zr_link_message *request, struct zr_link_message *reply, int *fds)
{
    if (request->what == ZR_LINK_RENEW || request->what == ZR_LINK_PIECES) {
        zr_exports_answer(request, reply, fds);
    } else {
        reply->status = -22;
    }
}

static const struct zr_link_ops link_ops = {answer, zr_imports_let_go};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct zr_rcache_limits    limits    = {16, UINT64_MAX, true};
    ze_device_mem_alloc_desc_t desc      = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    const struct zr_ze        *ze;
    struct zr_registration    *registration;
    void                      *ptr;

    setenv("ZERANGE_SOFT", "pvc", 0);
    setenv("ZERANGE_LOG", "error", 1);
    setenv("UCX_LOG_LEVEL", "fatal", 1);
    ze = zr_ze_get();
    NEED(ze != NULL);
    NEED(zr_exports_start(&limits, UINT64_MAX, &link_ops) == 0);
    NEED(zr_imports_start(&limits, &link_ops) == 0);
    NEED(zeMemAllocDevice(ze->context, &desc, SIZE, 64, ze->device, &ptr) == ZE_RESULT_SUCCESS);
    NEED(zr_registration_create(ptr, SIZE, &registration) == UCS_OK);
    zr_registration_key(registration, &valid);
    NEED(valid.kind != ZR_SHARE_NONE && valid.size >= SIZE);
    return 0;
}

static void take(const uint8_t **data, size_t *left, void *to, size_t size)
{
    uint8_t mask[sizeof(valid)] = {0};
    size_t  n                   = (size < *left) ? size : *left, i;

    memcpy(mask, *data, n);
    *data += n;
    *left -= n;
    for (i = 0; i < size; i++) {
        ((uint8_t *)to)[i] ^= mask[i];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zr_key            key = valid;
    struct zr_rcache_region *region;
    uint64_t                 window[2], length = 0;
    uct_rkey_t               rkey;
    char                    *at;

    take(&data, &size, &key, sizeof(key));
    key.peer.pid = (key.peer.pid % 2 != 0) ? (uint32_t)getpid() : key.peer.pid % 4096;
    window[0]    = key.base;
    window[1]    = 4096;
    take(&data, &size, window, sizeof(window));
    if (zr_rkey_unpack(&key, &rkey) != UCS_OK) {
        return 0;
    }
    if (zr_import_get((struct zr_rkey *)rkey, window[0], window[1], &region) == UCS_OK) {
        at = zr_import_at(region, window[0], &length);
        NEED(at != NULL && length > 0);
        zr_import_put(region);
    }
    NEED(zr_rkey_release(NULL, rkey, NULL) == UCS_OK);
    return 0;
}
