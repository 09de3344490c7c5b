/* Preloaded: a Level Zero loader whose tracing layer cannot be enabled. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <level_zero/ze_api.h>

__attribute__((visibility("default"))) ze_result_t zelEnableTracingLayer(void);

ze_result_t zelEnableTracingLayer(void)
{
    return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
}
