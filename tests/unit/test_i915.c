/* The device layer against a kernel that refuses: a table around the software device counts calls
 * and gives other answers. Each case says what the kernel does and what must come of it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "blt/copyq.h"
#include "util/config.h"

#include <drm.h>
#include <errno.h>
#include <i915_drm.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned bad;

#define CHECK(cond, ...)                                                                      \
    do {                                                                                      \
        if (!(cond)) {                                                                        \
            printf("%s:%d: not true: %s; ", __func__, __LINE__, #cond);                       \
            printf(__VA_ARGS__);                                                              \
            printf(" (%s)\n", zr_last_error());                                               \
            bad++;                                                                            \
        }                                                                                     \
    } while (0)
#define OK(call) CHECK((call) == ZE_RESULT_SUCCESS, "failed")

#define FOREVER UINT64_C(60000000000)

/* ---- a kernel that refuses ---- */

static struct {
    unsigned     max_width;    /* wider parallel slots are refused; 0: all are accepted */
    bool         one_place;    /* sets with several places are refused too */
    int          refusal;
    unsigned     contexts, width, siblings; /* how many were asked for; of the newest */
    bool         balanced;
    struct i915_engine_class_instance engines[16];
    int          exec_error;   /* of the next execbuf */
    int          param, value; /* GETPARAM of param answers value, where param != 0 */
    int          drop_writes;  /* the next batches end without running */
    bool         whole_maps;   /* mappings begin at the object's first byte (before Linux 6.12) */
    uint64_t     cookie;       /* of the newest MMAP_OFFSET */
    atomic_ulong ioctls, execs;
} kernel;

/* The extension of that name in a context's engine map, NULL: none. */
static const void *create_extension(const struct drm_i915_gem_context_create_ext *create,
                                    uint32_t name)
{
    const struct drm_i915_gem_context_create_ext_setparam *set;
    const struct i915_user_extension                      *ext;
    uint64_t                                               next = create->extensions;

    for (; next != 0; next = set->base.next_extension) {
        set = (const void *)(uintptr_t)next;
        if (set->param.param != I915_CONTEXT_PARAM_ENGINES) {
            continue;
        }
        ext = (const void *)(uintptr_t)((const struct i915_context_param_engines *)(uintptr_t)
                                            set->param.value)->extensions;
        while (ext != NULL && ext->name != name) {
            ext = (const void *)(uintptr_t)ext->next_extension;
        }
        return ext;
    }
    return NULL;
}

/* What the kernel of this test refuses. */
static int refuse_context(const struct drm_i915_gem_context_create_ext *create)
{
    const struct i915_context_engines_parallel_submit *parallel =
        create_extension(create, I915_CONTEXT_ENGINES_EXT_PARALLEL_SUBMIT);

    kernel.contexts++;
    kernel.width    = parallel != NULL ? parallel->width : 1;
    kernel.siblings = parallel != NULL ? parallel->num_siblings : 1;
    kernel.balanced = create_extension(create, I915_CONTEXT_ENGINES_EXT_LOAD_BALANCE) != NULL;
    if (parallel != NULL) {
        memcpy(kernel.engines, parallel->engines,
               sizeof(kernel.engines[0]) * ZR_MIN(parallel->width * parallel->num_siblings, 16));
    }
    if ((kernel.max_width != 0 && kernel.width > kernel.max_width) ||
        (kernel.one_place && kernel.siblings > 1)) {
        return kernel.refusal;
    }
    return 0;
}

/* Let the batch end at its first dword: the kernel calls it complete, nothing has run. */
static void empty_batch(struct zr_kfile *file, struct drm_i915_gem_execbuffer2 *eb)
{
    struct drm_i915_gem_exec_object2 *list = (void *)(uintptr_t)eb->buffers_ptr;
    struct drm_i915_gem_mmap_offset   arg  = {.handle = list[eb->buffer_count - 1].handle,
                                              .flags  = I915_MMAP_OFFSET_WB};
    uint32_t                         *batch;

    if (zr_soft_kif()->ioctl(file, DRM_IOCTL_I915_GEM_MMAP_OFFSET, &arg) == 0) {
        batch    = zr_soft_kif()->mmap(file, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
                                       arg.offset);
        batch[0] = 0x05000000;
        zr_soft_kif()->munmap(file, batch, 4096);
    }
}

