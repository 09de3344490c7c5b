/* What one part has and another has not: requests, mappings, commands, tilings, tables; and what is
 * the same everywhere: wild pointers, memory that is nobody else's. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <sched.h>

#include "soft_device.h"

#include <fcntl.h>
#include <sys/stat.h>

static const char *const parts[] = {"tgl", "mtl", "dg2", "pvc"};

/* ---- requests: the errno of each part ---- */

enum { OBJECT = 1 }; /* the first object of a file */

static int try_mmap(struct rig *r, uint64_t type)
{
    struct drm_i915_gem_mmap_offset offset = {.handle = OBJECT, .flags = type};

    return call(r, DRM_IOCTL_I915_GEM_MMAP_OFFSET, &offset);
}

static int try_gtt(struct rig *r)
{
    return try_mmap(r, I915_MMAP_OFFSET_GTT);
}

static int try_wc(struct rig *r)
{
    return try_mmap(r, I915_MMAP_OFFSET_WC);
}

static int try_wb(struct rig *r)
{
    return try_mmap(r, I915_MMAP_OFFSET_WB);
}

static int try_fixed(struct rig *r)
{
    return try_mmap(r, I915_MMAP_OFFSET_FIXED);
}

static int try_unknown(struct rig *r)
{
    return try_mmap(r, 9);
}

static int try_pread(struct rig *r)
{
    uint32_t                  word;
    struct drm_i915_gem_pread args = {OBJECT, 0, 0, 4, (uintptr_t)&word};

    return call(r, DRM_IOCTL_I915_GEM_PREAD, &args);
}

static int try_pwrite(struct rig *r)
{
    uint32_t                   word = 0;
    struct drm_i915_gem_pwrite args = {OBJECT, 0, 4096 - 3, 4, (uintptr_t)&word};

    return call(r, DRM_IOCTL_I915_GEM_PWRITE, &args);
}

static int try_gem_mmap(struct rig *r)
{
    struct drm_i915_gem_mmap args = {.handle = OBJECT, .size = 4096};
    int                      ret  = call(r, DRM_IOCTL_I915_GEM_MMAP, &args);

    if (ret == 0) {
        assert_int_equal(*(volatile uint32_t *)(uintptr_t)args.addr_ptr, 0);
        munmap((void *)(uintptr_t)args.addr_ptr, 4096);
    }
    return ret;
}

static int try_set_domain(struct rig *r)
{
    struct drm_i915_gem_set_domain args = {OBJECT, I915_GEM_DOMAIN_CPU, I915_GEM_DOMAIN_CPU};

    return call(r, DRM_IOCTL_I915_GEM_SET_DOMAIN, &args);
}

static int try_gpu_domain(struct rig *r)
{
    struct drm_i915_gem_set_domain args = {OBJECT, I915_GEM_DOMAIN_RENDER, 0};

    return call(r, DRM_IOCTL_I915_GEM_SET_DOMAIN, &args);
}

static int try_caching(struct rig *r)
{
    struct drm_i915_gem_caching args = {OBJECT, I915_CACHING_CACHED};

    return call(r, DRM_IOCTL_I915_GEM_SET_CACHING, &args);
}

static int try_get_caching(struct rig *r)
{
    struct drm_i915_gem_caching args = {.handle = OBJECT};

    return call(r, DRM_IOCTL_I915_GEM_GET_CACHING, &args);
}

static int try_relocation(struct rig *r)
{
    struct drm_i915_gem_relocation_entry reloc  = {.target_handle = OBJECT, .presumed_offset = -1,
                                                   .offset = 8};
    struct drm_i915_gem_exec_object2     object = {.handle = OBJECT, .relocation_count = 1,
                                                   .relocs_ptr = (uintptr_t)&reloc};
    struct drm_i915_gem_execbuffer2      exec   = {
               .buffers_ptr = (uintptr_t)&object, .buffer_count = 1, .flags = I915_EXEC_BLT};

    return call(r, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec);
}

