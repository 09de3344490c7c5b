#!/usr/bin/env bash
# The shim between processes: tests/igt/shim_process.c on dg2; the listing tools find the device.
set -euo pipefail

if grep -q 'fsanitize' "$builddir/config.status"; then
    echo "a shim built with sanitizers cannot be preloaded"
    exit 77
fi
# The server ends by itself, unless what it serves is what is broken.
end_server() {
    local environ
    for environ in /proc/[0-9]*/environ; do
        ! tr '\0' '\n' 2>/dev/null <"$environ" | grep -qxF "ZERANGE_SHIM_NAME=process $$" ||
            kill -KILL "$(basename "$(dirname "$environ")")" 2>/dev/null || true
    done 2>/dev/null
}
trap end_server EXIT
on() { env ZERANGE_SOFT=dg2 ZERANGE_SHIM_NAME="process $$" LD_PRELOAD="$builddir/.libs/libi915shim.so" "$@"; }
on timeout -k 5 60 "$builddir/tests/igt/shim_process"
for tool in "lsgpu" "intel_gpu_top -L"; do
    command -v "${tool%% *}" >/dev/null || continue
    # shellcheck disable=SC2086
    shown=$(on $tool)
    case $shown in
    *card0*Intel*) ;;
    *) echo "$tool does not list the device: $shown"; exit 1 ;;
    esac
done
