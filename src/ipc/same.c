/* The method "same process" of the exchange: an export of this very process has its objects at hand,
 * so that no fd is made and nothing is imported. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "parts.h"

#include <errno.h>

int zr_same_probe(struct zr_exchange *x)
{
    return (x->handle.process_id == zr_identity().process_id) ? 0 : -EXDEV;
}

/* An export that is gone here is nowhere else either. */
ze_result_t zr_same_range(struct zr_exchange *x, struct zr_range *range, size_t *lead_p)
{
    struct zr_export *export = zr_export_find(x->handle.export_id, x->handle.secret);
    ze_result_t       result;

    if (export == NULL || export->handle.kind != x->handle.kind) {
        if (export != NULL) {
            zr_export_unref(export);
        }
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "export %llu: this process exports it no more, or a wrong secret",
                       (unsigned long long)x->handle.export_id);
    }
    zr_range_clear(range);
    result  = zr_range_copy(range, &export->range);
    *lead_p = export->lead;
    zr_export_unref(export);
    return result;
}
