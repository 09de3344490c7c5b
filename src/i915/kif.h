/* The kernel interface: the few calls src/i915 makes. Two tables exist, libdrm over a real node
 * (src/i915/kif_drm.c) and the software i915 (src/soft); nothing above can tell which one runs. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_KIF_H
#define ZR_KIF_H

#include <stddef.h>
#include <stdint.h>

/* One render node. */
struct zr_kif_node {
    char     path[64]; /* "/dev/dri/renderD128"; the soft table uses names of the same form */
    uint32_t pci_domain, pci_bus, pci_device, pci_function;
    uint32_t index;    /* position in enumeration order */
};

/* An open DRM file of the table that opened it. */
struct zr_kfile;

struct zr_kif {
    const char *name; /* "drm" or "soft", for messages */

    /** Fill up to @a max i915 nodes. @return how many were filled, or a negative errno. */
    int (*enumerate)(struct zr_kif_node *nodes, unsigned max);

    /** Open a node. @return 0 or a negative errno; the file is the caller's until close. */
    int (*open)(const struct zr_kif_node *node, struct zr_kfile **file_p);

    /** ioctl(2) with a DRM request. EINTR and EAGAIN are retried inside, as drmIoctl does, but for
     * an execbuf's EAGAIN: files are O_NONBLOCK, and so the kernel says that the ring is full.
     * @return 0 or a negative errno. */
    int (*ioctl)(struct zr_kfile *file, unsigned long request, void *arg);

    /** mmap(2) of a GEM_MMAP_OFFSET cookie; MAP_FIXED works. @return MAP_FAILED with errno. */
    void *(*mmap)(struct zr_kfile *file, void *addr, size_t length, int prot, int flags,
                  uint64_t offset);
    int (*munmap)(struct zr_kfile *file, void *addr, size_t length);

    /** poll(2) for POLLIN on a sync_file or dma-buf fd. @return 1 ready, 0 timeout, -errno. */
    int (*poll)(int fd, int timeout_ms);

    void (*close)(struct zr_kfile *file);

    /** Batches completed so far by each engine of @a engine_class on the whole device, by
     * instance. @return number of engines, -EOPNOTSUPP where the kernel has no such counter. */
    int (*completed_batches)(struct zr_kfile *file, unsigned engine_class, uint64_t *counts,
                             unsigned max);
};

const struct zr_kif *zr_drm_kif(void);  /* src/i915/kif_drm.c */
const struct zr_kif *zr_soft_kif(void); /* src/soft/soft_kif.c */

#endif
