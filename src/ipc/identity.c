/* Who this process is: a random id that no later process can have, and what helps to recognise it
 * from outside. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "parts.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t    zr_identity_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the writing */
static struct zr_identity zr_identity_own;
static atomic_bool        zr_identity_known;

/* Up to @a size - 1 bytes of a small file, terminated. */
static ssize_t zr_read_file(const char *path, char *text, size_t size)
{
    int     fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0) {
        return -1;
    }
    n = read(fd, text, size - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n;
}

uint64_t zr_start_time(uint32_t pid)
{
    char               path[40], text[1024], *field;
    unsigned long long start = 0;
    unsigned           i;

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    if (zr_read_file(path, text, sizeof(text)) <= 0) {
        return 0;
    }
    /* The name in brackets may itself hold blanks and brackets. */
    field = strrchr(text, ')');
    for (i = 2; field != NULL && i < 22; ++i) {
        field = strchr(field + 1, ' ');
    }
    return (field != NULL && sscanf(field, " %llu", &start) == 1) ? start : 0;
}

/* The boot id: hexadecimal digits with dashes. */
static void zr_system_id(uint8_t *id)
{
    char        text[64];
    const char *c;
    unsigned    digits = 0;

    memset(id, 0, 16);
    if (zr_read_file("/proc/sys/kernel/random/boot_id", text, sizeof(text)) <= 0) {
        return;
    }
    for (c = text; *c != '\0' && digits < 32; ++c) {
        static const char hex[] = "0123456789abcdef";
        const char       *digit = strchr(hex, *c);

        if (digit != NULL) {
            id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | (digit - hex));
            digits++;
        }
    }
}

static void zr_identity_read(struct zr_identity *own)
{
    struct stat st;

    own->process_id    = zr_random_u64();
    own->pid           = (uint32_t)getpid();
    own->start_time    = zr_start_time(own->pid);
    own->pid_namespace = (stat("/proc/self/ns/pid", &st) == 0) ? st.st_ino : 0;
    zr_system_id(own->system_id);
}

struct zr_identity zr_identity(void)
{
    if (!atomic_load_explicit(&zr_identity_known, memory_order_acquire)) {
        pthread_mutex_lock(&zr_identity_lock);
        if (!atomic_load(&zr_identity_known)) {
            zr_identity_read(&zr_identity_own);
            atomic_store_explicit(&zr_identity_known, true, memory_order_release);
        }
        pthread_mutex_unlock(&zr_identity_lock);
    }
    return zr_identity_own;
}

uint64_t zr_inode_here(uint64_t inode)
{
    struct zr_identity own = zr_identity();
    uint64_t           half[2];

    memcpy(half, own.system_id, sizeof(half));
    return inode ^ half[0] ^ half[1];
}

void zr_identity_fork_prepare(void)
{
    pthread_mutex_lock(&zr_identity_lock);
}

void zr_identity_fork_done(bool child)
{
    if (child) {
        atomic_store(&zr_identity_known, false);
    }
    pthread_mutex_unlock(&zr_identity_lock);
}

bool zr_secret_equal(const uint8_t *a, const uint8_t *b)
{
    volatile uint8_t difference = 0;
    unsigned         i;

    for (i = 0; i < ZR_SECRET_LENGTH; ++i) {
        difference |= a[i] ^ b[i];
    }
    return difference == 0;
}
