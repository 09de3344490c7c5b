#!/usr/bin/env bash
# demo.sh [--without TRANSPORT]: two MPI ranks exchange device buffers of 8 physical objects, every
# byte checked; then which lane UCP chose and how many copy engines shared the copies.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
without=

while [ $# -gt 0 ]; do
    case $1 in
    --without)
        [ -n "${2:-}" ] || { echo "demo: --without needs the name of a transport" >&2; exit 2; }
        without=$2
        shift ;;
    *) echo "demo: argument '$1' is not known: allowed is --without TRANSPORT" >&2; exit 2 ;;
    esac
    shift
done

work=$(mktemp -d "${TMPDIR:-/tmp}/zerange-demo.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
export UCX_PROTO_INFO=y UCX_LOG_FILE=$work/ucx-%p.log
[ -z "$without" ] || export UCX_TLS="^$without"

# 1 KiB to 64 MiB; fewer iterations than OSU's, for a demonstration checks 17 sizes in a while.
bash "$here/../tests/mpirun.sh" -np 2 zr_bw D D --objects 8 -m 1024:67108864 -c -i 4 -x 1 -u 1 \
    -W 16 --engines-report 2>"$work/errors" | tee "$work/table" | grep -v '^# copies shared'
status=${PIPESTATUS[0]}

cat "$work"/ucx-*.log 2>/dev/null | grep -v -e '|' -e '+--' >&2
cat "$work/errors" >&2
if [ "$status" -ne 0 ]; then
    echo "demo: zr_bw failed (exit $status)" >&2
    exit 1
fi

lane=$(cat "$work"/ucx-*.log 2>/dev/null | awk -f "$here/lane.awk")
echo "${lane:-lane: unknown (UCX reported no protocol for device memory)}"
sed -n 's/^# copies shared/copies shared/p' "$work/table"
case $lane in
*$'\n'*) wrong=1 ;;
"lane: ze_range ("*) wrong= ;;
*) wrong=1 ;;
esac
if [ -n "$wrong" ]; then
    echo "demo: the lane is not ze_range${without:+; left out: UCX_TLS=^$without}" >&2
    exit 1
fi
