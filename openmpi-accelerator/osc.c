/* Open MPI osc component that stands in front of another one (osc/ucx where it is there): windows in
 * device memory, checked and agreed upon by all ranks, and their synchronisation. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "osc.h"
#include "component.h"

#include "opal/mca/base/mca_base_component_repository.h"
#include "opal/util/info.h"
#include "ompi/mca/coll/coll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRIORITY 1000 /* in front of all that communicate */

/* MPI_Info keys of MPI_Win_allocate. */
#define KEY_KIND   "zerange_memory_kind" /* "device", or "host" */
#define KEY_DEVICE "zerange_device"      /* which one; 0 */

/* ---- which window ---- */

#define BUCKETS 64

/* Entries stay in their list for ever and are used again, so that looking one up takes no lock. */
static struct zr_window *windows[BUCKETS];
static pthread_mutex_t   windows_lock = PTHREAD_MUTEX_INITIALIZER;

static struct zr_window **bucket_of(const ompi_win_t *win)
{
    return &windows[((uintptr_t)win / 64 * 0x9e3779b97f4a7c15u) >> 58];
}

struct zr_window *zr_window_find(const ompi_win_t *win)
{
    struct zr_window *window = __atomic_load_n(bucket_of(win), __ATOMIC_ACQUIRE);

    while (window != NULL && __atomic_load_n(&window->win, __ATOMIC_ACQUIRE) != win) {
        window = window->next;
    }
    return window;
}

static struct zr_window *window_new(const ompi_win_t *win)
{
    struct zr_window *window;

    pthread_mutex_lock(&windows_lock);
    for (window = *bucket_of(win); window != NULL && window->ranks != 0; window = window->next) {
    }
    if (window == NULL && (window = calloc(1, sizeof(*window))) != NULL) {
        pthread_mutex_init(&window->lock, NULL);
        window->next = *bucket_of(win);
        __atomic_store_n(bucket_of(win), window, __ATOMIC_RELEASE);
    }
    if (window != NULL) {
        window->ranks = 1; /* taken; found once its win is set */
        window->data = window->locks = MPI_WIN_NULL;
        window->swap = MPI_OP_NULL;
    }
    pthread_mutex_unlock(&windows_lock);
    return window;
}

static void window_free(struct zr_window *window)
{
    __atomic_store_n(&window->win, NULL, __ATOMIC_RELEASE);
    zr_pending_drop(window);
    if (window->allocated != NULL) {
        zeMemFree(zr_acc_get()->context, window->allocated);
    }
    if (window->swap != MPI_OP_NULL) {
        PMPI_Op_free(&window->swap);
    }
    free(window->parts);
    window->allocated = NULL;
    window->parts     = NULL;
    pthread_mutex_lock(&windows_lock);
    window->ranks = 0;
    pthread_mutex_unlock(&windows_lock);
}

/* ---- synchronisation: data lands when it says that operations have ended ---- */

#define LAND(call, target)                                                                         \
    struct zr_window *window = zr_window_find(win);                                                \
    int               rc     = window->below.call;                                                 \
                                                                                                   \
    return rc == OMPI_SUCCESS ? zr_land(window, target) : rc

static int fence(int mpi_assert, ompi_win_t *win) { LAND(osc_fence(mpi_assert, win), -1); }
static int complete(ompi_win_t *win) { LAND(osc_complete(win), -1); }
static int unlock(int target, ompi_win_t *win) { LAND(osc_unlock(target, win), target); }
static int unlock_all(ompi_win_t *win) { LAND(osc_unlock_all(win), -1); }
static int flush(int target, ompi_win_t *win) { LAND(osc_flush(target, win), target); }
static int flush_all(ompi_win_t *win) { LAND(osc_flush_all(win), -1); }
static int flush_local(int target, ompi_win_t *win) { LAND(osc_flush_local(target, win), target); }
static int flush_local_all(ompi_win_t *win) { LAND(osc_flush_local_all(win), -1); }

static int win_free(ompi_win_t *win)
{
    struct zr_window *window = zr_window_find(win);
    int               rc;

    zr_device_close(window);
    rc = window->below.osc_free(win);
    window_free(window);
    return rc;
}

static int attach(ompi_win_t *win, void *base, size_t size)
{
    int rc = zr_check_bytes("MPI_Win_attach", base, size);

    return rc == MPI_SUCCESS ? zr_window_find(win)->below.osc_win_attach(win, base, size) : rc;
}

