/* Sysman as hwloc uses it: the same drivers and devices as the core API shows, found by UUID, with
 * their place on the bus and their memory; structures that are not initialised do no harm. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "common.h"

#include <level_zero/zes_api.h>

static zes_driver_handle_t sysman_driver;
static zes_device_handle_t sysman_device;

static void test_found(void)
{
    ze_device_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    zes_device_handle_t    all[16];
    zes_uuid_t             uuid;
    ze_bool_t              on_subdevice = 1;
    uint32_t               n = 0, core = 0, i, id = 7, found = 0;

    NEED(zeDriverGet(&core, NULL));
    NEED(zesDriverGet(&n, NULL));
    CHECK_EQ(n, core);
    n = 1;
    NEED(zesDriverGet(&n, &sysman_driver));
    NEED(zeDeviceGetProperties(device, &properties));
    memcpy(uuid.id, properties.uuid.id, sizeof(uuid.id));
    NEED(zesDriverGetDeviceByUuidExp(sysman_driver, uuid, &sysman_device, &on_subdevice, &id));
    CHECK_EQ(on_subdevice, 0);
    CHECK_EQ(id, 0);
    n = core = 0;
    NEED(zesDeviceGet(sysman_driver, &n, NULL));
    NEED(zeDeviceGet(driver, &core, NULL));
    CHECK_EQ(n, core);
    n = n < COUNT(all) ? n : COUNT(all);
    NEED(zesDeviceGet(sysman_driver, &n, all));
    for (i = 0; i < n; i++) {
        found += all[i] == sysman_device;
    }
    CHECK_EQ(found, 1);
    uuid.id[3] ^= 0x55;
    CHECK(zesDriverGetDeviceByUuidExp(sysman_driver, uuid, &all[0], &on_subdevice, &id),
          ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

static void test_properties(void)
{
    ze_device_properties_t      core = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    ze_pci_ext_properties_t     core_pci = {.stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES};
    zes_device_ext_properties_t ext = {.stype = ZES_STRUCTURE_TYPE_DEVICE_EXT_PROPERTIES};
    zes_device_properties_t     properties;
    zes_pci_properties_t        pci;

    NEED(zeDeviceGetProperties(device, &core));
    memset(&properties, 0xA5, sizeof(properties)); /* neither type nor chain: not followed */
    NEED(zesDeviceGetProperties(sysman_device, &properties));
    CHECK_EQ(strcmp(properties.modelName, core.name), 0);
    CHECK_EQ(strcmp(properties.core.name, core.name), 0);
    CHECK_EQ(properties.numSubdevices, 0);
    CHECK_TRUE(strlen(properties.vendorName) < sizeof(properties.vendorName));
    properties.stype = ZES_STRUCTURE_TYPE_DEVICE_PROPERTIES;
    properties.pNext = &ext;
    NEED(zesDeviceGetProperties(sysman_device, &properties));
    CHECK_EQ(ext.type, ZES_DEVICE_TYPE_GPU);
    CHECK_EQ(memcmp(ext.uuid.id, core.uuid.id, sizeof(core.uuid.id)), 0);

    memset(&core, 0xA5, sizeof(core));
    CHECK_OK(zeDeviceGetProperties(device, &core));
    CHECK_EQ(core.type, ZE_DEVICE_TYPE_GPU);

    memset(&pci, 0xA5, sizeof(pci));
    NEED(zeDevicePciGetPropertiesExt(device, &core_pci));
    NEED(zesDevicePciGetProperties(sysman_device, &pci));
    CHECK_EQ(pci.address.domain, core_pci.address.domain);
    CHECK_EQ(pci.address.bus, core_pci.address.bus);
    CHECK_EQ(pci.address.device, core_pci.address.device);
    CHECK_EQ(pci.address.function, core_pci.address.function);
}

/* What the kernel lets only some users see, the free size, need not move. */
static void test_memory(void)
{
    ze_device_memory_properties_t core = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES};
    zes_mem_properties_t          properties;
    zes_mem_state_t               before, after;
    zes_mem_handle_t              memory;
    uint32_t                      n = 0, one = 1;
    void                         *p;

    NEED(zesDeviceEnumMemoryModules(sysman_device, &n, NULL));
    CHECK_EQ(n, 1);
    NEED(zesDeviceEnumMemoryModules(sysman_device, &n, &memory));
    NEED(zeDeviceGetMemoryProperties(device, &one, &core));
    memset(&properties, 0xA5, sizeof(properties));
    NEED(zesMemoryGetProperties(memory, &properties));
    CHECK_EQ(properties.physicalSize, core.totalSize);
    CHECK_EQ(properties.onSubdevice, 0);
    memset(&before, 0xA5, sizeof(before));
    NEED(zesMemoryGetState(memory, &before));
    CHECK_EQ(before.size, core.totalSize);
    CHECK_TRUE(before.free <= before.size);
    p = alloc_device(8 << 20);
    NEED(zesMemoryGetState(memory, &after));
    if (after.free != before.free) {
        CHECK_EQ(before.free - after.free, 8 << 20);
    }
    CHECK_OK(zeMemFree(context, p));
    NEED(zesMemoryGetState(memory, &after));
    CHECK_EQ(after.free, before.free);
}

static void test_none(void)
{
    uint32_t n = 9;

    CHECK_OK(zesDeviceEnumFabricPorts(sysman_device, &n, NULL));
    CHECK_EQ(n, 0);
    n = 9;
    CHECK_OK(zesDeviceEnumTemperatureSensors(sysman_device, &n, NULL));
    CHECK_EQ(n, 0);
    CHECK_TRUE(zesDeviceReset(sysman_device, 0) != ZE_RESULT_SUCCESS);
}

int main(void)
{
    NEED(zesInit(0));
    test_start();
    test_found();
    test_properties();
    test_memory();
    test_none();
    return test_end();
}