static int refuse(struct zr_kfile *file, unsigned long request, void *arg)
{
    struct drm_i915_getparam *param = arg;
    int                       error = 0;

    atomic_fetch_add(&kernel.ioctls, 1);
    switch (request) {
    case DRM_IOCTL_I915_GEM_CONTEXT_CREATE_EXT:
        error = refuse_context(arg);
        if (error != 0) {
            return error;
        }
        break;
    case DRM_IOCTL_I915_GEM_EXECBUFFER2:
        atomic_fetch_add(&kernel.execs, 1);
        if (kernel.exec_error != 0) {
            error             = kernel.exec_error;
            kernel.exec_error = 0;
            return error;
        }
        if (kernel.drop_writes > 0) {
            kernel.drop_writes--;
            empty_batch(file, arg);
        }
        break;
    case DRM_IOCTL_I915_GETPARAM:
        if (kernel.param != 0 && param->param == kernel.param) {
            *param->value = kernel.value;
            return 0;
        }
        break;
    case DRM_IOCTL_I915_GEM_MMAP_OFFSET:
        error         = zr_soft_kif()->ioctl(file, request, arg);
        kernel.cookie = ((struct drm_i915_gem_mmap_offset *)arg)->offset;
        return error;
    }
    return zr_soft_kif()->ioctl(file, request, arg);
}

static void *refuse_mmap(struct zr_kfile *file, void *addr, size_t length, int prot, int flags,
                         uint64_t offset)
{
    if (kernel.whole_maps && offset != kernel.cookie) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    return zr_soft_kif()->mmap(file, addr, length, prot, flags, offset);
}

static struct zr_kif   table;
static struct zr_i915 *dev;

/* A copy of @a length bytes of known contents must arrive. */
static ze_result_t try_copy(struct zr_copyq *q, uint64_t length)
{
    struct zr_bo *src = NULL, *dst = NULL;
    struct zr_seg s, d;
    void         *from = NULL, *to = NULL;
    uint64_t      seqno = 0;
    ze_result_t   result;

    OK(zr_bo_create(dev, length, ZR_PLACE_SYSTEM, ZR_CACHE_CACHED, &src));
    OK(zr_bo_create(dev, length, ZR_PLACE_SYSTEM, ZR_CACHE_CACHED, &dst));
    OK(zr_bo_map(src, NULL, 0, src->size, PROT_READ | PROT_WRITE, &from));
    OK(zr_bo_map(dst, NULL, 0, dst->size, PROT_READ | PROT_WRITE, &to));
    memset(from, 0x6b, length);
    s = (struct zr_seg){src, 0, length};
    d = (struct zr_seg){dst, 0, length};
    zr_copyq_begin(q);
    OK(zr_copyq_copy(q, &d, 1, &s, 1, length));
    result = zr_copyq_submit(q, &seqno);
    if (result == ZE_RESULT_SUCCESS) {
        result = zr_copyq_wait(q, seqno, FOREVER);
    }
    if (result == ZE_RESULT_SUCCESS) {
        CHECK(memcmp(from, to, length) == 0, "bytes differ");
    }
    zr_bo_unmap(src, from, src->size);
    zr_bo_unmap(dst, to, dst->size);
    CHECK(atomic_load(&src->refs) == 1 && atomic_load(&dst->refs) == 1, "references left");
    zr_bo_unref(src);
    zr_bo_unref(dst);
    return result;
}