static int try_slices(struct rig *r)
{
    int                      value;
    struct drm_i915_getparam args = {.param = I915_PARAM_SLICE_MASK, .value = &value};

    return call(r, DRM_IOCTL_I915_GETPARAM, &args);
}

static int query_length(struct rig *r, uint64_t id, uint32_t flags, void *data, int length)
{
    struct drm_i915_query_item item  = {id, length, flags, (uintptr_t)data};
    struct drm_i915_query      query = {.num_items = 1, .items_ptr = (uintptr_t)&item};

    assert_int_equal(call(r, DRM_IOCTL_I915_QUERY, &query), 0);
    return item.length;
}

static int try_hwconfig(struct rig *r)
{
    uint32_t blob[64];
    int      length = query_length(r, DRM_I915_QUERY_HWCONFIG_BLOB, 0, NULL, 0);

    if (length > 0) {
        assert_int_equal(query_length(r, DRM_I915_QUERY_HWCONFIG_BLOB, 0, blob, length), length);
        assert_int_equal(query_length(r, DRM_I915_QUERY_HWCONFIG_BLOB, 0, blob, length - 4),
                         -EINVAL);
        return 0;
    }
    return length;
}

static int try_geometry(struct rig *r)
{
    int length = query_length(r, DRM_I915_QUERY_GEOMETRY_SUBSLICES, 0, NULL, 0);

    return length > 0 ? 0 : length;
}

static int try_perf(struct rig *r)
{
    return query_length(r, DRM_I915_QUERY_PERF_CONFIG, DRM_I915_QUERY_PERF_CONFIG_LIST, NULL, 0);
}

static void requests(void **state)
{
    static const struct {
        const char *name;
        int (*run)(struct rig *r);
        int wanted[4]; /* tgl, mtl, dg2, pvc */
    } cases[] = {
        {"MMAP_OFFSET_GTT", try_gtt, {0, -ENODEV, -ENODEV, -ENODEV}},
        {"MMAP_OFFSET_WC", try_wc, {0, 0, -ENODEV, 0}},
        {"MMAP_OFFSET_WB", try_wb, {0, 0, -ENODEV, 0}},
        {"MMAP_OFFSET_FIXED", try_fixed, {-ENODEV, -ENODEV, 0, -EINVAL}},
        {"MMAP_OFFSET of no kind", try_unknown, {-EINVAL, -EINVAL, -EINVAL, -EINVAL}},
        {"PREAD", try_pread, {0, -EOPNOTSUPP, -EOPNOTSUPP, -EOPNOTSUPP}},
        {"PWRITE over the end", try_pwrite, {-EINVAL, -EOPNOTSUPP, -EOPNOTSUPP, -EOPNOTSUPP}},
        {"GEM_MMAP", try_gem_mmap, {0, -EOPNOTSUPP, -EOPNOTSUPP, -EOPNOTSUPP}},
        {"SET_DOMAIN", try_set_domain, {0, 0, -ENODEV, -ENODEV}},
        {"SET_DOMAIN to the GPU's", try_gpu_domain, {-EINVAL, -EINVAL, -ENODEV, -ENODEV}},
        {"SET_CACHING", try_caching, {0, -EOPNOTSUPP, -ENODEV, -ENODEV}},
        {"GET_CACHING", try_get_caching, {0, 0, -ENODEV, -ENODEV}},
        {"a relocation", try_relocation, {0, -EINVAL, -EINVAL, -EINVAL}},
        {"SLICE_MASK", try_slices, {0, -EINVAL, -EINVAL, -EINVAL}},
        {"HWCONFIG_BLOB", try_hwconfig, {-ENODEV, 0, 0, 0}},
        {"GEOMETRY_SUBSLICES", try_geometry, {-ENODEV, 0, 0, -EINVAL}},
        {"PERF_CONFIG", try_perf, {-ENODEV, -ENODEV, -ENODEV, -ENODEV}},
    };
    struct rig   r;
    struct page  page;
    struct batch b;
    unsigned     i, part;
    int          got;

    for (part = 0; part < ZR_ARRAY_SIZE(parts); part++) {
        rig_open(&r, parts[part], NULL);
        page_new(&r, 4096, &page);
        assert_int_equal(page.handle, OBJECT);
        b = batch_in(&page);
        emit_end(&b);
        for (i = 0; i < ZR_ARRAY_SIZE(cases); i++) {
            /* Read by PREAD and GEM_MMAP as 0. */
            page.cpu[0] = cases[i].run == try_gem_mmap ? 0 : 0x05000000;
            got         = cases[i].run(&r);
            if (got != cases[i].wanted[part]) {
                fail_msg("%s: %s: %d, expected %d", parts[part], cases[i].name, got,
                         cases[i].wanted[part]);
            }
        }
        rig_close(&r);
    }
}

