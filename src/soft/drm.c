/* The DRM core around the driver: who may call what (primary and render nodes, master, authentication),
 * global names, and requests of the core that say little. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>

void zr_soft_file_set_primary(struct zr_soft_file *file)
{
    struct zr_soft_dev *dev = file->dev;

    pthread_mutex_lock(&dev->lock);
    file->primary       = true;
    file->authenticated = file->admin; /* root is, for compatibility */
    if (dev->master == NULL) { /* the first one who opens the node */
        dev->master         = file;
        file->authenticated = true;
        file->was_master    = true;
    }
    pthread_mutex_unlock(&dev->lock);
}

/* With the device's lock held. */
void zr_soft_file_leave(struct zr_soft_file *file)
{
    if (file->dev->master == file) {
        file->dev->master = NULL;
    }
    if (file->magic != 0) {
        zr_soft_ids_remove(&file->dev->magics, file->magic);
    }
}

/* drm_ioctl_permit */
int zr_soft_permit(const struct zr_soft_file *file, unsigned flags)
{
    if ((flags & ZR_SOFT_ROOT) && !(zr_soft_task_capabilities() >> CAP_SYS_ADMIN & 1)) {
        return -EACCES;
    }
    if ((flags & ZR_SOFT_AUTH) && file->primary && !file->authenticated) {
        return -EACCES;
    }
    if ((flags & ZR_SOFT_MASTER) && file->dev->master != file) {
        return -EACCES;
    }
    return (flags & ZR_SOFT_PRIMARY) && !file->primary ? -EACCES : 0;
}

int zr_soft_get_unique(struct zr_soft_file *file, void *data)
{
    struct drm_unique *unique = data;

    unique->unique_len = 0; /* until SET_VERSION of the master asks for one */
    return 0;
}

int zr_soft_get_magic(struct zr_soft_file *file, void *data)
{
    struct drm_auth *auth = data;
    uint32_t         magic;
    int              ret;

    if (file->magic == 0) {
        ret = zr_soft_ids_add(&file->dev->magics, 1, file, &magic);
        if (ret != 0) {
            return ret;
        }
        file->magic = magic;
    }
    auth->magic = file->magic;
    return 0;
}

int zr_soft_auth_magic(struct zr_soft_file *file, void *data)
{
    const struct drm_auth *auth = data;
    struct zr_soft_file   *other = zr_soft_ids_remove(&file->dev->magics, auth->magic);

    if (other == NULL) {
        return -EINVAL;
    }
    other->authenticated = true;
    other->magic         = 0;
    return 0;
}

int zr_soft_get_client(struct zr_soft_file *file, void *data)
{
    struct drm_client *client = data;

    if (client->idx != 0) {
        return -EINVAL;
    }
    client->auth  = file->authenticated;
    client->pid   = 0;
    client->uid   = 65534;
    client->magic = 0;
    client->iocs  = 0;
    return 0;
}

int zr_soft_get_stats(struct zr_soft_file *file, void *data)
{
    memset(data, 0, sizeof(struct drm_stats));
    return 0;
}

int zr_soft_set_version(struct zr_soft_file *file, void *data)
{
    struct drm_set_version *v = data;
    bool interface_ok = v->drm_di_major == -1 || (v->drm_di_major == 1 && v->drm_di_minor >= 0 &&
                                                  v->drm_di_minor <= 4);
    bool driver_ok    = v->drm_dd_major == -1 || (v->drm_dd_major == 1 && v->drm_dd_minor >= 0 &&
                                               v->drm_dd_minor <= 6);

    *v = (struct drm_set_version){1, 4, 1, 6};
    return interface_ok && driver_ok ? 0 : -EINVAL;
}

/* drm_master_check_perm: who has been one before may be one again. */
static int zr_soft_master_permit(const struct zr_soft_file *file)
{
    return file->was_master || (zr_soft_task_capabilities() >> CAP_SYS_ADMIN & 1) ? 0 : -EACCES;
}

int zr_soft_set_master(struct zr_soft_file *file, void *data)
{
    int ret = zr_soft_master_permit(file);

    if (ret != 0 || file->dev->master == file) {
        return ret;
    }
    if (file->dev->master != NULL) {
        return -EBUSY;
    }
    file->dev->master   = file;
    file->authenticated = true;
    file->was_master    = true;
    return 0;
}

int zr_soft_drop_master(struct zr_soft_file *file, void *data)
{
    int ret = zr_soft_master_permit(file);

    if (ret != 0 || file->dev->master != file) {
        return ret != 0 ? ret : -EINVAL;
    }
    file->dev->master = NULL;
    return 0;
}

/* ---- global names ---- */

int zr_soft_flink(struct zr_soft_file *file, void *data)
{
    struct drm_gem_flink *args = data;
    struct zr_soft_bo    *bo   = zr_soft_bo_find(file, args->handle);
    int                   ret;

    if (bo == NULL) {
        return -ENOENT;
    }
    if (bo->name == 0) {
        ret = zr_soft_ids_add(&file->dev->names, 1, bo, &bo->name);
        if (ret != 0) {
            return ret;
        }
    }
    args->name = bo->name;
    return 0;
}

int zr_soft_open_name(struct zr_soft_file *file, void *data)
{
    struct drm_gem_open *args = data;
    struct zr_soft_bo   *bo   = zr_soft_ids_get(&file->dev->names, args->name);
    uint32_t             handle;
    int                  ret;

    if (bo == NULL) {
        return -ENOENT;
    }
    ret = zr_soft_bo_add_handle(file, zr_soft_bo_get(bo), &handle);
    if (ret == 0) {
        args->handle = handle;
        args->size   = bo->size;
    }
    return ret;
}

/* drm_gem_object_handle_free: a name lives as long as there is a handle. */
void zr_soft_bo_unname(struct zr_soft_bo *bo)
{
    if (bo->name != 0 && bo->handles == NULL) {
        zr_soft_ids_remove(&bo->dev->names, bo->name);
        bo->name = 0;
    }
}
