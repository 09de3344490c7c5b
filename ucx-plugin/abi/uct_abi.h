/* What the plugin uses of UCX that its development package does not install, in our own words.
 * Here is only what is the same from UCX 1.18 to 1.23 on LP64; what differs is in uct_1_NN.c, and
 * calibrate.c checks both against the libuct that is loaded before anything is registered. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ZR_UCT_ABI_H
#define ZR_UCT_ABI_H

#include <stddef.h>
#include <stdint.h>

#include <ucs/config/global_opts.h>
#include <ucs/config/parser.h>
#include <ucs/datastruct/linear_func.h>
#include <ucs/datastruct/list.h>
#include <ucs/debug/log_def.h>
#include <ucs/type/class.h>
#include <ucs/type/cpu_set.h>
#include <uct/api/uct.h>

typedef void (*zr_uct_fn_t)(void); /* a slot whose signature depends on the version */

/* ---- a component and its transports ---- */

struct zr_uct_component {
    char                           name[UCT_COMPONENT_NAME_MAX];
    zr_uct_fn_t                    query_md_resources, md_open, cm_open;
    zr_uct_fn_t                    rkey_unpack, rkey_ptr, rkey_release, rkey_compare;
    ucs_config_global_list_entry_t md_config, cm_config;
    ucs_list_link_t                transports; /* of struct zr_uct_tl.link */
    ucs_list_link_t                link;       /* in uct_components_list */
    uint64_t                       flags;
    zr_uct_fn_t                    md_vfs_init;
};

struct zr_uct_tl {
    char                           name[UCT_TL_NAME_MAX];
    zr_uct_fn_t                    query_devices, iface_open;
    ucs_config_global_list_entry_t config;
    ucs_list_link_t                link;
};

struct zr_uct_tl_device {
    char              name[UCT_DEVICE_NAME_MAX];
    uct_device_type_t type;
    ucs_sys_device_t  sys_device;
};

/* ---- a memory domain ---- */

struct zr_uct_md {
    zr_uct_fn_t             *ops;
    struct zr_uct_component *component;
};

/* Flags beyond those of the installed header. */
#define ZR_UCT_MD_FLAG_INVALIDATE_RMA UCS_BIT(11)
#define ZR_UCT_MD_FLAG_INVALIDATE_AMO UCS_BIT(12)
#define ZR_UCT_MD_FLAG_MEMTYPE_COPY   UCS_BIT(13) /* UCX 1.19 and later */
#define ZR_UCT_MD_FLAGS_INVALIDATE                                                            \
    (UCT_MD_FLAG_INVALIDATE | ZR_UCT_MD_FLAG_INVALIDATE_RMA | ZR_UCT_MD_FLAG_INVALIDATE_AMO)

/* Filled by the query slot; UCX 1.22 appended one byte that uct_md_base_md_query sets. */
struct zr_uct_md_attr {
    uint64_t          field_mask;
    uint64_t          max_alloc;
    size_t            max_reg;
    uint64_t          flags;
    uint64_t          reg_mem_types, reg_nonblock_mem_types, cache_mem_types, gva_mem_types;
    uint64_t          detect_mem_types, alloc_mem_types, access_mem_types, dmabuf_mem_types;
    ucs_linear_func_t reg_cost;
    char              component_name[UCT_COMPONENT_NAME_MAX];
    size_t            rkey_packed_size;
    ucs_cpu_set_t     local_cpus;
    size_t            exported_mkey_packed_size;
    char              global_id[256];
    size_t            reg_alignment;
};

struct zr_uct_dereg_params {
    uint64_t          field_mask;
    unsigned          flags;
    uct_mem_h         memh;
    uct_completion_t *comp;
};
#define ZR_UCT_DEREG_FIELD_MEMH      UCS_BIT(0)
#define ZR_UCT_DEREG_FIELD_FLAGS     UCS_BIT(1)
#define ZR_UCT_DEREG_FIELD_COMP      UCS_BIT(2)
#define ZR_UCT_DEREG_FLAG_INVALIDATE UCS_BIT(0)

/* ---- an interface and an endpoint ---- */

/* The named part is 0x1a8 bytes; the rest, 1280 bytes in builds without statistics, is UCX's. */
struct zr_uct_base_iface {
    uct_iface_t  super;
    zr_uct_fn_t *internal_ops; /* 0x190 */
    uct_md_h     md;           /* 0x198 */
    void        *worker;
    char         opaque[2048 - sizeof(uct_iface_t) - 3 * sizeof(void *)];
};
#define ZR_UCT_BASE_IFACE_SIZE 1280

struct zr_uct_base_ep {
    uct_ep_t super;
};

struct zr_uct_reachable_params {
    uint64_t                 field_mask;
    const uct_device_addr_t *device_addr;
    const uct_iface_addr_t  *iface_addr;
    char                    *info_string;
    size_t                   info_string_length;
};
#define ZR_UCT_REACHABLE_FIELD_DEVICE_ADDR        UCS_BIT(0)
#define ZR_UCT_REACHABLE_FIELD_IFACE_ADDR         UCS_BIT(1)
#define ZR_UCT_REACHABLE_FIELD_INFO_STRING        UCS_BIT(2)
#define ZR_UCT_REACHABLE_FIELD_INFO_STRING_LENGTH UCS_BIT(3)

