#!/usr/bin/env bash
# A host-only application runs as without us whatever UCX_TLS says, with a device and without one;
# a list that cannot work says what to add; a wrong setting is refused by its name.
# SPDX-License-Identifier: BSD-3-Clause
set -u

program=${builddir:?}/tests/ucx/ucp_host
out=$(mktemp)
trap 'rm -f "$out"' EXIT
failed=0

# expect NAME PATTERN|-|!PATTERN [VAR=VALUE...]: exit 0, and the output has (or has not) PATTERN.
expect() {
    local name=$1 pattern=$2 status
    shift 2
    env "$@" timeout 60 "$program" >"$out" 2>&1
    status=$?
    if [ $status -ne 0 ]; then
        echo "not ok: $name: exit $status"
    elif [ "${pattern:0:1}" = '!' ] && grep -q -- "${pattern:1}" "$out"; then
        echo "not ok: $name: unexpected \"${pattern:1}\""
    elif [ "$pattern" != - ] && [ "${pattern:0:1}" != '!' ] && ! grep -q -- "$pattern" "$out"; then
        echo "not ok: $name: no \"$pattern\""
    else
        echo "ok: $name"
        return
    fi
    sed 's/^/    /' "$out" | head -20
    failed=1
}

for tls in sm,self tcp tcp,self all ze,sm,self ^ze_range ^ze_copy ^ze ^tcp ze_copy,sm,self \
           ze_copy,ze_range,sm,self cma,sm,self; do
    expect "UCX_TLS=$tls" '!ERROR' "UCX_TLS=$tls"
    # Not an empty name: the loader opens that as the program itself.
    expect "UCX_TLS=$tls, no device" '!ERROR' "UCX_TLS=$tls" ZERANGE_SOFT= \
        ZE_ENABLE_ALT_DRIVERS=/nowhere/libze.so
done
expect "UCX_TLS unset" '!ERROR'
expect "ze_range without ze_copy is named" "add ze_copy" UCX_TLS=ze_range,sm,self
expect "the same behind an application's prefix" "APP_UCX_TLS lists ze_range" \
    APP_UCX_TLS=ze_range,sm,self
# Where UCX's module is missing or disabled, ze_copy is ours.
expect "ze_copy is ours without UCX's module" '!ERROR' UCX_TLS=ze_range,ze_copy,sm,self \
    UCX_MODULES=^ze
expect "ze_copy of UCX where it has one" '!ERROR' UCX_TLS=ze_range,ze_copy,sm,self
expect "UCX's ze module disabled, all" '!ERROR' UCX_MODULES=^ze
expect "ze_copy's device left out" '!ERROR' UCX_ACC_DEVICES=none
expect "our device left out" '!ERROR' UCX_SHM_DEVICES=memory
expect "wrong cache size" "UCX_ZE_RANGE_MAX_EXTENT.*lots" UCX_ZE_RANGE_MAX_EXTENT=lots

expect "old Level Zero loader" "loader 1.20.6 is too old, it needs 1.27" \
    "LD_PRELOAD=$builddir/.libs/old_loader.so${LD_PRELOAD:+:$LD_PRELOAD}"

# A wrong setting of the transport ends the start, as UCX does for its own.
if UCX_ZE_RANGE_BW=fast timeout 60 "$program" >"$out" 2>&1; then
    echo "not ok: UCX_ZE_RANGE_BW=fast was taken"
    failed=1
elif ! grep -q "UCX_ZE_RANGE_BW.*fast" "$out"; then
    echo "not ok: UCX_ZE_RANGE_BW=fast: not named"
    sed 's/^/    /' "$out" | head
    failed=1
else
    echo "ok: UCX_ZE_RANGE_BW=fast is refused by name"
fi
exit $failed
