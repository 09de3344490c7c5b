/* zerange-info: what of zerange is there on this machine and whether it works together. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <config.h>

#include "info.h"

#include "util/config.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

void info_title(const char *title)
{
    printf("%s\n", title);
}

void info_line(const char *name, const char *format, ...)
{
    va_list args;

    printf("  %-26s ", name);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void info_environment(void)
{
    const char *name, *allowed, *value;
    unsigned    i;
    char      **variable;

    info_title("Environment (variable, value if set, what is allowed)");
    for (i = 0; zr_config_variable(i, &name, &allowed); i++) {
        value = getenv(name);
        printf("  %-26s %-12s %s\n", name, value != NULL ? value : "-", allowed);
    }
    for (variable = environ; *variable != NULL; variable++) {
        if (strncmp(*variable, "UCX_", 4) == 0 || strncmp(*variable, "ZE_", 3) == 0 ||
            strncmp(*variable, "ZET_", 4) == 0) {
            printf("  %s\n", *variable);
        }
    }
    printf("  settings of the transport: ucx_info -cf | grep -B5 UCX_ZE_RANGE\n");
    if (zr_config_load() != ZE_RESULT_SUCCESS) {
        printf("  a value is not valid: the driver does not start\n");
    }
}

static void usage(FILE *to)
{
    fputs("usage: zerange-info [--level-zero] [--ucx] [--processes] [--environment]\n"
          "\n"
          "Shows drivers and devices, whether the transport fits the UCX of this machine, the\n"
          "counters of running processes, and the environment; without an option all of it.\n"
          "Exit status: 0; 1: there is no device, or with --processes alone no process.\n",
          to);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"level-zero", no_argument, NULL, 'z'}, {"ucx", no_argument, NULL, 'u'},
        {"processes", no_argument, NULL, 'p'},  {"environment", no_argument, NULL, 'e'},
        {"help", no_argument, NULL, 'h'},       {"version", no_argument, NULL, 'v'},
        {NULL, 0, NULL, 0}};
    char     parts[8] = "";
    size_t   count = 0;
    unsigned processes = 0;
    int      option, status = 0;

    while ((option = getopt_long(argc, argv, "zupehv", options, NULL)) != -1) {
        switch (option) {
        case 'h': usage(stdout); return 0;
        case 'v': printf("zerange-info %s\n", PACKAGE_VERSION); return 0;
        case '?': usage(stderr); return 2;
        default:
            if (strchr(parts, option) == NULL && count < sizeof(parts) - 1) {
                parts[count++] = (char)option;
            }
        }
    }
    if (optind < argc) {
        usage(stderr);
        return 2;
    }
    if (count == 0) {
        strcpy(parts, "zupe");
    }
    printf("zerange %s\n", PACKAGE_VERSION);
    if (strchr(parts, 'z') != NULL) {
        status = info_level_zero();
    }
    if (strchr(parts, 'u') != NULL) {
        info_ucx();
    }
    if (strchr(parts, 'p') != NULL) {
        processes = info_processes();
        status    = strcmp(parts, "p") == 0 && processes == 0 ? 1 : status;
    }
    if (strchr(parts, 'e') != NULL) {
        info_environment();
    }
    return status;
}