struct zr_uct_connected_params {
    uint64_t                 field_mask;
    const uct_device_addr_t *device_addr;
    const uct_iface_addr_t  *iface_addr;
    const uct_ep_addr_t     *ep_addr;
};

/* Of enum uct_ep_operation, whose first names never moved. */
#define ZR_UCT_EP_OP_PUT_ZCOPY 5
#define ZR_UCT_EP_OP_GET_ZCOPY 8

/* The configuration of an interface or memory domain starts with UCX's own fields. */
#define ZR_UCT_CONFIG_RESERVE 512

/* ---- events of memory types (libucm) ---- */

/* The member of the event union that is dispatched; UCX 1.22 appended mem_flags. */
struct zr_ucm_mem_type_event {
    void             *address;
    size_t            size;
    int               mem_type;
    ucs_sys_device_t  sys_dev;
    uint8_t           mem_flags;
    char              rest_of_union[96];
};
#define ZR_UCS_MEM_FLAG_REGISTRABLE UCS_BIT(0)

/* ---- exported functions without an installed declaration ---- */

extern ucs_list_link_t    uct_components_list;
extern ucs_config_field_t uct_md_config_table[], uct_iface_config_table[];
extern ucs_class_t        uct_base_iface_t_class, uct_base_ep_t_class;

void         uct_component_register(struct zr_uct_component *component);
void         uct_component_unregister(struct zr_uct_component *component);
void         uct_tl_register(struct zr_uct_component *component, struct zr_uct_tl *tl);
void         uct_tl_unregister(struct zr_uct_tl *tl);
ucs_status_t uct_md_query_single_md_resource(struct zr_uct_component *component,
                                             uct_md_resource_desc_t **resources_p,
                                             unsigned *count_p);
ucs_status_t uct_md_query_empty_md_resource(uct_md_resource_desc_t **resources_p,
                                            unsigned *count_p);
ucs_status_t uct_single_device_resource(uct_md_h md, const char *name, uct_device_type_t type,
                                        ucs_sys_device_t sys_device,
                                        struct zr_uct_tl_device **devices_p, unsigned *count_p);
void         uct_md_base_md_query(struct zr_uct_md_attr *attr);
void         uct_base_iface_query(void *iface, uct_iface_attr_t *attr);
ucs_status_t uct_base_iface_t_init(void *self, ucs_class_t *cls, int *init_count,
                                   uct_iface_ops_t *ops, zr_uct_fn_t *internal_ops, uct_md_h md,
                                   uct_worker_h worker, const uct_iface_params_t *params,
                                   const uct_iface_config_t *config);
ucs_status_t uct_base_ep_t_init(void *self, ucs_class_t *cls, int *init_count, void *iface);
void         uct_base_iface_progress_enable(uct_iface_h iface, unsigned flags);
void         uct_base_iface_progress_disable(uct_iface_h iface, unsigned flags);
int          uct_base_iface_is_reachable(const uct_iface_h iface, const uct_device_addr_t *device,
                                         const uct_iface_addr_t *address);
void         uct_base_rkey_compare(void);
void         uct_base_ep_is_connected(void);
ucs_status_t uct_base_iface_estimate_perf(uct_iface_h iface, void *attr);
ucs_status_t uct_base_ep_flush(uct_ep_h ep, unsigned flags, uct_completion_t *comp);
ucs_status_t uct_base_ep_fence(uct_ep_h ep, unsigned flags);
ucs_status_t uct_base_iface_flush(uct_iface_h iface, unsigned flags, uct_completion_t *comp);
ucs_status_t uct_base_iface_fence(uct_iface_h iface, unsigned flags);

ucs_status_t ucs_empty_function_return_success(void);
ucs_status_t ucs_empty_function_return_unsupported(void);
ucs_status_t ucs_empty_function_return_busy(void);
void         ucs_empty_function(void);
uint64_t     ucs_get_system_id(void);
uint64_t     ucs_generate_uuid(uint64_t seed);
ucs_status_t ucs_memtype_cache_lookup(const void *address, size_t size, void *info);

void ucm_event_dispatch(unsigned event_type, struct zr_ucm_mem_type_event *event);
void ucm_event_enter(void);
void ucm_event_leave(void);

/* UCX's own log, at its own level. */
#define zr_ucs_log(level, ...)                                                                \
    do {                                                                                      \
        if ((level) <= ucs_global_opts.log_component.log_level) {                             \
            ucs_log_dispatch(__FILE__, __LINE__, __func__, (level),                           \
                             &ucs_global_opts.log_component, __VA_ARGS__);                    \
        }                                                                                     \
    } while (0)
#define zr_ucs_error(...) zr_ucs_log(UCS_LOG_LEVEL_ERROR, __VA_ARGS__)
#define zr_ucs_warn(...) zr_ucs_log(UCS_LOG_LEVEL_WARN, __VA_ARGS__)
#define zr_ucs_diag(...) zr_ucs_log(UCS_LOG_LEVEL_DIAG, __VA_ARGS__)
#define zr_ucs_debug(...) zr_ucs_log(UCS_LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