/* ---- Tiger Lake's ways to an object ---- */

static void read_write(void **state)
{
    char                       out[3000], in[3000];
    struct drm_i915_gem_create create = {.size = 8192};
    struct drm_i915_gem_pwrite pwrite = {.offset = 5000, .size = sizeof(out),
                                         .data_ptr = (uintptr_t)out};
    struct drm_i915_gem_pread  pread  = {.offset = 5000, .size = sizeof(in),
                                         .data_ptr = (uintptr_t)in};
    struct rig r;
    unsigned   i;

    for (i = 0; i < sizeof(out); i++) {
        out[i] = (char)(i * 7 + 1);
    }
    rig_open(&r, "tgl", NULL);
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_CREATE, &create), 0);
    pwrite.handle = pread.handle = create.handle;
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_PWRITE, &pwrite), 0);
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_PREAD, &pread), 0);
    assert_memory_equal(in, out, sizeof(in));
    pread.offset = 8192 - sizeof(in) + 1;
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_PREAD, &pread), -EINVAL);
    pread.offset   = 0;
    pread.data_ptr = UINT64_C(1) << 60;
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_PREAD, &pread), -EFAULT);
    pread.size = 0;
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_PREAD, &pread), 0);
    pread.size   = 1;
    pread.handle = 99;
    pread.data_ptr = (uintptr_t)in;
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_PREAD, &pread), -ENOENT);
    rig_close(&r);
}

/* A store whose address the kernel fills in. */
static void relocations(void **state)
{
    struct page                          target, batch;
    struct drm_i915_gem_relocation_entry reloc     = {.delta = 64, .offset = 4,
                                                      .presumed_offset = UINT64_MAX};
    struct drm_i915_gem_exec_object2     object[2] = {0};
    struct drm_i915_gem_execbuffer2      exec      = {
                  .buffers_ptr = (uintptr_t)object, .buffer_count = 2, .flags = I915_EXEC_BLT};
    struct batch b;
    struct rig   r;

    rig_open(&r, "tgl", NULL);
    page_new(&r, 4096, &target);
    page_new(&r, 4096, &batch);
    b = batch_in(&batch);
    emit_store(&b, 0, 23);
    emit_end(&b);
    object[0].handle           = target.handle;
    object[1].handle           = batch.handle;
    object[1].relocation_count = 1;
    object[1].relocs_ptr       = (uintptr_t)&reloc;
    reloc.target_handle        = target.handle;
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec), 0);
    assert_int_equal(page_wait(&r, &batch, -1), 0);
    assert_int_equal(target.cpu[16], 23);
    assert_int_equal(reloc.presumed_offset, object[0].offset);
    assert_int_equal(batch.cpu[1], (uint32_t)object[0].offset + 64);

    reloc = (struct drm_i915_gem_relocation_entry){.target_handle = 0, .offset = 4,
                                                   .delta = 128, .presumed_offset = -1};
    exec.flags |= I915_EXEC_HANDLE_LUT;
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec), 0);
    assert_int_equal(page_wait(&r, &batch, -1), 0);
    assert_int_equal(target.cpu[32], 23);
    reloc.target_handle = 2;
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec), -ENOENT);
    reloc = (struct drm_i915_gem_relocation_entry){.offset = 4093, .presumed_offset = -1};
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec), -EINVAL);
    reloc = (struct drm_i915_gem_relocation_entry){.offset = 6, .presumed_offset = -1};
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec), -EINVAL);
    rig_close(&r);
}

