/* Buffer objects: memory of their own behind a sealed memfd; handles, creation, waiting. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "soft.h"
#include "uapi.h"
#include "uapi_prelim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ZR_SOFT_FD_FLOOR     1024 /* objects' fds live above: low ones belong to the host */

uint64_t zr_soft_bo_alignment(const struct zr_soft_bo *bo)
{
    if (!bo->lmem) {
        return ZR_SOFT_PAGE;
    }
    return bo->dev->profile.backports ? 2 * ZR_MIB : 64 * ZR_KIB;
}

/* ---- life ---- */

static uint64_t *zr_soft_bo_account(struct zr_soft_bo *bo)
{
    return bo->lmem ? &bo->dev->lmem_used : &bo->dev->smem_used;
}

static struct zr_soft_bo **zr_soft_bucket(struct zr_soft_dev *dev, ino_t inode)
{
    return &dev->bo_by_inode[inode % ZR_SOFT_BO_BUCKETS];
}

struct zr_soft_bo *zr_soft_bo_get(struct zr_soft_bo *bo)
{
    bo->refs++;
    return bo;
}

static void zr_soft_bo_destroy(struct zr_soft_bo *bo)
{
    struct zr_soft_bo **link;
    void               *cpu = atomic_load(&bo->cpu);
    unsigned            i;

    if (bo->arena != NULL) {
        zr_soft_arena_free(bo);
        *zr_soft_bo_account(bo) -= bo->size;
    } else if (bo->fd >= 0) {
        for (link = zr_soft_bucket(bo->dev, bo->st_ino); *link != bo; link = &(*link)->next_inode) {
        }
        *link = bo->next_inode;
        if (cpu != NULL) {
            munmap(cpu, bo->size);
        }
        close(bo->fd);
        if (bo->shadow != 0) {
            close(bo->shadow - 1);
        }
        if (!bo->imported) {
            *zr_soft_bo_account(bo) -= bo->size;
        }
    }
    if (bo->cookie != 0) {
        zr_soft_ids_remove(&bo->dev->cookies, bo->cookie);
    }
    if (bo->cookie_cached != 0) {
        zr_soft_ids_remove(&bo->dev->cookies, bo->cookie_cached);
    }
    zr_soft_fence_put(bo->write);
    for (i = 0; i < bo->num_reads; i++) {
        zr_soft_fence_put(bo->reads[i]);
    }
    zr_soft_mm_put(bo->mm);
    bo->dev->objects--;
    free(bo->reads);
    free(bo);
}

void zr_soft_bo_put(struct zr_soft_bo *bo)
{
    if (--bo->refs == 0) {
        zr_soft_bo_destroy(bo);
    }
}

int zr_soft_fd_copy_up(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, ZR_SOFT_FD_FLOOR);

    if (high < 0) { /* the limit leaves no room up there */
        high = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    }
    return high < 0 ? -errno : high;
}

int zr_soft_fd_move_up(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, ZR_SOFT_FD_FLOOR);

    if (high < 0) {
        return fd; /* the limit leaves no room up there */
    }
    close(fd);
    return high;
}

void zr_soft_bo_adopt(struct zr_soft_bo *bo, int fd, const struct stat *st)
{
    bo->fd         = fd;
    bo->st_dev     = st->st_dev;
    bo->st_ino     = st->st_ino;
    bo->next_inode = *zr_soft_bucket(bo->dev, bo->st_ino);
    *zr_soft_bucket(bo->dev, bo->st_ino) = bo;
}

static struct zr_soft_bo *zr_soft_bo_new(struct zr_soft_dev *dev, uint64_t size)
{
    struct zr_soft_bo *bo = calloc(1, sizeof(*bo));

    if (bo != NULL) {
        bo->dev  = dev;
        bo->refs = 1;
        bo->size = size;
        bo->fd   = -1;
    }
    return bo;
}

int zr_soft_bo_from_fd(struct zr_soft_dev *dev, int fd, const struct stat *st,
                       struct zr_soft_bo **bo_p)
{
    struct zr_soft_bo *bo = zr_soft_bo_new(dev, (uint64_t)st->st_size);

