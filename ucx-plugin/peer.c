/* The identity of processes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "peer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t ucs_get_system_id(void);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static struct zr_peer  self;
static struct zr_peer *known;
static size_t          known_count;

/* Field 22 of /proc/self/stat; the name before it may hold anything but ends with the last ')'. */
static uint64_t read_start_time(void)
{
    char               text[1024];
    FILE              *file = fopen("/proc/self/stat", "re");
    unsigned long long ticks = 0;
    char              *p;
    size_t             n;

    if (file == NULL) {
        return 0;
    }
    n       = fread(text, 1, sizeof(text) - 1, file);
    text[n] = '\0';
    fclose(file);
    p = strrchr(text, ')');
    if (p == NULL || sscanf(p + 1,
                            " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
                            " %*s %*s %*s %llu",
                            &ticks) != 1) {
        return 0;
    }
    return ticks;
}

struct zr_peer zr_peer_self(void)
{
    struct zr_peer copy;
    struct stat    st;

    pthread_mutex_lock(&lock);
    if (self.pid != (uint32_t)getpid()) {
        memset(&self, 0, sizeof(self));
        self.start_time = read_start_time();
        self.pid_ns     = stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
        self.system_id  = ucs_get_system_id();
        self.pid        = (uint32_t)getpid();
    }
    copy = self;
    pthread_mutex_unlock(&lock);
    return copy;
}

bool zr_peer_equal(const struct zr_peer *a, const struct zr_peer *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

uint64_t zr_peer_space(const struct zr_peer *peer)
{
    struct zr_peer *grown;
    uint64_t        space = 0;
    size_t          k;

    pthread_mutex_lock(&lock);
    for (k = 0; k < known_count; k++) {
        if (zr_peer_equal(&known[k], peer)) {
            space = k + 1;
            goto out;
        }
    }
    if ((known_count & (known_count - 1)) == 0) {
        grown = realloc(known, (known_count == 0 ? 1 : 2 * known_count) * sizeof(*known));
        if (grown == NULL) {
            goto out;
        }
        known = grown;
    }
    known[known_count++] = *peer;
    space                = known_count;
out:
    pthread_mutex_unlock(&lock);
    return space;
}