/* ---- tilings: a square through a tiled surface and back, and where a byte is in it ---- */

#define TILED (256u << 10)

static void emit_fast(struct batch *b, uint64_t dst, unsigned dst_pitch, uint64_t src,
                      unsigned src_pitch, unsigned src_code, unsigned dst_code, unsigned width,
                      unsigned height)
{
    EMIT(b, 0x50800008 | src_code << 20 | dst_code << 13,
         dst_pitch | 3u << 24 | (dst_code == 2) << 30 | (uint32_t)(src_code == 2) << 31, 0,
         height << 16 | width, LO(dst), HI(dst), 0, src_pitch, LO(src), HI(src));
}

static void tilings(void **state)
{
    static const struct {
        const char *part;
        unsigned    code;   /* of FAST_COPY */
        unsigned    probe;  /* where byte (64, 5) of the surface is, 1024 bytes wide */
        bool        hangs;
    } cases[] = {
        {"dg2", 1, 5 * 512 + 64, false},          /* X: rows of a tile are 512 bytes */
        {"dg2", 2, (4 + 8) * 64 + 16, false},     /* Tile4 */
        {"dg2", 3, (4 + 8) * 64 + 16, false},     /* Tile64 */
        {"tgl", 2, 4 * 512 + 5 * 16, false},      /* Y: columns of 16 bytes */
        {"pvc", 2, (4 + 8) * 64 + 16, false},
        {"pvc", 1, 0, true},
    };
    struct page      linear, tiled, back, batch;
    struct page     *list[] = {&linear, &tiled, &back, &batch};
    struct batch     b;
    struct rig       r;
    unsigned         i, j;
    uint8_t         *bytes;

    for (i = 0; i < ZR_ARRAY_SIZE(cases); i++) {
        rig_open(&r, cases[i].part, NULL);
        page_new(&r, TILED, &linear);
        page_new(&r, TILED, &tiled);
        page_new(&r, TILED, &back);
        page_new(&r, 4096, &batch);
        bytes = (uint8_t *)linear.cpu;
        for (j = 0; j < TILED; j++) {
            bytes[j] = (uint8_t)(j % 251 + j / 251);
        }
        b = batch_in(&batch);
        emit_fast(&b, tiled.va, 1024 / 4, linear.va, 1024, 0, cases[i].code, 256, 256);
        emit_fast(&b, back.va, 1024, tiled.va, 1024 / 4, cases[i].code, 0, 256, 256);
        emit_end(&b);
        assert_int_equal(submit(&r, 0, I915_EXEC_BLT, list, 4), 0);
        assert_int_equal(page_wait(&r, &batch, -1), 0);
        guilty_is(&r, 0, cases[i].hangs);
        if (!cases[i].hangs) {
            assert_memory_equal((void *)back.cpu, bytes, TILED);
            assert_memory_not_equal((void *)tiled.cpu, bytes, TILED);
            assert_memory_equal((uint8_t *)tiled.cpu + cases[i].probe, bytes + 5 * 1024 + 64, 16);
        }
        rig_close(&r);
    }
}

/* ---- engines ---- */

