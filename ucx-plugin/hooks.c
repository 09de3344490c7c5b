/* Memory events: see hooks.h.
 *
 * UCX asks its memory-type cache first, and takes what is not in it for host memory. Its own hooks
 * see zeMemAlloc* and zeMemFree of callers it could patch, and no mapping at all. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "hooks.h"

#include "abi/uct_abi.h"
#include "memtypes.h"
#include "trace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <ucm/api/ucm.h>

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static bool            started;
static const struct zr_ze *the_ze; /* constant once active */
static atomic_bool     active;
static void (*forget_range)(void *ptr, size_t size);

static int ucs_type_of(ze_memory_type_t type)
{
    switch (type) {
    case ZE_MEMORY_TYPE_HOST: return UCS_MEMORY_TYPE_ZE_HOST;
    case ZE_MEMORY_TYPE_SHARED: return UCS_MEMORY_TYPE_ZE_MANAGED;
    default: return UCS_MEMORY_TYPE_ZE_DEVICE;
    }
}

static void on_mapping(void *arg, int mapped, void *ptr, size_t size, ze_memory_type_t type)
{
    if (!atomic_load_explicit(&active, memory_order_acquire) || zr_probing()) {
        return;
    }
    if (mapped) {
        /* Another thread may have exported what was here after the notice that it goes. */
        forget_range(ptr, size);
        zr_memtypes_appeared(the_ze, ptr, size, ucs_type_of(type));
    } else {
        forget_range(ptr, size);
        zr_memtypes_going(ptr, size, ucs_type_of(type));
    }
}

/* Tell UCX of Level Zero memory from @a start on. What follows it in a mapping that the CPU
 * cannot touch, or that holds such memory, may be anything: UCX shall ask when it meets it. */
static void scan_mapping(const struct zr_ze *ze, uintptr_t start, uintptr_t end, bool hidden,
                         int unknown)
{
    uintptr_t        p = start;
    ze_memory_type_t type;
    void            *base;
    size_t           size;

    while (p < end &&
           (type = zr_ze_memory_type(ze, (void *)p, NULL)) != ZE_MEMORY_TYPE_UNKNOWN &&
           zeMemGetAddressRange(ze->context, (void *)p, &base, &size) == ZE_RESULT_SUCCESS &&
           (uintptr_t)base + size > p) {
        zr_memtypes_appeared(ze, base, size, ucs_type_of(type));
        p = (uintptr_t)base + size;
    }
    if (p < end && (hidden || p > start)) {
        zr_memtypes_appeared(ze, (void *)p, end - p, unknown);
    }
}

/* Level Zero cannot list what is mapped, the kernel can. */
static void scan_existing(const struct zr_ze *ze, int unknown)
{
    FILE         *file = fopen("/proc/self/maps", "re");
    unsigned long start, end;
    char          line[512], access[8];
    bool          whole_line = true;

    if (file == NULL) {
        zr_ucs_warn("cannot read /proc/self/maps: Level Zero memory allocated before UCX started "
                    "may be taken for host memory");
        return;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        if (whole_line && sscanf(line, "%lx-%lx %7s", &start, &end, access) == 3) {
            scan_mapping(ze, start, end, strncmp(access, "---", 3) == 0, unknown);
        }
        whole_line = strchr(line, '\n') != NULL;
    }
    fclose(file);
}

void zr_hooks_start(const struct zr_ze *ze, int unknown, void (*forget)(void *ptr, size_t size))
{
    const char *why = "it says so itself";
    char        info[128];
    bool        told;

    pthread_mutex_lock(&start_lock);
    if (started) {
        goto out;
    }
    started      = true;
    forget_range = forget;
    the_ze       = ze;
    /* A look-up makes the cache if it is to be used, so that it hears of what comes. */
    (void)ucs_memtype_cache_lookup(info, 1, info);
    atomic_store_explicit(&active, true, memory_order_release);
    told = ze->subscribe != NULL ? ze->subscribe(on_mapping, NULL) == ZE_RESULT_SUCCESS
                                 : zr_trace_start(ze, on_mapping, &why);
    if (told) {
        zr_ucs_debug("mapped memory is heard of %s",
                     ze->subscribe != NULL ? "from the driver" : "by the loader's tracing layer");
        scan_existing(ze, unknown);
    } else {
        atomic_store_explicit(&active, false, memory_order_release);
        ucs_global_opts_set_value("MEMTYPE_CACHE", "n");
        zr_ucs_warn("this Level Zero driver does not tell of mapped memory and %s: UCX's memory "
                    "type cache is turned off, as with UCX_MEMTYPE_CACHE=n",
                    why);
    }
out:
    pthread_mutex_unlock(&start_lock);
}

bool zr_hooks_active(void)
{
    return atomic_load_explicit(&active, memory_order_acquire);
}

void zr_hooks_stop(void)
{
    atomic_store_explicit(&active, false, memory_order_release);
}
