/* Init: the environment, the kernel to talk to, the devices, the application's wishes for the
 * whole driver; and the end of it all. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "stream.h"

#include <unistd.h>

struct zr_driver *zr_driver;

static pthread_once_t  init_once = PTHREAD_ONCE_INIT;
static ze_result_t     init_result;
static pid_t           init_pid;
static bool            zr_forked; /* a child of who initialised; written when it has one thread */
static pthread_mutex_t policy_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the two below */
static enum zr_policy  driver_policy;
static bool            policy_fixed;

/* Close the devices that ZE_AFFINITY_MASK leaves out; the others keep their order. */
static unsigned zr_affinity_apply(struct zr_i915 **i915, unsigned count)
{
    const uint64_t mask = zr_config()->affinity_mask;
    unsigned       kept = 0;

    if (mask != UINT64_MAX && (mask >> count) != 0) {
        zr_warn("ZE_AFFINITY_MASK names devices that do not exist, there are %u", count);
    }
    for (unsigned i = 0; i < count; i++) {
        if (mask & (UINT64_C(1) << i)) {
            i915[kept++] = i915[i];
        } else {
            zr_i915_close(i915[i]);
        }
    }
    return kept;
}

static ze_result_t zr_driver_create(void)
{
    const struct zr_kif *kif = (zr_config()->soft != NULL) ? zr_soft_kif() : zr_drm_kif();
    struct zr_i915      *i915[ZR_MAX_DEVICES];
    struct zr_driver    *driver;
    unsigned             count = 0;
    ze_result_t          result;

    result = zr_i915_enumerate(kif, i915, ZR_MAX_DEVICES, &count);
    if (result != ZE_RESULT_SUCCESS) {
        zr_warn("no device can be used: %s", zr_last_error());
        return ZE_RESULT_ERROR_UNINITIALIZED;
    }
    if (count == 0) {
        zr_info("no i915 device (%s)", kif->name);
        return ZE_RESULT_ERROR_UNINITIALIZED;
    }
    count = zr_affinity_apply(i915, count);
    if (count == 0) {
        zr_warn("ZE_AFFINITY_MASK leaves no device");
        return ZE_RESULT_ERROR_UNINITIALIZED;
    }
    driver = zr_object_create();
    if (driver == NULL) {
        result = ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
        goto err_close;
    }
    zr_driver = driver;
    for (; driver->num_devices < count; driver->num_devices++) {
        result = zr_device_create(i915[driver->num_devices], driver->num_devices,
                                  &driver->device[driver->num_devices]);
        if (result != ZE_RESULT_SUCCESS) {
            goto err_devices;
        }
    }
    result = zr_context_create(ZR_POLICY_DEFAULT, (UINT32_C(1) << count) - 1,
                               &driver->default_context);
    if (result != ZE_RESULT_SUCCESS) {
        goto err_devices;
    }
    zr_phys_watch_end(zr_dmabuf_forget);
    zr_object_publish(driver, ZR_KIND_DRIVER);
    return ZE_RESULT_SUCCESS;

err_devices:
    while (driver->num_devices > 0) {
        zr_device_destroy(driver->device[--driver->num_devices]);
    }
    zr_driver = NULL;
    zr_object_destroy(driver);
err_close:
    zr_error("init: %s", zr_last_error());
    while (count > 0) {
        zr_i915_close(i915[--count]);
    }
    return result;
}

/* A child has neither the threads nor a say in the device, and other threads of its parent may have
 * held any lock: there is no driver in it, so that every call ends at the check of its handle. */
static void zr_driver_in_child(void)
{
    zr_forked = true;
    zr_driver = NULL;
    atomic_store(&zr_slots_size, 0);
}

static void zr_init_do(void)
{
    init_pid    = getpid();
    init_result = zr_config_load();
    if (init_result == ZE_RESULT_SUCCESS) {
        init_result = zr_driver_create();
    }
    pthread_atfork(NULL, NULL, zr_driver_in_child);
}

ze_result_t zr_init(void)
{
    if (zr_forked) {
        return zr_no_driver();
    }
    pthread_once(&init_once, zr_init_do);
    return init_result;
}

ze_result_t zr_no_driver(void)
{
    return zr_fail(ZE_RESULT_ERROR_UNINITIALIZED,
                   zr_forked ? "a forked child cannot use the devices of its parent"
                             : "zerange is not initialised");
}

enum zr_policy zr_driver_policy(void)
{
    enum zr_policy policy;