/* Commands that an engine has, and those that hang it. */
static void engine_commands(void **state)
{
    static const struct {
        const char *part;
        uint64_t    ring;
        uint32_t    dw[10];
        bool        hangs;
    } cases[] = {
        {"dg2", I915_EXEC_RENDER, {0x13000002 | 1 << 14, 2048, 0, 1}, true}, /* MI_FLUSH_DW */
        {"dg2", I915_EXEC_RENDER, {0x7a000004, 1 << 20, 0, 0, 0, 0}, false}, /* PIPE_CONTROL */
        {"dg2", I915_EXEC_BLT, {0x7a000004, 1 << 20, 0, 0, 0, 0}, true},
        {"dg2", I915_EXEC_RENDER, {0x7a000004, 2 << 14, 0, 0, 0, 0}, true},
        {"dg2", I915_EXEC_RENDER, {0x72080000 | 7}, true},                   /* COMPUTE_WALKER */
        {"tgl", I915_EXEC_RENDER, {0x71050000 | 7}, true},                   /* GPGPU_WALKER */
        {"dg2", I915_EXEC_RENDER, {0x69040000}, false},                      /* PIPELINE_SELECT */
        {"dg2", I915_EXEC_RENDER, {0x61050001, 0, 0}, false},                /* STATE_COMPUTE_MODE */
        {"mtl", I915_EXEC_BLT, {0x54f00008, 0x03cc0040, 0, 0x00010001, 0, 0, 0, 64, 0, 0}, true},
    };
    struct page  batch, *list[] = {&batch};
    struct batch b;
    struct rig   r;
    unsigned     i;

    for (i = 0; i < ZR_ARRAY_SIZE(cases); i++) {
        rig_open(&r, cases[i].part, NULL);
        page_new(&r, 4096, &batch);
        memcpy((void *)batch.cpu, cases[i].dw, sizeof(cases[i].dw));
        b = (struct batch){(uint32_t *)batch.cpu + 10};
        emit_end(&b);
        assert_int_equal(submit(&r, 0, cases[i].ring, list, 1), 0);
        assert_int_equal(page_wait(&r, &batch, -1), 0);
        guilty_is(&r, 0, cases[i].hangs);
        rig_close(&r);
    }
}

static void pipe_control(void **state)
{
    struct page  batch, *list[] = {&batch};
    struct batch b;
    struct rig   r;

    rig_open(&r, "dg2", NULL);
    page_new(&r, 4096, &batch);
    b = batch_in(&batch);
    EMIT(&b, 0x7a000004, 1 << 14 | 1 << 20, LO(batch.va + 2048), HI(batch.va + 2048), 7, 9);
    emit_end(&b);
    assert_int_equal(submit(&r, 0, I915_EXEC_RENDER, list, 1), 0);
    assert_int_equal(page_wait(&r, &batch, -1), 0);
    assert_int_equal(batch.cpu[512], 7);
    assert_int_equal(batch.cpu[513], 9);
    rig_close(&r);
}

/* XY_COLOR_BLT and XY_SRC_COPY_BLT, 32 bits a pixel, 16 pixels a row. */
static void old_blits(void **state)
{
    struct page  data, batch, *list[] = {&data, &batch};
    struct batch b;
    struct rig   r;
    unsigned     x, y;

    rig_open(&r, "tgl", NULL);
    page_new(&r, 8192, &data);
    page_new(&r, 4096, &batch);
    b = batch_in(&batch);
    EMIT(&b, 0x54300005, 3u << 24 | 0xf0 << 16 | 64, 2 << 16 | 3, 4 << 16 | 7, LO(data.va),
         HI(data.va), 0xcafe);
    EMIT(&b, 0x54f00008, 3u << 24 | 0xcc << 16 | 64, 0, 4 << 16 | 16, LO(data.va + 4096),
         HI(data.va + 4096), 0, 64, LO(data.va), HI(data.va));
    emit_end(&b);
    assert_int_equal(submit(&r, 0, I915_EXEC_BLT, list, 2), 0);
    assert_int_equal(page_wait(&r, &data, -1), 0);
    guilty_is(&r, 0, 0);
    for (y = 0; y < 5; y++) {
        for (x = 0; x < 16; x++) {
            uint32_t wanted = y >= 2 && y < 4 && x >= 3 && x < 7 ? 0xcafe : 0;

            assert_int_equal(data.cpu[y * 16 + x], wanted);
            assert_int_equal(data.cpu[1024 + y * 16 + x], wanted);
        }
    }
    rig_close(&r);
}

