/* What the driver asks of the kernel on each kind of device, judged call by call: what is green on
 * any emulator and red on hardware when it is wrong. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "host.h"

#define SIZE (2u << 20)

static struct {
    const char *name;
    bool        discrete, llc, backports, small_bar;
    unsigned    msb; /* highest bit of a GPU address */
    struct {
        uint64_t cookie, flags;
    } maps[4096];
    unsigned num_maps;
    unsigned execs, sets, waits; /* submissions, those of several batches, and with a wait */
    unsigned contexts, nonpersistent, nonrecoverable;
    uint64_t high;               /* highest GPU address of an object */
    uint32_t written[64];        /* handles that a submission writes */
    unsigned placements, cpu_access;
} kernel;

static bool is_canonical(uint64_t address)
{
    unsigned shift = 63 - kernel.msb;

    return (uint64_t)((int64_t)(address << shift) >> shift) == address;
}

static void check_exec(const struct drm_i915_gem_execbuffer2 *eb)
{
    const struct drm_i915_gem_exec_object2 *o     = (const void *)(uintptr_t)eb->buffers_ptr;
    const struct drm_i915_gem_exec_fence   *fence = (const void *)(uintptr_t)eb->cliprects_ptr;
    const uint64_t all = EXEC_OBJECT_PINNED | EXEC_OBJECT_SUPPORTS_48B_ADDRESS | EXEC_OBJECT_ASYNC;
    unsigned       i, k;

    CHECK(eb->batch_start_offset == 0 && eb->batch_len == 0, "%s: batch %u+%u", kernel.name,
          eb->batch_start_offset, eb->batch_len);
    CHECK((eb->flags & I915_EXEC_NO_RELOC) != 0 && (eb->flags & I915_EXEC_SECURE) == 0, "%s",
          kernel.name);
    CHECK(eb->num_cliprects == 1 && (fence->flags & I915_EXEC_FENCE_SIGNAL) != 0,
          "%s: no fence to wait for", kernel.name);
    for (i = 0; i < eb->buffer_count; i++) {
        CHECK((o[i].flags & all) == all, "%s: object %u: flags 0x%llx", kernel.name, i,
              (unsigned long long)o[i].flags);
        CHECK(o[i].relocation_count == 0 && o[i].alignment == 0, "%s: relocations", kernel.name);
        CHECK(is_canonical(o[i].offset) && o[i].offset % 65536 == 0, "%s: address 0x%llx",
              kernel.name, (unsigned long long)o[i].offset);
        kernel.high = ZR_MAX(kernel.high, o[i].offset & ((UINT64_C(1) << 57) - 1));
        for (k = 0; k < i; k++) {
            CHECK(o[k].handle != o[i].handle, "%s: object %u twice", kernel.name, o[i].handle);
        }
    }
    CHECK((o[eb->buffer_count - 1].flags & EXEC_OBJECT_WRITE) == 0, "%s: a batch is written",
          kernel.name);
    for (i = 0; i < ZR_ARRAY_SIZE(kernel.written) && kernel.written[i] != 0; i++) {
        for (k = 0; k < eb->buffer_count && o[k].handle != kernel.written[i]; k++) {
        }
        CHECK(k < eb->buffer_count && (o[k].flags & EXEC_OBJECT_WRITE) != 0,
              "%s: destination %u is not listed as written", kernel.name, kernel.written[i]);
    }
    kernel.execs++;
    kernel.sets += (eb->flags & I915_EXEC_RING_MASK) == 0;
    kernel.waits += (fence->flags & I915_EXEC_FENCE_WAIT) != 0;
}

static void check_context(const struct drm_i915_gem_context_create_ext *create)
{
    const struct drm_i915_gem_context_create_ext_setparam *set;
    uint64_t                                               next = create->extensions;

    kernel.contexts++;
    for (; next != 0; next = set->base.next_extension) {
        set = (const void *)(uintptr_t)next;
        kernel.nonrecoverable +=
            set->param.param == I915_CONTEXT_PARAM_RECOVERABLE && set->param.value == 0;
    }
}

static int before(struct zr_kfile *file, unsigned long request, void *arg)
{
    const struct drm_i915_gem_create_ext                *create = arg;
    const struct drm_i915_gem_create_ext_memory_regions *ext;
    const struct drm_i915_gem_context_param             *param = arg;

    (void)file;
    switch (request) {
    case DRM_IOCTL_I915_GEM_EXECBUFFER2_WR:
    case DRM_IOCTL_I915_GEM_EXECBUFFER2:
        check_exec(arg);
        break;
    case DRM_IOCTL_I915_GEM_CONTEXT_CREATE_EXT:
        check_context(arg);
        break;
    case DRM_IOCTL_I915_GEM_CONTEXT_SETPARAM:
        kernel.nonpersistent +=
            param->param == I915_CONTEXT_PARAM_PERSISTENCE && param->value == 0;
        break;
    case DRM_IOCTL_I915_GEM_CREATE_EXT:
        ext               = (const void *)(uintptr_t)create->extensions;
        kernel.placements = ext->num_regions;
        kernel.cpu_access = (create->flags & I915_GEM_CREATE_EXT_FLAG_NEEDS_CPU_ACCESS) != 0;
        break;
    case DRM_IOCTL_I915_GEM_PREAD:
    case DRM_IOCTL_I915_GEM_PWRITE:
    case DRM_IOCTL_I915_GEM_MMAP:
    case DRM_IOCTL_I915_GEM_SET_DOMAIN:
    case DRM_IOCTL_I915_GEM_SET_CACHING:
        CHECK(false, "%s: ioctl 0x%lx, which discrete parts do not have", kernel.name, request);
        break;
    }
    return 0;
}

