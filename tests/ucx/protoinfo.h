/* What UCX says it chose: the tables of UCX_PROTO_INFO, which it prints to standard output. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROTOINFO_H
#define PROTOINFO_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Standard output becomes a file in memory. */
static void protoinfo_keep(void)
{
    int fd = memfd_create("report", 0);

    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0) {
        perror("report");
        exit(1);
    }
    close(fd);
}

/**
 * A table is a title with the operation and the memory types, then a row for each range of sizes.
 * @param operation a part of the title that a table must have besides "ze-device"
 * @param texts what the row of the largest sizes must have, all of them; NULL last
 * @return the number of tables with such a row; *tables_p how many there are
 */
static unsigned protoinfo_count(const char *operation, const char *const *texts,
                                unsigned *tables_p)
{
    unsigned found = 0, tables = 0, k;
    int      inside = 0, fits;
    char     text[1024];
    FILE    *report;

    fflush(stdout);
    report = fdopen(dup(STDOUT_FILENO), "r");
    rewind(report);
    while (fgets(text, sizeof(text), report) != NULL) {
        if (strstr(text, "cfg#") != NULL) {
            inside = 0;
        }
        if (!inside && strstr(text, operation) != NULL && strstr(text, "ze-device") != NULL) {
            inside = 1;
            tables++;
        }
        if (inside && strstr(text, "..inf") != NULL) {
            fits = 1;
            for (k = 0; texts[k] != NULL; k++) {
                fits &= strstr(text, texts[k]) != NULL;
            }
            found += fits;
        }
    }
    fclose(report);
    *tables_p = tables;
    return found;
}

/* All of it, when a test fails. */
static inline void protoinfo_print(void)
{
    char  text[1024];
    FILE *report;

    fflush(stdout);
    report = fdopen(dup(STDOUT_FILENO), "r");
    rewind(report);
    while (fgets(text, sizeof(text), report) != NULL) {
        fputs(text, stderr);
    }
    fclose(report);
}

#endif