    if (bo == NULL) {
        return -ENOMEM;
    }
    zr_soft_bo_adopt(bo, fd, st);
    dev->objects++;
    *bo_p = bo;
    return 0;
}

static int zr_soft_bo_from_arena(struct zr_soft_dev *dev, uint64_t size, struct zr_soft_bo **bo_p)
{
    struct zr_soft_bo *bo = zr_soft_bo_new(dev, size);
    int                ret;

    if (bo == NULL) {
        return -ENOMEM;
    }
    ret = zr_soft_arena_alloc(dev, bo);
    if (ret != 0) {
        free(bo);
        return ret;
    }
    dev->objects++;
    *bo_p = bo;
    return 0;
}

/* Who maps it would set the time of access, but for O_NOATIME. Where this fails PRIME reads the
 * name. */
static void zr_soft_memory_stamp(const struct zr_soft_dev *dev, int fd, bool lmem, bool smem)
{
    struct timespec times[2] = {
        {.tv_sec = ZR_SOFT_STAMP + 2 * (int64_t)dev->options.unit + (lmem && !smem)},
        {.tv_nsec = UTIME_OMIT},
    };

    if (dev->options.unit < ZR_SOFT_STAMP_UNITS && fcntl(fd, F_SETFL, O_NOATIME) == 0) {
        (void)futimens(fd, times);
    }
}

/* A memfd that no holder of it can cut, grow or seal further: an object keeps its size. Its name
 * says what PRIME must know in another process: whose it is and where it may be placed. */
int zr_soft_memory(const struct zr_soft_dev *dev, uint64_t size, bool lmem, bool smem)
{
    char name[32];
    int  fd, ret;

    snprintf(name, sizeof(name), ZR_SOFT_MEMORY_NAME, dev->options.unit,
             !lmem ? "smem" : smem ? "both" : "lmem");
    fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return -errno;
    }
    if (ftruncate(fd, size) != 0 || fcntl(fd, F_ADD_SEALS, ZR_SOFT_SEALS) != 0) {
        ret = -errno;
        close(fd);
        return ret == -EFBIG ? -E2BIG : ret;
    }
    zr_soft_memory_stamp(dev, fd, lmem, smem);
    return zr_soft_fd_move_up(fd);
}

static int zr_soft_bo_create(struct zr_soft_file *file, uint64_t wanted, bool lmem, bool smem,
                             struct zr_soft_bo **bo_p)
{
    struct zr_soft_dev *dev   = file->dev;
    uint64_t            total = lmem ? dev->profile.lmem : dev->profile.smem;
    uint64_t            used  = lmem ? dev->lmem_used : dev->smem_used;
    uint64_t            page  = lmem ? 64 * ZR_KIB : ZR_SOFT_PAGE, size;
    struct stat         st;
    int                 fd, ret;

    size = ZR_ALIGN_UP(wanted, page);
    if (size == 0) {
        return -EINVAL; /* asked for, or wrapped around */
    }
    if (size > INT64_MAX || size / ZR_SOFT_PAGE > INT32_MAX || size > total) {
        return -E2BIG;
    }
    /* The kernel would find out at first use; here nothing can be moved out of the way then. */
    if (size > total - ZR_MIN(used, total)) {
        return -ENOMEM;
    }
    if (wanted < ZR_SOFT_OWN_BYTES) {
        ret = zr_soft_bo_from_arena(dev, size, bo_p);
    } else {
        fd = zr_soft_memory(dev, size, lmem, smem);
        if (fd < 0) {
            return fd;
        }
        ret = fstat(fd, &st) == 0 ? zr_soft_bo_from_fd(dev, fd, &st, bo_p) : -errno;
        if (ret != 0) {
            close(fd);
        }
    }
    if (ret != 0) {
        return ret;
    }
    (*bo_p)->lmem = lmem;
    (*bo_p)->smem = smem;
    (*bo_p)->invisible = lmem && !smem && used + size > dev->profile.visible;
    *zr_soft_bo_account(*bo_p) += size;
    return 0;
}