static void test_width(void)
{
    static const struct {
        unsigned kernel_max, wanted, got;
        bool     one_place;
        int      refusal;
        unsigned siblings; /* of the slot that was accepted */
    } cases[] = {
        {0, 0, 9, false, -EINVAL, 1}, {0, 4, 4, false, -EINVAL, 2}, {0, 1, 1, false, -EINVAL, 1},
        {5, 0, 5, false, -EINVAL, 1}, {2, 4, 2, false, -ENODEV, 4}, {1, 0, 1, false, -EINVAL, 1},
        {1, 1, 1, false, -EEXIST, 1}, {0, 4, 4, true, -EINVAL, 1},  {3, 0, 3, true, -EINVAL, 1},
        {1, 0, 1, true, -ENOMEM, 1},
    };
    struct zr_copyq *q = NULL;
    unsigned         i;


    for (i = 0; i < ZR_ARRAY_SIZE(cases); i++) {
        kernel.max_width = cases[i].kernel_max;
        kernel.one_place = cases[i].one_place;
        kernel.refusal   = cases[i].refusal;
        OK(zr_copyq_create(dev, cases[i].wanted, &q));
        CHECK(zr_copyq_width(q) == cases[i].got, "case %u: width %u", i, zr_copyq_width(q));
        CHECK(kernel.width == cases[i].got && kernel.siblings == cases[i].siblings,
              "case %u: %u engines in %u places", i, kernel.width, kernel.siblings);
        CHECK(!kernel.balanced, "case %u: engines that are not alike are balanced", i);
        OK(try_copy(q, 3000));
        OK(try_copy(q, (1 << 20) + 1));
        zr_copyq_destroy(q);
    }
    kernel.max_width = 0;
    kernel.one_place = false;
}

/* A device that is gone gives no narrower slot. */
static void test_wedged(void)
{
    struct zr_copyq *q = NULL;
    unsigned         before = kernel.contexts;

    kernel.max_width = 1;
    kernel.refusal   = -EIO;
    CHECK(zr_copyq_create(dev, 0, &q) == ZE_RESULT_ERROR_DEVICE_LOST && q == NULL, "created");
    CHECK(kernel.contexts - before <= 2, "%u contexts tried", kernel.contexts - before);
    kernel.max_width = 0;
}

static void test_exec_errors(void)
{
    static const struct {
        int         error;
        ze_result_t result;
    } cases[] = {{-ENOMEM, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY},
                 {-ENOSPC, ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY},
                 {-EIO, ZE_RESULT_ERROR_DEVICE_LOST}};
    struct zr_copyq *q = NULL;
    ze_result_t      result;
    unsigned         i;

    OK(zr_copyq_create(dev, 0, &q));
    for (i = 0; i < ZR_ARRAY_SIZE(cases); i++) {
        uint64_t before = zr_copyq_last(q);

        kernel.exec_error = cases[i].error;
        result            = try_copy(q, 1 << 20);
        CHECK(result == cases[i].result, "case %u: 0x%x", i, (unsigned)result);
        CHECK(zr_copyq_last(q) == before, "case %u: a number was used", i);
        OK(try_copy(q, 1 << 20));
        OK(try_copy(q, 5000));
    }
    zr_copyq_destroy(q);
}

/* The kernel says complete, the engine has not written its number. */
static void test_dropped(void)
{
    struct zr_copyq *q = NULL;
    ze_result_t      result;

    OK(zr_copyq_create(dev, 0, &q));
    kernel.drop_writes = 1;
    result             = try_copy(q, 777);
    CHECK(result == ZE_RESULT_ERROR_DEVICE_LOST, "0x%x", (unsigned)result);
    CHECK(strstr(zr_last_error(), "777 bytes") != NULL, "text");
    OK(try_copy(q, 777));
    zr_copyq_destroy(q);
}

/* In the steady state a short copy is one ioctl, from begin to the end of the wait by query. */
static void test_one_ioctl(void)
{
    struct zr_copyq *q     = NULL;
    struct zr_bo    *bo    = NULL;
    uint64_t         seqno = 0, before;
    struct zr_seg    s, d;
    unsigned         i;

    OK(zr_copyq_create(dev, 0, &q));
    OK(zr_bo_create(dev, 1 << 20, ZR_PLACE_DEVICE, ZR_CACHE_WRITE_COMBINED, &bo));
    s = (struct zr_seg){bo, 0, 4096};
    d = (struct zr_seg){bo, 65536, 4096};
    for (i = 0; i < 100; i++) {
        before = atomic_load(&kernel.ioctls);
        zr_copyq_begin(q);
        OK(zr_copyq_copy(q, &d, 1, &s, 1, 4096));
        OK(zr_copyq_submit(q, &seqno));
        while (zr_copyq_query(q, seqno) == ZE_RESULT_NOT_READY) {
        }
        CHECK(i < 2 || atomic_load(&kernel.ioctls) - before == 1, "%u: %lu ioctls", i,
              (unsigned long)(atomic_load(&kernel.ioctls) - before));
    }
    CHECK(atomic_load(&bo->refs) == 1, "references left after the query");
    zr_bo_unref(bo);
    zr_copyq_destroy(q);
}

