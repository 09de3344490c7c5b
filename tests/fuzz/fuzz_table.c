/* Fuzz target: an object table from an enemy: checked as bytes, and opened from a sealed memfd with
 * an exporter that gives whatever objects the table asks for. The input changes a valid table, and
 * what is left of it follows the table. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"

#define ENTRIES 4

static struct table {
    struct zr_table_header header;
    struct zr_table_entry  entries[ENTRIES];
} valid;
static struct zr_handle handle;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct zr_identity own;
    unsigned           i;

    setenv("ZERANGE_FD_EXCHANGE", "socket", 1);
    fuzz_start();
    fuzz_exporter_start();
    own          = zr_identity();
    valid.header = (struct zr_table_header){
        .magic         = ZR_TABLE_MAGIC,
        .version       = ZR_WIRE_VERSION,
        .count         = ENTRIES,
        .entry_size    = sizeof(struct zr_table_entry),
        .length        = ENTRIES * PAGE,
        .pid           = own.pid,
        .process_id    = fuzz_exporter.process,
        .export_id     = FUZZ_EXPORT,
        .start_time    = own.start_time,
        .pid_namespace = own.pid_namespace,
    };
    memcpy(valid.header.system_id, own.system_id, sizeof(own.system_id));
    for (i = 0; i < ENTRIES; i++) {
        valid.entries[i] = (struct zr_table_entry){
            .object_id = i + 1, .size = 2 * PAGE, .offset = PAGE / 4, .length = PAGE, .fd = -1};
        fuzz_exporter.objects[i] = fuzz_buffer(i == 3 ? PAGE : 2 * PAGE);
    }
    fuzz_exporter.object_count = ENTRIES;
    handle = (struct zr_handle){.fd = -1, .kind = ZR_HANDLE_RANGE, .version = ZR_WIRE_VERSION,
                                .process_id = fuzz_exporter.process, .export_id = FUZZ_EXPORT};
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t               total;
    struct zr_ipc_counts before, after;
    ze_ipc_mem_handle_t  h;
    struct table         table = valid;
    struct zr_va_info    info;
    ze_ipc_mem_handle_t  made;
    uint8_t             *bytes;
    char                *ptr = NULL;

    fuzz_mask(&data, &size, &table.header, sizeof(table.header));
    fuzz_mask(&data, &size, &table.entries, sizeof(table.entries));
    total = (size % 61 == 1) ? size : sizeof(table) + size; /* a short one now and then */
    bytes = malloc(total);
    memcpy(bytes, &table, ZR_MIN(total, sizeof(table)));
    if (total > sizeof(table)) {
        memcpy(bytes + sizeof(table), data, total - sizeof(table));
    }
    (void)zr_table_check(bytes, total);
    fuzz_exporter.lead = fuzz_table_fd(bytes, total);
    memcpy(&h, &handle, sizeof(h));
    zr_ipc_counts(&before);
    if (zr_ipc_open(test_device(), &h, (void **)&ptr) == ZE_RESULT_SUCCESS) {
        NEED(zr_va_query(ptr, &info) && info.size == table.header.length);
        ptr[0] = ptr[info.size - 1] = 1;
        NEED(zr_ipc_close(ptr) == ZE_RESULT_SUCCESS);
    } else {
        NEED(ptr == NULL);
    }
    (void)zr_ipc_handle_from_fd((uint64_t)fuzz_exporter.lead, &made);
    zr_ipc_counts(&after);
    NEED(memcmp(&before, &after, sizeof(before)) == 0);
    close(fuzz_exporter.lead);
    free(bytes);
    return 0;
}
