/* Small things every part uses: log, once, clock, containers' arithmetic. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_UTIL_H
#define ZR_UTIL_H

#include <level_zero/ze_api.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define ZR_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define ZR_ALIGN_UP(x, a) (((x) + (uint64_t)(a) - 1) & ~((uint64_t)(a) - 1))
#define ZR_ALIGN_DOWN(x, a) ((x) & ~((uint64_t)(a) - 1))
#define ZR_MIN(a, b) ((a) < (b) ? (a) : (b))
#define ZR_MAX(a, b) ((a) > (b) ? (a) : (b))
#define ZR_CONTAINER_OF(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))

#define ZR_KIB (UINT64_C(1) << 10)
#define ZR_MIB (UINT64_C(1) << 20)

enum zr_log_level { ZR_LOG_ERROR, ZR_LOG_WARN, ZR_LOG_INFO, ZR_LOG_DEBUG };

/* Threshold set by ZERANGE_LOG; a message below it costs one load and one branch. */
extern enum zr_log_level zr_log_threshold;

/**
 * Write one line "zerange: <level>: <message>" to standard error.
 * The message names the object and the cause; it ends without a newline.
 */
void zr_log_write(enum zr_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define zr_log(level, ...)                                                                    \
    do {                                                                                      \
        if ((level) <= zr_log_threshold) {                                                    \
            zr_log_write((level), __VA_ARGS__);                                               \
        }                                                                                     \
    } while (0)
#define zr_error(...) zr_log(ZR_LOG_ERROR, __VA_ARGS__)
#define zr_warn(...) zr_log(ZR_LOG_WARN, __VA_ARGS__)
#define zr_info(...) zr_log(ZR_LOG_INFO, __VA_ARGS__)
#define zr_debug(...) zr_log(ZR_LOG_DEBUG, __VA_ARGS__)

/* Say something once per process and place. */
#define zr_log_once(level, ...)                                                               \
    do {                                                                                      \
        static atomic_flag said_ = ATOMIC_FLAG_INIT;                                          \
        if ((level) <= zr_log_threshold && !atomic_flag_test_and_set(&said_)) {               \
            zr_log_write((level), __VA_ARGS__);                                               \
        }                                                                                     \
    } while (0)

/* Monotonic time in nanoseconds. */
static inline uint64_t zr_time_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/**
 * The text behind zeDriverGetLastErrorDescription: kept per thread, also logged at debug level.
 * Returns @a result so that a refusal is one statement.
 */
ze_result_t zr_fail(ze_result_t result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *zr_last_error(void);

/* The one place where a negative errno becomes a ze_result_t (out of memory: device memory). */
ze_result_t zr_result_from_errno(int negative_errno);

/* 64 random bits from getrandom(2); never 0. */
uint64_t zr_random_u64(void);
/* Fill @a buffer with @a length random bytes from getrandom(2). 0 or -errno. */
int zr_random_bytes(void *buffer, size_t length);

#endif
