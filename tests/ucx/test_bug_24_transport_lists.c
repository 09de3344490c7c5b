/* openucx/ucx 3776: a list of transports without a copy transport crashed the application. Lists with
 * and without each of ours: where device memory can be moved every byte is right; where it cannot, UCX
 * refuses in words. No list ends in a crash. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "zepair.h"

static const struct {
    const char *list;
    int         works; /* has a way for device memory between processes */
} cases[] = {
    {"ze_copy,ze_range,sm,self", 1}, {"ze_copy,ze_range,cma,sm,self", 1},
    {"ze_copy,sm,self", 1},          {"ze_copy,ze_range,tcp", 1},
    {"ze_range,sm,self", 0},         {"ze_range", 0},
    {"ze_copy", 0},                  {"ze_copy,ze_range", 0},
    {"ze_range,cma", 0},             {"ze,sm,self", 1},
    {"all", 1},                      {"^ze_range", 1},
    {"^ze_copy", 0},                 {"sm,self", 0},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static unsigned current;

static void refuse(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        printf("REFUSED by %s: %s\n", what, ucs_status_string(status));
        fflush(NULL);
        if (cases[current].works) {
            FAIL("UCX_TLS=%s: %s: %s", cases[current].list, what, ucs_status_string(status));
        }
        exit(0);
    }
}

static void start(void)
{
    ucp_params_t        params  = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                   .features   = UCP_FEATURE_TAG};
    ucp_worker_params_t wparams = {0};
    ucp_config_t       *config;

    refuse(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
    refuse(ucp_init(&params, config, &pair.context), "ucp_init");
    ucp_config_release(config);
    refuse(ucp_worker_create(pair.context, &wparams, &pair.worker), "ucp_worker_create");
}

/* As pair_connect, but an endpoint may be refused, with the same list on both sides. */
static void connect_or_refuse(void)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t  *mine;
    size_t          size;
    void           *other;

    UCS(ucp_worker_get_address(pair.worker, &mine, &size));
    pair_write(&size, sizeof(size));
    pair_write(mine, size);
    ucp_worker_release_address(pair.worker, mine);
    pair_read(&size, sizeof(size));
    other = malloc(size);
    pair_read(other, size);
    params.address = other;
    refuse(ucp_ep_create(pair.worker, &params, &pair.ep), "ucp_ep_create");
    free(other);
}

static void body(void)
{
    struct zebuf buf;

    zp_log_here();
    zp_device();
    start();
    connect_or_refuse();
    if (!cases[current].works) {
        exit(0); /* nobody promised that device memory goes this way; nothing crashed */
    }
    zebuf_map(&buf, 4, MIB, NULL);
    zp_message(0, &buf, 3, 5, 3 * MIB, 1, cases[current].list);
    zp_message(1, &buf, 3, 5, 1000, 5, cases[current].list);
    pair_stop_ucx();
    zebuf_unmap(&buf);
}

int main(int argc, char **argv)
{
    int result = 0, ret, warned;

    pair_enter(body, &current);
    for (current = 0; current < CASES; current++) {
        setenv("UCX_TLS", cases[current].list, 1);
        zp_log_start("warn");
        ret    = pair_run(argv[0], current, 60);
        warned = zp_log_count("lists ze_range but no transport that copies", NULL) > 0;
        if (ret == 0 && warned != (strstr(cases[current].list, "ze_range") != NULL &&
                                   strchr(cases[current].list, '^') == NULL &&
                                   strstr(cases[current].list, "ze_copy") == NULL)) {
            fprintf(stderr, "UCX_TLS=%s: what is missing is %s\n", cases[current].list,
                    warned ? "named though nothing is" : "not named");
            ret = 1;
        }
        zp_log_end(ret == 1);
        printf("%s: UCX_TLS=%s\n", ret == 0 ? "ok" : "not ok", cases[current].list);
        result = ret != 0 ? ret : result;
    }
    return result;
}