void *zr_soft_bo_cpu(struct zr_soft_bo *bo)
{
    void *cpu = atomic_load_explicit(&bo->cpu, memory_order_acquire);
    void *expected;

    if (cpu != NULL) {
        return cpu;
    }
    cpu = mmap(NULL, bo->size, PROT_READ | PROT_WRITE, MAP_SHARED, bo->fd, 0);
    if (cpu == MAP_FAILED) {
        return NULL;
    }
    /* A small object is about to be used whole; of a large one only what is touched. By reading,
     * which brings in 16 pages a fault where they are there, to be written too: MAP_POPULATE would
     * write to each. */
    if (bo->size <= 2 * ZR_MIB) {
        (void)madvise(cpu, bo->size, MADV_POPULATE_READ);
    }
    expected = NULL;
    if (!atomic_compare_exchange_strong(&bo->cpu, &expected, cpu)) {
        munmap(cpu, bo->size); /* another engine was first */
        cpu = expected;
    }
    return cpu;
}

/* A map and a page fault take several times as long as a read, and who looks once, as who checks
 * what came, may never again. */
bool zr_soft_bo_glance(struct zr_soft_bo *bo, uint64_t offset, void *to, uint64_t length)
{
    return length <= ZR_SOFT_GLANCE && length <= bo->size - offset && bo->fd >= 0 &&
           atomic_load_explicit(&bo->cpu, memory_order_acquire) == NULL &&
           !atomic_exchange(&bo->glanced, true) &&
           pread(bo->fd, to, length, (off_t)offset) == (ssize_t)length;
}

/* ---- handles ---- */

struct zr_soft_bo *zr_soft_bo_find(const struct zr_soft_file *file, uint32_t handle)
{
    return zr_soft_ids_get(&file->handles, handle);
}

int zr_soft_bo_add_handle(struct zr_soft_file *file, struct zr_soft_bo *bo, uint32_t *handle_p)
{
    struct zr_soft_handle *entry = malloc(sizeof(*entry));
    int                    ret   = -ENOMEM;

    if (entry != NULL) {
        ret = zr_soft_ids_add(&file->handles, 1, bo, &entry->handle);
    }
    if (ret != 0) {
        free(entry);
        zr_soft_bo_put(bo);
        return ret;
    }
    entry->file = file;
    entry->next = bo->handles;
    bo->handles = entry;
    *handle_p   = entry->handle;
    return 0;
}

void zr_soft_bo_close_handle(struct zr_soft_file *file, struct zr_soft_bo *bo, uint32_t handle)
{
    struct zr_soft_handle **link = &bo->handles, *gone;
    struct zr_soft_bind    *bind, *next;
    bool                    more = false;

    zr_soft_ids_remove(&file->handles, handle);
    while (*link != NULL) {
        if ((*link)->file == file && (*link)->handle == handle) {
            gone  = *link;
            *link = gone->next;
            free(gone);
            continue;
        }
        more |= (*link)->file == file;
        link = &(*link)->next;
    }
    zr_soft_bo_unname(bo);
    /* A file that has no handle any more has the object bound nowhere. */
    for (bind = bo->binds; !more && bind != NULL; bind = next) {
        next = bind->next;
        if (bind->vm->file == file) {
            zr_soft_vm_unbind(bind->vm, bo);
        }
    }
    zr_soft_bo_put(bo);
}

int zr_soft_gem_close(struct zr_soft_file *file, void *data)
{
    struct drm_gem_close *args = data;
    struct zr_soft_bo    *bo   = zr_soft_bo_find(file, args->handle);

    if (bo == NULL) {
        return -EINVAL;
    }
    zr_soft_bo_close_handle(file, bo, args->handle);
    return 0;
}

/* ---- creation ---- */

int zr_soft_gem_create(struct zr_soft_file *file, void *data)
{
    struct zr_prelim_create  *args       = data;
    struct zr_soft_placements placements = {.file = file};
    struct zr_soft_bo        *bo;
    int                       ret = 0;

    if (file->dev->profile.backports) {
        ret = zr_soft_prelim_create(file, args->extensions, &placements);
    }
    if (ret == 0) {
        ret = zr_soft_bo_create(file, args->size, placements.lmem,
                                placements.smem || placements.count == 0, &bo);
    }
    if (ret != 0) {
        return ret;
    }
    bo->vm     = placements.vm;
    args->size = bo->size;
    return zr_soft_bo_add_handle(file, bo, &args->handle);
}