static void install(struct zr_window *window, ompi_win_t *win)
{
    ompi_osc_base_module_t *module = win->w_osc_module;

    window->below = *module;
    __atomic_store_n(&window->win, win, __ATOMIC_RELEASE);
    zr_comm_install(module);
    module->osc_free            = win_free;
    module->osc_win_attach      = attach;
    module->osc_fence           = fence;
    module->osc_complete        = complete;
    module->osc_unlock          = unlock;
    module->osc_unlock_all      = unlock_all;
    module->osc_flush           = flush;
    module->osc_flush_all       = flush_all;
    module->osc_flush_local     = flush_local;
    module->osc_flush_local_all = flush_local_all;
}

/* ---- a new window ---- */

extern ompi_osc_base_component_t mca_osc_zerange_component;

/* osc/ucx, which alone reaches device memory; without it, and for memory that ranks share, whoever
 * wants the window most. */
static ompi_osc_base_component_t *component_below(ompi_win_t *win, void **base, size_t size,
                                                  zr_unit_t unit, ompi_communicator_t *comm,
                                                  struct opal_info_t *info, int flavor)
{
    mca_base_component_list_item_t *item;
    ompi_osc_base_component_t      *best = NULL;
    int                             most = -1;

    OPAL_LIST_FOREACH(item, &ompi_osc_base_framework.framework_components,
                      mca_base_component_list_item_t)
    {
        ompi_osc_base_component_t *component = (void *)item->cli_component;
        int                        priority;

        if (component == &mca_osc_zerange_component) {
            continue;
        }
        priority = component->osc_query(win, base, size, unit, comm, info, flavor);
        if (priority >= 0 && flavor != MPI_WIN_FLAVOR_SHARED &&
            strcmp(component->osc_version.mca_component_name, "ucx") == 0) {
            return component;
        }
        if (priority > most) {
            most = priority;
            best = component;
        }
    }
    return best;
}

static bool info_is(struct opal_info_t *info, const char *key, const char *value)
{
    opal_cstring_t *string = NULL;
    int             found  = 0;
    bool            same;

    if (info == NULL || opal_info_get(info, key, &string, &found) != OPAL_SUCCESS || !found) {
        return false;
    }
    same = strcmp(string->string, value) == 0;
    OBJ_RELEASE(string);
    return same;
}

static int info_number(struct opal_info_t *info, const char *key)
{
    opal_cstring_t *string = NULL;
    int             found  = 0, number = 0;

    if (info != NULL && opal_info_get(info, key, &string, &found) == OPAL_SUCCESS && found) {
        number = atoi(string->string);
        OBJ_RELEASE(string);
    }
    return number;
}

/* MPI_SUCCESS or an error code; memory only for MPI_Win_allocate with the key. */
static int allocate(struct zr_window *window, void **base, size_t size, struct opal_info_t *info)
{
    const struct zr_acc        *acc    = zr_acc_get();
    ze_device_mem_alloc_desc_t  desc   = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    int                         device = info_number(info, KEY_DEVICE);
    ze_result_t                 result;

    if (acc == NULL || device < 0 || (uint32_t)device >= acc->count) {
        return zr_error(MPI_ERR_INFO_VALUE, "MPI_Win_allocate: %s %d: there are %u devices here",
                        KEY_DEVICE, device, acc == NULL ? 0 : acc->count);
    }
    if (size == 0) {
        *base = NULL;
        return MPI_SUCCESS;
    }
    result = zeMemAllocDevice(acc->context, &desc, size, 64, acc->device[device].handle,
                              &window->allocated);
    if (result != ZE_RESULT_SUCCESS) {
        window->allocated = NULL;
        return zr_error(MPI_ERR_NO_MEM,
                        "MPI_Win_allocate: %zu bytes of device %d: zeMemAllocDevice returned 0x%x",
                        size, device, (unsigned)result);
    }
    *base = window->allocated;
    return MPI_SUCCESS;
}

/* Tells every rank of every part. The ranks then go on, or fail, together. */
static int agree(struct zr_window *window, struct zr_part *mine, int own_error, bool *any_device,
                 ompi_communicator_t *comm)
{
    int k, rc;

    window->ranks = ompi_comm_size(comm);
    window->parts = calloc((size_t)window->ranks, sizeof(*window->parts));
    if (window->parts == NULL) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    rc = comm->c_coll->coll_allgather(mine, sizeof(*mine), MPI_BYTE, window->parts,
                                      sizeof(*mine), MPI_BYTE, comm,
                                      comm->c_coll->coll_allgather_module);
    if (rc != OMPI_SUCCESS || own_error != MPI_SUCCESS) {
        return own_error != MPI_SUCCESS ? own_error : rc;
    }
    *any_device = false;
    for (k = 0; k < window->ranks; k++) {
        const struct zr_part *part = &window->parts[k];

        if (part->failed != 0) {
            return zr_error(part->failed,
                            "the window of rank %d cannot be made: %llu bytes at 0x%llx", k,
                            (unsigned long long)part->size, (unsigned long long)part->base);
        }
        if (part->flavor != mine->flavor) {
            return zr_error(MPI_ERR_INFO_VALUE, "MPI_Win_allocate: %s differs between ranks", KEY_KIND);
        }
        *any_device |= part->device;
    }
    return OMPI_SUCCESS;
}

