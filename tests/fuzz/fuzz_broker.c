/* Fuzz target: both ends of the broker's socket. Byte 0 of the input: what follows are packets for
 * this process's broker, or the answer that an importer gets. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"

#define OBJECTS 5

static struct zr_handle   exported, imported;
static struct sockaddr_un address;
static socklen_t          address_length;
static struct zr_table_header *table;
static size_t                  table_size;

static void table_make(void)
{
    struct zr_identity     own = zr_identity();
    struct zr_table_entry *entries;
    unsigned               i;

    table_size = sizeof(*table) + 2 * sizeof(*entries);
    table      = calloc(1, table_size);
    entries    = (struct zr_table_entry *)(table + 1);
    *table     = (struct zr_table_header){
        .magic      = ZR_TABLE_MAGIC,
        .version    = ZR_WIRE_VERSION,
        .count      = 2,
        .entry_size = sizeof(*entries),
        .length     = 2 * PAGE,
        .process_id = fuzz_exporter.process,
        .export_id  = FUZZ_EXPORT,
    };
    memcpy(table->system_id, own.system_id, sizeof(own.system_id));
    for (i = 0; i < 2; i++) {
        entries[i] = (struct zr_table_entry){
            .object_id = i + 1, .size = PAGE, .length = PAGE, .fd = -1};
        fuzz_exporter.objects[i] = fuzz_buffer(PAGE);
    }
    fuzz_exporter.objects[2]   = open("/dev/null", O_RDONLY | O_CLOEXEC);
    fuzz_exporter.object_count = 3;
    fuzz_exporter.lead         = fuzz_table_fd(table, table_size);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    setenv("ZERANGE_FD_EXCHANGE", "socket", 1);
    fuzz_start();
    fuzz_exporter_start();
    fuzz_export(fuzz_range(OBJECTS), OBJECTS * PAGE, &exported);
    address_length = zr_broker_address(exported.process_id, &address);
    table_make();
    imported = (struct zr_handle){.fd = -1, .kind = ZR_HANDLE_RANGE, .version = ZR_WIRE_VERSION,
                                  .process_id = fuzz_exporter.process, .export_id = FUZZ_EXPORT};
    return 0;
}

/* One answer, its fds closed. false: the connection is over. */
static bool answer_read(int sock, const struct zr_broker_request *request)
{
    struct zr_broker_answer answer;
    struct iovec            iov = {&answer, sizeof(answer)};
    char            control[CMSG_SPACE(ZR_BROKER_MAX_FDS * sizeof(int))];
    struct msghdr   msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
                           .msg_controllen = sizeof(control)};
    struct cmsghdr *cmsg;
    unsigned        i, n = 0;
    ssize_t         got;

    do { /* the fuzzer's own clock interrupts */
        got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
        NEED(got == 0 || errno == ECONNRESET); /* always an answer or an end */
        return false;
    }
    NEED(got == (ssize_t)sizeof(answer) && answer.magic == ZR_BROKER_MAGIC && answer.status <= 0);
    cmsg = CMSG_FIRSTHDR(&msg);
    if (cmsg != NULL) {
        n = (unsigned)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
            close(fd);
        }
    }
    /* Fds only for who knows the secret, and no more than asked for. */
    NEED(n == answer.count && (n == 0) == (answer.status != 0));
    NEED(n == 0 || (memcmp(request->secret, exported.secret, sizeof(exported.secret)) == 0 &&
                    request->export_id == exported.export_id));
    NEED(n <= 1 || (request->what == ZR_BROKER_OBJECTS && request->first < OBJECTS &&
                    n <= request->count));
    return true;
}

static void packets(const uint8_t *data, size_t size)
{
    const struct timeval     limit = {.tv_sec = 20};
    struct zr_broker_request request;
    uint8_t                  packet[256], length;
    int                      sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    bool                     more = true;

    NEED(setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
    while (connect(sock, (struct sockaddr *)&address, address_length) != 0) {
        NEED(errno == EINTR);
    }
    while (more && size > 0) {
        request = (struct zr_broker_request){.magic     = ZR_BROKER_MAGIC,
                                             .version   = ZR_WIRE_VERSION,
                                             .what      = ZR_BROKER_OBJECTS,
                                             .export_id = exported.export_id,
                                             .count     = 1};
        memcpy(request.secret, exported.secret, sizeof(request.secret));
        length = sizeof(request);
        fuzz_take(&data, &size, &length, 1);
        length = (length % 4 != 0) ? sizeof(request) : length; /* mostly of the right size */
        fuzz_mask(&data, &size, &request, sizeof(request));
        memset(packet, 0, sizeof(packet));
        memcpy(packet, &request, sizeof(request));
        more = send(sock, packet, length, MSG_NOSIGNAL) == length;
        if (length == 0) {
            break; /* the end of the connection, to the other side */
        }
        more = more && answer_read(sock, &request);
    }
    close(sock);
}

static void answers(const uint8_t *data, size_t size)
{
    struct zr_broker_answer answer = {ZR_BROKER_MAGIC, 0, 2, 0};
    ze_ipc_mem_handle_t     handle;
    static uint8_t          bytes[sizeof(answer) + 64]; /* the exporter may still be sending */
    uint8_t                 length = 2, fds = 2;
    char                   *ptr = NULL;

    fuzz_take(&data, &size, &length, 1);
    fuzz_take(&data, &size, &fds, 1);
    fuzz_mask(&data, &size, &answer, sizeof(answer));
    memcpy(bytes, &answer, sizeof(answer));
    fuzz_exporter.answer      = bytes;
    fuzz_exporter.answer_size = (length % 2 == 0) ? sizeof(answer) : length % sizeof(bytes);
    fuzz_exporter.answer_fds  = fds;
    if (fuzz_exporter.answer_size == 0) {
        return; /* the end of the connection, seen after five seconds */
    }
    memcpy(&handle, &imported, sizeof(handle));
    if (zr_ipc_open(test_device(), &handle, (void **)&ptr) == ZE_RESULT_SUCCESS) {
        ptr[0] = ptr[2 * PAGE - 1] = 1;
        NEED(zr_ipc_close(ptr) == ZE_RESULT_SUCCESS);
    } else {
        NEED(ptr == NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zr_ipc_counts before, after;
    uint8_t              which = 0;

    fuzz_take(&data, &size, &which, 1);
    zr_ipc_counts(&before);
    if (which % 2 == 0) {
        packets(data, size);
    } else {
        answers(data, size);
    }
    zr_ipc_counts(&after);
    NEED(memcmp(&before, &after, sizeof(before)) == 0);
    return 0;
}
