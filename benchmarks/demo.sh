#!/usr/bin/env bash
# demo.sh [halo3d | expandable] [--without TRANSPORT]: MPI ranks exchange device buffers of many
# physical objects, every byte checked; then which lane UCP chose.
#   (nothing)   two ranks, zr_bw: a table over sizes, and how many copy engines shared the copies
#   halo3d      four ranks: a stencil whose halo is exchanged with derived types (docs/halo3d.md)
#   expandable  three ranks: a range that grows while it is exchanged (docs/expandable.md)
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
build=$(cd "$(dirname "$(command -v zr_bw)")/.." && pwd -P) || exit 1
without='' what=''

while [ $# -gt 0 ]; do
    case $1 in
    --without)
        [ -n "${2:-}" ] || { echo "demo: --without needs the name of a transport" >&2; exit 2; }
        without=$2
        shift ;;
    halo3d | expandable) what=$1 ;;
    *)
        echo "demo: argument '$1' is not known: allowed are halo3d, expandable and" \
            "--without TRANSPORT" >&2
        exit 2 ;;
    esac
    shift
done

work=$(mktemp -d "${TMPDIR:-/tmp}/zerange-demo.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
export UCX_PROTO_INFO=y UCX_LOG_FILE=$work/ucx-%p.log
[ -z "$without" ] || export UCX_TLS="^$without"

# run N PROGRAM ARGS...: its output in $work/out; 1 with its errors shown if it fails.
run() {
    local n=$1 status=0
    shift
    rm -f "$work"/ucx-*.log
    bash "$here/../tests/mpirun.sh" -np "$n" "$@" 2>"$work/errors" | tee "$work/out" |
        grep -v '^# copies shared'
    status=${PIPESTATUS[0]}
    cat "$work"/ucx-*.log 2>/dev/null | grep -v -e '|' -e '+--' >&2
    cat "$work/errors" >&2
    [ "$status" -eq 0 ] || echo "demo: ${1##*/} failed (exit $status)" >&2
    [ "$status" -eq 0 ]
}

# lane [MEMORY]: what UCX says it uses for messages from this memory, device memory if not given.
lane() {
    local found
    found=$(cat "$work"/ucx-*.log 2>/dev/null |
        awk -v where=intra-node ${1:+-v memory="$1"} -f "$here/lane.awk")
    echo "${found:-lane: unknown (UCX reported no protocol for ${1:-device memory})}"
}

# expect_range LANE: whether it is ze_range and nothing else.
expect_range() {
    echo "$1"
    case $1 in
    *$'\n'*) ;;
    "lane: ze_range ("*) return 0 ;;
    esac
    echo "demo: the lane is not ze_range${without:+; left out: UCX_TLS=^$without}" >&2
    return 1
}

demo_bw() {
    # 1 KiB to 64 MiB; fewer iterations than OSU's, for a demonstration checks 17 sizes in a while.
    local status=0
    run 2 zr_bw D D --objects 8 -m 1024:67108864 -c -i 4 -x 1 -u 1 -W 16 --engines-report ||
        return 1
    expect_range "$(lane)" || status=1
    sed -n 's/^# copies shared/copies shared/p' "$work/out"
    return $status
}

demo_halo3d() {
    if [ ! -e "$build/.libs/mca_accelerator_zerange.so" ]; then
        echo "demo: derived types in device memory need our Open MPI components (docs/mpi.md)," \
            "which were not built" >&2
        return 1
    fi
    export ZR_TEST_COMPONENTS=$build/.libs
    run 4 "$build/examples/halo3d" 96 5 inplace || return 1
    lane generic | sed 's/^lane:/lane: packed into host memory by Open MPI:/'
    run 4 "$build/examples/halo3d" 96 5 pack || return 1
    expect_range "$(lane)" && echo Pass
}

demo_expandable() {
    run 3 "$build/examples/expandable" 12 1048576 || return 1
    expect_range "$(lane)"
}

"demo_${what:-bw}"