int zr_soft_placements_add(struct zr_soft_placements *placements, uint64_t regions, uint32_t count)
{
    struct drm_i915_gem_memory_class_instance region;
    bool                                     *seen;
    uint32_t                                  i;
    int                                       ret;

    if (count == 0 || placements->count != 0) {
        return -EINVAL;
    }
    for (i = 0; i < count; i++) {
        ret = zr_soft_copy_in(&region, regions + i * sizeof(region), sizeof(region));
        if (ret != 0) {
            return ret;
        }
        if (region.memory_class == I915_MEMORY_CLASS_SYSTEM) {
            seen = &placements->smem;
        } else if (region.memory_class == I915_MEMORY_CLASS_DEVICE &&
                   placements->file->dev->profile.lmem != 0) {
            seen = &placements->lmem;
        } else {
            return -EINVAL;
        }
        if (region.memory_instance != 0 || *seen) {
            return -EINVAL;
        }
        *seen = true;
        placements->count++;
    }
    return 0;
}

static int zr_soft_ext_regions(void *arg, uint64_t ext)
{
    struct drm_i915_gem_create_ext_memory_regions regions;
    int ret = zr_soft_copy_in(&regions, ext, sizeof(regions));

    if (ret != 0) {
        return ret;
    }
    return regions.pad != 0 ? -EINVAL
                            : zr_soft_placements_add(arg, regions.regions, regions.num_regions);
}

static int zr_soft_ext_protected(void *arg, uint64_t ext)
{
    struct drm_i915_gem_create_ext_protected_content content;
    int ret = zr_soft_copy_in(&content, ext, sizeof(content));

    if (ret != 0) {
        return ret;
    }
    return content.flags != 0 ? -EINVAL : -ENODEV;
}

/* Meteor Lake's page attributes: 3 and 4 are coherent with the CPU's caches. */
static int zr_soft_ext_pat(void *arg, uint64_t ext)
{
    struct zr_soft_placements   *placements = arg;
    struct zr_create_ext_set_pat pat;
    int                          ret;

    if (placements->file->dev->profile.gen != ZR_SOFT_MTL) {
        return -ENODEV;
    }
    ret = zr_soft_copy_in(&pat, ext, sizeof(pat));
    if (ret != 0) {
        return ret;
    }
    if (pat.pat_index > 4) {
        return -EINVAL;
    }
    placements->pat_set  = true;
    placements->coherent = pat.pat_index >= 3;
    return 0;
}

int zr_soft_gem_create_ext(struct zr_soft_file *file, void *data)
{
    static const zr_soft_ext_fn fns[] = {
        [I915_GEM_CREATE_EXT_MEMORY_REGIONS]    = zr_soft_ext_regions,
        [I915_GEM_CREATE_EXT_PROTECTED_CONTENT] = zr_soft_ext_protected,
        [ZR_CREATE_EXT_SET_PAT]                 = zr_soft_ext_pat,
    };
    struct drm_i915_gem_create_ext *args       = data;
    struct zr_soft_placements       placements = {.file = file};
    struct zr_soft_bo              *bo;
    int                             ret;

    if (args->flags & ~I915_GEM_CREATE_EXT_FLAG_NEEDS_CPU_ACCESS) {
        return -EINVAL;
    }
    ret = zr_soft_extensions(args->extensions, fns, ZR_ARRAY_SIZE(fns), &placements);
    if (ret != 0) {
        return ret;
    }
    if (placements.count == 0) {
        placements.smem  = true;
        placements.count = 1;
    }
    if ((args->flags & I915_GEM_CREATE_EXT_FLAG_NEEDS_CPU_ACCESS) &&
        (placements.count < 2 || !placements.smem)) {
        return -EINVAL;
    }
    ret = zr_soft_bo_create(file, args->size, placements.lmem, placements.smem, &bo);
    if (ret != 0) {
        return ret;
    }
    bo->pat_set  = placements.pat_set;
    bo->coherent = placements.coherent;
    if (args->flags & I915_GEM_CREATE_EXT_FLAG_NEEDS_CPU_ACCESS) {
        bo->invisible = false;
    }
    args->size = bo->size;
    return zr_soft_bo_add_handle(file, bo, &args->handle);
}