/* ---- tables ---- */

static void topology(void **state)
{
    static const unsigned subslices[] = {6, 8, 32, 64}, eus[] = {16, 16, 16, 8};
    uint8_t               data[256];
    struct drm_i915_query_topology_info *t = (void *)data;
    struct rig r;
    unsigned   part, i, on;
    int        length, total = 0;
    struct drm_i915_getparam param = {.param = I915_PARAM_EU_TOTAL, .value = &total};

    for (part = 0; part < ZR_ARRAY_SIZE(parts); part++) {
        rig_open(&r, parts[part], NULL);
        length = query_length(&r, DRM_I915_QUERY_TOPOLOGY_INFO, 0, NULL, 0);
        assert_true(length > (int)sizeof(*t) && length <= (int)sizeof(data));
        assert_int_equal(query_length(&r, DRM_I915_QUERY_TOPOLOGY_INFO, 1, NULL, 0), -EINVAL);
        memset(data, 0, sizeof(data));
        assert_int_equal(query_length(&r, DRM_I915_QUERY_TOPOLOGY_INFO, 0, data, length), length);
        for (i = 0, on = 0; i < t->max_subslices; i++) {
            on += t->data[t->subslice_offset + i / 8] >> i % 8 & 1;
        }
        assert_int_equal(on, subslices[part]);
        assert_int_equal(call(&r, DRM_IOCTL_I915_GETPARAM, &param), 0);
        assert_int_equal(total, subslices[part] * eus[part]);
        rig_close(&r);
    }
}

/* ---- memory ---- */

/* A pointer that leads nowhere is EFAULT, whatever request it is in. */
static void wild_pointers(void **state)
{
    static const unsigned long requests[] = {
        DRM_IOCTL_I915_GEM_CREATE, DRM_IOCTL_I915_GEM_EXECBUFFER2, DRM_IOCTL_I915_QUERY,
        DRM_IOCTL_SYNCOBJ_WAIT, DRM_IOCTL_VERSION,
    };
    struct zr_soft_task task = {.mm = zr_soft_mm_create(getpid())};
    void *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct drm_i915_query            query = {.num_items = 1, .items_ptr = (uintptr_t)hole};
    struct drm_i915_gem_execbuffer2  exec  = {.buffer_count = 1, .buffers_ptr = (uintptr_t)hole};
    struct drm_i915_getparam         param = {.param = I915_PARAM_CHIPSET_ID, .value = hole};
    struct drm_syncobj_wait          wait  = {.handles = (uintptr_t)hole, .count_handles = 1};
    struct rig r;
    unsigned   i;

    rig_open(&r, "pvc", NULL);
    zr_soft_task_enter(&task);
    for (i = 0; i < ZR_ARRAY_SIZE(requests); i++) {
        assert_int_equal(zr_soft_file_ioctl(r.file, requests[i], (uintptr_t)hole), -EFAULT);
        assert_int_equal(zr_soft_file_ioctl(r.file, requests[i], UINT64_C(1) << 62), -EFAULT);
        assert_int_equal(zr_soft_file_ioctl(r.file, requests[i], 0), -EFAULT);
    }
    assert_int_equal(call(&r, DRM_IOCTL_I915_QUERY, &query), -EFAULT);
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_EXECBUFFER2, &exec), -EFAULT);
    assert_int_equal(call(&r, DRM_IOCTL_I915_GETPARAM, &param), -EFAULT);
    assert_int_equal(call(&r, DRM_IOCTL_SYNCOBJ_WAIT, &wait), -EFAULT);
    zr_soft_task_enter(NULL);
    rig_close(&r);
    zr_soft_mm_put(task.mm);
    munmap(hole, 4096);
}

/* Objects too small to have memory of their own: who holds the dma-buf of one sees that one, and
 * what the device wrote before it was given away; a batch that runs meanwhile goes on. */
