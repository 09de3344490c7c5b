/* One-sided communication through memory of ours: data that must change its kind of memory on the way,
 * and lands when the window is synchronised. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "osc.h"

#include "opal/datatype/opal_convertor.h"

#include <stdlib.h>

/* ---- elements and bytes ---- */

static bool is_dense(size_t count, const ompi_datatype_t *dtype)
{
    return opal_datatype_is_contiguous_memory_layout(&dtype->super, count > 1 ? 2 : 1);
}

static int failed(const void *to, const void *from, size_t bytes)
{
    return zr_error(MPI_ERR_BUFFER, "one-sided: copying %zu bytes from %p to %p failed", bytes, from,
                    to);
}

static int convert(void *bytes, void *buffer, size_t count, const ompi_datatype_t *dtype, bool pack)
{
    opal_convertor_t convertor;
    size_t           size  = count * dtype->super.size, done;
    struct iovec     piece = {bytes, size};
    uint32_t         one   = 1;
    int              rc;

    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    rc = pack ? opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &dtype->super,
                                                         count, buffer, 0, &convertor) :
                opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &dtype->super,
                                                         count, buffer, 0, &convertor);
    done = size;
    if (rc == OPAL_SUCCESS) {
        (void)(pack ? opal_convertor_pack(&convertor, &piece, &one, &done) :
                      opal_convertor_unpack(&convertor, &piece, &one, &done));
    }
    opal_convertor_cleanup(&convertor);
    OBJ_DESTRUCT(&convertor);
    return rc == OPAL_SUCCESS && done == size ? OMPI_SUCCESS : failed(bytes, buffer, size);
}

int zr_pack(void *bytes, const void *buffer, size_t count, ompi_datatype_t *dtype)
{
    ptrdiff_t first;
    size_t    size = zr_span(count, dtype, &first);

    if (is_dense(count, dtype)) {
        return zr_acc_copy(bytes, (const char *)buffer + first, size) ?
                   OMPI_SUCCESS :
                   failed(bytes, buffer, size);
    }
    return convert(bytes, (void *)buffer, count, dtype, true);
}

int zr_unpack(const void *bytes, void *buffer, size_t count, ompi_datatype_t *dtype)
{
    ptrdiff_t first;
    size_t    size = zr_span(count, dtype, &first);

    if (is_dense(count, dtype)) {
        return zr_acc_copy((char *)buffer + first, bytes, size) ? OMPI_SUCCESS :
                                                                  failed(buffer, bytes, size);
    }
    return convert((void *)bytes, buffer, count, dtype, false);
}

int zr_copy_elements(void *to, const void *from, size_t count, ompi_datatype_t *dtype)
{
    ptrdiff_t first;
    size_t    size = zr_span(count, dtype, &first);

    if (is_dense(count, dtype)) {
        return zr_acc_copy((char *)to + first, (const char *)from + first, size) ?
                   OMPI_SUCCESS :
                   failed(to, from, size);
    }
    return ompi_datatype_copy_content_same_ddt(dtype, count, to, (char *)from) == 0 ?
               OMPI_SUCCESS :
               failed(to, from, size);
}

/* ---- pending ---- */

struct zr_pending *zr_pending_new(int target, size_t bytes, bool device, int *rc)
{
    const struct zr_acc       *acc     = zr_acc_get();
    ze_device_mem_alloc_desc_t desc    = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    struct zr_pending         *pending = calloc(1, sizeof(*pending));

    if (pending != NULL) {
        pending->target = target;
        pending->bytes  = bytes;
        pending->host   = malloc(bytes > 0 ? bytes : 1);
    }
    if (pending == NULL || pending->host == NULL ||
        (device && zeMemAllocDevice(acc->context, &desc, bytes > 0 ? bytes : 1, 64,
                                    acc->device[0].handle,
                                    &pending->device) != ZE_RESULT_SUCCESS)) {
        *rc = zr_error(MPI_ERR_NO_MEM, "one-sided: no %s memory for %zu bytes on their way",
                       pending != NULL && pending->host != NULL ? "device" : "host", bytes);
        if (pending != NULL) {
            pending->device = NULL;
            zr_pending_free(pending);
        }
        return NULL;
    }
    return pending;
}

struct zr_pending *zr_pending_like(int target, size_t count, ompi_datatype_t *dtype, void **copy,
                                   int *rc)
{
    ptrdiff_t          first;
    struct zr_pending *pending;

    pending = zr_pending_new(target, zr_span(count, dtype, &first), false, rc);
    if (pending != NULL) {
        OBJ_RETAIN(dtype);
        pending->laid_out = true;
        pending->count    = count;
        pending->dtype    = dtype;
        *copy             = (char *)pending->host - first;
    }
    return pending;
}

void zr_pending_free(struct zr_pending *pending)
{
    if (pending->device != NULL) {
        zeMemFree(zr_acc_get()->context, pending->device);
    }
    if (pending->dtype != NULL) {
        OBJ_RELEASE(pending->dtype);
    }
    free(pending->host);
    free(pending);
}

void zr_pending_keep(struct zr_window *window, struct zr_pending *pending)
{
    pthread_mutex_lock(&window->lock);
    pending->next   = window->pending;
    window->pending = pending;
    pthread_mutex_unlock(&window->lock);
}

int zr_pending_bring(struct zr_pending *pending)
{
    if (pending->to == NULL) {
        return OMPI_SUCCESS;
    }
    if (pending->laid_out) {
        ptrdiff_t first;

        (void)zr_span(pending->count, pending->dtype, &first);
        return zr_copy_elements(pending->to, (char *)pending->host - first, pending->count,
                                pending->dtype);
    }
    if (pending->device != NULL &&
        !zr_acc_copy(pending->host, pending->device, pending->bytes)) {
        return failed(pending->host, pending->device, pending->bytes);
    }
    return zr_unpack(pending->host, pending->to, pending->count, pending->dtype);
}

int zr_land(struct zr_window *window, int target)
{
    struct zr_pending **at, *pending;
    int                 rc = OMPI_SUCCESS, one;

    pthread_mutex_lock(&window->lock);
    for (at = &window->pending; (pending = *at) != NULL;) {
        if (target >= 0 && pending->target != target) {
            at = &pending->next;
            continue;
        }
        *at = pending->next;
        one = zr_pending_bring(pending);
        rc  = rc == OMPI_SUCCESS ? one : rc;
        zr_pending_free(pending);
    }
    pthread_mutex_unlock(&window->lock);
    return rc;
}

void zr_pending_drop(struct zr_window *window)
{
    struct zr_pending *pending;

    while ((pending = window->pending) != NULL) {
        window->pending = pending->next;
        zr_pending_free(pending);
    }
}