/* ---- who uses it ---- */

void zr_soft_bo_add_fence(struct zr_soft_bo *bo, struct zr_soft_fence *fence, bool write)
{
    unsigned               i, kept = 0;
    struct zr_soft_fence **grown;

    if (write) {
        zr_soft_fence_put(bo->write);
        bo->write = zr_soft_fence_get(fence);
    }
    for (i = 0; i < bo->num_reads; i++) {
        if (bo->reads[i]->status != 0 || bo->reads[i]->timeline == fence->timeline) {
            zr_soft_fence_put(bo->reads[i]);
        } else {
            bo->reads[kept++] = bo->reads[i];
        }
    }
    bo->num_reads = kept;
    if (kept == bo->max_reads) {
        grown = realloc(bo->reads, (kept + 4) * sizeof(*grown));
        if (grown == NULL) {
            return; /* the write fence or the ones before it still order it */
        }
        bo->reads     = grown;
        bo->max_reads = kept + 4;
    }
    bo->reads[bo->num_reads++] = zr_soft_fence_get(fence);
}

static bool zr_soft_bo_idle(const struct zr_soft_bo *bo, bool all)
{
    unsigned i;

    if (bo->write != NULL && bo->write->status == 0) {
        return false;
    }
    for (i = 0; all && i < bo->num_reads; i++) {
        if (bo->reads[i]->status == 0) {
            return false;
        }
    }
    return true;
}

int zr_soft_bo_wait(struct zr_soft_bo *bo, bool all, int64_t deadline_ns)
{
    int ret = 0;

    zr_soft_bo_get(bo);
    while (ret == 0 && !zr_soft_bo_idle(bo, all)) {
        ret = zr_soft_wait_signal(bo->dev, deadline_ns);
    }
    zr_soft_bo_put(bo);
    return ret;
}

int zr_soft_gem_wait(struct zr_soft_file *file, void *data)
{
    struct drm_i915_gem_wait *args     = data;
    uint64_t                  start    = zr_time_ns(), elapsed;
    int64_t                   deadline = INT64_MAX;
    struct zr_soft_bo        *bo;
    int                       ret;

    if (args->flags != 0) {
        return -EINVAL;
    }
    bo = zr_soft_bo_find(file, args->bo_handle);
    if (bo == NULL) {
        return -ENOENT;
    }
    if (args->timeout_ns >= 0 && args->timeout_ns < INT64_MAX - (int64_t)start) {
        deadline = (int64_t)start + args->timeout_ns;
    }
    ret = zr_soft_bo_wait(bo, true, deadline);
    if (args->timeout_ns > 0) {
        elapsed          = zr_time_ns() - start;
        args->timeout_ns = elapsed < (uint64_t)args->timeout_ns ? args->timeout_ns - elapsed : 0;
        if (ret == -ETIME) {
            args->timeout_ns = 0;
        }
    }
    return ret;
}

/* As the busy ioctl shows it: a class in the readers, and in the writer. Only requests count. */
static uint32_t zr_soft_busy(const struct zr_soft_fence *fence, bool write)
{
    if (fence == NULL || fence->status != 0 || fence->class == UINT16_MAX) {
        return 0;
    }
    return 0x10000u << fence->class | (write ? fence->class + 1u : 0);
}

int zr_soft_gem_busy(struct zr_soft_file *file, void *data)
{
    struct drm_i915_gem_busy *args = data;
    struct zr_soft_bo        *bo   = zr_soft_bo_find(file, args->handle);
    unsigned                  i;

    if (bo == NULL) {
        return -ENOENT;
    }
    args->busy = zr_soft_busy(bo->write, true);
    for (i = 0; i < bo->num_reads; i++) {
        args->busy |= zr_soft_busy(bo->reads[i], false);
    }
    return 0;
}