static void *import_main(void *arg)
{
    int           fd = *(int *)arg;
    struct zr_bo *bo = NULL;
    unsigned      i;

    for (i = 0; i < 20000; i++) {
        OK(zr_bo_import(dev, fd, &bo));
        CHECK(bo->size == 65536 && bo->gpu_va != 0, "object");
        zr_bo_unref(bo);
    }
    return NULL;
}

/* The last unref of one thread against the import of another: never a handle that is closed. */
static void test_import_race(void)
{
    struct zr_bo *bo = NULL;
    pthread_t     threads[3];
    int           fd = -1, i;

    OK(zr_bo_create(dev, 65536, ZR_PLACE_DEVICE, ZR_CACHE_WRITE_COMBINED, &bo));
    OK(zr_bo_export(bo, &fd));
    zr_bo_unref(bo);
    for (i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, import_main, &fd);
    }
    for (i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    close(fd);
}

static void test_objects(void)
{
    static const struct {
        uint64_t          size;
        enum zr_placement placement;
        enum zr_cache     cache;
        ze_result_t       result;
    } cases[] = {
        {0, ZR_PLACE_SYSTEM, ZR_CACHE_CACHED, ZE_RESULT_ERROR_UNSUPPORTED_SIZE},
        {UINT64_C(1) << 50, ZR_PLACE_DEVICE, ZR_CACHE_WRITE_COMBINED,
         ZE_RESULT_ERROR_UNSUPPORTED_SIZE},
        {4096, ZR_PLACE_DEVICE, ZR_CACHE_CACHED, ZE_RESULT_ERROR_UNSUPPORTED_FEATURE},
        {4096, ZR_PLACE_SYSTEM, ZR_CACHE_UNCACHED, ZE_RESULT_ERROR_UNSUPPORTED_FEATURE},
        {4096, ZR_PLACE_SYSTEM, ZR_CACHE_CACHED, ZE_RESULT_SUCCESS},
        {1, ZR_PLACE_DEVICE, ZR_CACHE_WRITE_COMBINED, ZE_RESULT_SUCCESS},
        {1, ZR_PLACE_EITHER, ZR_CACHE_WRITE_COMBINED, ZE_RESULT_SUCCESS},
    };
    struct zr_bo *bo = NULL, *first = NULL;
    ze_result_t   result;
    unsigned      i;
    void         *map;

    for (i = 0; i < ZR_ARRAY_SIZE(cases); i++) {
        result = zr_bo_create(dev, cases[i].size, cases[i].placement, cases[i].cache, &bo);
        CHECK(result == cases[i].result, "case %u: 0x%x", i, (unsigned)result);
        if (result == ZE_RESULT_SUCCESS) {
            CHECK(bo->gpu_va % (cases[i].placement == ZR_PLACE_SYSTEM ? 65536 : 2 << 20) == 0,
                  "case %u: address 0x%llx", i, (unsigned long long)bo->gpu_va);
            CHECK(bo->size >= cases[i].size && bo->size % 4096 == 0, "case %u", i);
            CHECK(zr_bo_map(bo, NULL, bo->size, 1, PROT_READ, &map) ==
                      ZE_RESULT_ERROR_INVALID_ARGUMENT, "case %u: mapped outside", i);
            zr_bo_unref(bo);
        }
    }
    /* An address comes back when its object goes. */
    OK(zr_bo_create(dev, 65536, ZR_PLACE_DEVICE, ZR_CACHE_WRITE_COMBINED, &first));
    i = (unsigned)(first->gpu_va >> 20);
    zr_bo_unref(first);
    OK(zr_bo_create(dev, 65536, ZR_PLACE_DEVICE, ZR_CACHE_WRITE_COMBINED, &first));
    CHECK((unsigned)(first->gpu_va >> 20) == i, "another address");
    zr_bo_unref(first);
}