    pthread_mutex_lock(&policy_lock);
    policy_fixed = true;
    policy       = driver_policy;
    pthread_mutex_unlock(&policy_lock);
    return policy;
}

ze_result_t zr_zeInit(ze_init_flags_t flags)
{
    if (flags > (ZE_INIT_FLAG_GPU_ONLY | ZE_INIT_FLAG_VPU_ONLY)) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "zeInit: flags 0x%x", flags);
    }
    if (flags == ZE_INIT_FLAG_VPU_ONLY) {
        return zr_fail(ZE_RESULT_ERROR_UNINITIALIZED, "zeInit: zerange has GPUs only");
    }
    if (zr_forked) {
        return zr_no_driver();
    }
    (void)zr_driver_policy();
    return zr_init();
}

/* Find the application's wish for the whole driver. The first initialisation decides; but where
 * there are several drivers the loader initialises them all, without any wish, before it passes on
 * what the application asks for: such a call is known by its shape and does not decide. */
static ze_result_t zr_init_properties(const ze_init_driver_type_desc_t *type)
{
    const ze_init_driver_properties_ext_desc_t *desc =
        zr_chain_find(type->pNext, ZE_STRUCTURE_TYPE_INIT_DRIVER_PROPERTIES_EXT_DESC);
    const uint32_t memory      = ZE_INIT_DRIVER_PROPERTIES_EXT_FLAG_OPTIMIZE_MEMORY;
    const uint32_t performance = ZE_INIT_DRIVER_PROPERTIES_EXT_FLAG_OPTIMIZE_PERFORMANCE;

    if (desc == NULL) {
        if (type->flags != UINT32_MAX || type->pNext != NULL) {
            (void)zr_driver_policy();
        }
        return ZE_RESULT_SUCCESS;
    }
    if ((desc->flags & memory) && (desc->flags & performance)) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                       "zeInitDrivers: OPTIMIZE_MEMORY and OPTIMIZE_PERFORMANCE exclude each "
                       "other");
    }
    pthread_mutex_lock(&policy_lock);
    if (!policy_fixed) {
        policy_fixed  = true;
        driver_policy = (desc->flags & memory)        ? ZR_POLICY_MEMORY
                        : (desc->flags & performance) ? ZR_POLICY_PERFORMANCE
                                                      : ZR_POLICY_DEFAULT;
    }
    pthread_mutex_unlock(&policy_lock);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeInitDrivers(uint32_t *pCount, ze_driver_handle_t *phDrivers,
                             ze_init_driver_type_desc_t *desc)
{
    ze_result_t result;

    ZR_CHECK_POINTER(pCount);
    ZR_CHECK_POINTER(desc);
    if (desc->flags == 0) {
        return zr_fail(ZE_RESULT_ERROR_INVALID_ENUMERATION, "zeInitDrivers: no driver type");
    }
    if (!(desc->flags & ZE_INIT_DRIVER_TYPE_FLAG_GPU)) {
        return zr_fail(ZE_RESULT_ERROR_UNINITIALIZED, "zeInitDrivers: zerange has GPUs only");
    }
    result = zr_forked ? zr_no_driver() : zr_init_properties(desc);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_init();
    }
    if (result != ZE_RESULT_SUCCESS) {
        return result;
    }
    ZR_COUNTED(pCount, 1, phDrivers, (ze_driver_handle_t)zr_driver);
    return ZE_RESULT_SUCCESS;
}

ze_result_t zr_zeDriverGet(uint32_t *pCount, ze_driver_handle_t *phDrivers)
{
    ZR_CHECK_POINTER(pCount);
    if (zr_driver == NULL) {
        return zr_fail(ZE_RESULT_ERROR_UNINITIALIZED, "zeDriverGet: zerange has no device");
    }
    ZR_COUNTED(pCount, 1, phDrivers, (ze_driver_handle_t)zr_driver);
    return ZE_RESULT_SUCCESS;
}

/* The loader unloads the driver from a destructor of its own; a late call finds no valid handle.
 * A child of fork leaves everything to its parent. */
__attribute__((destructor)) static void zr_driver_end(void)
{
    struct zr_driver *driver = zr_driver;

    if (driver == NULL || init_pid != getpid()) {
        return;
    }
    zr_objects_end();
    zr_ipc_shutdown();
    zr_streams_end();
    zr_pool_drop();
    for (unsigned i = 0; i < driver->num_devices; i++) {
        struct zr_i915 *i915 = driver->device[i]->i915;

        zr_device_destroy(driver->device[i]);
        zr_i915_close(i915);
    }
}
