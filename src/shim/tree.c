/* The files of the devices in /dev, sysfs and debugfs, as a directory tree that the shim shows in the
 * place of the real ones. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "server.h"
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct zr_tree {
    const char                   *dir;
    const struct zr_soft_profile *profile;
    unsigned                      unit;
    char                          slot[16];     /* 0000:03:00.0 */
    char                          device[80];   /* sys/devices/..., of the PCI function */
    int                           ret;          /* first error */
};

static void zr_tree_slot(const struct zr_soft_profile *profile, unsigned unit, char slot[16])
{
    if (profile->lmem == 0 && unit == 0) {
        snprintf(slot, 16, "0000:00:02.0");
    } else {
        snprintf(slot, 16, "0000:%02x:00.0", 3 + unit);
    }
}

/* The path in the tree, its directories made. */
static void zr_tree_path(struct zr_tree *t, const char *relative, char *path, size_t size)
{
    char *slash;

    snprintf(path, size, "%s/%s", t->dir, relative);
    for (slash = path + strlen(t->dir) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        if (mkdir(path, 0755) != 0 && errno != EEXIST && t->ret == 0) {
            t->ret = -errno;
        }
        *slash = '/';
    }
}

static void zr_tree_bytes(struct zr_tree *t, const char *relative, const void *bytes, size_t size)
{
    char path[512];
    int  fd;

    zr_tree_path(t, relative, path, sizeof(path));
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size) {
        t->ret = t->ret == 0 ? -errno : t->ret;
    }
    if (fd >= 0) {
        close(fd);
    }
}

__attribute__((format(printf, 4, 5))) static void zr_tree_file(struct zr_tree *t, const char *dir,
                                                               const char *name,
                                                               const char *format, ...)
{
    char    path[512], text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    zr_tree_bytes(t, path, text, strlen(text));
}

__attribute__((format(printf, 4, 5))) static void zr_tree_link(struct zr_tree *t, const char *dir,
                                                               const char *name,
                                                               const char *format, ...)
{
    char    relative[512], path[640], target[256];
    va_list args;

    va_start(args, format);
    vsnprintf(target, sizeof(target), format, args);
    va_end(args);
    snprintf(relative, sizeof(relative), "%s/%s", dir, name);
    zr_tree_path(t, relative, path, sizeof(path));
    if (symlink(target, path) != 0 && errno != EEXIST && t->ret == 0) {
        t->ret = -errno;
    }
}

/* ---- PCI ---- */

static void zr_tree_config(struct zr_tree *t)
{
    uint8_t  config[256] = {0};
    uint16_t id          = t->profile->device_id;
    char     path[128];

    config[0x00] = 0x86;
    config[0x01] = 0x80;
    memcpy(config + 0x02, &id, 2);
    config[0x04] = 0x06; /* memory, bus master */
    config[0x08] = t->profile->revision;
    config[0x0b] = 0x03; /* display */
    config[0x0a] = t->profile->lmem != 0 ? 0x80 : 0x00;
    config[0x2c] = 0x86;
    config[0x2d] = 0x80;
    snprintf(path, sizeof(path), "%s/config", t->device);
    zr_tree_bytes(t, path, config, sizeof(config));
}

/* BAR 0: registers; BAR 2: local memory, as far as the CPU sees it, or the aperture. */
static void zr_tree_resource(struct zr_tree *t)
{
    uint64_t bar  = t->profile->lmem != 0 ? t->profile->lmem : 256 * ZR_MIB;
    char     text[1024] = "";
    size_t   used = 0;
    unsigned i;

    for (i = 0; i < 13; i++) {
        uint64_t start = i == 0 ? UINT64_C(0xa0000000) : i == 2 ? UINT64_C(0x4000000000) : 0;
        uint64_t end   = i == 0 ? start + 16 * ZR_MIB - 1 : i == 2 ? start + bar - 1 : 0;

        used += (size_t)snprintf(text + used, sizeof(text) - used, "0x%016llx 0x%016llx 0x%016x\n",
                                 (unsigned long long)start, (unsigned long long)end,
                                 i == 0 ? 0x00140204 : i == 2 ? 0x0014220c : 0);
    }
    zr_tree_file(t, t->device, "resource", "%s", text);
}