/* A part of an object, where the kernel maps parts and where it does not. */
static void test_map_part(void)
{
    const size_t  page = 65536;
    struct zr_bo *bo   = NULL;
    char         *all = NULL, *part = NULL, *place;
    void         *map;
    unsigned      i;

    place = mmap(NULL, 4 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    OK(zr_bo_create(dev, 4 * page, ZR_PLACE_DEVICE, ZR_CACHE_WRITE_COMBINED, &bo));
    OK(zr_bo_map(bo, NULL, 0, bo->size, PROT_READ | PROT_WRITE, &map));
    all = map;
    for (i = 0; i < 4; i++) {
        kernel.whole_maps = i & 1;
        memset(all, 0x10 + i, bo->size);
        memset(all + page, 0x20 + i, page);
        OK(zr_bo_map(bo, i & 2 ? place + page : NULL, page, page, PROT_READ | PROT_WRITE, &map));
        part = map;
        CHECK((i & 2) == 0 || part == place + page, "case %u: mapped elsewhere", i);
        CHECK(part[0] == 0x20 + (int)i && part[page - 1] == 0x20 + (int)i,
              "case %u: wrong part 0x%x", i, part[0]);
        part[5] = 'x';
        CHECK(all[page + 5] == 'x', "case %u: not the object's bytes", i);
        zr_bo_unmap(bo, part, page);
    }
    kernel.whole_maps = false;
    zr_bo_unmap(bo, all, bo->size);
    zr_bo_unref(bo);
    munmap(place, 4 * page);
}

/* Devices that cannot be used say why. */
static void test_unusable(void)
{
    static const struct {
        int         param, value;
        const char *text;
    } cases[] = {{I915_PARAM_CHIPSET_ID, 0x1234, "0x1234 is not known"},
                 {I915_PARAM_HAS_EXEC_SOFTPIN, 0, "HAS_EXEC_SOFTPIN"},
                 {I915_PARAM_HAS_EXEC_FENCE_ARRAY, 0, "HAS_EXEC_FENCE_ARRAY"}};
    struct zr_kif   other = table; /* another table: another open file */
    struct zr_i915 *none  = NULL;
    unsigned        i, count = 77;
    ze_result_t     result;

    for (i = 0; i < ZR_ARRAY_SIZE(cases); i++) {
        kernel.param = cases[i].param;
        kernel.value = cases[i].value;
        result       = zr_i915_enumerate(&other, &none, 1, &count);
        CHECK(result == ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, "case %u: 0x%x", i, (unsigned)result);
        CHECK(strstr(zr_last_error(), cases[i].text) != NULL, "case %u", i);
        CHECK(count == 77 && none == NULL, "case %u: output written", i);
    }
    kernel.param = 0;
}

int main(void)
{
    struct zr_i915 *again = NULL;
    unsigned        count = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    setenv("ZERANGE_SOFT", "pvc", 1);
    setenv("ZERANGE_LOG", "error", 1);
    OK(zr_config_load());
    table       = *zr_soft_kif();
    table.ioctl = refuse;
    table.mmap  = refuse_mmap;
    OK(zr_i915_enumerate(&table, &dev, 1, &count));
    if (count != 1) {
        return 1;
    }
    OK(zr_i915_enumerate(&table, &again, 1, &count));
    CHECK(again == dev, "opened twice");
    zr_i915_close(again);
    test_width();
    test_wedged();
    test_exec_errors();
    test_dropped();
    test_one_ioctl();
    test_import_race();
    test_objects();
    test_map_part();
    test_unusable();
    zr_i915_close(dev);
    printf("%lu ioctls, %lu submissions, %u wrong\n", atomic_load(&kernel.ioctls),
           atomic_load(&kernel.execs), bad);
    return bad != 0;
}
