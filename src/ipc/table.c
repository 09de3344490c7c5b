/* The object table: a sealed memfd that says which bytes of which objects a range is made of, and
 * the check of every field before one is used. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define ZR_TABLE_SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

uint32_t zr_device_number(uint64_t st_dev)
{
    return (uint32_t)(major(st_dev) << 20 | (minor(st_dev) & 0xfffffu));
}

static void zr_table_fill_entry(struct zr_table_entry *entry, const struct zr_segment *segment,
                                int fd)
{
    struct stat st;

    entry->object_id = segment->object->id;
    entry->size      = segment->object->size;
    entry->offset    = segment->offset;
    entry->length    = segment->length;
    entry->flags     = segment->object->device_local ? ZR_ENTRY_DEVICE_LOCAL : 0;
    entry->fd        = fd;
    if (fd >= 0 && fstat(fd, &st) == 0) {
        entry->inode  = st.st_ino;
        entry->device = zr_device_number(st.st_dev);
    }
}

static void zr_table_fill(void *data, const struct zr_export *export)
{
    struct zr_table_header *header  = data;
    struct zr_table_entry  *entries = (struct zr_table_entry *)(header + 1);
    struct zr_identity      own     = zr_identity();
    unsigned                i;

    header->magic         = ZR_TABLE_MAGIC;
    header->version       = ZR_WIRE_VERSION;
    header->count         = export->range.count;
    header->entry_size    = sizeof(*entries);
    header->length        = export->range.length;
    header->lead          = export->lead;
    header->pid           = own.pid;
    header->process_id    = own.process_id;
    header->export_id     = export->handle.export_id;
    header->start_time    = own.start_time;
    header->pid_namespace = own.pid_namespace;
    memcpy(header->system_id, own.system_id, sizeof(header->system_id));
    memcpy(header->secret, export->handle.secret, sizeof(header->secret));
    for (i = 0; i < export->range.count; ++i) {
        zr_table_fill_entry(&entries[i], &export->range.segments[i],
                            (i < export->fd_count) ? export->fds[i] : -1);
    }
}

static int zr_write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return (n < 0) ? -errno : -ENOSPC;
        }
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

int zr_table_create(const struct zr_export *export, int *fd_p)
{
    size_t size = sizeof(struct zr_table_header) +
                  export->range.count * sizeof(struct zr_table_entry);
    void  *data;
    int    fd, status;

    if (export->range.count > ZR_TABLE_MAX) {
        return -E2BIG;
    }
    data = calloc(1, size);
    if (data == NULL) {
        return -ENOMEM;
    }
    zr_table_fill(data, export);
    fd = memfd_create("zerange-range", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        status = -errno;
        goto err_data;
    }
    status = zr_write_all(fd, data, size);
    if (status == 0 && fcntl(fd, F_ADD_SEALS, ZR_TABLE_SEALS) != 0) {
        status = -errno;
    }
    if (status != 0) {
        goto err_fd;
    }
    free(data);
    *fd_p = fd;
    return 0;

err_fd:
    close(fd);
err_data:
    free(data);
    return status;
}

static const char *zr_table_check_entries(const struct zr_table_header *header,
                                          const struct zr_table_entry  *entries)
{
    uint64_t length = 0;
    uint32_t i;

    for (i = 0; i < header->count; ++i) {
        const struct zr_table_entry *entry = &entries[i];

        if (entry->length == 0 || entry->offset > entry->size ||
            entry->length > entry->size - entry->offset) {
            return "an entry lies outside its object";
        }
        if (entry->length > (uint64_t)INT64_MAX - length) {
            return "the entries' lengths overflow";
        }
        if ((entry->flags & ~ZR_ENTRY_DEVICE_LOCAL) != 0 || entry->zero != 0 || entry->fd < -1) {
            return "an entry has flags of no version known here";
        }
        length += entry->length;
    }
    return (length == header->length) ? NULL : "the entries do not add up to the range's length";
}

const char *zr_table_check(const void *data, size_t size)
{
    const struct zr_table_header *header = data;

    if (size < sizeof(*header)) {
        return "shorter than a table's header";
    }
    if (header->magic != ZR_TABLE_MAGIC) {
        return "not an object table";
    }
    if (header->version != ZR_WIRE_VERSION ||
        header->entry_size != sizeof(struct zr_table_entry)) {
        return "a table of another version";
    }
    if (header->count == 0 || header->count > ZR_TABLE_MAX ||
        size != sizeof(*header) + (size_t)header->count * sizeof(struct zr_table_entry)) {
        return "the table's size does not fit its number of entries";
    }
    if (header->lead >= ZR_PAGE_SMALL) {
        return "the table's lead is not inside a page";
    }
    return zr_table_check_entries(header, (const struct zr_table_entry *)(header + 1));
}

const char *zr_table_open(int fd, struct zr_table *table)
{
    const size_t limit = sizeof(struct zr_table_header) +
                         (size_t)ZR_TABLE_MAX * sizeof(struct zr_table_entry);
    struct stat  st;
    const char  *wrong;
    void        *data;

    /* Without the seals the peer could change or cut the table under the check. */
    if (fcntl(fd, F_GET_SEALS) != ZR_TABLE_SEALS) {
        return "not a sealed memfd";
    }
    if (fstat(fd, &st) != 0 || st.st_size < (off_t)sizeof(struct zr_table_header) ||
        (uint64_t)st.st_size > limit) {
        return "not of a table's size";
    }
    data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        return strerror(errno);
    }
    wrong = zr_table_check(data, (size_t)st.st_size);
    if (wrong != NULL) {
        munmap(data, (size_t)st.st_size);
        return wrong;
    }
    table->header  = data;
    table->entries = (const struct zr_table_entry *)(table->header + 1);
    table->size    = (size_t)st.st_size;
    return NULL;
}

void zr_table_close(struct zr_table *table)
{
    if (table->header != NULL) {
        munmap((void *)table->header, table->size);
        table->header = NULL;
    }
}