static void zr_tree_pci(struct zr_tree *t)
{
    const char    *d  = t->device;
    const unsigned id = t->profile->device_id;

    zr_tree_file(t, d, "vendor", "0x8086\n");
    zr_tree_file(t, d, "device", "0x%04x\n", id);
    zr_tree_file(t, d, "subsystem_vendor", "0x8086\n");
    zr_tree_file(t, d, "subsystem_device", "0x0000\n");
    zr_tree_file(t, d, "revision", "0x%02x\n", t->profile->revision);
    zr_tree_file(t, d, "class", "0x03%02x00\n", t->profile->lmem != 0 ? 0x80 : 0);
    zr_tree_file(t, d, "irq", "16\n");
    zr_tree_file(t, d, "enable", "1\n");
    zr_tree_file(t, d, "boot_vga", "0\n");
    zr_tree_file(t, d, "numa_node", "-1\n");
    zr_tree_file(t, d, "power/runtime_status", "active\n");
    zr_tree_file(t, d, "power/control", "on\n");
    zr_tree_file(t, d, "power/autosuspend_delay_ms", "10000\n");
    zr_tree_file(t, d, "uevent",
                 "DRIVER=i915\nPCI_CLASS=3%02x00\nPCI_ID=8086:%04X\nPCI_SUBSYS_ID=8086:0000\n"
                 "PCI_SLOT_NAME=%s\nMODALIAS=pci:v00008086d%08Xsv00008086sd00000000bc03sc%02xi00\n",
                 t->profile->lmem != 0 ? 0x80 : 0, id, t->slot, id,
                 t->profile->lmem != 0 ? 0x80 : 0);
    zr_tree_config(t);
    zr_tree_resource(t);
    /* sys/devices/pci0000:00/[bridge/]function */
    zr_tree_link(t, d, "subsystem", "%s../../../bus/pci",
                 strstr(d, "0000:00:01.0") != NULL ? "../" : "");
    zr_tree_link(t, d, "driver", "%s../../../bus/pci/drivers/i915",
                 strstr(d, "0000:00:01.0") != NULL ? "../" : "");
    zr_tree_link(t, "sys/bus/pci/devices", t->slot, "../../../%s", d + strlen("sys/"));
    zr_tree_link(t, "sys/bus/pci/drivers/i915", t->slot, "../../../../%s", d + strlen("sys/"));
}

/* ---- DRM nodes ---- */

static void zr_tree_node(struct zr_tree *t, const char *name, unsigned minor)
{
    char dir[160], text[64], up[16] = "";

    snprintf(dir, sizeof(dir), "%s/drm/%s", t->device, name);
    if (strstr(t->device, "0000:00:01.0") != NULL) {
        strcpy(up, "../");
    }
    zr_tree_file(t, dir, "dev", "226:%u\n", minor);
    zr_tree_file(t, dir, "uevent", "MAJOR=226\nMINOR=%u\nDEVNAME=dri/%s\nDEVTYPE=drm_minor\n",
                 minor, name);
    zr_tree_link(t, dir, "device", "../../../%s", t->slot);
    zr_tree_link(t, dir, "subsystem", "%s../../../../../class/drm", up);
    zr_tree_file(t, dir, "power/runtime_status", "unsupported\n");
    zr_tree_link(t, "sys/class/drm", name, "../../%s", dir + strlen("sys/"));
    snprintf(text, sizeof(text), "226:%u", minor);
    zr_tree_link(t, "sys/dev/char", text, "../../%s", dir + strlen("sys/"));
    zr_tree_file(t, "dev/dri", name, "%s", "");
    snprintf(text, sizeof(text), "pci-%s-%s", t->slot, minor >= ZR_SHIM_RENDER ? "render" : "card");
    zr_tree_link(t, "dev/dri/by-path", text, "../%s", name);
}

static void zr_tree_engines(struct zr_tree *t, const char *card)
{
    static const char *const names[] = {"rcs", "bcs", "vcs", "vecs", "ccs"};
    static const struct {
        const char *name, *value;
    } knobs[] = {{"preempt_timeout_ms", "640"},
                 {"stop_timeout_ms", "100"},
                 {"timeslice_duration_ms", "1"},
                 {"max_busywait_duration_ns", "8000"}};
    char     dir[192], name[64];
    unsigned i, k;

    for (i = 0; i < t->profile->num_engines; i++) {
        const struct zr_soft_engine_id *id = &t->profile->engine[i];

        snprintf(dir, sizeof(dir), "%s/engine/%s%u", card, names[id->class], id->instance);
        zr_tree_file(t, dir, "name", "%s%u\n", names[id->class], id->instance);
        zr_tree_file(t, dir, "class", "%u\n", id->class);
        zr_tree_file(t, dir, "instance", "%u\n", id->instance);
        zr_tree_file(t, dir, "capabilities", "%s", "");
        zr_tree_file(t, dir, "known_capabilities", "%s", "");
        zr_tree_file(t, dir, "mmio_base", "0x%x\n", zr_soft_mmio_base(id->class, id->instance));
        for (k = 0; k < ZR_ARRAY_SIZE(knobs); k++) {
            zr_tree_file(t, dir, knobs[k].name, "%s\n", knobs[k].value);
            snprintf(name, sizeof(name), ".defaults/%s", knobs[k].name);
            zr_tree_file(t, dir, name, "%s\n", knobs[k].value);
        }
        zr_tree_file(t, dir, "heartbeat_interval_ms", "%u\n", t->profile->heartbeat_ms);
        zr_tree_file(t, dir, ".defaults/heartbeat_interval_ms", "%u\n", t->profile->heartbeat_ms);
    }
}