static void small_bar(const struct drm_i915_query *query)
{
    const struct drm_i915_query_item     *item = (const void *)(uintptr_t)query->items_ptr;
    struct drm_i915_query_memory_regions *info = (void *)(uintptr_t)item->data_ptr;
    unsigned                              i;

    if (item->query_id != DRM_I915_QUERY_MEMORY_REGIONS || info == NULL || !kernel.small_bar) {
        return;
    }
    for (i = 0; i < info->num_regions; i++) {
        if (info->regions[i].region.memory_class == I915_MEMORY_CLASS_DEVICE) {
            info->regions[i].probed_cpu_visible_size = 256 << 20;
        }
    }
}

static void after(unsigned long request, void *arg, int ret)
{
    const struct drm_i915_gem_mmap_offset *map = arg;

    if (ret == 0 && request == DRM_IOCTL_I915_QUERY) {
        small_bar(arg);
    }
    if (ret == 0 && request == DRM_IOCTL_I915_GEM_MMAP_OFFSET) {
        kernel.maps[kernel.num_maps % 4096].cookie  = map->offset;
        kernel.maps[kernel.num_maps++ % 4096].flags = map->flags;
        CHECK(!kernel.discrete || kernel.backports || map->flags == I915_MMAP_OFFSET_FIXED,
              "%s: mapping mode %llu", kernel.name, (unsigned long long)map->flags);
    }
}

/* A write-back mapping of an engine that does not look into the CPU's caches: neither sees what
 * the other writes until somebody flushes. */
static void *map(struct zr_kfile *file, void *addr, size_t length, int prot, int flags,
                 uint64_t offset)
{
    unsigned i, count = ZR_MIN(kernel.num_maps, 4096u);

    for (i = 0; i < count; i++) {
        if (!kernel.discrete && !kernel.llc && kernel.maps[i].cookie == offset &&
            kernel.maps[i].flags == I915_MMAP_OFFSET_WB) {
            return mmap(addr, length, prot, MAP_PRIVATE | MAP_ANONYMOUS | (flags & MAP_FIXED), -1,
                        0);
        }
    }
    return zr_soft_file_mmap(file->file, addr, length, prot, flags, offset);
}

/* Short and long copies through device memory and back, all bytes looked at. */
static void copies(struct zr_i915 *dev, struct zr_copyq *q)
{
    static const uint64_t lengths[] = {100, 65536, SIZE, SIZE, 4096, SIZE};
    struct host_bo        a = host_bo(dev, SIZE, ZR_PLACE_SYSTEM);
    struct host_bo        b = host_bo(dev, SIZE, ZR_PLACE_DEVICE);
    struct host_bo        c = host_bo(dev, SIZE, ZR_PLACE_SYSTEM);
    uint64_t              seqno = 0;
    unsigned              i, k;

    for (i = 0; i < ZR_ARRAY_SIZE(lengths); i++) {
        for (k = 0; k < SIZE; k++) {
            a.map[k] = (uint8_t)(k * 7 + i * 31 + (k >> 8));
        }
        kernel.written[0] = b.bo->handle;
        (void)host_copy(q, &b, 0, &a, 0, lengths[i]);
        kernel.written[0] = c.bo->handle;
        seqno             = host_copy(q, &c, 0, &b, 0, lengths[i]);
        kernel.written[0] = 0;
        OK(zr_copyq_wait(q, seqno, FOREVER));
        CHECK(memcmp(a.map, c.map, lengths[i]) == 0, "%s: %llu bytes differ", kernel.name,
              (unsigned long long)lengths[i]);
    }
    host_bo_free(&a);
    host_bo_free(&b);
    host_bo_free(&c);
}

/* Not every kernel has a barrier between sets: each waits for what was submitted before it while
 * that is not over. Two on one engine need no such thing. */