/* MPI gives MPI_ERR_WIN for whatever is wrong with a new window: the text goes where one sees it. */
static void say(int rc)
{
    char text[MPI_MAX_ERROR_STRING];
    int  length;

    if (rc > 0 && PMPI_Error_string(rc, text, &length) == MPI_SUCCESS) {
        fprintf(stderr, "zerange: %s\n", text);
    }
}

/* The windows behind a window go to the component below as they are. */
static __thread bool behind;

static int select_window(ompi_win_t *win, void **base, size_t size, zr_unit_t unit,
                         ompi_communicator_t *comm, struct opal_info_t *info, int flavor,
                         int *model)
{
    ompi_osc_base_component_t *below;
    struct zr_window          *window;
    struct zr_part             mine       = {.size = size, .unit = unit};
    bool                       any_device = false;
    int                        rc         = MPI_SUCCESS;

    below = component_below(win, base, size, unit, comm, info, flavor);
    if (below == NULL) {
        say(zr_error(MPI_ERR_WIN, "osc/zerange stands in front of osc/ucx, which is not there: "
                                  "--mca osc ucx,zerange"));
        return MPI_ERR_WIN;
    }
    if (behind) {
        return below->osc_select(win, base, size, unit, comm, info, flavor, model);
    }
    window = window_new(win);
    if (window == NULL) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    if (flavor == MPI_WIN_FLAVOR_ALLOCATE && info_is(info, KEY_KIND, "device")) {
        rc     = allocate(window, base, size, info);
        flavor = MPI_WIN_FLAVOR_CREATE;
    } else if (flavor == MPI_WIN_FLAVOR_CREATE) {
        rc = zr_check_bytes("MPI_Win_create", *base, size);
    }
    if (flavor != MPI_WIN_FLAVOR_DYNAMIC) {
        mine.base   = flavor == MPI_WIN_FLAVOR_CREATE ? (uintptr_t)*base : 0;
        mine.device = flavor == MPI_WIN_FLAVOR_CREATE && size > 0 && zr_acc_is_device(*base);
        mine.flavor = flavor;
        PMPI_Error_class(rc, &mine.failed);
        rc = agree(window, &mine, rc, &any_device, comm);
    } else {
        rc = PMPI_Op_create(zr_swap, 1, &window->swap);
    }
    if (rc == MPI_SUCCESS && any_device) {
        behind = true;
        rc     = zr_device_open(window, *base, size, unit, comm);
        behind = false;
    }
    if (rc == MPI_SUCCESS) {
        rc = below->osc_select(win, base, size, unit, comm, info, flavor, model);
    }
    if (rc == OMPI_SUCCESS) {
        window->ranks = ompi_comm_size(comm);
        install(window, win);
    } else {
        say(rc);
        window_free(window);
    }
    return rc;
}

/* ---- the component ---- */

static int init(bool enable_progress_threads, bool enable_mpi_threads)
{
    zr_check_start();
    return OMPI_SUCCESS; /* on every rank alike, whether it has a device or not */
}

static int finalize(void)
{
    zr_check_stop();
    return OMPI_SUCCESS;
}

static int query(ompi_win_t *win, void **base, size_t size, zr_unit_t unit,
                 ompi_communicator_t *comm, struct opal_info_t *info, int flavor)
{
    return PRIORITY;
}

extern __attribute__((visibility("default")))
ompi_osc_base_component_t mca_osc_zerange_component;
ompi_osc_base_component_t mca_osc_zerange_component = {
    .osc_version = {
#if OMPI_MAJOR_VERSION >= 6
        OMPI_OSC_BASE_VERSION_4_0_0,
#else
        OMPI_OSC_BASE_VERSION_3_0_0,
#endif
        .mca_component_name = "zerange",
        MCA_BASE_MAKE_VERSION(component, 0, 1, 0),
    },
    .osc_data     = {MCA_BASE_METADATA_PARAM_NONE},
    .osc_init     = init,
    .osc_finalize = finalize,
    .osc_query    = query,
    .osc_select   = select_window,
};

ZR_COMPONENT_POINTER(mca_osc_zerange_component, osc_version);