static void zr_tree_card(struct zr_tree *t, const char *name)
{
    static const struct {
        const char *name, *value;
    } files[] = {{"gt_max_freq_mhz", "2050"},  {"gt_min_freq_mhz", "300"},
                 {"gt_boost_freq_mhz", "2050"}, {"gt_act_freq_mhz", "2050"},
                 {"gt_cur_freq_mhz", "2050"},   {"gt_RP0_freq_mhz", "2050"},
                 {"gt_RP1_freq_mhz", "600"},    {"gt_RPn_freq_mhz", "300"},
                 {"gt/gt0/id", "0"},            {"gt/gt0/rps_max_freq_mhz", "2050"},
                 {"gt/gt0/rps_min_freq_mhz", "300"},  {"gt/gt0/rps_act_freq_mhz", "2050"},
                 {"gt/gt0/rps_cur_freq_mhz", "2050"}, {"gt/gt0/rps_boost_freq_mhz", "2050"},
                 {"gt/gt0/rps_RP0_freq_mhz", "2050"}, {"gt/gt0/rps_RP1_freq_mhz", "600"},
                 {"gt/gt0/rps_RPn_freq_mhz", "300"},  {"gt/gt0/rc6_enable", "1"},
                 {"gt/gt0/rc6_residency_ms", "0"},    {"power/rc6_enable", "1"}};
    char     dir[160];
    unsigned i;

    snprintf(dir, sizeof(dir), "%s/drm/%s", t->device, name);
    for (i = 0; i < ZR_ARRAY_SIZE(files); i++) {
        zr_tree_file(t, dir, files[i].name, "%s\n", files[i].value);
    }
    if (t->profile->lmem != 0) {
        zr_tree_file(t, dir, "lmem_total_bytes", "%llu\n", (unsigned long long)t->profile->lmem);
    }
    if (t->profile->backports) {
        zr_tree_file(t, dir, "prelim_uapi_version", "2.1\n");
    }
    zr_tree_engines(t, dir);
}

/* ---- debugfs, the module's parameters, the PMU ---- */

static void zr_tree_debugfs(struct zr_tree *t, unsigned minor)
{
    char dir[64];

    snprintf(dir, sizeof(dir), "sys/kernel/debug/dri/%u", minor);
    zr_tree_file(t, dir, "name", "i915 dev=%s unique=%s\n", t->slot, t->slot);
    zr_tree_file(t, dir, "clients", "%s", "");
    zr_tree_file(t, dir, ZR_TREE_DROP_CACHES, "0x00000000\n");
    zr_tree_file(t, dir, ZR_TREE_WEDGED, "0\n");
    zr_tree_file(t, dir, ZR_TREE_OBJECTS, "%s", "");
    zr_tree_file(t, dir, "i915_runtime_pm_status", "Runtime power status: enabled\n");
    zr_tree_file(t, dir, "gt0/reset", "0\n");
}

static void zr_tree_module(struct zr_tree *t)
{
    const char *dir = "sys/module/i915/parameters";

    zr_tree_file(t, dir, "reset", "2\n");
    zr_tree_file(t, dir, "enable_guc", "%u\n", t->profile->guc ? 3 : 0);
    zr_tree_file(t, dir, "enable_hangcheck", "Y\n");
    zr_tree_file(t, dir, "error_capture", "Y\n");
    zr_tree_file(t, dir, "request_timeout_ms", "20000\n");
    zr_tree_file(t, "sys/module/i915", "refcnt", "1\n");
    zr_tree_file(t, "sys/module/i915", "initstate", "live\n");
    zr_tree_file(t, "sys/kernel/debug/sync", "sw_sync", "%s", "");
    zr_tree_file(t, "sys/class/drm", "version", "drm 1.1.0 20060810\n");
}

