#!/usr/bin/env bash
# hwloc's levelzero plugin shows the devices of the driver, each with its memory.
set -euo pipefail

command -v lstopo-no-graphics >/dev/null || { echo "no lstopo"; exit 77; }
needs=$(ldd "${ZE_ENABLE_ALT_DRIVERS:-}" 2>/dev/null || true)
case $needs in
*libasan* | *libtsan*) echo "lstopo cannot load a driver that is built with sanitizers"; exit 77 ;;
esac
[ "${ZERANGE_SOFT:-}" = pvc ] || { echo "needs the software device pvc"; exit 77; }
shown=$(HWLOC_COMPONENTS=-opencl,-gl lstopo-no-graphics -v --of console 2>&1)
plugins=$(HWLOC_COMPONENTS_VERBOSE=1 lstopo-no-graphics 2>&1 >/dev/null || true)
grep -q levelzero <<<"$plugins" || { echo "hwloc has no levelzero plugin"; exit 77; }
if ! grep -q '"ze0"' <<<"$shown"; then
    echo "$shown"
    echo "lstopo shows no Level Zero device"
    exit 1
fi
line=$(grep '"ze0"' <<<"$shown")
for wanted in 'LevelZeroDeviceType=GPU' 'LevelZeroHBMSize=67108864' 'LevelZeroCQGroup0=9\*0x2' \
    'LevelZeroVendor="\?Intel'; do
    grep -q "$wanted" <<<"$line" || { echo "no $wanted in: $line"; exit 1; }
done
echo "$line"