static void sets(struct zr_i915 *dev, struct zr_copyq *q)
{
    struct host_bo page = host_bo(dev, 65536, ZR_PLACE_SYSTEM);
    struct host_bo a = host_bo(dev, SIZE, ZR_PLACE_DEVICE), b = host_bo(dev, SIZE, ZR_PLACE_DEVICE);
    uint64_t       seqno = 0;
    unsigned       wide, waits;

    zr_copyq_begin(q);
    OK(zr_copyq_wait_word(q, page.bo, 0, 1, ZR_WAIT_EQUAL));
    OK(zr_copyq_submit(q, &seqno));
    wide  = kernel.sets;
    waits = kernel.waits;
    (void)host_copy(q, &b, 0, &a, 0, SIZE);
    (void)host_copy(q, &a, 0, &b, 0, SIZE);
    seqno = host_copy(q, &b, 0, &a, 0, 100);
    CHECK(zr_copyq_width(q) == 1 || kernel.sets - wide == 2, "%s: %u sets", kernel.name,
          kernel.sets - wide);
    CHECK(kernel.waits - waits == (zr_copyq_width(q) == 1 ? 0u : 3u), "%s: %u waits",
          kernel.name, kernel.waits - waits);
    *(volatile uint32_t *)page.map = 1;
    OK(zr_copyq_wait(q, seqno, FOREVER));
    host_bo_free(&page);
    host_bo_free(&a);
    host_bo_free(&b);
}

static void placements(struct zr_i915 *dev)
{
    struct host_bo o = host_bo(dev, 65536, ZR_PLACE_EITHER), next;

    CHECK(kernel.placements == (kernel.discrete ? 2u : 1u), "%s: %u regions", kernel.name,
          kernel.placements);
    CHECK(kernel.cpu_access == (unsigned)kernel.small_bar, "%s: CPU access %u", kernel.name,
          kernel.cpu_access);
    host_bo_free(&o);
    o = host_bo(dev, 65536, ZR_PLACE_DEVICE);
    CHECK(kernel.placements == 1 && kernel.cpu_access == 0, "%s: device memory", kernel.name);
    next = host_bo(dev, 65536, ZR_PLACE_DEVICE); /* beside it */
    CHECK(!kernel.discrete || ((o.bo->gpu_va | next.bo->gpu_va) & ((2 << 20) - 1)) == 0,
          "%s: 0x%llx, 0x%llx", kernel.name, (unsigned long long)o.bo->gpu_va,
          (unsigned long long)next.bo->gpu_va);
    host_bo_free(&next);
    host_bo_free(&o);
}

int main(void)
{
    static const struct {
        const char *name, *text;
        bool        discrete, llc, backports, small_bar;
        unsigned    msb, width;
    } cases[] = {
        {"tgl", HOST_TGL "submission = execlists\ncopy_engines = 1\n", false, true, false, false,
         47, 1},
        {"mtl", HOST_MTL "submission = guc\ncopy_engines = 1\n", false, false, false, false, 47, 1},
        {"dg2", HOST_UPSTREAM_DG2 "submission = guc\ncopy_engines = 1\n", true, false, false,
         false, 47, 1},
        {"dg2, small BAR", HOST_UPSTREAM_DG2 "submission = guc\ncopy_engines = 1\n", true, false,
         false, true, 47, 1},
        {"pvc", HOST_BACKPORTS_PVC "submission = guc\ncopy_engines = 9\n", true, false, true,
         false, 56, 9},
        {"four, no GuC", HOST_UPSTREAM_DG2 "submission = execlists\ncopy_engines = 4\n", true,
         false, false, false, 47, 4},
    };
    struct zr_i915  *dev;
    struct zr_copyq *q = NULL;
    unsigned         i;

    setenv("ZERANGE_SPLIT_THRESHOLD", "64K", 1);
    for (i = 0; i < ZR_ARRAY_SIZE(cases); i++) {
        memset(&kernel, 0, sizeof(kernel));
        kernel.name      = cases[i].name;
        kernel.discrete  = cases[i].discrete;
        kernel.llc       = cases[i].llc;
        kernel.backports = cases[i].backports;
        kernel.small_bar = cases[i].small_bar;
        kernel.msb       = cases[i].msb;
        host.before      = before;
        host.after       = after;
        host.map         = map;
        dev              = host_start(cases[i].text, 0);
        OK(zr_copyq_create(dev, 0, &q));
        CHECK(zr_copyq_width(q) == cases[i].width, "%s: width %u", kernel.name,
              zr_copyq_width(q));
        copies(dev, q);
        sets(dev, q);
        placements(dev);
        zr_copyq_destroy(q);
        CHECK(kernel.contexts > 0 && kernel.nonpersistent == kernel.contexts &&
                  kernel.nonrecoverable == kernel.contexts,
              "%s: %u contexts, %u not persistent, %u not recoverable", kernel.name,
              kernel.contexts, kernel.nonpersistent, kernel.nonrecoverable);
        CHECK(kernel.msb != 47 || kernel.high >= UINT64_C(1) << 47,
              "%s: no address above bit 47 was tried", kernel.name);
        host_stop(dev);
    }
    printf("%zu devices, %u wrong\n", ZR_ARRAY_SIZE(cases), bad);
    return bad != 0;
}
