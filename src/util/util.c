/* The log, the last error of a thread, errno conversion and random identities. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "util.h"
#include "order.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum zr_log_level zr_log_threshold = ZR_LOG_WARN;

static __thread char zr_error_text[512];

#if defined(__SANITIZE_THREAD__)
char zr_order_places[512];
#endif

/* One write(2) per line, so that lines of several ranks do not mix. */
static void zr_log_vwrite(enum zr_log_level level, const char *format, va_list args)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    char                     line[1024];
    int                      used, n;

    used = snprintf(line, sizeof(line), "zerange: %s: ", names[level]);
    n    = vsnprintf(line + used, sizeof(line) - used - 1, format, args);
    used = (n < 0) ? used : ZR_MIN(used + n, (int)sizeof(line) - 2);
    line[used++] = '\n';
    if (write(STDERR_FILENO, line, used) < 0) {
        return; /* there is nobody left to tell */
    }
}

void zr_log_write(enum zr_log_level level, const char *format, ...)
{
    int     saved = errno;
    va_list args;

    va_start(args, format);
    zr_log_vwrite(level, format, args);
    va_end(args);
    errno = saved;
}

ze_result_t zr_fail(ze_result_t result, const char *format, ...)
{
    int     saved = errno;
    va_list args;

    va_start(args, format);
    vsnprintf(zr_error_text, sizeof(zr_error_text), format, args);
    va_end(args);
    zr_debug("0x%x: %s", (unsigned)result, zr_error_text);
    errno = saved;
    return result;
}

const char *zr_last_error(void)
{
    return zr_error_text;
}

ze_result_t zr_result_from_errno(int negative_errno)
{
    switch (-negative_errno) {
    case 0:
        return ZE_RESULT_SUCCESS;
    case ENOMEM:
    case ENOSPC:
        return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    case EMFILE:
    case ENFILE:
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    case E2BIG:
        return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
    case EINVAL:
    case ENOENT:
    case EBADF:
    case EFAULT:
    case EEXIST:
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    case ENODEV:
    case EOPNOTSUPP:
    case ENOTTY:
        return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    case EIO:
        return ZE_RESULT_ERROR_DEVICE_LOST;
    case ETIME:
    case EBUSY:
        return ZE_RESULT_NOT_READY;
    case EACCES:
    case EPERM:
        return ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS;
    default:
        return ZE_RESULT_ERROR_UNKNOWN;
    }
}

int zr_random_bytes(void *buffer, size_t length)
{
    char *bytes = buffer;

    while (length > 0) {
        ssize_t n = getrandom(bytes, length, 0);

        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -errno;
        }
        bytes += n;
        length -= n;
    }
    return 0;
}

uint64_t zr_random_u64(void)
{
    uint64_t value = 0;

    /* Only a seccomp filter makes getrandom fail: time and pid are then unique enough for an
     * identity (a secret is never made here). */
    while (value == 0) {
        if (zr_random_bytes(&value, sizeof(value)) != 0) {
            value = zr_time_ns() * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)getpid() << 32;
        }
    }
    return value;
}