static void arenas(void **state)
{
    enum { MANY = 20 };
    struct drm_i915_gem_create create = {.size = 4096};
    struct drm_prime_handle    prime  = {.flags = DRM_RDWR};
    struct page                object[MANY], batch, *list[2];
    struct stat                st;
    struct batch               b;
    struct rig                 r;
    uint32_t                  *cpu;
    unsigned                   i;

    rig_open(&r, "pvc", NULL);
    page_new(&r, 4096, &batch);
    for (i = 0; i < MANY; i++) { /* not mapped */
        assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_CREATE, &create), 0);
        object[i] = (struct page){.handle = create.handle, .va = (UINT64_C(1) << 36) + (i << 21)};
        b         = batch_in(&batch);
        emit_store(&b, object[i].va, 1000 + i);
        if (i == 5) {
            emit_store(&b, batch.va + 3072, 1);
            emit_wait_equal(&b, batch.va + 2048, 1);
            emit_store(&b, object[i].va + 4, 5);
        }
        emit_end(&b);
        list[0] = &object[i];
        list[1] = &batch;
        assert_int_equal(submit(&r, 0, I915_EXEC_BLT, list, 2), 0);
        if (i == 5) {
            word_is(&batch.cpu[768], 1);
            break;
        }
        assert_int_equal(page_wait(&r, &batch, -1), 0);
    }
    prime.handle = object[5].handle; /* while the batch runs on it */
    assert_int_equal(call(&r, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime), 0);
    assert_int_equal(fstat(prime.fd, &st), 0);
    assert_int_equal(st.st_size, 4096);
    assert_int_equal(fcntl(prime.fd, F_GET_SEALS) & ZR_SOFT_SEALS, ZR_SOFT_SEALS);
    cpu = mmap(NULL, 4096, PROT_READ, MAP_SHARED, prime.fd, 0);
    assert_ptr_not_equal(cpu, MAP_FAILED);
    assert_int_equal(cpu[0], 1005);
    assert_int_equal(cpu[1], 0);
    __atomic_store_n(&batch.cpu[512], 1, __ATOMIC_SEQ_CST);
    assert_int_equal(page_wait(&r, &batch, -1), 0);
    assert_int_equal(cpu[1], 5);
    /* The others are still where they were. */
    for (i = 0; i < 5; i++) {
        cpu = page_map(&r, object[i].handle, 4096, I915_MMAP_OFFSET_WC);
        assert_int_equal(cpu[0], 1000 + i);
    }
    /* Memory that is given out again is clean. */
    for (i = 0; i < 300; i++) {
        struct drm_gem_close close_it;

        assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_CREATE, &create), 0);
        close_it = (struct drm_gem_close){.handle = create.handle};
        object[0].handle = create.handle;
        object[0].va     = UINT64_C(1) << 40;
        b                = batch_in(&batch);
        emit_store(&b, object[0].va + 8, 77);
        emit_end(&b);
        list[0] = &object[0];
        assert_int_equal(submit(&r, 0, I915_EXEC_BLT, list, 2), 0);
        assert_int_equal(page_wait(&r, &batch, -1), 0);
        assert_int_equal(call(&r, DRM_IOCTL_GEM_CLOSE, &close_it), 0);
    }
    assert_int_equal(call(&r, DRM_IOCTL_I915_GEM_CREATE, &create), 0);
    cpu = page_map(&r, create.handle, 4096, I915_MMAP_OFFSET_WC);
    assert_int_equal(cpu[2], 0);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests),       cmocka_unit_test(read_write),
        cmocka_unit_test(relocations),    cmocka_unit_test(tilings),
        cmocka_unit_test(engine_commands), cmocka_unit_test(pipe_control),
        cmocka_unit_test(old_blits),      cmocka_unit_test(topology),
        cmocka_unit_test(wild_pointers),  cmocka_unit_test(arenas),
    };

    client_profiles("pvc");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