static void zr_tree_pmu(struct zr_tree *t)
{
    static const char *const names[]   = {"rcs", "bcs", "vcs", "vecs", "ccs"};
    static const char *const samples[] = {"busy", "wait", "sema"};
    char                     dir[96], name[64], *s;
    unsigned                 i, sample;

    if (strcmp(t->slot, "0000:00:02.0") == 0) {
        snprintf(dir, sizeof(dir), "sys/bus/event_source/devices/i915");
    } else {
        snprintf(dir, sizeof(dir), "sys/bus/event_source/devices/i915_%s", t->slot);
        for (s = dir + strlen("sys/bus/event_source/devices/"); *s != '\0'; s++) {
            *s = *s == ':' ? '_' : *s;
        }
    }
    zr_tree_file(t, dir, "type", "%u\n", ZR_TREE_PMU_TYPE + t->unit);
    zr_tree_file(t, dir, "cpumask", "0\n");
    zr_tree_file(t, dir, "format/i915_eventid", "config:0-20\n");
    for (i = 0; i < t->profile->num_engines; i++) {
        const struct zr_soft_engine_id *id = &t->profile->engine[i];

        for (sample = 0; sample < ZR_ARRAY_SIZE(samples); sample++) {
            snprintf(name, sizeof(name), "events/%s%u-%s", names[id->class], id->instance,
                     samples[sample]);
            zr_tree_file(t, dir, name, "config=0x%x\n", id->class << 12 | id->instance << 4 | sample);
            strcat(name, ".unit");
            zr_tree_file(t, dir, name, "ns\n");
        }
    }
    zr_tree_file(t, dir, "events/actual-frequency", "config=0x100000\n");
    zr_tree_file(t, dir, "events/requested-frequency", "config=0x100001\n");
    zr_tree_file(t, dir, "events/interrupts", "config=0x100002\n");
    zr_tree_file(t, dir, "events/rc6-residency", "config=0x100003\n");
}

/* Directories that are shown in the place of real ones keep what those have beside ours. */
static void zr_tree_neighbours(struct zr_tree *t, const char *dir)
{
    struct dirent *entry;
    char           real[64], target[384];
    DIR           *d;

    snprintf(real, sizeof(real), "/%s", dir);
    d = opendir(real);
    if (d == NULL) {
        return;
    }
    while ((entry = readdir(d)) != NULL) {
        if (entry->d_name[0] != '.') {
            snprintf(target, sizeof(target), "%s/%s", real, entry->d_name);
            zr_tree_link(t, dir, entry->d_name, "%s", target); /* ours are there already */
        }
    }
    closedir(d);
}

static void zr_tree_unit(struct zr_tree *t)
{
    char card[16], render[16];

    zr_tree_slot(t->profile, t->unit, t->slot);
    snprintf(t->device, sizeof(t->device), "sys/devices/pci0000:00/%s%s",
             t->profile->lmem != 0 || t->unit != 0 ? "0000:00:01.0/" : "", t->slot);
    snprintf(card, sizeof(card), "card%u", t->unit);
    snprintf(render, sizeof(render), "renderD%u", ZR_SHIM_RENDER + t->unit);
    zr_tree_pci(t);
    zr_tree_node(t, card, t->unit);
    zr_tree_node(t, render, ZR_SHIM_RENDER + t->unit);
    zr_tree_card(t, card);
    zr_tree_debugfs(t, t->unit);
    zr_tree_debugfs(t, ZR_SHIM_RENDER + t->unit);
    zr_tree_pmu(t);
}

int zr_shim_tree_make(const char *dir, const struct zr_soft_profile *profiles, unsigned count)
{
    struct zr_tree t = {.dir = dir};
    struct stat    st;

    if (mkdir(dir, 0755) != 0 && errno != EEXIST) {
        return -errno;
    }
    if (lstat(dir, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != getuid()) {
        return -EPERM; /* somebody else's */
    }
    for (t.unit = 0; t.unit < count; t.unit++) {
        t.profile = &profiles[t.unit];
        zr_tree_unit(&t);
    }
    t.profile = &profiles[0];
    zr_tree_module(&t);
    zr_tree_neighbours(&t, "sys/class");
    zr_tree_neighbours(&t, "sys/bus");
    zr_tree_neighbours(&t, "sys/bus/event_source/devices");
    zr_tree_neighbours(&t, "sys/dev/char");
    zr_tree_neighbours(&t, "sys/module");
    return t.ret;
}

static int zr_tree_unlink(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    remove(path);
    return 0;
}

void zr_shim_tree_remove(const char *dir)
{
    nftw(dir, zr_tree_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

int zr_shim_tree_objects(const char *dir, unsigned unit, struct zr_soft_dev *dev)
{
    struct zr_tree t = {.dir = dir, .unit = unit, .profile = &dev->profile};
    uint64_t       bytes;
    unsigned       count, i;
    char           path[64];

    pthread_mutex_lock(&dev->lock);
    count = dev->objects;
    bytes = dev->lmem_used + dev->smem_used;
    pthread_mutex_unlock(&dev->lock);
    for (i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "sys/kernel/debug/dri/%u", unit + i * ZR_SHIM_RENDER);
        zr_tree_file(&t, path, ZR_TREE_OBJECTS, "%u shrinkable [0 free] objects, %llu bytes\n", count,
                     (unsigned long long)bytes);
    }
    return t.ret;
}
