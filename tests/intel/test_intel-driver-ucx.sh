#!/usr/bin/env bash
# The transport on Intel's own, unmodified Level Zero driver over the preloaded shim: MPI and
# ucx_perftest move ranges of several physical objects between two processes, every byte checked.
# UCX's own ze_copy uses the compute group, where the driver's copies are kernels, so ours serves.
# The driver of Debian does not list the range extension: one handle for each mapping, stitched. One
# that lists it goes through the probe, and is used if that finds it right.
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:?set by make check}/tests/mpi/lib.sh"

driver=${ZERANGE_INTEL_DRIVER:-/usr/lib/x86_64-linux-gnu/libze_intel_gpu.so.1}
extension=ZE_extension_ipc_phys_mem_handle_range
[ -e "$driver" ] || { echo "no driver of Intel's here: $driver"; exit 77; }
if grep -q 'fsanitize' "$builddir/config.status"; then
    echo "a shim built with sanitizers cannot be preloaded"
    exit 77
fi
unset ZE_ENABLE_ALT_DRIVERS with
export UCX_MODULES=^ze ZERANGE_SHIM_LOG=$work/device ZERANGE_LOG=info
shim=$builddir/.libs/libi915shim.so

listening() { grep -qiE ":$(printf '%04X' "$1") [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6; }

# What every process says of the transport's way, and whether the device refused a command.
look_after() { # NAME LOG...
    local name=$1
    shift
    if grep -hq hangs "$work/device"; then
        bad "$name: the device refused a command"
        cat "$work/device"
    fi
    if [ -z "$has_extension" ] &&
        ! grep -hq "one handle for each mapping: the driver has no extension" "$@"; then
        bad "$name: nobody says that ranges are stitched"
        cat "$@"
    fi
}

# mpi NAME FROM TO ARGS...: two ranks of zr_bw, each size checked; large ones take
# ze_range.
mpi() {
    local name=$1 from=$2 to=$3 lane
    shift 3
    : >"$work/device"
    rm -f "$work"/ucx-*
    UCX_PROTO_INFO=y UCX_LOG_FILE=$work/ucx-%p.log passes "$name" 3 env "LD_PRELOAD=$shim${with:+:$with}" zr_bw \
        "$from" "$to" -m 262144:1048576 -c -i 2 -x 0 -u 0 -W 2 "$@"
    lane=$(cat "$work"/ucx-*.log | awk -f "$srcdir/benchmarks/lane.awk")
    case $lane in
    "lane: ze_range ("*) echo "ok: $lane" ;;
    *) bad "$name: ${lane:-no lane found}"; cat "$work"/ucx-*.log ;;
    esac
    look_after "$name" "$work"/ucx-*.log
}

# perf TEST WHO FROM: the range of WHO that the message ends in has the bytes of a range of FROM.
perf() {
    local port=$((20000 + RANDOM % 20000)) server status=0 name="$profile: ucx_perftest -t $1"
    local expected="of 16 objects: 10485[67][0-9] bytes of $3\\.[0-9]+, [0-8] others, then its own"
    : >"$work/device"
    export PERFTEST_OBJECTS=16
    PERFTEST_SEED=1 LD_PRELOAD=$shim:$builddir/.libs/perftest_ze.so \
        timeout -k 5 60 ucx_perftest -p $port >"$work/server" 2>&1 &
    server=$!
    while kill -0 $server 2>/dev/null && ! listening $port; do
        read -rt 0.05 <> <(:)
    done
    PERFTEST_SEED=2 LD_PRELOAD=$shim:$builddir/.libs/perftest_ze.so \
        timeout -k 5 60 ucx_perftest 127.0.0.1 -p $port -t "$1" -m ze-device -s 1048576 -n 8 -w 1 \
        >"$work/client" 2>&1 || status=$?
    wait $server || status=$?
    if [ $status -ne 0 ] || ! grep -q '^Final:' "$work/client" ||
        ! grep -qE "$expected" "$work/$2"; then
        bad "$name: exit $status, or the $2 has not the bytes of $3"
        cat "$work/server" "$work/client"
    else
        echo "ok: $name: $(grep -E "$expected" "$work/$2")"
    fi
    look_after "$name" "$work/server" "$work/client"
}

for profile in dg2 pvc-upstream; do
    export ZERANGE_SOFT=$profile "ZERANGE_SHIM_NAME=intel-ucx $$ $profile"
    LD_PRELOAD=$shim timeout -k 5 60 "$builddir/tests/intel/intel_driver" extensions \
        >"$work/extensions" || { bad "$profile: the driver does not start"; continue; }
    has_extension=$(grep -x "$extension" "$work/extensions")
    echo "$profile: $(head -n 1 "$work/extensions"), ${has_extension:-no $extension}"
    mpi "$profile: MPI, 8 objects" D D --objects 8
    mpi "$profile: MPI, 8 objects to host memory" D H --objects 8
    mpi "$profile: MPI, host memory to 8 objects" H D --objects 8
    mpi "$profile: MPI, objects of different sizes" D D --split 3:8 --unequal --offset 5
    # The driver's UUID is of the time when it started.
    with=$builddir/.libs/later.so mpi "$profile: MPI, ranks that start an hour apart" D D --objects 8
    perf tag_bw server 2
    perf ucp_put_bw server 2
    perf ucp_get client 1
    perf stream_bw server 2
    perf ucp_am_bw server 2
done
finish
