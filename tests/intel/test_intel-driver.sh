#!/usr/bin/env bash
# Intel's own, unmodified Level Zero driver on the preloaded shim: every byte of what it allocates,
# shares, copies and fills is checked; a compute walker hangs the device's context and says so.
set -euo pipefail

driver=${ZERANGE_INTEL_DRIVER:-/usr/lib/x86_64-linux-gnu/libze_intel_gpu.so.1}
shim=$builddir/.libs/libi915shim.so
[ -e "$driver" ] || { echo "no driver of Intel's here: $driver"; exit 77; }
if grep -q 'fsanitize' "$builddir/config.status"; then
    echo "a shim built with sanitizers cannot be preloaded"
    exit 77
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# on PROFILE ARGS...: the client on Intel's driver alone, the device's log in $log.
on() {
    local profile=$1
    shift
    : >"$log"
    env -u ZE_ENABLE_ALT_DRIVERS ZERANGE_SOFT="$profile" ZERANGE_SHIM_NAME="intel $$ $profile $*" \
        ZERANGE_SHIM_LOG="$log" ZERANGE_LOG=info LD_PRELOAD="$shim" \
        timeout -k 5 120 "$builddir/tests/intel/intel_driver" "$@" </dev/null
}

for profile in dg2 pvc pvc-upstream; do
    echo "== $profile"
    on "$profile" || { cat "$log"; echo "Intel's driver on $profile: failed"; exit 1; }
    if grep -q hangs "$log"; then
        cat "$log"
        echo "Intel's driver on $profile: the device refused a command"
        exit 1
    fi
    on "$profile" walker || { echo "a walker succeeded in silence"; exit 1; }
    grep -q 'WALKER.*banned\|WALKER.*guilty' "$log" || { cat "$log"; echo "no walker hung"; exit 1; }
done
